//! Walks first parents by reading ranges of places. Every step is verified.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::keys::{self, Repo};
use super::read::{StoredCommit, View, any_commit};
use super::value::{self, Segment};
use super::{Scan, Space};
use tract_core::batch::DerivedKind;
use tract_core::id::CommitId;
use tract_core::object::ObjectId;
use tract_core::parallel;
use tract_core::store::{LocationHint, StoreError, StoreResult, Walk, WalkEntry, WalkPage};

/// Number of records read and decoded at once. Starts small if the walk ends at a given commit,
/// which may be near.
const FIRST_PORTION: usize = 32;
const LARGEST_PORTION: usize = 4096;

/// The state of a walk at the end of a run.
enum RunEnd {
    /// The walk is complete.
    End,
    /// The page is full, the run ended, or a place was wrong: continue with this commit.
    At(CommitId),
    /// A commit with a derived row to stop at, and the row.
    Stopped(CommitId, Bytes),
}

impl View<'_> {
    pub(super) fn walk(&self, walk: &Walk) -> StoreResult<WalkPage> {
        let limit = walk.limit.max(1);
        let mut page = WalkPage::default();
        let mut next = walk.head;
        let mut hint: Option<u64> = None;
        while walk.until != Some(next) {
            // A wrong hint costs a lookup but cannot return a wrong commit, since the record must
            // hash to the id.
            let at_hint = match hint {
                Some(place) => self.commit_at(place)?.filter(|found| found.commit.id() == next),
                None => None,
            };
            let found = match at_hint {
                Some(found) => found,
                None => self.commit(next)?.ok_or_else(|| {
                    StoreError::missing(self.backend, "walk", ObjectId::Commit(next))
                })?,
            };
            let segment = keys::segment_of(found.place);
            match self.run(walk, found, limit, &mut page.entries)? {
                RunEnd::End => return Ok(page),
                RunEnd::Stopped(commit, row) => {
                    page.stopped = Some((commit, row));
                    return Ok(page);
                }
                RunEnd::At(commit) if page.entries.len() >= limit => {
                    page.next = Some(commit).filter(|commit| walk.until != Some(*commit));
                    return Ok(page);
                }
                RunEnd::At(commit) => next = commit,
            }
            // The segment ended. Its parent's place is known, which saves the lookup by id at each
            // fork.
            hint = self.segment(segment)?.and_then(|segment| segment.parent);
        }
        Ok(page)
    }

    pub(super) fn segment(&self, segment: u32) -> StoreResult<Option<Segment>> {
        // Only a hint for walks, so damage is ignored here; the check reports it.
        let key = self.repo.segment(segment);
        let sealed = self.read.get(Space::Small, &key)?;
        Ok(sealed.and_then(|sealed| value::open(&key, &sealed).and_then(Segment::decode)))
    }

    /// Collects commits from the first one down to the start of its segment.
    fn run(
        &self,
        walk: &Walk,
        first: StoredCommit,
        limit: usize,
        entries: &mut Vec<WalkEntry>,
    ) -> StoreResult<RunEnd> {
        let top = first.place;
        let bottom = keys::place(keys::segment_of(top), 0);
        // Looked up once for the whole segment instead of for each commit. Rows in other segments
        // are found by the runs through those.
        let stop = match walk.stop_at {
            Some(kind) => self.highest_row(kind, bottom, top)?,
            None => None,
        };
        // Commits below the row to stop at are not needed.
        let bottom = stop.as_ref().map_or(bottom, |(stop, _)| *stop);
        let mut left = RunEnd::End;
        // Returns whether the run continues below the commit.
        let mut take = |found: StoredCommit, entries: &mut Vec<WalkEntry>| {
            let StoredCommit { place, content, commit } = found;
            let (id, parent) = (commit.id(), commit.parent());
            if walk.until == Some(id) {
                left = RunEnd::End;
                return false;
            }
            if let Some((at, row)) = &stop
                && *at == place
            {
                left = RunEnd::Stopped(id, row.clone());
                return false;
            }
            entries.push(WalkEntry { commit, content: content.map(LocationHint) });
            left = parent.map_or(RunEnd::End, RunEnd::At);
            entries.len() < limit && parent.is_some()
        };
        let mut wanted = first.commit.parent();
        if !take(first, entries) || top == bottom {
            return Ok(left);
        }
        // `top` is above `bottom` here, since the function has returned otherwise.
        let mut at = top - 1;
        let mut portion = match walk.until {
            Some(_) => FIRST_PORTION,
            None => LARGEST_PORTION,
        };
        loop {
            let left_here = usize::try_from(at - bottom + 1).unwrap_or(usize::MAX);
            let most = portion.min(limit.saturating_sub(entries.len()).max(1)).min(left_here);
            let read = self.commits_down(at, most)?;
            let is_last = read.len() < most || most == left_here;
            for found in read {
                // The entry below must be the first parent. Otherwise the places are wrong, and the
                // caller looks up the parent by its id.
                let Some(found) = found.filter(|found| Some(found.commit.id()) == wanted) else {
                    return Ok(left);
                };
                wanted = found.commit.parent();
                if !take(found, entries) {
                    return Ok(left);
                }
            }
            if is_last {
                return Ok(left);
            }
            at -= most as u64;
            portion = (portion * 2).min(LARGEST_PORTION);
        }
    }

    /// Reads up to `count` commits from a place downward; other threads decode and hash. Stops at
    /// the first empty place.
    fn commits_down(&self, top: u64, count: usize) -> StoreResult<Vec<Option<StoredCommit>>> {
        let (mut top, mut left) = (top, count);
        let next = || {
            let most = left.min(parallel::PORTION);
            if most == 0 {
                return Ok(None);
            }
            let values = self.values_down(top, most)?;
            left = if values.len() < most { 0 } else { left - most };
            top = top.saturating_sub(most as u64);
            Ok((!values.is_empty()).then_some(values))
        };
        let decode = |values: Vec<(u64, Bytes)>| {
            values.into_iter().map(|(place, value)| any_commit(place, &value)).collect()
        };
        parallel::map_read(count, parallel::OBJECTS, next, decode)
    }

    /// Reads up to `most` records at adjacent places, from a place downward.
    fn values_down(&self, top: u64, most: usize) -> StoreResult<Vec<(u64, Bytes)>> {
        let mut values = Vec::with_capacity(most);
        let (mut expected, bottom) = (top, top.saturating_sub(most as u64 - 1));
        let scan = Scan { reverse: true, ..self.repo.places(Space::Commits, bottom, top) };
        self.read.scan(&scan, &mut |key, value| {
            if Repo::number(key) != Some(expected) {
                return Ok(ControlFlow::Break(()));
            }
            values.push((expected, Bytes::copy_from_slice(value)));
            expected = expected.wrapping_sub(1);
            Ok(if values.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(values)
    }

    /// Finds the derived row of a kind at the highest place in a range.
    fn highest_row(
        &self,
        kind: DerivedKind,
        from: u64,
        to: u64,
    ) -> StoreResult<Option<(u64, Bytes)>> {
        let mut highest = None;
        let scan = Scan { reverse: true, ..self.repo.derived_between(kind, from, to) };
        self.read.scan(&scan, &mut |key, row| {
            highest = Repo::number(key).map(|place| (place, Bytes::copy_from_slice(row)));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(highest)
    }
}
