//! Answers of tools in the documents of their effects. Each belongs to the message with the answer
//! on a branch, even if a handler changed the answer there.

use std::collections::BTreeSet;

use serde_json::Value;
use tract_core::{CommitId, Op, RefName, RefTarget};

use super::super::message::slot_of;
use super::{ErasureExtent, Scan};
use crate::repo::error::Result;

impl Scan<'_> {
    /// Finds the documents with answers of erased results, and their new text.
    pub(super) async fn effects(&mut self) -> Result<()> {
        let whole = self.commits.iter().filter(|(_, extent)| **extent == ErasureExtent::Whole);
        let versions: BTreeSet<CommitId> = whole.map(|(id, _)| *id).collect();
        for version in versions {
            let commit = self.repo.require_commit(version).await?;
            let slot = slot_of(self.repo, &commit).await?;
            let first = match commit.op {
                Op::Append { .. } => Some(commit.clone()),
                _ => self.repo.commit(slot).await?,
            };
            let Some(Op::Append { answers: Some(call), .. }) =
                first.as_ref().map(|first| &first.op)
            else {
                continue;
            };
            // Written by agent runs. The name consists of the calling message and the index of the
            // call.
            let Ok(name) = RefName::new(format!("effects/{}/{}", call.slot, call.index)) else {
                continue;
            };
            let Some(RefTarget::Blob(id)) = self.repo.ref_target(&name).await? else { continue };
            let Some(blob) = self.repo.blobs_or_erased(&[id.into()]).await?.pop().flatten() else {
                continue;
            };
            let arrived = commit.linked_blobs().find_map(|id| self.scope.arrived.get(&id));
            let mark = match arrived {
                Some(erasure) => format!("[erased: {}]", erasure.reason),
                None => self.scope.search.mark(),
            };
            if let Some(text) = blob.text().and_then(|text| without_answer(text, &mark)) {
                self.add(&blob, Vec::new());
                self.answers.insert(name, text);
            }
        }
        Ok(())
    }
}

/// Returns the document of an effect with a mark in place of the answer; `None` without an answer.
fn without_answer(text: &str, mark: &str) -> Option<String> {
    let mut document: Value = serde_json::from_str(text).ok()?;
    let answered = document.get_mut("state")?.get_mut("answered")?.as_object_mut()?;
    let text = answered.insert("text".to_owned(), Value::from(mark));
    answered.insert("value".to_owned(), Value::Null);
    (text.as_ref().and_then(Value::as_str) != Some(mark)).then(|| document.to_string())
}
