use std::collections::BTreeSet;

use serde_json::Value;
use sha2::Digest;
use tract_core::Reply;
use tract_core::json::{split_array, split_object};
use tract_providers::stream::Assembler;
use tract_providers::{Dialect, read_reply};
use tract_schema::Definition;
use tract_tools::{Call, IntoCalls, Registry, Stage, hydrate};

use tract_testkit::data;

use crate::support::json;

/// What Python's jsonschema says of each call; `data/verdicts.py` recorded it.
const VERDICTS: &str = include_str!("../data/verdicts.jsonl");

fn member<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    split_object(text).unwrap().into_iter().find(|(name, _)| name == key).map(|(_, raw)| raw)
}

fn tools(exchange: &str) -> Registry {
    let request = member(exchange, "request").unwrap();
    let mut builder = Registry::builder().shared_names();
    let tools = member(request, "tools").filter(|raw| raw.starts_with('['));
    let mut seen = BTreeSet::new();
    for tool in tools.map(|raw| split_array(raw).unwrap()).unwrap_or_default() {
        let definition = Definition::parse(tool).unwrap();
        if seen.insert(definition.id()) {
            builder = builder.import(None, definition, None);
        }
    }
    builder.build().unwrap()
}

/// The reply as our own readers make it, streams put together.
fn reply(exchange: &str, streamed: bool) -> Reply {
    let text = |key: &str| json(member(exchange, key).unwrap()).as_str().unwrap().to_owned();
    let dialect = match (text("provider").as_str(), text("path")) {
        (_, path) if path.ends_with("/responses") => Dialect::Responses,
        ("anthropic" | "anthropic_compat", _) => Dialect::Anthropic,
        ("ollama", _) => Dialect::Ollama,
        _ => Dialect::OpenAi,
    };
    if !streamed {
        return read_reply(dialect, member(exchange, "response").unwrap()).unwrap();
    }
    let mut assembler = Assembler::new(dialect);
    // In small pieces, as they may come.
    for piece in text("response").as_bytes().chunks(61) {
        assembler.push(piece, &mut |_| {}).unwrap();
    }
    read_reply(dialect, &assembler.end().unwrap()).unwrap()
}

fn calls(exchange: &str, rows: &[Value]) -> Vec<Call> {
    let calls = (&reply(exchange, rows[0]["streamed"] == true)).into_calls();
    assert!(calls.iter().all(|call| call.source.is_some()));
    calls
}

/// What `verdicts.py` writes of a call.
fn hashed(name: &str, arguments: &str) -> String {
    let text = match arguments.trim() {
        "" => "{}",
        text => text,
    };
    let canonical = tract_core::json::canonical(text, tract_core::json::Escapes::Raw);
    let text = canonical.unwrap_or_else(|_| arguments.to_owned());
    let hash = sha2::Sha256::digest(format!("{name}\n{text}"));
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_recorded_call_hydrates_against_its_own_tools_or_fails_where_python_says() {
    let rows: Vec<Value> = VERDICTS.lines().map(json).collect();
    let folder = data::find("cassettes").0;
    let (mut hydrated_calls, mut refused, mut streamed, mut absent) = (0, 0, 0, 0);
    for rows in rows.chunk_by(|a, b| a["cassette"] == b["cassette"]) {
        let name = rows[0]["cassette"].as_str().unwrap();
        let file = if rows[0]["name"].is_string() {
            data::bundled("cassettes").join(name)
        } else {
            folder.join(name)
        };
        let Ok(exchange) = std::fs::read_to_string(&file) else {
            absent += 1;
            continue;
        };
        let registry = tools(&exchange);
        let calls = calls(&exchange, rows);
        assert_eq!(calls.len(), rows.len(), "{}", file.display());
        streamed += rows.iter().filter(|row| row["streamed"] == true).count();
        for (one, row) in hydrate(&calls[..], &registry).iter().zip(rows) {
            assert_eq!(hashed(&one.name, &one.provenance.raw_arguments), row["call"], "{row}");
            match row.get("valid") {
                Some(Value::Bool(true)) => {
                    assert!(one.success(), "{row}: {:?}", one.errors);
                    let bound = one.arguments.as_ref().unwrap().as_str();
                    assert_eq!(hashed(&one.name, bound), row["call"], "{row}");
                    hydrated_calls += 1;
                }
                Some(Value::Bool(false)) => {
                    let found: BTreeSet<String> =
                        one.errors.iter().map(|e| format!("{}:{}", e.code, e.path)).collect();
                    let recorded = row["errors"].as_array().unwrap().iter();
                    let recorded = recorded.map(|e| e.as_str().unwrap().to_owned()).collect();
                    assert_eq!(found, recorded, "{row}");
                    refused += 1;
                }
                Some(_) => {
                    assert_eq!(one.errors[0].stage, Stage::Parse, "{row}");
                    refused += 1;
                }
                // A tool that the provider defines by its type: no schema, so nothing passes.
                None => {
                    assert_eq!(one.errors[0].code, "no_schema", "{row}");
                    refused += 1;
                }
            }
        }
    }
    println!(
        "{hydrated_calls} hydrated, {refused} refused, {streamed} of them streamed, {absent} recordings not here"
    );
    assert!(hydrated_calls > 0 && refused > 0);
    assert!(absent > 0 || streamed > 0, "no call came by a stream");
}

#[test]
fn blocks_that_the_provider_runs_pass_through() {
    let reply = read_reply(
        Dialect::Anthropic,
        r#"{"role":"assistant","content":[
            {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}},
            {"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]},
            {"type":"tool_use","id":"toolu_1","name":"add","input":{}}]}"#,
    )
    .unwrap();
    let registry = Registry::builder()
        .definition(r#"{"name":"add","input_schema":{"type":"object"}}"#)
        .definition(r#"{"type":"web_search_20250305","name":"web_search"}"#)
        .build()
        .unwrap();
    let hydrated = hydrate(&reply, &registry);
    assert_eq!(hydrated.len(), 1);
    assert_eq!((hydrated[0].id.as_str(), hydrated[0].success()), ("toolu_1", true));
    assert_eq!(reply.content.parts().len(), 3);
}
