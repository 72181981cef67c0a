//! Conversations of a file that is read as a whole.

use std::io;

use tract_core::Draft;

use crate::facts::Facts;
use crate::recording::{Cursor, RecordedMessage, Recording};

/// Bytes of a document at most: it is in memory as a whole.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 512 << 20;

/// A conversation as a document has it.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) recording: Recording,
    pub(crate) cursor: Cursor,
    pub(crate) facts: Facts,
}

impl Conversation {
    /// Says a message after what was said.
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

/// Reports a file that has no conversation in the format, without quoting it.
pub(crate) fn unreadable(error: &serde_json::Error) -> io::Error {
    let (line, column) = (error.line(), error.column());
    let kind =
        if error.is_eof() { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
    let what = if error.is_eof() { "ends too early" } else { "is no document of the format" };
    io::Error::new(kind, format!("the file {what}: line {line}, column {column}"))
}
