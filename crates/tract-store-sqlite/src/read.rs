//! Reading objects: by place where one is known, by the first eight bytes of the id otherwise,
//! and never without hashing what was read.

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

/// A row, read for an operation.
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

    /// Returns the bytes of a text or blob; of anything else none.
    pub(crate) fn bytes(&self, index: usize) -> StoreResult<&'r [u8]> {
        Ok(self.maybe_bytes(index)?.unwrap_or_default())
    }

    /// Returns the bytes of a text or blob; `None` for null.
    pub(crate) fn maybe_bytes(&self, index: usize) -> StoreResult<Option<&'r [u8]>> {
        let value = self.row.get_ref(index).map_err(engine(self.op))?;
        Ok((value != ValueRef::Null).then(|| bytes_of(value)))
    }
}

/// Reads from one repository, for an operation.
#[derive(Clone, Copy)]
pub(crate) struct RepoReader<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) op: &'static str,
    /// Its number; 0 is the store itself.
    pub(crate) repo: i64,
}

impl<'c> RepoReader<'c> {
    pub(crate) fn new(connection: &'c Connection, op: &'static str, repo: i64) -> Self {
        Self { connection, op, repo }
    }

    /// Looks at the rows of a statement until one gives an answer.
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

    /// Takes the rows of a statement, one after another.
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

/// A transaction that reads: all its statements see the same state.
pub(crate) struct Snapshot<'c>(&'c Connection);

impl<'c> Snapshot<'c> {
    pub(crate) fn begin(connection: &'c Connection, op: &'static str) -> StoreResult<Self> {
        statement(connection, op, "BEGIN")?.execute([]).map_err(engine(op))?;
        Ok(Self(connection))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // It wrote nothing, so there is nothing to fail but what the next BEGIN will tell.
        if let Ok(mut end) = self.0.prepare_cached("COMMIT") {
            let _ = end.execute([]);
        }
    }
}

/// Lends another thread a connection to read from, in a snapshot of its own, or none where none is
/// free. What it shows may differ from what the caller sees by what was written or swept meanwhile.
pub(crate) type ReaderPool<'a> = dyn Fn(&mut dyn FnMut(&Connection)) + Sync + 'a;

/// Reads the column `content`: 0 says that the content lies at the commit's own place.
pub(crate) fn content_place(place: i64, content: Option<i64>) -> Option<i64> {
    content.map(|content| if content == 0 { place } else { content })
}

pub(crate) fn hint(place: i64, content: Option<i64>) -> Option<LocationHint> {
    content_place(place, content).map(|place| LocationHint(place as u64))
}

/// How many blobs must lie side by side for a range of rows to be cheaper than so many look-ups.
const MANY: usize = 8;
/// How many rows that were not asked for may lie between two that were.
const GAP: i64 = 4;

/// A sound row of `small`.
pub(crate) struct SmallRow {
    pub(crate) id: i64,
    pub(crate) data: Vec<u8>,
}

impl RepoReader<'_> {
    /// Finds an object in the rows with the first eight bytes of its id; `read` gives what a row
    /// holds, with its id, and nothing of a damaged one.
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

    /// Reads blobs that lie side by side, as those of one branch do, in ranges of rows. What is not
    /// found so is left for [`blob`](Self::blob).
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

    /// Reads the blobs of some places, and gives those that are what their keys say.
    fn read_run(self, keys: &[BlobKey], run: &[(i64, usize)]) -> StoreResult<Vec<(usize, Blob)>> {
        let mut found = Vec::with_capacity(run.len());
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else {
            return Ok(found);
        };
        // The sign keeps it from going by the index of repositories.
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

    /// Reads one blob: at the hint, else by its id.
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

    /// Reads the rows of one kind and key, in the order in which they were written; the second value
    /// says whether any row was left out because its checksum is wrong.
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

    /// Takes all rows of a kind, with their keys; the bytes of a damaged one are absent.
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

    /// Finds where an object lies, by reading it.
    pub(crate) fn find_place(self, object: ObjectId) -> StoreResult<Option<i64>> {
        Ok(match object {
            ObjectId::Commit(id) => self.find_commit(id)?.map(|(place, _)| place),
            ObjectId::Blob(id) => self.find_blob(id)?.map(|(place, _)| place),
            ObjectId::Toolset(id) => self.find_toolset(id)?.map(|(place, _)| place),
            ObjectId::Tool(id) => self.tool_rows(id)?.first().map(|row| row.place),
        })
    }

    /// Returns which object the bytes of a row are; `None` when they are damaged.
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

    /// Reads the id of the commit or blob at a place; `None` when no sound one lies there.
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

    /// Finds the objects whose id begins with these digits.
    pub(crate) fn resolve_prefix(
        self,
        digits: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        // A prefix has four digits at least, so the range lies on one side of the sign.
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
                // A damaged row is no answer to a question about ids; reading it by id tells.
                here.extend(object.filter(|object| {
                    let id = object.as_bytes();
                    prefix(id) == h && digits.matches(id) && !here.contains(object)
                }));
                // Rows come in the order of their first eight bytes.
                Ok((here.len() > limit).then_some(()))
            })?;
            found.append(&mut here);
        }
        found.sort_unstable();
        found.truncate(limit);
        Ok(found)
    }
}
