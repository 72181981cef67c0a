//! What the span of a run says of its end.

use tract_core::Usage;
use tract_core::telemetry::{Span, names};

use crate::error::Result;
use crate::run::Report;
use crate::turn::TurnDone;

/// Says in a span how a run ended.
pub(crate) fn say_run(span: &Span, done: &Result<Report>) {
    let report = match done {
        Ok(report) => report,
        Err(error) => return span.fail(error.code()),
    };
    if let Some(head) = report.head {
        span.set_id(names::TRACT_COMMIT, head);
    }
    span.set(names::TRACT_STOP, report.stop.code());
    span.set(names::TRACT_STEPS, report.steps);
    span.set(names::TRACT_CALLS, report.calls);
    say_usage(span, report.usage);
}

/// Says in a span how a turn ended.
pub(crate) fn say_turn(span: &Span, done: &Result<TurnDone>) {
    let turn = match done {
        Ok(turn) => turn,
        Err(error) => return span.fail(error.code()),
    };
    if let Some(reply) = turn.reply {
        span.set_id(names::TRACT_COMMIT, reply);
    }
    span.set(names::TRACT_STEPS, u32::from(turn.reply.is_some()));
    span.set(names::TRACT_CALLS, turn.answers.len());
    say_usage(span, turn.usage.unwrap_or_default());
}

fn say_usage(span: &Span, usage: Usage) {
    // A run's sum is zero where no answer told its tokens.
    if let Some(tokens) = usage.input_tokens.filter(|tokens| *tokens > 0) {
        span.set(names::INPUT_TOKENS, tokens);
    }
    if let Some(tokens) = usage.output_tokens.filter(|tokens| *tokens > 0) {
        span.set(names::OUTPUT_TOKENS, tokens);
    }
}
