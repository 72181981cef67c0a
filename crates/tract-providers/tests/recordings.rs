//! Lines of recordings: batches, recorded HTTP messages, and content that is not understood.

use tract_core::Part;
use tract_providers::{
    BatchLine, Dialect, ProviderConversation, batch_line, detect, join_batch_lines,
};

fn texts(read: &ProviderConversation) -> Vec<String> {
    read.imported.drafts.iter().map(|draft| draft.content.text()).collect()
}

const RESULTS: [(&str, Dialect); 4] = [
    (
        r#"{"id":"batch_req_1","custom_id":"q-1","response":{"status_code":200,"request_id":"r","body":{"id":"c1","model":"gpt-4o-mini","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"High."}}],"usage":{"prompt_tokens":12,"completion_tokens":5}}},"error":null}"#,
        Dialect::OpenAi,
    ),
    (
        r#"{"id":"batch_req_1","custom_id":"q-1","response":{"status_code":200,"body":{"id":"r1","model":"gpt-4o-mini","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"High."}]}],"usage":{"input_tokens":12,"output_tokens":5}}},"error":null}"#,
        Dialect::Responses,
    ),
    (
        r#"{"custom_id":"q-1","result":{"type":"succeeded","message":{"id":"m1","type":"message","role":"assistant","model":"claude-haiku-4-5","content":[{"type":"text","text":"High."}],"stop_reason":"end_turn","usage":{"input_tokens":12,"output_tokens":5}}}}"#,
        Dialect::Anthropic,
    ),
    (
        r#"{"key":"q-1","response":{"responseId":"g1","modelVersion":"gemini-2.5-flash","candidates":[{"content":{"role":"model","parts":[{"text":"High."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":5}}}"#,
        Dialect::Gemini,
    ),
];

#[test]
fn a_result_of_a_batch_is_a_conversation_with_only_its_answer() {
    for (line, dialect) in RESULTS {
        assert_eq!(detect(line), Some(dialect), "{line}");
        let read = ProviderConversation::read(line, None).expect("it is read");
        assert_eq!((read.id.as_deref(), read.dialect), (Some("q-1"), dialect));
        assert!(read.is_answered);
        assert_eq!(texts(&read), ["High."], "{line}");
        let draft = &read.imported.drafts[0];
        assert!(draft.generation_config.as_ref().is_some_and(|c| c.as_str().contains("model")));
        let facts = draft.metadata.as_ref().map_or("", |facts| facts.as_str()).to_owned();
        assert!(facts.contains(r#""input_tokens":12"#), "{facts}");
        let what = "the request is not in this line: the conversation has only the answer";
        let anomalies: Vec<&str> =
            read.imported.anomalies.iter().map(|anomaly| anomaly.what.as_str()).collect();
        assert_eq!(anomalies, [what], "{line}");
    }
    let read = ProviderConversation::read(RESULTS[0].0, None).expect("it is read");
    let meta = r#"{"id":"batch_req_1","response":{"request_id":"r","status_code":200}}"#;
    assert_eq!(read.meta.as_str(), meta);
}

#[test]
fn a_result_without_an_answer_is_refused_with_its_cause() {
    for (line, cause) in [
        (r#"{"custom_id":"a","result":{"type":"expired"}}"#, "expired"),
        (r#"{"custom_id":"a","result":{"type":"canceled"}}"#, "canceled"),
        (
            r#"{"custom_id":"a","result":{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error","message":"no tokens"}}}}"#,
            "errored: invalid_request_error: no tokens",
        ),
        (
            r#"{"id":"b","custom_id":"a","response":null,"error":{"code":"batch_expired","message":"too late"}}"#,
            "batch_expired: too late",
        ),
        (
            r#"{"id":"b","custom_id":"a","response":{"status_code":400,"body":{"error":{"message":"bad","type":"invalid_request_error","code":null}}},"error":null}"#,
            "status 400: invalid_request_error: bad",
        ),
        (
            r#"{"custom_id":"a","response":{"status_code":200,"body":{"data":[{"embedding":[0.5]}]}}}"#,
            "status 200, and the body is not an answer of a model",
        ),
        (
            r#"{"key":"a","error":{"code":3,"message":"bad","status":"INVALID_ARGUMENT"}}"#,
            "INVALID_ARGUMENT: bad",
        ),
        (
            r#"{"custom_id":"a","response":{"status_code":200,"body":{"choices":[]}}}"#,
            "the answer is not read: choices: expected an array with a choice, found an array",
        ),
    ] {
        let error = ProviderConversation::read(line, None).expect_err("it has no answer");
        let expected = format!("the request \"a\" of the batch has no answer: {cause}");
        assert_eq!(error.to_string(), expected, "{line}");
    }
}

#[test]
fn a_request_and_its_result_are_joined() {
    let body =
        r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Is the tide in?"}]}"#;
    let request = format!(
        r#"{{"custom_id":"q-1","method":"POST","url":"/v1/chat/completions","body":{body}}}"#
    );
    assert_eq!(batch_line(&request), Some(BatchLine::Request("q-1".to_owned())));
    assert_eq!(batch_line(RESULTS[0].0), Some(BatchLine::Answer("q-1".to_owned())));
    let joined = join_batch_lines(&request, RESULTS[0].0).expect("they are joined");
    let read = ProviderConversation::read(&joined, None).expect("it is read");
    assert_eq!(texts(&read), ["Is the tide in?", "High."]);
    assert_eq!((read.is_answered, read.imported.anomalies.len()), (true, 0));
    let params = r#"{"custom_id":"q-1","params":{"model":"claude-haiku-4-5","max_tokens":9,"messages":[{"role":"user","content":"Is the tide in?"}]}}"#;
    let joined = join_batch_lines(params, RESULTS[2].0).expect("they are joined");
    let read = ProviderConversation::read(&joined, None).expect("it is read");
    assert_eq!(texts(&read), ["Is the tide in?", "High."]);
    let gemini = r#"{"key":"q-1","request":{"contents":[{"role":"user","parts":[{"text":"Is the tide in?"}]}]}}"#;
    let joined = join_batch_lines(gemini, RESULTS[3].0).expect("they are joined");
    let read = ProviderConversation::read(&joined, None).expect("it is read");
    assert_eq!((read.id.as_deref(), texts(&read).len()), (Some("q-1"), 2));
}

#[test]
fn a_request_in_the_body_of_a_recorded_http_message_is_read() {
    let body =
        r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Is the tide in?"}]}"#;
    let answer = r#"{"choices":[{"message":{"role":"assistant","content":"High."}}]}"#;
    let line = format!(
        r#"{{"id":"a","request":{{"method":"POST","url":"https://api.example.com/v1/chat/completions?x=1","headers":{{"authorization":"Bearer x"}},"body":{body}}},"response":{{"status":200,"body":{answer}}}}}"#
    );
    let read = ProviderConversation::read(&line, None).expect("it is read");
    assert_eq!(texts(&read), ["Is the tide in?", "High."]);
    assert_eq!(read.imported.parameters.as_str(), r#"{"model":"gpt-4o-mini"}"#);
    assert!(read.meta.as_str().contains(r#""method":"POST""#), "{}", read.meta);
    assert!(!read.meta.as_str().contains("Bearer"), "{}", read.meta);
    let places: Vec<&str> =
        read.imported.anomalies.iter().map(|anomaly| anomaly.at.as_str()).collect();
    assert_eq!(places, ["request.headers"]);
    let line = format!(r#"{{"request":{{"body":{body}}}}}"#);
    let read = ProviderConversation::read(&line, None).expect("it is read");
    assert_eq!((texts(&read).len(), read.imported.anomalies.len()), (1, 0));
}

/// A request with these elements after a text, in the format of each provider.
fn with_element(dialect: Dialect, element: &str) -> String {
    match dialect {
        Dialect::OpenAi => format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"text","text":"Look"}},{element}]}},{{"role":"assistant","content":"Yes"}}]}}"#
        ),
        Dialect::Anthropic => format!(
            r#"{{"model":"m","max_tokens":5,"messages":[{{"role":"user","content":[{{"type":"text","text":"Look"}},{element}]}},{{"role":"assistant","content":"Yes"}}]}}"#
        ),
        Dialect::Responses => format!(
            r#"{{"model":"m","input":[{{"role":"user","content":[{{"type":"input_text","text":"Look"}},{element}]}},{{"role":"assistant","content":"Yes"}}]}}"#
        ),
        Dialect::Gemini => format!(
            r#"{{"contents":[{{"role":"user","parts":[{{"text":"Look"}},{element}]}},{{"role":"model","parts":[{{"text":"Yes"}}]}}]}}"#
        ),
        Dialect::Ollama => format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"Look","images":[{element}]}},{{"role":"assistant","content":"Yes"}}]}}"#
        ),
    }
}

#[test]
fn an_image_without_a_source_is_kept_and_reported_and_its_conversation_is_read() {
    for (dialect, element) in [
        (Dialect::OpenAi, r#"{"type":"image_url"}"#),
        (Dialect::OpenAi, r#"{"type":"image_url","image_url":{"detail":"low"}}"#),
        (Dialect::OpenAi, r#"{"type":"image_url","image_url":7}"#),
        (Dialect::Anthropic, r#"{"type":"image"}"#),
        (
            Dialect::Anthropic,
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png"}}"#,
        ),
        (Dialect::Anthropic, r#"{"type":"image","source":null}"#),
        (Dialect::Responses, r#"{"type":"input_image","detail":"low"}"#),
        (Dialect::Gemini, r#"{"inlineData":{"mimeType":"image/png"}}"#),
        (Dialect::Gemini, r#"{"file_data":{}}"#),
        (Dialect::Ollama, "7"),
    ] {
        let read = ProviderConversation::read(&with_element(dialect, element), Some(dialect));
        let read = read.unwrap_or_else(|error| panic!("{element}: {error}"));
        assert_eq!(read.imported.drafts.len(), 2, "{element}");
        let kept = |part: &Part| matches!(part, Part::Opaque { json, .. } if **json == *element);
        assert!(read.imported.drafts[0].content.parts().iter().any(kept), "{element}");
        let anomalies = &read.imported.anomalies;
        assert_eq!(anomalies.len(), 1, "{element}: {anomalies:?}");
        assert!(anomalies[0].is_kept_json() && anomalies[0].at.ends_with(']'), "{anomalies:?}");
    }
}

#[test]
fn elements_of_unknown_types_are_kept_and_reported() {
    for (dialect, element, is_reported) in [
        (Dialect::OpenAi, r#"{"type":"sketch"}"#, true),
        (Dialect::OpenAi, r#"{"type":"file","file":{"file_id":"f"}}"#, false),
        (Dialect::Anthropic, r#"{"type":"sketch"}"#, true),
        (Dialect::Anthropic, r#"{"type":"document","source":{}}"#, false),
        (Dialect::Responses, r#"{"type":"sketch"}"#, true),
        (Dialect::Responses, r#"{"type":"input_file","file_id":"f"}"#, false),
        (Dialect::Gemini, r#"{"sketch":{}}"#, true),
        (Dialect::Gemini, r#"{"executable_code":{"code":"1"}}"#, false),
    ] {
        let text = with_element(dialect, element);
        let read = ProviderConversation::read(&text, Some(dialect)).expect("it is read");
        let reported: Vec<&str> =
            read.imported.anomalies.iter().map(|anomaly| anomaly.at.as_str()).collect();
        let part = if dialect == Dialect::Gemini { "parts[1]" } else { "content[1]" };
        let list = match dialect {
            Dialect::Gemini => "contents",
            Dialect::Responses => "input",
            _ => "messages",
        };
        let place = format!("{list}[0].{part}");
        let expected = if is_reported { vec![place.as_str()] } else { Vec::new() };
        assert_eq!(reported, expected, "{element}");
    }
}
