//! Printing of merge conflicts.

use serde::Serialize;
use tract::CommitId;
use tract::engine::{ConflictSide, DescribedConflict, KeptMerge, MergeConflict, Resolution};
use tract::{Result, Tract};

use crate::escape;
use crate::out::Output;
use crate::style::{DIM, Styled};

#[derive(Serialize)]
pub(super) struct ConflictDocument {
    kind: &'static str,
    slot: Option<CommitId>,
    ours: Option<CommitId>,
    theirs: Option<CommitId>,
    our_number: Option<usize>,
    their_number: Option<usize>,
    our_text: Option<String>,
    their_text: Option<String>,
    #[serde(flatten)]
    decision: Option<ConflictDecision>,
}

/// The facts about a conflict of a kept merge.
#[derive(Serialize)]
struct ConflictDecision {
    legal: Vec<&'static str>,
    resolution: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    new: bool,
}

impl From<DescribedConflict> for ConflictDocument {
    fn from(described: DescribedConflict) -> Self {
        let DescribedConflict { conflict, ours, theirs, .. } = described;
        Self {
            kind: conflict.kind.as_str(),
            slot: conflict.slot,
            ours: conflict.ours,
            theirs: conflict.theirs,
            our_number: ours.number,
            their_number: theirs.number,
            our_text: ours.text,
            their_text: theirs.text,
            decision: None,
        }
    }
}

/// Reads both sides of the conflicts of a kept merge.
pub(super) async fn describe(tract: &Tract, kept: &KeptMerge) -> Result<Vec<DescribedConflict>> {
    let conflicts: Vec<MergeConflict> =
        kept.conflicts.iter().map(|one| one.conflict.clone()).collect();
    Ok(tract.repo().describe_conflicts(kept.head, kept.source, &conflicts).await?)
}

/// Makes the documents of the conflicts of a kept merge.
pub(super) async fn documents(tract: &Tract, kept: &KeptMerge) -> Result<Vec<ConflictDocument>> {
    let described = describe(tract, kept).await?;
    let decided = described.into_iter().zip(&kept.conflicts).map(|(described, one)| {
        let text = match &one.resolution {
            Some(Resolution::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let decision = ConflictDecision {
            legal: one.legal.iter().map(|legal| legal.as_str()).collect(),
            resolution: one.resolution.as_ref().map(|how| how.kind().as_str()),
            text,
            new: kept.new.contains(&one.conflict),
        };
        ConflictDocument { decision: Some(decision), ..ConflictDocument::from(described) }
    });
    Ok(decided.collect())
}

/// Maximum number of printed lines of a text.
const LINES: usize = 12;

/// Prints a conflict with both texts.
pub(super) fn list(out: &mut Output, described: &DescribedConflict) {
    let conflict = &described.conflict;
    let of = conflict.slot.map(|slot| format!(" of {}", slot.short())).unwrap_or_default();
    out.say(format_args!("conflict: {}{of}", conflict.kind.as_str()));
    for (side, has) in [("ours", &described.ours), ("theirs", &described.theirs)] {
        let ConflictSide { number, text, .. } = has;
        let number = number.map(|number| format!(" #{number}")).unwrap_or_default();
        out.say(Styled(DIM, format!("  {side}{number}")));
        let Some(text) = text else {
            out.say(Styled(DIM, "    absent"));
            continue;
        };
        let text = escape::block(text);
        for line in text.lines().take(LINES) {
            out.say(format_args!("    {line}"));
        }
        if text.lines().nth(LINES).is_some() {
            out.say(Styled(DIM, "    …"));
        }
    }
}
