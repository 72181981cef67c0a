//! Lines of a stream, and how they are read.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use tract_core::stream::StreamOp;

use crate::repo::error::LineError;

/// One line of a stream.
#[derive(Debug)]
pub struct StreamLine {
    /// The line number, from 1; blank lines count.
    pub line: usize,
    /// The operation, or the reason why the line is invalid.
    pub step: Result<StreamOp, LineError>,
    /// The length in bytes; 0 if the line was not read from text.
    pub bytes: usize,
    /// Whether another line arrived with it, so that reading that one does not block.
    pub followed: bool,
}

impl StreamLine {
    /// Creates a line that does not wait for the next one.
    pub fn new(line: usize, step: Result<StreamOp, LineError>) -> Self {
        Self { line, step, bytes: 0, followed: false }
    }
}

/// Maximum length of a line in bytes. A longer line is refused, and reading stops.
pub(crate) const MAX_LINE_BYTES: u64 = 512 << 20;

/// Size of the read buffer in bytes.
const READ_BYTES: usize = 256 << 10;

/// Reads a stream of one operation per line. Skips blank lines and a leading byte order mark. Ends
/// after the first line that cannot be read from the source.
///
/// Each line states whether another one arrived with it. The reader is asked for more data only if
/// a line is requested and none is buffered.
pub fn read_lines(reader: impl Read) -> impl Iterator<Item = StreamLine> {
    Lines { reader: BufReader::with_capacity(READ_BYTES, reader), line: 0, ended: false }
}

struct Lines<R> {
    reader: BufReader<R>,
    line: usize,
    ended: bool,
}

impl<R: Read> Lines<R> {
    /// Returns whether a complete line that is not blank is buffered. Blank lines do not count,
    /// because the line after them may not have arrived yet.
    fn has_line(&self) -> bool {
        let mut rest = self.reader.buffer();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, tail) = rest.split_at(end);
            if !line.iter().all(u8::is_ascii_whitespace) {
                return true;
            }
            rest = tail.get(1..).unwrap_or_default();
        }
        false
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = StreamLine;

    fn next(&mut self) -> Option<StreamLine> {
        while !self.ended {
            let mut bytes = Vec::new();
            self.line += 1;
            let read = (&mut self.reader).take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
            let step = match read {
                Ok(0) => return None,
                Ok(_) if bytes.len() as u64 > MAX_LINE_BYTES => {
                    self.ended = true;
                    let what = format!("it is longer than {MAX_LINE_BYTES} bytes");
                    Err(LineError::Read(std::io::Error::new(ErrorKind::InvalidData, what)))
                }
                Ok(_) => match std::str::from_utf8(&bytes) {
                    Ok(text) => {
                        let marked = text.strip_prefix('\u{feff}').filter(|_| self.line == 1);
                        match marked.unwrap_or(text).trim() {
                            "" => continue,
                            text => StreamOp::parse(text).map_err(LineError::Step),
                        }
                    }
                    Err(error) => {
                        let error = std::io::Error::new(ErrorKind::InvalidData, error);
                        Err(LineError::Read(error))
                    }
                },
                Err(error) => {
                    self.ended = true;
                    Err(LineError::Read(error))
                }
            };
            let followed = !self.ended && self.has_line();
            return Some(StreamLine { line: self.line, step, bytes: bytes.len(), followed });
        }
        None
    }
}
