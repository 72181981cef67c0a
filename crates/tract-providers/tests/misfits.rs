//! Members of unexpected types in requests, with answers next to them, and in HAR files: for each
//! member and each other type, the text is refused with the member's name, or nothing else is lost
//! and the value is kept or reported.

use serde_json::{Value, json};
use tract_providers::{ImportError, ProviderConversation, har_exchanges};

/// The place of a value: the names and positions that lead to it.
#[derive(Clone, Debug)]
enum Step {
    Name(String),
    At(usize),
}

/// Members of schemas, which are stored as they are.
const OPAQUE: [&str; 2] = ["properties", "required"];

fn members(value: &Value, path: &mut Vec<Step>, all: &mut Vec<Vec<Step>>) {
    let mut one = |step: Step, value: &Value| {
        path.push(step);
        all.push(path.clone());
        members(value, path, all);
        path.pop();
    };
    match value {
        Value::Object(object) => {
            let object = object.iter().filter(|(name, _)| !OPAQUE.contains(&name.as_str()));
            object.for_each(|(name, value)| one(Step::Name(name.clone()), value));
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(n, value)| one(Step::At(n), value));
        }
        _ => {}
    }
}

fn at<'a>(value: &'a mut Value, path: &[Step]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match step {
        Step::Name(name) => &mut value[name.as_str()],
        Step::At(n) => &mut value[*n],
    })
}

fn shown(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Name(name) => format!(".{name}"),
        Step::At(n) => format!("[{n}]"),
    };
    path.iter().map(step).collect()
}

/// Everything that is stored of a text, and what is reported.
struct Outcome {
    stored: String,
    reported: Vec<String>,
}

/// Reads a text: each exchange of a HAR file, or the text itself.
fn read(text: &str) -> Result<Outcome, ImportError> {
    let mut outcome = Outcome { stored: String::new(), reported: Vec::new() };
    let texts = match har_exchanges(text) {
        Some(exchanges) => {
            if exchanges.others > 0 {
                outcome.reported.push("entries that are not requests to a model".to_owned());
            }
            exchanges.lines
        }
        None => vec![text.to_owned()],
    };
    for text in texts {
        let read = ProviderConversation::read(&text, None)?;
        let imported = &read.imported;
        for draft in &imported.drafts {
            let verbatim = draft.verbatim.as_ref().and_then(|blob| blob.text());
            outcome.stored += &format!("{draft:?} {}\n", verbatim.unwrap_or_default());
        }
        let tools = imported.tools.iter().flatten().map(|tool| format!("{tool:?}"));
        outcome.stored += &format!("{:?}\n", tools.collect::<Vec<_>>());
        outcome.stored += &format!("{:?} {} {}\n", read.id, imported.parameters, read.meta);
        outcome.reported.extend(imported.anomalies.iter().map(ToString::to_string));
    }
    Ok(outcome)
}

/// The words of a value that are in messages.
fn words(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains(' ') => all.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| words(value, all)),
        Value::Object(object) => object.values().for_each(|value| words(value, all)),
        _ => {}
    }
}

/// Checks all members of a text. `unused` are members that are not read.
#[track_caller]
fn check(document: &Value, unused: &[&str]) {
    let base = read(&document.to_string()).unwrap_or_else(|error| panic!("{error}: {document}"));
    let mut paths = Vec::new();
    members(document, &mut Vec::new(), &mut paths);
    let values = [
        json!(null),
        json!([]),
        json!({}),
        json!(true),
        json!(70707),
        json!("zz mark"),
        json!({"zz": [70708]}),
    ];
    let mut wrong = Vec::new();
    for path in paths {
        let name = path.iter().rev().find_map(|step| match step {
            Step::Name(name) => Some(name.as_str()),
            Step::At(_) => None,
        });
        let name = name.unwrap_or_default();
        if path
            .iter()
            .any(|step| matches!(step, Step::Name(name) if unused.contains(&name.as_str())))
        {
            continue;
        }
        for value in &values {
            let mut changed = document.clone();
            let place = at(&mut changed, &path);
            if std::mem::discriminant(place) == std::mem::discriminant(value) {
                continue;
            }
            *place = value.clone();
            let case = format!("{} = {value}", shown(&path));
            let outcome = match read(&changed.to_string()) {
                Ok(outcome) => outcome,
                Err(ImportError::Unknown { .. } | ImportError::OtherFormat { .. }) => continue,
                Err(error) => {
                    let place = shown(&path);
                    let is_there = !error.path().is_empty()
                        && place.trim_start_matches('.').starts_with(error.path());
                    if !is_there && !error.to_string().contains(name) {
                        wrong.push(format!("{case}: refused without its name: {error}"));
                    }
                    continue;
                }
            };
            let mut all = Vec::new();
            words(&changed, &mut all);
            let report = outcome.reported.join("\n");
            for word in all.iter().filter(|word| base.stored.contains(*word)) {
                if !outcome.stored.contains(word) && !report.contains(name) {
                    wrong.push(format!("{case}: lost {word:?}: {report}"));
                }
            }
            let mark = match value {
                Value::Object(inner) if !inner.is_empty() => "70708".to_owned(),
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let count = |text: &str| text.matches(&mark).count();
            let is_absent = value.is_null() || *value == json!([]) || *value == json!({});
            let is_kept = count(&outcome.stored) > count(&base.stored);
            let is_reported = outcome.reported.iter().any(|what| {
                !base.reported.contains(what) && (what.contains(name) || what.contains("answer"))
            });
            let is_other = report.contains("entries that are not requests");
            if !is_kept && !is_reported && !is_absent && !is_other {
                wrong.push(format!("{case}: neither named nor kept: {:?}", outcome.reported));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn openai() -> Value {
    json!({
        "model": "gpt-4o-mini", "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "Be very brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "Is the tide in?"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            ]},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{\"port\":\"Bergen\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "high at nine"},
        ],
        "tools": [{"type": "function", "function": {"name": "tide", "description": "Returns the tide.",
            "parameters": {"type": "object", "properties": {"port": {"type": "string"}}}}}],
    })
}

fn completion() -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-4o-mini",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes, since nine."}}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
    })
}

fn anthropic() -> Value {
    json!({
        "model": "claude-haiku-4-5", "max_tokens": 9, "system": [{"type": "text", "text": "Be very brief."}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Is the tide in?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I have to look.", "signature": "abcd"},
                {"type": "tool_use", "id": "t1", "name": "tide", "input": {"port": "Bergen"}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": false, "content": "high at nine"}]},
        ],
        "tools": [{"name": "tide", "description": "Returns the tide.",
            "input_schema": {"type": "object", "properties": {"port": {"type": "string"}}}}],
    })
}

#[test]
fn requests_of_openai() {
    check(&openai(), &[]);
}

#[test]
fn requests_of_anthropic() {
    check(&anthropic(), &[]);
}

#[test]
fn requests_of_responses() {
    let request = json!({
        "model": "gpt-5", "instructions": "Be very brief.",
        "input": [
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Is the tide in?"},
                {"type": "input_image", "image_url": "https://example.com/a.png"},
            ]},
            {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "I have to look."}]},
            {"type": "function_call", "id": "f1", "call_id": "c1", "name": "tide", "arguments": "{\"port\":\"Bergen\"}"},
            {"type": "function_call_output", "call_id": "c1", "output": "high at nine"},
        ],
        "tools": [{"type": "function", "name": "tide", "description": "Returns the tide.",
            "parameters": {"type": "object", "properties": {"port": {"type": "string"}}}}],
    });
    check(&request, &[]);
}

#[test]
fn requests_of_gemini() {
    let request = json!({
        "systemInstruction": {"parts": [{"text": "Be very brief."}]},
        "contents": [
            {"role": "user", "parts": [
                {"text": "Is the tide in?"},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
            ]},
            {"role": "model", "parts": [
                {"text": "I have to look.", "thought": true},
                {"functionCall": {"id": "c1", "name": "tide", "args": {"port": "Bergen"}}},
            ]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "tide", "response": {"output": "high at nine"}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "tide", "description": "Returns the tide.",
            "parameters": {"type": "object", "properties": {"port": {"type": "string"}}}}]}],
        "generationConfig": {"temperature": 0.5},
    });
    check(&request, &[]);
}

#[test]
fn requests_of_ollama() {
    let request = json!({
        "model": "llama3", "keep_alive": "5m", "options": {"temperature": 0.5},
        "messages": [
            {"role": "user", "content": "Is the tide in?", "images": ["iVBORw0KGgo="]},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [
                {"function": {"name": "tide", "arguments": {"port": "Bergen"}}},
            ]},
            {"role": "tool", "tool_name": "tide", "content": "high at nine"},
        ],
    });
    check(&request, &[]);
}

#[test]
fn requests_with_answers() {
    check(
        &json!({"id": "a", "request": openai(), "response": completion(), "note": "of the night watch"}),
        &[],
    );
}

#[test]
fn records_of_litellm() {
    let mut record = openai();
    record["response"] = completion();
    record["cost"] = json!(0.001);
    record["call_type"] = json!("acompletion");
    check(&record, &[]);
}

#[test]
fn results_of_batches() {
    let response = json!({"status_code": 200, "request_id": "r1", "body": completion()});
    check(&json!({"id": "b1", "custom_id": "q1", "response": response, "error": null}), &[]);
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": "Yes, since nine."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 12, "output_tokens": 5},
    });
    check(&json!({"custom_id": "q1", "result": {"type": "succeeded", "message": message}}), &[]);
}

#[test]
fn har_files() {
    let entry = json!({
        "startedDateTime": "2026-01-01T00:00:00Z",
        "request": {"method": "POST", "url": "https://api.openai.com/v1/chat/completions",
            "postData": {"mimeType": "application/json", "text": openai().to_string()}},
        "response": {"status": 200, "content": {"mimeType": "application/json", "text": completion().to_string()}},
    });
    check(
        &json!({"log": {"version": "1.2", "entries": [entry]}}),
        &["version", "method", "status", "mimeType"],
    );
}
