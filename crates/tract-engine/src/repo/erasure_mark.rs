//! The condition under which derived rows are stored.

use tract_core::store::StoreResult;
use tract_core::{Batch, Blob, Expect, RefEdit, RefName, RefTarget, StoreExt as _};

use crate::repo::Repo;

/// The position in the erasures of a repository at which messages were read. Rows that are derived from
/// the messages are stored only if nothing was erased since: an erasure drops all derived rows, and
/// none may come back with erased words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErasureMark(Option<RefTarget>);

impl ErasureMark {
    /// Reads the mark. To be read before any message that rows are derived from.
    pub(crate) async fn read(repo: &Repo) -> StoreResult<Self> {
        Ok(Self(repo.store().ref_target(repo.name(), &RefName::newest_erasure()).await?))
    }

    /// Makes a mark of the target that the ref of the newest erasure had.
    pub(crate) fn at(target: Option<RefTarget>) -> Self {
        Self(target)
    }

    /// Returns bytes that differ from those of all other marks of the repository.
    pub(crate) fn stamp(&self) -> [u8; 8] {
        let target = self.0.as_ref().map(RefTarget::encode).unwrap_or_default();
        let id = Blob::seal(target).id();
        id.as_bytes().first_chunk().copied().unwrap_or_default()
    }

    /// Makes a batch a conflict if something was erased since.
    pub(crate) fn hold(&self, batch: &mut Batch) {
        let expect = self.0.clone().map_or(Expect::Absent, Expect::Is);
        let edit = RefEdit { name: RefName::newest_erasure(), expect, to: self.0.clone() };
        batch.refs.push(edit);
    }
}
