use serde_json::Value;
use tract_core::{
    Body, Content, Draft, Part, RefName, RefTarget, ToolAnswer, ToolSchema, block_on,
};
use tract_engine::{
    ApplyEvent, ApplyOptions, ApplyReport, ImportConversation, ImportOptions, Imported, Importer,
    Repo, apply_stream, read_lines,
};

pub(crate) use crate::support::{exported, repo, repo_in};

/// A recorded message in the shape of OpenAI's chat completions, as far as the engine is concerned
/// with it: roles, texts, calls, results.
fn draft(text: &str) -> Draft {
    let message: Value = serde_json::from_str(text).expect("a message is JSON");
    let said = match &message["content"] {
        Value::String(text) => vec![Part::text(text.clone())],
        Value::Null => Vec::new(),
        other => vec![Part::text(other.to_string())],
    };
    let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
        let field = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let function = &call["function"];
        Part::call(field(&call["id"]), field(&function["name"]), field(&function["arguments"]))
    });
    let body = |parts| Body { parts, name: None };
    Draft::new(match message["role"].as_str() {
        Some("system" | "developer") => Content::System(body(said)),
        Some("user") => Content::User(body(said)),
        Some("tool") => Content::ToolResult(ToolAnswer {
            call_id: message["tool_call_id"].as_str().unwrap_or_default().to_owned(),
            name: message["name"].as_str().map(str::to_owned),
            is_error: false,
            parts: said,
        }),
        _ => Content::Assistant(body(said.into_iter().chain(calls).collect())),
    })
}

/// All recorded conversations.
pub(crate) fn recorded() -> Vec<ImportConversation> {
    let recorded = tract_testkit::data::recorded();
    let conversation = |recorded: tract_testkit::data::RecordedConversation| {
        let tools = recorded.tools.iter().map(|text| ToolSchema::parse(text).expect("a schema"));
        let drafts = recorded.messages.iter().map(|text| draft(text)).collect();
        ImportConversation::new(recorded.id, drafts).tools(tools.collect())
    };
    recorded.into_iter().map(conversation).collect()
}

pub(crate) fn import_all(repo: &Repo, conversations: &[ImportConversation]) -> Vec<Imported> {
    block_on(async {
        let mut importer = Importer::new(repo, ImportOptions::new()).expect("randomness");
        let mut done = Vec::new();
        for conversation in conversations {
            done.extend(importer.add(conversation.clone()).await.expect("it imports"));
        }
        done.extend(importer.finish().await.expect("it imports"));
        done
    })
}

pub(crate) fn refs(repo: &Repo) -> Vec<(RefName, RefTarget)> {
    block_on(repo.store().list_refs(repo.name(), "")).expect("the store reads")
}

/// Runs the lines of a stream.
pub(crate) fn run(
    repo: &Repo,
    lines: &str,
    options: &ApplyOptions,
) -> (ApplyReport, Vec<ApplyEvent>) {
    let mut events = Vec::new();
    let stream = apply_stream(repo, read_lines(lines.as_bytes()), options, |e| events.push(e));
    let report = block_on(stream).expect("the stream runs to its end");
    (report, events)
}

/// Runs a stream of which every line is to be done.
#[track_caller]
pub(crate) fn done(repo: &Repo, lines: &str, options: &ApplyOptions) -> ApplyReport {
    let (report, events) = run(repo, lines, options);
    for event in events {
        if let Err(error) = event.result {
            panic!("line {}: {error} ({:?})", event.line, error.notes());
        }
    }
    report
}

/// A stream that does everything once, beginning in an empty repository.
pub(crate) const EVERYTHING: &str = r#"
{"op":"set_tools","tools":[{"name":"grep","input_schema":{"type":"object"}},{"name":"ls"}],"mark":"tools"}
{"op":"system","text":"Be brief.","mark":"s"}
{"op":"user","text":"Where is the bug?","mark":"q","at":"2026-01-02T03:04:05Z"}
{"op":"assistant","text":"Let me look.","tool_calls":[{"id":"c1","name":"grep","arguments":{"pattern": "bug"}}],"mark":"call"}
{"op":"tool_result","call_id":"c1","name":"grep","content":"src/lib.rs: bug","mark":"r","is_error":true}
{"op":"reasoning","text":"It lies in lib.rs."}
{"op":"assistant","text":"In lib.rs.","mark":"a","generation_config":{"model":"m"}}
{"op":"branch","name":"other","from":":a"}
{"op":"edit","target":":q","text":"Where are the bugs?","mark":"e"}
{"op":"annotate","target":":r","priority":"important","reason":"it names the file"}
{"op":"user","text":"Thanks.","mark":"t","tools":[{"name":"only_here"}],"priority":"skip","message":"polite","metadata":{"n":1}}
{"op":"compress","from":":q","to":":a","content":"The bug is in lib.rs.","mark":"c"}
{"op":"checkout","name":"other"}
{"op":"edit","target":":r","content":"src/lib.rs:7: bug"}
{"op":"set_tools","tools":[]}
{"op":"note","text":"a line in the log"}
{"op":"commit","kind":"plan","role":"assistant","parts":[{"type":"text","text":"1. fix"}],"mark":"p"}
{"op":"revert","target":":p"}
{"op":"tag","name":"before","target":":a"}
{"op":"checkout","name":"main"}
{"op":"revert","targets":[":c"],"mark":"v"}
{"op":"branch","name":"third","from":":a"}
{"op":"checkout","name":"third"}
{"op":"user","text":"And the docs?","mark":"d"}
{"op":"checkout","name":"main"}
{"op":"merge","from":"third"}
"#;
