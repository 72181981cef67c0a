//! Planners. They turn a request into a record, or refuse it, given a branch's history and the
//! records that they need.
//!
//! Planners are pure: no store, no clock, no `async`. A planner that needs more records returns
//! [`Stop::Needs`]; its caller reads them and calls it again. Planners may change between versions
//! without affecting what they wrote: folding a history depends only on the records.

mod annotate;
mod append;
mod compress;
mod edit;
mod merge;
mod records;
mod refusal;
mod replay;
mod request;
mod revert;
#[cfg(test)]
mod tests;
mod work;

pub use tract_compile::History;
use tract_core::Op;

pub(crate) use self::append::{is_plain, message, sealed_message};
pub(crate) use self::edit::{
    current_version, json_string, unchanged_since, version_of, with_answer_of, with_text,
};
pub(crate) use self::merge::ComparedHeads;
pub use self::merge::{
    KeptConflict, MergeSides, PlannedMerge, Resolution, ResolvableConflict, ResolveFn,
    ResolvedConflict, Resolver, differing, merge,
};
pub use self::records::{MissingRecords, Plan, Records, Stop};
pub(crate) use self::records::{edited_slot, own_slot};
pub use self::refusal::{ConflictKind, MergeConflict, OpenCall, Refusal, ResolutionKind};
pub(crate) use self::replay::check_hidden;
pub use self::replay::{Replayed, replay};
pub(crate) use self::request::{BlobDoc, TurnIndexGap};
pub use self::request::{
    BranchTip, Details, NewContent, PlannedCommit, Request, Selection, seal_tools,
};

/// Plans a request on a branch's history.
///
/// # Errors
/// [`Stop`]: a refusal, or the records to read before the next call.
pub fn plan(request: &Request, history: &History, records: &Records) -> Plan<PlannedCommit> {
    match request {
        Request::Append(draft) => append::append(history, records, draft, false),
        Request::Import(draft) => append::append(history, records, draft, true),
        Request::Edit { target, content, details } => {
            edit::edit(history, records, *target, content, details)
        }
        Request::Annotate { targets, priority, reason, retention, details } => {
            let op = Op::Annotate {
                targets: targets.clone(),
                priority: *priority,
                reason: reason.clone(),
                retention: retention.clone(),
            };
            annotate::annotate(history, records, targets, op, details)
        }
        Request::Compress { select, content, role, details } => {
            compress::compress(history, records, select, content, role.as_ref(), details)
        }
        Request::Revert { targets, cascade, details } => {
            revert::revert(history, records, targets, *cascade, details)
        }
        Request::Tools { tools, details } => Ok(annotate::tools(history, tools, details)),
        Request::Note { content, details } => annotate::note(history, content.as_ref(), details),
    }
}
