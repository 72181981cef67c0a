//! One wrong byte is an error and is named: never other data.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tract::core::{ObjectId, Store, StoreError, StoreErrorKind};
use tract::engine::{Repo, RepoOptions, VerifyOptions};
use tract::import::Dialect;
use tract::store::{StoreOptions, WriteMode};
use tract::{Tract, block_on};
use tract_testkit::damage::{FlipReport, ReachableObjects, flipped_bytes};
use tract_testkit::figure;

use crate::backends::{self, Backend};
use crate::walks::{import, trajectories};

/// Imports a few conversations; returns the bytes of the file and what it holds.
fn stored(backend: &Backend, folder: &Path) -> (Vec<u8>, ReachableObjects) {
    let tract = backend.open(folder, "agent");
    let all = trajectories();
    let step = (all.len() / 6).max(1);
    let some: Vec<_> = all.into_iter().step_by(step).collect();
    import(&tract, Some(Dialect::OpenAi), &some);
    block_on(async {
        let first = tract.branches().list().await.unwrap().remove(0);
        let on = tract.on(&first.name).unwrap();
        on.user("one more").await.unwrap();
    });
    let truth = ReachableObjects::of(&**tract.store(), tract.repo().name()).unwrap();
    assert!(block_on(tract.verify()).unwrap().clean);
    block_on(tract.store().close()).unwrap();
    drop(tract);
    (std::fs::read(backend.path(folder, "agent")).unwrap(), truth)
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
    let sqlite = backends::named("sqlite");
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
                    let failed = truth.read(&**tract.store());
                    let failed = failed.unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
                    let report = block_on(tract.verify()).unwrap();
                    assert!(!report.clean, "{what}: verify says nothing, reading {failed:?}");
                    let named: Vec<_> = report.damage.iter().map(|damage| damage.object).collect();
                    match table {
                        "blobs" => {
                            let was = tract_compression::decode_with(&was, None).unwrap();
                            let id = tract::core::hash::blob(&was);
                            assert!(
                                failed.contains(&Some(ObjectId::Blob(id))),
                                "{what}: {failed:?}"
                            );
                            assert!(named.contains(&Some(ObjectId::Blob(id))), "{what}: {named:?}");
                        }
                        "commits" => {
                            // Entries of the ref log that speak of it cannot be detected either.
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
    backends::ALL.iter().filter(|backend| backend.one_file).for_each(flipped);
}

fn flipped(backend: &Backend) {
    let folder = tempfile::tempdir().unwrap();
    let (_, truth) = stored(backend, folder.path());
    let path = backend.path(folder.path(), "agent");
    let mut rounds = tract_testkit::rounds(1000, 97);
    let opened = || {
        for left in ["agent.sqlite-wal", "agent.sqlite-shm"] {
            let _ = std::fs::remove_file(folder.path().join(left));
        }
        let options = StoreOptions { create: false, write_mode: WriteMode::InPlace };
        let opened =
            block_on(tract::store::open_with(&backend.url(folder.path(), "agent"), &options));
        // Every error counts as reported.
        opened.map_err(|error| {
            StoreError::new(StoreErrorKind::Unavailable, "test", "open", error.to_string())
        })
    };
    let sound = |store: &Arc<dyn Store>| {
        let repo = Repo::new(Arc::clone(store), RepoOptions::default());
        block_on(tract::engine::verify(&repo, &VerifyOptions::default()))
            .is_ok_and(|report| report.clean)
    };
    let flips = flipped_bytes(&path, &truth, &mut rounds, opened, sound);
    let FlipReport { found, harmless } =
        flips.unwrap_or_else(|wrong| panic!("{}: {wrong}", backend.name));
    let finding = format!(
        "{} flipped bytes: {found} found, {harmless} in unused bytes, 0 silent wrong reads",
        rounds.done()
    );
    figure("T5 damage", backend.name, finding);
    // How much of a file is left over differs: redb keeps copies of pages that it rewrote.
    assert!(found >= 20, "{}: {found} found, {harmless} not", backend.name);
}
