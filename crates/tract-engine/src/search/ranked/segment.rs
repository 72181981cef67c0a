//! A segment of the index: a set of commits with a position each, and the words of their messages.
//!
//! The description is one row that is read as a whole. The words are in rows of their own, each
//! with a range of the sorted words. Positions are assigned run by run; a run is a gapless part of
//! a history, oldest commit first. Every run has marks: its first commit, its last, and at least
//! one every [`SPACING`] commits in between. Only the ids of marks are kept, and each of them has a
//! row that refers to the segment, so that a walk from any commit soon finds out whether and where
//! it is indexed.

use std::hash::{Hash, Hasher};

use tract_core::{CommitId, Kind, Priority};

use super::numbers::{put_repeated, read_repeated};
use super::wire::{unzigzag, zigzag};
use crate::repo::wire::{Input, put, put_bytes};

/// Maximum distance between two marks of a run, in commits.
pub(super) const SPACING: u32 = 256;

/// A commit's position in the loaded index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentPlace {
    pub(super) segment: u32,
    pub(super) position: u32,
}

impl Hash for SegmentPlace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let number = u64::from(self.segment) << 32 | u64::from(self.position);
        state.write(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32).to_le_bytes());
    }
}

/// A reference to another commit of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ref {
    /// A position in the same segment.
    Here(u32),
    /// The commit that is a number of commits before a mark in another segment. That commit is the
    /// same in every segment, as each commit continues only one other. A commit that was not
    /// indexed is referred to by itself, with distance 0.
    Elsewhere(CommitId, u32),
}

/// A gapless part of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) len: u32,
    /// The parent of the first commit.
    pub(super) base: Option<Ref>,
}

impl Run {
    pub(super) fn end(&self) -> u32 {
        self.start.saturating_add(self.len)
    }
}

/// A change that a commit makes to another message, or an additional link to another commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Adds a row: its version, and whether its mark states that it is shown.
    Add {
        slot: Ref,
        version: Ref,
        shown: Option<bool>,
    },
    Remove {
        slot: Ref,
    },
    Version {
        slot: Ref,
        to: Ref,
    },
    Mark {
        slot: Ref,
        shown: Option<bool>,
    },
    /// A link to another parent, or to a reverted commit.
    Leads {
        to: Ref,
    },
}

/// An effect and the position of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) position: u32,
    pub(super) effect: Effect,
}

/// The properties of a commit's message, packed into a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(pub(super) u8);

impl Class {
    /// Maximum number of kinds in a segment.
    pub(super) const MAX_KINDS: usize = 31;
    /// A commit without content.
    pub(super) const NONE: Self = Self(31);
    const PLAIN: u8 = 1 << 5;
    const STATED: u8 = 1 << 6;
    const STATED_SHOWN: u8 = 1 << 7;

    /// `plain` is a message that is its own row, with the priority that it states.
    pub(super) fn new(kind: u8, plain: bool, shown: Option<bool>) -> Self {
        let stated = match shown {
            None => 0,
            Some(false) => Self::STATED,
            Some(true) => Self::STATED | Self::STATED_SHOWN,
        };
        Self(kind | (u8::from(plain) * Self::PLAIN) | stated)
    }

    pub(super) fn kind(self) -> Option<usize> {
        Some(usize::from(self.0 & 31)).filter(|kind| *kind < Self::MAX_KINDS)
    }

    /// Translates the kind to another numbering of kinds.
    pub(super) fn with_kind(self, kinds: &[usize]) -> Self {
        let kind = self.kind().and_then(|kind| kinds.get(kind));
        kind.map_or(self, |kind| Self(self.0 & !31 | (*kind as u8 & 31)))
    }

    /// Removes the stated priority.
    pub(super) fn unstated(self) -> Self {
        Self(self.0 & !(Self::STATED | Self::STATED_SHOWN))
    }

    pub(super) fn is_plain(self) -> bool {
        self.0 & Self::PLAIN != 0
    }

    pub(super) fn stated(self) -> Option<bool> {
        (self.0 & Self::STATED != 0).then_some(self.0 & Self::STATED_SHOWN != 0)
    }
}

/// A row of words: the commit that it is stored under, and its first word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TermsRow {
    pub(super) at: CommitId,
    pub(super) first: String,
}

/// The words of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Terms {
    Stored {
        rows: Vec<TermsRow>,
        bytes: u64,
    },
    /// Sorted by word.
    Memory(Vec<(String, Vec<u8>)>),
}

/// A segment's description. The words may be in memory or in rows of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Distinguishes its rows from those of other segments.
    pub(super) number: u64,
    /// The commit under which the description is stored; `None` in memory.
    pub(super) at: Option<CommitId>,
    /// Ascending, without gaps.
    pub(super) runs: Vec<Run>,
    /// Ascending.
    pub(super) marks: Vec<(u32, CommitId)>,
    /// Ascending by position; events of one commit in the order in which it states them.
    pub(super) events: Vec<Event>,
    /// Positions whose content equals that of an earlier position, ascending, with the earlier
    /// position. The words are indexed at the earlier one only.
    pub(super) copies: Vec<(u32, u32)>,
    pub(super) kinds: Vec<Kind>,
    /// By position, as are the two lists below.
    pub(super) classes: Vec<Class>,
    /// Number of words of a message.
    pub(super) lengths: Vec<u32>,
    /// Creation time, in hours since 1970.
    pub(super) hours: Vec<Option<i32>>,
    pub(super) terms: Terms,
}

impl Segment {
    pub(super) fn len(&self) -> u32 {
        self.classes.len() as u32
    }

    /// Returns the number of the run that contains a position.
    pub(super) fn run_of(&self, position: u32) -> Option<usize> {
        let after = self.runs.partition_point(|run| run.start <= position);
        after.checked_sub(1).filter(|run| self.runs.get(*run).is_some_and(|r| position < r.end()))
    }

    /// Returns the first mark at or after a position.
    pub(super) fn mark_from(&self, position: u32) -> Option<(u32, CommitId)> {
        self.marks.get(self.marks.partition_point(|(at, _)| *at < position)).copied()
    }

    pub(super) fn class(&self, position: u32) -> Class {
        self.classes.get(position as usize).copied().unwrap_or(Class::NONE)
    }

    /// Returns whether a message is shown unless a commit changes that.
    pub(super) fn is_shown(&self, class: Class) -> bool {
        let default = |kind: &Kind| kind.default_priority() > Priority::Skip;
        let kind = class.kind().and_then(|kind| self.kinds.get(kind));
        kind.is_some_and(|kind| class.stated().unwrap_or_else(|| default(kind)))
    }

    /// Returns the events of the positions `from..to`.
    pub(super) fn events_between(&self, from: u32, to: u32) -> &[Event] {
        let start = self.events.partition_point(|event| event.position < from);
        let end = self.events.partition_point(|event| event.position < to);
        self.events.get(start..end).unwrap_or_default()
    }

    /// Encodes the description.
    pub(super) fn encode(&self) -> Vec<u8> {
        // These bytes are stored. A change of the order or of an encoding needs a new `VERSION` in
        // `wire`, or older rows would be read as something else.
        let mut out = Vec::with_capacity(self.classes.len() * 4);
        put(&mut out, self.classes.len() as u64);
        put(&mut out, self.kinds.len() as u64);
        self.kinds.iter().for_each(|kind| put_bytes(&mut out, kind.as_str().as_bytes()));
        put(&mut out, self.runs.len() as u64);
        for run in &self.runs {
            put(&mut out, u64::from(run.len));
            match run.base {
                None => out.push(0),
                Some(base) => {
                    out.push(1);
                    put_ref(&mut out, run.start, base);
                }
            }
        }
        put(&mut out, self.marks.len() as u64);
        let mut last = 0;
        for (at, id) in &self.marks {
            put(&mut out, u64::from(at - last));
            out.extend_from_slice(id.as_bytes());
            last = *at;
        }
        put(&mut out, self.events.len() as u64);
        last = 0;
        for event in &self.events {
            put(&mut out, u64::from(event.position - last));
            last = event.position;
            put_effect(&mut out, event);
        }
        put(&mut out, self.copies.len() as u64);
        last = 0;
        for (at, of) in &self.copies {
            put(&mut out, u64::from(at - last));
            put(&mut out, u64::from(at - of));
            last = *at;
        }
        self.lengths.iter().for_each(|length| put(&mut out, u64::from(*length)));
        put_repeated(&mut out, self.classes.iter().map(|class| u64::from(class.0)));
        let mut hour_before = 0;
        let hours = self.hours.iter().map(|hour| {
            hour.map_or(0, |hour| {
                let later = i64::from(hour) - hour_before;
                hour_before = i64::from(hour);
                zigzag(later) + 1
            })
        });
        put_repeated(&mut out, hours);
        if let Terms::Stored { rows, bytes } = &self.terms {
            put(&mut out, *bytes);
            put(&mut out, rows.len() as u64);
            for row in rows {
                out.extend_from_slice(row.at.as_bytes());
                put_bytes(&mut out, row.first.as_bytes());
            }
        }
        out
    }

    /// Decodes the description of a stored segment; `None` when it is damaged.
    pub(super) fn decode(at: CommitId, number: u64, bytes: &[u8]) -> Option<Self> {
        let mut input = Input(bytes);
        let len = input.count()?;
        let mut kinds = Vec::new();
        for _ in 0..input.count()? {
            kinds.push(Kind::parse(std::str::from_utf8(input.bytes()?).ok()?));
        }
        let mut runs: Vec<Run> = Vec::new();
        for _ in 0..input.count()? {
            let start = runs.last().map_or(0, Run::end);
            let run_len = input.small()?;
            let base = match input.byte()? {
                0 => None,
                _ => Some(read_ref(&mut input, start)?),
            };
            start.checked_add(run_len)?;
            runs.push(Run { start, len: run_len, base });
        }
        let mut marks: Vec<(u32, CommitId)> = Vec::new();
        for _ in 0..input.count()? {
            let at = marks.last().map_or(0, |(at, _)| *at).checked_add(input.small()?)?;
            marks.push((at, input.id()?));
        }
        let mut events: Vec<Event> = Vec::new();
        for _ in 0..input.count()? {
            let last = events.last().map_or(0, |event| event.position);
            let position = last.checked_add(input.small()?)?;
            events.push(Event { position, effect: read_effect(&mut input, position)? });
        }
        let mut copies: Vec<(u32, u32)> = Vec::new();
        for _ in 0..input.count()? {
            let at = copies.last().map_or(0, |(at, _)| *at).checked_add(input.small()?)?;
            copies.push((at, at.checked_sub(input.small()?)?));
        }
        // Each length takes at least a byte, so a damaged `len` cannot cause a large allocation
        // below.
        let lengths = (0..len).map(|_| input.small()).collect::<Option<Vec<u32>>>()?;
        let mut classes = Vec::with_capacity(len);
        read_repeated(&mut input, len, |class, times| {
            classes.resize(classes.len() + times, Class(u8::try_from(class).ok()?));
            Some(())
        })?;
        let mut hours = Vec::with_capacity(len);
        let mut hour: i64 = 0;
        read_repeated(&mut input, len, |coded, times| {
            match coded.checked_sub(1).map(unzigzag) {
                None => hours.resize(hours.len() + times, None),
                // The difference to the previous hour, repeated.
                Some(later) => {
                    for _ in 0..times {
                        hour = hour.checked_add(later)?;
                        hours.push(Some(i32::try_from(hour).ok()?));
                    }
                }
            }
            Some(())
        })?;
        let bytes = input.number()?;
        let mut rows = Vec::new();
        for _ in 0..input.count()? {
            let at = input.id()?;
            rows.push(TermsRow { at, first: std::str::from_utf8(input.bytes()?).ok()?.to_owned() });
        }
        let fits = runs.last().map_or(0, Run::end) as usize == len && input.0.is_empty();
        let terms = Terms::Stored { rows, bytes };
        let at = Some(at);
        fits.then_some(Self {
            number,
            at,
            runs,
            marks,
            events,
            copies,
            kinds,
            classes,
            lengths,
            hours,
            terms,
        })
    }
}

mod tag {
    pub(super) const ADD: u8 = 0;
    pub(super) const REMOVE: u8 = 1;
    pub(super) const VERSION: u8 = 2;
    pub(super) const MARK: u8 = 3;
    pub(super) const LEADS: u8 = 4;
    pub(super) const ALL: u8 = 7;
}

fn shown_bits(shown: Option<bool>) -> u8 {
    match shown {
        None => 0,
        Some(false) => 1 << 3,
        Some(true) => 2 << 3,
    }
}

fn put_effect(out: &mut Vec<u8>, event: &Event) {
    let mut refs = |head: u8, refs: &[Ref]| {
        out.push(head);
        refs.iter().for_each(|named| put_ref(out, event.position, *named));
    };
    match event.effect {
        Effect::Add { slot, version, shown } => {
            refs(tag::ADD | shown_bits(shown), &[slot, version])
        }
        Effect::Remove { slot } => refs(tag::REMOVE, &[slot]),
        Effect::Version { slot, to } => refs(tag::VERSION, &[slot, to]),
        Effect::Mark { slot, shown } => refs(tag::MARK | shown_bits(shown), &[slot]),
        Effect::Leads { to } => refs(tag::LEADS, &[to]),
    }
}

fn read_effect(input: &mut Input<'_>, position: u32) -> Option<Effect> {
    let head = input.byte()?;
    let shown = match head >> 3 {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        _ => return None,
    };
    let mut named = || read_ref(input, position);
    Some(match head & tag::ALL {
        tag::ADD => Effect::Add { slot: named()?, version: named()?, shown },
        tag::REMOVE => Effect::Remove { slot: named()? },
        tag::VERSION => Effect::Version { slot: named()?, to: named()? },
        tag::MARK => Effect::Mark { slot: named()?, shown },
        tag::LEADS => Effect::Leads { to: named()? },
        _ => return None,
    })
}

/// References are usually to nearby commits, so the difference is small.
fn put_ref(out: &mut Vec<u8>, position: u32, named: Ref) {
    match named {
        Ref::Here(at) => put(out, zigzag(i64::from(position) - i64::from(at)) + 1),
        Ref::Elsewhere(mark, before) => {
            out.push(0);
            out.extend_from_slice(mark.as_bytes());
            put(out, u64::from(before));
        }
    }
}

fn read_ref(input: &mut Input<'_>, position: u32) -> Option<Ref> {
    match input.number()? {
        0 => Some(Ref::Elsewhere(input.id()?, input.small()?)),
        coded => {
            let at = i64::from(position).checked_sub(unzigzag(coded - 1))?;
            Some(Ref::Here(u32::try_from(at).ok()?))
        }
    }
}
