//! Damage that is repaired in place, with what a copy, an export or a bundle has.

use serde_json::{Value, json};

use crate::support::{Workspace, bundled, export, list, stream, text, user_says};

const HOW: [&str; 5] = ["verify", "bundle", "copy", "push", "apply"];

/// A history with tools, an edit, a summary, a fork and documents, and its copies: a store, an
/// export and a bundle.
fn worked() -> Workspace {
    let place = Workspace::new();
    place.write(
        "work.jsonl",
        stream([
            json!({"op": "set_tools", "tools": [{"name": "find", "description": "Finds notes."}]}),
            json!({"op": "user", "text": "Which notes are about the boat?"}),
            json!({"op": "assistant", "text": "Three of them.", "mark": "answer"}),
            json!({"op": "edit", "target": ":answer", "text": "Four of them."}),
            json!({"op": "user", "text": "And the oars?"}),
            json!({"op": "annotate", "targets": [":answer"], "priority": "pinned"}),
            json!({"op": "note", "text": "The list is complete."}),
        ]),
    );
    place.feed(&["apply", "-"], place.read("work.jsonl").as_bytes()).expect(0);
    place.ok(&["branch", "side", "--from", "HEAD~2"]);
    place.ok(&["checkout", "side"]);
    place.ok(&["commit", "user", "Elsewhere"]);
    place.ok(&["checkout", "main"]);
    place.ok(&["import", text(&bundled("anthropic.json"))]);
    place.is_clean();
    std::fs::copy(place.store(), place.path("good.db")).expect("it is copied");
    place.write("work.jsonl", place.ok(&["export"]));
    place.ok(&["bundle", "create", "work.bundle"]);
    place
}

impl Workspace {
    fn rows(&self, table: &str) -> Vec<i64> {
        let store = rusqlite::Connection::open(self.path("good.db")).expect("a database");
        let mut select =
            store.prepare(&format!("SELECT id FROM {table} ORDER BY id")).expect("SQL");
        let rows = select.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("numbers")
    }

    /// Makes the store whole again, and damages it.
    fn damaged_by(&self, sql: &str) {
        std::fs::copy(self.path("good.db"), self.store()).expect("it is copied");
        assert!(self.execute(sql) > 0, "{sql}");
    }

    /// Repairs the store in a way.
    fn repair(&self, how: &str) -> crate::support::RunOutput {
        let store = format!("sqlite:{}", self.store().display());
        match how {
            "verify" => self.run(&["verify", "--repair", "--from", "sqlite:good.db"]),
            "bundle" => self.run(&["verify", "--repair", "--from", "work.bundle"]),
            "copy" => self.run(&["copy", "--from", "sqlite:good.db", "--to", &store]),
            "apply" => self.run(&["apply", "work.jsonl"]),
            _ => {
                let good = |arguments: &[&str]| {
                    self.run(&[&["--store", "sqlite:source.db"], arguments].concat())
                };
                std::fs::copy(self.path("good.db"), self.path("source.db")).expect("it is copied");
                good(&["remote", "add", "here", &store]).expect(0);
                good(&["push", "here", "--all"])
            }
        }
    }
}

#[test]
fn every_object_is_repaired_in_place_in_each_way() {
    let place = worked();
    let before = place.ok(&["export"]);
    let mut turn = 0;
    for (table, damage) in [
        ("blobs", "UPDATE blobs SET data = x'78787878'"),
        ("blobs", "DELETE FROM blobs"),
        ("commits", "UPDATE commits SET rec = x'0102'"),
        ("commits", "DELETE FROM commits"),
        ("small", "UPDATE small SET data = x'0102'"),
        ("small", "DELETE FROM small"),
    ] {
        for row in place.rows(table) {
            let of = if table == "small" { "kind = 3 AND id" } else { "id" };
            let sql = format!("{damage} WHERE {of} = {row}");
            let store = rusqlite::Connection::open(place.path("good.db")).expect("a database");
            let sought = format!("SELECT count(*) FROM {table} WHERE {of} = {row}");
            let there: i64 = store.query_row(&sought, [], |row| row.get(0)).expect("a count");
            if there == 0 {
                continue;
            }
            place.damaged_by(&sql);
            place.run(&["verify"]).expect(1);
            let how = HOW[turn % HOW.len()];
            turn += 1;
            let ran = place.repair(how);
            let verified = place.run(&["verify"]);
            assert_eq!(verified.code, Some(0), "{sql}, {how}: {ran:?} {verified:?}");
            assert_eq!(place.ok(&["export"]), before, "{sql}, {how}");
        }
    }
    assert!(turn > 40, "{turn} objects");
}

#[test]
fn verify_says_what_it_replaced_and_what_is_damaged_still() {
    let place = worked();
    place.damaged_by("DELETE FROM commits");
    place.execute("UPDATE blobs SET data = x'78787878'");
    let plain = place.run(&["verify"]).expect(1);
    assert!(plain.stderr.contains("--repair --from"), "{plain:?}");
    // Without a source nothing is replaced.
    place.run(&["verify", "--repair"]).expect(1);
    place.run(&["verify", "--from", "sqlite:good.db"]).expect(2);
    let ran = place.run(&["verify", "--repair", "--from", "sqlite:good.db"]).expect(0);
    assert!(ran.stdout.contains("restored "), "{ran:?}");
    place.is_clean();
    assert_eq!(export(&place, "sqlite:good.db"), place.ok(&["export"]));
    // A part of the history has a part of the objects.
    place.damaged_by("UPDATE blobs SET data = x'78787878'");
    place.ok(&["--store", "sqlite:good.db", "bundle", "create", "part.bundle", "main"]);
    let ran = place.run(&["verify", "--repair", "--from", "part.bundle", "--json"]).expect(1);
    let report: &Value = &ran.lines()[0];
    assert!(report["restored"].as_u64().is_some_and(|restored| restored > 3), "{report}");
    assert!(!list(&report["damage"]).is_empty(), "{report}");
    place.ok(&["log", "main"]);
}

#[test]
fn a_row_with_a_wrong_key_is_repaired_without_a_copy() {
    let place = worked();
    let before = place.ok(&["export"]);
    for (table, key, condition) in [
        ("commits", "h", "id = (SELECT max(id) FROM commits)"),
        ("commits", "h", "1"),
        ("blobs", "h", "id = (SELECT min(id) FROM blobs)"),
        ("blobs", "h", "1"),
        ("small", "key", "kind = 3"),
    ] {
        let sql = format!("UPDATE {table} SET {key} = {key} + 1 WHERE {condition}");
        place.damaged_by(&sql);
        place.run(&["verify"]).expect(1);
        place.run(&["verify", "--repair"]).expect(0);
        place.is_clean();
        assert_eq!(place.ok(&["export"]), before, "{sql}");
    }
}

#[test]
fn verify_says_how_to_leave_a_damaged_ref_log_behind() {
    let place = worked();
    place.damaged_by("UPDATE ref_log SET at = at + 1 WHERE id = 2");
    let ran = place.run(&["verify", "--repair", "--from", "sqlite:good.db"]).expect(1);
    assert!(ran.stderr.contains("tract copy --to NEW-STORE"), "{ran:?}");
    assert!(!ran.stderr.contains("--repair"), "{ran:?}");
    place.ok(&["copy", "--to", "sqlite:new.db"]);
    place.ok(&["--store", "sqlite:new.db", "verify"]);
    assert_eq!(export(&place, "sqlite:new.db"), place.ok(&["export"]));
}

#[test]
fn erased_messages_are_not_restored() {
    let place = worked();
    place.ok(&["erase", "main#3", "--yes", "--reason", "a test"]);
    let erased = place.run(&["verify", "--json"]).expect(0).lines()[0]["erased"].clone();
    assert_eq!(list(&erased).len(), 1);
    assert!(place.damage("boat") > 0);
    for arguments in [
        &["verify", "--repair", "--from", "sqlite:good.db"][..],
        &["verify", "--repair", "--from", "work.bundle"],
        &["apply", "work.jsonl", "--keep-going"],
    ] {
        place.run(arguments);
        assert_eq!(place.run(&["verify", "--json"]).expect(0).lines()[0]["erased"], erased);
        let log = place.ok(&["log", "main"]);
        assert!(!log.contains("oars") && log.contains("boat"), "{arguments:?}: {log}");
    }
}

/// A store whose messages need a dictionary.
fn packed() -> Workspace {
    let place = Workspace::new();
    let word = |n: usize| format!("word{}", n * n % 301);
    let texts = (0..2000).map(|n| {
        let words: Vec<String> = (n..n + 40).map(word).collect();
        format!("The deployment of {} number {n}", words.join(" "))
    });
    place.write("many.jsonl", user_says(texts));
    place.ok(&["apply", "--atomic", "many.jsonl"]);
    place.ok(&["repack"]);
    place.write("many.jsonl", place.ok(&["export"]));
    std::fs::copy(place.store(), place.path("good.db")).expect("it is copied");
    place
}

#[test]
fn a_dictionary_is_repaired_from_its_second_copy() {
    let place = packed();
    for sql in ["UPDATE small SET data = zeroblob(length(data))", "DELETE FROM small"] {
        let sql = format!("{sql} WHERE id = (SELECT min(id) FROM small WHERE kind = 8)");
        place.damaged_by(&sql);
        if sql.starts_with("UPDATE") {
            let ran = place.run(&["verify"]).expect(1);
            assert!(ran.stderr.contains("tract verify --repair rebuilds it"), "{ran:?}");
        }
        let ran = place.run(&["verify", "--repair"]).expect(0);
        assert!(!ran.stdout.contains("damaged"), "{ran:?}");
        place.is_clean();
        let copies = "UPDATE small SET id = id WHERE kind = 8";
        assert!(sql.starts_with("DELETE") || place.execute(copies) == 2);
    }
}

#[test]
fn messages_whose_dictionary_is_lost_are_replaced() {
    let place = packed();
    let before = place.ok(&["export"]);
    for sql in ["UPDATE small SET data = zeroblob(length(data))", "DELETE FROM small"] {
        for how in ["verify", "apply", "copy"] {
            place.damaged_by(&format!("{sql} WHERE kind = 8"));
            place.run(&["verify"]).expect(1);
            if how == "apply" {
                place.ok(&["apply", "many.jsonl"]);
            } else {
                place.repair(how).expect(0);
            }
            place.is_clean();
            assert_eq!(place.ok(&["export"]), before, "{sql}, {how}");
        }
    }
    place.ok(&["gc"]);
    place.ok(&["repack"]);
    place.is_clean();
}

#[test]
fn a_flipped_bit_of_a_redb_file_is_repaired_in_place() {
    let (place, url) = (Workspace::empty(), "redb:agent.redb");
    let at = |arguments: &[&str]| place.run(&[&["--store", url], arguments].concat());
    at(&["init"]).expect(0);
    for text in ["the first of the words", "a needle in the hay", "the last of the words"] {
        at(&["commit", "user", text]).expect(0);
    }
    at(&["copy", "--to", "sqlite:good.db"]).expect(0);
    let mut file = std::fs::read(place.path("agent.redb")).expect("it is read");
    let needle = b"a needle in the hay";
    let places: Vec<usize> = (0..file.len()).filter(|at| file[*at..].starts_with(needle)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| file[at + 2] ^= 1);
    place.write("agent.redb", file);
    at(&["verify"]).expect(1);
    let ran = at(&["verify", "--repair", "--from", "sqlite:good.db"]).expect(0);
    assert!(ran.stdout.contains("restored 1 damaged or missing object"), "{ran:?}");
    at(&["verify"]).expect(0);
    assert_eq!(export(&place, url), export(&place, "sqlite:good.db"));
}
