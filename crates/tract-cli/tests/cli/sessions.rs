//! Sessions of agent tools, found and imported as a user does it.

use serde_json::{Value, json};

use crate::support::{Workspace, key, sessions, text};

#[test]
fn the_sessions_of_claude_code_are_found_in_its_own_folder() {
    let place = Workspace::new();
    let config = "CLAUDE_CONFIG_DIR";
    let import = ["import", "claude-code", "--json"];
    let lines = place.run_with(config, sessions("claude-code"), &import).expect(0).lines();
    assert_eq!(lines.len(), 5, "a line a file, and one for all of them");
    let summary = &lines[4]["summary"];
    assert_eq!((summary["sessions"].as_u64(), summary["subagents"].as_u64()), (Some(2), Some(1)));
    assert_eq!((summary["rewinds"].as_u64(), summary["compactions"].as_u64()), (Some(1), Some(1)));
    assert_eq!(summary["pairs"], 6);
    assert_eq!(summary["branches"]["created"], 4);
    place.is_clean();

    // A second import, of other paths, by what the bytes are: nothing is new.
    let folder = sessions("claude-code/projects/-home-ada-tide-tables");
    let files =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path());
    let file = files
        .filter(|path| path.is_file())
        .max_by_key(|path| std::fs::metadata(path).expect("a file").len());
    let file = file.expect("a session");
    place.write("copy.jsonl", std::fs::read(&file).expect("it reads"));
    let again = place.json(&["import", "copy.jsonl", "--json"]);
    assert_eq!(again[1]["summary"]["new"], 0);
    assert_eq!(again[1]["summary"]["branches"]["unchanged"], 2);
    let branch = again[0]["branches"][1]["branch"].as_str().expect("a branch");
    let output = place.ok(&["cat", branch, "-n", "1"]);
    assert!(output.contains("has to be read again"), "{output}");

    let none = place.run_with(config, "nowhere", &["import", "claude-code"]).expect(1);
    assert!(none.stderr.contains("error[no_sessions]") && none.stderr.contains(config), "{none:?}");
}

#[test]
fn every_rewind_is_kept_where_hundreds_have_ids_that_begin_alike() {
    const COUNT: usize = 230;
    let place = Workspace::new();
    let id = |n: usize| format!("00000000-0000-4000-8000-{n:012}");
    let line = |n: usize, text: &str| {
        let parent = if n == 0 { Value::Null } else { json!(id(0)) };
        let line = json!({
            "type": "user", "uuid": id(n), "parentUuid": parent, "sessionId": "s1", "cwd": "/x",
            "timestamp": "2026-01-01T00:00:00Z", "version": "2",
            "message": {"role": "user", "content": text},
        });
        format!("{line}\n")
    };
    let lines = |count: usize| -> String {
        let rewinds = (1..=count).map(|n| line(n, &format!("try {n}")));
        [line(0, "hi")].into_iter().chain(rewinds).collect()
    };
    let import = |count: usize| {
        place.write("s1.jsonl", lines(count));
        let report = place.json(&["import", "claude-code", "s1.jsonl", "--json"]);
        report[1]["summary"].clone()
    };
    let summary = import(COUNT);
    assert_eq!(summary["branches"], json!({"created": COUNT}), "{summary}");
    assert!(!summary.to_string().contains("diverged"), "{summary}");
    let branches = place.json(&["branch", "--json"]);
    let last = |branch: &Value| {
        let name = branch["branch"].as_str().expect("a name");
        let messages = place.json(&["cat", name, "-n", "1", "--json"]);
        messages[0]["text"].as_str().expect("a text").to_owned()
    };
    let texts: std::collections::BTreeSet<String> = branches.iter().step_by(20).map(last).collect();
    assert_eq!(texts.len(), COUNT.div_ceil(20), "each has its own message");
    let again = import(COUNT);
    assert_eq!((&again["new"], &again["branches"]), (&json!(0), &json!({"unchanged": COUNT})));
    // More rewinds are more branches, and the others stay where they are. The name of the session
    // moves to the newest one.
    let more = import(COUNT + 2);
    let expected = json!({"unchanged": COUNT - 1, "moved": 1, "created": 2});
    assert_eq!(more["branches"], expected, "{more}");
    place.write("copy.jsonl", lines(COUNT + 2));
    let copy = place.json(&["import", "claude-code", "copy.jsonl", "--json"]);
    assert_eq!(copy[1]["summary"]["branches"], json!({"unchanged": COUNT + 2}));
}

#[test]
fn sessions_are_chosen_by_project_and_time_and_nothing_else_is() {
    let place = Workspace::new();
    let folder = sessions("claude-code");
    let folder = text(&folder);
    let of = |more: &[&str]| {
        let arguments = [&["import", "claude-code", folder, "--json"], more].concat();
        place.json(&arguments).len() - 1
    };
    assert_eq!(of(&["--project", "tide-tables"]), 3);
    for none in [["--project", "elsewhere"], ["--since", "2999-01-01T00:00:00Z"]] {
        let arguments = [&["import", "claude-code", folder], &none[..]].concat();
        place.refused(&arguments, 1, "no_sessions", "no matching session");
    }
    place.write("chats.jsonl", r#"{"messages":[{"role":"user","content":"Hi"}]}"#);
    place.refused(&["import", "chats.jsonl", "--project", "x"], 2, "usage", "--project");
    // What is imported is said in people's words, and what is missing too.
    let ran = place.run(&["import", "claude-code", folder]).expect(0);
    let output = format!("{}{}", ran.stdout, ran.stderr);
    for words in ["2 sessions and 1 subagent", "1 rewind", "1 compaction"] {
        assert!(output.contains(words), "{words:?} in {output}");
    }
    assert!(output.contains("no system prompt") && output.contains("next: tract cat"), "{output}");
}

#[test]
fn threads_of_codex_are_found_below_its_home_and_chosen_by_project() {
    let place = Workspace::new();
    let import = ["import", "codex", "--json", "--project", "boats"];
    let line = &place.run_with("CODEX_HOME", sessions("codex"), &import).expect(0).lines()[0];
    assert_eq!((line["pairs"].as_u64(), line["compactions"].as_u64()), (Some(4), Some(2)));
    assert_eq!(line["branches"][1]["start"], "rewind");
    let none = place.run_with("CODEX_HOME", "nowhere", &["import", "codex"]).expect(1);
    assert!(none.stderr.contains("CODEX_HOME"), "{none:?}");
    place.refused(&["import", "atif"], 2, "usage", "tract import atif FILE");
}

#[test]
fn files_of_any_tool_are_known_by_their_bytes() {
    let place = Workspace::new();
    let names = [
        "gemini-cli/tmp/f00d/chats/session-2026-05-01T10-00-5eed0000.jsonl",
        "openai-agents/sessions.db",
        "langgraph/checkpoints.sqlite",
        "ai-sdk/chat.json",
        "atif/run.json",
        "swe-agent/hull.traj",
        "openhands/v0.json",
        "openhands/v1.jsonl",
        "openhands/conversations/watch",
        "inspect/knots.eval",
    ];
    let paths = names.map(sessions);
    let mut arguments = vec!["import", "--json"];
    arguments.extend(paths.iter().map(|path| text(path)));
    let lines = place.json(&arguments);
    let summary = &lines[lines.len() - 1]["summary"];
    assert_eq!(summary["unread"], 0);
    assert_eq!(summary["pairs"], 1 + 1 + 2 + 2 + 2 + 1 + 2 + 2 + 2 + 1);
    let branches = place.ok(&["branch"]);
    let tools = "gemini-cli/ openai-agents/ langgraph/ ai-sdk/ atif/ swe-agent/ inspect/";
    for tool in tools.split(' ') {
        assert!(branches.contains(tool), "{tool} in {branches}");
    }
    place.is_clean();
}

#[test]
fn secrets_are_redacted_unless_told_otherwise() {
    let key = key();
    let text = std::fs::read_to_string(sessions("swe-agent/hull.traj")).expect("it reads");
    let place = Workspace::new();
    place.write("a.traj", text.replace("The hull leaks.", &format!("The hull leaks {key}.")));
    let ran = place.run(&["import", "a.traj"]).expect(0);
    assert!(ran.stdout.contains("1 secret redacted"), "{}", ran.stdout);
    assert!(!place.ok(&["cat", "swe-agent/a"]).contains(&key));
    let ran = place.run(&["import", "a.traj", "--no-redact"]).expect(0);
    assert!(!ran.stdout.contains("redacted"), "{}", ran.stdout);
    assert!(place.ok(&["cat", "swe-agent/a.2"]).contains(&key), "a branch next to it");
}

#[test]
fn usage_counts_each_answer_once_and_says_what_has_no_price() {
    let place = Workspace::new();
    place.ok(&["import", "claude-code", text(&sessions("claude-code"))]);
    let lines = place.json(&["usage", "--json"]);
    assert_eq!(lines[0]["name"], "claude-sonnet-4-20250514");
    let expected =
        serde_json::json!({"input":156,"output":238,"cache_read":5450,"cache_write":3900});
    assert_eq!((&lines[0]["tokens"], lines[0]["answers"].as_u64()), (&expected, Some(13)));
    // 156 · 3 + 238 · 15 + 5450 · 0.3 + 3900 · 3.75 dollars for a million.
    assert_eq!(lines[1]["total"]["cost"], 0.020298);
    let by = |what: &str| place.json(&["usage", "--json", "--by", what]).len() - 1;
    assert_eq!((by("day"), by("project"), by("branch")), (1, 1, 4));
    place.write("none.json", r#"{"date":"2026-01-31","models":{}}"#);
    let output = place.ok(&["usage", "--prices", "none.json"]);
    assert!(
        output.contains("no price for claude-sonnet-4-20250514") && output.contains("2026-01-31")
    );
    place.write("bad.json", "{");
    place.refused(&["usage", "--prices", "bad.json"], 1, "no_prices", "line 1");
}
