//! Converts the content of a commit of the original.

use std::collections::HashMap;

use super::database::Commit;
use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::json::{self, JsonError};
use tract_core::{Artifact, Body, Content, JsonText, Part, Priority, Role, ToolAnswer};

use super::text;

/// The parsed content of a commit.
#[derive(Debug)]
pub(super) enum PythonContent {
    /// A message.
    Message(Box<Message>),
    /// Data that no model sees.
    Data(JsonText),
}

/// A message and its properties.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) content: Content,
    pub(super) role: Option<Role>,
    /// The original's priority for its type; `None` if it is the default of the kind.
    pub(super) priority: Option<Priority>,
    /// The name of an instruction, which replaces earlier ones of that name.
    pub(super) replaces: Option<String>,
    /// Details that the text does not contain.
    pub(super) detail: Option<JsonText>,
}

/// The reason why a commit's content cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("{field}: expected {expected}, found {found}")]
    Field { field: &'static str, expected: &'static str, found: String },
}

/// The original's text format for calls and results that were committed as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolText {
    /// A line and the payload under it.
    Full,
    /// The shortest form.
    Minimal,
}

/// The members of a JSON object.
struct Fields<'a>(HashMap<String, &'a str>);

impl<'a> Fields<'a> {
    fn of(text: &'a str) -> Result<Self, JsonError> {
        Ok(Self(json::split_object(text)?.into_iter().collect()))
    }

    fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied().filter(|raw| *raw != "null")
    }

    fn text(&self, name: &'static str) -> Result<Option<String>, Unreadable> {
        self.raw(name).map(|raw| string(name, raw)).transpose()
    }

    fn needed(&self, name: &'static str) -> Result<String, Unreadable> {
        self.text(name)?.ok_or(Unreadable::Field {
            field: name,
            expected: "a string",
            found: "nothing".to_owned(),
        })
    }
}

fn string(field: &'static str, raw: &str) -> Result<String, Unreadable> {
    serde_json::from_str(raw).map_err(|_| Unreadable::Field {
        field,
        expected: "a string",
        found: raw.chars().take(80).collect(),
    })
}

/// A call as the original stores it in a commit's metadata. The first version with tools left them
/// to the caller: calls in OpenAI's format are not calls to it and stay metadata.
#[derive(Deserialize)]
struct Call {
    id: String,
    name: String,
    arguments: Box<RawValue>,
}

/// Reads the content of a commit.
pub(super) fn read(
    commit: &Commit,
    payload: &str,
    tool_text: ToolText,
) -> Result<PythonContent, Unreadable> {
    let fields = Fields::of(payload)?;
    let metadata = Fields::of(commit.metadata.as_deref().unwrap_or("{}"))?;
    let whole = || JsonText::new(payload).map(Some);
    let custom = |kind: &str, text: String| Content::Custom {
        kind: kind.to_owned(),
        body: Body::text(text),
    };
    let mut message = Message {
        content: Content::Assistant(Body::default()),
        role: None,
        priority: None,
        replaces: None,
        detail: None,
    };
    match commit.content_type.as_str() {
        "instruction" => {
            message.content = Content::system(fields.needed("text")?);
            message.replaces = fields.text("name")?;
            if message.replaces.is_some() {
                message.detail = whole()?;
            }
        }
        "dialogue" => dialogue(&fields, &metadata, &mut message)?,
        "reasoning" => {
            message.content = Content::Reasoning(Body::text(fields.needed("text")?));
            if fields.raw("format").is_some() {
                message.detail = whole()?;
            }
        }
        "artifact" => {
            message.content = Content::Artifact(Artifact {
                artifact_type: fields.needed("artifact_type")?,
                language: fields.text("language")?,
                text: fields.needed("content")?,
            });
        }
        "output" => {
            message.content = custom("output", fields.needed("text")?);
            message.detail = whole()?;
        }
        "freeform" => {
            let text = text::indented(fields.raw("payload").unwrap_or("{}"))?;
            message.content = custom("freeform", text);
            message.detail = whole()?;
        }
        "session" => {
            message.content = custom("session", text::spaced(payload)?);
            message.role = Some(Role::System);
        }
        "tool_io" => {
            message.content = custom("tool_io", tool_io(&fields, tool_text)?);
            message.role = Some(Role::Tool);
            message.detail = whole()?;
        }
        "config" | "metadata" => return Ok(PythonContent::Data(JsonText::new(payload)?)),
        other => {
            let plain = match fields.text("text") {
                Ok(Some(text)) => Some(text),
                _ => fields.text("content").ok().flatten(),
            };
            let plain = plain.map_or_else(|| text::spaced(payload), Ok)?;
            message.content = custom(other, plain);
            message.detail = whole()?;
        }
    }
    Ok(PythonContent::Message(Box::new(message)))
}

fn dialogue(
    fields: &Fields<'_>,
    metadata: &Fields<'_>,
    message: &mut Message,
) -> Result<(), Unreadable> {
    let mut body = Body::text(fields.needed("text")?);
    body.name = fields.text("name")?;
    let call_id = metadata.raw("tool_call_id").and_then(|raw| string("tool_call_id", raw).ok());
    let role = fields.needed("role")?;
    message.content = match (role.as_str(), call_id) {
        ("tool", Some(call_id)) => Content::ToolResult(ToolAnswer {
            call_id,
            name: metadata.raw("name").and_then(|raw| string("name", raw).ok()).or(body.name),
            is_error: metadata.raw("is_error") == Some("true"),
            parts: body.parts,
        }),
        ("user", _) => Content::User(body),
        ("system", _) => {
            // Unlike an instruction, it has no special priority in the original.
            message.priority = Some(Priority::Normal);
            Content::System(body)
        }
        ("assistant", _) => {
            let calls = metadata.raw("tool_calls").unwrap_or("[]");
            let calls = serde_json::from_str::<Vec<Call>>(calls).unwrap_or_default();
            for call in calls {
                body.parts.push(Part::call(call.id, call.name, call.arguments.get()));
            }
            Content::Assistant(body)
        }
        (other, _) => {
            message.role = Some(Role::parse(other));
            Content::Custom { kind: "dialogue".to_owned(), body }
        }
    };
    Ok(())
}

/// Maximum length of a call that the original shows whole.
const LONGEST_CALL: usize = 200;

fn tool_io(fields: &Fields<'_>, tool_text: ToolText) -> Result<String, Unreadable> {
    let name = fields.needed("tool_name")?;
    let direction = fields.needed("direction")?;
    let status = fields.text("status")?;
    let payload = fields.raw("payload").unwrap_or("{}");
    let header = match &status {
        Some(status) => format!("Tool {direction}: {name} ({status})"),
        None => format!("Tool {direction}: {name}"),
    };
    if tool_text == ToolText::Full {
        return Ok(format!("{header}\n{}", text::indented(payload)?));
    }
    let mut members = json::split_object(payload)?;
    members.sort();
    if direction == "call" {
        let mut arguments = Vec::with_capacity(members.len());
        for (name, raw) in members {
            let text = serde_json::from_str::<String>(raw).map(|text| text::repr(&text));
            let value = text.or_else(|_| text::compact(raw))?;
            arguments.push(format!("{name}={value}"));
        }
        let call = format!("{name}({})", arguments.join(", "));
        return Ok(if call.chars().count() > LONGEST_CALL {
            call.chars().take(LONGEST_CALL - 3).chain("...".chars()).collect()
        } else {
            call
        });
    }
    if let [(key, raw)] = members.as_slice()
        && matches!(key.as_str(), "result" | "error" | "text")
    {
        let value = serde_json::from_str(raw).or_else(|_| text::compact(raw))?;
        let sign = if status.as_deref() == Some("error") { '\u{2717}' } else { '\u{2192}' };
        return Ok(format!("{name} {sign} {value}"));
    }
    Ok(format!("{header}\n{}", text::compact(payload)?))
}

/// Returns the log message of a commit; `None` if it is the one that the original derives from the
/// text.
pub(super) fn message(commit: &Commit, says: &PythonContent) -> Option<String> {
    let stated = commit.message.as_deref().filter(|message| !message.is_empty())?;
    if stated == commit.content_type {
        return None;
    }
    let PythonContent::Message(message) = says else { return Some(stated.to_owned()) };
    if let Content::ToolResult(answer) = &message.content
        && answer.name.as_deref() == stated.strip_prefix("tool result: ")
    {
        return None;
    }
    let labeled = stated.strip_prefix(&format!("{}: ", commit.content_type));
    let rest = labeled.unwrap_or(stated);
    let cut = rest.strip_suffix("...");
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (start, text) = (flat(cut.unwrap_or(rest)), flat(&message.content.text()));
    let own = if labeled.is_some() || cut.is_some() {
        !start.is_empty() && text.starts_with(&start)
    } else {
        start == text
    };
    (!own).then(|| stated.to_owned())
}
