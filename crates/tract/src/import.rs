//! Recorded conversations in: from a provider's text to what the engine stores; and out again, in
//! the formats of other tools.

use serde::Serialize;
use tract_core::JsonText;

use crate::error::Result;
pub use tract_engine::{
    ImportAnomaly, ImportConversation, ImportOptions, ImportStatus, Imported, Importer,
};
#[cfg(all(feature = "import", feature = "sqlite"))]
pub use tract_import::python;
#[cfg(feature = "import")]
pub use tract_import::{
    Anomalies, AnomalyKind, AnswerUsage, BranchStart, Error as RecordingError, ExportedSession,
    ImportCache, RecordedBranch, RecordingAnomaly, RecordingOptions, SessionFile, SessionFilter,
    SessionFormat, SessionReport, Source, TokenTotals, UnknownFormat, UnknownSource,
    detect as detect_source, export_session, import as import_files,
    import_cached as import_files_cached, session_files, usage,
};
pub use tract_providers::{Anomaly, ConversationReader, Dialect, ImportError, detect};

/// A conversation that was read and is not yet stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Read {
    /// The content of the engine.
    pub conversation: ImportConversation,
    /// The dialect that it is in.
    pub dialect: Dialect,
    /// Anomalies, kept as recorded.
    pub anomalies: Vec<Anomaly>,
}

/// Makes what is kept with a conversation, under `imports/<id>`.
fn sidecar(dialect: Dialect, line: &JsonText, parameters: &JsonText) -> Result<JsonText> {
    #[derive(Serialize)]
    struct Sidecar<'a> {
        dialect: &'a str,
        line: &'a JsonText,
        parameters: &'a JsonText,
    }
    Ok(JsonText::of(&Sidecar { dialect: dialect.as_str(), line, parameters })?)
}

/// Reads one conversation: a provider's request, an object with `messages` and `tools`, a list of
/// messages, or a recording that holds such a request. Its name is its own `id`, else
/// `fallback_id`.
///
/// Model and parameters of the request are kept next to the history, not in it, so that equal
/// beginnings of two conversations are equal commits.
///
/// ```
/// let line = r#"{"id":"chat-7","messages":[{"role":"user","content":"Hi"}]}"#;
/// let read = tract::import::read(line, None, "file-1")?;
/// assert_eq!(read.conversation.id, "chat-7");
/// assert_eq!(read.conversation.drafts.len(), 1);
/// # Ok::<(), tract::Error>(())
/// ```
///
/// # Errors
/// [`Error::Import`](crate::Error::Import) naming the place in the text.
pub fn read(text: &str, dialect: Option<Dialect>, fallback_id: &str) -> Result<Read> {
    let found = tract_providers::ProviderConversation::read(text, dialect)?;
    let id = found.id.unwrap_or_else(|| fallback_id.to_owned());
    let conversation = ImportConversation::new(id, found.imported.drafts)
        .tools(found.imported.tools.unwrap_or_default())
        .meta(sidecar(found.dialect, &found.meta, &found.imported.parameters)?);
    Ok(Read { conversation, dialect: found.dialect, anomalies: found.imported.anomalies })
}

/// A conversation that is read while it is stored: [`LargeConversation::open`].
#[derive(Debug)]
#[non_exhaustive]
pub struct LargeConversation<'a> {
    /// Its name: its own `id`, else the fallback.
    pub id: String,
    /// The tools in force from the start.
    pub tools: Vec<tract_core::ToolSchema>,
    /// What else belongs to it.
    pub meta: JsonText,
    /// Its messages, one after the other.
    pub messages: ConversationReader<'a>,
}

impl<'a> LargeConversation<'a> {
    /// Begins with a text that [`read`] takes. For [`Importer::add_large`]: memory holds the text
    /// and one message at a time, however many there are.
    ///
    /// # Errors
    /// As [`read`], but for what is wrong with a message.
    pub fn open(text: &'a str, dialect: Option<Dialect>, fallback_id: &str) -> Result<Self> {
        let mut messages = ConversationReader::new(text, dialect)?;
        let id = messages.id.clone().unwrap_or_else(|| fallback_id.to_owned());
        let meta = sidecar(messages.dialect, &messages.meta, &messages.parameters)?;
        let tools = messages.tools.take().unwrap_or_default();
        Ok(Self { id, tools, meta, messages })
    }
}
