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
        let erase = ["erase", "main~2", "--reason", "leaked code"];
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
            assert!(!compiled.contains("4711"), "{compiled}");
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
    place.ok(&["erase", "main~2", "--reason", "leaked code", "--yes"]);
    place.refused(&["compile", "before"], 1, "erased", "leaked code");
    place.ok(&["log", "before"]);
    // The same text comes again.
    let before = place.ok(&["stats", "--json"]);
    place.refused(&["commit", "user", LEAK], 1, "erased", "tract erase --list");
    assert_eq!(place.ok(&["stats", "--json"]), before);
    // Refs move back, and the bytes stay gone.
    place.ok(&["undo"]);
    place.refused(&["compile"], 1, "erased", "leaked code");
    assert!(place.ok(&["verify"]).contains("clean"));
    assert_eq!(holding(&place.path(""), b"4711-0815"), [""; 0]);
    place.ok(&["undo", "--redo"]);
    assert!(place.ok(&["compile"]).contains("[erased: leaked code]"));
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
    place.ok(&["erase", "main~2", "--reason", "leaked code", "--yes"]);
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
    place.ok(&["erase", "main~2", "--reason", "leaked code", "--yes"]);
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
