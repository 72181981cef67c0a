//! Tool turns, what waits to be decided, and why a message reads as it does.

use tract::hooks::{BeforeCommit, CommitAction, Hooks, ToolResultAction, ToolResultReceived};
use tract::{Commit, OpenOptions, Tract, block_on};

use crate::support::{Workspace, keys, list};

pub(crate) const STREAM: &str = r#"
{"op":"user","text":"Where is main?"}
{"op":"assistant","text":"","tool_calls":[{"id":"c1","name":"grep","arguments":{}},{"id":"c2","name":"ls","arguments":{}}],"mark":"call"}
{"op":"tool_result","call_id":"c2","content":"a.rs"}
{"op":"tool_result","call_id":"c1","content":"a.rs:7","mark":"r"}
{"op":"edit","target":":r","content":"a.rs"}
{"op":"assistant","text":"","tool_calls":[{"id":"c3","name":"ls","arguments":{}}]}
"#;

/// Leaves a result waiting in the store of a place, as a program with a handler would.
fn defer(place: &Workspace, text: &str) -> String {
    defer_by(place, text, "ask-a-person", "needs a person")
}

/// As [`defer`], by a handler of this name, with this reason.
pub(crate) fn defer_by(place: &Workspace, text: &str, handler: &str, reason: &str) -> String {
    let reason = reason.to_owned();
    let hooks = Hooks::new()
        .on(handler, move |_: &ToolResultReceived| ToolResultAction::Defer(reason.clone()));
    waits(place, hooks, async |tract| tract.tool_result("c3", text).await)
}

/// Leaves what a program with these hooks asks for waiting, and returns its name.
fn waits(
    place: &Workspace,
    hooks: Hooks,
    ask: impl AsyncFnOnce(&Tract) -> tract::Result<Commit>,
) -> String {
    let url = format!("sqlite:{}", place.store().display());
    block_on(async {
        let tract = OpenOptions::new().open(&url).await?.with_hooks(hooks);
        let error = ask(&tract).await.expect_err("it waits");
        assert_eq!(error.code(), "deferred");
        let id = tract.pending().list().await?.remove(0).id;
        tract.store().close().await?;
        Ok::<_, tract::Error>(id)
    })
    .expect("it is stored")
}

#[test]
fn turns_are_one_a_line_oldest_first() {
    let place = Workspace::of(STREAM);
    let lines = place.json(&["turns", "--json"]);
    assert_eq!(lines.len(), 2);
    assert_eq!(keys(&lines[0]), "call results tool_names total_tokens");
    assert_eq!(lines[0]["tool_names"], serde_json::json!(["grep", "ls"]));
    assert_eq!(lines[0]["results"].as_array().map(Vec::len), Some(2));
    assert!(lines[0]["total_tokens"].as_u64() > Some(0));
    assert_eq!(place.json(&["turns", "--name", "grep", "--json"]), lines[..1]);
    let call = lines[0]["call"].as_str().expect("an id");
    assert_eq!(place.json(&["turns", "main", "--after", call, "--json"]), lines[1..]);
    assert!(place.ok(&["turns"]).contains("1 open"));
    assert_eq!(Workspace::new().ok(&["turns", "--json"]), "");
    let other = Workspace::of(r#"{"op":"user","text":"elsewhere"}"#);
    other.ok(&["branch", "aside"]);
    other.feed(&["apply", "-"], br#"{"op":"user","text":"more"}"#).expect(0);
    let after = ["turns", "aside", "--after", "main"];
    other.refused(&after, 1, "not_on_line", "is not in the history");
}

#[test]
fn pending_approvals_are_listed_shown_and_decided_once() {
    let place = Workspace::of(STREAM);
    let id = defer(&place, "4111 1111 1111 1111\nand more");
    let listed = place.json(&["pending", "--json"]);
    assert_eq!(listed[0]["id"], id.as_str());
    assert_eq!(listed[0]["reason"], "needs a person");
    assert!(place.ok(&["pending"]).contains("by ask-a-person: needs a person"));
    assert!(place.ok(&["pending", "show", &id]).contains("and more"));
    let done = place.json(&["pending", "summarize", &id[..7], "--command", "head -n 1", "--json"]);
    assert_eq!(done[0]["record"]["action"], "summarize");
    let commit = done[0]["commit"].as_str().expect("a commit");
    assert_eq!(place.ok(&["expand", commit]), "4111 1111 1111 1111\nand more\n");
    let shown = place.ok(&["show", commit]);
    assert!(shown.contains("because") && shown.contains("model: head -n 1"), "{shown}");
    assert!(shown.contains("before that defer by ask-a-person; why: needs a person"), "{shown}");
    assert!(shown.contains("message    tool result: ls"), "{shown}");
    place.refused(&["pending", "approve", &id], 1, "already_decided", "summarize");
    let none = "there are no pending approvals";
    place.refused(&["pending", "approve", "p-none"], 1, "unknown_pending", none);
    assert!(place.ok(&["pending", "show", &id]).contains("summarize"));
    place.ok(&["revert", commit]);
    assert!(place.ok(&["compile", "--to", "openai"]).contains("4111"));
    place.is_clean();
}

#[test]
fn an_edit_that_waits_does_not_replace_a_later_edit() {
    let place = Workspace::of(STREAM);
    let hooks = Hooks::new()
        .on("ask-a-person", |_: &BeforeCommit| CommitAction::Defer("a person decides".into()));
    let id = waits(&place, hooks, async |tract| tract.edit("HEAD#1", "deferred").await);
    place.ok(&["edit", "HEAD#1", "corrected"]);
    let between = place.id("HEAD");
    for verb in [&["pending", "approve", &id][..], &["pending", "edit", &id, "mine"]] {
        place.refused(verb, 1, "changed_since", &between[..8]);
    }
    assert!(place.ok(&["compile", "--to", "openai"]).contains("corrected"));
    place.ok(&["pending", "show", &id]);
    place.ok(&["revert", "HEAD"]);
    place.ok(&["pending", "approve", &id]);
    assert!(place.ok(&["compile", "--to", "openai"]).contains("deferred"));
    place.is_clean();
}

#[test]
fn a_summarizer_that_fails_leaves_it_waiting() {
    let place = Workspace::of(STREAM);
    let id = defer(&place, "some lines\nof output");
    for (command, code) in [
        ("exit 3", "model_error"),
        ("cat", "bad_summary"),
        ("true", "bad_summary"),
        ("printf '\\377'", "invalid_reply"),
    ] {
        place.complains(&["pending", "summarize", &id, "--command", command], b"", 1, code, "");
    }
    let never = ["pending", "summarize", &id, "--command", "sleep 600", "--timeout", "1"];
    place.refused(&never, 1, "summarizer_timeout", "did not answer within 1s");
    place.ok(&["pending", "reject", &id, "--reason", "wrong"]);
    assert!(place.ok(&["compile", "--to", "openai"]).contains("rejected: wrong"));
    place.is_clean();
}

#[test]
fn of_racing_processes_one_decides() {
    let place = Workspace::of(STREAM);
    let id = defer(&place, "output");
    let runs: Vec<_> = (0..4)
        .map(|n| {
            let verb = if n % 2 == 0 { "approve" } else { "reject" };
            let mut command = place.command(&["pending", verb, &id]);
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            command.spawn().expect("it starts")
        })
        .collect();
    let codes: Vec<_> =
        runs.into_iter().map(|mut run| run.wait().expect("it ends").code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 1))), "{codes:?}");
    place.is_clean();
}

#[test]
fn automatic_summaries_are_said_and_shown() {
    let place = Workspace::new();
    assert!(place.ok(&["summarization"]).contains("no tool result"));
    place.ok(&["summarization", "--tool", "grep=keep file names", "--threshold", "800"]);
    let shown = place.ok(&["summarization"]);
    assert!(shown.contains("grep: at any size") && shown.contains("above 800"), "{shown}");
    let config = &place.json(&["summarization", "--json"])[0];
    assert_eq!(config["auto_threshold"], 800);
    place.refused(&["summarization", "--keep", "("], 1, "bad_pattern", "regular expression");
    place.refused(&["summarization", "--tool", "grep"], 2, "usage", "NAME=TEXT");
    place.ok(&["summarization", "--off"]);
    assert_eq!(place.json(&["summarization", "--json"]), [serde_json::Value::Null]);
}

const LONG: &str =
    "src/lib.rs:7: fn main is called here, and then there are many more words about it";

/// A call that has no answer.
fn with_call() -> Workspace {
    let place = Workspace::new();
    place.ok(&["commit", "user", "Look."]);
    place.ok(&["commit", "assistant", "", "--call", "c1", "grep", "{}"]);
    place
}

#[test]
fn a_configured_result_is_summarized_by_the_program_that_is_named() {
    let place = with_call();
    let configured = place.run(&["summarization", "--tool", "grep=keep file names"]).expect(0);
    assert!(configured.stderr.contains("--summarizer"), "who writes them is said: {configured:?}");
    let quiet = ["summarization", "--tool", "grep=x", "--summarizer", "head -c 13"];
    assert!(!place.run(&quiet).expect(0).stderr.contains("--summarizer"));
    let commit = ["commit", "tool-result", LONG, "--call-id", "c1", "--name", "grep"];
    place.ok(&[&commit[..], &["--summarizer", "head -c 13"]].concat());
    let compiled = place.ok(&["compile", "--to", "messages"]);
    assert!(compiled.contains("src/lib.rs:7:") && !compiled.contains("many more"), "{compiled}");
    // A stream does the same; the variable names the program as well.
    let place = with_call();
    place.ok(&["summarization", "--tool", "grep=keep file names"]);
    let line = format!(r#"{{"op":"tool_result","call_id":"c1","name":"grep","content":"{LONG}"}}"#);
    place.write("stream.jsonl", line);
    place.run_with("TRACT_SUMMARIZER", "head -c 13", &["apply", "stream.jsonl"]).expect(0);
    let compiled = place.ok(&["compile", "--to", "messages"]);
    assert!(!compiled.contains("many more"), "{compiled}");
    place.is_clean();
}

#[test]
fn results_are_made_shorter_by_a_verb() {
    let place = with_call();
    place.ok(&["commit", "tool-result", LONG, "--call-id", "c1", "--name", "grep"]);
    let source = place.id("HEAD");
    place.refused(&["compress-tool-calls"], 2, "usage", "--model");
    let how = ["--name", "grep", "--summarizer", "head -c 13", "--json"];
    let done = place.json(&[&["compress-tool-calls"], &how[..]].concat());
    assert_eq!(done[0]["sources"], serde_json::json!([source]));
    assert_eq!(done[0]["tool_names"], serde_json::json!(["grep"]));
    assert_eq!((&done[0]["turns"], list(&done[0]["edits"]).len()), (&1.into(), 1));
    assert!(done[0]["tokens_after"].as_u64() < done[0]["tokens_before"].as_u64(), "{done:?}");
    let compiled = place.ok(&["compile", "--to", "messages"]);
    assert!(compiled.contains("src/lib.rs:7:") && !compiled.contains("many more"), "{compiled}");
    // What its summary would not make shorter stays.
    let done = place.json(&["compress-tool-calls", "HEAD", "--summarizer", "cat", "--json"]);
    assert_eq!(done[0]["left"].as_array().map(Vec::len), Some(1), "{done:?}");
    place.is_clean();
}

#[test]
fn only_the_results_of_the_named_tool_are_made_shorter() {
    let long = "one line of many. ".repeat(20);
    let place = Workspace::of(&format!(
        concat!(
            r#"{{"op":"assistant","text":"","tool_calls":[{{"id":"a","name":"grep","arguments":{{}}}},"#,
            r#"{{"id":"b","name":"ls","arguments":{{}}}}]}}"#,
            "\n{{\"op\":\"tool_result\",\"call_id\":\"a\",\"name\":\"grep\",\"content\":\"{long}\"}}",
            "\n{{\"op\":\"tool_result\",\"call_id\":\"b\",\"name\":\"ls\",\"content\":\"{long}\"}}\n",
        ),
        long = long
    ));
    let how = ["--name", "grep", "--summarizer", "head -c 13", "--json"];
    let done = place.json(&[&["compress-tool-calls"], &how[..]].concat());
    assert_eq!(done[0]["tool_names"], serde_json::json!(["grep"]));
    assert_eq!(list(&done[0]["edits"]).len(), 1, "{done:?}");
    let compiled = place.ok(&["compile", "--to", "messages"]);
    assert_eq!(compiled.matches(long.trim_end()).count(), 1, "{compiled}");
}
