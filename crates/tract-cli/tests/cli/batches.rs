//! Batches: their results alone, and joined with their requests.

use serde_json::{Value, json};

use crate::support::{Workspace, each};

fn lines(all: &[Value]) -> String {
    all.iter().map(|line| format!("{line}\n")).collect()
}

fn openai_answer(id: &str, text: &str) -> Value {
    let body = json!({
        "id": "chatcmpl-1", "model": "gpt-4o-mini",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 5},
    });
    let response = json!({"status_code": 200, "request_id": "r", "body": body});
    json!({"id": format!("batch_req_{id}"), "custom_id": id, "response": response, "error": null})
}

fn openai_request(id: &str, text: &str) -> Value {
    let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]});
    json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body})
}

fn expired(id: &str) -> Value {
    let error = json!({"code": "batch_expired", "message": "too late"});
    json!({"id": format!("batch_req_{id}"), "custom_id": id, "response": null, "error": error})
}

#[test]
fn results_alone_are_answers_and_failures_are_reported_with_their_lines() {
    let place = Workspace::new();
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": "At nine."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 12, "output_tokens": 5},
    });
    place.write("openai.jsonl", lines(&[expired("ebb"), openai_answer("tide", "High.")]));
    let anthropic = [
        json!({"custom_id": "ferry", "result": {"type": "succeeded", "message": message}}),
        json!({"custom_id": "lock", "result": {"type": "canceled"}}),
    ];
    place.write("anthropic.jsonl", lines(&anthropic));
    let ran = place.run(&["--json", "import", "openai.jsonl", "anthropic.jsonl"]).expect(1);
    let all: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(each(&all, "branch"), ["tide", "ferry"]);
    let shown = &ran.stdout;
    for cause in [
        r#"the request \"ebb\" of the batch has no answer: batch_expired: too late"#,
        r#"the request \"lock\" of the batch has no answer: canceled"#,
        "the request is not in this line",
    ] {
        assert!(shown.contains(cause), "{cause}: {ran:?}");
    }
    let refused: Vec<&Value> = all.iter().filter(|line| line.get("branch").is_none()).collect();
    assert_eq!(refused.iter().map(|line| line["line"].clone()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(place.json(&["--json", "cat", "tide"])[0]["text"], "High.");
    assert_eq!(place.json(&["--json", "cat", "ferry"])[0]["text"], "At nine.");
    let usage = place.json(&["usage", "--json"]);
    let tokens = &usage.last().expect("a total")["total"]["tokens"];
    assert_eq!((&tokens["input"], &tokens["output"]), (&json!(24), &json!(10)));
}

#[test]
fn requests_and_results_of_one_import_are_joined_by_their_ids() {
    for order in [["in.jsonl", "out.jsonl"], ["out.jsonl", "in.jsonl"]] {
        let place = Workspace::new();
        let requests = [
            openai_request("tide", "Is the tide in?"),
            openai_request("ebb", "And the ebb?"),
            openai_request("twice", "One?"),
            openai_request("twice", "Two?"),
        ];
        place.write("in.jsonl", lines(&requests));
        let results = [
            expired("ebb"),
            openai_answer("twice", "Which?"),
            openai_answer("tide", "High."),
            openai_answer("other", "Alone."),
        ];
        place.write("out.jsonl", lines(&results));
        let ran = place.run(&["--json", "import", order[0], order[1]]).expect(1);
        assert!(ran.stdout.contains("batch_expired"), "{ran:?}");
        let texts = |branch: &str| {
            let shown = place.json(&["--json", "cat", branch]);
            each(&shown, "text").iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts("tide"), ["Is the tide in?", "High."]);
        assert_eq!(texts("ebb"), ["And the ebb?"]);
        assert_eq!(texts("twice"), ["One?"]);
        assert_eq!(texts("other"), ["Alone."]);
    }
}

#[test]
fn results_of_requests_that_all_failed_are_reported() {
    let place = Workspace::new();
    place.write("out.jsonl", lines(&[expired("a"), expired("b")]));
    let ran = place.run(&["import", "out.jsonl"]).expect(1);
    assert!(ran.stderr.contains("error[no_answer]"), "{ran:?}");
    assert!(ran.stdout.contains("2 lines refused"), "{ran:?}");
}

#[test]
fn numbers_are_ids_of_a_batch() {
    for later in [false, true] {
        let place = Workspace::new();
        let with_id = |mut line: Value, id: u64| {
            line["custom_id"] = json!(id);
            line
        };
        let requests = [
            with_id(openai_request("", "Is the tide in?"), 7),
            with_id(openai_request("", "And the ebb?"), 8),
        ];
        let results =
            [with_id(openai_answer("b", "Low."), 8), with_id(openai_answer("a", "High."), 7)];
        place.write("in.jsonl", lines(&requests));
        place.write("out.jsonl", lines(&results));
        match later {
            true => {
                place.run(&["import", "in.jsonl"]).expect(0);
                place.run(&["import", "out.jsonl"]).expect(0);
            }
            false => drop(place.run(&["import", "in.jsonl", "out.jsonl"]).expect(0)),
        }
        let texts = |branch: &str| {
            let shown = place.json(&["--json", "cat", branch]);
            each(&shown, "text").iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts("7"), ["Is the tide in?", "High."]);
        assert_eq!(texts("8"), ["And the ebb?", "Low."]);
    }
}

#[test]
fn requests_alone_are_an_older_state_of_their_answered_branches() {
    let place = Workspace::new();
    place.write("in.jsonl", lines(&[openai_request("tide", "Is the tide in?")]));
    place.write("out.jsonl", lines(&[openai_answer("tide", "High.")]));
    place.run(&["import", "in.jsonl", "out.jsonl"]).expect(0);
    let head = place.id("tide");
    let ran = place.run(&["import", "in.jsonl"]).expect(0);
    assert!(ran.stdout.contains("0 of them new; 1 branch unchanged"), "{ran:?}");
    assert_eq!(place.id("tide"), head);
}

#[test]
fn requests_after_their_answers_are_reported_with_what_to_do() {
    let place = Workspace::new();
    place.write("in.jsonl", lines(&[openai_request("tide", "Is the tide in?")]));
    place.write("out.jsonl", lines(&[openai_answer("tide", "High.")]));
    place.run(&["import", "out.jsonl"]).expect(0);
    let ran = place.run(&["import", "in.jsonl"]).expect(1);
    assert!(ran.stdout.contains("tide has an answer without its request"), "{ran:?}");
    assert!(ran.stdout.contains("tract branch --delete"), "{ran:?}");
}

#[test]
fn embeddings_are_not_conversations() {
    let place = Workspace::new();
    let body = json!({"model": "text-embedding-3-small", "input": "Is the tide in?"});
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": body});
    place.write("in.jsonl", lines(&[line]));
    let ran = place.run(&["import", "in.jsonl"]).expect(1);
    assert!(ran.stderr.contains("error[unknown_format]"), "{ran:?}");
}
