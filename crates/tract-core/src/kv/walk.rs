//! Walking first parents: a range of places, every step checked.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::Space;
use super::keys::{self, Repo};
use super::read::{Found, View, open_commit};
use super::value::Segment;
use crate::batch::DerivedKind;
use crate::id::CommitId;
use crate::object::ObjectId;
use crate::store::{Hint, Step, StoreError, StoreResult, Walk, WalkPage};

/// Where a run of places is left.
enum Left {
    /// The walk is at its end.
    End,
    /// The page is full, or the run ended or proved wrong: go on with this commit.
    At(CommitId),
    /// A commit with a row, and the row.
    Stopped(CommitId, Bytes),
}

impl View<'_> {
    pub(super) fn walk(&self, walk: &Walk) -> StoreResult<WalkPage> {
        let limit = walk.limit.max(1);
        let mut page = WalkPage::default();
        let mut next = walk.head;
        let mut hint: Option<u64> = None;
        while walk.until != Some(next) {
            // A wrong hint costs a look-up, never truth: the record must hash to the id.
            let at_hint = match hint {
                Some(place) => self.commit_at(place, next)?,
                None => None,
            };
            let found = match at_hint {
                Some(found) => found,
                None => self.commit(next)?.ok_or_else(|| {
                    StoreError::missing(self.backend, "walk", ObjectId::Commit(next))
                })?,
            };
            let segment = keys::segment_of(found.place);
            match self.run(walk, found, limit, &mut page.steps)? {
                Left::End => return Ok(page),
                Left::Stopped(commit, row) => {
                    page.stopped = Some((commit, row));
                    return Ok(page);
                }
                Left::At(commit) if page.steps.len() >= limit => {
                    page.next = Some(commit).filter(|commit| walk.until != Some(*commit));
                    return Ok(page);
                }
                Left::At(commit) => next = commit,
            }
            hint = self.segment(segment)?.and_then(|segment| segment.parent);
        }
        Ok(page)
    }

    pub(super) fn segment(&self, segment: u32) -> StoreResult<Option<Segment>> {
        // Only a hint to walks: damage is reported by the check, not by reading.
        let key = self.repo.segment(segment);
        let sealed = self.read.get(Space::Small, &key)?;
        Ok(sealed.and_then(|sealed| super::value::open(&key, &sealed).and_then(Segment::decode)))
    }

    /// Takes commits from the first one down to the beginning of its segment.
    fn run(
        &self,
        walk: &Walk,
        first: Found,
        limit: usize,
        steps: &mut Vec<Step>,
    ) -> StoreResult<Left> {
        let top = first.place;
        let bottom = keys::place(keys::segment_of(top), 0);
        let stop = match walk.stop_at {
            Some(kind) => self.highest_row(kind, bottom, top)?,
            None => None,
        };
        let mut left = Left::End;
        let mut take = |found: Found, steps: &mut Vec<Step>| -> StoreResult<ControlFlow<()>> {
            let Found { place, content, commit } = found;
            let (id, parent) = (commit.id(), commit.parent());
            if walk.until == Some(id) {
                left = Left::End;
                return Ok(ControlFlow::Break(()));
            }
            if let Some((at, row)) = &stop
                && *at == place
            {
                left = Left::Stopped(id, row.clone());
                return Ok(ControlFlow::Break(()));
            }
            steps.push(Step { commit, content: content.map(Hint) });
            match parent {
                None => left = Left::End,
                Some(parent) => left = Left::At(parent),
            }
            let full = steps.len() >= limit || parent.is_none();
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let mut wanted = match first.commit.parent() {
            Some(parent) => parent,
            None => {
                let _ = take(first, steps)?;
                return Ok(left);
            }
        };
        if take(first, steps)?.is_break() || top == bottom {
            return Ok(left);
        }
        let mut expected = top - 1;
        let scan = self.repo.places(Space::Commits, bottom, expected).reversed();
        self.read.scan(&scan, &mut |key, value| {
            // What lies below must be the first parent, or else the places are wrong here and
            // the parent is looked up by its id.
            if Repo::number(key) != Some(expected) {
                return Ok(ControlFlow::Break(()));
            }
            let Some(found) = open_commit(expected, wanted, value) else {
                return Ok(ControlFlow::Break(()));
            };
            expected = expected.wrapping_sub(1);
            wanted = found.commit.parent().unwrap_or(wanted);
            take(found, steps)
        })?;
        Ok(left)
    }

    /// Finds the highest row of a kind between two places.
    fn highest_row(
        &self,
        kind: DerivedKind,
        from: u64,
        to: u64,
    ) -> StoreResult<Option<(u64, Bytes)>> {
        let mut highest = None;
        let scan = self.repo.derived_between(kind, from, to).reversed();
        self.read.scan(&scan, &mut |key, row| {
            highest = Repo::number(key).map(|place| (place, Bytes::copy_from_slice(row)));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(highest)
    }
}
