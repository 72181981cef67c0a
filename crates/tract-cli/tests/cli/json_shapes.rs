use serde_json::{Value, json};

use crate::support::{Workspace, bundled, each, keys, list, stream, text};

/// A conversation with tools, an edit, and a call that is still open.
const STREAM: &str = r#"
{"op":"system","text":"Be brief."}
{"op":"set_tools","tools":[{"name":"b","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]}
{"op":"user","text":"Hi","mark":"q","generation_config":{"model":"m-1","max_tokens":64}}
{"op":"edit","target":":q","text":"Hello"}
{"op":"assistant","text":"","tool_calls":[{"id":"c1","name":"a","arguments":{"x":1}}]}
"#;

#[test]
fn log_is_one_record_a_line_newest_first() {
    let place = Workspace::of(STREAM);
    let lines = place.json(&["log", "--json"]);
    assert_eq!(lines.len(), 5);
    let ops: Vec<&Value> = lines.iter().map(|line| &line["op"]["name"]).collect();
    assert_eq!(ops, ["append", "edit", "append", "tools", "append"]);
    for pair in lines.windows(2) {
        assert_eq!(pair[0]["parents"][0], pair[1]["commit"]);
    }
    assert_eq!(place.json(&["--json", "log", "main~1", "--limit", "2"]), lines[1..3]);
    assert_eq!(place.json(&["--json", "log", "--graph", "main"]), lines);
}

#[test]
fn compile_is_the_request_itself() {
    let place = Workspace::of(STREAM);
    let ran =
        place.run(&["compile", "--to", "anthropic-params", "--set", "temperature=0.50"]).expect(0);
    let body = &ran.lines()[0];
    assert_eq!(body["model"], "m-1");
    assert_eq!(body["max_tokens"], 64);
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["tools"][0]["name"], "b");
    // The open call is answered for the provider, and that is said.
    assert!(ran.stderr.contains("repair: "), "{ran:?}");
    let plain = place.ok(&["compile", "--to", "openai"]);
    assert_eq!(place.ok(&["--json", "compile", "--to", "openai"]), plain);
    let strict = ["compile", "--to", "anthropic-params", "--pairing", "strict"];
    place.refused(&strict, 1, "unpaired", "repair");
    let messages = &place.json(&["compile"])[0]["messages"];
    assert_eq!(messages[1]["content"], "Hello");
    assert_eq!(messages[1]["commit"], place.id("main~1"));
}

#[test]
fn compile_goes_back_in_time() {
    let one = r#"{"op":"user","text":"one","at":"2026-01-31T09:00:00Z"}"#;
    let two = r#"{"op":"user","text":"two","at":"2026-01-31T10:00:00Z"}"#;
    let place = Workspace::of(&format!("{one}\n{two}"));
    let count = |time: &str| {
        let body = place.json(&["compile", "--to", "openai", "--at", time]);
        list(&body[0]).len()
    };
    assert_eq!(count("2026-01-31T08:00:00Z"), 0);
    assert_eq!(count("2026-01-31T09:30:00Z"), 1);
    assert_eq!(count("2026-01-31T12:00:00+01:00"), 2);
}

#[test]
fn verify_and_stats_are_one_document() {
    let place = Workspace::of(STREAM);
    let report = &place.json(&["--json", "verify"])[0];
    assert_eq!(report["clean"], true);
    assert_eq!(report["damage"], Value::Array(Vec::new()));
    assert!(report["objects"].as_u64() > Some(9), "{report}");
    let stats = &place.json(&["--json", "stats"])[0];
    assert_eq!((&stats["commits"], &stats["tools"]), (&5.into(), &2.into()));
}

#[test]
fn tools_answer_in_lists_and_lines() {
    let place = Workspace::of(STREAM);
    let of = place.json(&["tools", "of", "--json"]);
    assert_eq!(of[0][0]["name"], "b");
    assert_eq!(of[0].as_array().map(Vec::len), Some(2));
    assert_eq!(place.json(&["tools", "of", "main~4", "--json"])[0], Value::Array(Vec::new()));
    let listed = place.json(&["tools", "list", "--json"]);
    assert_eq!(keys(&listed[0]), "first hash name schemas");
    place.write("schemas.jsonl", "{\"name\": \"a\"}\n\n[1]\n");
    let lines = place.run(&["--json", "tools", "hash", "schemas.jsonl"]).expect(1).lines();
    // What `printf '{"name":"a"}' | sha256sum` says.
    let hash = "d9d719b27480b55cd4918020e7473e716ed3569c8adafe926cf9b10b4f8ef064";
    assert_eq!((&lines[0]["line"], &lines[0]["hash"]), (&1.into(), &hash.into()));
    assert_eq!(lines[1]["line"], 3);
    assert_eq!(lines[1]["error"]["code"], "invalid_json");
    let other = r#"[{"name":"a","input_schema":{"type":"object","properties":{"x":{}}}}]"#;
    place.write("other.json", other);
    place.ok(&["tools", "set", "other.json"]);
    let diff = &place.json(&["--json", "tools", "diff", "main~1", "main"])[0];
    assert_eq!(each(list(&diff["tools"]), "change"), ["removed", "changed"]);
    assert_eq!(place.json(&["tools", "history", "a", "--json"]).len(), 2);
    let miss = &place.json(&["why-miss", "main~1", "main", "--json"])[0];
    assert_eq!((&miss["miss"], &miss["same_blocks"]), (&true.into(), &0.into()));
    let hit = &place.json(&["why-miss", "main~1", "main~1", "--json"])[0];
    assert_eq!(hit["miss"], false);
}

#[test]
fn tools_of_a_commit_are_distinct_from_tools_in_force() {
    let place = Workspace::of(
        r#"{"op":"user","text":"given","tools":[{"name":"grep"}]}
{"op":"user","text":"after"}
{"op":"set_tools","tools":[{"name":"cat"}]}
{"op":"user","text":"after a set"}
"#,
    );
    let names = |arguments: &[&str]| -> Vec<String> {
        let tools = place.json(&[&["--json", "tools", "of"], arguments].concat());
        each(list(&tools[0]), "name").into_iter().map(str::to_owned).collect()
    };
    for (revision, own, in_force) in [
        ("main~3", &["grep"][..], ["grep"]),
        ("main~2", &[], ["grep"]),
        ("main~1", &["cat"], ["cat"]),
        ("main", &["cat"], ["cat"]),
    ] {
        assert_eq!(names(&[revision, "--own"]), own, "{revision}");
        assert_eq!(names(&[revision]), in_force, "{revision}");
        let shown = place.ok(&["show", revision]);
        let tools = shown.lines().find(|line| line.starts_with("tools "));
        let shows = tools.is_some_and(|line| line.ends_with(in_force[0]));
        assert_eq!(shows, !own.is_empty(), "{shown}");
    }
    let ran = place.run(&["tools", "of", "main~2"]).expect(0);
    assert!(ran.stderr.contains("1 tool of an earlier commit in force"), "{}", ran.stderr);
    let ran = place.run(&["tools", "of", "main~2", "--own"]).expect(0);
    assert!(ran.stderr.contains("0 tools of its own"), "{}", ran.stderr);
}

#[test]
fn every_verb_answers_in_json() {
    let place = Workspace::of(STREAM);
    place.write("tools.json", "[]");
    let recording = bundled("anthropic.json");
    let all: &[&[&str]] = &[
        &["init"],
        &["status"],
        &["log"],
        &["show"],
        &["diff"],
        &["branch", "b"],
        &["branch"],
        &["checkout", "b"],
        &["tag", "t"],
        &["tag"],
        &["commit", "tool-result", "ok", "--call-id", "c1"],
        &["edit", "HEAD#2", "Good day"],
        &["annotate", "HEAD#2", "--priority", "important"],
        &["compress", "--from", "HEAD#2", "--to", "HEAD#2", "--content", "A greeting."],
        &["revert", "HEAD"],
        &["merge", "main"],
        &["import", text(&recording)],
        &["export"],
        &["compile"],
        &["why-miss", "main"],
        &["tools", "list"],
        &["tools", "show", "a"],
        &["tools", "of"],
        &["tools", "history", "a"],
        &["tools", "diff", "main"],
        &["tools", "set", "tools.json"],
        &["verify"],
        &["stats"],
        &["undo"],
        &["undo", "--redo"],
        &["branch", "--delete", "main"],
    ];
    for arguments in all {
        // The flag may be before or after the verb.
        let lines = place.json(&[&["--json"], *arguments].concat());
        assert!(!lines.is_empty(), "{arguments:?}");
    }
    place.is_clean();
}

#[test]
fn why_miss_counts_what_the_second_request_has_beyond_the_cache() {
    let message =
        |n| json!({"op": "user", "text": format!("message {n}"), "mark": format!("m{n}")});
    let summary = json!({"op": "compress", "from": ":m3", "to": ":m10", "content": "in short"});
    let place = Workspace::of(&stream((0..12).map(message).chain([summary])));
    let arguments = ["why-miss", "main~1", "main", "--to", "openai-params"];
    let miss = &place.json(&[&arguments[..], &["--json"]].concat())[0];
    assert_eq!((&miss["miss"], &miss["same_blocks"]), (&true.into(), &3.into()));
    assert_eq!(miss["blocks"], json!([12, 5]));
    // The summary and the message after it are read again; of the nine others nothing is sent.
    assert!(place.ok(&arguments).contains("2 of 5 blocks"), "{}", place.ok(&arguments));
    // A request that is the beginning of the one before it is in the cache, all of it.
    let arguments = ["why-miss", "main~1", "main~6", "--to", "openai-params"];
    let hit = &place.json(&[&arguments[..], &["--json"]].concat())[0];
    assert_eq!((&hit["miss"], &hit["same_blocks"]), (&false.into(), &7.into()));
    assert!(place.ok(&arguments).contains("no miss"));
}
