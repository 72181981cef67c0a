//! The encoding of a row of the turn index, which is stored with its commit.
//!
//! One version byte; the name of the counter; the row before; the counts of the history at the
//! commit; the entries, with names as positions in a table; and eight bytes of a hash over the
//! commit and everything before.

use std::collections::HashMap;

use tract_compile::HistoryCounts;
use tract_core::{Blob, CallRef, CommitId, DerivedKind, DerivedRow};

use super::entry::TurnEntry;
use super::{FoundCall, FoundResult};
use crate::repo::Repo;
use crate::repo::wire::{Input, put, put_bytes};

/// The version of the format.
const VERSION: u8 = 2;
/// The version without counts. Such rows are still read.
const WITHOUT_COUNTS: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnRow {
    /// The name of the token counter.
    pub(crate) counter: String,
    /// The nearest earlier commit of the history whose row has entries.
    pub(crate) before: Option<CommitId>,
    /// The counts at the commit; `None` in rows of older versions.
    pub(crate) history: Option<CountedHistory>,
    /// The entries of the commits since the row before, oldest first.
    pub(crate) entries: Vec<TurnEntry>,
}

/// The counts of a history at the commit of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedHistory {
    pub(crate) counts: HistoryCounts,
    /// The nearest earlier commit of the history that was known to have a row.
    pub(crate) previous: Option<CommitId>,
}

mod tag {
    pub(super) const CALLS: u8 = 0;
    pub(super) const ANSWER: u8 = 1;
    pub(super) const NEW_CALLS: u8 = 2;
    pub(super) const NEW_ANSWER: u8 = 3;
    pub(super) const GONE: u8 = 4;
    pub(super) const KINDS: u8 = 7;

    /// The version differs from the slot.
    pub(super) const VERSION: u8 = 1 << 3;
    pub(super) const IS_ERROR: u8 = 1 << 4;
    pub(super) const NAMED: u8 = 1 << 5;
    /// The call is in this row: its position among the entries follows, not its id.
    pub(super) const NEAR: u8 = 1 << 6;
    /// It answers a call.
    pub(super) const BOUND: u8 = 1 << 7;
}

impl TurnRow {
    pub(super) fn new(repo: &Repo, before: Option<CommitId>, entries: Vec<TurnEntry>) -> Self {
        Self { counter: repo.counter().name().to_owned(), before, history: None, entries }
    }

    /// Adds the counts of the history, if known.
    pub(super) fn counted(
        mut self,
        counts: Option<HistoryCounts>,
        previous: Option<CommitId>,
    ) -> Self {
        self.history = counts.map(|counts| CountedHistory { counts, previous });
        self
    }

    /// Returns the nearest commit whose row has entries. `at` is the commit of this row.
    pub(super) fn spoken(&self, at: CommitId) -> Option<CommitId> {
        if self.entries.is_empty() { self.before } else { Some(at) }
    }

    /// Encodes it as the derived row of a commit.
    pub(crate) fn encode(&self, commit: CommitId) -> DerivedRow {
        let mut out = vec![if self.history.is_some() { VERSION } else { WITHOUT_COUNTS }];
        put_bytes(&mut out, self.counter.as_bytes());
        put_commit(&mut out, self.before);
        if let Some(CountedHistory { counts, previous }) = &self.history {
            let HistoryCounts { commits, rows, shown, next, tools_set } = *counts;
            [commits, rows, shown, next].into_iter().for_each(|number| put(&mut out, number));
            out.push(u8::from(tools_set));
            put_commit(&mut out, *previous);
        }
        let mut names: Vec<&str> = self.entries.iter().flat_map(names_of).collect();
        names.sort_unstable();
        names.dedup();
        put(&mut out, names.len() as u64);
        names.iter().for_each(|name| put_bytes(&mut out, name.as_bytes()));
        put(&mut out, self.entries.len() as u64);
        let mut places: HashMap<CommitId, u64> = HashMap::new();
        for (place, entry) in (0..).zip(&self.entries) {
            write(&mut out, entry, &names, &places);
            if let TurnEntry::Calls(call) = entry {
                places.insert(call.id, place);
            }
        }
        let sum = checksum(commit, &out);
        out.extend_from_slice(&sum);
        DerivedRow { kind: DerivedKind::Turn, commit, bytes: out.into() }
    }

    /// Decodes a row; `None` if the bytes are damaged or of another version.
    pub(crate) fn decode(commit: CommitId, bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(commit, body) != *sum {
            return None;
        }
        let mut input = Input(body);
        let version = input.byte()?;
        let counter = input.text()?;
        let before = input.commit()?;
        let history = match version {
            WITHOUT_COUNTS => None,
            VERSION => {
                let counts = HistoryCounts {
                    commits: input.number()?,
                    rows: input.number()?,
                    shown: input.number()?,
                    next: input.number()?,
                    tools_set: input.byte()? != 0,
                };
                Some(CountedHistory { counts, previous: input.commit()? })
            }
            _ => return None,
        };
        let count = input.number()?;
        let names = (0..count).map(|_| input.text()).collect::<Option<Vec<String>>>()?;
        let count = input.number()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let entry = input.entry(&names, &entries)?;
            entries.push(entry);
        }
        input.0.is_empty().then_some(Self { counter, before, history, entries })
    }
}

fn put_commit(out: &mut Vec<u8>, commit: Option<CommitId>) {
    out.push(u8::from(commit.is_some()));
    if let Some(commit) = commit {
        out.extend_from_slice(commit.as_bytes());
    }
}

fn names_of(entry: &TurnEntry) -> Vec<&str> {
    match entry {
        TurnEntry::Calls(call) | TurnEntry::NewCalls(call) => {
            call.tool_names.iter().map(String::as_str).collect()
        }
        TurnEntry::Answer(result) | TurnEntry::NewAnswer(result) => {
            result.name.as_deref().into_iter().collect()
        }
        TurnEntry::Gone(_) => Vec::new(),
    }
}

fn checksum(commit: CommitId, bytes: &[u8]) -> [u8; 8] {
    let mut all = b"tract-turns-1\0".to_vec();
    all.extend_from_slice(commit.as_bytes());
    all.extend_from_slice(bytes);
    *Blob::seal(all).id().as_bytes().first_chunk().expect("an id has 32 bytes")
}

fn write(out: &mut Vec<u8>, entry: &TurnEntry, names: &[&str], places: &HashMap<CommitId, u64>) {
    let name_place = |name: &str| names.binary_search(&name).unwrap_or_default() as u64;
    match entry {
        TurnEntry::Calls(call) | TurnEntry::NewCalls(call) => {
            let kind = match entry {
                TurnEntry::Calls(_) => tag::CALLS,
                _ => tag::NEW_CALLS,
            };
            start(out, kind, call.id, call.version);
            put(out, call.tokens);
            put(out, call.tool_names.len() as u64);
            call.tool_names.iter().for_each(|name| put(out, name_place(name)));
        }
        TurnEntry::Answer(result) | TurnEntry::NewAnswer(result) => {
            let near = result.call.and_then(|call| places.get(&call.slot).copied());
            let kind = match entry {
                TurnEntry::Answer(_) => tag::ANSWER,
                _ => tag::NEW_ANSWER,
            };
            let flags = (u8::from(result.is_error) * tag::IS_ERROR)
                | (u8::from(result.name.is_some()) * tag::NAMED)
                | (u8::from(near.is_some()) * tag::NEAR)
                | (u8::from(result.call.is_some()) * tag::BOUND);
            start(out, kind | flags, result.id, result.version);
            put(out, result.tokens);
            if let Some(name) = &result.name {
                put(out, name_place(name));
            }
            if let Some(call) = result.call {
                match near {
                    Some(place) => put(out, place),
                    None => out.extend_from_slice(call.slot.as_bytes()),
                }
                put(out, u64::from(call.index));
            }
        }
        TurnEntry::Gone(slot) => start(out, tag::GONE, *slot, *slot),
    }
}

fn start(out: &mut Vec<u8>, tag: u8, slot: CommitId, version: CommitId) {
    let other = slot != version;
    out.push(if other { tag | tag::VERSION } else { tag });
    out.extend_from_slice(slot.as_bytes());
    if other {
        out.extend_from_slice(version.as_bytes());
    }
}

impl Input<'_> {
    fn commit(&mut self) -> Option<Option<CommitId>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.id().map(Some),
            _ => None,
        }
    }

    fn name(&mut self, names: &[String]) -> Option<String> {
        names.get(usize::try_from(self.number()?).ok()?).cloned()
    }

    fn entry(&mut self, names: &[String], before: &[TurnEntry]) -> Option<TurnEntry> {
        let head = self.byte()?;
        let id = self.id()?;
        let version = if head & tag::VERSION != 0 { self.id()? } else { id };
        Some(match head & tag::KINDS {
            kind @ (tag::CALLS | tag::NEW_CALLS) => {
                let tokens = self.number()?;
                let count = self.number()?;
                let names =
                    (0..count).map(|_| self.name(names)).collect::<Option<Vec<String>>>()?;
                let call = FoundCall { id, version, tool_names: names, tokens };
                if kind == tag::CALLS { TurnEntry::Calls(call) } else { TurnEntry::NewCalls(call) }
            }
            kind @ (tag::ANSWER | tag::NEW_ANSWER) => {
                let tokens = self.number()?;
                let name = if head & tag::NAMED != 0 { Some(self.name(names)?) } else { None };
                let is_error = head & tag::IS_ERROR != 0;
                let call = match (head & tag::BOUND != 0, head & tag::NEAR != 0) {
                    (false, _) => None,
                    (true, near) => {
                        let slot = if near { self.near(before)? } else { self.id()? };
                        let index = u32::try_from(self.number()?).ok()?;
                        Some(CallRef { slot, index })
                    }
                };
                let result = FoundResult { id, version, name, call, is_error, tokens };
                match kind {
                    tag::ANSWER => TurnEntry::Answer(result),
                    _ => TurnEntry::NewAnswer(result),
                }
            }
            tag::GONE => TurnEntry::Gone(id),
            _ => return None,
        })
    }

    fn near(&mut self, before: &[TurnEntry]) -> Option<CommitId> {
        match before.get(usize::try_from(self.number()?).ok()?)? {
            TurnEntry::Calls(call) => Some(call.id),
            TurnEntry::Answer(_)
            | TurnEntry::NewCalls(_)
            | TurnEntry::NewAnswer(_)
            | TurnEntry::Gone(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> CommitId {
        CommitId::from_bytes([n; 32])
    }

    fn calls(slot: u8, version: u8, tokens: u64) -> FoundCall {
        let tool_names = ["grep", "ls", "grep"].map(str::to_owned).to_vec();
        FoundCall { id: id(slot), version: id(version), tool_names, tokens }
    }

    fn result(slot: u8, version: u8, name: Option<&str>, call: Option<(u8, u32)>) -> FoundResult {
        FoundResult {
            id: id(slot),
            version: id(version),
            name: name.map(str::to_owned),
            call: call.map(|(slot, index)| CallRef { slot: id(slot), index }),
            is_error: name.is_some(),
            tokens: 300 + u64::from(slot),
        }
    }

    fn row() -> TurnRow {
        TurnRow {
            counter: "approx".to_owned(),
            before: Some(id(9)),
            history: Some(CountedHistory {
                counts: HistoryCounts {
                    commits: 3000,
                    rows: 2900,
                    shown: 300,
                    next: 2901,
                    tools_set: true,
                },
                previous: Some(id(5)),
            }),
            entries: vec![
                TurnEntry::Calls(calls(1, 1, 7)),
                TurnEntry::Answer(result(2, 2, Some("ls"), Some((1, 1)))),
                TurnEntry::Answer(result(3, 3, None, Some((8, 300)))),
                TurnEntry::Answer(result(4, 4, None, None)),
                TurnEntry::NewAnswer(FoundResult { tokens: 0, ..result(2, 5, Some("ls"), None) }),
                TurnEntry::NewCalls(calls(1, 6, 1)),
                TurnEntry::Gone(id(4)),
            ],
        }
    }

    #[test]
    fn a_row_comes_back_as_it_was() {
        let counted = row();
        for row in [TurnRow { history: None, ..counted.clone() }, counted] {
            let bytes = row.encode(id(7)).bytes;
            assert_eq!(TurnRow::decode(id(7), &bytes), Some(row));
            assert_eq!(TurnRow::decode(id(6), &bytes), None, "another commit's");
        }
    }

    #[test]
    fn one_wrong_or_missing_byte_is_reported() {
        let bytes = row().encode(id(7)).bytes.to_vec();
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 1;
            assert_eq!(TurnRow::decode(id(7), &wrong), None, "byte {place}");
            assert_eq!(TurnRow::decode(id(7), &bytes[..place]), None, "cut at {place}");
        }
    }
}
