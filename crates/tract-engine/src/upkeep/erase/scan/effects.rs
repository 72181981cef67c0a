//! Documents that repeat a message: those of effects have the answers of tools, and those of
//! decisions the message that was asked for. Each belongs to the message on a branch, even if a
//! handler or a person changed it there, and however short its text is.

use std::collections::BTreeSet;

use serde_json::Value;
use tract_core::store::LogQuery;
use tract_core::{Commit, CommitId, Op, RefName, RefTarget};

use super::super::message::slot_of;
use super::super::search::{Search, emptied};
use super::{ErasureExtent, Scan};
use crate::repo::error::Result;
use crate::write::pending::{DECISIONS, Document, read_decided};

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
            let mark = self.mark_of(&commit);
            if let Some(text) = blob.text().and_then(|text| without_answer(text, &mark)) {
                self.add(&blob, Vec::new());
                self.answers.insert(name, text);
            }
        }
        Ok(())
    }

    /// Finds the decisions that led to erased messages, with their new text, and the requests that
    /// were decided.
    pub(super) async fn decisions(&mut self) -> Result<()> {
        let has_whole = self.commits.values().any(|extent| *extent == ErasureExtent::Whole);
        // Secrets are found in any document.
        if !has_whole || matches!(self.scope.search, Search::Secrets(_)) {
            return Ok(());
        }
        let repo = self.repo;
        for (name, target) in repo.store().list_refs(repo.name(), DECISIONS).await? {
            let RefTarget::Blob(id) = target else { continue };
            let Some(blob) = repo.blobs_or_erased(&[id.into()]).await?.pop().flatten() else {
                continue;
            };
            // `verify` reports documents that cannot be read.
            let Ok(mut decided) = read_decided(repo, &target).await else { continue };
            let Some(commit) = decided.commit else { continue };
            if self.commits.get(&commit) != Some(&ErasureExtent::Whole) {
                continue;
            }
            let mark = self.mark_of(&repo.require_commit(commit).await?);
            let Some((content, ..)) = decided.request.said_mut() else { continue };
            let empty = emptied(content, &mark);
            if *content == empty {
                continue;
            }
            *content = empty;
            let document = Document::decided(&decided)?;
            if let Some(text) = document.blob.text() {
                self.add(&blob, Vec::new());
                self.answers.insert(name, text.to_owned());
            }
            self.requests(&decided.id).await?;
        }
        Ok(())
    }

    /// Finds the earlier documents of a decided request, which only the ref log names.
    async fn requests(&mut self, id: &str) -> Result<()> {
        let query = LogQuery { name: Some(Document::pending_name(id)?), ..LogQuery::default() };
        let log = self.repo.store().ref_log(self.repo.name(), &query).await?;
        let targets = log.iter().flat_map(|entry| [entry.before.as_ref(), entry.after.as_ref()]);
        let ids: BTreeSet<_> = targets.flatten().filter_map(RefTarget::blob).collect();
        let keys: Vec<_> = ids.into_iter().map(Into::into).collect();
        for blob in self.repo.blobs_or_erased(&keys).await?.into_iter().flatten() {
            self.add(&blob, Vec::new());
        }
        Ok(())
    }

    /// Returns the mark that replaces the text of a message.
    fn mark_of(&self, commit: &Commit) -> String {
        match commit.linked_blobs().find_map(|id| self.scope.arrived.get(&id)) {
            Some(erasure) => format!("[erased: {}]", erasure.reason),
            None => self.scope.search.mark(),
        }
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
