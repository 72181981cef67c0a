//! Lines of a stream of bytes.

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
    read: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl Lines {
    /// Makes lines that hold so many bytes at most, with what is kept of the lines before.
    pub fn with_limit(limit_bytes: usize) -> Self {
        let (line, held, read) = (Vec::new(), 0, 0);
        Self { limit_bytes, line, held, after_cr: false, begun: false, read }
    }

    /// Returns the limit.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Takes bytes and passes each line that they complete on, which returns how many bytes of the
    /// lines so far are kept and count towards the limit.
    ///
    /// # Errors
    /// [`SseError`], and what `each` returns.
    pub fn push<E: From<SseError>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<usize, E>,
    ) -> Result<(), E> {
        for &byte in bytes {
            self.read += 1;
            let ended_by_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if ended_by_cr => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    self.held = each(self.text(&line)?)?;
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
    ///
    /// # Errors
    /// [`SseError::NotUtf8`].
    pub fn end(&mut self) -> Result<Option<String>, SseError> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() { Ok(None) } else { Ok(Some(self.text(&line)?.to_owned())) }
    }

    fn text<'a>(&mut self, line: &'a [u8]) -> Result<&'a str, SseError> {
        let text =
            std::str::from_utf8(line).map_err(|_| SseError::NotUtf8 { before: self.read })?;
        // A byte order mark may precede the first line.
        if std::mem::replace(&mut self.begun, true) {
            Ok(text)
        } else {
            Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
        }
    }
}
