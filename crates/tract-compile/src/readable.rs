//! Compiles contexts with unreadable objects, as far as possible, for people to inspect.

use std::sync::Arc;

use tract_core::store::StoreErrorKind;
use tract_core::{CommitId, Content, Message};

use crate::compiled::Compiled;
use crate::compiler::Compiler;
use crate::error::{CompileError, Result};
use crate::fact::{ContextEntry, LoadedMessage};
use crate::load;
use crate::tools::Tools;
use crate::view::RowKey;

/// An unreadable message, or unreadable tools.
#[derive(Debug)]
pub struct Unreadable {
    /// The message's slot; `None` for the tools.
    pub slot: Option<CommitId>,
    /// The reason, with the object's id.
    pub error: CompileError,
}

impl Compiler {
    /// Compiles a head as [`compile`](Self::compile) does, but tolerates damaged and missing
    /// objects. An unreadable message is replaced by one with the error's text, and unreadable
    /// tools are left out. The result is for people to inspect and must not be sent to a model.
    ///
    /// # Errors
    /// As [`fold`](Self::fold), because the commits have to be readable, or a store error other
    /// than damage to a single object.
    pub async fn compile_readable(
        &self,
        head: Option<CommitId>,
    ) -> Result<(Compiled, Vec<Unreadable>)> {
        let state = self.waiting_state(head).await?;
        let mut unreadable = Vec::new();
        let rows = load::waiting(&state, 0);
        let mut messages = Vec::with_capacity(rows.len());
        for rows in rows.chunks(1024) {
            match self.messages(rows).await {
                Ok(read) => messages.extend(rows.iter().map(|(place, _)| *place).zip(read)),
                Err(error) if is_of_one_object(&error) => {
                    self.one_by_one(rows, &mut messages, &mut unreadable).await?;
                }
                Err(error) => return Err(error),
            }
        }
        // The result is not cached: an unreadable object may be restored later.
        let state = load::with_messages(state, messages, imbl::Vector::new());
        let tools = match self.inner.tools(state.view.tools()).await {
            Ok(tools) => tools,
            Err(error) if is_of_one_object(&error) => {
                unreadable.push(Unreadable { slot: None, error });
                Tools::default()
            }
            Err(error) => return Err(error),
        };
        Ok((self.assemble(head, &state, tools), unreadable))
    }

    async fn one_by_one(
        &self,
        rows: &[(RowKey, ContextEntry)],
        messages: &mut Vec<(RowKey, Arc<LoadedMessage>)>,
        unreadable: &mut Vec<Unreadable>,
    ) -> Result<()> {
        for row in rows {
            let (place, entry) = row;
            match self.messages(std::slice::from_ref(row)).await {
                Ok(read) => messages.extend(read.into_iter().map(|message| (*place, message))),
                Err(error) if is_of_one_object(&error) => {
                    messages.push((*place, Arc::new(placeholder(entry, &error))));
                    unreadable.push(Unreadable { slot: Some(entry.row.slot), error });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns whether an error concerns one object, so that others may still be readable.
fn is_of_one_object(error: &CompileError) -> bool {
    match error {
        CompileError::Store(error) => matches!(
            error.kind,
            StoreErrorKind::Corrupt { .. }
                | StoreErrorKind::Missing { .. }
                | StoreErrorKind::Erased { .. }
                | StoreErrorKind::Invalid
        ),
        CompileError::Missing { .. }
        | CompileError::MissingTool { .. }
        | CompileError::NoContent { .. }
        | CompileError::Content { .. }
        | CompileError::Schema { .. } => true,
        CompileError::Change(_) | CompileError::Changes { .. } | CompileError::NotNext { .. } => {
            false
        }
    }
}

/// Returns a message with the error's text in place of an unreadable one. It has no calls and
/// counts no tokens.
fn placeholder(entry: &ContextEntry, error: &CompileError) -> LoadedMessage {
    let ContextEntry { row, fact, .. } = entry;
    let message = Message {
        commit: row.version,
        slot: row.slot,
        role: fact.role.clone(),
        priority: fact.priority,
        answers: row.answers,
        ..Message::unrecorded(Content::user(format!("[cannot be read: {error}]")))
    };
    LoadedMessage { message, charge: None }
}
