//! The format of a dialect's messages: the facts that reading and writing share.

use tract_core::Part;

use crate::raw::Node;

/// The format of a dialect's messages.
#[derive(Debug)]
pub(crate) struct MessageFormat {
    /// The form of received messages: dialect and revision. The revision changes whenever lowering
    /// changes: stored bytes were omitted because the old lowering reproduces them.
    pub(crate) form: &'static str,
    /// The form of instructions that are apart from the messages.
    pub(crate) system_form: Option<&'static str>,
    /// The dialect name of parts that only this provider understands.
    pub(crate) opaque: &'static str,
    /// The member of a request that holds the messages.
    pub(crate) list: &'static str,
    /// The member of a request that holds the instructions, if they are apart.
    pub(crate) system: Option<&'static str>,
    /// Maximum length of a call id in bytes; absent if calls need no ids.
    pub(crate) longest_id: Option<usize>,
    /// Whether calls and results are sent with ids. If not, results belong to calls by order.
    pub(crate) has_ids: bool,
    /// Writes a received answer for a request: a message, or a block in dialects with turns. `None`
    /// if it needs no change. Providers reject some members of their own answers; the stored bytes
    /// stay as they were received.
    pub(crate) sent_answer: fn(&str) -> Option<String>,
}

impl MessageFormat {
    /// Returns whether a message of this form was recorded in this format.
    pub(crate) fn owns(&self, form: Option<&str>) -> bool {
        form.is_some_and(|form| form == self.form || self.system_form == Some(form))
    }

    /// Makes a part of content that only this provider understands, as received.
    pub(crate) fn opaque_part(&self, node: &Node<'_>) -> Part {
        Part::Opaque { dialect: self.opaque.into(), json: node.raw.into() }
    }
}
