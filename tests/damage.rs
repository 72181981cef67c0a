//! One wrong byte is an error and is named: never other data.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;
use tract::core::store::{BlobKey, StoreErrorKind};
use tract::core::{Blob, LogEntry, ObjectId, StoreError, Toolset, ToolsetId};
use tract::import::Dialect;
use tract::{Commit, CommitId, RefName, RefTarget, Tract, block_on};
use tract_testkit::figure;

use crate::backends::{self, Backend};
use crate::walks::{import, trajectories};

/// All that a store held when it was whole.
struct Truth {
    commits: Vec<Commit>,
    blobs: Vec<Blob>,
    toolsets: Vec<(ToolsetId, Toolset)>,
    refs: Vec<(RefName, RefTarget)>,
    log: Vec<LogEntry>,
}

fn truth(tract: &Tract, heads: &[CommitId]) -> Truth {
    let (store, repo) = (tract.store(), tract.repo().name());
    let commits = reachable(tract, heads);
    let mut keys: BTreeSet<_> =
        commits.iter().flat_map(|commit| commit.linked_blobs().collect::<Vec<_>>()).collect();
    let ids: BTreeSet<ToolsetId> = commits.iter().filter_map(|commit| commit.toolset).collect();
    let ids: Vec<ToolsetId> = ids.into_iter().collect();
    let sets = block_on(store.toolsets(repo, &ids)).unwrap().into_iter().map(Option::unwrap);
    let toolsets: Vec<_> = ids.into_iter().zip(sets).collect();
    keys.extend(
        toolsets.iter().flat_map(|(_, set)| set.entries().iter().map(|entry| entry.schema)),
    );
    let refs = block_on(store.list_refs(repo, "")).unwrap();
    keys.extend(refs.iter().filter_map(|(_, target)| match target {
        RefTarget::Blob(id) => Some(*id),
        RefTarget::Commit(_) | RefTarget::Ref(_) => None,
    }));
    let keys: Vec<BlobKey> = keys.into_iter().map(BlobKey::from).collect();
    let blobs =
        block_on(store.blobs(repo, &keys)).unwrap().into_iter().map(Option::unwrap).collect();
    let log = block_on(store.ref_log(repo, &Default::default())).unwrap();
    Truth { commits, blobs, toolsets, refs, log }
}

fn reachable(tract: &Tract, heads: &[CommitId]) -> Vec<Commit> {
    let mut left = heads.to_vec();
    let mut seen = BTreeSet::new();
    let mut commits = Vec::new();
    while let Some(id) = left.pop() {
        if seen.insert(id) {
            let commit = block_on(tract.repo().require_commit(id)).unwrap();
            left.extend(commit.parents.iter().copied());
            commits.push(commit);
        }
    }
    commits
}

/// Imports a few conversations; returns the bytes of the file and what it holds.
fn stored(backend: &Backend, folder: &Path) -> (Vec<u8>, Truth) {
    let tract = backend.open(folder, "agent");
    let all = trajectories();
    let step = (all.len() / 6).max(1);
    let some: Vec<_> = all.into_iter().step_by(step).collect();
    let heads: Vec<CommitId> =
        import(&tract, Some(Dialect::OpenAi), &some).iter().filter_map(|done| done.head).collect();
    block_on(async {
        let first = tract.branches().await.unwrap().remove(0);
        let on = tract.on(&first.name).unwrap();
        on.user("one more").await.unwrap();
    });
    let heads: Vec<CommitId> = heads
        .into_iter()
        .chain(block_on(tract.branches()).unwrap().iter().map(|b| b.head))
        .collect();
    let truth = truth(&tract, &heads);
    assert!(block_on(tract.verify()).unwrap().clean);
    block_on(tract.store().close()).unwrap();
    drop(tract);
    (std::fs::read(backend.path(folder, "agent")).unwrap(), truth)
}

/// Reads everything; what is not the truth must be an error, which gives what it names.
#[track_caller]
fn read(tract: &Tract, truth: &Truth, what: &str) -> Vec<Option<ObjectId>> {
    let (store, repo) = (tract.store(), tract.repo().name());
    let mut failed = Vec::new();
    let mut fail = |error: StoreError| match error.kind {
        StoreErrorKind::Corrupt { object } => failed.push(object),
        StoreErrorKind::Missing { object } => failed.push(Some(object)),
        _ => failed.push(None),
    };
    for commit in &truth.commits {
        match block_on(store.commits(repo, &[commit.id()])).map(|mut found| found.remove(0)) {
            Ok(Some(found)) => assert_eq!(found, *commit, "{what}: another commit"),
            Ok(None) => fail(StoreError::missing("test", "read", ObjectId::Commit(commit.id()))),
            Err(error) => fail(error),
        }
    }
    for blob in &truth.blobs {
        match block_on(store.blobs(repo, &[blob.id().into()])).map(|mut found| found.remove(0)) {
            Ok(Some(found)) => assert_eq!(found.bytes(), blob.bytes(), "{what}: another blob"),
            Ok(None) => fail(StoreError::missing("test", "read", ObjectId::Blob(blob.id()))),
            Err(error) => fail(error),
        }
    }
    for (id, toolset) in &truth.toolsets {
        match block_on(store.toolsets(repo, &[*id])).map(|mut found| found.remove(0)) {
            Ok(Some(found)) => assert_eq!(found, *toolset, "{what}: another toolset"),
            Ok(None) => fail(StoreError::missing("test", "read", ObjectId::Toolset(*id))),
            Err(error) => fail(error),
        }
    }
    match block_on(store.list_refs(repo, "")) {
        Ok(found) => {
            assert!(found.iter().all(|one| truth.refs.contains(one)), "{what}: another ref")
        }
        Err(error) => fail(error),
    }
    match block_on(store.ref_log(repo, &Default::default())) {
        Ok(found) => {
            assert!(found.iter().all(|one| truth.log.contains(one)), "{what}: another entry")
        }
        Err(error) => fail(error),
    }
    failed
}

fn open(backend: &Backend, folder: &Path) -> tract::Result<Tract> {
    backend.try_open(folder, "agent", false)
}

/// Flips one bit of one stored value; returns the value as it was.
fn flip(path: &Path, table: &str, column: &str, id: i64, n: usize) -> Vec<u8> {
    let connection = Connection::open(path).unwrap();
    let select = format!("SELECT {column} FROM {table} WHERE id = ?1");
    let was: Vec<u8> = connection.query_row(&select, [id], |row| row.get(0)).unwrap();
    let mut now = was.clone();
    let at = n.wrapping_mul(7919) % now.len();
    now[at] ^= 1 << (n % 8);
    let update = format!("UPDATE {table} SET {column} = ?2 WHERE id = ?1");
    assert_eq!(connection.execute(&update, rusqlite::params![id, now]).unwrap(), 1);
    was
}

fn rows(path: &Path, sql: &str) -> Vec<i64> {
    let connection = Connection::open(path).unwrap();
    let mut select = connection.prepare(sql).unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn one_flipped_bit_in_any_object_is_an_error_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = backends::ALL.iter().find(|backend| backend.name == "sqlite").unwrap();
    let (whole, truth) = stored(sqlite, folder.path());
    let path = sqlite.path(folder.path(), "agent");
    let mut flipped = 0;
    for (table, column, select, picks) in [
        ("blobs", "data", "SELECT id FROM blobs WHERE length(data) > 0", 24),
        ("commits", "rec", "SELECT id FROM commits", 24),
        ("small", "data", "SELECT id FROM small WHERE length(data) > 0", 16),
    ] {
        let rows = rows(&path, select);
        assert!(!rows.is_empty(), "{table} is empty");
        for (n, id) in rows.iter().step_by((rows.len() / picks).max(1)).enumerate() {
            flipped += 1;
            let what = format!("{table}.{column} {id}");
            let was = flip(&path, table, column, *id, n + flipped);
            match open(sqlite, folder.path()) {
                // Without its name there is no repository to be read.
                Err(error) => assert!(error.is_store_failure(), "{what}: {error:?}"),
                Ok(tract) => {
                    let failed = read(&tract, &truth, &what);
                    let report = block_on(tract.verify()).unwrap();
                    assert!(!report.clean, "{what}: verify says nothing, reading {failed:?}");
                    let named: Vec<_> = report.damage.iter().map(|damage| damage.object).collect();
                    match table {
                        "blobs" => {
                            let id = tract::core::hash::blob(&was);
                            assert!(
                                failed.contains(&Some(ObjectId::Blob(id))),
                                "{what}: {failed:?}"
                            );
                            assert!(named.contains(&Some(ObjectId::Blob(id))), "{what}: {named:?}");
                        }
                        "commits" => {
                            // Entries of the ref log that speak of it cannot be told either.
                            let lost: Vec<_> =
                                failed.iter().filter(|object| object.is_some()).collect();
                            assert!(
                                matches!(lost[..], [Some(ObjectId::Commit(_))]),
                                "{what}: {failed:?}"
                            );
                            assert!(named.contains(lost[0]), "{what}: {named:?}");
                        }
                        _ => {}
                    }
                    drop(tract);
                }
            }
            std::fs::write(&path, &whole).unwrap();
        }
    }
    assert!(open(sqlite, folder.path()).is_ok());
    println!("{flipped} bits flipped, each one found");
}

#[test]
fn a_flipped_byte_anywhere_in_the_file_is_found_or_harmless() {
    backends::ALL.iter().filter(|backend| backend.one_file).for_each(flipped_bytes);
}

fn flipped_bytes(backend: &Backend) {
    let folder = tempfile::tempdir().unwrap();
    let (whole, truth) = stored(backend, folder.path());
    let path = backend.path(folder.path(), "agent");
    let (mut found, mut harmless) = (0, 0);
    // Engines that grow their file by doubling leave an end that nobody reads.
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let mut rounds = tract_testkit::rounds(1000, 97);
    // An odd number of bytes apart, so that all parts of pages are met; where rounds end early,
    // those that were done lie all over the file.
    let step = (used / rounds.wanted()) | 1;
    let reach = used / step;
    for round in rounds.by_ref() {
        let at = 7 + round * 37 % reach.max(1) * step;
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bytes).unwrap();
        let what = format!("{}: byte {at}", backend.name);
        let Ok(tract) = open(backend, folder.path()) else {
            found += 1;
            continue;
        };
        let failed = read(&tract, &truth, &what);
        // Left-overs in free pages are nobody's data.
        let clean = block_on(tract.verify()).is_ok_and(|report| report.clean);
        assert!(!clean || failed.is_empty(), "{what}: reading fails, verify is clean: {failed:?}");
        match clean {
            true => harmless += 1,
            false => found += 1,
        }
        drop(tract);
        for left in ["agent.sqlite-wal", "agent.sqlite-shm"] {
            let _ = std::fs::remove_file(folder.path().join(left));
        }
    }
    let finding = format!(
        "{} flipped bytes: {found} found, {harmless} in what nobody reads, 0 silent wrong reads",
        rounds.done()
    );
    figure("T5 damage", backend.name, finding);
    // How much of a file is left over differs: redb keeps copies of pages that it wrote anew.
    assert!(found >= 20, "{}: {found} found, {harmless} not", backend.name);
}
