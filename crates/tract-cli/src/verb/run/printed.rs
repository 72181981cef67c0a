//! Printing of a run.

use std::io::Write as _;

use anstyle::Style;
use serde::Serialize;
use serde_json::json;
use tract::run::{Progress, Report, Stop};
use tract::{CommitId, ReplyDelta, Tract};

use super::super::ask::PieceWriter;
use crate::escape;
use crate::failure::Outcome;
use crate::out::Output;
use crate::render::{counted, number, short};
use crate::style::{BAD, BOLD, DIM, Styled};

/// The progress of a run, sent by the thread that runs it. It serializes as `--json` prints it.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum RunEvent {
    Asking {
        step: u32,
    },
    Text {
        text: String,
    },
    Reasoning {
        text: String,
    },
    Reply {
        commit: CommitId,
        calls: usize,
    },
    Progress {
        call_id: String,
        line: String,
    },
    Answer {
        call_id: String,
        tool: String,
        outcome: String,
        is_error: bool,
        text: String,
        operator: Option<String>,
        duration_us: u64,
        commit: Option<CommitId>,
    },
    Waiting {
        pending: String,
        call_id: String,
        reason: String,
    },
    Held {
        by: String,
        branch: String,
    },
}

impl RunEvent {
    pub(super) fn of(progress: &Progress<'_>) -> Option<Self> {
        Some(match progress {
            Progress::Asking { step, .. } => Self::Asking { step: *step },
            Progress::Piece(ReplyDelta::Text(text)) => Self::Text { text: text.clone() },
            Progress::Piece(ReplyDelta::Reasoning(text)) => Self::Reasoning { text: text.clone() },
            Progress::Replied { commit, calls } => Self::Reply { commit: *commit, calls: *calls },
            Progress::Tool { call_id, line } => {
                Self::Progress { call_id: (*call_id).to_owned(), line: (*line).to_owned() }
            }
            Progress::Answered(answered) => Self::Answer {
                call_id: answered.call_id.clone(),
                tool: answered.tool_name.clone(),
                outcome: answered.outcome.clone(),
                is_error: answered.is_error,
                text: answered.text.clone(),
                operator: answered.operator.clone(),
                duration_us: answered.duration_us,
                commit: answered.commit,
            },
            Progress::Waiting { pending, call_id, reason } => Self::Waiting {
                pending: (*pending).to_owned(),
                call_id: (*call_id).to_owned(),
                reason: (*reason).to_owned(),
            },
            Progress::Held { by, branch } => {
                let branch = branch.strip_prefix("heads/").unwrap_or(branch);
                Self::Held { by: (*by).to_owned(), branch: branch.to_owned() }
            }
            _ => return None,
        })
    }
}

#[derive(Default)]
pub(super) struct Printer {
    text: PieceWriter,
}

impl Printer {
    pub(super) fn print_event(&mut self, out: &mut Output, event: &RunEvent) -> Outcome<()> {
        if out.is_json() {
            out.json(event)?;
            return out.flush();
        }
        match event {
            RunEvent::Asking { .. } => {}
            RunEvent::Text { text } => self.text.piece(out, text)?,
            // Thinking is not part of the output.
            RunEvent::Reasoning { text } => {
                let _ = write!(std::io::stderr(), "{}", escape::block(text));
            }
            RunEvent::Reply { .. } => self.text.end_line(out)?,
            RunEvent::Progress { line, .. } => {
                out.say(format_args!("  {}", Styled(DIM, escape::line(line))));
            }
            RunEvent::Answer { tool, outcome, is_error, text, .. } => {
                self.text.end_line(out)?;
                let first = text.lines().next().unwrap_or_default();
                let first: String = first.chars().take(100).collect();
                let style = if *is_error { BAD } else { Style::new() };
                let outcome = Styled(style, escape::line(outcome));
                out.say(format_args!(
                    "  {} {outcome} {}",
                    Styled(BOLD, escape::line(tool)),
                    Styled(DIM, escape::line(&first))
                ));
            }
            RunEvent::Held { by, branch } => {
                self.text.end_line(out)?;
                out.say(format_args!(
                    "  waiting for {}, which works on these calls on {}",
                    Styled(BOLD, escape::line(by)),
                    escape::line(branch)
                ));
            }
            RunEvent::Waiting { pending, call_id, reason } => {
                self.text.end_line(out)?;
                out.say(format_args!(
                    "  {} waits: call {} ({})",
                    Styled(BOLD, escape::line(pending)),
                    escape::line(call_id),
                    escape::line(reason)
                ));
            }
        }
        Ok(())
    }

    /// Ends the output; `again` is the command that continues the run.
    pub(super) fn end(
        &mut self,
        out: &mut Output,
        tract: &Tract,
        report: &Report,
        again: &str,
    ) -> Outcome<()> {
        let (message, mut notes) = stop_text(report, again);
        if report.estimated_tokens > 0 {
            let tokens = number(report.estimated_tokens);
            notes.push(format!("the server does not report all tokens: {tokens} were estimated"));
        }
        if out.is_json() {
            return out.json(&json!({
                "stop": report.stop.code(),
                "message": message,
                "notes": notes,
                "text": report.text,
                "steps": report.steps,
                "calls": report.calls,
                "input_tokens": report.usage.input_tokens,
                "output_tokens": report.usage.output_tokens,
                "branch": tract.branch_name(),
                "head": report.head,
                "pending": report.pending,
            }));
        }
        self.text.end_line(out)?;
        let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), number);
        if let Some(head) = report.head {
            let summary = format!(
                "{} · {} · {} · {} + {} tokens",
                escape::line(tract.branch_name()),
                counted(report.steps.into(), "step"),
                counted(report.calls.into(), "call"),
                tokens(report.usage.input_tokens),
                tokens(report.usage.output_tokens),
            );
            out.say(format_args!("{} {}", short(head), Styled(DIM, summary)));
        }
        if let Some(message) = message {
            out.say(format_args!("{}", escape::line(&message)));
        }
        for note in notes {
            out.say(format_args!("  note: {}", escape::line(&note)));
        }
        Ok(())
    }
}

/// Returns why a run stopped early, with advice.
fn stop_text(report: &Report, command: &str) -> (Option<String>, Vec<String>) {
    let again = || format!("continue with: {command}");
    match &report.stop {
        Stop::Answered => {
            let unknown = report.unknown_stop_reason.as_ref().map(|reason| {
                format!("the model stopped with the unknown reason {reason:?}: it may not be done")
            });
            (unknown, Vec::new())
        }
        Stop::Waiting => (
            Some(format!("pending approvals: {}", report.pending.join(", "))),
            report
                .pending
                .iter()
                .map(|id| format!("approve with: tract pending approve {id}"))
                .chain([again()])
                .collect(),
        ),
        Stop::Steps(steps) => {
            (Some(format!("the limit of steps is reached: {steps}")), vec![again()])
        }
        Stop::Budget(exceeded) => (Some(exceeded.to_string()), vec![again()]),
        Stop::Cancelled => (Some("interrupted".to_owned()), vec![again()]),
        Stop::Truncated => (
            Some("the reply was cut off by the limit of tokens".to_owned()),
            vec![
                "allow more with --set max_tokens=N, and say in a task how to continue".to_owned(),
            ],
        ),
        Stop::Refused => (Some("the model refused to continue".to_owned()), Vec::new()),
        Stop::Ended { message, notes, .. } => (Some(message.clone()), notes.clone()),
        other => (Some(other.code().to_owned()), vec![again()]),
    }
}
