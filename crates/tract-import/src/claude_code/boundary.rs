//! Compactions of a session: their boundaries and summaries, and the messages that stay visible.

use std::collections::{HashMap, HashSet};

use super::line::Line;
use super::place::{Places, Position, Speaker};
use crate::tree::{BranchNumber, ItemNumber};

/// The messages that a compaction keeps.
#[derive(Debug)]
pub(super) struct Boundary {
    /// The kept messages, if listed. Includes the last one of a segment.
    preserved: Vec<String>,
    /// The first message of a segment that is not listed.
    head: Option<String>,
    /// Number of items before it.
    items: ItemNumber,
}

/// The boundaries without a summary so far, by their id.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    open: HashMap<String, Boundary>,
    /// Lines that the file repeated since its last message, and lines without a message after them:
    /// a compaction may write the history again before its boundary.
    repeated: HashSet<String>,
}

impl Boundaries {
    /// Records that the file repeats a line.
    pub(super) fn repeat(&mut self, uuid: &str) {
        self.repeated.insert(uuid.to_owned());
    }

    /// Records a line without a message.
    pub(super) fn pass(&mut self, uuid: &str, parent: Option<&str>) {
        if parent.is_some_and(|parent| self.repeated.contains(parent)) {
            self.repeat(uuid);
        }
    }

    /// Records that the session has a new message.
    pub(super) fn advance(&mut self) {
        self.repeated.clear();
    }

    /// Records a boundary. Returns its position.
    pub(super) fn begin(
        &mut self,
        uuid: &str,
        line: &Line<'_>,
        speaker: &Speaker,
        places: &Places,
        items: ItemNumber,
    ) -> Option<Position> {
        let metadata = line.compact_metadata.as_ref();
        let preserved = metadata.map(|metadata| metadata.preserved()).unwrap_or_default();
        let head = metadata.and_then(|metadata| metadata.head());
        let boundary = Boundary { preserved, head, items };
        let logical = line.logical_parent_uuid.as_deref();
        let end = places.end_of(speaker);
        let place = match (logical.and_then(|id| places.place_of(id)), end) {
            (Some(place), Some(end)) if self.is_behind(place, end, logical, &boundary, places) => {
                Some(end)
            }
            (place, end) => place.or(end),
        };
        self.open.insert(uuid.to_owned(), boundary);
        place.map(|place| places.after_summary(place, speaker))
    }

    /// Returns whether a boundary at the end of a session names an outdated parent: one before an
    /// earlier summary, one of a history that was written again, or one before the kept messages.
    fn is_behind(
        &self,
        place: Position,
        end: Position,
        logical: Option<&str>,
        boundary: &Boundary,
        places: &Places,
    ) -> bool {
        if !places.is_before(place, end) {
            return false;
        }
        let kept = boundary.preserved.iter().chain(&boundary.head);
        let mut kept = kept.filter_map(|uuid| places.place_of(uuid));
        logical.is_some_and(|id| self.repeated.contains(id))
            || places.has_summary_after(place, end.branch)
            || kept.any(|kept| places.is_before(place, kept) && places.is_on_path(kept, end.branch))
    }

    /// Removes and returns the boundary of a summary.
    pub(super) fn end(&mut self, parent: Option<&str>) -> Option<Boundary> {
        self.open.remove(parent?)
    }

    /// Returns the boundary of a summary that has not been read yet.
    pub(super) fn get(&self, parent: Option<&str>) -> Option<&Boundary> {
        self.open.get(parent?)
    }
}

impl Boundary {
    /// Returns whether all items after a position came after the boundary. The summary was then
    /// written after the position.
    pub(super) fn is_before_all(&self, place: Position, places: &Places) -> bool {
        places.items_after(place).iter().all(|item| *item >= self.items)
    }

    /// Returns the items that the summary leaves visible on a branch.
    pub(super) fn kept(&self, branch: BranchNumber, places: &Places) -> Vec<ItemNumber> {
        let tail = self.preserved.last().map(String::as_str);
        let mut kept = places.items_of(&self.preserved);
        if let Some(head) = &self.head {
            kept.extend(places.items_between(head, tail, branch));
        }
        let after = places.items_after(Position { branch, items: 0 }).into_iter();
        kept.extend(after.filter(|item| *item >= self.items));
        kept.sort_unstable();
        kept.dedup();
        kept
    }

    /// Returns the kept lines.
    pub(super) fn preserved(&self) -> &[String] {
        &self.preserved
    }
}
