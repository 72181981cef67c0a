//! Conversations of a file that is read as a whole.

use std::collections::HashMap;
use std::io;

use serde_json::value::RawValue;
use tract_core::{Draft, Part};

use crate::damage::recover;
use crate::facts::Facts;
use crate::object::Object;
use crate::recording::{Cursor, RecordedMessage, Recording};
use crate::report::AnomalyKind;

/// Maximum size of a document in bytes: it is in memory as a whole.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 512 << 20;

/// A conversation of a document.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) recording: Recording,
    pub(crate) cursor: Cursor,
    pub(crate) facts: Facts,
}

impl Conversation {
    /// Adds a message after the ones so far.
    pub(crate) fn say(&mut self, id: Option<&str>, line: usize, draft: Draft) {
        let message = RecordedMessage { id: id.map(str::to_owned), line, draft };
        self.recording.append(&mut self.cursor, message);
    }
}

/// The conversations of a document.
pub(crate) type Document = Vec<Conversation>;

impl From<Conversation> for Document {
    fn from(conversation: Conversation) -> Self {
        vec![conversation]
    }
}

/// Reads an export: a list of conversations, or a single one. `take` fills a conversation from the
/// members of an object and returns `false` for any other object, which is reported as `odd`.
pub(crate) fn conversations(
    bytes: &[u8],
    odd: &str,
    take: impl Fn(&mut Conversation, &Object<'_>) -> bool,
) -> Result<Document, serde_json::Error> {
    let all: Vec<&RawValue> = match serde_json::from_slice(bytes) {
        Ok(list) => list,
        Err(_) => vec![serde_json::from_slice(bytes)?],
    };
    let mut document = Document::new();
    for (n, raw) in all.into_iter().enumerate() {
        let mut conversation = Conversation::default();
        if !Object::of(Some(raw)).is_some_and(|members| take(&mut conversation, &members)) {
            conversation.facts.session = Some(format!("conversation-{}", n + 1));
            conversation.recording.unreadable(n + 1, odd);
        }
        document.push(conversation);
    }
    Ok(document)
}

/// The names of conversations that are named after their lines.
#[derive(Debug, Default)]
pub(crate) struct LineNames(HashMap<usize, usize>);

impl LineNames {
    /// Returns the name of the next conversation of a line: `STEM-LINE`, and with its number for
    /// further ones of the line.
    pub(crate) fn next(&mut self, stem: &str, line: usize) -> String {
        let count = self.0.entry(line).or_default();
        *count += 1;
        match count {
            1 => format!("{stem}-{line}"),
            count => format!("{stem}-{line}-{count}"),
        }
    }
}

/// The steps of an assistant's message. Each is an answer with its results.
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) parts: Vec<Part>,
    pub(crate) results: Vec<Draft>,
    pub(crate) done: Vec<Draft>,
}

impl Steps {
    /// Ends a step.
    pub(crate) fn cut(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        if !parts.is_empty() {
            self.done.push(parts.into_iter().fold(Draft::assistant(""), Draft::part));
        }
        self.done.append(&mut self.results);
    }
}

/// The values of a file: one document, the elements of a list, or a value on each line.
#[derive(Debug, Default)]
pub(crate) struct Values<'a> {
    /// Each with its line, or its position in the list, from 1.
    pub(crate) values: Vec<(usize, &'a RawValue)>,
    /// The damage, each with its line.
    pub(crate) damage: Vec<(usize, AnomalyKind, String)>,
}

impl<'a> Values<'a> {
    /// Reads the values of a text. Of a damaged line, the intact objects that `is_record` accepts are
    /// read.
    ///
    /// # Errors
    /// When the text contains no JSON value.
    pub(crate) fn read(
        bytes: &'a [u8],
        is_record: impl Fn(&Object<'_>) -> bool,
    ) -> Result<Self, serde_json::Error> {
        if let Ok(list) = serde_json::from_slice::<Vec<&RawValue>>(bytes) {
            let values = list.into_iter().enumerate().map(|(n, raw)| (n + 1, raw)).collect();
            return Ok(Self { values, damage: Vec::new() });
        }
        let error = match serde_json::from_slice::<&RawValue>(bytes) {
            Ok(raw) => return Ok(Self { values: vec![(1, raw)], damage: Vec::new() }),
            Err(error) => error,
        };
        let is_record = |text: &str| Object::parse(text).is_some_and(|members| is_record(&members));
        let mut found = Self::default();
        for (n, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let number = n + 1;
            if let Ok(raw) = serde_json::from_slice(line) {
                found.values.push((number, raw));
                continue;
            }
            let text = std::str::from_utf8(line).unwrap_or_default();
            let recovered = recover(text, true, is_record);
            let records = recovered.records.iter();
            let records = records.filter_map(|record| serde_json::from_str(record).ok());
            found.values.extend(records.map(|raw| (number, raw)));
            found.damage.push(if recovered.records.is_empty() {
                (number, AnomalyKind::UnreadableLine, "a line that is not JSON".to_owned())
            } else {
                (number, AnomalyKind::DamagedLine, recovered.describe())
            });
        }
        if found.values.is_empty() { Err(error) } else { Ok(found) }
    }
}

/// Returns the JSON document at the start of a file with something after it that is not another one,
/// such as the end of a longer document that was there before.
pub(crate) fn leading_value(bytes: &[u8]) -> Option<&[u8]> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>();
    let is_document = |value: &RawValue| value.get().starts_with(['{', '[']);
    let first = values.next()?.ok()?;
    let end = values.byte_offset();
    // Documents after each other are lines.
    let is_last = !values.next().is_some_and(|next| next.is_ok_and(is_document));
    (is_document(first) && is_last).then(|| bytes.get(..end))?
}

/// Creates the error for a file without a conversation in the format. Does not quote the file.
pub(crate) fn unreadable(error: &serde_json::Error) -> io::Error {
    let (line, column) = (error.line(), error.column());
    if line == 0 {
        // An error of a reader, which names the member and quotes no value.
        let what = format!("the file is no document of the format: {error}");
        return io::Error::new(io::ErrorKind::InvalidData, what);
    }
    let kind =
        if error.is_eof() { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
    let what = if error.is_eof() { "ends too early" } else { "is no document of the format" };
    io::Error::new(kind, format!("the file {what}: line {line}, column {column}"))
}
