use serde_json::json;

use crate::support::{Workspace, keys};

const TOOLS: &str = r#"{"tool_id":"t1","name":"math.add","description":"Adds.","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}
{"tool_id":"t2","name":"math.add","description":"Adds others.","parameters":{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}}
{"tool_id":"t3","name":"größe","description":"Measures.","parameters":{"type":"object"}}
"#;

const TRANSLATE: [&str; 7] =
    ["tools", "translate", "tools.json", "--to", "openai", "--strict", "--json"];

#[test]
fn hydrate_says_where_a_call_fails() {
    let place = Workspace::empty();
    place.write("tools.jsonl", TOOLS);
    place.write(
        "calls.jsonl",
        r#"{"id":"1","name":"math.add","arguments":"{\"a\": 1}","tool_id":"t1"}
{"id":"2","name":"math.add","arguments":{"b":"x"},"tool_id":"t2"}
{"id":"3","name":"math.add","arguments":{}}
{"id":"4","name":"größe","arguments":"{"}
{"id":"5","name":"größe","arguments":{}}
"#,
    );
    let arguments = ["hydrate", "--tools", "tools.jsonl", "--calls", "calls.jsonl"];
    let lines = place.run(&[&arguments[..], &["--json"]].concat()).expect(1).lines();
    assert_eq!(lines.len(), 5);
    assert_eq!(keys(&lines[0]), "arguments errors id name provenance success");
    assert_eq!(lines[0]["arguments"], json!({"a": 1}));
    assert_eq!(lines[0]["success"], true);
    assert_eq!(lines[0]["provenance"]["name_mapping"]["tool_id"], "t1");
    for (line, stage, code, path) in [
        (1, "validate", "type", "/b"),
        (2, "lookup", "ambiguous_tool", "/"),
        (3, "parse", "invalid_json", "/"),
    ] {
        let error = &lines[line]["errors"][0];
        assert_eq!(error["stage"], stage);
        assert_eq!(error["code"], code);
        assert_eq!(error["path"], path);
        assert_eq!(lines[line]["arguments"], json!(null));
    }
    let listed = lines[2]["errors"][0]["message"].as_str().unwrap();
    assert!(listed.contains("t1") && listed.contains("t2"), "{listed}");
    assert_eq!(lines[4]["success"], true);
    let people = place.run(&arguments).expect(1);
    assert!(people.stdout.contains("validate: /b: expected an integer, found the string \"x\""));
    assert!(people.stderr.contains("5 calls, 3 refused"), "{}", people.stderr);
}

#[test]
fn calls_of_tools_without_a_schema_are_accepted_as_the_mode_says() {
    let place = Workspace::empty();
    let reads = r#"{"name":"look","annotations":{"readOnlyHint":true}}"#;
    place.write("tools.json", format!(r#"[{reads},{{"name":"change"}}]"#));
    place.write(
        "calls.jsonl",
        r#"{"id":"1","name":"look","arguments":{"a":1}}
{"id":"2","name":"change","arguments":{"b":2}}
"#,
    );
    let arguments = ["hydrate", "--tools", "tools.json", "--calls", "calls.jsonl", "--json"];
    for (mode, accepted) in [
        ("refuse", [false, false]),
        ("read-only", [true, false]),
        ("human-approval", [true, true]),
        ("full", [true, true]),
    ] {
        let with_mode = [&arguments[..], &["--no-schema", mode]].concat();
        let code = i32::from(accepted != [true, true]);
        let lines = place.run(&with_mode).expect(code).lines();
        let success: Vec<_> = lines.iter().map(|line| line["success"] == true).collect();
        assert_eq!(success, accepted, "{mode}: {lines:?}");
        for line in lines.iter().filter(|line| line["success"] == true) {
            assert_eq!(line["needs_approval"], true, "{mode}: {line}");
        }
    }
    // The default.
    let lines = place.run(&arguments).expect(1).lines();
    assert!(lines.iter().all(|line| line["success"] == false), "{lines:?}");
    let wrong = [&arguments[..], &["--no-schema", "all"]].concat();
    let refused = place.run(&wrong).expect(2);
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(text.contains("human-approval"), "{text}");
}

#[test]
fn hydrate_reads_the_replies_of_each_provider() {
    let place = Workspace::empty();
    place.write("tools.json", r#"{"tools":[{"name":"fs.read","inputSchema":{"type":"object"}}]}"#);
    for (from, reply) in [
        (
            "openai",
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"fs_read_8a61f454","arguments":"{}"}}]}}]}"#,
        ),
        (
            "openai",
            r#"{"output":[{"type":"function_call","call_id":"c","name":"fs_read_8a61f454","arguments":"{}"}]}"#,
        ),
        (
            "anthropic",
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"fs_read_8a61f454","input":{}}]}"#,
        ),
        (
            "ollama",
            r#"{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"fs.read","arguments":{}}}]},"done":true}"#,
        ),
    ] {
        place.write("reply.json", reply);
        let files = ["hydrate", "--tools", "tools.json", "--calls", "reply.json"];
        let lines = place.json(&[&files[..], &["--from", from, "--json"]].concat());
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["success"], true, "{lines:?}");
        assert_eq!(lines[0]["provenance"]["name_mapping"]["name"], "fs.read");
    }
}

#[test]
fn one_bad_tool_does_not_hide_the_others() {
    let place = Workspace::empty();
    place.write("tools.jsonl", "{\"name\":\"bad\",\"parameters\":{\"type\":\"array\"}}\n{\"name\":\"good\",\"parameters\":{\"type\":\"object\"}}\n");
    place.write("calls.jsonl", "{\"id\":\"1\",\"name\":\"good\",\"arguments\":{}}\n{\"id\":\"2\",\"name\":\"bad\",\"arguments\":{}}\n");
    let hydrate = ["hydrate", "--tools", "tools.jsonl", "--calls", "calls.jsonl"];
    let ran = place.run(&[&hydrate[..], &["--json"]].concat()).expect(1);
    let lines = ran.lines();
    assert_eq!(lines[0]["success"], true);
    assert_eq!(lines[1]["errors"][0]["code"], "bad_definition");
    assert!(ran.stderr.contains("expected a schema of an object"), "{}", ran.stderr);
    // The way out is green on a terminal.
    let ran = place.run(&[&["--color", "always"], &hydrate[..]].concat()).expect(1);
    assert!(ran.stderr.contains("\u{1b}[32mnote: "), "{}", ran.stderr);
}

#[test]
fn tools_are_linted_and_translated_without_a_store() {
    let place = Workspace::empty();
    place.write("tools.json", r#"[{"name":"weather","description":"W.","parameters":{"location":{"type":"string"},"required":["location"]}}]"#);
    let lines = place.run(&["tools", "lint", "tools.json", "--json"]).expect(1).lines();
    assert_eq!(lines[0]["findings"][0]["code"], "bare_properties");
    place.write("tools.json", r#"{"name":"a.b","description":"A.","input_schema":{"type":"object","properties":{"n":{"type":"integer"}}}}"#);
    let lines = place.json(&TRANSLATE);
    let function = &lines[0]["tool"]["function"];
    assert_eq!(function["strict"], true);
    assert_eq!(function["parameters"]["properties"]["n"]["type"], json!(["integer", "null"]));
    assert_eq!(function["name"], lines[0]["sent_name"]);
    let sent = place.ok(&["tools", "translate", "tools.json", "--to", "mcp"]);
    assert!(sent.starts_with(r#"{"name":"a.b","description":"A.","inputSchema":"#), "{sent}");
    place.run(&["tools", "translate", "tools.json", "--to", "elsewhere"]).expect(2);
}

#[test]
fn null_of_strict_mode_is_read_as_absent() {
    let place = Workspace::empty();
    place.write("tools.json", r#"{"name":"a.b","description":"A.","parameters":{"type":"object","properties":{"n":{"type":"integer"},"k":{"type":["string","null"]}}}}"#);
    // What a model answers to `tools translate --to openai --strict`.
    let lines = place.json(&TRANSLATE);
    let sent = lines[0]["sent_name"].as_str().unwrap();
    let call = json!({"id": "1", "name": sent, "arguments": r#"{"n":null,"k":null}"#});
    place.write("calls.jsonl", call.to_string());
    let hydrate = ["hydrate", "--tools", "tools.json", "--calls", "calls.jsonl", "--json"];
    let refused = place.run(&hydrate).expect(1).lines();
    assert_eq!(refused[0]["errors"][0]["path"], "/n");
    let lines = place.json(&[&hydrate[..], &["--strict", "openai"]].concat());
    assert_eq!(lines[0]["arguments"], json!({"k": null}));
    let provenance = &lines[0]["provenance"];
    assert_eq!(provenance["raw_arguments"], r#"{"n":null,"k":null}"#);
    assert_eq!(provenance["edits"][0]["profile"], "strict");
    assert_eq!(provenance["edits"][0]["path"], "/n");
    assert_eq!(provenance["name_mapping"]["received"], sent);
    assert_eq!(provenance["name_mapping"]["sent"], provenance["definition"]);
    // Anthropic's takes what may be absent, so null is as wrong as ever.
    place.run(&[&hydrate[..], &["--strict", "anthropic"]].concat()).expect(1);
}
