//! Pages of `tract view` about a whole repository or branch: usage, pending approvals, search,
//! window.

use serde_json::{Value, json};

use crate::support::{COAT, Workspace, sessions, stream};
use crate::viewing::{Browser, HOSTILE, hostile, is_inert};

fn answer(text: &str, model: &str, at: &str) -> Value {
    let usage = json!({
        "input_tokens": 1_500_000, "cached_tokens": 1_000_000, "output_tokens": 1000,
    });
    json!({
        "op": "assistant", "text": text, "at": at,
        "generation_config": {"model": model}, "metadata": {"usage": usage},
    })
}

fn apply(place: &Workspace, lines: &[Value]) {
    place.feed(&["apply", "-"], stream(lines.iter().cloned()).as_bytes()).expect(0);
}

#[test]
fn the_usage_page_has_the_numbers_of_usage() {
    let place = Workspace::of(COAT);
    let browser = Browser::open(&place);
    assert!(browser.page("/usage").contains("No recorded answer says"));
    apply(
        &place,
        &[
            answer("a", "claude-sonnet-4-20250514", "2026-03-14T09:00:00Z"),
            json!({"op": "user", "text": "And?"}),
            answer("b", "claude-sonnet-4-20250514", "2026-03-15T09:00:00Z"),
            answer("c", HOSTILE[0], "2026-03-15T10:00:00Z"),
        ],
    );
    let page = browser.page("/usage");
    is_inert(&page, 1);
    // Half a million at 3 USD, a million at 0.30, a thousand at 15.
    let [first, second] = ["2026-03-14", "2026-03-15"].map(|day| page.find(day));
    assert!(first < second && first.is_some(), "the oldest day is first: {page}");
    assert_eq!(page.matches("1.81").count(), 2, "{page}");
    assert!(page.contains("3.63") && page.contains("&gt;3.63"), "{page}");
    assert!(page.contains("2,000,000") && page.contains("1 answer not in the sum"), "{page}");
    let table = place.ok(&["usage"]);
    assert!(table.contains(">3.63"), "{table}");
    let session = browser.page("/cost?rev=main");
    is_inert(&session, 1);
    assert!(
        session.contains("&gt;3.63") && session.contains("aria-current=\"page\">Cost"),
        "{session}"
    );
}

#[test]
fn the_cost_of_tool_definitions_is_shown_per_tool() {
    let place = Workspace::of(COAT);
    let idle = json!({"name": HOSTILE[0], "description": "Never called. ".repeat(40), "input_schema": {"type": "object"}});
    apply(
        &place,
        &[
            json!({"op": "set_tools", "tools": [idle]}),
            json!({"op": "user", "text": "And?"}),
            answer("a", "claude-sonnet-4-20250514", "2026-03-14T09:00:00Z"),
            json!({"op": "user", "text": "And now?"}),
            answer("b", "claude-sonnet-4-20250514", "2026-03-14T09:01:00Z"),
        ],
    );
    let costs = place.json(&["--json", "tools", "cost"]);
    let [idle, weather] = &costs[..] else { panic!("{costs:?}") };
    assert_eq!(idle["name"], HOSTILE[0]);
    assert_eq!([&idle["requests"], &idle["calls"]], [2, 0]);
    let tokens = idle["tokens"].as_u64().expect("a count");
    assert!(tokens > 100, "{idle}");
    assert_eq!(idle["sent_tokens"], 2 * tokens);
    let share = idle["share"].as_f64().expect("a share");
    assert!((share - tokens as f64 / 1_500_000.0).abs() < 1e-4, "{share}");
    assert_eq!(weather["name"], "get_weather");
    assert_eq!([&weather["requests"], &weather["calls"]], [2, 1], "both answers of the example");
    assert_eq!(weather["share"], Value::Null, "no provider reported the tokens of its requests");
    // A fork that shares the requests adds none; one of its own does.
    place.ok(&["branch", "fork", "--from", "main"]);
    assert_eq!(place.json(&["--json", "tools", "cost"]), costs);
    assert_eq!(place.json(&["--json", "tools", "cost", "main#4"])[0]["name"], "get_weather");
    let shown = place.ok(&["tools", "cost"]);
    assert!(shown.contains("never called: 1 tool"), "{shown}");
    let page = Browser::open(&place).page("/usage");
    is_inert(&page, 1);
    assert!(page.contains("get_weather") && page.contains("never called"), "{page}");
}

#[test]
fn cache_misses_are_shown_with_their_cause() {
    let place = Workspace::of(COAT);
    let browser = Browser::open(&place);
    assert!(browser.page("/cache?rev=main").contains("No request missed the cache"));
    let usage =
        |read: u64| json!({"input_tokens": 90_000, "cached_tokens": read, "output_tokens": 10});
    let answer = |read: u64, at: &str| {
        json!({"op": "assistant", "text": "Yes.", "at": at, "metadata": {"usage": usage(read)},
            "generation_config": {"model": "claude-sonnet-4-20250514"}})
    };
    apply(&place, &[json!({"op": "user", "text": "And?"}), answer(80_000, "2026-03-14T09:00:00Z")]);
    place.ok(&["edit", "main#2", HOSTILE[0]]);
    apply(&place, &[json!({"op": "user", "text": "So?"}), answer(0, "2026-03-14T09:01:00Z")]);
    for path in ["/cache?rev=main", "/cache"] {
        let page = browser.page(path);
        is_inert(&page, 1);
        assert!(page.contains("message edited") && page.contains(">message 2</a>"), "{page}");
        assert!(page.contains("90k") || page.contains("80k"), "{page}");
    }
    let Some(told) = place.ok(&["why-miss", "--all"]).lines().nth(1).map(str::to_owned) else {
        panic!()
    };
    assert!(told.starts_with("message edited"), "{told}");
}

#[test]
fn two_sessions_are_compared_side_by_side() {
    let place = Workspace::of(COAT);
    place.ok(&["branch", "lyon", "--from", "main"]);
    place.ok(&["edit", "main#2", HOSTILE[0]]);
    place.ok(&["checkout", "lyon"]);
    place.ok(&["commit", "user", "Only in Lyon."]);
    let page = Browser::open(&place).page("/compare?a=main&b=lyon");
    is_inert(&page, 1);
    assert_eq!(page.matches("<tr class=\"differs\"").count(), 2, "{page}");
    assert_eq!(page.matches("id=\"first\"").count(), 1, "{page}");
    let [changed, only] =
        ["Do I need a coat in Paris?", "Only in Lyon."].map(|text| page.find(text));
    assert!(changed < only && changed.is_some(), "{page}");
    assert!(page.contains("Cache miss"), "{page}");
    let same = Browser::open(&place).page("/compare?a=main&b=main");
    assert!(same.contains("0 differences") && !same.contains("id=\"first\""), "{same}");
}

#[test]
fn home_finds_filters_and_groups_sessions() {
    let place = Workspace::new();
    for tool in ["claude-code", "codex"] {
        place.ok(&["import", tool, &sessions(tool).display().to_string()]);
    }
    let listed = place.json(&["--json", "sessions"]);
    let browser = Browser::open(&place);
    let page = browser.page("/");
    is_inert(&page, 1);
    for session in &listed {
        let branch = session["branch"].as_str().expect("a branch");
        assert!(page.contains(&format!("rev={}", branch.replace('/', "%2F"))), "{branch}: {page}");
        // The names of sessions are in links and in what is folded only.
        assert!(!page.contains(&format!(">{branch}<")), "{branch}");
    }
    assert!(page.contains("<svg class=\"spark\""), "{page}");
    assert!(page.contains("<details class=\"children\">"), "{page}");
    let codex = browser.page("/?tool=codex");
    assert!(codex.contains("rev=codex%2F") && !codex.contains("rev=claude-code%2F"), "{codex}");
    let none = browser.page("/?q=nowhere+to+be+found");
    assert!(none.contains("No session matches"), "{none}");
    let projects = browser.page("/?sort=project");
    assert!(projects.contains("scope=\"rowgroup\""), "{projects}");
    // The title of a session is the heading of its pages.
    let titled = listed.iter().find(|one| one["title"].is_string()).expect("a title");
    let branch = titled["branch"].as_str().expect("a branch");
    let page = browser.page(&format!("/transcript?rev={branch}"));
    let heading = page.split("<h1").nth(1).and_then(|rest| rest.split("</h1>").next());
    let title = titled["title"].as_str().expect("a title");
    let start: String = title.chars().take_while(|c| c.is_alphanumeric() || *c == ' ').collect();
    assert!(heading.is_some_and(|heading| heading.contains(start.trim())), "{title}: {heading:?}");
    assert!(page.contains(branch), "its branch is in the details");
}

#[test]
fn a_hit_of_the_search_leads_to_its_message() {
    let place = Workspace::of(COAT);
    place.ok(&["branch", "lyon", "--from", "main#2"]);
    let browser = Browser::open(&place);
    assert!(browser.page("/").contains("action=\"/search\""));
    let page = browser.page("/search?words=umbrella+hat");
    assert_eq!(page.matches("<article").count(), 1, "{page}");
    assert!(page.contains("<mark>umbrella</mark>"), "{page}");
    let link = page.split("href=\"/transcript").nth(1).and_then(|rest| rest.split('"').next());
    let link = link.expect("a link").replace("&amp;", "&");
    let (path, anchor) = link.split_once('#').expect("an anchor");
    assert_eq!((path, anchor), ("?rev=main&from=3", "m5"));
    let transcript = browser.page(&format!("/transcript{path}"));
    assert!(transcript.contains("id=\"m5\""), "{transcript}");
    // What two branches show is found once.
    assert_eq!(browser.page("/search?words=paris").matches("rev=").count(), 2);
    for path in ["/search", "/search?words=", "/search?words=%3F%21", "/search?words=nowhere"] {
        assert!(browser.page(path).contains("No message contains"), "{path}");
    }
    is_inert(&browser.page("/search?words=%3Cscript%3Ealert%281%29%3C%2Fscript%3E"), 1);
}

#[test]
fn the_window_shows_tokens_by_kind_and_what_changed_them() {
    let place = Workspace::of(COAT);
    place.ok(&["edit", "main#2", "Do I need a hat in Paris?"]);
    place.ok(&["compress", "--from", "main#3", "--to", "main#4", "--content", "It rains."]);
    let browser = Browser::open(&place);
    assert!(browser.page("/transcript?rev=main").contains("/window?rev=main"));
    let page = browser.page("/window?rev=main");
    is_inert(&page, 1);
    for part in ["tools", "system", "user", "assistant", "results", "other"] {
        assert_eq!(page.matches(&format!("<path class=\"part-{part}\"")).count(), 1, "{page}");
    }
    for mark in ["edit", "summary"] {
        assert_eq!(page.matches(&format!("<line class=\"mark mark-{mark}\"")).count(), 1, "{page}");
    }
    assert!(page.contains("8 commits"), "{page}");
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    let cell = |name: &str| -> u64 {
        let row = page.split(&format!("part-{name}\"></span>")).nth(1).expect("a legend");
        let mut cells = row.split("<span class=\"soft\">").skip(1);
        let cell = cells.next().and_then(|cell| cell.split('<').next());
        cell.and_then(|cell| cell.replace(',', "").parse().ok()).expect("a number")
    };
    let parts = ["tools", "system", "user", "assistant", "results", "other"];
    let status = &place.json(&["status", "--json"])[0];
    assert_eq!(parts.map(cell).iter().sum::<u64>(), status["tokens"].as_u64().expect("a number"));
    assert_eq!(cell("results"), 0, "the result is summarized");
    assert_eq!(browser.get("/window?rev=mian").status, 404);
    let one = Workspace::of("{\"op\":\"note\",\"text\":\"nothing is shown\"}\n");
    let page = Browser::open(&one).page("/window?rev=main");
    assert!(page.contains("1 commit,") && !page.contains("NaN"), "{page}");
}

#[test]
fn the_history_shows_forks_merges_and_what_each_commit_did() {
    let place = Workspace::of(COAT);
    place.ok(&["branch", "other", "--from", "main~2"]);
    place.ok(&["edit", "main#2", HOSTILE[0]]);
    place.ok(&["checkout", "other"]);
    place.ok(&["commit", "user", "Another way."]);
    place.ok(&["checkout", "main"]);
    place.ok(&["merge", "other"]);
    place.ok(&["branch", "apart", "--from", "main~1"]);
    place.ok(&["checkout", "apart"]);
    place.ok(&["commit", "user", "Apart from the merge."]);
    let browser = Browser::open(&place);
    assert!(browser.page("/transcript?rev=main").contains("/history?rev=main"));
    let page = browser.page("/history?rev=main");
    is_inert(&page, 1);
    let commits = place.json(&["--json", "log", "main", "--all", "--limit", "100"]);
    let of_main = commits.len() - 1;
    assert_eq!(page.matches("<circle ").count(), of_main, "a circle for each commit: {page}");
    assert!(page.contains("<b>merge</b>") && page.contains("<b>edit</b>"), "{page}");
    assert!(page.contains("rev=other\">other</a>"), "the head of the branch: {page}");
    assert!(!page.contains("Apart from the merge"), "{page}");
    assert!(page.contains("class=\"line-1\""), "the merged line has its own color: {page}");
    let all = browser.page("/history?rev=main&all=1");
    assert_eq!(all.matches("<circle ").count(), of_main + 1);
    assert!(all.contains("Apart from the merge"), "{all}");
    let id = place.id("main");
    let merged = format!("/compare?a={id}~1&amp;b={id}");
    assert!(page.contains(&merged), "what the merge changed: {page}");
    assert_eq!(browser.get("/history?rev=mian").status, 404);
    assert_eq!(browser.page("/history?rev=main&from=999").matches("<circle ").count(), 0);
}

/// Keeps a merge of two branches that edited one message to these texts.
fn merge_waits(place: &Workspace, [ours, theirs]: [&str; 2]) -> Vec<Value> {
    place.ok(&["branch", "other"]);
    place.ok(&["edit", "main#2", ours]);
    place.ok(&["checkout", "other"]);
    place.ok(&["edit", "other#2", theirs]);
    place.ok(&["merge", "main", "--keep"]);
    place.json(&["pending", "--json"])
}

#[test]
fn pending_approvals_are_listed_and_not_decided() {
    let place = Workspace::of(COAT);
    let waits = merge_waits(&place, [HOSTILE[0], HOSTILE[1]]);
    let id = waits[0]["id"].as_str().expect("an id");
    let browser = Browser::open(&place);
    assert!(browser.page("/").contains("href=\"/pending\""));
    let page = browser.page("/pending");
    assert!(page.contains(id) && page.contains("1 waiting"), "{page}");
    assert!(page.contains("/transcript?rev=other"), "{page}");
    is_inert(&page, 1);
    assert!(!page.contains("method=\"post\"") && !page.contains("/decide"), "read-only: {page}");
    assert_eq!(place.json(&["pending", "--json"]), waits);
}

#[test]
fn pending_approvals_are_decided_in_the_browser_where_that_is_allowed() {
    let place = Workspace::of(COAT);
    let waits = merge_waits(&place, ["Do I need a hat?", "Do I need boots?"]);
    let id = waits[0]["id"].as_str().expect("an id");
    let reading = Browser::open(&place);
    let (form, origin) = (format!("id={id}&decision=reject&reason=no"), reading.origin());
    assert_eq!(reading.post("/decide", &form, Some(&origin)).status, 404, "it is read-only");
    drop(reading);

    let browser = Browser::open_with(&place, &["--allow-decisions"], &[]);
    let page = browser.page("/pending");
    is_inert(&page, 1);
    assert!(page.contains("action=\"/decide\"") && page.contains(">Approve</button>"), "{page}");
    let form = |decision: &str| format!("id={id}&decision={decision}&reason=not+now");
    // Other sites and programs cannot decide.
    for origin in [None, Some("null"), Some("http://evil.example")] {
        assert_eq!(browser.post("/decide", &form("reject"), origin).status, 403, "{origin:?}");
    }
    let own = browser.origin();
    assert_eq!(browser.post("/decide", &form("perhaps"), Some(&own)).status, 404);
    // A merge with open conflicts cannot be approved as it is.
    let refused = browser.post("/decide", &form("approve"), Some(&own));
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert_eq!(place.json(&["pending", "--json"]), waits, "nothing was decided");
    assert_eq!(browser.post("/decide", &form("reject"), Some(&own)).status, 303);
    assert_eq!(place.json(&["pending", "--json"]), [] as [Value; 0]);
    let again = browser.post("/decide", &form("reject"), Some(&own));
    assert_eq!(again.status, 422, "{}", again.body);
    assert!(browser.page("/pending").contains("0 waiting"));
}

#[test]
fn conversations_are_sorted_by_what_they_cost() {
    let place = Workspace::of(COAT);
    place.ok(&["checkout", "-b", "dear"]);
    apply(&place, &[answer("a", "claude-sonnet-4-20250514", "2026-03-14T09:00:00Z")]);
    place.ok(&["branch", "cheap", "--from", "main"]);
    let browser = Browser::open(&place);
    let list = browser.page("/?sort=cost");
    is_inert(&list, 1);
    let [dear, cheap] = [">dear</span>", ">cheap</span>"].map(|name| list.find(name));
    assert!(dear < cheap && dear.is_some(), "{list}");
    assert!(list.contains("1.81") && list.contains("1,501,000"), "{list}");
    let list = browser.page("/?sort=tokens");
    assert!(list.find(">dear</span>") < list.find(">cheap</span>"), "{list}");
    assert!(browser.page("/").contains("1.81"));
}

#[test]
fn the_window_shows_what_the_prompt_cache_saved() {
    let place = Workspace::of(COAT);
    let browser = Browser::open(&place);
    assert!(!browser.page("/window?rev=main").contains("Prompt cache"), "no answer says so");
    apply(&place, &[answer("a", "claude-sonnet-4-20250514", "2026-03-14T09:00:00Z")]);
    let page = browser.page("/window?rev=main");
    assert!(page.contains("Prompt cache") && page.contains("1,000,000"), "{page}");
    assert_eq!(page.matches("<rect class=\"cache-read\"").count(), 1, "{page}");
    assert_eq!(page.matches("<rect class=\"cache-none\"").count(), 1, "{page}");
}

#[test]
fn the_tools_page_shows_losses_approvals_and_changes() {
    let place = Workspace::of(COAT);
    let read = |says: &str| json!({"name": "read", "description": says, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    place.write("tools.jsonl", format!("{}\n", read("Reads a file.")));
    place.ok(&["tools", "trust", "tools.jsonl", "--server", "files"]);
    let tools = |tools: &[Value]| json!({"op": "set_tools", "tools": tools});
    let other = json!({"name": "x", "input_schema": {"type": "object"}});
    apply(&place, &[tools(&[read("Reads a file."), other])]);
    apply(&place, &[json!({"op": "user", "text": "And?"}), tools(&[read(HOSTILE[0])])]);
    let browser = Browser::open(&place);
    let page = browser.page("/tools?rev=main");
    is_inert(&page, 1);
    assert!(page.contains("another definition was approved"), "{page}");
    assert!(page.contains("sent to anthropic") && page.contains("annotations: left out"), "{page}");
    let changes = page.split("<h2>Changes</h2>").nth(1).expect("the changes");
    assert_eq!(changes.matches("/tools?rev=").count(), 3, "{changes}");
    let [newest, middle, first] =
        ["changed </span>read", "added </span>read, x", "added </span>get_weather"]
            .map(|what| changes.find(what).unwrap_or_else(|| panic!("{what}: {changes}")));
    assert!(newest < middle && middle < first, "the newest is first: {changes}");
    assert!(changes.contains("removed </span>x") && changes.contains("removed </span>get_weather"));
    let before = browser.page("/tools?rev=main~2");
    assert!(before.contains(">approved</span>"), "{before}");
}

#[test]
fn recorded_texts_are_inert_on_every_report() {
    let place = hostile();
    apply(&place, &[answer("a", HOSTILE[2], "2026-03-14T09:00:00Z")]);
    let browser = Browser::open(&place);
    is_inert(&browser.page("/usage"), 1);
    is_inert(&browser.page("/pending"), 1);
    let page = browser.page("/search?words=script+owned+document+svg+yyy");
    is_inert(&page, 1);
    assert!(page.matches("<article").count() > 5, "{page}");
    assert!(page.len() < 400_000, "{} bytes", page.len());
    is_inert(&browser.page("/window?rev=main"), 1);
    is_inert(&browser.page("/history?rev=main&all=1"), 1);
}
