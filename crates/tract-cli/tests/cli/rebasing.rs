use serde_json::Value;

use crate::support::{Workspace, list};

/// Two branches that share one message; the second has a turn with a call.
const STREAM: &str = r#"
{"op":"user","text":"first","mark":"first"}
{"op":"branch","name":"side"}
{"op":"user","text":"on main"}
{"op":"checkout","name":"side"}
{"op":"assistant","text":"","tool_calls":[{"id":"k","name":"grep","arguments":{}}]}
{"op":"tool_result","call_id":"k","name":"grep","content":"found"}
{"op":"user","text":"thanks"}
"#;

fn texts(place: &Workspace, revision: &str) -> Vec<String> {
    let messages = place.messages(revision, "openai");
    messages.iter().map(|message| message["content"].as_str().unwrap_or("").to_owned()).collect()
}

#[test]
fn a_branch_is_rebased_and_one_undo_moves_it_back() {
    let place = Workspace::of(STREAM);
    let old = place.id("side");
    let plan = place.ok(&["rebase", "--onto", "main", "--dry-run"]);
    assert_eq!(plan.lines().filter(|line| line.starts_with("pick ")).count(), 3, "{plan}");
    assert_eq!(place.id("side"), old);
    let line = &place.json(&["rebase", "side", "--onto", "main", "--json"])[0];
    assert_eq!((&line["verb"], list(&line["made"]).len()), (&"rebase".into(), 3));
    assert_eq!(texts(&place, "side"), ["first", "on main", "", "found", "thanks"]);
    assert!(place.ok(&["rebase", "--onto", "main"]).contains("up to date"));
    place.ok(&["verify"]);
    place.ok(&["undo"]);
    assert_eq!(place.id("side"), old);
}

#[test]
fn an_edited_plan_is_carried_out() {
    let place = Workspace::of(STREAM);
    let plan = place.ok(&["rebase", "--onto", "main", "--dry-run"]);
    let last = plan.lines().last().unwrap();
    let plan = plan.replace(last, &format!("# {last}\ndrop {}", &last["pick ".len()..]));
    place.write("plan", format!("insert user before all\n{plan}"));
    place.ok(&["rebase", "--onto", "main", "--plan", "plan"]);
    assert_eq!(texts(&place, "side"), ["first", "on main", "before all", "", "found"]);
}

#[test]
fn a_turn_is_picked_whole_and_dropped_whole() {
    let place = Workspace::of(STREAM);
    place.ok(&["cherry-pick", "side#3", "--onto", "main"]);
    assert_eq!(texts(&place, "main"), ["first", "on main", "", "found"]);
    place.refused(&["cherry-pick", "side#3", "--onto", "main"], 1, "nothing_to_pick", "nothing");
    place.ok(&["drop", "HEAD#2"]);
    assert_eq!(texts(&place, "side"), ["first", "thanks"]);
    place.ok(&["insert", "--after", "HEAD#1", "system", "Answer in English."]);
    assert_eq!(texts(&place, "side"), ["first", "Answer in English.", "thanks"]);
    let dry = &place.json(&["drop", "HEAD", "--dry-run", "--json"])[0];
    assert_eq!((&dry["head"], &dry["plan"][0]["step"]), (&Value::Null, &"drop".into()));
    place.ok(&["verify"]);
}

#[test]
fn a_branch_is_reset_and_renamed() {
    let place = Workspace::of(STREAM);
    let old = place.id("side");
    place.ok(&["reset"]);
    assert_eq!(place.id("side"), place.id(&format!("{old}~1")));
    place.ok(&["undo"]);
    assert_eq!(place.id("side"), old);
    let line = &place.json(&["reset", "--to", "main", "--json"])[0];
    assert_eq!(line["before"], old.as_str());
    place.ok(&["branch", "--move", "side", "other"]);
    assert_eq!(place.id("other"), place.id("main"));
}

#[test]
fn no_signature_is_left_where_what_came_before_it_changed() {
    let place = Workspace::new();
    let conversation = br#"{"id":"signed","messages":[
        {"role":"user","content":"q"},
        {"role":"assistant","content":[
            {"type":"thinking","thinking":"hm","signature":"c2lnbmVk"},
            {"type":"tool_use","id":"toolu_1","name":"f","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]},
        {"role":"assistant","content":"done"}]}"#;
    let conversation = String::from_utf8_lossy(conversation).replace('\n', "");
    place.feed(&["import", "--format", "anthropic", "-"], conversation.as_bytes()).expect(0);
    place.ok(&["checkout", "signed"]);
    let compile = || {
        let set = ["--set", "model=\"m\"", "--set", "max_tokens=9", "--pairing", "repair"];
        place.ok(&[&["compile", "--to", "anthropic-params"], &set[..]].concat())
    };
    assert!(compile().contains("c2lnbmVk"));
    place.ok(&["insert", "--after", "HEAD#1", "user", "and more"]);
    let body = compile();
    assert!(!body.contains("c2lnbmVk") && body.contains("toolu_1"), "{body}");
}

#[test]
fn bad_requests_are_refused_and_nothing_moves() {
    let place = Workspace::of(STREAM);
    let heads = || (place.id("main"), place.id("side"));
    let before = heads();
    let call = place.id("side#2");
    place.write("word", "squash main");
    place.write("short", "pick side");
    place.write("kind", "insert poem x");
    place.refused(&["rebase", "--onto", "nowhere"], 1, "unknown_revision", "nowhere");
    place.refused(&["rebase", "nowhere", "--onto", "main"], 1, "unknown_revision", "nowhere");
    place.refused(&["rebase", "--onto", "main", "--plan", "word"], 2, "usage", "unknown step");
    place.refused(&["rebase", "--onto", "main", "--plan", "kind"], 2, "usage", "poem");
    let short = ["rebase", "--onto", "main", "--plan", "short"];
    place.refused(&short, 1, "incomplete_plan", "must name");
    place.refused(&["rebase", "--onto", "main", "--plan", "absent"], 2, "file", "absent");
    place.refused(&["cherry-pick", "nowhere"], 1, "unknown_revision", "nowhere");
    place.refused(&["cherry-pick", "main", "--onto", "nowhere"], 1, "unknown_revision", "nowhere");
    place.refused(&["drop", "main"], 1, "not_in_range", "not among");
    place.refused(&["insert", "--after", &call, "user", "x"], 1, "inside_turn", "inside the turn");
    place.refused(&["insert", "--after", "main", "user", "x"], 1, "not_in_range", "not among");
    place.refused(&["reset", "--to", "nowhere"], 1, "unknown_revision", "nowhere");
    // Nothing to undo: the next undo would be that of another command.
    let stays = place.ok(&["reset", "--to", "HEAD"]);
    assert!(stays.contains("already") && !stays.contains("undo"), "{stays}");
    place.refused(&["remote", "add", "x;y", "sqlite:other.db"], 1, "bad_name", "shells interpret");
    // Dropped here, the message would come back with the merge.
    let later = Workspace::of(STREAM);
    later.ok(&["checkout", "main"]);
    later.ok(&["merge", "side"]);
    later.ok(&["commit", "user", "after the merge"]);
    let head = later.id("main");
    later.refused(&["drop", "HEAD#1"], 1, "merged_later", "merged later contains it");
    assert_eq!(later.id("main"), head);
    place.ok(&["edit", "HEAD#1", "changed on side"]);
    place.ok(&["checkout", "main"]);
    place.ok(&["edit", "HEAD#1", "changed on main"]);
    let before_conflict = heads();
    place.refused(&["rebase", "--onto", "side"], 1, "replay_conflicts", "1 commit cannot");
    assert_eq!(heads(), before_conflict);
    assert_ne!(heads(), before);
}

#[test]
fn processes_that_rebase_and_append_at_once_lose_nothing() {
    for round in 0..4 {
        let place = Workspace::of(STREAM);
        let start = |arguments: &[&str]| {
            let mut command = place.command(arguments);
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
            command.spawn().expect("the binary starts")
        };
        // A branch grows while it is put on top of another one, again and again.
        let mut seen = Vec::new();
        for n in 0..4 {
            let texts = ["main", "side", "more"].map(|word| format!("{word} {round} {n}"));
            place.ok(&["checkout", "main"]);
            place.ok(&["commit", "user", &texts[0]]);
            place.ok(&["checkout", "side"]);
            let children = [
                start(&["commit", "user", &texts[1]]),
                start(&["rebase", "side", "--onto", "main"]),
                start(&["commit", "user", &texts[2]]),
            ];
            for child in children {
                let end = child.wait_with_output().expect("the binary ends");
                assert!(end.status.success(), "{end:?}");
            }
            seen.push(texts);
        }
        place.ok(&["rebase", "side", "--onto", "main"]);
        let (side, main) = (texts(&place, "side"), texts(&place, "main"));
        for text in seen.iter().flatten() {
            let count = side.iter().filter(|one| *one == text).count();
            assert_eq!(count, 1, "{text}: {side:?}");
        }
        for [on_main, ..] in &seen {
            assert!(main.contains(on_main), "{on_main}: {main:?}");
        }
        assert!(side.iter().any(|text| text == "found"), "the turn is there: {side:?}");
        place.ok(&["verify"]);
    }
}

/// Reverts of changes that are made among the commits that the verbs repeat: of an edit, of a
/// summary, of a priority, of tools, and reverts of those reverts.
const REVERTED: &str = r##"
{"op":"system","text":"s"}
{"op":"user","text":"q0","mark":"q"}
{"op":"assistant","text":"a0"}
{"op":"edit","target":":q","content":"q1","mark":"e"}
{"op":"edit","target":":q","content":"q2","mark":"f"}
{"op":"revert","targets":[":f"],"mark":"r"}
{"op":"revert","targets":[":r"],"mark":"rr"}
{"op":"revert","targets":[":rr"]}
{"op":"compress","targets":["#2","#3"],"content":"sum","mark":"c"}
{"op":"revert","targets":[":c"],"mark":"rc"}
{"op":"revert","targets":[":rc"],"mark":"rrc"}
{"op":"revert","targets":[":rrc"]}
{"op":"set_tools","tools":[{"name":"ls","input_schema":{"type":"object"}}],"mark":"t"}
{"op":"revert","targets":[":t"]}
{"op":"user","text":"later"}
"##;

#[test]
fn an_erased_message_is_not_repeated_but_can_be_dropped() {
    let says = |text| format!("{{\"op\":\"user\",\"text\":\"{text}\"}}\n");
    let place = Workspace::of(&["q1", "secret", "q2"].map(says).concat());
    place.ok(&["erase", "#2", "--yes", "--reason", "a test"]);
    let before = texts(&place, "main");
    for dry_run in [&["--dry-run"][..], &[]] {
        let insert = [&["insert", "--after", "#1", "user", "x"], dry_run].concat();
        let ran = place.run(&insert).expect(1);
        assert!(
            ran.stderr.contains("replay_conflicts") && ran.stderr.contains("erased"),
            "{ran:?}"
        );
        assert!(!ran.stderr.contains("--lift"), "{ran:?}");
    }
    assert_eq!(texts(&place, "main"), before);
    place.ok(&["insert", "--after", "#2", "user", "x"]);
    assert_eq!(texts(&place, "main").len(), before.len() + 1);
}

#[test]
fn reverts_of_changes_among_the_repeated_commits_are_repeated() {
    let place = Workspace::of(REVERTED);
    assert_eq!(texts(&place, "main"), ["s", "q1", "a0", "later"]);
    let commits = place.json(&["log", "--json", "--limit", "0"]);
    for (n, _) in commits.iter().enumerate().skip(1) {
        let after = format!("HEAD~{n}");
        let inserted = place.run(&["insert", "--after", &after, "user", "x", "--dry-run"]);
        let answer = inserted.stderr.clone();
        assert!(!answer.contains("missing_object"), "{after}: {answer}");
    }
    place.ok(&["insert", "--after", "#1", "user", "x"]);
    assert_eq!(texts(&place, "main"), ["s", "x", "q1", "a0", "later"]);
    place.ok(&["undo"]);
    place.ok(&["branch", "o", "--from", "#1"]);
    place.ok(&["checkout", "o"]);
    place.ok(&["commit", "user", "y"]);
    let picked: Vec<String> = (0..14).rev().map(|n| format!("main~{n}")).collect();
    let picked: Vec<&str> = picked.iter().map(String::as_str).collect();
    place.ok(&[&["cherry-pick"], picked.as_slice()].concat());
    assert_eq!(texts(&place, "o"), ["s", "y", "q1", "a0", "later"]);
    place.ok(&["undo"]);
    place.ok(&["rebase", "main", "--onto", "o"]);
    assert_eq!(texts(&place, "main"), ["s", "y", "q1", "a0", "later"]);
    place.ok(&["checkout", "main"]);
    place.ok(&["drop", "#2"]);
    assert_eq!(texts(&place, "main"), ["s", "q1", "a0", "later"]);
    place.is_clean();
}

#[test]
fn a_plan_inserts_after_repeated_commits() {
    let place = Workspace::of(STREAM);
    let plan = place.ok(&["rebase", "--onto", "main", "--dry-run"]);
    place.write("plan", format!("{plan}insert assistant bye\n"));
    place.ok(&["rebase", "--onto", "main", "--plan", "plan"]);
    assert_eq!(texts(&place, "side").last().map(String::as_str), Some("bye"));
}

#[test]
fn a_revert_of_several_commits_is_repeated_without_those_that_were_dropped() {
    let place = Workspace::of(
        r#"
{"op":"user","text":"one"}
{"op":"user","text":"two","mark":"two"}
{"op":"user","text":"three","mark":"three"}
{"op":"revert","targets":[":two",":three"]}
{"op":"user","text":"four"}
"#,
    );
    place.ok(&["drop", "HEAD~3"]);
    assert_eq!(texts(&place, "main"), ["one", "four"]);
    place.is_clean();
}
