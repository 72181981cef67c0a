//! Crashes: compares the acknowledged writes with the store afterwards.
//!
//! A process appends with [`append`] until it is killed, and prints the acknowledged commits. The
//! process that killed it collects them in [`WriterReport`], opens the store again and calls
//! [`WriterReport::judge`].
//!
//! ```
//! use tract_core::RepoName;
//! use tract_kv::memory;
//! use tract_testkit::crash::{WriterReport, append};
//! let (store, repo) = (memory(), RepoName::default());
//! let mut report = WriterReport::new(2);
//! append(&store, &repo, 0, 3, |id| report.acknowledge(0, id))?;
//! append(&store, &repo, 1, 2, |id| report.acknowledge(1, id))?;
//! report.judge(&store, &repo).expect("no writer was killed");
//! assert_eq!(report.acknowledged(), 5);
//! // It travels to another process as a line of text.
//! assert_eq!(report.to_string().parse(), Ok(report));
//! # Ok::<(), tract_core::StoreError>(())
//! ```

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use tract_core::{
    Applied, Commit, CommitId, RefTarget, RepoName, Store, StoreError, StoreErrorKind, StoreExt,
    StoreResult, block_on,
};

use crate::fixtures::{appending, branch};

fn name(writer: usize) -> String {
    format!("writer-{writer}")
}

fn head(store: &dyn Store, repo: &RepoName, writer: usize) -> StoreResult<Option<CommitId>> {
    let target = block_on(store.ref_target(repo, &branch(&name(writer))))?;
    Ok(target.as_ref().and_then(RefTarget::commit))
}

/// Appends commits to the branch of a writer, one batch each, and reports each acknowledged one.
/// Concurrent writers must have different numbers.
///
/// # Errors
/// Errors of the store; a conflict is `Invalid`, as there is no other writer.
pub fn append(
    store: &dyn Store,
    repo: &RepoName,
    writer: usize,
    commits: usize,
    mut acknowledge: impl FnMut(CommitId),
) -> StoreResult<()> {
    let mut at = head(store, repo, writer)?;
    for n in 0..commits {
        let (write, next) = appending(&name(writer), at, &format!("writer {writer}, {n}"));
        match block_on(store.apply(repo, write))? {
            Applied::Done => {}
            other => {
                let message = format!("expected done, found {other:?}");
                return Err(StoreError::new(StoreErrorKind::Invalid, "test", "append", message));
            }
        }
        acknowledge(next);
        at = Some(next);
    }
    Ok(())
}

/// The known state of one writer's branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Writer {
    /// The head when it was last read, or the commit acknowledged last since then.
    at: Option<CommitId>,
    /// All acknowledged commits.
    acknowledged: Vec<CommitId>,
}

/// The acknowledged writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterReport {
    writers: Vec<Writer>,
}

/// A promise that the store broke in a crash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Acknowledged commits of a writer are not on its branch.
    #[error("{lost} of {of} acknowledged commits of writer {writer} are lost")]
    Lost {
        /// The writer.
        writer: usize,
        /// How many are missing.
        lost: usize,
        /// How many were acknowledged.
        of: usize,
    },
    /// A branch is neither at its known head nor one write further.
    #[error(
        "the branch of writer {writer} is at {found:?}, which is not {known:?} nor the one write \
         after it"
    )]
    Elsewhere {
        /// The writer.
        writer: usize,
        /// The actual head.
        found: Option<CommitId>,
        /// The known head.
        known: Option<CommitId>,
    },
    /// The store cannot be read, or its check finds damage.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl From<StoreError> for Loss {
    fn from(error: StoreError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl WriterReport {
    /// Makes an empty report for the given number of writers.
    pub fn new(writers: usize) -> Self {
        Self { writers: vec![Writer::default(); writers] }
    }

    /// Records an acknowledged commit. An unknown writer is ignored.
    pub fn acknowledge(&mut self, writer: usize, commit: CommitId) {
        if let Some(writer) = self.writers.get_mut(writer) {
            writer.at = Some(commit);
            writer.acknowledged.push(commit);
        }
    }

    /// Returns the number of acknowledged commits.
    pub fn acknowledged(&self) -> usize {
        self.writers.iter().map(|writer| writer.acknowledged.len()).sum()
    }

    /// Returns the known head of a writer's branch.
    pub(crate) fn at(&self, writer: usize) -> Option<CommitId> {
        self.writers.get(writer)?.at
    }

    /// Compares a store with the report after a crash: all acknowledged commits are there, every
    /// branch is at its known head or at the one write that was in progress, and the check is
    /// clean. The heads that were found become the known ones.
    ///
    /// # Errors
    /// [`Loss`].
    pub fn judge(&mut self, store: &dyn Store, repo: &RepoName) -> Result<(), Loss> {
        for (writer, known) in self.writers.iter_mut().enumerate() {
            let found = head(store, repo, writer)?;
            let line: Vec<CommitId> = match found {
                None => Vec::new(),
                Some(head) => {
                    block_on(store.walk_all(repo, head))?.iter().map(Commit::id).collect()
                }
            };
            let there: HashSet<&CommitId> = line.iter().collect();
            let lost = known.acknowledged.iter().filter(|id| !there.contains(id)).count();
            if lost > 0 {
                return Err(Loss::Lost { writer, lost, of: known.acknowledged.len() });
            }
            let ahead = match known.at {
                Some(at) => line.iter().position(|id| *id == at),
                None => Some(line.len()),
            };
            if ahead.is_none_or(|ahead| ahead > 1) {
                return Err(Loss::Elsewhere { writer, found, known: known.at });
            }
            known.at = found;
        }
        let damage = block_on(store.check(repo, false))?;
        if damage.is_empty() { Ok(()) } else { Err(Loss::Damaged(format!("{damage:?}"))) }
    }
}

/// One line: for each writer the known head and all acknowledged commits. Writers are separated by
/// semicolons.
impl fmt::Display for WriterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, writer) in self.writers.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { ";" })?;
            match writer.at {
                Some(at) => f.write_str(&at.to_hex())?,
                None => f.write_str("none")?,
            }
            writer.acknowledged.iter().try_for_each(|id| write!(f, " {}", id.to_hex()))?;
        }
        Ok(())
    }
}

impl FromStr for WriterReport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let id = |word: &str| {
            word.parse::<CommitId>().map_err(|_| format!("expected an id, found {word:?}"))
        };
        let writer = |text: &str| {
            let mut words = text.split(' ');
            let at = match words.next() {
                Some("none") | None => None,
                Some(word) => Some(id(word)?),
            };
            Ok(Writer { at, acknowledged: words.map(id).collect::<Result<_, String>>()? })
        };
        let writers = text.split(';').map(writer).collect::<Result<_, String>>()?;
        Ok(Self { writers })
    }
}

#[cfg(test)]
mod tests {
    use tract_kv::memory;

    use super::*;

    fn filled() -> (tract_kv::MemoryStore, WriterReport, Vec<CommitId>) {
        let (store, mut report, mut ids) = (memory(), WriterReport::new(2), Vec::new());
        for writer in 0..2 {
            append(&store, &RepoName::default(), writer, 3, |id| {
                report.acknowledge(writer, id);
                ids.push(id);
            })
            .expect("it is written");
        }
        (store, report, ids)
    }

    fn set(store: &dyn Store, writer: usize, from: CommitId, to: CommitId) {
        let moved =
            crate::fixtures::moving(vec![crate::fixtures::advance(&name(writer), Some(from), to)]);
        let done = block_on(store.apply(&RepoName::default(), moved)).expect("it is moved");
        assert_eq!(done, Applied::Done);
    }

    #[test]
    fn a_lost_write_is_noticed() {
        let repo = RepoName::default();
        let (store, mut report, ids) = filled();
        assert_eq!(report.judge(&store, &repo), Ok(()));
        set(&store, 1, ids[5], ids[3]);
        assert_eq!(report.judge(&store, &repo), Err(Loss::Lost { writer: 1, lost: 2, of: 3 }));
        // A history that was never acknowledged.
        set(&store, 1, ids[3], ids[5]);
        append(&store, &repo, 1, 1, |_| {}).expect("it is written");
        assert_eq!(report.judge(&store, &repo), Ok(()), "one was under way");
        append(&store, &repo, 1, 2, |_| {}).expect("it is written");
        let loss = report.judge(&store, &repo).expect_err("two cannot have been");
        assert!(matches!(loss, Loss::Elsewhere { writer: 1, .. }), "{loss}");
        let mut unknown = WriterReport::new(1);
        assert!(unknown.judge(&store, &repo).is_err(), "three are unknown");
    }
}
