//! What a message says: kinds, roles, parts, and their canonical blobs.

mod blob;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::json::JsonError;
use crate::text::JsonText;

/// The priority of a message for compiling and summarizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Left out of what is compiled; still a row of the view.
    Skip,
    /// Shown; may be compressed.
    Normal,
    /// Shown; compression has to keep what its retention asks for.
    Important,
    /// Shown; never compressed.
    Pinned,
}

impl Priority {
    /// In the order of the numbers that stores write.
    const ALL: [Self; 4] = [Self::Skip, Self::Normal, Self::Important, Self::Pinned];

    /// Returns the number that stores write.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the priority that has a number.
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

    /// Returns the priority that a word names.
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
    /// What a person said, or a program that acts for one.
    User,
    /// What the model said, with its tool calls.
    Assistant,
    /// The answer to a tool call.
    ToolResult,
    /// Reasoning recorded apart from a message.
    Reasoning,
    /// A document the conversation produced.
    Artifact,
    /// Data that no model sees unless its priority is raised.
    Note,
    /// A kind of the caller's own; its role and parts travel with the commit.
    Custom(String),
}

/// The kinds with names of their own, in the order of the numbers that stores write, from 1.
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

    /// Returns the kind that a word names; an unknown word is a custom kind.
    pub fn parse(word: &str) -> Self {
        let named = NAMED_KINDS.iter().find(|kind| kind.as_str() == word);
        named.cloned().unwrap_or_else(|| Self::Custom(word.to_owned()))
    }

    /// Returns the role that a commit of this kind has when it states none.
    pub fn default_role(&self) -> Role {
        match self {
            Self::System => Role::System,
            Self::User | Self::Note => Role::User,
            Self::Assistant | Self::Reasoning | Self::Artifact | Self::Custom(_) => Role::Assistant,
            Self::ToolResult => Role::Tool,
        }
    }

    /// Returns the priority of a row that no mark speaks of; fixed by record version 1.
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

/// The role of a message, in the words of the providers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `system`
    System,
    /// `developer`, OpenAI's newer word for instructions.
    Developer,
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `tool`
    Tool,
    /// Any other word.
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

    /// Returns the role that a word names.
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
    /// A picture, named or carried.
    Image {
        /// Media type such as `image/png`, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// Where the picture is.
        source: ImageSource,
    },
    /// A call that the model asks for.
    ToolCall(ToolCall),
    /// Thinking that belongs to this message.
    Reasoning {
        /// What was thought, as far as the provider shows it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        /// The provider's signature over it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Thinking that only the provider can read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encrypted: Option<String>,
    },
    /// Something of one provider's that the neutral model has no word for.
    Opaque {
        /// The dialect that it is written in, such as `anthropic`.
        dialect: String,
        /// The JSON text as it was received.
        json: String,
    },
}

impl Part {
    /// Makes a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Makes a tool call.
    pub fn call(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
    }
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The provider's id of the call; its answer names it.
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
    /// At a url.
    Url(String),
    /// Here, in base64.
    Base64(String),
    /// With the provider, under this id.
    File(String),
}

/// The parts of a message and, where given, the speaker's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Body {
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// The `name` some providers let a speaker have.
    pub name: Option<String>,
}

impl Body {
    /// Makes a body of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], name: None }
    }
}

/// The answer to a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolAnswer {
    /// The id of the call that it answers, as the provider knows it.
    pub call_id: String,
    /// The tool's name, where it is known.
    pub name: Option<String>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// The text for the model.
    pub parts: Vec<Part>,
}

/// A document the conversation produced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// The kind of document, such as `code` or `plan`.
    pub artifact_type: String,
    /// Its language, where that means something.
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
    /// What a person said.
    User(Body),
    /// What the model said.
    Assistant(Body),
    /// The answer to a tool call.
    ToolResult(ToolAnswer),
    /// Reasoning recorded apart from a message.
    Reasoning(Body),
    /// A document.
    Artifact(Artifact),
    /// Data for programs.
    Note(JsonText),
    /// A kind of the caller's own.
    Custom {
        /// The kind's name.
        kind: String,
        /// Its parts.
        body: Body,
    },
}

/// A content blob that is not what its kind requires.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// The blob is not UTF-8.
    #[error("content is not UTF-8")]
    NotText,
    /// The blob is no JSON of the shape that its kind has.
    #[error("content is not a valid {kind}: {source}")]
    Shape {
        /// The kind that the commit states.
        kind: String,
        /// What the reader met.
        source: serde_json::Error,
    },
    /// Something in it has no canonical form.
    #[error("content has no canonical form: {0}")]
    Json(#[from] JsonError),
}

impl Content {
    /// Makes instructions of one text.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System(Body::text(text))
    }

    /// Makes a user's message of one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(Body::text(text))
    }

    /// Makes a model's message of one text; an empty text makes no part.
    pub fn assistant(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() {
            Self::Assistant(Body::default())
        } else {
            Self::Assistant(Body::text(text))
        }
    }

    /// Makes the answer to a call.
    pub fn tool_result(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::ToolResult(ToolAnswer {
            call_id: call_id.into(),
            name: None,
            is_error: false,
            parts: vec![Part::text(text)],
        })
    }

    /// Makes a content of a body; `None` for the kinds that say something else.
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

    /// Returns the body, for the kinds that say nothing else.
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

    /// Returns the parts, for the kinds that have some.
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

    /// Returns the parts for changing them; `None` for an artifact and a note, which have none.
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

    /// Walks the tool calls, in order. Their place in this order is their *call index*.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts().iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. }
            | Part::Image { .. }
            | Part::Reasoning { .. }
            | Part::Opaque { .. } => None,
        })
    }

    /// Returns the text of all reasoning parts that is readable, joined with a newline.
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

    /// Returns the text of all text parts, joined with a newline; for an artifact its text, for
    /// a note its JSON.
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
