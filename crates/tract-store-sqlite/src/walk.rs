//! Walks first parents by reading ranges of places. Every step is verified.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use rusqlite::{Connection, params};
use tract_core::store::{Walk, WalkEntry, WalkPage};
use tract_core::{Commit, CommitId, DerivedKind, ObjectId, StoreError, StoreResult, parallel};

use crate::error::{BACKEND, corrupt};
use crate::read::{ReaderPool, RepoReader, hint};
use crate::schema::{DERIVED, prefix, segment_start, small_sum};

const OP: &str = "walk";

/// Walks from `walk.head`; `place` is the cached place of that commit, if known.
///
/// Commits of one branch are in adjacent rows, so the walk reads a range of rows backward and
/// checks that each is the first parent of the one before it. If it is not (because another segment
/// starts, or a place is wrong), the parent is looked up by its id.
pub(crate) fn walk(
    reader: RepoReader<'_>,
    others: &ReaderPool<'_>,
    walk: &Walk,
    place: Option<i64>,
) -> StoreResult<WalkPage> {
    let limit = walk.limit.max(1);
    let mut walker = Walker { reader, others, walk, limit, page: WalkPage::default() };
    let mut at = WalkPosition { id: walk.head, place, sure: false };
    loop {
        if walk.until == Some(at.id) {
            return Ok(walker.page);
        }
        if walker.page.entries.len() >= limit {
            walker.page.next = Some(at.id);
            return Ok(walker.page);
        }
        let place = match at.place {
            Some(place) => place,
            None => walker.locate(&mut at)?,
        };
        match walker.range(place, at)? {
            Some(next) => at = next,
            None => return Ok(walker.page),
        }
    }
}

/// A walk with its results so far.
struct Walker<'a> {
    reader: RepoReader<'a>,
    others: &'a ReaderPool<'a>,
    walk: &'a Walk,
    limit: usize,
    page: WalkPage,
}

/// The next commit to read.
#[derive(Clone, Copy)]
struct WalkPosition {
    id: CommitId,
    /// The likely place; verified when it is read.
    place: Option<i64>,
    /// Whether the place was found by reading the commit there.
    sure: bool,
}

/// Number of rows read and decoded at once. Starts small if the walk ends at a given commit, which
/// may be near.
const FIRST_PORTION: usize = 32;
const LARGEST_PORTION: usize = 4096;

/// A row, and its commit if it is readable.
struct FoundRow {
    place: i64,
    content: Option<i64>,
    commit: Option<Commit>,
}

impl Walker<'_> {
    /// Finds the place of a commit: the only row with its first eight bytes, or else by reading all
    /// such rows.
    fn locate(&self, at: &mut WalkPosition) -> StoreResult<i64> {
        if !at.sure {
            let sql = "SELECT id FROM commits WHERE repo = ?1 AND h = ?2 LIMIT 2";
            let mut places = Vec::new();
            self.reader.each_row(
                sql,
                params![self.reader.repo, prefix(at.id.as_bytes())],
                |row| {
                    places.push(row.number(0)?);
                    Ok(())
                },
            )?;
            // A single row with this prefix is almost certainly the commit, so its record is not
            // read here. The range read compares the id anyway.
            if let [place] = places.as_slice() {
                return Ok(*place);
            }
        }
        at.sure = true;
        match self.reader.find_commit(at.id)? {
            Some((place, _)) => Ok(place),
            None => Err(StoreError::missing(BACKEND, OP, ObjectId::Commit(at.id))),
        }
    }

    /// Reads the rows at `count` places from `top` downward.
    fn rows_down(&self, top: i64, count: usize) -> StoreResult<VecDeque<FoundRow>> {
        // `+repo` keeps SQLite from using the index by repository.
        let sql = "SELECT id, content, rec FROM commits WHERE id BETWEEN ?1 AND ?2 AND +repo = ?3 \
                   ORDER BY id DESC";
        let repo = self.reader.repo;
        let read = |connection: &Connection, range: Range<usize>| {
            let mut found = Vec::with_capacity(range.len());
            let [low, high] = [range.end - 1, range.start].map(|below| top - below as i64);
            RepoReader::new(connection, OP, repo).each_row(
                sql,
                params![low, high, repo],
                |row| {
                    let commit = Commit::decode_any(row.bytes(2)?).ok();
                    found.push(FoundRow { place: row.number(0)?, content: row.get(1)?, commit });
                    Ok(())
                },
            )?;
            Ok(found)
        };
        let own = self.reader.connection;
        parallel::map_ranges(count, parallel::OBJECTS, own, self.others, read).map(VecDeque::from)
    }

    /// Reads from `place` down to the start of its segment. Returns the commit to continue with, or
    /// `None` at the end of the walk.
    fn range(&mut self, place: i64, mut at: WalkPosition) -> StoreResult<Option<WalkPosition>> {
        let (walk, limit) = (self.walk, self.limit);
        let stop = match walk.stop_at {
            Some(kind) => self.newest_derived(kind, place)?,
            None => None,
        };
        // Commits below the row to stop at are not needed.
        let lowest = stop.as_ref().map_or_else(|| segment_start(place), |(stop, _)| *stop);
        let mut expected = place;
        let mut portion = match walk.until {
            Some(_) => FIRST_PORTION,
            None => LARGEST_PORTION,
        };
        let mut read: VecDeque<FoundRow> = VecDeque::new();
        loop {
            if walk.until == Some(at.id) || self.page.entries.len() >= limit {
                break;
            }
            if read.is_empty() {
                let left_here = usize::try_from(expected - lowest + 1).unwrap_or_default();
                let count = portion.min(limit - self.page.entries.len()).min(left_here);
                read = self.rows_down(expected, count)?;
                portion = (portion * 2).min(LARGEST_PORTION);
            }
            let Some(FoundRow { place: found, content, commit }) = read.pop_front() else { break };
            let here = commit.filter(|commit| commit.id() == at.id && found == expected);
            let Some(commit) = here else {
                // Either the parent is elsewhere, or this row is damaged; the lookup by id decides.
                if at.sure {
                    return Err(corrupt(OP, ObjectId::Commit(at.id)));
                }
                // If the index returned this very place, read all rows with the same prefix.
                at.sure = expected == place;
                return Ok(Some(WalkPosition { place: None, ..at }));
            };
            if let Some((stop, bytes)) = &stop
                && *stop == found
            {
                self.page.stopped = Some((at.id, bytes.clone()));
                return Ok(None);
            }
            let parent = commit.parent();
            self.page.entries.push(WalkEntry { commit, content: hint(found, content) });
            match parent {
                Some(parent) => at = WalkPosition { id: parent, place: None, sure: false },
                None => return Ok(None),
            }
            expected -= 1;
        }
        match expected == place && self.page.entries.len() < limit && walk.until != Some(at.id) {
            // The index returned this place, but the row belongs to another repository.
            true if at.sure => Err(corrupt(OP, ObjectId::Commit(at.id))),
            // There is no row at this place, so the place is wrong.
            true => Ok(Some(WalkPosition { place: None, sure: true, ..at })),
            false => Ok(Some(at)),
        }
    }

    /// Finds the newest derived row of a kind at or before a place in the same segment. A damaged
    /// row is ignored, because an older one serves as well.
    fn newest_derived(&self, kind: DerivedKind, place: i64) -> StoreResult<Option<(i64, Bytes)>> {
        let sql = "SELECT key, data, sum FROM small WHERE repo = ?1 AND kind = ?2 \
                   AND key BETWEEN ?3 AND ?4 ORDER BY key DESC LIMIT 1";
        let (repo, kind) = (self.reader.repo, DERIVED + i64::from(kind.number()));
        self.reader.find_row(sql, params![repo, kind, segment_start(place), place], |row| {
            let (key, data) = (row.number(0)?, row.bytes(1)?);
            let is_sound = small_sum(repo, kind, key, data) == row.number(2)?;
            Ok(is_sound.then(|| (key, Bytes::copy_from_slice(data))))
        })
    }
}
