//! `grep`, `blame`, `log --slot` and `lost`: what they find, and what they refuse.

use serde_json::{Value, json};

use crate::support::{Workspace, each, in_store, list, user_says};

/// Two branches that share a beginning; an edit, a summary and a tool.
const STREAM: &str = r#"
{"op":"set_tools","tools":[{"type":"function","function":{"name":"bash","description":"Run a needle in a shell","parameters":{"type":"object"}}}]}
{"op":"system","text":"Be brief.","at":"2026-01-31T09:00:00Z"}
{"op":"user","text":"Where is the needle?\nIn the hay.","mark":"q","at":"2026-01-31T09:01:00Z"}
{"op":"assistant","text":"I look.","tool_calls":[{"id":"c1","name":"bash","arguments":{"command":"grep -n \"needle\" hay\nls"}}],"mark":"call","at":"2026-01-31T09:02:00Z"}
{"op":"tool_result","call_id":"c1","content":"12: a Needle","at":"2026-01-31T09:03:00Z"}
{"op":"branch","name":"work","from":":call"}
{"op":"user","text":"the secret needle","mark":"s","at":"2026-01-31T10:00:00Z"}
{"op":"edit","target":":s","text":"the public needle","at":"2026-01-31T10:01:00Z"}
"#;

fn lines(hit: &Value) -> Vec<&str> {
    each(list(&hit["lines"]), "text")
}

fn kinds(hits: &[Value]) -> Vec<&str> {
    each(hits, "kind")
}

#[test]
fn grep_prints_each_text_once_with_the_branches_that_show_it() {
    let place = Workspace::of(STREAM);
    let one = place.json(&["grep", "needle", "--json"]);
    assert_eq!(kinds(&one), ["definition", "user", "assistant", "user"], "{one:?}");
    assert_eq!(lines(&one[0]), ["function.description: Run a needle in a shell"]);
    assert_eq!(lines(&one[1]), ["the public needle"], "what an edit replaced is not searched");
    assert_eq!(lines(&one[2]), ["command: grep -n \"needle\" hay"], "no escapes of JSON");
    assert_eq!(lines(&one[3]), ["Where is the needle?"]);
    assert_eq!(one[3]["lines"][0]["matched"], json!([13, 19]));
    assert_eq!(one[3]["branches"], json!(["main"]));

    let all = place.json(&["grep", "-i", "needle", "--all", "--json"]);
    let of = |text: &str| {
        let found: Vec<&Value> = all.iter().filter(|hit| lines(hit)[0].contains(text)).collect();
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        found[0]["branches"].clone()
    };
    assert_eq!(of("Where is"), json!(["main", "work"]));
    assert_eq!(of("Run a needle"), json!(["main", "work"]));
    assert_eq!(of("public"), json!(["main"]));
    assert_eq!(all.len(), 5);

    let hidden = place.json(&["grep", "secret", "--hidden", "--json"]);
    assert_eq!(hidden.len(), 1);
    assert_eq!((&hidden[0]["hidden"], &hidden[0]["branches"]), (&json!(true), &json!([])));
    let people = place.ok(&["grep", "secret", "--hidden"]);
    assert!(people.contains("hidden  user") && people.contains("1: the secret needle"), "{people}");
}

#[test]
fn grep_searches_what_is_asked_for() {
    let place = Workspace::of(STREAM);
    let count = |arguments: &[&str]| {
        let ran = place.run(&[&["grep", "--json"], arguments].concat());
        let found = ran.lines().len();
        assert_eq!(ran.code, Some(i32::from(found == 0)), "{ran:?}");
        found
    };
    assert_eq!(count(&["needle"]), 4);
    assert_eq!(count(&["-i", "needle"]), 5);
    assert_eq!(count(&["needl", "-w"]), 0);
    assert_eq!(count(&["NEEDLE", "-iw"]), 5);
    assert_eq!(count(&["need.e"]), 4);
    assert_eq!(count(&["need.e", "-F"]), 0);
    assert_eq!(count(&["-F", "\"needle\""]), 1);
    assert_eq!(count(&["^In the hay.$"]), 1, "anchors are those of a line");
    assert_eq!(count(&["needle.*hay", "--role", "user"]), 0, "a match is in one line");
    assert_eq!(count(&["needle", "--role", "user"]), 2);
    assert_eq!(count(&["-i", "needle", "--tool", "bash"]), 3, "definition, call and result");
    assert_eq!(count(&["needle", "--tool", "other"]), 0);
    assert_eq!(count(&["needle", "--since", "2026-01-31T10:00:00Z"]), 1);
    assert_eq!(count(&["needle", "--until", "2026-01-31T09:01:00Z"]), 1);
    assert_eq!(count(&["needle", "--since", "2026-01-31", "--until", "2026-01-31"]), 3);
    assert_eq!(count(&["needle", "--since", "1h"]), 0);
    assert_eq!(count(&["needle", "work"]), 3);
    assert_eq!(count(&["needle", "work", "main"]), 4);
    assert_eq!(count(&["needle", "main~3"]), 3);
    assert_eq!(count(&["--", "-n"]), 1);

    let with_context = place.json(&["grep", "hay", "--role", "user", "-C", "1", "--json"]);
    assert_eq!(lines(&with_context[0]), ["Where is the needle?", "In the hay."]);
    assert_eq!(with_context[0]["lines"][0]["matched"], Value::Null);
}

#[test]
fn grep_searches_all_repositories_of_a_store() {
    let place = Workspace::of(STREAM);
    place.ok(&["--repo", "other", "init"]);
    place.ok(&["--repo", "other", "commit", "user", "one needle more"]);
    let hits = place.json(&["grep", "needle", "--all-repos", "--json"]);
    assert_eq!(each(&hits, "repo"), ["default", "default", "default", "default", "other"]);
    assert_eq!(place.json(&["grep", "needle", "--json"]).len(), 4, "one repository alone");
}

#[test]
fn grep_reports_bad_arguments_and_exits_with_one_without_a_match() {
    let place = Workspace::new();
    let ran = place.run(&["grep", "x"]).expect(1);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("nothing matches"), "{ran:?}");
    let before = std::fs::read(place.store()).expect("the store");
    for bad in ["(", "a{9,1}", r"(?:\w{1000}){1000}"] {
        place.refused(&["grep", bad], 2, "usage", "bad pattern");
    }
    let crlf = Workspace::of(concat!(
        r#"{"op":"user","text":"alpha foo\r\nbeta bar\r\nend"}"#,
        "\n",
        r#"{"op":"user","text":"alpha foo\nbeta bar\nend"}"#,
        "\n",
    ));
    for pattern in [
        "foo$",
        "bar$",
        "^beta bar$",
        "(?-m)^beta",
        "(?-m)foo$",
        "(?-m:^beta)",
        r"foo\z",
        r"\Abeta",
    ] {
        let found = crlf.json(&["grep", pattern, "--json"]);
        assert_eq!(found.len(), 2, "{pattern}: {found:?}");
    }
    place.refused(&["grep", "x", "nowhere"], 1, "unknown_revision", "nowhere");
    place.refused(&["grep", "x", "main#1"], 1, "no_commits", "main");
    for bad in [&["--all", "main"][..], &["--since", "noon"], &["-C", "-1"], &["--role", "judge"]] {
        place.run(&[&["grep", "x"], bad].concat()).expect(2);
    }
    Workspace::empty().refused(&["grep", "x"], 3, "no_store", "no store");
    assert_eq!(std::fs::read(place.store()).expect("the store"), before, "nothing was written");
}

#[test]
fn a_match_far_into_a_long_line_is_printed() {
    let place = Workspace::new();
    let text = format!("{}needle{}", "hay \u{1b}[31m ".repeat(5_000), " straw".repeat(5_000));
    place.feed(&["commit", "user", "-"], text.as_bytes()).expect(0);
    let people = place.ok(&["grep", "needle"]);
    assert!(people.contains("needle straw") && people.contains("\\x1b[31m"), "{people}");
    assert!(people.lines().all(|line| line.chars().count() < 220), "{people}");
}

#[test]
fn blame_and_the_log_of_a_message_name_the_commits_that_made_it() {
    let place = Workspace::of(STREAM);
    place.ok(&["annotate", "main#5", "--priority", "pinned"]);
    let entries = place.json(&["blame", "--json"]);
    assert_eq!(entries.len(), 5);
    let actions = |entry: &Value| -> Vec<String> {
        let commits = list(&entry["commits"]).iter();
        commits.map(|known| format!("{} {}", known["action"], known["by"])).collect()
    };
    assert_eq!(actions(&entries[0]), ["\"added\" \"user\""]);
    assert_eq!(actions(&entries[2]), ["\"added\" \"model\""]);
    let last = &entries[4];
    assert_eq!(actions(last), ["\"added\" \"user\"", "\"edited\" \"user\"", "\"marked\" \"user\""]);
    assert_eq!(last["number"], 5);
    assert_eq!(last["commits"][0]["at"], "2026-01-31T10:00:00Z");
    let log = place.json(&["log", "--slot", "main#5", "--json"]);
    let mut made = each(&log, "commit");
    made.reverse();
    assert_eq!(made, each(list(&last["commits"]), "commit"));
    assert_eq!(place.json(&["log", "--slot", "main#5", "-n", "1", "--json"]).len(), 1);
    let people = place.ok(&["blame", "work"]);
    assert!(people.contains("#3  assistant") && people.contains("added       model"), "{people}");
}

#[test]
fn lost_lists_what_a_summary_hid() {
    let place = Workspace::of(STREAM);
    assert_eq!(place.json(&["lost", "--json"]), Vec::<Value>::new());
    let range = ["--from", "main#2", "--to", "main#4"];
    place.ok(&[&["compress", "--content", "A search in the hay"], &range[..]].concat());
    let entries = place.json(&["lost", "--json"]);
    assert_eq!((&entries[0]["number"], &entries[0]["hidden"]), (&json!(2), &json!(3)));
    let mut items = list(&entries[0]["items"]).iter();
    let command = items.find(|item| item["kind"] == "command").expect("a command");
    assert_eq!(command["text"], "grep -n \"needle\" hay ls");
    assert_eq!(place.json(&["lost", "main#2", "--json"]), entries);
    let people = place.ok(&["lost"]);
    for part in ["summary of 3 messages", "command  grep -n"] {
        assert!(people.contains(part), "{people}");
    }
}

#[test]
fn blame_and_lost_report_an_unreadable_revision() {
    let place = Workspace::of(STREAM);
    let before = std::fs::read(place.store()).expect("the store");
    for verb in ["blame", "lost"] {
        place.refused(&[verb, "nowhere"], 1, "unknown_revision", "nowhere");
        place.refused(&[verb, "main~99"], 1, "bad_revision", "main~99");
        Workspace::empty().refused(&[verb], 3, "no_store", "no store");
        Workspace::new().refused(&[verb], 1, "no_commits", "main");
    }
    place.refused(&["log", "--slot", "nowhere"], 1, "unknown_revision", "nowhere");
    let log = place.json(&["log", "--json", "-n", "0"]);
    let tools = each(&log, "commit").pop().expect("a commit");
    place.refused(&["log", "--slot", tools], 1, "no_message", "tools");
    place.run(&["log", "--slot", "main#1", "--graph"]).expect(2);
    assert_eq!(std::fs::read(place.store()).expect("the store"), before, "nothing was written");
}

#[test]
fn search_ranks_messages_and_says_where_they_are() {
    let place = Workspace::of(STREAM);
    let ranked = place.json(&["search", "public", "needle", "--json"]);
    assert_eq!(kinds(&ranked), ["user", "tool_result", "assistant", "user"], "{ranked:?}");
    assert_eq!(ranked[0]["snippet"]["text"], "the public needle");
    assert_eq!(ranked[0]["snippet"]["matched"], json!([[4, 10], [11, 17]]));
    assert_eq!((&ranked[0]["rank"], &ranked[0]["branches"]), (&json!(1), &json!(["main"])));
    let scores: Vec<f64> = ranked.iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");

    let all = place.json(&["search", "hay", "--all", "--json"]);
    assert_eq!(all[0]["branches"], json!(["main", "work"]), "{all:?}");
    assert_eq!(place.json(&["search", "needle", "--json", "--limit", "1"]).len(), 1);
    assert_eq!(kinds(&place.json(&["search", "needle", "--role", "assistant", "--json"])).len(), 1);
    let bash = place.json(&["search", "needle", "--tool", "bash", "--in", "work", "--json"]);
    assert!(bash.iter().all(|hit| hit["tool_names"] == json!(["bash"])), "{bash:?}");
    let late = place.json(&["search", "needle", "--since", "2026-01-31T10:00:00Z", "--json"]);
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!(place.json(&["search", "needle", "--all-repos", "--json"])[0]["repo"], "default");

    let people = place.ok(&["search", "public"]);
    assert!(people.starts_with(" 1. ") && people.contains("the public needle"), "{people}");
    let ran = place.run(&["search", "secret"]).expect(1);
    assert!(ran.stderr.contains("--hidden"), "{ran:?}");
    assert!(place.ok(&["search", "secret", "--hidden"]).contains("hidden  user"));
    place.refused(&["search", "…"], 2, "usage", "no word");
}

#[test]
fn a_search_from_the_index_is_that_of_the_first_search() {
    for url in ["sqlite:many.db", "redb:one.db"] {
        let place = Workspace::empty();
        place.ok(&in_store(url, &["init"]));
        let texts = (0..900).map(|n| format!("word{} number {n}", n % 7));
        place.write("stream.jsonl", user_says(texts));
        place.ok(&in_store(url, &["apply", "stream.jsonl"]));
        let search = in_store(url, &["search", "word3", "number", "--limit", "5", "--json"]);
        let first = place.json(&search);
        assert_eq!(first.len(), 5);
        assert_eq!(place.json(&search), first, "{url}: from the index");
        place.ok(&in_store(url, &["verify"]));
        assert_eq!(place.json(&search), first, "{url}: after it was verified");
    }
}

#[test]
fn processes_that_search_and_commit_at_once_do_not_disturb_each_other() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "first needle"]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert!(!place.json(&["search", "needle", "--json"]).is_empty());
                }
            });
        }
        scope.spawn(|| {
            for n in 0..5 {
                place.ok(&["commit", "user", &format!("needle {n}")]);
            }
        });
    });
    assert_eq!(place.json(&["search", "needle", "--json"]).len(), 6);
    place.is_clean();
}

#[test]
fn search_finds_after_commits_of_its_index_were_collected() {
    let messages = |count: usize, word: &str| -> String {
        (0..count)
            .map(|n| {
                let text = format!("message {word} {n} about topic{}", n % 7);
                json!({"op": "user", "text": text}).to_string() + "\n"
            })
            .collect()
    };
    let place = Workspace::new();
    place.feed(&["apply", "--atomic", "-"], messages(700, "main").as_bytes()).expect(0);
    place.ok(&["search", "topic5"]);
    place.ok(&["branch", "b", "--from", "HEAD~100"]);
    place.ok(&["checkout", "b"]);
    place.feed(&["apply", "--atomic", "-"], messages(600, "side").as_bytes()).expect(0);
    place.ok(&["search", "topic5"]);
    place.ok(&["branch", "--delete", "main"]);
    place.ok(&["gc", "--keep", "0s"]);
    let first = place.ok(&["search", "main", "topic5"]);
    assert!(first.contains("topic5"), "{first}");
    // The same with the index that this search built.
    assert_eq!(place.ok(&["search", "main", "topic5"]), first);
    place.feed(&["apply", "--atomic", "-"], messages(600, "more").as_bytes()).expect(0);
    let indexed = place.ok(&["search", "side", "topic3"]);
    assert!(indexed.contains("side"), "{indexed}");
    assert!(place.ok(&["verify"]).contains("clean"));
}

#[test]
fn equally_good_hits_come_newest_first_in_any_state_of_the_index() {
    let place = Workspace::new();
    let lines: String = (0..600)
        .map(|n| {
            let at = format!("2026-01-01T00:{:02}:{:02}Z", n / 60, n % 60);
            json!({"op": "user", "text": format!("word {n}"), "at": at}).to_string() + "\n"
        })
        .collect();
    let (first, rest) = lines.split_at(lines.len() / 2);
    let rest_of_line = rest.find('\n').map_or(0, |at| at + 1);
    let (end, rest) = rest.split_at(rest_of_line);
    place.feed(&["apply", "-"], format!("{first}{end}").as_bytes()).expect(0);
    let hits = |place: &Workspace| -> Vec<String> {
        place
            .json(&["--json", "search", "word", "-n", "5"])
            .iter()
            .flat_map(|line| line["hits"].as_array().cloned().unwrap_or(vec![line.clone()]))
            .filter_map(|hit| hit["commit"].as_str().map(str::to_owned))
            .collect()
    };
    hits(&place);
    place.feed(&["apply", "-"], rest.as_bytes()).expect(0);
    let small = hits(&place);
    let newest: Vec<String> = place
        .json(&["--json", "log", "--limit", "5"])
        .iter()
        .filter_map(|commit| commit["commit"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(small, newest);
    // A search that stores the rest in the index, and one that reads it from there.
    place
        .feed(&["apply", "-"], b"{\"op\":\"note\",\"text\":\"x\"}\n".repeat(600).as_slice())
        .expect(0);
    assert_eq!(hits(&place), newest);
    assert_eq!(hits(&place), newest);
}

#[test]
fn the_place_of_a_match_is_given_in_bytes_and_in_characters() {
    let text = "Größe: the 🪢 needle, the needle";
    let place = Workspace::of(&format!("{}\n", json!({"op": "user", "text": text})));
    let line = &place.json(&["grep", "needle", "--json"])[0]["lines"][0];
    assert_eq!(line["text"], text);
    assert_eq!((&line["matched"], &line["matched_chars"]), (&json!([18, 24]), &json!([13, 19])));
    let snippet = &place.json(&["search", "needle", "--json"])[0]["snippet"];
    assert_eq!(snippet["text"], text);
    assert_eq!(snippet["matched"], json!([[18, 24], [30, 36]]));
    assert_eq!(snippet["matched_chars"], json!([[13, 19], [25, 31]]));
    let context = &place.json(&["grep", "zzz|Größe", "--json"]);
    assert_eq!(context[0]["lines"][0]["matched_chars"], json!([0, 5]));
}
