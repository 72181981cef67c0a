//! The answer that was recorded next to a request.

use serde_json::json;
use tract_core::{AuthorKind, Draft, JsonText, Reply, json};
use tract_schema::Dialect;

use crate::drafts::Anomaly;
use crate::profile_of;
use crate::raw::{Fields, Node};
use crate::reply;
use crate::stream::Assembler;

/// Members of a line that may contain the answer.
pub(super) const MEMBERS: [&str; 2] = ["response", "output"];

/// The answer of a line, with its metadata.
#[derive(Debug, Default)]
pub(super) struct RecordedAnswer<'a> {
    answer: Option<Node<'a>>,
    /// The cost in USD, if the recording states it.
    cost: Option<&'a str>,
}

impl<'a> RecordedAnswer<'a> {
    /// Finds the answer in the members of a line; `None` if they contain no answer of a model.
    pub(super) fn find(fields: &Fields<'a>) -> Option<Self> {
        let answer = MEMBERS.iter().find_map(|key| fields.some(key)).filter(is_answer)?;
        let cost = ["cost", "response_cost"].iter().find_map(|key| fields.raw(key));
        let cost = cost.filter(|raw| raw.parse::<f64>().is_ok_and(f64::is_finite));
        Some(Self { answer: Some(answer), cost })
    }

    /// Makes the message of the answer, once. An unreadable answer is noted as an anomaly.
    pub(super) fn draft(
        &mut self,
        dialect: Dialect,
        parameters: &JsonText,
        anomalies: &mut Vec<Anomaly>,
    ) -> Option<Draft> {
        let node = self.answer.take()?;
        let mut odd = |what: String| anomalies.push(Anomaly { at: node.path.clone(), what });
        let text = match assembled(&node, dialect) {
            Ok(text) => text,
            Err(why) => {
                odd(format!("the answer is not read: {why}"));
                return None;
            }
        };
        let reply = match reply::read(dialect, text.as_deref().unwrap_or(node.raw), None, None) {
            Ok(reply) => reply,
            Err(error) => {
                odd(format!("the answer is not read: {error}"));
                return None;
            }
        };
        let draft = draft_of(&reply, parameters, self.cost);
        if draft.is_none() {
            odd("the answer has no canonical form".to_owned());
        }
        draft
    }
}

/// Returns whether a value is an answer of a model: an object, a list of the pieces of a stream, or
/// the text of a stream.
fn is_answer(node: &Node<'_>) -> bool {
    if node.is_string() {
        return node.string().is_ok_and(|text| {
            let text = text.trim_start();
            text.starts_with("data:") || text.starts_with("event:") || text.starts_with(": ")
        });
    }
    let is_one = |node: &Node<'_>| {
        node.object().is_ok_and(|fields| {
            let has_answer = |dialect: Dialect| fields.has(profile_of(dialect).answer_member);
            fields.has("error") || Dialect::ALL.into_iter().any(has_answer)
        })
    };
    is_one(node) || (node.is_array() && node.each().is_ok_and(|mut all| all.any(|n| is_one(&n))))
}

/// Assembles a stream; `None` if the answer is complete.
fn assembled(node: &Node<'_>, dialect: Dialect) -> Result<Option<String>, String> {
    let events = if node.is_string() {
        node.string().map_err(|error| error.to_string())?
    } else if node.is_array() {
        let pieces = node.each().map_err(|error| error.to_string())?;
        let event = |piece: Node<'_>| {
            let data = piece.raw.replace(['\n', '\r'], " ");
            match piece.object().ok().and_then(|fields| fields.text("type")) {
                Some(name) => format!("event: {name}\ndata: {data}\n\n"),
                None => format!("data: {data}\n\n"),
            }
        };
        let events: String = pieces.map(event).collect();
        events + profile_of(dialect).end_event
    } else {
        return Ok(None);
    };
    let mut assembler = Assembler::new(dialect);
    assembler.push(events.as_bytes(), &mut |_| {}).map_err(|error| error.to_string())?;
    let whole = assembler.end().map_err(|error| error.to_string())?;
    Ok(Some(whole))
}

fn draft_of(reply: &Reply, parameters: &JsonText, cost: Option<&str>) -> Option<Draft> {
    let mut draft = Draft::new(reply.content.clone()).origin(AuthorKind::Import);
    draft.origin.id.clone_from(&reply.id);
    draft.form.clone_from(&reply.form);
    draft.verbatim.clone_from(&reply.verbatim);
    let mut config: serde_json::Map<String, serde_json::Value> = serde_json::Map::new();
    if let Some(model) = &reply.model {
        config.insert("model".to_owned(), json!(model));
    }
    let model = JsonText::of(&config).ok()?;
    draft.generation_config = merged(parameters, &model);
    if let Some(id) = &reply.id {
        draft = draft.metadata("message_id", id).ok()?;
    }
    if let Some(usage) = &reply.usage {
        draft = draft.metadata("usage", usage).ok()?;
    }
    if let Some(reason) = &reply.stop_reason {
        draft = draft.metadata("stop_reason", reason.as_str()).ok()?;
    }
    if !reply.other_choices.is_empty() {
        draft = draft.metadata("other_choices", &reply.other_choices).ok()?;
    }
    if let Some(cost) = cost {
        let cost: serde_json::Value = serde_json::from_str(cost).ok()?;
        draft = draft.metadata("cost", cost).ok()?;
    }
    Some(draft)
}

/// Merges the members of two objects; the second object takes precedence. `None` if both are empty.
fn merged(first: &JsonText, second: &JsonText) -> Option<JsonText> {
    let mut out = crate::raw::Object::new();
    let second = json::split_object(second.as_str()).ok()?;
    let first = json::split_object(first.as_str()).ok()?;
    let kept = first.iter().filter(|(key, _)| second.iter().all(|(other, _)| other != key));
    let all: Vec<_> = kept.chain(&second).collect();
    for (key, raw) in &all {
        out.raw(key, raw);
    }
    if all.is_empty() { None } else { JsonText::new(&out.end()).ok() }
}
