//! Plan files of a rebase.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;
use tract::engine::RebaseStep;
use tract::{CommitId, Tract};

use super::MessageKind;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;

/// One line of a plan.
#[derive(Serialize)]
pub(super) struct PlanLine {
    step: &'static str,
    commit: Option<CommitId>,
    text: String,
}

impl fmt::Display for PlanLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.commit {
            Some(commit) => write!(f, "{} {} {}", self.step, commit.short(), self.text),
            None => write!(f, "{} {}", self.step, self.text),
        }
    }
}

/// Formats steps, one line each.
pub(super) async fn lines(tract: &Tract, steps: &[RebaseStep]) -> Outcome<Vec<PlanLine>> {
    let mut lines = Vec::with_capacity(steps.len());
    for step in steps {
        lines.push(match step {
            RebaseStep::Pick(id) => {
                PlanLine { step: "pick", commit: Some(*id), text: describe(tract, *id).await? }
            }
            RebaseStep::Drop(id) => {
                PlanLine { step: "drop", commit: Some(*id), text: describe(tract, *id).await? }
            }
            RebaseStep::Insert(draft) => {
                let text = draft.content.text();
                let kind = draft.content.kind();
                let text = format!("{} {}", kind.as_str(), escape::line(&text));
                PlanLine { step: "insert", commit: None, text }
            }
        });
    }
    Ok(lines)
}

async fn describe(tract: &Tract, id: CommitId) -> Outcome<String> {
    let commit = tract.repo().require_commit(id).await?;
    let lines = tract::engine::describe(tract.repo(), &[commit]).await?;
    Ok(lines.into_iter().next().map_or_else(String::new, |line| {
        escape::line(&format!("{} {}", line.label, line.text)).into_owned()
    }))
}

/// Parses a plan.
pub(super) async fn read(tract: &Tract, path: &Path) -> Outcome<Vec<RebaseStep>> {
    let text = input::read_text(path)?;
    let mut steps = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |what: String| Failure::usage(what).at_line(path, place + 1);
        let (step, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (word, text) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        steps.push(match step {
            "pick" | "drop" if word.is_empty() => {
                return Err(bad(format!("{step:?} needs a commit")));
            }
            "pick" => RebaseStep::Pick(tract.resolve_position(word).await?),
            "drop" => RebaseStep::Drop(tract.drop_target(word).await?),
            "insert" => {
                let kind = MessageKind::from_str(word, false)
                    .map_err(|_| bad(format!("unknown kind of message {word:?}")))?;
                RebaseStep::Insert(Box::new(kind.draft(text.trim())?))
            }
            _ => {
                return Err(bad(format!("unknown step {step:?}"))
                    .note("a line begins with pick, drop or insert"));
            }
        });
    }
    Ok(steps)
}
