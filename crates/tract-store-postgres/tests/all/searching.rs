//! Several clients search while others write and fork.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tract_core::{CommitId, DerivedKind, Draft, RefName, StoreExt, block_on};
use tract_engine::{
    Repo, RepoOptions, SearchOptions, SearchReport, VerifyOptions, forget_search_index, search,
    verify,
};

use crate::server;
use crate::support::{self, opened};

const SEARCHERS: usize = 4;
/// All words of all messages, so that a search for them reads every row of the index.
const WORDS: usize = 40;

fn message(who: &str, n: usize) -> String {
    let word = |k: usize| format!("w{}", (n * 7919 + k * k * 31) % WORDS);
    format!("message {who} n{n} {}", (0..12).map(word).collect::<Vec<_>>().join(" "))
}

fn every_word() -> String {
    let words = (0..WORDS).map(|n| format!("w{n}"));
    words.chain(["message", "writer", "fork"].map(str::to_owned)).collect::<Vec<_>>().join(" ")
}

fn heads(repo: &Repo) -> Vec<CommitId> {
    let branches = block_on(repo.branches()).expect("the branches are read");
    branches.into_iter().map(|branch| branch.head).collect()
}

fn reached(repo: &Repo, heads: &[CommitId]) -> Vec<CommitId> {
    let mut found = HashSet::new();
    for head in heads {
        let commits = block_on(repo.store().walk_all(repo.name(), *head)).expect("it is walked");
        found.extend(commits.iter().map(|commit| commit.id()));
    }
    found.into_iter().collect()
}

fn ask(repo: &Repo, heads: &[CommitId], query: &str, options: SearchOptions) -> SearchReport {
    block_on(search(repo, heads, query, &options)).expect("it is searched")
}

/// Takes a row of the index apart: its sort, the number of its segment, and its bytes.
fn parts(row: &[u8]) -> Option<(u8, u64, &[u8])> {
    let body = row.get(10..row.len().checked_sub(4)?)?;
    let number = row.get(2..10)?.try_into().ok()?;
    Some((*row.get(1)?, u64::from_le_bytes(number), body))
}

/// Lists the rows of the index that name no segment, or belong to a segment that is not described.
fn broken_rows(repo: &Repo, commits: &[CommitId]) -> Vec<String> {
    let rows = |kind| {
        let read = block_on(repo.store().derived(repo.name(), kind, commits));
        let rows = read.expect("the rows are read");
        let rows = commits.iter().copied().zip(rows).filter_map(|(at, row)| Some((at, row?)));
        rows.filter(|(_, row)| !row.is_empty()).collect::<Vec<_>>()
    };
    let (marks, terms) = (rows(DerivedKind::SearchMark), rows(DerivedKind::SearchTerms));
    let framed = |(at, row): &(CommitId, bytes::Bytes)| {
        let (sort, number, body) = parts(row).expect("a frame");
        (*at, sort, number, body.get(..32).and_then(|id| <[u8; 32]>::try_from(id).ok()))
    };
    let marks: Vec<_> = marks.iter().map(framed).collect();
    let described: HashSet<(CommitId, u64)> =
        marks.iter().filter(|mark| mark.1 == 2).map(|(at, _, number, _)| (*at, *number)).collect();
    let numbers: HashSet<u64> = described.iter().map(|(_, number)| *number).collect();
    let mut broken = Vec::new();
    for (at, sort, number, id) in marks {
        let names =
            id.map(CommitId::from_bytes).is_some_and(|at| described.contains(&(at, number)));
        if sort == 1 && !names {
            broken.push(format!("the mark of {at} names no segment"));
        }
    }
    for (at, _, number, _) in terms.iter().map(framed) {
        if !numbers.contains(&number) {
            broken.push(format!("the words of {at} are of no segment"));
        }
    }
    broken
}

#[test]
fn searches_next_to_writers_leave_every_row_of_the_index_whole() {
    let Some(url) = server::shared() else { return };
    let url = server::with_schema(url, &server::schema());
    let repo = || Repo::new(Arc::new(opened(&url, &support::options())), RepoOptions::default());
    let (messages, searches) =
        (tract_testkit::scaled(800, 0.375, 100), tract_testkit::scaled(160, 0.375, 20));
    let main = RefName::branch("main").expect("a name");
    let first = repo();
    for n in 0..20 {
        let draft = Draft::user(message("writer", n));
        block_on(first.append(&main, draft)).expect("it is written");
    }
    let (restarts, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let repo = repo();
            for n in 20..messages {
                let draft = Draft::user(message("writer", n));
                block_on(repo.append(&main, draft)).expect("it is written");
            }
        });
        scope.spawn(|| {
            let repo = repo();
            for n in 0..messages / 10 {
                let at = block_on(repo.head_of(&main)).expect("it is read").expect("a head");
                let fork = block_on(repo.create_branch(&format!("fork-{n}"), at));
                let fork = fork.expect("it is made");
                for k in 0..8 {
                    let draft = Draft::user(message("fork", n * 100 + k));
                    block_on(repo.append(&fork, draft)).expect("it is written");
                }
            }
        });
        for searcher in 0..SEARCHERS {
            let (repo, restarts, most) = (repo(), &restarts, &most);
            scope.spawn(move || {
                for n in 0..searches {
                    let heads = heads(&repo);
                    let query = format!("message w{}", (searcher * 100 + n) % WORDS);
                    let report = ask(
                        &repo,
                        &heads,
                        &query,
                        SearchOptions { store_after: 4, ..SearchOptions::default() },
                    );
                    // Every message has the first of the words.
                    assert_eq!(report.matching, reached(&repo, &heads).len());
                    restarts.fetch_add(report.restarts, Ordering::Relaxed);
                    most.fetch_max(report.restarts, Ordering::Relaxed);
                }
            });
        }
    });
    let heads = heads(&first);
    let commits = reached(&first, &heads);
    eprintln!(
        "{} commits, {} searches, which started over {} times, one of them {} times",
        commits.len(),
        SEARCHERS * searches,
        restarts.into_inner(),
        most.into_inner(),
    );
    assert_eq!(broken_rows(&first, &commits), Vec::<String>::new());
    // The query reads every row of words; a segment with a broken row makes the search start over.
    let options =
        SearchOptions { store_after: usize::MAX, limit: 100_000, ..SearchOptions::default() };
    let indexed = ask(&repo(), &heads, &every_word(), options.clone());
    assert_eq!(indexed.restarts, 0, "a part of the index is broken");
    assert!(indexed.added < commits.len() as u64, "nothing is indexed");
    block_on(forget_search_index(&first)).expect("the index is dropped");
    let scanned = ask(&repo(), &heads, &every_word(), options);
    assert_eq!(scanned.added, commits.len() as u64);
    assert_eq!(indexed.hits, scanned.hits);
    let report = block_on(verify(&first, &VerifyOptions::default())).expect("it is read");
    assert!(report.clean, "{:?}", report.damage);
}
