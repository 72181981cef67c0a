//! Tests a full disk, simulated by a file that must not grow.

use std::path::Path;

use tract_core::store::{BlockingStore, Walk};
use tract_core::{Applied, CommitId, RefTarget, RepoName, StoreErrorKind};
use tract_testkit::fixtures::{appending, branch};

use crate::{SqliteOptions, SqliteStore};

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, &SqliteOptions { create: true, ..SqliteOptions::default() })
        .expect("it opens")
}

/// Appends one message. Returns its commit id and the answer.
fn append(
    store: &SqliteStore,
    parent: Option<CommitId>,
    text: &str,
) -> (CommitId, tract_core::StoreResult<Applied>) {
    let (write, id) = appending("main", parent, text);
    (id, store.apply_group(&[(RepoName::default(), write)]).swap_remove(0))
}

#[test]
fn a_full_disk_refuses_whole_writes_and_continues_when_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.db");
    let repo = RepoName::default();
    let head = |store: &SqliteStore| {
        let found = store.refs(&repo, &[branch("main")]).expect("refs").swap_remove(0);
        found.as_ref().and_then(RefTarget::commit)
    };
    let mut rounds = tract_testkit::rounds(10, 3);
    for round in rounds.by_ref() {
        let store = open(&path);
        let pages: u32 = store.ask("PRAGMA page_count");
        let room: u32 = store.ask(&format!("PRAGMA max_page_count = {}", pages + 40));
        assert_eq!(room, pages + 40);
        let mut acknowledged: Vec<CommitId> = head(&store).into_iter().collect();
        let text = "x".repeat(9_000);
        let error = loop {
            let n = acknowledged.len();
            let (id, answer) =
                append(&store, acknowledged.last().copied(), &format!("{round} {n} {text}"));
            match answer {
                Ok(Applied::Done) => acknowledged.push(id),
                Ok(other) => panic!("no other writer: {other:?}"),
                Err(error) => break error,
            }
            assert!(acknowledged.len() < 1000, "40 pages are full at some time");
        };
        assert_eq!(error.kind, StoreErrorKind::Full, "{error}");
        // All acknowledged writes are there, and no rejected ones.
        assert_eq!(head(&store), acknowledged.last().copied());
        assert_eq!(store.check(&repo, false).expect("it checks itself"), []);
        // With space again, the same handle continues.
        let _: u32 = store.ask("PRAGMA max_page_count = 1000000");
        let (id, answer) = append(&store, acknowledged.last().copied(), "there is room");
        assert_eq!(answer.expect("there is room"), Applied::Done);
        let page = store.walk(&repo, Walk::from(id)).expect("a line");
        assert!(page.entries.len() > acknowledged.len().saturating_sub(1));
        store.close().expect("it closes");
    }
    let finding = format!("{} full disks: 0 half writes, each continues with room", rounds.done());
    tract_testkit::figure("T4 full disk", "sqlite", finding);
}
