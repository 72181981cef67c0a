//! Messages in the form for clients: numbered, and cut to the size limit of an answer.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use tract_compile::Compiled;
use tract_core::text::beginning;
use tract_core::{Commit, CommitId, Content, Message, ToolError, time};
use tract_engine::{Error, Repo};

use crate::recorded;
use crate::shared::failed;

/// Characters of all messages of one answer.
pub(crate) const MOST_CHARS: usize = 40_000;

/// A message of a conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ShownMessage {
    /// Position in the context, from 1.
    pub(crate) number: usize,
    /// The commit with this content.
    pub(crate) commit: String,
    /// The role: system, user, assistant or tool.
    pub(crate) role: String,
    /// When it was recorded: RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    /// The tool that it is a result of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    /// The text, with calls as `name(arguments)`.
    pub(crate) text: String,
    /// Number of characters cut from the end of `text`; `expand` reads them.
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
        let text = quoted(&self.text);
        format!("#{} {}{tool} {short}\n{text}{cut}\n", self.number, self.role)
    }
}

/// Returns recorded text with `| ` before each line. No line of it can pass for one of ours, such as
/// the first line of another message.
pub(crate) fn quoted(text: &str) -> String {
    let lines = text.split('\n').map(|line| format!("| {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Shows a range of messages, by number from 1, each cut to `most` characters. Where the answer cannot
/// hold all of them it holds `wanted`, which is one of them, and those next to it.
pub(crate) async fn messages(
    repo: &Repo,
    compiled: &Compiled,
    range: std::ops::RangeInclusive<usize>,
    wanted: usize,
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
    let mut shown: Vec<ShownMessage> = chosen
        .into_iter()
        .zip(commits)
        .enumerate()
        .map(|(place, (message, commit))| show(message, commit.as_ref(), from + place, most))
        .collect();
    let sizes: Vec<usize> = shown.iter().map(|message| message.text.chars().count()).collect();
    let kept = around(&sizes, wanted.saturating_sub(from), MOST_CHARS);
    shown.truncate(kept.end);
    shown.drain(..kept.start);
    Ok(shown)
}

/// Returns the range of positions around `wanted`, itself included, whose sizes fit into `room`. Later
/// positions are added first.
fn around(sizes: &[usize], wanted: usize, room: usize) -> Range<usize> {
    let Some(size) = sizes.get(wanted) else { return 0..0 };
    let mut room = room.saturating_sub(*size);
    let (mut start, mut end) = (wanted, wanted + 1);
    loop {
        let after = sizes.get(end).filter(|size| **size <= room);
        let before =
            start.checked_sub(1).and_then(|at| sizes.get(at)).filter(|size| **size <= room);
        match (after, before) {
            (Some(size), _) => {
                room -= size;
                end += 1;
            }
            (None, Some(size)) => {
                room -= size;
                start -= 1;
            }
            (None, None) => return start..end,
        }
    }
}

fn show(message: &Message, commit: Option<&Commit>, number: usize, most: usize) -> ShownMessage {
    let whole = tract_engine::plain(message);
    let (text, cut_chars) = beginning(whole.trim_end(), most);
    let tool = match &message.content {
        Content::ToolResult(answer) => answer.name.as_deref().map(recorded::line),
        _ => None,
    };
    ShownMessage {
        number,
        commit: message.commit.to_string(),
        role: recorded::line(message.role.as_str()),
        at: commit.and_then(|commit| commit.created_at).and_then(time::format_rfc3339),
        tool,
        text: text.to_owned(),
        cut_chars,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_next_to_the_wanted_one_are_kept() {
        assert_eq!(around(&[9, 9, 9, 9, 9], 2, 100), 0..5);
        assert_eq!(around(&[9, 9, 9, 9, 9], 2, 30), 2..5);
        assert_eq!(around(&[1, 9, 9, 20, 1], 2, 20), 0..3);
        assert_eq!(around(&[9, 9, 900], 2, 20), 2..3);
        assert_eq!(around(&[], 0, 20), 0..0);
    }
}
