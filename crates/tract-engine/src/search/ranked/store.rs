//! Writes segments as derived rows, and reads their words.
//!
//! The rows of a segment are stored under commits of the segment itself: the description under a
//! mark, the rows of words under others. A large segment is written in several batches, the
//! description last, so that a reader sees either a complete segment or none. Each batch requires
//! that no other client has written the index since this one read it ([`IndexState`]). Rows that a
//! joined segment no longer needs are emptied after it is described. A reader that still needs one
//! notices, and starts over.

use bytes::Bytes;
use tract_compile::IdSet;
use tract_core::{CommitId, DerivedKind, DerivedRow};

use super::query::{Form, Term};
use super::segment::{Segment, Terms, TermsRow};
use super::state::{IndexState, is_conflict};
use super::terms::{RowWriter, matching};
use super::wire::{Frame, frame, unframe};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// Approximate size of a row of words, in bytes.
const ROW_BYTES: usize = 48 << 10;
/// Approximate size of a batch, in bytes.
const BATCH_BYTES: usize = 4 << 20;
/// Number of attempts to empty the rows of a replaced segment when other clients write at the same
/// time.
const TRIES: usize = 8;

/// Stores a segment that was built in memory. Returns the segment unchanged and `false` if the
/// store is read-only or full, or if another client has written the index since it was read.
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

/// Returns the commits under which rows of a segment can be stored: its marks, those of long runs
/// first, because a branch with a long history is less likely to be deleted.
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
    /// Commits that are no longer stored.
    gone: IdSet<CommitId>,
}

impl<'a> Writer<'a> {
    /// `taken` are commits whose rows belong to segments that readers still use. `gone` are commits
    /// that are no longer stored.
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
        // Rows written before the description must not overwrite rows that readers still use. With
        // too few free commits, the rows are larger and are written together with the description.
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

    /// Adds the next word. Words must be added in sorted order.
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
        // Every segment has marks, and the last one takes all remaining words.
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

    /// Writes the description and the marks, then empties the rows of the segments that this one
    /// replaces.
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
                true => {
                    let description = self.state.stamped(&segment.encode());
                    frame(Frame::Segment, at, self.number, &description)
                }
                false => frame(Frame::Mark, *id, self.number, at.as_bytes()),
            };
            rows.push(DerivedRow {
                kind: DerivedKind::SearchMark,
                commit: *id,
                bytes: bytes.into(),
            });
        }
        // The description is written last, together with the terms that are not stored yet: a
        // reader that finds it finds all its terms.
        self.state.store(self.repo, rows).await?;
        // Only now: readers used the replaced segments until the description was stored.
        for old in replaced {
            empty_terms(self.repo, self.state, old, &used).await?;
        }
        Ok(segment)
    }
}

/// Drops an unusable segment: its description first, then its words, which no reader looks for
/// after that.
///
/// # Errors
/// Those of [`IndexState::store`]. The segment is then found unusable again, or another client
/// dropped it.
pub(super) async fn drop_segment(
    repo: &Repo,
    state: &mut IndexState,
    segment: &Segment,
) -> Result<()> {
    let Some(at) = segment.at else { return Ok(()) };
    let (name, kind) = (repo.name(), DerivedKind::SearchMark);
    let found = repo.store().derived(name, kind, &[at]).await?;
    let described = found.first().and_then(|row| unframe(at, row.as_ref()?));
    // Another client may have described another segment at this commit since.
    if described.is_some_and(|(_, number, _)| number == segment.number) {
        let row = DerivedRow { kind, commit: at, bytes: Bytes::new() };
        state.store(repo, vec![row]).await?;
    }
    // After the description: without it, no reader looks for the terms.
    empty_terms(repo, state, segment, &IdSet::default()).await
}

/// Empties the rows of words of a segment that is no longer used, except those that are `used` by
/// the new segment or that another client has given to another segment in the meantime.
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
        // After a conflict the position is read again for this write alone. `state` keeps the
        // position at which the segments were read, so that a later write of the segments still
        // detects the other client.
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

/// Returns the number of a segment: a hash of its marks and of the position of the index at which
/// it is written. No two stored segments have the same number, so a row left over from an earlier
/// segment is never mistaken for a row of this one.
fn number_of(segment: &Segment, state: &IndexState) -> u64 {
    let mut bytes = state.bytes();
    for (at, id) in &segment.marks {
        bytes.extend_from_slice(&at.to_le_bytes());
        bytes.extend_from_slice(id.as_bytes());
    }
    let id = tract_core::Blob::seal(bytes).id();
    id.as_bytes().first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first))
}

/// Returns the words in a row, if the row belongs to this segment.
pub(super) fn terms_of(at: CommitId, number: u64, row: &[u8]) -> Option<&[u8]> {
    let (sort, of, body) = unframe(at, row)?;
    (sort == Frame::Terms as u8 && of == number).then_some(body)
}

/// The encoded lists of the words that match a term.
#[derive(Debug, Default)]
pub(super) struct TermLists {
    /// Lists of words that are as in the query.
    pub(super) exact: Vec<Vec<u8>>,
    /// Lists of other words with the same stem.
    pub(super) stem: Vec<Vec<u8>>,
}

impl TermLists {
    fn push(&mut self, form: Form, list: Vec<u8>) {
        match form {
            Form::Exact => self.exact.push(list),
            Form::Stem => self.stem.push(list),
        }
    }
}

/// Reads the encoded lists of each term, all rows in one read. `None` when a row is damaged or
/// missing.
pub(super) async fn term_lists(
    repo: &Repo,
    segment: &Segment,
    terms: &[Term],
) -> Result<Option<Vec<TermLists>>> {
    let rows = match &segment.terms {
        Terms::Memory(words) => {
            return Ok(Some(terms.iter().map(|term| lists_in_memory(words, term)).collect()));
        }
        Terms::Stored { rows, .. } => rows,
    };
    let mut wanted: Vec<CommitId> = Vec::new();
    let mut ranges = Vec::new();
    for term in terms {
        // The words before the first word of a row are in the row before it.
        let start = rows.partition_point(|row| row.first.as_str() <= term.first());
        let start = start.saturating_sub(1);
        let end = rows.partition_point(|row| !term.ends_before(row.first.as_bytes()));
        ranges.push(start..end);
        wanted.extend(rows.get(start..end).unwrap_or_default().iter().map(|row| row.at));
    }
    wanted.sort_unstable();
    wanted.dedup();
    let found = match wanted.as_slice() {
        [] => Vec::new(),
        wanted => repo.store().derived(repo.name(), DerivedKind::SearchTerms, wanted).await?,
    };
    let mut all = Vec::with_capacity(terms.len());
    for (term, range) in terms.iter().zip(ranges) {
        let mut lists = TermLists::default();
        for row in rows.get(range).unwrap_or_default() {
            let place = wanted.binary_search(&row.at).ok();
            let stored = place.and_then(|place| found.get(place)).and_then(Option::as_ref);
            let body = stored.and_then(|stored| terms_of(row.at, segment.number, stored));
            let read = body.and_then(|body| {
                matching(body, term, |form, list| lists.push(form, list.encoded()))
            });
            if read.is_none() {
                return Ok(None);
            }
        }
        all.push(lists);
    }
    Ok(Some(all))
}

fn lists_in_memory(words: &[(String, Vec<u8>)], term: &Term) -> TermLists {
    let start = words.partition_point(|(word, _)| word.as_str() < term.first());
    let mut lists = TermLists::default();
    for (word, list) in words.get(start..).unwrap_or_default() {
        if term.ends_before(word.as_bytes()) {
            break;
        }
        if let Some(form) = term.matches(word) {
            lists.push(form, list.clone());
        }
    }
    lists
}
