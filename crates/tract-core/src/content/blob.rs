//! The canonical blob of content.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Body, Content, ContentError, Kind, Part, ToolAnswer};
use crate::json::{self, Escapes};
use crate::text::JsonText;

/// The blob of a body.
#[derive(Serialize)]
#[serde(untagged)]
enum BodyBlob<'a> {
    Text(&'a str),
    Parts(&'a [Part]),
    Named { name: &'a str, parts: &'a [Part] },
}

#[derive(Deserialize)]
struct NamedBlob {
    name: String,
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct AnswerBlob<'a> {
    call_id: &'a str,
    content: BodyBlob<'a>,
    #[serde(skip_serializing_if = "is_false")]
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

/// The same, for reading. It borrows the text, which may be large.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerText<'a> {
    call_id: String,
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(default)]
    is_error: bool,
    name: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl Content {
    /// Returns the canonical text, which is stored and hashed.
    ///
    /// # Errors
    /// [`ContentError::Json`] if a string cannot be written canonically.
    pub fn to_blob(&self) -> Result<String, ContentError> {
        let text = |value: Result<String, serde_json::Error>| -> Result<String, ContentError> {
            let value = value.map_err(|source| ContentError::Shape {
                kind: self.kind().as_str().to_owned(),
                source,
            })?;
            Ok(json::canonical(&value, Escapes::Raw)?)
        };
        match self {
            Self::System(body)
            | Self::User(body)
            | Self::Assistant(body)
            | Self::Reasoning(body)
            | Self::Custom { body, .. } => match (body.parts.as_slice(), &body.name) {
                // A single text is a JSON string, everything else a list or an object. Readers rely
                // on that: a blob that begins with a quote contains no calls, so the tool index
                // does not parse it.
                ([Part::Text { text }], None) => {
                    let mut out = String::with_capacity(json::string_len(text));
                    json::write_string(&mut out, text, Escapes::Raw);
                    Ok(out)
                }
                _ => text(serde_json::to_string(&BodyBlob::of(body))),
            },
            Self::ToolResult(answer) => match answer.parts.as_slice() {
                [Part::Text { text }] => Ok(answer_of_text(answer, text)),
                parts => text(serde_json::to_string(&AnswerBlob {
                    call_id: &answer.call_id,
                    content: BodyBlob::Parts(parts),
                    is_error: answer.is_error,
                    name: answer.name.as_deref(),
                })),
            },
            Self::Artifact(artifact) => text(serde_json::to_string(artifact)),
            Self::Note(json) => Ok(json.as_str().to_owned()),
        }
    }

    /// Returns [`to_blob`](Self::to_blob), reusing the memory of the text. If the content is a
    /// single text, it is moved out instead of being copied. Other content is left in place.
    ///
    /// # Errors
    /// As [`to_blob`](Self::to_blob).
    pub fn take_blob(&mut self) -> Result<String, ContentError> {
        match self {
            Self::System(body)
            | Self::User(body)
            | Self::Assistant(body)
            | Self::Reasoning(body)
            | Self::Custom { body, .. } => {
                if let ([Part::Text { text }], None) = (body.parts.as_mut_slice(), &body.name) {
                    return Ok(json::quote("", std::mem::take(text), ""));
                }
            }
            Self::ToolResult(answer) => {
                if let [Part::Text { text }] = answer.parts.as_mut_slice() {
                    let text = std::mem::take(text);
                    let (before, after) = around_text(answer);
                    return Ok(json::quote(&before, text, &after));
                }
            }
            Self::Artifact(_) | Self::Note(_) => {}
        }
        self.to_blob()
    }

    /// Parses the blob of a commit of this kind.
    ///
    /// # Errors
    /// [`ContentError`] if the blob does not have the shape required by the kind.
    pub fn from_blob(kind: &Kind, blob: &str) -> Result<Self, ContentError> {
        let shape = |source| ContentError::Shape { kind: kind.as_str().to_owned(), source };
        let body = || Body::read(blob).map_err(shape);
        Ok(match kind {
            Kind::System => Self::System(body()?),
            Kind::User => Self::User(body()?),
            Kind::Assistant => Self::Assistant(body()?),
            Kind::Reasoning => Self::Reasoning(body()?),
            Kind::Custom(name) => Self::Custom { kind: name.clone(), body: body()? },
            Kind::ToolResult => {
                let answer: AnswerText<'_> = serde_json::from_str(blob).map_err(shape)?;
                Self::ToolResult(ToolAnswer {
                    call_id: answer.call_id,
                    name: answer.name,
                    is_error: answer.is_error,
                    parts: Body::read(answer.content.get()).map_err(shape)?.parts,
                })
            }
            Kind::Artifact => Self::Artifact(serde_json::from_str(blob).map_err(shape)?),
            Kind::Note => Self::Note(JsonText::new(blob)?),
        })
    }
}

/// Writes the most common result directly, with its keys in order and one allocation for the text,
/// which may be large.
fn answer_of_text(answer: &ToolAnswer, text: &str) -> String {
    let (mut out, after) = around_text(answer);
    out.reserve_exact(json::string_len(text) + after.len());
    json::write_string(&mut out, text, Escapes::Raw);
    out + &after
}

/// Returns the canonical text before and after the text of a result.
fn around_text(answer: &ToolAnswer) -> (String, String) {
    // The members are those of `AnswerBlob`, in the order of their keys. The text in between is
    // canonical as well, so the result needs no further pass.
    let mut before = "{\"call_id\":".to_owned();
    json::write_string(&mut before, &answer.call_id, Escapes::Raw);
    before.push_str(",\"content\":");
    let mut after = String::new();
    if answer.is_error {
        after.push_str(",\"is_error\":true");
    }
    if let Some(name) = &answer.name {
        after.push_str(",\"name\":");
        json::write_string(&mut after, name, Escapes::Raw);
    }
    after.push('}');
    (before, after)
}

impl<'a> BodyBlob<'a> {
    fn of(body: &'a Body) -> Self {
        match (body.parts.as_slice(), &body.name) {
            ([Part::Text { text }], None) => Self::Text(text),
            (parts, None) => Self::Parts(parts),
            (parts, Some(name)) => Self::Named { name, parts },
        }
    }
}

impl Body {
    /// Parses a text, a list of parts, or a named list of parts.
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        match json.trim_ascii_start().as_bytes().first() {
            Some(b'"') => match json::read_string(json) {
                Some(text) => Ok(Self::text(text)),
                None => serde_json::from_str::<String>(json).map(Self::text),
            },
            Some(b'{') => {
                let NamedBlob { name, parts } = serde_json::from_str(json)?;
                Ok(Self { parts, name: Some(name) })
            }
            _ => Ok(Self { parts: serde_json::from_str(json)?, name: None }),
        }
    }
}
