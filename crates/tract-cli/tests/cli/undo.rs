//! Undo reverts one command, whole, or refuses and names the command that came between.

use std::io::Write;

use crate::branches::names;
use crate::pipes::conversations;
use crate::support::{Workspace, list};

fn head(place: &Workspace) -> String {
    place.json(&["status", "--json"])[0]["branch"].as_str().expect("a branch").to_owned()
}

#[test]
fn a_branch_that_was_made_and_checked_out_is_undone_with_head() {
    let place = Workspace::of("{\"op\":\"user\",\"text\":\"one\"}\n");
    place.ok(&["branch", "q", "--checkout"]);
    place.ok(&["undo"]);
    assert_eq!((names(&place, &[]), head(&place)), (vec!["main".to_owned()], "main".to_owned()));
    place.ok(&["undo", "--redo"]);
    assert_eq!(head(&place), "q");
    // In two commands: HEAD does not stay on a branch that is gone.
    place.ok(&["checkout", "main"]);
    place.ok(&["branch", "r"]);
    place.ok(&["checkout", "r"]);
    place.ok(&["undo"]);
    assert_eq!(head(&place), "main");
    assert!(!names(&place, &[]).contains(&"r".to_owned()));
    place.is_clean();
}

#[test]
fn an_import_of_many_conversations_is_one_undo() {
    let place = Workspace::of("{\"op\":\"user\",\"text\":\"one\"}\n");
    place.write("many.jsonl", conversations(700));
    place.ok(&["import", "many.jsonl"]);
    assert_eq!(names(&place, &[]).len(), 701);
    place.ok(&["checkout", "c350"]);
    let lines = place.json(&["undo", "--json"]);
    let moves = list(&lines[0]["moves"]).len();
    assert_eq!(moves, 1401, "a branch and a document each, and HEAD");
    assert_eq!((names(&place, &[]), head(&place)), (vec!["main".to_owned()], "main".to_owned()));
    place.is_clean();
}

#[test]
fn a_stream_over_two_branches_is_one_undo() {
    let place = Workspace::of("{\"op\":\"user\",\"text\":\"one\"}\n");
    let mut stream = String::from("{\"op\":\"branch\",\"name\":\"side\"}\n");
    for n in 0..400 {
        let branch = if n % 2 == 0 { "main" } else { "side" };
        stream += &format!("{{\"op\":\"checkout\",\"name\":\"{branch}\"}}\n");
        stream += &format!("{{\"op\":\"user\",\"text\":\"{n}\"}}\n");
    }
    stream += "{\"op\":\"checkout\",\"name\":\"main\"}\n";
    place.feed(&["apply", "-"], stream.as_bytes()).expect(0);
    place.ok(&["undo"]);
    assert_eq!(names(&place, &[]), ["main"]);
    assert_eq!(place.json(&["log", "--json"]).len(), 1);
    place.is_clean();
}

#[test]
fn a_commit_of_another_process_between_two_writes_of_a_stream_is_not_lost() {
    let place = Workspace::of("{\"op\":\"user\",\"text\":\"one\"}\n");
    let (mut child, mut input, mut answers) = place.applying();
    let mut line = |n: usize| {
        writeln!(input, "{{\"op\":\"user\",\"text\":\"of the stream {n}\"}}").expect("it is read");
        answers.next().expect("an answer").expect("a line");
    };
    line(1);
    place.ok(&["commit", "user", "of another process"]);
    let between = place.id("HEAD");
    line(2);
    drop(input);
    assert!(child.wait().expect("it ends").success());
    let before = place.id("HEAD");
    place.refused(&["undo"], 1, "conflict", "moved since by \"commit\" of \"cli\" at ");
    assert_eq!(place.id("HEAD"), before, "nothing moved");
    assert_eq!(place.id("HEAD~1"), between);
    place.is_clean();
}

#[test]
fn a_stream_that_returns_to_its_branch_is_undone_after_a_later_checkout() {
    let place = Workspace::of("{\"op\":\"user\",\"text\":\"one\"}\n");
    let stream = concat!(
        "{\"op\":\"branch\",\"name\":\"side\"}\n",
        "{\"op\":\"checkout\",\"name\":\"side\"}\n",
        "{\"op\":\"user\",\"text\":\"on side\"}\n",
        "{\"op\":\"checkout\",\"name\":\"main\"}\n",
        "{\"op\":\"user\",\"text\":\"on main\"}\n",
    );
    for (there, stays) in [("side", "main"), ("x", "x")] {
        place.feed(&["apply", "-"], stream.as_bytes()).expect(0);
        if there == "x" {
            place.ok(&["branch", "x"]);
        }
        place.ok(&["checkout", there]);
        let branch = if there == "x" { "main" } else { there };
        place.ok(&["undo", "--branch", branch]);
        assert_eq!(head(&place), stays);
        assert_eq!(place.json(&["log", "main", "--json"]).len(), 1);
        assert!(!names(&place, &[]).contains(&"side".to_owned()));
        place.ok(&["undo", "--branch", "main", "--redo"]);
        assert_eq!(place.json(&["log", "main", "--json"]).len(), 2);
        place.ok(&["undo", "--branch", "main"]);
    }
    place.is_clean();
}
