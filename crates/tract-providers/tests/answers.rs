//! The members of recorded answers, of every provider and in every kind of recording: each is part
//! of the message, kept next to it, or reported.

use serde_json::{Value, json};
use tract_providers::{
    Dialect, ProviderConversation, har_exchanges, join_batch_lines, other_members,
};

/// A request, its answer with all members that the vendor documents, and the members that contain
/// nothing besides the message: the same in every answer, or a sum.
struct Example {
    dialect: Dialect,
    url: &'static str,
    request: Value,
    answer: Value,
    mechanical: &'static [&'static str],
}

fn examples() -> Vec<Example> {
    let openai = Example {
        dialect: Dialect::OpenAi,
        url: "https://api.openai.com/v1/chat/completions",
        request: json!({"model": "gpt-4o", "n": 2, "messages": [{"role": "user", "content": "Hi"}]}),
        answer: json!({
            "id": "chatcmpl-7001", "object": "chat.completion", "created": 7_000_002, "model": "gpt-4o-7003",
            "system_fingerprint": "fp_7004", "service_tier": "tier-7005",
            "choices": [
                {"index": 0, "finish_reason": "function_call", "logprobs": {"content": [
                    {"token": "t7006", "logprob": -0.7007, "bytes": [70, 71], "top_logprobs": []}], "refusal": null},
                 "message": {"role": "assistant", "content": "Yes 7008", "refusal": null, "annotations": [
                    {"type": "url_citation", "url_citation": {"url": "https://example.com/7009"}}]},
                 "content_filter_results": {"hate": {"severity": "safe-7010"}}},
                {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": "No 7011"}},
            ],
            "prompt_filter_results": [{"prompt_index": 7012}],
            "usage": {"prompt_tokens": 7100, "completion_tokens": 7101, "total_tokens": 14201,
                "prompt_tokens_details": {"cached_tokens": 7102, "audio_tokens": 7103},
                "completion_tokens_details": {"reasoning_tokens": 7104, "accepted_prediction_tokens": 7105}},
        }),
        mechanical: &["object", "choices[0].index", "usage.total_tokens"],
    };
    let responses = Example {
        dialect: Dialect::Responses,
        url: "https://api.openai.com/v1/responses",
        request: json!({"model": "gpt-5", "instructions": "Be brief.", "temperature": 0.5, "service_tier": "auto",
            "input": [{"type": "message", "role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]}),
        answer: json!({
            "id": "resp_7001", "object": "response", "created_at": 7_000_002, "completed_at": 7_000_003, "status": "completed",
            "background": false, "error": null, "instructions": "Be brief.", "temperature": 0.5,
            "tools": [{"type": "function", "name": "f", "strict": true, "parameters": {"type": "object", "properties": {}}}],
            "model": "gpt-5-7004", "service_tier": "tier-7005", "max_output_tokens": 7006,
            "output": [{"type": "message", "id": "msg_7007", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "Yes 7008", "annotations": [], "logprobs": []}]}],
            "parallel_tool_calls": true, "previous_response_id": "resp_7009", "reasoning": {"effort": "effort-7010", "summary": null},
            "store": true, "text": {"format": {"type": "text-7011"}}, "tool_choice": "choice-7012", "top_p": 0.7013,
            "truncation": "cut-7014", "prompt_cache_key": "key-7015", "safety_identifier": "s-7016", "metadata": {"run": "m-7017"},
            "usage": {"input_tokens": 7100, "output_tokens": 7101, "total_tokens": 14201,
                "input_tokens_details": {"cached_tokens": 7102}, "output_tokens_details": {"reasoning_tokens": 7103}},
        }),
        mechanical: &[
            "object",
            "usage.total_tokens",
            "status",
            "tools",
            "instructions",
            "temperature",
        ],
    };
    let anthropic = Example {
        dialect: Dialect::Anthropic,
        url: "https://api.anthropic.com/v1/messages",
        request: json!({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
        answer: json!({
            "id": "msg_7001", "type": "message", "role": "assistant", "model": "claude-7002",
            "content": [{"type": "text", "text": "Yes 7003", "citations": null}],
            "stop_reason": "stop_sequence", "stop_sequence": "halt-7004",
            "container": {"id": "container_7005", "expires_at": "2026-01-01T00:00:00Z"},
            "context_management": {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_input_tokens": 7006}]},
            "usage": {"input_tokens": 7100, "output_tokens": 7101, "cache_read_input_tokens": 7102, "cache_creation_input_tokens": 7103,
                "cache_creation": {"ephemeral_5m_input_tokens": 7003, "ephemeral_1h_input_tokens": 100},
                "server_tool_use": {"web_search_requests": 7104}, "service_tier": "tier-7105", "inference_geo": "geo-7106"},
        }),
        mechanical: &["type", "role"],
    };
    let gemini = Example {
        dialect: Dialect::Gemini,
        url: "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
        request: json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
        answer: json!({
            "candidates": [
                {"index": 0, "content": {"role": "model", "parts": [{"text": "Yes 7001"}]}, "finishReason": "RECITATION",
                 "finishMessage": "said 7002", "avgLogprobs": -0.7003, "tokenCount": 7004,
                 "safetyRatings": [{"category": "HARM_7005", "probability": "LOW_7006"}],
                 "citationMetadata": {"citationSources": [{"uri": "https://example.com/7007"}]},
                 "groundingMetadata": {"webSearchQueries": ["q 7008"]}, "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "u7009"}]},
                 "logprobsResult": {"chosenCandidates": [{"token": "t7010", "logProbability": -0.7011}]}},
                {"index": 1, "content": {"role": "model", "parts": [{"text": "No 7012"}]}, "finishReason": "STOP"},
            ],
            "promptFeedback": {"safetyRatings": [{"category": "HARM_7013"}]},
            "modelVersion": "gemini-7014", "responseId": "r7015", "createTime": "2026-01-02T03:04:05.7016Z",
            "modelStatus": {"modelStage": "STAGE_7017"},
            "usageMetadata": {"promptTokenCount": 7100, "toolUsePromptTokenCount": 1, "candidatesTokenCount": 7101,
                "thoughtsTokenCount": 7102, "cachedContentTokenCount": 7103, "totalTokenCount": 21304,
                "trafficType": "TRAFFIC_7104", "promptTokensDetails": [{"modality": "TEXT_7105", "tokenCount": 7106}]},
        }),
        mechanical: &["candidates[0].index", "usageMetadata.totalTokenCount"],
    };
    let ollama = Example {
        dialect: Dialect::Ollama,
        url: "http://localhost:11434/api/chat",
        request: json!({"model": "llama3", "keep_alive": "5m", "options": {"temperature": 0.5}, "messages": [{"role": "user", "content": "Hi"}]}),
        answer: json!({
            "model": "llama-7001", "created_at": "2026-01-02T03:04:05.7002Z", "message": {"role": "assistant", "content": "Yes 7003"},
            "done": true, "done_reason": "stop", "remote_model": "m-7004", "remote_host": "h-7005",
            "total_duration": 7_000_006, "load_duration": 7_000_007, "prompt_eval_count": 7100, "prompt_eval_duration": 7_000_008,
            "eval_count": 7101, "eval_duration": 7_000_009, "logprobs": [{"token": "t7010", "logprob": -0.7011}],
        }),
        mechanical: &["done", "message.role"],
    };
    vec![openai, responses, anthropic, gemini, ollama]
}

/// The values of an answer, each with its path.
fn leaves(value: &Value, at: &str, all: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                leaves(value, &at, all);
            }
        }
        Value::Array(list) => {
            let place = |(n, value)| leaves(value, &format!("{at}[{n}]"), all);
            list.iter().enumerate().for_each(place);
        }
        Value::Null => {}
        Value::String(text) => all.push((at.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => all.push((at.to_owned(), value.to_string())),
    }
}

/// Reads a line as the command does, and returns everything that is stored or reported.
#[track_caller]
fn outcome(line: &str) -> (ProviderConversation, String) {
    let read = ProviderConversation::read(line, None).unwrap_or_else(|e| panic!("{e}: {line}"));
    let mut all = format!("{}\n{:?}\n", read.meta, read.imported.anomalies);
    for draft in &read.imported.drafts {
        let verbatim = draft.verbatim.as_ref().and_then(|blob| blob.text()).unwrap_or_default();
        all += &format!("{draft:?}\n{verbatim}\n");
    }
    (read, all)
}

#[track_caller]
fn check(example: &Example, line: &str) {
    let (read, stored) = outcome(line);
    assert_eq!(read.dialect, example.dialect, "{line}");
    assert!(read.is_answered, "{line}\n{:?}", read.imported.anomalies);
    let mut all = Vec::new();
    leaves(&example.answer, "", &mut all);
    // The reasons of several providers have one word in the metadata.
    let reason = |text: &str| match text {
        "stop" => "end_turn".to_owned(),
        text => text.to_owned(),
    };
    // The members as stored, without the escapes of a debug text.
    let stored = stored.replace('\\', "");
    let is_mechanical = |at: &str| {
        let mut names = example.mechanical.iter();
        names.any(|name| at == *name || at.starts_with(&format!("{name}[")))
    };
    let lost: Vec<_> = all
        .iter()
        .filter(|(_, value)| !stored.contains(value) && !stored.contains(&reason(value)))
        .filter(|(at, _)| !is_mechanical(at))
        .filter(|(at, _)| !is_sum(at))
        .collect();
    assert!(lost.is_empty(), "{:?} {line}\nlost {lost:#?} of\n{stored}", example.dialect);
}

/// Counts that the usage contains in a sum.
fn is_sum(at: &str) -> bool {
    at.contains("input_tokens")
        || at.contains("TokenCount") && at.starts_with("usageMetadata") && !at.contains("Details")
}

#[test]
fn every_member_of_an_answer_is_kept_or_reported() {
    for example in examples() {
        let (request, answer) = (&example.request, &example.answer);
        let mut lines = vec![
            json!({"request": request, "response": answer}),
            json!({"request": request, "response": answer.to_string()}),
            json!({"request": request, "response": {"status": 200, "body": answer}}),
            json!({"request": {"body": request.to_string()}, "response": {"body": answer.to_string()}}),
            json!({"request": request, "output": answer}),
        ];
        let mut record = request.clone();
        record["response"] = answer.clone();
        lines.push(record);
        match example.dialect {
            Dialect::Anthropic => {
                lines.push(
                    json!({"custom_id": "q1", "result": {"type": "succeeded", "message": answer}}),
                );
            }
            Dialect::Gemini => lines.push(json!({"key": "q1", "response": answer})),
            Dialect::OpenAi | Dialect::Responses => {
                lines.push(
                    json!({"custom_id": "q1", "response": {"status_code": 200, "body": answer}}),
                );
            }
            Dialect::Ollama => {}
        }
        for line in lines {
            check(&example, &line.to_string());
        }
        let entry = json!({
            "request": {"method": "POST", "url": example.url, "postData": {"text": request.to_string()}},
            "response": {"status": 200, "content": {"text": answer.to_string()}},
        });
        let file = json!({"log": {"entries": [entry]}}).to_string();
        let exchanges = har_exchanges(&file).expect("a HAR file");
        check(&example, &exchanges.lines[0]);
    }
}

#[test]
fn the_members_next_to_a_message_are_where_the_recording_has_them() {
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let answer = json!({
        "object": "chat.completion", "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "finish_reason": "stop", "logprobs": {"content": []}, "message": {"role": "assistant", "content": "Yes"}}],
    });
    let kept = r#"{"choices":[{"logprobs":{"content":[]}}],"system_fingerprint":"fp_1"}"#;
    let result = json!({"id": "b1", "custom_id": "q", "response": {"status_code": 200, "request_id": "r1", "body": answer}, "error": null});
    let request_line =
        json!({"custom_id": "q", "method": "POST", "url": "/v1/chat/completions", "body": request});
    let joined = join_batch_lines(&request_line.to_string(), &result.to_string()).expect("a pair");
    for (line, expected) in [
        (
            json!({"request": request, "response": answer}).to_string(),
            format!(r#"{{"response":{kept}}}"#),
        ),
        (
            json!({"request": request, "response": {"status": 200, "body": answer}}).to_string(),
            format!(r#"{{"response":{{"body":{kept},"status":200}}}}"#),
        ),
        (
            json!({"request": request, "output": answer}).to_string(),
            format!(r#"{{"output":{kept}}}"#),
        ),
        (
            result.to_string(),
            format!(
                r#"{{"id":"b1","response":{{"body":{kept},"request_id":"r1","status_code":200}}}}"#
            ),
        ),
        (
            joined,
            format!(
                r#"{{"method":"POST","response":{{"body":{kept},"request_id":"r1","status_code":200}},"result":{{"id":"b1"}},"url":"/v1/chat/completions"}}"#
            ),
        ),
    ] {
        assert_eq!(outcome(&line).0.meta.as_str(), expected, "{line}");
    }
}

#[test]
fn an_answer_that_is_not_read_is_kept_whole() {
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    for answer in [json!({"choices": []}), json!({"error": {"message": "too many", "code": 7}})] {
        let line = json!({"request": request, "response": answer}).to_string();
        let (read, _) = outcome(&line);
        assert!(!read.is_answered && read.imported.anomalies.len() == 1, "{line}");
        let meta: Value = serde_json::from_str(read.meta.as_str()).expect("JSON");
        assert_eq!(meta, json!({"response": answer}));
    }
}

#[test]
fn a_second_answer_next_to_the_first_is_kept() {
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let answer = json!({"choices": [{"message": {"role": "assistant", "content": "Yes"}}]});
    let line =
        json!({"request": request, "response": answer, "output": "Yes, as text"}).to_string();
    assert_eq!(outcome(&line).0.meta.as_str(), r#"{"output":"Yes, as text"}"#);
    let line = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "response": "none yet", "output": answer});
    let (read, _) = outcome(&line.to_string());
    assert_eq!((read.is_answered, read.meta.as_str()), (true, r#"{"response":"none yet"}"#));
}

#[test]
fn members_of_a_stream_are_kept_as_those_of_a_whole_answer() {
    let stream = |events: &[Value]| -> String {
        events
            .iter()
            .map(|event| {
                let name = event["type"].as_str().map(|name| format!("event: {name}\n"));
                format!("{}data: {event}\n\n", name.unwrap_or_default())
            })
            .collect()
    };
    let examples = examples();
    let request = |dialect: Dialect| {
        &examples.iter().find(|example| example.dialect == dialect).expect("an example").request
    };
    let text = |text: &str| json!({"role": "model", "parts": [{"text": text}]});
    let cases = [
        (
            Dialect::OpenAi,
            stream(&[
                json!({"id": "a", "created": 71, "system_fingerprint": "fp_72", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Y"}, "logprobs": {"content": [{"token": "t73", "logprob": -1}]}}]}),
                json!({"id": "a", "choices": [{"index": 0, "delta": {"content": "es"}, "logprobs": {"content": [{"token": "t74", "logprob": -1}]}}]}),
                json!({"id": "a", "service_tier": "tier75", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            ]) + "data: [DONE]\n\n",
            &["71", "fp_72", "t73", "t74", "tier75"][..],
        ),
        (
            Dialect::Anthropic,
            stream(&[
                json!({"type": "message_start", "message": {"id": "a", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 1, "service_tier": "tier71"}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "halt72", "container": {"id": "c73"}}, "usage": {"output_tokens": 2},
                    "context_management": {"applied_edits": [{"cleared_tool_uses": 74}]}}),
                json!({"type": "message_stop"}),
            ]),
            &["tier71", "halt72", "c73", "cleared_tool_uses\":74"][..],
        ),
        (
            Dialect::Gemini,
            stream(&[
                json!({"candidates": [{"content": text("Y"), "citationMetadata": {"citationSources": [{"uri": "u71"}]}, "logprobsResult": {"chosenCandidates": [{"token": "t72"}]}}]}),
                json!({"createTime": "at73", "candidates": [{"content": text("es"), "finishReason": "STOP", "citationMetadata": {"citationSources": [{"uri": "u71"}, {"uri": "u74"}]},
                    "logprobsResult": {"chosenCandidates": [{"token": "t75"}]}, "groundingMetadata": {"webSearchQueries": ["q76"]}}]}),
            ]),
            &["\"citationSources\":[{\"uri\":\"u71\"},{\"uri\":\"u74\"}]", "[{\"token\":\"t72\"},{\"token\":\"t75\"}]", "at73", "q76"][..],
        ),
        (
            Dialect::Ollama,
            [
                json!({"model": "m", "created_at": "x", "remote_model": "r71", "message": {"role": "assistant", "content": "Y"}, "done": false, "logprobs": [{"token": "t72"}]}).to_string(),
                json!({"model": "m", "created_at": "y", "message": {"role": "assistant", "content": "es"}, "done": false, "logprobs": [{"token": "t73"}]}).to_string(),
                json!({"model": "m", "created_at": "z74", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop", "total_duration": 75}).to_string(),
            ]
            .join("\n"),
            &["r71", "[{\"token\":\"t72\"},{\"token\":\"t73\"}]", "z74", "\"total_duration\":75"][..],
        ),
    ];
    for (dialect, answer, expected) in cases {
        let data = answer.lines().map(|line| line.trim_start_matches("data: "));
        let list = data.filter_map(|line| serde_json::from_str(line).ok()).collect();
        for response in [json!(answer), Value::Array(list)] {
            let line = json!({"request": request(dialect), "response": response}).to_string();
            let (read, _) = outcome(&line);
            assert!(read.is_answered, "{line}\n{:?}", read.imported.anomalies);
            assert_eq!(read.imported.drafts.last().expect("one").content.text(), "Yes");
            for value in expected {
                assert!(read.meta.as_str().contains(value), "{dialect:?} {value}: {}", read.meta);
            }
        }
    }
}

#[test]
fn a_total_that_is_not_the_sum_is_kept() {
    let answer = |total: u64| {
        json!({"choices": [{"message": {"role": "assistant", "content": "Yes"}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": total}})
        .to_string()
    };
    assert_eq!(other_members(Dialect::OpenAi, &answer(7), "{}"), None);
    let others = other_members(Dialect::OpenAi, &answer(9), "{}").expect("one");
    assert_eq!(others.as_str(), r#"{"usage":{"total_tokens":9}}"#);
}

#[test]
fn a_blocked_prompt_is_an_answer_with_its_tokens_and_its_reason() {
    let request = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]});
    let answer = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT", "safetyRatings": []},
        "usageMetadata": {"promptTokenCount": 12, "totalTokenCount": 12}, "modelVersion": "gemini-2.5-flash"});
    for line in [
        json!({"request": request, "response": answer}),
        json!({"request": request, "response": [answer]}),
        json!({"request": request, "response": format!("data: {answer}\n\n")}),
        json!({"key": "q", "response": answer}),
        json!({"key": "q", "request": request, "response": answer}),
    ] {
        let (read, _) = outcome(&line.to_string());
        let reported: Vec<String> =
            read.imported.anomalies.iter().map(ToString::to_string).collect();
        let blocked: Vec<_> = reported.iter().filter(|what| what.contains("blocked")).collect();
        assert_eq!(
            blocked,
            [
                "response.promptFeedback: the prompt was blocked (PROHIBITED_CONTENT): the answer has no content"
            ],
            "{line} {reported:?}"
        );
        assert!(read.is_answered, "{line}");
        let answer = read.imported.drafts.last().expect("an answer");
        let metadata = answer.metadata.as_ref().expect("metadata").as_str();
        assert!(metadata.contains(r#""input_tokens":12"#), "{metadata}");
        assert!(metadata.contains(r#""stop_reason":"refusal""#), "{metadata}");
        assert!(read.meta.as_str().contains("PROHIBITED_CONTENT"), "{}", read.meta);
    }
}

#[test]
fn answers_without_content_are_read_and_reported() {
    let examples = examples();
    for example in &examples {
        let answer = match example.dialect {
            Dialect::OpenAi => {
                json!({"choices": [{"index": 0, "finish_reason": "content_filter", "message": {"role": "assistant", "content": null}}], "usage": {"prompt_tokens": 12, "completion_tokens": 0}})
            }
            Dialect::Responses => {
                json!({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": [], "usage": {"input_tokens": 12, "output_tokens": 0}})
            }
            Dialect::Anthropic => {
                json!({"type": "message", "role": "assistant", "content": [], "stop_reason": "refusal", "usage": {"input_tokens": 12, "output_tokens": 0}})
            }
            Dialect::Gemini => {
                json!({"candidates": [{"finishReason": "SAFETY", "index": 0}], "usageMetadata": {"promptTokenCount": 12}})
            }
            Dialect::Ollama => {
                json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 12})
            }
        };
        let line = json!({"request": example.request, "response": answer}).to_string();
        let (read, _) = outcome(&line);
        assert!(read.is_answered, "{line}\n{:?}", read.imported.anomalies);
        let answer = read.imported.drafts.last().expect("an answer");
        let metadata = answer.metadata.as_ref().expect("metadata").as_str();
        assert!(metadata.contains(r#""input_tokens":12"#), "{line} {metadata}");
    }
}
