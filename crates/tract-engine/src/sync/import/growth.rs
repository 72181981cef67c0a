//! Recognizes a request that ends within the parts of an answer, and its longer state.
//!
//! The input of a request of the Responses API is a list of items, and the neighboring items of the
//! model are one message. A request that ends among them has a shorter message than one that has all
//! of them, so neither history continues the other.

use tract_core::{AuthorKind, Commit, CommitId, Content, Kind};

use super::chain::Chain;
use crate::repo::Repo;
use crate::repo::error::Result;

/// The relation of a conversation to a branch with a shorter or longer answer in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// The branch ends with the beginning of an answer of the conversation.
    Newer,
    /// The conversation ends with the beginning of an answer of the branch.
    Older,
}

/// Compares a conversation with a branch that it does not continue.
pub(super) async fn growth(repo: &Repo, head: CommitId, chain: &Chain) -> Result<Option<Growth>> {
    let Some(last) = repo.commit(head).await? else { return Ok(None) };
    if is_imported_answer(&last) {
        let next = match last.parent() {
            Some(parent) => chain.ids.iter().position(|id| *id == parent).map(|at| at + 1),
            None => Some(0),
        };
        let next = next.and_then(|at| chain.ids.get(at)).copied();
        if let (Some(next), Some(begin)) = (next, repo.content(&last).await?)
            && let Some(whole) = content_of(repo, chain, next).await?
            && is_beginning(&begin, &whole)
        {
            return Ok(Some(Growth::Newer));
        }
    }
    let Some(last) = chain.links.last().map(|link| &link.commit) else { return Ok(None) };
    let (Some(parent), true) = (last.parent(), is_imported_answer(last)) else { return Ok(None) };
    let mut history = repo.history(head);
    while let Some(page) = history.next_page().await? {
        let Some(next) = page.iter().find(|commit| commit.parent() == Some(parent)) else {
            continue;
        };
        let whole = repo.content(next).await?.filter(|_| is_imported_answer(next));
        let begin = content_of(repo, chain, last.id()).await?;
        let is_older = whole.zip(begin).is_some_and(|(whole, begin)| is_beginning(&begin, &whole));
        return Ok(is_older.then_some(Growth::Older));
    }
    Ok(None)
}

fn is_imported_answer(commit: &Commit) -> bool {
    let record = commit.record();
    record.kind == Some(Kind::Assistant) && record.origin.by == AuthorKind::Import
}

/// Returns the content of a commit of a conversation, which may not be stored yet.
async fn content_of(repo: &Repo, chain: &Chain, id: CommitId) -> Result<Option<Content>> {
    let Some(link) = chain.links.iter().find(|link| link.commit.id() == id) else {
        return match repo.commit(id).await? {
            Some(commit) => repo.content(&commit).await,
            None => Ok(None),
        };
    };
    let record = link.commit.record();
    let blob = link.blobs.iter().find(|blob| Some(blob.id()) == record.content);
    let (Some(text), Some(kind)) = (blob.and_then(|blob| blob.text()), &record.kind) else {
        return Ok(None);
    };
    Ok(Some(Content::from_blob(kind, text)?))
}

/// Returns whether a message has the first parts of another one, and fewer.
fn is_beginning(begin: &Content, whole: &Content) -> bool {
    let (begin, whole) = (begin.parts(), whole.parts());
    begin.len() < whole.len() && whole.starts_with(begin)
}
