//! Ranked search: returns the messages that match a query best.
//!
//! The index is stored next to the commits as derived rows. They can be dropped at any time; the
//! next search rebuilds them. Committing does not update the index: a search reads the commits that
//! were added since the last search, and stores them in the index once there are enough of them
//! ([`SearchOptions::store_after`]).
//!
//! A search is optimistic. It reads the position of the index, then rows and commits without a
//! lock, and starts over if a row turns out to be replaced, damaged or missing. Every write of the
//! index requires that the position has not moved (see `IndexState`). After `MOST_BROKEN` or
//! `MOST_RACED` restarts it ignores the index and reads the commits, so that an index that cannot
//! be repaired does not make a search fail.

mod build;
mod index;
mod join;
mod numbers;
mod postings;
mod query;
mod rank;
mod reach;
mod segment;
mod snippet;
mod state;
mod store;
mod terms;
mod wire;
mod words;

use std::cmp::Reverse;
use std::collections::HashSet;

use tract_compile::{CompileError, IdMap};
use tract_core::{BlobId, Commit, CommitId, DerivedKind, Kind};

use self::build::hour_of;
use self::index::{Index, is_missing};
use self::query::Query;
use self::rank::{Filter, Ranking, Scored};
use self::reach::{Reach, Reached};
use self::segment::SegmentPlace;
pub use self::snippet::SearchSnippet;
use self::state::IndexState;
use crate::history::log::describe;
use crate::repo::error::{Error, Result};
use crate::repo::{Callback, Repo};

/// Called with the number of commits read so far that were not in the index.
pub type OnSearch = Callback<u64>;

/// Filters and limits of [`search`].
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Only messages of these kinds; all when empty.
    pub kinds: Vec<Kind>,
    /// Only calls of this tool and its results.
    pub tool: Option<String>,
    /// Only messages whose commit states this time or a later one, in microseconds since 1970.
    pub since: Option<i64>,
    /// Only messages whose commit states this time or an earlier one.
    pub until: Option<i64>,
    /// Maximum number of hits; 10 by default.
    pub limit: usize,
    /// Also search messages that are reachable from the heads but shown by none of them: edited,
    /// summarized, skipped or reverted ones.
    pub hidden: bool,
    /// Number of unindexed commits from which on a search stores them in the index; 512 by default.
    /// A lower number makes this search slower and the next one faster. 0 is the same as 1.
    pub store_after: usize,
    /// Called while commits are read that are not in the index yet.
    pub progress: Option<OnSearch>,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            kinds: Vec::new(),
            tool: None,
            since: None,
            until: None,
            limit: 10,
            hidden: false,
            store_after: 512,
            progress: None,
        }
    }
}

/// A message that matches the query.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The commit that added the content. If several have the same content, the best-ranked one.
    pub commit: CommitId,
    /// The text as it is stored.
    pub content: BlobId,
    /// The message's kind.
    pub kind: Kind,
    /// The tools that it calls, or the one that it answers.
    pub tool_names: Vec<String>,
    /// When the commit was made: microseconds since 1970, UTC.
    pub created_at: Option<i64>,
    /// The heads that show this message, as indices into the list given to [`search`], in order;
    /// empty for a hidden message.
    pub heads: Vec<usize>,
    /// The relevance, higher is better. Comparable only within one search.
    pub score: f64,
    /// The part of the message with the most words of the query.
    pub snippet: SearchSnippet,
}

/// The result of [`search`].
#[derive(Clone, Debug, Default)]
pub struct SearchReport {
    /// The best messages, the best first. Each content occurs once.
    pub hits: Vec<SearchHit>,
    /// Number of messages with at least one of the words and all words of the phrases, before the
    /// tool filter and before equal contents are merged.
    pub matching: usize,
    /// Number of commits that were read because they were not in the index.
    pub added: u64,
    /// Number of index entries that were read for the words.
    pub entries_read: u64,
    /// Number of restarts, because another client changed the index or a part of it could not be
    /// read.
    pub restarts: usize,
}

/// Returns the messages that match the words of a query best.
///
/// # Behavior
/// - Searches the messages that the heads show: texts, reasoning, arguments of calls and results,
///   the first 64 KiB of each message. A message matches if it contains at least one of the words.
///   It ranks higher with more of the words, with rarer ones, with more occurrences in a shorter
///   message (BM25), and if the message before or after it matches, too. Between equally good
///   messages the newer one ranks higher.
/// - Words are sequences of letters and digits, in lower case. An identifier matches by its parts
///   and as a whole. Scripts that are written without spaces are searched by pairs of characters.
/// - A word also matches other words with its stem, which count less. The language is that of the
///   query's stop words (English, German, French, Spanish, Portuguese, Italian, Dutch, Russian).
///   Stop words themselves count little, unless the query has no other words.
/// - A message must contain each part of the query in double quotes, word by word. A word of at
///   least two letters before `*` matches all words that begin with it.
/// - Returns the same result for any state of the index, which is read and extended on the way;
///   commits that it lacks are read from the store. On a read-only store the extension is not kept.
/// - Sees the heads as given: commits made during the search are not included.
///
/// # Errors
/// [`Error::Collected`] when a head was deleted by garbage collection; when a commit is not stored,
/// when stored data is damaged, or when the store fails to read.
///
/// # Complexity
/// Linear in the commits that are not yet in the index. Otherwise linear in the messages that
/// contain one of the words and in the commits that change other messages, plus a few bytes per
/// message. A phrase adds the reading of messages that contain its words in another order.
pub async fn search(
    repo: &Repo,
    heads: &[CommitId],
    query: &str,
    options: &SearchOptions,
) -> Result<SearchReport> {
    let query = Query::parse(query);
    if heads.is_empty() || query.terms.is_empty() {
        return Ok(SearchReport::default());
    }
    let mut index = Index::new(repo, options, IndexState::read(repo).await?);
    let mut wanted = heads.to_vec();
    // Races and damage are counted apart. Other clients may change the index many times while this
    // search reads it, and that must not make it drop segments that are fine.
    let (mut raced, mut broken, mut stuck, mut errors) = (0, 0, 0, 0);
    for _ in 0..MOST_TRIES {
        let found = match attempt(&mut index, &wanted, heads, &query, options).await {
            Ok(Attempt::Done(report)) => {
                return Ok(SearchReport { restarts: raced + broken, ..report });
            }
            Ok(Attempt::Lacks(commits)) if commits != wanted => {
                wanted = commits;
                continue;
            }
            // The commits were added just now, and are not reached. What this search knows of the
            // index is from before a collection of garbage.
            Ok(Attempt::Lacks(_)) => {
                repo.require_uncollected(heads).await?;
                index.restart().await?;
                wanted = heads.to_vec();
                stuck += 1;
                if stuck == MOST_BROKEN {
                    index.without_rows();
                }
                continue;
            }
            Ok(Attempt::Gone(gone)) => Ok(gone),
            Err(error) if is_broken(&error) => {
                // A missing head is the caller's error; the index is fine.
                repo.require_uncollected(heads).await?;
                if !index.uses_rows() {
                    return Err(error);
                }
                Err(error)
            }
            Err(error) => return Err(error),
        };
        if !index.uses_rows() {
            // A commit was deleted during the search.
            index.restart().await?;
        } else if !index.is_current().await? {
            // Another client replaced rows between two reads, so the rows do not belong together.
            // Nothing is damaged, so nothing is dropped.
            index.restart().await?;
            raced += 1;
        } else {
            broken += 1;
            match found {
                Ok(gone) => index.refuse(gone).await?,
                // The index refers to commits that were garbage-collected, perhaps just now, or its
                // segments are inconsistent because one of them was dropped. Retry once before
                // dropping them all.
                Err(_) if errors == 0 => {
                    errors += 1;
                    index.restart().await?;
                }
                Err(_) => index.drop_segments().await?,
            }
        }
        wanted = heads.to_vec();
        if broken == MOST_BROKEN || raced == MOST_RACED {
            index.without_rows();
        }
    }
    Err(Error::KeptMoving { attempts: MOST_TRIES })
}

/// Maximum number of commits that a search keeps in memory to describe hits.
const MOST_READ: usize = 1 << 14;
/// Maximum number of attempts of a search.
const MOST_TRIES: usize = 64;
/// Number of attempts with a broken index after which the search ignores the index.
const MOST_BROKEN: usize = 6;
/// Number of attempts with an index changed by other clients after which the search ignores the
/// index.
const MOST_RACED: usize = 24;

/// The outcome of one attempt.
enum Attempt {
    Done(SearchReport),
    /// These commits have to be indexed first.
    Lacks(Vec<CommitId>),
    /// This segment cannot be used: rows or commits of it are gone.
    Gone((CommitId, u64)),
}

async fn attempt(
    index: &mut Index<'_>,
    wanted: &[CommitId],
    heads: &[CommitId],
    query: &Query,
    options: &SearchOptions,
) -> Result<Attempt> {
    index.add(wanted).await?;
    let reach = match Reach::read(index, heads, options.hidden).await? {
        Reached::Known(reach) => reach,
        Reached::Lacks(commits) => return Ok(Attempt::Lacks(commits)),
    };
    Ok(match ranked(index, &reach, heads, query, options).await? {
        Ok(report) => Attempt::Done(report),
        Err(gone) => Attempt::Gone(gone),
    })
}

/// Returns whether something that the index refers to is not stored, or the index contradicts
/// itself.
fn is_broken(error: &Error) -> bool {
    match error {
        Error::Missing(_) | Error::Collected { .. } | Error::Damaged { object: None, .. } => true,
        Error::Store(error) | Error::Compile(CompileError::Store(error)) => is_missing(error),
        _ => false,
    }
}

/// Checks all index rows that the branches use, drops the segments that cannot be used, and indexes
/// their commits again. Does nothing if no search was made yet.
pub(crate) async fn repair_index(repo: &Repo) -> Result<()> {
    let (store, name) = (repo.store(), repo.name());
    let indexed = store.derived_commits(name, DerivedKind::SearchMark).await?;
    if indexed.is_some_and(|commits| commits.is_empty()) {
        return Ok(());
    }
    let branches = repo.branches().await?;
    let heads: Vec<CommitId> = branches.into_iter().map(|branch| branch.head).collect();
    let options = SearchOptions { hidden: true, limit: 1, ..SearchOptions::default() };
    drop_broken(repo, &heads, &options).await?;
    search(repo, &heads, "a", &options).await.map(drop)
}

/// Drops the segments used for the heads that have an unreadable row.
async fn drop_broken(repo: &Repo, heads: &[CommitId], options: &SearchOptions) -> Result<()> {
    let state = IndexState::read(repo).await?;
    // Store nothing here. The search that follows does, once the broken segments are dropped.
    let options = SearchOptions { store_after: usize::MAX, ..options.clone() };
    let mut index = Index::new(repo, &options, state);
    let mut wanted = heads.to_vec();
    for _ in 0..MOST_TRIES {
        let reached = match index.add(&wanted).await {
            Ok(()) => Reach::read(&mut index, heads, true).await,
            Err(error) => Err(error),
        };
        match reached {
            Ok(Reached::Known(_)) => {}
            Ok(Reached::Lacks(commits)) => {
                wanted = commits;
                continue;
            }
            // The search that follows distinguishes collected commits from damaged rows.
            Err(error) if is_broken(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let mut broken = None;
        for segment in index.segments.iter().filter(|segment| segment.at.is_some()) {
            if !join::is_whole(repo, segment).await? {
                broken = segment.at.map(|at| (at, segment.number));
                break;
            }
        }
        let Some(broken) = broken else { return Ok(()) };
        if index.is_current().await? {
            index.refuse(broken).await?;
        } else {
            index.restart().await?;
        }
        wanted = heads.to_vec();
    }
    Ok(())
}

/// Deletes the search index of a repository, with all words of all messages. The next search
/// rebuilds it from the messages that are stored then.
///
/// # Behavior
/// - Deletes all derived rows, including those of snapshots and of the turn index, because a store
///   cannot delete rows of one kind only.
///
/// # Errors
/// When the store fails.
pub async fn forget_search_index(repo: &Repo) -> Result<()> {
    Ok(repo.store().drop_derived(repo.name()).await?)
}

/// Ranks the messages. The inner error names a segment with missing rows.
async fn ranked(
    index: &mut Index<'_>,
    reach: &Reach,
    heads: &[CommitId],
    query: &Query,
    options: &SearchOptions,
) -> Result<std::result::Result<SearchReport, (CommitId, u64)>> {
    let repo = index.repo;
    let mut encoded = Vec::with_capacity(index.segments.len());
    for segment in &index.segments {
        let gone = (segment.at.unwrap_or(CommitId::from_bytes([0; 32])), segment.number);
        match store::term_lists(repo, segment, &query.terms).await? {
            Some(lists) => encoded.push(lists),
            None => return Ok(Err(gone)),
        }
    }
    let copies: Vec<Vec<(u32, u32)>> = index
        .segments
        .iter()
        .map(|segment| {
            let mut copies = segment.copies.clone();
            copies.sort_unstable_by_key(|(at, of)| (*of, *at));
            copies
        })
        .collect();
    let tips = repo.store().commits(repo.name(), heads).await?;
    let newest = tips.iter().flatten().filter_map(|tip| tip.created_at.and_then(hour_of)).max();
    let ranking = Ranking::new(index, reach, &copies, &query.terms, &encoded, newest);
    let Some(ranking) = ranking else {
        let damaged = index.segments.iter().find_map(|segment| Some((segment.at?, segment.number)));
        return damaged.map(Err).ok_or_else(|| Error::Damaged {
            object: None,
            what: "a list of the search index cannot be read".to_owned(),
        });
    };
    let filter = Filter {
        kinds: options.kinds.clone(),
        hours: [options.since.and_then(hour_of), options.until.and_then(hour_of)],
    };
    let mut report =
        SearchReport { added: index.added, entries_read: ranking.read, ..SearchReport::default() };
    let mut contents: HashSet<BlobId> = HashSet::new();
    let mut read: IdMap<SegmentPlace, Commit> = IdMap::default();
    let mut done = 0;
    // A filter that is applied to commits may reject one of several equal contents.
    let merged = options.since.is_none() && options.until.is_none() && options.tool.is_none();
    // Duplicates and messages rejected by a filter are recognized only once they are read, so start
    // with more than `limit`.
    let mut limit = options.limit.saturating_mul(2).max(1);
    while report.hits.len() < options.limit {
        let (best, total) = ranking.best(index, &filter, merged, limit);
        report.matching = total;
        let new = best.get(done..).unwrap_or_default();
        done = best.len();
        for equal in new.chunk_by(|a, b| a.score == b.score) {
            if report.hits.len() >= options.limit {
                break;
            }
            let mut found = match commits(index, equal, &mut read).await? {
                Ok(found) => found,
                Err(gone) => return Ok(Err(gone)),
            };
            // The order of equal scores must not depend on the state of the index.
            found.sort_by_key(|(_, commit)| (Reverse(commit.created_at), commit.id()));
            for (scored, commit) in found {
                if report.hits.len() >= options.limit {
                    break;
                }
                let Some((blob, kind)) = commit.content.zip(commit.kind.clone()) else { continue };
                let at = commit.created_at;
                let is_in = options.since.is_none_or(|since| at.is_some_and(|at| at >= since))
                    && options.until.is_none_or(|until| at.is_some_and(|at| at <= until));
                if !is_in || contents.contains(&blob) {
                    continue;
                }
                // The content was erased after the index was read.
                let stored = repo.blobs_or_erased(&[blob.into()]).await?;
                let Some(stored) = stored.into_iter().flatten().next() else { continue };
                let text = String::from_utf8_lossy(stored.bytes());
                let texts = crate::search::grep::message_texts(&kind, &text);
                if !query.has_phrases(texts.iter().map(|text| text.text.as_str())) {
                    contents.insert(blob);
                    continue;
                }
                let described = describe(repo, std::slice::from_ref(&commit)).await?;
                let tool_names: Vec<String> =
                    described.into_iter().flat_map(|line| line.tool_names).collect();
                if options.tool.as_ref().is_some_and(|tool| !tool_names.contains(tool)) {
                    continue;
                }
                contents.insert(blob);
                report.hits.push(SearchHit {
                    commit: commit.id(),
                    content: blob,
                    kind,
                    tool_names,
                    created_at: at,
                    heads: reach.heads(index, scored.place),
                    score: scored.score,
                    snippet: SearchSnippet::of(&texts, &query.terms),
                });
            }
        }
        if best.len() < limit {
            break;
        }
        limit = limit.saturating_mul(4);
    }
    Ok(Ok(report))
}

/// Reads the commits of messages, in the given order. `read` caches the commits between marks. The
/// inner error names a segment with missing commits.
async fn commits(
    index: &Index<'_>,
    page: &[Scored],
    read: &mut IdMap<SegmentPlace, Commit>,
) -> Result<std::result::Result<Vec<(Scored, Commit)>, (CommitId, u64)>> {
    let repo = index.repo;
    if read.len() > MOST_READ {
        read.clear();
    }
    let mut found = Vec::with_capacity(page.len());
    for scored in page {
        if !read.contains_key(&scored.place) {
            let SegmentPlace { segment: number, position } = scored.place;
            let segment = index.segment(number);
            let Some((at, mark)) = segment.and_then(|segment| segment.mark_from(position)) else {
                let what = "a segment of the search index lacks a mark".to_owned();
                return Err(Error::Damaged { object: None, what });
            };
            let limit = (at - position) as usize + 1;
            let walked = match repo.history(mark).pages(limit, limit).next_entries().await {
                Err(error) if is_missing(&error) => {
                    let gone = segment.map(|segment| (segment.at, segment.number));
                    let (at, number) = gone.unwrap_or_default();
                    return Ok(Err((at.unwrap_or(CommitId::from_bytes([0; 32])), number)));
                }
                walked => walked?,
            };
            for (entry, back) in walked.into_iter().flatten().zip(0u32..) {
                read.insert(SegmentPlace { segment: number, position: at - back }, entry.commit);
            }
        }
        let commit = read.get(&scored.place).cloned();
        let commit = commit.ok_or_else(|| Error::Damaged {
            object: None,
            what: "the search index names a commit that is not there".to_owned(),
        })?;
        found.push((*scored, commit));
    }
    Ok(Ok(found))
}
