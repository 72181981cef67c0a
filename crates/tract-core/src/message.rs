//! A message as a compiled context has it.

use std::sync::Arc;

use crate::commit::CallRef;
use crate::content::{Content, Part, Priority, Role};
use crate::id::CommitId;
use crate::object::Blob;
use crate::text::JsonText;

/// One message of a compiled context: neutral, as recorded, and complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The commit whose content this is.
    pub commit: CommitId,
    /// The message's lasting name.
    pub slot: CommitId,
    /// What it says.
    pub content: Content,
    /// Who says it.
    pub role: Role,
    /// How much it matters.
    pub priority: Priority,
    /// The call that it answers, settled when it was written.
    pub answers: Option<CallRef>,
    /// The slot whose provider message it continues, as recorded. It counts only while that
    /// slot's row is right before this one in the view.
    pub joins: Option<CommitId>,
    /// Dialect and revision that it came in, such as `anthropic-1`.
    pub form: Option<String>,
    /// The provider's own bytes, where lowering the content would not give them back.
    pub verbatim: Option<Blob>,
    /// Model and parameters that produced it, or that the next request should use.
    pub generation_config: Option<JsonText>,
    /// How many tokens its content takes, by the compiler's counter.
    pub token_count: u64,
}

impl Message {
    /// Makes a message that no repository holds: its names are zeros, its role and priority those of
    /// its kind, and it counts no tokens.
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

    /// Returns the part of the content at `index`.
    pub fn part(&self, index: usize) -> Option<&Part> {
        self.content.parts().get(index)
    }
}

/// A tool in force: its name and the schema as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveTool {
    /// `function.name`, else `name`, else empty.
    pub name: String,
    /// The identity.
    pub id: crate::id::ToolId,
    /// The schema as it was given: JSON text.
    pub schema: Arc<str>,
}
