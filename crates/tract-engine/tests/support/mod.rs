//! Repositories, and what tests ask of them.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tract_core::{
    Body, CommitId, Content, Draft, ManualClock, Part, RefName, RefTarget, Store, ToolAnswer,
    ToolSchema, block_on,
};
use tract_engine::{
    ApplyEvent, ApplyOptions, ApplyReport, ExportOptions, ImportConversation, ImportOptions,
    Imported, Importer, Repo, RepoOptions, VerifyOptions, apply_stream, export, import, read_lines,
    verify,
};
use tract_kv::{KvStore, MemoryEngine, memory};
use tract_store_sqlite::SqliteOptions;
use tract_testkit::{Call, WatchedStore};

/// The time that the clock of every test shows at first.
pub(crate) const NOON: i64 = 1_767_268_800_000_000;

pub(crate) fn repo_in(store: Arc<dyn Store>) -> Repo {
    let clock = Arc::new(ManualClock::at_us(NOON));
    Repo::new(store, RepoOptions { clock, who: "test".to_owned(), ..RepoOptions::default() })
}

pub(crate) fn repo() -> Repo {
    repo_in(Arc::new(memory()))
}

/// Runs a test on an empty store of each engine that this crate tests with.
pub(crate) fn on_each_store(test: impl AsyncFn(Arc<dyn Store>)) {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(test(Arc::new(memory())));
    block_on(test(sqlite(&folder.path().join("agent.db"))));
}

/// Opens a file, made where there is none.
pub(crate) fn sqlite(path: &Path) -> Arc<dyn Store> {
    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    Arc::new(tract_store_sqlite::open(path, &options).expect("it opens"))
}

/// A store on which something else happens right before each of its first calls of a kind.
pub(crate) fn meanwhile(
    store: Arc<dyn Store>,
    times: usize,
    before: fn(&Call<'_>) -> bool,
    act: impl Fn() + Send + Sync + 'static,
) -> Arc<dyn Store> {
    let left = AtomicUsize::new(times);
    let take = |left: usize| left.checked_sub(1);
    Arc::new(WatchedStore::new(store, move |call: Call<'_>| {
        if before(&call) && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            act();
        }
        Ok(())
    }))
}

/// A store that writes on a thread of its own: a write is under way while others plan.
pub(crate) fn threaded() -> Arc<dyn Store> {
    Arc::new(KvStore::open(MemoryEngine::new()).expect("it opens"))
}

/// A store on which another handle writes to `main` right before each of the first calls of a kind.
pub(crate) fn others_write(times: usize, before: fn(&Call<'_>) -> bool) -> Arc<dyn Store> {
    let below = threaded();
    let other = repo_in(below.clone());
    meanwhile(below, times, before, move || _ = block_on(say(&other, "main", "another's")))
}

pub(crate) fn writes(call: &Call<'_>) -> bool {
    matches!(call, Call::Apply { .. })
}

/// Whether a call is a write that moves `main`.
pub(crate) fn moves_main(call: &Call<'_>) -> bool {
    let Call::Apply { batch, .. } = call else { return false };
    batch.refs.iter().any(|edit| edit.name.as_str() == "heads/main")
}

pub(crate) fn branch(name: &str) -> RefName {
    RefName::branch(name).expect("a valid name")
}

pub(crate) async fn say(repo: &Repo, name: &str, text: &str) -> CommitId {
    repo.append(&branch(name), Draft::user(text)).await.expect("it is written").id()
}

/// The texts of the messages that a branch shows.
pub(crate) fn texts(repo: &Repo, name: &str) -> Vec<String> {
    let head = block_on(repo.head_of(&branch(name))).expect("it reads");
    let compiled = block_on(repo.compile(head)).expect("it compiles");
    compiled.messages().map(|message| message.content.text()).collect()
}

pub(crate) async fn assert_clean(repo: &Repo) {
    let report = verify(repo, &VerifyOptions::default()).await.expect("it is read");
    assert_eq!(report.damage, []);
    assert!(report.clean);
}

#[track_caller]
pub(crate) fn is_clean(repo: &Repo) {
    block_on(assert_clean(repo));
}

pub(crate) fn refs(repo: &Repo) -> Vec<(RefName, RefTarget)> {
    block_on(repo.store().list_refs(repo.name(), "")).expect("the store reads")
}

/// All refs, and what each of them compiles to.
pub(crate) fn says(repo: &Repo) -> Vec<(RefName, RefTarget, String)> {
    let refs = refs(repo).into_iter().map(|(name, target)| {
        let compiled = target.commit().map_or_else(String::new, |id| {
            let compiled = block_on(repo.compile(Some(id))).expect("it compiles");
            let tools = block_on(repo.store().tools_of(repo.name(), id)).expect("tools");
            let messages: Vec<_> = compiled.messages().collect();
            format!("{:?} {messages:?} {tools:?}", compiled.view_id())
        });
        (name, target, compiled)
    });
    refs.collect()
}

/// Runs the lines of a stream.
pub(crate) fn run(
    repo: &Repo,
    lines: impl AsRef<[u8]>,
    options: &ApplyOptions,
) -> (ApplyReport, Vec<ApplyEvent>) {
    let mut events = Vec::new();
    let stream = apply_stream(repo, read_lines(lines.as_ref()), options, |e| events.push(e));
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

/// All lines of an export.
pub(crate) fn exported(repo: &Repo) -> String {
    exported_with(repo, &ExportOptions::default())
}

/// The lines of an export of a choice.
pub(crate) fn exported_with(repo: &Repo, options: &ExportOptions) -> String {
    block_on(async {
        let mut export = export(repo, options).await.expect("it exports");
        let mut lines = String::new();
        while let Some(line) = export.next_line().await.expect("it exports") {
            lines.push_str(&line);
            lines.push('\n');
        }
        lines
    })
}

/// A recorded message in the shape of OpenAI's chat completions, as far as the engine is concerned
/// with it: roles, texts, calls, results.
fn draft(text: &str) -> Draft {
    let message: Value = serde_json::from_str(text).expect("a message is JSON");
    let content = match &message["content"] {
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
        Some("system" | "developer") => Content::System(body(content)),
        Some("user") => Content::User(body(content)),
        Some("tool") => Content::ToolResult(ToolAnswer {
            call_id: message["tool_call_id"].as_str().unwrap_or_default().to_owned(),
            name: message["name"].as_str().map(str::to_owned),
            is_error: false,
            parts: content,
        }),
        _ => Content::Assistant(body(content.into_iter().chain(calls).collect())),
    })
}

/// All recorded conversations.
pub(crate) fn recorded() -> Vec<ImportConversation> {
    let recorded = tract_testkit::data::recorded();
    let conversation = |recorded: tract_testkit::data::RecordedConversation| {
        let tools = recorded.tools.iter().map(|text| ToolSchema::parse(text).expect("a schema"));
        let drafts = recorded.messages.iter().map(|text| draft(text)).collect();
        ImportConversation {
            tools: tools.collect(),
            ..ImportConversation::new(recorded.id, drafts)
        }
    };
    recorded.into_iter().map(conversation).collect()
}

pub(crate) fn import_one(repo: &Repo, conversation: ImportConversation) -> Imported {
    block_on(import(repo, conversation, &ImportOptions::default())).expect("it imports")
}

pub(crate) fn import_all(repo: &Repo, conversations: &[ImportConversation]) -> Vec<Imported> {
    block_on(async {
        let mut importer = Importer::new(repo, ImportOptions::default()).expect("randomness");
        let mut done = Vec::new();
        for conversation in conversations {
            done.extend(importer.add(conversation.clone()).await.expect("it imports"));
        }
        done.extend(importer.finish().await.expect("it imports"));
        done
    })
}

/// A repository in which everything was done once.
pub(crate) fn with_everything() -> Repo {
    let repo = repo();
    done(&repo, EVERYTHING, &ApplyOptions::default());
    repo
}

/// A stream that does everything once, beginning in an empty repository: with a merge, and commits
/// that changes alone lead to.
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
