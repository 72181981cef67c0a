//! Open ends of a context: a question without an answer, calls without results.

use std::collections::HashSet;

use tract_compile::Compiled;
use tract_core::{CallRef, CommitId, Draft, Role};

use crate::plan::OpenCall;

/// Returns the commit of this question if it is the last message of the context, so that a retry
/// after a failed request does not record it twice.
///
/// # Behavior
/// - Only a plain question counts: one with metadata, a priority, a time or verbatim bytes of its
///   own is recorded as given.
/// - Its tools and generation config are not compared: they are sent with the next request and
///   recorded with its answer.
pub fn unanswered(compiled: &Compiled, question: &Draft) -> Option<CommitId> {
    let is_plain = question.metadata.is_none()
        && question.message.is_none()
        && question.priority.is_none()
        && question.retention.is_none()
        && question.created_at.is_none()
        && question.verbatim.is_none()
        && question.form.is_none()
        && question.keeps.is_empty()
        && !question.joins_previous;
    let last = compiled.messages().next_back()?;
    let role = question.role.as_ref().unwrap_or(&Role::User);
    (is_plain && last.role == Role::User && *role == Role::User && last.content == question.content)
        .then_some(last.commit)
}

/// Returns the unanswered calls of a context, in order.
pub fn open_calls(compiled: &Compiled) -> Vec<OpenCall> {
    let answered: HashSet<_> = compiled.rows().filter_map(|(row, _)| row.answers).collect();
    let mut open = Vec::new();
    for message in compiled.messages() {
        for (index, call) in message.content.calls().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let place = CallRef { slot: message.slot, index };
            if !answered.contains(&place) {
                let (call_id, name) = (call.id.clone(), call.name.clone());
                open.push(OpenCall { call_id, name, call: place });
            }
        }
    }
    open
}
