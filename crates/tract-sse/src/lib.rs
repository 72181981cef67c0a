//! Decodes server-sent events (SSE): bytes in, events out.
//!
//! ```
//! use tract_sse::SseDecoder;
//! let mut decoder = SseDecoder::new();
//! assert!(decoder.push(b": hello\r\ndata: {\"a\":\r")?.is_empty());
//! let events = decoder.push(b"\ndata: 1}\r\n\r\n")?;
//! assert_eq!(events[0].data, "{\"a\":\n1}");
//! # Ok::<(), tract_sse::SseError>(())
//! ```
#![forbid(unsafe_code)]

mod lines;

use std::time::Duration;

pub use self::lines::Lines;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The value of the `event` field; empty if the field is absent.
    pub event: String,
    /// The values of the `data` lines, joined by newlines.
    pub data: String,
}

/// Error of decoding a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is longer than the limit.
    #[error("an event is too long: more than {limit_bytes} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
}

/// Decodes server-sent events from chunks that may be cut anywhere, even inside a character.
///
/// # Behavior
/// - Lines end with LF, CR LF or CR. A byte order mark at the start of the stream is skipped.
/// - Bytes that are not UTF-8 are replaced by U+FFFD.
/// - `data` lines are joined by newlines. Comments and unknown fields are ignored.
/// - An event without a `data` line is not returned.
/// - If the stream ends without a blank line, [`end`](Self::end) returns the last event.
#[derive(Clone, Debug, Default)]
pub struct SseDecoder {
    lines: Lines,
    open: OpenEvent,
}

/// The event being read, and the fields that outlive it: the last id and the retry delay.
#[derive(Clone, Debug, Default)]
struct OpenEvent {
    event: String,
    data: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl SseDecoder {
    /// Creates a decoder for a new stream, without a limit on the length of an event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a decoder that buffers at most `limit_bytes` bytes of an event.
    pub fn with_limit(limit_bytes: usize) -> Self {
        Self { lines: Lines::with_limit(limit_bytes), open: OpenEvent::default() }
    }

    /// Decodes a chunk and returns the events that it completes.
    ///
    /// # Errors
    /// [`SseError`]. The decoder must not be used after an error.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, SseError> {
        let mut events = Vec::new();
        let Self { lines, open } = self;
        lines.push(bytes, |line| {
            events.extend(open.line(line));
            Ok::<usize, SseError>(open.data.as_ref().map_or(0, String::len))
        })?;
        Ok(events)
    }

    /// Returns the last event if the stream ended without a blank line after it.
    pub fn end(&mut self) -> Option<SseEvent> {
        if let Some(line) = self.lines.end() {
            self.open.line(&line);
        }
        self.open.line("")
    }

    /// Prepares for a new connection that resumes after [`last_id`](Self::last_id). Drops an
    /// incomplete event; keeps the id and the retry delay.
    pub fn continue_stream(&mut self) {
        self.lines = Lines::with_limit(self.lines.limit_bytes());
        let OpenEvent { last_id, retry, .. } = std::mem::take(&mut self.open);
        self.open = OpenEvent { last_id, retry, ..OpenEvent::default() };
    }

    /// Returns the last event id, to be sent as `Last-Event-ID` when reconnecting.
    pub fn last_id(&self) -> Option<&str> {
        self.open.last_id.as_deref()
    }

    /// Returns the reconnection delay requested by the server.
    pub fn retry(&self) -> Option<Duration> {
        self.open.retry
    }
}

impl OpenEvent {
    /// Reads one line. A blank line completes the event.
    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return self.data.take().map(|data| SseEvent { event, data });
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.event),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => {
                self.last_id = Some(value.to_owned()).filter(|id| !id.is_empty());
            }
            "retry" => self.retry = value.parse().ok().map(Duration::from_millis).or(self.retry),
            // The field name of a comment is empty.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::new();
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(decoder.push(chunk).expect("it is text"));
        }
        events.extend(decoder.end());
        events.into_iter().map(|event| (event.event, event.data)).collect()
    }

    #[track_caller]
    fn check(stream: &str, expected: &[(&str, &str)]) {
        let expected: Vec<(String, String)> =
            expected.iter().map(|(e, d)| ((*e).to_owned(), (*d).to_owned())).collect();
        assert_eq!(decode(&[stream.as_bytes()]), expected, "whole");
        for cut in 0..=stream.len() {
            let (a, b) = stream.as_bytes().split_at(cut);
            assert_eq!(decode(&[a, b]), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(decode(&bytes), expected, "byte by byte");
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        check("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
        check("event: x\r\ndata: é日本🙂\r\n\r\ndata: b\r\n\r\n", &[("x", "é日本🙂"), ("", "b")]);
        check("data: a\rdata: b\r\rdata: c\r\r", &[("", "a\nb"), ("", "c")]);
        check(": ping\n\ndata:no space\nid: 7\nretry: 9\n\n", &[("", "no space")]);
        check("\u{feff}data: a\n\ndata\n\n", &[("", "a"), ("", "")]);
        check("event: only\n\ndata: two\ndata:\ndata: lines", &[("", "two\n\nlines")]);
        check("", &[]);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_replaced() {
        let events = decode(&[b"data: caf\xe9\n\n", b"data: b\xff"]);
        assert_eq!(
            events,
            [("", "caf\u{fffd}"), ("", "b\u{fffd}")].map(|(e, d)| (e.into(), d.into()))
        );
    }

    #[test]
    fn a_stream_is_continued_where_it_ended() {
        let mut decoder = SseDecoder::with_limit(64);
        decoder.push(b"id: 7\nretry: 20\ndata:\n\ndata: {\"a\"").expect("it is text");
        decoder.continue_stream();
        assert_eq!(decoder.last_id(), Some("7"));
        assert_eq!(decoder.retry(), Some(Duration::from_millis(20)));
        let events = decoder.push(b"data: {}\n\n").expect("it is text");
        assert_eq!(events[0].data, "{}");
        decoder.push(b"id: 8\0\nid\nretry: soon\n\n").expect("it is text");
        assert_eq!((decoder.last_id(), decoder.retry()), (None, Some(Duration::from_millis(20))));
    }

    #[test]
    fn a_too_long_event_is_an_error() {
        let too_long = Err(SseError::TooLong { limit_bytes: 16 });
        let mut decoder = SseDecoder::with_limit(16);
        assert!(decoder.push(b"data: 0123456789").is_ok());
        assert_eq!(decoder.push(b"0"), too_long);
        let mut decoder = SseDecoder::with_limit(16);
        assert_eq!(decoder.push(b"data: 01234\ndata: 0123456789\n"), too_long);
        let mut decoder = SseDecoder::with_limit(16);
        let many = b"data: 01\n\n".repeat(9);
        assert_eq!(decoder.push(&many).map(|events| events.len()), Ok(9));
    }
}
