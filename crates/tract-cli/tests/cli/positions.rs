//! `#n` in verbs that take a position: the place in the history where the message was added, or
//! merged, regardless of later edits.

use crate::support::Workspace;
use crate::tty::Terminal;

/// Four messages; the first and the third were edited after all of them.
const EDITED: &str = r#"
{"op":"system","text":"one","mark":"one"}
{"op":"user","text":"two"}
{"op":"user","text":"three","mark":"three"}
{"op":"user","text":"four"}
{"op":"edit","target":":one","content":"ONE"}
{"op":"edit","target":":three","content":"THREE"}
"#;

/// A branch whose second message was merged in, before a third one; the merged message was edited
/// on its own branch.
const MERGED: &str = r#"
{"op":"user","text":"first"}
{"op":"branch","name":"side"}
{"op":"checkout","name":"side"}
{"op":"user","text":"found","mark":"found"}
{"op":"edit","target":":found","content":"FOUND"}
{"op":"checkout","name":"main"}
{"op":"user","text":"meanwhile"}
{"op":"merge","from":"side","mark":"merge"}
{"op":"user","text":"last"}
"#;

/// A turn with two calls; a result of it was edited.
const TURN: &str = r#"
{"op":"user","text":"first"}
{"op":"branch","name":"other"}
{"op":"reasoning","text":"hm"}
{"op":"assistant","text":"","tool_calls":[{"id":"a","name":"grep","arguments":{}},{"id":"b","name":"ls","arguments":{}}]}
{"op":"tool_result","call_id":"a","name":"grep","content":"long","mark":"r"}
{"op":"tool_result","call_id":"b","name":"ls","content":"files"}
{"op":"user","text":"thanks","mark":"thanks"}
{"op":"edit","target":":r","content":"short"}
{"op":"edit","target":":thanks","content":"thank you"}
{"op":"edit","target":":thanks","content":"thank you!"}
"#;

fn texts(place: &Workspace, revision: &str) -> Vec<String> {
    let messages = place.messages(revision, "openai");
    messages.iter().map(|message| message["content"].as_str().unwrap_or("").to_owned()).collect()
}

fn shown(place: &Workspace, branch: &str) -> Vec<String> {
    let messages = place.json(&["cat", branch, "--json"]);
    messages.iter().map(|line| line["text"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_dropped_message_goes_with_its_edits() {
    let place = Workspace::of(EDITED);
    place.ok(&["drop", "#1"]);
    assert_eq!(shown(&place, "main"), ["two", "THREE", "four"]);
    place.ok(&["drop", "main#2"]);
    assert_eq!(shown(&place, "main"), ["two", "four"]);
    place.ok(&["undo"]);
    place.ok(&["undo"]);
    assert_eq!(shown(&place, "main"), ["ONE", "two", "THREE", "four"]);
    // An id is the edit alone.
    let log = place.json(&["log", "--json"]);
    place.ok(&["drop", log[1]["commit"].as_str().expect("an id")]);
    assert_eq!(shown(&place, "main"), ["one", "two", "THREE", "four"]);
    place.is_clean();
}

#[test]
fn a_message_is_inserted_where_the_edited_one_is() {
    let place = Workspace::of(EDITED);
    place.ok(&["insert", "--after", "#1", "user", "new"]);
    assert_eq!(shown(&place, "main"), ["ONE", "new", "two", "THREE", "four"]);
    place.ok(&["insert", "--after", "HEAD#4", "user", "newer"]);
    assert_eq!(shown(&place, "main"), ["ONE", "new", "two", "THREE", "newer", "four"]);
    place.is_clean();
}

#[test]
fn branches_tags_and_resets_begin_at_the_place_of_an_edited_message() {
    let place = Workspace::of(EDITED);
    let whole = place.id("main");
    let third = place.id("main~3");
    place.ok(&["branch", "f", "--from", "#3"]);
    place.ok(&["checkout", "-b", "g", "main#3"]);
    place.ok(&["checkout", "main"]);
    place.ok(&["tag", "t", "main#3"]);
    let stream = concat!(
        "{\"op\":\"branch\",\"name\":\"h\",\"from\":\"main#3\"}\n",
        "{\"op\":\"tag\",\"name\":\"u\",\"target\":\"main#3\"}\n"
    );
    place.feed(&["apply", "-"], stream.as_bytes()).expect(0);
    for name in ["f", "g", "t", "h", "u"] {
        assert_eq!(place.id(name), third, "{name}");
        assert_eq!(shown(&place, name), ["one", "two", "three"], "{name}");
    }
    for revision in ["main#3~1", "main#2", "main#3#2"] {
        assert_eq!(place.id(revision), place.id("main~4"), "{revision}");
    }
    place.ok(&["reset", "--to", "#2"]);
    assert_eq!(shown(&place, "main"), ["one", "two"]);
    place.ok(&["undo"]);
    assert_eq!(place.id("main"), whole);
    // What a message says is still the edit.
    let show = place.json(&["show", "#1", "--json"]);
    assert!(show[0].to_string().contains("ONE"), "{show:?}");
    place.is_clean();
}

#[test]
fn a_merged_message_is_at_the_merge() {
    let place = Workspace::of(MERGED);
    assert_eq!(shown(&place, "main"), ["first", "meanwhile", "FOUND", "last"]);
    let merge = place.id("main~1");
    place.ok(&["branch", "f", "--from", "#3"]);
    assert_eq!(place.id("f"), merge);
    place.ok(&["insert", "--after", "#3", "user", "new"]);
    assert_eq!(shown(&place, "main"), ["first", "meanwhile", "FOUND", "new", "last"]);
    place.ok(&["undo"]);
    // The merge is not dropped with the one message.
    place.refused(&["drop", "#3"], 1, "not_in_range", "priority skip");
    place.ok(&["reset", "--to", "#3"]);
    assert_eq!(place.id("main"), merge);
    place.is_clean();
}

#[test]
fn a_picked_message_comes_with_its_edits() {
    let place = Workspace::of(TURN);
    place.ok(&["cherry-pick", "main#5", "--onto", "other"]);
    assert_eq!(shown(&place, "other"), ["first", "thank you!"]);
    place.ok(&["checkout", "other"]);
    place.ok(&["undo"]);
    // A result brings its turn, with the edits of all of it; reasoning is no part of the context.
    place.ok(&["cherry-pick", "main#3", "main#5", "--onto", "other"]);
    assert_eq!(shown(&place, "other"), ["first", "", "short", "files", "thank you!"]);
    place.ok(&["checkout", "other"]);
    place.ok(&["merge", "main"]);
    assert_eq!(shown(&place, "other").len(), 5);
    // A message that was merged elsewhere, and edited there.
    let place = Workspace::of(MERGED);
    place.ok(&["branch", "other", "--from", "#1"]);
    place.ok(&["cherry-pick", "main#3", "--onto", "other"]);
    assert_eq!(shown(&place, "other"), ["first", "FOUND"]);
    place.is_clean();
}

#[test]
fn contexts_and_logs_begin_at_the_place() {
    let place = Workspace::of(EDITED);
    assert_eq!(texts(&place, "main#3"), ["one", "two", "three"]);
    assert_eq!(place.json(&["log", "main#2", "--json"]).len(), 2);
    let diff = place.ok(&["diff", "main#2", "main#3"]);
    assert!(diff.contains("three") && !diff.contains("THREE"), "{diff}");
    place.ok(&["branch", "o", "--from", "#2"]);
    place.ok(&["checkout", "o"]);
    assert!(place.ok(&["merge", "main#3"]).contains("forwarded"));
    assert_eq!(shown(&place, "o"), ["one", "two", "three"]);
}

#[test]
fn keys_of_the_terminal_act_at_the_place() {
    let place = Workspace::of(EDITED);
    place.ok(&["branch", "other", "--from", "main#1"]);
    place.ok(&["checkout", "other"]);
    let mut terminal = Terminal::run(&place, (24, 140), &[], "ui main");
    terminal.shows("main: 4 messages");
    terminal.press_for("gjjn", "name of the new branch");
    terminal.press_for("side\r", "side: 3 messages");
    terminal.press_for("h", "side");
    terminal.press_for("gg", "main: 4 messages");
    terminal.press_for("lgjjc", "copied onto other");
    terminal.press("q");
    assert_eq!(terminal.end(), (Some(0), true));
    assert_eq!(place.id("side"), place.id("main~3"));
    assert_eq!(shown(&place, "other"), ["one", "THREE"]);
}
