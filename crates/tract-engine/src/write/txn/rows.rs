//! Derived rows of a transaction: snapshots and rows of the turn index.

use tract_core::{Commit, CommitId, RefTarget};

use super::Txn;
use crate::history::turns::{LoadedObjects, NewRow, due, silent_row};
use crate::repo::erasure_mark::ErasureMark;
use crate::repo::error::Result;

impl Txn<'_> {
    /// Folds the histories of heads at the end of runs of plain messages, if a snapshot or a row of
    /// the turn index may be due. All other heads are folded when they are read: a plain message
    /// fits any history, so it needs no check now.
    pub(super) async fn fold_heads(&mut self) -> Result<()> {
        let moved = self.refs.values().filter_map(|moved| moved.to.as_ref()?.commit());
        let (every, made) = (self.repo.turn_rows_every(), self.batch.commits.len() as u64);
        let roomy = |head: CommitId| {
            self.tip.is_some_and(|tip| {
                let no_row = tip.silence.is_some() || tip.commits % every >= made;
                // A row can be made from the counts alone, without the folded history.
                let no_row = no_row || tip.counts.is_some();
                tip.head == Some(head) && tip.room > 0 && no_row
            })
        };
        let heads: Vec<CommitId> = moved
            .filter(|head| self.made.contains(head) && !self.lines.contains_key(head))
            .filter(|head| !roomy(*head))
            .collect();
        for head in heads {
            let mut line = self.line(Some(head)).await?;
            self.batch.derived.extend(self.repo.compiler().snapshot_due(&mut line));
            self.lines.insert(head, line);
        }
        Ok(())
    }

    /// Adds the rows of the turn index that are due at the heads. Rows that cannot be made are
    /// skipped: queries work without them.
    pub(super) async fn add_turn_rows(&mut self) -> Vec<NewRow> {
        let every = self.repo.turn_rows_every();
        let mut rows = Vec::new();
        for moved in self.refs.values() {
            let Some(head) = moved.to.as_ref().and_then(RefTarget::commit) else { continue };
            let run = self.tip.filter(|tip| tip.head == Some(head));
            let line = self.lines.get(&head);
            let Some(count) = line.map(|line| line.commit_count()).or(run.map(|run| run.commits))
            else {
                continue;
            };
            let counts = line.map(|line| line.counts()).or(run.and_then(|run| run.counts));
            if count % every >= self.batch.commits.len() as u64 {
                continue;
            }
            let made = self.made_down_from(head);
            if count / every == count.saturating_sub(made.len() as u64) / every {
                continue;
            }
            if let Some(silence) = run.and_then(|run| run.silence) {
                rows.push(silent_row(self.repo, head, silence, counts));
                continue;
            }
            let commits = self.batch.commits.iter().map(|commit| (commit.id(), commit.clone()));
            let blobs = self.batch.blobs.iter().map(|blob| (blob.id(), blob.clone()));
            let mut hand = LoadedObjects {
                commits: commits.collect(),
                blobs: blobs.collect(),
                ..LoadedObjects::default()
            };
            // Read the mark before the messages of the row: a later erasure then makes the write
            // drop the row.
            let known = self.known_erasures.as_ref().map(|known| &known.mark);
            let mark = match known.or(self.mark.as_ref()) {
                Some(mark) => mark.clone(),
                None => match ErasureMark::read(self.repo).await {
                    Ok(mark) => mark,
                    Err(_left_away) => continue,
                },
            };
            if let Ok(row) = Box::pin(due(self.repo, head, made, counts, &mut hand)).await {
                rows.push(row);
                self.mark = Some(mark);
            }
        }
        self.batch.derived.extend(rows.iter().map(|row| row.row.clone()));
        rows
    }

    /// Returns the commits of this write that lead to a head, newest first.
    fn made_down_from(&self, head: CommitId) -> Vec<Commit> {
        let next = |commit: &&Commit| commit.parent().and_then(|id| self.made_here(id));
        std::iter::successors(self.made_here(head), next).cloned().collect()
    }
}
