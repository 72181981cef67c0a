//! What one provider recorded, the others accept.

use std::collections::BTreeMap;

use serde_json::Value;
use tract::forms::Form;
use tract::import::Dialect;

use crate::rules::{self, Accepted, blocks, list};
use crate::walks::{Recording, accepted, body, compiled, form, none, some, trajectories, value};

/// What a conversation says, in no dialect: what the eyes of a model meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TextCounts {
    texts: BTreeMap<String, usize>,
    calls: BTreeMap<String, usize>,
    results: BTreeMap<String, usize>,
}

fn count(into: &mut BTreeMap<String, usize>, text: &str) {
    // Empty texts say nothing, and no two dialects agree on where they may be.
    if !text.trim().is_empty() {
        *into.entry(text.to_owned()).or_default() += 1;
    }
}

/// The texts of a string or of a list of parts.
fn texts(content: &Value) -> Vec<String> {
    let parts = blocks(content);
    parts.iter().filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
}

fn arguments(text: &str) -> String {
    let read: Option<Value> = serde_json::from_str(text).ok();
    read.filter(Value::is_object).map_or_else(|| text.to_owned(), |read| read.to_string())
}

/// Reads an OpenAI body.
fn openai_says(body: &Value) -> TextCounts {
    let mut counts = TextCounts::default();
    for message in list(&body["messages"]) {
        let joined = texts(&message["content"]).concat();
        match message["role"].as_str() {
            Some("tool") => count(&mut counts.results, &joined),
            _ => texts(&message["content"]).iter().for_each(|text| count(&mut counts.texts, text)),
        }
        for call in list(&message["tool_calls"]) {
            let function = &call["function"];
            let name = function["name"].as_str().unwrap_or_default();
            let given = arguments(function["arguments"].as_str().unwrap_or_default());
            count(&mut counts.calls, &format!("{name} {given}"));
        }
    }
    counts
}

/// Reads an Anthropic body.
fn anthropic_says(body: &Value) -> TextCounts {
    let mut counts = TextCounts::default();
    texts(&body["system"]).iter().for_each(|text| count(&mut counts.texts, text));
    for message in list(&body["messages"]) {
        for block in blocks(&message["content"]) {
            match block["type"].as_str() {
                Some("text") => {
                    count(&mut counts.texts, block["text"].as_str().unwrap_or_default())
                }
                Some("tool_use") => {
                    let name = block["name"].as_str().unwrap_or_default();
                    count(&mut counts.calls, &format!("{name} {}", block["input"]));
                }
                Some("tool_result") => {
                    let text = texts(&block["content"]).concat();
                    // OpenAI has no flag for it: it is said in the text.
                    let result_text = if block["is_error"] == true && !text.starts_with("Error") {
                        format!("Error: {text}")
                    } else {
                        text
                    };
                    count(&mut counts.results, &result_text);
                }
                _ => {}
            }
        }
    }
    counts
}

fn says(dialect: Dialect, body: &Value) -> Option<TextCounts> {
    match dialect {
        Dialect::OpenAi => Some(openai_says(body)),
        Dialect::Anthropic => Some(anthropic_says(body)),
        _ => None,
    }
}

/// What was recorded in a dialect.
fn recorded(dialect: Dialect) -> Vec<Recording> {
    let mut recorded = crate::data::cassettes(dialect.as_str());
    if dialect == Dialect::OpenAi {
        recorded.extend(trajectories());
    }
    recorded
}

fn request(text: &str) -> Value {
    let mut line = value(text);
    if line["request"].is_object() { line["request"].take() } else { line }
}

/// Sends recordings elsewhere: no rule is broken there, and without a repair they say the same.
#[track_caller]
fn accepts(to: Dialect, from: &[Dialect]) {
    let mut repairs: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut sent, mut repaired, mut wrong) = (0, 0, Vec::new());
    for &dialect in from {
        for (name, text) in recorded(dialect) {
            let request = request(&text);
            // A request without messages says nothing that could be sent.
            if some(&request, "messages").is_none() {
                continue;
            }
            let params = form(&compiled(Some(dialect), &name, &text), Form::Params(to));
            let body = body(&params);
            sent += 1;
            repaired += usize::from(!params.repairs.is_empty());
            for repair in &params.repairs {
                *repairs.entry(repair.kind.as_str()).or_default() += 1;
            }
            wrong.extend(
                rules::broken(to, Accepted::Nothing, &body)
                    .iter()
                    .map(|rule| format!("{name}: {rule}")),
            );
            if params.repairs.is_empty()
                && let (Some(is), Some(was)) = (says(to, &body), says(dialect, &request))
                && is != was
            {
                wrong.push(format!("{name}: it lists no repair and says {is:?} for {was:?}"));
            }
        }
    }
    println!("{from:?} to {to:?}: {sent} sent, {repaired} repaired {repairs:?}");
    none(&format!("{from:?} to {to:?}"), &wrong);
    assert!(sent > 0, "{from:?} to {to:?}: nothing was sent");
}

#[test]
fn anthropic_accepts_what_openai_recorded() {
    accepts(Dialect::Anthropic, &[Dialect::OpenAi]);
}

#[test]
fn openai_accepts_what_anthropic_recorded() {
    accepts(Dialect::OpenAi, &[Dialect::Anthropic]);
}

#[test]
fn responses_accepts_what_others_recorded() {
    accepts(Dialect::Responses, &[Dialect::OpenAi, Dialect::Anthropic]);
}

#[test]
fn gemini_accepts_what_others_recorded() {
    accepts(Dialect::Gemini, &[Dialect::OpenAi, Dialect::Anthropic]);
}

#[test]
fn ollama_accepts_what_others_recorded() {
    accepts(Dialect::Ollama, &[Dialect::OpenAi, Dialect::Anthropic]);
}

/// A provider's own recording is not touched where the provider accepted it, and where it is
/// touched the steps are listed.
#[test]
fn own_recordings_change_only_with_a_repair() {
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        let provider = dialect.as_str();
        let accepted: Vec<String> = accepted(provider).into_iter().map(|(name, _)| name).collect();
        let (mut wrong, mut repaired) = (Vec::new(), 0);
        for (name, text) in recorded(dialect) {
            let request = request(&text);
            let params = form(&compiled(Some(dialect), &name, &text), Form::Params(dialect));
            let same = some(&body(&params), "messages") == some(&request, "messages");
            repaired += usize::from(!params.repairs.is_empty());
            if !same && params.repairs.is_empty() {
                wrong.push(format!("{name}: other messages, and no repair is listed"));
            }
            // What the provider took is the better judge of what it takes.
            if !accepted.contains(&name) {
                let broken = rules::broken(dialect, Accepted::Blocks, &body(&params));
                wrong.extend(broken.into_iter().map(|rule| format!("{name}: {rule}")));
            }
        }
        println!("{provider}: {repaired} repaired");
        none(provider, &wrong);
    }
}

/// Each check is seen to fail.
#[test]
fn planted_other_words_are_noticed() {
    let (name, text) = &trajectories()[0];
    let request = request(text);
    let mut sent = body(&form(&compiled(None, name, text), Form::Params(Dialect::Anthropic)));
    assert_eq!(anthropic_says(&sent), openai_says(&request));
    sent["messages"][0]["content"] = "something else".into();
    assert_ne!(anthropic_says(&sent), openai_says(&request));
    sent["messages"].as_array_mut().unwrap().remove(1);
    assert_ne!(anthropic_says(&sent), openai_says(&request));
}
