//! Wrong input is a typed error that says the way out, and changes nothing.

use std::time::Duration;

use tract::core::StoreErrorKind;
use tract::engine::{ApplyOptions, Request, apply_stream, read_lines};
use tract::import::Dialect;
use tract::{
    Draft, Error, JsonText, Limits, OpenOptions, Priority, RefName, RefTarget, ToolSchema, Tract,
    block_on,
};
use tract_testkit::{figure, scaled};

use crate::backends;
use crate::support::refs;
use crate::walks::memory;

/// All that an error could have left behind.
pub(crate) fn state(tract: &Tract) -> (Vec<(RefName, RefTarget)>, tract::store::StoreStats) {
    let mut stats = block_on(tract.store().stats(tract.repo().name())).unwrap();
    stats.disk_bytes = 0;
    (refs(tract.repo()), stats)
}

/// An error of this kind, with a way out: a note, or words that say what was expected.
#[track_caller]
fn says(error: &Error, code: &str, way_out: &str) {
    assert_eq!(error.code(), code, "{error:?}");
    let text = format!("{error}\n{}", error.notes().join("\n"));
    assert!(text.contains(way_out), "{way_out:?} not in {text:?}");
    let shows_the_way = !error.notes().is_empty() || error.to_string().contains("expected");
    assert!(shows_the_way, "no way out: {error:?}");
}

/// Does what must be refused, and looks for traces.
#[track_caller]
fn refused<T: std::fmt::Debug>(
    tract: &Tract,
    code: &str,
    way_out: &str,
    what: impl Future<Output = tract::Result<T>>,
) {
    let before = state(tract);
    let error = block_on(what).expect_err("this is refused");
    says(&error, code, way_out);
    assert_eq!(state(tract), before, "{code}: a refusal leaves a trace");
}

fn deep(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn wrong_types_name_the_place() {
    let read = |text: &str| tract::import::read(text, Some(Dialect::OpenAi), "x").unwrap_err();
    for (text, way_out) in [
        (r#"{"messages":5}"#, "messages: expected"),
        (r#"{"messages":[5]}"#, "messages[0]: expected"),
        (r#"{"messages":[{"role":5}]}"#, "messages[0].role: expected a string"),
        (r#"{"messages":[{"content":"x"}]}"#, "role"),
        (r#"{"messages":[{"role":"user","content":{}}]}"#, "messages[0].content: expected"),
        (r#"{"messages":[{"role":"assistant","tool_calls":{}}]}"#, "tool_calls: expected"),
        (r#"{"messages":[],"tools":7}"#, "tools: expected"),
        (r#"{"messages":[],"tools":[7]}"#, "tools[0]: expected"),
    ] {
        says(&read(text), "bad_recording", way_out);
    }
    says(&read("5"), "unknown_format", "expected a conversation");
    for text in ["", "{", "{\"messages\":[}", "nul", "{\"messages\":[]} x"] {
        let error = read(text);
        assert_eq!(error.code(), "invalid_json", "{text:?}: {error:?}");
    }
    let error = tract::import::read(r#"{"hello":1}"#, None, "x").unwrap_err();
    says(&error, "unknown_format", "name the dialect");
}

#[test]
fn deep_json_is_refused_wherever_it_comes_in() {
    let (tract, deep) = (memory(), deep(10_000));
    let line = format!(r#"{{"messages":[{{"role":"user","content":{deep}}}]}}"#);
    assert_eq!(tract::import::read(&line, None, "x").unwrap_err().code(), "invalid_json");
    assert!(JsonText::new(&deep).is_err());
    assert!(ToolSchema::parse(&format!(r#"{{"name":"f","parameters":{deep}}}"#)).is_err());
    assert!(Draft::note(&deep).is_err());
    let before = state(&tract);
    let tools = [format!(r#"{{"name":"f","input_schema":{deep}}}"#)];
    let error = block_on(tract.set_tools(tools.iter().map(String::as_str))).unwrap_err();
    assert_eq!(error.code(), "invalid_json");
    let step = format!(r#"{{"op":"user","text":"x","metadata":{{"a":{deep}}}}}"#);
    streamed(&tract, step.as_bytes(), 1);
    assert_eq!(state(&tract), before);
    // What a model wrote as arguments is text, however deep, and no JSON of ours.
    block_on(async {
        tract.user("go").await.unwrap();
        tract.commit(Draft::assistant("").call("c", "f", deep.as_str())).await.unwrap();
        tract.tool_result("c", "no").await.unwrap();
        use tract::RequestForms as _;
        let compiled = tract.compile().await.unwrap();
        for body in [
            compiled.to_openai_params(),
            compiled.to_anthropic_params(),
            compiled.to_ollama_params(),
        ] {
            let body = body.unwrap();
            assert!(
                serde_json::from_str::<serde_json::Value>(&body.to_json()).is_ok(),
                "{}",
                body.form()
            );
        }
    });
}

/// Runs a stream whose line of this number is refused, with a reason.
#[track_caller]
fn streamed(tract: &Tract, bytes: &[u8], refused: usize) {
    let mut lines = Vec::new();
    let options = ApplyOptions { atomic: true, ..ApplyOptions::default() };
    let report = block_on(apply_stream(tract.repo(), read_lines(bytes), &options, |event| {
        if let Err(error) = event.result {
            assert!(!error.to_string().is_empty() && !error.code().is_empty());
            lines.push(event.line);
        }
    }));
    assert_eq!(report.unwrap().refused, 1);
    assert_eq!(lines, [refused]);
}

#[test]
fn malformed_lines_change_nothing() {
    let tract = memory();
    block_on(tract.user("before")).unwrap();
    let before = state(&tract);
    let good = br#"{"op":"user","text":"good"}"#.as_slice();
    for bad in [
        b"{".as_slice(),
        b"no json",
        b"[]",
        br#"{"op":"fly"}"#,
        br#"{"op":"user"}"#,
        br#"{"op":"user","text":5}"#,
        br#"{"op":"user","text":"x","unknown":1}"#,
        br#"{"op":"edit","target":":absent","text":"x"}"#,
        br#"{"op":"tool_result","call_id":"c","content":"x"}"#,
        br#"{"op":"annotate","target":"main","priority":"loud"}"#,
        b"{\"op\":\"user\",\"text\":\"\xff\xfe\"}",
        b"\x00",
    ] {
        streamed(&tract, &[good, bad, good].join(&b'\n'), 2);
        assert_eq!(state(&tract), before, "{}", String::from_utf8_lossy(bad));
    }
}

#[test]
fn a_hundred_megabytes_need_a_raised_limit() {
    let text = "tool output\n".repeat(100 * 1024 * 1024 / 12);
    let tract = memory();
    let call = Draft::assistant("").call("c", "cat", "{}");
    block_on(tract.commit(call.clone())).unwrap();
    refused(&tract, "too_large", "limit", tract.tool_result("c", text.as_str()));
    let limits = Limits { blob_bytes: 256 << 20, ..Limits::default() };
    let wide = block_on(OpenOptions::new().limits(limits).open("memory:")).unwrap();
    block_on(async {
        wide.commit(call).await.unwrap();
        wide.tool_result("c", text.as_str()).await.unwrap();
        let compiled = wide.compile().await.unwrap();
        assert_eq!(compiled.messages().next_back().unwrap().content.text().len(), text.len());
    });
}

/// T12, on every store: what is huge comes back whole, what is no JSON of ours is refused, and
/// the store is sound afterwards.
#[test]
fn huge_and_odd_input_comes_back_whole_or_is_refused() {
    let megabytes = scaled(100, 0.2, 20);
    let text = "tool output\n".repeat(megabytes * 1024 * 1024 / 12);
    let count = scaled(1_000_000, 0.1, 100_000);
    let members: Vec<String> = (0..count).map(|n| format!("\"k{n:07}\":{n}")).collect();
    let keys = format!("{{{}}}", members.join(","));
    let call = Draft::assistant("").call("c", "cat", "{}");
    for backend in backends::all() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { blob_bytes: 256 << 20, ..Limits::default() };
        let options = OpenOptions::new().limits(limits);
        let tract = block_on(options.open(&backend.url(folder.path(), "agent"))).unwrap();
        let committed = |draft: Draft| {
            let commit = block_on(tract.commit(draft)).unwrap();
            block_on(tract.repo().content(&commit)).unwrap().unwrap().text()
        };
        committed(call.clone());
        assert_eq!(committed(Draft::tool_result("c", text.as_str())).len(), text.len());
        assert_eq!(committed(Draft::note(&keys).unwrap()), keys, "{}", backend.name);
        let twice = Draft::note(r#"{"b":0,"a":1,"a":2}"#).unwrap();
        assert_eq!(committed(twice), r#"{"a":2,"b":0}"#, "{}", backend.name);
        assert_eq!(committed(Draft::user("a\0b\u{202e}")), "a\0b\u{202e}", "{}", backend.name);
        let before = state(&tract);
        for odd in [r#"{"a":"\ud800"}"#, r#"{"a":1e400}"#, deep(10_000).as_str()] {
            assert!(Draft::note(odd).is_err(), "{}", &odd[..10]);
        }
        let huge = format!(r#"{{"name":"f","input_schema":{keys}}}"#);
        assert!(block_on(tract.set_tools([huge.as_str()])).is_err());
        assert_eq!(state(&tract), before, "{}", backend.name);
        assert!(block_on(tract.verify()).unwrap().clean, "{}", backend.name);
        let finding = format!(
            "a result of {megabytes} MB and {count} keys come back whole; nesting of 10,000, lone \
             surrogates, 1e400 and a schema of that size are typed errors"
        );
        figure("T12 huge", backend.name, finding);
    }
}

#[test]
fn ten_thousand_tools_are_too_many() {
    let tract = memory();
    block_on(tract.user("before")).unwrap();
    let tool =
        |n: usize| ToolSchema::parse(&format!(r#"{{"name":"t{n}","input_schema":{{}}}}"#)).unwrap();
    let tools: Vec<ToolSchema> = (0..10_000).map(tool).collect();
    refused(&tract, "too_large", "limit", tract.set_tools(&tools));
    refused(&tract, "too_large", "limit", tract.commit(Draft::user("x").tools(tools.clone())));
    block_on(tract.set_tools(&tools[..4096])).unwrap();
    assert_eq!(block_on(tract.tools().in_force()).unwrap().len(), 4096);
    let long = ToolSchema::parse(&format!(r#"{{"name":"{}"}}"#, "n".repeat(256))).unwrap();
    refused(&tract, "too_large", "limit", tract.set_tools([long]));
    let wide = format!(r#"{{"name":"f","description":"{}"}}"#, "x".repeat(1 << 20));
    refused(&tract, "too_large", "limit", tract.set_tools([wide.as_str()]));
}

#[test]
fn nuls_are_text_and_no_names() {
    let tract = memory();
    let text = "a\0b\u{1b}[31m\u{202e}c";
    let message = block_on(tract.user(text)).unwrap();
    assert_eq!(block_on(tract.repo().content(&message)).unwrap().unwrap().text(), text);
    for name in ["", "a\0b", "a b", "a..b", "/a", "a/", "a~1", "x.lock", "-a@{1}"] {
        let before = state(&tract);
        let error = block_on(tract.branches().create(name, &message)).unwrap_err();
        assert_eq!(error.code(), "bad_name", "{name:?}");
        assert_eq!(state(&tract), before, "{name:?}");
    }
}

#[test]
fn a_missing_message_cannot_be_changed() {
    let tract = memory();
    let [one, two, _] = ["one", "two", "three"].map(|text| block_on(tract.user(text)).unwrap());
    refused(&tract, "no_open_call", "", tract.tool_result("c", "x"));
    let summary = block_on(tract.compress(&one, &two, "both")).unwrap();
    refused(&tract, "not_visible", &summary.id().short(), tract.edit(&one, "x"));
    refused(&tract, "not_visible", &summary.id().short(), tract.annotate(&two, Priority::Skip));
    refused(&tract, "superseded", &summary.id().short(), tract.revert(&one));
    let stranger = block_on(memory().user("elsewhere")).unwrap();
    let before = state(&tract);
    assert!(block_on(tract.edit(&stranger, "x")).is_err());
    assert!(block_on(tract.branches().create("b", &stranger)).is_err());
    assert!(block_on(tract.merge(&stranger)).is_err());
    assert!(block_on(tract.record(Request::revert([]))).is_err());
    assert_eq!(state(&tract), before);
}

#[test]
fn a_foreign_file_is_reported_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = backends::named("sqlite");
    let path = sqlite.path(folder.path(), "agent");
    let open = |create: bool| sqlite.try_open(folder.path(), "agent", create);
    says(&open(false).unwrap_err(), "no_store", "init");
    assert!(!path.exists());
    std::fs::write(&path, "dear diary, today I wrote a text that is no database").unwrap();
    says(&open(true).unwrap_err(), "not_a_store", "path");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("dear diary"));
    std::fs::remove_file(&path).unwrap();
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(foreign);
    let bytes = std::fs::read(&path).unwrap();
    says(&open(true).unwrap_err(), "not_a_store", "path");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    std::fs::remove_file(&path).unwrap();

    let tract = open(true).unwrap();
    block_on(tract.user("hello")).unwrap();
    block_on(tract.store().close()).unwrap();
    drop(tract);
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(newer);
    let bytes = std::fs::read(&path).unwrap();
    says(&open(true).unwrap_err(), "format_too_new", "newer");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    says(&block_on(tract::open("mysql:x")).unwrap_err(), "no_such_store", "it has");
    let missing = OpenOptions::new().repo("absent").create(false);
    says(&block_on(missing.open_store(tract::core::memory())).unwrap_err(), "no_repo", "init");
}

#[test]
fn a_locked_or_read_only_store_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let options = tract_store_sqlite::SqliteOptions {
        create: true,
        busy_timeout: Duration::from_millis(30),
        write_mode: tract::store::WriteMode::InPlace,
        ..tract_store_sqlite::SqliteOptions::default()
    };
    let store = tract_store_sqlite::open(&path, &options).unwrap();
    let tract = block_on(OpenOptions::new().open_store(store)).unwrap();
    block_on(tract.user("before")).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    refused(&tract, "busy", "try again", tract.user("waits"));
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    block_on(tract.user("after")).unwrap();

    let reading = tract_store_sqlite::SqliteOptions {
        read_only: true,
        ..tract_store_sqlite::SqliteOptions::default()
    };
    let reader = tract_store_sqlite::open(&path, &reading).unwrap();
    let reader = block_on(OpenOptions::new().open_store(reader)).unwrap();
    assert_eq!(block_on(reader.compile()).unwrap().message_count(), 2);
    refused(&reader, "read_only", "permissions", reader.user("never"));
    refused(&reader, "read_only", "permissions", reader.branches().create("b", "main"));
    let error = block_on(reader.user("never")).unwrap_err();
    let Error::Unavailable(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind, StoreErrorKind::ReadOnly);
}
