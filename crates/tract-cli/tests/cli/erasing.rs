use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Workspace, key};

/// Distinctive, and no secret of any service.
const LEAK: &str = "the door code of the vault is 4711-0815-2342-xyzzy";

/// The files under a folder that have these bytes.
fn holding(folder: &Path, needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, needle));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(needle.len()).any(|window| window == needle)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// A store with the leak on two branches, in a summary, and under an edit.
fn leaked(place: &Workspace, store: &[&str]) {
    let run = |arguments: &[&str]| place.ok(&[store, arguments].concat());
    run(&["init"]);
    run(&["commit", "user", "hello"]);
    run(&["commit", "user", LEAK]);
    run(&["commit", "assistant", "noted"]);
    run(&["branch", "side"]);
    run(&["commit", "user", &format!("you said: {LEAK}. Is that right?")]);
    run(&["tag", "before"]);
}

fn one(place: &Workspace, arguments: &[&str]) -> Value {
    place.json(arguments)[0].clone()
}

#[test]
fn no_file_of_the_store_has_the_bytes_afterwards() {
    for (store, name) in [("sqlite", "s.db"), ("redb", "s.redb"), ("sled", "s.sled")] {
        if cfg!(not(feature = "redb")) && store == "redb"
            || cfg!(not(feature = "sled")) && store == "sled"
        {
            continue;
        }
        let place = Workspace::empty();
        let url = format!("{store}:{name}");
        let store = ["--store", url.as_str()];
        leaked(&place, &store);
        let needle = &LEAK.as_bytes()[LEAK.len() - 20..];
        assert!(!holding(&place.path(""), needle).is_empty(), "{url}: it is there before");
        let erase = ["erase", "main~2", "--reason", "leaked code", "--everywhere"];
        let dry = one(&place, &[&store[..], &["--json"], &erase, &["--dry-run"]].concat());
        assert_eq!(dry["dry_run"], true);
        assert_eq!(dry["blobs"].as_array().map(Vec::len), Some(2), "{dry}");
        assert!(!holding(&place.path(""), needle).is_empty(), "{url}: a dry run erases nothing");
        let done = one(&place, &[&store[..], &["--json"], &erase, &["--yes"]].concat());
        assert_eq!((&done["blobs"], &done["places"]), (&dry["blobs"], &dry["places"]));
        assert_eq!(done["edits"], 3, "the message on two branches, and what quotes it");
        assert_eq!(done["wiped"], true);
        if url.starts_with("sled") {
            assert!(done["notes"][0].as_str().is_some_and(|note| note.contains("tract copy")));
        } else {
            assert_eq!(done["notes"], json!([]));
            assert_eq!(holding(&place.path(""), needle), [""; 0], "{url}");
        }
        let run = |arguments: &[&str]| place.ok(&[&store[..], arguments].concat());
        for branch in ["main", "side"] {
            let compiled = run(&["compile", branch]);
            assert!(compiled.contains("[erased: leaked code]"), "{compiled}");
            assert!(!compiled.contains("4711-0815"), "{compiled}");
        }
        assert!(run(&["compile", "main"]).contains("you said: [erased: leaked code]."));
        let verified = run(&["verify"]);
        assert!(verified.contains("clean") && verified.contains("erased: 2 blobs"), "{verified}");
        assert!(run(&["erase", "--list"]).contains("by \"cli\": leaked code"));
        run(&["erase", "--finish"]);
        run(&["gc", "--keep", "0s"]);
        assert!(run(&["verify"]).contains("clean"));
    }
}

#[test]
fn older_heads_undo_and_new_writes_name_the_erasure() {
    let place = Workspace::empty();
    leaked(&place, &[]);
    let reason = ["--reason", "leaked code", "--everywhere", "--ban", "--yes"];
    place.ok(&[&["erase", "main~2"], &reason[..]].concat());
    place.refused(&["compile", "before"], 1, "erased", "leaked code");
    place.ok(&["log", "before"]);
    // The same text comes again.
    let before = place.ok(&["stats", "--json"]);
    place.refused(&["commit", "user", LEAK], 1, "erased", "tract erase --list");
    assert_eq!(place.ok(&["stats", "--json"]), before);
    // The erasure is not undone: the message before it is, and the branch still compiles.
    place.ok(&["undo"]);
    let undone = place.ok(&["compile"]);
    assert_eq!(undone.matches("[erased: leaked code]").count(), 1, "{undone}");
    assert!(!undone.contains("Is that right?"), "{undone}");
    assert!(place.ok(&["verify"]).contains("clean"));
    assert_eq!(holding(&place.path(""), b"4711-0815"), [""; 0]);
    place.ok(&["undo", "--redo"]);
    assert!(place.ok(&["compile"]).contains("[erased: leaked code]"));
    let log = place.ok(&["log"]);
    assert!(
        !log.contains("cannot be read") && log.contains("user       [erased: leaked code]"),
        "{log}"
    );
    assert!(place.ok(&["verify"]).contains("clean"));
}

#[test]
fn pushes_and_pulls_carry_erasures() {
    let place = Workspace::empty();
    leaked(&place, &[]);
    let other = ["--store", "sqlite:other.db"];
    place.ok(&["remote", "add", "team", "sqlite:team.db"]);
    place.ok(&["push", "team", "--all"]);
    place.ok(&[&other[..], &["init"]].concat());
    place.ok(&[&other[..], &["remote", "add", "team", "sqlite:team.db"]].concat());
    place.ok(&[&other[..], &["pull", "team", "--all"]].concat());
    place.ok(&["erase", "main~2", "--reason", "leaked code", "--everywhere", "--yes"]);
    assert!(place.ok(&["push", "team", "--all"]).contains("erased 2 blobs"));
    let pull = [&other[..], &["pull", "team", "--all"]].concat();
    assert!(place.ok(&pull).contains("erased 2 blobs"));
    for store in ["sqlite:team.db", "sqlite:other.db"] {
        let compiled = place.ok(&["--store", store, "compile", "main"]);
        assert!(compiled.contains("[erased: leaked code]") && !compiled.contains(LEAK));
    }
    assert!(!place.ok(&pull).contains("erased"));
}

#[test]
fn copies_carry_erasures_and_bring_nothing_back() {
    let place = Workspace::empty();
    leaked(&place, &[]);
    place.ok(&["copy", "--to", "sqlite:old.db"]);
    place.ok(&["erase", "main~2", "--reason", "leaked code", "--everywhere", "--yes"]);
    place.ok(&["copy", "--to", "sqlite:new.db"]);
    let new = ["--store", "sqlite:new.db"];
    assert!(place.ok(&[&new[..], &["verify"]].concat()).contains("erased: 2 blobs"));
    // A store that still has the bytes does not bring them back.
    let back = place.run(&["copy", "--to", "sqlite:new.db", "--from", "sqlite:old.db"]);
    assert!(back.code == Some(0) || back.code == Some(1), "{back:?}");
    assert!(place.ok(&[&new[..], &["verify"]].concat()).contains("erased: 2 blobs"));
    // A copy into one that has them erases them there.
    let into = place.run(&["copy", "--to", "sqlite:old.db"]);
    assert!(into.stdout.contains("erased 2 blobs"), "{into:?}");
    let holding = holding(&place.path(""), b"4711-0815");
    assert!(holding.is_empty(), "these have the bytes: {holding:?}");
    let old = ["--store", "sqlite:old.db"];
    assert!(place.ok(&[&old[..], &["verify"]].concat()).contains("clean"));
}

#[test]
fn an_erased_message_leaves_the_same_words_of_other_messages() {
    let place = Workspace::new();
    for (kind, text) in [("user", "shall we?"), ("assistant", "yes"), ("user", "and deploy?")] {
        place.ok(&["commit", kind, text]);
    }
    place.ok(&["branch", "bob"]);
    place.ok(&["checkout", "bob"]);
    place.ok(&["commit", "assistant", "yes"]);
    let dry = one(&place, &["--json", "erase", "main~1", "--reason", "private", "--dry-run"]);
    assert_eq!((&dry["blobs"], &dry["shared"][0]["bytes"]), (&json!([]), &json!(5)), "{dry}");
    let places = dry["places"].as_array().expect("places");
    assert_eq!(places.len(), 2, "both messages are listed: {dry}");
    let other = places.iter().find(|place| place["other"] == true).expect("another one");
    assert_eq!((&other["branches"], &other["stays"]), (&json!(["bob"]), &json!(true)));
    let done = place.ok(&["erase", "main~1", "--reason", "private", "--yes"]);
    assert!(done.contains("other messages have the same text, and keep it:"), "{done}");
    assert!(done.contains("kept 1 blob that other messages have too"), "{done}");
    let bob = place.ok(&["compile", "bob"]);
    assert_eq!(bob.matches("[erased: private]").count(), 1, "{bob}");
    assert!(bob.contains(r#""yes""#), "{bob}");
    assert!(place.ok(&["verify"]).contains("clean"));
    assert!(place.ok(&["erase", "--list"]).is_empty());
    // Again there is nothing to do, and everywhere there is.
    let again = place.ok(&["erase", "main~2", "--reason", "private", "--yes"]);
    assert!(again.contains("nothing to erase"), "{again}");
    place.ok(&["erase", "bob", "--reason", "private", "--everywhere", "--yes"]);
    assert_eq!(place.ok(&["compile", "bob"]).matches("[erased: private]").count(), 2);
    // A later message may have the same text.
    place.ok(&["commit", "user", "yes"]);
    assert!(place.ok(&["compile"]).contains(r#""yes""#));
    assert!(place.ok(&["verify"]).contains("clean"));
}

#[test]
fn all_versions_of_a_message_are_erased() {
    let place = Workspace::new();
    place.ok(&["commit", "user", LEAK]);
    place.ok(&["commit", "assistant", "noted"]);
    place.ok(&["edit", "main~1", "a harmless text of some length"]);
    place.ok(&["edit", "main", "another harmless text, the newest"]);
    for words in ["4711-0815", "harmless text of some", "harmless text, the"] {
        assert!(!holding(&place.path(".tract"), words.as_bytes()).is_empty(), "{words}");
    }
    let done = one(&place, &["--json", "erase", "#1", "--reason", "gone", "--yes"]);
    assert_eq!(done["blobs"].as_array().map(Vec::len), Some(3), "{done}");
    for words in ["4711-0815", "harmless text of some", "harmless text, the"] {
        assert_eq!(holding(&place.path(".tract"), words.as_bytes()), [""; 0], "{words}");
    }
    assert!(place.ok(&["compile"]).contains("[erased: gone]"));
    assert!(place.ok(&["verify"]).contains("clean"));
}

#[test]
fn banned_bytes_are_refused_until_the_ban_is_lifted() {
    let place = Workspace::new();
    let conversation = |first: &str, last: &str| {
        json!({"messages": [
            {"role": "user", "content": first}, {"role": "assistant", "content": last}]})
    };
    let file = [conversation("hello", "fine"), conversation(LEAK, "oh"), conversation("bye", "ok")]
        .map(|conversation| conversation.to_string())
        .join("\n");
    place.write("s.jsonl", &file);
    place.ok(&["commit", "user", LEAK]);
    place.ok(&["erase", "main", "--reason", "leaked", "--ban", "--yes"]);
    assert!(place.ok(&["erase", "--list"]).contains("(banned)"));
    place.refused(&["commit", "user", LEAK], 1, "erased", "--lift");
    // An import and a stream name the line, and continue.
    let imported = place.run(&["--json", "import", "s.jsonl"]);
    assert_eq!(imported.code, Some(1), "{imported:?}");
    let lines: Vec<Value> =
        imported.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3, "{imported:?}");
    let refused = lines.iter().find(|line| line.get("error").is_some()).expect("a refusal");
    assert_eq!(refused["line"], 2, "{imported:?}");
    let stream = ["before", LEAK, "after"]
        .map(|text| json!({"op": "user", "text": text}).to_string())
        .join("\n");
    let applied = place.feed(&["--json", "apply", "--keep-going", "-"], stream.as_bytes());
    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert_eq!(applied.stdout.lines().filter(|line| line.contains("commit")).count(), 2);
    assert!(
        applied.stdout.lines().any(|line| line.contains("\"line\":2,") && line.contains("error"))
    );
    assert!(place.ok(&["compile"]).contains("after"));
    let list: Value = one(&place, &["--json", "erase", "--list"]);
    let id = list[0]["blob"].as_str().or(list["blob"].as_str()).expect("an id")[..12].to_owned();
    place.refused(&["erase", "--lift", "ffffffffffff"], 1, "unknown_erasure", "--list");
    place.ok(&["erase", "--lift", &id]);
    place.ok(&["commit", "user", LEAK]);
    place.ok(&["import", "s.jsonl"]);
    assert!(place.ok(&["verify"]).contains("clean"));
}

#[test]
fn an_erasure_that_is_repeated_finishes_the_first_one() {
    let place = Workspace::new();
    place.ok(&["commit", "user", LEAK]);
    place.ok(&["commit", "assistant", "noted"]);
    let erase = ["erase", "#1", "--reason", "leaked", "--yes"];
    assert!(place.ok(&erase).contains("erased 1 blob"));
    let again = place.ok(&erase);
    assert!(again.contains("nothing to erase: it was erased already"), "{again}");
    let again = one(&place, &[&["--json"], &erase[..]].concat());
    assert_eq!((&again["blobs"], &again["wiped"]), (&json!([]), &json!(true)), "{again}");
    // By the id of the blob, too.
    let list = one(&place, &["--json", "erase", "--list"]);
    let id = list[0]["blob"].as_str().or(list["blob"].as_str()).expect("an id")[..12].to_owned();
    let again = place.ok(&["erase", &id, "--reason", "leaked", "--yes"]);
    assert!(again.contains("nothing to erase: it was erased already"), "{again}");
    // A ban that is requested later takes effect.
    place.ok(&[&erase[..], &["--ban"]].concat());
    place.refused(&["commit", "user", LEAK], 1, "erased", "--lift");
    assert!(place.ok(&["erase", "--list"]).contains("(banned)"));
    assert!(place.ok(&["verify"]).contains("clean"));
}

/// Two people with a store of their own and one of the team, in which one says what the other
/// erases.
fn team(place: &Workspace) -> [Vec<String>; 3] {
    let stores = ["alice", "bob", "team"]
        .map(|name| vec!["--store".to_owned(), format!("sqlite:{name}.db")]);
    for store in &stores[..2] {
        at(place, store, &["init"]);
        at(place, store, &["remote", "add", "team", "sqlite:team.db"]);
    }
    stores
}

/// The stores of [`team`] with a conversation of Alice's in all of them, whose first message is a leak.
fn leaked_to_bob(place: &Workspace) -> [Vec<String>; 3] {
    let stores = team(place);
    let [alice, bob, _] = &stores;
    at(place, alice, &["commit", "user", LEAK]);
    at(place, alice, &["commit", "assistant", "noted"]);
    at(place, alice, &["push", "team"]);
    at(place, bob, &["pull", "team", "--all"]);
    stores
}

fn at(place: &Workspace, store: &[String], arguments: &[&str]) -> String {
    let store: Vec<&str> = store.iter().map(String::as_str).collect();
    place.ok(&[&store, arguments].concat())
}

#[test]
fn an_erasure_that_is_pushed_leaves_the_branches_of_others_as_they_are() {
    let place = Workspace::empty();
    let [alice, bob, team] = team(&place);
    at(&place, &bob, &["commit", "user", "Shall we deploy?"]);
    at(&place, &bob, &["commit", "assistant", "yes"]);
    at(&place, &bob, &["branch", "bob"]);
    at(&place, &bob, &["checkout", "bob"]);
    at(&place, &bob, &["commit", "assistant", "deployed"]);
    at(&place, &bob, &["push", "team", "--all"]);
    at(&place, &alice, &["commit", "user", "Is Jane pregnant?"]);
    at(&place, &alice, &["commit", "assistant", "yes"]);
    at(&place, &alice, &["commit", "user", "thanks"]);
    at(&place, &alice, &["erase", "HEAD~1", "--reason", "private", "--yes"]);
    let alice_store = [alice[0].as_str(), alice[1].as_str()];
    // Rejected: nothing arrives.
    let rejected = place.run(&[&alice_store[..], &["push", "team"]].concat());
    assert_eq!(rejected.code, Some(1), "{rejected:?}");
    assert_eq!(at(&place, &team, &["erase", "--list"]), "");
    at(&place, &alice, &["branch", "jane", "--from", "main"]);
    let pushed = place.run(&[&alice_store[..], &["push", "team", "jane"]].concat());
    assert_eq!(pushed.code, Some(0), "{pushed:?}");
    assert!(pushed.stderr.contains("1 erasure not applied"), "{pushed:?}");
    let jane = at(&place, &team, &["compile", "jane"]);
    assert!(jane.contains("[erased: private]") && !jane.contains(r#""yes""#), "{jane}");
    for branch in ["main", "bob"] {
        assert!(at(&place, &team, &["compile", branch]).contains(r#""yes""#));
    }
    let pending = at(&place, &team, &["erase", "--list"]);
    assert!(pending.starts_with("pending: blob"), "{pending}");
    assert!(at(&place, &team, &["verify"]).contains("clean"));
    at(&place, &bob, &["pull", "team", "--all"]);
    at(&place, &bob, &["compile"]);
    at(&place, &bob, &["status"]);
    at(&place, &bob, &["commit", "user", "yes"]);
    // A second push says nothing new; the team confirms.
    at(&place, &alice, &["push", "team", "jane"]);
    let list = at(&place, &team, &["--json", "erase", "--list"]);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!((&list[0]["pending"], list.as_array().map(Vec::len)), (&json!(true), Some(1)));
    let id = &list[0]["blob"].as_str().expect("an id")[..12];
    at(&place, &team, &["erase", id, "--everywhere", "--reason", "agreed", "--yes"]);
    for branch in ["main", "bob"] {
        assert!(at(&place, &team, &["compile", branch]).contains("[erased: agreed]"));
    }
    assert!(!at(&place, &team, &["erase", "--list"]).contains("pending"));
    assert!(at(&place, &team, &["verify"]).contains("clean"));
}

#[test]
fn an_erasure_that_arrives_edits_the_same_message_on_every_branch() {
    let place = Workspace::empty();
    let [alice, bob, team] = leaked_to_bob(&place);
    // Bob continues Alice's conversation on a branch that Alice does not have.
    at(&place, &bob, &["branch", "more", "--from", "main"]);
    at(&place, &bob, &["checkout", "more"]);
    at(&place, &bob, &["commit", "user", "continue"]);
    at(&place, &bob, &["push", "team"]);
    at(&place, &alice, &["erase", "main~1", "--reason", "leaked", "--yes"]);
    assert!(at(&place, &alice, &["push", "team"]).contains("erased 1 blob"));
    let more = at(&place, &team, &["compile", "more"]);
    assert!(more.contains("[erased: leaked]") && more.contains("continue"), "{more}");
    assert!(at(&place, &bob, &["pull", "team", "--all"]).contains("erased 1 blob"));
    let more = at(&place, &bob, &["compile", "more"]);
    assert!(more.contains("[erased: leaked]") && more.contains("continue"), "{more}");
    // The same edit was made in both, so nothing diverged.
    assert!(!at(&place, &bob, &["push", "team", "--all"]).contains("diverged"));
    for (store, name) in [(&team, "team.db"), (&bob, "bob.db"), (&alice, "alice.db")] {
        assert!(at(&place, store, &["verify"]).contains("clean"));
        let bytes = std::fs::read(place.path(name)).expect("a file");
        assert!(!bytes.windows(9).any(|window| window == b"4711-0815"), "{name}");
    }
}

/// Runs the verbs, each of which is one line of words.
fn script(place: &Workspace, store: &[String], lines: &[&[&str]]) {
    for line in lines {
        at(place, store, line);
    }
}

#[test]
fn an_erasure_that_arrives_takes_all_versions_and_quotes_of_its_message() {
    for verb in ["push", "pull", "copy"] {
        let place = Workspace::empty();
        let [alice, bob, team] = leaked_to_bob(&place);
        let (quote, version) = (format!("summary: {LEAK}!"), format!("{LEAK}, by Bob"));
        let own = "an unrelated secret of Bob, with a version";
        script(
            &place,
            &bob,
            &[
                &["branch", "short", "--from", "main"],
                &["checkout", "short"],
                &["compress", "--from", "#1", "--to", "#2", "--content", &quote],
                &["branch", "edited", "--from", "main"],
                &["checkout", "edited"],
                &["edit", "#1", &version],
                &["branch", "hidden", "--from", "main"],
                &["checkout", "hidden"],
                &["edit", "#1", &format!("{LEAK}, hidden by Bob")],
                &["edit", "#1", "harmless, by Bob"],
                &["commit", "user", own],
                &["push", "team", "--all"],
            ],
        );
        at(&place, &alice, &["erase", "main~1", "--reason", "leaked", "--yes"]);
        let target = match verb {
            "push" => {
                let pushed = at(&place, &alice, &["push", "team"]);
                assert!(pushed.contains("erased 5 blobs"), "{pushed}");
                team
            }
            "pull" => {
                at(&place, &bob, &["remote", "add", "alice", "sqlite:alice.db"]);
                at(&place, &bob, &["pull", "alice", "--all"]);
                bob
            }
            _ => {
                at(&place, &alice, &["copy", "--to", "sqlite:team.db"]);
                team
            }
        };
        for branch in ["main", "short", "edited", "hidden"] {
            let compiled = at(&place, &target, &["compile", branch]);
            assert!(compiled.contains("[erased: leaked]"), "{verb}: {branch}: {compiled}");
        }
        let short = at(&place, &target, &["compile", "short"]);
        assert!(short.contains("summary: [erased: leaked]!"), "{verb}: {short}");
        assert!(at(&place, &target, &["compile", "hidden"]).contains(own), "{verb}");
        assert!(at(&place, &target, &["verify"]).contains("clean"), "{verb}");
        let file = target[1].strip_prefix("sqlite:").expect("a url");
        let bytes = std::fs::read(place.path(file)).expect("a file");
        for words in ["4711-0815", "harmless, by Bob"] {
            let holds = bytes.windows(words.len()).any(|window| window == words.as_bytes());
            assert!(!holds, "{verb}: {words}");
        }
        // The stores agree after the erasure has reached all of them.
        if verb == "push" {
            let [_, bob, _] = ["alice", "bob", "team"]
                .map(|name| vec!["--store".to_owned(), format!("sqlite:{name}.db")]);
            at(&place, &bob, &["pull", "team", "--all"]);
            let bytes = std::fs::read(place.path("bob.db")).expect("a file");
            assert!(!bytes.windows(9).any(|window| window == b"4711-0815"));
            assert!(!at(&place, &bob, &["push", "team", "--all"]).contains("diverged"));
            assert!(at(&place, &bob, &["verify"]).contains("clean"));
        }
    }
}

#[test]
fn a_version_that_is_newer_than_an_erasure_arrives_with_it() {
    let place = Workspace::empty();
    let [alice, bob, team] = leaked_to_bob(&place);
    at(&place, &alice, &["erase", "#1", "--reason", "leaked", "--yes"]);
    at(&place, &alice, &["edit", "#1", "the door has a code"]);
    assert!(at(&place, &alice, &["push", "team"]).contains("erased 1 blob"));
    at(&place, &bob, &["pull", "team", "--all"]);
    for store in [&team, &bob] {
        let compiled = at(&place, store, &["compile", "main"]);
        assert!(compiled.contains("the door has a code"), "{compiled}");
        assert!(at(&place, store, &["verify"]).contains("clean"));
    }
}

/// A short text, which is not searched for in other texts.
const SHORT: &str = "zzsecret word";

#[test]
fn messages_with_the_same_text_that_are_erased_in_turn_leave_no_bytes() {
    let place = Workspace::new();
    let erase = |target: &str| place.ok(&["erase", target, "--reason", "private", "--yes"]);
    let is_left = || !holding(&place.path(".tract"), SHORT.as_bytes()).is_empty();
    for kind in ["user", "assistant", "user"] {
        place.ok(&["commit", kind, SHORT]);
    }
    let first = erase("#1");
    assert!(first.contains("keep it:") && is_left(), "{first}");
    // Its last branch shows only a summary of it.
    place.ok(&["compress", "--from", "#1", "--to", "#1", "--content", "a summary"]);
    assert!(erase("#2").contains("kept 1 blob") && is_left());
    let last = erase("#3");
    assert!(last.contains("erased 1 blob") && !last.contains("keep it"), "{last}");
    assert!(!is_left());
    // The same text again, and again.
    for ban in [&[][..], &["--ban"]] {
        place.ok(&["commit", "user", SHORT]);
        let again = ["erase", "HEAD", "--reason", "private", "--yes"];
        let again = place.ok(&[&again[..], ban].concat());
        assert!(again.contains("erased 1 blob") && !is_left(), "{again}");
    }
    place.refused(&["commit", "user", SHORT], 1, "erased", "--lift");
    place.ok(&["gc", "--keep", "0s"]);
    assert!(place.ok(&["verify"]).contains("clean") && !is_left());
}

#[test]
fn messages_that_are_on_no_branch_keep_no_erased_bytes() {
    let place = Workspace::new();
    let is_left = || !holding(&place.path(".tract"), SHORT.as_bytes()).is_empty();
    place.ok(&["commit", "user", "hello"]);
    place.ok(&["commit", "user", SHORT]);
    place.ok(&["undo"]);
    place.ok(&["branch", "side"]);
    place.ok(&["checkout", "side"]);
    place.ok(&["commit", "assistant", SHORT]);
    place.ok(&["checkout", "main"]);
    place.ok(&["branch", "--delete", "side"]);
    place.ok(&["commit", "user", SHORT]);
    let erase = ["erase", "HEAD", "--reason", "private"];
    let dry = one(&place, &[&["--json"], &erase[..], &["--dry-run"]].concat());
    let places = dry["places"].as_array().expect("places");
    let unreferenced = places.iter().filter(|place| place["unreferenced"] == true).count();
    assert_eq!((dry["blobs"].as_array().map(Vec::len), unreferenced), (Some(1), 2), "{dry}");
    let done = place.ok(&[&erase[..], &["--yes"]].concat());
    assert!(done.contains("on no branch") && done.contains("erased 1 blob"), "{done}");
    assert!(!is_left());
    // A branch that returns to one of them shows the mark.
    place.ok(&["undo", "--branch", "side"]);
    assert!(place.ok(&["compile", "side"]).contains("[erased: private]"));
    assert!(place.ok(&["verify"]).contains("clean") && !is_left());
    // A tag keeps them.
    place.ok(&["commit", "user", "kept words"]);
    place.ok(&["tag", "kept"]);
    place.ok(&["undo"]);
    place.ok(&["commit", "user", "kept words"]);
    let done = place.ok(&[&erase[..], &["--yes"]].concat());
    assert!(done.contains("other messages have the same text, and keep it:"), "{done}");
    assert!(place.ok(&["compile", "kept"]).contains("kept words"));
}

#[test]
fn secrets_behind_escapes_are_redacted_in_messages_and_imports() {
    let key = key();
    let escaped = format!(r"\u0067h{}", &key[2..]);
    let url = r#"{"db":"postgres:\/\/admin:S3cr3tPassw0rdXyZ9@db.internal\/prod"}"#;
    let mut nested = json!({ "api_key": key.clone() }).to_string();
    for _ in 0..4 {
        nested = json!({ "out": nested }).to_string();
    }
    let call = json!({"op": "assistant", "text": "w", "tool_calls": [
        {"id": "c1", "name": "sh", "arguments": format!(r#"{{"k":"{escaped}"}}"#)}]});
    let lines = [
        call,
        json!({"op": "tool_result", "call_id": "c1", "content": url}),
        json!({"op": "user", "text": nested}),
        json!({"op": "user", "text": format!(r#"{{"k":"{escaped}"}}"#)}),
    ];
    let stream = lines.map(|line| line.to_string()).join("\n");
    let place = Workspace::of(&stream);
    place.ok(&["redact", "--yes"]);
    for words in ["S3cr3tPassw0rdXyZ9", &key[6..]] {
        assert_eq!(holding(&place.path(".tract"), words.as_bytes()), [""; 0], "{words}");
    }
    assert_eq!(place.ok(&["cat"]).matches("[redacted:github-token:").count(), 3);
    assert!(place.ok(&["redact", "--yes"]).contains("nothing to erase"));
}

#[test]
fn no_file_next_to_the_store_has_erased_bytes_while_other_verbs_run() {
    let place = Workspace::new();
    let lines: String = (0..600)
        .map(|n| json!({"op": "user", "text": format!("plain message {n}")}).to_string() + "\n")
        .collect();
    place.feed(&["apply", "--atomic", "-"], lines.as_bytes()).expect(0);
    let verbs: [&[&str]; 12] = [
        &["search", "message"],
        &["search", "message", "--hidden"],
        &["turns"],
        &["repack"],
        &["gc", "--keep", "0s"],
        &["verify"],
        &["compile"],
        &["grep", "message"],
        &["cat"],
        &["commit", "user", "more"],
        &["branch", "other"],
        &["copy", "--to", "sqlite:copy/other.db"],
    ];
    std::fs::create_dir(place.path("copy")).expect("a folder");
    for (number, verb) in verbs.iter().enumerate() {
        let leak = format!("the {number}. code is zzcodeword{number}zz, message");
        place.ok(&["commit", "user", &leak]);
        let commit = one(&place, &["--json", "log", "--limit", "1"]);
        let commit = commit["commit"].as_str().expect("an id").to_owned();
        place.ok(&["edit", &commit, &format!("{leak}, and zzedited{number}zz")]);
        place.ok(&["search", &format!("zzcodeword{number}zz")]);
        let mut running = place.command(verb);
        running.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut running = running.spawn().expect("it starts");
        let erased = place.run(&["erase", &commit, "--reason", "leaked", "--yes"]);
        running.wait().expect("it ends");
        // Others that use the files keep them from being wiped.
        assert!(
            erased.code == Some(0) || erased.stderr.contains("--finish"),
            "{verb:?}: {erased:?}"
        );
        place.ok(&["erase", "--finish"]);
        for words in [format!("zzcodeword{number}zz"), format!("zzedited{number}zz")] {
            let found = holding(&place.path(".tract"), words.as_bytes());
            assert_eq!(found, [""; 0], "{verb:?}: {words}");
        }
        assert!(place.ok(&["verify"]).contains("clean"), "{verb:?}");
    }
    // A copy that was made meanwhile carries the erasures that are later.
    place.run(&["copy", "--to", "sqlite:copy/other.db"]);
    assert_eq!(holding(&place.path("copy"), b"zzcodeword"), [""; 0]);
}

#[test]
fn redact_replaces_secrets_in_messages_calls_results_and_tools() {
    let key = key();
    let place = Workspace::new();
    let tool = json!({"name": "find", "description": format!("use {key}"), "parameters": {"type": "object"}});
    place.write("tool.json", tool.to_string());
    place.ok(&["commit", "user", &format!("my token is {key}, keep it")]);
    place.ok(&["tools", "set", "tool.json"]);
    place.ok(&["commit", "user", "nothing here"]);
    let dry = one(&place, &["--json", "redact", "--dry-run"]);
    assert_eq!(dry["blobs"].as_array().map(Vec::len), Some(2), "{dry}");
    assert!(place.ok(&["redact", "--dry-run"]).contains("2 × github-token"));
    place.ok(&["redact", "--yes"]);
    assert_eq!(holding(&place.path(".tract"), key.as_bytes()), [""; 0]);
    let compiled = place.ok(&["compile"]);
    assert!(compiled.contains("my token is [redacted:github-token:ed12f64e], keep it"));
    assert!(compiled.contains("use [redacted:github-token:ed12f64e]"), "{compiled}");
    let verified = place.ok(&["verify"]);
    assert!(verified.contains("clean") && verified.contains("erased: 2 blobs"), "{verified}");
    assert!(place.ok(&["redact", "--yes"]).contains("nothing to erase"));
    place.ok(&["gc", "--keep", "0s"]);
    assert!(place.ok(&["verify"]).contains("clean"));
}

#[test]
fn a_pattern_of_the_callers_redacts_in_every_repository() {
    let place = Workspace::new();
    place.ok(&["--repo", "other", "init"]);
    for repo in ["default", "other"] {
        place.ok(&["--repo", repo, "commit", "user", "case ACME-20260001 of Jane Doe"]);
    }
    let pattern = ["redact", "--pattern", "ACME-([0-9]{8})", "--yes"];
    place.ok(&pattern);
    assert!(place.ok(&["--repo", "other", "compile"]).contains("ACME-20260001"));
    place.ok(&[&pattern[..], &["--all"]].concat());
    for repo in ["default", "other"] {
        let compiled = place.ok(&["--repo", repo, "compile"]);
        assert!(compiled.contains("case ACME-[redacted:pattern:"), "{compiled}");
    }
    assert_eq!(holding(&place.path(".tract"), b"20260001"), [""; 0]);
}

#[test]
fn records_and_the_log_keep_bytes_and_this_is_listed() {
    let place = Workspace::new();
    place.ok(&["commit", "user", LEAK, "-m", &format!("log line: {LEAK}")]);
    place.ok(&["commit", "user", "more"]);
    let listed = place.ok(&["erase", "main~1", "--reason", "leaked code", "--dry-run"]);
    assert!(listed.contains("stays, and cannot be taken out"), "{listed}");
    assert!(listed.contains("commit record") && listed.contains("message"), "{listed}");
}

#[test]
fn a_message_that_reads_like_the_mark_of_an_erasure_is_no_damage() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "[erased: a leak]"]);
    let erase = ["erase", "HEAD", "--reason", "again", "--yes"];
    place.refused(&erase, 1, "bad_erase", "the message is the mark of an erasure");
}

#[test]
fn a_secret_that_only_a_record_has_is_listed_though_nothing_can_be_erased() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "hello", "-m", &format!("with {}", key())]);
    for arguments in [["redact", "--dry-run"], ["redact", "--yes"]] {
        let listed = place.ok(&arguments);
        assert!(listed.contains("nothing to erase"), "{listed}");
        assert!(listed.contains("stays, and cannot be taken out"), "{listed}");
        assert!(listed.contains("commit record"), "{listed}");
    }
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let place = Workspace::empty();
    leaked(&place, &[]);
    let before = place.ok(&["stats", "--json"]);
    place.refused(&["erase", "nowhere", "--reason", "x", "--yes"], 1, "unknown_revision", "");
    place.refused(&["erase", "main", "--reason", " ", "--yes"], 1, "bad_erase", "a reason");
    let long = "x".repeat(501);
    place.refused(&["erase", "main", "--reason", &long, "--yes"], 1, "bad_erase", "limit 500");
    let telling = format!("it said {LEAK}");
    place.refused(&["erase", "main~2", "--reason", &telling, "--yes"], 1, "bad_erase", "the text");
    let secret = format!("leaked {}", key());
    place.refused(&["erase", "main", "--reason", &secret, "--yes"], 1, "bad_erase", "a secret");
    place.refused(&["erase", "main~2", "--reason", "x"], 2, "usage", "--yes");
    place.refused(&["redact", "--pattern", "(", "--yes"], 1, "bad_pattern", "invalid pattern");
    place.refused(&["redact", "--pattern", "x*", "--yes"], 1, "bad_pattern", "empty text");
    for arguments in [&["erase"][..], &["erase", "main"], &["erase", "--list", "--finish"]] {
        place.run(arguments).expect(2);
    }
    Workspace::empty().refused(&["redact"], 3, "no_store", "tract init");
    assert_eq!(place.ok(&["stats", "--json"]), before);
    assert!(place.ok(&["compile"]).contains("4711"));
}
