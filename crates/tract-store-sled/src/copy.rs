//! The copy that is put beside a folder before it is brought to a newer format.

use std::path::{Path, PathBuf};

use sled::Tree;
use tract_core::StoreResult;

use crate::error::{engine, io};
use crate::flush::Flush;
use crate::open::TREE;

const OP: &str = "migrate";
/// How many keys are copied at once.
const KEYS: usize = 1024;

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Writes all keys of a tree to the folder `PATH.format-N`, durably, unless that is there already.
/// It gets its name when it is whole.
pub(crate) fn keep(path: &Path, from: &Tree, format: u32) -> StoreResult<()> {
    let copy = beside(path, &format!(".format-{format}"));
    if copy.exists() {
        return Ok(());
    }
    let part = beside(path, &format!(".format-{format}.{}.part", std::process::id()));
    match std::fs::remove_dir_all(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(OP)(error)),
        _ => {}
    }
    let db = sled::Config::new().path(&part).flush_every_ms(None).open().map_err(engine(OP))?;
    let tree = db.open_tree(TREE).map_err(engine(OP))?;
    let mut flush = Flush::open(&part).map_err(io(OP))?;
    let (mut batch, mut waiting) = (sled::Batch::default(), 0);
    for entry in from.iter() {
        let (key, value) = entry.map_err(engine(OP))?;
        batch.insert(key, value);
        waiting += 1;
        if waiting == KEYS {
            tree.apply_batch(std::mem::take(&mut batch)).map_err(engine(OP))?;
            waiting = 0;
        }
    }
    tree.apply_batch(batch).map_err(engine(OP))?;
    db.flush().map_err(engine(OP))?;
    flush.sync().map_err(io(OP))?;
    drop((tree, db));
    std::fs::rename(&part, &copy).map_err(io(OP))?;
    if let Some(folder) = path.parent().and_then(|folder| std::fs::File::open(folder).ok()) {
        // Where folders cannot be flushed, they need not be.
        let _ = folder.sync_all();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tract_core::store::{BlockingStore, Walk};
    use tract_core::{Applied, RefTarget, RepoName, StoreErrorKind};
    use tract_kv::{KvEngine, KvEntry, KvRead, KvStep, Space, migrate};
    use tract_testkit::fixtures::{advance, batch, branch, push};

    use crate::SledOptions;
    use crate::open::open_engine;

    /// A format after the present one, which keeps one key more.
    const STEP: KvStep = KvStep {
        from: tract_kv::FORMAT,
        writes: |read: &dyn KvRead| {
            assert_eq!(read.get(Space::Small, b"\0newer")?, None);
            let value = Some("here".into());
            Ok(vec![KvEntry { space: Space::Small, key: "\0newer".into(), value }])
        },
    };

    #[test]
    fn an_older_folder_is_copied_and_then_brought_to_the_next_format() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.sled");
        let store = crate::open(&path, &SledOptions::new().create(true)).expect("it is made");
        let repo = RepoName::default();
        let mut write = batch("commit");
        let head = push(&mut write, None, "from an earlier format").id();
        write.refs.push(advance("main", None, head));
        let done = store.store().apply_group(&[(repo.clone(), write)]);
        assert!(matches!(done[..], [Ok(Applied::Done)]));
        store.store().close().expect("it closes");
        drop(store);

        let next = tract_kv::FORMAT + 1;
        let engine = open_engine(&path, &SledOptions::new()).expect("it opens");
        migrate(&engine, &[STEP], next).expect("it goes");
        migrate(&engine, &[STEP], next).expect("there is nothing to do");
        let added = engine.read().expect("a snapshot").get(Space::Small, b"\0newer");
        assert_eq!(added.expect("it is read"), Some("here".into()));
        drop(engine);
        // The folder is newer than this build; the copy is as it was.
        let error = crate::open(&path, &SledOptions::new()).expect_err("it is newer");
        let (found, known) = (next, tract_kv::FORMAT);
        assert_eq!(error.kind, StoreErrorKind::TooNew { found, known });
        let copy = folder.path().join(format!("agent.sled.format-{}", tract_kv::FORMAT));
        let copy = crate::open(copy, &SledOptions::new()).expect("the copy opens");
        let refs = copy.store().refs(&repo, &[branch("main")]).expect("refs");
        assert_eq!(refs, [Some(RefTarget::Commit(head))]);
        assert_eq!(copy.store().walk(&repo, Walk::from(head)).expect("a line").steps.len(), 1);
        assert_eq!(copy.store().check(&repo, false).expect("it is checked"), []);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }
}
