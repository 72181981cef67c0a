//! `tract export --format`: writes a conversation in the format of another tool.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use tract::core::RefName;
use tract::import::{ExportedSession, SessionFormat, export_session};
use tract::{CommitId, Tract};

use super::write_whole;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::render::count;
use crate::shell;

/// Parses the name of a format.
pub(super) fn format() -> impl TypedValueParser<Value = SessionFormat> {
    let words = SessionFormat::ALL.iter().map(|format| format.as_str());
    PossibleValuesParser::new(words).try_map(|word| word.parse())
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    session: &'a str,
    /// The path of the written file.
    file: String,
    messages: usize,
    /// Whether importing the file gives the same commits.
    as_recorded: bool,
    left_out: Vec<LeftOut>,
}

#[derive(Serialize)]
struct LeftOut {
    what: &'static str,
    count: usize,
}

pub(super) async fn run(
    context: &mut Context<'_>,
    tract: &Tract,
    format: SessionFormat,
    revisions: &[String],
    output: Option<PathBuf>,
) -> Outcome<()> {
    let revision = match revisions {
        [] => "HEAD",
        [one] => one,
        [_, _, ..] => {
            let what = "--format writes one conversation: name one branch or revision";
            return Err(Failure::usage(what));
        }
    };
    let head = tract.resolve_position(revision).await?;
    let branch = branch_of(tract, revision, head).await?;
    let exported = export_session(tract.repo(), head, branch.as_deref(), format).await;
    let session = exported.map_err(tract::Error::from)?;
    let Some(path) = output.filter(|path| !input::is_stdin(path)) else {
        for line in &session.lines {
            context.out.raw(line)?;
            if context.out.is_lost() {
                return Ok(());
            }
        }
        for (what, count) in &session.left_out {
            context.out.say(format_args!("left out: {count} {what}"));
        }
        return Ok(());
    };
    let file = match path.is_dir() {
        true => path.join(file_name(&session)),
        false => path,
    };
    let mut lines = session.lines.iter();
    write_whole(&file, async || Ok(lines.next().cloned())).await?;
    let name = file.display().to_string();
    if context.out.is_json() {
        let left_out = session.left_out.iter();
        return context.out.json(&Document {
            format: format.as_str(),
            session: &session.session,
            file: name,
            messages: session.messages,
            as_recorded: session.as_recorded,
            left_out: left_out.map(|(what, count)| LeftOut { what, count: *count }).collect(),
        });
    }
    for (what, count) in &session.left_out {
        context.out.say(format_args!("left out: {count} {what}"));
    }
    let messages = count(session.messages, "message");
    context.out.line(format_args!("{messages} in {}", escape::line(&name)))?;
    match format {
        SessionFormat::ClaudeCode => {
            let id = shell::quoted(&session.session);
            context.out.say(format_args!(
                "put it into the project's folder below ~/.claude/projects, then: claude --resume {id}"
            ));
        }
        SessionFormat::Codex => {
            context
                .out
                .say("put it below ~/.codex/sessions; Codex may not list what it did not write");
        }
        _ => {}
    }
    Ok(())
}

/// Returns the tool's file name, changed so that it stays in the folder.
fn file_name(session: &ExportedSession) -> PathBuf {
    let name = Path::new(&session.file_name).file_name();
    let is_plain = name.is_some_and(|name| name == session.file_name.as_str());
    PathBuf::from(if is_plain { session.file_name.as_str() } else { "session.jsonl" })
}

/// Returns the branch that a revision names, if it names one.
async fn branch_of(tract: &Tract, revision: &str, head: CommitId) -> Outcome<Option<String>> {
    let name = if revision == "HEAD" { tract.branch_name() } else { revision };
    let Ok(at) = RefName::branch(name) else { return Ok(None) };
    let found = tract.repo().head_of(&at).await.map_err(tract::Error::from)?;
    Ok((found == Some(head)).then(|| name.to_owned()))
}
