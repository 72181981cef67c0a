//! Pending approvals: decisions on deferred operations, and results of a turn that are written
//! together.

mod decide;
mod turn;

use tract_core::{AuthorKind, CommitId, Content, Op};

pub use self::turn::{BatchAttachment, DeferredCall, TurnAnswer, TurnRecord, TurnRecorded};
use crate::plan::edited_slot;
use crate::repo::Repo;
use crate::repo::error::Result;

impl Repo {
    /// Reads the original of a changed message: the content that a handler replaced when it was
    /// committed, or the first version before any edit; `None` if the commit has no content, or its
    /// message is unchanged.
    ///
    /// # Errors
    /// When the store fails, or a blob is damaged.
    pub async fn original_of(&self, id: CommitId) -> Result<Option<Content>> {
        let commit = self.require_commit(id).await?;
        let Some(kind) = &commit.kind else { return Ok(None) };
        let first = match &commit.op {
            Op::Edit { .. } => {
                let slot = edited_slot(id, &self.changes(&commit).await?);
                let Some(slot) = slot else { return Ok(None) };
                // A slot is a name: its commit may not be stored.
                let Some(first) = self.commit(slot).await? else { return Ok(None) };
                first
            }
            _ => commit.clone(),
        };
        let original = first.keeps.first().copied();
        match original.filter(|_| first.origin.by == AuthorKind::Hook) {
            Some(original) => {
                let blob = self.require_blob(original).await?;
                let text = blob.text().ok_or(tract_core::ContentError::NotText)?;
                Ok(Some(Content::from_blob(kind, text)?))
            }
            None if first.id() == id => Ok(None),
            None => self.content_of(first.id()).await.map(Some),
        }
    }
}
