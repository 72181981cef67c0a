//! What is printed of a run.

use std::io::Write as _;

use serde::Serialize;
use tract::run::{Progress, Report, Stop};
use tract::{Piece, Tract};

use crate::escape;
use crate::failure::Outcome;
use crate::out::Out;
use crate::render::{count, number, short};
use crate::style::{BAD, BOLD, DIM, Styled};

/// What a run has told, taken from the thread that runs it. It serializes as `--json` prints it.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Told {
    Asking { step: u32 },
    Text { text: String },
    Reasoning { text: String },
    Reply { commit: String, calls: usize },
    Progress { call_id: String, line: String },
    Answer(Answer),
    Waiting { pending: String, call_id: String, reason: String },
    Held { by: String, branch: String },
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    call_id: String,
    tool: String,
    outcome: String,
    is_error: bool,
    text: String,
    operator: Option<String>,
    duration_us: u64,
    commit: Option<String>,
}

impl Told {
    pub(super) fn of(progress: &Progress<'_>) -> Option<Self> {
        Some(match progress {
            Progress::Asking { step, .. } => Self::Asking { step: *step },
            Progress::Piece(Piece::Text(text)) => Self::Text { text: text.clone() },
            Progress::Piece(Piece::Reasoning(text)) => Self::Reasoning { text: text.clone() },
            Progress::Replied { commit, calls } => {
                Self::Reply { commit: commit.to_hex(), calls: *calls }
            }
            Progress::Tool { call_id, line } => {
                Self::Progress { call_id: (*call_id).to_owned(), line: (*line).to_owned() }
            }
            Progress::Answered(answered) => Self::Answer(Answer {
                call_id: answered.call_id.clone(),
                tool: answered.tool_name.clone(),
                outcome: answered.outcome.clone(),
                is_error: answered.is_error,
                text: answered.text.clone(),
                operator: answered.operator.clone(),
                duration_us: answered.duration_us,
                commit: answered.commit.map(|commit| commit.to_hex()),
            }),
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

/// The end of a run, as `--json` prints it.
#[derive(Serialize)]
struct Ended<'a> {
    stop: &'a str,
    message: Option<String>,
    notes: Vec<String>,
    text: &'a str,
    steps: u32,
    calls: u32,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    branch: &'a str,
    head: Option<String>,
    pending: &'a [String],
}

#[derive(Default)]
pub(super) struct Printer {
    /// Whether a line is open on stdout.
    open: bool,
}

impl Printer {
    pub(super) fn told(&mut self, out: &mut Out, told: &Told) -> Outcome<()> {
        if out.is_json() {
            out.json(told)?;
            return out.flush();
        }
        match told {
            Told::Asking { .. } => {}
            Told::Text { text } => {
                out.write(&escape::block(text))?;
                self.open = !text.ends_with('\n');
                out.flush()?;
            }
            // Thinking is no part of the work.
            Told::Reasoning { text } => {
                let _ = write!(std::io::stderr(), "{}", escape::block(text));
            }
            Told::Reply { .. } => self.line_end(out)?,
            Told::Progress { line, .. } => {
                out.say(format_args!("  {}", Styled(DIM, escape::line(line))));
            }
            Told::Answer(answer) => {
                self.line_end(out)?;
                let first = answer.text.lines().next().unwrap_or_default();
                let first: String = first.chars().take(100).collect();
                let outcome = match answer.is_error {
                    true => Styled(BAD, escape::line(&answer.outcome)).to_string(),
                    false => escape::line(&answer.outcome).to_string(),
                };
                out.say(format_args!(
                    "  {} {outcome} {}",
                    Styled(BOLD, escape::line(&answer.tool)),
                    Styled(DIM, escape::line(&first))
                ));
            }
            Told::Held { by, branch } => {
                self.line_end(out)?;
                out.say(format_args!(
                    "  waiting for {}, which works on these calls on {}",
                    Styled(BOLD, escape::line(by)),
                    escape::line(branch)
                ));
            }
            Told::Waiting { pending, call_id, reason } => {
                self.line_end(out)?;
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

    fn line_end(&mut self, out: &mut Out) -> Outcome<()> {
        match std::mem::take(&mut self.open) {
            true => {
                out.write("\n")?;
                out.flush()
            }
            false => Ok(()),
        }
    }

    /// Ends what is printed; `again` is the command that continues the run.
    pub(super) fn end(
        &mut self,
        out: &mut Out,
        tract: &Tract,
        report: &Report,
        again: &str,
    ) -> Outcome<()> {
        let (message, notes) = said(report, again);
        if out.is_json() {
            return out.json(&Ended {
                stop: report.stop.code(),
                message,
                notes,
                text: &report.text,
                steps: report.steps,
                calls: report.calls,
                input_tokens: report.usage.input_tokens,
                output_tokens: report.usage.output_tokens,
                branch: tract.branch_name(),
                head: report.head.map(|head| head.to_hex()),
                pending: &report.pending,
            });
        }
        self.line_end(out)?;
        let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), number);
        if let Some(head) = report.head {
            let summary = format!(
                "{} · {} · {} · {} + {} tokens",
                escape::line(tract.branch_name()),
                count(usize::try_from(report.steps).unwrap_or(usize::MAX), "step"),
                count(usize::try_from(report.calls).unwrap_or(usize::MAX), "call"),
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

/// Why a run stopped short, and the ways out.
fn said(report: &Report, command: &str) -> (Option<String>, Vec<String>) {
    let again = || format!("continue with: {command}");
    match &report.stop {
        Stop::Answered => {
            let unknown = report.unknown_stop_reason.as_ref().map(|reason| {
                format!("the model stopped with the unknown reason {reason:?}: it may not be done")
            });
            (unknown, Vec::new())
        }
        Stop::Waiting => (
            Some(format!("calls wait to be decided: {}", report.pending.join(", "))),
            report
                .pending
                .iter()
                .map(|id| format!("approve with: tract pending approve {id}"))
                .chain([again()])
                .collect(),
        ),
        Stop::Steps(steps) => (
            Some(format!("the model was asked {steps} times, as often as it may be")),
            vec![again()],
        ),
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
