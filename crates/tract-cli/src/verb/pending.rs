//! `tract pending`

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use tract::core::BoundCall;
use tract::engine::{PendingRequest, RecordedDecision};
use tract::hooks::{DecisionRecord, Hooks, Summarize};
use tract::{CommitId, Tract};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::out::Output;
use crate::render::{count, short};
use crate::style::{DIM, Styled};
use crate::summarize::CommandSummarizer;

/// List and decide pending approvals.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract pending                              all of them
  tract pending show p-7c1e                  all of it, or what was decided
  tract pending approve p-7c1e
  tract pending reject p-7c1e --reason \"wrong booking\"
  tract pending edit p-7c1e \"three lines matched\"
  tract pending summarize p-7c1e --command 'head -c 400'")]
pub(crate) struct Pending {
    #[command(subcommand)]
    command: Option<PendingVerb>,
}

#[derive(Debug, Subcommand)]
enum PendingVerb {
    /// List pending approvals, oldest first.
    List,
    /// Show one approval with its content, or its decision.
    Show {
        /// The id, or its beginning.
        id: String,
    },
    /// Approve it. A message is written to its branch; a call runs exactly as shown with the next
    /// `tract run` there.
    Approve {
        /// The id, or its beginning.
        id: String,
    },
    /// Reject it; an open call is answered with an error and the reason.
    Reject {
        /// The id, or its beginning.
        id: String,
        /// The reason; the model reads it.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Approve it with another text; the original is kept.
    Edit {
        /// The id, or its beginning.
        id: String,
        /// The text; standard input when absent or `-`
        text: Option<String>,
    },
    /// Approve it with a summary; the original is kept.
    #[command(alias = "summarise")]
    Summarize {
        /// The id, or its beginning.
        id: String,
        /// A program that reads the text on standard input and writes the summary [default: that of
        /// --summarizer or TRACT_SUMMARIZER]
        #[arg(long, value_name = "COMMAND")]
        command: Option<String>,
        /// What the summary must keep.
        #[arg(long, value_name = "TEXT")]
        instructions: Option<String>,
        /// The summary must contain all matches of this pattern; may be given several times.
        #[arg(long, value_name = "REGEX")]
        keep: Vec<String>,
        /// Time limit of the program, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 120)]
        timeout: u64,
    },
}

impl Pending {
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.command, None | Some(PendingVerb::List | PendingVerb::Show { .. }))
    }
}

#[derive(Serialize)]
struct PendingReport<'a> {
    id: &'a str,
    event: &'a str,
    branch: &'a str,
    head: Option<CommitId>,
    handler: &'a str,
    reason: &'a str,
    at: Option<String>,
    what: String,
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<&'a BoundCall>,
}

pub(crate) async fn run(context: &mut Context<'_>, pending: Pending) -> Outcome<()> {
    let tract = context.open().await?;
    let decided = match pending.command.unwrap_or(PendingVerb::List) {
        PendingVerb::List => return list(context.out, &tract).await,
        PendingVerb::Show { id } => return show(context.out, &tract, &id).await,
        PendingVerb::Approve { id } => tract.pending().approve(&id).await?,
        PendingVerb::Reject { id, reason } => tract.pending().reject(&id, reason).await?,
        PendingVerb::Edit { id, text } => {
            let text = input::message_text(text)?;
            tract.pending().edit(&id, text).await.map_err(explained)?
        }
        PendingVerb::Summarize { id, command, instructions, keep, timeout } => {
            let Some(command) = command.or_else(|| context.global.summarizer.clone()) else {
                return Err(Failure::usage("expected a program that writes the summary")
                    .note("name it with --command, --summarizer or TRACT_SUMMARIZER"));
            };
            let mut how = Summarize::new();
            how.instructions = instructions;
            how.must_keep = keep;
            let hooks = Hooks::new()
                .summarizer(CommandSummarizer::new(command))
                .summary_limit(Duration::from_secs(timeout));
            tract.with_hooks(hooks).pending().summarize(&id, &how).await?
        }
    };
    print_decision(context.out, &decided)?;
    next_step(context.out, &tract, &decided).await
}

/// Adds advice to the error of an edit that was refused.
fn explained(error: tract::Error) -> Failure {
    let failure = Failure::from(error);
    match failure.code {
        "no_text" => failure
            .note(
                "a call runs as it is shown: approve it, or reject it with --reason TEXT, which \
                 tells the model what to call instead",
            )
            .note("a merge is completed by `tract merge resolve`"),
        _ => failure,
    }
}

/// Prints the next step after a call was decided.
async fn next_step(out: &mut Output, tract: &Tract, decided: &RecordedDecision) -> Outcome<()> {
    if out.is_json() || !matches!(decided.request, PendingRequest::Call { .. }) {
        return Ok(());
    }
    let branch = decided.branch.branch_name().unwrap_or(decided.branch.as_str());
    let all = tract.pending().list().await?;
    let left = all.iter().filter(|waits| waits.branch == decided.branch).count();
    let next = if left > 0 {
        let left = count(left, "pending approval");
        format!("next: {left} on {}, see tract pending", escape::line(branch))
    } else {
        let on = (tract.branch_name() != branch).then(|| format!(" --on {}", escape::line(branch)));
        let on = on.unwrap_or_default();
        format!(
            "next: tract run{on}, with the --model and the tools (--fs, --mcp) of the run that asked"
        )
    };
    out.say(Styled(DIM, next));
    Ok(())
}

async fn list(out: &mut Output, tract: &Tract) -> Outcome<()> {
    let all = tract.pending().list().await?;
    for waits in &all {
        out.item(&document(waits, false), escape::line(&waits.to_string()))?;
    }
    if !out.is_json() {
        out.say(count(all.len(), "pending approval"));
    }
    Ok(())
}

fn document(waits: &tract::engine::Pending, whole: bool) -> PendingReport<'_> {
    PendingReport {
        id: &waits.id,
        event: &waits.event,
        branch: waits.branch.branch_name().unwrap_or(waits.branch.as_str()),
        head: waits.head,
        handler: &waits.handler,
        reason: &waits.reason,
        at: tract::time::format_rfc3339(waits.created_at_us),
        what: waits.request.describe(),
        content: text_of(&waits.request).filter(|_| whole),
        bound: bound(&waits.request).filter(|_| whole),
    }
}

/// Returns the exact call that would run.
fn bound(request: &PendingRequest) -> Option<&BoundCall> {
    match request {
        PendingRequest::Call { bound, .. } => bound.as_deref(),
        _ => None,
    }
}

/// Prints the exact call that would run, which a person approves.
fn show_bound(out: &mut Output, request: &PendingRequest) -> Outcome<()> {
    let Some(call) = bound(request) else { return Ok(()) };
    let mut lines = vec![
        format!("tool        {}", call.tool_name),
        format!("server      {}", call.server.as_deref().unwrap_or("none: a tool of the program")),
        format!("arguments   {}", call.arguments),
        format!("definition  {}", call.definition),
    ];
    if call.repaired {
        lines.push("repaired    the model's arguments were repaired".to_owned());
    }
    lines.extend(call.changes.iter().map(|change| format!("changed     {}", change.as_str())));
    out.line("")?;
    for line in lines {
        out.line(escape::line(&line))?;
    }
    Ok(())
}

fn text_of(request: &PendingRequest) -> Option<String> {
    request.content().map(tract::Content::text)
}

async fn show(out: &mut Output, tract: &Tract, id: &str) -> Outcome<()> {
    if let Some(decided) = tract.repo().decision(id).await? {
        print_decision(out, &decided)?;
        if !out.is_json() {
            show_text(out, &decided.request)?;
        }
        return Ok(());
    }
    let waits = tract.repo().pending_operation(id).await?;
    if out.is_json() {
        return out.json(&document(&waits, true));
    }
    out.line(escape::line(&waits.to_string()))?;
    show_bound(out, &waits.request)?;
    if waits.request.conflicts().is_some() {
        let next = format!("next: tract merge show {}", escape::line(&waits.id));
        out.say(Styled(DIM, next));
    }
    show_text(out, &waits.request)
}

fn show_text(out: &mut Output, request: &PendingRequest) -> Outcome<()> {
    if let Some(text) = text_of(request) {
        out.line("")?;
        out.line(escape::block(text.trim_end_matches('\n')))?;
    }
    Ok(())
}

pub(crate) fn print_decision(out: &mut Output, decided: &RecordedDecision) -> Outcome<()> {
    let branch = decided.branch.branch_name().unwrap_or(decided.branch.as_str());
    let json = json!({
        "id": decided.id,
        "branch": branch,
        "commit": decided.commit,
        "record": decided.record,
        "what": decided.request.describe(),
        "content": text_of(&decided.request),
    });
    let because = because(&decided.record);
    let mut line = format!("{} {}", escape::line(&decided.id), escape::line(&because));
    if let Some(commit) = decided.commit {
        let _ = write!(line, "  {}", short(commit));
    }
    out.item(&json, format_args!("{line}  {}", Styled(DIM, escape::line(branch))))
}

/// Returns a line with the decision, its author and reason, and earlier decisions.
pub(crate) fn because(record: &DecisionRecord) -> String {
    record.all().map(one).collect::<Vec<_>>().join("; before that ")
}

fn one(record: &DecisionRecord) -> String {
    let mut line = record.action.clone();
    if let Some(handler) = &record.handler {
        let _ = write!(line, " by {handler}");
    }
    if let (Some(before), Some(after)) = (record.tokens_before, record.tokens_after) {
        let _ = write!(line, ", {before} tok to {after}");
    }
    for (word, value) in [
        ("why", &record.reason),
        ("instructions", &record.instructions),
        ("model", &record.model),
        ("note", &record.note),
        ("was", &record.pending),
    ] {
        if let Some(value) = value {
            let _ = write!(line, "; {word}: {value}");
        }
    }
    for failure in &record.failures {
        let _ = write!(line, "; {failure}");
    }
    line
}
