//! Messages as clients read them: numbered, and cut to what one answer may hold.

use schemars::JsonSchema;
use serde::Serialize;
use tract_compile::Compiled;
use tract_core::{Commit, CommitId, Content, Message, ToolError, time};
use tract_engine::{Error, Repo};

use crate::shared::failed;

/// Characters of all messages of one answer.
pub(crate) const MOST_CHARS: usize = 40_000;

/// A message of a conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ShownMessage {
    /// Its place in the context, from 1.
    pub(crate) number: usize,
    /// The commit whose content it is.
    pub(crate) commit: String,
    /// Who says it: system, user, assistant or tool.
    pub(crate) role: String,
    /// When it was recorded: RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    /// The tool that it is a result of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    /// What it says, with calls as `name(arguments)`.
    pub(crate) text: String,
    /// How many characters were cut from the end of `text`; `expand` reads them.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) cut_chars: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ShownMessage {
    /// The message as lines of text.
    pub(crate) fn lines(&self) -> String {
        let tool = self.tool.as_ref().map(|tool| format!(" {tool}")).unwrap_or_default();
        let short = self.commit.get(..8).unwrap_or(&self.commit);
        let cut = match self.cut_chars {
            0 => String::new(),
            chars => format!("\n… {chars} characters more: expand {short}"),
        };
        format!("#{} {}{tool} {short}\n{}{cut}\n", self.number, self.role, self.text)
    }
}

/// Shows a range of messages, by number from 1, each cut to `most` characters. Ends early when the
/// answer is full; at least one message is shown.
pub(crate) async fn messages(
    repo: &Repo,
    compiled: &Compiled,
    range: std::ops::RangeInclusive<usize>,
    most: usize,
) -> Result<Vec<ShownMessage>, ToolError> {
    let (from, to) = (*range.start(), *range.end());
    let chosen: Vec<&Message> = compiled
        .messages()
        .skip(from.saturating_sub(1))
        .take((to + 1).saturating_sub(from))
        .collect();
    let ids: Vec<CommitId> = chosen.iter().map(|message| message.commit).collect();
    let commits = repo.store().commits(repo.name(), &ids).await.map_err(Error::from);
    let commits = commits.map_err(failed)?;
    let mut shown = Vec::with_capacity(chosen.len());
    let mut chars = 0;
    for (place, (message, commit)) in chosen.into_iter().zip(commits).enumerate() {
        let message = show(message, commit.as_ref(), from + place, most);
        chars += message.text.len();
        if chars > MOST_CHARS && !shown.is_empty() {
            break;
        }
        shown.push(message);
    }
    Ok(shown)
}

fn show(message: &Message, commit: Option<&Commit>, number: usize, most: usize) -> ShownMessage {
    let (text, cut_chars) = cut(tract_engine::plain(message).trim_end(), most);
    let tool = match &message.content {
        Content::ToolResult(answer) => answer.name.clone(),
        _ => None,
    };
    ShownMessage {
        number,
        commit: message.commit.to_string(),
        role: message.role.as_str().to_owned(),
        at: commit.and_then(|commit| commit.created_at).and_then(time::format_rfc3339),
        tool,
        text,
        cut_chars,
    }
}

/// Returns the first characters of a text, and how many were cut.
pub(crate) fn cut(text: &str, most: usize) -> (String, usize) {
    match text.char_indices().nth(most) {
        None => (text.to_owned(), 0),
        Some((end, _)) => {
            let (kept, rest) = text.split_at(end);
            (kept.to_owned(), rest.chars().count())
        }
    }
}
