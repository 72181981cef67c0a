//! A neutral message that is being written, with the ids and names chosen for the request.

use std::borrow::Cow;

use tract_compile::{RepairKind, Speaker};
use tract_core::{Artifact, Content, ImageSource, Message, Part, Role, ToolCall};

use crate::format::MessageFormat;
use crate::ids::Ids;

/// A message to be written in a dialect.
pub(crate) struct OutgoingMessage<'a> {
    pub(crate) content: &'a Content,
    pub(crate) role: &'a Role,
    /// Whether it was recorded in this dialect, so that the provider has accepted its content.
    pub(crate) own: bool,
    /// Whether content that the provider rejects is repaired.
    pub(crate) repairing: bool,
    message: Option<(&'a Message, &'a Ids)>,
    /// The repairs of this message.
    pub(crate) notes: Vec<(RepairKind, String)>,
}

impl<'a> OutgoingMessage<'a> {
    /// Makes a message that was just read: ids and names are not replaced.
    pub(crate) fn recorded(content: &'a Content, role: &'a Role) -> Self {
        Self { content, role, own: true, repairing: false, message: None, notes: Vec::new() }
    }

    /// A message of a compiled context.
    pub(crate) fn compiled(
        message: &'a Message,
        format: &MessageFormat,
        ids: &'a Ids,
        repairing: bool,
    ) -> Self {
        Self {
            content: &message.content,
            role: &message.role,
            own: format.owns(message.form.as_deref()),
            repairing,
            message: Some((message, ids)),
            notes: Vec::new(),
        }
    }

    pub(crate) fn speaker(&self) -> Speaker {
        Speaker::of(self.content, self.role)
    }

    /// Returns the role's name in dialects with the roles of Chat Completions. Some have another
    /// name for `developer`.
    pub(crate) fn role_word(&self, developer: &'static str) -> &'a str {
        match (self.speaker(), self.role) {
            (Speaker::System, Role::Developer) => developer,
            (_, Role::Other(word)) if self.own => word,
            (Speaker::System, _) => "system",
            (Speaker::User, _) => "user",
            (Speaker::Assistant, _) => "assistant",
            (Speaker::Tool, _) => "tool",
        }
    }

    /// Returns the sent id and name of the `index`-th call.
    pub(crate) fn call(&self, index: u32, call: &'a ToolCall) -> (Cow<'a, str>, Cow<'a, str>) {
        match self.message.and_then(|(message, ids)| ids.call(message.slot, index)) {
            Some(sent) => (Cow::Borrowed(&sent.id), Cow::Borrowed(&sent.name)),
            None => (Cow::Borrowed(&call.id), Cow::Borrowed(&call.name)),
        }
    }

    /// Returns the id of the call that a result answers.
    pub(crate) fn call_id(&self, recorded: &'a str) -> &'a str {
        self.answered().map_or(recorded, |sent| &sent.id)
    }

    /// Returns the tool name of the call that a result answers, if it is known.
    pub(crate) fn tool_name(&self) -> Option<&'a str> {
        self.answered().map(|sent| sent.name.as_str())
    }

    fn answered(&self) -> Option<&'a crate::ids::SentCall> {
        let (message, ids) = self.message?;
        let of = message.answers?;
        ids.call(of.slot, of.index)
    }

    pub(crate) fn left_out(&mut self, what: impl Into<String>) {
        self.notes.push((RepairKind::PartLeftOut, format!("{}: left out", what.into())));
    }

    /// Returns why a part within turns is left out; `None` if it is sent. Calls are written
    /// separately.
    pub(crate) fn why_left_out(&self, part: &Part, speaker: Speaker) -> Option<&'static str> {
        match part {
            // Only an assistant's message has calls.
            Part::ToolCall(_) => Some("a tool call within a result"),
            _ if self.own => None,
            Part::Image { .. } if matches!(speaker, Speaker::Assistant | Speaker::System) => {
                Some("an image outside of a user's message")
            }
            Part::Image { source: ImageSource::File(_), .. } => {
                Some("an image that only its provider holds")
            }
            Part::Reasoning { .. } => Some("reasoning that this provider does not accept back"),
            Part::Opaque { .. } if speaker == Speaker::System => {
                Some("a part of instructions that is no text")
            }
            Part::Text { .. } | Part::Image { .. } | Part::Opaque { .. } => None,
        }
    }

    /// Returns the JSON of a part that only one dialect understands, if the part belongs to `format`.
    pub(crate) fn opaque(
        &mut self,
        format: &MessageFormat,
        of: &str,
        json: &str,
    ) -> Option<String> {
        if of != format.opaque {
            self.left_out(format!("a part that only {of} knows"));
            return None;
        }
        if tract_core::json::check(json).is_err() {
            self.left_out("a part that is no JSON");
            return None;
        }
        Some(json.to_owned())
    }

    pub(crate) fn note(&mut self, kind: RepairKind, text: String) {
        self.notes.push((kind, text));
    }

    /// Returns the parts. Content without parts is converted to one.
    pub(crate) fn parts(&self) -> Cow<'a, [Part]> {
        match self.content {
            Content::Artifact(Artifact { text, .. }) => Cow::Owned(vec![Part::text(text.clone())]),
            Content::Note(json) => Cow::Owned(vec![Part::text(json.as_str())]),
            content => Cow::Borrowed(content.parts()),
        }
    }

    /// Returns the speaker's name, if it has one.
    pub(crate) fn name(&self) -> Option<&'a str> {
        match self.content {
            Content::ToolResult(answer) => answer.name.as_deref(),
            content => content.body()?.name.as_deref(),
        }
    }

    /// Returns the parts. For providers without a flag for failed tools, the text states the
    /// failure.
    pub(crate) fn parts_with_failure(&self) -> Cow<'a, [Part]> {
        let parts = self.parts();
        let Content::ToolResult(answer) = self.content else { return parts };
        if !answer.is_error || self.own {
            return parts;
        }
        let says_so = parts.iter().any(|part| {
            let Part::Text { text } = part else { return false };
            text.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"))
        });
        if says_so {
            return parts;
        }
        let mut parts = parts.into_owned();
        match parts.first_mut() {
            Some(Part::Text { text }) => text.insert_str(0, "Error: "),
            _ => parts.insert(0, Part::text("Error")),
        }
        Cow::Owned(parts)
    }
}

/// Returns arguments as an object: the text itself if it is one, else `{}`. Empty text needs no
/// note, and recorded text is kept if nothing is repaired.
pub(crate) fn arguments_object<'a>(
    out: &mut OutgoingMessage<'_>,
    id: &str,
    arguments: &'a str,
) -> &'a str {
    let trimmed = arguments.trim();
    let as_it_was = out.own && !out.repairing && tract_core::json::check(trimmed).is_ok();
    if as_it_was || crate::raw::is_object(trimmed) {
        return trimmed;
    }
    if !trimmed.is_empty() {
        out.note(
            RepairKind::Arguments,
            format!("arguments of call {id:?} are no JSON object: sent as {{}}"),
        );
    }
    "{}"
}
