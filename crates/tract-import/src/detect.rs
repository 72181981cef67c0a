//! Detects the kind of a file by its bytes.

mod unknown;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::value::RawValue;

use tract_core::json;

pub use self::unknown::UnknownFile;
use crate::damage::{recover, reject_other_encodings};
use crate::document::{MAX_DOCUMENT_BYTES, leading_value};
use crate::lines::{ZSTD, open_text, packed_format};
use crate::object::Object;
use crate::readers::{DocumentShape, SessionReader, Source};
use crate::source::{head, is_database};
use crate::values::lenient;

/// Maximum number of lines that are checked.
const LINES: usize = 20;

/// The kind of a file, by its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file of this tool.
    Source(Source),
    /// Provider requests or lists of their messages: a document, or one per line.
    Conversations,
    /// Neither.
    Unknown(UnknownFile),
}

/// Returns the tool that wrote a file; `None` if its bytes do not identify one, as with provider
/// requests.
///
/// # Errors
/// When the file cannot be read.
pub fn detect(path: &Path) -> io::Result<Option<Source>> {
    match by_bytes(path)? {
        BytesKind::Source(source) => Ok(Some(source)),
        BytesKind::Text(_) | BytesKind::Unknown(_) => Ok(None),
    }
}

/// Returns the kind of a file, with a description if there is no reader for it.
///
/// # Errors
/// When the file cannot be read.
pub fn recognize(path: &Path) -> io::Result<FileKind> {
    match by_bytes(path)? {
        BytesKind::Source(source) => Ok(FileKind::Source(source)),
        BytesKind::Text(head) => unknown::text(path, &head),
        BytesKind::Unknown(describe) => Ok(FileKind::Unknown(describe(path))),
    }
}

/// The kind of a file by its first bytes.
enum BytesKind {
    Source(Source),
    /// The start of a text that no known tool wrote.
    Text(String),
    Unknown(fn(&Path) -> UnknownFile),
}

fn by_bytes(path: &Path) -> io::Result<BytesKind> {
    if path.is_dir() {
        let source = Source::find(|reader| is_recording_folder(reader, path));
        return Ok(source.map_or(BytesKind::Unknown(unknown::folder), BytesKind::Source));
    }
    let mut bytes = [0; 16];
    let count = File::open(path)?.read(&mut bytes)?;
    let start = bytes.get(..count).unwrap_or_default();
    if start.starts_with(b"SQLite format 3\0") {
        return Ok(
            of_database(path).map_or(BytesKind::Unknown(unknown::database), BytesKind::Source)
        );
    }
    if let Some(source) = Source::find(|reader| (reader.is_binary)(start, path)) {
        return Ok(BytesKind::Source(source));
    }
    if packed_format(start).is_some() {
        return Ok(BytesKind::Unknown(unknown::packed));
    }
    reject_other_encodings(start)?;
    let head = head(path)?;
    let lines = || head.lines().take(LINES);
    let damaged = |line| recover(line, true, |_| true).records.into_iter().find_map(of_line);
    if let Some(source) = lines().find_map(of_line).or_else(|| lines().find_map(damaged)) {
        return Ok(BytesKind::Source(source));
    }
    if let Some(source) = Source::find(|reader| (reader.is_text)(&head)) {
        return Ok(BytesKind::Source(source));
    }
    // A document may have its identifying members anywhere, so read it as a whole. Not for files
    // named like lines.
    let is_lines = path.extension().is_some_and(|end| end == "jsonl");
    let is_document = !is_lines && head.trim_start().starts_with(['{', '[']);
    let mut bytes = Vec::new();
    if is_document {
        open_text(path)?.take(MAX_DOCUMENT_BYTES).read_to_end(&mut bytes)?;
    }
    let source = of_document(json::decode(&bytes).text.as_bytes());
    Ok(match source {
        Some(source) => BytesKind::Source(source),
        // Only the files of tools are decompressed.
        None if start.starts_with(&ZSTD) => BytesKind::Unknown(unknown::packed),
        None => BytesKind::Text(head),
    })
}

/// Returns whether the files of a folder are one recording of the tool.
pub(crate) fn is_recording_folder(reader: &SessionReader, folder: &Path) -> bool {
    (reader.folder_of)(folder).is_some_and(|read| read == folder)
}

/// Returns whether a file is a readable database that was not written by a tool.
pub(crate) fn is_other_database(path: &Path, source: Source) -> bool {
    is_database(path).unwrap_or_default()
        && unknown::has_tables(path)
        && of_database(path) != Some(source)
}

fn of_database(path: &Path) -> Option<Source> {
    Source::find(|reader| (reader.is_database)(path))
}

fn of_line(line: &str) -> Option<Source> {
    let find = |line: &str| {
        let members = Object::parse(line)?;
        Source::find(|reader| (reader.is_line)(&members, line))
    };
    find(line).or_else(|| find(&json::without_repeated_keys(line)?))
}

fn of_document(bytes: &[u8]) -> Option<Source> {
    let raw: &RawValue = match serde_json::from_slice(bytes) {
        Ok(raw) => raw,
        Err(_) => serde_json::from_slice(leading_value(bytes)?).ok()?,
    };
    let list = lenient::<Vec<&RawValue>>(Some(raw));
    let is_list = list.is_some();
    let members = Object::of(Some(raw)).unwrap_or_default();
    let entries = list.unwrap_or_else(|| members.list("messages"));
    let first = match is_list {
        true => entries.first().and_then(|raw| Object::of(Some(raw))).unwrap_or_default(),
        false => members,
    };
    let document = DocumentShape { raw, first, entries, is_list };
    let source = Source::find(|reader| (reader.is_document)(&document));
    if source.is_some() || !is_list || tract_providers::detect(raw.get()).is_some() {
        return source;
    }
    // The first element may be empty or damaged.
    document.entries.iter().skip(1).find_map(|raw| {
        let first = Object::of(Some(raw))?;
        let document = DocumentShape { raw, first, entries: vec![raw], is_list };
        Source::find(|reader| (reader.is_document)(&document))
    })
}
