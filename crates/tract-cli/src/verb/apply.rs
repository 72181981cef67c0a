//! `tract apply`

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use tract::CommitId;
use tract::engine::{self, ApplyEvent, ApplyOptions};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome, RefusedLine};
use crate::input;
use crate::out::Output;
use crate::render::{self, count, number, short};
use crate::style::{BAD, DIM, REF, Styled, WARN};

/// Run a stream of operations, one JSON object per line.
///
/// A refused line changes nothing and ends the run; the lines before it are kept.
#[derive(Debug, Args)]
#[command(after_help = r#"Examples:
  tract apply stream.jsonl
  echo '{"op":"user","text":"Again, please.","mark":"q"}' | tract apply --json -
  tract export | tract --store sqlite:copy.db apply --trust -

Lines (docs/cli.md has all fields):
  {"op":"system","text":"…"}  {"op":"user","text":"…","mark":"m1"}
  {"op":"assistant","text":"…","tool_calls":[{"id":"c1","name":"grep","arguments":{…}}]}
  {"op":"tool_result","call_id":"c1","content":"…"}
  {"op":"edit","target":":m1","text":"…"}  {"op":"annotate","target":":m1","priority":"skip"}
  {"op":"set_tools","tools":[{…}]}  {"op":"compress","from":":m1","to":":m9","content":"…"}
  {"op":"branch","name":"b","from":":m1"}  {"op":"checkout","name":"b"}  {"op":"merge","from":"b"}
  {"op":"revert","target":":x"}  {"op":"tag","name":"t"}  {"op":"note","text":"…"}"#)]
pub(crate) struct Apply {
    /// The file; `-` for standard input.
    file: PathBuf,
    /// Continue after a refused line.
    #[arg(long, conflicts_with = "atomic")]
    keep_going: bool,
    /// Write all lines in one durable batch, or none.
    #[arg(long, conflicts_with = "batch")]
    atomic: bool,
    /// Also apply lines with approvals of tools, policies, pending operations and decisions.
    ///
    /// Without this flag these lines are refused and the others are applied.
    #[arg(long)]
    trust: bool,
    /// Wait for N lines and write them together [default: the lines that arrive together]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
}

#[derive(Serialize)]
struct AppliedLine<'a> {
    line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<CommitId>,
}

pub(crate) async fn run(context: &mut Context<'_>, apply: Apply) -> Outcome<()> {
    let lines = engine::read_lines(input::open(&apply.file)?);
    let tract = context.open_or_create().await?;
    let mut options = ApplyOptions {
        keep_going: apply.keep_going,
        atomic: apply.atomic,
        trust: apply.trust,
        ..ApplyOptions::default()
    };
    if let Some(lines) = apply.batch {
        options.batch = Some(lines);
    }
    let out = &mut *context.out;
    let mut printed = Ok(());
    // On a terminal the answers show the progress.
    let bar = match io::stdout().is_terminal() || input::is_stdin(&apply.file) {
        true => ProgressBar::hidden(),
        false => render::progress("applying", "lines"),
    };
    let report = engine::apply_stream(tract.repo(), lines, &options, |event| {
        // The lines are applied even if stdout is closed.
        bar.inc_length(1);
        bar.inc(1);
        let answer = bar.suspend(|| tell(out, &event));
        if printed.is_ok() {
            printed = answer;
        }
    })
    .await;
    bar.finish_and_clear();
    let report = report?;
    printed?;
    let refused = match report.refused {
        0 => String::new(),
        n => format!(", {}", Styled(BAD, format!("{n} refused"))),
    };
    let trusted = match report.trusted {
        0 => String::new(),
        n => {
            let refs = number(n as u64);
            format!(", {}", Styled(WARN, format!("{refs} approvals, policies or decisions taken")))
        }
    };
    let done = Styled(DIM, count(report.done, "line") + " done");
    context.out.say(format_args!("{done}{refused}{trusted}"));
    if report.restored > 0 {
        let objects = count(report.restored, "damaged or missing object");
        context.out.say(format_args!("restored {objects}"));
    }
    render::erasures(context.out, &report.erased)?;
    Failure::unless(report.refused == 0)
}

/// Prints the outcome of a line. The commits of `events` are durable, so each is printed at once.
fn tell(out: &mut Output, event: &ApplyEvent) -> Outcome<()> {
    let (line, mark) = (event.line, event.mark.as_deref());
    match &event.result {
        Ok(commit) if out.is_json() => out.json(&AppliedLine { line, mark, commit: *commit })?,
        Ok(None) => {}
        Ok(Some(commit)) => {
            let mark = mark.map(|mark| Styled(REF, format!(":{}", escape::line(mark))));
            let mark = mark.map(|mark| format!("  {mark}")).unwrap_or_default();
            out.line(format_args!("{line:>4}  {}{mark}", short(*commit)))?;
        }
        Err(error) => {
            let error = Failure::of_line(error);
            out.refuse(&RefusedLine { mark, ..RefusedLine::new(line, &error) })?;
        }
    }
    out.flush()
}
