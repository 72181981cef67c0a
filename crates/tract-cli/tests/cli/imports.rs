use crate::support::{Workspace, bundled, data, each, keys, list, sessions, text};

#[test]
fn importing_again_changes_nothing() {
    let place = Workspace::new();
    let files = [bundled("conversations.jsonl"), bundled("anthropic.json")];
    let arguments = ["import", "--json", text(&files[0]), text(&files[1])];
    let first = place.json(&arguments);
    assert_eq!(first.len(), 4);
    for line in &first {
        assert_eq!(line["status"], "created", "{line}");
        assert_eq!(keys(line), "anomalies branch commits id reused status");
    }
    // Both conversations of the workshop begin with the same instructions and tools.
    assert_eq!(first[1]["reused"], 2);
    place.imports_nothing_new(&arguments);
    place.is_clean();
}

#[test]
fn empty_main_names_the_other_branches() {
    let place = Workspace::new();
    for (verb, things) in [("cat", "messages"), ("log", "commits")] {
        let ran = place.run(&[verb]).expect(0);
        let start = "tract commit user \"Hello\", or tract import FILE";
        assert_eq!(ran.stderr, format!("no {things} yet; {start}\n"));
    }
    place.ok(&["commit", "user", "Hi"]);
    place.ok(&["branch", "b"]);
    place.ok(&["branch", "a"]);
    place.ok(&["undo"]);
    let says = |verb: &str, expected: &str| {
        let ran = place.run(&[verb]).expect(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.trim_end()), ("", expected));
    };
    let here = "here yet; other branches have some";
    says("cat", &format!("no messages {here}: tract cat a, tract cat b"));
    for name in ["c", "e", "d"] {
        place.ok(&["branch", name, "--from", "a"]);
    }
    let more = "and 2 more (tract branch lists them)";
    says("cat", &format!("no messages {here}: tract cat a, tract cat b, tract cat c, {more}"));
    says("log", &format!("no commits {here}: tract log a, tract log b, tract log c, {more}"));
    assert_eq!(place.run(&["cat", "--json"]).expect(0).stderr, "");
}

#[test]
fn bad_lines_are_named_and_the_others_are_imported() {
    let place = Workspace::new();
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
    let lines = place.run(&["import", "--json", "mixed.jsonl"]).expect(1).lines();
    let refused: Vec<i64> = lines
        .iter()
        .filter(|line| line["error"].is_object())
        .filter_map(|l| l["line"].as_i64())
        .collect();
    assert_eq!(refused, [2, 4, 5, 6, 7], "{lines:?}");
    let branches = each(&lines, "branch");
    assert!(branches[0].starts_with("a-b-c-"), "{branches:?}");
    assert_eq!(branches[1], "mixed-8");
    let wrong_type = lines.iter().find(|line| line["line"] == 5).expect("line 5");
    let message = wrong_type["error"]["message"].as_str().expect("a message");
    assert!(message.contains("messages[0].content"), "{message}");
    // People read the same on stderr.
    let people = place.run(&["import", "mixed.jsonl"]).expect(1);
    assert!(people.stderr.contains("line 2: error[invalid_json]"), "{people:?}");
    place.is_clean();
}

#[test]
fn lines_refused_for_one_reason_are_counted_after_the_first() {
    let place = Workspace::new();
    let mut noise = b"{}\n".repeat(386);
    noise.extend_from_slice(b"{\n{\n");
    let people = place.feed(&["import", "-"], &noise).expect(1);
    assert_eq!(people.stderr.matches(": error[unknown_format]: ").count(), 5, "{people:?}");
    assert_eq!(people.stderr.matches(": error[invalid_json]: ").count(), 2, "{people:?}");
    let rest = "\n… and 381 more lines refused for the same reason: error[unknown_format]\n";
    assert!(people.stderr.ends_with(rest), "{people:?}");
    assert!(people.stdout.ends_with("\n388 lines refused\n"), "{people:?}");
    let lines = place.feed(&["import", "--json", "-"], &noise).expect(1).lines();
    assert_eq!(lines.len(), 388, "scripts read of each line");
    // A file that has nothing else is refused as a whole.
    place.write("noise.bin", &noise);
    let says = "noise.bin is not read: it is a JSON object with no members, and more lines";
    place.refused(&["import", "noise.bin"], 1, "unknown_format", says);
}

#[test]
fn files_that_no_reader_takes_are_refused_in_one_message_each() {
    let place = Workspace::empty();
    place.write("boats.json", r#"[{"parts":[{"kind":"boat","name":"Gull"}]}]"#);
    place.write("blocks.json", r#"[{"role":"user","additional_kwargs":{},"blocks":[]}]"#);
    place.write("letter.txt", "Dear Ada,\nhello.\n".repeat(50));
    let other = rusqlite::Connection::open(place.path("songs.db")).expect("a database");
    other.execute_batch("CREATE TABLE songs (title TEXT)").expect("a table");
    drop(other);
    for (name, says) in [
        ("boats.json", "first element has the member \"parts\""),
        ("blocks.json", "messages of LlamaIndex"),
        ("letter.txt", "a text that is not JSON"),
        ("songs.db", "the table \"songs\""),
        (".", "a folder"),
    ] {
        place.refused(&["import", name, "--store", "sqlite:new.db"], 1, "unknown_format", says);
        let ran = place.run(&["import", name, "--store", "sqlite:new.db"]);
        assert!(ran.stderr.lines().count() <= 4, "{ran:?}");
    }
    assert!(!place.path("new.db").exists(), "no store is made");
    // The others are imported all the same.
    let place = Workspace::new();
    place.write("chat.jsonl", r#"{"id":"chat","messages":[{"role":"user","content":"Hi"}]}"#);
    place.write("boats.json", r#"[{"parts":[{"kind":"boat"}]}]"#);
    let ran = place.run(&["import", "boats.json", "chat.jsonl"]).expect(1);
    assert_eq!(ran.stderr.matches("error[").count(), 1, "{ran:?}");
    assert!(place.ok(&["branch"]).contains("chat"));
}

#[test]
fn a_message_without_content_is_imported_with_an_anomaly() {
    let place = Workspace::new();
    let text = r#"{"messages":[{"role":"user","content":"Hi"},{"role":"user","text":"Where?"}]}"#;
    place.write("chat.json", text);
    let ran = place.run(&["import", "--anomalies", "chat.json"]).expect(0);
    let says = r#"message without content; members that are not read: "text""#;
    assert!(ran.stdout.contains(says), "{ran:?}");
}

#[test]
fn sessions_and_chat_files_of_one_command_are_all_imported() {
    let chat = r#"{"id":"chat","messages":[{"role":"user","content":"Hi"}]}"#;
    let session = sessions("swe-agent/hull.traj");
    let place = Workspace::new();
    place.write("chat.jsonl", chat);
    let lines = place.json(&["import", "--json", "chat.jsonl", text(&session)]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!((&lines[0]["session"], &lines[2]["branch"]), (&"hull".into(), &"chat".into()));

    // What cannot be read is reported, and keeps nothing else out.
    let place = Workspace::new();
    place.write("chat.jsonl", chat);
    place.write("broken.eval", b"PK\x03\x04 no zip");
    let arguments = ["import", "--json", "broken.eval", "chat.jsonl", text(&session)];
    let lines = place.run(&arguments).expect(1).lines();
    assert!(lines.iter().any(|line| line["file"] == "broken.eval" && line["error"].is_object()));
    let branches = place.ok(&["branch"]);
    assert!(branches.contains("swe-agent/hull") && branches.contains("chat"), "{branches}");

    // A line of the chat that is refused, and one file that is not there.
    place.write("chat.jsonl", format!("{chat}\n{{\n"));
    place.run(&["import", "chat.jsonl", text(&session)]).expect(1);
    let empty = Workspace::empty();
    let missing = ["import", text(&session), "missing.jsonl", "--store", "sqlite:new.db"];
    let ran = empty.run(&missing).expect(2);
    assert!(ran.stderr.contains("missing.jsonl"), "{ran:?}");
    assert!(!empty.path("new.db").exists(), "no store is made");
    place.is_clean();
}

#[test]
fn anomalies_are_listed_with_their_line() {
    let place = Workspace::new();
    let orphan = r#"{"id":"ok","messages":[{"role":"user","content":"Hi"}]}
{"id":"odd","messages":[{"role":"user","content":"Hi"},{"role":"tool","tool_call_id":"x","content":"?"}]}
"#;
    let ran = place.feed(&["import", "--anomalies", "-"], orphan.as_bytes()).expect(0);
    assert!(ran.stdout.contains("line 2: odd: messages[1]"), "{ran:?}");
    assert!(ran.stdout.contains("1 anomaly in 1 conversation"), "{ran:?}");
}

#[test]
fn a_diverged_branch_is_left_alone() {
    let place = Workspace::new();
    let import = |texts: &[&str], exit: i32| {
        let ran =
            place.feed(&["import", "--json", "-"], chat("chat", texts).as_bytes()).expect(exit);
        ran.lines()[0]["status"].as_str().expect("a status").to_owned()
    };
    assert_eq!(import(&["a"], 0), "created");
    assert_eq!(import(&["a", "b"], 0), "forwarded");
    let head = place.id("chat");
    // What has no branch in the end is not a success.
    assert_eq!(import(&["a", "c"], 1), "diverged");
    assert_eq!(place.id("chat"), head);
    // An older state of the conversation is part of the branch.
    assert_eq!(import(&["a"], 0), "unchanged");
    assert_eq!(place.id("chat"), head);
}

#[test]
fn a_document_over_several_lines_is_one_conversation() {
    let place = Workspace::new();
    let chat = "{\n  \"messages\": [\n    {\"role\": \"user\", \"content\": \"Hi\"}\n  ]\n}\n";
    place.write("one.json", chat);
    let lines = place.json(&["import", "--json", "one.json"]);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["id"], "one-1");
}

#[test]
fn the_format_can_be_named() {
    let place = Workspace::new();
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
    let place = Workspace::new();
    let mut branches = Vec::new();
    let mut recorded = Vec::new();
    let mut read = std::collections::BTreeSet::new();
    for file in ["openhands", "swe_agent", "cassette_conversations"] {
        let path = data(&format!("trajectories/{file}.jsonl"));
        if !read.insert(path.clone()) {
            continue;
        }
        let lines = place.json(&["import", "--json", text(&path)]);
        branches.extend(each(&lines, "branch").into_iter().map(str::to_owned));
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

/// A conversation in which the user says these texts.
fn chat(id: &str, texts: &[&str]) -> String {
    let messages = texts.iter().map(|text| serde_json::json!({"role": "user", "content": text}));
    serde_json::json!({"id": id, "messages": messages.collect::<Vec<_>>()}).to_string()
}

#[test]
fn ids_that_read_alike_keep_branches_of_their_own() {
    let ids = ["a b", "a-b", "a/b", "a  b", "..", "", "///", "HEAD", "ä b", "unnamed", "x.lock"];
    let lines: Vec<String> = ids.iter().map(|id| chat(id, &[&format!("I am {id:?}")])).collect();
    let place = Workspace::new();
    let import = || place.feed(&["import", "--json", "-"], lines.join("\n").as_bytes()).expect(0);
    let first = import().lines();
    let mut branches = each(&first, "branch");
    for (id, (line, branch)) in ids.iter().zip(first.iter().zip(&branches)) {
        assert_eq!(line["status"], "created", "{line}");
        let texts = place.json(&["compile", branch, "--to", "openai"]);
        assert_eq!(texts[0][0]["content"], format!("I am {id:?}"), "{line}");
    }
    // A name that needs no cleaning is the id itself.
    assert_eq!(branches[1], "a-b");
    assert!(branches[0].starts_with("a-b-"), "{branches:?}");
    branches.sort_unstable();
    branches.dedup();
    assert_eq!(branches.len(), ids.len(), "{branches:?}");
    for line in import().lines() {
        assert_eq!(line["status"], "unchanged", "{line}");
    }
    place.is_clean();
}

#[test]
fn a_branch_of_another_conversation_is_neither_forwarded_nor_taken() {
    let place = Workspace::new();
    let import = |chat: String| place.feed(&["import", "--json", "-"], chat.as_bytes()).expect(0);
    import(chat("first", &["Hi"]));
    // A branch that a person made where an imported conversation begins.
    place.ok(&["branch", "mine", "--from", "first"]);
    let head = place.id("mine");
    let lines = import(chat("mine", &["Hi", "more"])).lines();
    assert_eq!(place.id("mine"), head);
    assert_eq!(lines[0]["status"], "created");
    let branch = lines[0]["branch"].as_str().expect("a name").to_owned();
    assert!(branch.starts_with("mine-"), "{branch}");
    // The next time it is found there, and forwarded as its own.
    let lines = import(chat("mine", &["Hi", "more", "and more"])).lines();
    assert_eq!((&lines[0]["branch"], &lines[0]["status"]), (&branch.into(), &"forwarded".into()));
    assert_eq!(place.id("mine"), head);
}

#[test]
fn branches_that_older_versions_named_are_found_again() {
    let place = Workspace::new();
    // As versions before named it: cleaned, and nothing more.
    place.feed(&["import", "-"], chat("a-b", &["Hi"]).as_bytes()).expect(0);
    let stream = {
        let export = place.ok(&["export"]);
        let old = export
            .lines()
            .find(|line| line.contains("\\\"id\\\":\\\"a-b\\\""))
            .expect("the document");
        let text: serde_json::Value = serde_json::from_str(old).expect("JSON");
        let text = text["text"].as_str().expect("text");
        let new = text.replace("\"id\":\"a-b\"", "\"id\":\"a b\"");
        let seal = |text: &str| tract::core::Blob::seal(text.as_bytes().to_vec()).id().to_string();
        let line = serde_json::json!({"op": "blob", "id": seal(&new), "text": new}).to_string();
        export.replace(old, &line).replace(&seal(text), &seal(&new))
    };
    let other = Workspace::of(&stream);
    let lines =
        other.feed(&["import", "--json", "-"], chat("a b", &["Hi"]).as_bytes()).expect(0).lines();
    assert_eq!((&lines[0]["branch"], &lines[0]["status"]), (&"a-b".into(), &"unchanged".into()));
}

#[test]
fn a_format_that_would_lose_calls_is_refused() {
    let openai = r#"{"id":"o","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]}"#;
    let anthropic = r#"{"id":"a","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"ok"}]}]}"#;
    let responses = r#"{"id":"r","input":[{"role":"user","content":"Hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"ok"}]}"#;
    let legacy = r#"{"id":"l","messages":[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}]}"#;
    let ollama = r#"{"id":"m","messages":[{"role":"user","content":"Hi","images":["aGk="]},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_name":"f","content":"ok"}]}"#;
    for (text, format) in [
        (openai, "anthropic"),
        (openai, "responses"),
        (legacy, "anthropic"),
        (legacy, "ollama"),
        (anthropic, "openai"),
        (anthropic, "ollama"),
        (anthropic, "responses"),
        (responses, "openai"),
        (responses, "anthropic"),
        (ollama, "anthropic"),
        (ollama, "openai"),
    ] {
        let place = Workspace::new();
        let ran =
            place.feed(&["import", "--json", "--format", format, "-"], text.as_bytes()).expect(1);
        let lines = ran.lines();
        assert!(lines[0]["error"]["code"].is_string(), "{format}: {lines:?}");
        assert_eq!(place.json(&["branch", "--json"]).len(), 0, "{format}");
    }
    // The message says where, and what it looks like.
    let place = Workspace::new();
    let arguments = ["import", "--format", "anthropic", "-"];
    place.complains(&arguments, openai.as_bytes(), 1, "other_format", "messages[1].tool_calls");
    for (text, format) in [
        (openai, "openai"),
        (openai, "ollama"),
        (anthropic, "anthropic"),
        (responses, "responses"),
        (legacy, "openai"),
        (ollama, "ollama"),
    ] {
        Workspace::new().feed(&["import", "--format", format, "-"], text.as_bytes()).expect(0);
    }
}

#[test]
fn repeated_keys_of_a_recording_are_anomalies() {
    let place = Workspace::new();
    let chat = r#"{"id":"c","messages":[{"role":"user","content":"shown","content":"taken"},{"role":"assistant","content":"","tool_calls":[{"id":"x","type":"function","function":{"name":"f","name":"g","arguments":"{}"}}]}],"model":"a","model":"b"}"#;
    let lines = place.feed(&["import", "--json", "-"], chat.as_bytes()).expect(0).lines();
    let details: Vec<&str> =
        list(&lines[0]["anomalies"]).iter().filter_map(|a| a.as_str()).collect();
    let twice = || details.iter().filter(|line| line.contains("twice"));
    for at in ["messages[0]: ", "messages[1].tool_calls[0].function: ", "model"] {
        assert!(twice().any(|line| line.contains(at)), "{at}: {details:?}");
    }
    assert_eq!(twice().count(), 3, "{details:?}");
}

#[test]
fn damaged_text_in_a_request_is_replaced_and_reported() {
    let place = Workspace::new();
    let mut file = br#"{"id":"half","messages":[{"role":"user","content":"tree \ud83c"},"#.to_vec();
    file.extend_from_slice(b"{\"role\":\"assistant\",\"content\":\"caf\xe9\"}]}\n");
    place.write("half.jsonl", &file);
    let lines = place.json(&["import", "--json", "half.jsonl"]);
    let anomalies = lines[0]["anomalies"].as_array().expect("a list");
    assert_eq!(anomalies[0], "messages[0].content: an unpaired surrogate was replaced");
    assert_eq!(anomalies[1], "messages[1].content: invalid UTF-8 was replaced");
    let text = place.run(&["cat", "half"]).expect(0).stdout;
    assert!(text.contains("tree \u{fffd}") && text.contains("caf\u{fffd}"), "{text}");
    // UTF-16 is named as what it is.
    let wide: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write("wide.jsonl", &wide);
    let people = place.run(&["import", "wide.jsonl"]).expect(1);
    assert!(people.stderr.contains("UTF-16"), "{people:?}");
    let wider: Vec<u8> = "\u{feff}{}".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    place.write("wider.jsonl", &wider);
    let people = place.run(&["import", "wider.jsonl"]).expect(1);
    assert!(people.stderr.contains("iconv -f UTF-32"), "{people:?}");
}

#[test]
fn a_word_that_is_almost_a_tool_is_no_file() {
    let place = Workspace::new();
    for (word, tool) in
        [("claude", "claude-code"), ("gemini", "gemini-cli"), ("opencod", "opencode")]
    {
        place.refused(&["import", word], 2, "file", &format!("tract import {tool}`?"));
    }
    place.refused(&["import", "claude.json"], 2, "file", "check the path");
}

#[test]
fn messages_of_another_protocol_are_not_taken_for_geminis() {
    let place = Workspace::new();
    let message = r#"{"role":"user","parts":[{"kind":"text","text":"x"}],"messageId":"m"}"#;
    for list in [format!("[{message}]"), r#"[{"parts":[{"kind":"boat","text":"x"}]}]"#.to_owned()] {
        place.write("list.json", &list);
        let ran = place.run(&["import", "list.json"]).expect(1);
        assert!(ran.stderr.contains("parts"), "{ran:?}");
    }
}

#[test]
fn a_file_in_which_nothing_was_found_is_no_success() {
    let place = Workspace::new();
    place.write("empty.jsonl", "{\"type\":\"permission-mode\",\"sessionId\":\"s\"}\n");
    let people = place.run(&["import", "claude-code", "empty.jsonl"]).expect(1);
    assert!(people.stderr.contains("no conversation in empty.jsonl"), "{people:?}");
}

#[test]
fn a_conversation_without_messages_is_refused() {
    let place = Workspace::new();
    let tools = r#"[{"type":"function","function":{"name":"read"}}]"#;
    let large = format!(r#"{{"id":"large","metadata":"{}","messages":[]}}"#, "x".repeat(1 << 20));
    for (name, text) in [
        ("messages.json", r#"{"messages":[]}"#),
        ("id.json", r#"{"id":"a","messages":[]}"#),
        ("tools.json", &format!(r#"{{"model":"m","messages":[],"tools":{tools}}}"#)),
        ("contents.json", r#"{"contents":[]}"#),
        ("input.json", r#"{"model":"m","input":[]}"#),
        ("list.json", "[]"),
        ("request.json", r#"{"request":{"messages":[]},"response":{}}"#),
        ("large.json", &large),
    ] {
        place.write(name, text);
        let ran = place.run(&["import", name]).expect(1);
        assert!(ran.stderr.contains("error[no_messages]"), "{name}: {ran:?}");
        assert!(ran.stdout.contains("imported 0 conversations"), "{name}: {ran:?}");
    }
    // The others of a file are imported.
    let good = r#"{"id":"good","messages":[{"role":"user","content":"Hi"}]}"#;
    place.write("some.jsonl", format!("{}\n{good}\n", r#"{"id":"a","messages":[]}"#));
    let ran = place.run(&["import", "some.jsonl"]).expect(1);
    assert!(ran.stdout.contains("imported 1 conversation"), "{ran:?}");
    assert!(ran.stderr.contains("no_messages"), "{ran:?}");
}

#[test]
fn a_file_without_a_conversation_is_reported_with_its_name() {
    let place = Workspace::new();
    for (name, text) in [
        ("nothing.jsonl", ""),
        ("blank.jsonl", "\n\n"),
        ("empty.har", r#"{"log":{"version":"1.2","entries":[]}}"#),
        ("chats.json", r#"[{"uuid":"u","name":"n","chat_messages":[]}]"#),
        ("run.traj", r#"{"trajectory":[],"history":[]}"#),
    ] {
        place.write(name, text);
        let ran = place.run(&["import", name]).expect(1);
        assert!(ran.stderr.contains(&format!("no conversation in {name}")), "{ran:?}");
    }
    let good = r#"{"id":"good","messages":[{"role":"user","content":"Hi"}]}"#;
    place.write("good.jsonl", good);
    let ran = place.run(&["import", "nothing.jsonl", "good.jsonl"]).expect(0);
    assert!(ran.stderr.contains("no conversation in nothing.jsonl"), "{ran:?}");
    // In a folder, they are counted, and listed on demand.
    let line = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-06-01T10:00:00.000Z","message":{"role":"user","content":"Hi"}}"#;
    std::fs::create_dir(place.path("sessions")).expect("a folder");
    place.write("sessions/s.jsonl", format!("{line}\n"));
    place.write("sessions/empty.jsonl", "");
    place.write("sessions/head.jsonl", "{\"type\":\"permission-mode\",\"sessionId\":\"h\"}\n");
    let ran = place.run(&["import", "claude-code", "sessions", "--anomalies"]).expect(0);
    assert!(ran.stdout.contains("imported 1 session: 1 message"), "{ran:?}");
    assert!(ran.stdout.contains("2 sessions without messages"), "{ran:?}");
    for name in ["empty", "head"] {
        let file = format!("sessions/{name}.jsonl: ");
        let line = ran.stdout.lines().find(|line| line.starts_with(&file));
        assert!(line.is_some_and(|line| line.ends_with("has no messages")), "{ran:?}");
    }
}

#[test]
fn a_list_is_recognized_although_its_first_element_is_empty() {
    let place = Workspace::new();
    let turns = r#"[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello"}]"#;
    for (name, first, second, branch) in [
        (
            "share.json",
            r#"{"id":"a","conversations":[]}"#,
            &*format!(r#"{{"id":"b","conversations":{turns}}}"#),
            "dataset/b",
        ),
        (
            "claude.json",
            "null",
            r#"{"uuid":"u1","name":"n","chat_messages":[{"uuid":"m1","sender":"human","text":"Hi"}]}"#,
            "claude-ai/u1",
        ),
        (
            "chatgpt.json",
            r#"{"id":"broken","mapping":null}"#,
            r#"{"id":"c2","mapping":{"m":{"id":"m","parent":null,"children":[],"message":{"id":"m","author":{"role":"user"},"content":{"content_type":"text","parts":["Hi"]}}}},"current_node":"m"}"#,
            "chatgpt/c2",
        ),
    ] {
        place.write(name, format!("[{first},{second}]"));
        let ran = place.run(&["import", name]);
        assert!(ran.stdout.contains("imported 1 session"), "{name}: {ran:?}");
        assert!(place.ok(&["branch"]).contains(branch), "{name}");
    }
}

#[test]
fn every_whole_record_of_a_damaged_line_of_requests_is_imported() {
    let record = |id: &str| {
        format!(r#"{{"id":"{id}","messages":[{{"role":"user","content":"I am {id}."}}]}}"#)
    };
    let torn = r#"{"id":"torn","messages":[{"role":"user","con"#;
    for (line, ids, damage) in [
        (record("a") + &record("b"), &["a", "b"][..], "damaged line: 2 records in one line"),
        (
            record("a") + " " + &record("b") + &record("c"),
            &["a", "b", "c"],
            "damaged line: 3 records in one line",
        ),
        (
            record("a") + torn,
            &["a"],
            "damaged line: 1 record in the line, 44 bytes that are part of none",
        ),
        (
            torn.to_owned() + &record("b"),
            &["b"],
            "damaged line: 1 record in the line, 44 bytes that are part of none",
        ),
        ("\0\0\0".to_owned() + &record("a"), &["a"], "a control character was replaced"),
    ] {
        let place = Workspace::new();
        let file = format!("{}\n{line}\n{}\n", record("first"), record("last"));
        place.write("requests.jsonl", &file);
        let lines = place.json(&["import", "--json", "requests.jsonl"]);
        let expected: Vec<&str> = [&["first"], ids, &["last"]].concat();
        let found: Vec<&str> = lines.iter().filter_map(|line| line["id"].as_str()).collect();
        assert_eq!(found, expected, "{line}: {lines:?}");
        for id in expected {
            assert!(place.ok(&["cat", id]).contains(&format!("I am {id}.")));
        }
        let anomalies = lines[1]["anomalies"].to_string();
        assert!(anomalies.contains(damage), "{anomalies}");
        let people = place.run(&["import", "--anomalies", "requests.jsonl"]).expect(0);
        assert!(people.stdout.contains(damage), "{people:?}");
        place.imports_nothing_new(&["import", "requests.jsonl", "--json"]);
    }
    // Records without an id have names of their own, and the first line may be the damaged one.
    let place = Workspace::new();
    let record = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    place.write("r.jsonl", record("one") + &record("two") + "\n" + &record("three") + "\n");
    let lines = place.json(&["import", "--json", "r.jsonl"]);
    let ids: Vec<&str> = lines.iter().filter_map(|line| line["id"].as_str()).collect();
    assert_eq!(ids, ["r-1", "r-1-2", "r-2"]);
    // A line without a whole record is refused as it was.
    place.write("bad.jsonl", record("four") + "\n" + torn + "\n");
    place.run(&["import", "bad.jsonl"]).expect(1);
}

#[test]
fn threads_of_langgraph_without_messages_are_read_by_their_channels() {
    let place = Workspace::new();
    let database = rusqlite::Connection::open(place.path("state.db")).expect("a database");
    let table = "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,
        parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB)";
    database.execute_batch(table).expect("a table");
    let parent = |n: usize| (n > 1).then(|| format!("c{}", n - 1));
    for (n, values) in [
        (1, r#"{"question":"How deep is the lock?"}"#),
        (2, r#"{"question":"How deep is the lock?","llm_response":"4.2 m"}"#),
        (3, r#"{"question":"And the weir?","llm_response":"4.2 m"}"#),
    ] {
        let state = format!(r#"{{"ts":"2026-05-01T10:00:0{n}Z","channel_values":{values}}}"#);
        let row = (format!("c{n}"), parent(n), state.into_bytes());
        let sql = "INSERT INTO checkpoints VALUES ('t1', '', ?1, ?2, 'json', ?3, NULL)";
        database.execute(sql, row).expect("a row");
    }
    drop(database);
    let ran = place.run(&["import", "langgraph", "state.db"]);
    assert!(ran.stdout.contains("channels: llm_response, question"), "{ran:?}");
    assert!(ran.stdout.contains("--channel"), "{ran:?}");
    assert!(place.json(&["branch", "--json"]).iter().all(|b| b["branch"] != "langgraph/t1"));
    let arguments = ["import", "langgraph", "state.db", "--channel", "question"];
    let arguments = [&arguments[..], &["--channel", "llm_response:assistant"]].concat();
    place.ok(&arguments);
    let messages = place.json(&["cat", "langgraph/t1", "--json"]);
    let says: Vec<(&str, &str)> =
        each(&messages, "role").into_iter().zip(each(&messages, "text")).collect();
    let question = ("user", "How deep is the lock?");
    assert_eq!(says, [question, ("assistant", "4.2 m"), ("user", "And the weir?")]);
    place.sessions_bring_nothing(&[&["--json"], &arguments[..]].concat());
    place.write("a.jsonl", "{}\n");
    place.refused(
        &["import", "codex", "a.jsonl", "--channel", "question"],
        2,
        "usage",
        "LangGraph",
    );
}
