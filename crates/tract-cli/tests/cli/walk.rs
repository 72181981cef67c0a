use crate::completions::completed;
#[cfg(unix)]
use crate::support::RunOutput;
use crate::support::{Workspace, bundled, text};

#[test]
fn a_day_with_one_conversation() {
    let place = Workspace::new();
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    place.ok(&["branch", "terse", "--from", "workshop-cargo-bike#33", "--checkout"]);
    place.ok(&["edit", "HEAD#33", "What do I save? One sentence."]);
    let edit = place.id("HEAD");
    let shown = place.ok(&["show"]);
    assert!(shown.contains("- Perfect, thank you for being so quick."), "{shown}");
    assert!(shown.contains("+ What do I save? One sentence."), "{shown}");
    place.ok(&["commit", "assistant", "You save 550 kr."]);
    let compiled = || place.json(&["compile", "--to", "openai"])[0].clone();
    assert_eq!(compiled()[32]["content"], "What do I save? One sentence.");
    place.ok(&["revert", &edit]);
    let original = "Perfect, thank you for being so quick. How much do I save altogether, with the \
                    voucher and the shared visit?";
    assert_eq!(compiled()[32]["content"], original);
    place.ok(&["undo"]);
    assert_eq!(compiled()[32]["content"], "What do I save? One sentence.");
    place.ok(&["undo"]);
    place.ok(&["undo"]);
    assert_eq!(compiled()[32]["content"], original);
    place.ok(&["undo", "--redo"]);
    assert_eq!(place.id("HEAD"), edit);
    let diff = place.ok(&["diff", "workshop-cargo-bike", "terse"]);
    assert!(diff.contains("+ What do I save? One sentence."), "{diff}");
    place.ok(&["checkout", "workshop-cargo-bike"]);
    place.ok(&["merge", "terse"]);
    assert_eq!(compiled()[32]["content"], "What do I save? One sentence.");
    assert_eq!(compiled().as_array().map(Vec::len), Some(37));
    place.is_clean();
}

#[test]
fn skipped_messages_are_left_out_and_come_back() {
    let place =
        Workspace::of("{\"op\":\"user\",\"text\":\"a\"}\n{\"op\":\"user\",\"text\":\"b\"}\n");
    let count = || place.json(&["compile", "--to", "openai"])[0].as_array().map(Vec::len);
    let first = place.id("HEAD~1");
    place.ok(&["annotate", &first, "--priority", "skip"]);
    assert_eq!(count(), Some(1));
    assert!(place.ok(&["status"]).contains("1 skipped"));
    place.ok(&["annotate", &first, "--priority", "normal"]);
    assert_eq!(count(), Some(2));
}

#[test]
fn a_line_is_read_from_standard_input() {
    let place = Workspace::new();
    place.feed(&["commit", "user"], b"two\nlines\n").expect(0);
    assert_eq!(place.json(&["compile", "--to", "openai"])[0][0]["content"], "two\nlines");
    place.feed(&["edit", "HEAD#1", "-"], b"one line").expect(0);
    assert_eq!(place.json(&["compile", "--to", "openai"])[0][0]["content"], "one line");
}

/// The verbs that the help lists: the indented lines of its groups, up to the options.
fn verbs(help: &str) -> Vec<&str> {
    let groups = help.lines().skip_while(|line| *line != "Start:");
    let groups = groups.take_while(|line| *line != "Options:");
    groups.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect()
}

#[test]
fn help_groups_the_verbs_and_ends_with_examples() {
    let place = Workspace::empty();
    let help = place.ok(&["--help"]);
    let headings: Vec<&str> = help.lines().filter(|line| line.ends_with(':')).collect();
    for group in
        ["Start:", "Record:", "Change:", "Look:", "Compile:", "Tools:", "Agents:", "Stores:"]
    {
        assert!(headings.contains(&group), "{group} of {help}");
    }
    assert!(!help.contains("Commands:"), "{help}");
    let examples = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    assert_eq!(examples.filter(|line| line.starts_with("  tract ")).count(), 3, "{help}");
    // Every verb that the parser knows is listed, but `help` itself.
    let mut known = completed(&place, &[""]);
    known.retain(|word| !word.starts_with('-') && word != "help");
    known.sort_unstable();
    let mut listed = verbs(&help);
    listed.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn help_teaches_by_example() {
    let place = Workspace::empty();
    let help = place.ok(&["--help"]);
    let verbs = verbs(&help);
    assert!(verbs.len() > 35, "{help}");
    for verb in verbs {
        if ["status", "stats", "tools"].contains(&verb) {
            continue;
        }
        let text = place.ok(&[verb, "--help"]);
        assert!(text.contains("tract "), "{verb} shows no example");
    }
}

/// The commands of a transcript and what they print; comments and empty lines are left out.
fn transcript(text: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for block in text.split("\n\n") {
        let mut in_session = false;
        for line in block.lines().filter(|line| !line.starts_with("# ")) {
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push((command.to_owned(), Vec::new()));
                in_session = true;
            } else if let Some((_, answer)) = commands.last_mut().filter(|_| in_session) {
                answer.push(line.to_owned());
            }
        }
    }
    commands
}

#[test]
#[cfg(unix)]
fn the_commands_of_the_demo_are_typed_and_answer_the_same() {
    let place = Workspace::empty();
    let shown = transcript(&place.ok(&["demo"]));
    assert!(shown.len() > 15, "{shown:?}");
    std::fs::remove_file(place.path("tract-demo/tract.db")).expect("the store is there");
    let mut script = String::new();
    for (command, _) in &shown {
        let quoted = shlex::try_quote(command).expect("no NUL");
        script += &format!("printf '$ %s\\n' {quoted}\n{command}\nprintf '\\n'\n");
    }
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_tract"));
    let mut path = binary.parent().expect("a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.path("")).env_remove("TRACT_STORE");
    let ran = RunOutput::after(shell.env("PATH", path).env("COLUMNS", "100"));
    assert!(!ran.stderr.contains("error["), "{ran:?}");
    for (shown, typed) in shown.iter().zip(transcript(&ran.stdout)) {
        assert_eq!(*shown, typed, "{}", ran.stderr);
    }
}

/// The chapters of the demo that the picture in the README shows; all of them are too long for a
/// first screen.
const CHAPTERS: &[usize] = &[1, 4, 5, 8];

#[test]
fn the_picture_of_the_readme_is_what_the_demo_prints() {
    let place = Workspace::empty();
    let printed = place.ok(&["--color", "always", "demo"]);
    let chapters: Vec<&str> = printed.split("\n\n").skip(1).map(str::trim_end).collect();
    let shown: Vec<&str> = CHAPTERS.iter().map(|at| chapters[*at]).collect();
    let lines: Vec<String> = shown.join("\n\n").lines().map(str::to_owned).collect();
    let picture = crate::picture::of_lines("What `tract demo` prints", 100, &lines);
    crate::pages::shows("demo.svg", &picture);
}

/// The demo is the same wherever it runs: its ids are in the snapshot.
#[test]
fn the_demo_shows_what_it_says() {
    let place = Workspace::empty();
    let ran = place.run(&["demo"]).expect(0);
    // The recordings have no times, the rest states its own.
    insta::assert_snapshot!("demo", ran.stdout);
    assert!(place.path("tract-demo/tract.db").exists());
    let again = place.run(&["demo"]).expect(0);
    assert!(again.stdout.contains("sqlite:tract-demo-2/tract.db"), "{}", again.stdout);
    place.refused(&["--store", "sqlite:tract-demo/tract.db", "demo"], 1, "exists", "a new store");
    place.refused(&["--store", "memory:", "demo"], 2, "usage", "on disk");
}
