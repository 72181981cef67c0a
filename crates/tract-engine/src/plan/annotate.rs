//! Plans priorities, tools and notes.

use std::collections::HashSet;

use tract_core::{CommitId, CommitRef, Content, JsonText, Op, ToolSchema};

use super::edit::visible;
use super::work::set_mark;
use super::{Details, History, Plan, PlannedCommit, Records};

/// Plans to set the priority of messages to the one in `op`. A target that is named twice is marked
/// once.
pub(super) fn annotate(
    history: &History,
    records: &Records,
    targets: &[CommitId],
    op: Op,
    details: &Details,
) -> Plan<PlannedCommit> {
    records.ensure(targets.iter().copied())?;
    let mut seen = HashSet::new();
    let mut changes = Vec::new();
    for target in targets {
        let row = visible(history, records, *target)?;
        if seen.insert(row.slot) {
            changes.push(set_mark(&row, Some(CommitRef::This)));
        }
    }
    if changes.is_empty() {
        return Err(super::Refusal::NoTargets.into());
    }
    let mut planned = PlannedCommit::on(history, op, details);
    planned.change(changes);
    Ok(planned)
}

/// Plans to set the tools from here on.
pub(super) fn tools(history: &History, tools: &[ToolSchema], details: &Details) -> PlannedCommit {
    let details = Details { tools: Some(tools.to_vec()), ..details.clone() };
    let mut planned = PlannedCommit::on(history, Op::Tools, &details);
    planned.record.active = None;
    planned
}

/// Plans a note in the log.
pub(super) fn note(
    history: &History,
    content: Option<&JsonText>,
    details: &Details,
) -> Plan<PlannedCommit> {
    let mut planned = PlannedCommit::on(history, Op::Note, details);
    if let Some(json) = content {
        planned.say(&Content::Note(json.clone()), None)?;
    }
    Ok(planned)
}
