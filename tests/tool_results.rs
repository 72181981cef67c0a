//! Results that are edited, found, and summarized or held by hooks. `docs/seeds.md` cites these tests
//! by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tract::engine::{FoundResult, ToolQuery, ToolTurn};
use tract::hooks::{
    BeforeCommit, CommitAction, Hooks, Summarize, ToolResultAction, ToolResultReceived,
    ToolSummarization,
};
use tract::{AuthorKind, CommitId, Content, Draft, Tract, block_on};

use crate::summaries::{FirstLine, LONG};
use crate::walks::{last, memory};

/// A branch with a call of grep that nothing has answered yet.
pub(crate) fn with_call() -> Tract {
    let tract = memory();
    block_on(tract.user("Where is main?")).unwrap();
    call(&tract, "c1", "grep");
    tract
}

fn call(tract: &Tract, id: &str, name: &str) -> CommitId {
    block_on(tract.commit(Draft::assistant("").call(id, name, "{}"))).unwrap().id()
}

fn answer(tract: &Tract, id: &str, text: &str) -> CommitId {
    block_on(tract.tool_result(id, text)).unwrap().id()
}

fn results(tract: &Tract, query: &ToolQuery) -> Vec<FoundResult> {
    block_on(tract.turns().find_results(query)).unwrap().collect()
}

fn turns(tract: &Tract, query: &ToolQuery) -> Vec<ToolTurn> {
    block_on(tract.turns().find(query)).unwrap().collect()
}

#[test]
fn test_tool_result_edit_basic() {
    let tract = with_call();
    let result = answer(&tract, "c1", LONG);
    let edit = block_on(tract.turns().edit_result(result, "src/main.rs:7")).unwrap();
    assert_eq!(block_on(tract.expand(edit.id())).unwrap().unwrap().text(), LONG);
    let original = block_on(tract.show(result)).unwrap();
    assert_eq!(block_on(tract.repo().content(&original)).unwrap().unwrap().text(), LONG);
    block_on(tract.revert(&edit)).unwrap();
    assert_eq!(last(&tract), LONG, "one revert shows it again");
    let question = block_on(tract.show("HEAD~4")).unwrap().id();
    let error = block_on(tract.turns().edit_result(question, "no result")).unwrap_err();
    assert_eq!(error.code(), "other_kind");
}

#[test]
fn test_tool_result_edit_preserves_metadata() {
    let tract = with_call();
    let draft = Draft::tool_result("c1", LONG).tool_name("grep").is_error(true);
    let result = block_on(tract.commit(draft)).unwrap();
    let edit = block_on(tract.turns().edit_result(&result, "short")).unwrap();
    let Some(Content::ToolResult(edited)) = block_on(tract.repo().content(&edit)).unwrap() else {
        panic!("no result")
    };
    assert_eq!((edited.call_id.as_str(), edited.name.as_deref()), ("c1", Some("grep")));
    assert!(edited.is_error);
}

#[test]
fn test_tool_result_edit_compiled_shows_new() {
    let tract = with_call();
    let result = answer(&tract, "c1", LONG);
    block_on(tract.turns().edit_result(result, "short")).unwrap();
    assert_eq!(last(&tract), "short");
    assert_eq!(block_on(tract.compile()).unwrap().message_count(), 3);
}

#[test]
fn test_tool_result_edit_log_shows_both() {
    let tract = with_call();
    let result = answer(&tract, "c1", LONG);
    let edit = block_on(tract.turns().edit_result(result, "short")).unwrap().id();
    let log: Vec<CommitId> =
        block_on(tract.log("HEAD", 10)).unwrap().iter().map(|commit| commit.id()).collect();
    assert_eq!(log[..2], [edit, result]);
}

#[test]
fn results_have_a_default_message_that_is_not_stored() {
    let tract = with_call();
    let result = answer(&tract, "c1", LONG);
    let edit = block_on(tract.turns().edit_result(result, "short")).unwrap();
    let again = block_on(tract.turns().edit_result(&edit, "shorter")).unwrap();
    call(&tract, "c2", "grep");
    let named = Draft::tool_result("c2", LONG).tool_name("search");
    let named = block_on(tract.commit(named)).unwrap();
    call(&tract, "c3", "ls");
    let own = block_on(tract.commit(Draft::tool_result("c3", LONG).message("mine"))).unwrap();
    let question = block_on(tract.user("a question")).unwrap();
    let first = block_on(tract.show(result)).unwrap();
    let all = [first, edit, again, named, own, question];
    let lines = block_on(tract::engine::describe(tract.repo(), &all)).unwrap();
    let messages: Vec<&str> = lines.iter().map(|line| line.message.as_str()).collect();
    let grep = "tool result: grep";
    assert_eq!(messages, [grep, grep, grep, "tool result: search", "mine", "a question"]);
    assert!(all.iter().all(|commit| commit.message.as_deref().is_none_or(|own| own == "mine")));
}

/// Two turns: one of grep and ls, one of grep alone.
fn two_turns() -> (Tract, Vec<CommitId>) {
    let tract = memory();
    let calls = Draft::assistant("").call("a", "grep", "{}").call("b", "ls", "{}");
    let first = block_on(tract.commit(calls)).unwrap().id();
    let one = answer(&tract, "a", "1");
    let two = answer(&tract, "b", "2");
    block_on(tract.user("again")).unwrap();
    let second = call(&tract, "a", "grep");
    let three = answer(&tract, "a", "3");
    (tract, vec![first, one, two, second, three])
}

#[test]
fn test_find_tool_results_all() {
    let (tract, made) = two_turns();
    let found: Vec<CommitId> =
        results(&tract, &ToolQuery::default()).iter().map(|result| result.id).collect();
    assert_eq!(found, [made[1], made[2], made[4]]);
}

#[test]
fn test_find_tool_results_by_name() {
    let (tract, made) = two_turns();
    let found = results(&tract, &ToolQuery::named(["ls"]));
    assert_eq!((found.len(), found[0].id), (1, made[2]));
    assert!(results(&tract, &ToolQuery::named(["rm"])).is_empty());
}

#[test]
fn test_find_tool_results_after() {
    let (tract, made) = two_turns();
    let found = results(&tract, &ToolQuery { after: Some(made[2]), ..ToolQuery::default() });
    assert_eq!((found.len(), found[0].id), (1, made[4]));
    let unknown = ToolQuery { after: Some(CommitId::from_bytes([3; 32])), ..ToolQuery::default() };
    let error = block_on(tract.turns().find_results(&unknown)).unwrap_err();
    assert_eq!(error.code(), "not_on_line");
}

#[test]
fn test_find_tool_calls_all() {
    let (tract, made) = two_turns();
    let found: Vec<CommitId> = block_on(tract.turns().find_calls(&ToolQuery::default()))
        .unwrap()
        .map(|call| call.id)
        .collect();
    assert_eq!(found, [made[0], made[3]]);
}

#[test]
fn test_find_tool_calls_by_name() {
    let (tract, made) = two_turns();
    let query = ToolQuery::named(["ls"]);
    let found: Vec<_> = block_on(tract.turns().find_calls(&query)).unwrap().collect();
    assert_eq!((found.len(), found[0].id), (1, made[0]));
}

#[test]
fn test_find_tool_turns_groups_correctly() {
    let (tract, made) = two_turns();
    let found = turns(&tract, &ToolQuery::default());
    assert_eq!(found[1].ids(), [made[3], made[4]]);
    assert_eq!(found[1].result_ids(), [made[4]]);
    let tokens: u64 = block_on(tract.compile())
        .unwrap()
        .messages()
        .filter(|message| found[1].ids().contains(&message.slot))
        .map(|message| message.token_count)
        .sum();
    assert_eq!(found[1].total_tokens(), tokens, "counted as a compile counts them");
}

#[test]
fn test_find_tool_turns_multi_tool() {
    let (tract, made) = two_turns();
    let found = turns(&tract, &ToolQuery::default());
    assert_eq!(found[0].tool_names, ["grep", "ls"]);
    assert_eq!(found[0].ids(), made[..3]);
}

#[test]
fn test_find_tool_turns_by_name() {
    let (tract, _) = two_turns();
    assert_eq!(turns(&tract, &ToolQuery::named(["grep"])).len(), 2);
    let found = turns(&tract, &ToolQuery::named(["ls"]));
    assert_eq!((found.len(), found[0].results.len()), (1, 2), "a turn is found whole");
}

#[test]
fn test_find_tool_turns_empty() {
    assert!(turns(&memory(), &ToolQuery::default()).is_empty());
    let tract = memory();
    block_on(tract.user("Hi")).unwrap();
    assert!(turns(&tract, &ToolQuery::default()).is_empty());
}

/// The same branch, with one handler for results.
fn with(
    tract: &Tract,
    handler: impl Fn(&ToolResultReceived) -> ToolResultAction + Send + Sync + 'static,
) -> Tract {
    tract.with_hooks(Hooks::new().summarizer(FirstLine).on("handler", handler))
}

#[test]
fn test_hook_fires_on_tool_result() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let tract = with(&with_call(), move |result| {
        sink.lock().unwrap().push((result.call_id.clone(), result.tool_name.clone()));
        ToolResultAction::Pass
    });
    answer(&tract, "c1", LONG);
    block_on(tract.user("no result")).unwrap();
    assert_eq!(*events.lock().unwrap(), [("c1".to_owned(), Some("grep".to_owned()))]);
}

#[test]
fn test_hook_edit_result() {
    let tract = with(&with_call(), |_| ToolResultAction::edit("src/main.rs:7"));
    let made = block_on(tract.tool_result("c1", LONG)).unwrap();
    assert_eq!(last(&tract), "src/main.rs:7");
    assert_eq!(made.origin.by, AuthorKind::Hook);
    assert_eq!(made.origin.triggered_by.as_deref(), Some("tool_result_received"));
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    assert_eq!((record.action.as_str(), record.handler.as_deref()), ("edit", Some("handler")));
    assert_eq!(record.original(), Some(made.keeps[0]));
    assert_eq!(block_on(tract.expand(&made)).unwrap().unwrap().text(), LONG);
    block_on(tract.revert(&made)).unwrap();
    assert_eq!(last(&tract), LONG);
}

#[test]
fn test_hook_summarize() {
    let how = Summarize {
        instructions: Some("keep paths".to_owned()),
        must_keep: vec![r"\w+\.rs:\d+".into()],
        ..Summarize::to_tokens(20)
    };
    let tract = with(&with_call(), move |_| how.clone().into());
    let made = block_on(tract.tool_result("c1", LONG)).unwrap();
    assert_eq!(last(&tract), "src/main.rs:7: fn main() {");
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    assert_eq!(
        (record.action.as_str(), record.model.as_deref()),
        ("summarize", Some("first-line"))
    );
    assert_eq!(record.instructions.as_deref(), Some("keep paths"));
    assert!(record.tokens_after < record.tokens_before);
    assert_eq!(block_on(tract.expand(&made)).unwrap().unwrap().text(), LONG);
}

#[test]
fn test_hook_reject() {
    let tract = with(&with_call(), |_| ToolResultAction::Reject("a secret".into()));
    let before = block_on(tract.head()).unwrap();
    let error = block_on(tract.tool_result("c1", LONG)).unwrap_err();
    assert_eq!(error.code(), "rejected_by_hook");
    let tract::Error::Engine(error) = error else { panic!("{error:?}") };
    let tract::engine::Error::Rejected(rejected) = *error else { panic!("{error:?}") };
    assert_eq!(rejected.reason, "a secret");
    assert_eq!(rejected.content.as_ref().unwrap().text(), LONG);
    assert_eq!(block_on(tract.head()).unwrap(), before, "no commit");
    let decided = block_on(tract.repo().decision(&rejected.decision)).unwrap().unwrap();
    assert_eq!(decided.request.content().unwrap().text(), LONG, "readable later");
    let answers = block_on(tract.turns().answer([Draft::tool_result("c1", LONG)])).unwrap();
    assert!(matches!(answers[0], tract::engine::TurnAnswer::Rejected { .. }));
    assert_eq!(last(&tract), "rejected: a secret", "inside a turn the call is answered");
    assert!(block_on(tract.turns().open_calls()).unwrap().is_empty());
    assert_eq!(block_on(tract.expand("HEAD")).unwrap().unwrap().text(), LONG);
}

#[test]
fn test_hook_no_fire_on_edit() {
    let tract = with_call();
    let result = answer(&tract, "c1", LONG);
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let hooks = Hooks::new()
        .summarizer(FirstLine)
        .on("results", |_: &ToolResultReceived| ToolResultAction::Reject("never".into()))
        .on("commits", move |commit: &BeforeCommit| {
            sink.lock().unwrap().push((commit.op.name().to_owned(), commit.draft.content.clone()));
            CommitAction::Pass
        });
    let all = ToolSummarization {
        instructions: BTreeMap::from([("grep".to_owned(), "".to_owned())]),
        ..ToolSummarization::default()
    };
    block_on(tract.repo().configure_tool_summarization(Some(&all))).unwrap();
    let tract = tract.with_hooks(hooks);
    block_on(tract.turns().edit_result(result, "short\nof two lines")).unwrap();
    assert_eq!(last(&tract), "short\nof two lines", "neither rejected nor summarized");
    let events = events.lock().unwrap();
    let (op, Content::ToolResult(shown)) = &events[0] else { panic!("{events:?}") };
    assert_eq!((op.as_str(), shown.call_id.as_str(), events.len()), ("edit", "c1", 1), "a commit");
}

#[test]
fn test_hook_passthrough() {
    for action in [ToolResultAction::Pass, ToolResultAction::Approve] {
        let approves = action == ToolResultAction::Approve;
        let tract = with(&with_call(), move |_| action.clone());
        let made = block_on(tract.tool_result("c1", LONG)).unwrap();
        assert_eq!((last(&tract).as_str(), made.origin.by), (LONG, AuthorKind::Tool));
        assert!(made.keeps.is_empty() && block_on(tract.expand(&made)).unwrap().is_none());
        let record = block_on(tract.decision_on(&made)).unwrap();
        let who = record.map(|record| (record.action, record.handler));
        let handler = Some("handler".to_owned());
        assert_eq!(who, approves.then_some(("approve".to_owned(), handler)), "who decided");
    }
}

#[test]
fn test_hook_carries_token_count() {
    let events = Arc::new(Mutex::new(0));
    let sink = Arc::clone(&events);
    let tract = with(&with_call(), move |result| {
        *sink.lock().unwrap() = result.token_count;
        ToolResultAction::Pass
    });
    answer(&tract, "c1", LONG);
    assert_eq!(*events.lock().unwrap(), LONG.chars().count().div_ceil(4) as u64);
}

#[test]
fn test_no_hook_commits_directly() {
    let tract = with_call();
    let made = block_on(tract.tool_result("c1", LONG)).unwrap();
    assert_eq!((last(&tract).as_str(), made.origin.by), (LONG, AuthorKind::Tool));
}

fn configured(config: ToolSummarization) -> Tract {
    let tract = with_call();
    block_on(tract.repo().configure_tool_summarization(Some(&config))).unwrap();
    tract.with_hooks(Hooks::new().summarizer(FirstLine))
}

#[test]
fn test_config_per_tool_instructions() {
    let tract = configured(ToolSummarization {
        instructions: BTreeMap::from([("grep".to_owned(), "keep paths".to_owned())]),
        ..ToolSummarization::default()
    });
    let made = block_on(tract.tool_result("c1", "a small one\nof two lines")).unwrap();
    assert_eq!(last(&tract), "a small one", "regardless of its size");
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    assert_eq!(record.instructions.as_deref(), Some("keep paths"));
    call(&tract, "c2", "ls");
    answer(&tract, "c2", LONG);
    assert_eq!(last(&tract), LONG, "no other tool");
}

#[test]
fn test_config_auto_threshold() {
    let tokens = LONG.chars().count().div_ceil(4) as u64;
    let tract = configured(ToolSummarization {
        auto_threshold: Some(tokens - 1),
        ..ToolSummarization::default()
    });
    answer(&tract, "c1", LONG);
    assert_eq!(last(&tract), LONG.lines().next().unwrap());
}

#[test]
fn test_config_under_threshold_passthrough() {
    let tokens = LONG.chars().count().div_ceil(4) as u64;
    let tract = configured(ToolSummarization {
        auto_threshold: Some(tokens),
        ..ToolSummarization::default()
    });
    answer(&tract, "c1", LONG);
    assert_eq!(last(&tract), LONG, "strictly above");
}

#[test]
fn test_config_default_instructions() {
    let tract = configured(ToolSummarization {
        instructions: BTreeMap::from([("ls".to_owned(), "names".to_owned())]),
        auto_threshold: Some(1),
        default_instructions: Some("errors first".to_owned()),
        ..ToolSummarization::default()
    });
    let made = block_on(tract.tool_result("c1", LONG)).unwrap();
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    assert_eq!(record.instructions.as_deref(), Some("errors first"));
}

#[test]
fn test_config_override_with_custom_handler() {
    let tract = configured(ToolSummarization {
        instructions: BTreeMap::from([("grep".to_owned(), "".to_owned())]),
        ..ToolSummarization::default()
    });
    let tract = with(&tract, |_| ToolResultAction::Approve);
    answer(&tract, "c1", LONG);
    assert_eq!(last(&tract), LONG, "a handler decides first");
}
