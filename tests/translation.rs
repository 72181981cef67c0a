//! What one provider recorded, the others accept.

use std::collections::BTreeMap;

use serde_json::Value;
use tract::Params;
use tract::forms::Form;
use tract::import::Dialect;

use crate::rules;
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

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The texts of a string or of a list of parts.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        parts => {
            let texts = list(parts).iter().filter_map(|part| part["text"].as_str());
            texts.map(str::to_owned).collect()
        }
    }
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
        if message["content"].is_string() {
            texts(&message["content"]).iter().for_each(|text| count(&mut counts.texts, text));
        }
        for block in list(&message["content"]) {
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

/// A recorded request, and where its rules are broken when it is sent elsewhere.
struct Report {
    of: &'static str,
    sent: usize,
    repaired: usize,
    repairs: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

impl Report {
    fn new(of: &'static str) -> Self {
        Self { of, sent: 0, repaired: 0, repairs: BTreeMap::new(), wrong: Vec::new() }
    }

    fn take(&mut self, name: &str, params: &Params, broken: Vec<String>) {
        self.sent += 1;
        self.repaired += usize::from(!params.repairs.is_empty());
        for repair in &params.repairs {
            *self.repairs.entry(repair.kind.as_str()).or_default() += 1;
        }
        self.wrong.extend(broken.into_iter().map(|rule| format!("{name}: {rule}")));
    }

    #[track_caller]
    fn end(self) {
        println!("{}: {} sent, {} repaired {:?}", self.of, self.sent, self.repaired, self.repairs);
        none(self.of, &self.wrong);
        assert!(self.sent > 0, "{}: nothing was sent", self.of);
    }
}

fn recorded_openai() -> Vec<Recording> {
    trajectories().into_iter().chain(crate::data::cassettes("openai")).collect()
}

/// A request without messages says nothing that could be sent.
fn says_something(request: &Value) -> bool {
    some(request, "messages").is_some()
}

fn request(text: &str) -> Value {
    let mut line = value(text);
    if line["request"].is_object() { line["request"].take() } else { line }
}

#[test]
fn anthropic_accepts_what_openai_recorded() {
    let mut report = Report::new("openai to anthropic");
    for (name, text) in recorded_openai() {
        let request = request(&text);
        if !says_something(&request) {
            continue;
        }
        let params =
            form(&compiled(Some(Dialect::OpenAi), &name, &text), Form::Params(Dialect::Anthropic));
        let sent = body(&params);
        let mut broken = rules::anthropic(&sent);
        if params.repairs.is_empty() && anthropic_says(&sent) != openai_says(&request) {
            broken.push("says something else, and lists no repair".to_owned());
        }
        report.take(&name, &params, broken);
    }
    report.end();
}

#[test]
fn openai_accepts_what_anthropic_recorded() {
    let mut report = Report::new("anthropic to openai");
    for (name, text) in crate::data::cassettes("anthropic") {
        let request = request(&text);
        if !says_something(&request) {
            continue;
        }
        let params =
            form(&compiled(Some(Dialect::Anthropic), &name, &text), Form::Params(Dialect::OpenAi));
        let sent = body(&params);
        let mut broken = rules::openai(&sent);
        if params.repairs.is_empty() && openai_says(&sent) != anthropic_says(&request) {
            broken.push(format!(
                "says something else, and lists no repair: {:?} was {:?}",
                openai_says(&sent),
                anthropic_says(&request)
            ));
        }
        report.take(&name, &params, broken);
    }
    report.end();
}

/// Any recording, and any rules.
#[track_caller]
fn accepted_as(of: &'static str, to: Form, rules: fn(&Value) -> Vec<String>) {
    let mut report = Report::new(of);
    let openai = recorded_openai().into_iter().map(|one| (Dialect::OpenAi, one));
    let anthropic = crate::data::cassettes("anthropic");
    let anthropic = anthropic.into_iter().map(|one| (Dialect::Anthropic, one));
    for (dialect, (name, text)) in openai.chain(anthropic) {
        if !says_something(&request(&text)) {
            continue;
        }
        let params = form(&compiled(Some(dialect), &name, &text), to);
        report.take(&name, &params, rules(&body(&params)));
    }
    report.end();
}

#[test]
fn responses_accepts_what_others_recorded() {
    accepted_as("all to responses", Form::Params(Dialect::Responses), rules::responses);
}

#[test]
fn ollama_accepts_what_others_recorded() {
    accepted_as("all to ollama", Form::Params(Dialect::Ollama), rules::ollama);
}

/// A part that Mistral takes where OpenAI has `file`.
const VENDORS_OWN: &str = "\"document_url\"";

/// A provider's own recording is not touched where the provider accepted it, and where it is
/// touched the steps are listed.
#[test]
fn own_recordings_change_only_with_a_repair() {
    for (provider, dialect, to, rules) in [
        (
            "openai",
            Dialect::OpenAi,
            Form::Params(Dialect::OpenAi),
            rules::openai as fn(&Value) -> Vec<String>,
        ),
        ("anthropic", Dialect::Anthropic, Form::Params(Dialect::Anthropic), rules::anthropic),
    ] {
        let accepted: Vec<String> = accepted(provider).into_iter().map(|(name, _)| name).collect();
        let mut texts = crate::data::cassettes(provider);
        if provider == "openai" {
            texts.extend(trajectories());
        }
        let (mut wrong, mut repaired) = (Vec::new(), 0);
        for (name, text) in texts {
            let request = request(&text);
            let params = form(&compiled(Some(dialect), &name, &text), to);
            let same = some(&body(&params), "messages") == some(&request, "messages");
            repaired += usize::from(!params.repairs.is_empty());
            if !same && params.repairs.is_empty() {
                wrong.push(format!("{name}: other messages, and no repair is listed"));
            }
            // What the provider took is the better judge of what it takes; and words that a
            // vendor behind the same API made up for itself are recorded as they are.
            if !accepted.contains(&name) && !text.contains(VENDORS_OWN) {
                wrong.extend(
                    rules(&body(&params)).into_iter().map(|rule| format!("{name}: {rule}")),
                );
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
