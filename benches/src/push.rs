//! Pushing ten commits that the other store lacks, of a history of a million.

use tract::engine::{PushOptions, Remote};
use tract::store::WriteMode;
use tract::{Tract, block_on};

use crate::table::{Table, median, timed};
use crate::{messages, stores};

/// The commits that a push sends.
const NEW: u64 = 10;

pub(crate) fn run(table: &mut Table, quick: bool) {
    let commits: u64 = if quick { 20_000 } else { 1_000_000 };
    let folder = messages::filled(commits);
    // The other machine has all of it: a copy of the file.
    let other = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join("tract.db"), other.path().join("tract.db")).unwrap();
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    block_on(tract.remotes().add(Remote::new("team", stores::url("sqlite", other.path()))))
        .unwrap();
    let mut next = commits;
    let pushes = (0..9).map(|_| {
        messages::fill(&tract, next, NEW);
        next += NEW;
        timed(|| push(&tract)).1.as_secs_f64() * 1e3
    });
    let took = median(pushes.collect());
    messages::close(tract);
    table.limit(
        format!("push of {NEW} commits to a SQLite store that has the {commits} before them"),
        format!("{took:.1} ms"),
        "< 200 ms",
        took < 200.0,
    );
    #[cfg(feature = "postgres")]
    postgres(table, quick);
}

fn push(tract: &Tract) -> u64 {
    let report = block_on(tract.remotes().push("team", &PushOptions::default())).unwrap();
    report.commits as u64
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
    assert!(push(&tract) >= commits);
    let (mut trips, mut times, mut next) = (Vec::new(), Vec::new(), commits);
    for _ in 0..5 {
        messages::fill(&tract, next, NEW);
        next += NEW;
        let before = proxy.trips();
        times.push(timed(|| push(&tract)).1.as_secs_f64() * 1e3);
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
