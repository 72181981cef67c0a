//! Releases large contents while a write is with the store, which needs only their canonical text.

use tract_core::{Blob, Commit, Content, Kind};

use crate::plan::Request;
use crate::repo::error::Result;
use crate::write::txn::Txn;

/// Contents above this size, in bytes, are not kept in memory twice.
const LARGE: usize = 1 << 20;

/// Released contents: the position of the request, the kind, and the blob made of the content.
#[derive(Debug, Default)]
pub(crate) struct ReleasedContents(Vec<(usize, Kind, Blob)>);

impl ReleasedContents {
    /// Takes the large contents out of requests whose commits are sealed. A request that a handler
    /// replaced keeps its content: the sealed blob is that of the replacement.
    pub(crate) fn of(
        requests: &mut [Request],
        commits: &[Commit],
        replaced: impl Fn(usize) -> bool,
        txn: &Txn<'_>,
    ) -> Self {
        let mut gone = Vec::new();
        for (place, (request, commit)) in requests.iter_mut().zip(commits).enumerate() {
            let Request::Append(draft) = request else { continue };
            let (Some(id), Some(kind)) = (commit.content, &commit.kind) else { continue };
            let blob = txn.blob_here(id).filter(|blob| blob.bytes().len() > LARGE);
            if let Some(blob) = blob.filter(|_| !replaced(place)) {
                gone.push((place, kind.clone(), blob.clone()));
                // Any small content will do as a placeholder. Nothing reads it: the request is
                // either done, or planned again after `give_back`.
                draft.content = Content::user("");
            }
        }
        Self(gone)
    }

    /// Restores the contents, for requests that must be planned again.
    pub(crate) fn give_back(self, requests: &mut [Request]) -> Result<()> {
        for (place, kind, blob) in self.0 {
            if let (Some(Request::Append(draft)), Some(text)) =
                (requests.get_mut(place), blob.text())
            {
                draft.content = Content::from_blob(&kind, text)?;
            }
        }
        Ok(())
    }
}
