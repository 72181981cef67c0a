//! Sessions of agent tools, found and imported as a user does it.

use std::path::{Path, PathBuf};

use crate::support::Workspace;

fn bundled(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(file)
}

#[test]
fn the_sessions_of_claude_code_are_found_in_its_own_folder() {
    let place = Workspace::new();
    let run = |arguments: &[&str], config: &Path| {
        let mut command = place.command(arguments);
        command.env("CLAUDE_CONFIG_DIR", config);
        command.output().expect("the binary runs")
    };
    let ran = run(&["import", "claude-code", "--json"], &bundled("sessions/claude-code"));
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).expect("it is text");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(lines.len(), 5, "a line a file, and one for all of them");
    let summary = &lines[4]["summary"];
    assert_eq!((summary["sessions"].as_u64(), summary["subagents"].as_u64()), (Some(2), Some(1)));
    assert_eq!((summary["rewinds"].as_u64(), summary["compactions"].as_u64()), (Some(1), Some(1)));
    assert_eq!(summary["pairs"], 6);
    assert_eq!(summary["branches"]["created"], 4);
    place.is_clean();

    // A second import, of other paths, by what the bytes are: nothing is new.
    let folder = bundled("sessions/claude-code/projects/-home-ada-tide-tables");
    let files =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path());
    let file = files
        .filter(|path| path.is_file())
        .max_by_key(|path| std::fs::metadata(path).expect("a file").len());
    let file = file.expect("a session");
    place.write("copy.jsonl", std::fs::read(&file).expect("it reads"));
    let again = place.json(&["import", "copy.jsonl", "--json"]);
    assert_eq!(again[1]["summary"]["new"], 0);
    assert_eq!(again[1]["summary"]["branches"]["unchanged"], 2);
    let branch = again[0]["branches"][0]["branch"].as_str().expect("a branch");
    let said = place.ok(&["cat", branch, "-n", "1"]);
    assert!(said.contains("has to be read again"), "{said}");

    let none = run(&["import", "claude-code"], &place.path("nowhere"));
    assert_eq!(none.status.code(), Some(1));
    let text = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(text.contains("error[no_sessions]") && text.contains("CLAUDE_CONFIG_DIR"), "{text}");
}

#[test]
fn sessions_are_chosen_by_project_and_time_and_nothing_else_is() {
    let place = Workspace::new();
    let folder = bundled("sessions/claude-code");
    let folder = folder.to_str().expect("a path");
    let of = |more: &[&str]| {
        let arguments = [&["import", "claude-code", folder, "--json"], more].concat();
        place.json(&arguments).len() - 1
    };
    assert_eq!(of(&["--project", "tide-tables"]), 3);
    place.refused(
        &["import", "claude-code", folder, "--project", "elsewhere"],
        1,
        "no_sessions",
        "asked for",
    );
    place.refused(
        &["import", "claude-code", folder, "--since", "2999-01-01T00:00:00Z"],
        1,
        "no_sessions",
        "asked for",
    );
    place.write("chats.jsonl", r#"{"messages":[{"role":"user","content":"Hi"}]}"#);
    place.refused(&["import", "chats.jsonl", "--project", "x"], 2, "usage", "--project");
    // What is imported is said in people's words, and what is missing too.
    let ran = place.run(&["import", "claude-code", folder]).expect(0);
    let text = format!("{}{}", ran.stdout, ran.stderr);
    for words in
        ["2 sessions and 1 subagent", "1 rewind", "1 compaction", "no system prompt", "next: tract cat"]
    {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}
