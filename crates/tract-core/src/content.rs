//! The content of messages: kinds, roles, parts, and their canonical blobs.

mod blob;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::json::JsonError;
use crate::text::JsonText;

/// The priority of a message for compiling and summarizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Left out of the compiled context, but still a row of the view.
    Skip,
    /// In the context; may be summarized.
    Normal,
    /// In the context; a summary must satisfy its retention rule.
    Important,
    /// In the context; never summarized.
    Pinned,
}

impl Priority {
    /// In the order of their stored numbers.
    const ALL: [Self; 4] = [Self::Skip, Self::Normal, Self::Important, Self::Pinned];

    /// Returns the number used in stores.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the priority with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the word used in records and streams.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Normal => "normal",
            Self::Important => "important",
            Self::Pinned => "pinned",
        }
    }

    /// Returns the priority with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == word)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of message in a commit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Instructions to the model.
    System,
    /// A message of a person, or of a program that acts for one.
    User,
    /// A message of the model, including its tool calls.
    Assistant,
    /// The answer to a tool call.
    ToolResult,
    /// Reasoning recorded apart from a message.
    Reasoning,
    /// A document produced by the conversation.
    Artifact,
    /// Data that no model sees unless its priority is raised.
    Note,
    /// A kind defined by the caller.
    Custom(String),
}

/// The predefined kinds, in the order of their stored numbers, from 1.
pub(crate) static NAMED_KINDS: [Kind; 7] = [
    Kind::System,
    Kind::User,
    Kind::Assistant,
    Kind::ToolResult,
    Kind::Reasoning,
    Kind::Artifact,
    Kind::Note,
];

impl Kind {
    /// Returns the word used in records.
    pub fn as_str(&self) -> &str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::ToolResult => "tool_result",
            Self::Reasoning => "reasoning",
            Self::Artifact => "artifact",
            Self::Note => "note",
            Self::Custom(name) => name,
        }
    }

    /// Returns the kind with this word; an unknown word is a custom kind.
    pub fn parse(word: &str) -> Self {
        let named = NAMED_KINDS.iter().find(|kind| kind.as_str() == word);
        named.cloned().unwrap_or_else(|| Self::Custom(word.to_owned()))
    }

    /// Returns the role of a commit of this kind without an explicit role.
    pub fn default_role(&self) -> Role {
        match self {
            Self::System => Role::System,
            Self::User | Self::Note => Role::User,
            Self::Assistant | Self::Reasoning | Self::Artifact | Self::Custom(_) => Role::Assistant,
            Self::ToolResult => Role::Tool,
        }
    }

    /// Returns the default priority of a row without a mark. Part of record version 1.
    pub fn default_priority(&self) -> Priority {
        match self {
            Self::System => Priority::Pinned,
            Self::Reasoning | Self::Note => Priority::Skip,
            Self::User | Self::Assistant | Self::ToolResult | Self::Artifact | Self::Custom(_) => {
                Priority::Normal
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The role of a message, in the providers' terms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `system`
    System,
    /// `developer`, OpenAI's newer role for instructions.
    Developer,
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `tool`
    Tool,
    /// Any other role.
    Other(String),
}

impl Role {
    /// Returns the word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Other(name) => name,
        }
    }

    /// Returns the role with this word.
    pub fn parse(word: &str) -> Self {
        let known = [Self::System, Self::Developer, Self::User, Self::Assistant, Self::Tool];
        let known = known.into_iter().find(|role| role.as_str() == word);
        known.unwrap_or_else(|| Self::Other(word.to_owned()))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, by reference or inline.
    Image {
        /// Media type such as `image/png`, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// The source of the image.
        source: ImageSource,
    },
    /// A tool call by the model.
    ToolCall(ToolCall),
    /// Reasoning that belongs to this message.
    Reasoning {
        /// The text of the reasoning, as far as the provider shows it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        /// The provider's signature of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Reasoning that only the provider can read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encrypted: Option<String>,
    },
    /// A provider's part without an equivalent in the neutral model.
    Opaque {
        /// Its dialect, such as `anthropic`.
        dialect: String,
        /// The JSON text as received.
        json: String,
    },
}

impl Part {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates a tool call.
    pub fn call(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
    }

    /// Returns why reasoning has no readable text: `encrypted` if only its provider can read it, else
    /// `no text`. `None` for readable reasoning and other parts.
    pub fn unreadable_reasoning(&self) -> Option<&'static str> {
        match self {
            Self::Reasoning { text, .. } if !text.is_empty() => None,
            Self::Reasoning { signature: None, encrypted: None, .. } => Some("no text"),
            Self::Reasoning { .. } => Some("encrypted"),
            Self::Text { .. } | Self::ToolCall(_) | Self::Image { .. } | Self::Opaque { .. } => {
                None
            }
        }
    }
}

/// A tool call by the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The provider's id of the call, which the result refers to.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: text, JSON or not.
    pub arguments: String,
}

/// The source of an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// A URL.
    Url(String),
    /// Inline data, in base64.
    Base64(String),
    /// A file at the provider, by id.
    File(String),
}

/// The parts of a message and, if given, the speaker's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Body {
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// The speaker's `name`, supported by some providers.
    pub name: Option<String>,
}

impl Body {
    /// Creates a body with one text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], name: None }
    }
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolAnswer {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name, if known.
    pub name: Option<String>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// The text for the model.
    pub parts: Vec<Part>,
}

/// A document produced by the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// The kind of document, such as `code` or `plan`.
    pub artifact_type: String,
    /// Its language, if applicable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Its text.
    pub text: String,
}

/// The content of a message.
///
/// ```
/// use tract_core::{Content, Kind};
/// let content = Content::user("Do I need a coat?");
/// assert_eq!(content.to_blob()?, "\"Do I need a coat?\"");
/// assert_eq!(Content::from_blob(&Kind::User, &content.to_blob()?)?, content);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Instructions to the model.
    System(Body),
    /// A message of a person.
    User(Body),
    /// A message of the model.
    Assistant(Body),
    /// The result of a tool call.
    ToolResult(ToolAnswer),
    /// Reasoning recorded apart from a message.
    Reasoning(Body),
    /// A document.
    Artifact(Artifact),
    /// Data for programs.
    Note(JsonText),
    /// A kind defined by the caller.
    Custom {
        /// The kind's name.
        kind: String,
        /// Its parts.
        body: Body,
    },
}

/// Error of a content blob that does not fit its kind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// The blob is not UTF-8.
    #[error("content is not UTF-8")]
    NotText,
    /// The blob is not JSON of the shape required by its kind.
    #[error("content is not a valid {kind}: {source}")]
    Shape {
        /// The kind of the commit.
        kind: String,
        /// The error of the JSON parser.
        source: serde_json::Error,
    },
    /// A value in the content cannot be written canonically.
    #[error("content has no canonical form: {0}")]
    Json(#[from] JsonError),
}

impl Content {
    /// Creates instructions with one text part.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System(Body::text(text))
    }

    /// Creates a user message with one text part.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(Body::text(text))
    }

    /// Creates a model message with one text part, or without parts for an empty text.
    pub fn assistant(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() {
            Self::Assistant(Body::default())
        } else {
            Self::Assistant(Body::text(text))
        }
    }

    /// Creates the result of a call.
    pub fn tool_result(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::ToolResult(ToolAnswer {
            call_id: call_id.into(),
            name: None,
            is_error: false,
            parts: vec![Part::text(text)],
        })
    }

    /// Creates content from a body; `None` for kinds that are not a body.
    pub fn of_body(kind: Kind, body: Body) -> Option<Self> {
        match kind {
            Kind::System => Some(Self::System(body)),
            Kind::User => Some(Self::User(body)),
            Kind::Assistant => Some(Self::Assistant(body)),
            Kind::Reasoning => Some(Self::Reasoning(body)),
            Kind::Custom(kind) => Some(Self::Custom { kind, body }),
            Kind::ToolResult | Kind::Artifact | Kind::Note => None,
        }
    }

    /// Returns the body; `None` for kinds that are not a body.
    pub fn body(&self) -> Option<&Body> {
        match self {
            Self::System(body)
            | Self::User(body)
            | Self::Assistant(body)
            | Self::Reasoning(body)
            | Self::Custom { body, .. } => Some(body),
            Self::ToolResult(_) | Self::Artifact(_) | Self::Note(_) => None,
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::System(_) => Kind::System,
            Self::User(_) => Kind::User,
            Self::Assistant(_) => Kind::Assistant,
            Self::ToolResult(_) => Kind::ToolResult,
            Self::Reasoning(_) => Kind::Reasoning,
            Self::Artifact(_) => Kind::Artifact,
            Self::Note(_) => Kind::Note,
            Self::Custom { kind, .. } => Kind::Custom(kind.clone()),
        }
    }

    /// Returns the parts; an artifact and a note do not have any.
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::System(body)
            | Self::User(body)
            | Self::Assistant(body)
            | Self::Reasoning(body)
            | Self::Custom { body, .. } => &body.parts,
            Self::ToolResult(answer) => &answer.parts,
            Self::Artifact(_) | Self::Note(_) => &[],
        }
    }

    /// Returns the parts mutably; `None` for an artifact or a note.
    pub fn parts_mut(&mut self) -> Option<&mut Vec<Part>> {
        match self {
            Self::System(body)
            | Self::User(body)
            | Self::Assistant(body)
            | Self::Reasoning(body)
            | Self::Custom { body, .. } => Some(&mut body.parts),
            Self::ToolResult(answer) => Some(&mut answer.parts),
            Self::Artifact(_) | Self::Note(_) => None,
        }
    }

    /// Returns the tool calls, in order. The position in this order is the *call index*.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts().iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. }
            | Part::Image { .. }
            | Part::Reasoning { .. }
            | Part::Opaque { .. } => None,
        })
    }

    /// Returns the readable text of all reasoning parts, joined by newlines.
    pub fn reasoning(&self) -> String {
        let mut out = String::new();
        for part in self.parts() {
            if let Part::Reasoning { text, .. } = part
                && !text.is_empty()
            {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
            }
        }
        out
    }

    /// Returns the text of all text parts, joined by newlines; the text of an artifact; the JSON of
    /// a note.
    pub fn text(&self) -> String {
        match self {
            Self::Artifact(artifact) => artifact.text.clone(),
            Self::Note(json) => json.as_str().to_owned(),
            Self::System(_)
            | Self::User(_)
            | Self::Assistant(_)
            | Self::ToolResult(_)
            | Self::Reasoning(_)
            | Self::Custom { .. } => {
                let mut out = String::new();
                for part in self.parts() {
                    if let Part::Text { text } = part {
                        if !out.is_empty() {
                            out.push('\n');
                        }
                        out.push_str(text);
                    }
                }
                out
            }
        }
    }
}
