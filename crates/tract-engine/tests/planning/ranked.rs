//! Ranked search: the same answers as ranking every message, whatever is in the index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tract_core::{
    BlobId, Commit, CommitId, DerivedKind, Draft, Kind, ManualClock, Priority, RefName, RepoName,
    Store, StoreExt as _, block_on,
};
use tract_engine::{
    GrepOptions, GrepPattern, Repo, RepoOptions, SearchOptions, SearchReport, grep, search,
};
use tract_store_sqlite::SqliteOptions;

use crate::fixture::{Desk, NOON};
use crate::search::reached;

/// A query and where it is asked.
pub(crate) struct Ranked<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) store_after: usize,
    pub(crate) query: &'a str,
}

fn ask(repo: &Repo, heads: &[CommitId], query: &str, options: SearchOptions) -> SearchReport {
    block_on(search(repo, heads, query, &options)).unwrap()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

/// The words of every content that heads lead to.
fn texts(repo: &Repo, heads: &[CommitId]) -> HashMap<BlobId, Vec<String>> {
    block_on(async {
        let pattern = GrepPattern::new().regex("").unwrap();
        let options = GrepOptions::new().hidden(true);
        let mut search = grep(repo, heads, pattern, options).await.unwrap();
        let mut texts = HashMap::new();
        while let Some(hits) = search.next_hits().await.unwrap() {
            for hit in hits.into_iter().filter(|hit| hit.kind.is_some()) {
                let lines: Vec<&str> = hit.lines.iter().map(|line| line.text.as_str()).collect();
                texts.insert(hit.content, words(&lines.join("\n")));
            }
        }
        texts
    })
}

/// The versions that heads show, each with those heads: by folding forward.
fn shown(repo: &Repo, heads: &[CommitId]) -> BTreeMap<CommitId, BTreeSet<usize>> {
    let mut shown: BTreeMap<CommitId, BTreeSet<usize>> = BTreeMap::new();
    for (place, head) in heads.iter().enumerate() {
        let line = block_on(repo.line(Some(*head))).unwrap();
        for row in line.view().rows() {
            if line.fact(row.slot).is_some_and(|fact| fact.is_shown() && fact.content.is_some()) {
                shown.entry(row.version).or_default().insert(place);
            }
        }
    }
    shown
}

fn hour(commit: &Commit) -> Option<i64> {
    commit.created_at.map(|at| at.div_euclid(3_600_000_000))
}

/// The scores of all contents that have a word, by looking at every message.
fn scan(ranked: &Ranked<'_>, heads: &[CommitId], hidden: bool) -> BTreeMap<BlobId, f64> {
    let repo = ranked.repo;
    let commit = |id: &CommitId| block_on(repo.require_commit(*id)).unwrap();
    let searched: Vec<Commit> = match hidden {
        true => reached(repo, heads).into_iter().filter(|c| c.content.is_some()).collect(),
        false => shown(repo, heads).keys().map(commit).collect(),
    };
    let texts = texts(repo, heads);
    let of = |commit: &Commit| texts[&commit.content.unwrap()].clone();
    let all = searched.len() as f64;
    let average = searched.iter().map(|commit| of(commit).len()).sum::<usize>() as f64 / all;
    let newest = heads.iter().filter_map(|head| hour(&commit(head))).max();
    let mut query = Vec::new();
    for word in words(ranked.query) {
        if !query.contains(&word) {
            query.push(word);
        }
    }
    let mut scores: BTreeMap<BlobId, f64> = BTreeMap::new();
    for message in &searched {
        let text = of(message);
        let mut score = 0.0;
        for word in &query {
            let with = searched.iter().filter(|message| of(message).contains(word)).count() as f64;
            let times = text.iter().filter(|other| *other == word).count() as f64;
            let rare = ((all - with + 0.5) / (with + 0.5) + 1.0).ln();
            let length = text.len() as f64 / average.max(1.0);
            score += rare * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length));
        }
        if score > 0.0 {
            let age = newest.zip(hour(message)).map(|(newest, hour)| (newest - hour).max(0) as f64);
            let factor = age.map_or(1.0, |age| 1.0 + 0.5 * 0.5f64.powf(age / 720.0));
            let best = scores.entry(message.content.unwrap()).or_default();
            *best = best.max(score * factor);
        }
    }
    scores
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9 * a.abs().max(1.0)
}

/// Checks a search against a scan, in whole and cut.
pub(crate) fn check_ranked(ranked: &Ranked<'_>, heads: &[CommitId], hidden: bool) {
    if heads.is_empty() {
        return;
    }
    let options = SearchOptions::new().hidden(hidden).store_after(ranked.store_after);
    let all = ask(ranked.repo, heads, ranked.query, options.clone().limit(100_000));
    let found: BTreeMap<BlobId, f64> = all.hits.iter().map(|hit| (hit.content, hit.score)).collect();
    let expected = scan(ranked, heads, hidden);
    assert_eq!(found.len(), all.hits.len(), "a content comes once");
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "hidden: {hidden}, {:?}",
        reached(ranked.repo, heads)
    );
    for (content, score) in &expected {
        assert!(near(found[content], *score), "{} for {score} of {content}", found[content]);
    }
    let scores: Vec<f64> = all.hits.iter().map(|hit| hit.score).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "the best come first: {scores:?}");
    let shown = shown(ranked.repo, heads);
    for hit in &all.hits {
        let heads: BTreeSet<usize> = hit.heads.iter().copied().collect();
        assert_eq!(heads, shown.get(&hit.commit).cloned().unwrap_or_default(), "{hit:?}");
        assert_eq!(heads.is_empty(), hidden && heads.is_empty(), "hidden, and not asked for");
        assert!(!hit.snippet.matched.is_empty(), "{hit:?}");
    }
    let few = ask(ranked.repo, heads, ranked.query, options.limit(3));
    let few: Vec<f64> = few.hits.iter().map(|hit| hit.score).collect();
    assert_eq!(few, scores.into_iter().take(3).collect::<Vec<_>>());
}
