//! Splits a stream of bytes into lines.

use std::borrow::Cow;

use crate::SseError;

/// Splits chunks of bytes into lines. A line ends with LF, CR LF or a lone CR.
#[derive(Clone, Debug)]
pub struct Lines {
    limit_bytes: usize,
    line: Vec<u8>,
    /// Bytes of earlier lines that the caller still holds; they count towards the limit.
    held: usize,
    /// Whether the last byte was a CR, so that a following LF does not end another line.
    after_cr: bool,
    /// Whether a line was read, after which a byte order mark is part of the text.
    begun: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl Lines {
    /// Creates a splitter that buffers at most `limit_bytes` bytes, including the earlier lines
    /// that the caller still holds.
    pub fn with_limit(limit_bytes: usize) -> Self {
        Self { limit_bytes, line: Vec::new(), held: 0, after_cr: false, begun: false }
    }

    /// Returns the limit in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Calls `each` with every line that these bytes complete. It returns how many bytes of the
    /// lines read so far the caller still holds; they count towards the limit.
    ///
    /// # Errors
    /// [`SseError`], and the errors of `each`.
    pub fn push<E: From<SseError>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<usize, E>,
    ) -> Result<(), E> {
        for &byte in bytes {
            let ended_by_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if ended_by_cr => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    self.held = each(&self.text(&line))?;
                    self.line = line;
                    self.line.clear();
                }
                other => {
                    if self.line.len() + self.held >= self.limit_bytes {
                        return Err(SseError::TooLong { limit_bytes: self.limit_bytes }.into());
                    }
                    self.line.push(other);
                }
            }
        }
        Ok(())
    }

    /// Returns the unfinished last line, if the stream did not end with a line ending.
    pub fn end(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() { None } else { Some(self.text(&line).into_owned()) }
    }

    /// Returns a line as text. Bytes that are not UTF-8 become U+FFFD, as the SSE standard
    /// requires.
    fn text<'a>(&mut self, line: &'a [u8]) -> Cow<'a, str> {
        // A byte order mark may precede the first line.
        let is_first = !std::mem::replace(&mut self.begun, true);
        let mark = "\u{feff}".as_bytes();
        String::from_utf8_lossy(line.strip_prefix(mark).filter(|_| is_first).unwrap_or(line))
    }
}
