//! Plans to add a message, and binds a result to its call.

use std::collections::HashMap;

use tract_compile::Row;
use tract_core::{Blob, CallRef, CommitId, Content, Draft, Op};

use super::{BranchTip, Details, History, OpenCall, Plan, PlannedCommit, Records, Refusal};

/// Plans to add a message. With `orphans`, a result that answers no open call is accepted unbound.
pub(super) fn append(
    history: &History,
    records: &Records,
    draft: &Draft,
    orphans: bool,
) -> Plan<PlannedCommit> {
    let answers = match &draft.content {
        Content::ToolResult(answer) => match bind(history, records, &answer.call_id) {
            Ok(call) => Some(call),
            Err(super::Stop::Refused(_)) if orphans => None,
            Err(stop) => return Err(stop),
        },
        Content::System(_)
        | Content::User(_)
        | Content::Assistant(_)
        | Content::Reasoning(_)
        | Content::Artifact(_)
        | Content::Note(_)
        | Content::Custom { .. } => None,
    };
    let mut planned = message(history.into(), draft, answers)?;
    if draft.joins_previous {
        planned.record.joins = history.view().rows().next_back().map(|row| row.slot);
    }
    Ok(planned)
}

/// Returns whether a message can be planned without the view: it neither answers a call nor
/// continues another message.
pub(crate) fn is_plain(draft: &Draft) -> bool {
    !draft.joins_previous && !matches!(draft.content, Content::ToolResult(_))
}

/// Plans to add a message; a [plain](is_plain) one answers nothing.
pub(crate) fn message(
    tip: BranchTip,
    draft: &Draft,
    answers: Option<CallRef>,
) -> Plan<PlannedCommit> {
    Ok(sealed_message(tip, draft, Blob::seal(draft.content.to_blob()?), answers))
}

/// Plans to add a message whose content is sealed already.
pub(crate) fn sealed_message(
    tip: BranchTip,
    draft: &Draft,
    content: Blob,
    answers: Option<CallRef>,
) -> PlannedCommit {
    let op = Op::Append {
        slot: None,
        answers,
        priority: draft.priority,
        retention: draft.retention.clone(),
    };
    let mut planned = PlannedCommit::on(tip, op, &Details::from(draft));
    planned.say_sealed(content, draft.content.kind(), draft.role.clone());
    planned.record.form = draft.form.clone();
    if let Some(verbatim) = &draft.verbatim {
        planned.record.verbatim = Some(verbatim.id());
        planned.blobs.push(verbatim.clone());
    }
    planned
}

/// Number of rows read first when a call is searched from the end.
const FIRST_STEP: usize = 8;

/// Finds the open call with this id that a result answers: the first one in the nearest message
/// that contains one. Rows that are joined count as one message.
fn bind(history: &History, records: &Records, call_id: &str) -> Plan<CallRef> {
    let mut answered = HashMap::new();
    let mut open = Vec::new();
    let mut taken = None;
    // The first open call found so far, and the row that its message continues.
    let mut first: Option<(CallRef, Option<CommitId>)> = None;
    let mut rows = history.view().rows().rev().peekable();
    let mut step = FIRST_STEP;
    while rows.peek().is_some() {
        let some: Vec<&Row> = rows.by_ref().take(step).collect();
        records.ensure_calls(some.iter().filter(|row| row.answers.is_none()).copied())?;
        // `ensure_calls` stops the planner, which starts again from the end once the rows are read.
        // With a growing step the restarts read a geometric series, so the search is linear in the
        // distance to the call.
        step = (step * 4).min(4096);
        for row in some {
            // Joined rows are one provider message, which may list the same call id twice. The
            // first of them in the order of the message is the open one, so the search continues
            // through the rows that this one continues.
            if let Some((call, continues)) = first
                && (continues != Some(row.slot) || row.answers.is_some())
            {
                return Ok(call);
            }
            if let Some(call) = row.answers {
                // Results come after their call, so walking backward sees all answers to a call
                // before the call itself.
                answered.entry(call).or_insert(row.slot);
                continue;
            }
            let (mut is_found, calls) = (false, records.calls(row)?);
            for (index, (id, name)) in calls.into_iter().enumerate() {
                let call = call_ref(row.slot, index);
                match answered.get(&call) {
                    None if id == call_id && is_found => {}
                    None if id == call_id => {
                        is_found = true;
                        first = Some((call, None));
                    }
                    None => {
                        open.push(OpenCall { call_id: id.to_owned(), name: name.to_owned(), call })
                    }
                    Some(by) if id == call_id => {
                        taken.get_or_insert(*by);
                    }
                    Some(_) => {}
                }
            }
            if let Some((_, continues)) = &mut first {
                *continues = records.commit(row.version)?.joins;
            }
        }
    }
    if let Some((call, _)) = first {
        return Ok(call);
    }
    let call_id = call_id.to_owned();
    Err(match taken {
        Some(by) => Refusal::AlreadyAnswered { call_id, by },
        None => Refusal::NoOpenCall { call_id, open },
    }
    .into())
}

pub(super) fn call_ref(slot: CommitId, index: usize) -> CallRef {
    // A message with more than four billion calls exceeds every limit on blobs.
    CallRef { slot, index: u32::try_from(index).unwrap_or(u32::MAX) }
}
