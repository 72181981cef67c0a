//! What a caller wants to commit, before it is one.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};

use crate::commit::{AuthorKind, Origin};
use crate::content::{Body, Content, Part, Priority, Role};
use crate::id::BlobId;
use crate::json::JsonError;
use crate::object::Blob;
use crate::schema::ToolSchema;
use crate::schemas::{IntoSchema, into_schemas};
use crate::text::JsonText;

/// A message to be committed. Values: make many, commit them in one atomic write.
///
/// ```
/// use tract_core::Draft;
/// let call = Draft::assistant("").call("c1", "calculate", r#"{"expression":"6594 + 3925"}"#);
/// let answer = Draft::tool_result("c1", "10519.0").metadata("elapsed_ms", 3)?;
/// assert_eq!(call.content.calls().count(), 1);
/// # assert!(answer.metadata.is_some());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// What it says.
    pub content: Content,
    /// Its role, where that is not the kind's own.
    pub role: Option<Role>,
    /// Dialect and revision that it came in.
    pub form: Option<String>,
    /// The provider's own bytes, where lowering the content would not give them back.
    pub verbatim: Option<Blob>,
    /// Whether it continues the provider message of the draft or row right before it.
    pub joins_previous: bool,
    /// A line for the log; derived from the content when absent.
    pub message: Option<String>,
    /// Facts of the caller's: a JSON object.
    pub metadata: Option<JsonText>,
    /// Model and parameters that produced it, or that the next request should use.
    pub generation_config: Option<JsonText>,
    /// The tools of this commit; the active set when absent. Where no set was ever made active,
    /// they stay in force.
    pub tools: Option<Vec<ToolSchema>>,
    /// Its priority; the kind's own when absent.
    pub priority: Option<Priority>,
    /// The retention rule for summaries.
    pub retention: Option<JsonText>,
    /// Its origin.
    pub origin: Origin,
    /// Blobs that must live as long as the commit, with their bytes.
    pub keeps: Vec<Blob>,
    /// The time in microseconds since 1970, UTC; the clock's when absent.
    pub created_at: Option<i64>,
}

impl Draft {
    /// Makes a draft of any content.
    pub fn new(content: Content) -> Self {
        Self {
            content,
            role: None,
            form: None,
            verbatim: None,
            joins_previous: false,
            message: None,
            metadata: None,
            generation_config: None,
            tools: None,
            priority: None,
            retention: None,
            origin: AuthorKind::User.into(),
            keeps: Vec::new(),
            created_at: None,
        }
    }

    /// Makes instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(Content::system(text))
    }

    /// Makes a user's message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Content::user(text))
    }

    /// Makes a model's message; an empty text makes no part.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { origin: AuthorKind::Model.into(), ..Self::new(Content::assistant(text)) }
    }

    /// Makes the answer to the nearest open call with this id.
    pub fn tool_result(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { origin: AuthorKind::Tool.into(), ..Self::new(Content::tool_result(call_id, text)) }
    }

    /// Makes reasoning outside of a message.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self { origin: AuthorKind::Model.into(), ..Self::new(Content::Reasoning(Body::text(text))) }
    }

    /// Makes a note: JSON data that no model sees unless its priority is raised.
    ///
    /// # Errors
    /// [`JsonError`] when the text is no JSON, or JSON that has no canonical form.
    pub fn note(json: &str) -> Result<Self, JsonError> {
        Ok(Self::new(Content::Note(JsonText::new(json)?)))
    }

    /// Adds a part; a note or an artifact has none and stays as it is.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        if let Some(parts) = self.content.parts_mut() {
            parts.push(part);
        }
        self
    }

    /// Adds a tool call; `arguments` is the text as the model wrote it.
    #[must_use]
    pub fn call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.part(Part::call(id, name, arguments))
    }

    /// Says that the tool failed; other kinds than results stay as they are.
    #[must_use]
    pub fn is_error(mut self, is_error: bool) -> Self {
        if let Content::ToolResult(answer) = &mut self.content {
            answer.is_error = is_error;
        }
        self
    }

    /// Names the tool that answered; other kinds than results stay as they are.
    #[must_use]
    pub fn tool_name(mut self, name: impl Into<String>) -> Self {
        if let Content::ToolResult(answer) = &mut self.content {
            answer.name = Some(name.into());
        }
        self
    }

    /// Sets the line for the log.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Sets one member of the metadata.
    ///
    /// # Errors
    /// When the value does not serialize, or has no canonical form.
    pub fn metadata(
        mut self,
        key: &str,
        value: impl serde::Serialize,
    ) -> Result<Self, serde_json::Error> {
        let present = self.metadata.as_ref().map_or("{}", JsonText::as_str);
        let mut members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(present).unwrap_or_default();
        members.insert(key.to_owned(), to_raw_value(&value)?);
        self.metadata = Some(JsonText::of(&members)?);
        Ok(self)
    }

    /// Sets model and parameters: a JSON object.
    #[must_use]
    pub fn generation_config(mut self, config: JsonText) -> Self {
        self.generation_config = Some(config);
        self
    }

    /// Sets the tools of this commit. The active set comes back with the next one; where no set was
    /// ever made active, these stay in force.
    ///
    /// # Errors
    /// [`JsonError`] when one is not a JSON object.
    pub fn tools<T: IntoSchema>(
        mut self,
        tools: impl IntoIterator<Item = T>,
    ) -> Result<Self, JsonError> {
        self.tools = Some(into_schemas(tools)?);
        Ok(self)
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets when it was said: microseconds since 1970, UTC.
    #[must_use]
    pub fn at(mut self, created_at: i64) -> Self {
        self.created_at = Some(created_at);
        self
    }

    /// Sets where it comes from.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<Origin>) -> Self {
        self.origin = origin.into();
        self
    }

    /// Returns the ids of the blobs that it keeps.
    pub fn keep_ids(&self) -> Vec<BlobId> {
        self.keeps.iter().map(Blob::id).collect()
    }
}
