//! Pushing a history of a million messages: all of it, and ten commits that the other store lacks.

use std::path::Path;

use tract::engine::{
    FetchOptions, ImportConversation, ImportOptions, Importer, PushOptions, Remote,
};
use tract::store::WriteMode;
use tract::{Tract, block_on};

use crate::table::{Table, median, timed};
use crate::{messages, stores};

/// The commits that a push sends.
const NEW: u64 = 10;
/// The messages of a short branch.
const SHORT: usize = 3;

pub(crate) fn run(table: &mut Table, quick: bool) {
    let commits: u64 = if quick { 20_000 } else { 1_000_000 };
    let folder = messages::filled(commits);
    // The other machine has all of it: a copy of the file.
    let other = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join("tract.db"), other.path().join("tract.db")).unwrap();
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    push_of_all(table, &tract, commits);
    add_team(&tract, other.path());
    let mut next = commits;
    let pushes = (0..9).map(|_| {
        messages::fill(&tract, next, NEW);
        next += NEW;
        timed(|| push(&tract, "team")).1.as_secs_f64() * 1e3
    });
    let took = median(pushes.collect());
    messages::close(tract);
    table.limit(
        format!("push of {NEW} commits to a SQLite store that has the {commits} before them"),
        format!("{took:.1} ms"),
        "< 200 ms",
        took < 200.0,
    );
    short_branches(table, if quick { 100 } else { 1_000 });
    #[cfg(feature = "postgres")]
    postgres(table, quick);
}

/// All of many short branches: pushed to an empty store, and fetched from there by another one.
fn short_branches(table: &mut Table, few: usize) {
    let many = 4 * few;
    let [(pushed_few, fetched_few), (pushed, fetched)] = [few, many].map(|branches| {
        let folders: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let [here, remote, other] = folders.each_ref().map(|folder| folder.path());
        let tract = messages::open(here, WriteMode::InPlace);
        import_branches(&tract, branches);
        add_team(&tract, remote);
        let push = || {
            let all = PushOptions { all: true, ..PushOptions::default() };
            block_on(tract.remotes().push("team", &all)).unwrap()
        };
        let (report, pushed) = timed(push);
        assert_eq!(report.commits, branches * SHORT);
        messages::close(tract);
        let tract = messages::open(other, WriteMode::InPlace);
        add_team(&tract, remote);
        let fetch = || block_on(tract.remotes().fetch("team", &FetchOptions::default())).unwrap();
        let (report, fetched) = timed(fetch);
        assert_eq!(report.commits, branches * SHORT);
        messages::close(tract);
        (pushed.as_secs_f64() * 1e3, fetched.as_secs_f64() * 1e3)
    });
    for (verb, ours, few_took) in [("push", pushed, pushed_few), ("fetch", fetched, fetched_few)] {
        table.compare(
            format!("{verb} of all of {many} branches of {SHORT} messages"),
            "ms",
            [ours, 4.0 * few_took],
            &format!("four times that of {few}"),
            "≥ 0.7",
            ours * 0.7 <= 4.0 * few_took,
        );
    }
}

fn import_branches(tract: &Tract, branches: usize) {
    let mut importer = Importer::new(tract.repo(), ImportOptions::default()).unwrap();
    for branch in 0..branches {
        let drafts = (0..SHORT).map(|n| messages::draft((branch * SHORT + n) as u64)).collect();
        let conversation = ImportConversation::new(format!("branch-{branch}"), drafts);
        block_on(importer.add(conversation)).unwrap();
    }
    block_on(importer.finish()).unwrap();
}

fn add_team(tract: &Tract, folder: &Path) {
    let remote = Remote::new("team", stores::url("sqlite", folder));
    block_on(tract.remotes().add(remote)).unwrap();
}

/// Pushes the checked-out branch; returns how many commits the other store lacked.
fn push(tract: &Tract, remote: &str) -> u64 {
    let report = block_on(tract.remotes().push(remote, &PushOptions::default())).unwrap();
    report.commits as u64
}

/// The whole history to an empty SQLite store.
fn push_of_all(table: &mut Table, tract: &Tract, commits: u64) {
    let empty = tempfile::tempdir().unwrap();
    block_on(tract.remotes().add(Remote::new("empty", stores::url("sqlite", empty.path()))))
        .unwrap();
    let (pushed, took) = timed(|| push(tract, "empty"));
    assert!(pushed >= commits);
    let rate = pushed as f64 / took.as_secs_f64();
    table.limit(
        format!("push of {commits} commits to an empty SQLite store"),
        format!("{rate:.0} a second"),
        "≥ 50,000 a second",
        rate >= 50_000.0,
    );
}

/// The same to PostgreSQL, counting what goes there and back.
#[cfg(feature = "postgres")]
fn postgres(table: &mut Table, quick: bool) {
    use crate::postgres::{proxy, server};

    let Some(url) = server::shared() else { return };
    let commits: u64 = if quick { 2_000 } else { 1_000_000 };
    let folder = tempfile::tempdir().unwrap();
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    messages::fill(&tract, 0, commits);
    let proxy = proxy::Proxy::before(url);
    let url = server::with_schema(proxy.url(), &server::schema());
    block_on(tract.remotes().add(Remote::new("team", url))).unwrap();
    assert!(push(&tract, "team") >= commits);
    let (mut trips, mut times, mut next) = (Vec::new(), Vec::new(), commits);
    for _ in 0..5 {
        messages::fill(&tract, next, NEW);
        next += NEW;
        let before = proxy.trips();
        times.push(timed(|| push(&tract, "team")).1.as_secs_f64() * 1e3);
        trips.push((proxy.trips() - before) as f64);
    }
    messages::close(tract);
    let (trips, took) = (median(trips), median(times));
    table.limit(
        format!("push of {NEW} commits to PostgreSQL, which has the {commits} before them"),
        format!("{trips:.0} round trips, opening included, {took:.1} ms"),
        "< 20 round trips",
        trips < 20.0,
    );
}
