//! `tract ui`, on a real terminal.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::pages;
use crate::support::{COAT, RunOutput, Workspace, signal, user_says};
use crate::tty::Terminal;

const WIDE: (u16, u16) = (24, 140);

/// What the branch says, one message a line.
fn messages(place: &Workspace, branch: &str) -> Vec<String> {
    let messages = place.json(&["cat", branch, "--json"]);
    messages.iter().map(|line| line["text"].as_str().expect("a text").to_owned()).collect()
}

fn start(place: &Workspace, environment: &[(&str, &str)], arguments: &str) -> Terminal {
    let terminal = Terminal::run(place, WIDE, environment, &format!("ui {arguments}"));
    terminal.shows("? help");
    terminal
}

#[track_caller]
fn quit(mut terminal: Terminal) {
    terminal.press("q");
    assert_eq!(terminal.end(), (Some(0), true));
}

#[test]
fn branches_messages_and_content_are_side_by_side() {
    let place = Workspace::of(COAT);
    place.ok(&["branch", "side", "--from", "main#2"]);
    let mut terminal = start(&place, &[], "");
    let text = terminal.shows("Yes, and an umbrella.");
    for shown in ["* main", "side", "5 messages", "→ get_weather", "result", "on main"] {
        assert!(text.contains(shown), "{shown} is missing:\n{text}");
    }
    // The result of a call names it.
    let text = terminal.press_for("k", "answers #3");
    assert!(text.contains("11 degrees, rain"), "{text}");
    // Another branch is shown at once, and nothing is checked out.
    let text = terminal.press_for("hj", "side: 2 messages");
    assert!(!text.contains("umbrella"), "{text}");
    terminal.press_for("k", "main: 5 messages");
    // The help has every key, and any key leaves it.
    let text = terminal.press_for("?", "undo the last operation");
    assert!(text.contains("copy the marked messages"), "{text}");
    terminal.press("x");
    terminal.wait_until("no help", |text| !text.contains("undo the last operation"));
    quit(terminal);
    assert_eq!(place.json(&["status", "--json"])[0]["branch"], "main");
}

#[test]
fn the_picture_is_a_real_screen() {
    let place = Workspace::of(COAT);
    place.ok(&["branch", "terse", "--from", "main#2"]);
    let mut terminal = Terminal::run(&place, (12, 110), &[], "ui");
    terminal.shows("? help");
    terminal.press_for("k", "answers #3");
    terminal.press_for("/rain\r", "4 of 5 lines");
    let picture = terminal.picture("tract ui");
    quit(terminal);
    pages::shows("images/ui.svg", &picture);
}

#[test]
fn a_signal_to_end_leaves_the_terminal_as_it_was() {
    let place = Workspace::of(COAT);
    for name in ["-TERM", "-INT", "-QUIT", "-HUP", "-USR1", "-USR2", "-ALRM", "-ABRT"] {
        let terminal = start(&place, &[], "");
        signal(terminal.program(), name);
        assert_eq!(terminal.end(), (Some(0), true), "{name}");
    }
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_until_fg() {
    let place = Workspace::of(COAT);
    let line = r#"exec bash -mc '"$TRACT" ui; stty -a | grep -o "[-]*icanon"; echo stopped; fg >/dev/null; echo ended'"#;
    let mut terminal = Terminal::run_in(&place, WIDE, &[("TERM", "xterm-256color")], line);
    terminal.shows("? help");
    terminal.press_for("gj", "#2 user");
    terminal.press("\u{1a}");
    // It is continued at once, where it was.
    terminal.press_for("j", "#3 assistant");
    terminal.press("q");
    let text = terminal.shows("ended");
    assert!(text.contains("\nicanon\nstopped"), "the shell had its terminal: {text}");
    assert_eq!(terminal.end(), (Some(0), true));
}

#[test]
fn ctrl_z_does_nothing_where_no_shell_would_continue_it() {
    let place = Workspace::of(COAT);
    let mut terminal = start(&place, &[], "");
    terminal.press("\u{1a}");
    terminal.press_for("gj", "#2 user");
    quit(terminal);
    // In a container whose shell is of a session from outside, that session is no process.
    let Some(unshare) = ["unshare", "unshare --map-root-user"].into_iter().find(|line| {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["--pid", "--fork", "true"]);
        command.output().is_ok_and(|output| output.status.success())
    }) else {
        eprintln!("not tried in a namespace of processes: this machine allows none");
        return;
    };
    let line = format!(r#"exec {unshare} --pid --fork sh -c '"$TRACT" ui; exit $?'"#);
    let mut terminal = Terminal::run_in(&place, WIDE, &[], &line);
    terminal.shows("? help");
    terminal.press("\u{1a}");
    terminal.press_for("gj", "#2 user");
    quit(terminal);
}

#[test]
fn an_edit_in_the_editor_is_undone_and_redone() {
    let place = Workspace::of(COAT);
    let mut terminal = start(&place, &[("EDITOR", "sed -i s/Paris/Lyon/")], "");
    terminal.shows("main: 5 messages");
    terminal.press_for("gj", "#2 user");
    terminal.press_for("e", "edited");
    terminal.shows("Do I need a coat in Lyon?");
    assert_eq!(messages(&place, "main")[1], "Do I need a coat in Lyon?");
    terminal.press_for("d", "+ Do I need a coat in Lyon?");
    terminal.press_for("z", "edit: undone");
    assert_eq!(messages(&place, "main")[1], "Do I need a coat in Paris?");
    terminal.press_for("Z", "edit: redone");
    assert_eq!(messages(&place, "main")[1], "Do I need a coat in Lyon?");
    quit(terminal);
}

#[test]
fn an_editor_that_fails_or_changes_nothing_writes_nothing() {
    let place = Workspace::of(COAT);
    let head = place.id("HEAD");
    for (editor, says) in
        [("true", "nothing was changed"), ("false", "the editor"), ("truncate -s 0", "is empty")]
    {
        let mut terminal = start(&place, &[("EDITOR", editor)], "");
        terminal.press_for("e", says);
        terminal.press_for("s", says);
        quit(terminal);
        assert_eq!(place.id("HEAD"), head, "{editor}");
    }
}

#[test]
fn marked_messages_are_replaced_by_a_summary() {
    let place = Workspace::of(COAT);
    let editor = "sh -c 'echo The weather was looked up. > \"$0\"'";
    let mut terminal = start(&place, &[("EDITOR", editor)], "");
    terminal.shows("main: 5 messages");
    // From the call to its result.
    let text = terminal.press_for("gjjv", "marked from here");
    assert!(text.contains(">#3"), "{text}");
    terminal.press_for("j", ">#4");
    terminal.press_for("s", "2 messages summarized");
    assert_eq!(messages(&place, "main")[2], "The weather was looked up.");
    terminal.press_for("z", "compress: undone");
    assert_eq!(messages(&place, "main").len(), 5);
    quit(terminal);
}

#[test]
fn a_program_writes_the_summary_until_it_is_left() {
    let place = Workspace::of(COAT);
    let mut terminal = start(&place, &[], "--summarizer 'tr a-z A-Z'");
    terminal.press_for("G", "#5 assistant");
    terminal.press_for("s", "1 message summarized");
    assert_eq!(messages(&place, "main")[4], "ASSISTANT: YES, AND AN UMBRELLA.");
    quit(terminal);
    let head = place.id("HEAD");
    let mut terminal = start(&place, &[], "--summarizer 'sleep 3599.25'");
    terminal.press_for("s", "writes a summary");
    until_runs("sleep 3599.25", true);
    terminal.press_for("\u{1b}", "nothing was changed");
    quit(terminal);
    until_runs("sleep 3599.25", false);
    let mut terminal = start(&place, &[], "--summarizer false");
    terminal.press_for("s", "ended with exit status: 1");
    quit(terminal);
    assert_eq!(place.id("HEAD"), head);
}

/// Waits until a program of this command line runs, or until none does.
#[track_caller]
fn until_runs(line: &str, wanted: bool) {
    let end = Instant::now() + Duration::from_secs(60);
    let runs = || Command::new("pgrep").args(["-x", "-f", line]).output().expect("`pgrep`");
    while runs().status.success() != wanted {
        assert!(Instant::now() < end, "{line}: runs should be {wanted}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_continues_without_a_terminal() {
    let place = Workspace::of(COAT);
    let terminal = start(&place, &[], "");
    terminal.hang_up();
    let mut terminal = start(&place, &[], "--summarizer 'sleep 3598.75'");
    terminal.press_for("s", "writes a summary");
    until_runs("sleep 3598.75", true);
    terminal.hang_up();
    until_runs("sleep 3598.75", false);
    assert_eq!(messages(&place, "main").len(), 5);
}

#[test]
fn branches_are_made_checked_out_and_picked_from() {
    let place = Workspace::of(COAT);
    let mut terminal = start(&place, &[], "");
    terminal.shows("main: 5 messages");
    // A branch at the second message.
    terminal.press_for("gjn", "name of the new branch");
    terminal.press_for("side\r", "side: 2 messages");
    assert_eq!(place.id("side"), place.id("main#2"));
    terminal.press_for(" ", "on side");
    assert_eq!(place.json(&["status", "--json"])[0]["branch"], "side");
    // Names that are refused say why, and nothing else happens.
    terminal.press("n");
    terminal.press_for("no space\r", "no space");
    // From main onto side: the answer.
    terminal.press_for("h", "side");
    terminal.press_for("k", "main: 5 messages");
    terminal.press_for("lGc", "copied onto side");
    assert_eq!(messages(&place, "side").last().expect("a message"), "Yes, and an umbrella.");
    // Onto itself there is nothing to copy.
    terminal.press_for("hj", "side: 3 messages");
    terminal.press_for("c", "has these messages already");
    // How the branches differ.
    terminal.press_for("k", "main: 5 messages");
    terminal.press_for("d", "side to main");
    quit(terminal);
}

#[test]
fn words_are_searched_forward_and_back() {
    let place = Workspace::of(COAT);
    let mut terminal = start(&place, &[], "");
    terminal.press_for("/", "search:");
    // Around the end, in upper or lower case.
    terminal.press_for("PARIS\r", "2 of 5 lines, around the end");
    terminal.press_for("n", "3 of 5 lines;");
    terminal.press_for("N", "2 of 5 lines;");
    terminal.press_for("/nowhere\r", "no line has \"nowhere\"");
    // Escape ends the search: n makes a branch again.
    terminal.press_for("\u{1b}", "on main");
    terminal.press_for("n", "name of the new branch");
    terminal.press_for("\u{1b}", "on main");
    quit(terminal);
}

#[test]
fn the_request_that_is_copied_is_the_compiled_one() {
    let place = Workspace::of(COAT);
    let mut terminal = start(&place, &[], "");
    let forms = terminal.press_for("y", "anthropic-params");
    // The cursor begins at the first one.
    let place_of = |form: &str| {
        let lines = forms.lines().map(|line| line.trim_matches(|c: char| !c.is_ascii_lowercase()));
        let mut lines = lines.skip_while(|line| !line.ends_with("openai"));
        lines.position(|line| line.ends_with(form)).expect("it is listed")
    };
    let downs = "j".repeat(place_of("anthropic-params"));
    terminal.press_for(&format!("{downs}\r"), "sent to the terminal's clipboard: anthropic-params");
    let expected = place.ok(&["compile", "--to", "anthropic-params"]);
    let copied = terminal.clipboard().expect("something was copied");
    assert_eq!(decoded(&copied), expected.trim_end());
    quit(terminal);
    // More than a terminal takes is not sent, and what to do instead is said.
    place.feed(&["commit", "user"], "long ".repeat(1 << 18).as_bytes()).expect(0);
    let mut terminal = start(&place, &[], "");
    terminal.press("y");
    terminal.press_for("\r", "tract compile main --to");
    assert_eq!(terminal.clipboard(), None);
    quit(terminal);
}

fn decoded(base64: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), base64).expect("it is written");
    RunOutput::after(std::process::Command::new("base64").arg("-d").arg(file.path()))
        .expect(0)
        .stdout
}

#[test]
fn a_write_of_another_process_appears_and_the_cursor_stays() {
    let place = Workspace::of(COAT);
    let mut terminal = start(&place, &[], "");
    terminal.shows("#5 assistant");
    // At the end, the end is followed.
    place.ok(&["commit", "user", "And in Rome?"]);
    terminal.shows("#6 user");
    terminal.press_for("gj", "#2 user");
    place.ok(&["commit", "assistant", "No."]);
    terminal.shows("main: 7 messages");
    terminal.shows("#2 user");
    // Another process deletes the branch that is shown, and makes another one current.
    place.ok(&["checkout", "-b", "other"]);
    place.ok(&["branch", "--delete", "main"]);
    terminal.shows("* other");
    terminal.shows("other: 7 messages");
    quit(terminal);
}

#[test]
fn damage_of_one_message_hides_no_other() {
    let place = Workspace::of(COAT);
    assert_eq!(place.damage("11 degrees"), 1);
    let mut terminal = start(&place, &[], "");
    let text = terminal.shows("1 message cannot be read: tract verify");
    assert!(text.contains("Yes, and an umbrella.") && text.contains("[cannot be read"), "{text}");
    terminal.press("y");
    terminal.press_for("\r", "so there is no request");
    quit(terminal);
}

#[test]
fn a_branch_that_cannot_be_read_shows_no_messages_of_another() {
    let place = Workspace::of(COAT);
    place.ok(&["checkout", "-b", "side"]);
    place.ok(&["commit", "user", "And in Rome?"]);
    place.ok(&["checkout", "main"]);
    let sql =
        "UPDATE commits SET rec = zeroblob(length(rec)) WHERE id = (SELECT max(id) FROM commits)";
    assert_eq!(place.execute(sql), 1);
    let mut terminal = start(&place, &[], "");
    terminal.shows("Yes, and an umbrella.");
    let text = terminal.press_for("hj", "damaged");
    assert!(!text.contains("umbrella") && text.contains("┌ side "), "{text}");
    for key in ["e", "s", "c", "d", "y\r"] {
        terminal.press(key);
    }
    terminal.press_for("k", "Yes, and an umbrella.");
    quit(terminal);
}

#[test]
fn a_store_that_vanishes_is_said_and_what_was_read_stays() {
    let place = Workspace::of(COAT);
    let mut terminal = start(&place, &[("EDITOR", "sed -i s/umbrella/hat/")], "");
    terminal.shows("Yes, and an umbrella.");
    std::fs::remove_dir_all(place.path(".tract")).expect("it is removed");
    let text = terminal.press_for("e", "was moved or deleted while it was open");
    assert!(text.contains("Yes, and an umbrella."), "{text}");
    quit(terminal);
}

#[test]
fn hostile_texts_reach_no_terminal() {
    let place = Workspace::new();
    let texts =
        ["\u{1b}[2J\u{1b}]0;owned\u{7}gone", "user\u{202e}nimda", "a\r\nb\tc", "\u{9b}31m red"];
    for text in texts {
        place.feed(&["commit", "user"], text.as_bytes()).expect(0);
    }
    let mut terminal = start(&place, &[], "");
    let text = terminal.press_for("g", "\\x1b[2J\\x1b]0;owned\\x07gone");
    assert!(text.contains("\\u{202e}"), "{text}");
    terminal.press_for("j", "user\\u{202e}nimda");
    terminal.press_for("jj", "\\x9b31m red");
    quit(terminal);
}

#[test]
fn a_small_terminal_shows_one_pane() {
    let place = Workspace::of(COAT);
    let mut terminal = Terminal::run(&place, (12, 50), &[], "ui");
    let text = terminal.shows("main: 5 messages");
    assert!(!text.contains("1 branch"), "{text}");
    terminal.press_for("\r", "#5 assistant");
    terminal.press_for("\t", "1 branch");
    quit(terminal);
    // Even one that has room for nothing.
    let mut terminal = Terminal::run(&place, (2, 8), &[], "ui");
    terminal.shows("on main");
    terminal.press("\u{3}");
    assert_eq!(terminal.end(), (Some(0), true));
}

#[test]
fn long_and_many_messages_are_laid_out_as_far_as_they_are_seen() {
    let place = Workspace::new();
    place.feed(&["commit", "user"], "word ".repeat(1 << 21).as_bytes()).expect(0);
    let lines = user_says((0..5_000).map(|n| format!("message {n}")));
    place.feed(&["apply", "-"], lines.as_bytes()).expect(0);
    let mut terminal = start(&place, &[], "");
    terminal.shows("message 4999");
    terminal.press_for("g", "#1 user");
    terminal.press_for("\rG", "10.2 MB more: tract show");
    quit(terminal);
}

#[test]
fn it_ends_in_order_when_it_is_told_to() {
    let place = Workspace::of(COAT);
    let ended = |terminal: Terminal| {
        signal(terminal.program(), "-TERM");
        assert_eq!(terminal.end(), (Some(0), true));
    };
    ended(start(&place, &[], ""));
    // Also while another program works for it.
    let mut terminal = start(&place, &[], "--summarizer 'sleep 3599.75'");
    terminal.press_for("s", "writes a summary");
    ended(terminal);
    until_runs("sleep 3599.75", false);
}

#[test]
fn without_commits_without_colors_and_without_a_terminal() {
    let place = Workspace::new();
    let mut terminal = start(&place, &[("NO_COLOR", "1")], "");
    terminal.shows("no messages yet");
    for key in ["e", "s", "d", "y\r", "n\u{1b}", "v", "z", "c", " ", "/x\r", "G", "\r", "]"] {
        terminal.press(key);
    }
    // It is alive, and the store is as before.
    terminal.press_for("?", "undo the last operation");
    terminal.press("?");
    quit(terminal);
    assert_eq!(place.json(&["status", "--json"])[0]["head"], serde_json::Value::Null);
    place.refused(&["ui"], 2, "usage", "needs a terminal");
    let ran = place.run(&["ui", "--json"]);
    assert!(ran.code == Some(2) && ran.stdout.contains("needs a terminal"), "{ran:?}");
    let (code, text) = place.on_a_terminal(&[], "ui nowhere");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("error[unknown_branch]"), "{text}");
}
