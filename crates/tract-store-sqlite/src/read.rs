//! Reading objects: by place where one is known, by the first eight bytes of the id otherwise,
//! and never without hashing what was read.

use std::ops::Range;

use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{CachedStatement, Connection, Params, Row, params};
use tract_core::store::{BlobKey, LocationHint};
use tract_core::{
    Blob, BlobId, Commit, CommitId, IdPrefix, ObjectId, StoreResult, Toolset, ToolsetId, parallel,
};

use crate::compressed::plain;
use crate::error::{corrupt, engine};
use crate::schema::{TOOL, TOOLSET, bytes_of, prefix, small_sum};

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

/// Looks at the rows of a statement until one gives an answer.
pub(crate) fn find_row<T>(
    connection: &Connection,
    op: &'static str,
    sql: &str,
    parameters: impl Params,
    mut look: impl FnMut(Columns<'_>) -> StoreResult<Option<T>>,
) -> StoreResult<Option<T>> {
    let mut select = statement(connection, op, sql)?;
    let mut rows = select.query(parameters).map_err(engine(op))?;
    while let Some(row) = rows.next().map_err(engine(op))? {
        if let Some(found) = look(Columns { row, op })? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Takes the rows of a statement, one after another.
pub(crate) fn each_row(
    connection: &Connection,
    op: &'static str,
    sql: &str,
    parameters: impl Params,
    mut take: impl FnMut(Columns<'_>) -> StoreResult<()>,
) -> StoreResult<()> {
    let all = |row: Columns<'_>| take(row).map(|()| None::<()>);
    find_row(connection, op, sql, parameters, all).map(drop)
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

const COMMIT_BY_H: &str = "SELECT id, rec FROM commits WHERE repo = ?1 AND h = ?2";

/// Finds a commit by its id.
pub(crate) fn find_commit(
    connection: &Connection,
    op: &'static str,
    repo: i64,
    id: CommitId,
) -> StoreResult<Option<(i64, Commit)>> {
    let h = prefix(id.as_bytes());
    let mut damaged = false;
    let found = find_row(connection, op, COMMIT_BY_H, params![repo, h], |row| {
        match Commit::decode_any(row.bytes(1)?) {
            Ok(commit) if commit.id() == id => return Ok(Some((row.number(0)?, commit))),
            Ok(other) if prefix(other.id().as_bytes()) == h => {}
            Ok(_) | Err(_) => damaged = true,
        }
        Ok(None)
    })?;
    match found {
        None if damaged => Err(corrupt(op, ObjectId::Commit(id))),
        found => Ok(found),
    }
}

/// Finds a blob by its id.
pub(crate) fn find_blob(
    connection: &Connection,
    op: &'static str,
    repo: i64,
    id: BlobId,
) -> StoreResult<Option<(i64, Blob)>> {
    let h = prefix(id.as_bytes());
    let sql = "SELECT id, data FROM blobs WHERE repo = ?1 AND h = ?2";
    let mut damaged = false;
    let found = find_row(connection, op, sql, params![repo, h], |row| {
        let Some(bytes) = plain(connection, op, repo, row.bytes(1)?)? else {
            damaged = true;
            return Ok(None);
        };
        let blob = Blob::seal(bytes.into_owned());
        if blob.id() == id {
            return Ok(Some((row.number(0)?, blob)));
        }
        damaged |= prefix(blob.id().as_bytes()) != h;
        Ok(None)
    })?;
    match found {
        None if damaged => Err(corrupt(op, ObjectId::Blob(id))),
        found => Ok(found),
    }
}

/// How many blobs must lie side by side for a range of rows to be cheaper than so many look-ups.
const MANY: usize = 8;
/// How many rows that were not asked for may lie between two that were.
const GAP: i64 = 4;

/// Reads blobs that lie side by side, as those of one branch do, in ranges of rows. What is not
/// found so is left for [`blob`].
pub(crate) fn neighbors(
    connection: &Connection,
    others: &ReaderPool<'_>,
    repo: i64,
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
        let read = |connection: &Connection, range: Range<usize>| {
            read_run(connection, repo, keys, run.get(range).unwrap_or_default())
        };
        let found = parallel::map_ranges(run.len(), parallel::OBJECTS, connection, others, read)?;
        for (n, blob) in found {
            if let Some(slot) = blobs.get_mut(n) {
                *slot = Some(blob);
            }
        }
    }
    Ok(())
}

/// Reads the blobs of some places, and gives those that are what their keys say.
fn read_run(
    connection: &Connection,
    repo: i64,
    keys: &[BlobKey],
    run: &[(i64, usize)],
) -> StoreResult<Vec<(usize, Blob)>> {
    let mut found = Vec::with_capacity(run.len());
    let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else { return Ok(found) };
    // The sign keeps it from going by the index of repositories.
    let sql = "SELECT id, data FROM blobs WHERE id BETWEEN ?1 AND ?2 AND +repo = ?3 ORDER BY id";
    let mut wanted = run.iter().peekable();
    each_row(connection, "blobs", sql, params![first, last, repo], |row| {
        let at = row.number(0)?;
        while wanted.next_if(|(place, _)| *place < at).is_some() {}
        while let Some((_, n)) = wanted.next_if(|(place, _)| *place == at) {
            let bytes = plain(connection, "blobs", repo, row.bytes(1)?)?;
            let (Some(key), Some(bytes)) = (keys.get(*n), bytes) else { continue };
            found.extend(Blob::check(key.id, bytes.into_owned()).map(|blob| (*n, blob)));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Reads one blob: at the hint, else by its id.
pub(crate) fn blob(connection: &Connection, repo: i64, key: &BlobKey) -> StoreResult<Option<Blob>> {
    if let Some(place) = key.hint {
        let sql = "SELECT data FROM blobs WHERE id = ?1 AND repo = ?2";
        let found = find_row(connection, "blobs", sql, params![place.0 as i64, repo], |row| {
            let bytes = plain(connection, "blobs", repo, row.bytes(0)?)?;
            Ok(bytes.and_then(|bytes| Blob::check(key.id, bytes.into_owned())))
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(find_blob(connection, "blobs", repo, key.id)?.map(|(_, blob)| blob))
}

/// A sound row of `small`.
pub(crate) struct SmallRow {
    pub(crate) id: i64,
    pub(crate) data: Vec<u8>,
}

/// Reads the rows of one kind and key, in the order in which they were written; the second value
/// says whether any row was left out because its checksum is wrong.
pub(crate) fn small(
    connection: &Connection,
    op: &'static str,
    repo: i64,
    kind: i64,
    key: i64,
) -> StoreResult<(Vec<SmallRow>, bool)> {
    let sql =
        "SELECT id, data, sum FROM small WHERE repo = ?1 AND kind = ?2 AND key = ?3 ORDER BY id";
    let (mut sound, mut damaged) = (Vec::new(), false);
    each_row(connection, op, sql, params![repo, kind, key], |row| {
        let data = row.bytes(1)?;
        if small_sum(repo, kind, key, data) == row.number(2)? {
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
    connection: &Connection,
    op: &'static str,
    repo: i64,
    kind: i64,
    mut take: impl FnMut(i64, i64, Option<&[u8]>) -> StoreResult<()>,
) -> StoreResult<()> {
    let sql = "SELECT id, key, data, sum FROM small WHERE repo = ?1 AND kind = ?2";
    each_row(connection, op, sql, params![repo, kind], |row| {
        let (key, data) = (row.number(1)?, row.bytes(2)?);
        let is_sound = small_sum(repo, kind, key, data) == row.number(3)?;
        take(row.number(0)?, key, is_sound.then_some(data))
    })
}

/// Finds a toolset by its id.
pub(crate) fn find_toolset(
    connection: &Connection,
    op: &'static str,
    repo: i64,
    id: ToolsetId,
) -> StoreResult<Option<(i64, Toolset)>> {
    let (rows, damaged) = small(connection, op, repo, TOOLSET, prefix(id.as_bytes()))?;
    match rows.iter().find_map(|row| Some((row.id, Toolset::decode(id, &row.data)?))) {
        None if damaged => Err(corrupt(op, ObjectId::Toolset(id))),
        found => Ok(found),
    }
}

/// Finds where an object lies, by reading it.
pub(crate) fn find_place(
    connection: &Connection,
    op: &'static str,
    repo: i64,
    object: ObjectId,
) -> StoreResult<Option<i64>> {
    match object {
        ObjectId::Commit(id) => Ok(find_commit(connection, op, repo, id)?.map(|(place, _)| place)),
        ObjectId::Blob(id) => Ok(find_blob(connection, op, repo, id)?.map(|(place, _)| place)),
        ObjectId::Toolset(id) => {
            Ok(find_toolset(connection, op, repo, id)?.map(|(place, _)| place))
        }
        ObjectId::Tool(id) => {
            Ok(crate::tools::rows(connection, op, repo, id)?.first().map(|row| row.place))
        }
    }
}

/// Reads the id of the commit at a place; `None` when no sound one lies there.
pub(crate) fn commit_at(
    connection: &Connection,
    op: &'static str,
    repo: i64,
    place: i64,
) -> StoreResult<Option<CommitId>> {
    let sql = "SELECT h, rec FROM commits WHERE id = ?1 AND repo = ?2";
    id_at(connection, op, sql, repo, place, |bytes| {
        Ok(Commit::decode_any(bytes).ok().map(|commit| *commit.id().as_bytes()))
    })
    .map(|id| id.map(CommitId::from_bytes))
}

/// Reads the id of the blob at a place; `None` when no sound one lies there.
pub(crate) fn blob_id_at(
    connection: &Connection,
    op: &'static str,
    repo: i64,
    place: i64,
) -> StoreResult<Option<BlobId>> {
    let sql = "SELECT h, data FROM blobs WHERE id = ?1 AND repo = ?2";
    id_at(connection, op, sql, repo, place, |stored| {
        let bytes = plain(connection, op, repo, stored)?;
        Ok(bytes.map(|bytes| *tract_core::hash::blob(&bytes).as_bytes()))
    })
    .map(|id| id.map(BlobId::from_bytes))
}

fn id_at(
    connection: &Connection,
    op: &'static str,
    sql: &str,
    repo: i64,
    place: i64,
    id: impl Fn(&[u8]) -> StoreResult<Option<[u8; 32]>>,
) -> StoreResult<Option<[u8; 32]>> {
    find_row(connection, op, sql, params![place, repo], |row| {
        let h = row.number(0)?;
        Ok(id(row.bytes(1)?)?.filter(|id| prefix(id) == h))
    })
}

/// Finds the objects whose id begins with these digits.
pub(crate) fn resolve_prefix(
    connection: &Connection,
    repo: i64,
    digits: &IdPrefix,
    limit: usize,
) -> StoreResult<Vec<ObjectId>> {
    const OP: &str = "resolve_prefix";
    // A prefix has four digits at least, so the range lies on one side of the sign.
    let (low, high) = digits.range();
    let (low, high) = (low as i64, high as i64);
    let mut found = Vec::new();
    type Read<'r> = &'r dyn Fn(&[u8]) -> StoreResult<Option<ObjectId>>;
    let mut scan = |sql: &str, object: Read<'_>| -> StoreResult<()> {
        let mut here: Vec<ObjectId> = Vec::new();
        find_row(connection, OP, sql, params![repo, low, high], |row| {
            let h = row.number(0)?;
            // A damaged row is no answer to a question about ids; reading it by id tells.
            let object = object(row.bytes(1)?)?.filter(|object| prefix(object.as_bytes()) == h);
            if let Some(object) = object
                && digits.matches(object.as_bytes())
                && !here.contains(&object)
            {
                here.push(object);
            }
            // Rows come in the order of their first eight bytes.
            Ok((here.len() > limit).then_some(()))
        })?;
        found.append(&mut here);
        Ok(())
    };
    scan(
        "SELECT h, rec FROM commits WHERE repo = ?1 AND h BETWEEN ?2 AND ?3 ORDER BY h",
        &|rec| Ok(Commit::decode_any(rec).ok().map(|commit| ObjectId::Commit(commit.id()))),
    )?;
    scan(
        "SELECT h, data FROM blobs WHERE repo = ?1 AND h BETWEEN ?2 AND ?3 ORDER BY h",
        &|data| {
            let bytes = plain(connection, OP, repo, data)?;
            Ok(bytes.map(|bytes| ObjectId::Blob(tract_core::hash::blob(&bytes))))
        },
    )?;
    let small = |kind: i64| {
        format!(
            "SELECT key, data FROM small WHERE repo = ?1 AND kind = {kind} \
             AND key BETWEEN ?2 AND ?3 ORDER BY key"
        )
    };
    scan(&small(TOOLSET), &|data| {
        Ok(crate::tools::decode_entries(data)
            .map(|entries| ObjectId::Toolset(Toolset::seal(entries).id())))
    })?;
    scan(&small(TOOL), &|data| Ok(crate::tools::decode(data).map(|row| ObjectId::Tool(row.id))))?;
    found.sort_unstable();
    found.truncate(limit);
    Ok(found)
}
