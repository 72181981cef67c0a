//! The scope of an erasure: the named messages with all their versions, and the summaries of them.

use std::collections::{HashMap, HashSet};

use tract_core::store::{BlobKey, ListKind, ObjectListing};
use tract_core::{BlobId, Commit, CommitId, Content, Kind, ObjectId, StoreExt as _};

use super::message::{slot_of, summarizes};
use super::request::{EraseRequest, EraseTarget, EraseWhat};
use super::scan::Scope;
use super::search::Search;
use crate::history::reach::commit_id;
use crate::repo::Repo;
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
        if named.blobs.is_empty() && named.erased.is_empty() {
            // A named commit was garbage-collected after it was read.
            repo.require_uncollected(&request.commits()).await?;
        }
        let Named { messages, mut summaries, blobs, contents, of_blobs, erased, .. } = named;
        if !request.applies_everywhere()
            && let Some((id, slots)) = of_blobs.iter().find(|(_, slots)| slots.len() > 1)
        {
            let what = format!(
                "blob {} belongs to {} messages: name one of them, or erase it everywhere",
                id.short(),
                slots.len()
            );
            return Err(Error::BadErase { what });
        }
        let search = Search::texts(&contents, request.mark());
        let has_text = |content: &Content| !content.text().is_empty();
        if contents.iter().any(has_text) && search.in_text(&request.reason).is_some() {
            let what = "the reason has the text that is to be erased".to_owned();
            return Err(Error::BadErase { what });
        }
        let mut scope = Scope::everything(search);
        scope.targets = blobs;
        scope.erased = erased;
        if !request.applies_everywhere() {
            let slots = of_blobs.into_values().flatten();
            let messages: HashSet<CommitId> = messages.into_iter().chain(slots).collect();
            summaries.retain(|slot| !messages.contains(slot));
            scope.messages = Some(messages);
            scope.summaries = summaries;
        }
        Ok(scope)
    }

    pub(super) fn everything(search: Search) -> Self {
        Self {
            search,
            targets: HashSet::new(),
            messages: None,
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
struct Named {
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
}

impl Named {
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
        // A user wrote the text of a mark as a message.
        if self.has_mark && self.blobs.is_empty() && self.erased.is_empty() {
            let what = "the message is the mark of an erasure".to_owned();
            return Err(Error::BadErase { what });
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
        let originals = commit.keeps.iter().chain(&commit.verbatim);
        let ids: Vec<BlobId> = commit.content.iter().chain(originals).copied().collect();
        let keys: Vec<BlobKey> = ids.iter().map(|id| BlobKey::from(*id)).collect();
        for (id, blob) in ids.iter().zip(repo.blobs_or_erased(&keys).await?) {
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
