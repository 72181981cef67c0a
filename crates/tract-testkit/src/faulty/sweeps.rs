//! Faults in sweeps.

use tract_core::store::{Sweep, SweepAnswer};
use tract_core::{LogEntry, ObjectId, RepoName, Store, StoreExt, StoreResult};

use super::Fault;

impl Fault {
    pub(super) async fn sweep_badly(
        self,
        store: &dyn Store,
        repo: &RepoName,
        mut sweep: Sweep,
    ) -> StoreResult<SweepAnswer> {
        match self {
            Self::SweepsNothing => return Ok(SweepAnswer::Done),
            Self::SweepsAnyway => sweep.position = store.write_position(repo).await?,
            // The position that it reports is also the one it compares with.
            Self::CountsRefsOnly => {
                let position = store.write_position(repo).await?;
                if position.log == sweep.position.log {
                    sweep.position = position;
                }
            }
            Self::SweepsContent => {
                for object in sweep.objects.clone() {
                    let ObjectId::Commit(id) = object else { continue };
                    let commit = store.commit(repo, id).await?;
                    let content = commit.and_then(|commit| commit.content);
                    sweep.objects.extend(content.map(ObjectId::Blob));
                }
            }
            Self::SweepsEverywhere => {
                for other in store.repos().await? {
                    let position = store.write_position(&other).await?;
                    let sweep = Sweep { position, ..sweep.clone() };
                    let _ = store.sweep(&other, sweep).await?;
                }
                return Ok(SweepAnswer::Done);
            }
            _ => {}
        }
        store.sweep(repo, sweep).await
    }
}

/// Returns whether the commits in an entry of the log are stored.
pub(super) async fn are_stored(
    store: &dyn Store,
    repo: &RepoName,
    entry: &LogEntry,
) -> StoreResult<bool> {
    for target in [&entry.before, &entry.after].into_iter().flatten() {
        if let Some(id) = target.commit()
            && store.commit(repo, id).await?.is_none()
        {
            return Ok(false);
        }
    }
    Ok(true)
}
