//! Search for messages.

use tract_core::CommitId;
use tract_engine::{Repo, SearchHit, SearchOptions};

use super::sessions_by_branch;
use crate::error::Result;

/// A found message, with its position.
pub(crate) struct FoundMessage {
    pub(crate) hit: SearchHit,
    /// A branch that contains it: the first by name.
    pub(crate) branch: String,
    /// The title of that branch.
    pub(crate) title: String,
    /// Its number in the context of that branch.
    pub(crate) number: usize,
}

/// Finds the best matches in the contexts of all branches.
pub(crate) async fn search(repo: &Repo, words: &str, limit: usize) -> Result<Vec<FoundMessage>> {
    let branches = repo.branches().await?;
    let heads: Vec<CommitId> = branches.iter().map(|branch| branch.head).collect();
    let options = SearchOptions { limit, ..SearchOptions::default() };
    let report = tract_engine::search(repo, &heads, words, &options).await?;
    let mut found = Vec::with_capacity(report.hits.len());
    let sessions = sessions_by_branch(repo).await?;
    for hit in report.hits {
        let branch = hit.heads.first().and_then(|head| branches.get(*head));
        let Some(branch) = branch else { continue };
        let context = repo.compile(Some(branch.head)).await?;
        let place = context.messages().position(|message| message.commit == hit.commit);
        let Some(place) = place else { continue };
        let branch = branch.name.clone();
        let title = sessions.get(&branch).map(|session| session.name().into_owned());
        let title = title.unwrap_or_else(|| branch.clone());
        found.push(FoundMessage { hit, branch, title, number: place + 1 });
    }
    Ok(found)
}
