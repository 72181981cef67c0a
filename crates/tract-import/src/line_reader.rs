//! The interface of readers of line-based formats.

use crate::facts::Facts;
use crate::recording::Recording;

/// A reader of a line-based format.
pub(crate) trait LineReader {
    /// Returns the recording so far.
    fn recording(&mut self) -> &mut Recording;

    /// Reads a line.
    ///
    /// # Errors
    /// When the line is not JSON of the format.
    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error>;

    /// Returns whether an object is a record of the format, by its members. Used to recover records
    /// from damaged lines.
    fn is_record(text: &str) -> bool
    where
        Self: Sized;

    /// Ends the file. Returns the facts about the conversation.
    fn finish(&mut self) -> Facts;
}
