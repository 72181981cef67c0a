//! The transport over a pair of streams: a message a line, of bounded length.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use crate::answers::{Answers, Kept};
use crate::event::{Listener, McpEvent};

/// Arguments of a call as their text, carried past `rmcp`, whose numbers are doubles.
#[derive(Clone, Debug)]
pub(crate) struct RawArguments(pub(crate) Arc<str>);

/// A server at the other end of two streams.
pub(crate) struct Lines<R, W> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// A line that is too long is passed over up to its end.
    skipping: bool,
    max_line_bytes: usize,
    writer: Arc<Mutex<Option<W>>>,
    answers: Arc<Answers>,
    listener: Listener,
}

enum Read {
    Line,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(crate) fn new(
        reader: R,
        writer: W,
        max_line_bytes: usize,
        answers: Arc<Answers>,
        listener: Listener,
    ) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            skipping: false,
            max_line_bytes,
            writer: Arc::new(Mutex::new(Some(writer))),
            answers,
            listener,
        }
    }

    /// Reads on to the end of a line. May be dropped at any await and called again: what was read
    /// stays in `line`.
    async fn read_line(&mut self) -> Read {
        loop {
            let Ok(chunk) = self.reader.fill_buf().await else { return Read::End };
            if chunk.is_empty() {
                return Read::End;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let (part, used) = match end {
                Some(end) => (chunk.get(..end).unwrap_or_default(), end + 1),
                None => (chunk, chunk.len()),
            };
            let fits = self.line.len() + part.len() <= self.max_line_bytes;
            if !self.skipping && fits {
                self.line.extend_from_slice(part);
            }
            self.reader.consume(used);
            let was_skipping = self.skipping;
            self.skipping = !(end.is_some() || fits && !was_skipping);
            match (end.is_some(), was_skipping, fits) {
                (true, true, _) => self.line.clear(),
                (true, false, true) => return Read::Line,
                (_, false, false) => {
                    self.line.clear();
                    return Read::TooLong;
                }
                (false, _, _) => {}
            }
        }
    }

    /// Returns the message of a line, or none when it is for nobody.
    fn message(&self, line: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            method: Option<serde::de::IgnoredAny>,
        }
        if let Ok(Envelope { id: Some(id), result: Some(result), method: None }) =
            serde_json::from_str(line)
        {
            match self.answers.keep(id.get(), result.get()) {
                Kept::First => return empty_answer(id.get()),
                Kept::Again => {
                    self.listener.tell(McpEvent::AnsweredTwice { id: id.get().to_owned() });
                    return None;
                }
                Kept::Unknown => {}
            }
        }
        match serde_json::from_str(line) {
            Ok(message) => Some(message),
            Err(_) => {
                let line = line.chars().take(SHOWN).collect();
                self.listener.tell(McpEvent::Malformed { line });
                None
            }
        }
    }
}

/// How many characters of a malformed line are shown.
const SHOWN: usize = 200;

fn empty_answer(id: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    serde_json::from_str(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).ok()
}

fn refused_answer(id: &str, why: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    let error = serde_json::json!({"code": -32603, "message": why});
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
    serde_json::from_str(&text).ok()
}

/// Writes a message as a line; a call's arguments stand in it as they were given.
fn line_of(message: &TxJsonRpcMessage<RoleClient>, answers: &Answers) -> io::Result<Vec<u8>> {
    let mut line = match message {
        JsonRpcMessage::Request(sent) => {
            let id = serde_json::to_string(&sent.id)?;
            match &sent.request {
                ClientRequest::CallToolRequest(call) => {
                    answers.expect(&id);
                    let raw = call.extensions.get::<RawArguments>();
                    with_arguments(&serde_json::to_string(message)?, raw)?
                }
                ClientRequest::ListToolsRequest(_) => {
                    answers.expect(&id);
                    serde_json::to_vec(message)?
                }
                _ => serde_json::to_vec(message)?,
            }
        }
        _ => serde_json::to_vec(message)?,
    };
    line.push(b'\n');
    Ok(line)
}

fn with_arguments(message: &str, raw: Option<&RawArguments>) -> io::Result<Vec<u8>> {
    let Some(RawArguments(arguments)) = raw else { return Ok(message.as_bytes().to_vec()) };
    let mut out = String::with_capacity(message.len() + arguments.len() + 16);
    write_members(&mut out, &members(message)?, |out, key, raw| {
        if key != "params" {
            out.push_str(raw);
            return Ok(());
        }
        let mut params = members(raw)?;
        params.retain(|(key, _)| key != "arguments");
        params.push(("arguments".to_owned(), arguments));
        write_members(out, &params, |out, _, raw| {
            out.push_str(raw);
            Ok(())
        })
    })?;
    Ok(out.into_bytes())
}

fn members(text: &str) -> io::Result<Vec<(String, &str)>> {
    tract_core::json::split_object(text).map_err(io::Error::other)
}

fn write_members(
    out: &mut String,
    members: &[(String, &str)],
    value: impl Fn(&mut String, &str, &str) -> io::Result<()>,
) -> io::Result<()> {
    out.push('{');
    for (place, (key, raw)) in members.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        tract_core::json::write_string(out, key, tract_core::json::Escapes::Raw);
        out.push(':');
        value(out, key, raw)?;
    }
    out.push('}');
    Ok(())
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = line_of(&message, &self.answers);
        let writer = Arc::clone(&self.writer);
        async move {
            let line = line?;
            match writer.lock().await.as_mut() {
                Some(writer) => {
                    writer.write_all(&line).await?;
                    writer.flush().await
                }
                None => Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.read_line().await {
                Read::End => return None,
                Read::Line => {
                    let line = std::mem::take(&mut self.line);
                    let text = String::from_utf8_lossy(&line);
                    let text = text.trim();
                    if text.is_empty() {
                        continue;
                    }
                    if let Some(message) = self.message(text) {
                        return Some(message);
                    }
                }
                Read::TooLong => {
                    let limit_bytes = self.max_line_bytes;
                    self.listener.tell(McpEvent::Oversized { limit_bytes });
                    // With one request open it can only be its answer: nobody waits in vain.
                    let why = format!("the answer is longer than {limit_bytes} bytes");
                    let id = self.answers.only_open();
                    if let Some(message) = id.and_then(|id| refused_answer(&id, &why)) {
                        return Some(message);
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        match self.writer.lock().await.take() {
            Some(mut writer) => writer.shutdown().await,
            None => Ok(()),
        }
    }
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

    #[tokio::test]
    async fn lines_of_any_length_and_kind_are_survived() {
        let long = "x".repeat(100);
        let text = format!(
            "{long}{long}\n\nnot json\n{{\"id\":7,\"result\":{{\"b\":1}}}}\n{{\"id\":7,\"result\":{{}}}}\n{long}"
        );
        let events = Arc::new(std::sync::Mutex::new(Vec::new()));
        let heard = Arc::clone(&events);
        let listener = Listener(Some(Arc::new(move |event| heard.lock().unwrap().push(event))));
        let answers = Arc::new(Answers::default());
        let reader = std::io::Cursor::new(text.into_bytes());
        let writer = tokio::io::sink();
        let mut lines = Lines::new(reader, writer, 64, Arc::clone(&answers), listener);
        answers.expect("8");
        // Too long, with one request open: it is answered.
        let refused = lines.receive().await.unwrap();
        assert!(matches!(refused, JsonRpcMessage::Error(_)), "{refused:?}");
        answers.forget("8");
        answers.expect("7");
        let answered = lines.receive().await.unwrap();
        assert!(matches!(answered, JsonRpcMessage::Response(_)), "{answered:?}");
        assert_eq!(answers.take("7").as_deref(), Some(r#"{"b":1}"#));
        assert!(lines.receive().await.is_none());
        let events = events.lock().unwrap();
        assert_eq!(
            *events,
            [
                McpEvent::Oversized { limit_bytes: 64 },
                McpEvent::Malformed { line: "not json".to_owned() },
                McpEvent::AnsweredTwice { id: "7".to_owned() },
                McpEvent::Oversized { limit_bytes: 64 },
            ]
        );
    }
}
