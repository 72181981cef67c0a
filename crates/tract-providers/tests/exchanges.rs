//! Recorded HTTP exchanges: bodies that are JSON texts, headers, and elements of answers whose type
//! is not known.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

#[test]
fn the_body_that_creates_a_batch_is_a_list_of_its_requests() {
    let request = |id: &str| json!({"custom_id": id, "params": {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}});
    let body = json!({"requests": [request("a"), 7, request("b")]}).to_string();
    let list = listed_conversations(&body).expect("a list");
    assert_eq!(list.len(), 3);
    for (element, id) in [(list[0], "a"), (list[2], "b")] {
        let read = ProviderConversation::read(element, None).expect("it is read");
        assert_eq!((read.id.as_deref(), read.dialect), (Some(id), Dialect::Anthropic));
    }
    let with_more = json!({"requests": [request("a")], "note": "x"});
    for other in [json!({"requests": []}), json!({"requests": [{"url": "x"}]}), with_more] {
        assert_eq!(listed_conversations(&other.to_string()), None, "{other}");
    }
}

#[test]
fn lines_of_a_batch_of_bedrock_are_read_with_their_answers() {
    let input = json!({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]});
    let output = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn", "stop_sequence": "halt", "usage": {"input_tokens": 3, "output_tokens": 4}});
    let line = json!({"recordId": "R1", "modelInput": input});
    let read_line = read(&line);
    assert_eq!((read_line.id.as_deref(), read_line.dialect), (Some("R1"), Dialect::Anthropic));
    assert_eq!((texts(&read_line), read_line.is_answered), (vec!["Hi".to_owned()], false));
    let parameters = r#"{"anthropic_version":"bedrock-2023-05-31","max_tokens":9}"#;
    assert_eq!(read_line.imported.parameters.as_str(), parameters);
    assert_eq!(batch_line(&line.to_string()), Some(BatchLine::Request("R1".to_owned())));

    let answered =
        json!({"recordId": "R1", "modelInput": input, "modelOutput": output, "tag": "x"});
    let read_line = read(&answered);
    assert_eq!((read_line.id.as_deref(), read_line.is_answered), (Some("R1"), true));
    assert_eq!(texts(&read_line), ["Hi", "Yes."]);
    assert_eq!(reported(&read_line), Vec::<String>::new());
    assert_eq!(read_line.meta.as_str(), r#"{"modelOutput":{"stop_sequence":"halt"},"tag":"x"}"#);

    let error = json!({"errorCode": 400, "errorMessage": "bad request"});
    let failed =
        json!({"recordId": "R1", "modelInput": input, "modelOutput": null, "error": error});
    let read_line = read(&failed);
    assert_eq!((texts(&read_line), read_line.is_answered), (vec!["Hi".to_owned()], false));
    assert!(read_line.meta.as_str().contains("bad request"), "{}", read_line.meta);
}

#[test]
fn two_names_of_a_line_are_both_kept() {
    let read = read(&json!({"id": "a", "custom_id": "q", "key": "k", "body": question()}));
    assert_eq!(read.id.as_deref(), Some("a"));
    assert_eq!(read.meta.as_str(), r#"{"custom_id":"q","key":"k"}"#);
}

#[test]
fn a_compressed_answer_is_named_by_its_format() {
    let starts: [(&[u8], &str); 4] = [
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "gzip"),
        (b"\x28\xb5\x2f\xfd\x24\x10", "zstd"),
        (b"\x78\x9c\x01\x02", "deflate"),
        (b"\x8b\x07\x80\xfc\xff", "br or another format"),
    ];
    for (start, name) in starts {
        let bytes = [start, &[0xa7; 300]].concat();
        let entry = json!({
            "request": {"url": "https://api.openai.com/v1/chat/completions",
                "postData": {"text": r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#}},
            "response": {"content": {"text": STANDARD.encode(bytes), "encoding": "base64"}},
        });
        let file = json!({"log": {"entries": [entry]}}).to_string();
        let exchanges = har_exchanges(&file).expect("a HAR file");
        let read = ProviderConversation::read(&exchanges.lines[0], None).expect("it is read");
        let expected = format!("response: the response is left out: it is compressed with {name}");
        let reported = read.imported.anomalies.iter().map(ToString::to_string);
        assert_eq!(reported.collect::<Vec<_>>(), [expected]);
    }
}
