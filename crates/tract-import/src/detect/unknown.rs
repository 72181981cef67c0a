//! Describes files that no reader accepts.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tract_core::json;
use tract_providers::{ConversationReader, ImportError};

use super::{FileKind, LINES, detect};
use crate::damage::records_of_line;
use crate::document::MAX_DOCUMENT_BYTES;
use crate::lines::packed_format;
use crate::readers::Source;
use crate::source::MAX_DEPTH;
use crate::values::lenient;

/// Maximum number of members, tables or tools that a message lists.
const LISTED: usize = 8;
/// Maximum length of a listed name, in characters.
const NAME_CHARS: usize = 40;
/// Maximum number of files of a folder that are checked for their tools.
const FOLDER_FILES: usize = 500;

/// A file that no reader accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFile {
    /// Its likely kind, as in "a SQLite database with the tables cookies, meta".
    pub what: String,
    /// Hints for importing it, or the supported tools.
    pub notes: Vec<String>,
}

impl UnknownFile {
    pub(super) fn new(what: impl Into<String>) -> Self {
        let words: Vec<&str> = Source::ALL.iter().map(|source| source.as_str()).collect();
        let note = format!("tools whose files are read: {}", words.join(", "));
        Self { what: what.into(), notes: vec![note] }
    }

    fn noting(what: impl Into<String>, note: impl Into<String>) -> Self {
        Self { what: what.into(), notes: vec![note.into()] }
    }
}

/// Describes a file that has to be unpacked.
pub(super) fn packed(path: &Path) -> UnknownFile {
    let mut start = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    let start = start.get(..read.unwrap_or_default()).unwrap_or_default();
    let (name, command) = packed_format(start).unwrap_or(("a zstd file", "unzstd"));
    UnknownFile::noting(name, format!("unpack it with `{command}`, and import the files in it"))
}

/// Describes a folder by the tools whose files it contains.
pub(super) fn folder(path: &Path) -> UnknownFile {
    let mut found = BTreeMap::new();
    let mut left = FOLDER_FILES;
    count_sources(path, MAX_DEPTH, &mut left, &mut found);
    if found.is_empty() {
        let words: Vec<&str> = Source::ALL.iter().map(|source| source.as_str()).collect();
        let note = format!("name the files, or the tool before the folder: {}", words.join(", "));
        return UnknownFile::noting("a folder without files of a known tool", note);
    }
    let shown: Vec<String> =
        found.iter().map(|(source, count)| format!("{count} of {}", source.title())).collect();
    let notes = found.keys().take(LISTED);
    let path = quoted(path);
    let notes = notes.map(|source| format!("tract import {source} {path}")).collect();
    UnknownFile { what: format!("a folder with files: {}", shown.join(", ")), notes }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:@".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn count_sources(
    folder: &Path,
    depth: usize,
    left: &mut usize,
    found: &mut BTreeMap<Source, usize>,
) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(file) = fs::symlink_metadata(&path) else { continue };
        if file.is_file() || (file.is_dir() && is_recording(&path)) {
            if let Ok(Some(source)) = detect(&path) {
                *found.entry(source).or_default() += 1;
            }
        } else if file.is_dir() && depth > 0 {
            count_sources(&path, depth - 1, left, found);
        }
    }
}

/// Returns whether the files of a folder are one recording of a tool.
fn is_recording(folder: &Path) -> bool {
    Source::find(|reader| super::is_recording_folder(reader, folder)).is_some()
}

/// Returns whether a database can be opened and has tables.
#[cfg(any(feature = "databases", feature = "python"))]
pub(super) fn has_tables(path: &Path) -> bool {
    let Ok(database) = crate::sqlite::open(path) else { return false };
    crate::sqlite::tables(&database).is_ok_and(|tables| !tables.is_empty())
}

#[cfg(not(any(feature = "databases", feature = "python")))]
pub(super) fn has_tables(_path: &Path) -> bool {
    false
}

/// Describes a database by its tables.
#[cfg(any(feature = "databases", feature = "python"))]
pub(super) fn database(path: &Path) -> UnknownFile {
    let Ok(tables) = crate::sqlite::open(path)
        .map_err(|_| ())
        .and_then(|database| crate::sqlite::tables(&database).map_err(|_| ()))
    else {
        return UnknownFile::new("a SQLite database that cannot be opened");
    };
    let names: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return UnknownFile::new("a SQLite database without tables");
    }
    let what = format!("a SQLite database of an unknown kind, with {}", listed("table", &names));
    let mut unknown = UnknownFile::new(what);
    if ["commits", "refs"].iter().all(|name| names.contains(name)) {
        let python = "a database of the Python version of tract is read with --format python-tract";
        unknown.notes.push(python.to_owned());
    }
    unknown
}

#[cfg(not(any(feature = "databases", feature = "python")))]
pub(super) fn database(_path: &Path) -> UnknownFile {
    UnknownFile::noting("a SQLite database", "this build reads no databases")
}

/// Describes a text file that no known tool wrote, unless it contains provider requests or lists of
/// their messages.
pub(super) fn text(path: &Path, head: &str) -> io::Result<FileKind> {
    let begins = |line: &str| line.trim_start().starts_with(['{', '[']);
    if head.trim().is_empty() {
        return Ok(FileKind::Conversations);
    }
    if !head.lines().take(LINES).any(begins) {
        let unknown = match is_binary(path)? {
            true => UnknownFile::new("a binary file of an unknown kind"),
            false => UnknownFile::new("a text that is not JSON"),
        };
        return Ok(FileKind::Unknown(unknown));
    }
    // Read the whole first line, unless the file is one document that spans several lines.
    let mut reader = BufReader::new(File::open(path)?.take(MAX_DOCUMENT_BYTES));
    let mut bytes = Vec::new();
    let mut blank_lines = 0;
    while bytes.trim_ascii().is_empty() {
        blank_lines += usize::from(!bytes.is_empty());
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(FileKind::Conversations);
        }
    }
    let is_json = |text: &str| json::check(text.trim()).is_ok();
    let first = json::decode(bytes.trim_ascii()).text.into_owned();
    if is_json(&first) {
        // Further lines count too, except for the last of those read, which may be cut off.
        let lines = head.lines().skip_while(|line| line.trim().is_empty()).skip(1).take(LINES);
        let lines: Vec<&str> = lines.filter(|line| is_json(line)).collect();
        if is_conversation(&first) || lines.iter().any(|line| is_conversation(line)) {
            return Ok(FileKind::Conversations);
        }
        return Ok(FileKind::Unknown(document(&first, !lines.is_empty())));
    }
    reader.read_to_end(&mut bytes)?;
    let whole = json::decode(&bytes).text;
    if is_json(&whole) {
        return Ok(match is_conversation(&whole) {
            true => FileKind::Conversations,
            false => FileKind::Unknown(document(&whole, false)),
        });
    }
    // Damaged lines are reported individually, except for those of a damaged document.
    let is_lines = path.extension().is_some_and(|end| end == "jsonl");
    let has_record = |line: &str| is_json(line) || records_of_line(line.trim()).is_some();
    if !is_lines && !whole.lines().filter(|line| begins(line)).any(has_record) {
        let error = serde_json::from_str::<IgnoredAny>(&whole).err();
        return Ok(FileKind::Unknown(UnknownFile::new(match error {
            Some(error) if error.is_eof() => "a JSON document that ends too early".to_owned(),
            error => format!(
                "a JSON document with an error in line {}",
                blank_lines + error.map_or(1, |error| error.line())
            ),
        })));
    }
    Ok(FileKind::Conversations)
}

/// Returns whether a file starts with bytes that do not occur in text.
fn is_binary(path: &Path) -> io::Result<bool> {
    const LOOKED_AT: u64 = 1 << 10;
    let mut bytes = Vec::new();
    File::open(path)?.take(LOOKED_AT).read_to_end(&mut bytes)?;
    // The last character may be cut off.
    let is_damaged = std::str::from_utf8(&bytes).is_err_and(|error| error.error_len().is_some());
    Ok(is_damaged || bytes.contains(&0))
}

fn is_conversation(text: &str) -> bool {
    // The result of a request that failed has no dialect, and is reported with its line.
    let is_failure =
        || matches!(ConversationReader::new(text, None), Err(ImportError::NoAnswer { .. }));
    tract_providers::detect(text).is_some()
        || tract_providers::listed_conversations(text).is_some()
        || tract_providers::har_exchanges(text).is_some()
        || is_failure()
}

/// Describes a document by its members.
fn document(text: &str, has_more: bool) -> UnknownFile {
    if tract_providers::PriceTable::parse(text).is_ok() {
        let note = "`tract usage` and `tract why-miss` read it with --prices FILE";
        return UnknownFile::noting("a table of prices", note);
    }
    let more = if has_more { ", and more lines" } else { "" };
    let known = known(text).map(|name| format!("{name}: ")).unwrap_or_default();
    let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(text) else {
        return match lenient::<BTreeMap<String, &RawValue>>(serde_json::from_str(text).ok()) {
            Some(members) => {
                let names: Vec<&str> = members.keys().map(String::as_str).collect();
                let members = listed("member", &names);
                UnknownFile::new(format!("{known}a JSON object with {members}{more}"))
            }
            None => UnknownFile::new(format!("a JSON value that is not a conversation{more}")),
        };
    };
    let Some(first) = list.first() else {
        return UnknownFile::new("an empty JSON list");
    };
    let Some(members) = lenient::<BTreeMap<String, &RawValue>>(Some(first)) else {
        return UnknownFile::new(format!("a JSON list whose first element is not an object{more}"));
    };
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    let members = listed("member", &names);
    UnknownFile::new(format!("{known}a JSON list whose first element has {members}{more}"))
}

/// Known formats that are not supported, by members that identify them.
const KNOWN: [(&[&str], &str); 5] = [
    (&["resourceSpans"], "spans of OpenTelemetry"),
    (&["observations", "input", "timestamp"], "traces of Langfuse"),
    (&["run_type", "inputs"], "runs of LangSmith"),
    (&["blocks", "role"], "messages of LlamaIndex"),
    (&["chat_history", "role"], "a chat of Cohere"),
];

fn known(text: &str) -> Option<&'static str> {
    let list: Option<Vec<&RawValue>> = serde_json::from_str(text).ok();
    let first = match &list {
        Some(list) => list.first()?.get(),
        None => text,
    };
    let members = json::split_object(first).ok()?;
    let has = |name: &&str| members.iter().any(|(member, _)| member == *name);
    KNOWN.iter().find(|(names, _)| names.iter().all(has)).map(|(_, what)| *what)
}

/// Lists names of one kind, cut after the first few.
fn listed(kind: &str, names: &[&str]) -> String {
    let short = |name: &&str| -> String {
        let short: String = name.chars().take(NAME_CHARS).collect();
        if short.len() < name.len() { format!("{short:?}…") } else { format!("{short:?}") }
    };
    let shown: Vec<String> = names.iter().take(LISTED).map(short).collect();
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match names.len() {
        0 => format!("no {kind}s"),
        1 => format!("the {kind} {}", shown.join(", ")),
        _ => format!("the {kind}s {}{more}", shown.join(", ")),
    }
}
