//! The log: commits of a line, and one line of text for each.

use std::collections::{HashMap, HashSet, VecDeque};

use tract_compile::count_content;
use tract_core::store::{BlobKey, CommitRepository, ObjectRepository, Walk};
use tract_core::{ApproxCounter, Commit, CommitId, Content, JsonText, Op, ToolCall, json};
use tract_engine::graph;

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

/// What one line of a log says of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// The kind of the message, `result` for a tool's answer, or the name of the operation.
    pub word: String,
    /// The commit's own line, else one made of what it says or did.
    pub text: String,
    /// Tokens of its content, as `approx` counts them.
    pub tokens: Option<u64>,
}

impl Tract {
    /// Reads the commits of a line, newest first.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and what the store says.
    pub async fn log(&self, head: impl Into<Revision>, limit: usize) -> Result<Vec<Commit>> {
        let mut next = Some(self.resolve(head).await?);
        let mut commits = Vec::new();
        while let Some(head) = next.filter(|_| commits.len() < limit) {
            let most = (limit - commits.len()).min(4096);
            let walk = Walk { limit: most, ..Walk::from(head) };
            let page = self.store().walk(self.repo().name(), walk).await?;
            commits.extend(page.steps.into_iter().map(|step| step.commit));
            next = page.next;
        }
        Ok(commits)
    }

    /// Reads what several heads lead to, over all parents: no commit before one of its children,
    /// each line as far as it goes.
    ///
    /// # Errors
    /// What the store says.
    pub async fn log_graph(&self, heads: &[CommitId], limit: usize) -> Result<Vec<Commit>> {
        // Enough to find where lines part; what lies further down is not shown anyway.
        let most = limit.saturating_mul(8).max(2000);
        let mut commits: HashMap<CommitId, Commit> = HashMap::new();
        let mut queue: VecDeque<CommitId> = heads.iter().copied().collect();
        while let Some(id) = queue.pop_front() {
            if commits.contains_key(&id) || commits.len() >= most {
                continue;
            }
            let page = Walk { limit: limit.clamp(64, 4096), ..Walk::from(id) };
            for step in self.store().walk(self.repo().name(), page).await?.steps {
                queue.extend(&step.commit.parents);
                commits.entry(step.commit.id()).or_insert(step.commit);
            }
        }
        let parents = commits.iter().map(|(id, commit)| (*id, commit.parents.clone())).collect();
        let mut ordered = graph::order(heads, &parents);
        ordered.truncate(limit);
        Ok(ordered.into_iter().filter_map(|id| commits.remove(&id)).collect())
    }

    /// Makes the line that a log shows for a commit.
    ///
    /// # Errors
    /// What the store says, and damage of what the commit says.
    pub async fn describe(&self, commit: &Commit) -> Result<LogLine> {
        let lines = self.describe_all(std::slice::from_ref(commit)).await?;
        Ok(lines.into_iter().next().expect("one commit gives one line"))
    }

    /// Makes the lines that a log shows for commits.
    ///
    /// # Errors
    /// As [`describe`](Self::describe).
    pub async fn describe_all(&self, commits: &[Commit]) -> Result<Vec<LogLine>> {
        let keys: Vec<BlobKey> =
            commits.iter().filter_map(|commit| commit.content).map(Into::into).collect();
        let blobs = self.store().blobs(self.repo().name(), &keys).await?;
        let mut texts = HashMap::new();
        for blob in blobs.into_iter().flatten() {
            texts.insert(blob.id(), blob);
        }
        let mut lines = Vec::with_capacity(commits.len());
        for commit in commits {
            let content = match (commit.content.and_then(|id| texts.get(&id)), &commit.kind) {
                (Some(blob), Some(kind)) => {
                    let text = blob.text().ok_or(tract_core::ContentError::NotText)?;
                    Some(Content::from_blob(kind, text)?)
                }
                _ => None,
            };
            lines.push(self.line_of(commit, content.as_ref()).await?);
        }
        Ok(lines)
    }

    async fn line_of(&self, commit: &Commit, content: Option<&Content>) -> Result<LogLine> {
        let said = match content {
            Some(content) => self.said(commit, content).await?,
            None => String::new(),
        };
        let (word, text) = match &commit.op {
            Op::Append { .. } => (word_of(content), said),
            Op::Edit { target } => ("edit".to_owned(), format!("of {}: {said}", target.short())),
            Op::Annotate { targets, priority, reason, .. } => {
                let reason = reason.as_deref().map(|reason| format!(" ({reason})"));
                let text = format!("{priority} {}{}", ids(targets), reason.unwrap_or_default());
                ("annotate".to_owned(), text)
            }
            Op::Compress { targets } => {
                ("compress".to_owned(), format!("{} into one: {said}", targets.len()))
            }
            Op::Revert { targets, .. } => ("revert".to_owned(), format!("of {}", ids(targets))),
            Op::Merge { sources } => ("merge".to_owned(), format!("of {}", ids(sources))),
            Op::Tools => ("tools".to_owned(), self.tools_text(commit).await?),
            Op::Note => ("note".to_owned(), said),
            Op::Unknown { name, .. } => (name.clone(), said),
        };
        let tokens = content.map(|content| count_content(content, &ApproxCounter));
        Ok(LogLine { word, text: commit.message.clone().unwrap_or(text), tokens })
    }

    async fn said(&self, commit: &Commit, content: &Content) -> Result<String> {
        let text = content.text();
        if let Content::ToolResult(answer) = content {
            let name = match (&answer.name, &commit.op) {
                (Some(name), _) => name.clone(),
                (None, Op::Append { answers: Some(call), .. }) => {
                    self.call_name(*call).await?.unwrap_or_else(|| answer.call_id.clone())
                }
                (None, _) => answer.call_id.clone(),
            };
            let failed = if answer.is_error { " failed" } else { "" };
            return Ok(format!("{name}{failed} → {text}"));
        }
        let calls: Vec<String> = content.calls().map(call_text).collect();
        Ok(match (text.is_empty(), calls.is_empty()) {
            (_, true) => text,
            (true, false) => calls.join(", "),
            (false, false) => format!("{text}  {}", calls.join(", ")),
        })
    }

    /// The name of a call, as the message that bears it said it first.
    async fn call_name(&self, call: tract_core::CallRef) -> Result<Option<String>> {
        let found = self.store().commits(self.repo().name(), &[call.slot]).await?;
        let Some(Some(commit)) = found.into_iter().next() else { return Ok(None) };
        let content = self.content_of(&commit).await?;
        let place = usize::try_from(call.index).unwrap_or(usize::MAX);
        Ok(content.and_then(|content| content.calls().nth(place).map(|call| call.name.clone())))
    }

    async fn tools_text(&self, commit: &Commit) -> Result<String> {
        let after = self.tools_at(commit.id()).await?;
        let before = match commit.parent() {
            Some(parent) => self.tools_at(parent).await?,
            None => Vec::new(),
        };
        if before.is_empty() {
            let names: Vec<&str> = after.iter().map(|tool| tool.name.as_str()).collect();
            return Ok(format!("{} set: {}", after.len(), names.join(" ")));
        }
        if after.is_empty() {
            return Ok("none from here on".to_owned());
        }
        let diff = tract_engine::tool_diff(&before, &after, &tract_engine::no_schema_diff);
        let parts: Vec<String> = diff
            .changes
            .iter()
            .map(|change| {
                let sign = match change {
                    tract_engine::ToolChange::Added { .. } => '+',
                    tract_engine::ToolChange::Removed { .. } => '-',
                    _ => '~',
                };
                format!("{sign} {}", change.name())
            })
            .collect();
        Ok(match parts.is_empty() {
            true => "in another order".to_owned(),
            false => parts.join("  "),
        })
    }
}

fn word_of(content: Option<&Content>) -> String {
    match content {
        Some(Content::ToolResult(_)) => "result".to_owned(),
        Some(content) => content.kind().as_str().to_owned(),
        None => "append".to_owned(),
    }
}

fn ids(ids: &[CommitId]) -> String {
    const SHOWN: usize = 4;
    let seen: HashSet<&CommitId> = ids.iter().collect();
    let mut text: Vec<String> = ids.iter().take(SHOWN).map(CommitId::short).collect();
    if seen.len() > SHOWN {
        text.push(format!("and {} more", seen.len() - SHOWN));
    }
    text.join(" ")
}

/// `calculate(expression="6594 + 3925")`; arguments that are no object stand as they are.
fn call_text(call: &ToolCall) -> String {
    let arguments = match json::split_object(&call.arguments) {
        Ok(members) => members
            .into_iter()
            .map(|(key, raw)| match JsonText::new(raw) {
                Ok(value) => format!("{key}={value}"),
                Err(_) => format!("{key}={raw}"),
            })
            .collect::<Vec<_>>()
            .join(", "),
        Err(_) => call.arguments.clone(),
    };
    format!("{}({arguments})", call.name)
}
