//! Merge conflicts with the details that a person needs to resolve them.

use std::collections::HashMap;

use tract_compile::Compiled;
use tract_core::{CommitId, Op};

use crate::plan::{ConflictKind, MergeConflict};
use crate::repo::Repo;
use crate::repo::error::Result;

/// One side of a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConflictSide {
    /// The number of the message in the context of this side, from 1; `None` if it is not shown.
    pub number: Option<usize>,
    /// The text, the priority, or the names of the tools; `None` if missing on this side.
    pub text: Option<String>,
}

/// A conflict with both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConflict {
    /// The conflict.
    pub conflict: MergeConflict,
    /// Our side.
    pub ours: ConflictSide,
    /// Their side.
    pub theirs: ConflictSide,
}

impl Repo {
    /// Reads both sides of conflicts, for a person who resolves them.
    ///
    /// # Errors
    /// When a commit or a content is not stored.
    pub async fn describe_conflicts(
        &self,
        ours: Option<CommitId>,
        theirs: CommitId,
        conflicts: &[MergeConflict],
    ) -> Result<Vec<DescribedConflict>> {
        let ours = self.compiler().compile(ours).await?;
        let theirs = self.compiler().compile(Some(theirs)).await?;
        let (our_numbers, their_numbers) = (numbers(&ours), numbers(&theirs));
        let mut described = Vec::with_capacity(conflicts.len());
        for conflict in conflicts {
            let number = |numbers: &HashMap<CommitId, usize>, side: Option<CommitId>| {
                let of = |id: Option<CommitId>| numbers.get(&id?).copied();
                of(conflict.slot).or_else(|| of(side))
            };
            let (our, their) = if conflict.kind == ConflictKind::Tools {
                (Some(tool_names(&ours)), Some(tool_names(&theirs)))
            } else {
                (self.side_text(conflict.ours).await?, self.side_text(conflict.theirs).await?)
            };
            described.push(DescribedConflict {
                conflict: conflict.clone(),
                ours: ConflictSide { number: number(&our_numbers, conflict.ours), text: our },
                theirs: ConflictSide {
                    number: number(&their_numbers, conflict.theirs),
                    text: their,
                },
            });
        }
        Ok(described)
    }

    async fn side_text(&self, commit: Option<CommitId>) -> Result<Option<String>> {
        let Some(id) = commit else { return Ok(None) };
        let commit = self.require_commit(id).await?;
        if let Op::Annotate { priority, .. } = &commit.op {
            return Ok(Some(priority.to_string()));
        }
        let content = self.content_of(id).await?;
        let calls = content.calls().map(|call| format!("{}({})", call.name, call.arguments));
        let parts: Vec<String> =
            Some(content.text()).into_iter().filter(|text| !text.is_empty()).chain(calls).collect();
        Ok(Some(parts.join("\n")))
    }
}

/// Numbers the messages of a context from 1, by slot.
fn numbers(context: &Compiled) -> HashMap<CommitId, usize> {
    context.messages().enumerate().map(|(place, message)| (message.slot, place + 1)).collect()
}

fn tool_names(context: &Compiled) -> String {
    let names: Vec<&str> = context.tools().iter().map(|tool| tool.name.as_str()).collect();
    names.join(", ")
}
