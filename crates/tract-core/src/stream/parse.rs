//! Parses a line to a stream operation.

use std::fmt;
use std::str::FromStr;

use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::line::{Line, cut, parts};
use super::{
    AcceptedFields, CompressWhat, StreamOp, StreamOpError, StreamOpFields, StreamOpKind,
    accepted_fields,
};
use crate::commit::Commit;
use crate::content::{Body, Content, Kind, Part, Priority, Role, ToolCall};
use crate::id::{BlobId, CommitId};
use crate::json;
use crate::nearest::nearest;
use crate::object::Blob;
use crate::refs::{RefName, RefTarget};
use crate::time;

pub(super) fn operation(text: &str) -> Result<StreamOp, StreamOpError> {
    let mut line = Line::open(text)?;
    let mark = line.optional_name("mark")?;
    if let Some(mark) = &mark {
        // Marks are used in revisions, so they must be valid names of refs.
        named::<RefName>(mark, "mark")?;
    }
    let op = op(&mut line)?;
    let fields = fields(&mut line)?;
    let recorded = match line.op {
        "record" => recorded(&mut line)?.ok_or_else(|| line.missing("record")).map(Some)?,
        op if accepted_fields(op) > AcceptedFields::Nothing => recorded(&mut line)?,
        _ => None,
    };
    line.close()?;
    Ok(StreamOp { mark, op, fields, recorded })
}

fn op(line: &mut Line<'_>) -> Result<StreamOpKind, StreamOpError> {
    Ok(match line.op {
        "system" => StreamOpKind::System { text: line.text("text")? },
        "user" => StreamOpKind::User { text: line.text("text")? },
        "reasoning" => StreamOpKind::Reasoning { text: line.text("text")? },
        "assistant" => assistant(line)?,
        "tool_result" => StreamOpKind::ToolResult {
            call_id: line.text("call_id")?,
            name: line.optional_text("name")?,
            content: line.text_or_parts("content")?.ok_or_else(|| line.missing("content"))?,
            is_error: line.flag("is_error")?,
        },
        "commit" => commit(line)?,
        "edit" => edit(line)?,
        "annotate" => StreamOpKind::Annotate {
            targets: line.targets("target", "targets")?.ok_or_else(|| line.missing("target"))?,
            priority: priority(line)?.ok_or_else(|| line.missing("priority"))?,
            reason: line.optional_text("reason")?,
            retention: line.json("retention")?,
        },
        "compress" => compress(line)?,
        "revert" => StreamOpKind::Revert {
            targets: line.targets("target", "targets")?.ok_or_else(|| line.missing("target"))?,
            cascade: line.flag("cascade")?,
        },
        "merge" => StreamOpKind::Merge { from: line.name("from")? },
        "set_tools" => StreamOpKind::SetTools {
            tools: line.schemas("tools")?.ok_or_else(|| line.missing("tools"))?,
        },
        "note" => StreamOpKind::Note { text: line.text("text")? },
        "branch" => {
            StreamOpKind::Branch { name: line.name("name")?, from: line.optional_name("from")? }
        }
        "checkout" => StreamOpKind::Checkout { name: line.name("name")? },
        "tag" => {
            StreamOpKind::Tag { name: line.name("name")?, target: line.optional_name("target")? }
        }
        "blob" => blob(line)?,
        "ref" => reference(line)?,
        // `record`: `Line::open` accepts no other operation.
        _ => StreamOpKind::Record,
    })
}

fn fields(line: &mut Line<'_>) -> Result<StreamOpFields, StreamOpError> {
    let mut fields = StreamOpFields::default();
    let takes = accepted_fields(line.op);
    if takes >= AcceptedFields::CommitFields {
        fields.message = line.optional_text("message")?;
        fields.metadata = line.object("metadata")?;
        fields.at = at(line)?;
    }
    if takes >= AcceptedFields::TextFields {
        fields.generation_config = line.object("generation_config")?;
        fields.tools = line.schemas("tools")?;
    }
    if takes >= AcceptedFields::MessageFields {
        fields.priority = priority(line)?;
    }
    Ok(fields)
}

fn at(line: &mut Line<'_>) -> Result<Option<i64>, StreamOpError> {
    let Some(raw) = line.raw("at") else { return Ok(None) };
    if let Ok(text) = serde_json::from_str::<String>(raw) {
        let at = time::parse_rfc3339(&text);
        return at.map(Some).map_err(|error| StreamOpError::bad_value("at", error));
    }
    raw.parse().map(Some).map_err(|_| {
        let expected = "an RFC 3339 time or whole microseconds since 1970";
        StreamOpError::bad_value("at", format_args!("expected {expected}, found {}", cut(raw)))
    })
}

fn priority(line: &mut Line<'_>) -> Result<Option<Priority>, StreamOpError> {
    let Some(word) = line.optional_text("priority")? else { return Ok(None) };
    Priority::parse(&word).map(Some).ok_or_else(|| {
        let expected = "skip, normal, important or pinned";
        let why = format!("expected {expected}, found {:?}", cut(&word));
        StreamOpError::bad_value("priority", why)
    })
}

fn assistant(line: &mut Line<'_>) -> Result<StreamOpKind, StreamOpError> {
    let text = line.optional_text("text")?;
    let reasoning = line.optional_text("reasoning")?;
    let calls = line.optional_list("tool_calls")?;
    if text.is_none() && reasoning.is_none() && calls.is_none() {
        return Err(line.missing("text"));
    }
    let tool_calls = calls
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(n, raw)| tool_call(raw).map_err(|why| format!("call {}: {why}", n + 1)))
        .collect::<Result<_, _>>()
        .map_err(|why| StreamOpError::bad_value("tool_calls", why))?;
    Ok(StreamOpKind::Assistant { text: text.unwrap_or_default(), reasoning, tool_calls })
}

fn tool_call(raw: &str) -> Result<ToolCall, String> {
    const FIELDS: [&str; 3] = ["id", "name", "arguments"];
    if !raw.starts_with('{') {
        return Err("expected an object with id, name and arguments".to_owned());
    }
    let members = json::split_object(raw).map_err(|error| error.to_string())?;
    let mut found: [Option<&str>; 3] = [None; 3];
    for (key, value) in &members {
        let Some(place) = FIELDS.iter().position(|field| field == key) else {
            let note = match nearest(key, FIELDS) {
                Some(field) => format!("; did you mean {field:?}?"),
                None => String::new(),
            };
            return Err(format!("takes no field {:?}{note}", cut(key)));
        };
        if found[place].replace(value).is_some() {
            return Err(format!("duplicate field {key:?}"));
        }
    }
    let text = |place: usize| {
        let raw = found[place].ok_or_else(|| format!("expects a field {:?}", FIELDS[place]))?;
        serde_json::from_str::<String>(raw)
            .map_err(|_| format!("field {:?} expects text, found {}", FIELDS[place], cut(raw)))
    };
    let arguments = match found[2] {
        // An object is kept as written.
        Some(raw) if raw.starts_with('{') => raw.to_owned(),
        None => return Err("expects a field \"arguments\"".to_owned()),
        Some(raw) => serde_json::from_str(raw).map_err(|_| {
            format!("field \"arguments\" expects an object or text, found {}", cut(raw))
        })?,
    };
    Ok(ToolCall { id: text(0)?, name: text(1)?, arguments })
}

fn commit(line: &mut Line<'_>) -> Result<StreamOpKind, StreamOpError> {
    let kind = Kind::parse(&line.name("kind")?);
    let role = line.optional_name("role")?.map(|word| Role::parse(&word));
    let (list, content) = (line.raw("parts"), line.raw("content"));
    let content = match (list, content) {
        (Some(_), Some(_)) => return Err(line.both("parts", "content")),
        (None, None) => return Err(line.missing("parts")),
        (None, Some(raw)) => Content::from_blob(&kind, raw)
            .map_err(|error| StreamOpError::bad_value("content", error))?,
        (Some(raw), None) => {
            let body = Body { parts: parts(raw, "parts")?, name: None };
            let why = format!("kind {kind} has none; use \"content\"");
            Content::of_body(kind, body).ok_or_else(|| StreamOpError::bad_value("parts", why))?
        }
    };
    Ok(StreamOpKind::Commit { content, role })
}

fn edit(line: &mut Line<'_>) -> Result<StreamOpKind, StreamOpError> {
    let target = line.name("target")?;
    let text = line.optional_text("text")?;
    let content = line.text_or_parts("content")?;
    let content = match (text, content) {
        (Some(_), Some(_)) => return Err(line.both("text", "content")),
        (Some(text), None) => vec![Part::Text { text }],
        (None, Some(parts)) => parts,
        (None, None) => return Err(line.missing("text")),
    };
    Ok(StreamOpKind::Edit { target, content })
}

fn compress(line: &mut Line<'_>) -> Result<StreamOpKind, StreamOpError> {
    let (from, to) = (line.optional_name("from")?, line.optional_name("to")?);
    // `target` is not documented for this operation, but a single message is accepted as a list of
    // one.
    let targets = line.targets("target", "targets")?;
    let what = match (from, to, targets) {
        (None, None, Some(targets)) => CompressWhat::Targets(targets),
        (Some(from), Some(to), None) => CompressWhat::Range { from, to },
        (None, _, None) => return Err(line.missing("from")),
        (Some(_), None, None) => return Err(line.missing("to")),
        (_, _, Some(_)) => return Err(line.both("from", "targets")),
    };
    Ok(StreamOpKind::Compress {
        what,
        content: line.text("content")?,
        kind: line.optional_name("kind")?.map(|word| Kind::parse(&word)),
    })
}

fn blob(line: &mut Line<'_>) -> Result<StreamOpKind, StreamOpError> {
    let id: BlobId = named(&line.text("id")?, "id")?;
    let bytes = match (line.optional_text("text")?, line.optional_text("base64")?) {
        (Some(_), Some(_)) => return Err(line.both("text", "base64")),
        (Some(text), None) => text.into_bytes(),
        // Strict decoding: there is only one text for each byte sequence.
        (None, Some(text)) => BASE64_STANDARD.decode(&text).map_err(|_| {
            StreamOpError::bad_value("base64", "expected standard base64 with padding")
        })?,
        (None, None) => return Err(line.missing("text")),
    };
    let blob = Blob::seal(bytes);
    same_id("blob", id, blob.id())?;
    Ok(StreamOpKind::Blob(blob))
}

fn reference(line: &mut Line<'_>) -> Result<StreamOpKind, StreamOpError> {
    let name = named(&line.text("name")?, "name")?;
    let text = line.text("to")?;
    let to = match text.split_once(' ') {
        Some(("commit", hex)) => RefTarget::Commit(named(hex, "to")?),
        Some(("blob", hex)) => RefTarget::Blob(named(hex, "to")?),
        Some(("ref", name)) => RefTarget::Ref(named(name, "to")?),
        _ => match text.parse::<CommitId>() {
            Ok(id) => RefTarget::Commit(id),
            Err(_) => RefTarget::Ref(named(&text, "to")?),
        },
    };
    Ok(StreamOpKind::Ref { name, to })
}

/// Parses an id or the name of a ref.
fn named<T: FromStr<Err: fmt::Display>>(
    text: &str,
    field: &'static str,
) -> Result<T, StreamOpError> {
    text.parse().map_err(|error: T::Err| StreamOpError::bad_value(field, error))
}

fn same_id<T: PartialEq + fmt::Display>(
    what: &'static str,
    stated: T,
    found: T,
) -> Result<(), StreamOpError> {
    if stated == found {
        return Ok(());
    }
    let (stated, found) = (stated.to_string(), found.to_string());
    Err(StreamOpError::OtherId { what, stated, found })
}

fn recorded(line: &mut Line<'_>) -> Result<Option<Commit>, StreamOpError> {
    let stated = line.optional_text("commit")?;
    let record = line.object("record")?;
    let (stated, record) = match (stated, record) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(line.missing("record")),
        (None, Some(_)) => return Err(line.missing("commit")),
        (Some(stated), Some(record)) => (stated, record),
    };
    let stated: CommitId = named(&stated, "commit")?;
    let commit = Commit::from_canonical(record.as_str())?;
    same_id("commit", stated, commit.id())?;
    Ok(Some(commit))
}
