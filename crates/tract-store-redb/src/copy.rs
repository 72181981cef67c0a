//! Copies of a file: the one made before a migration, and the one that replaces the file so that no
//! deleted data is left.

use std::path::Path;

use redb::{Database, ReadTransaction};
use tract_core::StoreResult;
use tract_core::store::Ownership;
use tract_kv::{Space, files};

use crate::engine::table;
use crate::error::{engine, io};
use crate::file::FileHandle;
use crate::open::CACHE_BYTES;

const OP: &str = "migrate";

/// Writes all keys of a snapshot to `PATH.format-N`, unless that exists.
pub(crate) fn keep(path: &Path, from: &ReadTransaction, format: u32) -> StoreResult<()> {
    files::keep_copy(path, format, io(OP), |part| write(part, path, from))
}

/// Writes all keys of a snapshot to a new file, durably, and closes it. The copy is not more
/// readable than the store.
fn write(part: &Path, path: &Path, from: &ReadTransaction) -> StoreResult<()> {
    let handle = FileHandle::create_like(part, path, Ownership::IfPermitted).map_err(io(OP))?;
    write_to(handle, from, true, OP)?.close().map_err(engine(OP))
}

/// Writes all keys of a snapshot to a new file, durably, and leaves it open.
pub(crate) fn write_to(
    handle: FileHandle,
    from: &ReadTransaction,
    quick_repair: bool,
    op: &'static str,
) -> StoreResult<Database> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let database = builder.create_with_backend(handle).map_err(engine(op))?;
    let mut transaction = database.begin_write().map_err(engine(op))?;
    transaction.set_two_phase_commit(true);
    transaction.set_quick_repair(quick_repair);
    for space in Space::ALL {
        let source = match from.open_table(table(space)) {
            Ok(source) => source,
            Err(redb::TableError::TableDoesNotExist(_)) => continue,
            Err(error) => return Err(engine(op)(error)),
        };
        let mut target = transaction.open_table(table(space)).map_err(engine(op))?;
        for entry in redb::ReadableTable::iter(&source).map_err(engine(op))? {
            let (key, value) = entry.map_err(engine(op))?;
            target.insert(key.value(), value.value()).map_err(engine(op))?;
        }
    }
    transaction.commit().map_err(engine(op))?;
    Ok(database)
}

#[cfg(test)]
mod tests {
    use tract_core::StoreErrorKind;
    use tract_kv::{FORMAT, migrate};
    use tract_testkit::upgrade::{NEXT, keeps_a_copy};

    use crate::open::open_engine;
    use crate::{RedbOptions, open};

    #[test]
    fn an_older_file_is_copied_and_then_brought_to_the_next_format() {
        let folder = tempfile::tempdir().expect("a folder");
        keeps_a_copy(
            &folder.path().join("agent.redb"),
            |path| open(path, &RedbOptions { create: true, ..RedbOptions::default() }),
            |path| open_engine(path, &RedbOptions::default()),
        );
    }

    #[test]
    fn an_older_file_that_is_open_for_reading_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.redb");
        drop(
            open(&path, &RedbOptions { create: true, ..RedbOptions::default() })
                .expect("it is made"),
        );
        let engine = open_engine(&path, &RedbOptions { read_only: true, ..RedbOptions::default() })
            .expect("it opens");
        let error = migrate(&engine, &[NEXT], FORMAT + 1).expect_err("it is read only");
        assert_eq!(error.kind, StoreErrorKind::ReadOnly, "{error}");
        drop(engine);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
