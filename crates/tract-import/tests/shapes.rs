//! Shapes of recordings that were once misread: each is a small file, made here.

mod support;

use std::path::Path;

use serde_json::{Value, json};
use tract_core::store::StoreExt;
use tract_core::{ImageSource, Part, RefTarget, block_on};
use tract_engine::ImportStatus;
use tract_import::{AnomalyKind, BranchStart, SessionFile, SessionFilter, Source, session_files};

use self::support::{Imported, anomalies, bundled, import, new_repo, refs, write};

fn gemini(id: &str, kind: &str, text: &str) -> Value {
    json!({"id": id, "type": kind, "content": text, "timestamp": "2026-05-01T10:00:00Z"})
}

fn gemini_head() -> Value {
    json!({"sessionId": "s1", "projectHash": "f00d", "startTime": "2026-05-01T10:00:00Z"})
}

fn gemini_calls(id: &str, text: &str, calls: &[(&str, Option<&str>)]) -> Value {
    let mut line = gemini(id, "gemini", text);
    let call = |(id, result): &(&str, Option<&str>)| match result {
        Some(result) => json!({"id": id, "name": "read", "args": {}, "result": result}),
        None => json!({"id": id, "name": "read", "args": {}}),
    };
    line["toolCalls"] = calls.iter().map(call).collect();
    line
}

#[test]
fn gemini_cli_keeps_the_messages_between_an_edit_and_a_later_change() {
    let made = Imported::of_lines(
        Source::GeminiCli,
        &[
            gemini_head(),
            gemini("u1", "user", "One?"),
            gemini("g1", "gemini", "One."),
            gemini("u2", "user", "Two?"),
            gemini("g2", "gemini", "Two."),
            gemini("g1", "gemini", "One, I say."),
            gemini("u3", "user", "Three?"),
            gemini_calls("g2", "Two.", &[("c1", None)]),
        ],
    );
    let last = *made.branches().first().expect("a branch");
    let texts = ["user One?", "assistant One, I say.", "user Two?", "assistant Two."];
    assert_eq!(made.transcript(last)[..4], texts);
    assert_eq!(made.transcript(last)[4..], ["assistant  [c1]", "user Three?"]);
}

#[test]
fn gemini_cli_calls_after_an_answer_are_a_message_and_no_fork() {
    let lines = [
        gemini_head(),
        gemini("u1", "user", "Look."),
        gemini("g1", "gemini", "I look."),
        gemini_calls("g1", "I look.", &[("c1", None), ("c2", None)]),
        gemini_calls("g1", "I look.", &[("c1", None), ("c2", Some("two"))]),
        gemini_calls("g1", "I look.", &[("c1", Some("one")), ("c2", Some("two"))]),
        gemini_calls(
            "g1",
            "I look.",
            &[("c1", Some("one")), ("c2", Some("two")), ("c3", Some("three"))],
        ),
        gemini("g2", "gemini", "Seen."),
    ];
    let made = Imported::of_lines(Source::GeminiCli, &lines);
    assert_eq!(made.branches(), ["gemini-cli/s1"]);
    assert_eq!(
        made.transcript("gemini-cli/s1"),
        [
            "user Look.",
            "assistant I look.",
            "assistant  [c1] [c2]",
            "tool two",
            "tool one",
            "assistant  [c3]",
            "tool three",
            "assistant Seen.",
        ]
    );
    let report = made.report();
    assert_eq!((report.pairs, report.edited, report.anomalies.count()), (3, 0, 0));
    // A checkpoint says the same again.
    let mut all = lines.to_vec();
    all.push(json!({"$set": {"messages": [lines[1], lines[6], lines[7]]}}));
    let again = Imported::of_lines(Source::GeminiCli, &all);
    assert_eq!(again.branches(), ["gemini-cli/s1"]);
    assert_eq!(again.report().messages, report.messages);
    // A file that grows is what the whole file is.
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("made.jsonl");
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    let growing = Imported::of(&[]);
    for count in 1..=lines.len() {
        let file = write(Source::GeminiCli, path.clone(), lines[..count].concat());
        import(&growing.repo, &[file]);
    }
    assert_eq!(growing.transcript("gemini-cli/s1"), made.transcript("gemini-cli/s1"));
    assert_eq!(refs(&growing.repo), refs(&made.repo));
}

#[test]
fn gemini_cli_pictures_of_a_user_are_kept() {
    let mut line = gemini("u1", "user", "");
    line["content"] = json!([
        {"text": "Which boat?"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
    ]);
    let made = Imported::of_lines(Source::GeminiCli, &[gemini_head(), line]);
    let messages = made.messages("gemini-cli/s1");
    assert_eq!(messages[0].content.text(), "Which boat?");
    let picture = messages[0].content.parts().iter().find_map(|part| match part {
        Part::Image { media_type, source } => Some((media_type.as_deref(), source.clone())),
        _ => None,
    });
    let source = ImageSource::Base64("iVBORw0KGgo=".to_owned());
    assert_eq!(picture, Some((Some("image/png"), source)));
}

fn inspect(events: &[Value]) -> Imported {
    use std::io::Write as _;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("samples/1_epoch_1.json", options).expect("a file");
    zip.write_all(json!({ "events": events }).to_string().as_bytes()).expect("written");
    let bytes = zip.finish().expect("it ends").into_inner();
    Imported::of_bytes(Source::Inspect, "made.eval", bytes)
}

fn inspect_call(input: &[(&str, &str, &str)], tools: &[&str], answer: (&str, &str)) -> Value {
    let message =
        |(id, role, text): &(&str, &str, &str)| json!({"id": id, "role": role, "content": text});
    let tools: Vec<Value> = tools
        .iter()
        .map(|name| json!({"name": name, "parameters": {"type": "object", "properties": {}}}))
        .collect();
    json!({
        "event": "model",
        "timestamp": "2026-05-01T10:00:00Z",
        "model": "m",
        "input": input.iter().map(message).collect::<Vec<_>>(),
        "tools": tools,
        "output": {"choices": [{"message": message(&(answer.0, "assistant", answer.1))}]},
    })
}

#[test]
fn inspect_tools_belong_to_the_branch_whose_calls_have_them() {
    let (u1, u2) = (("u1", "user", "Which knot?"), ("u2", "user", "Is it good?"));
    let a1 = ("a1", "assistant", "A bowline.");
    let made = inspect(&[
        inspect_call(&[u1], &["rope"], ("a1", "A bowline.")),
        inspect_call(&[u2], &["rope"], ("b1", "Yes.")),
        inspect_call(&[u1, a1, ("u3", "user", "Sure?")], &["rope", "book"], ("a2", "Sure.")),
        // The same beginning again, where the tools were others.
        inspect_call(&[u1, a1, ("u4", "user", "Why?")], &["rope"], ("a3", "It holds.")),
        // The same input again, with other tools.
        inspect_call(&[u2], &["book"], ("b2", "No.")),
    ]);
    let branches = made.branches();
    let tools: Vec<usize> = branches.iter().map(|branch| made.tools(branch).len()).collect();
    assert_eq!(tools, [2, 1, 1, 1], "{branches:?}");
    assert!(made.tools(branches[3])[0].contains("book"), "{:?}", made.tools(branches[3]));
    assert!(made.tools(branches[2])[0].contains("rope"), "{:?}", made.tools(branches[2]));
}

fn history(content: Value) -> Value {
    json!({
        "environment": "harbor",
        "trajectory": [],
        "history": [{"role": "user", "content": content, "message_type": "observation"}],
    })
}

#[test]
fn content_is_read_element_by_element_with_its_images() {
    let made = Imported::of_json(
        Source::SweAgent,
        &history(json!([
            {"type": "text", "text": "Look"},
            "at this",
            {"type": "text", "text": 7},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "image", "source":
                {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQ"}},
            {"type": "image", "image_urls": ["https://example.com/a.png"]},
            {"type": "text", "text": "please."},
        ])),
    );
    let messages = made.messages("swe-agent/made");
    let parts: Vec<Part> = messages.iter().flat_map(|m| m.content.parts().to_vec()).collect();
    let image = |media_type: Option<&str>, source| Part::Image {
        media_type: media_type.map(str::to_owned),
        source,
    };
    assert_eq!(
        parts,
        [
            Part::text("Look\nat this\n{\"text\":7,\"type\":\"text\"}"),
            image(Some("image/png"), ImageSource::Base64("iVBORw0KGgo=".to_owned())),
            image(Some("image/jpeg"), ImageSource::Base64("/9j/4AAQ".to_owned())),
            image(None, ImageSource::Url("https://example.com/a.png".to_owned())),
            Part::text("please."),
        ]
    );
}

#[test]
fn swe_agent_environment_is_no_version() {
    let stored = Imported::of_json(Source::SweAgent, &history(json!("Hi"))).stored();
    assert!(!stored.contains(r#"\"version\""#), "{stored}");
    assert!(stored.contains(r#"\"environment\":\"harbor\""#), "{stored}");
}

#[test]
fn codex_threads_of_a_project_are_chosen_compressed_or_not() {
    let root = bundled("codex");
    let choose = |folder: &Path, project: &str| {
        let mut filter = SessionFilter::new();
        filter.project = Some(project.to_owned());
        session_files(Source::Codex, &[folder.to_owned()], &filter).expect("they are there")
    };
    let plain = choose(&root, "boats");
    let scratch = tempfile::tempdir().expect("a folder");
    for (n, file) in plain.iter().enumerate() {
        let bytes = std::fs::read(file.path()).expect("it reads");
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let packed = ruzstd::encoding::compress_to_vec(&bytes[..], level);
        let path = scratch.path().join(format!("rollout-{n}.jsonl.zst"));
        std::fs::write(path, packed).expect("it is written");
    }
    assert!(!plain.is_empty());
    assert_eq!(choose(scratch.path(), "boats").len(), plain.len());
    assert_eq!(choose(scratch.path(), "elsewhere").len(), 0);
    // One that cannot be read is chosen, so that the import reports it.
    std::fs::write(scratch.path().join("rollout-x.jsonl.zst"), b"\x28\xb5\x2f\xfdxx").expect("ok");
    assert_eq!(choose(scratch.path(), "elsewhere").len(), 1);
}

#[test]
fn ai_sdk_approvals_are_no_calls() {
    let call =
        |id: &str| json!({"type": "tool-call", "toolCallId": id, "toolName": "gate", "input": {}});
    let result = json!({"type": "tool-result", "toolCallId": "c1", "toolName": "gate",
        "output": {"type": "text", "value": "open"}});
    let made = Imported::of_json(
        Source::AiSdk,
        &json!([
            {"role": "user", "content": "Open the gate."},
            {"role": "assistant", "content": [
                call("c1"),
                {"type": "tool-approval-request", "approvalId": "p1", "toolCallId": "c1"},
            ]},
            {"role": "tool", "content": [
                {"type": "tool-approval-response", "approvalId": "p1", "approved": true},
                result,
            ]},
            {"role": "assistant", "parts": [
                // A tool that has this name.
                {"type": "tool-approval-request", "toolCallId": "c2", "state": "input-available",
                    "input": {}},
            ]},
        ]),
    );
    assert_eq!(
        made.transcript("ai-sdk/made"),
        ["user Open the gate.", "assistant  [c1]", "tool open", "assistant  [c2]"]
    );
    let skipped = &made.report().skipped;
    assert_eq!((skipped["tool-approval-request"], skipped["tool-approval-response"]), (1, 1));
}

#[test]
fn agents_sdk_rows_are_read_once_and_branches_have_distinct_names() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("made.db");
    let database = rusqlite::Connection::open(&path).expect("a database");
    database
        .execute_batch(
            "CREATE TABLE agent_messages(id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT);
             CREATE TABLE message_structure(session_id TEXT, message_id INTEGER, branch_id TEXT,
                 sequence_number INTEGER);",
        )
        .expect("tables");
    let say = |id: i64, item: &str| {
        let sql = "INSERT INTO agent_messages VALUES (?1, 's', ?2)";
        database.execute(sql, rusqlite::params![id, item]).expect("a row");
    };
    let list = |branch: &str, ids: &[i64]| {
        for (n, id) in ids.iter().enumerate() {
            let sql = "INSERT INTO message_structure VALUES ('s', ?1, ?2, ?3)";
            database.execute(sql, rusqlite::params![id, branch, n as i64]).expect("a row");
        }
    };
    say(1, r#"{"role":"user","content":"Hi"}"#);
    say(2, r#"{"odd":1}"#);
    for (n, text) in ["One.", "Two.", "Three."].iter().enumerate() {
        say(3 + n as i64, &json!({"role": "user", "content": text}).to_string());
    }
    list("main", &[1, 2, 3]);
    list("a b", &[1, 2, 4]);
    list("a/b", &[1, 2, 5]);
    drop(database);
    let made = Imported::of(&[SessionFile::new(Source::OpenAiAgents, &path)]);
    let branches = made.branches();
    assert_eq!(made.report().anomalies.counts[&AnomalyKind::UnreadableMessage], 1);
    assert_eq!(branches.len(), 3);
    let base = ["openai-agents/s.", "openai-agents/s.a-b-"];
    assert!(branches[1..].iter().all(|name| name.starts_with(base[1])), "{branches:?}");
    assert_ne!(branches[1], branches[2]);
    let transcript: Vec<Vec<String>> =
        branches.iter().map(|branch| made.transcript(branch)).collect();
    assert_eq!(transcript[0], ["user Hi", "user One."]);
    assert_eq!(transcript[1], ["user Hi", "user Two."]);
    assert_eq!(transcript[2], ["user Hi", "user Three."]);
    assert!(base[0].len() < branches[1].len());
}

#[test]
fn secrets_are_replaced_in_tools_metadata_and_notes_too() {
    let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
    let made = Imported::of_json(
        Source::Atif,
        &json!({
            "schema_version": "ATIF-v1.7",
            "session_id": "s",
            "agent": {"name": "a", "version": "1", "model_name": format!("m-{key}"),
                "tool_definitions": [{"type": "function", "function": {
                    "name": "gate", "description": format!("Uses {key}."),
                    "parameters": {"type": "object", "properties": {}}}}]},
            "steps": [
                {"step_id": 1, "source": "user", "message": "Hi"},
                {"step_id": 2, "source": "agent", "message": "Ho"},
            ],
        }),
    );
    let stored = made.stored();
    assert!(!stored.contains(&key), "{stored}");
    assert_eq!(made.tools("atif/s").len(), 1);
    assert!(made.report().redacted["github-token"] >= 2, "{:?}", made.report().redacted);

    let mut answer = gemini(&format!("g {key}"), "gemini", "Ho");
    answer["model"] = json!(format!("m {key}"));
    let mut again = answer.clone();
    again["tokens"] = json!({"input": 3, "output": 1});
    let lines = [gemini_head(), gemini("u1", "user", "Hi"), answer, again];
    let made = Imported::of_lines(Source::GeminiCli, &lines);
    let stored = made.stored();
    assert!(stored.contains("tokens of the answer"), "{stored}");
    assert!(!stored.contains(&key), "{stored}");
    assert!(!format!("{:?}", made.reports).contains(&key), "{:?}", made.reports);

    let made = Imported::of_json(
        Source::SweAgent,
        &json!({"trajectory": [], "history": [
            {"role": "user", "content": "Hi", "message_type": "observation", "agent": key},
        ]}),
    );
    let stored = made.stored();
    assert!(!stored.contains(&key), "{stored}");
}

/// A log of Inspect with one sample.
fn inspect_log(task: &Value, answer: &str) -> Vec<u8> {
    inspect_log_with(Some(("header.json", json!({ "eval": task }))), answer)
}

/// A log of Inspect with one sample and an entry that describes the run.
fn inspect_log_with(run: Option<(&str, Value)>, answer: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let call = inspect_call(&[("u1", "user", "Which knot?")], &[], ("a1", answer));
    let sample = ("samples/1_epoch_1.json", json!({ "events": [call] }));
    for (name, entry) in run.into_iter().chain([sample]) {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).expect("a file");
        zip.write_all(entry.to_string().as_bytes()).expect("written");
    }
    zip.finish().expect("it ends").into_inner()
}

#[test]
fn two_inspect_logs_of_one_run_are_two_sessions_in_any_order() {
    let with_id = |name: &str| json!({"run_id": "run-1", "eval_id": name, "task": "knots"});
    let without = |name: &str| json!({"run_id": "run-1", "task": name});
    let logs = [with_id("e1"), with_id("e2"), without("knots"), without("buoys")];
    for pair in logs.chunks(2) {
        let scratch = tempfile::tempdir().expect("a folder");
        let files: Vec<SessionFile> = (0..)
            .zip(pair)
            .map(|(n, task)| {
                let path = scratch.path().join(format!("log-{n}.eval"));
                write(Source::Inspect, path, inspect_log(task, &format!("Answer {n}.")))
            })
            .collect();
        let answers = |imported: &Imported| -> Vec<(String, String)> {
            let mut names = imported.branches();
            names.sort_unstable();
            let last = |name: &str| imported.messages(name).last().expect("one").content.text();
            names.iter().map(|name| (name.to_string(), last(name))).collect()
        };
        let made = Imported::of(&files);
        let found = answers(&made);
        assert_eq!(found.len(), 2, "{found:?}");
        let created = made.reports.iter().flat_map(|report| &report.branches);
        assert!(created.into_iter().all(|branch| branch.status == ImportStatus::Created));
        let files: Vec<SessionFile> = files.into_iter().rev().collect();
        assert_eq!(answers(&Imported::of(&files)), found);
    }
}

#[test]
fn inspect_logs_of_runs_that_ended_early_have_names_of_their_own() {
    let start = |id: &str| {
        let run = json!({"eval": {"eval_id": id, "run_id": "run-1", "task": "knots"}, "plan": {}});
        Some(("_journal/start.json", run))
    };
    let logs = [("a", start("e1")), ("b", start("e2")), ("c", None), ("d", None)];
    let scratch = tempfile::tempdir().expect("a folder");
    let files: Vec<SessionFile> = logs
        .into_iter()
        .map(|(name, run)| {
            let path = scratch.path().join(format!("{name}.eval"));
            write(Source::Inspect, path, inspect_log_with(run, &format!("Answer {name}.")))
        })
        .collect();
    for files in [files.clone(), files.into_iter().rev().collect()] {
        let made = Imported::of(&files);
        let mut names = made.branches();
        names.sort_unstable();
        let ids = ["c", "d", "e1", "e2"].map(|id| format!("inspect/{id}.1_epoch_1"));
        assert_eq!(names, ids);
        let last = |name: &str| made.messages(name).last().expect("one").content.text();
        assert_eq!(last("inspect/e2.1_epoch_1"), "Answer b.");
        assert!(made.reports.iter().all(|report| report.anomalies.count() == 0));
    }
}

#[test]
fn chatgpt_exports_without_children_are_read_by_the_parents() {
    let node = |parent: Option<&str>, role: &str, text: &str| {
        let content = json!({"content_type": "text", "parts": [text]});
        json!({"parent": parent, "message": {"author": {"role": role}, "content": content}})
    };
    let mapping = json!({
        "a1": node(Some("q1"), "assistant", "The second."),
        "q1": node(None, "user", "Which buoy is green?"),
    });
    let export = json!([{"title": "T", "conversation_id": "c-1", "mapping": mapping}]);
    let imported = Imported::of_json(Source::ChatGpt, &export);
    assert_eq!(imported.transcript("chatgpt/c-1").len(), 2);
}

#[test]
fn chatgpt_exports_that_differ_only_in_the_current_node_have_the_same_messages() {
    let node = |id: &str, parent: Option<&str>, children: &[&str], role: &str, text: &str| {
        let message = json!({"id": id, "author": {"role": role}, "create_time": 1_767_258_000.0,
            "content": {"content_type": "text", "parts": [text]}});
        json!({"id": id, "parent": parent, "children": children, "message": message})
    };
    let mapping = json!({
        "q1": node("q1", None, &["a1", "a2"], "user", "Which buoy is green?"),
        "a1": node("a1", Some("q1"), &[], "assistant", "The second."),
        "a2": node("a2", Some("q1"), &["q2"], "assistant", "The third."),
        "q2": node("q2", Some("a2"), &[], "user", "Is it lit?"),
    });
    let export = |current: &str| json!([{"title": "T", "conversation_id": "c-1", "mapping": mapping, "current_node": current}]);
    let says = |imported: &Imported| {
        let mut all: Vec<Vec<String>> =
            imported.branches().iter().map(|name| imported.transcript(name)).collect();
        all.sort();
        all
    };
    let (one, two) = (export("a1"), export("q2"));
    let (first, second) =
        (Imported::of_json(Source::ChatGpt, &one), Imported::of_json(Source::ChatGpt, &two));
    assert_eq!(says(&first), says(&second));
    // The plain name belongs to the branch with the current node.
    assert_eq!(first.transcript("chatgpt/c-1").len(), 2);
    assert_eq!(second.transcript("chatgpt/c-1").len(), 3);
    // An export of a later day, after the user went to the other answer: nothing is lost, and the
    // commits that both exports have are shared.
    let scratch = tempfile::tempdir().expect("a folder");
    let repo = new_repo();
    for export in [one, two] {
        let path = scratch.path().join("conversations.json");
        import(&repo, &[write(Source::ChatGpt, path, export.to_string())]);
    }
    let later = Imported { repo, reports: Vec::new() };
    let names = support::branches(&refs(&later.repo))
        .into_iter()
        .filter_map(|(name, _)| name.branch_name().map(str::to_owned))
        .collect::<Vec<_>>();
    let texts: Vec<String> = names.iter().map(|name| later.transcript(name).join("|")).collect();
    for text in ["The second.", "Is it lit?"] {
        assert!(texts.iter().any(|all| all.contains(text)), "{text}: {texts:?}");
    }
}

#[test]
fn a_codex_subagent_names_the_thread_that_started_it() {
    let says = |text: &str| {
        json!({"timestamp": "2026-05-01T10:00:01Z", "type": "response_item", "payload":
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}})
    };
    let meta = |id: &str, more: Value| {
        let mut payload = json!({"id": id, "cwd": "/work", "source": "cli"});
        let members = more.as_object().expect("an object").clone();
        payload.as_object_mut().expect("an object").extend(members);
        json!({"timestamp": "2026-05-01T10:00:00Z", "type": "session_meta", "payload": payload})
    };
    let spawn = json!({"parent_thread_id": "t-main", "depth": 1, "agent_nickname": "Ada"});
    for (source, is_agent, parent) in [
        (json!({"source": {"subagent": {"thread_spawn": spawn}}}), true, Some("t-main")),
        (
            json!({"source": {"subagent": {"thread_spawn": spawn}}, "forked_from_id": "t-fork"}),
            true,
            Some("t-fork"),
        ),
        (
            json!({"source": {"subagent": "review"}, "parent_thread_id": "t-main"}),
            true,
            Some("t-main"),
        ),
        (json!({"source": {"subagent": "review"}}), true, None),
        (json!({"source": {"subagent": {"other": "guardian"}}}), true, None),
        (json!({"source": {"subagent": null}}), false, None),
        (json!({}), false, None),
    ] {
        let made = Imported::of_lines(Source::Codex, &[meta("t-1", source.clone()), says("Hi")]);
        let start = &made.report().branches[0].start;
        assert_eq!(*start == BranchStart::Subagent, is_agent, "{source}");
        let all = refs(&made.repo);
        let (_, target) =
            all.iter().find(|(name, _)| name.as_str().starts_with("imports/")).expect("one");
        let RefTarget::Blob(blob) = target else { panic!("{target:?}") };
        let blob = block_on(made.repo.store().blob(made.repo.name(), *blob))
            .expect("it is read")
            .expect("it is there");
        let document: Value = serde_json::from_slice(blob.bytes()).expect("JSON");
        assert_eq!(document["meta"]["parent"].as_str(), parent, "{source}: {document}");
    }
}

#[test]
fn a_shorter_fence_within_a_longer_one_is_text_of_the_answer() {
    let chat = "# aider chat started at 2026-05-01 10:00:00\n\n#### Write a manual.\n\n";
    let answer = "````markdown\n# Manual\n```sh\n#### not a question\n> not printed\n```\n#### nor this\n````\nDone.";
    let text = format!("{chat}{answer}\n\n#### Thanks.\n");
    let made = Imported::of_bytes(Source::Aider, ".aider.chat.history.md", text);
    let branch = made.branches()[0].to_owned();
    let says: Vec<String> =
        made.messages(&branch).iter().map(|message| message.content.text()).collect();
    assert_eq!(says, ["Write a manual.", answer, "Thanks."]);
    // A longer fence that is never closed does not hide the blocks within.
    let text = format!("{chat}````markdown\n```sh\n#### not a question\n```\n\n#### Thanks.\n");
    let made = Imported::of_bytes(Source::Aider, ".aider.chat.history.md", text);
    let branch = made.branches()[0].to_owned();
    let last = made.messages(&branch).last().expect("one").content.text();
    assert_eq!((made.messages(&branch).len(), last.as_str()), (3, "Thanks."));
    // Neither does code within a line open a block.
    let text = format!("{chat}```ls``` lists.\n\n#### Thanks.\n\n```\nx\n```\n");
    let made = Imported::of_bytes(Source::Aider, ".aider.chat.history.md", text);
    let branch = made.branches()[0].to_owned();
    assert_eq!(made.messages(&branch).len(), 4);
}

/// A message of Goose: its texts and its metadata.
fn goose(n: u32, role: &str, content: Value, metadata: Value) -> Value {
    json!({"id": format!("m{n}"), "role": role, "created": 1_700_000_000 + n,
        "content": content, "metadata": metadata})
}

/// Goose's database with one session of these messages.
fn goose_database(path: &Path, messages: &[Value]) {
    let database = rusqlite::Connection::open(path).expect("a database");
    let tables = "CREATE TABLE sessions (id TEXT, working_dir TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT,
            content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
        INSERT INTO sessions VALUES ('made', '/x');";
    database.execute_batch(tables).expect("tables");
    let insert = "INSERT INTO messages (message_id, session_id, role, content_json,
        created_timestamp, metadata_json) VALUES (?1, 'made', ?2, ?3, ?4, ?5)";
    for message in messages {
        let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        let (content, metadata) = (message["content"].to_string(), message["metadata"].to_string());
        let created = message["created"].as_i64();
        let values = rusqlite::params![text("id"), text("role"), content, created, metadata];
        database.execute(insert, values).expect("a row");
    }
}

/// Imports messages of Goose from lines and from the database.
fn goose_imports(messages: &[Value]) -> [Imported; 2] {
    let mut lines = vec![json!({"working_dir": "/x", "description": "", "message_count": 9})];
    lines.extend_from_slice(messages);
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("sessions.db");
    goose_database(&path, messages);
    [
        Imported::of_lines(Source::Goose, &lines),
        Imported::of(&[SessionFile::new(Source::Goose, path)]),
    ]
}

#[test]
fn a_summary_of_goose_hides_the_messages_that_the_model_no_longer_sees() {
    let hidden = json!({"userVisible": true, "agentVisible": false});
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let mut messages = vec![
        goose(1, "user", text("Sail north."), hidden.clone()),
        goose(2, "assistant", text("North it is."), hidden.clone()),
        goose(
            3,
            "user",
            text("Summary: north."),
            json!({"userVisible": false, "agentVisible": true}),
        ),
        goose(4, "assistant", text("I continue."), json!({})),
    ];
    for imported in goose_imports(&messages) {
        assert_eq!(
            imported.transcript("goose/made"),
            ["user Summary: north.", "assistant I continue."]
        );
        let report = imported.report();
        assert_eq!((report.compactions, report.hidden, report.removed), (1, 2, 0));
        assert_eq!(anomalies(report), []);
    }
    // Without a summary, the messages are left out of the context.
    messages.remove(2);
    messages.push(goose(5, "user", text("A notice for the user."), hidden));
    for imported in goose_imports(&messages) {
        assert_eq!(imported.transcript("goose/made"), ["assistant I continue."]);
        let report = imported.report();
        assert_eq!((report.compactions, report.removed), (0, 3));
    }
}

#[test]
fn a_file_of_goose_that_is_compacted_later_continues_its_branch() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let before = [
        goose(1, "user", text("Sail north."), json!({"userVisible": true, "agentVisible": true})),
        goose(2, "assistant", text("North it is."), json!({})),
    ];
    let mut after: Vec<Value> = before.to_vec();
    for message in &mut after {
        message["metadata"] = json!({"userVisible": true, "agentVisible": false});
    }
    let facts = json!({"userVisible": false, "agentVisible": true});
    after.push(goose(3, "user", text("Summary: north."), facts));
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("made.jsonl");
    let repo = new_repo();
    for (messages, status) in
        [(&before[..], ImportStatus::Created), (&after[..], ImportStatus::Forwarded)]
    {
        let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
        let report = import(&repo, &[write(Source::Goose, path.clone(), lines)]);
        assert_eq!(report[0].branches[0].status, status);
    }
}

#[test]
fn a_call_that_goose_cannot_parse_is_kept_as_its_json() {
    let messages = [
        goose(1, "user", json!([{"type": "text", "text": "Look."}]), json!({})),
        goose(
            2,
            "assistant",
            json!([{"type": "toolRequest", "id": "t1",
                "toolCall": {"status": "error", "error": "bad JSON"}}]),
            json!({}),
        ),
    ];
    for imported in goose_imports(&messages) {
        let transcript = imported.transcript("goose/made");
        assert!(transcript[1].contains(r#""error":"bad JSON""#), "{transcript:?}");
        let what = "a toolRequest without a tool's name, kept as its JSON";
        let report = imported.report();
        assert_eq!(report.anomalies.listed.len(), 1);
        assert_eq!(report.anomalies.listed[0].what, what);
    }
}

/// An event of Copilot CLI.
fn copilot(n: u32, kind: &str, data: Value) -> Value {
    json!({"type": kind, "data": data, "id": format!("e{n}"), "parentId": null,
        "timestamp": format!("2026-01-01T00:00:{n:02}Z")})
}

#[test]
fn a_subagent_of_copilot_cli_is_a_branch_that_names_its_caller() {
    let call = |id: &str, name: &str| json!([{"toolCallId": id, "name": name, "arguments": {}}]);
    let answer = |content: &str, calls: Value, agent: Option<&str>| {
        let mut data = json!({"content": content, "toolRequests": calls});
        if let Some(agent) = agent {
            data["parentToolCallId"] = agent.into();
        }
        data
    };
    let result = |id: &str, text: &str, agent: Option<&str>| {
        let mut data = json!({"toolCallId": id, "success": true, "result": {"content": text}});
        if let Some(agent) = agent {
            data["parentToolCallId"] = agent.into();
        }
        data
    };
    let done = "tool.execution_complete";
    let lines = [
        copilot(0, "session.start", json!({"sessionId": "made"})),
        copilot(1, "user.message", json!({"content": "Find the leak."})),
        copilot(2, "assistant.message", answer("", call("task1", "task"), None)),
        copilot(3, "assistant.message", answer("I look.", call("grep1", "grep"), Some("task1"))),
        copilot(4, done, result("grep1", "hull.txt", Some("task1"))),
        copilot(5, "assistant.message", answer("", call("task2", "task"), Some("task1"))),
        copilot(6, "assistant.message", answer("Deeper.", json!([]), Some("task2"))),
        copilot(7, done, result("task2", "Deep.", Some("task1"))),
        copilot(8, "assistant.message", answer("In the hull.", json!([]), Some("task1"))),
        copilot(9, done, result("task1", "The hull leaks.", None)),
        copilot(10, "assistant.message", answer("It is the hull.", json!([]), None)),
    ];
    let imported = Imported::of_lines(Source::CopilotCli, &lines);
    assert_eq!(
        imported.transcript("copilot-cli/made"),
        [
            "user Find the leak.",
            "assistant  [task1]",
            "tool The hull leaks.",
            "assistant It is the hull.",
        ]
    );
    let agent = "copilot-cli/made.agent-task1";
    assert_eq!(
        imported.transcript(agent),
        [
            "assistant I look. [grep1]",
            "tool hull.txt",
            "assistant  [task2]",
            "tool Deep.",
            "assistant In the hull.",
        ]
    );
    assert_eq!(imported.transcript("copilot-cli/made.agent-task2"), ["assistant Deeper."]);
    let starts: Vec<&BranchStart> =
        imported.report().branches.iter().map(|branch| &branch.start).collect();
    let (main, sub) = (&BranchStart::Conversation, &BranchStart::Subagent);
    assert_eq!(starts, [main, sub, sub]);
    assert_eq!((imported.report().pairs, anomalies(imported.report())), (3, vec![]));
    let stored = imported.stored();
    for (call, branch) in [("task1", "copilot-cli/made"), ("task2", agent)] {
        let caller = format!(r#"{{"branch":"{branch}","id":"{call}"}}"#);
        assert!(stored.replace('\\', "").contains(&caller), "{caller}: {stored}");
    }
    // A file of which only the subagent's lines are left.
    let torn = Imported::of_lines(Source::CopilotCli, &[lines[0].clone(), lines[8].clone()]);
    assert_eq!(torn.transcript(agent), ["assistant In the hull."]);
}

#[test]
fn a_rewind_of_copilot_cli_continues_before_the_event_and_keeps_what_it_removed() {
    let event = |n: u32, kind: &str, data: Value| copilot(n, kind, data);
    let answer = |n: u32, text: &str| {
        event(n, "assistant.message", json!({"messageId": format!("m{n}"), "content": text}))
    };
    let mut lines = vec![
        event(1, "session.start", json!({"sessionId": "oars"})),
        event(2, "user.message", json!({"content": "How many oars?"})),
        answer(3, "Eight."),
        event(4, "user.message", json!({"content": "Paint them."})),
        answer(5, "They are red."),
    ];
    let id = |line: &Value| line["id"].clone();
    let rewind = |to: Value| json!({"upToEventId": to, "eventsRemoved": 2});
    lines.push(event(6, "session.snapshot_rewind", rewind(id(&lines[3]))));
    let removed =
        ["user How many oars?", "assistant Eight.", "user Paint them.", "assistant They are red."];
    let only_back = Imported::of_lines(Source::CopilotCli, &lines);
    assert_eq!(only_back.transcript("copilot-cli/oars"), removed[..2]);
    assert_eq!(only_back.transcript("copilot-cli/oars.fork-0"), removed);
    lines.push(event(7, "user.message", json!({"content": "Oil them."})));
    lines.push(answer(8, "Done."));
    let imported = Imported::of_lines(Source::CopilotCli, &lines);
    assert_eq!(
        imported.transcript("copilot-cli/oars"),
        [removed[0], removed[1], "user Oil them.", "assistant Done."]
    );
    assert_eq!(imported.transcript("copilot-cli/oars.fork-0"), removed);
    assert_eq!(anomalies(imported.report()), []);
    // The file is imported as it grows.
    let repo = new_repo();
    let folder = tempfile::tempdir().expect("a folder");
    for count in 1..=lines.len() {
        let text: String = lines[..count].iter().map(|line| format!("{line}\n")).collect();
        import(&repo, &[write(Source::CopilotCli, folder.path().join("events.jsonl"), text)]);
    }
    assert_eq!(refs(&repo), refs(&imported.repo));
    lines.push(event(9, "session.snapshot_rewind", rewind(json!("no-event"))));
    let imported = Imported::of_lines(Source::CopilotCli, &lines);
    let what = "a rewind to \"no-event\", an event that the file does not have";
    assert_eq!(anomalies(imported.report()), [(9, "unreadable_message", what)]);
}

#[test]
fn tools_that_a_user_of_copilot_cli_ran_and_skills_are_messages() {
    let lines = [
        copilot(0, "session.start", json!({"sessionId": "made"})),
        copilot(1, "user.message", json!({"content": "Look."})),
        copilot(2, "skill.invoked", json!({"name": "s", "content": "How to look."})),
        copilot(
            3,
            "tool.user_requested",
            json!({"toolCallId": "u1", "toolName": "bash", "arguments": {"command": "ls"}}),
        ),
        copilot(
            4,
            "tool.execution_complete",
            json!({"toolCallId": "u1", "success": true, "result": {"content": "hull.txt"}}),
        ),
    ];
    let imported = Imported::of_lines(Source::CopilotCli, &lines);
    assert_eq!(
        imported.transcript("copilot-cli/made"),
        [
            "user Look.",
            "user How to look.",
            r#"user {"arguments":{"command":"ls"},"toolCallId":"u1","toolName":"bash"}"#,
            "user hull.txt",
        ]
    );
    let what = "data: a tool that the user ran, kept as its JSON";
    assert_eq!(anomalies(imported.report()), [(4, "unreadable_message", what)]);
}

#[test]
fn every_member_of_a_message_of_the_ai_sdk_is_read_or_reported() {
    let result = json!({"type": "tool-result", "toolCallId": "c1", "toolName": "look",
        "output": {"type": "text", "value": "hull.txt"}});
    let call =
        |id: &str| json!({"type": "tool-call", "toolCallId": id, "toolName": "look", "input": {}});
    let invocation = |id: &str| json!({"state": "result", "toolCallId": id, "toolName": "look", "args": {}, "result": "a leak"});
    let pdf = json!({"type": "file", "mediaType": "application/pdf", "url": "data:x"});
    let messages = json!([
        {"role": "user", "content": "Look.", "parts": [],
            "experimental_attachments": [{"name": "a.pdf", "contentType": "application/pdf", "url": "u"}]},
        {"role": "assistant", "content": [call("c1")], "reasoning": "A thought."},
        {"role": "user", "parts": [result, {"type": "text", "text": "And now?"}]},
        {"role": "assistant", "parts": [call("c2")], "content": "I look.",
            "toolInvocations": [invocation("c2"), invocation("c3")]},
        {"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "c2", "toolName": "look", "output": {"type": "text", "value": "dry"}},
            {"type": "text", "text": "A remark."}]},
        {"role": "user", "parts": [pdf, {"type": "sketch", "lines": 3}, {"type": "source-url", "url": "u"}]},
    ]);
    let imported = Imported::of_json(Source::AiSdk, &messages);
    assert_eq!(
        imported.transcript("ai-sdk/made"),
        [
            r#"user Look.
{"contentType":"application/pdf","name":"a.pdf","url":"u"}"#,
            "assistant  [c1]",
            "tool hull.txt",
            "user And now?",
            "assistant I look. [c2] [c3]",
            "tool a leak",
            "tool dry",
            "user A remark.",
            r#"user {"mediaType":"application/pdf","type":"file","url":"data:x"}
{"lines":3,"type":"sketch"}"#,
        ]
    );
    let kind = "unreadable_message";
    assert_eq!(
        anomalies(imported.report()),
        [
            (
                1,
                kind,
                "experimental_attachments[0]: a file that is not a picture, kept as its JSON"
            ),
            (6, kind, "parts[0]: a file that is not a picture, kept as its JSON"),
            (6, kind, "parts[1]: a part of the unknown type \"sketch\", kept as its JSON"),
        ]
    );
    assert_eq!(imported.report().skipped.get("source-url"), Some(&1));
    assert!(imported.stored().contains("A thought."));
}

#[test]
fn records_of_datasets_keep_their_system_prompt_and_both_answers() {
    let turn = |from: &str, value: &str| json!({"from": from, "value": value});
    let messages =
        json!([{"role": "user", "content": "Look."}, {"role": "assistant", "content": "Yes."}]);
    let records = json!([
        {"id": "a", "system": "Be brief.", "messages": messages, "tools": "[]"},
        {"id": "b", "system": "Be brief.", "query": "Look.", "answers": "[{\"name\":\"look\"}]", "tools": "[]"},
        {"id": "c", "system_prompt": "Be brief.", "conversations": [turn("human", "Look.")],
            "chosen": turn("gpt", "Yes."), "rejected": turn("gpt", "No."),
            "images": ["hull.png"], "source": ""},
        {"id": "d", "conversations": [turn("human", "Look.")], "rejected": "No."},
    ]);
    let imported = Imported::of_json(Source::Dataset, &records);
    for (name, answer) in [
        ("a", "assistant Yes."),
        ("b", "assistant  [call-1]"),
        ("c", "assistant Yes."),
        ("c.rejected", "assistant No."),
    ] {
        let expected = ["system Be brief.", "user Look.", answer];
        assert_eq!(imported.transcript(&format!("dataset/{name}")), expected);
    }
    let reported: Vec<_> = imported.reports.iter().flat_map(anomalies).collect();
    let kind = "unreadable_message";
    assert_eq!(
        reported,
        [
            (2, "unanswered", "call \"call-1\" has no result"),
            (3, kind, "the member \"images\" is not read"),
            (4, kind, "rejected: not a turn, not read"),
        ]
    );
}
