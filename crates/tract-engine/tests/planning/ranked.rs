//! Ranked search: the same answers as ranking every message, for any state of the index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tract_core::store::{StoreError, StoreErrorKind};
use tract_core::{
    BlobId, Commit, CommitId, DerivedKind, DerivedRow, Draft, Kind, RefName, Store, StoreExt as _,
    block_on,
};
use tract_engine::{
    GcOptions, GrepOptions, GrepPattern, Repo, RepoOptions, SearchOptions, SearchReport,
    VerifyOptions, forget_search_index, gc, grep, search, verify,
};
use tract_testkit::{Call, WatchedStore};

use crate::fixture::{Fixture, plant};
use crate::search::reached;
use crate::support::sqlite;

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
        let options = GrepOptions { hidden: true, ..GrepOptions::default() };
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
        let history = block_on(repo.fold(Some(*head))).unwrap();
        for row in history.view().rows() {
            if history.fact(row.slot).is_some_and(|fact| fact.is_shown() && fact.content.is_some())
            {
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
    let of = |commit: &Commit| texts[&commit.content.unwrap()].as_slice();
    let all = searched.len() as f64;
    let average = searched.iter().map(|commit| of(commit).len()).sum::<usize>() as f64 / all;
    let newest = heads.iter().filter_map(|head| hour(&commit(head))).max();
    let mut query = Vec::new();
    for word in words(ranked.query) {
        if !query.contains(&word) {
            query.push(word);
        }
    }
    let has = |word: &String| searched.iter().filter(|c| of(c).contains(word)).count() as f64;
    let query: Vec<(String, f64)> =
        query.into_iter().map(|word| (word.clone(), has(&word))).collect();
    let mut matching: BTreeMap<CommitId, f64> = BTreeMap::new();
    for message in &searched {
        let text = of(message);
        let mut score = 0.0;
        for (word, with) in &query {
            let times = text.iter().filter(|other| *other == word).count() as f64;
            let rare = ((all - with + 0.5) / (with + 0.5) + 1.0).ln();
            let length = text.len() as f64 / average.max(1.0);
            score += rare * times * 2.2 / (times + 1.2 * (0.5 + 0.5 * length));
        }
        matching.insert(message.id(), score);
    }
    // The message before and the messages after each one.
    let mut neighbors: BTreeMap<CommitId, f64> = BTreeMap::new();
    for message in &searched {
        let parent = message.parent().and_then(|parent| Some((parent, *matching.get(&parent)?)));
        let Some((parent, of_parent)) = parent else { continue };
        for (id, other) in [(parent, matching[&message.id()]), (message.id(), of_parent)] {
            let best = neighbors.entry(id).or_default();
            *best = best.max(other);
        }
    }
    let mut scores: BTreeMap<BlobId, f64> = BTreeMap::new();
    for message in &searched {
        let score = matching[&message.id()];
        if score > 0.0 {
            let share = neighbors.get(&message.id()).copied().unwrap_or_default();
            let age = newest.zip(hour(message)).map(|(newest, hour)| (newest - hour).max(0) as f64);
            let factor = age.map_or(1.0, |age| 1.0 + 0.02 * 0.5f64.powf(age / 720.0));
            let best = scores.entry(message.content.unwrap()).or_default();
            *best = best.max((score + 0.35 * share) * factor);
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
    let options =
        SearchOptions { hidden, store_after: ranked.store_after, ..SearchOptions::default() };
    let all =
        ask(ranked.repo, heads, ranked.query, SearchOptions { limit: 100_000, ..options.clone() });
    let found: BTreeMap<BlobId, f64> =
        all.hits.iter().map(|hit| (hit.content, hit.score)).collect();
    let expected = scan(ranked, heads, hidden);
    assert_eq!(found.len(), all.hits.len(), "a content comes once");
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "hidden: {hidden}, heads: {heads:?}"
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
    let few = ask(ranked.repo, heads, ranked.query, SearchOptions { limit: 3, ..options });
    let few: Vec<f64> = few.hits.iter().map(|hit| hit.score).collect();
    assert_eq!(few, scores.into_iter().take(3).collect::<Vec<_>>());
}

/// Words, some common and some rare.
fn sentence(n: usize) -> String {
    let word = |k: usize| format!("w{}", (n * 7919 + k * k * 31) % (5 + k * k * 40));
    format!("message {n} {}", (0..12).map(word).collect::<Vec<_>>().join(" "))
}

fn append(repo: &Repo, branch: &RefName, from: usize, count: usize) {
    let drafts = (from..from + count).map(|n| Draft::user(sentence(n)));
    for draft in drafts {
        block_on(repo.append(branch, draft)).unwrap();
    }
}

fn head(repo: &Repo, branch: &str) -> CommitId {
    block_on(repo.head_of(&RefName::branch(branch).unwrap())).unwrap().unwrap()
}

const QUERY: &str = "w3 w77 message w401 absent 12";

/// Searches in each of these ways, and compares with a scan.
fn check_all(repo: &Repo, heads: &[CommitId]) {
    for query in [QUERY, "w1001", "absent"] {
        check_ranked(&Ranked { repo, store_after: 100, query }, heads, false);
    }
    check_ranked(&Ranked { repo, store_after: 100, query: QUERY }, heads, true);
}

#[test]
fn a_long_history_with_branches_is_indexed_once() {
    let desk = Fixture::new();
    let repo = &desk.repo;
    let main = desk.branch.clone();
    let ids = |head| -> Vec<CommitId> {
        let walked = block_on(repo.store().walk_all(repo.name(), head)).unwrap();
        walked.iter().rev().map(Commit::id).collect()
    };
    let added = |heads: &[CommitId], query: &str| {
        ask(repo, heads, query, SearchOptions { store_after: 1, ..SearchOptions::default() }).added
    };
    append(repo, &main, 0, 700);
    let first = desk.head().unwrap();
    assert_eq!(added(&[first], QUERY), 700);
    assert_eq!(added(&[first], "other"), 0, "what is indexed is not read again");
    // Anywhere in what is indexed: on a mark, and between marks.
    let history = ids(first);
    for at in [0, 1, 255, 256, 300, 511, 512, 698] {
        assert_eq!(added(&[history[at]], QUERY), 0, "{at}");
        assert_eq!(ask(repo, &[history[at]], "message", SearchOptions::default()).matching, at + 1);
    }
    // Branches that leave it between two marks bring what is their own.
    desk.fork("one", history[300]);
    let one = RefName::branch("one").unwrap();
    append(repo, &one, 1000, 300);
    assert_eq!(added(&[head(repo, "one")], QUERY), 300);
    let between = ids(head(repo, "one"))[400];
    desk.fork("two", between);
    append(repo, &RefName::branch("two").unwrap(), 2000, 40);
    assert_eq!(added(&[head(repo, "two"), first], QUERY), 40);
    append(repo, &main, 700, 5);
    assert_eq!(added(&[desk.head().unwrap(), head(repo, "one")], QUERY), 5);
    let heads = [desk.head().unwrap(), head(repo, "two"), head(repo, "one"), between, history[10]];
    check_all(repo, &heads);
    // A summary of much that was indexed long ago, and an edit of a part of it elsewhere.
    let summary = desk.compress(&history[20..280], "w3 in short");
    desk.on("two").edit(history[100], "w77 edited");
    let heads = [summary, head(repo, "two"), head(repo, "one"), between];
    check_all(repo, &heads);
    assert_eq!(added(&heads, QUERY), 2, "the summary and the edit");
    assert_eq!(added(&heads, QUERY), 0);
    block_on(repo.undo(&main)).unwrap();
    check_all(repo, &[desk.head().unwrap()]);
}

#[test]
fn a_search_reads_little_once_the_index_is_there() {
    let (calls, inner) = (Arc::new(AtomicUsize::new(0)), Arc::new(tract_kv::memory()));
    let counted = Arc::clone(&calls);
    let store = WatchedStore::new(inner, move |_: Call<'_>| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let repo = Repo::new(Arc::new(store), RepoOptions::default());
    let main = RefName::branch("main").unwrap();
    let mut counts = Vec::new();
    for round in 0..3 {
        append(&repo, &main, round * 600, 600);
        let head = head(&repo, "main");
        ask(&repo, &[head], "w3", SearchOptions::default());
        calls.store(0, Ordering::SeqCst);
        let report = ask(
            &repo,
            &[head],
            "w77 absent",
            SearchOptions { limit: 5, ..SearchOptions::default() },
        );
        assert_eq!((report.hits.len(), report.added), (5, 0));
        // Not more than that word's messages are looked at.
        assert_eq!(report.entries_read as usize, report.matching);
        counts.push(calls.load(Ordering::SeqCst));
    }
    assert!(counts.iter().all(|count| *count < 64), "{counts:?} calls of the store");
    // Appending is none of its business.
    calls.store(0, Ordering::SeqCst);
    append(&repo, &main, 5000, 100);
    let with_index = calls.swap(0, Ordering::SeqCst);
    block_on(forget_search_index(&repo)).unwrap();
    calls.store(0, Ordering::SeqCst);
    append(&repo, &main, 6000, 100);
    assert_eq!(calls.load(Ordering::SeqCst), with_index);
}

#[test]
fn damaged_cut_and_lost_rows_are_built_again() {
    let desk = Fixture::new();
    append(&desk.repo, &desk.branch, 0, 300);
    desk.fork("side", desk.head().unwrap());
    append(&desk.repo, &RefName::branch("side").unwrap(), 900, 40);
    let repo = &desk.repo;
    let heads = [desk.head().unwrap(), head(repo, "side")];
    let walked = block_on(repo.store().walk_all(repo.name(), heads[1])).unwrap();
    let ids: Vec<CommitId> = walked.iter().map(Commit::id).collect();
    let ranked = Ranked { repo, store_after: 1, query: QUERY };
    check_ranked(&ranked, &heads[..1], false);
    check_ranked(&ranked, &heads, false);
    for kind in [DerivedKind::SearchMark, DerivedKind::SearchTerms] {
        let rows = || block_on(repo.store().derived(repo.name(), kind, &ids)).unwrap();
        let present = rows().iter().flatten().filter(|row| !row.is_empty()).count();
        assert!(present > 0, "{kind:?}");
        for way in 0..4 {
            for n in 0..present {
                let stored = ids.iter().zip(rows());
                let found = stored.filter_map(|(id, row)| Some((*id, row?)));
                let found: Vec<_> = found.filter(|(_, row)| !row.is_empty()).collect();
                let Some((id, row)) = found.get(n) else { continue };
                let mut bytes = row.to_vec();
                match way {
                    0 => bytes.truncate(bytes.len() / 2),
                    1 => bytes.clear(),
                    2 => {
                        let middle = bytes.len() / 2;
                        bytes[middle] ^= 1;
                    }
                    // A row of another commit.
                    _ => bytes = found[(n + 1) % found.len()].1.to_vec(),
                }
                let row = DerivedRow { kind, commit: *id, bytes: bytes.into() };
                plant(repo, |batch| batch.derived = vec![row]);
                check_ranked(&ranked, &heads, false);
            }
        }
    }
}

#[test]
fn rows_of_another_format_are_built_again() {
    let desk = Fixture::new();
    append(&desk.repo, &desk.branch, 0, 600);
    let (repo, head) = (&desk.repo, desk.head().unwrap());
    let walked = block_on(repo.store().walk_all(repo.name(), head)).unwrap();
    let ids: Vec<CommitId> = walked.iter().map(Commit::id).collect();
    let ranked = Ranked { repo, store_after: 1, query: QUERY };
    let added = || {
        ask(repo, &[head], QUERY, SearchOptions { store_after: 1, ..SearchOptions::default() })
            .added
    };
    check_ranked(&ranked, &[head], false);
    assert_eq!(added(), 0);
    let kinds = [DerivedKind::SearchMark, DerivedKind::SearchTerms];
    for changed in [&kinds[..], &kinds[..1], &kinds[1..]] {
        let mut rows = Vec::new();
        for kind in changed.iter().copied() {
            let stored = block_on(repo.store().derived(repo.name(), kind, &ids)).unwrap();
            for (commit, row) in ids.iter().zip(stored) {
                let Some(mut bytes) = row.filter(|row| !row.is_empty()).map(|row| row.to_vec())
                else {
                    continue;
                };
                // The version of the format, and a checksum that is right.
                let end = bytes.len() - 4;
                bytes[0] = 1;
                let mut sum = crc32fast::Hasher::new();
                sum.update(commit.as_bytes());
                sum.update(&bytes[..end]);
                bytes[end..].copy_from_slice(&sum.finalize().to_le_bytes());
                rows.push(DerivedRow { kind, commit: *commit, bytes: bytes.into() });
            }
        }
        assert!(rows.len() >= changed.len(), "{changed:?}");
        plant(repo, |batch| batch.derived = rows);
        assert_eq!(added(), 600, "{changed:?}");
        assert_eq!(added(), 0, "what was built is stored");
        check_ranked(&ranked, &[head], false);
    }
}

#[test]
fn a_deleted_branch_is_forgotten_and_the_rest_is_found() {
    let desk = Fixture::new();
    let repo = &desk.repo;
    append(repo, &desk.branch, 0, 300);
    desk.fork("side", desk.head().unwrap());
    append(repo, &RefName::branch("side").unwrap(), 1000, 500);
    let heads = [desk.head().unwrap(), head(repo, "side")];
    check_ranked(&Ranked { repo, store_after: 1, query: QUERY }, &heads, false);
    block_on(repo.delete_branch("side")).unwrap();
    desk.clock.advance(Duration::from_secs(60));
    let report =
        block_on(gc(repo, &GcOptions { keep: Duration::ZERO, ..GcOptions::default() })).unwrap();
    assert!(report.deleted().objects > 0);
    check_all(repo, &heads[..1]);
    // Segments with deleted commits are joined all the same.
    for round in 0..6 {
        append(repo, &desk.branch, 2000 + round * 10, 10);
        check_ranked(
            &Ranked { repo, store_after: 1, query: QUERY },
            &[desk.head().unwrap()],
            false,
        );
    }
}

#[test]
fn a_store_that_takes_no_writes_is_searched() {
    let inner: Arc<dyn Store> = Arc::new(tract_kv::memory());
    let writable = Repo::new(Arc::clone(&inner), RepoOptions::default());
    append(&writable, &RefName::branch("main").unwrap(), 0, 600);
    let store = WatchedStore::new(inner, |call: Call<'_>| match call {
        Call::Apply { .. } => {
            Err(StoreError::new(StoreErrorKind::ReadOnly, "test", "apply", "read-only"))
        }
        _ => Ok(()),
    });
    let repo = Repo::new(Arc::new(store), RepoOptions::default());
    let head = head(&repo, "main");
    for _ in 0..2 {
        check_ranked(&Ranked { repo: &repo, store_after: 1, query: QUERY }, &[head], false);
    }
}

#[test]
fn searches_and_appends_of_two_handles_do_not_disturb_each_other() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("one.db");
    let open = || Repo::new(sqlite(&path), RepoOptions::default());
    let repos = [open(), open()];
    std::thread::scope(|scope| {
        for (number, repo) in repos.iter().enumerate() {
            scope.spawn(move || {
                let name = format!("b{number}");
                let branch = RefName::branch(&name).unwrap();
                for round in 0..8 {
                    append(repo, &branch, number * 1000 + round * 10, 10);
                    let branches = block_on(repo.branches()).unwrap();
                    let heads: Vec<CommitId> = branches.iter().map(|branch| branch.head).collect();
                    let options =
                        SearchOptions { store_after: 1, limit: 1000, ..SearchOptions::default() };
                    let report = ask(repo, &heads, "message", options);
                    // What this handle wrote is found regardless of what the other one does.
                    let own = heads.iter().position(|id| *id == head(repo, &name));
                    let own = report.hits.iter().filter(|hit| hit.heads.contains(&own.unwrap()));
                    assert_eq!(own.count(), (round + 1) * 10);
                }
            });
        }
    });
    let heads = [head(&repos[0], "b0"), head(&repos[1], "b1")];
    for repo in [&repos[0], &repos[1], &open()] {
        check_ranked(&Ranked { repo, store_after: 1, query: QUERY }, &heads, false);
    }
}

/// All rows of the index, by commit.
fn rows_of(repo: &Repo, ids: &[CommitId]) -> BTreeMap<(DerivedKind, CommitId), Vec<u8>> {
    let mut all = BTreeMap::new();
    for kind in [DerivedKind::SearchMark, DerivedKind::SearchTerms] {
        let rows = block_on(repo.store().derived(repo.name(), kind, ids)).unwrap();
        let rows = ids.iter().zip(rows).filter_map(|(id, row)| Some(((kind, *id), row?.to_vec())));
        all.extend(rows.filter(|(_, row)| !row.is_empty()));
    }
    all
}

/// Runs once, before the next write of derived rows.
type BeforeRows = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

fn repo_with_race(inner: &Arc<dyn Store>, before: &BeforeRows) -> Repo {
    let before = Arc::clone(before);
    let store = WatchedStore::new(Arc::clone(inner), move |call: Call<'_>| {
        if let Call::Apply { batch, .. } = call
            && !batch.derived.is_empty()
        {
            let race = before.lock().unwrap().take();
            race.into_iter().for_each(|race| race());
        }
        Ok(())
    });
    Repo::new(Arc::new(store), RepoOptions::default())
}

#[test]
fn a_segment_is_not_written_over_rows_that_another_client_stored() {
    let inner: Arc<dyn Store> = Arc::new(tract_kv::memory());
    let other = Repo::new(Arc::clone(&inner), RepoOptions::default());
    let main = RefName::branch("main").unwrap();
    let before = BeforeRows::default();
    let repo = repo_with_race(&inner, &before);
    // From the fourth round on segments are joined.
    for round in 0..8 {
        append(&other, &main, round * 300, 300);
        let at = head(&other, "main");
        let walked = block_on(inner.walk_all(repo.name(), at)).unwrap();
        let ids: Vec<CommitId> = walked.iter().map(Commit::id).collect();
        let stored = Arc::new(Mutex::new(BTreeMap::new()));
        let race = {
            let (stored, other, main) = (Arc::clone(&stored), other.clone(), main.clone());
            let ids = ids.clone();
            move || {
                // A longer history, in another segment, with rows at the same commits.
                append(&other, &main, 10_000 + round * 300, 40);
                let at = head(&other, "main");
                ask(
                    &other,
                    &[at],
                    QUERY,
                    SearchOptions { store_after: 1, ..SearchOptions::default() },
                );
                *stored.lock().unwrap() = rows_of(&other, &ids);
            }
        };
        *before.lock().unwrap() = Some(Box::new(race));
        check_ranked(&Ranked { repo: &repo, store_after: 1, query: QUERY }, &[at], false);
        assert!(before.lock().unwrap().is_none(), "the other client was first");
        let stored = std::mem::take(&mut *stored.lock().unwrap());
        assert!(!stored.is_empty());
        assert_eq!(rows_of(&other, &ids), stored, "round {round}");
    }
    let at = head(&other, "main");
    let report = ask(&other, &[at], QUERY, SearchOptions::default());
    assert_eq!((report.restarts, report.added), (0, 0));
    check_all(&repo, &[at]);
}

#[test]
fn a_repair_builds_segments_again_whose_words_are_damaged() {
    let desk = Fixture::new();
    append(&desk.repo, &desk.branch, 0, 600);
    let (repo, head) = (&desk.repo, desk.head().unwrap());
    let walked = block_on(repo.store().walk_all(repo.name(), head)).unwrap();
    let ids: Vec<CommitId> = walked.iter().map(Commit::id).collect();
    let ranked = Ranked { repo, store_after: 1, query: QUERY };
    check_ranked(&ranked, &[head], false);
    let rows = rows_of(repo, &ids);
    let mut words = rows.iter().filter(|((kind, _), _)| *kind == DerivedKind::SearchTerms);
    // A checksum that is right, and a list that cannot be read.
    let ((kind, commit), row) = words.next().unwrap();
    let mut bytes = row[..10].to_vec();
    bytes.extend([255; 20]);
    let mut sum = crc32fast::Hasher::new();
    sum.update(commit.as_bytes());
    sum.update(&bytes);
    bytes.extend(sum.finalize().to_le_bytes());
    let row = DerivedRow { kind: *kind, commit: *commit, bytes: bytes.into() };
    plant(repo, |batch| batch.derived = vec![row]);
    let report =
        block_on(verify(repo, &VerifyOptions { repair: true, ..VerifyOptions::default() }))
            .unwrap();
    assert!(report.clean, "{:?}", report.damage);
    let report = ask(repo, &[head], QUERY, SearchOptions::default());
    assert_eq!((report.restarts, report.added), (0, 0));
    check_ranked(&ranked, &[head], false);
}

#[test]
fn filters_and_other_scripts() {
    let desk = Fixture::new();
    desk.user("Привет, мир! Straße");
    desk.clock.advance(Duration::from_secs(7200));
    let call = desk.go(Draft::assistant("用户登录失败").call(
        "c1",
        "bash",
        r#"{"command":"parseJson a_b"}"#,
    ));
    desk.result("c1", "Straße 42 not found");
    desk.user("Straße");
    let head = desk.head().unwrap();
    let found = |query: &str, options: SearchOptions| -> Vec<String> {
        let report = ask(&desk.repo, &[head], query, options);
        report.hits.iter().map(|hit| hit.snippet.text.clone()).collect()
    };
    let all = SearchOptions::default;
    let bash = || SearchOptions { tool: Some("bash".to_owned()), ..all() };
    let results = SearchOptions { kinds: vec![Kind::ToolResult], ..all() };
    assert_eq!(found("МИР", all()), ["Привет, мир! Straße"]);
    assert_eq!(found("登录", all()), ["用户登录失败"]);
    assert_eq!(found("json", all()), ["bash command: parseJson a_b"]);
    assert_eq!(found("b", bash()), ["bash command: parseJson a_b"]);
    assert_eq!(found("straße", bash()), ["Straße 42 not found"]);
    assert_eq!(found("straße", results), ["Straße 42 not found"]);
    assert_eq!(found("straße", all()).len(), 3);
    let at = block_on(desk.repo.require_commit(call)).unwrap().created_at.unwrap();
    assert_eq!(found("straße", SearchOptions { since: Some(at), ..all() }).len(), 2);
    assert_eq!(
        found("straße", SearchOptions { until: Some(at - 1), ..all() }),
        ["Привет, мир! Straße"]
    );
    assert_eq!(found("straße", SearchOptions { limit: 0, ..all() }).len(), 0);
    assert_eq!(found("… !", all()).len(), 0);
}

/// The texts that a query finds, the best first: with an index, and without one.
fn texts_of(repo: &Repo, head: CommitId, query: &str) -> Vec<String> {
    let found = |store_after| -> Vec<String> {
        let options = SearchOptions { limit: 50, store_after, ..SearchOptions::default() };
        let hits = ask(repo, &[head], query, options).hits;
        hits.iter().map(|hit| hit.snippet.text.clone()).collect()
    };
    block_on(forget_search_index(repo)).unwrap();
    let scanned = found(usize::MAX);
    assert_eq!(found(1), scanned, "while the index is built: {query}");
    assert_eq!(found(1), scanned, "with an index: {query}");
    scanned
}

/// Messages that are not next to each other, so that none adds to another's score.
fn store_apart(texts: &[&str]) -> (Fixture, CommitId) {
    let desk = Fixture::new();
    for text in texts {
        desk.user(text);
        desk.user("-");
    }
    let head = desk.head().unwrap();
    (desk, head)
}

#[test]
fn other_forms_of_a_word_are_found_after_the_word_itself() {
    let (desk, head) = store_apart(&[
        "we deployed on monday",
        "she is deploying at noon",
        "nothing happened here today",
        "all deploys stopped for now",
        "the depot is closed now",
    ]);
    let found = |query: &str| texts_of(&desk.repo, head, query);
    let all = found("deploying");
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all[0], "she is deploying at noon");
    assert_eq!(found("deploys")[0], "all deploys stopped for now");
    assert!(found("depots deploy").len() == 4 && found("deplore").is_empty());
    assert!(found("\"deploy\"").is_empty(), "a quoted word is exact");

    let (desk, head) =
        store_apart(&["Alle Häuser der Stadt", "das Haus ist rot", "the horse is red"]);
    assert_eq!(texts_of(&desk.repo, head, "wo sind die Häusern")[..2].len(), 2);
}

#[test]
fn question_words_weigh_little_but_are_found() {
    let (desk, head) = store_apart(&[
        "what did we do when it was the end, and what did the others do then",
        "the parser crashed on an empty file of the second import",
        "to be or not to be, that is the question",
    ]);
    let found = |query: &str| texts_of(&desk.repo, head, query);
    let best = "the parser crashed on an empty file of the second import";
    assert_eq!(found("what did we do when the parser crashed")[0], best);
    assert_eq!(found("to be or not to be")[0], "to be or not to be, that is the question");
    assert_eq!(found("when").len(), 1);
}

#[test]
fn phrases_and_prefixes_restrict_and_widen_a_query() {
    let (desk, head) = store_apart(&[
        "the disk is full of logs",
        "alarm: Disk full on the second host",
        "config_reload failed",
        "the configuration was loaded",
        "confetti",
    ]);
    let found = |query: &str| texts_of(&desk.repo, head, query);
    assert_eq!(found("disk full").len(), 2);
    assert_eq!(found("\"disk full\""), ["alarm: Disk full on the second host"]);
    assert_eq!(found("logs \"disk full\""), ["alarm: Disk full on the second host"]);
    assert!(found("\"full disk\"").is_empty());
    assert_eq!(found("config*").len(), 2);
    assert_eq!(found("conf*").len(), 3);
    assert_eq!(found("config").len(), 1);
    assert_eq!(found("confi* alarm").len(), 3);
}

#[test]
fn a_message_ranks_higher_next_to_another_that_matches() {
    let desk = Fixture::new();
    let say = |texts: &[&str]| {
        for text in texts {
            desk.user(text);
        }
    };
    say(&["we chose blue for it", "-", "-"]);
    say(&["which color did you choose for the banner?", "we chose red for it", "-"]);
    say(&["we chose gray for it", "-"]);
    let head = desk.head().unwrap();
    let found = texts_of(&desk.repo, head, "banner chose");
    assert_eq!(found[1], "we chose red for it", "{found:?}");
    // The neighbor is in another run of the index, and does not match itself.
    let fork = desk.fork("side", head);
    fork.user("the banner was moved");
    let found = texts_of(&desk.repo, fork.head().unwrap(), "banner");
    assert_eq!(found.len(), 2, "{found:?}");
}

/// The words of the documentation, in their order.
fn natural_words() -> Vec<String> {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut files: Vec<_> =
        std::fs::read_dir(docs).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    texts.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn the_index_takes_less_than_10_percent_of_the_store() {
    let scratch = tempfile::tempdir().unwrap();
    let repo = Repo::new(sqlite(&scratch.path().join("one.db")), RepoOptions::default());
    let words = natural_words();
    assert!(words.len() > 10_000, "{} words", words.len());
    let text = |n: usize| {
        let mut state = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut text = format!("m{n}");
        while text.len() < 500 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let from = (state % words.len() as u64) as usize;
            text.push(' ');
            text.push_str(&words[from..(from + 8).min(words.len())].join(" "));
        }
        text
    };
    let main = RefName::branch("main").unwrap();
    for page in 0..20 {
        let drafts = (page * 500..(page + 1) * 500).map(|n| Draft::user(text(n)));
        block_on(repo.append_all(&main, drafts)).unwrap();
    }
    let stats = || block_on(repo.store().stats(repo.name())).unwrap();
    let before = stats();
    let report = ask(&repo, &[head(&repo, "main")], "m777", SearchOptions::default());
    assert_eq!((report.matching, report.added), (1, 10_000));
    let index = stats().derived_bytes - before.derived_bytes;
    let share = index as f64 / before.disk_bytes as f64;
    eprintln!("index {index} B of {} B: {:.1} %", before.disk_bytes, share * 100.0);
    assert!(share < 0.10, "{index} of {} bytes", before.disk_bytes);
}
