//! Recorded HTTP exchanges: bodies that are JSON texts, headers, and elements of answers whose type
//! is not known.

use serde_json::{Value, json};
use tract_providers::{
    BatchLine, Dialect, ProviderConversation, batch_line, detect, har_exchanges, join_batch_lines,
    listed_conversations,
};

fn question() -> Value {
    json!({"model": "gpt-4o", "seed": 7, "messages": [{"role": "user", "content": "Is the quay wet?"}]})
}

fn completion() -> Value {
    json!({
        "id": "chatcmpl-1", "model": "gpt-4o",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}],
    })
}

#[track_caller]
fn read(line: &Value) -> ProviderConversation {
    let line = line.to_string();
    ProviderConversation::read(&line, None).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn texts(read: &ProviderConversation) -> Vec<String> {
    read.imported.drafts.iter().map(|draft| draft.content.text()).collect()
}

fn reported(read: &ProviderConversation) -> Vec<String> {
    read.imported.anomalies.iter().map(ToString::to_string).collect()
}

#[test]
fn a_body_that_is_a_json_text_is_read_as_the_object_in_it() {
    let (text, answer) = (question().to_string(), completion().to_string());
    for line in [
        json!({"request": {"body": text}, "response": {"body": answer}}),
        json!({"request": {"body": text}, "response": {"status": 200, "body": completion()}}),
        json!({"request": {"url": "https://x/v1/chat/completions", "body": format!(" {text}\n")}, "response": answer}),
        json!({"request": text, "response": {"body": answer}}),
        json!({"request": {"body": question()}, "output": {"body": answer}}),
        json!({"custom_id": "q", "body": text, "response": {"body": answer}}),
    ] {
        assert_eq!(detect(&line.to_string()), Some(Dialect::OpenAi), "{line}");
        let read = read(&line);
        assert_eq!(texts(&read), ["Is the quay wet?", "Yes."], "{line}");
        assert_eq!(read.imported.parameters.as_str(), r#"{"model":"gpt-4o","seed":7}"#, "{line}");
        assert!(read.is_answered && reported(&read).is_empty(), "{line} {:?}", reported(&read));
        let list = json!([line, 7]).to_string();
        assert_eq!(listed_conversations(&list).map(|list| list.len()), Some(2), "{line}");
    }
    let request =
        json!({"custom_id": "q", "method": "POST", "url": "/v1/chat/completions", "body": text})
            .to_string();
    let result =
        json!({"custom_id": "q", "response": {"status_code": 200, "body": answer}}).to_string();
    assert_eq!(batch_line(&request), Some(BatchLine::Request("q".to_owned())));
    assert_eq!(batch_line(&result), Some(BatchLine::Answer("q".to_owned())));
    let joined = join_batch_lines(&request, &result).expect("they belong together");
    let joined = ProviderConversation::read(&joined, None).expect("it is read");
    assert_eq!(texts(&joined), ["Is the quay wet?", "Yes."]);
}

#[test]
fn damaged_characters_of_a_body_are_replaced_and_reported() {
    let text = question().to_string().replace("quay", "quay \\ud83c");
    let answer = completion().to_string().replace("Yes.", "Yes \\ud83c.");
    for line in [
        json!({"request": {"body": text}, "response": {"body": answer}}),
        json!({"request": text, "response": answer}),
    ] {
        let read = read(&line);
        assert_eq!(texts(&read), ["Is the quay \u{fffd} wet?", "Yes \u{fffd}."], "{line}");
        let shown = reported(&read);
        let replaced = shown.iter().filter(|what| what.contains("surrogate was replaced")).count();
        assert_eq!((replaced, shown.len()), (2, 2), "{shown:?}");
    }
    let entry = |url: &str| json!({"request": {"url": url, "postData": {"text": text}}, "response": {"content": {"text": answer}}});
    let entries = [
        entry("https://api.openai.com/v1/chat/completions"),
        entry("https://gateway.example.com/chat"),
    ];
    let exchanges =
        har_exchanges(&json!({"log": {"entries": entries}}).to_string()).expect("a HAR file");
    assert_eq!((exchanges.lines.len(), exchanges.others), (2, 0));
}

#[test]
fn a_body_that_is_another_text_is_refused_with_the_members() {
    for body in ["", "Hi", "[]", "{\"messages\":", "\"{}\""] {
        let line = json!({"request": {"body": body}, "response": {"body": completion()}});
        let error = ProviderConversation::read(&line.to_string(), None).expect_err(body);
        assert!(error.to_string().contains("request"), "{body:?}: {error}");
    }
    // Only one level: a text in a text is content.
    let inner = json!({"messages": [{"role": "user", "content": "{\"body\":\"{}\"}"}]});
    let line = json!({"request": {"body": inner.to_string()}});
    assert_eq!(texts(&read(&line)), ["{\"body\":\"{}\"}"]);
}

#[test]
fn headers_of_both_messages_are_reported_and_not_stored() {
    let line = json!({
        "request": {"method": "POST", "headers": {"authorization": "Bearer abc"}, "cookies": ["c1"], "body": question()},
        "response": {"status": 200, "headers": {"set-cookie": "s1"}, "body": completion()},
    });
    let read = read(&line);
    let left_out: Vec<&str> = read
        .imported
        .anomalies
        .iter()
        .filter(|anomaly| anomaly.is_left_out())
        .map(|anomaly| anomaly.at.as_str())
        .collect();
    assert_eq!(left_out, ["request.headers", "request.cookies", "response.headers"]);
    assert_eq!(read.meta.as_str(), r#"{"request":{"method":"POST"},"response":{"status":200}}"#);

    let entry = json!({
        "request": {"url": "https://api.openai.com/v1/chat/completions", "headers": [{"name": "authorization", "value": "Bearer abc"}],
            "cookies": [], "postData": {"text": question().to_string()}},
        "response": {"headers": [{"name": "set-cookie", "value": "s1"}], "content": {"text": completion().to_string()}},
    });
    let file = json!({"log": {"entries": [entry, entry, entry]}}).to_string();
    let exchanges = har_exchanges(&file).expect("a HAR file");
    let at: Vec<&str> = exchanges.left_out.iter().map(|anomaly| anomaly.at.as_str()).collect();
    assert_eq!(at, ["log.entries[].request.headers", "log.entries[].response.headers"]);
    assert_eq!(exchanges.lines.len(), 3);
}

#[test]
fn elements_of_an_answer_of_an_unknown_type_are_reported() {
    let boat = json!({"type": "boat", "sail": "a red one"});
    let cases = [
        (
            question(),
            json!({"choices": [{"message": {"role": "assistant", "content": [{"type": "text", "text": "Yes."}, boat]}}]}),
            "response.choices[0].message.content[1]: an element of the unknown type \"boat\"",
        ),
        (
            json!({"model": "claude-haiku-4-5", "max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": "Hi"}]}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Yes."}, boat]}),
            "response.content[1]: an element of the unknown type \"boat\"",
        ),
        (
            json!({"model": "gpt-5", "input": [{"role": "user", "content": "Hi"}]}),
            json!({"output": [boat, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}]}),
            "response.output[0]: an element of the unknown type \"boat\"",
        ),
        (
            json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}, {"boat": {"sail": "a red one"}}]}}]}),
            "response.candidates[0].content.parts[1]: an element of an unknown type",
        ),
    ];
    for (request, answer, expected) in cases {
        for response in [answer.clone(), json!(answer.to_string()), json!({"body": answer})] {
            let line = json!({"request": request, "response": response});
            let read = read(&line);
            let shown = reported(&read);
            let path = expected.replace("response.", "");
            let is_it = |what: &String| what.contains(&path) && what.ends_with("kept as its JSON");
            assert_eq!(shown.iter().filter(|what| is_it(what)).count(), 1, "{line}\n{shown:#?}");
            assert!(format!("{:?}", read.imported.drafts).contains("a red one"), "{line}");
        }
        let line = json!({"request": request, "response": answer});
        assert!(reported(&read(&line)).iter().any(|what| what.starts_with(expected)), "{line}");
    }
}
