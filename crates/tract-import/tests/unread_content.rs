//! Content that a reader does not understand: it is reported with its line, and nothing is left
//! out or empty without a report.

mod support;

use serde_json::{Value, json};
use tract_core::{Content, Part};
use tract_engine::Repo;
use tract_import::{AnomalyKind, SessionReport, Source};

use self::support::{compiled, import, new_repo, write};

/// Imports one file with these bytes.
fn imported(source: Source, name: &str, bytes: &str) -> (Repo, SessionReport) {
    let repo = new_repo();
    let report = into(&repo, source, name, bytes);
    (repo, report)
}

fn into(repo: &Repo, source: Source, name: &str, bytes: &str) -> SessionReport {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(source, folder.path().join(name), bytes);
    import(repo, &[file]).pop().expect("a report")
}

/// The texts of the conversation, as a model sees them.
fn texts(repo: &Repo, report: &SessionReport) -> Vec<String> {
    let compiled = compiled(repo, &report.branches[0].branch);
    compiled.messages().map(|message| message.content.text()).collect()
}

fn unread(report: &SessionReport) -> Vec<(usize, &str)> {
    let listed = report.anomalies.listed.iter();
    let listed = listed.filter(|anomaly| anomaly.kind == AnomalyKind::UnreadableMessage);
    listed.map(|anomaly| (anomaly.line, anomaly.what.as_str())).collect()
}

const UNKNOWN: &str = "an element of an unknown kind, kept as its JSON";
const NEITHER: &str = "content: neither a text nor a list, kept as its JSON";
const EMPTY: &str = "a message without content";

/// A file of a tool whose first user message has this content, and the reader's word for its place.
fn with_content(source: Source, content: Value) -> (&'static str, String) {
    let lines = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    match source {
        Source::MiniSweAgent => (
            "a.traj.json",
            json!({"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": [
                {"role": "user", "content": content}, {"role": "assistant", "content": "Yes."},
            ]})
            .to_string(),
        ),
        Source::SweAgent => (
            "a.traj",
            json!({"trajectory": [], "info": {}, "history": [
                {"role": "user", "content": content}, {"role": "assistant", "content": "Yes."},
            ]})
            .to_string(),
        ),
        Source::Atif => (
            "a.json",
            json!({"schema_version": "ATIF-v1.5", "session_id": "s", "agent": {"name": "a"}, "steps": [
                {"step_id": 1, "source": "user", "message": content},
                {"step_id": 2, "source": "agent", "message": "Yes."},
            ]})
            .to_string(),
        ),
        Source::OpenHands => (
            "a.jsonl",
            lines(&[
                json!({"kind": "MessageEvent", "id": "e1", "source": "user", "timestamp": "2026-01-01T10:00:00",
                    "llm_message": {"role": "user", "content": content}}),
                json!({"kind": "MessageEvent", "id": "e2", "source": "agent", "timestamp": "2026-01-01T10:00:01",
                    "llm_message": {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}}),
            ]),
        ),
        source => panic!("no file of {source:?}"),
    }
}

#[test]
fn unknown_content_is_kept_and_reported() {
    let readers = [Source::MiniSweAgent, Source::SweAgent, Source::Atif, Source::OpenHands];
    for source in readers {
        for (content, text, expected) in [
            (json!(41), "41", vec![NEITHER.to_owned()]),
            (json!({"zz": "words"}), r#"{"zz":"words"}"#, vec![NEITHER.to_owned()]),
            (
                json!([{"type": "text", "text": "One"}, {"type": "sketch", "data": "x"}]),
                "One\n{\"data\":\"x\",\"type\":\"sketch\"}",
                vec![format!("content[1]: {UNKNOWN}")],
            ),
            (json!(null), "", vec![EMPTY.to_owned()]),
            (json!([{"type": "text", "text": "One"}]), "One", vec![]),
        ] {
            let (name, bytes) = with_content(source, content.clone());
            let (repo, report) = imported(source, name, &bytes);
            assert_eq!(texts(&repo, &report), [text, "Yes."], "{source:?} {content}");
            let expected: Vec<(usize, &str)> = expected.iter().map(|what| (1, &**what)).collect();
            assert_eq!(unread(&report), expected, "{source:?} {content}");
        }
    }
}

#[test]
fn a_message_whose_text_is_in_an_unknown_member_is_reported() {
    let copilot = [
        json!({"type": "session.start", "id": "1", "timestamp": "2026-01-01T10:00:00Z", "data": {"sessionId": "s"}}),
        json!({"type": "user.message", "id": "2", "timestamp": "2026-01-01T10:00:01Z", "data": {"words": "Hi"}}),
    ];
    let copilot: String = copilot.iter().map(|line| format!("{line}\n")).collect();
    let (_, report) = imported(Source::CopilotCli, "events.jsonl", &copilot);
    assert_eq!(unread(&report), [(2, EMPTY)]);

    let gemini = json!({"sessionId": "s", "startTime": "2026-01-01T10:00:00Z", "messages": [
        {"id": "1", "type": "user", "timestamp": "2026-01-01T10:00:00Z", "content": "Hi"},
        {"id": "2", "type": "gemini", "timestamp": "2026-01-01T10:00:01Z", "content": {"words": "Yes."}},
    ]});
    let (_, report) = imported(Source::GeminiCli, "session-1.json", &gemini.to_string());
    let what = r#""messages[1].content" is not read: unexpected type (object)"#;
    assert_eq!(unread(&report)[0], (1, what));
}

#[test]
fn half_an_emoji_in_arguments_that_are_a_json_text_is_reported() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": r#"{"a":"tree \ud83c"}"#}});
    let run = json!({"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]});
    let (_, report) = imported(Source::MiniSweAgent, "a.traj.json", &run.to_string());
    let listed: Vec<_> = report
        .anomalies
        .listed
        .iter()
        .map(|anomaly| (anomaly.line, anomaly.kind, &*anomaly.what))
        .collect();
    let what = "arguments: a: an unpaired surrogate was replaced";
    assert_eq!(listed, [(2, AnomalyKind::ReplacedText, what)]);
}

#[test]
fn intact_records_of_damaged_lines_are_read_in_files_that_are_read_as_a_whole() {
    let start =
        json!({"kind": 0, "v": {"version": 3, "sessionId": "s", "requests": []}}).to_string();
    let request = json!({"kind": 2, "k": ["requests"], "v": [
        {"requestId": "r1", "message": {"text": "Is it in?"}, "response": [{"value": "Yes."}], "timestamp": 1_767_261_600_000_i64},
    ]})
    .to_string();
    let first = json!({"id": "a", "conversations": [{"from": "human", "value": "One"}, {"from": "gpt", "value": "1"}]}).to_string();
    let second = json!({"id": "b", "conversations": [{"from": "human", "value": "Two"}, {"from": "gpt", "value": "2"}]}).to_string();
    for (source, name, one, two, messages) in [
        (Source::VsCodeChat, "s.jsonl", &start, &request, 2),
        (Source::Dataset, "d.jsonl", &first, &second, 4),
    ] {
        for damaged in [
            format!("{one}{two}\n"),
            format!("{}{one}\n{two}\n", &one[..one.len() / 2]),
            format!("{one}\n<<<< {two}\n"),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let file = write(source, folder.path().join(name), &damaged);
            let reports = import(&new_repo(), &[file]);
            let all: usize = reports.iter().map(|report| report.messages).sum();
            assert_eq!(all, messages, "{damaged}");
            let damage = reports.iter().flat_map(|report| &report.anomalies.counts);
            let damage: Vec<_> = damage.collect();
            assert_eq!(damage, [(&AnomalyKind::DamagedLine, &1)], "{damaged}");
        }
    }
}

/// The types of the opaque parts and the texts of each message, as a model sees them.
fn parts(repo: &Repo, report: &SessionReport) -> Vec<String> {
    let compiled = compiled(repo, &report.branches[0].branch);
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::Opaque { json, .. } => format!("opaque {json}"),
        other => format!("{other:?}"),
    };
    let all = compiled
        .messages()
        .map(|message| message.content.parts().iter().map(part).collect::<Vec<_>>().join(" | "));
    all.collect()
}

/// The role and the parts of each message, as a model sees them.
fn shown(repo: &Repo, report: &SessionReport) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::Image { source, .. } => format!("image {source:?}"),
        Part::ToolCall(call) => format!("{}({}) {}", call.name, call.arguments, call.id),
        Part::Reasoning { text, signature, encrypted } => {
            let more = [signature, encrypted].map(|more| more.as_deref().unwrap_or("-"));
            format!("reasoning {text:?} {}", more.join(" "))
        }
        Part::Opaque { json, .. } => format!("opaque {json}"),
    };
    let compiled = compiled(repo, &report.branches[0].branch);
    let message = |message: &tract_core::Message| {
        let parts: Vec<String> = message.content.parts().iter().map(part).collect();
        let call = match &message.content {
            Content::ToolResult(answer) => format!(" {}", answer.call_id),
            _ => String::new(),
        };
        format!("{}{call}: {}", message.role.as_str(), parts.join(" | "))
    };
    compiled.messages().map(message).collect()
}

fn lines(all: &[Value]) -> String {
    all.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn elements_of_unknown_types_in_sessions_are_kept_and_reported() {
    let sketch = json!({"data": "x", "type": "sketch"});
    let claude_code = lines(&[
        json!({"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "s",
            "timestamp": "2026-01-01T10:00:00Z", "message": {"role": "user", "content": "Draw."}}),
        json!({"type": "assistant", "uuid": "u2", "parentUuid": "u1", "sessionId": "s",
            "timestamp": "2026-01-01T10:00:01Z",
            "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "One"}, sketch]}}),
    ]);
    let codex_line = |second: u32, payload: Value| json!({"timestamp": format!("2026-01-01T10:00:0{second}Z"), "type": "response_item", "payload": payload});
    let codex = lines(&[
        json!({"timestamp": "2026-01-01T10:00:00Z", "type": "session_meta", "payload": {"id": "s"}}),
        codex_line(
            1,
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Draw."}, sketch]}),
        ),
        codex_line(2, sketch.clone()),
    ]);
    let gemini = json!({"sessionId": "s", "startTime": "2026-01-01T10:00:00Z", "messages": [
        {"id": "1", "type": "user", "timestamp": "2026-01-01T10:00:00Z", "content": [{"text": "Draw."}, {"sketch": "x"}]},
        {"id": "2", "type": "gemini", "timestamp": "2026-01-01T10:00:01Z", "content": [{"text": "One"}, {"sketch": "y"}]},
    ]})
    .to_string();
    let kind = "an element of the unknown type \"sketch\", kept as its JSON";
    for (source, name, bytes, texts, anomalies) in [
        (
            Source::ClaudeCode,
            "s.jsonl",
            claude_code,
            ["Draw.", r#"One | opaque {"data":"x","type":"sketch"}"#],
            vec![(2, format!("content[1]: {kind}"))],
        ),
        (
            Source::Codex,
            "rollout-s.jsonl",
            codex,
            [
                r#"Draw. | opaque {"data":"x","type":"sketch"}"#,
                r#"opaque {"data":"x","type":"sketch"}"#,
            ],
            vec![(2, format!("content[1]: {kind}")), (3, format!("the item: {kind}"))],
        ),
        (
            Source::GeminiCli,
            "session-s.json",
            gemini,
            [r#"Draw. | opaque {"sketch":"x"}"#, r#"One | {"sketch":"y"}"#],
            vec![
                (1, "content[1]: an element of an unknown type, kept as its JSON".to_owned()),
                (
                    2,
                    "content[1]: a part that is neither a text nor a call, kept as its JSON"
                        .to_owned(),
                ),
            ],
        ),
    ] {
        let (repo, report) = imported(source, name, &bytes);
        assert_eq!(parts(&repo, &report), texts, "{source:?}");
        let expected: Vec<(usize, &str)> =
            anomalies.iter().map(|(line, what)| (*line, &**what)).collect();
        assert_eq!(unread(&report), expected, "{source:?}");
    }
}

#[test]
fn messages_of_langchain_of_any_role_are_read() {
    let dump = json!([
        {"type": "chat", "data": {"role": "user", "content": "Is it in?"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ChatMessage"],
            "kwargs": {"role": "assistant", "content": "Yes."}},
        {"type": "chat", "data": {"role": "narrator", "content": "A bell rings."}},
        {"type": "ai", "data": {"content": "", "additional_kwargs": {"function_call": {"name": "tide", "arguments": "{}"}}}},
        {"type": "function", "data": {"name": "tide", "content": "high"}},
        {"type": "ai", "data": {"content": [{"type": "sketch", "data": "x"}]}},
        {"type": "whisper", "data": {"content": "psst"}},
    ]);
    let (repo, report) = imported(Source::LangChain, "chat.json", &dump.to_string());
    let compiled = compiled(&repo, &report.branches[0].branch);
    let shown: Vec<String> = compiled
        .messages()
        .map(|message| format!("{} {}", message.role.as_str(), message.content.text()))
        .collect();
    let expected = [
        "user Is it in?",
        "assistant Yes.",
        "user A bell rings.",
        "assistant ",
        "tool high",
        r#"assistant {"data":"x","type":"sketch"}"#,
        r#"user {"data":{"content":"psst"},"type":"whisper"}"#,
    ];
    assert_eq!(shown, expected);
    assert_eq!(report.pairs, 1);
    let expected = [
        (3, "a message of the unknown role \"narrator\", kept as a user's"),
        (6, "content[0]: an element of an unknown kind, kept as its JSON"),
        (7, "a message of the unknown type \"whisper\", kept as its JSON"),
    ];
    assert_eq!(unread(&report), expected);
}

#[test]
fn turns_of_unknown_speakers_are_kept_and_reported() {
    let record = json!({"id": "a", "conversations": [
        {"from": "human", "value": "Is it in?"},
        {"from": "narrator", "value": "A bell rings."},
        {"from": "gpt", "value": "Yes."},
    ]});
    let (repo, report) = imported(Source::Dataset, "d.jsonl", &record.to_string());
    assert_eq!(texts(&repo, &report), ["Is it in?", "A bell rings.", "Yes."]);
    let what = "a turn of the unknown speaker \"narrator\", kept as a user's";
    assert_eq!(unread(&report), [(1, what)]);
}

#[test]
fn two_records_of_one_line_are_two_conversations() {
    let record = |text: &str| {
        json!({"conversations": [{"from": "human", "value": text}, {"from": "gpt", "value": "1"}]})
            .to_string()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = format!("{}{}\n", record("One"), record("Two"));
    let file = write(Source::Dataset, folder.path().join("d.jsonl"), bytes);
    let repo = new_repo();
    let reports = import(&repo, &[file]);
    let names: Vec<&str> =
        reports.iter().map(|report| report.branches[0].branch.as_str()).collect();
    assert_eq!(names, ["dataset/d-1", "dataset/d-1-2"]);
    assert_eq!(texts(&repo, &reports[1]), ["Two", "1"]);
    assert!(
        reports.iter().all(|report| !report.anomalies.counts.contains_key(&AnomalyKind::Diverged))
    );
}

#[test]
fn tools_of_xlam_may_be_a_list() {
    let tools = json!([{"name": "tide", "description": "Tides.", "parameters": {"port": {"type": "str", "description": "The port."}}}]);
    let answers = json!([{"name": "tide", "arguments": {"port": "Bergen"}}]);
    for text in [false, true] {
        let tools = if text { json!(tools.to_string()) } else { tools.clone() };
        let answers = if text { json!(answers.to_string()) } else { answers.clone() };
        let record = json!({"id": "x", "query": "Is it in?", "tools": tools, "answers": answers});
        let folder = tempfile::tempdir().expect("a folder");
        let file = write(Source::Dataset, folder.path().join("x.jsonl"), record.to_string());
        assert_eq!(tract_import::detect(file.path()).expect("it reads"), Some(Source::Dataset));
        let repo = new_repo();
        let report = import(&repo, &[file]).pop().expect("a report");
        assert_eq!(unread(&report), [], "{text}");
        let compiled = compiled(&repo, &report.branches[0].branch);
        let calls: Vec<&str> = compiled
            .messages()
            .flat_map(|message| message.content.calls())
            .map(|call| call.arguments.as_str())
            .collect();
        assert_eq!(calls, [r#"{"port":"Bergen"}"#], "{text}");
        assert_eq!(compiled.tools().len(), 1, "{text}");
    }
}

#[test]
fn calls_without_an_id_get_one_and_their_results() {
    let tool = |name: &str, output: &str| json!({"type": "tool", "tool": name, "state": {"status": "completed", "input": {}, "output": output}});
    let session = json!({"info": {"id": "s", "time": {"created": 1}}, "messages": [
        {"info": {"id": "m1", "role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "Go"}]},
        {"info": {"id": "m2", "role": "assistant", "time": {"created": 2}}, "parts": [
            tool("tide", "high"), tool("wind", "calm"), tool("tide", "low"),
        ]},
    ]});
    let (repo, report) = imported(Source::OpenCode, "export.json", &session.to_string());
    let compiled = compiled(&repo, &report.branches[0].branch);
    let mut shown = Vec::new();
    for message in compiled.messages() {
        shown.extend(message.content.calls().map(|call| format!("{} {}", call.id, call.name)));
        if let Content::ToolResult(answer) = &message.content {
            shown.push(format!("{} {}", answer.call_id, message.content.text()));
        }
    }
    let ids = ["unnamed-call-1", "unnamed-call-2", "unnamed-call-3"];
    let expected: Vec<String> = ids
        .iter()
        .zip(["tide", "wind", "tide"])
        .chain(ids.iter().zip(["high", "calm", "low"]))
        .map(|(id, word)| format!("{id} {word}"))
        .collect();
    assert_eq!(shown, expected);
    assert_eq!(report.pairs, 3);
    let what = |name: &str| format!("a call of {name:?} has no id: it gets one");
    let reported: Vec<String> =
        unread(&report).iter().map(|(_, what)| (*what).to_owned()).collect();
    assert_eq!(reported, ["tide", "wind", "tide"].map(what));
}

#[test]
fn calls_and_reasoning_in_the_content_of_langchain_are_read() {
    let dump = json!([
        {"type": "human", "data": {"content": "Is it in?", "name": "Ada", "id": "h1",
            "additional_kwargs": {"mood": "calm", "empty": {}}}},
        {"type": "ai", "data": {"content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "tide", "input": {"port": "Bergen"}},
        ]}},
        {"type": "tool", "data": {"content": "high", "tool_call_id": "t1", "artifact": {"a": 1}}},
        {"type": "ai", "data": {"content": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "SUM"}], "encrypted_content": "ENC"},
            {"type": "tool_use", "id": "t2", "name": "wind", "input": {}},
        ], "tool_calls": [{"id": "t2", "name": "wind", "args": {}}]}},
        {"type": "tool", "data": {"content": "calm", "tool_call_id": "t2"}},
        {"type": "ai", "data": {"content": "", "additional_kwargs":
            {"refusal": "I may not.", "reasoning_content": "Hm.", "parsed": {"a": 1}, "tool_calls": []}}},
        {"type": "ai", "data": {"content": "Yes.", "additional_kwargs":
            {"reasoning": {"id": "rs", "summary": [{"type": "summary_text", "text": "SUM"}], "encrypted_content": "ENC"}}}},
    ]);
    let (repo, report) = imported(Source::LangChain, "chat.json", &dump.to_string());
    let expected = [
        "user: Is it in?",
        r#"assistant: I look. | tide({"port":"Bergen"}) t1"#,
        "tool t1: high",
        r#"assistant: reasoning "SUM" - ENC | wind({}) t2"#,
        "tool t2: calm",
        r#"assistant: reasoning "Hm." - - | I may not."#,
        r#"assistant: reasoning "SUM" - ENC | Yes."#,
    ];
    assert_eq!(shown(&repo, &report), expected);
    let expected = [
        (1, r#""name" is not read: unknown member"#),
        (1, r#""additional_kwargs.mood" is not read: unknown member"#),
        (3, r#""artifact" is not read: unknown member"#),
        (6, r#""additional_kwargs.parsed" is not read: unknown member"#),
    ];
    assert_eq!(unread(&report), expected);
    assert_eq!((report.pairs, report.anomalies.count()), (2, 4));
}

#[test]
fn actions_of_openhands_without_function_calling_are_answers_with_calls() {
    let event = |id: u32, source: &str, members: Value| {
        let mut event = json!({"id": id, "timestamp": "2026-01-01T00:00:00", "source": source});
        let all = event.as_object_mut().expect("an object");
        all.extend(members.as_object().expect("an object").clone());
        event
    };
    let args = json!({"command": "CMD", "thought": "THOUGHT", "blocking": false});
    let events = json!([
        event(
            0,
            "user",
            json!({"action": "message", "args": {"content": "Look.", "image_urls": ["http://a/b.png"]}})
        ),
        event(1, "agent", json!({"action": "run", "args": args})),
        event(2, "agent", json!({"observation": "run", "content": "OBS", "cause": 1})),
        event(3, "environment", json!({"observation": "agent_state_changed", "content": ""})),
        event(
            4,
            "agent",
            json!({"action": "finish", "args": {"final_thought": "FIN", "outputs": {"a": 1}}})
        ),
        event(5, "user", json!({"action": "run", "args": {"command": "ls"}})),
        event(6, "agent", json!({"observation": "error", "content": "ERR"})),
        event(7, "agent", json!({"action": "condensation", "args": {"summary": "S"}})),
        event(8, "user", json!({"action": "recall", "args": {"query": "q"}})),
        event(9, "environment", json!({"observation": "recall", "content": "Added.", "cause": 8})),
        event(10, "agent", json!({"log": "words"})),
    ]);
    let (repo, report) = imported(Source::OpenHands, "trajectory.json", &events.to_string());
    let expected = [
        r#"user: Look. | image Url("http://a/b.png")"#,
        r#"assistant: THOUGHT | run({"blocking":false,"command":"CMD"}) event-1"#,
        "tool event-1: OBS",
        "assistant: FIN",
        "user: ERR",
    ];
    assert_eq!(shown(&repo, &report), expected);
    let expected = [
        (5, r#""args.outputs" is not read: unknown member"#),
        (6, r#"an action of the kind "run" of the source "user""#),
        (7, r#"an observation of the kind "error" without its action, kept as a user's message"#),
        (8, r#"an action of the kind "condensation" of the source "agent""#),
        (10, r#"an observation of the kind "recall" with a text"#),
        (11, "an event that is neither an action nor an observation"),
    ];
    assert_eq!(unread(&report), expected);
    let skipped: Vec<&str> = report.skipped.keys().map(String::as_str).collect();
    let unseen = ["action:recall", "observation:agent_state_changed", "observation:recall"];
    assert_eq!((skipped.as_slice(), report.pairs), (unseen.as_slice(), 1));
}

#[test]
fn all_content_of_events_of_openhands_sdk_is_read_or_kept() {
    let event = |id: &str, kind: &str, members: Value| {
        let mut event =
            json!({"kind": kind, "id": id, "timestamp": "2026-01-01T00:00:01", "source": "agent"});
        let all = event.as_object_mut().expect("an object");
        all.extend(members.as_object().expect("an object").clone());
        event
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let item = json!({"id": "rs", "summary": ["SUM"], "encrypted_content": "ENC"});
    let call = |id: &str| json!({"tool_name": "look", "tool_call_id": id, "tool_call": {"id": id, "name": "look", "arguments": "{}"}, "thought": [], "llm_response_id": id});
    let mut thoughtful = call("c1");
    thoughtful["responses_reasoning_item"] = item.clone();
    thoughtful["reasoning_content"] = json!("SUM");
    let output = json!({"kind": "ExecuteBashObservation", "output": "OUT", "exit_code": 0});
    let events = [
        event(
            "e1",
            "SystemPromptEvent",
            json!({"system_prompt": text("You watch."), "dynamic_context": text("DYN"), "tools": []}),
        ),
        event(
            "e2",
            "MessageEvent",
            json!({"source": "user", "llm_message": {"role": "user", "content": [text("Look.")]}, "extended_content": [text("EXT"), {"type": "sketch"}]}),
        ),
        event("e3", "ActionEvent", thoughtful),
        event(
            "e4",
            "ObservationEvent",
            json!({"tool_name": "look", "tool_call_id": "c1", "observation": output}),
        ),
        event(
            "e5",
            "MessageEvent",
            json!({"llm_message": {"role": "assistant", "content": [text("Yes.")],
                "reasoning_content": "RC", "thinking_blocks": [{"type": "thinking", "thinking": "TB", "signature": "s"}]}}),
        ),
        event(
            "e6",
            "MessageEvent",
            json!({"llm_message": {"role": "assistant", "content": [text("No.")], "reasoning_content": "RC"}}),
        ),
        event(
            "e7",
            "NovelEvent",
            json!({"llm_message": {"role": "user", "content": [text("New.")]}}),
        ),
    ];
    let (repo, report) = imported(Source::OpenHands, "events.jsonl", &lines(&events));
    let expected = [
        "system: You watch. | DYN",
        r#"user: Look. | EXT
{"type":"sketch"}"#,
        r#"assistant: reasoning "SUM" - ENC | look({}) c1"#,
        r#"tool c1: {"exit_code":0,"kind":"ExecuteBashObservation","output":"OUT"}"#,
        r#"assistant: reasoning "TB" s - | Yes."#,
        r#"assistant: reasoning "RC" - - | No."#,
    ];
    assert_eq!(shown(&repo, &report), expected);
    let expected = [
        (2, "extended_content[1]: an element of an unknown kind, kept as its JSON"),
        (4, "observation: no content, kept as its JSON"),
        (7, r#"an event of the unknown kind "NovelEvent" with a message"#),
    ];
    assert_eq!(unread(&report), expected);
}

#[test]
fn pictures_and_all_members_of_responses_of_gemini_cli_are_kept() {
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let sound = json!({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}});
    let call = |id: &str, response: Value, parts: Value| {
        let response = json!({"functionResponse": {"id": id, "name": "read_file", "response": response, "parts": parts}});
        json!({"id": id, "name": "read_file", "args": {}, "status": "success", "result": [response]})
    };
    let calls = json!([
        call("a", json!({"output": "Binary."}), json!([picture, sound])),
        call("b", json!({"output": "OUT", "extra": "EXTRA"}), json!(null)),
        call("c", json!({"output": "OUT", "error": "ERR"}), json!(null)),
        call("d", json!({"error": "ERR", "output": null}), json!(null)),
    ]);
    let session = json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "messages": [
        {"id": "1", "type": "user", "timestamp": "2026-01-01T00:00:01Z", "content": "Look."},
        {"id": "2", "type": "gemini", "timestamp": "2026-01-01T00:00:02Z", "content": "", "toolCalls": calls},
    ]});
    let (repo, report) = imported(Source::GeminiCli, "session-s.json", &session.to_string());
    let sound = r#"{"inlineData":{"data":"AAAA","mimeType":"audio/wav"}}"#;
    let expected = [
        format!(r#"tool a: Binary. | image Base64("AAAA") | {sound}"#),
        r#"tool b: {"extra":"EXTRA","output":"OUT"}"#.to_owned(),
        r#"tool c: {"error":"ERR","output":"OUT"}"#.to_owned(),
        "tool d: ERR".to_owned(),
    ];
    assert_eq!(shown(&repo, &report)[2..], expected);
    let what = "toolCalls[0].result[0].functionResponse.parts[1]: a part of an unknown type, kept as its JSON";
    assert_eq!(unread(&report), [(2, what)]);
}

#[test]
fn different_messages_with_one_id_in_a_document_of_gemini_cli_are_all_kept() {
    let message = |kind: &str, text: &str| json!({"id": "1", "type": kind, "timestamp": "2026-01-01T00:00:01Z", "content": text});
    let session = json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "messages": [
        message("user", "One?"), message("user", "Two?"), message("gemini", "On"), message("gemini", "One."),
    ]});
    let (repo, report) = imported(Source::GeminiCli, "session-s.json", &session.to_string());
    assert_eq!(shown(&repo, &report), ["user: One?", "user: Two?", "assistant: One."]);
    let what = "a message with the id of another one, kept as a message without an id";
    assert_eq!(unread(&report), [(2, what), (3, what)]);
}

#[test]
fn pictures_signatures_and_all_members_of_responses_of_qwen_code_are_kept() {
    let line = |id: &str, parent: Option<&str>, kind: &str, parts: Value| {
        json!({"uuid": id, "parentUuid": parent, "sessionId": "s", "timestamp": "2026-01-01T00:00:01Z",
            "type": kind, "message": {"role": "user", "parts": parts}})
    };
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let session = lines(&[
        line("u1", None, "user", json!([{"text": "Look."}])),
        line(
            "u2",
            Some("u1"),
            "assistant",
            json!([{"functionCall": {"id": "a", "name": "f", "args": {}}}, {"text": "", "thoughtSignature": "SIG"}]),
        ),
        line(
            "u3",
            Some("u2"),
            "tool_result",
            json!([{"functionResponse": {"id": "a", "name": "f", "response": {"output": "OUT", "extra": "EXTRA"}, "parts": [picture, {"text": "more"}, {"sketch": 1}]}}]),
        ),
    ]);
    let (repo, report) = imported(Source::QwenCode, "s.jsonl", &session);
    let expected = [
        "user: Look.",
        r#"assistant: f({}) a | reasoning "" SIG -"#,
        r#"tool a: {"extra":"EXTRA","output":"OUT"} | image Base64("AAAA") | more | {"sketch":1}"#,
    ];
    assert_eq!(shown(&repo, &report), expected);
    let what = "parts[0].functionResponse.parts[2]: a part of an unknown type, kept as its JSON";
    assert_eq!(unread(&report), [(3, what)]);
}

#[test]
fn rollouts_of_older_versions_of_codex_and_bare_items_are_read() {
    let user = json!({"type": "message", "id": null, "role": "user", "content": [{"type": "input_text", "text": "Is it in?"}]});
    let older = lines(&[
        json!({"id": "old", "timestamp": "2025-05-07T00:00:00Z", "instructions": "You know.", "git": {"branch": "b"}}),
        json!({"record_type": "state"}),
        user.clone(),
        user.clone(),
        json!({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "high"}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(Source::Codex, folder.path().join("rollout-old.jsonl"), older);
    assert_eq!(tract_import::detect(file.path()).expect("it reads"), Some(Source::Codex));
    let repo = new_repo();
    let report = import(&repo, &[file]).pop().expect("a report");
    let expected = [
        "system: You know.",
        "user: Is it in?",
        "user: Is it in?",
        "assistant: shell({}) c1",
        "tool c1: high",
        "assistant: Yes.",
    ];
    assert_eq!(shown(&repo, &report), expected);
    assert_eq!(report.branches[0].branch, "codex/old");
    let counts: Vec<_> = report.anomalies.counts.iter().collect();
    assert_eq!(counts, [(&AnomalyKind::NoTime, &1)]);

    let newer = lines(&[
        json!({"timestamp": "2026-01-01T10:00:00Z", "type": "session_meta", "payload": {"id": "s"}}),
        user,
        json!({"type": "response_item"}),
        json!({"type": "sketch", "content": "x"}),
    ]);
    let (repo, report) = imported(Source::Codex, "rollout-s.jsonl", &newer);
    assert_eq!(shown(&repo, &report), ["user: Is it in?"]);
    let expected = [
        (3, r#"a line of the type "response_item" without a payload"#),
        (4, r#"a line of the unknown type "sketch" with a content"#),
    ];
    assert_eq!(unread(&report), expected);
}

#[test]
fn messages_of_claude_code_that_are_left_out_are_reported() {
    let line = |kind: &str, id: &str, parent: Option<&str>, text: &str| {
        json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s",
            "timestamp": "2026-01-01T10:00:00Z", "message": {"role": "user", "content": text}})
    };
    let session = lines(&[
        line("user", "u1", None, "One"),
        line("teammate", "u2", Some("u1"), "Two"),
        line("user", "u3", Some("u2"), "Three"),
        line("user", "u3", Some("u2"), "Three"),
        line("user", "u3", Some("u2"), "Four"),
    ]);
    let (repo, report) = imported(Source::ClaudeCode, "s.jsonl", &session);
    assert_eq!(texts(&repo, &report), ["One", "Three"]);
    let expected = [
        (2, r#"a line of the unknown type "teammate" with a message"#),
        (5, "a line with the id of another line, and another content, is left out"),
    ];
    assert_eq!(unread(&report), expected);
    assert_eq!((report.repeated, report.skipped.len()), (2, 0));
}

#[test]
fn members_of_gemini_are_read_in_snake_case_too() {
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let file = json!({"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a"}});
    let response = json!({"functionResponse": {"id": "a", "name": "f", "response": {"output": "OUT"}, "parts": [picture, file]}});
    let call = json!([{"functionCall": {"id": "a", "name": "f", "args": {}}}, {"text": "Hm.", "thought": true, "thoughtSignature": "SIG"}]);
    let gemini = |id: &str, kind: &str, content: &Value| json!({"id": id, "type": kind, "timestamp": "2026-01-01T00:00:01Z", "content": content});
    let head = json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"});
    let qwen = |id: &str, parent: Option<&str>, kind: &str, parts: &Value| {
        json!({"uuid": id, "parentUuid": parent, "sessionId": "s", "timestamp": "2026-01-01T00:00:01Z",
            "type": kind, "message": {"role": "user", "parts": parts}})
    };
    let (look, results) = (json!([{"text": "Look."}, picture]), json!([response]));
    let sessions = [
        (
            Source::GeminiCli,
            vec![
                head,
                gemini("1", "user", &look),
                gemini("2", "gemini", &call),
                gemini("3", "user", &results),
            ],
        ),
        (
            Source::QwenCode,
            vec![
                qwen("1", None, "user", &look),
                qwen("2", Some("1"), "assistant", &call),
                qwen("3", Some("2"), "tool_result", &results),
            ],
        ),
    ];
    for (source, session) in sessions {
        let camel_case = lines(&session);
        let mut snake_case = camel_case.clone();
        for (camel, snake) in [
            ("inlineData", "inline_data"),
            ("fileData", "file_data"),
            ("mimeType", "mime_type"),
            ("fileUri", "file_uri"),
            ("functionCall", "function_call"),
            ("functionResponse", "function_response"),
            ("thoughtSignature", "thought_signature"),
        ] {
            assert!(snake_case.contains(camel), "{camel}");
            snake_case = snake_case.replace(camel, snake);
        }
        let [first, second] = [camel_case, snake_case].map(|text| {
            let (repo, report) = imported(source, "session-s.jsonl", &text);
            (shown(&repo, &report), unread(&report).len())
        });
        assert_eq!(first, second, "{source}");
        assert_eq!((first.0.len(), first.1), (3, 0), "{source}: {first:?}");
    }
}

#[test]
fn parts_of_goose_without_their_content_are_kept_and_reported() {
    let message = json!({"id": "m", "role": "user", "created": 1, "content": [
        {"type": "text", "text": "Look."}, {"type": "image", "url": "https://example.com/a"}, {"type": "text", "value": "x"}]});
    let head = json!({"working_dir": "/w", "description": "T", "message_count": 1});
    let (repo, report) = imported(Source::Goose, "s.jsonl", &lines(&[head, message]));
    let kept = r#"user: Look. | {"type":"image","url":"https://example.com/a"} | {"type":"text","value":"x"}"#;
    assert_eq!(shown(&repo, &report), [kept]);
    let expected = [
        (2, "an image without data, kept as its JSON"),
        (2, "a text without \"text\", kept as its JSON"),
    ];
    assert_eq!(unread(&report), expected);
}
