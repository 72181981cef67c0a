//! A provider's rules for the order of calls and results.

use tract_core::{Content, Message, Role};

/// A provider's rules for the order of messages, as far as pairing needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The provider's own formats. Rows recorded in one of them that satisfy the rules are not
    /// moved.
    pub forms: Vec<&'static str>,
    /// Adjacent messages of one role form one turn, instructions are outside of turns, and all
    /// results are in the turn directly after the calls (Anthropic).
    pub turns: bool,
    /// Results recorded in the provider's own format may be anywhere after their call (Responses).
    pub anywhere: bool,
}

impl Rules {
    /// Creates rules that require results directly after the message with their calls.
    pub fn new(forms: impl IntoIterator<Item = &'static str>) -> Self {
        Self { forms: forms.into_iter().collect(), ..Self::default() }
    }

    /// Returns whether a message was recorded in the provider's own format.
    pub fn own(&self, message: &Message) -> bool {
        message.form.as_deref().is_some_and(|form| self.forms.contains(&form))
    }
}

/// The party whose turn a message belongs to.
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

/// Returns the party whose turn a message belongs to.
pub fn speaker(message: &Message) -> Speaker {
    Speaker::of(&message.content, &message.role)
}

impl Speaker {
    /// Returns the party whose turn content with this role belongs to.
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
