//! The transport over a pair of streams: a message a line, of bounded length.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tract_core::json::decode;

use crate::answers::Answers;
use crate::error::McpError;
use crate::event::{Listener, McpEvent};
use crate::line_writer::LineWriter;
use crate::wire;

/// A server at the other end of two streams.
pub(crate) struct Lines<R, W> {
    /// The name of the server in errors.
    label: String,
    reader: BufReader<R>,
    line: Vec<u8>,
    /// A line that is too long is passed over up to its end.
    skipping: bool,
    max_line_bytes: usize,
    writer: LineWriter<W>,
    answers: Arc<Answers>,
    listener: Listener,
}

enum Read {
    Line,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    pub(crate) fn new(
        label: &str,
        reader: R,
        writer: W,
        max_line_bytes: usize,
        answers: Arc<Answers>,
        listener: Listener,
    ) -> Self {
        Self {
            label: label.to_owned(),
            reader: BufReader::new(reader),
            line: Vec::new(),
            skipping: false,
            max_line_bytes,
            writer: LineWriter::new(writer),
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
        let line = wire::text_of(&message, &self.answers);
        let writer = self.writer.clone();
        async move { writer.write(line?).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.read_line().await {
                Read::End => return None,
                Read::Line => {
                    let line = std::mem::take(&mut self.line);
                    // Without a byte order mark, and with half emojis replaced.
                    let text = decode(&line).text;
                    let text = text.trim();
                    if text.is_empty() {
                        continue;
                    }
                    if let Some(message) = wire::received(text, &self.answers, &self.listener) {
                        return Some(message);
                    }
                }
                Read::TooLong => {
                    let limit_bytes = self.max_line_bytes;
                    self.listener.tell(McpEvent::Oversized { limit_bytes });
                    // With one request open it can only be its answer, so that request fails at
                    // once.
                    let Some(id) = self.answers.only_open() else { continue };
                    let error = McpError::TooLarge { server: self.label.clone(), limit_bytes };
                    let answer = wire::refused(&id, &error.to_string());
                    self.answers.fail(&id, error);
                    if answer.is_some() {
                        return answer;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.close().await
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::JsonRpcMessage;

    use super::*;

    #[tokio::test]
    async fn a_byte_order_mark_before_the_first_line_is_skipped() {
        let text = "\u{feff}{\"id\":7,\"result\":{\"b\":1}}\n\u{feff}\n";
        let answers = Arc::new(Answers::default());
        answers.expect("7");
        let reader = std::io::Cursor::new(text.as_bytes().to_vec());
        let listener = Listener::new(|event| panic!("{event:?}"));
        let mut lines =
            Lines::new("s", reader, tokio::io::sink(), 64, Arc::clone(&answers), listener);
        let answered = lines.receive().await.unwrap();
        assert!(matches!(answered, JsonRpcMessage::Response(_)), "{answered:?}");
        assert!(lines.receive().await.is_none());
    }

    #[tokio::test]
    async fn lines_of_any_length_and_kind_are_survived() {
        let long = "x".repeat(100);
        let text = format!(
            "{long}{long}\n\nnot json\n{{\"id\":7,\"result\":{{\"b\":1}}}}\n{{\"id\":7,\"result\":{{}}}}\n{long}"
        );
        let events = Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = Arc::clone(&events);
        let listener = Listener::new(move |event| log.lock().unwrap().push(event));
        let answers = Arc::new(Answers::default());
        let reader = std::io::Cursor::new(text.into_bytes());
        let writer = tokio::io::sink();
        let mut lines = Lines::new("s", reader, writer, 64, Arc::clone(&answers), listener);
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
