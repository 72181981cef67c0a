use crate::support::{Place, bundled, data, text};

#[test]
fn importing_again_changes_nothing() {
    let place = Place::new();
    let files = [bundled("conversations.jsonl"), bundled("anthropic.json")];
    let arguments = ["import", "--json", text(&files[0]), text(&files[1])];
    let first = place.json(&arguments);
    assert_eq!(first.len(), 4);
    for line in &first {
        assert_eq!(line["status"], "created", "{line}");
        let mut keys: Vec<&String> = line.as_object().expect("an object").keys().collect();
        keys.sort_unstable();
        assert_eq!(keys, ["anomalies", "branch", "commits", "id", "reused", "status"]);
    }
    // Both conversations of the workshop begin with the same instructions and tools.
    assert_eq!(first[1]["reused"], 2);
    let stats = place.json(&["stats", "--json"]);
    for line in place.json(&arguments) {
        assert_eq!(line["status"], "unchanged", "{line}");
        assert_eq!(line["reused"], line["commits"], "{line}");
    }
    let again = place.json(&["stats", "--json"]);
    assert_eq!(stats[0]["ref_moves"], again[0]["ref_moves"]);
    assert_eq!(stats[0]["commits"], again[0]["commits"]);
    place.is_clean();
}

#[test]
fn bad_lines_are_named_and_the_others_are_imported() {
    let place = Place::new();
    let good = r#"{"id":"a/b c","messages":[{"role":"user","content":"Hi"}]}"#;
    let mut file = Vec::new();
    for line in [
        good.as_bytes(),
        b"{\"id\":\"broken\"",
        b"",
        b"[1,2",
        b"{\"id\":\"types\",\"messages\":[{\"role\":\"user\",\"content\":7}]}",
        b"{\"hello\":1}",
        b"{\"id\":\"bytes\",\"messages\":\"\xff\xfe\"}",
        br#"{"messages":[{"role":"user","content":"nameless"}]}"#,
    ] {
        file.extend_from_slice(line);
        file.push(b'\n');
    }
    place.write("mixed.jsonl", file);
    let ran = place.run(&["import", "--json", "mixed.jsonl"]).expect(1);
    let lines = ran.lines();
    let refused: Vec<i64> = lines
        .iter()
        .filter(|line| line["error"].is_object())
        .filter_map(|l| l["line"].as_i64())
        .collect();
    assert_eq!(refused, [2, 4, 5, 6, 7], "{lines:?}");
    let branches: Vec<&str> = lines.iter().filter_map(|line| line["branch"].as_str()).collect();
    assert_eq!(branches, ["a-b-c", "mixed-8"]);
    let wrong_type = lines.iter().find(|line| line["line"] == 5).expect("line 5");
    let message = wrong_type["error"]["message"].as_str().expect("a message");
    assert!(message.contains("messages[0].content"), "{message}");
    // People read the same on stderr.
    let people = place.run(&["import", "mixed.jsonl"]).expect(1);
    assert!(people.stderr.contains("line 7: error[not_utf8]"), "{people:?}");
    place.is_clean();
}

#[test]
fn anomalies_are_listed_with_their_line() {
    let place = Place::new();
    let orphan = r#"{"id":"ok","messages":[{"role":"user","content":"Hi"}]}
{"id":"odd","messages":[{"role":"user","content":"Hi"},{"role":"tool","tool_call_id":"x","content":"?"}]}
"#;
    let ran = place.feed(&["import", "--anomalies", "-"], orphan.as_bytes()).expect(0);
    assert!(ran.stdout.contains("line 2: odd: messages[1]"), "{ran:?}");
    assert!(ran.stdout.contains("1 anomaly in 1 conversation"), "{ran:?}");
}

#[test]
fn a_branch_that_stands_elsewhere_is_left_alone() {
    let place = Place::new();
    let chat = |texts: &[&str]| {
        let messages: Vec<String> =
            texts.iter().map(|t| format!(r#"{{"role":"user","content":"{t}"}}"#)).collect();
        format!(r#"{{"id":"chat","messages":[{}]}}"#, messages.join(","))
    };
    let import = |texts: &[&str]| {
        let ran = place.feed(&["import", "--json", "-"], chat(texts).as_bytes()).expect(0);
        ran.lines()[0]["status"].as_str().expect("a status").to_owned()
    };
    assert_eq!(import(&["a"]), "created");
    assert_eq!(import(&["a", "b"]), "forwarded");
    let head = place.id("chat");
    assert_eq!(import(&["a", "c"]), "diverged");
    assert_eq!(place.id("chat"), head);
}

#[test]
fn a_document_over_several_lines_is_one_conversation() {
    let place = Place::new();
    place.write(
        "one.json",
        "{\n  \"messages\": [\n    {\"role\": \"user\", \"content\": \"Hi\"}\n  ]\n}\n",
    );
    let lines = place.json(&["import", "--json", "one.json"]);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["id"], "one-1");
}

#[test]
fn the_format_can_be_named() {
    let place = Place::new();
    place.write("bare.json", r#"{"messages":[{"role":"user","content":"Hi"}],"max_tokens":5}"#);
    place.ok(&["import", "--format", "anthropic", "bare.json"]);
    let form = place.json(&["show", "bare-1", "--json"]);
    assert_eq!(form[0]["record"]["form"], "anthropic-1");
    place.refused(&["import", "--format", "python-tract", "bare.json"], 1, "no_python_tract", "");
    place.run(&["import", "--format", "yaml", "bare.json"]).expect(2);
}

/// All recorded conversations: in, verified, and out as they were.
#[test]
fn recorded_conversations_come_back_as_they_were() {
    let place = Place::new();
    let mut branches = Vec::new();
    let mut recorded = Vec::new();
    let mut read = std::collections::BTreeSet::new();
    for file in ["openhands", "swe_agent", "cassette_conversations"] {
        let path = data(&format!("trajectories/{file}.jsonl"));
        if !read.insert(path.clone()) {
            continue;
        }
        let lines = place.json(&["import", "--json", text(&path)]);
        branches.extend(lines.iter().filter_map(|l| l["branch"].as_str().map(str::to_owned)));
        let file = std::fs::read_to_string(&path).expect("it is read");
        recorded
            .extend(file.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()));
    }
    assert_eq!(branches.len(), recorded.len());
    for (branch, line) in branches.iter().zip(&recorded) {
        let compiled = place.json(&["compile", branch, "--to", "openai"]);
        assert_eq!(compiled[0], line["messages"], "{branch}");
        let tools = place.json(&["tools", "of", branch, "--json"]);
        let expected = line["tools"].as_array().cloned().unwrap_or_default();
        assert_eq!(tools[0].as_array(), Some(&expected), "{branch}");
    }
    place.is_clean();
}
