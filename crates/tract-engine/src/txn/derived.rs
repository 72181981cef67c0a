//! What is derived from a write and goes with it: snapshots and rows of the turn index.

use tract_core::{CommitId, RefTarget};

use super::Txn;
use crate::error::Result;
use crate::turns::{AtHand, due};

impl Txn<'_> {
    /// Folds the lines of heads that runs of plain messages ended at, where a snapshot or a row of
    /// the turn index may be due. Others are folded when somebody looks at them: a plain message
    /// fits any line.
    pub(super) async fn fold_heads(&mut self) -> Result<()> {
        let moved = self.refs.values().filter_map(|moved| moved.to.as_ref()?.commit());
        let (every, made) = (self.repo.turn_rows_every(), self.commits.len() as u64);
        let roomy = |head: CommitId| {
            self.stand.is_some_and(|stand| {
                stand.head == Some(head) && stand.room > 0 && stand.commits % every >= made
            })
        };
        let heads: Vec<CommitId> = moved
            .filter(|head| self.made.contains(head) && !self.lines.contains_key(head))
            .filter(|head| !roomy(*head))
            .collect();
        for head in heads {
            let mut line = self.line(Some(head)).await?;
            self.derived.extend(self.repo.compiler().snapshot_due(&mut line));
            self.lines.insert(head, line);
        }
        Ok(())
    }

    /// Adds the rows of the turn index that are due at the heads. A row that cannot be made is
    /// left away: queries do without.
    pub(super) async fn add_turn_rows(&mut self) {
        for moved in self.refs.values() {
            let Some(head) = moved.to.as_ref().and_then(RefTarget::commit) else { continue };
            let Some(line) = self.lines.get(&head) else { continue };
            let mut made = Vec::new();
            let mut next = Some(head);
            while let Some(commit) = next.and_then(|id| self.made_here(id)) {
                made.push(commit.clone());
                next = commit.parent();
            }
            let mut hand = AtHand::default();
            if line.commit_count() % self.repo.turn_rows_every() < made.len() as u64 {
                hand.blobs = self.blobs.iter().map(|blob| (blob.id(), blob.clone())).collect();
                let commits = self.commits.iter().map(|commit| (commit.id(), commit.clone()));
                hand.commits = commits.collect();
            }
            if let Ok(Some(row)) = due(self.repo, line, made, &mut hand).await {
                self.derived.push(row);
            }
        }
    }
}
