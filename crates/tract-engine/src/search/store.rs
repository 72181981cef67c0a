//! Stores segments as derived rows, joins them, and reads their words.
//!
//! A segment's rows are kept with commits of its own: its description with a mark, rows of words
//! with others. A large segment is written in several batches, the description last, so that what
//! a reader finds is complete or not found at all. Rows that a joined segment no longer needs are
//! emptied after it is described; a reader that still wants one finds out, and starts over.

use std::collections::HashMap;

use bytes::Bytes;
use tract_compile::IdSet;
use tract_core::{CommitId, DerivedKind, DerivedRow};

use super::build::{FULL_BYTES, FULL_COMMITS};
use super::index::Index;
use super::postings::{self, Posting};
use super::segment::{Effect, Event, Ref, Run, Segment, SegmentPlace, Terms, TermsRow};
use super::terms::{List, RowCursor, RowWriter, find};
use super::wire::{Frame, frame, unframe};
use crate::error::{Error, Result};
use crate::repo::Repo;
use crate::txn::store_derived;

/// Bytes of a row of words, about.
const ROW_BYTES: usize = 48 << 10;
/// Bytes that are written together, about.
const BATCH_BYTES: usize = 4 << 20;
/// Segments of about the same size that are joined into one.
const JOINED: usize = 4;
/// Commits and bytes of words from which on a segment is not joined any more. What a search writes
/// on the way is bounded by them, and so is the space that replaced rows leave in the store.
const LARGE_COMMITS: u32 = 4 * FULL_COMMITS as u32;
const LARGE_BYTES: u64 = 4 * FULL_BYTES as u64;

/// Stores a segment that was built in memory. Where the store refuses, because it is read-only or
/// full, the segment comes back as it was, and `false`.
pub(super) async fn store(repo: &Repo, segment: Segment) -> Result<(Segment, bool)> {
    let Terms::Memory(terms) = &segment.terms else { return Ok((segment, true)) };
    let bytes = terms.iter().map(|(word, list)| word.len() + list.len()).sum::<usize>() as u64;
    let none = IdSet::default();
    let mut writer = Writer::new(repo, &segment, bytes, &none, none.clone());
    for (word, list) in terms {
        if writer.add(word, list).await.is_err() {
            return Ok((segment, false));
        }
    }
    match writer.finish(segment.clone(), &[]).await {
        Ok(segment) => Ok((segment, true)),
        Err(_left_away) => Ok((segment, false)),
    }
}

/// Returns the commits with which rows of a segment can be kept: marks, those of long runs first,
/// as a branch with much history is less likely to be deleted.
fn keys(segment: &Segment, taken: &IdSet<CommitId>) -> Vec<CommitId> {
    let mut keys: Vec<(u32, CommitId)> = segment
        .marks
        .iter()
        .filter(|(_, id)| !taken.contains(id))
        .map(|(at, id)| {
            let run = segment.run_of(*at).and_then(|run| segment.runs.get(run));
            (run.map_or(0, |run| run.len), *id)
        })
        .collect();
    keys.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
    keys.into_iter().map(|(_, id)| id).collect()
}

/// Writes the rows of a segment.
struct Writer<'a> {
    repo: &'a Repo,
    number: u64,
    keys: std::vec::IntoIter<CommitId>,
    row_bytes: usize,
    /// Whether rows may be written before the description.
    early: bool,
    row: RowWriter,
    pending: Vec<DerivedRow>,
    pending_bytes: usize,
    rows: Vec<TermsRow>,
    bytes: u64,
    /// Commits that are not stored any more.
    gone: IdSet<CommitId>,
}

impl<'a> Writer<'a> {
    /// `taken` are commits with which rows of words are kept that others read meanwhile, and
    /// `gone` those that are not stored any more.
    fn new(
        repo: &'a Repo,
        segment: &Segment,
        bytes: u64,
        taken: &IdSet<CommitId>,
        gone: IdSet<CommitId>,
    ) -> Self {
        let mut keys = keys(segment, &gone);
        let free = keys.iter().filter(|id| !taken.contains(*id)).count();
        // With fewer commits than rows of the usual size, rows are larger, and written at once.
        let early = free >= 2 * (2 + bytes as usize / ROW_BYTES);
        match early {
            true => keys.retain(|id| !taken.contains(id)),
            false => keys.sort_by_key(|id| taken.contains(id)),
        }
        let row_bytes = ROW_BYTES.max(2 * bytes as usize / keys.len().max(1));
        Self {
            repo,
            number: number_of(segment),
            keys: keys.into_iter(),
            row_bytes,
            early,
            row: RowWriter::default(),
            pending: Vec::new(),
            pending_bytes: 0,
            rows: Vec::new(),
            bytes: 0,
            gone,
        }
    }

    /// Adds the next word, in order.
    async fn add(&mut self, word: &str, list: &[u8]) -> Result<()> {
        let is_last_key = self.keys.len() == 1;
        if self.row.len() >= self.row_bytes && !is_last_key {
            self.end_row().await?;
        }
        self.row.add(word, list);
        Ok(())
    }

    async fn end_row(&mut self) -> Result<()> {
        let (first, row) = self.row.finish();
        if row.is_empty() {
            return Ok(());
        }
        // There are marks in every segment, and the last of them is used for all that is left.
        let Some(at) = self.keys.next() else { return Err(unusable()) };
        self.bytes += row.len() as u64;
        self.rows.push(TermsRow { at, first });
        let bytes = frame(Frame::Terms, at, self.number, &row);
        self.pending_bytes += bytes.len();
        self.pending.push(DerivedRow {
            kind: DerivedKind::SearchTerms,
            commit: at,
            bytes: bytes.into(),
        });
        if self.early && self.pending_bytes >= BATCH_BYTES {
            self.pending_bytes = 0;
            store_derived(self.repo, std::mem::take(&mut self.pending)).await?;
        }
        Ok(())
    }

    /// Writes the description and the marks, and empties rows of segments that this one replaces.
    async fn finish(mut self, mut segment: Segment, replaced: &[&Segment]) -> Result<Segment> {
        self.end_row().await?;
        let gone = self.gone;
        let mut marks = segment.marks.iter().map(|(_, id)| *id).filter(|id| !gone.contains(id));
        let Some(at) = marks.next() else { return Err(unusable()) };
        segment.number = self.number;
        segment.at = Some(at);
        let used: IdSet<CommitId> = self.rows.iter().map(|row| row.at).collect();
        segment.terms = Terms::Stored { rows: self.rows, bytes: self.bytes };
        let mut rows = self.pending;
        for (_, id) in segment.marks.iter().filter(|(_, id)| !gone.contains(id)) {
            let bytes = match *id == at {
                true => frame(Frame::Segment, at, self.number, &segment.encode()),
                false => frame(Frame::Mark, *id, self.number, at.as_bytes()),
            };
            rows.push(DerivedRow {
                kind: DerivedKind::SearchMark,
                commit: *id,
                bytes: bytes.into(),
            });
        }
        store_derived(self.repo, rows).await?;
        for old in replaced {
            let Terms::Stored { rows, .. } = &old.terms else { continue };
            let unused = rows.iter().map(|row| row.at).filter(|at| !used.contains(at)).collect();
            write_empty(self.repo, unused).await?;
        }
        Ok(segment)
    }
}

/// Empties the words of a segment that is not used any more. What fails is left: nothing reads it.
pub(super) async fn empty(repo: &Repo, segment: &Segment) {
    if let Terms::Stored { rows, .. } = &segment.terms {
        let _left_away = write_empty(repo, rows.iter().map(|row| row.at).collect()).await;
    }
}

async fn write_empty(repo: &Repo, commits: Vec<CommitId>) -> Result<()> {
    for commits in commits.chunks(1024) {
        let known = repo.store().commits(repo.name(), commits).await?;
        let rows = known.into_iter().flatten().map(|commit| DerivedRow {
            kind: DerivedKind::SearchTerms,
            commit: commit.id(),
            bytes: Bytes::new(),
        });
        store_derived(repo, rows.collect()).await?;
    }
    Ok(())
}

fn unusable() -> Error {
    Error::Damaged { object: None, what: "a segment of the search index has no marks".to_owned() }
}

/// Returns the number of a segment, by what is in it: the same for all that build it.
fn number_of(segment: &Segment) -> u64 {
    let mut bytes = Vec::with_capacity(segment.marks.len() * 36);
    for (at, id) in &segment.marks {
        bytes.extend_from_slice(&at.to_le_bytes());
        bytes.extend_from_slice(id.as_bytes());
    }
    let id = tract_core::Blob::seal(bytes).id();
    id.as_bytes().first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first))
}

/// Joins segments of about the same size while there are many of them, so that there are few of
/// any size. Returns `false` where the store refuses.
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
                index.clear();
                for segment in segments {
                    index.take_described(segment);
                }
            }
            // Others joined them meanwhile; what they did is found next time.
            Ok(None) => return Ok(true),
            Err(_left_away) => return Ok(false),
        }
    }
}

/// How large a segment is.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    commits: u32,
    /// Of words.
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

/// Returns the segments to join next, by place: several of about the same size, but not more than
/// make a large one.
fn joined(sizes: &[Size]) -> Option<Vec<usize>> {
    let mut by_size: HashMap<u32, Vec<usize>> = HashMap::new();
    for (place, size) in sizes.iter().enumerate() {
        if size.is_stored && !size.is_large() {
            by_size.entry(size.commits.max(256).ilog2() / 2).or_default().push(place);
        }
    }
    let full = by_size.into_iter().filter(|(_, places)| places.len() >= JOINED);
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
    let mut taken = IdSet::default();
    let mut bytes = 0;
    for input in &inputs {
        if let Terms::Stored { rows, bytes: size } = &input.terms {
            taken.extend(rows.iter().map(|row| row.at));
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
    let mut writer = Writer::new(repo, &segment, bytes, &taken, gone);
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
        for reader in words.iter_mut().filter(|reader| reader.word.as_ref() == Some(&word)) {
            if reader.append_to(&mut list).is_none() || !reader.advance(repo).await? {
                return Ok(None);
            }
        }
        writer.add(&word, &postings::encode(&list)).await?;
    }
    Ok(Some(writer.finish(segment, &inputs.iter().collect::<Vec<_>>()).await?))
}

/// Puts the descriptions of segments together, one after the other.
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

async fn moved(
    index: &mut Index<'_>,
    segment: u32,
    named: Ref,
    offsets: &HashMap<u32, u32>,
) -> Result<Ref> {
    let place = index.resolve(segment, named).await?;
    Ok(match place {
        Some(SegmentPlace { segment, position }) => match offsets.get(&segment) {
            Some(offset) => Ref::Here(position + offset),
            None => named,
        },
        None => named,
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

/// Reads the words of a segment in order, a row at a time.
struct WordReader<'a> {
    number: u64,
    offset: u32,
    rows: std::slice::Iter<'a, TermsRow>,
    row: Bytes,
    cursor: RowCursor,
    word: Option<String>,
    /// Where the word's list is in the row.
    list: ReadList,
}

/// A list of a row, by place.
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

    /// Goes to the next word, or none at the end; `false` when a row is damaged or gone.
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

    /// Appends the list of the word, moved to its place; `None` when it is damaged.
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

/// Returns the words in a row, if it is of this segment.
fn terms_of(at: CommitId, number: u64, row: &[u8]) -> Option<&[u8]> {
    let (sort, of, body) = unframe(at, row)?;
    (sort == Frame::Terms as u8 && of == number).then_some(body)
}

/// What a segment says of words: the encoded list of each, empty where it has none.
pub(super) enum WordLists {
    Lists(Vec<Vec<u8>>),
    /// A row is damaged or gone.
    Gone,
}

/// Reads the lists of words, all rows of the segment together.
pub(super) async fn word_lists(
    repo: &Repo,
    segment: &Segment,
    words: &[String],
) -> Result<WordLists> {
    let rows = match &segment.terms {
        Terms::Memory(terms) => {
            let list = |word: &String| {
                let found = terms.binary_search_by(|(known, _)| known.cmp(word)).ok();
                found.and_then(|at| terms.get(at)).map(|(_, list)| list.clone()).unwrap_or_default()
            };
            return Ok(WordLists::Lists(words.iter().map(list).collect()));
        }
        Terms::Stored { rows, .. } => rows,
    };
    let mut wanted: Vec<CommitId> = Vec::new();
    let mut places = Vec::new();
    for word in words {
        let after = rows.partition_point(|row| row.first <= *word);
        let row = after.checked_sub(1).and_then(|at| rows.get(at));
        places.push(row.map(|row| {
            wanted.iter().position(|at| *at == row.at).unwrap_or_else(|| {
                wanted.push(row.at);
                wanted.len() - 1
            })
        }));
    }
    let found = match wanted.as_slice() {
        [] => Vec::new(),
        wanted => repo.store().derived(repo.name(), DerivedKind::SearchTerms, wanted).await?,
    };
    let mut lists = Vec::new();
    for (word, place) in words.iter().zip(places) {
        let Some(place) = place else {
            lists.push(Vec::new());
            continue;
        };
        let at = wanted.get(place).zip(found.get(place).and_then(Option::as_ref));
        let Some(body) = at.and_then(|(at, row)| terms_of(*at, segment.number, row)) else {
            return Ok(WordLists::Gone);
        };
        let Some(list) = find(body, word) else { return Ok(WordLists::Gone) };
        lists.push(list);
    }
    Ok(WordLists::Lists(lists))
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
