//! The copy of a folder that is made before a migration.

use std::path::Path;

use sled::Tree;
use tract_core::StoreResult;
use tract_kv::files;

use crate::error::{engine, io};
use crate::flush::Flush;
use crate::open::TREE;

const OP: &str = "migrate";
/// Number of keys copied per batch.
const KEYS: usize = 1024;

/// Writes all keys of a tree to the folder `PATH.format-N`, unless that exists.
pub(crate) fn keep(path: &Path, from: &Tree, format: u32) -> StoreResult<()> {
    files::keep_copy(path, format, io(OP), |part| write(part, path, from))
}

/// Writes all keys of a tree to a new folder, which is not more readable than the store's.
fn write(part: &Path, path: &Path, from: &Tree) -> StoreResult<()> {
    create_private(part).map_err(io(OP))?;
    let db = sled::Config::new().path(part).flush_every_ms(None).open().map_err(engine(OP))?;
    let tree = db.open_tree(TREE).map_err(engine(OP))?;
    let mut flush = Flush::open(part).map_err(io(OP))?;
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
    let permissions = std::fs::metadata(path).map_err(io(OP))?.permissions();
    std::fs::set_permissions(part, permissions).map_err(io(OP))
}

/// Creates a folder that only this process's user can open.
fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use crate::open::open_engine;
    use crate::{SledOptions, open};

    #[test]
    fn an_older_folder_is_copied_and_then_brought_to_the_next_format() {
        let folder = tempfile::tempdir().expect("a folder");
        tract_testkit::upgrade::keeps_a_copy(
            &folder.path().join("agent.sled"),
            |path| open(path, &SledOptions { create: true, ..SledOptions::default() }),
            |path| open_engine(path, &SledOptions::default()),
        );
    }
}
