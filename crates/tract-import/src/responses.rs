//! Single items of OpenAI's Responses API, as stored by Codex and the Agents SDK.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use tract_core::Draft;
use tract_providers::{Dialect, ProviderConversation};

use crate::values::{Raw, canonical, lenient, shown};

/// The name of the dialect of opaque parts, and the form of items.
pub(crate) const DIALECT: &str = "openai-responses";
pub(crate) const FORM: &str = "openai-responses-1";

/// The members that identify the type of an item.
#[derive(Debug, Deserialize)]
struct Item<'a> {
    #[serde(rename = "type")]
    item_type: Option<String>,
    id: Option<String>,
    call_id: Option<String>,
    #[serde(borrow)]
    action: Raw<'a>,
    #[serde(borrow)]
    output: Raw<'a>,
}

/// Returns the type of an item; `message` if it only has a role.
pub(crate) fn item_type(raw: &RawValue) -> Option<String> {
    let item: Item<'_> = lenient(Some(raw))?;
    Some(item.item_type.unwrap_or_else(|| "message".to_owned()))
}

/// Reads an item; `None` for an unknown format.
pub(crate) fn draft(raw: &RawValue) -> Option<Draft> {
    let item: Item<'_> = lenient(Some(raw))?;
    let kind = item.item_type.as_deref().unwrap_or("message");
    let call_id = item.call_id.clone().or_else(|| item.id.clone());
    match (kind, call_id, item.action, item.output) {
        // A shell call of older versions. Its result names it like that of a function call.
        ("local_shell_call", Some(id), Some(action), _) => {
            return Some(Draft::assistant("").call(id, "local_shell", canonical(action)));
        }
        (kind, Some(call_id), _, Some(output)) if kind.ends_with("_call_output") => {
            if let Some(draft) = read(raw) {
                return Some(draft);
            }
            // An object, although the API has a text or a list of parts: use its text.
            let mut members: BTreeMap<String, &RawValue> = lenient(Some(raw))?;
            let text = to_raw_value(&shown(output)).ok()?;
            members.insert("output".to_owned(), &text);
            let id = to_raw_value(&call_id).ok()?;
            members.insert("call_id".to_owned(), &id);
            return read(&to_raw_value(&members).ok()?);
        }
        _ => {}
    }
    read(raw)
}

fn read(raw: &RawValue) -> Option<Draft> {
    let text = format!(r#"{{"input":[{}]}}"#, raw.get());
    let read = ProviderConversation::read(&text, Some(Dialect::Responses)).ok()?;
    let mut drafts = read.imported.drafts;
    if drafts.len() == 1 { drafts.pop() } else { None }
}
