//! Items of agent frameworks as messages, one item at a time.
//!
//! A framework that stores its conversation in tract adds items as they occur. Each becomes the
//! messages that an import of the same item makes, with the original text next to them.

use serde_json::json;
use serde_json::value::RawValue;
use tract_core::{
    AuthorKind, Blob, Body, Content, Draft, JsonText, Part,
    json::{self, JsonError},
};

use crate::claude_code::{is_compact_summary, line_events};
use crate::object::Object;
use crate::tree::TreeEvent;
use crate::{pydantic_ai, responses};

/// A framework whose items become messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemFormat {
    /// Items of OpenAI's Responses API, as stored by the Agents SDK.
    OpenaiAgents,
    /// Lines of a session of Claude Code.
    ClaudeCode,
    /// Messages of pydantic-ai.
    PydanticAi,
}

impl ItemFormat {
    /// Returns the stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiAgents => "openai_agents",
            Self::ClaudeCode => "claude_code",
            Self::PydanticAi => "pydantic_ai",
        }
    }

    /// Returns the format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::OpenaiAgents, Self::ClaudeCode, Self::PydanticAi];
        all.into_iter().find(|format| format.as_str() == name)
    }
}

/// An item as messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameworkItem {
    /// The messages, at least one. The original text can be read back from the first one: from its
    /// `verbatim` bytes if a provider accepts the item as it is, else from the last blob that it
    /// keeps.
    pub drafts: Vec<Draft>,
    /// Whether the item is the summary of a compaction, which replaces the messages before it.
    pub is_summary: bool,
}

/// Reads an item. One that is not a message becomes a note, which no model sees. `instructions` are
/// those of the message before, which are not repeated.
///
/// # Errors
/// [`JsonError`] if the text is not valid JSON, or cannot be written canonically.
///
/// ```
/// use tract_import::{ItemFormat, read_item};
/// let text = r#"{"role":"user","content":"Do I need a coat?"}"#;
/// let item = read_item(ItemFormat::OpenaiAgents, text, None)?;
/// assert_eq!(item.drafts[0].content.text(), "Do I need a coat?");
/// assert_eq!(item.drafts[0].verbatim.as_ref().and_then(|blob| blob.text()), Some(text));
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
pub fn read_item(
    format: ItemFormat,
    text: &str,
    instructions: Option<&str>,
) -> Result<FrameworkItem, JsonError> {
    json::check(text)?;
    let original = Blob::seal(text.as_bytes().to_vec());
    let mut is_summary = false;
    let mut drafts = match format {
        ItemFormat::OpenaiAgents => {
            let mut draft = response_item(text);
            draft.verbatim = Some(original);
            return Ok(FrameworkItem { drafts: vec![draft], is_summary: false });
        }
        ItemFormat::ClaudeCode => {
            is_summary = is_compact_summary(text);
            claude_code_line(text)
        }
        ItemFormat::PydanticAi => pydantic_ai::item(text, instructions),
    };
    if drafts.is_empty() {
        drafts.push(note(format, text)?);
    }
    if let Some(first) = drafts.first_mut() {
        first.keeps.push(original);
    }
    Ok(FrameworkItem { drafts, is_summary })
}

/// Reads an item of the Responses API. One in an unknown format is an opaque part of a message.
fn response_item(text: &str) -> Draft {
    let read = RawValue::from_string(text.to_owned())
        .ok()
        .and_then(|raw| responses::draft(&raw, &mut Vec::new()).ok());
    let mut draft = read.unwrap_or_else(|| {
        let part = Part::Opaque { dialect: responses::DIALECT.into(), json: text.into() };
        let mut draft = Draft::new(Content::User(Body { parts: vec![part], name: None }));
        draft.form = Some(responses::FORM.to_owned());
        draft
    });
    draft.origin = match &draft.content {
        Content::Assistant(_) | Content::Reasoning(_) => AuthorKind::Model.into(),
        Content::ToolResult(_) => AuthorKind::Tool.into(),
        _ => AuthorKind::User.into(),
    };
    draft
}

fn claude_code_line(text: &str) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for event in line_events(text) {
        match event {
            TreeEvent::Message { draft, .. } | TreeEvent::Summary { draft, .. } => {
                drafts.push(*draft);
            }
            TreeEvent::Branch { .. }
            | TreeEvent::Resumed { .. }
            | TreeEvent::Note { .. }
            | TreeEvent::Edit { .. }
            | TreeEvent::Skip { .. } => {}
        }
    }
    drafts
}

/// Makes a note that names the type of an item.
fn note(format: ItemFormat, text: &str) -> Result<Draft, JsonError> {
    let members = Object::parse(text).unwrap_or_default();
    let kind = members.text("type").or_else(|| members.text("kind")).unwrap_or_default();
    let content = JsonText::new(&json!({ "item": format.as_str(), "type": kind }).to_string())?;
    let draft = Draft::new(Content::Note(content)).message(format!("{}: {kind}", format.as_str()));
    Ok(draft.origin(AuthorKind::Import))
}
