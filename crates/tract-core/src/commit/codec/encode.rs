//! Encodes a record compactly.

use super::flags::*;
use crate::commit::{
    CallRef, Change, Changes, CommitRecord, CommitRef, Op, Origin, RECORD_VERSION, RowFields,
    canonical,
};
use crate::content::{Kind, NAMED_KINDS};
use crate::id::CommitId;

struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn integer(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.integer(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn this(&mut self, this: CommitRef) {
        match this {
            CommitRef::This => self.byte(0),
            CommitRef::Id(id) => {
                self.byte(1);
                self.bytes(id.as_bytes());
            }
        }
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    fn ids(&mut self, ids: &[CommitId]) {
        self.integer(ids.len() as u64);
        for id in ids {
            self.bytes(id.as_bytes());
        }
    }

    fn call(&mut self, call: CallRef) {
        self.bytes(call.slot.as_bytes());
        self.integer(u64::from(call.index));
    }

    fn row(&mut self, row: &RowFields) {
        self.integer(row.key);
        self.this(row.version);
        self.option(row.mark, Self::this);
        self.option(row.answers, Self::call);
    }
}

/// Encodes a record. `size` is the expected number of bytes.
pub(in crate::commit) fn encode(record: &CommitRecord, size: usize) -> Vec<u8> {
    let mut w = Writer(Vec::with_capacity(size));
    let plain = Origin::from(record.origin.by) == record.origin;
    let mut flags = 0;
    let mut flag = |set: bool, bit: u32| flags |= if set { bit } else { 0 };
    flag(matches!(&record.changes, Changes::List(list) if !list.is_empty()), CHANGES);
    flag(matches!(record.changes, Changes::Blob(_)), CHANGES_BLOB);
    flag(record.content.is_some(), CONTENT);
    flag(record.verbatim.is_some(), VERBATIM);
    flag(record.form.is_some(), FORM);
    flag(record.joins.is_some(), JOINS);
    flag(record.kind.is_some(), KIND);
    flag(record.role.is_some(), ROLE);
    flag(record.message.is_some(), MESSAGE);
    flag(record.metadata.is_some(), METADATA);
    flag(record.generation_config.is_some(), CONFIG);
    flag(record.toolset.is_some(), TOOLSET);
    flag(record.active.is_some(), ACTIVE);
    flag(!record.keeps.is_empty(), KEEPS);
    flag(record.created_at.is_some(), CREATED_AT);
    flag(record.batch.is_some(), BATCH);
    flag(!plain, ORIGIN);

    // These bytes are stored. A field is present exactly if its flag is set, and the fields are in
    // the order in which `decode` reads them. Bytes that this function would not write are refused
    // there.
    w.byte(RECORD_VERSION);
    w.integer(u64::from(flags));
    w.ids(&record.parents);
    encode_op(&mut w, &record.op);
    match &record.changes {
        Changes::List(list) if list.is_empty() => {}
        Changes::List(list) => {
            w.integer(list.len() as u64);
            list.iter().for_each(|change| encode_change(&mut w, change));
        }
        Changes::Blob(id) => w.bytes(id.as_bytes()),
    }
    for id in [record.content, record.verbatim].into_iter().flatten() {
        w.bytes(id.as_bytes());
    }
    if let Some(form) = &record.form {
        w.text(form);
    }
    if let Some(joins) = record.joins {
        w.bytes(joins.as_bytes());
    }
    if let Some(kind) = &record.kind {
        encode_kind(&mut w, kind);
    }
    if let Some(role) = &record.role {
        w.text(role.as_str());
    }
    if let Some(message) = &record.message {
        w.text(message);
    }
    for json in [&record.metadata, &record.generation_config].into_iter().flatten() {
        w.text(json.as_str());
    }
    for id in [record.toolset, record.active].into_iter().flatten() {
        w.bytes(id.as_bytes());
    }
    // The number of the variant is stored, so new ones are only added at the end.
    w.byte(record.origin.by as u8);
    if !plain {
        w.option(record.origin.id.as_deref(), Writer::text);
        w.option(record.origin.triggered_by.as_deref(), Writer::text);
        w.option(record.origin.picked_from, |w, id| w.bytes(id.as_bytes()));
        w.option(record.origin.detail.as_ref(), |w, json| w.text(json.as_str()));
    }
    if !record.keeps.is_empty() {
        w.integer(record.keeps.len() as u64);
        record.keeps.iter().for_each(|id| w.bytes(id.as_bytes()));
    }
    if let Some(at) = record.created_at {
        w.integer(((at << 1) ^ (at >> 63)) as u64);
    }
    if let Some(batch) = record.batch {
        w.bytes(batch.as_bytes());
    }
    w.0
}

fn encode_kind(w: &mut Writer, kind: &Kind) {
    match NAMED_KINDS.iter().position(|named| named == kind) {
        // The order of `NAMED_KINDS` is part of the format.
        Some(place) => w.byte(place as u8 + 1),
        None => {
            w.byte(0);
            w.text(kind.as_str());
        }
    }
}

fn encode_op(w: &mut Writer, op: &Op) {
    match op {
        Op::Append { slot, answers, priority, retention } => {
            // A plain append is the common case and takes one byte.
            if (slot, answers, priority, retention) == (&None, &None, &None, &None) {
                return w.byte(0);
            }
            w.byte(1);
            w.option(*slot, |w, id| w.bytes(id.as_bytes()));
            w.option(*answers, Writer::call);
            w.option(*priority, |w, priority| w.byte(priority.number()));
            w.option(retention.as_ref(), |w, json| w.text(json.as_str()));
        }
        Op::Edit { target } => {
            w.byte(2);
            w.bytes(target.as_bytes());
        }
        Op::Annotate { targets, priority, reason, retention } => {
            w.byte(3);
            w.ids(targets);
            w.byte(priority.number());
            w.option(reason.as_deref(), Writer::text);
            w.option(retention.as_ref(), |w, json| w.text(json.as_str()));
        }
        Op::Compress { targets } => {
            w.byte(4);
            w.ids(targets);
        }
        Op::Revert { targets, cascade } => {
            w.byte(5);
            w.ids(targets);
            w.byte(u8::from(*cascade));
        }
        Op::Merge { sources } => {
            w.byte(6);
            w.ids(sources);
        }
        Op::Tools => w.byte(7),
        Op::Note => w.byte(8),
        Op::Unknown { .. } => {
            w.byte(255);
            let text = canonical::op_text(op);
            w.integer(text.len() as u64);
            w.bytes(&text);
        }
    }
}

fn encode_change(w: &mut Writer, change: &Change) {
    match change {
        Change::Add { slot, row } => {
            w.byte(0);
            w.this(*slot);
            w.row(row);
        }
        Change::Remove { slot, row } => {
            w.byte(1);
            w.this(*slot);
            w.row(row);
        }
        Change::Version { slot, from, to } => {
            w.byte(2);
            w.this(*slot);
            w.this(*from);
            w.this(*to);
        }
        Change::Mark { slot, from, to } => {
            w.byte(3);
            w.this(*slot);
            w.option(*from, Writer::this);
            w.option(*to, Writer::this);
        }
    }
}
