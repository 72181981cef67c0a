//! Exchanges with providers in HAR files, which browsers and proxies export.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tract_core::json;

use super::answer::RecordedAnswer;
use crate::detect::{detect, of_path};
use crate::drafts::Anomaly;
use crate::raw::{self, Node, Object};

#[derive(Deserialize)]
struct File {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: Option<String>,
    request: Request,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    url: String,
    post_data: Option<Content>,
    #[serde(default)]
    headers: Option<IgnoredList>,
    #[serde(default)]
    cookies: Option<IgnoredList>,
}

#[derive(Deserialize)]
struct Response {
    content: Option<Content>,
    #[serde(default)]
    headers: Option<IgnoredList>,
    #[serde(default)]
    cookies: Option<IgnoredList>,
}

/// A member that is not stored, of any type.
#[derive(Deserialize)]
#[serde(transparent)]
struct IgnoredList(serde_json::Value);

impl IgnoredList {
    fn is_empty(&self) -> bool {
        self.0.is_null() || self.0.as_array().is_some_and(Vec::is_empty)
    }
}

#[derive(Deserialize)]
struct Content {
    text: Option<String>,
    encoding: Option<String>,
}

/// The exchanges of a HAR file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarExchanges {
    /// Each as a line that [`ProviderConversation::read`](crate::ProviderConversation::read)
    /// accepts after damaged characters are replaced.
    pub lines: Vec<String>,
    /// Entries that are not requests to a model.
    pub others: usize,
    /// The members of exchanges that are left out, each once.
    pub left_out: Vec<Anomaly>,
}

/// Reads the exchanges of a HAR file; `None` if the text is not a HAR file.
pub fn har_exchanges(text: &str) -> Option<HarExchanges> {
    // Most texts are not HAR files. A quick check avoids parsing each of them twice.
    let has_log = Node::root(text).object().ok()?.get("log")?.object().ok()?.has("entries");
    let file: File = has_log.then(|| serde_json::from_str(text).ok())??;
    let mut exchanges = HarExchanges::default();
    for entry in file.log.entries {
        let left_out = left_out(&entry);
        match line(entry) {
            Some(line) => {
                exchanges.lines.push(line);
                for at in left_out {
                    let anomaly = Anomaly::left_out(at);
                    if !exchanges.left_out.contains(&anomaly) {
                        exchanges.left_out.push(anomaly);
                    }
                }
            }
            None => exchanges.others += 1,
        }
    }
    Some(exchanges)
}

/// Returns the paths of the members of an entry that may contain keys.
fn left_out(entry: &Entry) -> Vec<&'static str> {
    let request = &entry.request;
    let response = entry.response.as_ref();
    let members = [
        ("log.entries[].request.headers", request.headers.as_ref()),
        ("log.entries[].request.cookies", request.cookies.as_ref()),
        ("log.entries[].response.headers", response.and_then(|it| it.headers.as_ref())),
        ("log.entries[].response.cookies", response.and_then(|it| it.cookies.as_ref())),
    ];
    let present = members.iter().filter(|(_, list)| list.is_some_and(|list| !list.is_empty()));
    present.map(|(at, _)| *at).collect()
}

fn line(entry: Entry) -> Option<String> {
    let path = entry.request.url.split(['?', '#']).next().unwrap_or_default().to_owned();
    let is_known = of_path(&path).is_some();
    let request = body(entry.request.post_data?)?;
    if !raw::is_received_object(request.trim()) {
        return None;
    }
    let mut out = Object::new();
    if is_known {
        out.text("path", &path);
    }
    if let Some(at) = &entry.started_date_time {
        out.text("at", at);
    }
    out.raw("request", request.trim());
    let answer = entry.response.and_then(|response| body(response.content?));
    if let Some(answer) = answer.filter(|answer| !answer.trim().is_empty()) {
        match raw::is_received_object(answer.trim()) {
            true => out.raw("response", answer.trim()),
            false => out.text("response", &answer),
        };
    }
    let line = out.end();
    // A gateway may have another path. Other services have requests in a similar shape, so the
    // answer has to be one of a model as well.
    let is_exchange = || {
        let line = json::decode(line.as_bytes()).text;
        let fields = Node::root(&line).object().ok();
        detect(&line).is_some() && fields.is_some_and(|all| RecordedAnswer::find(&all).is_some())
    };
    let is_ours = is_known || is_exchange();
    is_ours.then_some(line)
}

fn body(content: Content) -> Option<String> {
    let text = content.text?;
    match content.encoding.as_deref() {
        Some("base64") => {
            let bytes = STANDARD.decode(text.as_bytes()).ok()?;
            // Compressed bytes stay in base64, and are reported by the format.
            match compression_of(&bytes) {
                Some(_) => Some(text),
                None => Some(String::from_utf8_lossy(&bytes).into_owned()),
            }
        }
        _ => Some(text),
    }
}

/// Returns the format of compressed bytes. Brotli has no mark, so it is one of the formats of bytes
/// that are not text.
fn compression_of(bytes: &[u8]) -> Option<&'static str> {
    const FORMATS: [(&[u8], &str); 5] = [
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x78\x01", "deflate"),
        (b"\x78\x9c", "deflate"),
        (b"\x78\xda", "deflate"),
    ];
    let known = FORMATS.iter().find(|(start, _)| bytes.starts_with(start));
    let is_text = || {
        // A text may have damaged characters.
        let start = bytes.get(..64).unwrap_or(bytes);
        let invalid: usize = start.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
        8 * invalid <= start.len()
    };
    known.map(|(_, name)| *name).or_else(|| (!is_text()).then_some("br or another format"))
}

/// Returns the format of the compressed bytes that a text contains in base64.
pub(super) fn compressed_text(text: &str) -> Option<&'static str> {
    // Enough to recognize the format.
    const ENOUGH: usize = 64;
    let start = text.get(..ENOUGH)?;
    // A short text of letters is base64 by chance.
    compression_of(&STANDARD.decode(start.as_bytes()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProviderConversation;

    #[test]
    fn exchanges_with_models_are_read_and_others_are_counted() {
        let request = r#"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}"#;
        let stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"a\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Yes\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
        let entry = |url: &str, answer: serde_json::Value| {
            serde_json::json!({
                "startedDateTime": "2026-01-01T00:00:00Z",
                "request": {"method": "POST", "url": url, "postData": {"text": request}},
                "response": {"status": 200, "content": answer},
            })
        };
        let file = serde_json::json!({"log": {"version": "1.2", "entries": [
            entry("https://api.anthropic.com/v1/messages?beta=true", serde_json::json!({"text": stream})),
            entry("https://api.anthropic.com/v1/messages", serde_json::json!({
                "text": STANDARD.encode(stream), "encoding": "base64",
            })),
            entry("https://gateway.example.com/team/chat", serde_json::json!({
                "text": r#"{"choices":[{"message":{"role":"assistant","content":"Yes"}}]}"#,
            })),
            entry("https://example.com/track", serde_json::json!({"text": "ok"})),
            entry("https://example.com/track", serde_json::json!({"text": r#"{"ok":true}"#})),
        ]}});
        let exchanges = har_exchanges(&file.to_string()).expect("a HAR file");
        assert_eq!((exchanges.lines.len(), exchanges.others), (3, 2));
        for line in &exchanges.lines {
            let read = ProviderConversation::read(line, None).expect("it is read");
            assert!(read.is_answered, "{:?}", read.imported.anomalies);
            let texts: Vec<String> =
                read.imported.drafts.iter().map(|draft| draft.content.text()).collect();
            assert_eq!(texts, ["Hi", "Yes"]);
        }
        assert_eq!(har_exchanges(r#"{"log":{}}"#), None);
        assert_eq!(har_exchanges(request), None);
    }
}
