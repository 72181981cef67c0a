//! The canonical text of a record, which is hashed into its id.

use serde::Deserialize;

use super::{
    AuthorKind, CallRef, Change, Changes, CommitRecord, CommitRef, Op, Origin, RecordError,
    RowFields,
};
use crate::content::{Kind, Priority, Role};
use crate::hash;
use crate::id::{BatchId, BlobId, CommitId, ToolsetId};
use crate::json::{self, Escapes};
use crate::text::JsonText;

impl CommitRecord {
    /// Returns the canonical text of the record, defined in `docs/data-model.md`.
    pub fn canonical(&self) -> String {
        String::from_utf8(record(self)).expect("made of texts and ASCII")
    }
}

/// A key preceded by a comma, so that one write is enough.
macro_rules! key {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

/// Writes the members of one object. They must be written in the order of their keys.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    /// Offset of the object. `close` replaces its first comma with the opening bracket.
    begin: usize,
}

impl<'a> Object<'a> {
    fn open(out: &'a mut Vec<u8>) -> Self {
        let begin = out.len();
        Self { out, begin }
    }

    #[inline(always)]
    fn key(&mut self, key: &'static str) -> &mut Vec<u8> {
        self.out.extend_from_slice(key.as_bytes());
        self.out
    }

    #[inline(always)]
    fn string(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            string(self.key(key), value);
        }
    }

    /// Writes a word that does not need escapes.
    #[inline(always)]
    fn word(&mut self, key: &'static str, value: &str) {
        let out = self.key(key);
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    }

    #[inline(always)]
    fn hex<const N: usize>(&mut self, key: &'static str, bytes: Option<&[u8; N]>) {
        if let Some(bytes) = bytes {
            quoted_hex(self.key(key), bytes);
        }
    }

    fn json(&mut self, key: &'static str, value: Option<&JsonText>) {
        if let Some(value) = value {
            self.key(key).extend_from_slice(value.as_str().as_bytes());
        }
    }

    fn list<'b>(&mut self, key: &'static str, ids: impl IntoIterator<Item = &'b [u8; 32]>) {
        let out = self.key(key);
        out.push(b'[');
        for (n, id) in ids.into_iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            quoted_hex(out, id);
        }
        out.push(b']');
    }

    fn close(self) {
        match self.out.get_mut(self.begin) {
            Some(comma) => *comma = b'{',
            None => self.out.push(b'{'),
        }
        self.out.push(b'}');
    }
}

fn quoted_hex<const N: usize>(out: &mut Vec<u8>, bytes: &[u8; N]) {
    out.push(b'"');
    out.extend_from_slice(crate::id::digits(bytes).as_flattened());
    out.push(b'"');
}

fn string(out: &mut Vec<u8>, text: &str) {
    if json::needs_escapes(text) {
        let mut escaped = String::with_capacity(text.len() + text.len() / 8 + 2);
        json::write_string(&mut escaped, text, Escapes::Raw);
        out.extend_from_slice(escaped.as_bytes());
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

/// Writes an integer two digits at a time, which takes a third of the time of `fmt`.
fn integer(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [[b'0'; 2]; 10];
    let mut pairs = 0;
    for pair in digits.iter_mut().rev() {
        let two = (value % 100) as u8;
        *pair = [b'0' + two / 10, b'0' + two % 10];
        pairs += 1;
        value /= 100;
        if value == 0 {
            break;
        }
    }
    // At least one pair was written, and only the first pair can begin with a zero.
    match digits[10 - pairs..].as_flattened() {
        [b'0', digits @ ..] | digits => out.extend_from_slice(digits),
    }
}

fn quoted_this(out: &mut Vec<u8>, this: CommitRef) {
    match this {
        CommitRef::This => out.extend_from_slice(b"\".\""),
        CommitRef::Id(id) => quoted_hex(out, id.as_bytes()),
    }
}

/// Returns the text of a record, in UTF-8.
pub(super) fn record(record: &CommitRecord) -> Vec<u8> {
    let mut out = Vec::with_capacity(640);
    write_record(&mut out, record);
    out
}

/// Returns the id of a record. The text is written after the tag, so that both are hashed in one
/// call.
pub(super) fn id(record: &CommitRecord) -> CommitId {
    let mut out = Vec::with_capacity(640);
    out.extend_from_slice(hash::COMMIT_TAG);
    write_record(&mut out, record);
    hash::tagged_record(&out)
}

fn write_record(out: &mut Vec<u8>, record: &CommitRecord) {
    let mut object = Object::open(out);
    // Canonical JSON has its keys in the order of their code points. A line in the wrong place here
    // changes the id of every commit.
    object.hex(key!("active"), record.active.as_ref().map(ToolsetId::as_bytes));
    object.hex(key!("batch"), record.batch.as_ref().map(BatchId::as_bytes));
    match &record.changes {
        Changes::List(list) if list.is_empty() => {}
        Changes::List(list) => changes(object.key(key!("changes")), list),
        Changes::Blob(id) => object.hex(key!("changes"), Some(id.as_bytes())),
    }
    object.hex(key!("content"), record.content.as_ref().map(BlobId::as_bytes));
    if let Some(at) = record.created_at {
        let out = object.key(key!("created_at"));
        if at < 0 {
            out.push(b'-');
        }
        integer(out, at.unsigned_abs());
    }
    object.string(key!("form"), record.form.as_deref());
    object.json(key!("generation_config"), record.generation_config.as_ref());
    object.hex(key!("joins"), record.joins.as_ref().map(CommitId::as_bytes));
    if !record.keeps.is_empty() {
        object.list(key!("keeps"), record.keeps.iter().map(BlobId::as_bytes));
    }
    match &record.kind {
        Some(Kind::Custom(name)) => object.string(key!("kind"), Some(name)),
        Some(kind) => object.word(key!("kind"), kind.as_str()),
        None => {}
    }
    object.string(key!("message"), record.message.as_deref());
    object.json(key!("metadata"), record.metadata.as_ref());
    op(object.key(key!("op")), &record.op);
    origin(object.key(key!("origin")), &record.origin);
    object.list(key!("parents"), record.parents.iter().map(CommitId::as_bytes));
    object.string(key!("role"), record.role.as_ref().map(Role::as_str));
    object.hex(key!("toolset"), record.toolset.as_ref().map(ToolsetId::as_bytes));
    integer(object.key(key!("v")), u64::from(super::RECORD_VERSION));
    object.hex(key!("verbatim"), record.verbatim.as_ref().map(BlobId::as_bytes));
    object.close();
}

fn op(out: &mut Vec<u8>, op: &Op) {
    if let Op::Unknown { name, fields } = op {
        return unknown_op(out, name, fields);
    }
    let mut object = Object::open(out);
    if let Op::Append { answers: Some(call), .. } = op {
        answer(object.key(key!("answers")), *call);
    }
    if matches!(op, Op::Revert { cascade: true, .. }) {
        object.key(key!("cascade")).extend_from_slice(b"true");
    }
    object.word(key!("name"), op.name());
    match op {
        Op::Append { slot, priority, retention, answers: _ } => {
            object.string(key!("priority"), priority.map(Priority::as_str));
            object.json(key!("retention"), retention.as_ref());
            object.hex(key!("slot"), slot.as_ref().map(CommitId::as_bytes));
        }
        Op::Edit { target } => object.hex(key!("target"), Some(target.as_bytes())),
        Op::Annotate { targets, priority, reason, retention } => {
            object.string(key!("priority"), Some(priority.as_str()));
            object.string(key!("reason"), reason.as_deref());
            object.json(key!("retention"), retention.as_ref());
            object.list(key!("targets"), targets.iter().map(CommitId::as_bytes));
        }
        Op::Compress { targets } | Op::Revert { targets, .. } => {
            object.list(key!("targets"), targets.iter().map(CommitId::as_bytes));
        }
        Op::Merge { sources } => {
            object.list(key!("sources"), sources.iter().map(CommitId::as_bytes));
        }
        Op::Tools | Op::Note | Op::Unknown { .. } => {}
    }
    object.close();
}

/// Writes an unknown operation: its name, merged with its other fields.
fn unknown_op(out: &mut Vec<u8>, name: &str, fields: &JsonText) {
    let mut text = String::from("{\"name\":");
    json::write_string(&mut text, name, Escapes::Raw);
    let rest = fields.as_str().strip_prefix('{').unwrap_or("}");
    if rest != "}" {
        text.push(',');
    }
    text.push_str(rest);
    // Name and fields are canonical each; only the order of the keys has to be restored.
    let text = json::canonical(&text, Escapes::Raw).expect("made of canonical parts");
    out.extend_from_slice(text.as_bytes());
}

fn origin(out: &mut Vec<u8>, origin: &Origin) {
    let mut object = Object::open(out);
    object.word(key!("by"), origin.by.as_str());
    object.json(key!("detail"), origin.detail.as_ref());
    object.string(key!("id"), origin.id.as_deref());
    object.hex(key!("picked_from"), origin.picked_from.as_ref().map(CommitId::as_bytes));
    object.string(key!("triggered_by"), origin.triggered_by.as_deref());
    object.close();
}

pub(super) fn changes(out: &mut Vec<u8>, list: &[Change]) {
    out.push(b'[');
    for (n, change) in list.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        match change {
            Change::Add { slot, row } => {
                out.extend_from_slice(b"[\"row\",");
                quoted_this(out, *slot);
                out.extend_from_slice(b",null,");
                row_fields(out, row);
            }
            Change::Remove { slot, row } => {
                out.extend_from_slice(b"[\"row\",");
                quoted_this(out, *slot);
                out.push(b',');
                row_fields(out, row);
                out.extend_from_slice(b",null");
            }
            Change::Version { slot, from, to } => {
                out.extend_from_slice(b"[\"version\"");
                for this in [slot, from, to] {
                    out.push(b',');
                    quoted_this(out, *this);
                }
            }
            Change::Mark { slot, from, to } => {
                out.extend_from_slice(b"[\"mark\",");
                quoted_this(out, *slot);
                for mark in [from, to] {
                    out.push(b',');
                    or_null(out, *mark, quoted_this);
                }
            }
        }
        out.push(b']');
    }
    out.push(b']');
}

fn row_fields(out: &mut Vec<u8>, row: &RowFields) {
    out.push(b'[');
    integer(out, row.key);
    out.push(b',');
    quoted_this(out, row.version);
    out.push(b',');
    or_null(out, row.mark, quoted_this);
    out.push(b',');
    or_null(out, row.answers, answer);
    out.push(b']');
}

fn or_null<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        Some(value) => write(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

fn answer(out: &mut Vec<u8>, call: CallRef) {
    out.push(b'[');
    quoted_hex(out, call.slot.as_bytes());
    out.push(b',');
    integer(out, u64::from(call.index));
    out.push(b']');
}

// Unknown members are refused: this reader would drop them, and the text that it writes would have
// another id.
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

/// Parses an operation: an object with a `name`.
pub(super) fn parse_op(text: &str) -> Result<Op, RecordError> {
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let malformed = |what: String| RecordError::Malformed { what };
    let unread = |error: serde_json::Error| malformed(format!("the operation: {error}"));
    let Name { name } = serde_json::from_str(text).map_err(unread)?;
    if !Op::NAMES.contains(&name.as_str()) {
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
        let fields = JsonText::new(&format!("{{{}}}", rest.join(",")))?;
        return Ok(Op::Unknown { name, fields });
    }
    let fields: OpText = serde_json::from_str(text).map_err(unread)?;
    let missing = |field: &str| malformed(format!("operation {name:?} without {field:?}"));
    Ok(match name.as_str() {
        "append" => Op::Append {
            slot: fields.slot,
            answers: fields.answers,
            priority: fields.priority,
            retention: fields.retention,
        },
        "edit" => Op::Edit { target: fields.target.ok_or_else(|| missing("target"))? },
        "annotate" => Op::Annotate {
            targets: fields.targets.ok_or_else(|| missing("targets"))?,
            priority: fields.priority.ok_or_else(|| missing("priority"))?,
            reason: fields.reason,
            retention: fields.retention,
        },
        "compress" => Op::Compress { targets: fields.targets.ok_or_else(|| missing("targets"))? },
        "revert" => Op::Revert {
            targets: fields.targets.ok_or_else(|| missing("targets"))?,
            cascade: fields.cascade,
        },
        "merge" => Op::Merge { sources: fields.sources.ok_or_else(|| missing("sources"))? },
        "tools" => Op::Tools,
        // `note`: all other names were handled.
        _ => Op::Note,
    })
}

/// Returns the text of an operation. The codec stores unknown operations in this form.
pub(super) fn op_text(value: &Op) -> Vec<u8> {
    let mut out = Vec::new();
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
    let by = AuthorKind::parse(&read.origin.by)
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
    // Reject a text with another canonical form, such as one with explicit defaults: a reader that
    // hashes the text itself would get another id.
    if record_is(&record, text) {
        Ok(record)
    } else {
        Err(malformed("a record that is not in canonical form".to_owned()))
    }
}

fn record_is(value: &CommitRecord, text: &str) -> bool {
    let written = record(value);
    written == text.as_bytes()
        || json::canonical(text, Escapes::Raw).is_ok_and(|text| text.as_bytes() == written)
}
