//! Lists stored objects, and deletes the unneeded ones.

use std::sync::Mutex;

use rusqlite::{Connection, params};
use tract_core::store::{ListKind, ObjectListing, ObjectPage, Sweep, SweepAnswer, WritePosition};
use tract_core::{DerivedKind, ObjectId, RefTarget, RepoName, StoreResult};

use crate::error::{damaged, engine};
use crate::log::{BLOB, COLUMNS, COMMIT, Raw, TARGET};
use crate::memory::{Memory, lock};
use crate::read::RepoReader;
use crate::schema::{DERIVED, SWEEPS, TOOL_NAME, UNLOGGED, log_base, text_key};
use crate::write::{Tx, WriteTransaction};

pub(crate) const OP: &str = "sweep";
/// Maximum number of pages released in one transaction, which bounds the wait of other writers.
const STEP_PAGES: i64 = 256;

/// Reads a count of a repository; 0 if there is none.
pub(crate) fn count(reader: RepoReader<'_>, kind: i64) -> StoreResult<i64> {
    let (rows, bad) = reader.small(kind, 0)?;
    let counted = rows.first().and_then(|row| row.data.as_slice().try_into().ok());
    match counted {
        Some(bytes) => Ok(i64::from_le_bytes(bytes)),
        None if bad => Err(damaged(reader.op, "a count of writes is damaged")),
        None => Ok(0),
    }
}

/// Reads the number of sweeps in the store.
pub(crate) fn sweeps(reader: RepoReader<'_>) -> StoreResult<i64> {
    count(RepoReader { repo: 0, ..reader }, SWEEPS)
}

/// Drops cached places if others have swept since. In a write transaction, places cached afterwards
/// stay valid until its end.
pub(crate) fn forget(reader: RepoReader<'_>, memory: &Mutex<Memory>) -> StoreResult<i64> {
    let sweeps = sweeps(reader)?;
    lock(memory).forget_swept(sweeps);
    Ok(sweeps)
}

/// Returns the cached place of an object if it is valid in this snapshot.
pub(crate) fn known(
    reader: RepoReader<'_>,
    memory: &Mutex<Memory>,
    object: ObjectId,
) -> StoreResult<Option<i64>> {
    let (place, seen) = {
        let memory = lock(memory);
        (memory.places.get(&(reader.repo, object)).copied(), memory.sweeps)
    };
    match place {
        Some(place) if sweeps(reader)? == seen => Ok(Some(place)),
        _ => Ok(None),
    }
}

/// Lists objects.
pub(crate) fn list(reader: RepoReader<'_>, listing: &ObjectListing) -> StoreResult<ObjectPage> {
    let sql = match listing.kind {
        // `+repo` keeps SQLite from using the index by repository.
        ListKind::Commits => {
            "SELECT id, rec FROM commits WHERE +repo = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
        }
        ListKind::Blobs => {
            "SELECT id, data FROM blobs WHERE +repo = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
        }
        ListKind::Toolsets => {
            "SELECT id, data FROM small WHERE +repo = ?1 AND id > ?2 AND kind = 3 \
             ORDER BY id LIMIT ?3"
        }
    };
    let (limit, after) = (listing.limit.max(1), listing.after as i64);
    let (mut page, mut read, mut last) = (ObjectPage::default(), 0, after);
    reader.each_row(sql, params![reader.repo, after, limit as i64], |row| {
        last = row.number(0)?;
        let data = row.bytes(1)?;
        let object = reader.object_of(listing.kind, data)?;
        page.objects.extend(object.map(|object| (object, data.len() as u64)));
        read += 1;
        Ok(())
    })?;
    page.next = (read == limit).then_some(last as u64);
    Ok(page)
}

/// Returns the position of the last write.
pub(crate) fn position(reader: RepoReader<'_>) -> StoreResult<WritePosition> {
    let repo = reader.repo;
    let sql = "SELECT max(id) FROM ref_log WHERE id > ?1 AND id <= ?2";
    let range = [log_base(repo), log_base(repo + 1)];
    let last: Option<i64> = reader.find_row(sql, range, |row| row.get(0))?;
    let log = last.map_or(0, |last| (last - log_base(repo)) as u64);
    let unlogged = count(reader, UNLOGGED)? as u64;
    Ok(WritePosition { log, unlogged })
}

/// The entries of a repository's ref log that reference rows of objects. They are read once instead
/// of for every sweep, and take 24 bytes each.
#[derive(Debug, Default)]
pub(crate) struct LogRows {
    repo: i64,
    sweeps: i64,
    last: i64,
    /// Kind of the row, its place, and the entry; sorted.
    named: Vec<(i64, i64, i64)>,
}

impl LogRows {
    /// Reads the new entries, or all of them if another handle has swept.
    pub(crate) fn extend(&mut self, reader: RepoReader<'_>) -> StoreResult<()> {
        let (repo, sweeps) = (reader.repo, sweeps(reader)?);
        if (self.repo, self.sweeps) != (repo, sweeps) || self.last == 0 {
            *self = Self { repo, sweeps, last: log_base(repo), named: Vec::new() };
        }
        let sql = "SELECT id, kinds, before, after FROM ref_log WHERE id > ?1 AND id <= ?2";
        let known = self.named.len();
        let last = self.last;
        reader.each_row(sql, params![last, log_base(repo + 1)], |row| {
            let (id, kinds) = (row.number(0)?, row.number(1)?);
            let (before, after) = (row.number(2)?, row.number(3)?);
            // If both sides are commits, `before` is stored as the distance to `after`. Most moves
            // advance by a few places, and SQLite stores small numbers in few bytes.
            let (from, to) = (kinds >> 2, kinds & 3);
            let before =
                if (from, to) == (COMMIT, COMMIT) { after.wrapping_sub(before) } else { before };
            let is_row = |kind: &i64| *kind == COMMIT || *kind == BLOB;
            self.named.extend(Some(from).filter(is_row).map(|kind| (kind, before, id)));
            self.named.extend(Some(to).filter(is_row).map(|kind| (kind, after, id)));
            self.last = self.last.max(id);
            Ok(())
        })?;
        if self.named.len() > known {
            self.named.sort_unstable();
        }
        Ok(())
    }

    fn entries(&self, kind: i64, place: i64) -> impl Iterator<Item = i64> + '_ {
        let from = self.named.partition_point(|(k, p, _)| (*k, *p) < (kind, place));
        let named = self.named.iter().skip(from);
        named.take_while(move |(k, p, _)| (*k, *p) == (kind, place)).map(|(_, _, id)| *id)
    }
}

/// Deletes objects if nothing was written since the sweep's position.
///
/// A write that lands between the caller's marking and this check may link to an object that is
/// about to be deleted. The position is therefore compared under the write lock, and the deletions
/// are in the same transaction.
pub(crate) fn sweep(
    connection: &Connection,
    memory: &Mutex<Memory>,
    log_rows: &mut LogRows,
    name: &RepoName,
    sweep: &Sweep,
) -> StoreResult<SweepAnswer> {
    let Some(reader) = RepoReader::new(connection, OP, 0).named(name)? else {
        return Ok(SweepAnswer::Done);
    };
    let repo = reader.repo;
    // Read most of the log before taking the write lock.
    log_rows.extend(reader)?;
    let writing = WriteTransaction::begin(connection, OP)?;
    // Under the write lock, so nothing can be written between this comparison and the deletion.
    let found = position(reader)?;
    if found != sweep.position {
        return Ok(SweepAnswer::Moved(found));
    }
    log_rows.extend(reader)?;
    forget(reader, memory)?;
    let mut tx = Tx::new(connection, memory);
    for object in &sweep.objects {
        tx.delete(repo, *object, log_rows)?;
    }
    for row in &sweep.tools {
        tx.tool(repo, row)?;
    }
    let sweeps = tx.count(0, SWEEPS)?;
    let fresh = std::mem::take(&mut tx.fresh);
    drop(tx);
    writing.commit(OP)?;
    log_rows.sweeps = sweeps;
    fresh.remember(memory);
    // Also drop places found while deleting; their objects are gone.
    lock(memory).forget_swept(sweeps);
    Ok(SweepAnswer::Done)
}

impl Tx<'_> {
    pub(crate) fn delete(
        &mut self,
        repo: i64,
        object: ObjectId,
        log_rows: &LogRows,
    ) -> StoreResult<()> {
        let reader = RepoReader::new(self.connection, OP, repo);
        if let ObjectId::Tool(id) = object {
            for stored in reader.tool_rows(id)? {
                self.execute("DELETE FROM small WHERE id = ?1", &[&stored.place])?;
                let name = stored.row.name.as_bytes();
                let data = [id.as_bytes(), name].concat();
                let sql = "DELETE FROM small \
                           WHERE repo = ?1 AND kind = ?2 AND key = ?3 AND data = ?4";
                self.execute(sql, &[&repo, &TOOL_NAME, &text_key(name), &data])?;
            }
            return Ok(());
        }
        let Some(place) = reader.find_place(object)? else { return Ok(()) };
        self.delete_row(repo, place, object, log_rows)
    }

    /// Deletes the row of an object, and what depends on the number of that row.
    pub(crate) fn delete_row(
        &mut self,
        repo: i64,
        place: i64,
        object: ObjectId,
        log_rows: &LogRows,
    ) -> StoreResult<()> {
        match object {
            ObjectId::Commit(id) => {
                self.write_out(repo, COMMIT, place, &RefTarget::Commit(id), log_rows)?;
                let sql = "DELETE FROM small WHERE repo = ?1 AND kind = ?2 AND key = ?3";
                for kind in DerivedKind::ALL {
                    let kind = DERIVED + i64::from(kind.number());
                    self.execute(sql, &[&repo, &kind, &place])?;
                }
                self.execute("DELETE FROM commits WHERE id = ?1", &[&place])?;
            }
            ObjectId::Blob(id) => {
                self.write_out(repo, BLOB, place, &RefTarget::Blob(id), log_rows)?;
                self.execute("DELETE FROM blobs WHERE id = ?1", &[&place])?;
            }
            ObjectId::Toolset(_) | ObjectId::Tool(_) => {
                self.execute("DELETE FROM small WHERE id = ?1", &[&place])?;
            }
        }
        Ok(())
    }

    /// Makes log entries reference an object by id instead of by row.
    pub(crate) fn write_out(
        &mut self,
        repo: i64,
        kind: i64,
        place: i64,
        target: &RefTarget,
        log_rows: &LogRows,
    ) -> StoreResult<()> {
        // The log must stay readable after the object is gone, and its row number may be given to
        // another object.
        for entry in log_rows.entries(kind, place) {
            let sql = format!("SELECT {COLUMNS} FROM ref_log WHERE id = ?1");
            let reader = RepoReader::new(self.connection, OP, repo);
            let raw = reader.find_row(&sql, [entry], |row| Raw::read(&row))?;
            let Some(mut raw) = raw else {
                let seq = entry - log_base(repo);
                return Err(damaged(OP, format!("entry {seq} of the ref log is damaged")));
            };
            let (mut from, mut to) = (raw.kinds >> 2, raw.kinds & 3);
            let mut before = match (from, to) {
                (COMMIT, COMMIT) => raw.after.wrapping_sub(raw.before),
                _ => raw.before,
            };
            if (from, before) == (kind, place) {
                (from, before) = (TARGET, self.text(repo, &target.encode())?);
            }
            if (to, raw.after) == (kind, place) {
                (to, raw.after) = (TARGET, self.text(repo, &target.encode())?);
            }
            raw.kinds = from << 2 | to;
            raw.before = match (from, to) {
                (COMMIT, COMMIT) => raw.after.wrapping_sub(before),
                _ => before,
            };
            let sql = "UPDATE ref_log SET kinds = ?2, before = ?3, after = ?4, sum = ?5 \
                       WHERE id = ?1";
            self.execute(sql, &[&raw.id, &raw.kinds, &raw.before, &raw.after, &raw.sum()])?;
        }
        Ok(())
    }
}

/// The result of one step of releasing space.
pub(crate) enum Released {
    /// Some pages were released, and there are more.
    Some,
    /// No further step releases pages; the reason if free bytes remain.
    All(Option<String>),
}

/// Releases some pages to the file system.
pub(crate) fn release_step(connection: &Connection) -> StoreResult<Released> {
    const OP: &str = "release_space";
    let number = |name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(engine(OP))
    };
    let free = number("freelist_count")?;
    if free == 0 {
        // Lets the file shrink now. If others are reading, it shrinks later.
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        return Ok(Released::All(None));
    }
    if number("auto_vacuum")? != 2 {
        let free = free * number("page_size")?;
        return Ok(Released::All(Some(format!(
            "{free} bytes in the file are free and are used again; the file was made by an earlier \
             version, and `VACUUM` gives them back"
        ))));
    }
    // Each result row is one released page.
    connection
        .prepare(&format!("PRAGMA incremental_vacuum({STEP_PAGES})"))
        .and_then(|mut vacuum| {
            let mut rows = vacuum.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        })
        .map_err(engine(OP))?;
    Ok(if number("freelist_count")? < free { Released::Some } else { Released::All(None) })
}
