//! Builds a segment from commits, in memory.

use std::collections::HashMap;

use tract_compile::{IdMap, stated_priority};
use tract_core::{BlobId, Change, Commit, CommitId, Kind, Op, Priority};

use super::postings::Postings;
use super::segment::{Class, Effect, Event, Ref, Run, SPACING, Segment, Terms};
use super::words::WordCounts;

/// Approximate number of bytes of words after which a segment is stored.
pub(super) const FULL_BYTES: usize = 24 << 20;
/// Number of commits after which a segment is stored.
pub(super) const FULL_COMMITS: usize = 1 << 16;

/// A segment under construction.
#[derive(Debug)]
pub(super) struct Builder {
    segment: Segment,
    terms: HashMap<String, Postings>,
    contents: IdMap<BlobId, u32>,
    bytes: usize,
    /// The last commit of the open run, unless it is already a mark.
    tip: Option<(u32, CommitId)>,
}

impl Builder {
    pub(super) fn new() -> Self {
        let segment = Segment {
            number: 0,
            at: None,
            runs: Vec::new(),
            marks: Vec::new(),
            events: Vec::new(),
            copies: Vec::new(),
            kinds: Vec::new(),
            classes: Vec::new(),
            lengths: Vec::new(),
            hours: Vec::new(),
            terms: Terms::Memory(Vec::new()),
        };
        let (terms, contents) = (HashMap::new(), IdMap::default());
        Self { segment, terms, contents, bytes: 0, tip: None }
    }

    pub(super) fn len(&self) -> u32 {
        self.segment.len()
    }

    /// Returns the segment built so far.
    pub(super) fn segment(&self) -> &Segment {
        &self.segment
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= FULL_BYTES || self.segment.classes.len() >= FULL_COMMITS
    }

    /// Returns whether the segment has room for the kind of a commit.
    pub(super) fn takes(&self, kind: Option<&Kind>) -> bool {
        let kinds = &self.segment.kinds;
        kind.is_none_or(|kind| kinds.len() < Class::MAX_KINDS || kinds.contains(kind))
    }

    /// Starts a run. `base` is the parent of its first commit.
    pub(super) fn begin_run(&mut self, base: Option<Ref>) {
        self.end_run();
        self.segment.runs.push(Run { start: self.len(), len: 0, base });
    }

    /// Ends the open run.
    pub(super) fn end_run(&mut self) {
        self.segment.marks.extend(self.tip.take());
    }

    /// Adds a commit to the open run, after its parent. `words` are the words of its content;
    /// `None` without content, or when it was erased.
    pub(super) fn push(&mut self, commit: &Commit, words: Option<&WordCounts>) -> u32 {
        let position = self.len();
        if let Some(run) = self.segment.runs.last_mut() {
            match (position - run.start) % SPACING {
                0 => {
                    self.segment.marks.push((position, commit.id()));
                    self.tip = None;
                }
                _ => self.tip = Some((position, commit.id())),
            }
            run.len += 1;
        }
        let mut length = 0;
        let class = match (&commit.kind, commit.content) {
            (Some(kind), Some(blob)) => {
                match (self.contents.get(&blob), words) {
                    (Some(first), _) => {
                        self.segment.copies.push((position, *first));
                        length = self.segment.lengths.get(*first as usize).copied().unwrap_or(0);
                    }
                    (None, Some(words)) => {
                        self.contents.insert(blob, position);
                        length = words.length;
                        self.add_words(position, words);
                    }
                    (None, None) => {}
                }
                let (plain, shown) = match &commit.op {
                    Op::Append { slot: None, priority, .. } => (true, priority.map(is_shown)),
                    _ => (false, None),
                };
                Class::new(self.kind_number(kind), plain, shown)
            }
            (_, _) => Class::NONE,
        };
        self.segment.classes.push(class);
        self.segment.lengths.push(length);
        self.segment.hours.push(commit.created_at.and_then(hour_of));
        position
    }

    fn add_words(&mut self, position: u32, words: &WordCounts) {
        for (word, count) in &words.words {
            let list = match self.terms.get_mut(word) {
                Some(list) => list,
                None => {
                    self.bytes += word.len() + 64;
                    self.terms.entry(word.clone()).or_default()
                }
            };
            let before = list.size();
            list.push(position, *count);
            self.bytes += list.size() - before;
        }
    }

    /// Returns the number of a kind in the segment. Only for kinds that it [`takes`](Self::takes).
    fn kind_number(&mut self, kind: &Kind) -> u8 {
        let kinds = &mut self.segment.kinds;
        let number = kinds.iter().position(|known| known == kind).unwrap_or_else(|| {
            kinds.push(kind.clone());
            kinds.len() - 1
        });
        number.min(Class::MAX_KINDS) as u8
    }

    pub(super) fn add_effect(&mut self, position: u32, effect: Effect) {
        self.segment.events.push(Event { position, effect });
    }

    /// Returns the segment, with its words sorted.
    pub(super) fn finish(mut self) -> Segment {
        self.end_run();
        let mut scratch = Vec::new();
        let mut encode = |list: Postings| list.encode(&mut scratch);
        let mut terms: Vec<(String, Vec<u8>)> =
            self.terms.into_iter().map(|(word, list)| (word, encode(list))).collect();
        terms.sort_unstable();
        self.segment.terms = Terms::Memory(terms);
        self.segment
    }
}

/// Returns whether a message of this priority is shown.
pub(super) fn is_shown(priority: Priority) -> bool {
    priority > Priority::Skip
}

/// Returns whether a mark shows its message; `None` when it states no priority.
pub(super) fn marked(mark: &Commit) -> Option<bool> {
    stated_priority(mark).map(is_shown)
}

/// Returns the hour of a time in microseconds.
pub(super) fn hour_of(at_us: i64) -> Option<i32> {
    i32::try_from(at_us.div_euclid(3_600_000_000)).ok()
}

/// Returns the commits that a commit links to without continuing them: other parents and reverted
/// commits.
pub(super) fn leads_of(commit: &Commit) -> impl Iterator<Item = CommitId> {
    let reverted = match &commit.op {
        Op::Revert { targets, .. } => targets.as_slice(),
        _ => &[],
    };
    commit.parents.iter().skip(1).chain(reverted).copied()
}

/// Returns the commits that the operation and the changes of a commit refer to.
pub(super) fn named_by(commit: &Commit, changes: &[Change]) -> Vec<CommitId> {
    let mut named: Vec<CommitId> = leads_of(commit).collect();
    if let Op::Append { slot: Some(slot), .. } = &commit.op {
        named.push(*slot);
    }
    for change in changes {
        let version = match *change {
            Change::Add { row, .. } => Some(row.version),
            Change::Version { to, .. } => Some(to),
            Change::Remove { .. } | Change::Mark { .. } => None,
        };
        let ids = [Some(change.slot()), version].into_iter().flatten();
        named.extend(ids.map(|this| this.resolve(commit.id())));
    }
    named
}
