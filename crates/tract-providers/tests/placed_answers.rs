//! Answers next to their requests: under other members, in other forms, and one of several.

use tract_core::{Content, Part};
use tract_providers::ProviderConversation;

/// Reads a line, and returns the text of its last message after checking that it is an answer.
#[track_caller]
fn check(line: &str, expected: &str) -> ProviderConversation {
    let read =
        ProviderConversation::read(line, None).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(read.is_answered, "{line}: {:?}", read.imported.anomalies);
    assert_eq!(read.imported.anomalies, [], "{line}");
    let texts: Vec<String> =
        read.imported.drafts.iter().map(|draft| draft.content.text()).collect();
    assert_eq!(texts, ["In?", expected], "{line}");
    read
}

fn request(others: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"In?"}}],{others}}}"#)
}

const CHOICES: &str =
    r#"[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"High."}}]"#;

#[test]
fn an_answer_whose_members_are_those_of_the_line_is_read() {
    let line = request(&format!(
        r#""temperature":1,"id":"chatcmpl-1","object":"chat.completion","choices":{CHOICES},"usage":{{"prompt_tokens":3,"completion_tokens":2}}"#
    ));
    let read = check(&line, "High.");
    let facts = read.imported.drafts[1].metadata.as_ref().map_or("", |facts| facts.as_str());
    assert!(facts.contains(r#""output_tokens":2"#) && facts.contains("chatcmpl-1"), "{facts}");
    assert_eq!(read.imported.parameters.as_str(), r#"{"model":"m","temperature":1}"#);
    let line = r#"{"contents":[{"role":"user","parts":[{"text":"In?"}]}],"candidates":[{"content":{"role":"model","parts":[{"text":"High."}]},"finishReason":"STOP"}]}"#;
    check(line, "High.");
}

#[test]
fn answers_under_other_members_are_read() {
    check(&request(&format!(r#""completion":{{"choices":{CHOICES}}}"#)), "High.");
    let other = CHOICES.replace("High.", "Low.");
    let line = request(&format!(r#""responses":[{{"choices":{CHOICES}}},{{"choices":{other}}}]"#));
    let read = check(&line, "High.");
    assert!(read.meta.as_str().contains("Low."), "{}", read.meta);
    let line = request(r#""completion":"High.""#);
    let read = ProviderConversation::read(&line, None).expect("it is read");
    let what = "the completion is left out: it is not an answer of a model";
    assert_eq!(read.imported.anomalies[0].what, what);
}

#[test]
fn messages_of_the_model_are_an_answer() {
    let message = r#"{"role":"assistant","content":"High."}"#;
    for member in ["output", "response", "completion"] {
        check(&request(&format!(r#""{member}":[{message}]"#)), "High.");
    }
    let two = format!(r#""output":[{message},{}]"#, message.replace("High.", "Low."));
    let read = check(&request(&two), "High.");
    let facts = read.imported.drafts[1].metadata.as_ref().map_or("", |facts| facts.as_str());
    assert!(facts.contains("other_choices") && facts.contains("Low."), "{facts}");
    let items = r#"[{"type":"reasoning","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"High."}]}]"#;
    let line =
        format!(r#"{{"model":"m","input":[{{"role":"user","content":"In?"}}],"output":{items}}}"#);
    check(&line, "High.");
}

#[test]
fn streams_are_read_in_lists_in_texts_and_of_other_providers() {
    let pieces = r#"[{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]}}]},
        {"candidates":[{"content":{"role":"model","parts":[{"text":"gh."}]},"finishReason":"STOP"}]}]"#;
    let text = serde_json::Value::from(pieces);
    let line = format!(
        r#"{{"contents":[{{"role":"user","parts":[{{"text":"In?"}}]}}],"response":{text}}}"#
    );
    check(&line, "High.");
    let events = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"High.\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    let events = serde_json::Value::from(events);
    check(&request(&format!(r#""response":{events}"#)), "High.");
    let chunks = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"High.\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n",
    );
    let chunks = serde_json::Value::from(chunks);
    let line = format!(
        r#"{{"contents":[{{"role":"user","parts":[{{"text":"In?"}}]}}],"response":{chunks}}}"#
    );
    check(&line, "High.");
}

#[test]
fn the_choice_with_the_lowest_index_is_the_message() {
    let choice = |index: u32, text: &str| {
        format!(
            r#"{{"index":{index},"finish_reason":"stop","message":{{"role":"assistant","content":"{text}"}}}}"#
        )
    };
    let choices = format!("[{},{},{}]", choice(2, "Ebb."), choice(0, "High."), choice(1, "Low."));
    for line in
        [format!(r#""response":{{"choices":{choices}}}"#), format!(r#""choices":{choices}"#)]
    {
        let read = check(&request(&line), "High.");
        let facts = read.imported.drafts[1].metadata.as_ref().map_or("", |facts| facts.as_str());
        let places = ["Low.", "Ebb."].map(|text| facts.find(text).expect("it is kept"));
        assert!(places[0] < places[1], "{facts}");
    }
}

#[test]
fn pictures_of_a_response_of_gemini_are_parts_of_the_result() {
    let names = [
        ["functionCall", "functionResponse", "inlineData", "mimeType"],
        ["function_call", "function_response", "inline_data", "mime_type"],
    ];
    for [call, parts, inline, mime] in names {
        let request = format!(
            r#"{{"contents":[{{"role":"user","parts":[{{"text":"In?"}}]}},{{"role":"model","parts":[{{"{call}":{{"name":"look","args":{{}}}}}}]}},{{"role":"user","parts":[{{"{parts}":{{"name":"look","response":{{"output":"see"}},"parts":[{{"{inline}":{{"{mime}":"image/png","data":"aGk="}}}}]}}}}]}}]}}"#
        );
        let read = ProviderConversation::read(&request, None).expect("it is read");
        let result = &read.imported.drafts[2].content;
        assert!(matches!(result, Content::ToolResult(_)), "{result:?}");
        assert!(matches!(result.parts(), [Part::Text { .. }, Part::Image { .. }]), "{result:?}");
        assert_eq!(read.imported.anomalies, [], "{request}");
    }
}
