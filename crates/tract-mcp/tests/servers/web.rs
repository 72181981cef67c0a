//! A server on loopback that speaks streamable HTTP, well or badly, as the called tool says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tract_mcp::ServerUrl;

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    pub(crate) verb: String,
    pub(crate) method: String,
    head: String,
    body: String,
}

impl HttpRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// How the server is.
#[derive(Debug)]
pub(crate) struct Manner {
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
    /// Its pages of tools.
    pub(crate) pages: Vec<String>,
    /// Which session is the present one.
    pub(crate) session: u32,
    /// How often a call was given up.
    pub(crate) cancelled: u32,
    /// The request whose answer came half.
    pub(crate) half: String,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            stateless: false,
            says_400: false,
            forgets: false,
            tells: false,
            token: None,
            pages: vec!["[]".to_owned()],
            session: 0,
            cancelled: 0,
            half: String::new(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    pub(crate) manner: Arc<Mutex<Manner>>,
    asked: Arc<Mutex<Vec<HttpRequest>>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: String,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(default)]
    name: String,
    cursor: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta", default)]
    meta: serde_json::Value,
}

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

/// An answer: status, type, further headers, body, and whether the connection stays without an end.
struct Answer(u16, &'static str, String, String, bool);

fn answer(status: u16, kind: &'static str, body: impl Into<String>) -> Answer {
    Answer(status, kind, String::new(), body.into(), false)
}

fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn text(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)
}

impl Web {
    pub(crate) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let web = Self { address, manner: Arc::new(Mutex::new(manner)), asked: Arc::default() };
        let serving = web.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                // A client that hangs up has what it wants.
                tokio::spawn(async move { serving.serve(stream).await.ok() });
            }
        });
        web
    }

    pub(crate) fn url(&self) -> ServerUrl {
        ServerUrl::new(format!("http://{}/mcp?key=secret", self.address))
    }

    /// The requests that came since it was asked last.
    pub(crate) fn asked(&self) -> Vec<HttpRequest> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut read = Vec::new();
        let head_end = loop {
            if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&read[..head_end]).into_owned();
        let verb = head.split(' ').next().unwrap_or_default().to_owned();
        let mut asked = HttpRequest { verb, method: String::new(), head, body: String::new() };
        let length: usize =
            asked.header("content-length").map_or(0, |length| length.parse().unwrap());
        while read.len() < head_end + length {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        asked.body = String::from_utf8(read[head_end..].to_vec()).unwrap();
        if let Ok(message) = serde_json::from_str::<Message<'_>>(&asked.body) {
            asked.method = message.method;
        }
        let Answer(status, kind, headers, body, stays) = self.answer(&asked);
        self.asked.lock().unwrap().push(asked);
        let kind = match kind {
            "" => String::new(),
            kind => format!("content-type: {kind}; charset=utf-8\r\n"),
        };
        let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\n{kind}{headers}\r\n");
        stream.write_all(head.as_bytes()).await?;
        // In pieces, so that the reader cannot rely on where they are cut.
        for piece in body.as_bytes().chunks(body.len() / 3 + 1) {
            stream.write_all(piece).await?;
            stream.flush().await?;
        }
        if stays {
            // Until the client hangs up.
            while stream.read(&mut [0; 64]).await? > 0 {}
        }
        stream.shutdown().await
    }

    fn answer(&self, asked: &HttpRequest) -> Answer {
        let mut manner = self.manner.lock().unwrap();
        if manner.token.is_some() && asked.header("authorization") != manner.token {
            let challenge = "www-authenticate: Bearer realm=\"tools\"\r\n".to_owned();
            return Answer(401, "", challenge, String::new(), false);
        }
        let greets = asked.method == "initialize";
        let session = format!("s-{}", manner.session);
        let knows = asked.header("mcp-session-id") == Some(&*session)
            && !(manner.forgets && asked.method.starts_with("tools/"));
        if !manner.stateless && !greets && !knows {
            let status = if manner.says_400 { 400 } else { 404 };
            let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
            return answer(status, JSON, body);
        }
        match asked.verb.as_str() {
            "GET" if asked.header("last-event-id") == Some("half-way") => {
                let whole = result(&manner.half, &text("whole"));
                answer(200, STREAM, format!("id: end\ndata: {whole}\n\n"))
            }
            "GET" if manner.tells => {
                let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
                let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}"#;
                Answer(200, STREAM, String::new(), format!("data: {told}\n\ndata: {log}\n\n"), true)
            }
            "GET" => answer(405, "", ""),
            "DELETE" => answer(200, "", ""),
            _ => post(&mut manner, &asked.body),
        }
    }
}

fn post(manner: &mut Manner, body: &str) -> Answer {
    let message: Message<'_> = serde_json::from_str(body).unwrap();
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
            let session = format!("mcp-session-id: s-{}\r\n", manner.session);
            Answer(200, JSON, session, result(id, hello), false)
        }
        ("tools/list", params) => {
            let cursor = params.and_then(|params| params.cursor);
            let at: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let next = match manner.pages.get(at + 1) {
                Some(_) => format!(r#","nextCursor":"{}""#, at + 1),
                None => String::new(),
            };
            answer(200, JSON, result(id, &format!(r#"{{"tools":{}{next}}}"#, manner.pages[at])))
        }
        ("tools/call", Some(params)) => call(manner, id, &params),
        ("notifications/cancelled", _) => {
            manner.cancelled += 1;
            answer(202, "", "")
        }
        _ => answer(202, "", ""),
    }
}

fn call(manner: &mut Manner, id: &str, params: &Params<'_>) -> Answer {
    let told = |result: &str| answer(200, STREAM, format!("event: message\ndata: {result}\n\n"));
    match params.name.as_str() {
        "echo" => {
            let given = params.arguments.map_or("null", RawValue::get);
            told(&result(
                id,
                &format!(
                    r#"{{"content":[],"structuredContent":{{"given":{given}}},"_meta":{{"x":1.50}},"unknown":[1e2]}}"#
                ),
            ))
        }
        "list" => answer(200, JSON, format!("[{}]", result(id, &text("in a list")))),
        "progress" => {
            let token = &params.meta["progressToken"];
            let mut body = ": comment\n\n".to_owned();
            for done in 1..=2 {
                body += &format!(
                    "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":{done},\"total\":2,\"message\":\"step\"}}}}\n\n"
                );
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
            let length = format!("content-length: {}\r\n", whole.len());
            Answer(200, JSON, length, whole[..whole.len() / 2].to_owned(), false)
        }
        "broken" => answer(500, "text/plain", "out of\ncheese"),
        "bad_request" => answer(
            400,
            JSON,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad arguments"}}"#,
        ),
        "html" => answer(200, "text/html", "<h1>It works!</h1>"),
        "nothing" => answer(202, "", ""),
        "elsewhere" => {
            Answer(307, "", "location: http://example.com/\r\n".to_owned(), String::new(), false)
        }
        "other_id" => answer(200, JSON, result("\"unasked\"", "{}")),
        "no_json" => answer(200, JSON, "this is no JSON"),
        "huge" => answer(200, JSON, result(id, &text(&"x".repeat(200_000)))),
        "huge_stream" => told(&result(id, &text(&"x".repeat(200_000)))),
        "hang" => Answer(200, STREAM, String::new(), ": waiting\n\n".to_owned(), true),
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
