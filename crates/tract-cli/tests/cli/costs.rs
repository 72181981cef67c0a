//! What recordings cost: cache lifetimes, forks, names of models, tables of prices, days.

use serde_json::{Value, json};

use crate::support::{Workspace, data, text};

/// A line of a session of Claude Code.
fn line(session: &str, id: &str, parent: Option<&str>, message: &Value, second: u32) -> String {
    let kind = &message["role"];
    let line = json!({
        "parentUuid": parent, "isSidechain": false, "cwd": "/home/ada/quay", "sessionId": session,
        "version": "2.1.0", "type": kind, "uuid": id, "requestId": format!("req_{}", message["id"]),
        "timestamp": format!("2026-05-04T23:30:{second:02}.000Z"), "message": message,
    });
    format!("{line}\n")
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn answer(id: &str, model: &str, usage: &Value) -> Value {
    json!({
        "role": "assistant", "id": id, "type": "message", "model": model,
        "content": [{"type": "text", "text": format!("Answer {id}.")}], "usage": usage,
    })
}

fn import(place: &Workspace, file: &str, lines: &[String]) {
    place.write(file, lines.concat());
    place.ok(&["import", "claude-code", file]);
}

fn total(place: &Workspace, more: &[&str]) -> Value {
    let lines = place.json(&[&["usage", "--json"], more].concat());
    lines.last().expect("a total")["total"].clone()
}

#[test]
fn cache_writes_for_an_hour_cost_twice_the_input() {
    let usage = json!({
        "input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 100_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 20_000, "ephemeral_1h_input_tokens": 80_000},
    });
    let place = Workspace::new();
    let lines = [
        line("s1", "u1", None, &user("Hi"), 1),
        line("s1", "a1", Some("u1"), &answer("m1", "claude-haiku-4-5", &usage), 2),
    ];
    import(&place, "s1.jsonl", &lines);
    let sum = total(&place, &[]);
    assert_eq!(
        (&sum["tokens"]["cache_write"], &sum["tokens"]["cache_write_1h"]),
        (&json!(100_000), &json!(80_000))
    );
    assert_eq!(sum["cost"], json!(0.02 * 1.25 + 0.08 * 2.0));
    // It is in the commit, and goes back to the tool.
    let shown = place.json(&["show", "claude-code/s1", "--json"]);
    assert_eq!(shown[0]["record"]["metadata"]["usage"]["cache_write_1h_tokens"], 80_000);
    let session = place.ok(&["export", "--format", "claude-code", "claude-code/s1"]);
    assert!(session.contains(r#""ephemeral_1h_input_tokens":80000"#), "{session}");
}

#[test]
fn a_session_that_repeats_another_counts_once() {
    let usage = |n: u32| json!({"input_tokens": n, "output_tokens": n / 10});
    let model = "claude-haiku-4-5";
    // The ids of lines are new where the tool copies them as new ones.
    for (old, new) in [("", ""), ("", "new-")] {
        let place = Workspace::new();
        let session = |session: &str, mark: &str, more: bool| {
            let id = |name: &str| format!("{mark}{name}");
            let mut lines = vec![
                line(session, &id("u1"), None, &user("One"), 1),
                line(session, &id("a1"), Some(&id("u1")), &answer("m1", model, &usage(100)), 2),
                line(session, &id("u2"), Some(&id("a1")), &user("Two"), 3),
                line(session, &id("a2"), Some(&id("u2")), &answer("m2", model, &usage(200)), 4),
            ];
            if more {
                lines.push(line(session, "u3", Some(&id("a2")), &user("Three"), 5));
                lines.push(line(session, "a3", Some("u3"), &answer("m3", model, &usage(300)), 6));
            }
            lines.concat()
        };
        place.write("p/s1.jsonl", session("s1", old, false));
        place.write("p/s2.jsonl", session("s2", new, true));
        let lines = place.json(&["import", "claude-code", "p", "--json"]);
        let summary = &lines.last().expect("a summary")["summary"];
        let tokens = json!({"input": 600, "output": 60, "cache_read": 0, "cache_write": 0});
        assert_eq!(summary["tokens"], tokens);
        assert_eq!(summary["models"], json!({model: 3}));
        assert_eq!(summary["new"], if new.is_empty() { 6 } else { 10 });
        let sum = total(&place, &[]);
        assert_eq!((&sum["tokens"], &sum["answers"]), (&tokens, &json!(3)));
        // Nothing changed, and the report is the same.
        let again = place.json(&["import", "claude-code", "p", "--json"]);
        assert_eq!(again.last().expect("a summary")["summary"]["tokens"], tokens);
        // Misses are those of three requests.
        let misses = place.json(&["why-miss", "--all", "--json"]);
        assert_eq!(misses.last().expect("a total")["total"]["requests"], 3);
    }
}

#[test]
fn a_fork_of_codex_counts_what_it_adds_to_its_parent() {
    let place = Workspace::new();
    let record = |at: &str, kind: &str, payload: Value| {
        format!(
            "{}\n",
            json!({"timestamp": format!("2026-05-05T{at}Z"), "type": kind, "payload": payload})
        )
    };
    let printed = |at: &str, role: &str, text: &str| {
        let kind = if role == "user" { "input_text" } else { "output_text" };
        let content = json!([{"type": kind, "text": text}]);
        record(at, "response_item", json!({"type": "message", "role": role, "content": content}))
    };
    let counted = |at: &str, all: u64, last: u64| {
        let usage = |input: u64| {
            json!({
                "input_tokens": input, "cached_input_tokens": 0, "output_tokens": 10, "total_tokens": input + 10,
            })
        };
        let info = json!({"total_token_usage": usage(all), "last_token_usage": usage(last)});
        record(at, "event_msg", json!({"type": "token_count", "info": info}))
    };
    let history = |at: &str| {
        [
            record(at, "turn_context", json!({"model": "gpt-5.1-codex"})),
            printed(at, "user", "One"),
            printed(at, "assistant", "1"),
            counted(at, 100, 100),
            printed(at, "user", "Two"),
            printed(at, "assistant", "2"),
            counted(at, 300, 200),
        ]
        .concat()
    };
    let meta = |at: &str, id: &str, parent: Option<&str>| {
        record(at, "session_meta", json!({"id": id, "cwd": "/quay", "forked_from_id": parent}))
    };
    let parent = meta("08:00:00.000", "aaaa", None) + &history("08:00:01.000");
    let fork = meta("09:00:00.000", "bbbb", Some("aaaa"))
        + &history("09:00:00.000")
        + &printed("09:01:00.000", "user", "Three")
        + &printed("09:01:01.000", "assistant", "3")
        + &counted("09:01:02.000", 350, 50);
    place.write("rollout-b.jsonl", fork);
    place.ok(&["import", "codex", "rollout-b.jsonl"]);
    // Without its parent, all of it is known from the fork alone.
    assert_eq!(total(&place, &[])["tokens"]["input"], 350);
    place.write("rollout-a.jsonl", parent);
    place.ok(&["import", "codex", "rollout-a.jsonl"]);
    let sum = total(&place, &[]);
    assert_eq!((&sum["tokens"]["input"], &sum["answers"]), (&json!(350), &json!(3)));
}

#[test]
fn a_cache_for_an_hour_has_not_expired_after_ten_minutes() {
    let usage = |read: u64, minutes: u64, hour: u64| {
        json!({
            "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": minutes + hour,
            "cache_creation": {"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour},
        })
    };
    let cause = |first: Value, second: Value, hours: u32| {
        let place = Workspace::new();
        let at = |line: String, hour: u32, minute: u32| {
            line.replace("T23:30:", &format!("T{hour:02}:{minute:02}:"))
        };
        let model = "claude-haiku-4-5";
        let lines = [
            at(line("s", "u1", None, &user("Hi"), 1), 10, 0),
            at(line("s", "a1", Some("u1"), &answer("m1", model, &first), 2), 10, 0),
            at(line("s", "u2", Some("a1"), &user("And"), 1), 10 + hours, 10),
            at(line("s", "a2", Some("u2"), &answer("m2", model, &second), 2), 10 + hours, 10),
        ];
        import(&place, "s.jsonl", &lines);
        let lines = place.json(&["why-miss", "--turns", "claude-code/s", "--json"]);
        lines[1]["miss"]["cause"].as_str().map(str::to_owned)
    };
    let expired = Some("expired".to_owned());
    assert_eq!(cause(usage(0, 5000, 0), usage(0, 5000, 0), 0), expired);
    assert_eq!(cause(usage(0, 0, 5000), usage(0, 0, 5000), 0).as_deref(), Some("not_recorded"));
    assert_eq!(cause(usage(0, 0, 5000), usage(0, 0, 5000), 1), expired);
    // The part for five minutes expired, the one for an hour did not.
    assert_eq!(cause(usage(0, 2000, 5000), usage(5000, 2000, 0), 0), expired);
}

#[test]
fn days_are_those_of_the_local_time_zone() {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let place = Workspace::new();
    let lines = [
        line("s1", "u1", None, &user("Hi"), 1),
        line("s1", "a1", Some("u1"), &answer("m1", "claude-haiku-4-5", &usage), 2),
    ];
    import(&place, "s1.jsonl", &lines);
    let by_day = |zone: &str, more: &[&str]| {
        let arguments = [&["usage", "--by", "day", "--json"], more].concat();
        let lines = place.run_with("TZ", zone, &arguments).expect(0).lines();
        let zone = lines[1]["time_zone"].as_str().expect("a zone").to_owned();
        (lines[0]["name"].as_str().expect("a day").to_owned(), zone)
    };
    let is = |found: (String, String), day: &str, zone: &str| {
        assert_eq!((found.0.as_str(), found.1.as_str()), (day, zone));
    };
    is(by_day("UTC", &[]), "2026-05-04", "UTC");
    is(by_day("Asia/Tokyo", &["--utc"]), "2026-05-04", "UTC");
    if std::path::Path::new("/usr/share/zoneinfo/Asia/Tokyo").exists() {
        is(by_day("Asia/Tokyo", &[]), "2026-05-05", "Asia/Tokyo");
    }
    place.refused(&["usage", "--utc"], 2, "usage", "--by day");
}

#[test]
fn the_table_of_litellm_is_taken_by_prices() {
    let usage = json!({"input_tokens": 1000, "output_tokens": 100});
    let place = Workspace::new();
    let lines = [
        line("s1", "u1", None, &user("Hi"), 1),
        line("s1", "a1", Some("u1"), &answer("m1", "us.anthropic.claude-z-v1:0", &usage), 2),
    ];
    import(&place, "s1.jsonl", &lines);
    assert_eq!(total(&place, &[])["unpriced"], 1);
    let table = json!({"claude-z": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}});
    place.write("litellm.json", table.to_string());
    assert_eq!(total(&place, &["--prices", "litellm.json"])["cost"], json!(0.0012));
    let shown = place.ok(&["usage", "--prices", "litellm.json"]);
    assert!(shown.contains("list prices as of LiteLLM"), "{shown}");
}

/// Inputs that were made after public reports of wrong costs.
#[test]
fn reported_recordings_cost_what_they_did() {
    if tract_testkit::data::full("reports").is_none() {
        return;
    }
    let imported = |tool: &str, folder: &str| {
        let place = Workspace::new();
        place.ok(&["import", tool, text(&data(&format!("reports/{folder}")))]);
        place
    };
    let place = imported("claude-code", "cc-cache-1h");
    assert_eq!(total(&place, &[])["cost"], 6.0);
    let table = data("reports/files/lp.json");
    assert_eq!(total(&place, &["--prices", text(&table)])["cost"], 6.0);
    let place = imported("codex", "codex-fork-replays-usage");
    let sum = total(&place, &[]);
    let tokens = json!({"input": 1600, "output": 330, "cache_read": 2400, "cache_write": 0});
    assert_eq!((&sum["answers"], &sum["tokens"]), (&json!(3), &tokens));
    for folder in ["cc-fork-copies-new-uuid", "cc-fork-copies-same-uuid"] {
        let place = imported("claude-code", folder);
        let tokens = json!({"input": 600, "output": 60, "cache_read": 0, "cache_write": 0});
        assert_eq!(total(&place, &[])["tokens"], tokens, "{folder}");
    }
    let place = imported("claude-code", "model-names");
    assert_eq!(total(&place, &[])["unpriced"], 0);
}
