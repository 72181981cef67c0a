//! The transport of a host: a request a line. Every line that asks for something is answered, also
//! when it cannot be read.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};

use crate::line_writer::LineWriter;

/// Codes of JSON-RPC.
const NOT_JSON: i32 = -32700;
const NOT_A_REQUEST: i32 = -32600;
/// Number of bytes at the end of a line that is too long, in which its id is searched.
const END_BYTES: usize = 512;
const BAD_PARAMS: i32 = -32602;

/// A client at the other end of two streams.
pub(crate) struct ServedLines<R, W> {
    reader: BufReader<R>,
    /// The line so far; of one that is too long, its beginning.
    line: Vec<u8>,
    is_too_long: bool,
    /// The end of a line that is too long.
    end: Vec<u8>,
    max_line_bytes: usize,
    writer: LineWriter<W>,
    open: OpenRequests,
}

/// The ids of the requests that have no answer yet.
#[derive(Clone, Default)]
struct OpenRequests(Arc<Mutex<HashSet<RequestId>>>);

impl OpenRequests {
    /// Adds the id of a request, or removes that of a request that the client cancels. Returns false
    /// if another open request has the id: their answers could not be told apart.
    fn accept(&self, message: &RxJsonRpcMessage<RoleServer>) -> bool {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            JsonRpcMessage::Request(request) => ids.insert(request.id.clone()),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    ids.remove(id);
                }
                true
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => true,
        }
    }

    /// Removes the id of a request that this message answers.
    fn answer(&self, message: &TxJsonRpcMessage<RoleServer>) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = id {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> ServedLines<R, W> {
    pub(crate) fn new(reader: R, writer: W, max_line_bytes: usize) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            is_too_long: false,
            end: Vec::new(),
            max_line_bytes,
            writer: LineWriter::new(writer),
            open: OpenRequests::default(),
        }
    }

    /// Reads on to the end of a line and returns whether there was one. May be dropped at any await
    /// and called again: what was read stays in `line`.
    async fn read_line(&mut self) -> bool {
        loop {
            let Ok(chunk) = self.reader.fill_buf().await else { return false };
            if chunk.is_empty() {
                return !self.line.is_empty();
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            self.is_too_long |= self.line.len() + part.len() > self.max_line_bytes;
            let room = self.max_line_bytes.saturating_sub(self.line.len());
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            if self.is_too_long {
                self.end.extend_from_slice(part);
                self.end.drain(..self.end.len().saturating_sub(END_BYTES));
            }
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                return true;
            }
        }
    }
}

impl<R, W> Transport<RoleServer> for ServedLines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = serde_json::to_vec(&message);
        self.open.answer(&message);
        let writer = self.writer.clone();
        async move { writer.write(line?).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        while self.read_line().await {
            let line = std::mem::take(&mut self.line);
            let is_too_long = std::mem::take(&mut self.is_too_long);
            let end = std::mem::take(&mut self.end);
            let cut = is_too_long.then_some((self.max_line_bytes, end.as_slice()));
            let message = read(&line, cut).and_then(|message| match message {
                Some(message) if !self.open.accept(&message) => {
                    let text = "another request with this id has no answer yet";
                    Err(failed(request_id(&line), NOT_A_REQUEST, text))
                }
                message => Ok(message),
            });
            match message {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(error) => {
                    let writer = self.writer.clone();
                    // A task of its own: this future may be dropped in the middle of a line.
                    tokio::spawn(async move { writer.write(error.into_bytes()).await });
                }
            }
        }
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.close().await
    }
}

/// Returns the text of the error that answers a request.
fn failed(id: Option<&str>, code: i32, message: &str) -> String {
    let id = id.unwrap_or("null");
    let error = json!({ "code": code, "message": message });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// Reads a line: a message, nothing that has to be answered, or the text of the error that answers it.
/// Of a line that is too long there are the limit and its end.
fn read(
    line: &[u8],
    cut: Option<(usize, &[u8])>,
) -> Result<Option<RxJsonRpcMessage<RoleServer>>, String> {
    if let Some((limit, end)) = cut {
        let id = request_id(line).or_else(|| id_at_end(end));
        let what = format!("the request is longer than {limit} bytes");
        return Err(failed(id, NOT_A_REQUEST, &what));
    }
    let failed = |code: i32, message: String| Err(failed(request_id(line), code, &message));
    // Some programs write a byte order mark before their first line.
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return failed(NOT_JSON, format!("the request cannot be read: {error}")),
    };
    let Value::Object(members) = &value else {
        let message = "expected one request as a JSON object; lists of requests are not supported";
        return failed(NOT_A_REQUEST, message.to_owned());
    };
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return failed(NOT_A_REQUEST, r#"expected "jsonrpc":"2.0""#.to_owned());
    }
    match serde_json::from_slice(line) {
        Ok(message) => Ok(Some(message)),
        Err(_) if !members.contains_key("id") && members.contains_key("method") => Ok(None),
        Err(_) if members.contains_key("result") || members.contains_key("error") => Ok(None),
        Err(error) if members.contains_key("method") => {
            failed(BAD_PARAMS, format!("the request is not one of the protocol: {error}"))
        }
        Err(_) => failed(NOT_A_REQUEST, "expected a request with a method".to_owned()),
    }
}

/// Finds the id of a request that may be cut off, nested too deep, or otherwise unreadable: a string or a
/// number.
fn request_id(line: &[u8]) -> Option<&str> {
    let mut at = 0;
    let mut depth = 0_usize;
    while let Some(byte) = line.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(line, at)?;
                let is_id = depth == 1 && line.get(at..end) == Some(br#""id""#.as_slice());
                at = end;
                let colon = skip_space(line, at);
                if is_id && line.get(colon) == Some(&b':') {
                    return scalar(line, skip_space(line, colon + 1));
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Finds the id among the last members of a request whose beginning is not there. No bracket may
/// follow but that of the request, so that the id is not one of its parameters. In a text, the quotes
/// would be escaped.
fn id_at_end(end: &[u8]) -> Option<&str> {
    let rest = end.trim_ascii_end().strip_suffix(b"}")?;
    let bracket = rest.iter().rposition(|byte| b"{}[]".contains(byte));
    let members = rest.get(bracket.map_or(0, |at| at + 1)..)?;
    let name = br#""id""#;
    let at = members.windows(name.len()).rposition(|window| window == name)?;
    if !members.get(..at)?.trim_ascii_end().ends_with(b",") {
        return None;
    }
    let colon = skip_space(members, at + name.len());
    (members.get(colon) == Some(&b':')).then_some(())?;
    scalar(members, skip_space(members, colon + 1))
}

fn skip_space(line: &[u8], from: usize) -> usize {
    let space = line.iter().skip(from).take_while(|byte| byte.is_ascii_whitespace());
    from + space.count()
}

/// Returns the place after a string that begins here.
fn string_end(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match line.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn scalar(line: &[u8], start: usize) -> Option<&str> {
    let end = match line.get(start)? {
        b'"' => string_end(line, start)?,
        _ => {
            let number = |byte: &&u8| {
                byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
            };
            start + line.iter().skip(start).take_while(number).count()
        }
    };
    let text = std::str::from_utf8(line.get(start..end)?).ok()?;
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_string() || value.is_number()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(line: &str, limit: Option<usize>) -> (Value, i64) {
        let (start, end) = line.as_bytes().split_at(limit.unwrap_or(line.len()).min(line.len()));
        let cut = limit.map(|limit| (limit, end));
        let text = read(start, cut).unwrap_err();
        let error: Value = serde_json::from_str(&text).unwrap();
        (error["id"].clone(), error["error"]["code"].as_i64().unwrap())
    }

    #[test]
    fn every_request_that_cannot_be_read_is_answered_with_its_id() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","params":{}1{},"id":"a\"b","method":"ping"}}"#,
            "[".repeat(5_000),
            "]".repeat(5_000)
        );
        for (line, limit, id, code) in [
            ("hello", None, Value::Null, -32700),
            (r#"{"jsonrpc":"2.0","id":7,"method":"#, None, json!(7), -32700),
            (&deep, None, json!("a\"b"), -32700),
            (r#"{"jsonrpc":"2.0","id":8,"method":"ping","par"#, Some(40), json!(8), -32600),
            (r#"{"params":{"x":"01234"},"jsonrpc":"2.0","id":13}"#, Some(9), json!(13), -32600),
            (r#"{"params":{"x":"01"},"id": "a","method":"m"} "#, Some(9), json!("a"), -32600),
            (r#"{"method":"m","params":{"x":"01","id":5}}"#, Some(15), Value::Null, -32600),
            (r#"{"method":"m","x":"{\"a\":1,\"id\":5}"}"#, Some(15), Value::Null, -32600),
            ("[]", None, Value::Null, -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None, Value::Null, -32600),
            (r#"{"id":5,"method":"ping"}"#, None, json!(5), -32600),
            (r#"{"jsonrpc":"2.0","id":5}"#, None, json!(5), -32600),
            (r#"{"params":{"id":1},"id" : 2 ,"jsonrpc":"1.0"}"#, None, json!(2), -32600),
        ] {
            assert_eq!(error_of(line, limit), (id, code), "{line:.80}");
        }
    }

    #[tokio::test]
    async fn a_second_request_with_the_id_of_an_open_one_gets_an_error() {
        let ping = |id: i64| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
        let lines = [ping(1), ping(1), ping(2)].concat();
        let (answers, written) = tokio::io::duplex(4096);
        let mut served = ServedLines::new(std::io::Cursor::new(lines), written, 1 << 20);
        let mut ids = Vec::new();
        while let Some(JsonRpcMessage::Request(request)) = served.receive().await {
            ids.push(request.id);
        }
        assert_eq!(ids, [RequestId::Number(1), RequestId::Number(2)]);
        let mut answers = BufReader::new(answers);
        let mut line = String::new();
        answers.read_line(&mut line).await.unwrap();
        let error: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(1), &json!(-32600)));
    }

    #[test]
    fn a_byte_order_mark_before_a_request_is_skipped() {
        let line = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\r";
        assert!(matches!(read(line.as_bytes(), None), Ok(Some(_))));
        assert!(matches!(read("\u{feff}\n".as_bytes(), None), Ok(None)));
    }

    #[test]
    fn messages_are_read_and_notifications_need_no_answer() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(matches!(read(ping.as_bytes(), None), Ok(Some(_))));
        assert!(matches!(read(b"  ", None), Ok(None)));
    }
}
