//! Compactions of a session: where a boundary and its summary are, and what they leave visible.

use std::collections::{HashMap, HashSet};

use super::line::Line;
use super::place::{Places, Position, Speaker};
use crate::tree::{BranchNumber, ItemNumber};

/// What a compaction keeps.
#[derive(Debug)]
pub(super) struct Boundary {
    /// The messages that stay, as far as they are listed; the last one of a segment is among them.
    preserved: Vec<String>,
    /// The first message of a segment that is not listed.
    head: Option<String>,
    /// How many items there were before it.
    items: ItemNumber,
}

/// The boundaries without a summary so far, by their id.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    open: HashMap<String, Boundary>,
    /// Lines that the file repeated since its last message, and lines without a message after them: a
    /// compaction may write the history again before its boundary.
    repeated: HashSet<String>,
}

impl Boundaries {
    /// Notes that the file repeats a line.
    pub(super) fn repeat(&mut self, uuid: &str) {
        self.repeated.insert(uuid.to_owned());
    }

    /// Notes a line without a message.
    pub(super) fn pass(&mut self, uuid: &str, parent: Option<&str>) {
        if parent.is_some_and(|parent| self.repeated.contains(parent)) {
            self.repeat(uuid);
        }
    }

    /// Notes that the session has a new message.
    pub(super) fn advance(&mut self) {
        self.repeated.clear();
    }

    /// Takes a boundary, and returns its place.
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

    /// Whether a boundary at the end of a session names a parent that is behind it: one before an
    /// earlier summary, one of a history that was written again, or one before what it keeps.
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

    /// Takes the boundary of a summary.
    pub(super) fn end(&mut self, parent: Option<&str>) -> Option<Boundary> {
        self.open.remove(parent?)
    }

    /// The boundary of a summary that is still to come.
    pub(super) fn get(&self, parent: Option<&str>) -> Option<&Boundary> {
        self.open.get(parent?)
    }
}

impl Boundary {
    /// Whether all that follows a place came after the boundary: the summary was written after it.
    pub(super) fn is_before_all(&self, place: Position, places: &Places) -> bool {
        places.items_after(place).iter().all(|item| *item >= self.items)
    }

    /// The items that the summary on a branch leaves visible.
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

    /// The lines that stay.
    pub(super) fn preserved(&self) -> &[String] {
        &self.preserved
    }
}
