//! Sessions of agent tools, found and imported as a user does it.

use std::path::{Path, PathBuf};

use crate::support::Workspace;

fn bundled(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(file)
}

#[test]
fn the_sessions_of_claude_code_are_found_in_its_own_folder() {
    let place = Workspace::new();
    let run = |arguments: &[&str], config: &Path| {
        let mut command = place.command(arguments);
        command.env("CLAUDE_CONFIG_DIR", config);
        command.output().expect("the binary runs")
    };
    let ran = run(&["import", "claude-code", "--json"], &bundled("sessions/claude-code"));
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).expect("it is text");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(lines.len(), 5, "a line a file, and one for all of them");
    let summary = &lines[4]["summary"];
    assert_eq!((summary["sessions"].as_u64(), summary["subagents"].as_u64()), (Some(2), Some(1)));
    assert_eq!((summary["rewinds"].as_u64(), summary["compactions"].as_u64()), (Some(1), Some(1)));
    assert_eq!(summary["pairs"], 6);
    assert_eq!(summary["branches"]["created"], 4);
    place.is_clean();

    // A second import, of other paths, by what the bytes are: nothing is new.
    let folder = bundled("sessions/claude-code/projects/-home-ada-tide-tables");
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
    let branch = again[0]["branches"][0]["branch"].as_str().expect("a branch");
    let said = place.ok(&["cat", branch, "-n", "1"]);
    assert!(said.contains("has to be read again"), "{said}");

    let none = run(&["import", "claude-code"], &place.path("nowhere"));
    assert_eq!(none.status.code(), Some(1));
    let text = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(text.contains("error[no_sessions]") && text.contains("CLAUDE_CONFIG_DIR"), "{text}");
}

#[test]
fn sessions_are_chosen_by_project_and_time_and_nothing_else_is() {
    let place = Workspace::new();
    let folder = bundled("sessions/claude-code");
    let folder = folder.to_str().expect("a path");
    let of = |more: &[&str]| {
        let arguments = [&["import", "claude-code", folder, "--json"], more].concat();
        place.json(&arguments).len() - 1
    };
    assert_eq!(of(&["--project", "tide-tables"]), 3);
    place.refused(
        &["import", "claude-code", folder, "--project", "elsewhere"],
        1,
        "no_sessions",
        "no matching session",
    );
    place.refused(
        &["import", "claude-code", folder, "--since", "2999-01-01T00:00:00Z"],
        1,
        "no_sessions",
        "no matching session",
    );
    place.write("chats.jsonl", r#"{"messages":[{"role":"user","content":"Hi"}]}"#);
    place.refused(&["import", "chats.jsonl", "--project", "x"], 2, "usage", "--project");
    // What is imported is said in people's words, and what is missing too.
    let ran = place.run(&["import", "claude-code", folder]).expect(0);
    let text = format!("{}{}", ran.stdout, ran.stderr);
    for words in [
        "2 sessions and 1 subagent",
        "1 rewind",
        "1 compaction",
        "no system prompt",
        "next: tract cat",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}

#[test]
fn threads_of_codex_are_found_below_its_home_and_chosen_by_project() {
    let place = Workspace::new();
    let run = |arguments: &[&str], home: &Path| {
        let mut command = place.command(arguments);
        command.env("CODEX_HOME", home);
        command.output().expect("the binary runs")
    };
    let ran = run(&["import", "codex", "--json", "--project", "boats"], &bundled("sessions/codex"));
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).expect("it is text");
    let line: serde_json::Value =
        serde_json::from_str(text.lines().next().expect("a line")).unwrap();
    assert_eq!((line["pairs"].as_u64(), line["compactions"].as_u64()), (Some(4), Some(2)));
    assert_eq!(line["branches"][1]["start"], "rewind");
    let none = run(&["import", "codex"], &place.path("nowhere"));
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("CODEX_HOME"));
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
    let paths: Vec<PathBuf> = names.iter().map(|name| bundled("sessions").join(name)).collect();
    let mut arguments = vec!["import", "--json"];
    arguments.extend(paths.iter().map(|path| path.to_str().expect("a path")));
    let lines = place.json(&arguments);
    let summary = &lines[lines.len() - 1]["summary"];
    assert_eq!(summary["unread"], 0);
    assert_eq!(summary["pairs"], 1 + 1 + 2 + 2 + 2 + 1 + 2 + 2 + 2 + 1);
    let branches = place.ok(&["branch"]);
    for tool in [
        "gemini-cli/",
        "openai-agents/",
        "langgraph/",
        "ai-sdk/",
        "atif/",
        "swe-agent/",
        "inspect/",
    ] {
        assert!(branches.contains(tool), "{tool} in {branches}");
    }
    place.is_clean();
}

#[test]
fn secrets_are_redacted_unless_told_otherwise() {
    let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
    let text = std::fs::read_to_string(bundled("sessions/swe-agent/hull.traj")).expect("it reads");
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
    let folder = bundled("sessions/claude-code");
    place.ok(&["import", "claude-code", folder.to_str().expect("a path")]);
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
    let said = place.ok(&["usage", "--prices", "none.json"]);
    assert!(said.contains("no price for claude-sonnet-4-20250514") && said.contains("2026-01-31"));
    place.write("bad.json", "{");
    place.refused(&["usage", "--prices", "bad.json"], 1, "no_prices", "line 1");
}
