//! The scope of an erasure: the named messages with all their versions, and the summaries of them.
//! It is the same for an erasure that is made here and for one that arrives from another store.

use std::collections::{HashMap, HashSet};

use tract_core::store::{BlobKey, ListKind, ObjectListing};
use tract_core::{BlobId, Commit, CommitId, Content, Kind, ObjectId, StoreExt as _};

use super::message::{slot_of, summarizes};
use super::request::{EraseRequest, EraseTarget, EraseWhat};
use super::scan::Scope;
use super::search::Search;
use crate::history::reach::commit_id;
use crate::repo::Repo;
use crate::repo::erasure::Erasure;
use crate::repo::error::{Error, Result};

/// Number of commits that are read together.
const LISTED: usize = 1024;

impl<'a> Scope<'a> {
    /// Determines the scope of a request.
    ///
    /// # Errors
    /// [`Error::BadErase`] when the targets name nothing that can be erased, or bytes that several
    /// messages share.
    pub(super) async fn of(repo: &Repo, request: &EraseRequest) -> Result<Scope<'a>> {
        let targets = match &request.what {
            EraseWhat::Secrets(scanner) => {
                return Ok(Scope::everything(Search::Secrets(scanner.as_ref().clone())));
            }
            EraseWhat::Targets(targets) => targets,
        };
        let mut named = Named::default();
        for target in targets {
            match target {
                EraseTarget::Blob(id) => named.blob(repo, *id).await?,
                EraseTarget::Commit(id) => named.commit(repo, *id).await?,
            }
        }
        named.read_versions(repo).await?;
        // A user wrote the text of a mark as a message.
        if named.has_mark && named.blobs.is_empty() && named.erased.is_empty() {
            let what = "the message is the mark of an erasure".to_owned();
            return Err(Error::BadErase { what });
        }
        if named.blobs.is_empty() && named.erased.is_empty() {
            // A named commit was garbage-collected after it was read.
            repo.require_uncollected(&request.commits()).await?;
        }
        if !request.applies_everywhere()
            && let Some((id, slots)) = named.of_blobs.iter().find(|(_, slots)| slots.len() > 1)
        {
            let what = format!(
                "blob {} belongs to {} messages: name one of them, or erase it everywhere",
                id.short(),
                slots.len()
            );
            return Err(Error::BadErase { what });
        }
        let has_text = named.contents.iter().any(|content| !content.text().is_empty());
        let scope = named.into_scope(request.mark(), request.applies_everywhere());
        if has_text && scope.search.in_text(&request.reason).is_some() {
            let what = "the reason has the text that is to be erased".to_owned();
            return Err(Error::BadErase { what });
        }
        Ok(scope)
    }

    /// Determines the scope of the erasures of one command that arrived from another store; `stored`
    /// contains the erased blobs that are stored here.
    pub(super) async fn of_arrived(
        repo: &Repo,
        from: Option<&'a Repo>,
        erasures: &[Erasure],
        stored: &HashSet<BlobId>,
        mark: String,
    ) -> Result<Scope<'a>> {
        let messages = erasures.iter().flat_map(|erasure| &erasure.named).copied().collect();
        let at_us = erasures.first().map(|erasure| erasure.at_us).unwrap_or_default();
        let sender = Some(Sender { repo: from, at_us });
        let mut named = Named { messages, sender, ..Named::default() };
        // A store that cannot erase refuses the blobs that it stores.
        if !named.messages.is_empty() && repo.store().capabilities().erases {
            named.read_versions(repo).await?;
        }
        let mut scope = named.into_scope(mark, false);
        scope.targets.extend(stored);
        scope.arrived = erasures.iter().map(|erasure| (erasure.blob, erasure.clone())).collect();
        scope.from = from;
        Ok(scope)
    }

    pub(super) fn everything(search: Search) -> Self {
        Self {
            search,
            targets: HashSet::new(),
            messages: None,
            named: HashSet::new(),
            summaries: HashSet::new(),
            erased: HashSet::new(),
            arrived: HashMap::new(),
            from: None,
        }
    }

    /// Returns whether earlier erasures deleted everything that the request names.
    pub(super) fn is_erased(&self) -> bool {
        self.targets.is_empty() && !self.erased.is_empty()
    }
}

/// The messages and blobs that the targets name.
#[derive(Default)]
struct Named<'a> {
    messages: HashSet<CommitId>,
    summaries: HashSet<CommitId>,
    blobs: HashSet<BlobId>,
    contents: Vec<Content>,
    /// Blobs that were named by id, with the messages that contain them.
    of_blobs: HashMap<BlobId, HashSet<CommitId>>,
    /// The named blobs, and the contents of the named messages, that were erased earlier.
    erased: HashSet<BlobId>,
    /// Whether a version of a named message is the mark of an erasure.
    has_mark: bool,
    /// The source of the erasure; `None` if it is made here.
    sender: Option<Sender<'a>>,
}

/// The source of an erasure that arrived.
struct Sender<'a> {
    /// The repository, if it can be read.
    repo: Option<&'a Repo>,
    /// The time of the erasure.
    at_us: i64,
}

impl Sender<'_> {
    /// Returns whether the source has a version of an erased message that is newer than the erasure.
    async fn keeps(&self, commit: &Commit) -> Result<bool> {
        let (Some(from), Some(content)) = (self.repo, commit.content) else {
            return Ok(commit.created_at.is_some_and(|at_us| at_us > self.at_us));
        };
        Ok(from.store().commit(from.name(), commit.id()).await?.is_some()
            && from.store().blob(from.name(), content).await?.is_some())
    }
}

impl<'a> Named<'a> {
    /// Returns the scope of an erasure of these messages; `everywhere` includes the other messages
    /// that contain or quote their texts.
    fn into_scope(self, mark: String, everywhere: bool) -> Scope<'a> {
        let Self { messages, mut summaries, blobs, contents, of_blobs, erased, .. } = self;
        let mut scope = Scope::everything(Search::texts(&contents, mark));
        scope.targets = blobs;
        scope.erased = erased;
        scope.named = messages;
        scope.named.extend(of_blobs.into_values().flatten());
        if !everywhere {
            summaries.retain(|slot| !scope.named.contains(slot));
            scope.messages = Some(scope.named.clone());
            scope.summaries = summaries;
        }
        scope
    }

    async fn blob(&mut self, repo: &Repo, id: BlobId) -> Result<()> {
        let Some(blob) = repo.store().blob(repo.name(), id).await? else {
            if repo.erasure_of(id).await?.is_none() {
                return Err(Error::Missing(ObjectId::Blob(id)));
            }
            self.erased.insert(id);
            return Ok(());
        };
        self.blobs.insert(id);
        self.of_blobs.insert(id, HashSet::new());
        self.contents.extend(blob.text().and_then(any_content));
        Ok(())
    }

    async fn commit(&mut self, repo: &Repo, id: CommitId) -> Result<()> {
        let commit = repo.require_commit(id).await?;
        if commit.content.is_none() {
            let what = format!("commit {} says nothing that could be erased", id.short());
            return Err(Error::BadErase { what });
        }
        self.messages.insert(slot_of(repo, &commit).await?);
        Ok(())
    }

    /// Reads all versions of the messages, reachable or not, and finds their summaries.
    async fn read_versions(&mut self, repo: &Repo) -> Result<()> {
        let mut is_first = true;
        loop {
            let before = self.summaries.len();
            let mut after = 0;
            loop {
                let listing = ObjectListing { kind: ListKind::Commits, after, limit: LISTED };
                let page = repo.store().list_objects(repo.name(), listing).await?;
                let ids: Vec<CommitId> =
                    page.objects.iter().filter_map(|(object, _)| commit_id(*object)).collect();
                let commits = repo.store().commits(repo.name(), &ids).await?;
                for commit in commits.into_iter().flatten() {
                    self.look_at(repo, &commit, is_first).await?;
                }
                match page.next {
                    Some(next) => after = next,
                    None => break,
                }
            }
            // Repeat, because a summary of a summary may be listed before that one.
            if self.summaries.len() == before {
                break;
            }
            is_first = false;
        }
        Ok(())
    }

    async fn look_at(&mut self, repo: &Repo, commit: &Commit, is_first: bool) -> Result<()> {
        let known = &self.summaries;
        if !known.contains(&commit.id())
            && (summarizes(repo, commit, &self.messages).await?
                || summarizes(repo, commit, known).await?)
        {
            self.summaries.insert(commit.id());
        }
        if !is_first || commit.content.is_none() {
            return Ok(());
        }
        let slot = slot_of(repo, commit).await?;
        for (_, slots) in
            self.of_blobs.iter_mut().filter(|(id, _)| commit.linked_blobs().any(|it| it == **id))
        {
            slots.insert(slot);
        }
        if self.messages.contains(&slot) {
            self.version(repo, commit).await?;
        }
        Ok(())
    }

    /// Adds the content of a version, its provider's bytes, and its originals.
    async fn version(&mut self, repo: &Repo, commit: &Commit) -> Result<()> {
        let Some(kind) = &commit.kind else { return Ok(()) };
        if let Some(sender) = &self.sender
            && sender.keeps(commit).await?
        {
            return Ok(());
        }
        let originals = commit.keeps.iter().chain(&commit.verbatim);
        let ids: Vec<BlobId> = commit.content.iter().chain(originals).copied().collect();
        let keys: Vec<BlobKey> = ids.iter().map(|id| BlobKey::from(*id)).collect();
        let found = match self.sender {
            // Erased versions may arrive before the records of their erasures.
            Some(_) => repo.store().blobs(repo.name(), &keys).await?,
            None => repo.blobs_or_erased(&keys).await?,
        };
        for (id, blob) in ids.iter().zip(found) {
            let is_content = commit.content == Some(*id);
            let Some(blob) = blob else {
                if is_content {
                    self.erased.insert(*id);
                }
                continue;
            };
            let text = blob.text();
            let content = match is_content {
                true => text.and_then(|text| Content::from_blob(kind, text).ok()),
                false if commit.keeps.contains(id) => text.and_then(any_content),
                false => None,
            };
            // The content is the mark of an earlier erasure.
            if is_content && content.as_ref().is_some_and(is_erased) {
                self.has_mark = true;
                return Ok(());
            }
            self.blobs.insert(*id);
            self.contents.extend(content);
        }
        Ok(())
    }
}

/// Returns whether a content is the mark of an erasure.
pub fn is_erased(content: &Content) -> bool {
    let text = content.text();
    text.starts_with("[erased: ") && text.ends_with(']')
}

/// Parses stored bytes as content of each kind that they may have.
fn any_content(text: &str) -> Option<Content> {
    [Kind::User, Kind::ToolResult, Kind::Artifact]
        .iter()
        .find_map(|kind| Content::from_blob(kind, text).ok())
}

#[cfg(test)]
mod tests {
    use tract_core::Blob;

    use super::*;

    #[test]
    fn only_the_whole_mark_of_an_erasure_counts_as_erased() {
        assert!(is_erased(&Content::user("[erased: a leak]")));
        assert!(!is_erased(&Content::user("you said: [erased: a leak]")));
        assert!(any_content(Blob::seal("\"text\"").text().unwrap_or_default()).is_some());
    }
}
