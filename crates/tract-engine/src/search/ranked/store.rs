//! Stores segments as derived rows, and reads their words.
//!
//! A segment's rows are kept with commits of its own: its description with a mark, rows of words
//! with others. A large segment is written in several batches, the description last, so that what
//! a reader finds is complete or not found at all. Each batch requires that no other client has
//! written the index since this one read it ([`IndexState`]). Rows that a joined segment no longer
//! needs are emptied after it is described; a reader that still wants one finds out, and starts over.

use bytes::Bytes;
use tract_compile::IdSet;
use tract_core::{CommitId, DerivedKind, DerivedRow};

use super::segment::{Segment, Terms, TermsRow};
use super::state::{IndexState, is_conflict};
use super::terms::{RowWriter, find};
use super::wire::{Frame, frame, unframe};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// Bytes of a row of words, about.
const ROW_BYTES: usize = 48 << 10;
/// Bytes that are written together, about.
const BATCH_BYTES: usize = 4 << 20;
/// How often rows of a segment that was replaced are emptied again after another client wrote first.
const TRIES: usize = 8;

/// Stores a segment that was built in memory. Where the store refuses, because it is read-only or
/// full, or where another client has written the index since it was read, the segment comes back
/// as it was, and `false`.
pub(super) async fn store(
    repo: &Repo,
    state: &mut IndexState,
    segment: Segment,
) -> Result<(Segment, bool)> {
    let Terms::Memory(terms) = &segment.terms else { return Ok((segment, true)) };
    let bytes = terms.iter().map(|(word, list)| word.len() + list.len()).sum::<usize>() as u64;
    let none = IdSet::default();
    let mut writer = Writer::new(repo, state, &segment, bytes, &none, none.clone());
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
pub(super) struct Writer<'a> {
    repo: &'a Repo,
    state: &'a mut IndexState,
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
    pub(super) fn new(
        repo: &'a Repo,
        state: &'a mut IndexState,
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
        let number = number_of(segment, state);
        Self {
            repo,
            state,
            number,
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
    pub(super) async fn add(&mut self, word: &str, list: &[u8]) -> Result<()> {
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
            self.state.store(self.repo, std::mem::take(&mut self.pending)).await?;
        }
        Ok(())
    }

    /// Writes the description and the marks, and empties rows of segments that this one replaces.
    pub(super) async fn finish(
        mut self,
        mut segment: Segment,
        replaced: &[&Segment],
    ) -> Result<Segment> {
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
        self.state.store(self.repo, rows).await?;
        for old in replaced {
            empty_terms(self.repo, self.state, old, &used).await?;
        }
        Ok(segment)
    }
}

/// Drops a segment that cannot be used: its description, and then its words, which no reader looks for
/// any more.
///
/// # Errors
/// As [`IndexState::store`]. The segment is then found unusable again, or another client dropped it.
pub(super) async fn drop_segment(
    repo: &Repo,
    state: &mut IndexState,
    segment: &Segment,
) -> Result<()> {
    let Some(at) = segment.at else { return Ok(()) };
    let (name, kind) = (repo.name(), DerivedKind::SearchMark);
    let found = repo.store().derived(name, kind, &[at]).await?;
    let described = found.first().and_then(|row| unframe(at, row.as_ref()?));
    if described.is_some_and(|(_, number, _)| number == segment.number) {
        let row = DerivedRow { kind, commit: at, bytes: Bytes::new() };
        state.store(repo, vec![row]).await?;
    }
    empty_terms(repo, state, segment, &IdSet::default()).await
}

/// Empties the rows of words of a segment that is not used any more, but those that are `used` or
/// that another client has given to another segment since.
async fn empty_terms(
    repo: &Repo,
    state: &mut IndexState,
    segment: &Segment,
    used: &IdSet<CommitId>,
) -> Result<()> {
    let Terms::Stored { rows, .. } = &segment.terms else { return Ok(()) };
    let unused: Vec<CommitId> =
        rows.iter().map(|row| row.at).filter(|at| !used.contains(at)).collect();
    let kind = DerivedKind::SearchTerms;
    for commits in unused.chunks(64) {
        // After a conflict the position is read again for this write alone: `state` stays what the
        // segments were read at.
        let mut newer = None;
        for tries_left in (0..TRIES).rev() {
            let state = newer.as_mut().unwrap_or(&mut *state);
            let found = repo.store().derived(repo.name(), kind, commits).await?;
            let own = commits.iter().zip(found).filter(|(at, row)| {
                row.as_ref().is_some_and(|row| terms_of(**at, segment.number, row).is_some())
            });
            let own: Vec<CommitId> = own.map(|(at, _)| *at).collect();
            let known = repo.store().commits(repo.name(), &own).await?;
            let empty = |id| DerivedRow { kind, commit: id, bytes: Bytes::new() };
            let rows = known.into_iter().flatten().map(|commit| empty(commit.id()));
            match state.store(repo, rows.collect()).await {
                Err(error) if is_conflict(&error) && tries_left > 0 => {
                    newer = Some(IndexState::read(repo).await?);
                }
                stored => {
                    stored?;
                    break;
                }
            }
        }
    }
    Ok(())
}

fn unusable() -> Error {
    Error::Damaged { object: None, what: "a segment of the search index has no marks".to_owned() }
}

/// Returns the number of a segment, by its commits and the position of the index at which it is
/// written: no two segments that were ever stored have the same.
fn number_of(segment: &Segment, state: &IndexState) -> u64 {
    let mut bytes = state.bytes();
    for (at, id) in &segment.marks {
        bytes.extend_from_slice(&at.to_le_bytes());
        bytes.extend_from_slice(id.as_bytes());
    }
    let id = tract_core::Blob::seal(bytes).id();
    id.as_bytes().first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first))
}

/// Returns the words in a row, if it is of this segment.
pub(super) fn terms_of(at: CommitId, number: u64, row: &[u8]) -> Option<&[u8]> {
    let (sort, of, body) = unframe(at, row)?;
    (sort == Frame::Terms as u8 && of == number).then_some(body)
}

/// Reads the encoded list of each word, empty where the segment has none, all rows of the segment
/// together; `None` when a row is damaged or gone.
pub(super) async fn word_lists(
    repo: &Repo,
    segment: &Segment,
    words: &[String],
) -> Result<Option<Vec<Vec<u8>>>> {
    let rows = match &segment.terms {
        Terms::Memory(terms) => {
            let list = |word: &String| {
                let found = terms.binary_search_by(|(known, _)| known.cmp(word)).ok();
                found.and_then(|at| terms.get(at)).map(|(_, list)| list.clone()).unwrap_or_default()
            };
            return Ok(Some(words.iter().map(list).collect()));
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
            return Ok(None);
        };
        let Some(list) = find(body, word) else { return Ok(None) };
        lists.push(list);
    }
    Ok(Some(lists))
}
