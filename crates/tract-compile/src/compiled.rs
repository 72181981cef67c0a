//! Compiled contexts: messages and tools as recorded, in no provider's format.

use std::sync::Arc;

use tract_core::{ActiveTool, CommitId, Message, ModelRequest, ToolsetId, ViewId};

use crate::fact::{ContextEntry, LoadedMessage, RowFact};
use crate::places::Places;
use crate::view::{Row, View};

/// The size of a context in tokens, and the counter that measured it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenCount {
    /// Number of tokens of all shown messages and of the tools.
    pub count: u64,
    /// Name of the counter: `approx`, `tiktoken:o200k_base`, `api`.
    pub source: Arc<str>,
}

/// A compiled context: the messages and tools that a model sees at a commit. Cheap to clone,
/// because all lists are shared.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(crate) head: Option<CommitId>,
    pub(crate) view: View,
    pub(crate) context: Places<ContextEntry>,
    pub(crate) message_count: usize,
    pub(crate) tools: Arc<[ActiveTool]>,
    pub(crate) tokens: TokenCount,
    pub(crate) commit_count: u64,
}

impl Compiled {
    /// Builds a context from parts. Messages whose slot has no row in the view are dropped.
    pub fn new(
        head: Option<CommitId>,
        view: View,
        messages: impl IntoIterator<Item = Message>,
        tools: impl Into<Arc<[ActiveTool]>>,
        tokens: TokenCount,
        commit_count: u64,
    ) -> Self {
        let mut context: Places<ContextEntry> = view
            .rows()
            .map(|row| {
                let fact = Arc::new(RowFact::nothing());
                (row.row_key(), ContextEntry { row: Arc::new(*row), fact, message: None })
            })
            .collect();
        let mut message_count = 0;
        for message in messages {
            let place = view.get(message.slot).map(Row::row_key);
            let Some(entry) = place.and_then(|place| context.get_mut(&place)) else { continue };
            message_count += usize::from(entry.message.is_none());
            entry.fact = Arc::new(RowFact::of_message(&message));
            entry.message = Some(Arc::new(LoadedMessage { message, charge: None }));
        }
        Self { head, view, context, message_count, tools: tools.into(), tokens, commit_count }
    }

    /// Returns the same context with other messages.
    #[must_use]
    pub fn with_messages(&self, messages: Vec<Message>) -> Self {
        let (view, tools, tokens) = (self.view.clone(), self.tools.clone(), self.tokens.clone());
        Self::new(self.head, view, messages, tools, tokens, self.commit_count)
    }

    /// Returns the commit that was compiled; `None` before the first one.
    pub fn head(&self) -> Option<CommitId> {
        self.head
    }

    /// Returns an iterator over the shown messages, in order.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.context.iter().filter_map(|(_, entry)| entry.message())
    }

    /// Returns the message of a slot if it is shown.
    pub fn message(&self, slot: CommitId) -> Option<&Message> {
        let place = self.view.get(slot)?.row_key();
        self.context.get(&place)?.message()
    }

    /// Returns an iterator over the rows of the context, in order, each with its message if it is
    /// shown. A row without a message is skipped; it is included because it answers a call of a
    /// shown row, or because a shown row answers one of its calls.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (&Row, Option<&Message>)> + Clone {
        self.context.iter().map(|(_, entry)| (entry.row.as_ref(), entry.message()))
    }

    /// Returns the row of a slot if it is one of [`rows`](Self::rows).
    pub fn row(&self, slot: CommitId) -> Option<&Row> {
        let place = self.view.get(slot)?.row_key();
        self.context.get(&place).map(|entry| entry.row.as_ref())
    }

    /// Returns the tools in force, in the order in which they were set.
    pub fn tools(&self) -> &[ActiveTool] {
        &self.tools
    }

    /// Returns the id of the tools in force; `None` if no tools were ever set.
    pub fn toolset(&self) -> Option<ToolsetId> {
        self.view.tools()
    }

    /// Returns the number of commits from the root to the head.
    pub fn commit_count(&self) -> u64 {
        self.commit_count
    }

    /// Returns the number of shown messages.
    pub fn message_count(&self) -> usize {
        self.message_count
    }

    /// Returns the number of tokens of messages and tools.
    pub fn token_count(&self) -> &TokenCount {
        &self.tokens
    }

    /// Returns an iterator over the commits whose content is shown, parallel to the messages.
    pub fn commit_ids(&self) -> impl Iterator<Item = CommitId> {
        self.messages().map(|message| message.commit)
    }

    /// Builds the provider-neutral request: messages, tools, and the skipped results. Copies the
    /// messages.
    pub fn request(&self) -> ModelRequest {
        let skipped = self.rows().filter(|(_, message)| message.is_none());
        let skipped: Vec<_> =
            skipped.filter_map(|(row, _)| Some((row.slot, row.answers?))).collect();
        let messages: Vec<Message> = self.messages().cloned().collect();
        ModelRequest {
            tools: Arc::clone(&self.tools),
            skipped: skipped.into(),
            head: self.head,
            ..ModelRequest::new(messages)
        }
    }

    /// Returns the view id. Two contexts have the same view id if their messages and tools are
    /// equal, regardless of the commits they come from. Linear in the number of shown messages.
    pub fn view_id(&self) -> ViewId {
        crate::view_id::view_id(self)
    }
}

impl ContextEntry {
    pub(crate) fn message(&self) -> Option<&Message> {
        self.message.as_ref().map(|loaded| &loaded.message)
    }
}
