//! Server-sent events: bytes in, events out.

use super::StreamError;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent {
    /// What the `event` field says; empty when it says nothing.
    pub event: String,
    /// The lines of `data`, joined by newlines.
    pub data: String,
}

/// Splits bytes into lines, however they are cut. A line ends with LF, CR LF or a lone CR.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
    after_cr: bool,
    begun: bool,
    read: u64,
}

impl Lines {
    /// Takes bytes and hands over every line that they complete.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        for &byte in bytes {
            self.read += 1;
            let ended_by_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if ended_by_cr => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    each(self.text(&line)?)?;
                    self.line = line;
                    self.line.clear();
                }
                other => self.line.push(other),
            }
        }
        Ok(())
    }

    /// Takes what comes after the last line end.
    pub(crate) fn end(&mut self) -> Result<Option<String>, StreamError> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() { Ok(None) } else { Ok(Some(self.text(&line)?.to_owned())) }
    }

    fn text<'a>(&mut self, line: &'a [u8]) -> Result<&'a str, StreamError> {
        let text =
            std::str::from_utf8(line).map_err(|_| StreamError::NotUtf8 { before: self.read })?;
        // A byte order mark may precede the first line.
        if std::mem::replace(&mut self.begun, true) {
            Ok(text)
        } else {
            Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
        }
    }
}

/// Decodes server-sent events, however the bytes are cut.
///
/// # Behavior
/// - Lines end with LF, CR LF or CR; a leading byte order mark is left out.
/// - Lines of `data` are joined by newlines; comments and unknown fields are left out.
/// - An event without `data` is none.
/// - A stream that ends without the blank line still gives its last event, by [`end`](Self::end).
///
/// ```
/// use tract_providers::stream::SseDecoder;
/// let mut decoder = SseDecoder::new();
/// assert!(decoder.push(b": hello\r\ndata: {\"a\":\r")?.is_empty());
/// let events = decoder.push(b"\ndata: 1}\r\n\r\n")?;
/// assert_eq!(events[0].data, "{\"a\":\n1}");
/// # Ok::<(), tract_providers::stream::StreamError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SseDecoder {
    lines: Lines,
    event: String,
    data: Option<String>,
}

impl SseDecoder {
    /// Makes a decoder at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes and returns the events that they complete.
    ///
    /// # Errors
    /// [`StreamError::NotUtf8`] when a line is no UTF-8.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, StreamError> {
        let mut events = Vec::new();
        let Self { lines, event, data } = self;
        lines.push(bytes, |line| {
            events.extend(field(line, event, data));
            Ok(())
        })?;
        Ok(events)
    }

    /// Returns the last event, when the stream ended without a blank line after it.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn end(&mut self) -> Result<Option<SseEvent>, StreamError> {
        if let Some(line) = self.lines.end()? {
            field(&line, &mut self.event, &mut self.data);
        }
        Ok(field("", &mut self.event, &mut self.data))
    }
}

/// Takes one line; a blank one completes an event.
fn field(line: &str, event: &mut String, data: &mut Option<String>) -> Option<SseEvent> {
    if line.is_empty() {
        let event = std::mem::take(event);
        return data.take().map(|data| SseEvent { event, data });
    }
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    let value = value.strip_prefix(' ').unwrap_or(value);
    match name {
        "event" => value.clone_into(event),
        "data" => match data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => *data = Some(value.to_owned()),
        },
        // Comments have no name; ids and retry times are for browsers.
        _ => {}
    }
    None
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
        events.extend(decoder.end().expect("it is text"));
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
    fn bytes_that_are_no_text_are_reported() {
        let mut decoder = SseDecoder::new();
        let found = decoder.push(b"data: \xff\n\n");
        assert!(matches!(found, Err(StreamError::NotUtf8 { before: 8 })), "{found:?}");
    }
}
