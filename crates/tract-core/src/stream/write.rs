//! Writes a stream operation as a line: `op`, `mark`, its own fields, the shared ones, the record.

use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::{
    AcceptedFields, CompressWhat, StreamOp, StreamOpError, StreamOpFields, StreamOpKind,
    accepted_fields,
};
use crate::content::{Body, Content, Part, ToolCall};
use crate::json::{self, Escapes, MAX_DEPTH};
use crate::refs::RefTarget;
use crate::schema::ToolSchema;
use crate::text::JsonText;
use crate::time;

struct Fields(String);

impl Fields {
    fn key(&mut self, key: &str) -> &mut String {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        json::write_string(&mut self.0, key, Escapes::Raw);
        self.0.push(':');
        &mut self.0
    }

    fn text(&mut self, key: &str, text: &str) {
        json::write_string(self.key(key), text, Escapes::Raw);
    }

    fn optional(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    fn raw(&mut self, key: &str, raw: &str) {
        self.key(key).push_str(raw);
    }

    fn json(&mut self, key: &str, json: Option<&JsonText>) {
        if let Some(json) = json {
            self.raw(key, json.as_str());
        }
    }

    fn flag(&mut self, key: &str, flag: bool) {
        if flag {
            self.raw(key, "true");
        }
    }

    fn list<T>(&mut self, key: &str, items: &[T], mut write: impl FnMut(&mut String, &T)) {
        let out = self.key(key);
        out.push('[');
        for (n, item) in items.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            write(out, item);
        }
        out.push(']');
    }

    fn targets(&mut self, targets: &[String]) {
        self.list("targets", targets, |out, target| {
            json::write_string(out, target, Escapes::Raw);
        });
    }

    fn target_or_targets(&mut self, targets: &[String]) {
        match targets {
            [target] => self.text("target", target),
            _ => self.targets(targets),
        }
    }

    fn schemas(&mut self, schemas: &[ToolSchema]) {
        self.list("tools", schemas, |out, schema| embed(out, schema.text(), 2));
    }

    /// Writes a single text part as text, under `text_key`, and other parts as a list, like content
    /// blobs.
    fn text_or_parts(&mut self, text_key: &str, parts: &[Part]) -> Result<(), StreamOpError> {
        match parts {
            [Part::Text { text }] => {
                self.text(text_key, text);
                Ok(())
            }
            _ => self.parts("content", parts),
        }
    }

    fn parts(&mut self, key: &str, parts: &[Part]) -> Result<(), StreamOpError> {
        let text = serde_json::to_string(parts);
        self.raw(key, &text.map_err(|error| StreamOpError::bad_value("parts", error))?);
        Ok(())
    }
}

/// Writes an object as it is, if a line can contain it at this depth and return it byte for byte;
/// otherwise as a string.
fn embed(out: &mut String, object: &str, depth: usize) {
    let fits = object.starts_with('{')
        && object.ends_with('}')
        && !object.contains(['\n', '\r'])
        && json::check(object).is_ok()
        && depth + json::nesting(object) <= MAX_DEPTH;
    if fits { out.push_str(object) } else { json::write_string(out, object, Escapes::Raw) }
}

pub(super) fn operation(operation: &StreamOp) -> Result<String, StreamOpError> {
    let op = operation.op.name();
    let mut out = Fields(String::with_capacity(128));
    out.text("op", op);
    out.optional("mark", operation.mark.as_deref());
    write_op(&mut out, &operation.op)?;
    shared(&mut out, op, &operation.fields)?;
    match &operation.recorded {
        Some(_) if accepted_fields(op) == AcceptedFields::Nothing && op != "record" => {
            return Err(unknown(op, "record"));
        }
        None if op == "record" => return Err(StreamOpError::MissingField { op, field: "record" }),
        None => {}
        Some(commit) => {
            out.text("commit", &commit.id().to_hex());
            out.raw("record", &commit.canonical());
        }
    }
    out.0.push('}');
    Ok(out.0)
}

fn unknown(op: &'static str, field: &str) -> StreamOpError {
    StreamOpError::UnknownField { op, found: field.to_owned(), nearest: None }
}

fn write_op(out: &mut Fields, op: &StreamOpKind) -> Result<(), StreamOpError> {
    match op {
        StreamOpKind::System { text }
        | StreamOpKind::User { text }
        | StreamOpKind::Reasoning { text }
        | StreamOpKind::Note { text } => out.text("text", text),
        StreamOpKind::Assistant { text, reasoning, tool_calls } => {
            out.text("text", text);
            out.optional("reasoning", reasoning.as_deref());
            if !tool_calls.is_empty() {
                out.list("tool_calls", tool_calls, write_call);
            }
        }
        StreamOpKind::ToolResult { call_id, name, content, is_error } => {
            out.text("call_id", call_id);
            out.optional("name", name.as_deref());
            out.text_or_parts("content", content)?;
            out.flag("is_error", *is_error);
        }
        StreamOpKind::Commit { content, role } => {
            out.text("kind", content.kind().as_str());
            out.optional("role", role.as_ref().map(|role| role.as_str()));
            write_content(out, content)?;
        }
        StreamOpKind::Edit { target, content } => {
            out.text("target", target);
            out.text_or_parts("text", content)?;
        }
        StreamOpKind::Annotate { targets, priority, reason, retention } => {
            out.target_or_targets(targets);
            out.text("priority", priority.as_str());
            out.optional("reason", reason.as_deref());
            out.json("retention", retention.as_ref());
        }
        StreamOpKind::Compress { what, content, kind } => {
            match what {
                CompressWhat::Range { from, to } => {
                    out.text("from", from);
                    out.text("to", to);
                }
                CompressWhat::Targets(targets) => out.targets(targets),
            }
            out.text("content", content);
            out.optional("kind", kind.as_ref().map(|kind| kind.as_str()));
        }
        StreamOpKind::Revert { targets, cascade } => {
            out.target_or_targets(targets);
            out.flag("cascade", *cascade);
        }
        StreamOpKind::Merge { from } => out.text("from", from),
        StreamOpKind::SetTools { tools } => out.schemas(tools),
        StreamOpKind::Branch { name, from } => {
            out.text("name", name);
            out.optional("from", from.as_deref());
        }
        StreamOpKind::Checkout { name } => out.text("name", name),
        StreamOpKind::Tag { name, target } => {
            out.text("name", name);
            out.optional("target", target.as_deref());
        }
        StreamOpKind::Blob(blob) => {
            out.text("id", &blob.id().to_hex());
            match blob.text() {
                Some(text) => out.text("text", text),
                None => out.text("base64", &BASE64_STANDARD.encode(blob.bytes())),
            }
        }
        StreamOpKind::Ref { name, to } => {
            out.text("name", name.as_str());
            out.text("to", &ref_target(to));
        }
        StreamOpKind::Record => {}
    }
    Ok(())
}

fn write_call(out: &mut String, call: &ToolCall) {
    out.push_str("{\"id\":");
    json::write_string(out, &call.id, Escapes::Raw);
    out.push_str(",\"name\":");
    json::write_string(out, &call.name, Escapes::Raw);
    out.push_str(",\"arguments\":");
    embed(out, &call.arguments, 3);
    out.push('}');
}

fn write_content(out: &mut Fields, content: &Content) -> Result<(), StreamOpError> {
    if let Some(Body { parts, name: None }) = content.body() {
        return out.parts("parts", parts);
    }
    let blob = content.to_blob().map_err(|error| StreamOpError::bad_value("content", error))?;
    out.raw("content", &blob);
    Ok(())
}

/// Writes commits and ref names without a prefix, and adds one to targets that would be ambiguous.
fn ref_target(to: &RefTarget) -> String {
    match to {
        RefTarget::Commit(id) => id.to_hex(),
        RefTarget::Blob(id) => format!("blob {id}"),
        RefTarget::Ref(name) if name.as_str().parse::<crate::id::CommitId>().is_ok() => {
            // Without the word, this name would be read as the id of a commit.
            format!("ref {name}")
        }
        RefTarget::Ref(name) => name.as_str().to_owned(),
    }
}

fn shared(
    out: &mut Fields,
    op: &'static str,
    fields: &StreamOpFields,
) -> Result<(), StreamOpError> {
    let takes = accepted_fields(op);
    let given = [
        ("message", fields.message.is_some(), AcceptedFields::CommitFields),
        ("metadata", fields.metadata.is_some(), AcceptedFields::CommitFields),
        ("at", fields.at.is_some(), AcceptedFields::CommitFields),
        ("generation_config", fields.generation_config.is_some(), AcceptedFields::TextFields),
        ("tools", fields.tools.is_some(), AcceptedFields::TextFields),
        ("priority", fields.priority.is_some(), AcceptedFields::MessageFields),
    ];
    if let Some((field, ..)) = given.iter().find(|(_, given, least)| *given && takes < *least) {
        return Err(unknown(op, field));
    }
    out.optional("message", fields.message.as_deref());
    out.json("metadata", fields.metadata.as_ref());
    out.json("generation_config", fields.generation_config.as_ref());
    if let Some(tools) = &fields.tools {
        out.schemas(tools);
    }
    out.optional("priority", fields.priority.map(|priority| priority.as_str()));
    if let Some(at) = fields.at {
        match time::format_rfc3339(at) {
            Some(text) => out.text("at", &text),
            None => out.raw("at", &at.to_string()),
        }
    }
    Ok(())
}
