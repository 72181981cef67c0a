//! Exports conversations in the formats of other tools: a session of Claude Code or Codex that can
//! be continued there, a trajectory, or messages of an application.
//!
//! A conversation that is unchanged since its import is written as recorded, so that importing the
//! file again makes the same commits. One that was edited, marked, merged or summarized in tract is
//! written as shown: the messages that a model would see, with calls and results paired.

mod ai_sdk;
mod atif;
mod claude_code;
mod codex;
mod conversation;
mod facts;

use std::fmt;
use std::str::FromStr;

use tract_core::{CommitId, Content};
use tract_engine::{Repo, Result};
use tract_providers::{Dialect, Form, FormOptions, Pairing, compile_form};

use self::conversation::Conversation;
use crate::error::damaged;

/// A format for exported conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionFormat {
    /// A session of Claude Code: JSONL.
    ClaudeCode,
    /// A rollout of Codex CLI: JSONL.
    Codex,
    /// A trajectory in ATIF: a JSON document.
    Atif,
    /// Messages and tools as in OpenAI's Chat Completions: one line of JSON.
    OpenAi,
    /// UI messages of the Vercel AI SDK: a JSON document.
    AiSdk,
}

impl SessionFormat {
    /// All formats.
    pub const ALL: &'static [Self] =
        &[Self::ClaudeCode, Self::Codex, Self::Atif, Self::OpenAi, Self::AiSdk];

    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Atif => "atif",
            Self::OpenAi => "openai",
            Self::AiSdk => "ai-sdk",
        }
    }
}

impl fmt::Display for SessionFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is not the name of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format {0:?}")]
pub struct UnknownFormat(pub String);

impl FromStr for SessionFormat {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.iter().find(|format| format.as_str() == word);
        found.copied().ok_or_else(|| UnknownFormat(word.to_owned()))
    }
}

/// A conversation in the format of another tool.
#[derive(Clone, Debug)]
pub struct ExportedSession {
    /// The file's lines, without line ends.
    pub lines: Vec<String>,
    /// The id of the session: the recorded one, or one made from the commit.
    pub session: String,
    /// The file name that the tool would use.
    pub file_name: String,
    /// Number of messages in it.
    pub messages: usize,
    /// Whether it is written as recorded; otherwise it is written as shown.
    pub as_recorded: bool,
    /// Kinds of content that the format cannot represent, with the number left out.
    pub left_out: Vec<(&'static str, usize)>,
}

/// Writes the conversation of a branch, or up to a commit, in the format of another tool.
///
/// `branch` is the branch of the conversation, if it is on one: the facts that an import stored
/// about the session, such as its id and folder, are found under that name.
///
/// # Errors
/// - [`Damaged`](tract_engine::Error::Damaged) when a stored text does not match its id.
/// - When the store fails.
///
/// # Complexity
/// Linear in the commits of the history and the bytes shown.
pub async fn export_session(
    repo: &Repo,
    head: CommitId,
    branch: Option<&str>,
    format: SessionFormat,
) -> Result<ExportedSession> {
    let facts = facts::of_branch(repo, branch).await?;
    match format {
        SessionFormat::ClaudeCode => {
            let read = Conversation::read(repo, head, Dialect::Anthropic, claude_code::is_own);
            claude_code::write(&read.await?, &facts, head).map_err(damaged)
        }
        SessionFormat::Codex => {
            let read = Conversation::read(repo, head, Dialect::Responses, codex::is_own);
            codex::write(&read.await?, &facts, head).map_err(damaged)
        }
        SessionFormat::Atif => {
            let read = Conversation::shown(repo, head, Dialect::OpenAi);
            atif::write(&read.await?, &facts, head).map_err(damaged)
        }
        SessionFormat::AiSdk => {
            let read = Conversation::shown(repo, head, Dialect::OpenAi);
            ai_sdk::write(&read.await?, &facts, head).map_err(damaged)
        }
        SessionFormat::OpenAi => openai(repo, head, branch, &facts).await,
    }
}

async fn openai(
    repo: &Repo,
    head: CommitId,
    branch: Option<&str>,
    facts: &facts::SessionFacts,
) -> Result<ExportedSession> {
    let compiled = repo.compile(Some(head)).await?;
    let form = |form| {
        let options = FormOptions { pairing: Some(Pairing::Keep), ..FormOptions::default() };
        compile_form(&compiled, form, &options).map_err(damaged)
    };
    let messages = form(Form::Conversation(Dialect::OpenAi))?.to_json();
    let request = form(Form::Params(Dialect::OpenAi))?;
    let session = facts.session_or_made(head);
    let id = serde_json::Value::from(branch.unwrap_or(&session)).to_string();
    let mut line = format!(r#"{{"id":{id},"messages":{messages}"#);
    if let Some(tools) = request.get("tools") {
        line.push_str(r#","tools":"#);
        line.push_str(tools);
    }
    line.push('}');
    let failed = compiled.messages().filter(|message| is_failed(&message.content)).count();
    Ok(ExportedSession {
        lines: vec![line],
        file_name: format!("{session}.jsonl"),
        session,
        messages: compiled.message_count(),
        as_recorded: false,
        left_out: counted([(FAILED, failed)]),
    })
}

/// The failure flags of results, which a format without `is_error` can only state in the text.
const FAILED: &str = "marks of failed results (is_error)";

/// Returns whether a message is the result of a failed call.
fn is_failed(content: &Content) -> bool {
    matches!(content, Content::ToolResult(answer) if answer.is_error)
}

/// Returns the kinds that were left out at least once.
fn counted<const N: usize>(kinds: [(&'static str, usize); N]) -> Vec<(&'static str, usize)> {
    kinds.into_iter().filter(|(_, count)| *count > 0).collect()
}
