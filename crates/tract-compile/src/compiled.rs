//! What is compiled: messages and tools as recorded, neutral to providers.

use std::sync::Arc;

use imbl::OrdMap;
use tract_core::{ActiveTool, CommitId, JsonText, Message};

use crate::view::{Row, RowKey, View};

/// How many tokens a context takes, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenCount {
    /// Tokens of all shown messages and of the tools.
    pub count: u64,
    /// Who counted: `approx`, `tiktoken:o200k_base`, `api`.
    pub source: Arc<str>,
}

/// A compiled context: what a model would see at a commit. Cheap to clone; no list in it is
/// copied per compile.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(crate) head: Option<CommitId>,
    pub(crate) view: View,
    pub(crate) messages: OrdMap<RowKey, Arc<Message>>,
    pub(crate) tools: Arc<[ActiveTool]>,
    pub(crate) tokens: TokenCount,
    pub(crate) commit_count: u64,
}

impl Compiled {
    /// Puts a context together: the messages are those of the view's rows above `Skip`.
    pub fn new(
        head: Option<CommitId>,
        view: View,
        messages: impl IntoIterator<Item = Message>,
        tools: impl Into<Arc<[ActiveTool]>>,
        tokens: TokenCount,
        commit_count: u64,
    ) -> Self {
        let messages = messages
            .into_iter()
            .filter_map(|message| {
                let place = view.get(message.slot)?.row_key();
                Some((place, Arc::new(message)))
            })
            .collect();
        Self { head, view, messages, tools: tools.into(), tokens, commit_count }
    }

    /// Returns the commit that was compiled; `None` before the first one.
    pub fn head(&self) -> Option<CommitId> {
        self.head
    }

    /// Walks the messages shown, in order.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages.values().map(Arc::as_ref)
    }

    /// Returns the message of a slot, when it is shown.
    pub fn message(&self, slot: CommitId) -> Option<&Message> {
        let place = self.view.get(slot)?.row_key();
        self.messages.get(&place).map(Arc::as_ref)
    }

    /// Walks all rows of the view in order, each with its message when it is shown. A row
    /// without one is skipped.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (&Row, Option<&Message>)> {
        self.view
            .rows()
            .map(|row| (row, self.messages.get(&row.row_key()).map(Arc::as_ref)))
    }

    /// Returns the view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the tools in force, as they were given.
    pub fn tools(&self) -> &[ActiveTool] {
        &self.tools
    }

    /// Returns how many commits the line has up to the head.
    pub fn commit_count(&self) -> u64 {
        self.commit_count
    }

    /// Returns how many messages are shown.
    pub fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// Returns the tokens of messages and tools.
    pub fn token_count(&self) -> &TokenCount {
        &self.tokens
    }

    /// Walks the generation configs, parallel to the messages.
    pub fn generation_configs(&self) -> impl Iterator<Item = Option<&JsonText>> {
        self.messages().map(|message| message.generation_config.as_ref())
    }

    /// Walks the commits whose content the messages show, parallel to the messages.
    pub fn commit_ids(&self) -> impl Iterator<Item = CommitId> {
        self.messages().map(|message| message.commit)
    }
}
