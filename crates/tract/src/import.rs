//! Import of recorded conversations, from a provider's text to commits, and export in the formats of
//! other tools.

use serde::{Deserialize, Serialize};
use tract_core::{JsonText, RefName, RefTarget};

use crate::error::Result;
pub use tract_engine::{
    ImportAnomaly, ImportConversation, ImportOptions, ImportStatus, Imported, Importer,
};
#[cfg(all(feature = "import", feature = "sqlite"))]
pub use tract_import::python;
#[cfg(feature = "import")]
pub use tract_import::{
    Anomalies, AnomalyKind, AnswerUsage, BranchStart, Error as RecordingError, ExportedSession,
    FileKind, ImportCache, RecordedBranch, RecordingAnomaly, RecordingOptions, SessionFile,
    SessionFilter, SessionFormat, SessionReport, Source, TokenTotals, UnknownFile, UnknownFormat,
    UnknownSource, branch_usage, detect as detect_source, export_session, import as import_files,
    import_cached as import_files_cached, recognize, records_of_line, reject_utf16, session_files,
    usage,
};
pub use tract_providers::{
    Anomaly, ConversationReader, Dialect, HarExchanges, ImportError, detect, har_exchanges,
};

/// A conversation that was read and is not yet stored.
#[derive(Clone, Debug)]
pub struct Read {
    /// The content of the engine.
    pub conversation: ImportConversation,
    /// The dialect that it is in.
    pub dialect: Dialect,
    /// Anomalies, kept as recorded.
    pub anomalies: Vec<Anomaly>,
}

/// Makes what is kept with a conversation, under `imports/<id>`.
fn sidecar(
    dialect: Dialect,
    line: &JsonText,
    parameters: &JsonText,
    answered: bool,
) -> Result<JsonText> {
    #[derive(Serialize)]
    struct Sidecar<'a> {
        dialect: &'a str,
        line: &'a JsonText,
        parameters: &'a JsonText,
        /// Whether the last commit is the answer to the request.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        answered: bool,
    }
    Ok(JsonText::of(&Sidecar { dialect: dialect.as_str(), line, parameters, answered })?)
}

/// The parameters of an imported request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedParameters {
    /// The provider that they are for.
    pub dialect: Dialect,
    /// The members of the request that are neither messages nor tools: an object.
    pub parameters: JsonText,
}

/// Returns the parameters of the request that a branch was imported from, where `commit` is the last
/// message of that request: its context and these parameters are the request as it was recorded.
///
/// They are kept next to the branch and not in its commits, so that a longer version of the
/// conversation continues the branch.
///
/// # Errors
/// When the store fails.
pub async fn recorded_parameters(
    repo: &tract_engine::Repo,
    branch: &str,
    commit: tract_core::CommitId,
) -> Result<Option<RecordedParameters>> {
    #[derive(Deserialize)]
    struct Document {
        head: tract_core::CommitId,
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        dialect: String,
        parameters: JsonText,
        #[serde(default)]
        answered: bool,
    }
    let Ok(name) = RefName::new(format!("imports/{branch}")) else { return Ok(None) };
    let Some(RefTarget::Blob(blob)) = repo.ref_target(&name).await? else { return Ok(None) };
    let blob = repo.require_blob(blob).await?;
    // The recordings of agent tools have other documents.
    let Ok(Document { head, meta }) = serde_json::from_slice(blob.bytes()) else {
        return Ok(None);
    };
    let last = match meta.answered {
        true => repo.commit(head).await?.and_then(|answer| answer.parent()),
        false => Some(head),
    };
    let dialect = meta.dialect.parse().ok().filter(|_| last == Some(commit));
    Ok(dialect.map(|dialect| RecordedParameters { dialect, parameters: meta.parameters }))
}

/// Reads one conversation: a provider's request, an object with `messages` and `tools`, a list of
/// messages, or a recording that holds such a request. Its name is its own `id`, else
/// `fallback_id`.
///
/// Model and parameters of the request are kept next to the history, not in it, so that equal
/// beginnings of two conversations are equal commits ([`recorded_parameters`]); an answer next to
/// the request has them as its generation config.
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
        .meta(sidecar(found.dialect, &found.meta, &found.imported.parameters, found.is_answered)?);
    Ok(Read { conversation, dialect: found.dialect, anomalies: found.imported.anomalies })
}

/// A conversation that is read while it is stored: [`LargeConversation::open`].
#[derive(Debug)]
pub struct LargeConversation<'a> {
    /// Its name: its own `id`, else the fallback.
    pub id: String,
    /// The tools in force from the start.
    pub tools: Vec<tract_core::ToolSchema>,
    /// The document next to it: its dialect, parameters and remaining members.
    pub meta: JsonText,
    /// Its messages, one after the other.
    pub messages: ConversationReader<'a>,
}

impl<'a> LargeConversation<'a> {
    /// Begins with a text that [`read`] takes. For [`Importer::add_large`]: memory holds the text
    /// and one message at a time, however many there are.
    ///
    /// # Errors
    /// As [`read`], except for errors in messages.
    pub fn open(text: &'a str, dialect: Option<Dialect>, fallback_id: &str) -> Result<Self> {
        let mut messages = ConversationReader::new(text, dialect)?;
        let id = messages.id.clone().unwrap_or_else(|| fallback_id.to_owned());
        let meta =
            sidecar(messages.dialect, &messages.meta, &messages.parameters, messages.is_answered)?;
        let tools = messages.tools.take().unwrap_or_default();
        Ok(Self { id, tools, meta, messages })
    }
}
