//! A turn row as bytes, kept with its commit: what the commits since the row before say of tool
//! turns.
//!
//! One version byte; the name of the counter; the row before; the entries, names by their place in
//! a table; at the end eight bytes of a hash over the commit and all that precedes.

use std::collections::HashMap;

use tract_core::{Blob, CallRef, CommitId, DerivedKind, DerivedRow};

use super::entry::{MessageVersion, ResultSummary, TurnEntry};
use crate::wire::{Input, put, put_bytes};

/// The version of the format.
const VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnRow {
    /// Who counted the tokens.
    pub(crate) counter: String,
    /// The nearest earlier commit of the line whose row has entries.
    pub(crate) before: Option<CommitId>,
    /// What the commits since the row before say, oldest first.
    pub(crate) entries: Vec<TurnEntry>,
}

mod tag {
    pub(super) const CALLS: u8 = 0;
    pub(super) const ANSWER: u8 = 1;
    pub(super) const NEW_CALLS: u8 = 2;
    pub(super) const NEW_ANSWER: u8 = 3;
    pub(super) const GONE: u8 = 4;
    pub(super) const KINDS: u8 = 7;

    /// The version is not the slot.
    pub(super) const VERSION: u8 = 1 << 3;
    pub(super) const IS_ERROR: u8 = 1 << 4;
    pub(super) const NAMED: u8 = 1 << 5;
    /// The call is in this row: its position among the entries follows, not its id.
    pub(super) const NEAR: u8 = 1 << 6;
    /// It answers a call.
    pub(super) const BOUND: u8 = 1 << 7;
}

impl TurnRow {
    /// Returns the nearest commit whose row has entries; this is the row of `at`.
    pub(super) fn spoken(&self, at: CommitId) -> Option<CommitId> {
        if self.entries.is_empty() { self.before } else { Some(at) }
    }

    /// Writes it as the derived row of a commit.
    pub(crate) fn encode(&self, commit: CommitId) -> DerivedRow {
        let mut out = vec![VERSION];
        put_bytes(&mut out, self.counter.as_bytes());
        match self.before {
            Some(before) => {
                out.push(1);
                out.extend_from_slice(before.as_bytes());
            }
            None => out.push(0),
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
            if let TurnEntry::Calls(message) = entry {
                places.insert(message.slot, place);
            }
        }
        let sum = checksum(commit, &out);
        out.extend_from_slice(&sum);
        DerivedRow { kind: DerivedKind::Turn, commit, bytes: out.into() }
    }

    /// Reads it; `None` when the bytes are damaged or of another version.
    pub(crate) fn decode(commit: CommitId, bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(commit, body) != *sum {
            return None;
        }
        let mut input = Input(body);
        if input.byte()? != VERSION {
            return None;
        }
        let counter = input.text()?;
        let before = match input.byte()? {
            0 => None,
            1 => Some(input.id()?),
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
        input.0.is_empty().then_some(Self { counter, before, entries })
    }
}

fn names_of(entry: &TurnEntry) -> Vec<&str> {
    match entry {
        TurnEntry::Calls(message) | TurnEntry::NewCalls(message) => {
            message.what.iter().map(String::as_str).collect()
        }
        TurnEntry::Answer(message, _) | TurnEntry::NewAnswer(message) => {
            message.what.name.as_deref().into_iter().collect()
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
        TurnEntry::Calls(message) | TurnEntry::NewCalls(message) => {
            let kind = match entry {
                TurnEntry::Calls(_) => tag::CALLS,
                _ => tag::NEW_CALLS,
            };
            start(out, kind, message.slot, message.version);
            put(out, message.tokens);
            put(out, message.what.len() as u64);
            message.what.iter().for_each(|name| put(out, name_place(name)));
        }
        TurnEntry::Answer(message, call) => {
            let near = call.and_then(|call| places.get(&call.slot).copied());
            let bound = if call.is_some() { tag::BOUND } else { 0 };
            let near_flag = if near.is_some() { tag::NEAR } else { 0 };
            answered(out, tag::ANSWER | bound | near_flag, message, name_place);
            if let Some(call) = call {
                match near {
                    Some(place) => put(out, place),
                    None => out.extend_from_slice(call.slot.as_bytes()),
                }
                put(out, u64::from(call.index));
            }
        }
        TurnEntry::NewAnswer(message) => {
            answered(out, tag::NEW_ANSWER, message, name_place);
        }
        TurnEntry::Gone(slot) => start(out, tag::GONE, *slot, *slot),
    }
}

fn answered(
    out: &mut Vec<u8>,
    kind: u8,
    message: &MessageVersion<ResultSummary>,
    name_place: impl Fn(&str) -> u64,
) {
    let error = if message.what.is_error { tag::IS_ERROR } else { 0 };
    let named = if message.what.name.is_some() { tag::NAMED } else { 0 };
    start(out, kind | error | named, message.slot, message.version);
    put(out, message.tokens);
    if let Some(name) = &message.what.name {
        put(out, name_place(name));
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
    fn name(&mut self, names: &[String]) -> Option<String> {
        names.get(usize::try_from(self.number()?).ok()?).cloned()
    }

    fn entry(&mut self, names: &[String], before: &[TurnEntry]) -> Option<TurnEntry> {
        let head = self.byte()?;
        let slot = self.id()?;
        let version = if head & tag::VERSION != 0 { self.id()? } else { slot };
        Some(match head & tag::KINDS {
            kind @ (tag::CALLS | tag::NEW_CALLS) => {
                let tokens = self.number()?;
                let count = self.number()?;
                let what = (0..count).map(|_| self.name(names)).collect::<Option<Vec<String>>>()?;
                let message = MessageVersion { slot, version, tokens, what };
                if kind == tag::CALLS {
                    TurnEntry::Calls(message)
                } else {
                    TurnEntry::NewCalls(message)
                }
            }
            kind @ (tag::ANSWER | tag::NEW_ANSWER) => {
                let tokens = self.number()?;
                let name = if head & tag::NAMED != 0 { Some(self.name(names)?) } else { None };
                let what = ResultSummary { name, is_error: head & tag::IS_ERROR != 0 };
                let message = MessageVersion { slot, version, tokens, what };
                if kind == tag::NEW_ANSWER {
                    return Some(TurnEntry::NewAnswer(message));
                }
                let call = match (head & tag::BOUND != 0, head & tag::NEAR != 0) {
                    (false, _) => None,
                    (true, near) => {
                        let slot = if near { self.near(before)? } else { self.id()? };
                        let index = u32::try_from(self.number()?).ok()?;
                        Some(CallRef { slot, index })
                    }
                };
                TurnEntry::Answer(message, call)
            }
            tag::GONE => TurnEntry::Gone(slot),
            _ => return None,
        })
    }

    fn near(&mut self, before: &[TurnEntry]) -> Option<CommitId> {
        match before.get(usize::try_from(self.number()?).ok()?)? {
            TurnEntry::Calls(message) => Some(message.slot),
            TurnEntry::Answer(..)
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

    fn message<T>(slot: u8, version: u8, tokens: u64, what: T) -> MessageVersion<T> {
        MessageVersion { slot: id(slot), version: id(version), tokens, what }
    }

    fn row() -> TurnRow {
        let names = vec!["grep".to_owned(), "ls".to_owned(), "grep".to_owned()];
        let what = ResultSummary { name: Some("ls".to_owned()), is_error: true };
        let bare = ResultSummary { name: None, is_error: false };
        let call = |slot, index| Some(CallRef { slot: id(slot), index });
        TurnRow {
            counter: "approx".to_owned(),
            before: Some(id(9)),
            entries: vec![
                TurnEntry::Calls(message(1, 1, 7, names.clone())),
                TurnEntry::Answer(message(2, 2, 302, what.clone()), call(1, 1)),
                TurnEntry::Answer(message(3, 3, 303, bare.clone()), call(8, 300)),
                TurnEntry::Answer(message(4, 4, 304, bare), None),
                TurnEntry::NewAnswer(message(2, 5, 0, what)),
                TurnEntry::NewCalls(message(1, 6, 1, names)),
                TurnEntry::Gone(id(4)),
            ],
        }
    }

    #[test]
    fn a_row_comes_back_as_it_was() {
        let row = row();
        let bytes = row.encode(id(7)).bytes;
        assert_eq!(TurnRow::decode(id(7), &bytes), Some(row));
        assert_eq!(TurnRow::decode(id(6), &bytes), None, "another commit's");
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
