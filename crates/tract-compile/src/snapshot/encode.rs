//! Writes snapshots.

use std::collections::HashMap;

use tract_core::{CallRef, CommitId, Kind};

use super::{VERSION, flag};
use crate::fact::RowFact;
use crate::state::State;
use crate::view::Row;

/// The string table of a snapshot: each word is stored once.
#[derive(Default)]
struct Words<'a> {
    numbers: HashMap<&'a str, u64>,
    list: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn number(&mut self, word: &'a str) -> u64 {
        *self.numbers.entry(word).or_insert_with(|| {
            self.list.push(word);
            self.list.len() as u64 - 1
        })
    }
}

/// Returns the bytes without the checksum, and the number of separate rows.
pub(super) fn encode(state: &State) -> (Vec<u8>, u64) {
    let last = state.view.rows().next_back();
    let last = last.filter(|row| !state.context.contains(&row.row_key()));
    let mut rows: Vec<(&Row, Option<&RowFact>)> = state
        .context
        .iter()
        .map(|(_, entry)| (entry.row.as_ref(), Some(entry.fact.as_ref())))
        .collect();
    // The view's last row is always in the main part: an appended row needs it to decide whether it
    // joins its predecessor.
    rows.extend(last.map(|row| (row, state.fact(row).map(|fact| fact.as_ref()))));

    let mut words = Words::default();
    let mut body = Vec::with_capacity(rows.len() * 110);
    let mut places: HashMap<CommitId, u64> = HashMap::with_capacity(rows.len());
    let mut key = 0;
    integer(&mut body, rows.len() as u64);
    for (place, (row, fact)) in rows.iter().enumerate() {
        // The rows are in order, and the last row of the view is the last one here, so this does
        // not underflow.
        integer(&mut body, row.key - key);
        key = row.key;
        main_row(&mut body, row, *fact, &mut words, &places);
        places.insert(row.slot, place as u64);
    }

    let apart = state.since.gone.len() as u64;
    let mut out = Vec::with_capacity(body.len() + 256 + apart as usize * 80);
    out.push(VERSION);
    let mut flags = 0;
    flags |= if state.view.tools().is_some() { flag::TOOLS } else { 0 };
    flags |= if state.since.snapshot.is_some() { flag::PREVIOUS } else { 0 };
    flags |= if state.tools_set { flag::TOOLS_SET } else { 0 };
    out.push(flags);
    out.extend(state.view.tools().iter().flat_map(|id| *id.as_bytes()));
    out.extend(state.since.snapshot.iter().flat_map(|id| *id.as_bytes()));
    integer(&mut out, state.commit_count);
    integer(&mut out, state.view.next());
    integer(&mut out, state.since.apart + apart);
    integer(&mut out, words.list.len() as u64);
    for word in &words.list {
        integer(&mut out, word.len() as u64);
        out.extend_from_slice(word.as_bytes());
    }
    out.append(&mut body);
    integer(&mut out, apart);
    for slot in &state.since.gone {
        out.extend_from_slice(slot.as_bytes());
        match state.view.get(*slot) {
            Some(row) => {
                integer(&mut out, row_flags(row));
                integer(&mut out, row.key);
                row_ids(&mut out, row, &HashMap::new());
            }
            None => integer(&mut out, flag::NO_ROW),
        }
    }
    (out, apart)
}

fn row_flags(row: &Row) -> u64 {
    let mut flags = 0;
    flags |= if row.version != row.slot { flag::VERSION } else { 0 };
    flags |= if row.mark.is_some() { flag::MARK } else { 0 };
    flags |= if row.answers.is_some() { flag::ANSWERS } else { 0 };
    flags
}

fn main_row<'a>(
    out: &mut Vec<u8>,
    row: &Row,
    fact: Option<&'a RowFact>,
    words: &mut Words<'a>,
    places: &HashMap<CommitId, u64>,
) {
    let mut flags = row_flags(row);
    let fact = fact.filter(|fact| fact.is_known());
    if let Some(fact) = fact {
        let own_role = fact.kind.as_ref().is_some_and(|kind| kind.default_role() == fact.role);
        for (bit, set) in [
            (flag::FACT, true),
            (flag::CONTENT, fact.content.is_some()),
            (flag::FORM, fact.form.is_some()),
            (flag::VERBATIM, fact.verbatim.is_some()),
            (flag::CONFIG, fact.generation_config.is_some()),
            (flag::JOINS, fact.joins.is_some()),
            (flag::JOINED, fact.joined),
            (flag::ROLE, !own_role),
            (flag::HINT, fact.hint.is_some()),
        ] {
            flags |= if set { bit } else { 0 };
        }
    }
    integer(out, flags);
    out.extend_from_slice(row.slot.as_bytes());
    row_ids(out, row, places);
    let Some(fact) = fact else { return };
    // 0 means that there is no mark.
    out.push(fact.marked.map_or(0, |priority| priority.number() + 1));
    // 0 means that there is no kind; other numbers are words.
    integer(out, fact.kind.as_ref().map_or(0, |kind| words.number(Kind::as_str(kind)) + 1));
    out.extend(fact.content.iter().flat_map(|id| *id.as_bytes()));
    if flags & flag::ROLE != 0 {
        integer(out, words.number(fact.role.as_str()));
    }
    if let Some(form) = &fact.form {
        integer(out, words.number(form));
    }
    out.extend(fact.verbatim.iter().flat_map(|id| *id.as_bytes()));
    if let Some(config) = &fact.generation_config {
        integer(out, words.number(config.as_str()));
    }
    if let Some(joins) = fact.joins {
        id_or_place(out, joins, places);
    }
    if let Some(hint) = fact.hint {
        integer(out, hint.0);
    }
}

fn row_ids(out: &mut Vec<u8>, row: &Row, places: &HashMap<CommitId, u64>) {
    if row.version != row.slot {
        out.extend_from_slice(row.version.as_bytes());
    }
    out.extend(row.mark.iter().flat_map(|id| *id.as_bytes()));
    if let Some(CallRef { slot, index }) = row.answers {
        id_or_place(out, slot, places);
        integer(out, u64::from(index));
    }
}

/// Writes the position of an earlier row of the same list plus one, else 0 and the id.
fn id_or_place(out: &mut Vec<u8>, id: CommitId, places: &HashMap<CommitId, u64>) {
    match places.get(&id) {
        Some(place) => integer(out, place + 1),
        None => {
            integer(out, 0);
            out.extend_from_slice(id.as_bytes());
        }
    }
}

fn integer(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
