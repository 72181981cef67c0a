use serde_json::Value;

use crate::support::{Workspace, bundled, text};

/// A conversation with a tool, an edit and a message that is left out.
const STREAM: &str = r#"
{"op":"system","text":"Be brief.","at":"2026-01-31T09:00:00Z"}
{"op":"user","text":"Do I need a coat in Paris?","mark":"q","at":"2026-01-31T09:01:00Z"}
{"op":"assistant","text":"I look.","tool_calls":[{"id":"c1","name":"get_weather","arguments":{"city":"Paris"}}],"at":"2026-01-31T09:02:00Z"}
{"op":"tool_result","call_id":"c1","content":"{\"celsius\":11}","at":"2026-01-31T09:03:00Z"}
{"op":"user","text":"By the way, hello.","mark":"aside","at":"2026-01-31T09:30:00Z"}
{"op":"assistant","text":"Yes,\nand an umbrella.","at":"2026-01-31T10:00:00Z"}
{"op":"annotate","target":":aside","priority":"skip","at":"2026-01-31T10:01:00Z"}
{"op":"edit","target":":q","text":"Do I need a coat in Lyon?","at":"2026-01-31T10:02:00Z"}
"#;

/// The last words of the lines of a log, as `word text`.
fn texts(log: &str) -> Vec<String> {
    let words = |line: &str| {
        let line = line.split("  ").filter(|cell| !cell.trim().is_empty()).skip(1);
        line.map(str::trim).collect::<Vec<_>>().join("|")
    };
    log.lines().map(words).collect()
}

#[test]
fn log_shows_dates_and_the_numbers_that_a_revision_takes() {
    let place = Workspace::of(STREAM);
    let log = place.ok(&["log"]);
    let line =
        |text: &str| log.lines().find(|line| line.contains(text)).expect("a line").to_owned();
    assert!(line("in Lyon?").contains("2026-01-31 10:02"), "{log}");
    assert!(line("in Lyon?").contains(" #2 "), "{log}");
    assert!(line("and an umbrella").contains(" #5 "), "{log}");
    // What is left out, and what an edit replaced, has no number.
    for text in ["By the way", "in Paris?", "annotate"] {
        assert!(!line(text).contains('#'), "{log}");
    }
    for (number, text) in [("#2", "in Lyon?"), ("#4", "celsius"), ("#5", "umbrella")] {
        assert!(place.ok(&["show", &format!("main{number}")]).contains(text), "{number}");
    }
    let json = place.json(&["log", "--json"]);
    assert_eq!(json.len(), 8, "the filters and columns change no record");
}

#[test]
fn log_takes_what_is_asked_for() {
    let place = Workspace::of(STREAM);
    let count = |arguments: &[&str]| {
        let people = place.ok(&[&["log"], arguments].concat()).lines().count();
        let records = place.json(&[&["log", "--json"], arguments].concat()).len();
        assert_eq!(people, records, "{arguments:?}");
        people
    };
    assert_eq!(count(&[]), 8);
    assert_eq!(count(&["-n", "3"]), 3);
    assert_eq!(count(&["--role", "user"]), 3);
    assert_eq!(count(&["--role", "user", "--role", "system"]), 4);
    assert_eq!(count(&["--role", "tool"]), 1);
    assert_eq!(count(&["--role", "user", "-n", "2"]), 2, "what a filter leaves out is not counted");
    assert_eq!(count(&["--tool", "get_weather"]), 2);
    assert_eq!(count(&["--tool", "grep"]), 0);
    assert_eq!(count(&["--since", "2026-01-31T10:00:00Z"]), 3);
    assert_eq!(count(&["--until", "2026-01-31T09:01:00Z"]), 2);
    assert_eq!(count(&["--since", "2026-01-31T09:01:00Z", "--until", "2026-01-31T09:59:00Z"]), 4);
    // A day is the whole day, UTC.
    let whole = count(&["--limit", "0"]);
    assert_eq!(count(&["--since", "2026-01-31", "--until", "2026-01-31"]), whole);
    assert_eq!(count(&["--since", "2026-02-01"]) + count(&["--until", "2026-01-30"]), 0);
    assert_eq!(
        count(&["--since", "2026-01-31T09:30"]),
        count(&["--since", "2026-01-31T09:30:00Z"])
    );
    assert_eq!((count(&["--since", "1h"]), count(&["--until", "1h30m"])), (0, whole));
    place.run(&["log", "--since", "2026-02-30"]).expect(2);
    // A recording without times is in no span of time.
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    assert_eq!(count(&["workshop-refund", "--since", "1970-01-01T00:00:00Z"]), 0);
    let ran = place.run(&["log", "--graph", "--role", "user"]).expect(2);
    assert!(ran.stderr.contains("'--graph' cannot be used with"), "{ran:?}");
}

#[test]
fn log_in_short_and_in_full() {
    let place = Workspace::of(STREAM);
    let short = place.ok(&["log", "--oneline", "-n", "2"]);
    let (edited, skipped) = (place.id("main~6"), place.id("main~3"));
    let expected = [
        format!("edit|of {}: Do I need a coat in Lyon?", &edited[..8]),
        format!("annotate|{} skip", &skipped[..8]),
    ];
    assert_eq!(texts(&short), expected);
    assert!(!short.contains("2026") && !short.contains("tok") && !short.contains(" #"), "{short}");
    let full = place.ok(&["log", "-p", "-n", "3"]);
    let edit = "    - Do I need a coat in Paris?\n    + Do I need a coat in Lyon?\n";
    assert!(full.contains(edit), "{full}");
    assert!(full.contains("    Yes,\n    and an umbrella.\n"), "{full}");
}

#[test]
fn cat_prints_the_conversation_that_the_model_sees() {
    let place = Workspace::of(STREAM);
    let text = place.ok(&["cat"]);
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(heads.len(), 5, "{text}");
    let who = ["system", "user", "assistant", "result get_weather", "assistant"];
    for (n, (head, who)) in heads.iter().zip(who).enumerate() {
        assert!(head.starts_with(&format!("#{} {who}  ", n + 1)), "{head}");
    }
    assert!(heads[0].ends_with("2026-01-31 09:00"), "{text}");
    assert!(text.contains("\nDo I need a coat in Lyon?\n"), "{text}");
    assert!(text.contains("\nI look.\n→ get_weather({\"city\":\"Paris\"})  c1\n"), "{text}");
    assert!(text.contains("\nYes,\nand an umbrella.\n"), "{text}");
    assert!(!text.contains("By the way"), "{text}");
    // An earlier revision, the last messages, one role, one tool.
    assert!(place.ok(&["cat", "main~1"]).contains("in Paris?"));
    let last = place.ok(&["cat", "-n", "1"]);
    assert!(last.starts_with("#5 assistant") && !last.contains("#4"), "{last}");
    let numbers = |arguments: &[&str]| {
        let lines = place.json(&[&["cat", "--json"], arguments].concat());
        lines.iter().map(|line| line["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&[]), [1, 2, 3, 4, 5]);
    assert_eq!(numbers(&["--role", "assistant"]), [3, 5]);
    assert_eq!(numbers(&["--tool", "get_weather"]), [3, 4]);
    let result = &place.json(&["cat", "--json", "--role", "tool"])[0];
    assert_eq!(result["answers"]["name"], "get_weather");
    assert_eq!(result["commit"], Value::String(place.id("main~4")));
    assert_eq!(Workspace::new().run(&["cat"]).expect(0).stdout, "");
}

/// Two versions of a conversation: a message left out, one edited, one added, other tools.
const VERSIONS: &str = r#"
{"op":"set_tools","tools":[{"name":"grep","input_schema":{"type":"object"}},{"name":"find","input_schema":{"type":"object"}}]}
{"op":"system","text":"Be brief."}
{"op":"user","text":"Hello","mark":"hello"}
{"op":"user","text":"What is a monad?\nIn one sentence.","mark":"q"}
{"op":"assistant","text":"A monoid."}
{"op":"branch","name":"b"}
{"op":"checkout","name":"b"}
{"op":"annotate","target":":hello","priority":"skip"}
{"op":"edit","target":":q","text":"What is a functor?\nIn one sentence."}
{"op":"user","text":"Shorter."}
{"op":"set_tools","tools":[{"name":"grep","input_schema":{"type":"object"}}]}
"#;

#[test]
fn a_diff_has_the_numbers_of_the_second_revision() {
    let place = Workspace::of(VERSIONS);
    let text = place.ok(&["diff", "main", "b"]);
    let id = |revision: &str| place.id(revision).get(..8).expect("an id").to_owned();
    let expected = format!(
        "after #1: user {}, removed\n- Hello\n\
         #2 user {}, was {}\n- What is a monad?\n+ What is a functor?\n  In one sentence.\n\
         #4 user {}, added\n+ Shorter.\n",
        id("main#2"),
        id("b~2"),
        id("main#3"),
        id("b#4"),
    );
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("\n- find  ") && text.contains("\n2 messages unchanged, "), "{text}");
    // The library prints the same.
    let library = tract::block_on(async {
        let url = format!("sqlite:{}", place.store().display());
        let tract = tract::open(&url).await?;
        Ok::<String, tract::Error>(tract.diff("main", "b").await?.to_string())
    });
    assert_eq!(library.expect("it opens").trim_end(), text.trim_end());
    assert!(place.ok(&["diff", "main", "main"]).starts_with("no difference\n"));
}

#[test]
#[cfg(target_os = "linux")]
fn long_answers_go_through_the_pager_of_a_terminal() {
    let place = Workspace::of(STREAM);
    let pager = "sed 's/^/paged: /'";
    for verb in ["log", "cat", "show main", "diff", "log -p"] {
        let (code, text) = place.on_a_terminal(&[("PAGER", pager)], verb);
        assert_eq!(code, Some(0), "{verb}: {text}");
        assert!(text.starts_with("paged: "), "{verb}: {text}");
    }
    // What is written to stderr comes when the pager has left the screen.
    let (_, text) = place.on_a_terminal(&[("PAGER", pager)], "cat");
    let last = text.trim_end().lines().last().expect("a line");
    assert!(last.contains("all together") && !last.contains("paged"), "{text}");
    let without = |pager: &str, arguments: &str| {
        let (code, text) = place.on_a_terminal(&[("PAGER", pager)], arguments);
        assert_eq!(code, Some(0), "{pager}: {text}");
        assert!(text.contains("in Lyon?") && !text.contains("paged"), "{pager}: {text}");
    };
    without(pager, "--no-pager log");
    without(pager, "log --no-pager");
    without(pager, "cat --json");
    // A pager that is not there, none, and one whose name is not a command line.
    for other in ["no-such-pager --flag", "", "cat", "an open 'quote"] {
        without(other, "log");
    }
    // A reader that leaves early changes nothing about the command.
    assert_eq!(place.on_a_terminal(&[("PAGER", "head -n 1")], "log").0, Some(0));
    assert_eq!(place.on_a_terminal(&[("PAGER", pager)], "show nowhere").0, Some(1));
}

#[test]
fn no_pager_starts_where_stdout_is_no_terminal() {
    let place = Workspace::of(STREAM);
    let ran = place.run_with("PAGER", "sed s/^/paged:/", &["log"]);
    assert!(!ran.stdout.contains("paged"), "{ran:?}");
}

#[test]
fn every_verb_reads_days_times_and_durations() {
    let place = Workspace::of(STREAM);
    for time in ["2026-01-31", "2026-01-31T09:02:00Z", "2026-01-31T09:02", "1h", "2d12h"] {
        for verb in [&["log"][..], &["grep", "coat"], &["search", "coat"]] {
            for bound in ["--since", "--until"] {
                let ran = place.run(&[verb, &[bound, time]].concat());
                assert_ne!(ran.code, Some(2), "{verb:?} {bound} {time}: {}", ran.stderr);
            }
        }
        place.ok(&["compile", "--at", time]);
        place.ok(&["commit", "user", "x", "--at", time]);
    }
    let ran = place.run(&["log", "HEAD@{1w}"]);
    assert!(ran.stderr.contains("pointed to no commit"), "{}", ran.stderr);
    let ran = place.run(&["log", "--since", "yesterday"]).expect(2);
    assert!(ran.stderr.contains("a day such as 2026-01-31"), "{}", ran.stderr);
}

#[test]
fn the_end_of_a_line_is_found_in_a_text_with_carriage_returns() {
    let place = Workspace::new();
    place.feed(&["commit", "user", "-"], b"one\r\ntwo\r\n").expect(0);
    place.ok(&["commit", "user", "three\r\nfour\r"]);
    assert_eq!(place.ok(&["export"]).matches(r"two\r").count(), 0, "the last line end is left out");
    for pattern in ["one$", "two$", "three$", "four$", "^four$"] {
        assert!(place.run(&["grep", pattern]).code == Some(0), "{pattern}");
    }
}
