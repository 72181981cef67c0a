//! Describes commits in one line each.

use std::collections::HashMap;

use tract_core::store::BlobKey;
use tract_core::text::count;
use tract_core::{
    ActiveTool, BlobId, CallRef, Changes, Commit, CommitId, Content, Kind, Op, Part, StoreError,
    StoreErrorKind, ToolCall, json,
};

use crate::history::reach::each;
use crate::history::tool_diff::{ToolChange, no_schema_diff, tool_diff};
use crate::plan::edited_slot;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// One line of a log: a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The commit.
    pub commit: CommitId,
    /// The kind of the entry in one word: `user`, `assistant`, `result`, `edit`, `tools`…
    pub label: String,
    /// Its text on one line, cut at 200 characters. Not escaped for terminals.
    pub text: String,
    /// The commit's message, or the default one, which is derived and never stored: `tool result:
    /// NAME` for a result and its edits, the text for any other commit. On one line, cut and not
    /// escaped, like the text.
    pub message: String,
    /// Number of tokens of its content; `None` without content.
    pub token_count: Option<u64>,
    /// The tools that its message calls, in order, or the tool whose result it is.
    pub tool_names: Vec<String>,
}

/// Maximum length of a line's text, in characters.
const MAX_CHARS: usize = 200;
/// Maximum number of tools that a line lists by name.
const MAX_TOOLS: usize = 6;

/// Describes each commit in one line: its message, or one derived from its content and operation.
///
/// # Errors
/// When the store fails. Damaged or missing content is reported in its line instead.
pub async fn describe(repo: &Repo, commits: &[Commit]) -> Result<Vec<LogLine>> {
    let contents = contents(repo, commits).await?;
    let calls = calls(repo, commits).await?;
    let mut erased = HashMap::new();
    for (id, _) in contents.iter().filter(|(_, content)| content.is_none()) {
        let erasure = repo.erasure_of(*id).await?;
        erased.extend(erasure.map(|erasure| (*id, erasure.reason)));
    }
    let mut lines = Vec::with_capacity(commits.len());
    for commit in commits {
        let content = commit.content.and_then(|id| contents.get(&id)).cloned().flatten();
        let call = calls.get(&commit.id()).map(|call| call.name.as_str());
        let text = match (&commit.message, &commit.op) {
            (Some(message), _) => one_line(message, MAX_CHARS),
            (None, Op::Tools) => match tools(repo, commit).await {
                Err(Error::Erased(_)) => "(a definition was erased)".to_owned(),
                Err(Error::Store(error)) if is_damage(&error) => {
                    "(a definition cannot be read)".to_owned()
                }
                text => text?,
            },
            (None, Op::Append { .. }) => match commit.content.and_then(|id| erased.get(&id)) {
                Some(reason) => one_line(&format!("[erased: {reason}]"), MAX_CHARS),
                None => one_line(&describe_content(commit, content.as_ref(), call), MAX_CHARS),
            },
            (None, _) => one_line(&describe_request(commit, content.as_ref()), MAX_CHARS),
        };
        let message = match (&commit.message, &content) {
            (None, Some(Content::ToolResult(answer))) => {
                let name = answer.name.as_deref().or(call).unwrap_or(&answer.call_id);
                one_line(&format!("tool result: {name}"), MAX_CHARS)
            }
            (_, _) => text.clone(),
        };
        lines.push(LogLine {
            commit: commit.id(),
            label: label(commit).to_owned(),
            text,
            message,
            token_count: content.as_ref().map(|content| repo.count(&counted(content))),
            tool_names: content.map(|content| tool_names(&content, call)).unwrap_or_default(),
        });
    }
    Ok(lines)
}

fn tool_names(content: &Content, answered: Option<&str>) -> Vec<String> {
    match content {
        Content::ToolResult(answer) => {
            answer.name.as_deref().or(answered).map(str::to_owned).into_iter().collect()
        }
        _ => content.calls().map(|call| call.name.clone()).collect(),
    }
}

fn label(commit: &Commit) -> &str {
    match (&commit.op, &commit.kind) {
        (Op::Append { .. }, Some(Kind::ToolResult)) => "result",
        (Op::Append { .. }, Some(kind)) => kind.as_str(),
        (op, _) => op.name(),
    }
}

/// Reads the contents of commits in bulk; `None` for one that cannot be read as its kind.
async fn contents(repo: &Repo, commits: &[Commit]) -> Result<HashMap<BlobId, Option<Content>>> {
    let bearing: Vec<(BlobId, &Kind)> = commits
        .iter()
        .filter_map(|commit| Some((commit.content?, commit.kind.as_ref()?)))
        .collect();
    let keys: Vec<BlobKey> = bearing.iter().map(|(id, _)| (*id).into()).collect();
    let read = |keys: Vec<BlobKey>| async move { repo.store().blobs(repo.name(), &keys).await };
    let failed = |_: &BlobKey, error| if is_damage(&error) { Ok(()) } else { Err(error) };
    let blobs = each(&keys, read, failed).await?;
    let read = bearing.into_iter().zip(blobs).map(|((id, kind), blob)| {
        let content = blob.and_then(|blob| Content::from_blob(kind, blob.text()?).ok());
        (id, content)
    });
    Ok(read.collect())
}

fn is_damage(error: &StoreError) -> bool {
    matches!(error.kind, StoreErrorKind::Corrupt { .. })
}

/// Reads the calls that results among these commits answer, edits of results included. Keyed by the
/// commits.
async fn calls(repo: &Repo, commits: &[Commit]) -> Result<HashMap<CommitId, ToolCall>> {
    let mut answered: Vec<(CommitId, CallRef)> = Vec::new();
    let mut edits: Vec<(CommitId, CommitId)> = Vec::new();
    for commit in commits.iter().filter(|commit| commit.kind == Some(Kind::ToolResult)) {
        match &commit.op {
            Op::Append { answers, .. } => {
                answered.extend(answers.map(|call| (commit.id(), call)));
            }
            Op::Edit { .. } => {
                // An edit changes one message, so its changes are never stored in a blob.
                if let Changes::List(changes) = &commit.changes {
                    let slot = edited_slot(commit.id(), changes);
                    edits.extend(slot.map(|slot| (commit.id(), slot)));
                }
            }
            _ => {}
        }
    }
    let slots: Vec<CommitId> = edits.iter().map(|(_, slot)| *slot).collect();
    let firsts = repo.store().commits(repo.name(), &slots).await?;
    for ((edit, _), first) in edits.iter().zip(firsts) {
        // A slot is a name: its commit may not be stored.
        if let Some(Op::Append { answers: Some(call), .. }) = first.as_ref().map(|first| &first.op)
        {
            answered.push((*edit, *call));
        }
    }
    let slots: Vec<CommitId> = answered.iter().map(|(_, call)| call.slot).collect();
    let bearing: Vec<Commit> =
        repo.store().commits(repo.name(), &slots).await?.into_iter().flatten().collect();
    let contents = contents(repo, &bearing).await?;
    let by_commit: HashMap<CommitId, &Content> = bearing
        .iter()
        .filter_map(|commit| Some((commit.id(), contents.get(&commit.content?)?.as_ref()?)))
        .collect();
    let call = |(id, call): (CommitId, CallRef)| {
        let content = by_commit.get(&call.slot)?;
        Some((id, content.calls().nth(usize::try_from(call.index).ok()?)?.clone()))
    };
    Ok(answered.into_iter().filter_map(call).collect())
}

fn describe_content(commit: &Commit, content: Option<&Content>, answered: Option<&str>) -> String {
    let Some(content) = content else {
        return match commit.content {
            Some(id) => format!("(content {} cannot be read)", id.short()),
            None => String::new(),
        };
    };
    let Content::ToolResult(answer) = content else { return text(content) };
    let failed = if answer.is_error { "error: " } else { "" };
    let text = content.text();
    match answer.name.as_deref().or(answered) {
        Some(name) => format!("{name} → {failed}{text}"),
        None => format!("{} → {failed}{text}", answer.call_id),
    }
}

/// Returns the text of a content, with its calls as `name(key=value)`.
fn text(content: &Content) -> String {
    let mut out = content.text();
    for call in content.calls() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&format!("{}({})", call.name, arguments(&call.arguments)));
    }
    // Otherwise a message with reasoning only would be a blank line.
    if out.is_empty() {
        let why = content.parts().iter().find_map(Part::unreadable_reasoning);
        out = match (content.reasoning(), why) {
            (text, Some(why)) if text.is_empty() => format!("(reasoning, {why})"),
            (text, _) if text.is_empty() => text,
            (text, _) => format!("(reasoning) {text}"),
        };
    }
    out
}

fn arguments(text: &str) -> String {
    match json::split_object(text) {
        Ok(members) => {
            let members = members.into_iter().map(|(key, value)| format!("{key}={value}"));
            members.collect::<Vec<_>>().join(", ")
        }
        Err(_) => text.to_owned(),
    }
}

fn counted(content: &Content) -> String {
    let mut out = content.text();
    out.push_str(&content.reasoning());
    for call in content.calls() {
        out.push_str(&call.name);
        out.push_str(&call.arguments);
    }
    out
}

/// Describes the request of an operation that names other commits.
fn describe_request(commit: &Commit, content: Option<&Content>) -> String {
    let body = content.map(text).unwrap_or_default();
    let with = |head: String| if body.is_empty() { head } else { format!("{head}: {body}") };
    match &commit.op {
        Op::Edit { target } => with(format!("of {}", target.short())),
        Op::Annotate { targets, priority, reason, .. } => {
            let reason = reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{} {priority}{reason}", names(targets))
        }
        Op::Compress { targets } => {
            with(format!("replaced {} ({})", count(targets.len(), "message"), range(targets)))
        }
        Op::Revert { targets, .. } => format!("of {}", names(targets)),
        Op::Merge { sources } => format!("of {}", names(sources)),
        Op::Append { .. } | Op::Tools | Op::Note | Op::Unknown { .. } => body,
    }
}

fn names(ids: &[CommitId]) -> String {
    match ids.len() {
        0..=2 => range(ids),
        several => format!("{} ({several})", range(ids)),
    }
}

fn range(ids: &[CommitId]) -> String {
    match ids {
        [] => "nothing".to_owned(),
        [one] => one.short(),
        [one, two] => format!("{}, {}", one.short(), two.short()),
        [first, .., last] => format!("{}…{}", first.short(), last.short()),
    }
}

/// Describes the changes of the tools.
async fn tools(repo: &Repo, commit: &Commit) -> Result<String> {
    let before = match commit.parent() {
        Some(parent) => repo.tools_of(parent).await?,
        None => Vec::new(),
    };
    let after: Vec<ActiveTool> = repo.tools_of(commit.id()).await?;
    if after.is_empty() {
        return Ok("none from here on".to_owned());
    }
    let diff = tool_diff(&before, &after, &no_schema_diff);
    let changed = |of: fn(&ToolChange) -> bool, verb| {
        let names = diff.changes.iter().filter(|change| of(change));
        let names: Vec<String> = names.map(|change| one_line(change.name(), 80)).collect();
        match names.len() {
            0 => None,
            count if diff.changes.len() > MAX_TOOLS => Some(format!("{verb} {count}")),
            _ => Some(format!("{verb} {}", names.join(", "))),
        }
    };
    let changes: Vec<String> = [
        changed(|change| matches!(change, ToolChange::Added { .. }), "added"),
        changed(|change| matches!(change, ToolChange::Changed { .. }), "changed"),
        changed(|change| matches!(change, ToolChange::Respelled { .. }), "respelled"),
        changed(|change| matches!(change, ToolChange::Removed { .. }), "removed"),
    ]
    .into_iter()
    .flatten()
    .collect();
    Ok(match changes.is_empty() {
        true if diff.reordered => "in another order".to_owned(),
        true => "unchanged".to_owned(),
        false if diff.changes.len() > MAX_TOOLS => {
            format!("{} in all: {}", after.len(), changes.join(", "))
        }
        false => changes.join("; "),
    })
}

/// Puts a text on one line: white space becomes one space, and a longer text is cut with `…`.
///
/// ```
/// use tract_engine::one_line;
/// assert_eq!(one_line("  one\n\n two ", 20), "one two");
/// assert_eq!(one_line("one two three", 8), "one two…");
/// ```
pub fn one_line(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        if count > 0 {
            out.push(' ');
            count += 1;
        }
        for character in word.chars() {
            if count >= most {
                // The last character is dropped, with the space before it.
                out.pop();
                out.truncate(out.trim_end().len());
                out.push('…');
                return out;
            }
            out.push(character);
            count += 1;
        }
    }
    out
}
