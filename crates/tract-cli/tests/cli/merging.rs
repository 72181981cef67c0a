use serde_json::Value;

use crate::support::Workspace;

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
    let body: Value =
        serde_json::from_str(&place.ok(&["compile", "--to", "messages", "--json"])).expect("JSON");
    let messages = body["messages"].as_array().or_else(|| body.as_array()).expect("messages");
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
    let ran = place.run(&["merge", "side"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
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
    let ran = place.run(&["merge", "side", "--dry-run", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let mut list: Value = serde_json::from_str(&ran.stdout).expect("one document");
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
    place.write(
        "unused.json",
        r#"[{"kind":"version","resolution":"ours"},{"kind":"mark","resolution":"ours"}]"#,
    );
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
    assert_eq!(place.run(&["merge", "side", "--ours", "--theirs"]).code, Some(2));
    assert_eq!(place.id("main"), head);
}

#[test]
fn unrelated_histories_are_merged_only_when_asked_for() {
    let place = Workspace::of(STREAM);
    place
        .feed(
            &["import", "-", "--format", "openai"],
            br#"{"id":"other","messages":[{"role":"user","content":"elsewhere"}]}"#,
        )
        .expect(0);
    place.refused(&["merge", "other"], 1, "unrelated", "no commit in common");
    place.ok(&["merge", "other", "--allow-unrelated"]);
    shows(&place, &["our question", "answer", "elsewhere"]);
}
