//! Sweeps that go wrong.

use tract_core::store::{Sweep, SweepAnswer};
use tract_core::{LogEntry, ObjectId, RepoName, StoreExt, StoreResult};

use super::{Fault, FaultyStore};

impl FaultyStore {
    pub(super) async fn sweep_badly(
        &self,
        repo: &RepoName,
        mut sweep: Sweep,
    ) -> StoreResult<SweepAnswer> {
        match self.fault {
            Fault::SweepsNothing => return Ok(SweepAnswer::Done),
            Fault::SweepsAnyway => sweep.position = self.store.write_position(repo).await?,
            // What it says of its position, it also goes by.
            Fault::CountsRefsOnly => {
                let position = self.store.write_position(repo).await?;
                if position.log == sweep.position.log {
                    sweep.position = position;
                }
            }
            Fault::SweepsContent => {
                for object in sweep.objects.clone() {
                    let ObjectId::Commit(id) = object else { continue };
                    let commit = self.store.commit(repo, id).await?;
                    let content = commit.and_then(|commit| commit.content);
                    sweep.objects.extend(content.map(ObjectId::Blob));
                }
            }
            Fault::SweepsEverywhere => {
                for other in self.store.repos().await? {
                    let position = self.store.write_position(&other).await?;
                    let sweep = Sweep { position, ..sweep.clone() };
                    let _ = self.store.sweep(&other, sweep).await?;
                }
                return Ok(SweepAnswer::Done);
            }
            _ => {}
        }
        self.store.sweep(repo, sweep).await
    }

    /// Whether the commits that an entry of the log names are stored.
    pub(super) async fn are_stored(&self, repo: &RepoName, entry: &LogEntry) -> StoreResult<bool> {
        for target in [&entry.before, &entry.after].into_iter().flatten() {
            if let Some(id) = target.commit()
                && self.store.commit(repo, id).await?.is_none()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
