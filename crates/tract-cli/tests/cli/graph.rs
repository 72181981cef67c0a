use crate::support::Workspace;

#[track_caller]
fn colored(stream: &str, arguments: &[&str]) -> String {
    let place = Workspace::of(stream);
    let plain = [&["log", "--graph"], arguments].concat();
    let colored = place.ok(&[&["--color", "always"], &plain[..]].concat());
    // Without colors the text is the same.
    assert_eq!(place.ok(&plain), anstream::adapter::strip_str(&colored).to_string());
    // Escape sequences as one can read them.
    colored.replace('\u{1b}', "␛")
}

/// Two lines that part, as after a fork.
const FORK: &str = r#"
{"op":"system","text":"You are a travel agent. Be brief.","at":"2026-01-31T09:00:00Z"}
{"op":"set_tools","tools":[{"name":"get_weather","input_schema":{"type":"object"}},{"name":"book","input_schema":{"type":"object"}}],"at":"2026-01-31T09:00:01Z"}
{"op":"user","text":"Do I need a coat in Paris?","mark":"q","at":"2026-01-31T09:00:02Z"}
{"op":"assistant","text":"","tool_calls":[{"id":"c1","name":"get_weather","arguments":{"city":"Paris"}}],"at":"2026-01-31T09:00:03Z"}
{"op":"tool_result","call_id":"c1","content":"{\"celsius\":11,\"rain\":true}","at":"2026-01-31T09:00:04Z"}
{"op":"assistant","text":"Yes, and an umbrella.","at":"2026-01-31T09:00:05Z"}
{"op":"branch","name":"lyon","from":":q"}
{"op":"checkout","name":"lyon"}
{"op":"edit","target":":q","text":"Do I need a coat in Lyon?","at":"2026-01-31T09:00:06Z"}
{"op":"set_tools","tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{}}}],"at":"2026-01-31T09:00:07Z"}
{"op":"tag","name":"asked-in-lyon"}
"#;

#[test]
fn a_fork() {
    insta::assert_snapshot!("fork", colored(FORK, &["main", "lyon"]));
}

/// Two lines that part and meet again.
const MERGE: &str = r#"
{"op":"system","text":"Be brief.","at":"2026-01-31T09:00:00Z"}
{"op":"user","text":"What is a monad?","mark":"q","at":"2026-01-31T09:00:01Z"}
{"op":"branch","name":"other"}
{"op":"assistant","text":"A monoid in the category of endofunctors.","at":"2026-01-31T09:00:02Z"}
{"op":"checkout","name":"other"}
{"op":"annotate","target":":q","priority":"important","reason":"the exam asks it","at":"2026-01-31T09:00:03Z"}
{"op":"note","text":"looked up in the script","at":"2026-01-31T09:00:04Z"}
{"op":"checkout","name":"main"}
{"op":"merge","from":"other","at":"2026-01-31T09:00:05Z"}
{"op":"user","text":"Shorter.","at":"2026-01-31T09:00:06Z"}
"#;

#[test]
fn a_merge() {
    insta::assert_snapshot!("merge", colored(MERGE, &["main"]));
}

/// One line with a summary, something reverted, and text that would play tricks on a terminal.
const SUMMARY: &str = r#"
{"op":"user","text":"Say \u001b[31mred\u001b[0m and \u202etxet neddih\u202c, 日本語 too.","mark":"m1","at":"2026-01-31T09:00:00Z"}
{"op":"assistant","text":"Two\nlines,\tand a very long text that does not fit into the columns which a terminal of a hundred columns leaves for it.","mark":"m2","at":"2026-01-31T09:00:01Z"}
{"op":"user","text":"Thanks.","mark":"m3","at":"2026-01-31T09:00:02Z"}
{"op":"compress","from":":m1","to":":m2","content":"They exchanged pleasantries.","mark":"s","at":"2026-01-31T09:00:03Z"}
{"op":"revert","target":":s","at":"2026-01-31T09:00:04Z"}
{"op":"reasoning","text":"Was that wise?","at":"2026-01-31T09:00:05Z"}
"#;

#[test]
fn a_reverted_summary() {
    insta::assert_snapshot!("summary", colored(SUMMARY, &[]));
}

#[test]
fn colors_are_for_terminals() {
    let place = Workspace::of(FORK);
    let escapes = |ran: &str| ran.contains('\u{1b}');
    assert!(!escapes(&place.ok(&["log"])), "stdout is a pipe");
    assert!(escapes(&place.ok(&["log", "--color", "always"])));
    assert!(!escapes(&place.ok(&["log", "--color", "never"])));
}
