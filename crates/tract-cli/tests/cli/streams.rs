use std::io::Write;
use std::process::Stdio;

use crate::pipes::without_reader;
use crate::support::{Workspace, bundled, text};

pub(crate) const MORNING: &str = r#"
{"op":"system","text":"You are a travel agent.","at":"2026-01-31T09:00:00Z"}
{"op":"set_tools","tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}],"at":"2026-01-31T09:00:01Z"}
{"op":"user","text":"Do I need a coat in Paris?","mark":"q","at":"2026-01-31T09:00:02Z"}
{"op":"assistant","text":"","tool_calls":[{"id":"c1","name":"get_weather","arguments":{"city":"Paris"}}],"at":"2026-01-31T09:00:03Z"}
{"op":"tool_result","call_id":"c1","content":"11 degrees, rain","at":"2026-01-31T09:00:04Z"}
{"op":"branch","name":"lyon","from":":q"}
{"op":"edit","target":":q","text":"Do I need a coat in Lille?","at":"2026-01-31T09:00:05Z"}
{"op":"tag","name":"morning"}
"#;

#[test]
fn a_stream_says_what_became_of_each_line() {
    let place = Workspace::new();
    let stream = "{\"op\":\"user\",\"text\":\"Again, please.\",\"mark\":\"q\"}\n\n\
                  {\"op\":\"tool_result\",\"call_id\":\"c2\",\"content\":\"ok\"}\n\
                  {\"op\":\"user\",\"text\":\"never reached\"}\n";
    let lines = place.feed(&["apply", "--json", "-"], stream.as_bytes()).expect(1).lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["line"], &lines[0]["mark"]), (&1.into(), &"q".into()));
    assert_eq!(lines[0]["commit"], place.id("HEAD"));
    // Blank lines count.
    assert_eq!(lines[1]["line"], 3);
    assert_eq!(lines[1]["error"]["code"], "no_open_call");
    assert_eq!(lines[1]["error"]["notes"][0], "no call is open");
    assert_eq!(place.json(&["--json", "log"]).len(), 1);
}

#[test]
fn keep_going_continues_and_atomic_takes_all_or_none() {
    let place = Workspace::new();
    let stream =
        b"{\"op\":\"user\",\"text\":\"one\"}\nnonsense\n{\"op\":\"user\",\"text\":\"two\"}\n";
    place.feed(&["apply", "--atomic", "-"], stream).expect(1);
    assert_eq!(place.json(&["--json", "log"]).len(), 0);
    place.feed(&["apply", "--keep-going", "-"], stream).expect(1);
    assert_eq!(place.json(&["--json", "log"]).len(), 2);
    place.feed(&["apply", "--batch", "100", "-"], &stream[..26]).expect(0);
    assert_eq!(place.json(&["--json", "log"]).len(), 3);
}

#[test]
fn an_export_applied_elsewhere_is_the_same_repository() {
    let place = Workspace::of(MORNING);
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    place.ok(&["import", text(&bundled("anthropic.json"))]);
    let export = place.ok(&["export"]);
    let copy = Workspace::of(&export);
    assert_eq!(copy.ok(&["export"]), export);
    copy.is_clean();
    for branch in ["main", "lyon", "workshop-cargo-bike"] {
        let compile = ["compile", branch, "--to", "anthropic-params"];
        assert_eq!(copy.ok(&compile), place.ok(&compile), "{branch}");
    }
    // A file gets its name when it is whole, and says the same.
    place.ok(&["export", "--output", "all.jsonl"]);
    assert_eq!(place.read("all.jsonl"), export);
    assert!(!place.path("all.partial").exists());
}

/// Files in a folder, sorted.
fn files(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn exports_under_one_stem_do_not_meet_and_foreign_files_stay() {
    let (one, two) =
        (Workspace::of(MORNING), Workspace::of(r#"{"op":"user","text":"another store"}"#));
    let folder = Workspace::empty();
    folder.write("a.partial", "mine");
    folder.write("a.json.partial", "mine too");
    let runs: Vec<_> = (0..12)
        .map(|n| {
            let (place, name) = match n % 2 {
                0 => (&one, "a.json"),
                _ => (&two, "a.jsonl"),
            };
            let mut command = place.command(&["export", "-o", text(&folder.path(name))]);
            command.stdout(Stdio::null()).spawn().expect("it starts")
        })
        .collect();
    for mut run in runs {
        assert!(run.wait().expect("it ends").success());
    }
    for (place, name) in [(&one, "a.json"), (&two, "a.jsonl")] {
        assert_eq!(folder.read(name), place.ok(&["export"]));
    }
    assert_eq!(folder.read("a.partial"), "mine");
    assert_eq!(files(&folder.path("")), ["a.json", "a.json.partial", "a.jsonl", "a.partial"]);
    // One that fails leaves nothing, and what was there stays.
    one.run(&["export", "-o", text(&folder.path("missing/a.json"))]).expect(2);
    assert_eq!(files(&folder.path("")).len(), 4);
}

#[cfg(unix)]
#[test]
fn an_export_to_a_device_writes_to_it() {
    use std::os::unix::fs::FileTypeExt;

    let place = Workspace::of(MORNING);
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("null");
    std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
    place.ok(&["export", "-o", text(&link)]);
    assert!(std::fs::metadata(&link).expect("it is there").file_type().is_char_device());
}

#[test]
fn approvals_and_policies_of_a_stream_are_taken_only_when_asked_for() {
    let place = Workspace::of(MORNING);
    place.write("tools.json", r#"[{"name":"pay","input_schema":{"type":"object"}}]"#);
    place.ok(&["tools", "pin", "tools.json"]);
    place.ok(&["tools", "policy", "approved-only"]);
    place.ok(&["summarization", "--threshold", "800"]);
    let export = place.ok(&["export"]);
    let copy = Workspace::new();
    let ran = copy.feed(&["apply", "--json", "-"], export.as_bytes()).expect(1);
    let refused: Vec<&str> = ran.stdout.lines().filter(|line| line.contains("\"error\"")).collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    for line in refused {
        assert!(line.contains("needs_trust") && line.contains("--trust"), "{line}");
    }
    // All else is there: these lines say nothing of others.
    assert_eq!(copy.id("morning"), place.id("morning"));
    let kept = copy.ok(&["export"]);
    assert!(!kept.contains("\"pins/") && !kept.contains("\"config/"), "{kept}");
    assert_eq!(copy.json(&["tools", "policy", "--json"])[0]["stated"], false);
    // Asked for, they come, and it is said.
    let ran = copy.feed(&["apply", "--trust", "-"], export.as_bytes()).expect(0);
    assert!(ran.stderr.contains("3 approvals, policies or decisions taken"), "{ran:?}");
    assert_eq!(copy.ok(&["export"]), export);
    copy.feed(&["apply", "-"], export.as_bytes()).expect(0);
    // A copy of the store itself is whole.
    let url = format!("sqlite:{}", place.path("copy.db").display());
    place.ok(&["copy", "--to", &url]);
    assert_eq!(place.ok(&["--store", &url, "export"]), export);
    // All or none: a line that is not taken takes the others with it.
    let none = Workspace::new();
    none.feed(&["apply", "--atomic", "-"], export.as_bytes()).expect(1);
    assert_eq!(none.json(&["--json", "log"]).len(), 0);
}

#[test]
fn no_stream_takes_a_decision_or_an_effect_for_granted() {
    let place = Workspace::of(MORNING);
    let blob = |text: &str| {
        let id = tract::core::Blob::seal(text.as_bytes().to_vec()).id();
        (id.to_string(), format!("{{\"op\":\"blob\",\"id\":\"{id}\",\"text\":\"{text}\"}}"))
    };
    let (id, line) = blob("anything");
    for name in
        ["pins/pay-0", "config/pins", "pending/p-1", "decisions/p-1", "effects/c1", "later/x"]
    {
        let stream =
            format!("{line}\n{{\"op\":\"ref\",\"name\":\"{name}\",\"to\":\"blob {id}\"}}\n");
        let ran = place.feed(&["apply", "--json", "-"], stream.as_bytes()).expect(1);
        assert_eq!(ran.lines()[1]["error"]["code"], "needs_trust", "{name}: {ran:?}");
    }
    let stream =
        format!("{line}\n{{\"op\":\"ref\",\"name\":\"imports/x\",\"to\":\"blob {id}\"}}\n");
    place.feed(&["apply", "-"], stream.as_bytes()).expect(0);
}

#[test]
fn head_leads_to_a_branch_and_names_never_lead_in_a_circle() {
    for (name, to) in [
        ("HEAD", "HEAD"),
        ("HEAD", "tags/morning"),
        ("HEAD", "imports/x"),
        ("heads/a", "heads/a"),
        ("heads/a", "heads/b"),
        ("heads/a", "HEAD"),
        ("tags/a", "heads/main"),
        ("imports/a", "imports/b"),
    ] {
        let place = Workspace::of(MORNING);
        let stream = format!(
            "{{\"op\":\"ref\",\"name\":\"{name}\",\"to\":\"{to}\"}}\n{{\"op\":\"user\",\"text\":\"kept\"}}\n"
        );
        for flags in [&["--keep-going"][..], &["--keep-going", "--trust"]] {
            let arguments = [&["apply", "--json"], flags, &["-"]].concat();
            let ran = place.feed(&arguments, stream.as_bytes()).expect(1);
            assert_eq!(ran.lines()[0]["error"]["code"], "bad_ref", "{name} -> {to}: {ran:?}");
        }
        // What was acknowledged is on its branch.
        let log = place.ok(&["log", "main", "--json", "--limit", "2"]);
        assert_eq!(log, place.ok(&["log", "--json", "--limit", "2"]));
        place.ok(&["commit", "user", "the last one"]);
        assert!(place.ok(&["log", "main", "--limit", "1"]).contains("the last one"));
        place.is_clean();
    }
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let place = Workspace::new();
    let stream = "\u{feff}{\"op\":\"user\",\"text\":\"one\"}\n";
    place.feed(&["apply", "-"], stream.as_bytes()).expect(0);
    let chats = "\u{feff}{\"id\":\"c\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n";
    place.feed(&["import", "-"], chats.as_bytes()).expect(0);
    let tools = "\u{feff}[{\"name\":\"t\",\"input_schema\":{\"type\":\"object\"}}]";
    place.write("tools.json", tools);
    place.ok(&["tools", "set", "tools.json"]);
    // Elsewhere it is a character like others, and no JSON.
    let stream = format!("{{\"op\":\"user\",\"text\":\"two\"}}\n{stream}");
    place.feed(&["apply", "-"], stream.as_bytes()).expect(1);
}

/// `{"a":{"a":…}}`, this deep.
fn nested(depth: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
}

#[test]
fn metadata_at_the_nesting_limit_survives_an_export() {
    for depth in [120, 124, 125, 126, 127, 128, 129] {
        let place = Workspace::new();
        let deep = nested(depth);
        let stream = format!("{{\"op\":\"user\",\"text\":\"deep\",\"metadata\":{deep}}}\n");
        let chat = format!(
            "{{\"id\":\"c\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hi\",\"x\":{deep}}}],\"temperature\":{deep}}}"
        );
        // Taken or refused, but never taken and then not given back.
        place.feed(&["apply", "-"], stream.as_bytes());
        let pair = format!("a={deep}");
        place.run(&["commit", "user", "from the command line", "--metadata", &pair]);
        place.feed(&["import", "-"], chat.as_bytes());
        let export = place.ok(&["export"]);
        let copy = Workspace::of(&export);
        assert_eq!(copy.ok(&["export"]), export, "{depth}");
        copy.is_clean();
    }
}

#[test]
fn a_changed_line_of_an_export_is_refused() {
    let place = Workspace::of(MORNING);
    let export = place.ok(&["export"]).replace("coat in Paris", "coat in Praha");
    let copy = Workspace::new();
    let ran = copy.feed(&["apply", "--json", "-"], export.as_bytes()).expect(1);
    assert!(ran.lines().iter().any(|line| line["error"]["code"].is_string()));
}

#[test]
fn equal_streams_with_times_give_equal_ids() {
    assert_eq!(Workspace::of(MORNING).id("main"), Workspace::of(MORNING).id("main"));
    assert_eq!(Workspace::of(MORNING).id("morning"), Workspace::of(MORNING).id("main"));
}

/// What was acknowledged is stored when the process is interrupted, and nothing is half-done.
#[cfg(unix)]
#[test]
fn interrupting_leaves_what_was_acknowledged() {
    use std::os::unix::process::ExitStatusExt;

    crate::support::programs_end_at_signals();
    let place = Workspace::new();
    let (mut child, mut input, mut answers) = place.applying();
    for n in 0..5 {
        writeln!(input, "{{\"op\":\"user\",\"text\":\"message {n}\"}}").expect("it is read");
        let answer = answers.next().expect("an answer").expect("a line");
        assert!(answer.contains("\"commit\""), "{answer}");
    }
    crate::support::signal(child.id(), "-INT");
    // A process that ignores the signal ends here.
    drop(input);
    let status = child.wait().expect("it ends");
    // A shell says 130 for this.
    assert_eq!(status.signal(), Some(2), "{status:?}");
    assert_eq!(place.json(&["--json", "log"]).len(), 5);
    place.is_clean();
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let place = Workspace::of(MORNING);
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    let ran = without_reader(&place, &["export"]).expect(0);
    assert!(ran.stderr.is_empty(), "{ran:?}");
}
