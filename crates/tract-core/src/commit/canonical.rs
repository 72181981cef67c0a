//! The canonical text of a record: what its id is the hash of.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{By, CallRef, Change, Changes, CommitRecord, Op, Origin, RecordError, RowFields, This};
use crate::content::{Kind, Priority, Role};
use crate::id::{BatchId, BlobId, CommitId, ToolsetId};
use crate::json::{self, Escapes};
use crate::text::JsonText;

/// Writes the members of one object; they must come in order of their keys.
struct Object<'a> {
    out: &'a mut String,
    empty: bool,
}

impl<'a> Object<'a> {
    fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, empty: true }
    }

    fn key(&mut self, key: &str) -> &mut String {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
        self.out
    }

    fn string(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            json::write_string(self.key(key), value, Escapes::Raw);
        }
    }

    fn hex(&mut self, key: &str, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            quoted_hex(self.key(key), bytes);
        }
    }

    fn json(&mut self, key: &str, value: Option<&JsonText>) {
        if let Some(value) = value {
            self.key(key).push_str(value.as_str());
        }
    }

    fn list<'b>(&mut self, key: &str, ids: impl IntoIterator<Item = &'b [u8; 32]>) {
        let out = self.key(key);
        out.push('[');
        for (n, id) in ids.into_iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            quoted_hex(out, id);
        }
        out.push(']');
    }

    fn close(self) {
        self.out.push('}');
    }
}

fn quoted_hex(out: &mut String, bytes: &[u8]) {
    out.push('"');
    crate::id::hex(bytes, out);
    out.push('"');
}

fn integer(out: &mut String, value: impl std::fmt::Display) {
    let _ = write!(out, "{value}"); // writing to a String cannot fail
}

fn quoted_this(out: &mut String, this: This) {
    match this {
        This::This => out.push_str("\".\""),
        This::Id(id) => quoted_hex(out, id.as_bytes()),
    }
}

pub(super) fn record(record: &CommitRecord) -> String {
    let mut out = String::with_capacity(640);
    let mut object = Object::open(&mut out);
    object.hex("active", record.active.as_ref().map(|id| id.as_bytes().as_slice()));
    object.hex("batch", record.batch.as_ref().map(|id| id.as_bytes().as_slice()));
    match &record.changes {
        Changes::List(list) if list.is_empty() => {}
        Changes::List(list) => changes(object.key("changes"), list),
        Changes::Blob(id) => object.hex("changes", Some(id.as_bytes())),
    }
    object.hex("content", record.content.as_ref().map(|id| id.as_bytes().as_slice()));
    if let Some(at) = record.created_at {
        integer(object.key("created_at"), at);
    }
    object.string("form", record.form.as_deref());
    object.json("generation_config", record.generation_config.as_ref());
    object.hex("joins", record.joins.as_ref().map(|id| id.as_bytes().as_slice()));
    if !record.keeps.is_empty() {
        object.list("keeps", record.keeps.iter().map(BlobId::as_bytes));
    }
    object.string("kind", record.kind.as_ref().map(Kind::as_str));
    object.string("message", record.message.as_deref());
    object.json("metadata", record.metadata.as_ref());
    op(object.key("op"), &record.op);
    origin(object.key("origin"), &record.origin);
    object.list("parents", record.parents.iter().map(CommitId::as_bytes));
    object.string("role", record.role.as_ref().map(Role::as_str));
    object.hex("toolset", record.toolset.as_ref().map(|id| id.as_bytes().as_slice()));
    integer(object.key("v"), super::RECORD_VERSION);
    object.hex("verbatim", record.verbatim.as_ref().map(|id| id.as_bytes().as_slice()));
    object.close();
    out
}

fn op(out: &mut String, op: &Op) {
    if let Op::Unknown { name, asked } = op {
        return unknown_op(out, name, asked);
    }
    let mut object = Object::open(out);
    if let Op::Append { answers: Some(call), .. } = op {
        answer(object.key("answers"), *call);
    }
    if matches!(op, Op::Revert { cascade: true, .. }) {
        object.key("cascade").push_str("true");
    }
    object.string("name", Some(op.name()));
    match op {
        Op::Append { slot, priority, retention, answers: _ } => {
            object.string("priority", priority.map(Priority::as_str));
            object.json("retention", retention.as_ref());
            object.hex("slot", slot.as_ref().map(|id| id.as_bytes().as_slice()));
        }
        Op::Edit { target } => object.hex("target", Some(target.as_bytes())),
        Op::Annotate { targets, priority, reason, retention } => {
            object.string("priority", Some(priority.as_str()));
            object.string("reason", reason.as_deref());
            object.json("retention", retention.as_ref());
            object.list("targets", targets.iter().map(CommitId::as_bytes));
        }
        Op::Compress { targets } | Op::Revert { targets, .. } => {
            object.list("targets", targets.iter().map(CommitId::as_bytes));
        }
        Op::Merge { sources } => {
            object.list("sources", sources.iter().map(CommitId::as_bytes));
        }
        Op::Tools | Op::Note | Op::Unknown { .. } => {}
    }
    object.close();
}

/// Puts the name of an unknown operation back among what else was asked.
fn unknown_op(out: &mut String, name: &str, asked: &JsonText) {
    let mut text = String::from("{\"name\":");
    json::write_string(&mut text, name, Escapes::Raw);
    let rest = asked.as_str().strip_prefix('{').unwrap_or("}");
    if rest != "}" {
        text.push(',');
    }
    text.push_str(rest);
    // The parts are canonical, so only the order of the keys is left to be settled.
    out.push_str(&json::canonical(&text, Escapes::Raw).expect("made of canonical parts"));
}

fn origin(out: &mut String, origin: &Origin) {
    let mut object = Object::open(out);
    object.string("by", Some(origin.by.as_str()));
    object.json("detail", origin.detail.as_ref());
    object.string("id", origin.id.as_deref());
    object.hex("picked_from", origin.picked_from.as_ref().map(|id| id.as_bytes().as_slice()));
    object.string("triggered_by", origin.triggered_by.as_deref());
    object.close();
}

pub(super) fn changes(out: &mut String, list: &[Change]) {
    out.push('[');
    for (n, change) in list.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        match change {
            Change::Add { slot, row } => {
                out.push_str("[\"row\",");
                quoted_this(out, *slot);
                out.push_str(",null,");
                row_fields(out, row);
            }
            Change::Remove { slot, row } => {
                out.push_str("[\"row\",");
                quoted_this(out, *slot);
                out.push(',');
                row_fields(out, row);
                out.push_str(",null");
            }
            Change::Version { slot, from, to } => {
                out.push_str("[\"version\"");
                for this in [slot, from, to] {
                    out.push(',');
                    quoted_this(out, *this);
                }
            }
            Change::Mark { slot, from, to } => {
                out.push_str("[\"mark\",");
                quoted_this(out, *slot);
                for mark in [from, to] {
                    out.push(',');
                    match mark {
                        Some(mark) => quoted_this(out, *mark),
                        None => out.push_str("null"),
                    }
                }
            }
        }
        out.push(']');
    }
    out.push(']');
}

fn row_fields(out: &mut String, row: &RowFields) {
    out.push('[');
    integer(out, row.key);
    out.push(',');
    quoted_this(out, row.version);
    out.push(',');
    match row.mark {
        Some(mark) => quoted_this(out, mark),
        None => out.push_str("null"),
    }
    out.push(',');
    match row.answers {
        Some(call) => answer(out, call),
        None => out.push_str("null"),
    }
    out.push(']');
}

fn answer(out: &mut String, call: CallRef) {
    out.push('[');
    quoted_hex(out, call.slot.as_bytes());
    out.push(',');
    integer(out, call.index);
    out.push(']');
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordText {
    active: Option<ToolsetId>,
    batch: Option<BatchId>,
    #[serde(default)]
    changes: Option<ChangesText>,
    content: Option<BlobId>,
    created_at: Option<i64>,
    form: Option<String>,
    generation_config: Option<JsonText>,
    joins: Option<CommitId>,
    #[serde(default)]
    keeps: Vec<BlobId>,
    kind: Option<String>,
    message: Option<String>,
    metadata: Option<JsonText>,
    op: JsonText,
    origin: OriginText,
    parents: Vec<CommitId>,
    role: Option<String>,
    toolset: Option<ToolsetId>,
    v: u8,
    verbatim: Option<BlobId>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ChangesText {
    List(Vec<Change>),
    Blob(BlobId),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OriginText {
    by: String,
    detail: Option<JsonText>,
    id: Option<String>,
    picked_from: Option<CommitId>,
    triggered_by: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpText {
    #[serde(rename = "name")]
    _name: String,
    answers: Option<CallRef>,
    #[serde(default)]
    cascade: bool,
    priority: Option<Priority>,
    reason: Option<String>,
    retention: Option<JsonText>,
    slot: Option<CommitId>,
    sources: Option<Vec<CommitId>>,
    target: Option<CommitId>,
    targets: Option<Vec<CommitId>>,
}

/// Reads the text of an operation: the object with its `name`.
pub(super) fn parse_op(text: &str) -> Result<Op, RecordError> {
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let malformed = |what: String| RecordError::Malformed { what };
    let Name { name } =
        serde_json::from_str(text).map_err(|error| malformed(format!("the operation: {error}")))?;
    if !matches!(
        name.as_str(),
        "append" | "edit" | "annotate" | "compress" | "revert" | "merge" | "tools" | "note"
    ) {
        let members = json::split_object(text)?;
        let rest: Vec<String> = members
            .into_iter()
            .filter(|(key, _)| key != "name")
            .map(|(key, value)| {
                let mut member = String::new();
                json::write_string(&mut member, &key, Escapes::Raw);
                member.push(':');
                member.push_str(value);
                member
            })
            .collect();
        let asked = JsonText::new(&format!("{{{}}}", rest.join(",")))?;
        return Ok(Op::Unknown { name, asked });
    }
    let asked: OpText =
        serde_json::from_str(text).map_err(|error| malformed(format!("the operation: {error}")))?;
    let missing = |field: &str| malformed(format!("operation {name:?} without {field:?}"));
    Ok(match name.as_str() {
        "append" => Op::Append {
            slot: asked.slot,
            answers: asked.answers,
            priority: asked.priority,
            retention: asked.retention,
        },
        "edit" => Op::Edit { target: asked.target.ok_or_else(|| missing("target"))? },
        "annotate" => Op::Annotate {
            targets: asked.targets.ok_or_else(|| missing("targets"))?,
            priority: asked.priority.ok_or_else(|| missing("priority"))?,
            reason: asked.reason,
            retention: asked.retention,
        },
        "compress" => Op::Compress { targets: asked.targets.ok_or_else(|| missing("targets"))? },
        "revert" => Op::Revert {
            targets: asked.targets.ok_or_else(|| missing("targets"))?,
            cascade: asked.cascade,
        },
        "merge" => Op::Merge { sources: asked.sources.ok_or_else(|| missing("sources"))? },
        "tools" => Op::Tools,
        _ => Op::Note,
    })
}

/// Writes the text of an operation, for the codec's unknown ones.
pub(super) fn op_text(value: &Op) -> String {
    let mut out = String::new();
    op(&mut out, value);
    out
}

pub(super) fn parse(text: &str) -> Result<CommitRecord, RecordError> {
    let malformed = |what: String| RecordError::Malformed { what };
    let read: RecordText =
        serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
    if read.v != super::RECORD_VERSION {
        return Err(RecordError::Version { found: read.v });
    }
    let by = By::parse(&read.origin.by)
        .ok_or_else(|| malformed(format!("unknown origin {:?}", read.origin.by)))?;
    let record = CommitRecord {
        parents: read.parents,
        op: parse_op(read.op.as_str())?,
        changes: match read.changes {
            None => Changes::default(),
            Some(ChangesText::List(list)) => Changes::List(list),
            Some(ChangesText::Blob(id)) => Changes::Blob(id),
        },
        content: read.content,
        verbatim: read.verbatim,
        form: read.form,
        joins: read.joins,
        kind: read.kind.as_deref().map(Kind::parse),
        role: read.role.as_deref().map(Role::parse),
        message: read.message,
        metadata: read.metadata,
        generation_config: read.generation_config,
        toolset: read.toolset,
        active: read.active,
        origin: Origin {
            by,
            id: read.origin.id,
            triggered_by: read.origin.triggered_by,
            picked_from: read.origin.picked_from,
            detail: read.origin.detail,
        },
        keeps: read.keeps,
        created_at: read.created_at,
        batch: read.batch,
    };
    // A text that says the same in another way would be another record for a reader that keeps it.
    match record_is(&record, text) {
        true => Ok(record),
        false => Err(malformed("a record that is not in canonical form".to_owned())),
    }
}

fn record_is(value: &CommitRecord, text: &str) -> bool {
    record(value) == text
        || json::canonical(text, Escapes::Raw).is_ok_and(|canonical| canonical == record(value))
}
