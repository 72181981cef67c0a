//! Converts a message of a session to drafts.

use serde_json::json;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, JsonText};
use tract_providers::{Anomaly, Dialect, ImportError, ProviderConversation};

use super::line::{Line, MessageFields};
use crate::values::{Metadata, canonical, set_hour};

/// Reads the content of a message as a provider's message. Yields one draft for each result, and
/// one for other consecutive blocks. A block that a provider would reject, or of an unknown type, is
/// kept as its JSON, and `unread` gets the reason.
pub(super) fn drafts(role: &str, content: &RawValue, unread: &mut Vec<String>) -> Vec<Draft> {
    let mut read = |content: &str| {
        let (drafts, kept) = read(role, content)?;
        unread.extend(kept);
        Ok::<_, ImportError>(drafts)
    };
    if let Ok(drafts) = read(content.get()) {
        return drafts;
    }
    // Only the list itself is read here.
    let blocks = serde_json::from_str::<Vec<&RawValue>>(content.get());
    let Ok(blocks) = blocks else {
        let drafts = read(&format!("[{}]", json_block(content))).unwrap_or_default();
        unread.push("content: neither a text nor a list, kept as its JSON".to_owned());
        return drafts;
    };
    let mut refused = Vec::new();
    let block = |(n, raw): (usize, &RawValue)| match self::read(role, &format!("[{raw}]")) {
        Ok(_) => raw.get().to_owned(),
        Err(error) => {
            refused.push(format!("{}, kept as its JSON", error_in(n, &error)));
            json_block(raw)
        }
    };
    let blocks: Vec<String> = blocks.into_iter().enumerate().map(block).collect();
    let drafts = read(&format!("[{}]", blocks.join(","))).unwrap_or_default();
    unread.extend(refused);
    drafts
}

/// Reads the content of a message: its drafts, and descriptions of what was kept as its JSON.
fn read(role: &str, content: &str) -> Result<(Vec<Draft>, Vec<String>), ImportError> {
    let text = format!(r#"{{"messages":[{{"role":"{role}","content":{content}}}]}}"#);
    let read = ProviderConversation::read(&text, Some(Dialect::Anthropic))?;
    let kept = read.imported.anomalies.into_iter().filter(Anomaly::is_kept_json);
    let kept = kept.map(|anomaly| anomaly.to_string().replacen("messages[0].", "", 1)).collect();
    Ok((read.imported.drafts, kept))
}

/// Describes the error of a block that was read as the only one of its message.
fn error_in(n: usize, error: &ImportError) -> String {
    error.to_string().replace("messages[0].content[0]", &format!("content[{n}]"))
}

/// Returns a block of text with a value as JSON.
fn json_block(raw: &RawValue) -> String {
    json!({ "type": "text", "text": canonical(raw) }).to_string()
}

/// Returns the metadata of a message.
pub(super) fn metadata(
    line: &Line<'_>,
    message: &MessageFields<'_>,
    content: &Content,
) -> Option<JsonText> {
    let mut metadata = Metadata::default();
    metadata.set_some("message_id", message.id.as_deref());
    metadata.set_some("request_id", line.request_id.as_deref());
    metadata.set_some("stop_reason", message.stop_reason.as_deref());
    if let Some(usage) = &message.usage {
        // As in all importers, the tokens of the request include those read from a cache.
        let cached = usage.cache_read_input_tokens.unwrap_or_default();
        let written = usage.written();
        let hour = usage.written_1h();
        let input = usage
            .input_tokens
            .map(|own| own.saturating_add(cached).saturating_add(written.unwrap_or_default()));
        let mut usage = json!({
            "input_tokens": input,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cache_read_input_tokens,
            "cache_write_tokens": written,
        });
        set_hour(&mut usage, hour);
        metadata.set("usage", usage);
    }
    if let (Content::User(_), Some(by)) = (content, injected(line, &content.text())) {
        metadata.set("injected", by);
    }
    metadata.json()
}

/// Returns the source of a user message that the user did not type.
fn injected(line: &Line<'_>, text: &str) -> Option<&'static str> {
    const TAGS: [(&str, &str); 6] = [
        ("<command-name>", "command"),
        ("<command-message>", "command"),
        ("<local-command-", "command_output"),
        ("<bash-", "command_output"),
        ("<task-notification>", "task_notification"),
        ("<system-reminder>", "system_reminder"),
    ];
    let text = text.trim_start();
    let tag = TAGS.iter().find(|(tag, _)| text.starts_with(tag)).map(|(_, by)| *by);
    tag.or_else(|| line.is_meta.unwrap_or_default().then_some("meta"))
}
