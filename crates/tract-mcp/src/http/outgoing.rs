//! An outgoing message with its headers.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderValue};
use rmcp::RoleClient;
use rmcp::service::TxJsonRpcMessage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answers::Answers;
use crate::wire;

/// The first version of the protocol without sessions, which repeats the method in headers.
const STATELESS: &str = "2026-07-28";

/// A message on its way out.
#[derive(Clone, Debug, Default)]
pub(super) struct OutgoingMessage {
    pub(super) body: Vec<u8>,
    /// The id of a request, as JSON text; nothing else is answered.
    pub(super) id: Option<Box<str>>,
    pub(super) method: String,
    /// The request that this message gives up.
    pub(super) cancels: Option<Box<str>>,
    /// The version in the body.
    pub(super) version: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: String,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    name: Option<String>,
    #[serde(borrow, rename = "requestId")]
    request_id: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<String>,
}

impl OutgoingMessage {
    pub(super) fn of(
        message: &TxJsonRpcMessage<RoleClient>,
        answers: &Answers,
    ) -> io::Result<Self> {
        let body = wire::text_of(message, answers)?;
        let envelope: Envelope<'_> = serde_json::from_slice(&body)?;
        let raw = |raw: &RawValue| raw.get().into();
        let is_request = !envelope.method.is_empty();
        let Params { name, request_id, meta } = envelope.params.unwrap_or_default();
        let cancels = request_id.filter(|_| envelope.id.is_none()).map(raw);
        let version = meta.and_then(|meta| meta.version);
        let id = envelope.id.filter(|_| is_request).map(raw);
        let method = envelope.method;
        Ok(Self { id, method, cancels, name, version, body })
    }

    /// Returns the headers that newer servers read instead of the body.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.version.as_deref().is_none_or(|version| version < STATELESS) {
            return headers;
        }
        let mut set = |name: &'static str, text: &str| {
            if let Ok(value) = HeaderValue::from_str(&encoded(text)) {
                headers.insert(name, value);
            }
        };
        set("mcp-method", &self.method);
        if let Some(name) = &self.name {
            set("mcp-name", name);
        }
        headers
    }
}

/// Plain text as it is; what a header cannot hold in the protocol's wrapping.
fn encoded(text: &str) -> String {
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text == text.trim();
    if plain && !text.starts_with("=?base64?") {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_unfit_for_a_header_are_encoded() {
        assert_eq!(encoded("read_file"), "read_file");
        assert_eq!(encoded("läs"), "=?base64?bMOkcw==?=");
        assert_eq!(encoded(" a"), "=?base64?IGE=?=");
    }

    #[test]
    fn only_newer_servers_get_headers() {
        let old = OutgoingMessage { method: "tools/call".to_owned(), ..OutgoingMessage::default() };
        assert!(old.headers().is_empty());
        let version = Some(STATELESS.to_owned());
        let new = OutgoingMessage { version, name: Some("a".to_owned()), ..old };
        let headers = new.headers();
        assert_eq!(headers.get("mcp-method").unwrap(), "tools/call");
        assert_eq!(headers.get("mcp-name").unwrap(), "a");
    }
}
