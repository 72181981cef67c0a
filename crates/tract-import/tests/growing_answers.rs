//! Recordings that are imported while their tool still writes the last answer.

mod support;

use std::path::Path;

use serde_json::{Value, json};
use tract_engine::{ImportStatus, Repo};
use tract_import::{AnomalyKind, SessionFile, SessionReport, Source};

use self::support::{branches, bundled, import, new_repo, refs, write};

/// Writes a state of a recording to a path.
type WriteState<'a> = &'a dyn Fn(&Path, &Value);

fn write_json(path: &Path, state: &Value) {
    std::fs::write(path, state.to_string()).expect("it is written");
}

fn write_text(path: &Path, state: &Value) {
    std::fs::write(path, state.as_str().expect("a text")).expect("it is written");
}

/// Writes the rows of Cursor's table: an object of keys and values.
fn write_cursor(path: &Path, state: &Value) {
    let _ = std::fs::remove_file(path);
    let database = rusqlite::Connection::open(path).expect("a database");
    let table = "CREATE TABLE cursorDiskKV (key TEXT, value TEXT)";
    database.execute(table, ()).expect("a table");
    for (key, value) in state.as_object().expect("rows") {
        let row = (key, value.to_string());
        database.execute("INSERT INTO cursorDiskKV VALUES (?1, ?2)", row).expect("a row");
    }
}

/// Imports each state after the one before it, and then each older state after the newest one:
/// the branches are always those of the newest state alone.
#[track_caller]
fn check(source: Source, name: &str, states: &[Value], write: WriteState<'_>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let read = |repo: &Repo, state: &Value| -> Vec<SessionReport> {
        write(&path, state);
        import(repo, &[SessionFile::new(source, path.clone())])
    };
    let repo = new_repo();
    for (n, state) in states.iter().enumerate() {
        let reports = read(&repo, state);
        let alone = new_repo();
        read(&alone, state);
        assert_eq!(refs(&repo), refs(&alone), "{source} {n}: {reports:?}");
        let is_diverged =
            |report: &SessionReport| report.anomalies.counts.contains_key(&AnomalyKind::Diverged);
        assert!(!reports.iter().any(is_diverged), "{source} {n}: {reports:?}");
    }
    let newest = refs(&repo);
    for (n, state) in states.iter().enumerate() {
        let reports = read(&repo, state);
        assert_eq!(refs(&repo), newest, "{source}, {n} after the newest: {reports:?}");
        let statuses = reports.iter().flat_map(|report| &report.branches);
        for branch in statuses {
            assert_eq!(branch.status, ImportStatus::Unchanged, "{source} {n}: {branch:?}");
        }
    }
}

/// Sessions of OpenCode whose second message has these members and parts.
fn opencode(states: &[(Value, Value)]) -> Vec<Value> {
    let session = |(tokens, parts): &(Value, Value)| {
        let answer = json!({"id": "m2", "role": "assistant", "modelID": "m", "time": {"created": 2}, "tokens": tokens});
        json!({"info": {"id": "ses_7", "title": "T", "time": {"created": 1}}, "messages": [
            {"info": {"id": "m1", "role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "How deep?"}]},
            {"info": answer, "parts": parts},
        ]})
    };
    states.iter().map(session).collect()
}

#[test]
fn an_answer_of_opencode_gains_text_calls_and_results() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str, state: Value| json!({"type": "tool", "callID": id, "tool": "sound", "state": state});
    let running = || json!({"status": "running", "input": {"at": "pier"}});
    let done =
        |output: &str| json!({"status": "completed", "input": {"at": "pier"}, "output": output});
    let none = || json!({"input": 0, "output": 0});
    let states = opencode(&[
        (none(), json!([text("I")])),
        (none(), json!([text("I measure.")])),
        (
            none(),
            json!([text("I measure."), call("c1", json!({"status": "pending", "input": {}}))]),
        ),
        (none(), json!([text("I measure."), call("c1", running())])),
        (none(), json!([text("I measure."), call("c1", running()), call("c2", running())])),
        (none(), json!([text("I measure."), call("c1", running()), call("c2", done("4 m"))])),
        (none(), json!([text("I measure."), call("c1", done("3 m")), call("c2", done("4 m"))])),
        (
            json!({"input": 9, "output": 5}),
            json!([
                text("I measure."),
                call("c1", done("3 m")),
                call("c2", done("4 m")),
                {"type": "step-start"},
                text("Four.")
            ]),
        ),
    ]);
    check(Source::OpenCode, "export.json", &states, &write_json);
}

#[test]
fn an_answer_of_vs_code_gains_text_and_then_rounds() {
    let chat = |response: Value, metadata: Value| {
        let mut request = json!({"requestId": "r1", "responseId": "a1", "timestamp": 5, "message": {"text": "How is it?"},
            "modelId": "copilot/m", "response": response});
        if !metadata.is_null() {
            request["result"] = json!({"metadata": metadata});
        }
        json!({"sessionId": "chat-1", "creationDate": 1, "requests": [request]})
    };
    let invocation = json!({"kind": "toolInvocationSerialized", "toolId": "readFile"});
    let link = json!({"kind": "inlineReference", "name": "sail.md", "inlineReference": {"path": "/sail.md"}});
    let round = |text: &str, calls: Value| json!({"response": text, "toolCalls": calls});
    let calls = json!([{"id": "c1", "name": "readFile", "arguments": "{}"}]);
    let states = [
        chat(json!([]), Value::Null),
        chat(json!([{"value": "I lo"}]), Value::Null),
        chat(json!([{"value": "I look at "}, link]), Value::Null),
        chat(
            json!([{"value": "I look at "}, link, {"value": "."}, invocation, {"value": "It is"}]),
            Value::Null,
        ),
        chat(
            json!([{"value": "I look at "}, link, {"value": "."}, invocation, {"value": "It is torn."}]),
            json!({"toolCallRounds": [round("I look at [sail.md](sail.md).", calls), round("It is torn.", json!([]))],
                "toolCallResults": {"c1": {"content": [{"value": "torn"}]}}}),
        ),
    ];
    check(Source::VsCodeChat, "chat.json", &states, &write_json);
}

#[test]
fn a_message_of_cursor_gains_thinking_text_and_the_arguments_and_the_result_of_its_call() {
    let chat = |bubbles: Vec<Value>| {
        let ids = bubbles.iter().map(|bubble| json!({"bubbleId": bubble["bubbleId"]}));
        let headers: Vec<Value> = ids.collect();
        let mut rows = json!({"composerData:c": {"composerId": "c", "createdAt": 1, "fullConversationHeadersOnly": headers}});
        for bubble in bubbles {
            let key = format!("bubbleId:c:{}", bubble["bubbleId"].as_str().expect("an id"));
            rows[key] = bubble;
        }
        rows
    };
    let user = || json!({"bubbleId": "b1", "type": 1, "text": "Is it clean?"});
    let answer = |thought: &str, text: &str| json!({"bubbleId": "b2", "type": 2, "text": text, "thinking": {"text": thought}});
    let call =
        |tool: Value| json!({"bubbleId": "b3", "type": 2, "text": "", "toolFormerData": tool});
    let states = [
        chat(vec![user()]),
        chat(vec![user(), answer("Hm", "")]),
        chat(vec![user(), answer("Hmm.", "I lo")]),
        chat(vec![
            user(),
            answer("Hmm.", "I look."),
            call(
                json!({"toolCallId": "c1", "name": "read_file", "rawArgs": "{\"pa", "status": "loading"}),
            ),
        ]),
        chat(vec![
            user(),
            answer("Hmm.", "I look."),
            call(
                json!({"toolCallId": "c1", "name": "read_file", "rawArgs": "{\"path\":\"a\"}", "status": "running"}),
            ),
        ]),
        chat(vec![
            user(),
            answer("Hmm.", "I look."),
            call(
                json!({"toolCallId": "c1", "name": "read_file", "rawArgs": "{\"path\":\"a\"}", "status": "running", "result": "rus"}),
            ),
        ]),
        chat(vec![
            user(),
            answer("Hmm.", "I look."),
            call(
                json!({"toolCallId": "c1", "name": "read_file", "rawArgs": "{\"path\":\"a\"}", "status": "completed", "result": "rusty"}),
            ),
            json!({"bubbleId": "b4", "type": 2, "text": "No.", "tokenCount": {"inputTokens": 5, "outputTokens": 2}}),
        ]),
    ];
    check(Source::Cursor, "state.vscdb", &states, &write_cursor);
}

#[test]
fn a_history_of_aider_grows_line_by_line() {
    let text = std::fs::read_to_string(bundled("aider/.aider.chat.history.md")).expect("it reads");
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    let states: Vec<Value> = ends.map(|end| json!(text[..end])).collect();
    let repo = new_repo();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(".aider.chat.history.md");
    for state in &states {
        write_text(&path, state);
        import(&repo, &[SessionFile::new(Source::Aider, path.clone())]);
    }
    let alone = new_repo();
    import(&alone, &[write(Source::Aider, path, &text)]);
    assert_eq!(refs(&repo), refs(&alone));
    let chat = "# aider chat started at 2026-01-01 10:00:00\n\n#### Why?  \n#### Say it.  \n\n";
    let states = [
        "",
        "Be",
        "Because.\n\nOf",
        "Because.\n\nOf this:\n\n- a",
        "Because.\n\nOf this:\n\n- a\n- b",
    ];
    let mut states: Vec<Value> =
        states.iter().map(|answer| json!(format!("{chat}{answer}\n"))).collect();
    states.insert(0, json!("# aider chat started at 2026-01-01 10:00:00\n\n#### Why?  \n"));
    check(Source::Aider, ".aider.chat.history.md", &states, &write_text);
}

#[test]
fn answers_of_other_documents_grow() {
    let gemini = |text: &str| {
        json!({"sessionId": "g", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "messages": [
            {"id": "1", "type": "user", "timestamp": "2026-01-01T00:00:00Z", "content": "Why?"},
            {"id": "2", "type": "gemini", "timestamp": "2026-01-01T00:00:01Z", "content": text},
        ]})
    };
    check(Source::GeminiCli, "session-g.json", &[gemini("Be"), gemini("Because.")], &write_json);
    let sdk = |parts: Value| {
        json!([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "Why?"}]},
            {"id": "a", "role": "assistant", "parts": parts}])
    };
    let states = [
        sdk(json!([{"type": "text", "text": "Be", "state": "streaming"}])),
        sdk(json!([{"type": "text", "text": "Because.", "state": "done"}])),
        sdk(json!([{"type": "text", "text": "Because.", "state": "done"},
            {"type": "tool-look", "toolCallId": "c", "state": "input-available", "input": {}}])),
        sdk(json!([{"type": "text", "text": "Because.", "state": "done"},
            {"type": "tool-look", "toolCallId": "c", "state": "output-available", "input": {}, "output": "x"},
            {"type": "step-start"}, {"type": "text", "text": "Yes."}])),
    ];
    check(Source::AiSdk, "chat.json", &states, &write_json);
}

#[test]
fn another_answer_is_a_branch_next_to_the_old_one() {
    let chat = |id: &str, text: &str| {
        json!({"sessionId": "chat-1", "creationDate": 1, "requests": [{"requestId": id, "responseId": format!("a-{id}"),
            "message": {"text": "How is it?"}, "modelId": "m", "response": [{"value": text}]}]})
    };
    let repo = new_repo();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chat.json");
    // The request was sent again, or its answer was replaced.
    for (state, count) in [(chat("r1", "It"), 1), (chat("r2", "It is"), 2), (chat("r1", "Go"), 3)] {
        import(&repo, &[write(Source::VsCodeChat, path.clone(), state.to_string())]);
        assert_eq!(branches(&refs(&repo)).len(), count, "{state}");
    }
}
