//! Sessions in which a user went back: the name of the session is the conversation that its tool
//! would resume, and what was abandoned is kept next to it.

use serde_json::{Value, json};

use crate::support::{Workspace, text};

const NAME: &str = "claude-code/s1";

/// A line of Claude Code at a minute, after another line.
fn said(id: &str, parent: Option<&str>, minute: usize, role: &str, text: &str) -> String {
    let content = match role {
        "assistant" => json!([{"type": "text", "text": text}]),
        _ => json!(text),
    };
    let line = json!({
        "type": role, "uuid": uuid(id), "parentUuid": parent.map(uuid), "sessionId": "s1",
        "timestamp": format!("2026-02-03T10:{minute:02}:00Z"),
        "cwd": "/quay", "version": "2.1.0", "message": {"role": role, "content": content},
    });
    format!("{line}\n")
}

fn uuid(id: &str) -> String {
    format!("{id}{}-0000-4000-8000-000000000000", "0".repeat(8 - id.len()))
}

/// A session whose user asked "Left?", and then went back to the answer to "Where?".
fn rewound() -> String {
    [
        said("a1", None, 1, "user", "Where?"),
        said("b1", Some("a1"), 2, "assistant", "Which way?"),
        said("c1", Some("b1"), 3, "user", "Left?"),
        said("d1", Some("c1"), 4, "assistant", "Left it is."),
        said("e1", Some("b1"), 5, "user", "Right?"),
        said("f1", Some("e1"), 6, "assistant", "Right it is."),
    ]
    .concat()
}

fn imported(place: &Workspace, lines: &str) -> Value {
    place.write("s1.jsonl", lines);
    place.json(&["import", "claude-code", "s1.jsonl", "--json"]).remove(0)
}

/// The texts of a branch.
fn texts(place: &Workspace, branch: &str) -> Vec<String> {
    let lines = place.json(&["cat", branch, "--json"]);
    lines.iter().map(|line| text_of(&line["text"])).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn names(place: &Workspace) -> Vec<String> {
    let branches = place.json(&["branch", "--json"]);
    let names = branches.iter().map(|branch| text_of(&branch["branch"]));
    names.filter(|name| name.starts_with("claude-code/")).collect()
}

const RIGHT: [&str; 4] = ["Where?", "Which way?", "Right?", "Right it is."];
const LEFT: [&str; 4] = ["Where?", "Which way?", "Left?", "Left it is."];

#[test]
fn the_name_of_a_session_is_what_its_tool_would_resume() {
    let place = Workspace::new();
    let report = imported(&place, &rewound());
    let branches = &report["branches"];
    assert_eq!(
        (&branches[0]["branch"], &branches[0]["start"]),
        (&json!(NAME), &json!("conversation"))
    );
    assert_eq!(branches[1]["start"], "rewind");
    let abandoned = text_of(&branches[1]["branch"]);
    assert_eq!(names(&place), [NAME, &abandoned]);
    assert_eq!(texts(&place, NAME), RIGHT);
    assert_eq!(texts(&place, &abandoned), LEFT);
    place.sessions_bring_nothing(&["import", "claude-code", "s1.jsonl", "--json"]);
    let ran = Workspace::new();
    ran.write("s1.jsonl", rewound());
    let next = ran.run(&["import", "claude-code", "s1.jsonl"]).expect(0);
    assert!(next.stderr.contains(&format!("tract cat {NAME} ")), "{next:?}");
    // An export of the name is the session that the tool resumes.
    let exported = place.ok(&["export", NAME, "--format", "claude-code"]);
    assert!(exported.contains("Right it is.") && !exported.contains("Left it is."), "{exported}");
}

#[test]
fn a_session_that_returns_to_its_first_branch_keeps_the_name_there() {
    let place = Workspace::new();
    let again = said("g1", Some("d1"), 7, "user", "Left after all.");
    let report = imported(&place, &(rewound() + &again));
    assert_eq!(report["branches"][0]["branch"], NAME);
    assert_eq!(texts(&place, NAME), [&LEFT[..], &["Left after all."]].concat());
    let other = text_of(&report["branches"][1]["branch"]);
    assert_eq!(texts(&place, &other), RIGHT);
}

#[test]
fn the_newest_end_counts_and_not_the_last_line_of_the_file() {
    let place = Workspace::new();
    let lines = rewound();
    let lines: Vec<&str> = lines.split_inclusive('\n').collect();
    // The lines of the abandoned messages are written after those of the others.
    let order = [0, 1, 4, 5, 2, 3].map(|n| lines[n]).concat();
    imported(&place, &order);
    assert_eq!(texts(&place, NAME), RIGHT);
}

#[test]
fn a_rewind_after_the_first_import_moves_the_name_and_keeps_what_it_had() {
    let place = Workspace::new();
    let all = rewound();
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    imported(&place, &lines[..4].concat());
    assert_eq!(texts(&place, NAME), LEFT);
    let left = place.id(NAME);

    let report = imported(&place, &all);
    let branches = &report["branches"];
    let kept = text_of(&branches[1]["branch"]);
    let expected = json!({
        "branch": NAME, "status": "moved", "start": "conversation", "commits": 4, "new": 2,
        "moved_from": kept,
    });
    assert_eq!(branches[0], expected);
    assert_eq!(
        (texts(&place, NAME), texts(&place, &kept)),
        (RIGHT.map(String::from).to_vec(), LEFT.map(String::from).to_vec())
    );
    assert_eq!(place.id(&kept), left, "nothing of it changed");
    // It is as if the whole had been imported at once.
    let whole = Workspace::new();
    imported(&whole, &all);
    assert_eq!(names(&whole), names(&place));
    for name in names(&place) {
        assert_eq!(whole.id(&name), place.id(&name), "{name}");
    }
    place.sessions_bring_nothing(&["import", "claude-code", "s1.jsonl", "--json"]);
    place.ok(&["checkout", NAME]);
    place.ok(&["undo"]);
    assert_eq!(texts(&place, NAME), LEFT);
    place.is_clean();

    // People read which branch has what was abandoned.
    let people = place.run(&["import", "claude-code", "s1.jsonl"]).expect(0).stdout;
    assert!(people.contains(&format!("{NAME} moved")) && people.contains(&kept), "{people}");
}

#[test]
fn many_rewinds_one_after_another_are_all_kept() {
    let place = Workspace::new();
    let mut lines = said("a1", None, 0, "user", "Where?");
    for n in 1..=9 {
        lines += &said(&format!("{n}e"), Some("a1"), n, "user", &format!("Try {n}"));
        imported(&place, &lines);
        assert_eq!(texts(&place, NAME), ["Where?".to_owned(), format!("Try {n}")]);
    }
    let names = names(&place);
    assert_eq!(names.len(), 9, "{names:?}");
    let mut last: Vec<String> = names.iter().map(|name| texts(&place, name).remove(1)).collect();
    last.sort();
    assert_eq!(last, (1..=9).map(|n| format!("Try {n}")).collect::<Vec<_>>());
    let whole = Workspace::new();
    imported(&whole, &lines);
    assert_eq!(names, self::names(&whole));
}

#[test]
fn a_branch_with_commits_of_a_user_is_left_alone() {
    let all = rewound();
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    for verb in [["commit", "user", "My own."], ["edit", "#3", "My own."]] {
        let place = Workspace::new();
        imported(&place, &lines[..4].concat());
        place.ok(&["checkout", NAME]);
        place.ok(&verb);
        let own = place.id(NAME);
        let report = imported(&place, &all);
        assert_eq!(place.id(NAME), own, "{verb:?}");
        let branches = &report["branches"];
        assert_eq!(branches[0]["branch"], format!("{NAME}.2"));
        assert_eq!(report["anomalies"]["diverged"], 1, "{report}");
        assert_eq!(texts(&place, &format!("{NAME}.2")), RIGHT);
        let kept = text_of(&branches[1]["branch"]);
        assert_eq!(texts(&place, &kept), LEFT);
        place.sessions_bring_nothing(&["import", "claude-code", "s1.jsonl", "--json"]);
        // A further rewind moves what the import made, and not what the user did.
        let more = all.clone() + &said("g1", Some("b1"), 8, "user", "Back?");
        let report = imported(&place, &more);
        assert_eq!((&report["branches"][0]["status"], place.id(NAME)), (&json!("moved"), own));
        assert_eq!(texts(&place, &format!("{NAME}.2")), ["Where?", "Which way?", "Back?"]);
    }
}

#[test]
fn other_tools_name_what_they_would_resume_too() {
    let turn = |role: &str, text: &str| {
        let kind = if role == "user" { "input_text" } else { "output_text" };
        json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
    };
    let codex = |minute: usize, kind: &str, payload: &Value| {
        let time = format!("2026-02-03T10:{minute:02}:00.000Z");
        format!("{}\n", json!({"timestamp": time, "type": kind, "payload": payload}))
    };
    let before = [
        codex(0, "session_meta", &json!({"id": "c1", "cwd": "/quay", "cli_version": "0.50.0"})),
        codex(1, "response_item", &turn("user", "Where?")),
        codex(2, "response_item", &turn("assistant", "Which way?")),
        codex(3, "response_item", &turn("user", "Left?")),
    ]
    .concat();
    let after = [
        codex(4, "event_msg", &json!({"type": "thread_rolled_back", "num_turns": 1})),
        codex(5, "response_item", &turn("user", "Right?")),
    ]
    .concat();
    let gemini = |id: &str, kind: &str, text: &str| {
        let line = json!({
            "id": id, "type": kind, "timestamp": "2026-02-03T10:00:00Z", "content": text,
        });
        format!("{line}\n")
    };
    let head = json!({"sessionId": "g1", "projectHash": "x", "startTime": "2026-02-03T10:00:00Z"});
    let started = [
        format!("{head}\n"),
        gemini("m1", "user", "Where?"),
        gemini("m2", "gemini", "Which way?"),
        gemini("m3", "user", "Left?"),
    ]
    .concat();
    let rewind = format!("{}\n", json!({"$rewindTo": "m3"})) + &gemini("m4", "user", "Right?");
    for (tool, name, before, after) in
        [("codex", "codex/c1", before, after), ("gemini-cli", "gemini-cli/g1", started, rewind)]
    {
        let place = Workspace::new();
        let file = format!("{tool}.jsonl");
        let import =
            ["import", tool, text(place.path(&file).as_path()), "--json"].map(str::to_owned);
        let import = import.each_ref().map(String::as_str);
        place.write(&file, &before);
        place.json(&import);
        assert_eq!(texts(&place, name), ["Where?", "Which way?", "Left?"], "{tool}");
        place.write(&file, before + &after);
        let report = place.json(&import).remove(0);
        assert_eq!(texts(&place, name), ["Where?", "Which way?", "Right?"], "{tool}");
        assert_eq!(report["branches"][0]["status"], "moved", "{tool}: {report}");
        let kept = text_of(&report["branches"][1]["branch"]);
        assert_eq!(texts(&place, &kept), ["Where?", "Which way?", "Left?"], "{tool}");
        place.sessions_bring_nothing(&import);
    }
}
