//! A question that is recorded already and has no answer yet.

use tract_compile::Compiled;
use tract_core::{CommitId, Draft, Role};

/// Returns the commit of this question when it is the last message of the context, so that asking
/// again after a failed request does not record it twice.
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
