//! The answer that was recorded next to a request.

use serde_json::json;
use tract_core::{AuthorKind, Draft, JsonText, Reply, json};
use tract_schema::Dialect;

use super::har::compressed_text;
use super::placement::with_ordered_choices;
use super::{envelope_meta, packed};
use crate::batch::{ANSWERS, body_of, with_member};
use crate::drafts::{Anomaly, Watch};
use crate::other_members::others_of;
use crate::profile_of;
use crate::raw::{self, Fields, Node};
use crate::reply;
use crate::stream::Assembler;

/// Members of a line that contain the cost of the answer.
const COSTS: [&str; 2] = ["cost", "response_cost"];

/// Returns whether a line has members for the answer or its cost, regardless of their values. No
/// provider has parameters of these names.
pub(super) fn has_outcome(fields: &Fields<'_>) -> bool {
    ANSWERS.iter().chain(&COSTS).any(|key| fields.has(key))
}

/// Reports the members for the answer that do not contain one.
pub(super) fn unread(fields: &Fields<'_>) -> Vec<Anomaly> {
    let present = ANSWERS.into_iter().filter_map(|key| Some((key, fields.some(key)?)));
    present.map(|(key, node)| not_an_answer(key, &node)).collect()
}

/// Reports a member for the answer that does not contain one.
pub(super) fn not_an_answer(key: &str, node: &Node<'_>) -> Anomaly {
    let text = body_of(node).string().ok();
    let why = match text.as_deref().and_then(compressed_text) {
        Some(format) => format!("it is compressed with {format}"),
        None => "it is not an answer of a model".to_owned(),
    };
    Anomaly { at: key.to_owned(), what: format!("the {key} is left out: {why}") }
}

/// The answer of a line, with its metadata.
#[derive(Debug)]
pub(super) struct RecordedAnswer<'a> {
    /// The member of the line that contains it.
    pub(super) member: &'static str,
    /// The HTTP message that contains the answer, if the answer is its body.
    envelope: Option<Node<'a>>,
    answer: Node<'a>,
    /// The cost in USD, if the recording states it.
    cost: Option<&'a str>,
}

/// The members of a recorded answer that are not in its message.
#[derive(Debug)]
pub(super) struct RemainingMembers<'a> {
    /// The member of the line that contains the answer.
    pub(super) member: &'static str,
    envelope: Option<Node<'a>>,
    /// The members of the answer, as recorded; the whole answer if it could not be read.
    pub(super) others: Option<String>,
}

impl RemainingMembers<'_> {
    /// Writes them where the recording has them. What is left out of the HTTP message is noted.
    pub(super) fn end(&self, left_out: &mut Vec<Anomaly>) -> String {
        let others = self.others.as_deref();
        match &self.envelope {
            Some(message) => with_member(envelope_meta(message, left_out), "body", others),
            None => others.unwrap_or("{}").to_owned(),
        }
    }
}

impl<'a> RecordedAnswer<'a> {
    /// Finds the answer in the members of a line; `None` if they contain no answer of a model.
    pub(super) fn find(fields: &Fields<'a>) -> Option<Self> {
        let find = |member| {
            let message = fields.some(member)?;
            let answer = Some(body_of(&message)).filter(is_answer)?;
            let envelope = (answer.path != message.path).then_some(message);
            Some((member, envelope, answer))
        };
        let (member, envelope, answer) = ANSWERS.into_iter().find_map(find)?;
        let cost = COSTS.iter().find_map(|key| fields.raw(key));
        let cost = cost.filter(|raw| raw.parse::<f64>().is_ok_and(f64::is_finite));
        Some(Self { member, envelope, answer, cost })
    }

    /// Returns an answer without a stated cost.
    pub(super) fn of(answer: Node<'a>) -> Self {
        Self { member: ANSWERS[0], envelope: None, answer, cost: None }
    }

    /// Makes the message of the answer, and returns the members that are not in it. An answer that
    /// cannot be read is noted as an anomaly, and is such a member as a whole.
    pub(super) fn read(
        self,
        dialect: Dialect,
        parameters: &JsonText,
        request: &Node<'_>,
        anomalies: &mut Vec<Anomaly>,
    ) -> (Option<Draft>, Option<RemainingMembers<'a>>) {
        let mut others = None;
        let draft = self.draft(dialect, parameters, request, anomalies, &mut others);
        let Self { member, envelope, answer, .. } = self;
        if draft.is_none() {
            others = Some(answer.raw.to_owned());
        }
        let has_any = envelope.is_some() || others.is_some();
        (draft, has_any.then_some(RemainingMembers { member, envelope, others }))
    }

    fn draft(
        &self,
        dialect: Dialect,
        parameters: &JsonText,
        request: &Node<'_>,
        anomalies: &mut Vec<Anomaly>,
        others: &mut Option<String>,
    ) -> Option<Draft> {
        let node = &self.answer;
        let odd = |what: String| Anomaly { at: node.path.clone(), what };
        let text = match assembled(node, dialect, anomalies) {
            Ok(text) => text,
            Err(why) => {
                anomalies.push(odd(format!("the answer is not read: {why}")));
                return None;
            }
        };
        let answer = text.as_deref().unwrap_or(node.raw);
        let ordered = with_ordered_choices(answer);
        let answer = ordered.as_deref().unwrap_or(answer);
        let recorded = dialect_of(&Node::at(answer, node.path.clone()), dialect);
        let (dialect, parameters) = match recorded == dialect {
            true => (dialect, parameters.clone()),
            // The parameters have the names of the request's provider.
            false => (recorded, JsonText::new("{}").ok()?),
        };
        let mut watch = Watch::default();
        let reply = match reply::read_watched(dialect, answer, None, None, &mut watch) {
            Ok(reply) => reply,
            Err(error) => {
                anomalies.push(odd(format!("the answer is not read: {error}")));
                return None;
            }
        };
        let draft = draft_of(&reply, &parameters, self.cost);
        if draft.is_none() {
            anomalies.push(odd("the answer has no canonical form".to_owned()));
        }
        anomalies.extend(
            watch
                .anomalies
                .into_iter()
                .map(|anomaly| Anomaly { at: format!("{}.{}", node.path, anomaly.at), ..anomaly }),
        );
        let answer = Node::at(answer, node.path.clone());
        *others = others_of(dialect, &answer, request, &reply.usage.unwrap_or_default());
        anomalies.extend(misfits(&answer));
        draft
    }
}

/// Returns whether a value is an answer of a model: an object, a list of the pieces of a stream, or
/// the text of an object, of a list or of a stream.
fn is_answer(node: &Node<'_>) -> bool {
    if node.is_string() {
        return node.string().is_ok_and(|text| {
            let text = text.trim();
            let is_stream = ["data:", "event:", ": "].iter().any(|start| text.starts_with(start));
            let is_object_answer = |text: &str| {
                let (object, _) = packed::decoded(text, "");
                raw::is_object(&object) && is_answer(&Node::root(&object))
            };
            // A stream of objects has one in each line.
            let is_object = text.starts_with('{')
                && (is_object_answer(text) || text.lines().next().is_some_and(is_object_answer));
            let is_list = text.starts_with('[') && {
                let (list, _) = packed::decoded(text, "");
                is_answer(&Node::root(&list))
            };
            is_stream || is_object || is_list
        });
    }
    let is_one = |node: &Node<'_>| {
        node.object().is_ok_and(|fields| {
            let fits = |dialect: Dialect| profile_of(dialect).answer.fits(&fields);
            fields.has("error") || Dialect::ALL.into_iter().any(fits)
        })
    };
    is_one(node) || (node.is_array() && node.each().is_ok_and(|mut all| all.any(|n| is_one(&n))))
}

/// Returns the dialect of an answer. Gateways record answers in another one than the request's.
fn dialect_of(answer: &Node<'_>, requested: Dialect) -> Dialect {
    let Ok(fields) = answer.object() else { return requested };
    let mut all = std::iter::once(requested).chain(Dialect::ALL);
    all.find(|dialect| profile_of(*dialect).answer.fits(&fields)).unwrap_or(requested)
}

/// Assembles a stream; `None` if the answer is complete.
fn assembled(
    node: &Node<'_>,
    requested: Dialect,
    anomalies: &mut Vec<Anomaly>,
) -> Result<Option<String>, String> {
    let (dialect, events) = if node.is_string() {
        let text = node.string().map_err(|error| error.to_string())?;
        if text.trim_start().starts_with(['{', '[']) {
            let (value, damage) = packed::decoded(text.trim(), &node.path);
            let value = Node::at(&value, node.path.clone());
            if raw::is_object(value.raw) {
                anomalies.extend(damage);
                return Ok(Some(value.raw.to_owned()));
            }
            if value.is_array() {
                anomalies.extend(damage);
                return assembled(&value, requested, anomalies);
            }
        }
        (dialect_of_events(&text, requested), text)
    } else if node.is_array() {
        events_of(node, requested)?
    } else {
        return Ok(None);
    };
    let mut assembler = Assembler::new(dialect);
    assembler.push(events.as_bytes(), &mut |_| {}).map_err(|error| error.to_string())?;
    let whole = assembler.end().map_err(|error| error.to_string())?;
    Ok(Some(whole))
}

/// Writes a list of pieces as the stream that they were received in, with its dialect.
fn events_of(list: &Node<'_>, requested: Dialect) -> Result<(Dialect, String), String> {
    let pieces: Vec<Node<'_>> = list.array().map_err(|error| error.to_string())?;
    let dialect = pieces.iter().find_map(dialect_of_piece).unwrap_or(requested);
    let streams_lines = profile_of(dialect).api.streams_lines;
    let event = |piece: &Node<'_>| {
        let data = piece.raw.replace(['\n', '\r'], " ");
        if streams_lines {
            return data + "\n";
        }
        match piece.object().ok().and_then(|fields| fields.text("type")) {
            Some(name) => format!("event: {name}\ndata: {data}\n\n"),
            None => format!("data: {data}\n\n"),
        }
    };
    let events: String = pieces.iter().map(event).collect();
    Ok((dialect, events + profile_of(dialect).end_event))
}

/// Returns the dialect of a stream. Gateways record answers in another one than the request's.
fn dialect_of_events(events: &str, requested: Dialect) -> Dialect {
    let piece = |line: &str| {
        let data = line.strip_prefix("data:").unwrap_or(line).trim();
        data.starts_with('{').then(|| dialect_of_piece(&Node::root(data))).flatten()
    };
    events.lines().find_map(piece).unwrap_or(requested)
}

/// Returns the dialect that has such a piece of a stream; `None` if several have it.
fn dialect_of_piece(piece: &Node<'_>) -> Option<Dialect> {
    let fields = piece.object().ok()?;
    match fields.text("type").as_deref() {
        Some(kind) if kind.starts_with("response.") => return Some(Dialect::Responses),
        Some("message_start" | "content_block_start" | "content_block_delta") => {
            return Some(Dialect::Anthropic);
        }
        _ => {}
    }
    let members =
        [("choices", Dialect::OpenAi), ("candidates", Dialect::Gemini), ("done", Dialect::Ollama)];
    members.into_iter().find_map(|(member, dialect)| fields.has(member).then_some(dialect))
}

/// Reports the members of an answer that describe it and are not read, because they have an
/// unexpected type.
fn misfits(answer: &Node<'_>) -> Vec<Anomaly> {
    const TEXTS: [&str; 10] = [
        "id",
        "object",
        "model",
        "status",
        "responseId",
        "modelVersion",
        "type",
        "stop_reason",
        "finish_reason",
        "finishReason",
    ];
    let mut found = Vec::new();
    let Ok(fields) = answer.object() else { return found };
    let choices = ["choices", "candidates"].iter().find_map(|key| fields.some(key)?.array().ok());
    let first = choices.and_then(|choices| choices.into_iter().next()?.object().ok());
    for (key, node) in [Some(&fields), first.as_ref()].into_iter().flatten().flat_map(Fields::nodes)
    {
        let is_number = || node.raw.parse::<f64>().is_ok();
        let fits = (!TEXTS.contains(&key) || node.is_string()) && (key != "index" || is_number());
        if !fits && !node.is_null() {
            found.push(unfit(&node));
        }
    }
    for usage in ["usage", "usageMetadata"].iter().filter_map(|key| fields.some(key)) {
        unfit_counts(&usage, &mut found);
    }
    found
}

/// Reports the counts of a usage that are not whole numbers.
fn unfit_counts(usage: &Node<'_>, found: &mut Vec<Anomaly>) {
    let Ok(fields) = usage.object() else { return };
    for (key, node) in fields.nodes() {
        let is_details = ["_details", "cache_creation"].iter().any(|end| key.ends_with(end));
        let is_count = ["_tokens", "TokenCount"].iter().any(|end| key.ends_with(end));
        let is_unfit =
            (is_details && !node.is_object()) || (is_count && node.raw.parse::<u64>().is_err());
        if is_unfit && !node.is_null() {
            found.push(unfit(&node));
        } else if is_details {
            unfit_counts(&node, found);
        }
    }
}

fn unfit(node: &Node<'_>) -> Anomaly {
    let what = format!("the value is not read: unexpected type ({})", node.found());
    Anomaly { at: node.path.clone(), what }
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

#[cfg(test)]
mod tests {
    use crate::ProviderConversation;

    /// Reads a line of LiteLLM with this response.
    fn read(response: &str) -> ProviderConversation {
        let line = format!(
            r#"{{"model":"m","seed":1,"messages":[{{"role":"user","content":"Hi"}}],"response":{response},"cost":0.5}}"#
        );
        ProviderConversation::read(&line, None).expect("it is read")
    }

    #[test]
    fn an_answer_in_a_text_is_read() {
        let answer = r#"{"choices":[{"message":{"role":"assistant","content":"Yes"}}]}"#;
        let conversation = read(&serde_json::json!(answer).to_string());
        let texts: Vec<String> =
            conversation.imported.drafts.iter().map(|draft| draft.content.text()).collect();
        assert_eq!(texts, ["Hi", "Yes"]);
        assert_eq!(conversation.imported.anomalies, []);
    }

    #[test]
    fn a_response_that_is_not_an_answer_is_reported_and_not_sent() {
        for (response, reported) in [("\"fine\"", 1), ("[7]", 1), ("{\"a\":1}", 1), ("null", 0)] {
            let conversation = read(response);
            let imported = &conversation.imported;
            assert_eq!(imported.parameters.as_str(), r#"{"model":"m","seed":1}"#, "{response}");
            assert_eq!(conversation.meta.as_str(), r#"{"cost":0.5}"#, "{response}");
            let places: Vec<&str> = imported.anomalies.iter().map(|odd| odd.at.as_str()).collect();
            assert_eq!(places, vec!["response"; reported], "{response}");
        }
    }
}
