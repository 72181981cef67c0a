//! The contract for stores, run against a url.

use serde_json::Value;

use crate::support::{RunOutput, Workspace};

fn outcomes(ran: &RunOutput, outcome: &str) -> Vec<Value> {
    ran.lines().into_iter().filter(|line| line["outcome"] == outcome).collect()
}

#[test]
fn engines_keep_their_promises() {
    let place = Workspace::empty();
    let memory = place.run(&["--store", "memory:", "conformance", "--json"]).expect(0);
    assert!(memory.lines().len() > 80, "{memory:?}");
    assert_eq!(outcomes(&memory, "broken"), Vec::<Value>::new());
    // What a store in memory cannot do is named.
    let lacks = outcomes(&memory, "lacks");
    assert!(lacks.iter().any(|line| line["detail"] == "Persistent"), "{lacks:?}");

    let sqlite = ["--store", "sqlite:x.db", "conformance", "--only", "re", "--json"];
    let sqlite = place.run(&sqlite).expect(0);
    assert!(outcomes(&sqlite, "kept").len() > 20, "{sqlite:?}");
    assert!(outcomes(&sqlite, "lacks").is_empty(), "{sqlite:?}");
    // Nothing is left next to the file that the url names, and that is not made.
    let left = std::fs::read_dir(place.path(".")).expect("a folder").count();
    assert_eq!(left, 0);
}

#[test]
fn people_get_a_summary() {
    let place = Workspace::empty();
    let output = place.ok(&["--store", "memory:", "conformance", "--only", "toolset"]);
    assert!(output.contains("no promise broken"), "{output}");
    let none = ["--store", "memory:", "conformance", "--only", "no such case"];
    place.refused(&none, 2, "usage", "no case has");
}
