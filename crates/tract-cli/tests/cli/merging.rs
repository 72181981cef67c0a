use serde_json::Value;

use crate::support::{RunOutput, Workspace, list};

/// Two branches that edited the same message; the second has one more.
const STREAM: &str = r#"
{"op":"user","text":"question","mark":"q"}
{"op":"assistant","text":"answer"}
{"op":"branch","name":"side"}
{"op":"edit","target":":q","text":"our question"}
{"op":"checkout","name":"side"}
{"op":"edit","target":":q","text":"their question"}
{"op":"user","text":"and more"}
{"op":"checkout","name":"main"}
"#;

fn shown(place: &Workspace) -> Vec<String> {
    let messages = place.messages("HEAD", "messages");
    messages.iter().map(|message| message["content"].to_string()).collect()
}

#[track_caller]
fn shows(place: &Workspace, texts: &[&str]) {
    let shown = shown(place);
    assert_eq!(shown.len(), texts.len(), "{shown:?}");
    for (shown, text) in shown.iter().zip(texts) {
        assert!(shown.contains(text), "{shown} does not say {text}");
    }
}

#[test]
fn conflicts_are_printed_with_both_texts_and_numbers() {
    let place = Workspace::of(STREAM);
    let head = place.id("main");
    let ran = place.run(&["merge", "side"]).expect(1);
    for line in ["conflict: version of ", "ours #1", "our question", "theirs #1", "their question"]
    {
        assert!(ran.stderr.contains(line), "{line}: {}", ran.stderr);
    }
    assert_eq!(place.id("main"), head);
    place.refused(&["merge", "side"], 1, "merge_conflicts", "1 conflict");
}

#[test]
fn one_flag_resolves_every_conflict_and_one_undo_reverts_the_merge() {
    for (flag, texts) in [
        ("--ours", &["our question", "answer", "and more"][..]),
        ("--theirs", &["their question", "answer", "and more"]),
        ("--both", &["our question", "answer", "their question", "and more"]),
    ] {
        let place = Workspace::of(STREAM);
        place.ok(&["merge", "side", flag]);
        shows(&place, texts);
        let record = &place.json(&["show", "HEAD", "--json"])[0]["record"];
        let word = flag.trim_start_matches('-');
        assert_eq!(record["metadata"]["resolutions"][0]["resolution"], word, "{record}");
        place.ok(&["undo"]);
        shows(&place, &["our question", "answer"]);
        place.ok(&["verify"]);
    }
}

#[test]
fn a_dry_run_lists_the_conflicts_and_a_file_resolves_them() {
    let place = Workspace::of(STREAM);
    let head = place.id("main");
    let ran = place.run(&["merge", "side", "--dry-run", "--json"]).expect(1);
    let mut list = ran.lines().remove(0);
    assert_eq!(list["merged"], "conflicts");
    let conflict = &mut list["conflicts"][0];
    assert_eq!((&conflict["kind"], &conflict["our_number"]), (&"version".into(), &1.into()));
    assert_eq!(conflict["their_text"], "their question");
    conflict["text"] = "agreed".into();
    place.write("list.json", list.to_string());
    let would = &place.json(&["merge", "side", "--dry-run", "--resolve", "list.json", "--json"])[0];
    assert_eq!((&would["merged"], &would["commit"]), (&"commit".into(), &Value::Null));
    assert_eq!(place.id("main"), head);
    place.ok(&["merge", "side", "--resolve", "list.json"]);
    shows(&place, &["agreed", "answer", "and more"]);
    place.ok(&["undo"]);
    assert_eq!(place.id("main"), head);
}

#[test]
fn bad_resolutions_are_refused_and_the_branch_stays() {
    let place = Workspace::of(STREAM);
    let head = place.id("main");
    place.write("none.json", "[]");
    place.write("word.json", r#"[{"kind":"version","resolution":"mine"}]"#);
    place.write("text.json", r#"[{"kind":"version","resolution":"text"}]"#);
    place.write("two.json", r#"[{"resolution":"ours","text":"x"}]"#);
    let unused = r#"[{"kind":"version","resolution":"ours"},{"kind":"mark","resolution":"ours"}]"#;
    place.write("unused.json", unused);
    place.write("broken.json", "{");
    let merge = |file: &'static str| ["merge", "side", "--resolve", file];
    place.refused(&merge("none.json"), 1, "merge_conflicts", "1 conflict");
    place.refused(&merge("word.json"), 2, "usage", "unknown resolution \"mine\"");
    place.refused(&merge("text.json"), 2, "usage", "needs a \"text\"");
    place.refused(&merge("two.json"), 2, "usage", "takes no \"text\"");
    place.refused(&merge("unused.json"), 2, "usage", "resolution 2 of the file");
    place.refused(&merge("broken.json"), 2, "usage", "not a list of resolutions");
    place.refused(&merge("absent.json"), 2, "file", "absent.json");
    place.refused(&["merge", "nowhere"], 1, "unknown_revision", "nowhere");
    place.run(&["merge", "side", "--ours", "--theirs"]).expect(2);
    assert_eq!(place.id("main"), head);
}

#[test]
fn unrelated_histories_are_merged_only_when_asked_for() {
    let place = Workspace::of(STREAM);
    let chat = br#"{"id":"other","messages":[{"role":"user","content":"elsewhere"}]}"#;
    place.feed(&["import", "-", "--format", "openai"], chat).expect(0);
    place.refused(&["merge", "other"], 1, "unrelated", "no commit in common");
    place.ok(&["merge", "other", "--allow-unrelated"]);
    shows(&place, &["our question", "answer", "elsewhere"]);
}

/// Two conflicts: a text and a priority.
const TWO: &str = r#"
{"op":"user","text":"question","mark":"q"}
{"op":"assistant","text":"answer","mark":"a"}
{"op":"branch","name":"side"}
{"op":"edit","target":":q","text":"our question"}
{"op":"annotate","target":":a","priority":"pinned"}
{"op":"checkout","name":"side"}
{"op":"edit","target":":q","text":"their question"}
{"op":"annotate","target":":a","priority":"skip"}
{"op":"user","text":"and more"}
{"op":"checkout","name":"main"}
"#;

/// Keeps the merge of `side`, and returns its name.
fn kept(place: &Workspace) -> String {
    let document = &place.json(&["merge", "side", "--keep", "--json"])[0];
    assert_eq!((&document["merged"], &document["commit"]), (&"kept".into(), &Value::Null));
    document["id"].as_str().expect("a name").to_owned()
}

#[test]
fn a_kept_merge_is_decided_step_by_step_and_undone_step_by_step() {
    let place = Workspace::of(TWO);
    let head = place.id("main");
    let ran = place.run(&["merge", "side", "--keep"]).expect(0);
    assert!(ran.stdout.contains("0 of 2 conflicts decided"), "{ran:?}");
    assert!(ran.stdout.contains("open: ours, theirs, both, text"), "{ran:?}");
    assert!(ran.stderr.contains("their question"), "{ran:?}");
    place.ok(&["undo"]);
    assert_eq!(place.json(&["pending", "--json"]), [] as [Value; 0]);

    let id = kept(&place);
    assert_eq!(place.id("main"), head);
    assert_eq!(place.json(&["pending", "--json"])[0]["id"], id.as_str());
    let status = place.run(&["status"]).expect(0);
    assert!(status.stdout.contains("0 of 2 conflicts decided"), "{status:?}");
    assert!(status.stderr.contains(&format!("tract merge show {id}")), "{status:?}");
    let shown = &place.json(&["merge", "show", "m", "--json"])[0];
    let conflicts = list(&shown["conflicts"]);
    assert_eq!((conflicts.len(), &conflicts[0]["their_text"]), (2, &"their question".into()));
    assert_eq!(conflicts[1]["legal"], serde_json::json!(["ours", "theirs"]));

    let slot = conflicts[0]["slot"].as_str().expect("an id")[..10].to_owned();
    let text = ["merge", "resolve", &id, &slot, "--text", "agreed"];
    assert!(place.ok(&text).contains("1 of 2 conflicts decided"));
    let mark = conflicts[1]["slot"].as_str().expect("an id").to_owned();
    place.refused(&["merge", "resolve", &id, &mark, "both"], 1, "illegal_resolution", "both");
    place.refused(&["merge", "resolve", &id], 1, "merge_conflicts", "1 conflict");
    place.refused(&["pending", "approve", &id], 1, "merge_conflicts", "1 conflict");
    assert_eq!(place.id("main"), head);
    let done = &place.json(&["merge", "resolve", &id, "#2", "theirs", "--json"])[0];
    assert_eq!(done["merged"], "commit");
    shows(&place, &["agreed", "and more"]);
    let record = &place.json(&["show", "HEAD~1", "--json"])[0]["record"];
    assert_eq!(list(&record["metadata"]["resolutions"]).len(), 2, "{record}");
    place.refused(&["merge", "resolve", &id, "--ours"], 1, "already_decided", "resolve");
    place.ok(&["pending", "show", &id]);
    place.ok(&["verify"]);

    place.ok(&["undo"]);
    assert_eq!(place.id("main"), head);
    let shown = &place.json(&["merge", "show", &id, "--json"])[0];
    assert_eq!(shown["conflicts"][0]["text"], "agreed");
    place.ok(&["undo"]);
    let shown = &place.json(&["merge", "show", &id, "--json"])[0];
    assert_eq!(shown["conflicts"][0]["resolution"], Value::Null);
    place.ok(&["undo", "--redo"]);
    place.ok(&["undo", "--redo"]);
    shows(&place, &["agreed", "and more"]);
    place.ok(&["verify"]);
}

#[test]
fn a_file_or_a_flag_decides_what_is_open_and_new_conflicts_are_listed() {
    let place = Workspace::of(TWO);
    let id = kept(&place);
    place.ok(&["merge", "resolve", &id, "#1", "theirs"]);
    place.ok(&["edit", "HEAD#1", "our second question"]);
    let shown = &place.json(&["merge", "show", &id, "--json"])[0];
    assert_eq!(shown["conflicts"][0]["new"], true, "{shown}");
    assert_eq!(shown["outdated"].as_array().map(Vec::len), Some(1), "{shown}");
    let mut list = shown.clone();
    list["conflicts"][1]["resolution"] = "ours".into();
    place.write("list.json", list.to_string());
    place.ok(&["merge", "resolve", &id, "--resolve", "list.json"]);
    place.ok(&["merge", "resolve", &id, "--both"]);
    shows(&place, &["our second question", "answer", "their question", "and more"]);

    let place = Workspace::of(TWO);
    let id = kept(&place);
    let line = &place.json(&["merge", "abort", &id, "--reason", "not now", "--json"])[0];
    assert_eq!((&line["record"]["action"], &line["commit"]), (&"abort".into(), &Value::Null));
    place.refused(&["merge", "show", &id], 1, "already_decided", "abort");
    shows(&place, &["our question", "answer"]);
}

#[test]
fn of_two_processes_that_decide_one_merge_exactly_one_wins() {
    for _ in 0..8 {
        let place = Workspace::of(TWO);
        let id = kept(&place);
        let start = |side: &str| {
            let mut command = place.command(&["merge", "resolve", &id, side]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().expect("the binary starts")
        };
        let deciders = ["--ours", "--theirs"].map(start);
        let ends = deciders.map(|child| RunOutput::of(child.wait_with_output().expect("it ends")));
        let won = ends.iter().filter(|end| end.code == Some(0)).count();
        assert_eq!(won, 1, "{ends:?}");
        let lost = ends.iter().find(|end| end.code != Some(0)).expect("one lost");
        let says = |word: &str| lost.stderr.contains(&format!("error[{word}]"));
        assert!(says("already_decided") || says("conflict"), "{lost:?}");
        let first = if ends[0].code == Some(0) { "our question" } else { "their question" };
        assert!(shown(&place)[0].contains(first));
        place.ok(&["verify"]);
    }
}

/// What every verb that changes history refuses, with its code; nothing is written.
#[test]
fn bad_input_of_verbs_that_change_history_is_refused_and_the_store_is_unchanged() {
    let place = Workspace::of(TWO);
    let id = kept(&place);
    place.ok(&["merge", "abort", &id]);
    place.ok(&["commit", "user", "later"]);
    let head = place.id("main");
    place.write("other.json", r#"[{"kind":"summary","resolution":"ours"}]"#);
    let open = kept(&place);
    let before = place.ok(&["export"]);
    let log = place.json(&["status", "--json"]);
    let table: &[(&[&str], i32, &str)] = &[
        (&["merge", "nowhere"], 1, "unknown_revision"),
        (&["merge", "side", "--ours", "--both"], 2, ""),
        (&["merge", "side", "--keep", "--dry-run"], 2, ""),
        (&["merge", "side"], 1, "merge_conflicts"),
        (&["merge", "side", "--both"], 1, "illegal_resolution"),
        (&["merge"], 2, ""),
        (&["merge", "show", "m-none"], 1, "unknown_pending"),
        (&["merge", "show", &id], 1, "already_decided"),
        (&["merge", "resolve", &id, "--ours"], 1, "already_decided"),
        (&["merge", "abort", &id], 1, "already_decided"),
        (&["merge", "resolve", "m-none", "--ours"], 1, "unknown_pending"),
        (&["merge", "resolve", &open, "ffffffff", "ours"], 2, "usage"),
        (&["merge", "resolve", &open, "#9", "ours"], 2, "usage"),
        (&["merge", "resolve", &open, "#1"], 2, "usage"),
        (&["merge", "resolve", &open, "#1", "mine"], 2, ""),
        (&["merge", "resolve", &open, "#1", "ours", "--kind", "color"], 2, "usage"),
        (&["merge", "resolve", &open, "#1", "ours", "--theirs"], 2, ""),
        (&["merge", "resolve", &open, "#2", "both"], 1, "illegal_resolution"),
        (&["merge", "resolve", &open, "--resolve", "other.json"], 2, "usage"),
        (&["merge", "resolve", &open, "--resolve", "absent.json"], 2, "file"),
        (&["pending", "edit", &open, "text"], 1, "no_text"),
        (&["cherry-pick", "nowhere"], 1, "unknown_revision"),
        (&["cherry-pick", "side", "--onto", "absent"], 1, "unknown_revision"),
        (&["cherry-pick", "HEAD#1"], 1, "nothing_to_pick"),
        (&["rebase", "--onto", "nowhere"], 1, "unknown_revision"),
        (&["rebase", "absent", "--onto", "main"], 1, "unknown_revision"),
        (&["rebase", "--onto", "side"], 1, "replay_conflicts"),
        (&["rebase", "--onto", "side", "--plan", "absent"], 2, "file"),
        (&["drop", "nowhere"], 1, "unknown_revision"),
        (&["drop", "side"], 1, "not_in_range"),
        (&["insert", "--after", "nowhere", "user", "x"], 1, "unknown_revision"),
        (&["insert", "--after", "side", "user", "x"], 1, "not_in_range"),
        (&["insert", "--after", "HEAD", "song", "x"], 2, ""),
        (&["reset", "--to", "nowhere"], 1, "unknown_revision"),
        (&["reset", "--to", "HEAD~99"], 1, "bad_revision"),
    ];
    for (arguments, exit, code) in table {
        // What is no command line has no code.
        match *code {
            "" => drop(place.run(arguments).expect(*exit)),
            code => place.refused(arguments, *exit, code, ""),
        }
    }
    assert_eq!(place.id("main"), head);
    assert_eq!(place.ok(&["export"]), before);
    assert_eq!(place.json(&["status", "--json"]), log);
    place.ok(&["verify"]);
}

fn tool_names(place: &Workspace, revision: &str) -> Vec<String> {
    let tools = place.json(&["tools", "of", revision, "--json"]);
    let tools = tools[0].as_array().expect("a list").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn tools_of_one_commit_end_with_it_in_a_merge() {
    let set = |name: &str| {
        format!(
            r#"{{"op":"set_tools","tools":[{{"name":"{name}","input_schema":{{"type":"object"}}}}]}}"#
        )
    };
    let given = |text: &str, name: &str| {
        format!(
            r#"{{"op":"user","text":"{text}","tools":[{{"name":"{name}","input_schema":{{"type":"object"}}}}]}}"#
        )
    };
    let fork = r#"{"op":"branch","name":"side"}"#;
    let checkout = |name: &str| format!(r#"{{"op":"checkout","name":"{name}"}}"#);
    let plain = r#"{"op":"user","text":"plain"}"#;
    for (ours, theirs, expected) in [
        (given("ours", "b"), plain.to_owned(), "a"),
        (plain.to_owned(), given("theirs", "b"), "a"),
        (given("ours", "b"), given("theirs", "c"), "a"),
        (given("ours", "b"), set("c"), "c"),
        (set("c"), given("theirs", "b"), "c"),
    ] {
        let stream = [
            set("a"),
            plain.to_owned(),
            fork.to_owned(),
            ours.clone(),
            checkout("side"),
            theirs.clone(),
            checkout("main"),
        ];
        let place = Workspace::of(&stream.join("\n"));
        place.ok(&["merge", "side"]);
        assert_eq!(tool_names(&place, "HEAD"), [expected], "{ours} {theirs}");
        place.ok(&["commit", "user", "after"]);
        assert_eq!(tool_names(&place, "HEAD"), [expected], "{ours} {theirs}");
        place.is_clean();
    }
}

#[test]
fn no_tools_set_and_an_empty_set_do_not_conflict() {
    let empty = r#"{"op":"set_tools","tools":[]}"#;
    let plain = r#"{"op":"user","text":"plain"}"#;
    let some = r#"{"op":"set_tools","tools":[{"name":"a","input_schema":{"type":"object"}}]}"#;
    for (base, ours, theirs, expected) in [
        (plain, empty, plain, 0),
        (plain, plain, empty, 0),
        (plain, empty, some, 1),
        (plain, some, empty, 1),
        (some, empty, plain, 0),
    ] {
        let stream = [
            base,
            r#"{"op":"branch","name":"side"}"#,
            ours,
            plain,
            r#"{"op":"checkout","name":"side"}"#,
            theirs,
            plain,
            r#"{"op":"checkout","name":"main"}"#,
        ];
        let place = Workspace::of(&stream.join("\n"));
        place.ok(&["merge", "side"]);
        assert_eq!(tool_names(&place, "HEAD").len(), expected, "{base} {ours} {theirs}");
        place.is_clean();
    }
}

#[test]
fn a_revert_of_tools_takes_effect_or_is_refused() {
    let set = |name: &str| {
        format!(
            r#"{{"op":"set_tools","tools":[{{"name":"{name}","input_schema":{{"type":"object"}}}}]}}"#
        )
    };
    let stream = [r#"{"op":"user","text":"q"}"#.to_owned(), set("a"), set("b"), set("a")];
    let place = Workspace::of(&stream.join("\n"));
    let head = place.id("HEAD");
    // A later one set tools, even where it set the same.
    place.refused(&["revert", "HEAD~1"], 1, "superseded", &head[..8]);
    place.refused(&["revert", "HEAD~2"], 1, "superseded", &head[..8]);
    // All of them in any order.
    place.ok(&["revert", "HEAD~2", "HEAD~1", "HEAD"]);
    assert!(tool_names(&place, "HEAD").is_empty());
    place.ok(&["revert", "HEAD"]);
    assert_eq!(tool_names(&place, "HEAD"), ["a"]);
    place.ok(&["undo"]);
    place.ok(&["undo"]);
    place.ok(&["revert", "HEAD"]);
    assert_eq!(tool_names(&place, "HEAD"), ["b"]);
    place.refused(&["revert", "HEAD~1"], 1, "superseded", &place.id("HEAD")[..8]);
    // Setting what is set already changes nothing.
    place.feed(&["apply", "-"], set("b").as_bytes()).expect(0);
    place.refused(&["revert", "HEAD"], 1, "nothing_to_revert", "nothing to revert");
    place.is_clean();
}
