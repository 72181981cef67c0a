//! Seals planned commits and adds them to a transaction.

use tract_compile::{Changed, HistoryCounts, IdMap, UnstoredObjects};
use tract_core::{
    Blob, Change, Commit, CommitId, Limits, ObjectId, Op, RefName, RefTarget, ToolRow, ToolSchema,
    Toolset, ToolsetId,
};

use super::Txn;
use crate::history::counts::{count_append, is_shown_alone};
use crate::history::received::time_of;
use crate::history::turns::{has_no_entries, is_one_text};
use crate::plan::{BranchTip, History, PlannedCommit};
use crate::repo::error::{Error, Result};

/// Objects to store with the record of a planned commit.
struct CommitParts {
    changes: Vec<Change>,
    blobs: Vec<Blob>,
    given: Option<(Toolset, Vec<ToolSchema>)>,
    requires: Vec<CommitId>,
}

/// Checks the sizes of the objects that are stored with a record.
pub(crate) fn check_limits(
    limits: &Limits,
    blobs: &[Blob],
    given: Option<&(Toolset, Vec<ToolSchema>)>,
) -> Result<()> {
    for blob in blobs {
        limits.check_blob(blob.bytes().len())?;
    }
    if let Some((_, tools)) = given {
        limits.check_toolset(tools.len())?;
        for tool in tools {
            limits.check_schema(tool.text().len())?;
            limits.check_tool_name(tool.name())?;
        }
    }
    Ok(())
}

/// Returns the number of commits that may follow a message before a snapshot can be due. A message
/// that is shown makes room for two commits and takes the place of one.
fn room_after(room: u64, message: &Commit) -> u64 {
    if is_shown_alone(message) { room.saturating_add(1) } else { room.saturating_sub(1) }
}

/// Returns the counts after a message that adds one row and changes no other.
fn counts_after(mut counts: HistoryCounts, message: &Commit) -> HistoryCounts {
    count_append(&mut counts, is_shown_alone(message));
    counts.tools_set |= message.active.is_some();
    counts
}

impl Txn<'_> {
    /// Seals a plain message and moves the branch to it. Its history is folded when it is needed.
    pub(super) fn append(
        &mut self,
        branch: &RefName,
        tip: BranchTip,
        planned: PlannedCommit,
    ) -> Result<Commit> {
        let (commit, rest) = self.seal(planned)?;
        let has_text_only = || {
            let mut content = rest.blobs.iter().filter(|blob| Some(blob.id()) == commit.content);
            content.any(|blob| blob.text().is_some_and(is_one_text))
        };
        self.tip = Some(BranchTip {
            head: Some(commit.id()),
            toolset: commit.toolset,
            active: commit.active_toolset(),
            tools_set: tip.tools_set,
            room: room_after(tip.room, &commit),
            commits: tip.commits + 1,
            counts: tip.counts.map(|counts| counts_after(counts, &commit)),
            silence: tip.silence.filter(|_| has_no_entries(&commit, has_text_only)),
        });
        self.take(branch, &commit, tip.toolset, rest);
        Ok(commit)
    }

    /// Seals a change of rows near the end of a history that is not in memory, and moves the
    /// branch.
    pub(crate) fn change(
        &mut self,
        branch: &RefName,
        tip: BranchTip,
        planned: PlannedCommit,
    ) -> Result<Commit> {
        let (commit, rest) = self.seal(planned)?;
        self.tip = Some(BranchTip {
            head: Some(commit.id()),
            toolset: commit.toolset,
            active: commit.active_toolset(),
            // Tools that a merge brings in were made permanent on the other side.
            tools_set: tip.tools_set
                || commit.active.is_some()
                || (matches!(commit.op, Op::Merge { .. }) && commit.active_toolset() != tip.active),
            room: tip.room.saturating_sub(1),
            commits: tip.commits + 1,
            // An edit changes no count; a priority may.
            counts: tip
                .counts
                .filter(|_| matches!(commit.op, Op::Edit { .. }))
                .map(|counts| HistoryCounts { commits: counts.commits + 1, ..counts }),
            silence: None,
        });
        self.take(branch, &commit, tip.toolset, rest);
        Ok(commit)
    }

    /// Seals a commit that was planned on a folded history, and moves the branch to it.
    pub(crate) async fn commit(
        &mut self,
        branch: &RefName,
        history: &History,
        planned: PlannedCommit,
    ) -> Result<Commit> {
        let (commit, rest) = self.seal(planned)?;
        let compiler = self.repo.compiler();
        let made = |id| self.made_here(id).cloned();
        let unstored = UnstoredObjects { blobs: &rest.blobs, commit: &made };
        let mut next =
            compiler.advance_with(history, std::slice::from_ref(&commit), unstored).await?;
        self.batch.derived.extend(compiler.snapshot_due(&mut next));
        self.take(branch, &commit, history.toolset(), rest);
        self.histories.insert(commit.id(), next);
        if let Some(before) = history.head().filter(|id| self.made.contains(id)) {
            let at = Some(RefTarget::Commit(before));
            if self.refs.values().all(|moved| moved.to != at) {
                self.histories.remove(&before).into_iter().for_each(|last| self.keep_history(last));
            }
        }
        Ok(commit)
    }

    /// Checks limits and shape of a planned commit and seals it.
    fn seal(&self, planned: PlannedCommit) -> Result<(Commit, CommitParts)> {
        let PlannedCommit { mut record, changes, blobs, given, requires } = planned;
        check_limits(self.repo.limits(), &blobs, given.as_ref())?;
        if record.created_at.is_none() && !self.imports {
            // Both are part of the hash. A retry after a lost race has another batch id, so its
            // commits get new ids; `PlannedTargets` maps the old ones.
            record.created_at = Some(self.batch.note.at);
            record.batch = Some(self.batch.id);
        }
        let commit = Commit::seal(record)?;
        self.check(&commit, &changes)?;
        Ok((commit, CommitParts { changes, blobs, given, requires }))
    }

    /// Adds a commit with its objects, and moves the branch to it.
    fn take(
        &mut self,
        branch: &RefName,
        commit: &Commit,
        before: Option<ToolsetId>,
        rest: CommitParts,
    ) {
        self.requires.extend(rest.requires);
        if let Some((toolset, tools)) = rest.given
            // A model's client usually sends the same tools with each message. They are stored when
            // they change.
            && before != Some(toolset.id())
        {
            self.take_tools(commit, toolset, &tools);
        }
        for blob in rest.blobs {
            self.records.insert_blob(blob.clone());
            self.batch.blobs.push(blob);
        }
        self.records.insert(commit.clone());
        if matches!(commit.changes, tract_core::Changes::Blob(_)) {
            self.records.changes.insert(commit.id(), rest.changes.into());
        }
        if self.made.insert(commit.id()) {
            self.batch.commits.push(commit.clone());
        }
        if let Some(moved) = self.refs.get_mut(branch) {
            moved.to = Some(RefTarget::Commit(commit.id()));
        }
    }

    /// Checks that the recorded changes match the operation.
    fn check(&self, commit: &Commit, changes: &[Change]) -> Result<()> {
        let mut targets = Vec::new();
        if let Op::Revert { targets: reverted, .. } = &commit.op {
            for id in reverted {
                // The planner has read the targets and their changes, so they are in `records`.
                let Some(Some(target)) = self.records.commits.get(id) else {
                    return Err(Error::Missing(ObjectId::Commit(*id)));
                };
                let changes = match &target.record().changes {
                    tract_core::Changes::List(list) => list.as_slice(),
                    tract_core::Changes::Blob(_) => {
                        self.records.changes.get(id).map(AsRef::as_ref).unwrap_or_default()
                    }
                };
                targets.push(Changed { commit: target, changes });
            }
        }
        Ok(tract_compile::shape(Changed { commit, changes }, &targets)?)
    }

    /// Adds the tools of a commit whose parent had others in force.
    fn take_tools(&mut self, commit: &Commit, toolset: Toolset, tools: &[ToolSchema]) {
        if commit.created_at.is_none() {
            self.undated.push(commit.id());
        }
        let created_at = commit.created_at.unwrap_or(0);
        for tool in tools {
            let blob = tool.blob();
            let row = ToolRow::of(tool, blob.id(), commit.id(), created_at);
            if self.known_tools.insert((row.id, row.schema)) {
                self.records.insert_blob(blob.clone());
                self.batch.tools.push(row);
                self.batch.blobs.push(blob);
            }
        }
        self.records.toolsets.insert(toolset.id(), Some(toolset.clone()));
        self.batch.toolsets.push(toolset);
    }

    /// Sets the time of undated tool rows: that of the nearest ancestor with a time.
    pub(super) async fn date_tools(&mut self) -> Result<()> {
        // Without this map each undated commit would walk back to the start of the write.
        let mut known: IdMap<CommitId, i64> = IdMap::default();
        for id in std::mem::take(&mut self.undated) {
            let mut path = Vec::new();
            let mut next = Some(id);
            let at = loop {
                let Some(here) = next else { break 0 };
                if let Some(at) = known.get(&here) {
                    break *at;
                }
                let Some(commit) = self.made_here(here) else {
                    let commit = self.repo.require_commit(here).await?;
                    break time_of(self.repo, &commit).await?;
                };
                if let Some(at) = commit.created_at {
                    break at;
                }
                path.push(here);
                next = commit.parent();
            };
            known.extend(path.into_iter().map(|id| (id, at)));
        }
        for row in &mut self.batch.tools {
            row.created_at = known.get(&row.commit).copied().unwrap_or(row.created_at);
        }
        Ok(())
    }
}
