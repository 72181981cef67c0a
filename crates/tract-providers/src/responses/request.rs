//! Writes requests: separate instructions, then all items.

use std::collections::HashSet;

use tract_compile::{Item, Repair, RepairKind};
use tract_core::{Message, json};

use super::lower;
use crate::params::Members;
use crate::prefix::PrefixSource;
use crate::raw::{self, Node, Object};
use crate::sheet::RequestWriter;

/// Writes `instructions` and `input`.
pub(crate) fn members(sheet: &mut RequestWriter<'_>) -> Members {
    let mut members = Vec::new();
    let mut instructions: Vec<String> = Vec::new();
    let mut spoken = false;
    for item in sheet.items {
        match item {
            Item::Message(message) if is_separate(message) => {
                if spoken {
                    let text = "instructions within the conversation: moved to its beginning";
                    let repair = Repair::new(RepairKind::SystemMoved, Some(message.slot), text);
                    sheet.repairs.push(repair);
                }
                let text = message.content.text();
                sheet.blocks.push(PrefixSource::System(message.commit), &raw::literal(&text));
                instructions.push(text);
            }
            Item::Message(_) | Item::StandIn(_) => spoken = true,
        }
    }
    if !instructions.is_empty() {
        members.push(("instructions".to_owned(), raw::literal(&instructions.join("\n\n"))));
    }
    let mut input = Vec::new();
    let (mut whole, mut count) = (None, 0);
    for item in sheet.items {
        let (origin, items) = match item {
            Item::Message(message) if is_separate(message) => continue,
            Item::Message(message) => {
                let items = match sheet.verbatim(message) {
                    Some(raw) => {
                        whole = Some(raw).filter(|raw| raw.starts_with('"'));
                        received(raw)
                    }
                    None => sheet.lowered(message, lower::items),
                };
                (PrefixSource::Message(message.commit), items)
            }
            Item::StandIn(answer) => {
                let (id, _) = sheet.ids.of_placeholder(answer);
                let items = vec![lower::placeholder_result(answer, id)];
                (PrefixSource::Repair(Some(answer.answers.slot)), items)
            }
        };
        count += 1;
        input.extend(items.into_iter().map(|item| (origin.clone(), item)));
    }
    if sheet.repairing {
        repair_reasoning(&mut input, sheet.separate, &mut sheet.repairs);
        if !sheet.separate {
            input.retain_mut(|(_, item)| repair_item(item, &mut sheet.repairs));
        }
    }
    for (origin, item) in &input {
        sheet.blocks.push(origin.clone(), item);
    }
    let input: Vec<String> = input.into_iter().map(|(_, item)| item).collect();
    let input = match whole {
        Some(text) if count == 1 => text.to_owned(),
        _ => raw::array(input),
    };
    members.push(("input".to_owned(), input));
    members
}

/// Removes reasoning that the provider rejects, even if it was recorded: an item that is not
/// followed by another item of the model, and the content of reasoning, which only answers have.
/// The successor of a separate message is not known, so its reasoning is kept.
fn repair_reasoning(
    input: &mut Vec<(PrefixSource, String)>,
    separate: bool,
    repairs: &mut Vec<Repair>,
) {
    let mut follows = separate;
    let mut places = HashSet::new();
    for (place, (_, item)) in input.iter_mut().enumerate().rev() {
        let Ok(fields) = Node::root(item).object() else { continue };
        let kind = fields.text("type");
        if kind.as_deref() != Some("reasoning") {
            let is_models = fields.text("role").as_deref() == Some("assistant")
                || kind.is_some_and(|kind| kind.ends_with("_call") || kind == "item_reference");
            follows = is_models;
            continue;
        }
        if !follows {
            places.insert(place);
            continue;
        }
        let lacks_summary = fields.get("summary").is_none_or(|summary| summary.is_null());
        let content = fields.get("content").and_then(|content| content.array().ok());
        if content.is_some_and(|content| !content.is_empty()) {
            let text = "the content of reasoning is left out: it is accepted in answers alone";
            repairs.push(Repair::new(RepairKind::PartLeftOut, None, text));
            *item = fields.without(&["content"]);
        }
        if lacks_summary {
            let text = "reasoning gets an empty summary, which is required";
            repairs.push(Repair::new(RepairKind::Changed, None, text));
            let mut members = json::split_object(item).unwrap_or_default();
            members.retain(|(key, _)| key != "summary");
            let mut out = Object::new();
            members.iter().for_each(|(key, raw)| {
                out.raw(key, raw);
            });
            *item = out.raw("summary", "[]").end();
        }
    }
    for _ in &places {
        let text = "reasoning that no answer follows: left out";
        repairs.push(Repair::new(RepairKind::PartLeftOut, None, text));
    }
    let mut place = 0;
    input.retain(|_| {
        place += 1;
        !places.contains(&(place - 1))
    });
}

/// Repairs an item that the provider rejects, even if it was recorded. Returns whether it is sent.
fn repair_item(item: &mut String, repairs: &mut Vec<Repair>) -> bool {
    let Ok(fields) = Node::root(item).object() else { return true };
    let kind = fields.text("type").unwrap_or_else(|| "message".to_owned());
    let prefix = match kind.as_str() {
        "message" => "msg",
        "reasoning" => "rs",
        "function_call" => "fc",
        "custom_tool_call" => "ctc",
        _ => return true,
    };
    let id = fields.text("id").filter(|id| !id.starts_with(prefix));
    let content = fields.get("content").filter(|_| kind == "message");
    let content = content.and_then(|content| content.array().ok());
    if content.as_ref().is_some_and(Vec::is_empty) {
        let text = "a message without content: left out";
        repairs.push(Repair::new(RepairKind::EmptyMessage, None, text));
        return false;
    }
    let is_models = fields.text("role").as_deref() == Some("assistant");
    let typed = content.as_deref().and_then(|content| with_text_types(content, is_models));
    if id.is_none() && typed.is_none() {
        return true;
    }
    if let Some(id) = &id {
        let text = format!("the id {id:?} is left out: ids of {kind:?} begin with {prefix:?}");
        repairs.push(Repair::new(RepairKind::Changed, None, text));
    }
    if typed.is_some() {
        let text = format!(
            "texts of {} get the type that is accepted there",
            match is_models {
                true => "an assistant",
                false => "an input",
            }
        );
        repairs.push(Repair::new(RepairKind::Changed, None, text));
    }
    let mut out = Object::new();
    for (key, raw) in &fields.members {
        match (key.as_str(), &typed) {
            ("id", _) if id.is_some() => {}
            ("content", Some(typed)) => drop(out.raw(key, typed)),
            _ => drop(out.raw(key, raw)),
        }
    }
    *item = out.end();
    true
}

/// Returns a list of content in which all texts have the type that the role requires; `None` if they
/// have it.
fn with_text_types(content: &[Node<'_>], is_models: bool) -> Option<String> {
    let expected = if is_models { "output_text" } else { "input_text" };
    let mut is_changed = false;
    let elements: Vec<String> = content
        .iter()
        .map(|element| {
            let fields = element.object().ok();
            let fields = fields.filter(|fields| {
                let kind = fields.text("type").unwrap_or_default();
                kind != expected && matches!(kind.as_str(), "input_text" | "output_text" | "text")
            });
            let Some(fields) = fields else { return element.raw.to_owned() };
            is_changed = true;
            let mut out = Object::new();
            for (key, raw) in &fields.members {
                match key.as_str() {
                    "type" => out.text(key, expected),
                    // Only answers have these.
                    "annotations" | "logprobs" if !is_models => continue,
                    _ => out.raw(key, raw),
                };
            }
            out.end()
        })
        .collect();
    is_changed.then(|| raw::array(elements))
}

fn is_separate(message: &Message) -> bool {
    message.form.as_deref() == lower::FORMAT.system_form
}

/// Returns items as received: one, several, or a text that is a user's message.
fn received(raw: &str) -> Vec<String> {
    let node = Node::root(raw);
    match node.array() {
        Ok(items) => items.iter().map(|item| item.raw.to_owned()).collect(),
        Err(_) if node.is_string() => vec![format!(r#"{{"role":"user","content":{}}}"#, node.raw)],
        Err(_) => vec![raw.to_owned()],
    }
}
