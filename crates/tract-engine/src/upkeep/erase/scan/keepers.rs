//! The messages that keep bytes which they share with an erased message.

use std::collections::{HashMap, HashSet};

use tract_core::store::{ListKind, ObjectListing};
use tract_core::{Commit, CommitId, ObjectId, Op};

use super::super::message::slot_of;
use super::super::scope::is_erased;
use super::LISTED;
use crate::history::reach::commit_id;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::upkeep::gc::KeptBy;
use crate::upkeep::gc::mark::Marks;

/// Whether a commit keeps bytes that it shares with an erased message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// A branch, a tag, a remote branch or a write in progress leads to it.
    Keeps,
    /// Its message was erased earlier, and no branch shows another version of it.
    Erased,
    /// Only the ref log leads to it: it was undone, or its branch was deleted.
    Unreferenced,
}

/// Tells which commits keep shared bytes.
pub(super) struct Keepers<'a> {
    marks: Marks<'a>,
    /// The messages that were erased earlier, by slot.
    erased: HashSet<CommitId>,
}

impl<'a> Keepers<'a> {
    /// Reads the refs, the ref log, and the messages that branches show.
    pub(super) async fn read(repo: &'a Repo) -> Result<Self> {
        let mut marks = Marks::new(repo, None);
        // Documents other than leases show no message, and the records of erasures and decisions
        // name messages that are on no branch.
        let mut documents = repo.store().list_refs(repo.name(), "").await?;
        documents.retain(|(name, target)| target.blob().is_some() && !name.is_lease());
        marks.pass_over(documents);
        marks.refs().await?;
        match marks.log(i64::MIN).await {
            // A collection that was interrupted may have deleted a part of an old history. What
            // cannot be read keeps its bytes.
            Ok(()) | Err(Error::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut keepers = Self { marks, erased: HashSet::new() };
        let edits = keepers.erasing_edits(repo).await?;
        if !edits.is_empty() {
            keepers.erased = edits.values().copied().collect();
            for (_, target) in repo.store().list_refs(repo.name(), "heads/").await? {
                let history = repo.fold(target.commit()).await?;
                for row in history.view().rows() {
                    if !edits.contains_key(&row.version) {
                        keepers.erased.remove(&row.slot);
                    }
                }
            }
        }
        Ok(keepers)
    }

    /// Finds the edits of erasures, with the slots of their messages.
    async fn erasing_edits(&self, repo: &Repo) -> Result<HashMap<CommitId, CommitId>> {
        let (mut edits, mut after) = (HashMap::new(), 0);
        loop {
            let listing = ObjectListing { kind: ListKind::Commits, after, limit: LISTED };
            let page = repo.store().list_objects(repo.name(), listing).await?;
            let ids: Vec<CommitId> =
                page.objects.iter().filter_map(|(object, _)| commit_id(*object)).collect();
            for commit in repo.store().commits(repo.name(), &ids).await?.into_iter().flatten() {
                let is_undone = matches!(self.kept_by(commit.id()), None | Some(KeptBy::RefLog));
                if !is_undone && is_erasing_edit(repo, &commit).await? {
                    edits.insert(commit.id(), slot_of(repo, &commit).await?);
                }
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(edits),
            }
        }
    }

    fn kept_by(&self, commit: CommitId) -> Option<KeptBy> {
        self.marks.reason(&ObjectId::Commit(commit))
    }

    /// Returns whether a commit of the message with this slot keeps bytes.
    pub(super) fn keeping(&self, commit: CommitId, slot: CommitId) -> Keeping {
        match self.kept_by(commit) {
            _ if self.erased.contains(&slot) => Keeping::Erased,
            Some(KeptBy::RefLog) => Keeping::Unreferenced,
            // Without a mark, it was stored ahead of its ref.
            Some(KeptBy::History | KeptBy::Document | KeptBy::Written) | None => Keeping::Keeps,
        }
    }
}

/// Returns whether a commit is the edit that an erasure makes of its message.
async fn is_erasing_edit(repo: &Repo, commit: &Commit) -> Result<bool> {
    let Op::Edit { .. } = commit.op else { return Ok(false) };
    let Some(reason) = commit.message.as_ref().and_then(|text| text.strip_prefix("erase: ")) else {
        return Ok(false);
    };
    match repo.content(commit).await {
        Ok(Some(content)) => {
            Ok(is_erased(&content) && content.text() == format!("[erased: {reason}]"))
        }
        Ok(None) | Err(Error::Erased(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
