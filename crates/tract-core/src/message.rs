//! A message of a compiled context.

use std::sync::Arc;

use crate::commit::CallRef;
use crate::content::{Content, Part, Priority, Role};
use crate::id::CommitId;
use crate::object::Blob;
use crate::text::JsonText;

/// A message of a compiled context, in the neutral form and complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The commit with the content.
    pub commit: CommitId,
    /// The message's slot.
    pub slot: CommitId,
    /// Its content.
    pub content: Content,
    /// Its role.
    pub role: Role,
    /// Its priority.
    pub priority: Priority,
    /// The tool call that it answers, determined when it was written.
    pub answers: Option<CallRef>,
    /// The slot of the message that it continues, as recorded. It only applies while that row is
    /// directly before this one in the view.
    pub joins: Option<CommitId>,
    /// Dialect and revision in which it was received, such as `anthropic-1`.
    pub form: Option<String>,
    /// The provider's original bytes, if they cannot be reproduced from the content.
    pub verbatim: Option<Blob>,
    /// The model and parameters that produced it, or that the next request should use.
    pub generation_config: Option<JsonText>,
    /// Number of tokens of its content, by the compiler's counter.
    pub token_count: u64,
}

impl Message {
    /// Creates a message that is not in any repository: its ids are zeros, its role and priority
    /// the defaults of its kind, and its token count is 0.
    pub fn unrecorded(content: Content) -> Self {
        let nowhere = CommitId::from_bytes([0; 32]);
        Self {
            commit: nowhere,
            slot: nowhere,
            role: content.kind().default_role(),
            priority: content.kind().default_priority(),
            content,
            answers: None,
            joins: None,
            form: None,
            verbatim: None,
            generation_config: None,
            token_count: 0,
        }
    }

    /// Returns the part with this index.
    pub fn part(&self, index: usize) -> Option<&Part> {
        self.content.parts().get(index)
    }
}

/// A tool in force: its name and its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveTool {
    /// `function.name` of the schema, else `name`, else empty.
    pub name: String,
    /// The id of the definition.
    pub id: crate::id::ToolId,
    /// The schema: the JSON text as given.
    pub schema: Arc<str>,
}
