//! Reads a file line by line: memory holds one line, for any file size.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::damage::reject_other_encodings;

/// Maximum length of a line in bytes. Longer lines are skipped: no message may be that large.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 20;

/// One line of a file.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// Its bytes, without the line end. `ended` is false if the file stops within the line.
    Whole { bytes: &'a [u8], ended: bool },
    /// It is longer than [`MAX_LINE_BYTES`].
    TooLong,
}

/// Reads lines into a reused buffer.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    /// Reads the next line; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let length = (&mut self.reader).take(limit).read_until(b'\n', &mut self.buffer)?;
        if length == 0 {
            return Ok(None);
        }
        let ended = self.buffer.last() == Some(&b'\n');
        if !ended && length > MAX_LINE_BYTES {
            self.buffer = Vec::new();
            self.skip_line()?;
            return Ok(Some(Line::TooLong));
        }
        let bytes = self.buffer.trim_ascii_end();
        Ok(Some(Line::Whole { bytes, ended }))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                return Ok(());
            }
            let (used, found) = match available.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (available.len(), false),
            };
            self.reader.consume(used);
            if found {
                return Ok(());
            }
        }
    }
}

/// The first bytes of a file that is compressed with zstd.
pub(crate) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Formats of packed files that are not read: their first bytes, names and the commands that unpack
/// them.
const PACKED: [(&[u8], &str, &str); 4] = [
    (b"\x1f\x8b", "a gzip file", "gunzip"),
    (b"PK\x03\x04", "a zip file", "unzip"),
    (b"BZh", "a bzip2 file", "bunzip2"),
    (b"\xfd7zXZ\0", "an xz file", "unxz"),
];

/// Returns the name of the format of a packed file that is not read, by its first bytes, and the
/// command that unpacks it.
pub(crate) fn packed_format(start: &[u8]) -> Option<(&'static str, &'static str)> {
    let found = PACKED.iter().find(|(begin, ..)| start.starts_with(begin));
    found.map(|(_, name, command)| (*name, *command))
}

/// Opens a text, which may be compressed with zstd.
///
/// # Errors
/// When it cannot be read, is in UTF-16, or is packed in another format.
pub(crate) fn open_text(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let start = file.fill_buf()?;
    reject_other_encodings(start)?;
    if let Some((name, command)) = packed_format(start) {
        let what = format!("it is {name}: unpack it with `{command}`, and import the files in it");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    if !start.starts_with(&ZSTD) {
        return Ok(Box::new(file));
    }
    decompressed(file)
}

#[cfg(feature = "zstd")]
fn decompressed(file: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(file)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, decoder)))
}

#[cfg(not(feature = "zstd"))]
fn decompressed(_file: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let what = "compressed with zstd, which this build does not read (feature `zstd`)";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_the_file_or_a_newline_and_a_huge_one_is_passed_over() {
        let mut bytes = b"one\r\n\n".to_vec();
        bytes.resize(bytes.len() + MAX_LINE_BYTES + 10, b'x');
        bytes.extend(b"\ntorn");
        let mut lines = Lines::new(io::Cursor::new(&bytes));
        let mut found = Vec::new();
        while let Some(line) = lines.next().expect("it reads") {
            found.push(match line {
                Line::Whole { bytes, ended } => {
                    (String::from_utf8_lossy(bytes).into_owned(), ended)
                }
                Line::TooLong => ("too long".to_owned(), true),
            });
        }
        let expected = [("one", true), ("", true), ("too long", true), ("torn", false)];
        assert_eq!(found, expected.map(|(text, ended)| (text.to_owned(), ended)));
    }
}
