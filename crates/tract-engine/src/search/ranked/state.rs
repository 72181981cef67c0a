//! The position of the search index, and conditional writes that require it to be unchanged.

use tract_core::{
    Applied, Blob, BlobId, DerivedRow, Expect, RefEdit, RefName, RefTarget, StoreExt as _,
};

use crate::repo::Repo;
use crate::repo::batch::{apply_to_store_once, derived_batch, require_done};
use crate::repo::erasure_mark::ErasureMark;
use crate::repo::error::{Error, Result};

/// The position of the index that a search has read. Every write of the index moves the ref
/// `indexes/search` from that position in the same batch: of two clients that read the same
/// position, one writes and the other gets a conflict. So rows are replaced only by a client that
/// has read them, and rows that are written in several batches belong together.
#[derive(Clone, Debug)]
pub(super) struct IndexState {
    /// Read before the messages that the words are taken from. If a message is erased afterwards,
    /// the write is rejected, so that its words do not return to the index.
    erasures: ErasureMark,
    position: Option<RefTarget>,
}

impl IndexState {
    /// Reads the position. Must be called before any row of the index and any message is read.
    pub(super) async fn read(repo: &Repo) -> Result<Self> {
        let names = [RefName::newest_erasure(), RefName::search_index()];
        let mut found = repo.store().refs(repo.name(), &names).await?.into_iter();
        let erasures = ErasureMark::at(found.next().flatten());
        Ok(Self { erasures, position: found.next().flatten() })
    }

    /// Returns whether no other client has written the index since it was read.
    pub(super) async fn is_current(&self, repo: &Repo) -> Result<bool> {
        let position = repo.store().ref_target(repo.name(), &RefName::search_index()).await?;
        Ok(position == self.position)
    }

    /// Returns the bytes that make the segment numbers of different writes differ.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.position.as_ref().map(RefTarget::encode).unwrap_or_default()
    }

    /// Puts the erasures that the words of a description have seen in front of it.
    pub(super) fn stamped(&self, description: &[u8]) -> Vec<u8> {
        [&self.erasures.stamp()[..], description].concat()
    }

    /// Returns a description without its stamp; `None` when something was erased since it was
    /// written. Until the erasure has dropped such rows, they contain the erased words, and joining
    /// them would write these words again.
    pub(super) fn unstamped<'d>(&self, stamped: &'d [u8]) -> Option<&'d [u8]> {
        let (stamp, description) = stamped.split_first_chunk::<8>()?;
        (*stamp == self.erasures.stamp()).then_some(description)
    }

    /// Stores rows and moves the position.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another client has written the index since it was read, or
    /// something was erased; nothing is written then. When the store fails.
    pub(super) async fn store(&mut self, repo: &Repo, rows: Vec<DerivedRow>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut batch = derived_batch(repo, &self.erasures, rows)?;
        // The value only has to differ from all earlier ones.
        let document = Blob::seal(format!("{{\"batch\":\"{}\"}}", batch.id));
        let id: BlobId = document.id();
        let expect = self.position.clone().map_or(Expect::Absent, Expect::Is);
        let to = Some(RefTarget::Blob(id));
        batch.refs.push(RefEdit { name: RefName::search_index(), expect, to: to.clone() });
        batch.blobs.push(document);
        match apply_to_store_once(repo.store().as_ref(), repo.name(), &batch).await? {
            Applied::Done | Applied::Already => self.position = to,
            other => require_done(other)?,
        }
        Ok(())
    }
}

/// Returns whether a write failed because another client wrote first.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. })
}
