//! The stream format: the lines that `tract apply` runs and `tract export` writes.
//!
//! Each line is a JSON object with an `op`. [`StreamOp::parse`] reads it and [`StreamOp::to_line`]
//! writes it; the engine carries it out. Fields that the operation does not have are rejected, and
//! so are duplicate fields. A null field counts as absent.
//!
//! | op | fields |
//! | --- | --- |
//! | `system` `user` `reasoning` | `text` |
//! | `assistant` | `text`, `tool_calls` `[{id, name, arguments}]`, `reasoning` |
//! | `tool_result` | `call_id`, `content` (text or parts), `name`?, `is_error`? |
//! | `commit` | `kind`, `role`?, `parts` or `content` (the value of the kind's blob) |
//! | `edit` | `target`, `text` or `content` (text or parts) |
//! | `annotate` | `target` or `targets`, `priority`, `reason`?, `retention`? |
//! | `compress` | `from` and `to`, or `targets`; `content`, `kind`? |
//! | `revert` | `target` or `targets`, `cascade`? |
//! | `merge` | `from` |
//! | `set_tools` | `tools` |
//! | `note` | `text` |
//! | `branch` | `name`, `from`? |
//! | `checkout` | `name` |
//! | `tag` | `name`, `target`? |
//! | `blob` | `id`, `text` or `base64` (export) |
//! | `ref` | `name`, `to` (export) |
//! | `record` | `commit`, `record` alone (export) |
//!
//! Every line accepts `mark`. Every line that creates a commit accepts `message`, `metadata` and
//! `at`, and the `commit` and `record` that export writes. Those with text also accept
//! `generation_config` and `tools`, those that add a message also `priority`.

mod error;
mod line;
mod parse;
mod write;

use self::AcceptedFields::{CommitFields, MessageFields, Nothing, TextFields};
pub use self::error::StreamOpError;
use crate::commit::{AuthorKind, Commit};
use crate::content::{Body, Content, Kind, Part, Priority, Role, ToolAnswer, ToolCall};
use crate::draft::Draft;
use crate::object::Blob;
use crate::refs::{RefName, RefTarget};
use crate::schema::ToolSchema;
use crate::text::JsonText;

/// The operations: name, accepted shared fields, and an example line for error notes.
const OPS: [(&str, AcceptedFields, &str); 19] = [
    ("system", MessageFields, r#"{"op":"system","text":"You are brief."}"#),
    ("user", MessageFields, r#"{"op":"user","text":"Do I need a coat?"}"#),
    (
        "assistant",
        MessageFields,
        r#"{"op":"assistant","text":"","tool_calls":[{"id":"c1","name":"grep","arguments":{}}]}"#,
    ),
    ("tool_result", MessageFields, r#"{"op":"tool_result","call_id":"c1","content":"3 lines"}"#),
    ("reasoning", MessageFields, r#"{"op":"reasoning","text":"It may rain."}"#),
    (
        "commit",
        MessageFields,
        r#"{"op":"commit","kind":"user","parts":[{"type":"text","text":"Hello."}]}"#,
    ),
    ("edit", TextFields, r#"{"op":"edit","target":":m1","text":"Do I need an umbrella?"}"#),
    ("annotate", CommitFields, r#"{"op":"annotate","target":":m1","priority":"skip"}"#),
    (
        "compress",
        TextFields,
        r#"{"op":"compress","from":":m1","to":":m9","content":"They greeted."}"#,
    ),
    ("revert", CommitFields, r#"{"op":"revert","target":":m1"}"#),
    ("merge", CommitFields, r#"{"op":"merge","from":"draft"}"#),
    ("set_tools", CommitFields, r#"{"op":"set_tools","tools":[]}"#),
    ("note", TextFields, r#"{"op":"note","text":"The test run begins."}"#),
    ("branch", Nothing, r#"{"op":"branch","name":"draft","from":":m1"}"#),
    ("checkout", Nothing, r#"{"op":"checkout","name":"draft"}"#),
    ("tag", Nothing, r#"{"op":"tag","name":"v1","target":":m1"}"#),
    ("blob", Nothing, r#"{"op":"blob","id":"294124e8…","text":"hello"}"#),
    ("ref", Nothing, r#"{"op":"ref","name":"HEAD","to":"heads/main"}"#),
    ("record", Nothing, r#"{"op":"record","commit":"294124e8…","record":{}}"#),
];

/// One line of a stream.
///
/// ```
/// use tract_core::stream::{StreamOp, StreamOpKind};
/// let operation = StreamOp::parse(r#"{"op":"user","text":"Do I need a coat?","mark":"q"}"#)?;
/// assert_eq!(operation.mark.as_deref(), Some("q"));
/// assert_eq!(operation.op, StreamOpKind::User { text: "Do I need a coat?".to_owned() });
/// assert_eq!(StreamOp::parse(&operation.to_line()?)?, operation);
/// # Ok::<(), tract_core::stream::StreamOpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOp {
    /// The name by which later lines refer to the new commit, as `:name`.
    pub mark: Option<String>,
    /// Its operation.
    pub op: StreamOpKind,
    /// The shared fields of the new commit.
    pub fields: StreamOpFields,
    /// The exported commit: its record, checked against its id.
    pub recorded: Option<Commit>,
}

/// The shared fields, which describe the commit that an operation creates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOpFields {
    /// A log line.
    pub message: Option<String>,
    /// Metadata set by the caller: a JSON object.
    pub metadata: Option<JsonText>,
    /// The model and parameters that produced it, or that the next request should use: a JSON
    /// object.
    pub generation_config: Option<JsonText>,
    /// The tools of this commit. If no set was ever made active, these tools stay in force.
    pub tools: Option<Vec<ToolSchema>>,
    /// The priority of the new message.
    pub priority: Option<Priority>,
    /// The time in microseconds since 1970, UTC. In a line it is RFC 3339, or an integer if RFC
    /// 3339 cannot represent it.
    pub at: Option<i64>,
}

/// A stream operation. Revisions are text and may be marks of earlier lines: `:name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamOpKind {
    /// Adds instructions.
    System {
        /// The text.
        text: String,
    },
    /// Adds a user message.
    User {
        /// The text.
        text: String,
    },
    /// Adds a model message.
    Assistant {
        /// The text; an empty one does not create a part.
        text: String,
        /// Reasoning without a signature; it becomes the first part.
        reasoning: Option<String>,
        /// The calls, in order; they become the last parts.
        tool_calls: Vec<ToolCall>,
    },
    /// Adds the result of the nearest open call with this id.
    ToolResult {
        /// The id of the call.
        call_id: String,
        /// The tool's name.
        name: Option<String>,
        /// The text for the model.
        content: Vec<Part>,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// Adds reasoning outside of a message.
    Reasoning {
        /// The text.
        text: String,
    },
    /// Adds a message of any kind.
    Commit {
        /// Its content.
        content: Content,
        /// Its role, if it is not the default of the kind.
        role: Option<Role>,
    },
    /// Replaces the content of a message.
    Edit {
        /// The message, by any of its versions.
        target: String,
        /// The new content.
        content: Vec<Part>,
    },
    /// Sets the priority of messages.
    Annotate {
        /// The messages, by any of their versions.
        targets: Vec<String>,
        /// Their new priority.
        priority: Priority,
        /// The reason.
        reason: Option<String>,
        /// The retention rule for summaries.
        retention: Option<JsonText>,
    },
    /// Replaces messages with one summary.
    Compress {
        /// The replaced messages.
        what: CompressWhat,
        /// The summary.
        content: String,
        /// The kind of the summary message; `assistant` if absent.
        kind: Option<Kind>,
    },
    /// Reverts the changes of commits.
    Revert {
        /// The commits.
        targets: Vec<String>,
        /// Whether commits that depend on them are reverted as well.
        cascade: bool,
    },
    /// Merges another head.
    Merge {
        /// The other head.
        from: String,
    },
    /// Sets the tools in force. The list may be empty.
    SetTools {
        /// The tools, in order; repeats are kept.
        tools: Vec<ToolSchema>,
    },
    /// Adds an entry to the log.
    Note {
        /// The line.
        text: String,
    },
    /// Creates a branch.
    Branch {
        /// Its name.
        name: String,
        /// The commit that it starts from; the head if absent.
        from: Option<String>,
    },
    /// Switches to another branch.
    Checkout {
        /// Its name.
        name: String,
    },
    /// Creates a tag.
    Tag {
        /// Its name.
        name: String,
        /// The tagged commit; the head if absent.
        target: Option<String>,
    },
    /// A blob to which later lines link.
    Blob(Blob),
    /// Sets a ref.
    Ref {
        /// The ref.
        name: RefName,
        /// Its target.
        to: RefTarget,
    },
    /// Adds a commit described by its record only.
    Record,
}

/// The messages that a summary replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompressWhat {
    /// From one message to another, inclusive.
    Range {
        /// The first.
        from: String,
        /// The last.
        to: String,
    },
    /// An explicit list.
    Targets(Vec<String>),
}

impl From<StreamOpKind> for StreamOp {
    fn from(op: StreamOpKind) -> Self {
        Self { mark: None, op, fields: StreamOpFields::default(), recorded: None }
    }
}

impl StreamOp {
    /// Parses one line.
    ///
    /// ```
    /// use tract_core::stream::StreamOp;
    /// let error = StreamOp::parse(r#"{"op":"asistant","text":"Yes."}"#).unwrap_err();
    /// assert_eq!(error.to_string(), "unknown op \"asistant\"");
    /// assert_eq!(error.notes(), ["did you mean \"assistant\"?"]);
    /// ```
    ///
    /// # Errors
    /// [`StreamOpError`] if the line is not valid. Every valid line is another spelling of one that
    /// [`to_line`](Self::to_line) writes.
    pub fn parse(line: &str) -> Result<Self, StreamOpError> {
        parse::operation(line)
    }

    /// Writes the operation as one line, without line breaks.
    ///
    /// # Errors
    /// [`StreamOpError`] if it has fields that its operation does not accept.
    pub fn to_line(&self) -> Result<String, StreamOpError> {
        write::operation(self)
    }

    /// Returns a draft of the message that it adds; `None` if it does not add one.
    pub fn to_draft(&self) -> Option<Draft> {
        self.op.adds_message().then(|| self.clone()).and_then(Self::into_draft)
    }

    /// Converts to a draft of the message that it adds, without copying the content. `None` if it
    /// does not add one.
    pub fn into_draft(self) -> Option<Draft> {
        let mut draft = self.op.into_draft()?;
        let fields = self.fields;
        draft.message = fields.message;
        draft.metadata = fields.metadata;
        draft.generation_config = fields.generation_config;
        draft.tools = fields.tools;
        draft.priority = fields.priority;
        draft.created_at = fields.at;
        Some(draft)
    }
}

impl StreamOpKind {
    /// Returns the name of the operation in a line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::System { .. } => "system",
            Self::User { .. } => "user",
            Self::Assistant { .. } => "assistant",
            Self::ToolResult { .. } => "tool_result",
            Self::Reasoning { .. } => "reasoning",
            Self::Commit { .. } => "commit",
            Self::Edit { .. } => "edit",
            Self::Annotate { .. } => "annotate",
            Self::Compress { .. } => "compress",
            Self::Revert { .. } => "revert",
            Self::Merge { .. } => "merge",
            Self::SetTools { .. } => "set_tools",
            Self::Note { .. } => "note",
            Self::Branch { .. } => "branch",
            Self::Checkout { .. } => "checkout",
            Self::Tag { .. } => "tag",
            Self::Blob(_) => "blob",
            Self::Ref { .. } => "ref",
            Self::Record => "record",
        }
    }

    /// Returns the shortest operation that adds this content without loss.
    pub fn adding(content: Content, role: Option<Role>) -> Self {
        let short = match (&content, &role) {
            (Content::System(body), None) => only_text(body).map(|text| Self::System { text }),
            (Content::User(body), None) => only_text(body).map(|text| Self::User { text }),
            (Content::Reasoning(body), None) => {
                only_text(body).map(|text| Self::Reasoning { text })
            }
            (Content::Assistant(body), None) => short_assistant(body),
            (Content::ToolResult(answer), None) => Some(Self::ToolResult {
                call_id: answer.call_id.clone(),
                name: answer.name.clone(),
                content: answer.parts.clone(),
                is_error: answer.is_error,
            }),
            _ => None,
        };
        short.unwrap_or(Self::Commit { content, role })
    }

    /// Returns whether it adds a message, and so has [`content`](Self::content).
    pub fn adds_message(&self) -> bool {
        accepted_fields(self.name()) == MessageFields
    }

    /// Returns the content that it adds; `None` if it does not add a message.
    pub fn content(&self) -> Option<Content> {
        self.adds_message().then(|| self.clone()).and_then(Self::into_content)
    }

    /// Converts to the content that it adds, without copying. `None` if it does not add a message.
    pub fn into_content(self) -> Option<Content> {
        Some(match self {
            Self::System { text } => Content::system(text),
            Self::User { text } => Content::user(text),
            Self::Reasoning { text } => Content::Reasoning(Body::text(text)),
            Self::Assistant { text, reasoning, tool_calls } => {
                let thought = reasoning.map(|text| Part::Reasoning {
                    text,
                    signature: None,
                    encrypted: None,
                });
                let part = Some(text).filter(|text| !text.is_empty()).map(Part::text);
                let calls = tool_calls.into_iter().map(Part::ToolCall);
                let parts = thought.into_iter().chain(part).chain(calls).collect();
                Content::Assistant(Body { parts, name: None })
            }
            Self::ToolResult { call_id, name, content, is_error } => {
                Content::ToolResult(ToolAnswer { call_id, name, is_error, parts: content })
            }
            Self::Commit { content, .. } => content,
            Self::Edit { .. }
            | Self::Annotate { .. }
            | Self::Compress { .. }
            | Self::Revert { .. }
            | Self::Merge { .. }
            | Self::SetTools { .. }
            | Self::Note { .. }
            | Self::Branch { .. }
            | Self::Checkout { .. }
            | Self::Tag { .. }
            | Self::Blob(_)
            | Self::Ref { .. }
            | Self::Record => return None,
        })
    }

    /// Converts to a draft of the message that it adds; `None` if it does not add one.
    ///
    /// The author follows from the kind: the model for an assistant message or reasoning, the tool
    /// for a result, the user for all others.
    fn into_draft(mut self) -> Option<Draft> {
        let role = match &mut self {
            Self::Commit { role, .. } => role.take(),
            _ => None,
        };
        let content = self.into_content()?;
        let by = match content.kind() {
            Kind::Assistant | Kind::Reasoning => AuthorKind::Model,
            Kind::ToolResult => AuthorKind::Tool,
            Kind::System | Kind::User | Kind::Artifact | Kind::Note | Kind::Custom(_) => {
                AuthorKind::User
            }
        };
        let mut draft = Draft::new(content).origin(by);
        draft.role = role;
        Some(draft)
    }
}

fn only_text(body: &Body) -> Option<String> {
    match (body.parts.as_slice(), &body.name) {
        ([Part::Text { text }], None) => Some(text.clone()),
        _ => None,
    }
}

/// Matches `[reasoning] [text] [call…]`; other content lacks a short form.
fn short_assistant(body: &Body) -> Option<StreamOpKind> {
    if body.name.is_some() {
        return None;
    }
    let mut rest = body.parts.as_slice();
    let mut reasoning = None;
    if let [Part::Reasoning { text, signature: None, encrypted: None }, tail @ ..] = rest {
        reasoning = Some(text.clone());
        rest = tail;
    }
    let mut answer_text = "";
    if let [Part::Text { text }, tail @ ..] = rest
        && !text.is_empty()
    {
        answer_text = text;
        rest = tail;
    }
    let call = |part: &Part| match part {
        Part::ToolCall(call) => Some(call.clone()),
        Part::Text { .. } | Part::Image { .. } | Part::Reasoning { .. } | Part::Opaque { .. } => {
            None
        }
    };
    let tool_calls = rest.iter().map(call).collect::<Option<Vec<_>>>()?;
    let empty = answer_text.is_empty() && reasoning.is_none() && tool_calls.is_empty();
    // A line with neither text nor calls is rejected, so that a forgotten text is noticed.
    (!empty).then(|| StreamOpKind::Assistant {
        text: answer_text.to_owned(),
        reasoning,
        tool_calls,
    })
}

/// The shared fields that an operation accepts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AcceptedFields {
    /// No fields: it does not create a commit, or one described by its record only.
    Nothing,
    /// `message`, `metadata`, `at`.
    CommitFields,
    /// `CommitFields`, `generation_config` and `tools`.
    TextFields,
    /// All shared fields.
    MessageFields,
}

fn accepted_fields(op: &str) -> AcceptedFields {
    OPS.iter().find(|(name, ..)| *name == op).map_or(Nothing, |(_, takes, _)| *takes)
}

fn op_names() -> impl Iterator<Item = &'static str> {
    OPS.iter().map(|(name, ..)| *name)
}

#[cfg(test)]
mod tests;
