//! The format of a dialect's messages: the facts that reading and writing share.

use tract_core::Part;

use crate::raw::{Node, camel};

/// The end of the description of content that was not understood.
pub(crate) const KEPT: &str = "kept as its JSON";

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
    /// The known types of these parts; `*` before the end of a type matches any beginning. Where
    /// parts have no type, the members that they have instead.
    pub(crate) opaque_types: &'static [&'static str],
    /// The member of a request that holds the messages.
    pub(crate) list: &'static str,
    /// The member of a request that holds the instructions, if they are apart.
    pub(crate) system: Option<&'static str>,
    /// Maximum length of a call id in bytes; absent if calls need no ids.
    pub(crate) longest_id: Option<usize>,
    /// Whether ids may only contain letters, digits, `_` and `-`.
    pub(crate) has_plain_ids: bool,
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

    /// Describes a part of content whose type is not known; `None` if it is.
    pub(crate) fn unknown_part(&self, json: &str) -> Option<String> {
        let fields = Node::root(json).object().ok()?;
        let is_known = |kind: &str| {
            let is_it = |known: &&str| match known.strip_prefix('*') {
                Some(end) => kind.ends_with(end),
                None => **known == *kind,
            };
            self.opaque_types.iter().any(is_it)
        };
        match fields.text("type") {
            Some(kind) if is_known(&kind) => None,
            Some(kind) => Some(format!("an element of the unknown type {kind:?}, {KEPT}")),
            None if fields.members.iter().any(|(name, _)| is_known(&camel(name))) => None,
            None => Some(format!("an element of an unknown type, {KEPT}")),
        }
    }

    /// Makes a part of content that only this provider understands, as received.
    pub(crate) fn opaque_part(&self, node: &Node<'_>) -> Part {
        Part::Opaque { dialect: self.opaque.into(), json: node.raw.into() }
    }
}
