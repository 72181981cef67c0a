//! A server on loopback that speaks streamable HTTP, well or badly, as the called tool says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::RawValue;
use tract_mcp::ServerUrl;
use tract_testkit::loopback::{HttpAnswer, HttpEnd, HttpRequest, Loopback};

use crate::script::{ClientMessage, Params, echo, result, steps, text};

/// How the server is.
#[derive(Debug, Default)]
pub(crate) struct ServerBehavior {
    /// It knows no sessions and no handshake.
    pub(crate) stateless: bool,
    /// It says 400 of a session that it does not know, as some do.
    pub(crate) says_400: bool,
    /// It knows a session for the handshake only.
    pub(crate) forgets: bool,
    /// It offers a stream of messages that belong to no request.
    pub(crate) tells: bool,
    /// The header that it wants.
    pub(crate) token: Option<&'static str>,
    /// Its pages of tools; without any it has one that is empty.
    pub(crate) pages: Vec<String>,
    /// Which session is the present one.
    pub(crate) session: u32,
    /// How often a call was given up.
    pub(crate) cancelled: u32,
    /// The request whose answer came half.
    pub(crate) half: String,
    /// The number of payments.
    pub(crate) paid: u32,
    /// The status of its answer to a client that resumes the stream of a payment.
    pub(crate) resumes_with: u16,
    /// The first page whose request fails.
    pub(crate) failing_page: Option<usize>,
}

#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) loopback: Loopback,
    pub(crate) manner: Arc<Mutex<ServerBehavior>>,
}

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

fn answer(status: u16, kind: &str, body: impl Into<String>) -> HttpAnswer {
    let body = body.into();
    let kind = if kind.is_empty() { String::new() } else { format!("{kind}; charset=utf-8") };
    // In pieces, so that the reader cannot rely on where they are cut.
    let third = body.len() / 3;
    HttpAnswer::new(status, &kind, body).cut(&[third, 2 * third])
}

impl Web {
    pub(crate) fn start(manner: ServerBehavior) -> Self {
        let manner = Arc::new(Mutex::new(manner));
        let serving = Arc::clone(&manner);
        let answer = move |request: &HttpRequest| reply(&mut serving.lock().unwrap(), request);
        Self { loopback: Loopback::start(answer).unwrap(), manner }
    }

    pub(crate) fn url(&self) -> ServerUrl {
        ServerUrl::new(self.loopback.url("/mcp?key=secret"))
    }
}

/// The method of the message that came with a request.
pub(crate) fn method(request: &HttpRequest) -> String {
    let message = serde_json::from_str::<ClientMessage<'_>>(&request.body);
    message.map(|message| message.method).unwrap_or_default()
}

fn reply(manner: &mut ServerBehavior, request: &HttpRequest) -> HttpAnswer {
    let method = method(request);
    if manner.token.is_some() && request.header("authorization") != manner.token {
        return answer(401, "", "").header("www-authenticate", "Bearer realm=\"tools\"");
    }
    let greets = method == "initialize";
    let session = format!("s-{}", manner.session);
    let knows = request.header("mcp-session-id") == Some(&*session)
        && !(manner.forgets && method.starts_with("tools/"));
    if !manner.stateless && !greets && !knows {
        let status = if manner.says_400 { 400 } else { 404 };
        let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
        return answer(status, JSON, body);
    }
    match request.method.as_str() {
        "GET" if request.header("last-event-id") == Some("half-way") => {
            let whole = result(&manner.half, &text("whole"));
            answer(200, STREAM, format!("id: end\ndata: {whole}\n\n"))
        }
        "GET" if request.header("last-event-id") == Some("paying") => {
            answer(manner.resumes_with, "", "")
        }
        "GET" if manner.tells => {
            let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
            let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}"#;
            answer(200, STREAM, format!("data: {changed}\n\ndata: {log}\n\n")).end(HttpEnd::Hanging)
        }
        "GET" => answer(405, "", ""),
        "DELETE" => answer(200, "", ""),
        _ => post(manner, &request.body),
    }
}

fn post(manner: &mut ServerBehavior, body: &str) -> HttpAnswer {
    let message: ClientMessage<'_> = serde_json::from_str(body).unwrap();
    let id = message.id.map(RawValue::get).unwrap_or_default();
    match (message.method.as_str(), message.params) {
        ("initialize", _) if manner.stateless => answer(
            400,
            JSON,
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no handshake"}}}}"#
            ),
        ),
        ("server/discover", _) => {
            let body = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"web","version":"1"}},"ttlMs":0,"cacheScope":"private"}"#;
            answer(200, JSON, result(id, body))
        }
        ("initialize", _) => {
            manner.session += 1;
            let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"web","version":"1"}}"#;
            let session = format!("s-{}", manner.session);
            answer(200, JSON, result(id, hello)).header("mcp-session-id", &session)
        }
        ("tools/list", params) => {
            let cursor = params.and_then(|params| params.cursor);
            let at: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let next = match manner.pages.get(at + 1) {
                Some(_) => format!(r#","nextCursor":"{}""#, at + 1),
                None => String::new(),
            };
            if manner.failing_page.is_some_and(|failing| failing <= at) {
                return answer(500, "text/plain", "no more pages");
            }
            let page = manner.pages.get(at).map_or("[]", String::as_str);
            answer(200, JSON, result(id, &format!(r#"{{"tools":{page}{next}}}"#)))
        }
        ("tools/call", Some(params)) => call(manner, id, &params),
        ("notifications/cancelled", _) => {
            manner.cancelled += 1;
            answer(202, "", "")
        }
        _ => answer(202, "", ""),
    }
}

fn call(manner: &mut ServerBehavior, id: &str, params: &Params<'_>) -> HttpAnswer {
    let stream_of =
        |result: &str| answer(200, STREAM, format!("event: message\ndata: {result}\n\n"));
    match params.name.as_str() {
        "echo" => stream_of(&result(id, &echo(params))),
        "list" => answer(200, JSON, format!("[{}]", result(id, &text("in a list")))),
        "progress" => {
            let mut body = ": comment\n\n".to_owned();
            for stream_of in steps(params) {
                body += &format!("data: {stream_of}\n\n");
            }
            answer(200, STREAM, body + &format!("data: {}\n\n", result(id, &text("done"))))
        }
        "cut" => {
            let whole = result(id, &text("never"));
            answer(200, STREAM, format!("data: {}", &whole[..whole.len() / 2]))
        }
        "resumed" => {
            id.clone_into(&mut manner.half);
            answer(200, STREAM, "id: half-way\nretry: 1\ndata:\n\ndata: {\"jso")
        }
        "cut_json" => {
            let whole = result(id, &text("never"));
            answer(200, JSON, &whole[..whole.len() / 2]).end(HttpEnd::Dropped)
        }
        "broken" => answer(500, "text/plain", "out of\ncheese"),
        "bad_request" => answer(
            400,
            JSON,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad arguments"}}"#,
        ),
        "pay" => {
            manner.paid += 1;
            answer(200, STREAM, "id: paying\nretry: 1\ndata:\n\n")
        }
        "pay_unconfirmed" => {
            manner.paid += 1;
            let error = r#"{"code":-32000,"message":"checkout session could not be confirmed"}"#;
            answer(400, JSON, format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#))
        }
        "closed" | "internal" | "aborted" => {
            let code = match params.name.as_str() {
                "closed" => -32000,
                "internal" => -32603,
                _ => -32800,
            };
            let error = format!(r#"{{"code":{code},"message":"Connection closed"}}"#);
            answer(200, JSON, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
        }
        "half_emoji" => answer(200, JSON, result(id, &text(r"ok \ud83d"))),
        "html" => answer(200, "text/html", "<h1>It works!</h1>"),
        "nothing" => answer(202, "", ""),
        "elsewhere" => answer(307, "", "").header("location", "http://example.com/"),
        "other_id" => answer(200, JSON, result("\"unasked\"", "{}")),
        "no_json" => answer(200, JSON, "this is no JSON"),
        "huge" => answer(200, JSON, result(id, &text(&"x".repeat(200_000)))),
        "huge_stream" => stream_of(&result(id, &text(&"x".repeat(200_000)))),
        "hang" => answer(200, STREAM, ": waiting\n\n").end(HttpEnd::Hanging),
        "question" => answer(200, JSON, result(id, r#"{"resultType":"input_required"}"#)),
        "forget" => {
            manner.session += 100;
            answer(200, JSON, result(id, &text("forgotten")))
        }
        "cancelled" => answer(200, JSON, result(id, &text(&manner.cancelled.to_string()))),
        other => answer(200, JSON, result(id, &text(&format!("unknown {other}")))),
    }
}

/// Waits until something holds that a server does on its own.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
