//! Verbs that read. Their answers are compared with a scan while no other client runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use tract_core::store::Walk;
use tract_core::{BlobId, CommitId, Store, StoreError, StoreErrorKind, StoreResult};
use tract_engine::{Error, GrepOptions, GrepPattern, Repo, SearchOptions, ToolQuery};

use super::super::session::{Acknowledged, Outcome, Session, WORDS};
use super::super::watch::Invariant;
use super::super::world::World;
use crate::watched::{Answer, Call, Watch, WatchedStore};

/// A store that hides derived rows, so that verbs have to read everything.
struct NoDerivedRows;

#[async_trait]
impl Watch for NoDerivedRows {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        match call {
            Call::Derived { commits, .. } => Ok(Answer::Derived(vec![None; commits.len()])),
            Call::DerivedCommits { .. } => Ok(Answer::DerivedCommits(Some(Vec::new()))),
            Call::Walk { repo, walk } => {
                Ok(store.walk(repo, Walk { stop_at: None, ..walk }).await?.into())
            }
            Call::Apply { .. } => {
                Err(StoreError::new(StoreErrorKind::ReadOnly, "scan", "apply", "it only reads"))
            }
            call => call.ask(store).await,
        }
    }
}

/// Opens a store through which no derived rows are read or written.
fn scanning(world: &World, store: usize) -> Repo {
    let bare = Arc::clone(&world.stores[store].bare);
    let store: Arc<dyn Store> = Arc::new(WatchedStore::new(bare, NoDerivedRows));
    Repo::new(store, world.options("scan"))
}

pub(super) async fn search_words(session: &mut Session<'_>) -> Outcome {
    let word = *session.random.choose(&WORDS).unwrap_or(&"alpha");
    let heads = session.heads().await?;
    // A search of a few commits stores the index, too.
    let options = SearchOptions { limit: 1000, store_after: 1, ..SearchOptions::default() };
    tract_engine::search(&session.repo, &heads, word, &options).await?;
    let _alone = session.world.scheduler.alone();
    compare_search(session.world, session.store, &session.repo, word).await?;
    Ok(Acknowledged::default())
}

/// Compares a search with a search without the index, and with a scan of all texts.
pub(in super::super) async fn compare_search(
    world: &World,
    store: usize,
    repo: &Repo,
    word: &str,
) -> Result<(), Error> {
    let heads: Vec<CommitId> = repo.branches().await?.iter().map(|branch| branch.head).collect();
    let options = SearchOptions { limit: 1000, store_after: 1, ..SearchOptions::default() };
    let found = tract_engine::search(repo, &heads, word, &options).await?;
    let scan = scanning(world, store);
    let scanned = tract_engine::search(&scan, &heads, word, &options).await?;
    let ids = |report: &tract_engine::SearchReport| -> Vec<CommitId> {
        report.hits.iter().map(|hit| hit.commit).collect()
    };
    let (indexed, scanned) = (ids(&found), ids(&scanned));
    if indexed != scanned {
        let short = |ids: &[CommitId]| -> Vec<String> { ids.iter().map(CommitId::short).collect() };
        let sorted = |ids: &[CommitId]| -> BTreeSet<CommitId> { ids.iter().copied().collect() };
        let what = if sorted(&indexed) == sorted(&scanned) { "order" } else { "messages" };
        let text = format!(
            "store {store}: search with and without an index gives other {what}: {word:?}: {:?}, {:?}",
            short(&indexed),
            short(&scanned)
        );
        world.report(Invariant::Scan, text);
    }
    // After a cherry-pick several commits of the heads contain one message. A search reports the
    // best-ranked one and grep the newest, so contents are compared.
    let hits: BTreeSet<BlobId> = found.hits.iter().map(|hit| hit.content).collect();
    let lines = grep_all(&scan, &heads, word).await?;
    let lines: BTreeSet<BlobId> = lines.into_iter().map(|(_, content)| content).collect();
    if hits != lines {
        let text = format!(
            "store {store}: search and grep give other messages: {word:?}: {}, {}",
            hits.len(),
            lines.len()
        );
        world.report(Invariant::Scan, text);
    }
    Ok(())
}

async fn grep_all(
    repo: &Repo,
    heads: &[CommitId],
    text: &str,
) -> Result<Vec<(CommitId, BlobId)>, Error> {
    let pattern = GrepPattern::new().text(text)?;
    let mut grep = tract_engine::grep(repo, heads, pattern, GrepOptions::default()).await?;
    let mut found = Vec::new();
    while let Some(hits) = grep.next_hits().await? {
        found.extend(hits.iter().map(|hit| (hit.commit, hit.content)));
    }
    Ok(found)
}

pub(super) async fn grep_text(session: &mut Session<'_>) -> Outcome {
    let word = *session.random.choose(&WORDS).unwrap_or(&"alpha");
    let heads = session.heads().await?;
    grep_all(&session.repo, &heads, word).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn turns(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    let head = session.head(&branch).await?;
    session.repo.find_tool_turns(Some(head), &ToolQuery::default()).await?;
    let _alone = session.world.scheduler.alone();
    let head = session.head(&branch).await?;
    let found: Vec<_> =
        session.repo.find_tool_turns(Some(head), &ToolQuery::default()).await?.collect();
    let scan = scanning(session.world, session.store);
    let scanned: Vec<_> = scan.find_tool_turns(Some(head), &ToolQuery::default()).await?.collect();
    if found != scanned {
        let text = format!("{} turns, {} without an index", found.len(), scanned.len());
        session.world.report(Invariant::Scan, text);
    }
    Ok(Acknowledged::default())
}

pub(super) async fn blame_messages(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    let head = session.head(&branch).await?;
    tract_engine::blame(&session.repo, head).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn compile(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    let head = session.head(&branch).await?;
    session.repo.compile(Some(head)).await?;
    Ok(Acknowledged::default())
}
