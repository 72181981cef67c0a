//! Messages as text, for every transport.
//!
//! `rmcp` reads answers into types and drops what it does not know, and its numbers are doubles: so
//! arguments go out, and results come in, past it, as their text.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answers::{AnswerMatch, Answers};
use crate::event::{Listener, McpEvent};

/// Arguments of a call as their text, carried past `rmcp`, whose numbers are doubles.
#[derive(Clone, Debug)]
pub(crate) struct RawArguments(pub(crate) Arc<str>);

/// The members that distinguish answers, requests and notifications.
#[derive(Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    pub(crate) method: Option<serde::de::IgnoredAny>,
}

/// Parses a message; `None` if nothing waits for it. The result of a pending request is kept as
/// text.
pub(crate) fn received(
    line: &str,
    answers: &Answers,
    listener: &Listener,
) -> Option<RxJsonRpcMessage<RoleClient>> {
    if let Ok(Envelope { id: Some(id), result: Some(result), method: None }) =
        serde_json::from_str(line)
    {
        match answers.keep(id.get(), result.get()) {
            AnswerMatch::First => return empty_answer(id.get()),
            AnswerMatch::Again => {
                listener.tell(McpEvent::AnsweredTwice { id: id.get().to_owned() });
                return None;
            }
            AnswerMatch::Unknown => {}
        }
    }
    // Of what is not an answer many may wait to be read.
    if line.len() > UNASKED_BYTES && !is_answer(line) {
        listener.tell(McpEvent::Oversized { limit_bytes: UNASKED_BYTES });
        return None;
    }
    match serde_json::from_str(line) {
        Ok(message) => Some(message),
        Err(_) => {
            let line = line.chars().take(SHOWN).collect();
            listener.tell(McpEvent::Malformed { line });
            None
        }
    }
}
/// How long a message may be that answers no request.
const UNASKED_BYTES: usize = 1 << 20;

/// Whether a message is an answer to any request, and no request or notification.
fn is_answer(line: &str) -> bool {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(rename = "id")]
        _id: serde::de::IgnoredAny,
        method: Option<serde::de::IgnoredAny>,
    }
    matches!(serde_json::from_str(line), Ok(Envelope { method: None, .. }))
}

/// How many characters of a malformed line are shown.
const SHOWN: usize = 200;

fn empty_answer(id: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    serde_json::from_str(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).ok()
}

/// Makes an error answer for `rmcp`, for a request that will not be answered.
pub(crate) fn refused(id: &str, why: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    let error = serde_json::json!({"code": -32603, "message": why});
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
    serde_json::from_str(&text).ok()
}

/// Writes a message as it goes out; it contains a call's arguments as they were given.
pub(crate) fn text_of(
    message: &TxJsonRpcMessage<RoleClient>,
    answers: &Answers,
) -> io::Result<Vec<u8>> {
    let JsonRpcMessage::Request(sent) = message else { return Ok(serde_json::to_vec(message)?) };
    let raw = match &sent.request {
        ClientRequest::CallToolRequest(call) => call.extensions.get::<RawArguments>(),
        ClientRequest::ListToolsRequest(_) => None,
        _ => return Ok(serde_json::to_vec(message)?),
    };
    answers.expect(&serde_json::to_string(&sent.id)?);
    with_arguments(&serde_json::to_string(message)?, raw)
}

fn with_arguments(message: &str, raw: Option<&RawArguments>) -> io::Result<Vec<u8>> {
    let Some(RawArguments(arguments)) = raw else { return Ok(message.as_bytes().to_vec()) };
    let params;
    let mut message = members(message)?;
    if let Some((_, raw)) = message.iter_mut().find(|(key, _)| key == "params") {
        let mut inner = members(raw)?;
        inner.retain(|(key, _)| key != "arguments");
        inner.push(("arguments".to_owned(), arguments));
        params = object(&inner);
        *raw = &params;
    }
    Ok(object(&message).into_bytes())
}

fn members(text: &str) -> io::Result<Vec<(String, &str)>> {
    tract_core::json::split_object(text).map_err(io::Error::other)
}

fn object(members: &[(String, &str)]) -> String {
    let mut out = "{".to_owned();
    for (place, (key, raw)) in members.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        tract_core::json::write_string(&mut out, key, tract_core::json::Escapes::Raw);
        out.push(':');
        out.push_str(raw);
    }
    out + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_out_as_they_were_given() {
        let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"a"}}"#;
        let raw = RawArguments(r#"{"z":12345678901234567890123, "a":1.0}"#.into());
        let line = with_arguments(message, Some(&raw)).unwrap();
        assert_eq!(
            String::from_utf8(line).unwrap(),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"a","arguments":{"z":12345678901234567890123, "a":1.0}}}"#
        );
    }
}
