//! `tract why-miss --turns` and `--all`: what conversations sent again, why, and what it cost.

use serde_json::{Value, json};

use crate::support::{Workspace, data, keys, stream, text};

const MODEL: &str = "claude-sonnet-4-20250514";

/// An answer with the tokens of its request: all, those from the cache, those written to it.
fn answer(text: &str, at: &str, [all, read, written]: [u64; 3]) -> Value {
    let usage = json!({
        "input_tokens": all, "cached_tokens": read, "cache_write_tokens": written, "output_tokens": 9,
    });
    json!({
        "op": "assistant", "text": text, "at": at,
        "generation_config": {"model": MODEL}, "metadata": {"usage": usage},
    })
}

/// A clock in the prompt, and a branch with a tool that came later.
fn clerk() -> Workspace {
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let lines = [
        json!({"op": "set_tools", "tools": [tool("tide")]}),
        json!({"op": "system", "text": "It is 09:00. Be brief.", "mark": "system"}),
        json!({"op": "user", "text": "High water?"}),
        answer("At 11.", "2026-03-14T09:00:00Z", [20_000, 0, 20_000]),
        json!({"op": "user", "text": "And low?", "mark": "low"}),
        answer("At 5.", "2026-03-14T09:01:00Z", [20_100, 20_000, 100]),
        json!({"op": "edit", "target": ":system", "text": "It is 09:02. Be brief."}),
        json!({"op": "user", "text": "\u{1b}[31mAnd\u{202e} now?"}),
        answer("Rising.", "2026-03-14T09:02:00Z", [20_200, 5_000, 15_200]),
        json!({"op": "branch", "name": "later", "from": ":low"}),
        json!({"op": "checkout", "name": "later"}),
        json!({"op": "set_tools", "tools": [tool("tide"), tool("wind\u{202e}")]}),
        answer("At six.", "2026-03-14T09:03:00Z", [20_100, 0, 20_100]),
        json!({"op": "checkout", "name": "main"}),
    ];
    Workspace::of(&stream(lines))
}

#[test]
fn turns_show_what_was_sent_again_and_why() {
    let place = clerk();
    let shown = place.ok(&["why-miss", "--turns"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 6, "{shown}");
    assert!(lines[1].ends_with("first request"), "{shown}");
    assert!(lines[2].contains("20,100      20,000           0"), "{shown}");
    let miss = lines[3];
    assert!(miss.contains("20,200       5,000      15,100"), "{shown}");
    assert!(miss.contains("clock in the prompt: #1 system ("), "{shown}");
    assert!(miss.ends_with("\"09:00.\" → \"09:02.\""), "{shown}");
    // 15,100 tokens at 3.75 instead of 0.30 USD for a million.
    assert!(miss.contains(" 0.0521 "), "{shown}");
    let sum = "1 of 3 requests with a miss: 15,100 tokens sent again, 0.0521 USD more than";
    assert!(lines[4].starts_with(sum), "{shown}");

    let documents = place.json(&["why-miss", "--turns", "main", "--json"]);
    assert_eq!(documents.len(), 4);
    let miss = &documents[2];
    let members =
        "again answer at before branch cost miss model prompt read recorded request written";
    assert_eq!(keys(miss), members);
    assert_eq!((&miss["again"], &miss["cost"]), (&15_100.into(), &json!(0.052095)));
    assert_eq!((&miss["branch"], &miss["recorded"]), (&"main".into(), &true.into()));
    assert_eq!(miss["at"], "2026-03-14T09:02:00Z");
    assert_eq!(miss["before"], documents[1]["answer"]);
    assert_eq!(keys(&miss["miss"]), "after before block cause");
    assert_eq!(miss["miss"]["cause"], "clock");
    assert_eq!(miss["miss"]["after"], "09:02.");
    assert_eq!(documents[0]["before"], Value::Null);
    let total = &documents[3];
    assert_eq!(keys(total), "currency prices_of total unpriced_models");
    assert_eq!(keys(&total["total"]), "again cost counted misses requests unpriced");
    assert_eq!(total["total"]["misses"], 1);
}

#[test]
fn causes_of_all_branches_are_ranked_and_an_answer_counts_once() {
    let place = clerk();
    let documents = place.json(&["--json", "why-miss", "--all"]);
    let [first, second, total] = documents.as_slice() else { panic!("{documents:?}") };
    assert_eq!(keys(first), "again cause cost largest requests unpriced");
    assert_eq!((&first["cause"], &first["again"]), (&"tool_added".into(), &20_000.into()));
    assert_eq!(first["largest"]["branch"], "later");
    assert_eq!((&second["cause"], &second["again"]), (&"clock".into(), &15_100.into()));
    assert_eq!((&total["total"]["requests"], &total["total"]["misses"]), (&4.into(), &2.into()));
    let shown = place.ok(&["why-miss", "-a"]);
    let (tool, clock) = (shown.find("tool added"), shown.find("clock in the prompt"));
    assert!(tool.is_some() && tool < clock, "{shown}");
    let later = place.ok(&["why-miss", "--turns", "later"]);
    assert!(later.contains("tool added: tool wind\\u{202e}"), "{later}");
    assert!(!later.contains('\u{202e}') && !shown.contains('\u{1b}'), "{later}");

    place.write("prices.json", r#"{"date":"2026-01-01","currency":"EUR","models":{}}"#);
    let shown = place.ok(&["why-miss", "--all", "--prices", "prices.json"]);
    assert!(shown.contains(&format!("no price for {MODEL}: 2 misses not in the sum")), "{shown}");
    assert!(!shown.contains("list prices"), "nothing was priced: {shown}");
    place.write("prices.json", "[]");
    let arguments = ["why-miss", "--all", "--prices", "prices.json"];
    place.refused(&arguments, 1, "no_prices", "expected");
}

#[test]
fn a_conversation_without_reported_tokens_is_estimated_and_said_to_be() {
    let place = Workspace::of(
        "{\"op\":\"user\",\"text\":\"One?\",\"mark\":\"one\"}\n{\"op\":\"assistant\",\"text\":\"Yes.\"}\n\
         {\"op\":\"edit\",\"target\":\":one\",\"text\":\"Two?\"}\n{\"op\":\"user\",\"text\":\"Sure?\"}\n\
         {\"op\":\"assistant\",\"text\":\"No.\"}\n",
    );
    let shown = place.ok(&["why-miss", "--turns"]);
    assert!(shown.contains("message edited: #1 user (") && shown.contains("→ \"Two?\""), "{shown}");
    assert!(shown.contains("no price for unknown: 1 miss not in the sum"), "{shown}");
    let counted = "counted and not reported by the provider: the tokens of 2 requests";
    assert!(shown.contains(counted), "{shown}");
    let empty = Workspace::of("{\"op\":\"user\",\"text\":\"Hello?\"}\n");
    for arguments in [["why-miss", "--turns"], ["why-miss", "--all"]] {
        assert_eq!(empty.ok(&arguments), "no answer of a model\n");
    }
}

#[test]
fn flags_that_exclude_each_other_are_a_wrong_command_line() {
    let place = clerk();
    for arguments in [
        &["why-miss"][..],
        &["why-miss", "--turns", "main", "later"],
        &["why-miss", "--turns", "--all"],
        &["why-miss", "--all", "main"],
        &["why-miss", "--turns", "--to", "openai-params"],
        &["why-miss", "main", "later", "--prices", "x.json"],
    ] {
        place.run(arguments).expect(2);
    }
    place.refused(&["why-miss", "--turns", "mian"], 1, "unknown_revision", "main");
}

/// The sessions of several tools, as they were recorded.
#[test]
fn recorded_sessions_add_up() {
    let place = Workspace::new();
    let sessions = data("sessions");
    if !sessions.is_dir() {
        return;
    }
    for tool in ["claude-code", "codex", "openhands"] {
        let folder = sessions.join(tool);
        // Some of them are damaged on purpose.
        let ran = place.run(&["import", tool, text(&folder)]);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    }
    let mut ranked = place.json(&["why-miss", "--all", "--json"]);
    let total = ranked.pop().expect("a total")["total"].clone();
    let number = |value: &Value| value.as_u64().expect("a number");
    let sum = |member: &str| ranked.iter().map(|cause| number(&cause[member])).sum::<u64>();
    assert_eq!(sum("again"), number(&total["again"]));
    assert_eq!(sum("requests"), number(&total["misses"]));
    let again: Vec<u64> = ranked.iter().map(|cause| number(&cause["again"])).collect();
    assert!(again.is_sorted_by(|a, b| a >= b), "{ranked:?}");
    let mut answers = std::collections::BTreeSet::new();
    for branch in place.json(&["branch", "--json"]) {
        let name = branch["branch"].as_str().expect("a name");
        let mut requests = place.json(&["why-miss", "--turns", name, "--json"]);
        requests.pop();
        for request in &requests {
            answers.insert(request["answer"].as_str().expect("an id").to_owned());
            let (prompt, read) = (number(&request["prompt"]), number(&request["read"]));
            let again = number(&request["again"]);
            assert!(read + again <= prompt, "{request}");
            assert_eq!(again == 0, request["miss"].is_null(), "{request}");
        }
        assert!(requests.first().is_none_or(|first| first["before"].is_null()), "{requests:?}");
    }
    assert!(answers.len() as u64 >= number(&total["requests"]), "each of them is on a branch");
    let switched = ranked.iter().find(|cause| cause["cause"] == "model_switch");
    assert_eq!(switched.map(|cause| number(&cause["again"])), Some(9_489), "{ranked:?}");
}
