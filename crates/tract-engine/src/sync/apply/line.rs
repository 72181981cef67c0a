//! Lines: how a stream is read, and why one of them is refused.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use tract_core::step::StreamOp;

use crate::repo::error::LineError;

/// One line of a stream.
#[derive(Debug)]
pub struct StreamLine {
    /// Its number, from 1; blank lines count.
    pub line: usize,
    /// Its operation, or why it is none.
    pub step: Result<StreamOp, LineError>,
    /// Its length in bytes; 0 when it was not read from text.
    pub bytes: usize,
    /// Whether another line arrived with it, so that asking for that one does not wait.
    pub followed: bool,
}

impl StreamLine {
    /// Makes a line that does not wait for the next one.
    pub fn new(line: usize, step: Result<StreamOp, LineError>) -> Self {
        Self { line, step, bytes: 0, followed: false }
    }
}

/// Bytes in one line; what is longer is refused unread.
pub(crate) const MAX_LINE_BYTES: u64 = 512 << 20;

/// Bytes that are read at a time, where so many are there.
const READ_BYTES: usize = 256 << 10;

/// Reads a stream: one step a line. Blank lines are passed over, and so is a byte order mark at
/// the beginning. After a line that cannot be read from its source nothing more comes.
///
/// Each line says whether another one arrived with it. The reader is asked for more only when a
/// line is asked for and none is there.
pub fn read_lines(reader: impl Read) -> impl Iterator<Item = StreamLine> {
    Lines { reader: BufReader::with_capacity(READ_BYTES, reader), line: 0, ended: false }
}

struct Lines<R> {
    reader: BufReader<R>,
    line: usize,
    ended: bool,
}

impl<R: Read> Lines<R> {
    /// Whether a whole line that is not blank was read ahead. A blank one is passed over, and what
    /// comes after it may not be there yet.
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
