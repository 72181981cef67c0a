use crate::support::Workspace;

const OLD: &str = r#"{"op":"user","text":"long ago","at":1000000}"#;

/// A store with two branches that are old, and one that is not.
fn aged() -> Workspace {
    let place = Workspace::new();
    place.ok(&["commit", "user", "on main"]);
    for name in ["old", "older"] {
        place.ok(&["branch", name, "--checkout"]);
        place.feed(&["apply", "-"], OLD.as_bytes()).expect(0);
    }
    place.ok(&["tag", "answer"]);
    place.ok(&["checkout", "main"]);
    place
}

#[test]
fn prune_deletes_old_branches_and_undo_brings_them_back() {
    let place = aged();
    let dry = place.json(&["--json", "prune", "--older-than", "90d", "--dry-run"])[0].clone();
    assert_eq!(dry["deleted"].as_array().map(Vec::len), Some(2));
    let kept = place.json(&["--json", "prune", "--older-than", "90d", "--keep-tags", "--dry-run"]);
    assert_eq!(kept[0]["kept"]["tagged"], 1);
    assert_eq!(kept[0]["deleted"][0]["branch"], "old");
    let ran = place.run(&["prune", "--older-than", "90d"]).expect(0);
    assert!(ran.stdout.contains("deleted 2 branches"), "{ran:?}");
    assert!(ran.stderr.contains("tract undo --branch old"), "{ran:?}");
    assert!(ran.stderr.contains("tract gc"), "{ran:?}");
    let again = place.json(&["--json", "prune", "--older-than", "90d"]);
    assert_eq!(again[0]["deleted"].as_array().map(Vec::len), Some(0));
    place.ok(&["undo", "--branch", "old"]);
    let listed = place.ok(&["branch"]);
    assert!(listed.contains("old") && listed.contains("older"), "{listed}");
    place.ok(&["undo", "--redo", "--branch", "old"]);
    // What the tag names stays, though its branch is gone.
    place.ok(&["gc", "--keep", "0s"]);
    assert!(place.ok(&["log", "answer"]).contains("long ago"));
    assert!(place.ok(&["verify"]).contains("clean"));
}

#[test]
fn prune_refuses_bad_input_and_changes_nothing() {
    let place = aged();
    let before = place.ok(&["branch", "--json"]);
    for arguments in [&["prune"][..], &["prune", "--older-than", "90"], &["prune", "--older-than"]]
    {
        place.run(arguments).expect(2);
    }
    Workspace::empty().refused(&["prune", "--older-than", "1d"], 3, "no_store", "tract init");
    place.refused(&["undo", "--branch", "none"], 1, "nothing_to_undo", "");
    assert_eq!(place.ok(&["branch", "--json"]), before);
}
