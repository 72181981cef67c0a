//! Single items of OpenAI's Responses API, as stored by Codex and the Agents SDK.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use tract_core::Draft;
use tract_providers::{Anomaly, Dialect, ProviderConversation};

use crate::misfits;
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

/// Reads an item. `unread` gets a description of content that was not understood and is kept.
///
/// # Errors
/// A description of the member that has an unexpected type, or is missing.
pub(crate) fn draft(raw: &RawValue, unread: &mut Vec<String>) -> Result<Draft, String> {
    let item: Item<'_> = lenient(Some(raw)).ok_or("an item that is not an object")?;
    let kind = item.item_type.as_deref().unwrap_or("message");
    let call_id = item.call_id.clone().or_else(|| item.id.clone());
    match (kind, call_id, item.action, item.output) {
        // A shell call of older versions. Its result names it like that of a function call.
        ("local_shell_call", Some(id), Some(action), _) => {
            return Ok(Draft::assistant("").call(id, "local_shell", canonical(action)));
        }
        (kind, Some(call_id), _, Some(output)) if kind.ends_with("_call_output") => {
            return read(raw, unread).or_else(|error| {
                // An object, although the API has a text or a list of parts: use its text.
                let other = with_text_output(raw, output, &call_id).ok_or(error)?;
                read(&other, unread)
            });
        }
        _ => {}
    }
    read(raw, unread)
}

/// Returns the item of a result with its output as a text.
fn with_text_output(raw: &RawValue, output: &RawValue, call_id: &str) -> Option<Box<RawValue>> {
    let mut members: BTreeMap<String, &RawValue> = lenient(Some(raw))?;
    let text = to_raw_value(&shown(output)).ok()?;
    members.insert("output".to_owned(), &text);
    let id = to_raw_value(call_id).ok()?;
    members.insert("call_id".to_owned(), &id);
    to_raw_value(&members).ok()
}

/// Reads an item. A member of an unexpected type that is not required is left out, and reported.
fn read(raw: &RawValue, unread: &mut Vec<String>) -> Result<Draft, String> {
    const ITEM: &str = "input[0]";
    let mut left_out: Vec<&RawValue> = Vec::new();
    let mut first: Option<String> = None;
    let mut members: BTreeMap<String, &RawValue> = BTreeMap::new();
    let mut item = raw.get().to_owned();
    loop {
        let text = format!(r#"{{"input":[{item}]}}"#);
        let error = match ProviderConversation::read(&text, Some(Dialect::Responses)) {
            Ok(read) => {
                left_out.into_iter().for_each(misfits::note);
                let kept = read.imported.anomalies.into_iter().filter(Anomaly::is_kept_json);
                unread.extend(kept.map(|anomaly| {
                    let at = anomaly.at.trim_start_matches(ITEM).trim_start_matches('.');
                    let at = if at.is_empty() { "the item" } else { at };
                    format!("{at}: {}", anomaly.what)
                }));
                let mut drafts = read.imported.drafts;
                return match (drafts.pop(), drafts.is_empty()) {
                    (Some(draft), true) => Ok(draft),
                    _ => Err("an item that is not a message".to_owned()),
                };
            }
            Err(error) => error,
        };
        let path = error.path().strip_prefix(ITEM).unwrap_or_default();
        let name: &str = path.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default();
        if members.is_empty() {
            members = lenient(Some(raw)).unwrap_or_default();
        }
        let what = format!("an item that is not read: {error}").replace("input[0].", "");
        let what = first.get_or_insert(what);
        let Some(member) = members.remove(name) else { return Err(what.clone()) };
        left_out.push(member);
        item = serde_json::to_string(&members).map_err(|error| error.to_string())?;
    }
}
