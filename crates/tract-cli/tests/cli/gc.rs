use crate::support::{COAT, Workspace, user_says};

/// A store with a message that was undone.
fn undone() -> Workspace {
    let place = Workspace::new();
    place.ok(&["commit", "user", "kept"]);
    place.ok(&["commit", "user", "undone"]);
    place.ok(&["undo"]);
    place
}

fn gc(place: &Workspace, arguments: &[&str]) -> serde_json::Value {
    place.json(&[&["--json", "gc"], arguments].concat())[0].clone()
}

#[test]
fn gc_deletes_what_undo_left_behind_and_says_the_same_before() {
    let place = undone();
    assert_eq!(gc(&place, &[])["deleted"]["objects"], 0, "undo reaches back 30 days");
    let dry = gc(&place, &["--dry-run", "--keep", "0s"]);
    assert_eq!(dry["dry_run"], true);
    assert_eq!(dry["disk_bytes_after"], serde_json::Value::Null);
    place.ok(&["undo", "--redo"]);
    place.ok(&["undo"]);
    let done = gc(&place, &["--keep", "0s"]);
    assert_eq!(done["deleted"], dry["deleted"]);
    assert_eq!(done["kept"], dry["kept"]);
    assert_eq!(done["deleted"]["commits"]["objects"], 1);
    assert_eq!(done["deleted"]["blobs"]["objects"], 1);
    assert_eq!(done["kept"]["history"]["objects"], 2);
    assert!(done["disk_bytes_before"].as_u64() >= done["disk_bytes_after"].as_u64());
    place.refused(&["undo", "--redo"], 1, "collected", "deleted by gc");
    place.refused(&["log", "main@{1}"], 1, "collected", "deleted by gc");
    assert!(place.ok(&["log"]).contains("kept"));
    assert!(place.ok(&["verify"]).contains("clean"));
    place.ok(&["commit", "user", "undone"]);
    assert!(place.ok(&["verify"]).contains("clean"));
}

#[test]
fn gc_refuses_bad_input_and_changes_nothing() {
    let place = undone();
    let before = place.ok(&["stats", "--json"]);
    for keep in ["30", "soon", "-1d", "1y", "99999999999999999999w"] {
        place.run(&["gc", "--keep", keep]).expect(2);
    }
    Workspace::empty().refused(&["gc"], 3, "no_store", "tract init");
    assert_eq!(place.ok(&["stats", "--json"]), before);
}

#[test]
fn gc_of_one_repository_leaves_the_others() {
    let place = undone();
    for arguments in [&["init"][..], &["commit", "user", "kept"], &["commit", "user", "undone"]] {
        place.ok(&[&["--repo", "other"], arguments].concat());
    }
    place.ok(&["--repo", "other", "undo"]);
    assert_eq!(gc(&place, &["--keep", "0s"])["deleted"]["commits"]["objects"], 1);
    place.ok(&["--repo", "other", "undo", "--redo"]);
    assert!(place.ok(&["--repo", "other", "verify"]).contains("clean"));
}

#[test]
fn repack_makes_a_store_smaller_and_changes_nothing_else() {
    let place = Workspace::new();
    let line = |n: usize| format!("Please check src/module_{}.rs once more, line {n}.", n % 9);
    place.write("stream.jsonl", user_says((0..400).map(line)));
    place.ok(&["apply", "stream.jsonl", "--atomic"]);
    let (log, cat) = (place.ok(&["log"]), place.ok(&["cat"]));
    let done = &place.json(&["--json", "repack"])[0];
    let bytes = |key: &str| done[key].as_u64().expect("a number");
    assert_eq!(bytes("blobs"), 400);
    assert!(bytes("blob_bytes_after") * 2 < bytes("blob_bytes_before"), "{done}");
    assert!(bytes("disk_bytes_after") < bytes("disk_bytes_before"), "{done}");
    assert_eq!((place.ok(&["log"]), place.ok(&["cat"])), (log, cat));
    assert!(place.ok(&["verify"]).contains("clean"));
    let again = place.ok(&["repack"]);
    assert!(again.contains("of 400 blobs") && again.contains("on disk:"), "{again}");
    Workspace::empty().refused(&["repack"], 3, "no_store", "tract init");
}

#[test]
fn ages_are_also_days_and_times() {
    let place = Workspace::of(COAT);
    for age in ["7d", "2020-01-01", "2020-01-01 12:00", "2020-01-01T12:00:00Z"] {
        place.ok(&["gc", "--keep", age, "--dry-run"]);
        place.ok(&["prune", "--older-than", age, "--dry-run"]);
    }
    let refused = place.run(&["gc", "--keep", "9999-01-01"]).expect(2);
    assert!(refused.stderr.contains("in the future"), "{refused:?}");
}
