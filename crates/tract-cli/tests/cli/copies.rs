//! From one store to another.

use std::process::Stdio;

use serde_json::Value;

use crate::streams::MORNING;
use crate::support::{Workspace, bundled, data, each, export, in_store, list, text};

/// A day's work: a stream, an edit, recorded conversations.
fn worked() -> Workspace {
    let place = Workspace::of(MORNING);
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    place.ok(&["import", text(&bundled("anthropic.json"))]);
    place.ok(&["annotate", "main", "--priority", "skip"]);
    place
}

fn copied(place: &Workspace, to: &str) -> Value {
    place.json(&["--json", "copy", "--to", to]).remove(0)
}

/// What a copy says of a ref.
fn named_ref<'a>(copied: &'a Value, name: &str) -> &'a Value {
    list(&copied["refs"]).iter().find(|line| line["name"] == name).expect("a ref")
}

#[test]
fn a_copy_is_the_same_repository() {
    let place = worked();
    let first = copied(&place, "sqlite:copy.db");
    assert_eq!((&first["clean"], &first["reused"]), (&true.into(), &0.into()), "{first}");
    assert!(first["refs"].as_array().is_some_and(|refs| refs.len() > 5), "{first}");
    assert_eq!(export(&place, "sqlite:copy.db"), place.ok(&["export"]));
    // Tools are known by name there, too.
    let named = ["tools", "list", "--json"];
    let elsewhere = ["--store", "sqlite:copy.db", "tools", "list", "--json"];
    assert_eq!(place.json(&elsewhere), place.json(&named));

    let again = copied(&place, "sqlite:copy.db");
    assert_eq!(again["reused"], first["commits"]);
    let target = |name: &str| &named_ref(&again, name)["to"];
    assert_eq!(*target("heads/lyon"), place.id("lyon"));
    assert_eq!(*target("HEAD"), "heads/main");
    let shown = place.ok(&["copy", "--to", "sqlite:copy.db"]);
    assert!(shown.contains("unchanged  branch lyon\n") && !shown.contains("heads/"), "{shown}");
    let mut refs = list(&again["refs"]).iter();
    assert!(refs.all(|line| line["status"] == "unchanged"), "{again}");
}

#[test]
fn a_second_copy_brings_what_is_new_and_leaves_what_went_its_own_way() {
    let place = worked();
    copied(&place, "sqlite:copy.db");
    place.ok(&["commit", "user", "And an umbrella?"]);
    let line = copied(&place, "sqlite:copy.db");
    assert_eq!(named_ref(&line, "heads/main")["status"], "forwarded");
    assert_eq!(export(&place, "sqlite:copy.db"), place.ok(&["export"]));

    place.ok(&["--store", "sqlite:copy.db", "commit", "user", "There I said something else."]);
    let main = |export: String| {
        export.lines().find(|line| line.contains("\"heads/main\"")).map(str::to_owned)
    };
    let theirs = main(export(&place, "sqlite:copy.db")).expect("a ref");
    place.ok(&["commit", "user", "Here I said this."]);
    let lines = place.run(&["--json", "copy", "--to", "sqlite:copy.db"]).expect(1).lines();
    assert!(lines[0]["refs"].to_string().contains("diverged"), "{lines:?}");
    assert_eq!(main(export(&place, "sqlite:copy.db")), Some(theirs));
}

#[test]
fn chosen_branches_and_all_repositories() {
    let place = worked();
    place.ok(&["--repo", "other", "init"]);
    place.ok(&["--repo", "other", "commit", "user", "apart"]);
    place.ok(&["copy", "--to", "sqlite:part.db", "--branch", "lyon"]);
    let branches = place.json(&["--store", "sqlite:part.db", "--json", "branch"]);
    let names = each(&branches, "branch");
    assert!(names.contains(&"lyon") && !names.contains(&"main"), "{names:?}");
    // HEAD of a part is its branch.
    assert_eq!(branches[0]["checked_out"], true, "{branches:?}");

    let lines = place.json(&["--json", "copy", "--to", "sqlite:all.db", "--all-repos"]);
    assert_eq!(lines.len(), 2);
    let other = ["--repo", "other", "export"];
    assert_eq!(place.ok(&in_store("sqlite:all.db", &other)), place.ok(&other));
    let lion = ["copy", "--to", "sqlite:x.db", "--branch", "lion"];
    place.refused(&lion, 1, "unknown_branch", "did you mean \"lyon\"");
    place.refused(&["copy", "--from", "sqlite:none.db", "--to", "sqlite:x.db"], 3, "no_store", "");
}

/// A copy that is killed at any moment leaves a whole store behind, and the next one continues.
#[cfg(unix)]
#[test]
fn a_copy_that_is_killed_can_be_continued() {
    let place = Workspace::new();
    place.ok(&["import", text(&data("trajectories/tau_airline_gpt4o.jsonl"))]);
    for wait in [5, 20, 50, 90, 140] {
        let mut copy = place.command(&["copy", "--to", "sqlite:copy.db"]);
        let mut copy = copy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_millis(wait));
        copy.kill().expect("a process of ours");
        copy.wait().expect("it ends");
        if !place.path("copy.db").exists() {
            continue;
        }
        // Killed before there was a store, or after: what is there is whole.
        let verify = place.run(&["--store", "sqlite:copy.db", "verify", "--json"]);
        if verify.code == Some(3) {
            continue;
        }
        assert_eq!(verify.expect(0).lines()[0]["clean"], true);
    }
    let line = copied(&place, "sqlite:copy.db");
    let reused = &line["reused"];
    eprintln!("{reused} commits of killed copies were reused, of {}", line["commits"]);
    assert_eq!(export(&place, "sqlite:copy.db"), place.ok(&["export"]));
}
