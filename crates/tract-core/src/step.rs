//! The lines of a stream: what `tract apply` runs and `tract export` writes.
//!
//! A line is one JSON object with an `op`. [`StreamOp::parse`] reads it, [`StreamOp::to_line`]
//! writes it; what a step does is the engine's business. Fields that the operation does not take
//! are refused, as are duplicate fields; a field that is null counts as absent.
//!
//! | op | fields |
//! | --- | --- |
//! | `system` `user` `reasoning` | `text` |
//! | `assistant` | `text`, `tool_calls` `[{id, name, arguments}]`, `reasoning` |
//! | `tool_result` | `call_id`, `content` (text or parts), `name`?, `is_error`? |
//! | `commit` | `kind`, `role`?, `parts` or `content` (what the kind's blob says) |
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
//! Every line takes `mark`. Every line that makes a commit takes `message`, `metadata` and `at`, and
//! the pair of `commit` and `record` that export writes. Those with text take `generation_config` and
//! `tools` as well, those that add a message also `priority`.

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

/// The operations: the name of each, the shared fields that it takes, and a line of it for notes.
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
/// use tract_core::step::{StreamOp, StreamOpKind};
/// let step = StreamOp::parse(r#"{"op":"user","text":"Do I need a coat?","mark":"q"}"#)?;
/// assert_eq!(step.mark.as_deref(), Some("q"));
/// assert_eq!(step.op, StreamOpKind::User { text: "Do I need a coat?".to_owned() });
/// assert_eq!(StreamOp::parse(&step.to_line()?)?, step);
/// # Ok::<(), tract_core::step::StreamOpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamOp {
    /// The name by which later lines refer to the commit that it makes, as `:name`.
    pub mark: Option<String>,
    /// Its operation.
    pub op: StreamOpKind,
    /// Other fields of the commit that it makes.
    pub fields: StreamOpFields,
    /// The commit that it made where it was exported: its record, checked against its id.
    pub recorded: Option<Commit>,
}

/// Fields that every stream operation may have, for the commit that it makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamOpFields {
    /// A line for the log.
    pub message: Option<String>,
    /// Facts of the caller's: a JSON object.
    pub metadata: Option<JsonText>,
    /// Model and parameters that produced it, or that the next request should use: a JSON object.
    pub generation_config: Option<JsonText>,
    /// The tools of this commit; where none were ever set to stay, they stay in force.
    pub tools: Option<Vec<ToolSchema>>,
    /// The priority of the message that it adds.
    pub priority: Option<Priority>,
    /// When: microseconds since 1970, UTC. A line has it in RFC 3339, or as a whole number where
    /// that cannot name it.
    pub at: Option<i64>,
}

/// A stream operation. Revisions are text, and may be marks of earlier lines: `:name`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamOpKind {
    /// Adds instructions.
    System {
        /// The text.
        text: String,
    },
    /// Adds a user's message.
    User {
        /// The text.
        text: String,
    },
    /// Adds a model's message.
    Assistant {
        /// The text; an empty one makes no part.
        text: String,
        /// What was thought, without a signature; it comes first.
        reasoning: Option<String>,
        /// The calls, in order; they come last.
        tool_calls: Vec<ToolCall>,
    },
    /// Answers the nearest open call with this id.
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
        /// What it says.
        content: Content,
        /// Its role, where that is not the kind's own.
        role: Option<Role>,
    },
    /// Replaces what a message says.
    Edit {
        /// The message, by any of its versions.
        target: String,
        /// What it says from now on.
        content: Vec<Part>,
    },
    /// Sets the priority of messages.
    Annotate {
        /// The messages, by any of their versions.
        targets: Vec<String>,
        /// Their new priority.
        priority: Priority,
        /// Why.
        reason: Option<String>,
        /// What compression has to keep of them.
        retention: Option<JsonText>,
    },
    /// Puts one summary in the place of messages.
    Compress {
        /// The messages.
        what: CompressWhat,
        /// The summary.
        content: String,
        /// The kind of the summary's message; `assistant` when absent.
        kind: Option<Kind>,
    },
    /// Reverts what commits changed.
    Revert {
        /// The commits.
        targets: Vec<String>,
        /// Reverts what depends on them as well.
        cascade: bool,
    },
    /// Brings in what another head has.
    Merge {
        /// The other head.
        from: String,
    },
    /// Sets the tools in force; none at all is a choice too.
    SetTools {
        /// The tools, in order; repeats are kept.
        tools: Vec<ToolSchema>,
    },
    /// Leaves a line in the log.
    Note {
        /// The line.
        text: String,
    },
    /// Makes a branch.
    Branch {
        /// Its name.
        name: String,
        /// Where it begins; at the head when absent.
        from: Option<String>,
    },
    /// Switches to another branch.
    Checkout {
        /// Its name.
        name: String,
    },
    /// Makes a tag.
    Tag {
        /// Its name.
        name: String,
        /// What it names; the head when absent.
        target: Option<String>,
    },
    /// Brings a blob that later lines link to.
    Blob(Blob),
    /// Says where a ref points.
    Ref {
        /// The ref.
        name: RefName,
        /// What it points at.
        to: RefTarget,
    },
    /// Adds a commit that its record alone describes.
    Record,
}

/// The messages that a summary replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompressWhat {
    /// From one message to another, both included.
    Range {
        /// The first.
        from: String,
        /// The last.
        to: String,
    },
    /// These.
    Targets(Vec<String>),
}

impl From<StreamOpKind> for StreamOp {
    fn from(op: StreamOpKind) -> Self {
        Self { mark: None, op, fields: StreamOpFields::default(), recorded: None }
    }
}

impl StreamOp {
    /// Reads one line.
    ///
    /// ```
    /// use tract_core::step::StreamOp;
    /// let error = StreamOp::parse(r#"{"op":"asistant","text":"Yes."}"#).unwrap_err();
    /// assert_eq!(error.to_string(), "unknown op \"asistant\"");
    /// assert_eq!(error.notes(), ["did you mean \"assistant\"?"]);
    /// ```
    ///
    /// # Errors
    /// [`StreamOpError`] when the line is not one that [`to_line`](Self::to_line) could have written
    /// in another spelling.
    pub fn parse(line: &str) -> Result<Self, StreamOpError> {
        parse::step(line)
    }

    /// Writes the one line for this step, without a line break in or after it.
    ///
    /// # Errors
    /// [`StreamOpError`] when the step says what its operation does not take.
    pub fn to_line(&self) -> Result<String, StreamOpError> {
        write::step(self)
    }

    /// Sets the name by which later lines refer to it.
    #[must_use]
    pub fn mark(mut self, mark: impl Into<String>) -> Self {
        self.mark = Some(mark.into());
        self
    }

    /// Sets what else it says of the commit that it makes.
    #[must_use]
    pub fn fields(mut self, fields: StreamOpFields) -> Self {
        self.fields = fields;
        self
    }

    /// Sets the commit that it made.
    #[must_use]
    pub fn recorded(mut self, commit: Commit) -> Self {
        self.recorded = Some(commit);
        self
    }

    /// Returns the message that it adds, as a draft; `None` when it adds none.
    pub fn to_draft(&self) -> Option<Draft> {
        self.op.adds_message().then(|| self.clone()).and_then(Self::into_draft)
    }

    /// Turns it into the draft of the message that it adds, without copying what that says; `None`
    /// when it adds none.
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
    /// Returns the name that a line has.
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

    /// Returns the operation that adds this content: the shortest that loses nothing of it.
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

    /// Returns whether it adds a message, so that it has [`content`](Self::content).
    pub fn adds_message(&self) -> bool {
        accepted_fields(self.name()) == MessageFields
    }

    /// Returns the content that it adds; `None` when it adds none.
    pub fn content(&self) -> Option<Content> {
        self.adds_message().then(|| self.clone()).and_then(Self::into_content)
    }

    /// Turns it into the content that it adds, without a copy; `None` when it adds none.
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

    /// Turns it into the draft of the message that it adds; `None` when it adds none.
    ///
    /// The origin follows the kind: what an assistant says comes from the model, a result from
    /// the tool, all else from the user.
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

/// Takes apart `[reasoning] [text] [call…]`; anything else is not short.
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
    // A line needs something to say, so that a forgotten text is noticed.
    (!empty).then(|| StreamOpKind::Assistant {
        text: answer_text.to_owned(),
        reasoning,
        tool_calls,
    })
}

/// Which of the shared fields an operation takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AcceptedFields {
    /// None: it makes no commit, or one that its record alone describes.
    Nothing,
    /// `message`, `metadata`, `at`.
    CommitFields,
    /// Those, `generation_config` and `tools`.
    TextFields,
    /// All.
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
