//! Reads snapshots. The checksum only detects damage: anyone who can write to the store can compute
//! one, so the decoder validates everything.

use std::collections::HashSet;
use std::sync::Arc;

use tract_core::store::LocationHint;
use tract_core::{BlobId, CallRef, CommitId, JsonText, Kind, Priority, Role, ToolsetId};

use super::{checked, flag};
use crate::fact::RowFact;
use crate::state::{SnapshotDelta, State};
use crate::view::{Row, RowKey, View};

/// The separate rows of one snapshot.
pub(crate) struct SeparateRows {
    /// Each slot with its row; `None` if the slot no longer has one.
    pub(crate) rows: Vec<(CommitId, Option<Row>)>,
    /// The previous snapshot.
    pub(crate) previous: Option<CommitId>,
}

/// Reads the state at a commit. It is partial if there are separate rows.
pub(crate) fn decode(commit: CommitId, bytes: &[u8]) -> Option<State> {
    let mut reader = Reader(checked(commit, bytes)?);
    let header = Header::read(&mut reader)?;
    let rows = main_rows(&mut reader, &header)?;
    let mut slots = HashSet::with_capacity(rows.len());
    // A checksum does not prove the origin of a snapshot: every client that can write to the store
    // can write one. Duplicate slots or rows out of order would break the invariants of the view.
    if !rows.iter().all(|(row, _)| slots.insert(row.slot)) {
        return None;
    }
    let places: Vec<RowKey> = rows.iter().map(|(row, _)| row.row_key()).collect();
    if !places.is_sorted() {
        return None;
    }
    let view = View::from_parts(rows.iter().map(|(row, _)| *row), header.tools, header.next);
    if view.next() != header.next {
        return None;
    }
    let since =
        SnapshotDelta { snapshot: Some(commit), apart: header.apart, ..SnapshotDelta::default() };
    let mut state = State {
        head: Some(commit),
        view,
        commit_count: header.commit_count,
        tools_set: header.tools_set,
        known_from: (header.apart > 0)
            .then(|| places.last().copied().unwrap_or(RowKey { key: 0, slot: commit })),
        since,
        ..State::default()
    };
    state.restore(rows);
    Some(state)
}

/// Reads the separate rows of a snapshot.
pub(crate) fn separate_rows(commit: CommitId, bytes: &[u8]) -> Option<SeparateRows> {
    let mut reader = Reader(checked(commit, bytes)?);
    let header = Header::read(&mut reader)?;
    main_rows(&mut reader, &header)?;
    let count = reader.integer()?;
    let mut rows = Vec::new();
    for _ in 0..count {
        let slot = CommitId::from_bytes(reader.id()?);
        let flags = reader.integer()?;
        let row = reader.read_if(flags & flag::NO_ROW == 0, |reader| {
            let key = reader.integer()?;
            reader.row(slot, key, flags, &[])
        })?;
        rows.push((slot, row));
    }
    reader.0.is_empty().then_some(SeparateRows { rows, previous: header.previous })
}

struct Header<'a> {
    tools: Option<ToolsetId>,
    previous: Option<CommitId>,
    tools_set: bool,
    commit_count: u64,
    next: u64,
    apart: u64,
    words: Vec<&'a str>,
}

impl<'a> Header<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        reader.byte()?; // the version, which `checked` has seen
        let flags = reader.byte()?;
        let has = |bit: u8| flags & bit != 0;
        let tools = reader.read_if(has(flag::TOOLS), Reader::id)?.map(ToolsetId::from_bytes);
        let previous = reader.read_if(has(flag::PREVIOUS), Reader::id)?.map(CommitId::from_bytes);
        let (commit_count, next, apart) = (reader.integer()?, reader.integer()?, reader.integer()?);
        let mut words = Vec::new();
        for _ in 0..reader.integer()? {
            let length = usize::try_from(reader.integer()?).ok()?;
            words.push(std::str::from_utf8(reader.take(length)?).ok()?);
        }
        let tools_set = has(flag::TOOLS_SET);
        Some(Self { tools, previous, tools_set, commit_count, next, apart, words })
    }

    fn word(&self, number: u64) -> Option<&'a str> {
        self.words.get(usize::try_from(number).ok()?).copied()
    }
}

/// Reads the main part: the rows of the context.
fn main_rows(reader: &mut Reader<'_>, header: &Header<'_>) -> Option<Vec<(Row, Option<RowFact>)>> {
    let mut rows: Vec<(Row, Option<RowFact>)> = Vec::new();
    let mut slots: Vec<CommitId> = Vec::new();
    let mut key = 0u64;
    for _ in 0..reader.integer()? {
        key = key.checked_add(reader.integer()?)?;
        let flags = reader.integer()?;
        let slot = CommitId::from_bytes(reader.id()?);
        let row = reader.row(slot, key, flags, &slots)?;
        let has_fact = flags & flag::FACT != 0;
        let fact = reader.read_if(has_fact, |reader| reader.fact(flags, header, &slots))?;
        rows.push((row, fact));
        slots.push(slot);
    }
    Some(rows)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a value if it is present.
    fn read_if<T>(
        &mut self,
        is_there: bool,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if is_there { read(self).map(Some) } else { Some(None) }
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn id(&mut self) -> Option<[u8; 32]> {
        self.take(32)?.try_into().ok()
    }

    fn integer(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn id_or_place(&mut self, slots: &[CommitId]) -> Option<CommitId> {
        match self.integer()? {
            0 => self.id().map(CommitId::from_bytes),
            place => slots.get(usize::try_from(place - 1).ok()?).copied(),
        }
    }

    fn row(&mut self, slot: CommitId, key: u64, flags: u64, slots: &[CommitId]) -> Option<Row> {
        let has = |bit: u64| flags & bit != 0;
        let version = self.read_if(has(flag::VERSION), Self::id)?;
        let version = version.map_or(slot, CommitId::from_bytes);
        let mark = self.read_if(has(flag::MARK), Self::id)?.map(CommitId::from_bytes);
        let answers = self.read_if(has(flag::ANSWERS), |reader| {
            let slot = reader.id_or_place(slots)?;
            Some(CallRef { slot, index: u32::try_from(reader.integer()?).ok()? })
        })?;
        Some(Row { slot, key, version, mark, answers })
    }

    fn fact(&mut self, flags: u64, header: &Header<'_>, slots: &[CommitId]) -> Option<RowFact> {
        let has = |bit: u64| flags & bit != 0;
        let marked = match self.byte()? {
            0 => None,
            number => Some(Priority::from_number(number - 1)?),
        };
        let kind = match self.integer()? {
            0 => None,
            number => Some(Kind::parse(header.word(number - 1)?)),
        };
        let word = |reader: &mut Self| header.word(reader.integer()?);
        let content = self.read_if(has(flag::CONTENT), Self::id)?.map(BlobId::from_bytes);
        let role = match self.read_if(has(flag::ROLE), word)? {
            Some(word) => Role::parse(word),
            None => kind.as_ref()?.default_role(),
        };
        let form = self.read_if(has(flag::FORM), word)?.map(Arc::from);
        let verbatim = self.read_if(has(flag::VERBATIM), Self::id)?.map(BlobId::from_bytes);
        let generation_config = self
            .read_if(has(flag::CONFIG), |reader| word(reader).and_then(JsonText::from_canonical))?;
        let joins = self.read_if(has(flag::JOINS), |reader| reader.id_or_place(slots))?;
        let hint = self.read_if(has(flag::HINT), Self::integer)?.map(LocationHint);
        let joined = has(flag::JOINED);
        let mut fact = RowFact {
            content,
            kind,
            role,
            form,
            joins,
            joined,
            verbatim,
            generation_config,
            hint,
            ..RowFact::nothing()
        };
        fact.mark(marked);
        Some(fact)
    }
}
