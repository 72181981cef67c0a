//! The document next to a branch, under `imports/BRANCH`: the recording that the branch was imported
//! from, and the title that a person gave it.

use serde::Deserialize;
use tract_core::json::Escapes;
use tract_core::{Blob, CommitId, JsonText, RefName, RefTarget, json};

use crate::repo::Repo;
use crate::repo::error::Result;

/// The document next to a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportDocument {
    /// The id of the conversation.
    pub id: String,
    /// The last commit of the recording.
    pub head: Option<CommitId>,
    /// The facts that the import recorded, as an object.
    pub meta: Option<JsonText>,
    /// The title that a person gave the branch. Imports keep it.
    pub title: Option<String>,
    /// Members of later versions: names and JSON.
    others: Vec<(String, String)>,
}

/// The facts about a recording that lists of conversations show.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ImportMeta {
    /// The tool.
    pub(crate) format: Option<String>,
    /// The reason for the branch, as importers name it.
    pub(crate) start: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) agent: Option<String>,
    /// The session that the recording was copied from.
    pub(crate) parent: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) cwd: Option<String>,
    caller: Option<Caller>,
    tokens: Option<RunTokens>,
    run: Option<Run>,
}

/// The call that started a subagent.
#[derive(Clone, Debug, Deserialize)]
struct Caller {
    id: Option<String>,
    branch: String,
}

/// Tokens of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct RunTokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) cache_write_1h: u64,
}

/// Totals that a tool records for a whole run, not per answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Run {
    model: Option<String>,
    requests: Option<u64>,
    by_answer: bool,
}

/// The tokens of a run whose answers do not have them: the model, the number of requests, and the
/// sum.
pub(crate) struct RunTotals<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) requests: u64,
    pub(crate) tokens: RunTokens,
}

impl ImportMeta {
    /// Returns the id of the call that started a subagent.
    pub(crate) fn caller_id(&self) -> Option<&str> {
        self.caller.as_ref()?.id.as_deref()
    }

    /// Returns the branch with the call that started a subagent.
    pub(crate) fn caller_branch(&self) -> Option<&str> {
        self.caller.as_ref().map(|caller| caller.branch.as_str())
    }

    /// Returns the model of a run, if its answers do not name it.
    pub(crate) fn run_model(&self) -> Option<&str> {
        self.run.as_ref()?.model.as_deref()
    }

    /// Returns the totals of a run, if its answers do not have their tokens.
    pub(crate) fn run_totals(&self) -> Option<RunTotals<'_>> {
        let run = self.run.as_ref().filter(|run| !run.by_answer)?;
        let tokens = self.tokens.filter(|tokens| *tokens != RunTokens::default())?;
        let requests = run.requests.unwrap_or(1).max(1);
        Some(RunTotals { model: run.model.as_deref(), requests, tokens })
    }
}

impl ImportDocument {
    /// The beginning of the names of their refs.
    pub(crate) const PREFIX: &'static str = "imports/";

    /// Creates the document of a conversation.
    pub fn new(id: impl Into<String>, head: Option<CommitId>, meta: Option<JsonText>) -> Self {
        Self { id: id.into(), head, meta, ..Self::default() }
    }

    /// Returns the ref of a branch's document.
    ///
    /// # Errors
    /// [`Error::BadName`](crate::Error::BadName) for the name of a branch that is too long.
    pub fn ref_of(branch: &str) -> Result<RefName> {
        Ok(RefName::new(format!("{}{branch}", Self::PREFIX))?)
    }

    /// Reads the document at a ref; `None` without one, or if it has another form.
    ///
    /// # Errors
    /// When the blob is not stored, or the store fails.
    pub async fn read(repo: &Repo, name: &RefName) -> Result<Option<Self>> {
        match repo.ref_target(name).await? {
            Some(RefTarget::Blob(id)) => Ok(Self::parse(&repo.require_blob(id).await?)),
            Some(_) | None => Ok(None),
        }
    }

    /// Parses a document; `None` if it has another form.
    pub fn parse(document: &Blob) -> Option<Self> {
        let mut parsed = Self::default();
        for (key, value) in json::split_object(document.text()?).ok()? {
            match &*key {
                "head" => parsed.head = serde_json::from_str(value).ok()?,
                "id" => parsed.id = serde_json::from_str(value).ok()?,
                "meta" => parsed.meta = Some(JsonText::new(value).ok()?),
                "title" => parsed.title = Some(serde_json::from_str(value).ok()?),
                _ => parsed.others.push((key.to_string(), value.to_owned())),
            }
        }
        Some(parsed)
    }

    /// Returns the bytes to store.
    ///
    /// # Errors
    /// [`Error::Json`](crate::Error::Json) for facts that are nested too deeply.
    pub fn seal(&self) -> Result<Blob> {
        let mut text = String::from("{");
        if let Some(head) = self.head {
            text.push_str(&format!("\"head\":\"{head}\","));
        }
        text.push_str("\"id\":");
        json::write_string(&mut text, &self.id, Escapes::Raw);
        if let Some(meta) = &self.meta {
            text.push_str(",\"meta\":");
            text.push_str(meta.as_str());
        }
        if let Some(title) = &self.title {
            text.push_str(",\"title\":");
            json::write_string(&mut text, title, Escapes::Raw);
        }
        for (key, value) in &self.others {
            text.push(',');
            json::write_string(&mut text, key, Escapes::Raw);
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        // The parts are canonical, so only too deep nesting can be refused here.
        json::check(&text)?;
        Ok(Blob::seal(text.into_bytes()))
    }

    /// Returns the facts of the recording; all are absent in documents of other forms.
    pub(crate) fn facts(&self) -> ImportMeta {
        let meta = self.meta.as_ref().and_then(|meta| serde_json::from_str(meta.as_str()).ok());
        meta.unwrap_or_default()
    }
}
