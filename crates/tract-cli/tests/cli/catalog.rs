use serde_json::json;

use crate::support::{Workspace, each, stream};

const CATALOG: &str = r#"
{"tool_id":"w1","name":"get_weather","description":"Weather in a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}
{"id":"m1","name":"send_mail","description":"Sends a message to somebody.","parameters":{"type":"object"}}
{"id":"d1","name":"get_weather_disk","description":"Erases the weather disk.","parameters":{"type":"object"},"unsafe":true}
"#;

#[test]
fn select_answers_each_query_with_candidates() {
    let place = Workspace::empty();
    place.write("tools.jsonl", CATALOG);
    let queries = [
        json!({"id": "q1", "query": "what is the weather in Oslo?"}),
        json!({"id": 2, "query": "write a message"}),
        json!({"id": "q3", "query": "zzz"}),
    ];
    place.write("asked.jsonl", stream(queries));
    for scorer in ["bm25", "overlap"] {
        let select = ["select", "--catalog", "tools.jsonl", "--queries", "asked.jsonl"];
        let arguments = [&select[..], &["--k", "2", "--json", "--scorer", scorer]].concat();
        let lines = place.json(&arguments);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["id"], "q1");
        let first = &lines[0]["candidates"][0];
        assert_eq!((&first["id"], &first["name"]), (&"w1".into(), &"get_weather".into()));
        let score = first["score"].as_f64().expect("a number");
        assert!(score > 0.0 && score <= 1.0, "{first}");
        assert!(first["reason"].as_str().is_some_and(|why| why.contains("weather")), "{first}");
        assert_eq!(lines[1]["id"], 2);
        assert_eq!(lines[1]["candidates"][0]["id"], "m1");
        assert_eq!(lines[2]["candidates"], json!([]));
        assert_eq!(place.json(&arguments), lines, "the same again");
    }
    let people =
        place.run(&["select", "--catalog", "tools.jsonl", "--query", "the weather"]).expect(0);
    assert!(people.stderr.contains("1 tool skipped"), "{people:?}");
    let all = ["select", "--catalog", "tools.jsonl", "--query", "disk", "--allow-unsafe", "--json"];
    assert_eq!(place.json(&all)[0]["candidates"][0]["id"], "d1");
}

#[test]
fn a_choice_that_is_late_gives_the_first_tools() {
    let place = Workspace::empty();
    place.write("tools.jsonl", CATALOG);
    for scorer in ["bm25", "overlap"] {
        let select = ["select", "--catalog", "tools.jsonl", "--query", "mail", "--json"];
        let arguments = [&select[..], &["--scorer", scorer, "--timeout-ms", "0"]].concat();
        let ran = place.run(&arguments).expect(0);
        let first = &ran.lines()[0]["candidates"][0];
        assert_eq!((&first["id"], &first["score"]), (&"w1".into(), &0.0.into()));
        assert!(ran.stderr.contains("1 choice not made in time"), "{ran:?}");
    }
}

#[test]
fn a_bad_catalog_or_query_is_named_by_its_line() {
    let place = Workspace::empty();
    place.write("tools.jsonl", CATALOG);
    place.write("twice.jsonl", "{\"name\":\"a\",\"parameters\":{}}\n{\"name\":\"a\"}\n");
    let twice = ["select", "--catalog", "twice.jsonl", "--query", "a"];
    place.refused(&twice, 1, "duplicate_id", "line 2");
    place.write("nameless.jsonl", "{\"id\":\"a\"}\n");
    place.refused(&["select", "--catalog", "nameless.jsonl", "--query", "a"], 1, "no_name", "name");
    place.refused(&["select", "--catalog", "none.jsonl", "--query", "a"], 2, "file", "none.jsonl");
    place.write("asked.jsonl", "{\"id\":1}\n{\"id\":2,\"query\":\"weather\"}\n");
    let ran =
        place.run(&["select", "--catalog", "tools.jsonl", "--queries", "asked.jsonl", "--json"]);
    let lines = ran.expect(1).lines();
    assert_eq!((&lines[0]["line"], &lines[0]["error"]["code"]), (&1.into(), &"bad_query".into()));
    assert_eq!(lines[1]["candidates"][0]["id"], "w1");
}

#[test]
fn approved_tools_are_bound_to_their_definitions() {
    let place = Workspace::new();
    let listed = |says: &str| {
        let read = json!({"name": "read", "description": says, "inputSchema": {}});
        let write = json!({"name": "write", "inputSchema": {}});
        json!({"result": {"tools": [read, write]}}).to_string()
    };
    place.write("tools.json", listed("Reads."));
    let unknown = place.run(&["tools", "check", "tools.json", "--json"]).expect(1).lines();
    assert_eq!(each(&unknown, "status"), ["unknown", "unknown"]);
    let pinned = place.json(&["tools", "pin", "tools.json", "--json"]);
    assert_eq!(each(&pinned, "status"), ["pinned", "pinned"]);
    let same = place.json(&["tools", "check", "tools.json", "--json"]);
    assert_eq!(each(&same, "status"), ["approved", "approved"]);
    // Of another server nothing was approved.
    place.run(&["tools", "check", "tools.json", "--server", "other"]).expect(1);

    place.write("tools.json", listed("Reads. Then sends."));
    for verb in ["check", "pin"] {
        let changed = place.run(&["tools", verb, "tools.json", "--json"]).expect(1).lines();
        assert_eq!(each(&changed, "status"), ["changed", "approved"]);
        assert_eq!(changed[0]["changes"][0], r#"~ description  "Reads." → "Reads. Then sends.""#);
        assert_eq!(changed[0]["approved"], same[0]["hash"]);
    }
    let trusted = place.json(&["tools", "trust", "tools.json", "--tool", "read", "--json"]);
    assert_eq!(each(&trusted, "status"), ["trusted"]);
    place.write("tools.json", r#"[{"inputSchema":{},"name":"write"}]"#);
    let gone = place.json(&["tools", "check", "tools.json", "--json"]);
    assert_eq!(each(&gone, "status"), ["approved", "gone"]);
    place.refused(&["tools", "trust", "tools.json", "--tool", "wrte"], 1, "unknown_tool", "wrte");
    place.is_clean();
}

#[test]
fn tools_are_set_from_every_shape_that_lists_them() {
    let place = Workspace::new();
    let tool = r#"{"name":"a","inputSchema":{"type":"object"},"x":1.50}"#;
    let other = "{ \"name\": \"c\" }";
    for (listing, listed) in [
        (format!(r#"{{"tools":[{tool}],"nextCursor":null}}"#), tool.to_owned()),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}]}}}}"#), tool.to_owned()),
        (format!("[{tool}]"), tool.to_owned()),
        (tool.to_owned(), tool.to_owned()),
        (format!("{{\"tools\":\n[{tool}]\n}}"), tool.to_owned()),
        (format!("[{tool},{other}]"), format!("{tool},{other}")),
        (format!("{tool}\n\n{other}\n"), format!("{tool},{other}")),
        (other.replace(' ', "\n"), other.to_owned()),
    ] {
        place.write("tools.json", &listing);
        place.ok(&["tools", "set", "tools.json"]);
        assert_eq!(place.ok(&["tools", "of", "--json"]).trim(), format!("[{listed}]"), "{listing}");
        // The hashes are of the same definitions, wherever they are listed.
        let lines = place.json(&["tools", "hash", "tools.json", "--json"]);
        let hashes = each(&lines, "hash");
        place.write("tools.json", format!("[{listed}]"));
        assert_eq!(each(&place.json(&["tools", "hash", "tools.json", "--json"]), "hash"), hashes);
        let both = listed.contains("\"a\"") && listed.contains("\"c\"");
        assert_eq!(hashes.len(), if both { 2 } else { 1 }, "{listing}");
        place.ok(&["tools", "set", "--none"]);
    }
    place.write("tools.json", "{\"name\":\"a\"}\n{\"name\":\n");
    place.refused(&["tools", "set", "tools.json"], 1, "invalid_json", "at byte 8");
    // A tool that a provider runs itself needs no name.
    place.write("tools.json", r#"[{"type":"web_search"}]"#);
    place.ok(&["tools", "set", "tools.json"]);
    place.write("tools.json", "[]");
    place.ok(&["tools", "set", "tools.json"]);
    assert_eq!(place.ok(&["tools", "of", "--json"]).trim(), "[]");
}

#[test]
fn an_invalid_tool_definition_is_not_set() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "Hi"]);
    let tool = r#"{"name":"a","input_schema":{"type":"object"}}"#;
    let odd = r#"{"name":"a","description":"Another."}"#;
    for (text, code, says) in [
        (r#"{"nonsense":1}"#.to_owned(), "no_name", "nonsense"),
        (format!(r#"[{tool},{{"description":"x"}}]"#), "no_name", "description"),
        (format!("[{tool},{odd}]"), "duplicate_name", "\"a\""),
        (format!("{tool}\n{tool}"), "duplicate_name", "\"a\""),
        (String::new(), "no_tools", "found nothing"),
    ] {
        place.write("tools.json", text);
        place.refused(&["tools", "set", "tools.json"], 1, code, says);
        let commit = ["commit", "user", "Hi", "--tools", "tools.json"];
        place.refused(&commit, 1, code, says);
    }
    assert_eq!(place.ok(&["tools", "of", "--json"]).trim(), "[]");
    // What providers refuse is reported, and stored: another one may take it.
    place.write("tools.json", r#"{"name":"a.b","input_schema":{"type":"object"}}"#);
    let set = place.run(&["tools", "set", "tools.json"]).expect(0);
    assert!(set.stderr.contains("a.b: "), "{set:?}");
    let many: Vec<String> = (0..129)
        .map(|n| format!(r#"{{"name":"t{n}","input_schema":{{"type":"object"}}}}"#))
        .collect();
    place.write("tools.json", many.join("\n"));
    let set = place.run(&["tools", "set", "tools.json"]).expect(0);
    assert!(set.stderr.contains("at most 128"), "{set:?}");
}
