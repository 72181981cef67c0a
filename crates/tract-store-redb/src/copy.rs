//! The copy that is put beside a file before it is brought to a newer format.

use std::path::{Path, PathBuf};

use redb::{Database, ReadTransaction};
use tract_core::{StoreError, StoreResult};
use tract_kv::Space;

use crate::engine::table;
use crate::error::{engine, storage};

const OP: &str = "migrate";

fn io(error: std::io::Error) -> StoreError {
    engine(OP)(redb::Error::Io(error))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Writes all keys of a snapshot to `PATH.format-N`, durably, unless that is there already. It gets
/// its name when it is whole.
pub(crate) fn keep(path: &Path, from: &ReadTransaction, format: u32) -> StoreResult<()> {
    let copy = beside(path, &format!(".format-{format}"));
    if copy.exists() {
        return Ok(());
    }
    let part = beside(path, &format!(".format-{format}.{}.part", std::process::id()));
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let database = Database::create(&part).map_err(engine(OP))?;
    let transaction = database.begin_write().map_err(engine(OP))?;
    for space in Space::ALL {
        let source = match from.open_table(table(space)) {
            Ok(source) => source,
            Err(redb::TableError::TableDoesNotExist(_)) => continue,
            Err(error) => return Err(engine(OP)(error)),
        };
        let mut target = transaction.open_table(table(space)).map_err(engine(OP))?;
        for entry in redb::ReadableTable::iter(&source).map_err(storage(OP))? {
            let (key, value) = entry.map_err(storage(OP))?;
            target.insert(key.value(), value.value()).map_err(storage(OP))?;
        }
    }
    transaction.commit().map_err(engine(OP))?;
    database.close().map_err(engine(OP))?;
    std::fs::rename(&part, &copy).map_err(io)?;
    if let Some(folder) = path.parent().and_then(|folder| std::fs::File::open(folder).ok()) {
        // Where folders cannot be flushed, they need not be.
        let _ = folder.sync_all();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tract_core::store::{BlockingStore, Walk};
    use tract_core::{Applied, RefTarget, RepoName, StoreErrorKind};
    use tract_kv::{KvEngine, KvEntry, KvRead, KvStep, migrate};
    use tract_testkit::fixtures::{advance, batch, branch, push};

    use super::*;
    use crate::RedbOptions;
    use crate::open::open_engine;

    /// A format after the present one, which keeps one key more.
    const STEP: KvStep = KvStep {
        from: tract_kv::FORMAT,
        writes: |read: &dyn KvRead| {
            let key = Bytes::from_static(b"\0newer");
            assert_eq!(read.get(Space::Small, &key)?, None);
            Ok(vec![KvEntry { space: Space::Small, key, value: Some("here".into()) }])
        },
    };

    #[test]
    fn an_older_file_is_copied_and_then_brought_to_the_next_format() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.redb");
        let store = crate::open(&path, &RedbOptions::new().create(true)).expect("it is made");
        let repo = RepoName::default();
        let mut write = batch("commit");
        let head = push(&mut write, None, "from an earlier format").id();
        write.refs.push(advance("main", None, head));
        let done = store.store().apply_group(&[(repo.clone(), write)]);
        assert!(matches!(done[..], [Ok(Applied::Done)]));
        store.store().close().expect("it closes");
        drop(store);

        let next = tract_kv::FORMAT + 1;
        // Who may only read is told, and nothing is written.
        let reading = RedbOptions::new().read_only(true);
        let engine = open_engine(&path, &reading).expect("it opens");
        let error = migrate(&engine, &[STEP], next).expect_err("it is read only");
        assert_eq!(error.kind, StoreErrorKind::ReadOnly, "{error}");
        drop(engine);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);

        let engine = open_engine(&path, &RedbOptions::new()).expect("it opens");
        migrate(&engine, &[STEP], next).expect("it goes");
        migrate(&engine, &[STEP], next).expect("there is nothing to do");
        let added = engine.read().expect("a snapshot").get(Space::Small, b"\0newer");
        assert_eq!(added.expect("it is read"), Some("here".into()));
        drop(engine);
        // The file is newer than this build; the copy is as it was.
        let error = crate::open(&path, &RedbOptions::new()).expect_err("it is newer");
        let (found, known) = (next, tract_kv::FORMAT);
        assert_eq!(error.kind, StoreErrorKind::TooNew { found, known });
        let copy = folder.path().join(format!("agent.redb.format-{}", tract_kv::FORMAT));
        let copy = crate::open(copy, &RedbOptions::new()).expect("the copy opens");
        let refs = copy.store().refs(&repo, &[branch("main")]).expect("refs");
        assert_eq!(refs, [Some(RefTarget::Commit(head))]);
        assert_eq!(copy.store().walk(&repo, Walk::from(head)).expect("a line").steps.len(), 1);
        assert_eq!(copy.store().check(&repo, false).expect("it is checked"), []);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }
}
