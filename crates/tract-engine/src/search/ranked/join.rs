//! Joins segments of similar size, so that the number of segments stays small.
//!
//! The rows of the new segment are stored under commits that the old segments do not use, and the
//! old rows are emptied once the new segment is described. If there are too few such commits, new
//! rows replace old ones in the same batch that describes the new segment. Every row has the number
//! of its segment, so a reader of an old segment either finds all of its rows, or notices that one
//! is empty or belongs to another segment, and starts over.

use std::collections::HashMap;

use bytes::Bytes;
use tract_compile::IdSet;
use tract_core::{CommitId, DerivedKind};

use super::build::{FULL_BYTES, FULL_COMMITS};
use super::index::Index;
use super::postings::{self, Posting};
use super::segment::{Effect, Event, Ref, Run, Segment, SegmentPlace, Terms, TermsRow};
use super::store::{Writer, terms_of};
use super::terms::{List, RowCursor};
use crate::repo::Repo;
use crate::repo::error::Result;

/// Number of segments of similar size that are joined into one.
const JOINED: usize = 4;
/// Segments with this many commits or bytes of words are not joined further. This bounds the work
/// of the search that joins them, and the space that replaced rows leave behind in the store.
const LARGE_COMMITS: u32 = 4 * FULL_COMMITS as u32;
const LARGE_BYTES: u64 = 4 * FULL_BYTES as u64;

/// Joins segments of similar size until there are few of each size. Returns `false` if the store
/// rejects the write, or another client wrote the index first.
pub(super) async fn merge(index: &mut Index<'_>) -> Result<bool> {
    loop {
        let sizes: Vec<Size> = index.segments.iter().map(Size::of).collect();
        let Some(places) = joined(&sizes) else { return Ok(true) };
        match merge_segments(index, &places).await {
            Ok(Some(joined)) => {
                let kept = std::mem::take(&mut index.segments);
                let kept = kept.into_iter().enumerate().filter(|(at, _)| !places.contains(at));
                let mut segments: Vec<Segment> = kept.map(|(_, segment)| segment).collect();
                segments.push(joined);
                // Segments are numbered by their position in the list, which changes here, so all
                // known places and cached references are invalid.
                index.clear();
                for segment in segments {
                    index.take_described(segment);
                }
            }
            // Another client joined them first. The next search finds the result.
            Ok(None) => return Ok(true),
            Err(_left_away) => return Ok(false),
        }
    }
}

/// The size of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    commits: u32,
    /// Size of the words.
    bytes: u64,
    is_stored: bool,
}

impl Size {
    fn of(segment: &Segment) -> Self {
        let bytes = match &segment.terms {
            Terms::Stored { bytes, .. } => *bytes,
            Terms::Memory(_) => 0,
        };
        Self { commits: segment.len(), bytes, is_stored: segment.at.is_some() }
    }

    fn is_large(self) -> bool {
        self.commits >= LARGE_COMMITS || self.bytes >= LARGE_BYTES
    }
}

/// Returns the indices of the segments to join next: several of similar size, up to the size of a
/// large segment.
fn joined(sizes: &[Size]) -> Option<Vec<usize>> {
    let mut by_size: HashMap<u32, Vec<usize>> = HashMap::new();
    for (place, size) in sizes.iter().enumerate() {
        if size.is_stored && !size.is_large() {
            // Classes by powers of 4, like the number of segments that are joined. A commit moves
            // up one class with each join, so it is rewritten a logarithmic number of times.
            by_size.entry(size.commits.max(256).ilog2() / 2).or_default().push(place);
        }
    }
    let full = by_size.into_iter().filter(|(_, places)| places.len() >= JOINED);
    // The smallest class first: joining it costs least, and its result may complete the next class.
    let (_, mut places) = full.min_by_key(|(size, _)| *size)?;
    let mut all = Size::default();
    places.retain(|place| {
        let size = sizes.get(*place).filter(|_| !all.is_large());
        all.commits = all.commits.saturating_add(size.map_or(0, |size| size.commits));
        all.bytes = all.bytes.saturating_add(size.map_or(0, |size| size.bytes));
        size.is_some()
    });
    Some(places)
}

async fn merge_segments(index: &mut Index<'_>, places: &[usize]) -> Result<Option<Segment>> {
    let numbers: Vec<u32> = places.iter().map(|place| *place as u32).collect();
    let inputs: Vec<Segment> =
        numbers.iter().filter_map(|number| index.segment(*number)).cloned().collect();
    let Some(segment) = join(index, &numbers, &inputs).await? else { return Ok(None) };
    // Readers of the inputs still use these rows, so the new segment prefers other commits.
    let mut taken = IdSet::default();
    let mut bytes = 0;
    for input in &inputs {
        if let Terms::Stored { rows, bytes: size } = &input.terms {
            taken.extend(rows.iter().map(|row| row.at));
            // The joined lists are not known yet. The sum of the old ones is close enough to choose
            // the size of a row.
            bytes += size;
        }
    }
    let repo = index.repo;
    let mut gone = IdSet::default();
    for marks in segment.marks.chunks(1024) {
        let ids: Vec<CommitId> = marks.iter().map(|(_, id)| *id).collect();
        let known = repo.store().commits(repo.name(), &ids).await?;
        gone.extend(
            ids.into_iter().zip(known).filter(|(_, known)| known.is_none()).map(|(id, _)| id),
        );
    }
    let mut writer = Writer::new(repo, &mut index.state, &segment, bytes, &taken, gone);
    let mut offset = 0;
    let mut words = Vec::new();
    for input in &inputs {
        let mut reader = WordReader::new(input, offset);
        offset += input.len();
        if !reader.advance(repo).await? {
            return Ok(None);
        }
        words.push(reader);
    }
    let mut list: Vec<Posting> = Vec::new();
    loop {
        let next = words.iter().filter_map(|reader| reader.word.as_ref()).min().cloned();
        let Some(word) = next else { break };
        list.clear();
        // The readers are in the order of their offsets, so the positions of the joined list
        // ascend, as the encoding requires.
        for reader in words.iter_mut().filter(|reader| reader.word.as_ref() == Some(&word)) {
            if reader.append_to(&mut list).is_none() || !reader.advance(repo).await? {
                return Ok(None);
            }
        }
        writer.add(&word, &postings::encode(&list)).await?;
    }
    Ok(Some(writer.finish(segment, &inputs.iter().collect::<Vec<_>>()).await?))
}

/// Concatenates the descriptions of segments.
async fn join(
    index: &mut Index<'_>,
    joined: &[u32],
    inputs: &[Segment],
) -> Result<Option<Segment>> {
    let mut offsets: HashMap<u32, u32> = HashMap::new();
    let mut offset: u32 = 0;
    for (number, input) in joined.iter().zip(inputs) {
        offsets.insert(*number, offset);
        let Some(next) = offset.checked_add(input.len()) else { return Ok(None) };
        offset = next;
    }
    let mut out = super::build::Builder::new().finish();
    for (number, input) in joined.iter().zip(inputs) {
        let offset = offsets.get(number).copied().unwrap_or_default();
        let mut kinds = Vec::new();
        for kind in &input.kinds {
            // A segment has at most `MAX_KINDS` kinds, so a linear search is fine.
            let known = out.kinds.iter().position(|known| known == kind);
            kinds.push(known.unwrap_or_else(|| {
                out.kinds.push(kind.clone());
                out.kinds.len() - 1
            }));
        }
        if out.kinds.len() > super::segment::Class::MAX_KINDS {
            return Ok(None);
        }
        for run in &input.runs {
            let base = match run.base {
                Some(base) => Some(moved(index, *number, base, &offsets).await?),
                None => None,
            };
            out.runs.push(Run { start: run.start + offset, len: run.len, base });
        }
        for event in &input.events {
            let mut refs = Vec::new();
            for named in event.effect.refs() {
                refs.push(moved(index, *number, named, &offsets).await?);
            }
            let effect = event.effect.with_refs(&refs);
            out.events.push(Event { position: event.position + offset, effect });
        }
        out.marks.extend(input.marks.iter().map(|(at, id)| (at + offset, *id)));
        out.copies.extend(input.copies.iter().map(|(at, of)| (at + offset, of + offset)));
        out.classes.extend(input.classes.iter().map(|class| class.with_kind(&kinds)));
        out.lengths.extend(&input.lengths);
        out.hours.extend(&input.hours);
    }
    Ok(Some(out))
}

/// Translates a reference of an input: to a position of the joined segment if the commit is in one
/// of the inputs, else it stays as it is.
async fn moved(
    index: &mut Index<'_>,
    segment: u32,
    named: Ref,
    offsets: &HashMap<u32, u32>,
) -> Result<Ref> {
    let place = index.resolve(segment, named).await?;
    Ok(match place {
        Ok(SegmentPlace { segment, position }) => match offsets.get(&segment) {
            Some(offset) => Ref::Here(position + offset),
            None => named,
        },
        Err(_commit) => named,
    })
}

impl Effect {
    fn refs(self) -> Vec<Ref> {
        match self {
            Self::Add { slot, version, .. } => vec![slot, version],
            Self::Version { slot, to } => vec![slot, to],
            Self::Remove { slot } | Self::Mark { slot, .. } => vec![slot],
            Self::Leads { to } => vec![to],
        }
    }

    fn with_refs(self, refs: &[Ref]) -> Self {
        match (self, refs) {
            (Self::Add { shown, .. }, [slot, version]) => {
                Self::Add { slot: *slot, version: *version, shown }
            }
            (Self::Version { .. }, [slot, to]) => Self::Version { slot: *slot, to: *to },
            (Self::Remove { .. }, [slot]) => Self::Remove { slot: *slot },
            (Self::Mark { shown, .. }, [slot]) => Self::Mark { slot: *slot, shown },
            (Self::Leads { .. }, [to]) => Self::Leads { to: *to },
            (same, _) => same,
        }
    }
}

/// Returns whether all rows of words of a segment are stored and can be read.
pub(super) async fn is_whole(repo: &Repo, segment: &Segment) -> Result<bool> {
    let mut reader = WordReader::new(segment, 0);
    let mut list: Vec<Posting> = Vec::new();
    loop {
        if !reader.advance(repo).await? {
            return Ok(false);
        }
        if reader.word.is_none() {
            return Ok(true);
        }
        list.clear();
        let is_read = reader.append_to(&mut list).is_some();
        if !is_read || list.iter().any(|(position, _)| *position >= segment.len()) {
            return Ok(false);
        }
    }
}

/// Reads the words of a segment in order, a row at a time.
struct WordReader<'a> {
    number: u64,
    offset: u32,
    rows: std::slice::Iter<'a, TermsRow>,
    row: Bytes,
    cursor: RowCursor,
    word: Option<String>,
    /// The list of the current word, in the row.
    list: ReadList,
}

/// A word's list: one position, or bytes shared with the row.
enum ReadList {
    Single(u32),
    Encoded(Bytes),
}

impl<'a> WordReader<'a> {
    fn new(segment: &'a Segment, offset: u32) -> Self {
        let rows = match &segment.terms {
            Terms::Stored { rows, .. } => rows.iter(),
            Terms::Memory(_) => [].iter(),
        };
        let (row, cursor, list) = (Bytes::new(), RowCursor::default(), ReadList::Single(0));
        Self { number: segment.number, offset, rows, row, cursor, word: None, list }
    }

    /// Advances to the next word; `word` is `None` at the end. Returns `false` if a row is damaged
    /// or missing.
    async fn advance(&mut self, repo: &Repo) -> Result<bool> {
        if self.cursor.is_at_end(&self.row) {
            let Some(next) = self.rows.next() else {
                self.word = None;
                return Ok(true);
            };
            let kind = DerivedKind::SearchTerms;
            let found = repo.store().derived(repo.name(), kind, &[next.at]).await?;
            let Some(row) = found.into_iter().flatten().next() else { return Ok(false) };
            let Some(body) = terms_of(next.at, self.number, &row) else { return Ok(false) };
            self.row = row.slice_ref(body);
            self.cursor = RowCursor::default();
        }
        let Some(list) = self.cursor.next(&self.row) else { return Ok(false) };
        self.list = match list {
            List::Single(position) => ReadList::Single(position),
            List::Encoded(bytes) => ReadList::Encoded(self.row.slice_ref(bytes)),
        };
        let Ok(word) = std::str::from_utf8(&self.cursor.word) else { return Ok(false) };
        let kept = self.word.get_or_insert_default();
        word.clone_into(kept);
        Ok(true)
    }

    /// Appends the list of the word, shifted by the segment's offset; `None` when it is damaged.
    fn append_to(&self, list: &mut Vec<Posting>) -> Option<()> {
        match &self.list {
            ReadList::Single(position) => {
                list.push((position.checked_add(self.offset)?, 1));
                Some(())
            }
            ReadList::Encoded(bytes) => postings::decode(bytes, self.offset, list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_joined_until_they_are_large() {
        let size = |commits, bytes| Size { commits, bytes, is_stored: true };
        let full = size(FULL_COMMITS as u32, 3 << 20);
        assert_eq!(joined(&[full; 3]), None);
        assert_eq!(joined(&[full; 15]), Some(vec![0, 1, 2, 3]));
        let large = size(LARGE_COMMITS, 12 << 20);
        let mut sizes = vec![large; 40];
        assert_eq!(joined(&sizes), None);
        sizes.extend([size(600, 30_000); 5]);
        assert_eq!(joined(&sizes), Some(vec![40, 41, 42, 43, 44]), "the smallest first");
        // Few commits with much text.
        assert_eq!(joined(&[size(10_000, FULL_BYTES as u64); 9]), Some(vec![0, 1, 2, 3]));
        assert_eq!(joined(&[size(10_000, LARGE_BYTES); 9]), None);
        assert_eq!(joined(&[Size { is_stored: false, ..full }; 9]), None);
    }
}
