//! Attributes of a run's span that are set at its end.

use tract_core::telemetry::{Span, names};
use tract_core::{CommitId, Usage};

use crate::error::Result;

/// The figures of a run or a turn in its span: the last commit, the requests to the model, the
/// answered calls, and the tokens.
pub(crate) type Figures = (Option<CommitId>, u32, u64, Usage);

/// Records the end of a run or a turn in its span.
pub(crate) fn say_end<T>(span: &Span, done: &Result<T>, figures: impl Fn(&T) -> Figures) {
    if !span.is_recording() {
        return;
    }
    let (commit, steps, calls, usage) = match done {
        Ok(done) => figures(done),
        Err(error) => return span.fail(error.code()),
    };
    if let Some(commit) = commit {
        span.set_id(names::TRACT_COMMIT, commit);
    }
    span.set(names::TRACT_STEPS, steps);
    span.set(names::TRACT_CALLS, calls);
    let tokens =
        [(names::INPUT_TOKENS, usage.input_tokens), (names::OUTPUT_TOKENS, usage.output_tokens)];
    for (name, tokens) in tokens {
        // The sum of a run is zero if no answer reported its tokens.
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
            span.set(name, tokens);
        }
    }
}
