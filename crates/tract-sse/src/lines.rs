//! Lines of a stream of bytes.

use std::borrow::Cow;

use crate::SseError;

/// Splits bytes into lines, however they are cut. A line ends with LF, CR LF or a lone CR.
#[derive(Clone, Debug)]
pub struct Lines {
    limit_bytes: usize,
    line: Vec<u8>,
    /// Bytes of the lines before that still count.
    held: usize,
    after_cr: bool,
    begun: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl Lines {
    /// Makes a splitter with a limit on the bytes of a line plus those kept of earlier lines.
    pub fn with_limit(limit_bytes: usize) -> Self {
        Self { limit_bytes, line: Vec::new(), held: 0, after_cr: false, begun: false }
    }

    /// Returns the limit.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Takes bytes and passes each line that they complete on, which returns how many bytes of the
    /// lines so far are kept and count towards the limit.
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

    /// Returns what came after the last line end.
    pub fn end(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() { None } else { Some(self.text(&line).into_owned()) }
    }

    /// Decodes a line. The standard replaces bytes that are not UTF-8 by U+FFFD.
    fn text<'a>(&mut self, line: &'a [u8]) -> Cow<'a, str> {
        // A byte order mark may precede the first line.
        let is_first = !std::mem::replace(&mut self.begun, true);
        let mark = "\u{feff}".as_bytes();
        String::from_utf8_lossy(line.strip_prefix(mark).filter(|_| is_first).unwrap_or(line))
    }
}
