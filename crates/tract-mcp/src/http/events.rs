//! Server-sent events, however their bytes are cut, of bounded length.

use std::time::Duration;

/// An event is longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Decodes a stream of events that each carry a message.
#[derive(Debug)]
pub(super) struct Events {
    limit_bytes: usize,
    line: Vec<u8>,
    after_cr: bool,
    /// Nothing of the stream was read yet, so a byte order mark may come.
    at_start: bool,
    /// Whether the event is named so that it is no message.
    is_other: bool,
    data: Option<Vec<u8>>,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl Events {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            is_other: false,
            data: None,
            last_id: None,
            retry: None,
        }
    }

    /// Takes bytes and returns the messages that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, TooLong> {
        let mut found = Vec::new();
        for &byte in bytes {
            let ended_by_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if ended_by_cr => {}
                b'\n' | b'\r' => found.extend(self.end_of_line()),
                byte => {
                    let held = self.data.as_ref().map_or(0, Vec::len);
                    if self.line.len() + held >= self.limit_bytes {
                        return Err(TooLong);
                    }
                    self.line.push(byte);
                }
            }
        }
        Ok(found)
    }

    /// Continues with another stream after the last event id of this one; a message that was not
    /// whole is dropped.
    pub(super) fn continue_stream(&mut self) {
        let next = Self::new(self.limit_bytes);
        *self = Self { last_id: self.last_id.take(), retry: self.retry, ..next };
    }

    /// Where the stream can be taken up again.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server wants us to wait before that.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn end_of_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if std::mem::replace(&mut self.at_start, false) {
            bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        }
        if bytes.is_empty() {
            let is_other = std::mem::replace(&mut self.is_other, false);
            let data = self.data.take().filter(|data| !is_other && !data.is_empty())?;
            return Some(String::from_utf8_lossy(&data).into_owned());
        }
        let (name, value) = match bytes.iter().position(|byte| *byte == b':') {
            Some(colon) => bytes.split_at(colon),
            None => (bytes, &b""[..]),
        };
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.is_other = !matches!(value, b"" | b"message"),
            b"id" if !value.contains(&0) => {
                let id = String::from_utf8_lossy(value).into_owned();
                self.last_id = Some(id).filter(|id| !id.is_empty());
            }
            b"retry" => {
                let text = std::str::from_utf8(value).ok();
                let millis = text.and_then(|text| text.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            // Comments have no name.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        for cut in 0..=stream.len() {
            let (a, b) = stream.as_bytes().split_at(cut);
            let mut events = Events::new(64);
            let mut found = events.push(a).unwrap();
            found.extend(events.push(b).unwrap());
            assert_eq!(found, expected, "cut at {cut}");
        }
    }

    #[test]
    fn messages_are_the_same_however_they_are_cut() {
        check("data: {\"é\":1}\n\ndata: {}\n\n", &["{\"é\":1}", "{}"]);
        check("event: message\r\nid: 7\r\ndata: {\r\ndata: }\r\n\r\n", &["{\n}"]);
        check(": hello\r\rdata:{}\r\r", &["{}"]);
        check("\u{feff}data: {}\n\nid: 8\ndata:\n\n", &["{}"]);
        check("event: ping\ndata: {}\n\ndata: []\n\n", &["[]"]);
        check("data: not whole", &[]);
    }

    #[test]
    fn a_stream_is_taken_up_where_it_ended() {
        let mut events = Events::new(64);
        events.push(b"id: 7\nretry: 20\ndata:\n\ndata: {\"a\"").unwrap();
        events.continue_stream();
        assert_eq!(
            (events.last_id(), events.retry()),
            (Some("7"), Some(Duration::from_millis(20)))
        );
        assert_eq!(events.push(b"data: {}\n\n").unwrap(), ["{}"]);
    }

    #[test]
    fn what_is_too_long_is_an_error() {
        let mut events = Events::new(16);
        assert!(events.push(b"data: 0123456789").is_ok());
        assert_eq!(events.push(b"0"), Err(TooLong));
        let mut events = Events::new(16);
        assert_eq!(events.push(b"data: 01234\ndata: 0123456789\n"), Err(TooLong));
    }
}
