//! The dialects that are spoken, and how a text shows which one it is in.

use std::fmt;
use std::str::FromStr;

use tract_compile::Rules;
use tract_schema::Provider;

use crate::raw::{Fields, Node};

/// A provider's way to write a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// OpenAI Chat Completions, and whoever speaks like it.
    OpenAi,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Ollama's own chat API.
    Ollama,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Ollama];

    /// Returns the word used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the form that messages of this dialect come in: dialect and revision. The revision
    /// changes when lowering does, so that what is stored stays right.
    pub const fn form(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-chat-1",
            Self::Responses => "openai-responses-1",
            Self::Anthropic => "anthropic-1",
            Self::Ollama => "ollama-1",
        }
    }

    /// Returns the form of instructions that stand apart from the messages: Anthropic's `system`,
    /// Responses' `instructions`.
    pub const fn apart(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::Ollama => None,
            Self::Responses => Some("openai-instructions-1"),
            Self::Anthropic => Some("anthropic-system-1"),
        }
    }

    /// Returns the name under which parts that only this dialect knows are kept.
    pub(crate) const fn opaque(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// Returns whether a form is one of this dialect's.
    pub fn owns(self, form: Option<&str>) -> bool {
        form.is_some_and(|form| form == self.form() || self.apart() == Some(form))
    }

    pub(crate) const fn provider(self) -> Provider {
        match self {
            Self::OpenAi => Provider::OpenAi,
            Self::Responses => Provider::Responses,
            Self::Anthropic => Provider::Anthropic,
            Self::Ollama => Provider::Ollama,
        }
    }

    /// Returns what the dialect asks of calls and results.
    pub fn rules(self) -> Rules {
        let rules = Rules::new([Some(self.form()), self.apart()].into_iter().flatten());
        match self {
            Self::OpenAi | Self::Ollama => rules,
            Self::Responses => rules.anywhere(),
            Self::Anthropic => rules.turns(),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == word).ok_or_else(|| {
            format!("expected openai, responses, anthropic or ollama, found {word:?}")
        })
    }
}

/// Tells which dialect a text is in: a request body, a list of messages, or a line that holds one
/// (`{"request":…,"provider":…}` or `{"id","messages","tools",…}`). `None` when it is none.
///
/// ```
/// use tract_providers::{Dialect, detect};
/// let text = r#"{"system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}"#;
/// assert_eq!(detect(text), Some(Dialect::Anthropic));
/// ```
pub fn detect(text: &str) -> Option<Dialect> {
    let root = Node::root(text);
    if root.is_array() {
        return of_messages(&root);
    }
    let fields = root.object().ok()?;
    if let Some(request) = fields.get("request").filter(Node::is_object) {
        let path = fields.text("path").unwrap_or_default();
        let provider = fields.text("provider").unwrap_or_default();
        return match provider.as_str() {
            _ if path.ends_with("/responses") => Some(Dialect::Responses),
            "anthropic" | "anthropic_compat" => Some(Dialect::Anthropic),
            "ollama" => Some(Dialect::Ollama),
            "openai" | "openai_compat" => Some(Dialect::OpenAi),
            _ => of_request(&request.object().ok()?),
        };
    }
    of_request(&fields)
}

fn of_request(fields: &Fields<'_>) -> Option<Dialect> {
    if fields.has("input") || fields.has("instructions") || fields.has("previous_response_id") {
        return Some(Dialect::Responses);
    }
    let messages = fields.get("messages").filter(Node::is_array)?;
    let any = |keys: &[&str]| keys.iter().any(|key| fields.has(key));
    if any(&["keep_alive", "options"]) {
        return Some(Dialect::Ollama);
    }
    // Servers that speak like OpenAI take parameters of others, such as `top_k` and `thinking`.
    if speaks_chat(&messages) {
        return of_messages(&messages);
    }
    if any(&["system", "anthropic_version", "stop_sequences", "top_k", "thinking", "container"]) {
        return Some(Dialect::Anthropic);
    }
    let tools = fields.get("tools").and_then(|tools| tools.array().ok()).unwrap_or_default();
    let typed =
        |tool: &Node<'_>| tract_schema::ToolView::parse(tool.raw).ok().map(|view| view.shape);
    if tools.iter().filter_map(typed).any(|shape| shape.is_of(Provider::Anthropic)) {
        return Some(Dialect::Anthropic);
    }
    // Anthropic's requests must have a limit of tokens; others serve its models too.
    let claude = fields.text("model").is_some_and(|model| model.starts_with("claude-"));
    match of_messages(&messages) {
        Some(Dialect::OpenAi) if claude && fields.has("max_tokens") => Some(Dialect::Anthropic),
        dialect => dialect,
    }
}

/// Whether messages show what only OpenAI's shape has.
fn speaks_chat(messages: &Node<'_>) -> bool {
    let Ok(mut messages) = messages.each() else { return false };
    let mut is_first = true;
    messages.any(|message| {
        let is_first = std::mem::take(&mut is_first);
        let Ok(fields) = message.object() else { return false };
        let role = fields.text("role").unwrap_or_default();
        fields.has("tool_calls")
            || matches!(role.as_str(), "tool" | "developer")
            || (is_first && role == "system")
    })
}

/// What single messages show; OpenAI's shape is the one that many share, so it is the fallback.
fn of_messages(messages: &Node<'_>) -> Option<Dialect> {
    let mut dialect = Some(Dialect::OpenAi);
    for message in messages.each().ok()? {
        let fields = message.object().ok()?;
        if !fields.has("role") {
            let item = fields.text("type")?;
            let known = item.contains("call") || item == "reasoning" || item == "item_reference";
            return known.then_some(Dialect::Responses);
        }
        if fields.text("type").as_deref() == Some("message") {
            return Some(Dialect::Responses);
        }
        if fields.has("tool_name") || fields.get("images").is_some_and(|images| images.is_array()) {
            return Some(Dialect::Ollama);
        }
        let calls = fields.get("tool_calls").and_then(|calls| calls.array().ok());
        for call in calls.into_iter().flatten() {
            let function = call.object().ok().and_then(|call| call.get("function"));
            let arguments = function
                .and_then(|function| function.object().ok())
                .and_then(|function| function.get("arguments"));
            if arguments.is_some_and(|arguments| arguments.is_object()) {
                return Some(Dialect::Ollama);
            }
        }
        let blocks = fields.get("content").and_then(|content| content.array().ok());
        for block in blocks.into_iter().flatten() {
            match block.object().ok()?.text("type").as_deref() {
                Some(
                    "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image"
                    | "document" | "server_tool_use" | "container_upload" | "tool_addition",
                ) => return Some(Dialect::Anthropic),
                Some("input_text" | "output_text" | "input_image" | "input_file") => {
                    return Some(Dialect::Responses);
                }
                _ => {}
            }
        }
        dialect = Some(Dialect::OpenAi);
    }
    dialect
}
