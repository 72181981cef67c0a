//! Reads objects, by place if it is known, else by the first eight bytes of the id. Everything read
//! is hashed and compared with the id.

use std::ops::Range;

use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{CachedStatement, Connection, Params, Row, params};
use tract_core::store::{BlobKey, ListKind, LocationHint};
use tract_core::{
    Blob, BlobId, Commit, CommitId, IdPrefix, ObjectId, StoreResult, Toolset, ToolsetId, hash,
    parallel,
};

use crate::error::{corrupt, engine};
use crate::schema::{TOOL, TOOLSET, bytes_of, prefix, small_sum};
use crate::tools;

/// Prepares a statement, or takes it from the connection's cache.
pub(crate) fn statement<'c>(
    connection: &'c Connection,
    op: &'static str,
    sql: &str,
) -> StoreResult<CachedStatement<'c>> {
    connection.prepare_cached(sql).map_err(engine(op))
}

/// A row with the name of the operation that reads it.
pub(crate) struct Columns<'r> {
    pub(crate) row: &'r Row<'r>,
    pub(crate) op: &'static str,
}

impl<'r> Columns<'r> {
    pub(crate) fn get<T: FromSql>(&self, index: usize) -> StoreResult<T> {
        self.row.get(index).map_err(engine(self.op))
    }

    pub(crate) fn number(&self, index: usize) -> StoreResult<i64> {
        self.get(index)
    }

    /// Returns the bytes of a text or blob; empty for other types.
    pub(crate) fn bytes(&self, index: usize) -> StoreResult<&'r [u8]> {
        Ok(self.maybe_bytes(index)?.unwrap_or_default())
    }

    /// Returns the bytes of a text or blob; `None` for null.
    pub(crate) fn maybe_bytes(&self, index: usize) -> StoreResult<Option<&'r [u8]>> {
        let value = self.row.get_ref(index).map_err(engine(self.op))?;
        Ok((value != ValueRef::Null).then(|| bytes_of(value)))
    }
}

/// A reader of one repository, with the name of the operation.
#[derive(Clone, Copy)]
pub(crate) struct RepoReader<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) op: &'static str,
    /// The repository's number; 0 is the store itself.
    pub(crate) repo: i64,
}

impl<'c> RepoReader<'c> {
    pub(crate) fn new(connection: &'c Connection, op: &'static str, repo: i64) -> Self {
        Self { connection, op, repo }
    }

    /// Visits the rows of a statement until `look` returns a value.
    pub(crate) fn find_row<T>(
        self,
        sql: &str,
        parameters: impl Params,
        mut look: impl FnMut(Columns<'_>) -> StoreResult<Option<T>>,
    ) -> StoreResult<Option<T>> {
        let mut select = statement(self.connection, self.op, sql)?;
        let mut rows = select.query(parameters).map_err(engine(self.op))?;
        while let Some(row) = rows.next().map_err(engine(self.op))? {
            if let Some(found) = look(Columns { row, op: self.op })? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Visits all rows of a statement.
    pub(crate) fn each_row(
        self,
        sql: &str,
        parameters: impl Params,
        mut take: impl FnMut(Columns<'_>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let all = |row: Columns<'_>| take(row).map(|()| None::<()>);
        self.find_row(sql, parameters, all).map(drop)
    }
}

/// A read transaction: all its statements see the same state.
pub(crate) struct Snapshot<'c>(&'c Connection);

impl<'c> Snapshot<'c> {
    pub(crate) fn begin(connection: &'c Connection, op: &'static str) -> StoreResult<Self> {
        statement(connection, op, "BEGIN")?.execute([]).map_err(engine(op))?;
        Ok(Self(connection))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // Nothing was written, so nothing is lost if this fails; the next BEGIN reports it.
        if let Ok(mut end) = self.0.prepare_cached("COMMIT") {
            let _ = end.execute([]);
        }
    }
}

/// Calls a function with a free reading connection, in its own snapshot, or not at all if none is
/// free. The snapshot may be older or newer than the caller's, so other writes and sweeps can make
/// it differ.
pub(crate) type ReaderPool<'a> = dyn Fn(&mut dyn FnMut(&Connection)) + Sync + 'a;

/// Decodes the column `content`, where 0 means the commit's own place.
pub(crate) fn content_place(place: i64, content: Option<i64>) -> Option<i64> {
    content.map(|content| if content == 0 { place } else { content })
}

pub(crate) fn hint(place: i64, content: Option<i64>) -> Option<LocationHint> {
    content_place(place, content).map(|place| LocationHint(place as u64))
}

/// Minimum number of adjacent blobs for one range query to be cheaper than point reads.
const MANY: usize = 8;
/// Maximum number of unrequested rows between two requested ones in a range query.
const GAP: i64 = 4;

/// An intact row of `small`.
pub(crate) struct SmallRow {
    pub(crate) id: i64,
    pub(crate) data: Vec<u8>,
}

impl RepoReader<'_> {
    /// Finds an object among the rows with the first eight bytes of its id. `read` returns the
    /// object of a row with its id, or `None` if the row is damaged.
    fn find<T>(
        self,
        sql: &str,
        object: ObjectId,
        read: impl Fn(&[u8]) -> StoreResult<Option<(ObjectId, T)>>,
    ) -> StoreResult<Option<(i64, T)>> {
        let h = prefix(object.as_bytes());
        let mut damaged = false;
        let found = self.find_row(sql, params![self.repo, h], |row| {
            match read(row.bytes(1)?)? {
                Some((id, found)) if id == object => return Ok(Some((row.number(0)?, found))),
                Some((id, _)) => damaged |= prefix(id.as_bytes()) != h,
                None => damaged = true,
            }
            Ok(None)
        })?;
        if found.is_none() && damaged { Err(corrupt(self.op, object)) } else { Ok(found) }
    }

    /// Finds a commit by its id.
    pub(crate) fn find_commit(self, id: CommitId) -> StoreResult<Option<(i64, Commit)>> {
        let sql = "SELECT id, rec FROM commits WHERE repo = ?1 AND h = ?2";
        self.find(sql, ObjectId::Commit(id), |rec| {
            let commit = Commit::decode_any(rec).ok();
            Ok(commit.map(|commit| (ObjectId::Commit(commit.id()), commit)))
        })
    }

    /// Finds a blob by its id.
    pub(crate) fn find_blob(self, id: BlobId) -> StoreResult<Option<(i64, Blob)>> {
        let sql = "SELECT id, data FROM blobs WHERE repo = ?1 AND h = ?2";
        self.find(sql, ObjectId::Blob(id), |data| {
            let blob = self.plain(data)?.map(|bytes| Blob::seal(bytes.into_owned()));
            Ok(blob.map(|blob| (ObjectId::Blob(blob.id()), blob)))
        })
    }

    /// Reads adjacent blobs, such as those of one branch, with range queries. Blobs that are not
    /// found this way are left for [`blob`](Self::blob).
    pub(crate) fn neighbors(
        self,
        others: &ReaderPool<'_>,
        keys: &[BlobKey],
        blobs: &mut [Option<Blob>],
    ) -> StoreResult<()> {
        let mut places: Vec<(i64, usize)> = keys
            .iter()
            .zip(blobs.iter())
            .enumerate()
            .filter(|(_, (_, blob))| blob.is_none())
            .filter_map(|(n, (key, _))| Some((key.hint?.0 as i64, n)))
            .collect();
        places.sort_unstable();
        for run in places.chunk_by(|(one, _), (next, _)| next - one <= GAP) {
            if run.len() < MANY {
                continue;
            }
            let repo = self.repo;
            let read = |connection: &Connection, range: Range<usize>| {
                let run = run.get(range).unwrap_or_default();
                RepoReader::new(connection, "blobs", repo).read_run(keys, run)
            };
            let own = self.connection;
            let found = parallel::map_ranges(run.len(), parallel::OBJECTS, own, others, read)?;
            for (n, blob) in found {
                if let Some(slot) = blobs.get_mut(n) {
                    *slot = Some(blob);
                }
            }
        }
        Ok(())
    }

    /// Reads the blobs at several places. Returns those that match their keys.
    fn read_run(self, keys: &[BlobKey], run: &[(i64, usize)]) -> StoreResult<Vec<(usize, Blob)>> {
        let mut found = Vec::with_capacity(run.len());
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else {
            return Ok(found);
        };
        // `+repo` keeps SQLite from using the index by repository.
        let sql =
            "SELECT id, data FROM blobs WHERE id BETWEEN ?1 AND ?2 AND +repo = ?3 ORDER BY id";
        let mut wanted = run.iter().peekable();
        self.each_row(sql, params![first, last, self.repo], |row| {
            let at = row.number(0)?;
            while wanted.next_if(|(place, _)| *place < at).is_some() {}
            while let Some((_, n)) = wanted.next_if(|(place, _)| *place == at) {
                let bytes = self.plain(row.bytes(1)?)?;
                let (Some(key), Some(bytes)) = (keys.get(*n), bytes) else { continue };
                found.extend(Blob::check(key.id, bytes.into_owned()).map(|blob| (*n, blob)));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads one blob, at the hint or else by its id.
    pub(crate) fn blob(self, key: &BlobKey) -> StoreResult<Option<Blob>> {
        if let Some(place) = key.hint {
            let sql = "SELECT data FROM blobs WHERE id = ?1 AND repo = ?2";
            let found = self.find_row(sql, params![place.0 as i64, self.repo], |row| {
                let bytes = self.plain(row.bytes(0)?)?;
                Ok(bytes.and_then(|bytes| Blob::check(key.id, bytes.into_owned())))
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(self.find_blob(key.id)?.map(|(_, blob)| blob))
    }

    /// Reads the rows of one kind and key, in the order in which they were written. The flag is
    /// true if a row was left out because its checksum is wrong.
    pub(crate) fn small(self, kind: i64, key: i64) -> StoreResult<(Vec<SmallRow>, bool)> {
        let sql = "SELECT id, data, sum FROM small \
                   WHERE repo = ?1 AND kind = ?2 AND key = ?3 ORDER BY id";
        let (mut sound, mut damaged) = (Vec::new(), false);
        self.each_row(sql, params![self.repo, kind, key], |row| {
            let data = row.bytes(1)?;
            if small_sum(self.repo, kind, key, data) == row.number(2)? {
                sound.push(SmallRow { id: row.number(0)?, data: data.to_vec() });
            } else {
                damaged = true
            }
            Ok(())
        })?;
        Ok((sound, damaged))
    }

    /// Visits all rows of a kind with their keys; the data of a damaged row is `None`.
    pub(crate) fn each_small(
        self,
        kind: i64,
        mut take: impl FnMut(i64, i64, Option<&[u8]>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let sql = "SELECT id, key, data, sum FROM small WHERE repo = ?1 AND kind = ?2";
        self.each_row(sql, params![self.repo, kind], |row| {
            let (key, data) = (row.number(1)?, row.bytes(2)?);
            let is_sound = small_sum(self.repo, kind, key, data) == row.number(3)?;
            take(row.number(0)?, key, is_sound.then_some(data))
        })
    }

    /// Finds a toolset by its id.
    pub(crate) fn find_toolset(self, id: ToolsetId) -> StoreResult<Option<(i64, Toolset)>> {
        let (rows, damaged) = self.small(TOOLSET, prefix(id.as_bytes()))?;
        match rows.iter().find_map(|row| Some((row.id, Toolset::decode(id, &row.data)?))) {
            None if damaged => Err(corrupt(self.op, ObjectId::Toolset(id))),
            found => Ok(found),
        }
    }

    /// Finds the place of an object by reading it.
    pub(crate) fn find_place(self, object: ObjectId) -> StoreResult<Option<i64>> {
        Ok(match object {
            ObjectId::Commit(id) => self.find_commit(id)?.map(|(place, _)| place),
            ObjectId::Blob(id) => self.find_blob(id)?.map(|(place, _)| place),
            ObjectId::Toolset(id) => self.find_toolset(id)?.map(|(place, _)| place),
            ObjectId::Tool(id) => self.tool_rows(id)?.first().map(|row| row.place),
        })
    }

    /// Returns the id of the object in a row; `None` if it is damaged.
    pub(crate) fn object_of(self, kind: ListKind, stored: &[u8]) -> StoreResult<Option<ObjectId>> {
        Ok(match kind {
            ListKind::Commits => {
                Commit::decode_any(stored).ok().map(|commit| ObjectId::Commit(commit.id()))
            }
            ListKind::Blobs => self.plain(stored)?.map(|bytes| ObjectId::Blob(hash::blob(&bytes))),
            ListKind::Toolsets => tools::decode_entries(stored)
                .map(|entries| ObjectId::Toolset(Toolset::seal(entries).id())),
        })
    }

    /// Returns the id of the commit or blob at a place; `None` if there is no intact one.
    pub(crate) fn id_at(self, kind: ListKind, place: i64) -> StoreResult<Option<[u8; 32]>> {
        let sql = match kind {
            ListKind::Commits => "SELECT h, rec FROM commits WHERE id = ?1 AND repo = ?2",
            _ => "SELECT h, data FROM blobs WHERE id = ?1 AND repo = ?2",
        };
        self.find_row(sql, params![place, self.repo], |row| {
            let h = row.number(0)?;
            let id = self.object_of(kind, row.bytes(1)?)?.map(|object| *object.as_bytes());
            Ok(id.filter(|id| prefix(id) == h))
        })
    }

    /// Finds the objects whose id starts with these digits.
    pub(crate) fn resolve_prefix(
        self,
        digits: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        // A prefix has at least four digits, so the range does not cross the sign boundary.
        let (low, high) = digits.range();
        let (low, high) = (low as i64, high as i64);
        let small = |kind: i64| {
            format!(
                "SELECT key, data FROM small WHERE repo = ?1 AND kind = {kind} \
                 AND key BETWEEN ?2 AND ?3 ORDER BY key"
            )
        };
        let by_h = |table: &str| {
            format!("SELECT h, {table} WHERE repo = ?1 AND h BETWEEN ?2 AND ?3 ORDER BY h")
        };
        let mut found = Vec::new();
        for (sql, kind) in [
            (by_h("rec FROM commits"), Some(ListKind::Commits)),
            (by_h("data FROM blobs"), Some(ListKind::Blobs)),
            (small(TOOLSET), Some(ListKind::Toolsets)),
            (small(TOOL), None),
        ] {
            let mut here: Vec<ObjectId> = Vec::new();
            self.find_row(&sql, params![self.repo, low, high], |row| {
                let (h, stored) = (row.number(0)?, row.bytes(1)?);
                let object = match kind {
                    Some(kind) => self.object_of(kind, stored)?,
                    None => tools::decode(stored).map(|row| ObjectId::Tool(row.id)),
                };
                // Damaged rows are skipped here; reading the object by its id reports the damage.
                here.extend(object.filter(|object| {
                    let id = object.as_bytes();
                    prefix(id) == h && digits.matches(id) && !here.contains(object)
                }));
                // Rows are ordered by their first eight bytes.
                Ok((here.len() > limit).then_some(()))
            })?;
            found.append(&mut here);
        }
        found.sort_unstable();
        found.truncate(limit);
        Ok(found)
    }
}
