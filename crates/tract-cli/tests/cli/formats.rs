//! Conversations written for other tools, and read again.

use crate::support::{Workspace, each, sessions, text};

const SESSION: &str = "claude-code/f2c71dd1-538d-55a4-9725-6db16fce0c50";

fn imported() -> Workspace {
    let place = Workspace::new();
    place.ok(&["import", "claude-code", text(&sessions("claude-code"))]);
    place
}

#[test]
fn a_session_that_was_not_changed_comes_back_as_the_same_commits() {
    let place = imported();
    let written =
        place.json(&["--json", "export", "--format", "claude-code", SESSION, "--output", "."]);
    let file = written[0]["file"].as_str().expect("a file");
    assert_eq!(file, "./f2c71dd1-538d-55a4-9725-6db16fce0c50.jsonl");
    assert_eq!(written[0]["as_recorded"], true);
    let again = Workspace::new();
    again.write("a.jsonl", std::fs::read(place.path(file)).expect("it is there"));
    again.ok(&["import", "claude-code", "a.jsonl"]);
    assert_eq!(again.id(SESSION), place.id(SESSION));
    // What people read names the way back.
    let exported =
        place.run(&["export", "--format", "claude-code", SESSION, "--output", "b.jsonl"]);
    assert!(exported.stdout.contains("messages in b.jsonl"), "{}", exported.stdout);
    assert!(exported.stderr.contains("claude --resume f2c71dd1"), "{}", exported.stderr);
}

#[test]
fn a_session_that_was_summarized_continues_in_its_tool_as_another_one() {
    let place = imported();
    place.ok(&["checkout", SESSION]);
    place.ok(&["compress", "#1", "#3", "--content", "Chain for both moorings was asked for."]);
    let written = place.json(&["--json", "export", "--format", "claude-code", "--output", "."]);
    assert_eq!(written[0]["as_recorded"], false);
    assert_ne!(written[0]["session"], "f2c71dd1-538d-55a4-9725-6db16fce0c50");
    let file = written[0]["file"].as_str().expect("a file");
    let again = Workspace::new();
    again.write("a.jsonl", std::fs::read(place.path(file)).expect("it is there"));
    let lines = again.json(&["--json", "import", "claude-code", "a.jsonl"]);
    let branch = lines[0]["branches"][0]["branch"].as_str().expect("a branch");
    let (shown, read) = (place.json(&["--json", "cat"]), again.json(&["--json", "cat", branch]));
    assert!(each(&shown, "text").contains(&"Chain for both moorings was asked for."));
    assert_eq!(each(&read, "text"), each(&shown, "text"));
}

#[test]
fn every_format_is_read_again_by_its_own_importer() {
    let place = imported();
    let read = |format: &str, source: &[&str]| {
        let text = place.ok(&["export", "--format", format, SESSION]);
        let again = Workspace::new();
        again.write("a.json", text);
        let lines = again.json(&[&["--json", "import"], source, &["a.json"]].concat());
        let branch = lines[0]["branch"].as_str();
        let branch = branch.or_else(|| lines[0]["branches"][0]["branch"].as_str());
        again.ok(&["cat", branch.expect("a branch")])
    };
    let formats: [(&str, &[&str]); 4] = [
        ("codex", &["codex"]),
        ("atif", &["atif"]),
        ("ai-sdk", &["ai-sdk"]),
        ("openai", &["--format", "openai"]),
    ];
    for (format, source) in formats {
        let imported = read(format, source);
        assert!(
            imported.contains("Which length?") && imported.contains("2 × 12 m"),
            "{format}: {imported}"
        );
    }
}

#[test]
fn a_refused_export_leaves_nothing() {
    let place = imported();
    place.refused(&["export", "--format", "atif", SESSION, "main"], 2, "usage", "one conversation");
    place.refused(&["export", "--format", "atif", "nowhere"], 1, "unknown_revision", "nowhere");
    Workspace::new().refused(&["export", "--format", "atif"], 1, "no_commits", "main");
    let nowhere = ["export", "--format", "atif", SESSION, "--output", "no/such/folder/x.json"];
    place.refused(&nowhere, 2, "file", "no/such/folder");
    assert!(!place.path("no").exists());
    let ran = place.run(&["export", "--format", "word", SESSION]).expect(2);
    assert!(ran.stderr.contains("claude-code, codex, atif, openai, ai-sdk"), "{}", ran.stderr);
    // A revision without a format says nothing.
    place.run(&["export", SESSION]).expect(2);
}

#[test]
fn help_has_the_whole_text_of_a_verb() {
    let place = Workspace::empty();
    let help = place.ok(&["export", "--help"]);
    assert!(help.contains("as a session of its own"), "{help}");
    let short = place.ok(&["export", "-h"]);
    assert!(!short.contains("as a session of its own"), "{short}");
}

#[test]
fn a_failed_result_is_reported_where_the_format_has_no_mark_for_it() {
    let place = Workspace::of(
        r#"{"op":"user","text":"Read the log."}
{"op":"assistant","text":"","tool_calls":[{"id":"c1","name":"read","arguments":{}},{"id":"c2","name":"read","arguments":{}}]}
{"op":"tool_result","call_id":"c1","content":"no such file","is_error":true}
{"op":"tool_result","call_id":"c2","content":"empty"}
"#,
    );
    for format in ["codex", "openai"] {
        let ran = place.run(&["export", "--format", format, "--output", "out.jsonl"]).expect(0);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains("1 marks of failed results (is_error)"), "{format}: {text}");
        let written = place.json(&["--json", "export", "--format", format, "--output", "b.jsonl"]);
        let left_out = &written[0]["left_out"][0];
        assert_eq!(left_out["count"], 1, "{format}: {written:?}");
        assert!(place.read("b.jsonl").contains("no such file"), "{format}");
    }
    for format in ["claude-code", "atif"] {
        let written = place.json(&["--json", "export", "--format", format, "--output", "c.jsonl"]);
        assert_eq!(written[0]["left_out"], serde_json::json!([]), "{format}: {written:?}");
        assert!(place.read("c.jsonl").contains("is_error"), "{format}");
    }
}
