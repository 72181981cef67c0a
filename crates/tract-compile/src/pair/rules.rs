//! What a provider asks of calls and results.

use tract_core::{Content, Message, Role};

/// What a provider asks of the order of a conversation, as far as pairing is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The forms that are the provider's own: rows that came in one of them and satisfy the rules
    /// stay where they are.
    pub forms: Vec<&'static str>,
    /// Neighbors of one role are one turn, instructions are outside of it, and all results are in
    /// the turn right after the calls (Anthropic).
    pub turns: bool,
    /// Results of the provider's own rows may be anywhere after their call (Responses).
    pub anywhere: bool,
}

impl Rules {
    /// Makes rules by which results are right after the message with their calls.
    pub fn new(forms: impl IntoIterator<Item = &'static str>) -> Self {
        Self { forms: forms.into_iter().collect(), ..Self::default() }
    }

    /// Says that neighbors of one role are one turn.
    #[must_use]
    pub fn turns(mut self) -> Self {
        self.turns = true;
        self
    }

    /// Says that results of own rows may be anywhere after their call.
    #[must_use]
    pub fn anywhere(mut self) -> Self {
        self.anywhere = true;
        self
    }

    /// Returns whether a message came in the provider's own form.
    pub fn own(&self, message: &Message) -> bool {
        message.form.as_deref().is_some_and(|form| self.forms.contains(&form))
    }
}

/// Whose turn a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Instructions.
    System,
    /// A person, or a program that acts for one.
    User,
    /// The model.
    Assistant,
    /// A tool: the message answers a call.
    Tool,
}

/// Returns whose turn a message belongs to.
pub fn speaker(message: &Message) -> Speaker {
    Speaker::of(&message.content, &message.role)
}

impl Speaker {
    /// Returns whose turn content with this role belongs to.
    pub fn of(content: &Content, role: &Role) -> Self {
        if matches!(content, Content::ToolResult(_)) {
            return Self::Tool;
        }
        match role {
            Role::System | Role::Developer => Self::System,
            Role::Assistant => Self::Assistant,
            Role::User | Role::Tool => Self::User,
            Role::Other(_) => match content {
                Content::System(_) => Self::System,
                Content::Assistant(_) | Content::Reasoning(_) | Content::Artifact(_) => {
                    Self::Assistant
                }
                Content::User(_)
                | Content::ToolResult(_)
                | Content::Note(_)
                | Content::Custom { .. } => Self::User,
            },
        }
    }
}
