//! Histories of other tools: what the conversations of each sample say, and what holds as they grow.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use tract_core::{Part, block_on};
use tract_engine::Repo;
use tract_import::{AnomalyKind, BranchStart, SessionFile, SessionReport, Source, usage};
use tract_providers::{Dialect, Form, FormOptions, compile_form};

use self::support::{
    Imported, anomalies, branches, bundled, check_forms, compiled, files, import, import_all,
    import_bundled, new_repo, refs, write,
};

/// What a branch says, one message a line.
fn transcript(repo: &Repo, branch: &str) -> Vec<String> {
    let line = |message: &tract_core::Message| {
        let calls: Vec<_> =
            message.content.calls().map(|call| format!("[{} {}]", call.name, call.id)).collect();
        let text = message.content.text();
        let text = text.trim().replace('\n', " ");
        let parts = [message.role.as_str(), text.as_str(), &calls.join("")];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    };
    compiled(repo, branch).messages().map(line).collect()
}

fn models(report: &SessionReport) -> Vec<(&str, usize)> {
    report.models.iter().map(|(model, count)| (model.as_str(), *count)).collect()
}

fn branch_names(report: &SessionReport) -> Vec<&str> {
    report.branches.iter().map(|branch| branch.branch.as_str()).collect()
}

/// What `tract usage` sums up: answers, input, output, read from and written to a cache.
fn used(repo: &Repo) -> (u64, u64, u64, u64, u64) {
    let answers = block_on(usage(repo)).expect("it is counted");
    answers.iter().fold((0, 0, 0, 0, 0), |sum, answer| {
        let tokens = answer.tokens;
        (
            sum.0 + answer.requests,
            sum.1 + tokens.input,
            sum.2 + tokens.output,
            sum.3 + tokens.cache_read,
            sum.4 + tokens.cache_write,
        )
    })
}

fn scratch(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    (folder, path)
}

#[test]
fn an_export_of_chatgpt_shows_the_current_node_and_keeps_other_ends() {
    let (repo, reports) = import_bundled(Source::ChatGpt, "chatgpt");
    let report = &reports[0];
    assert_eq!(report.title.as_deref(), Some("Depth of the lock"));
    assert_eq!(branch_names(report), ["chatgpt/lock-0001", "chatgpt/lock-0001.u2"]);
    assert_eq!((report.pairs, models(report)), (1, vec![("gpt-5", 5)]));
    assert_eq!(
        transcript(&repo, "chatgpt/lock-0001"),
        [
            "user How deep is the lock?",
            "assistant",
            "assistant [search a1]",
            "tool 4.2 m at the sill",
            "assistant It is 4.2 m deep.",
            "user [image_asset_pointer: file-service://file-weir] And this weir?",
            "assistant About 1 m.",
        ]
    );
    let fork = transcript(&repo, "chatgpt/lock-0001.u2");
    assert_eq!(fork[5..], ["user And the weir?", "assistant I do not know."]);
    assert_eq!(report.branches[1].start, BranchStart::Fork);
    // The picture is not in the file: that is reported, and nothing else is unusual.
    assert_eq!(report.anomalies.counts, BTreeMap::from([(AnomalyKind::UnreadableMessage, 1)]));
    let first = compiled(&repo, "chatgpt/lock-0001");
    let first = first.messages().next().expect("a message").commit;
    let commit = block_on(repo.commit(first)).expect("it is read").expect("it is there");
    assert_eq!(commit.record().created_at, Some(1_767_258_000_250_000));
}

#[test]
fn an_export_of_claude_ai_has_its_steps_its_attachments_and_its_branches() {
    let (repo, reports) = import_bundled(Source::ClaudeAi, "claude-ai");
    let report = &reports[0];
    assert_eq!(report.title.as_deref(), Some("Green buoys"));
    assert_eq!(branch_names(report), ["claude-ai/buoys-0001", "claude-ai/buoys-0001.m3"]);
    assert_eq!((report.pairs, report.anomalies.count()), (1, 0));
    let shared = [
        "user Which buoy is green?buoys.csv 1,red 2,green",
        "assistant [table call-1]",
        "tool 2,green",
        "assistant The second.",
    ];
    let main = transcript(&repo, "claude-ai/buoys-0001");
    assert_eq!(main[1..4], shared[1..]);
    assert!(main[0].contains("Which buoy") && main[0].contains("2,green"), "{}", main[0]);
    assert_eq!(main[4..], ["user Is it lit?", "assistant At night."]);
    let fork = transcript(&repo, "claude-ai/buoys-0001.m3");
    assert_eq!(fork[4..], ["user Where is it?", "assistant At the north pier."]);
}

#[test]
fn an_export_without_parents_is_a_list() {
    let message = |n: u8, sender: &str, text: &str| {
        json!({"uuid": format!("m{n}"), "text": text, "sender": sender, "content": [],
            "created_at": "2026-01-01T10:00:00Z", "attachments": [],
            "files": [{"file_name": "map.pdf"}]})
    };
    let export = |messages: Vec<Value>| {
        json!([{"uuid": "c1", "name": "", "account": {}, "chat_messages": messages}]).to_string()
    };
    let (_folder, path) = scratch("conversations.json");
    let all = vec![message(1, "human", "Hi"), message(2, "assistant", "Ho")];
    let repo = new_repo();
    // The export of a day before has the beginning.
    let first = export(all[..1].to_vec());
    import(&repo, &[write(Source::ClaudeAi, path.clone(), first)]);
    let reports = import(&repo, &[write(Source::ClaudeAi, path, export(all))]);
    assert_eq!(transcript(&repo, "claude-ai/c1"), ["user Hi", "assistant Ho"]);
    assert_eq!(branches(&refs(&repo)).len(), 1);
    let listed = &reports[0].anomalies.listed;
    assert!(listed.iter().all(|odd| odd.what.contains("map.pdf")), "{listed:?}");
}

#[test]
fn messages_of_pydantic_ai_have_parts_results_and_tokens() {
    let (repo, reports) = import_bundled(Source::PydanticAi, "pydantic-ai");
    let report = &reports[0];
    assert_eq!((report.pairs, report.anomalies.count()), (1, 0));
    assert_eq!(models(report), [("local-1", 2)]);
    assert_eq!(used(&repo), (2, 60, 14, 40, 20));
    assert_eq!(
        transcript(&repo, "pydantic-ai/history"),
        [
            "system Be brief.",
            "system You tend locks.",
            "user How deep is it?",
            "assistant [depth c1]",
            "tool {\"metres\":4.2}",
            "assistant 4.2 m.",
        ]
    );
    let shown = compiled(&repo, "pydantic-ai/history");
    let parts: Vec<Part> = shown.messages().flat_map(|m| m.content.parts().to_vec()).collect();
    assert!(parts.iter().any(|part| matches!(part, Part::Image { .. })));
    let call = parts.iter().find_map(|part| match part {
        Part::ToolCall(call) => Some(call.arguments.as_str()),
        _ => None,
    });
    assert_eq!(call, Some(r#"{"lock":1}"#));
}

#[test]
fn a_retry_of_pydantic_ai_is_a_failed_result_or_injected() {
    let history = json!([
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Go."}]},
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "go", "args": {"to": 1}, "tool_call_id": "c1"}]},
        {"kind": "request", "parts": [{"part_kind": "retry-prompt", "tool_name": "go", "content": "no such place", "tool_call_id": "c1"}]},
        {"kind": "response", "parts": [{"part_kind": "song", "content": "la"}]},
        {"kind": "request", "parts": [{"part_kind": "retry-prompt", "content": "Say it in JSON."}]},
    ]);
    let (_folder, path) = scratch("history.json");
    let file = write(Source::PydanticAi, path, history.to_string());
    assert_eq!(tract_import::detect(file.path()).expect("it reads"), Some(Source::PydanticAi));
    let repo = new_repo();
    let reports = import(&repo, &[file]);
    let lines = transcript(&repo, "pydantic-ai/history");
    assert_eq!(lines[2], "tool no such place");
    assert_eq!(lines[4], "user Say it in JSON.");
    // A part of an unknown kind is kept, and reported by its line and its kind.
    assert!(lines[3].contains(r#""content":"la""#), "{}", lines[3]);
    let odd = &reports[0].anomalies.listed[0];
    assert!(odd.line == 4 && odd.what.contains("song"), "{odd:?}");
}

#[test]
fn messages_of_langchain_are_read_in_every_shape_of_a_dump() {
    let (repo, reports) = import_bundled(Source::LangChain, "langchain");
    let expected = [
        "user Is the ferry late?",
        "assistant [clock c1]",
        "tool ten past",
        "assistant Ten minutes.",
    ];
    assert_eq!(transcript(&repo, "langchain/ferry"), expected);
    assert_eq!((reports[0].pairs, models(&reports[0])), (1, vec![("local-2", 2)]));
    assert_eq!(used(&repo), (1, 30, 5, 0, 0));
    let text = std::fs::read(bundled("langchain/ferry.json")).expect("it reads");
    let dicts: Vec<Value> = serde_json::from_slice(&text).expect("JSON");
    let names = ["HumanMessage", "AIMessage", "ToolMessage", "AIMessage"];
    let lc = |(value, name): (&Value, &str)| {
        json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name],
            "kwargs": value["data"]})
    };
    let dumps: Vec<Value> = dicts.iter().zip(names).map(lc).collect();
    let flat: Vec<Value> = dicts
        .iter()
        .map(|value| {
            let mut flat = value["data"].clone();
            flat["additional_kwargs"] = json!({});
            flat["type"] = value["type"].clone();
            flat
        })
        .collect();
    let run = json!({"id": "run-1", "name": "Model", "run_type": "llm",
        "inputs": {"messages": [dumps[..3]]},
        "outputs": {"generations": [[{"text": "Ten minutes.", "message": dumps[3]}]]}});
    for (name, value, branch) in [
        ("a.json", json!(dumps), "langchain/a"),
        ("b.json", json!(flat), "langchain/b"),
        ("c.json", json!({"messages": flat}), "langchain/c"),
        ("d.jsonl", run, "langchain/run-1"),
    ] {
        let (_folder, path) = scratch(name);
        let file = write(Source::LangChain, path, value.to_string());
        let found = tract_import::detect(file.path()).expect("it reads");
        assert_eq!(found, Some(Source::LangChain), "{name}");
        let repo = new_repo();
        import(&repo, &[file]);
        assert_eq!(transcript(&repo, branch), expected, "{name}");
    }
}

#[test]
fn datasets_have_calls_with_results_and_tools_that_are_texts() {
    let (repo, reports) = import_bundled(Source::Dataset, "dataset");
    assert_eq!(reports.len(), 2);
    assert_eq!(
        transcript(&repo, "dataset/share-1"),
        [
            "system You know tides.",
            "user High water?",
            "assistant [tide call-1]",
            "tool at six",
            "assistant At six.",
        ]
    );
    assert_eq!(
        transcript(&repo, "dataset/harbor-7"),
        ["user Low water in the west?", "assistant [tide call-1]"]
    );
    let shown = compiled(&repo, "dataset/harbor-7");
    let options = FormOptions::default();
    let form = compile_form(&shown, Form::Params(Dialect::OpenAi), &options).expect("it compiles");
    let request: Value = serde_json::from_str(&form.to_json()).expect("JSON");
    let parameters = &request["tools"][0]["function"]["parameters"];
    assert_eq!(parameters["properties"]["port"]["type"], "string");
    assert_eq!(parameters["properties"]["days"]["type"], "integer");
    assert_eq!(parameters["required"], json!(["port"]));
    // A longer file adds conversations and changes none.
    let (_folder, path) = scratch("harbor.jsonl");
    let text = std::fs::read_to_string(bundled("dataset/harbor.jsonl")).expect("it reads");
    let messages = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
        "tools": "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]"});
    let before = refs(&repo);
    let file = write(Source::Dataset, path, format!("{text}{messages}\nnot JSON\n"));
    let reports = import(&repo, &[file]);
    assert_eq!(transcript(&repo, "dataset/harbor-3"), ["user Hi", "assistant Ho"]);
    assert_eq!(compiled(&repo, "dataset/harbor-3").tools().len(), 1);
    assert!(before.iter().all(|known| refs(&repo).contains(known)));
    assert_eq!(reports[0].anomalies.listed[0].line, 4);
}

#[test]
fn sessions_of_opencode_are_the_same_from_files_tables_and_an_export() {
    let (repo, reports) = import_bundled(Source::OpenCode, "opencode");
    assert_eq!(reports.len(), 3, "{reports:?}");
    let report = reports.iter().find(|report| report.session == "ses_1").expect("one");
    assert_eq!(report.title.as_deref(), Some("Paint the crane"));
    assert_eq!((report.pairs, report.compactions, report.anomalies.count()), (1, 1, 0));
    assert_eq!(models(report), [("local-3", 4)]);
    assert_eq!(report.tokens.cache_read, 120);
    assert_eq!(
        transcript(&repo, "opencode/ses_1"),
        ["assistant The folder has crane.txt.", "user Paint it.", "assistant It is red now.",]
    );
    let exported = transcript(&repo, "opencode/ses_0");
    assert_eq!(
        exported,
        [
            "user What is here?",
            "user The folder is /home/ada/crane.",
            "assistant [bash c1]",
            "tool crane.txt",
            "assistant crane.txt is.",
        ]
    );
    // In the database, the user took the last request back.
    let report = reports.iter().find(|report| report.session == "ses_2").expect("one");
    assert_eq!(branch_names(report), ["opencode/ses_2", "opencode/ses_2.reverted"]);
    assert_eq!(transcript(&repo, "opencode/ses_2"), ["assistant The folder has crane.txt."]);
    assert_eq!(transcript(&repo, "opencode/ses_2.reverted"), transcript(&repo, "opencode/ses_1"));
}

#[test]
fn a_result_within_a_message_of_opencode_comes_before_the_text_after_it() {
    let export = json!({"info": {"id": "ses_9", "title": "T", "time": {"created": 1}}, "messages": [
        {"info": {"id": "m1", "role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "In?"}]},
        {"info": {"id": "m2", "role": "assistant", "modelID": "m", "time": {"created": 2}}, "parts": [
            {"type": "tool", "callID": "c1", "tool": "tide", "state": {"status": "error", "input": {}, "error": "no gauge"}},
            {"type": "text", "text": "I cannot see it."},
            {"type": "hologram", "of": "the tide"},
        ]},
    ]});
    let (_folder, path) = scratch("export.json");
    let file = write(Source::OpenCode, path, export.to_string());
    assert_eq!(tract_import::detect(file.path()).expect("it reads"), Some(Source::OpenCode));
    let repo = new_repo();
    let reports = import(&repo, &[file]);
    let lines = transcript(&repo, "opencode/ses_9");
    assert_eq!(lines[..3], ["user In?", "assistant [tide c1]", "tool no gauge"]);
    assert!(lines[3].starts_with("assistant I cannot see it."), "{lines:?}");
    let odd = &reports[0].anomalies.listed[0];
    assert!(odd.line == 2 && odd.what.contains("hologram"), "{odd:?}");
}

#[test]
fn a_trajectory_of_mini_swe_agent_has_model_tokens_and_cost() {
    let (repo, reports) = import_bundled(Source::MiniSweAgent, "mini-swe-agent");
    let report = &reports[0];
    assert_eq!((report.pairs, report.anomalies.count()), (1, 0));
    assert_eq!(models(report), [("local-4", 2)]);
    assert_eq!(used(&repo), (2, 40, 18, 60, 0), "the tokens of the run are those of its answers");
    assert_eq!(report.skipped, BTreeMap::from([("exit".to_owned(), 1)]));
    let lines = transcript(&repo, &report.branches[0].branch);
    assert_eq!(lines[2..4], ["assistant I look. [bash c1]", "tool rope.txt"]);
    assert_eq!(lines.len(), 6);
    let documents = block_on(repo.documents("imports/")).expect("they are read");
    let (_, document) = &documents[0];
    let text = String::from_utf8_lossy(document.bytes()).into_owned();
    assert!(text.contains(r#""cost":0.03"#), "{text}");
}

#[test]
fn chats_of_aider_are_conversations_with_what_the_user_typed() {
    let (repo, reports) = import_bundled(Source::Aider, "aider");
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0].session, "2026-02-03T09-00-00");
    let first = transcript(&repo, "aider/2026-02-03T09-00-00");
    assert_eq!(first[0], "user Make it longer. By two metres.", "the command was not sent");
    assert!(first[1].contains("#### not a question > not printed LENGTH = 12"), "{first:?}");
    assert_eq!(first.len(), 2);
    assert_eq!(
        transcript(&repo, "aider/2026-02-03T10-00-00"),
        ["user Thanks.", "assistant You are welcome."]
    );
    assert_eq!(models(&reports[0]), [("local/5", 1)]);
    assert_eq!(used(&repo), (2, 1400, 215, 400, 300));
    // The file grows by whole answers.
    let text = std::fs::read_to_string(bundled("aider/.aider.chat.history.md")).expect("it reads");
    let (_folder, path) = scratch(".aider.chat.history.md");
    let expected = refs(&repo);
    for end in ["By two metres.  \n", "#### Thanks.  \n", "You are welcome.\n\n", "\n> Applied"] {
        let cut = text.find(end).expect("it is there") + end.len();
        let growing = new_repo();
        import(&growing, &[write(Source::Aider, path.clone(), &text[..cut])]);
        import(&growing, &[write(Source::Aider, path.clone(), &text)]);
        assert_eq!(refs(&growing), expected, "cut after {end:?}");
    }
    // What is written right now is reported and read later.
    let cut = text.find("You are welcome").expect("it is there") + 5;
    let repo = new_repo();
    let reports = import(&repo, &[write(Source::Aider, path, &text[..cut])]);
    assert_eq!(reports[1].anomalies.counts[&AnomalyKind::TornLine], 1);
}

#[test]
fn a_session_of_copilot_cli_has_calls_a_compaction_and_all_tokens() {
    let (repo, reports) = import_bundled(Source::CopilotCli, "copilot-cli");
    let report = &reports[0];
    assert_eq!(report.session, "copilot-oar");
    assert_eq!((report.pairs, report.compactions, report.anomalies.count()), (1, 1, 0));
    assert_eq!(models(report), [("local-6", 3)]);
    assert_eq!(
        transcript(&repo, "copilot-cli/copilot-oar"),
        ["user There are eight oars.", "user And paddles?", "assistant None."]
    );
    assert_eq!(used(&repo).1, 100);
    assert_eq!((used(&repo).2, used(&repo).3), (17, 200));
}

#[test]
fn chats_of_vs_code_have_rounds_and_lines_of_changes() {
    let (repo, reports) = import_bundled(Source::VsCodeChat, "vscode-chat");
    assert_eq!(reports.len(), 2);
    assert_eq!(
        transcript(&repo, "vscode-chat/sail-chat"),
        [
            "user How is the sail?",
            "assistant I look. [readFile c1]",
            "tool torn at the clew",
            "assistant It is torn.",
            "user Mend it.",
            "assistant It is mended.",
        ]
    );
    let mast = reports.iter().find(|report| report.session == "mast-chat").expect("one");
    assert_eq!(mast.title.as_deref(), Some("The mast"));
    assert_eq!(
        transcript(&repo, "vscode-chat/mast-chat"),
        ["user Mend it.", "assistant It is mended."]
    );
    assert_eq!(models(mast), [("local-7", 1)]);
    assert!(reports.iter().all(|report| report.anomalies.count() == 0), "{reports:?}");
}

#[test]
fn sessions_of_goose_are_the_same_from_lines_and_tables() {
    let (repo, reports) = import_bundled(Source::Goose, "goose");
    let expected =
        ["user What is here?", "assistant I look. [shell c1]", "tool net.txt", "assistant A net."];
    for session in ["20260205_1", "20260205_2"] {
        assert_eq!(transcript(&repo, &format!("goose/{session}")), expected);
    }
    let titles: Vec<_> = reports.iter().filter_map(|report| report.title.as_deref()).collect();
    assert_eq!(titles, ["Nets", "More nets"]);
    assert_eq!(used(&repo), (1, 70, 20, 0, 0));
    assert!(reports.iter().all(|report| report.anomalies.count() == 0), "{reports:?}");
}

#[test]
fn a_session_of_qwen_code_has_branches_and_is_not_one_of_claude_code() {
    let (repo, reports) = import_bundled(Source::QwenCode, "qwen-code");
    let report = &reports[0];
    assert_eq!((report.pairs, report.anomalies.count()), (1, 0));
    assert_eq!(branch_names(report), ["qwen-code/qwen-keel", "qwen-code/qwen-keel.l1"]);
    assert_eq!(models(report), [("local-9", 2)]);
    assert_eq!((report.tokens.input, report.tokens.cache_read), (60, 100));
    let before = transcript(&repo, "qwen-code/qwen-keel.l1");
    assert_eq!(
        before[1..4],
        ["assistant I measure. [measure c1]", "tool 2 mm", "assistant Nearly."]
    );
    assert_eq!(before[4], "user Plane it.");
    // The tool resumes what was written last.
    let resumed = transcript(&repo, "qwen-code/qwen-keel");
    assert_eq!((resumed.len(), resumed[4].as_str()), (5, "user Leave it."));
}

#[test]
fn chats_of_cursor_are_read_and_what_is_missing_is_reported() {
    let (repo, reports) = import_bundled(Source::Cursor, "cursor");
    assert_eq!(reports.len(), 1, "a chat without messages is none");
    let report = &reports[0];
    assert_eq!(report.title.as_deref(), Some("The anchor"));
    assert_eq!((report.pairs, models(report)), (1, vec![("local-10", 2)]));
    assert_eq!(
        transcript(&repo, "cursor/anchor-chat"),
        [
            "user Is the anchor clean?",
            "assistant [read_file c1]",
            "tool {\"contents\":\"rusty\"}",
            "assistant It is rusty.",
        ]
    );
    let listed = &report.anomalies.listed;
    assert_eq!((listed.len(), listed[0].line), (1, 4));
    assert!(listed[0].what.contains("b4"), "{listed:?}");
    assert_eq!(used(&repo), (1, 60, 5, 0, 0));
}

#[test]
fn trees_with_odd_parents_lose_no_message() {
    let node = |id: &str, parent: Option<&str>, text: &str| {
        json!({"id": id, "parent": parent, "children": [], "message": {"id": id,
            "author": {"role": "user"}, "create_time": 1.0, "metadata": {}, "recipient": "all",
            "content": {"content_type": "text", "parts": [text]}}})
    };
    let mapping = json!({
        "a": node("a", Some("b"), "One of a circle."),
        "b": node("b", Some("a"), "The other one."),
        "c": node("c", Some("gone"), "An orphan."),
        "d": node("d", None, "A root."),
        "e": node("e", Some("d"), "A child."),
        "f": node("f", Some("d"), "Another child."),
    });
    let export =
        json!([{"title": "T", "mapping": mapping, "current_node": "nowhere", "id": "odd"}]);
    let (_folder, path) = scratch("conversations.json");
    let file = write(Source::ChatGpt, path, export.to_string());
    let repo = new_repo();
    let reports = import(&repo, std::slice::from_ref(&file));
    let all: Vec<String> =
        reports[0].branches.iter().flat_map(|branch| transcript(&repo, &branch.branch)).collect();
    for text in ["One of", "The other", "An orphan", "A root", "A child", "Another child"] {
        assert!(all.iter().any(|line| line.contains(text)), "{text}: {all:?}");
    }
    assert!(reports[0].anomalies.counts[&AnomalyKind::MissingParent] >= 2);
    for branch in &reports[0].branches {
        check_forms(&repo, &branch.branch);
    }
    let before = refs(&repo);
    import(&repo, &[file]);
    assert_eq!(refs(&repo), before);
}

#[test]
fn damaged_documents_are_reported_and_never_half_read_in_silence() {
    for (source, path) in [
        (Source::ChatGpt, "chatgpt/conversations.json"),
        (Source::ClaudeAi, "claude-ai/conversations.json"),
        (Source::PydanticAi, "pydantic-ai/history.json"),
        (Source::LangChain, "langchain/ferry.json"),
        (Source::MiniSweAgent, "mini-swe-agent/rope.traj.json"),
        (Source::VsCodeChat, "vscode-chat/chatSessions/sail-chat.json"),
        (Source::OpenCode, "opencode/export.json"),
    ] {
        let bytes = std::fs::read(bundled(path)).expect("it reads");
        let (_folder, place) = scratch(bundled(path).file_name().unwrap().to_str().unwrap());
        for cut in (1..bytes.len() - 2).step_by(97) {
            let file = write(source, place.clone(), &bytes[..cut]);
            let repo = new_repo();
            let reports = import_all(&repo, &[file]);
            let is_told = reports.iter().any(|(_, report)| match report {
                Ok(report) => report.anomalies.count() > 0,
                Err(_) => true,
            });
            assert!(is_told, "{path} cut at {cut}");
        }
    }
}

#[test]
fn files_of_a_folder_are_found_by_their_bytes_wherever_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let copy = |from: &str, to: &str| {
        std::fs::copy(bundled(from), at(to)).expect("it is copied");
    };
    copy("gemini-cli/tmp/f00d/chats/session-2026-05-01T10-00-5eed0000.jsonl", "saved.jsonl");
    copy("openai-agents/sessions.db", "memory.bin");
    copy("langgraph/checkpoints.sqlite", "state");
    copy("cursor/state.vscdb", "other.db");
    copy("aider/.aider.chat.history.md", "notes.md");
    std::fs::write(at("README.md"), "# Nothing\n").expect("it is written");
    let names = |source: Source| -> Vec<String> {
        let name =
            |file: &SessionFile| file.path().file_name().unwrap().to_string_lossy().into_owned();
        files(source, folder.path()).iter().map(name).collect()
    };
    assert_eq!(names(Source::GeminiCli), ["saved.jsonl"]);
    assert_eq!(names(Source::OpenAiAgents), ["memory.bin"], "a database of Cursor is left out");
    assert_eq!(names(Source::LangGraph), ["state"]);
    assert_eq!(names(Source::Cursor), ["other.db"]);
    assert_eq!(names(Source::Aider), ["notes.md"]);
}

/// A chat of VS Code with these requests.
fn chat(requests: Value) -> Value {
    json!({"version": 3, "sessionId": "made", "creationDate": 1, "requests": requests})
}

#[test]
fn answers_of_vs_code_are_read_in_every_shape_of_their_text() {
    let request = |n: u32, response: Value| json!({"requestId": format!("r{n}"), "message": {"text": "Look."}, "response": response});
    let requests = json!([
        request(1, json!(["A text."])),
        request(2, json!("The whole.")),
        request(3, json!([{"kind": "markdownContent", "content": "Markdown."}])),
        request(4, json!([{"kind": "codeblock", "code": "let a = 1;"}])),
        {"requestId": "r5", "message": {"parts": [{"text": "In "}, {"text": "parts."}]},
            "response": [{"baseUri": "u"}], "variableData": {"variables": [{"name": "hull.png"}]}},
    ]);
    let imported = Imported::of_json(Source::VsCodeChat, &chat(requests));
    let look = "user Look.";
    assert_eq!(
        imported.transcript("vscode-chat/made"),
        [
            look,
            "assistant A text.",
            look,
            "assistant The whole.",
            look,
            "assistant Markdown.",
            look,
            "assistant let a = 1;",
            "user In parts.",
            r#"assistant {"baseUri":"u"}"#,
        ]
    );
    let kind = "unreadable_message";
    assert_eq!(
        anomalies(imported.report()),
        [
            (5, kind, "variableData: the attachment \"hull.png\" is not read"),
            (5, kind, "response[0]: a part without a text, kept as its JSON"),
        ]
    );
}

#[test]
fn requests_of_vs_code_that_the_user_went_back_from_are_left_out() {
    let request = |n: u32, more: &str| {
        let mut request = json!({"requestId": format!("r{n}"), "message": {"text": format!("Look {n}.")},
            "response": [{"value": format!("Seen {n}.")}]});
        request[more] = true.into();
        request
    };
    let requests = [request(1, "-"), request(2, "isHidden"), request(3, "shouldBeRemovedOnSend")];
    let imported = Imported::of_json(Source::VsCodeChat, &chat(json!(requests)));
    assert_eq!(imported.transcript("vscode-chat/made"), ["user Look 1.", "assistant Seen 1."]);
    assert_eq!(imported.report().removed, 4);
}

#[test]
fn a_result_of_vs_code_answers_one_call() {
    let call = json!({"id": "c1", "name": "look", "arguments": "{}"});
    let round = json!({"response": "", "toolCalls": [call]});
    let result = |text: &str| json!({"content": [{"value": text}]});
    let metadata = json!({"toolCallRounds": [round, round],
        "toolCallResults": {"c1": result("hull.txt"), "c9": result("lost")}});
    let requests = json!([{"requestId": "r1", "message": {"text": "Look."}, "response": [],
        "result": {"metadata": metadata}}]);
    let imported = Imported::of_json(Source::VsCodeChat, &chat(requests));
    assert_eq!(imported.report().pairs, 1);
    let kind = "unreadable_message";
    let listed = anomalies(imported.report());
    assert!(listed.contains(&(1, kind, "a second call \"c1\": the first one has the result")));
    let orphan = "toolCallResults: the result of \"c9\" belongs to no call";
    assert!(listed.contains(&(1, kind, orphan)), "{listed:?}");
}

#[test]
fn a_member_of_a_request_of_vs_code_is_reported_with_the_request() {
    let lines = [
        json!({"kind": 0, "v": chat(json!([]))}),
        json!({"kind": 2, "k": ["requests"], "v": [
            {"requestId": "r1", "message": {"text": "Look."}, "response": [{"value": "Yes."}]},
            {"requestId": "r2", "message": {"text": "And?"}, "modelId": ["m"],
                "response": [{"value": "No."}]},
        ]}),
    ];
    let imported = Imported::of_lines(Source::VsCodeChat, &lines);
    let listed = anomalies(imported.report());
    assert!(!listed.is_empty() && listed.iter().all(|(line, ..)| *line == 2), "{listed:?}");
}

/// Imports these rows of Cursor's table.
fn cursor(rows: &[(&str, String)]) -> Imported {
    let (_folder, path) = scratch("state.vscdb");
    let database = rusqlite::Connection::open(&path).expect("a database");
    let table = "CREATE TABLE cursorDiskKV (key TEXT, value TEXT)";
    database.execute(table, ()).expect("a table");
    for (key, value) in rows {
        database.execute("INSERT INTO cursorDiskKV VALUES (?1, ?2)", (key, value)).expect("a row");
    }
    drop(database);
    Imported::of(&[SessionFile::new(Source::Cursor, path)])
}

#[test]
fn messages_of_cursor_are_read_from_the_map_and_from_both_lists() {
    let user = |id: &str, text: &str, at: u64| json!({"bubbleId": id, "type": 1, "text": text, "createdAt": at});
    let map = json!({"conversationMap": {"a2": user("a2", "Then.", 1_700_000_002_000),
        "a1": user("a1", "First.", 1_700_000_001_000)}});
    let imported = cursor(&[("composerData:c", map.to_string())]);
    assert_eq!(imported.transcript("cursor/c"), ["user First.", "user Then."]);
    assert_eq!(anomalies(imported.report()), []);
    let both = json!({"conversation": [user("b1", "First.", 1)], "fullConversationHeadersOnly": [
        {"bubbleId": "b1"}, {"bubbleId": "b2"}, {"bubbleId": "b3"}]});
    let imported = cursor(&[
        ("composerData:c", both.to_string()),
        ("bubbleId:c:b2", user("b2", "Then.", 2).to_string()),
        ("bubbleId:c:b3", "{torn".to_owned()),
    ]);
    assert_eq!(imported.transcript("cursor/c"), ["user First.", "user Then."]);
    let what = "the message \"b3\" is not JSON";
    assert_eq!(anomalies(imported.report()), [(3, "unreadable_message", what)]);
}

#[test]
fn rich_texts_and_code_of_cursor_are_read_and_attachments_reported() {
    let paragraph =
        |text: &str| json!({"type": "paragraph", "children": [{"type": "text", "text": text}]});
    let rich = json!({"root": {"children": [paragraph("Look"), paragraph("here.")]}}).to_string();
    let chat = json!({"conversation": [
        {"bubbleId": "b1", "type": 1, "text": "", "richText": rich,
            "attachedCodeChunks": [{"lines": ["x"]}], "context": {"selections": [{"text": "y"}]}},
        {"bubbleId": "b2", "type": 2, "text": "", "codeBlocks": [{"content": "let a = 1;"}]},
    ]});
    let imported = cursor(&[("composerData:c", chat.to_string())]);
    assert_eq!(imported.transcript("cursor/c"), ["user Look\nhere.", "assistant let a = 1;"]);
    let kind = "unreadable_message";
    assert_eq!(
        anomalies(imported.report()),
        [
            (1, kind, "attachedCodeChunks: 1 attachment of the message is not read"),
            (1, kind, "context.selections: 1 attachment of the message is not read"),
        ]
    );
}

#[test]
fn headings_and_quotes_in_an_answer_of_aider_stay_in_it() {
    let text = "# aider chat started at 2026-01-01 10:00:00\n\n> Aider v0.80.0  \n\n#### Look.  \n\n\
        Here.\n\n#### A heading\n\n> A quote.\n\n1. x\n#### Step 2\ndone\n\n\
        > Tokens: 1.2k sent, 300 received.  \n\n#### And now?  \n\nYes.\n\n\
        # aider chat started at 2026-01-01 11:00:00\n\n#### Look.\n\nHere.\n#### And now?\n\nYes.\n";
    let imported = Imported::of_bytes(Source::Aider, ".aider.chat.history.md", text);
    assert_eq!(
        imported.transcript("aider/2026-01-01T10-00-00"),
        [
            "user Look.",
            "assistant Here.\n\n#### A heading\n\n> A quote.\n\n1. x\n#### Step 2\ndone",
            "user And now?",
            "assistant Yes.",
        ]
    );
    assert_eq!(anomalies(&imported.reports[0]), []);
    // Without the spaces, a heading looks like a line of the user.
    assert_eq!(
        imported.transcript("aider/2026-01-01T11-00-00"),
        ["user Look.", "assistant Here.", "user And now?", "assistant Yes."]
    );
    let what = "a line with #### within an answer, read as typed by the user";
    let listed = anomalies(&imported.reports[1]);
    assert_eq!((listed.len(), listed[0].2), (1, what));
}

#[test]
fn members_of_opencode_that_are_not_read_are_reported() {
    let message = |info: Value, parts: Value| json!({"info": info, "parts": parts});
    let session = json!({"info": {"id": "ses_1", "time": {"created": 1}, "title": "T"}, "messages": [
        message(json!({"id": "m1", "role": "user", "system": "Be brief."}),
            json!([{"type": "subtask", "prompt": "Look.", "description": "A look"}])),
        message(json!({"id": "m2", "role": "assistant", "error": {"name": "APIError", "data": {"message": "no"}}}),
            json!([{"type": "text", "text": "Yes."}])),
    ]});
    let imported = Imported::of_json(Source::OpenCode, &session);
    assert_eq!(imported.transcript("opencode/ses_1"), ["user Look.", "assistant Yes."]);
    let kind = "unreadable_message";
    assert_eq!(
        anomalies(imported.report()),
        [
            (1, kind, "system: the instructions of the message are not read"),
            (1, kind, "a subtask: its description is not read"),
            (2, kind, "error: the text of the error \"APIError\" is not read"),
        ]
    );
}
