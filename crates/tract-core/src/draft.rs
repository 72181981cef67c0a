//! A message that is not committed yet.

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

/// A message to be committed. Drafts are plain values: create several and commit them in one atomic
/// write.
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
    /// Its content.
    pub content: Content,
    /// Its role, if it is not the default of the kind.
    pub role: Option<Role>,
    /// Dialect and revision in which it was received.
    pub form: Option<String>,
    /// The provider's original bytes, if they cannot be reproduced from the content.
    pub verbatim: Option<Blob>,
    /// Whether it continues the provider message of the draft or row directly before it.
    pub joins_previous: bool,
    /// A log line; derived from the content if absent.
    pub message: Option<String>,
    /// Metadata set by the caller: a JSON object.
    pub metadata: Option<JsonText>,
    /// The model and parameters that produced it, or that the next request should use.
    pub generation_config: Option<JsonText>,
    /// The tools of this commit; the active set if absent. If no set was ever made active, these
    /// tools stay in force.
    pub tools: Option<Vec<ToolSchema>>,
    /// Its priority; the default of the kind if absent.
    pub priority: Option<Priority>,
    /// The retention rule for summaries.
    pub retention: Option<JsonText>,
    /// Its origin.
    pub origin: Origin,
    /// Blobs, with their bytes, that must not be deleted before the commit.
    pub keeps: Vec<Blob>,
    /// The time in microseconds since 1970, UTC; the current time if absent.
    pub created_at: Option<i64>,
}

impl Draft {
    /// Creates a draft with this content.
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

    /// Creates instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(Content::system(text))
    }

    /// Creates a user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Content::user(text))
    }

    /// Creates a model message, without parts for an empty text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { origin: AuthorKind::Model.into(), ..Self::new(Content::assistant(text)) }
    }

    /// Creates the result of the nearest open call with this id.
    pub fn tool_result(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { origin: AuthorKind::Tool.into(), ..Self::new(Content::tool_result(call_id, text)) }
    }

    /// Creates reasoning outside of a message.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self { origin: AuthorKind::Model.into(), ..Self::new(Content::Reasoning(Body::text(text))) }
    }

    /// Creates a note: JSON data that no model sees unless its priority is raised.
    ///
    /// # Errors
    /// [`JsonError`] if the text is not valid JSON, or cannot be written canonically.
    pub fn note(json: &str) -> Result<Self, JsonError> {
        Ok(Self::new(Content::Note(JsonText::new(json)?)))
    }

    /// Adds a part. Has no effect on a note or an artifact.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        if let Some(parts) = self.content.parts_mut() {
            parts.push(part);
        }
        self
    }

    /// Adds a tool call. `arguments` is the text as the model wrote it.
    #[must_use]
    pub fn call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.part(Part::call(id, name, arguments))
    }

    /// Sets whether the tool failed. Has no effect on kinds other than results.
    #[must_use]
    pub fn is_error(mut self, is_error: bool) -> Self {
        if let Content::ToolResult(answer) = &mut self.content {
            answer.is_error = is_error;
        }
        self
    }

    /// Sets the name of the tool. Has no effect on kinds other than results.
    #[must_use]
    pub fn tool_name(mut self, name: impl Into<String>) -> Self {
        if let Content::ToolResult(answer) = &mut self.content {
            answer.name = Some(name.into());
        }
        self
    }

    /// Sets the log line.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Sets one member of the metadata.
    ///
    /// # Errors
    /// If the value does not serialize, or its JSON cannot be written canonically.
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

    /// Sets the model and parameters: a JSON object.
    #[must_use]
    pub fn generation_config(mut self, config: JsonText) -> Self {
        self.generation_config = Some(config);
        self
    }

    /// Sets the tools of this commit. The next commit has the active set again; if no set was ever
    /// made active, these tools stay in force.
    ///
    /// # Errors
    /// [`JsonError`] if a schema is not a JSON object.
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

    /// Sets the time of the message: microseconds since 1970, UTC.
    #[must_use]
    pub fn at(mut self, created_at: i64) -> Self {
        self.created_at = Some(created_at);
        self
    }

    /// Sets the origin.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<Origin>) -> Self {
        self.origin = origin.into();
        self
    }

    /// Returns the ids of the blobs in [`keeps`](Self::keeps).
    pub fn keep_ids(&self) -> Vec<BlobId> {
        self.keeps.iter().map(Blob::id).collect()
    }
}
