//! Requests out: instructions apart, then all items.

use tract_compile::{Item, Repair, RepairKind};
use tract_core::Message;

use super::lower;
use crate::adapter::Members;
use crate::prefix::PrefixSource;
use crate::raw::{self, Node};
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
        for item in items {
            sheet.blocks.push(origin.clone(), &item);
            input.push(item);
        }
    }
    let input = match whole {
        Some(text) if count == 1 => text.to_owned(),
        _ => raw::array(input),
    };
    members.push(("input".to_owned(), input));
    members
}

fn is_separate(message: &Message) -> bool {
    message.form.as_deref() == super::PROFILE.system_form
}

/// Items as received: one, several, or a text that abbreviates a user's message.
fn received(raw: &str) -> Vec<String> {
    let node = Node::root(raw);
    match node.array() {
        Ok(items) => items.iter().map(|item| item.raw.to_owned()).collect(),
        Err(_) if node.is_string() => vec![format!(r#"{{"role":"user","content":{}}}"#, node.raw)],
        Err(_) => vec![raw.to_owned()],
    }
}
