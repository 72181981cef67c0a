//! Import of recorded conversations and export: from a provider's text to commits, and to the
//! formats of other tools.

use serde::{Deserialize, Serialize};
use tract_core::store::Walk;
use tract_core::{JsonText, RefName, RefTarget, json};

use crate::error::Result;
pub use tract_engine::{
    ImportAnomaly, ImportConversation, ImportOptions, ImportStatus, Imported, Importer,
};
#[cfg(all(feature = "import", feature = "sqlite"))]
pub use tract_import::python;
#[cfg(feature = "import")]
pub use tract_import::{
    Anomalies, AnomalyKind, AnswerUsage, BranchStart, Error as RecordingError, ExportedSession,
    FileKind, FrameworkItem, ImportCache, ItemFormat, RecordedBranch, RecordingAnomaly,
    RecordingOptions, SessionFile, SessionFilter, SessionFormat, SessionReport, Source,
    TokenTotals, UnknownFile, UnknownFormat, UnknownSource, UsageCost, branch_usage,
    cost_of_cache_miss, cost_of_usage, detect as detect_source, export_session,
    import as import_files, import_cached as import_files_cached, read_item, recognize,
    records_of_line, reject_other_encodings, session_files, usage,
};
pub use tract_providers::{
    Anomaly, BatchLine, ConversationReader, Dialect, HarExchanges, ImportError, UnpackedLine,
    batch_line, detect, har_exchanges, join_batch_lines, listed_conversations, unpacked,
    with_joined_pieces,
};

use tract_providers::{Form, FormOptions, Pairing, batch_members, compile_recorded};

/// A conversation that was read but not stored yet.
#[derive(Clone, Debug)]
pub struct Read {
    /// The conversation, for the engine's importer.
    pub conversation: ImportConversation,
    /// Its dialect.
    pub dialect: Dialect,
    /// Anomalies, kept as recorded.
    pub anomalies: Vec<Anomaly>,
}

/// Makes the document that is stored with a conversation, under `imports/<id>`.
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
    /// The provider.
    pub dialect: Dialect,
    /// The members of the request that are neither messages nor tools: an object.
    pub parameters: JsonText,
}

/// Returns the parameters of the request from which a branch was imported. `commit` is the last
/// message of that request: its context with these parameters is the recorded request.
///
/// Parameters are stored next to the branch instead of in its commits, so that a longer version of
/// the conversation can extend the branch.
///
/// # Errors
/// If the store fails.
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
    // Recordings of agent tools have other documents.
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

/// Returns whether a commit is in the history of a head.
///
/// # Errors
/// If the store fails.
pub async fn is_in_history(
    repo: &tract_engine::Repo,
    head: tract_core::CommitId,
    commit: tract_core::CommitId,
) -> Result<bool> {
    let mut next = Some(head);
    while let Some(head) = next {
        let page = repo.store().walk(repo.name(), Walk::from(head)).await?;
        if page.entries.iter().any(|entry| entry.commit.id() == commit) {
            return Ok(true);
        }
        next = page.next;
    }
    Ok(false)
}

/// Returns the line of a request and its answer for the answer of a batch whose request was imported
/// earlier: the request of the branch with its id, as it was recorded. `None` if there is no such
/// branch, or the line is not such an answer. A conversation that is read from the line continues
/// the branch.
///
/// # Errors
/// If the store fails.
pub async fn batch_line_with_request(
    repo: &tract_engine::Repo,
    answer: &str,
) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct Document {
        id: String,
        head: tract_core::CommitId,
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        dialect: String,
        line: JsonText,
        parameters: JsonText,
        #[serde(default)]
        answered: bool,
    }
    let Some(BatchLine::Answer(id)) = batch_line(answer) else { return Ok(None) };
    for branch in [RefName::sanitize(&id), RefName::with_digits(&id)] {
        let Ok(name) = RefName::new(format!("imports/{branch}")) else { continue };
        let Some(RefTarget::Blob(blob)) = repo.ref_target(&name).await? else { continue };
        let blob = repo.require_blob(blob).await?;
        let Ok(document) = serde_json::from_slice::<Document>(blob.bytes()) else { continue };
        let Document { id: recorded, head, meta } = document;
        let Ok(dialect) = meta.dialect.parse::<Dialect>() else { continue };
        let head = match meta.answered {
            true => repo.commit(head).await?.and_then(|answer| answer.parent()),
            false => Some(head),
        };
        let Some(head) = head.filter(|_| recorded == id) else { continue };
        let compiled = repo.compile(Some(head)).await?;
        // As recorded, without repairs, so that the messages get the same commits.
        let options = FormOptions { pairing: Some(Pairing::Keep), ..FormOptions::default() };
        let form = Form::Params(dialect);
        let Ok(params) = compile_recorded(&compiled, form, &options, &meta.parameters) else {
            continue;
        };
        let request = batch_request(&id, dialect, &meta.line, &params.to_json());
        if let Some(line) = request.and_then(|request| join_batch_lines(&request, answer)) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// Writes the line of a request in a batch with the other members that it had.
fn batch_request(id: &str, dialect: Dialect, others: &JsonText, body: &str) -> Option<String> {
    let [id_member, member] = batch_members(dialect);
    let id = JsonText::of(&id).ok()?;
    let others = json::split_object(others.as_str()).ok()?;
    // An answer that was imported earlier left these.
    let is_of_request = |key: &str| !["response", "output", "result"].contains(&key);
    let others = others.iter().map(|(key, raw)| (key.as_str(), *raw));
    let others = others.filter(|(key, _)| is_of_request(key));
    let members = [(id_member, id.as_str())].into_iter().chain(others).chain([(member, body)]);
    let mut line = String::from("{");
    for (key, raw) in members {
        if line.len() > 1 {
            line.push(',');
        }
        json::write_string(&mut line, key, json::Escapes::Raw);
        line.push(':');
        line.push_str(raw);
    }
    line.push('}');
    Some(line)
}

/// Reads one conversation: a provider's request, an object with `messages` and `tools`, a list of
/// messages, or a recording that contains such a request. Its name is its own `id`, else
/// `fallback_id`.
///
/// Model and parameters of the request are stored next to the history ([`recorded_parameters`]), so
/// that equal prefixes of two conversations are equal commits. An answer next to the request has
/// them as its generation config.
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
/// [`Error::Import`](crate::Error::Import) with the path in the text, or if there are no messages.
pub fn read(text: &str, dialect: Option<Dialect>, fallback_id: &str) -> Result<Read> {
    let found = tract_providers::ProviderConversation::read(text, dialect)?;
    if found.imported.drafts.is_empty() {
        return Err(ImportError::NoMessages.into());
    }
    let id = found.id.unwrap_or_else(|| fallback_id.to_owned());
    let conversation = ImportConversation {
        tools: found.imported.tools.unwrap_or_default(),
        meta: Some(sidecar(
            found.dialect,
            &found.meta,
            &found.imported.parameters,
            found.is_answered,
        )?),
        ..ImportConversation::new(id, found.imported.drafts)
    };
    Ok(Read { conversation, dialect: found.dialect, anomalies: found.imported.anomalies })
}

/// A conversation that is read while it is stored; see [`LargeConversation::open`].
#[derive(Debug)]
pub struct LargeConversation<'a> {
    /// Its name: its own `id`, else the fallback.
    pub id: String,
    /// The tools active from the start.
    pub tools: Vec<tract_core::ToolSchema>,
    /// The document stored next to it: its dialect, parameters and other members.
    pub meta: JsonText,
    /// Its messages, read one by one.
    pub messages: ConversationReader<'a>,
}

impl<'a> LargeConversation<'a> {
    /// Starts to read a text that [`read`] accepts, for [`Importer::add_large`]. Only the text and
    /// one message at a time are in memory.
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
