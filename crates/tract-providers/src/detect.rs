//! Recognizes the dialect of a text.

use tract_schema::Dialect;

use crate::batch::{BatchResult, OF_BEDROCK};
use crate::import::unpacked;
use crate::profile_of;
use crate::raw::{Fields, Node};

/// Recognizes the dialect of a text: a request body, a list of messages, or a line with one
/// (`{"request":…,"provider":…}` or `{"id","messages","tools",…}`). `None` if it is another text.
///
/// ```
/// use tract_providers::{Dialect, detect};
/// let text = r#"{"system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}"#;
/// assert_eq!(detect(text), Some(Dialect::Anthropic));
/// ```
pub fn detect(text: &str) -> Option<Dialect> {
    let unpacked = unpacked(text);
    let root = Node::root(unpacked.as_ref().map_or(text, |line| line.text.as_str()));
    if root.is_array() {
        return of_messages(&root);
    }
    let fields = root.object().ok()?;
    // In the lines of a batch, only this member identifies the dialect.
    if let Some(request) = fields.get("body").filter(|node| node.is_object())
        && fields.has("custom_id")
    {
        let url = fields.text("url").unwrap_or_default();
        return match of_path(&url) {
            Some(dialect) => Some(dialect),
            // Their requests have an `input` as well.
            None if ["/embeddings", "/moderations"].iter().any(|end| url.ends_with(end)) => None,
            None => of_request(&request.object().ok()?),
        };
    }
    if let Some(request) = fields.get(OF_BEDROCK).filter(Node::is_object) {
        return of_request(&request.object().ok()?);
    }
    for dialect in Dialect::ALL.into_iter().filter(|_| fields.has("custom_id")) {
        let profile = profile_of(dialect);
        let request = profile.batch_member.and_then(|member| fields.get(member));
        if let Some(request) = request.filter(Node::is_object) {
            request.object().ok()?.get(profile.format.list).filter(Node::is_array)?;
            return Some(dialect);
        }
    }
    if let Some(result) = BatchResult::find(&fields) {
        return result.answer.ok().map(|(dialect, _)| dialect);
    }
    if let Some(request) = fields.get("request").filter(Node::is_object) {
        // A recorded HTTP message has the request in its body, and the path in its url.
        let inner = request.object().ok()?;
        let path = fields.text("path").or_else(|| inner.text("url")).or_else(|| inner.text("path"));
        let path = path.unwrap_or_default();
        let path = path.split(['?', '#']).next().unwrap_or_default().to_owned();
        let request = inner.get("body").filter(Node::is_object).unwrap_or(request);
        let provider = fields.text("provider").unwrap_or_default();
        let provider = provider.strip_suffix("_compat").unwrap_or(&provider);
        return match provider.parse() {
            // OpenAI has two APIs.
            _ if of_path(&path) == Some(Dialect::Responses) => Some(Dialect::Responses),
            Ok(dialect) => Some(dialect),
            Err(_) if of_path(&path).is_some() => of_path(&path),
            Err(_) => of_request(&request.object().ok()?),
        };
    }
    of_request(&fields)
}

/// Returns the dialect of a request's path.
pub(crate) fn of_path(path: &str) -> Option<Dialect> {
    let has_path =
        |dialect: &Dialect| profile_of(*dialect).file_paths.iter().any(|end| path.ends_with(end));
    Dialect::ALL.into_iter().find(has_path)
}

fn of_request(fields: &Fields<'_>) -> Option<Dialect> {
    let recognized = |dialect: &Dialect| profile_of(*dialect).adapter.recognizes(fields);
    if let Some(dialect) = Dialect::ALL.into_iter().find(recognized) {
        return Some(dialect);
    }
    let messages = fields.get("messages").filter(Node::is_array)?;
    let any = |keys: &[&str]| keys.iter().any(|key| fields.has(key));
    if any(&["keep_alive", "options"]) {
        return Some(Dialect::Ollama);
    }
    // Servers compatible with OpenAI also accept parameters such as `top_k` and `thinking`.
    if speaks_chat(&messages) {
        return of_messages(&messages);
    }
    if any(&["system", "anthropic_version", "stop_sequences", "top_k", "thinking", "container"]) {
        return Some(Dialect::Anthropic);
    }
    let tools = fields.get("tools").and_then(|tools| tools.array().ok()).unwrap_or_default();
    let typed =
        |tool: &Node<'_>| tract_schema::ToolView::parse(tool.raw).ok().map(|view| view.shape);
    if tools.iter().filter_map(typed).any(|shape| shape.is_of(Dialect::Anthropic)) {
        return Some(Dialect::Anthropic);
    }
    let shown = of_messages(&messages)?;
    if !profile_of(shown).is_shared {
        return Some(shown);
    }
    // Other providers serve Anthropic's models too, but do not require its token limit.
    let model = fields.text("model").unwrap_or_default();
    let owns = |dialect: &Dialect| {
        let profile = profile_of(*dialect);
        profile.own_models.is_some_and(|prefix| model.starts_with(prefix))
            && profile.server.demanded.is_some_and(|(key, _)| fields.has(key))
    };
    Some(Dialect::ALL.into_iter().find(owns).unwrap_or(shown))
}

/// Returns whether messages have a feature that only OpenAI's shape has.
fn speaks_chat(messages: &Node<'_>) -> bool {
    let Ok(messages) = messages.each() else { return false };
    messages.enumerate().any(|(place, message)| {
        let Ok(fields) = message.object() else { return false };
        let role = fields.text("role").unwrap_or_default();
        fields.has("tool_calls")
            || matches!(role.as_str(), "tool" | "developer")
            || (place == 0 && role == "system")
    })
}

fn has_list_content(messages: &Node<'_>) -> bool {
    let is_list = |message: Node<'_>| {
        let content = message.object().ok().and_then(|fields| fields.get("content"));
        content.is_some_and(|content| content.is_array())
    };
    messages.each().is_ok_and(|mut messages| messages.any(is_list))
}

/// Returns the dialect of a list of messages. Many servers use OpenAI's shape, so it is the
/// fallback if any message has content in it.
fn of_messages(messages: &Node<'_>) -> Option<Dialect> {
    let (mut any, mut says) = (false, false);
    for message in messages.each().ok()? {
        let fields = message.object().ok()?;
        any = true;
        says |= crate::openai::SAYING.iter().any(|key| fields.has(key));
        let owns = |dialect: &Dialect| profile_of(*dialect).adapter.own_member(&fields).is_some();
        if let Some(dialect) = Dialect::ALL.into_iter().find(owns) {
            return Some(dialect);
        }
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
            let function = call.object().and_then(|call| call.some_object("function")).ok();
            let arguments = function.flatten().and_then(|function| function.get("arguments"));
            if arguments.is_some_and(|arguments| arguments.is_object()) {
                // The content of Ollama's messages is a text.
                return Some(if has_list_content(messages) {
                    Dialect::OpenAi
                } else {
                    Dialect::Ollama
                });
            }
        }
        let blocks = fields.get("content").and_then(|content| content.array().ok());
        for block in blocks.into_iter().flatten() {
            let kind = block.object().ok()?.text("type").unwrap_or_default();
            let has_block =
                |dialect: &Dialect| profile_of(*dialect).block_types.contains(&kind.as_str());
            if let Some(dialect) = Dialect::ALL.into_iter().find(has_block) {
                return Some(dialect);
            }
        }
    }
    (says || !any).then_some(Dialect::OpenAi)
}
