//! Conversations in the formats of other tools: what was recorded comes back as the same commits,
//! and what was changed here is what a model would see.

mod support;

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;
use tract_core::{Applied, Artifact, CommitId, Content, Draft, Part, RefName, Role, block_on};
use tract_engine::plan::Request;
use tract_engine::{Repo, Txn, WriteOptions};
use tract_import::{
    AnomalyKind, ExportedSession, SessionFormat, SessionReport, Source, export_session,
};
use tract_providers::ProviderConversation;
use tract_testkit::data;

use self::support::{bundled, files, import, import_bundled, new_repo};

fn branches(repo: &Repo) -> Vec<(String, CommitId)> {
    let all = block_on(repo.branches()).expect("they are listed");
    all.into_iter().map(|branch| (branch.name, branch.head)).collect()
}

fn export(repo: &Repo, branch: &str, format: SessionFormat) -> ExportedSession {
    let name = RefName::branch(branch).expect("a good name");
    let head = block_on(repo.head_of(&name)).expect("it is read").expect("it has commits");
    block_on(export_session(repo, head, Some(branch), format)).expect("it is written")
}

/// Imports what was exported into a new repository.
fn import_again(session: &ExportedSession, source: Source) -> (Repo, Vec<SessionReport>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(&session.file_name);
    std::fs::write(&file, session.lines.join("\n") + "\n").expect("it is written");
    let again = new_repo();
    let reports = import(&again, &files(source, &file));
    (again, reports)
}

/// Imports what was exported as it is shown: all its messages are read, with calls and results
/// paired.
fn read_whole(session: &ExportedSession, source: Source, what: &str) {
    let (_, reports) = import_again(session, source);
    let messages: usize = reports.iter().map(|report| report.messages).sum();
    assert_eq!(messages, session.messages, "{what}");
    for report in reports {
        let mut odd = report.anomalies.counts.clone();
        // Messages that never had a time, and calls that wait for their result.
        odd.remove(&AnomalyKind::NoTime);
        assert!(odd.is_empty(), "{what}: {odd:?}");
    }
}

fn texts(repo: &Repo, head: CommitId) -> Vec<String> {
    let compiled = block_on(repo.compile(Some(head))).expect("it compiles");
    let line = |message: &tract_core::Message| {
        let calls: Vec<_> = message.content.calls().map(|call| call.id.clone()).collect();
        format!("{} {} {calls:?}", message.role.as_str(), message.content.text())
    };
    compiled.messages().map(line).collect()
}

/// Exports and imports all branches of sessions; returns how many came back as the same commits,
/// and the branches that did not.
fn round_trip(source: Source, format: SessionFormat, path: &Path) -> (usize, Vec<String>) {
    let repo = new_repo();
    import(&repo, &files(source, path));
    let (mut same, mut other) = (0, Vec::new());
    for (branch, head) in branches(&repo) {
        let session = export(&repo, &branch, format);
        let (again, _) = import_again(&session, source);
        let heads = branches(&again);
        if heads.iter().any(|(_, again)| *again == head) {
            same += 1;
        } else {
            other.push(branch);
        }
    }
    (same, other)
}

#[test]
fn a_session_of_claude_code_comes_back_as_the_same_commits() {
    let mut folders = vec![bundled("claude-code")];
    folders.extend(data::full("sessions").map(|folder| folder.join("claude-code")));
    for folder in folders {
        let (same, other) = round_trip(Source::ClaudeCode, SessionFormat::ClaudeCode, &folder);
        assert_eq!(other, Vec::<String>::new());
        assert!(same >= 4, "{same}");
    }
}

#[test]
fn a_rollout_of_codex_comes_back_as_the_same_commits() {
    let is_rewound = |branch: &str| branch.ends_with("0000c0de");
    let mut folders = vec![bundled("codex")];
    folders.extend(data::full("sessions").map(|folder| folder.join("codex")));
    for folder in folders {
        let (same, other) = round_trip(Source::Codex, SessionFormat::Codex, &folder);
        assert!(same >= 1);
        // What a rollout compacted is written as it is shown.
        assert!(other.iter().all(|branch| is_rewound(branch)), "{same} same, {other:?}");
    }
}

#[test]
fn a_trajectory_comes_back_as_the_same_commits() {
    let (same, other) = round_trip(Source::Atif, SessionFormat::Atif, &bundled("atif"));
    assert_eq!((same, other), (2, Vec::new()));
}

#[test]
fn messages_of_the_ai_sdk_come_back_as_the_same_commits() {
    let mut files = vec![bundled("ai-sdk/chat.json")];
    files.extend(data::full("sessions").map(|folder| folder.join("ai-sdk/ui-messages.json")));
    for file in files {
        let (same, other) = round_trip(Source::AiSdk, SessionFormat::AiSdk, &file);
        assert_eq!((same, other), (1, Vec::new()), "{}", file.display());
    }
}

/// The branch of a session itself, and its messages.
fn first_session(repo: &Repo) -> (RefName, String, CommitId) {
    let all = branches(repo);
    let (branch, head) = all.into_iter().find(|(name, _)| !name.contains(".agent")).expect("one");
    (RefName::branch(&branch).expect("a good name"), branch, head)
}

fn change(repo: &Repo, branch: &RefName, request: &Request) {
    let applied = block_on(async {
        let mut txn = Txn::new(repo)?;
        txn.add(branch, request).await?;
        txn.apply("test", &WriteOptions::default()).await
    });
    assert!(matches!(applied, Ok(Applied::Done)), "{applied:?}");
}

#[test]
fn a_session_that_was_changed_here_is_another_one_and_has_what_is_shown() {
    for (format, source) in
        [(SessionFormat::ClaudeCode, Source::ClaudeCode), (SessionFormat::Codex, Source::Codex)]
    {
        let (repo, _) = import_bundled(source, source.as_str());
        // A branch of Codex after a rollback is written as it is shown.
        let mut all = branches(&repo).into_iter();
        let recorded = all.find(|(branch, _)| export(&repo, branch, format).as_recorded);
        let (branch, head) = recorded.expect("one is as recorded");
        let name = RefName::branch(&branch).expect("a good name");
        let before = export(&repo, &branch, format);
        let compiled = block_on(repo.compile(Some(head))).expect("it compiles");
        let user = compiled.messages().rfind(|message| message.role == Role::User);
        let user = user.expect("a user said something");
        change(&repo, &name, &Request::edit_text(user.commit, "Say it in one word."));
        let after = export(&repo, &branch, format);
        assert!(!after.as_recorded);
        assert_ne!(after.session, before.session);
        let (again, _) = import_again(&after, source);
        let (_, _, copy) = first_session(&again);
        let head = block_on(repo.head_of(&name)).expect("it is read").expect("it is there");
        let shown = texts(&repo, head);
        assert!(shown.iter().any(|text| text.contains("Say it in one word.")));
        assert_eq!(texts(&again, copy), shown);
    }
}

#[test]
fn a_trajectory_has_errors_and_pictures() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.jsonl");
    let line = |n: u8, fields: &str| {
        let at = format!(r#""uuid":"u{n}","sessionId":"s","timestamp":"2026-03-14T09:00:0{n}Z""#);
        format!("{{{at},{fields}}}\n")
    };
    let picture = r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}"#;
    let user = format!(
        r#""type":"user","parentUuid":null,"message":{{"role":"user","content":[{{"type":"text","text":"What is it?"}},{picture}]}}"#
    );
    let call = r#""type":"assistant","parentUuid":"u1","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"look","input":{"at":"it"}}]}"#;
    let result = r#""type":"user","parentUuid":"u2","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"too dark"}]}"#;
    let text = [line(1, &user), line(2, call), line(3, result)].concat();
    std::fs::write(&file, text).expect("it is written");
    let repo = new_repo();
    import(&repo, &files(Source::ClaudeCode, &file));
    let session = export(&repo, "claude-code/s", SessionFormat::Atif);
    let (again, _) = import_again(&session, Source::Atif);
    let (_, _, head) = first_session(&again);
    let compiled = block_on(again.compile(Some(head))).expect("it compiles");
    let contents: Vec<_> = compiled.messages().map(|message| &message.content).collect();
    assert!(contents[0].parts().iter().any(|part| matches!(part, Part::Image { .. })));
    assert!(matches!(contents[2], Content::ToolResult(answer) if answer.is_error));
}

/// Kinds and instructions that a format has no word for are said all the same.
#[test]
fn artifacts_and_later_instructions_are_in_every_format() {
    let repo = new_repo();
    let name = RefName::branch("main").expect("a good name");
    let artifact = Artifact {
        artifact_type: "plan".to_owned(),
        language: None,
        text: "The plan: two moorings.".to_owned(),
    };
    for draft in [
        Draft::system("Be brief."),
        Draft::user("Plan it."),
        Draft::new(Content::Artifact(artifact)),
        Draft {
            form: Some("openai-instructions-1".to_owned()),
            ..Draft::system("Speak of boats alone.")
        },
        Draft::assistant("Done."),
    ] {
        change(&repo, &name, &Request::Append(draft));
    }
    for format in SessionFormat::ALL {
        let text = export(&repo, "main", *format).lines.join("\n");
        assert!(text.contains("The plan: two moorings."), "{format}: {text}");
        let has_instructions = text.contains("Speak of boats alone.");
        assert_eq!(has_instructions, *format != SessionFormat::ClaudeCode, "{format}: {text}");
    }
}

/// The parents, results and ids that Claude Code's own loader goes by.
fn broken_session(lines: &[String]) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut uuids, mut calls, mut last) = (HashSet::new(), HashSet::new(), Value::Null);
    for line in lines {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        let uuid = line["uuid"].as_str().expect("an id").to_owned();
        let is_boundary = line["subtype"] == "compact_boundary";
        let parent = if is_boundary { &line["logicalParentUuid"] } else { &line["parentUuid"] };
        if *parent != last {
            broken.push(format!("{uuid} does not follow the line before it"));
        }
        if !uuids.insert(uuid.clone()) {
            broken.push(format!("{uuid} is there twice"));
        }
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            let call = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
            match block["type"].as_str() {
                Some("tool_use") => drop(calls.insert(call("id"))),
                Some("tool_result") if !calls.remove(&call("tool_use_id")) => {
                    broken.push(format!("{uuid} answers no open call"));
                }
                _ => {}
            }
        }
        if line["type"] == "assistant" && line["message"]["id"].as_str().is_none() {
            broken.push(format!("{uuid} has no id of its message"));
        }
        last = line["uuid"].clone();
    }
    broken.extend(calls.into_iter().map(|call| format!("{call} has no result")));
    broken
}

/// What Codex' own types of lines and items do not allow.
fn broken_rollout(lines: &[String]) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut calls, mut ordinal) = (HashSet::new(), 0);
    for line in lines {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        let (kind, payload) = (line["type"].as_str().unwrap_or_default(), &line["payload"]);
        if line["ordinal"] != ordinal || (ordinal == 0) != (kind == "session_meta") {
            broken.push(format!("{kind} is number {}", line["ordinal"]));
        }
        ordinal += 1;
        if kind != "response_item" {
            continue;
        }
        let id = payload["call_id"].as_str().unwrap_or_default().to_owned();
        match payload["type"].as_str().unwrap_or_default() {
            "message" => {
                let is_part = |part: &Value| part["type"].as_str().is_some();
                let is_list = payload["content"].as_array().is_some_and(|l| l.iter().all(is_part));
                if !is_list || payload["role"].as_str().is_none() {
                    broken.push(format!("a message is {payload}"));
                }
            }
            "reasoning" | "compaction" => {}
            "function_call" | "custom_tool_call" => drop(calls.insert(id)),
            "function_call_output" | "custom_tool_call_output" if calls.remove(&id) => {}
            other => broken.push(format!("an item {other:?}: {payload}")),
        }
    }
    broken.extend(calls.into_iter().map(|call| format!("{call} has no result")));
    broken
}

/// What version 1.7 of the format does not allow, as its document says.
fn broken_trajectory(root: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut only = |place: &str, value: &Value, members: &[&str], required: &[&str]| {
        let object = value.as_object().cloned().unwrap_or_default();
        for name in object.keys().filter(|name| !members.contains(&name.as_str())) {
            broken.push(format!("{place}: unknown member {name}"));
        }
        for name in required.iter().filter(|name| !object.contains_key(**name)) {
            broken.push(format!("{place}: no {name}"));
        }
    };
    let members = ["schema_version", "session_id", "agent", "steps", "notes", "final_metrics"];
    only("root", root, &members, &["schema_version", "session_id", "agent", "steps"]);
    let agent = ["name", "version", "model_name", "tool_definitions"];
    only("agent", &root["agent"], &agent, &["name", "version"]);
    let shared = ["step_id", "timestamp", "source", "message", "observation", "is_copied_context"];
    let answers = ["model_name", "reasoning_content", "tool_calls", "metrics"];
    let mut wrong = Vec::new();
    for (n, step) in root["steps"].as_array().expect("a list of steps").iter().enumerate() {
        let place = format!("step {}", n + 1);
        let is_agent = step["source"] == "agent";
        let mut allowed = shared.to_vec();
        allowed.extend(answers.iter().filter(|_| is_agent));
        only(&place, step, &allowed, &["step_id", "source", "message"]);
        if step["step_id"] != n + 1 {
            wrong.push(format!("{place}: numbered {}", step["step_id"]));
        }
        if !["system", "user", "agent"].iter().any(|source| step["source"] == *source) {
            wrong.push(format!("{place}: source {}", step["source"]));
        }
        let mut calls = Vec::new();
        for call in step["tool_calls"].as_array().into_iter().flatten() {
            let members = ["tool_call_id", "function_name", "arguments"];
            only(&place, call, &members, &members);
            if !call["arguments"].is_object() {
                wrong.push(format!("{place}: arguments are no object"));
            }
            calls.push(call["tool_call_id"].clone());
        }
        for result in step["observation"]["results"].as_array().into_iter().flatten() {
            only(&place, result, &["source_call_id", "content", "extra"], &["content"]);
            if !calls.contains(&result["source_call_id"]) {
                wrong.push(format!("{place}: a result of a call of another step"));
            }
        }
    }
    broken.extend(wrong);
    broken
}

#[test]
fn conversations_of_every_tool_are_written_in_every_format() {
    let mut sessions = 0;
    for source in Source::ALL {
        let path = match source {
            Source::SweAgent => "swe-agent",
            _ => source.as_str(),
        };
        let (repo, _) = import_bundled(*source, path);
        for (branch, head) in branches(&repo) {
            sessions += 1;
            let compiled = block_on(repo.compile(Some(head))).expect("it compiles");
            let shown = compiled.message_count();
            for format in SessionFormat::ALL {
                let session = export(&repo, &branch, *format);
                let what = format!("{branch} as {format}");
                match format {
                    SessionFormat::ClaudeCode if !session.as_recorded => {
                        assert_eq!(broken_session(&session.lines), Vec::<String>::new(), "{what}");
                        read_whole(&session, Source::ClaudeCode, &what);
                    }
                    SessionFormat::ClaudeCode => {}
                    SessionFormat::Codex if !session.as_recorded => {
                        assert_eq!(broken_rollout(&session.lines), Vec::<String>::new(), "{what}");
                        read_whole(&session, Source::Codex, &what);
                    }
                    SessionFormat::Codex => {}
                    SessionFormat::Atif => {
                        let root = serde_json::from_str(&session.lines[0]).expect("a document");
                        assert_eq!(broken_trajectory(&root), Vec::<String>::new(), "{what}");
                        read_whole(&session, Source::Atif, &what);
                    }
                    SessionFormat::AiSdk => read_whole(&session, Source::AiSdk, &what),
                    SessionFormat::OpenAi => {
                        let read = ProviderConversation::read(&session.lines[0], None);
                        let read = read.unwrap_or_else(|error| panic!("{what}: {error}"));
                        assert_eq!(read.imported.drafts.len(), shown, "{what}");
                    }
                }
            }
        }
    }
    assert!(sessions >= 15, "{sessions}");
}
