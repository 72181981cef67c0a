//! Summaries of recorded conversations, and summarizers that misbehave.

use tract::core::{ModelError, Summarizer, Summary, SummaryRequest};
use tract::engine::{CompressToolCalls, Selection, SummarizeRange, ToolQuery};
use tract::forms::{Dialect, Form};
use tract::hooks::{Hooks, Summarize, ToolSummarization};
use tract::{CommitId, Draft, Priority, Tract, block_on};

use crate::model_summaries::{ModelAnswer, loses_nothing, text, with};
use crate::walks::{self, memory, texts};

/// A summarizer that needs no model: the first line, cut, and what must be kept.
pub(crate) struct FirstLine;

#[async_trait::async_trait]
impl Summarizer for FirstLine {
    async fn summarize(&self, request: &SummaryRequest) -> Result<Summary, ModelError> {
        let mut text: String =
            request.text.lines().next().unwrap_or_default().chars().take(120).collect();
        for kept in &request.must_keep {
            if !text.contains(kept) {
                text = format!("{text} {kept}");
            }
        }
        Ok(Summary { by: Some("first-line".to_owned()), ..Summary::new(text) })
    }
}

/// A summarizer that answers as a model may.
struct Broken(ModelAnswer);

#[async_trait::async_trait]
impl Summarizer for Broken {
    async fn summarize(&self, request: &SummaryRequest) -> Result<Summary, ModelError> {
        self.0.clone().text(&request.text).await.map(Summary::new)
    }
}

/// A summarizer that gives one summary too many.
struct Miscounting;

#[async_trait::async_trait]
impl Summarizer for Miscounting {
    async fn summarize(&self, _: &SummaryRequest) -> Result<Summary, ModelError> {
        Ok(Summary::new("one"))
    }

    async fn summarize_all(&self, requests: &[SummaryRequest]) -> Result<Vec<Summary>, ModelError> {
        Ok(vec![Summary::new("one"); requests.len() + 1])
    }
}

pub(crate) const LONG: &str =
    "src/main.rs:7: fn main() {\nand then much that is of no use after the run";

#[test]
fn a_summarizer_that_misbehaves_loses_nothing() {
    let all = [
        (text(" \n"), "is empty", "bad_summary"),
        (ModelAnswer::Echo, "tokens where the text takes", "bad_summary"),
        (ModelAnswer::Never, "did not answer within", "summarizer_timeout"),
        (ModelAnswer::Panics, "panicked: out of tokens", "summarizer_panicked"),
        (ModelAnswer::Fails, "out of order", "model_error"),
        (text("short"), "lacks what it must keep: main.rs:7", "bad_summary"),
    ];
    for (bad, says, code) in all {
        let tract = with(Broken(bad));
        loses_nothing(&tract, says, code);
        let head = block_on(tract.head()).unwrap();
        let how = Summarize { must_keep: vec![r"\w+\.rs:\d+".into()], ..Summarize::new() };
        let calls = CompressToolCalls { how, ..CompressToolCalls::default() };
        match block_on(tract.compress_tool_calls(&calls)) {
            Ok(done) => assert_eq!((done.edits.len(), done.left.len()), (0, 2), "{says}"),
            Err(error) => assert_eq!(error.code(), code),
        }
        assert_eq!(block_on(tract.head()).unwrap(), head, "nothing was written");
    }
}

#[test]
fn as_many_summaries_as_results_or_none() {
    let tract = with(Miscounting);
    let error = block_on(tract.compress_tool_calls(&CompressToolCalls::default())).unwrap_err();
    assert_eq!(error.to_string(), "expected 1 summaries, found 2");
    let none = memory();
    let error = block_on(none.compress_tool_calls(&CompressToolCalls::default())).unwrap_err();
    assert_eq!(error.code(), "no_summarizer");
    assert!(!error.notes().is_empty());
    let bad = ToolSummarization { must_keep: vec!["(".to_owned()], ..ToolSummarization::default() };
    let error = block_on(none.repo().configure_tool_summarization(Some(&bad))).unwrap_err();
    assert_eq!(error.code(), "bad_pattern");
}

#[test]
fn each_result_gets_its_own_summary_by_name_by_commit_or_all() {
    let tract = memory().with_hooks(Hooks::new().summarizer(FirstLine));
    let calls = Draft::assistant("").call("a", "grep", "{}").call("b", "ls", "{}");
    let call = block_on(tract.commit(calls)).unwrap().id();
    let text = |name: &str| format!("{name} first\n{}", "more of it\n".repeat(20));
    let b = block_on(tract.tool_result("b", text("b"))).unwrap().id();
    let a = block_on(tract.tool_result("a", text("a"))).unwrap().id();
    let shown = || texts(&tract).split_off(1);
    let named = |commits: &[CommitId]| {
        let options =
            CompressToolCalls { commits: Some(commits.to_vec()), ..CompressToolCalls::default() };
        block_on(tract.compress_tool_calls(&options))
    };
    let done = named(&[b]).unwrap();
    assert_eq!(done.sources, [b]);
    assert!(done.tokens_after < done.tokens_before);
    assert_eq!(shown(), ["b first".to_owned(), text("a")]);
    let done = named(&[call]).unwrap();
    assert_eq!((done.sources, done.left.len()), (vec![a], 1), "one is short already");
    assert_eq!(shown(), ["b first", "a first"]);
    let ids: Vec<CommitId> = done.edits.iter().map(|edit| edit.id()).collect();
    block_on(tract.repo().revert(&tract::RefName::branch("main").unwrap(), &ids)).unwrap();
    assert_eq!(shown(), ["b first".to_owned(), text("a")]);
    assert_eq!(named(&[CommitId::from_bytes([1; 32])]).unwrap_err().code(), "no_tool_result");
    let by_name =
        CompressToolCalls { query: ToolQuery::named(["grep"]), ..CompressToolCalls::default() };
    assert_eq!(block_on(tract.compress_tool_calls(&by_name)).unwrap().sources, [a]);
}

#[test]
fn a_summary_keeps_what_important_messages_ask_for() {
    let tract = memory().with_hooks(Hooks::new().summarizer(FirstLine));
    block_on(tract.system("Be brief.")).unwrap();
    block_on(tract.user("My booking is JG7FMM, please cancel it for me today.")).unwrap();
    let important = block_on(tract.user("Also, my card ends in 4242, as I said before.")).unwrap();
    block_on(tract.assistant("Done.")).unwrap();
    let retention = tract::JsonText::new(r#"{"must_keep":["\\d{4}"]}"#).unwrap();
    let request = tract::engine::Request::Annotate {
        targets: vec![important.id()],
        priority: Priority::Important,
        reason: None,
        retention: Some(retention),
        details: Default::default(),
    };
    block_on(tract.record(request)).unwrap();
    let before = block_on(tract.compile()).unwrap().view_id();
    let done = block_on(tract.summarize(&SummarizeRange::default())).unwrap();
    assert_eq!(done.sources.len(), 3, "the pinned instructions stay");
    let compiled = block_on(tract.compile()).unwrap();
    let summary = compiled.messages().next_back().unwrap().content.text();
    assert!(summary.contains("4242"), "{summary}");
    block_on(tract.revert(&done.commit)).unwrap();
    assert_eq!(block_on(tract.compile()).unwrap().view_id(), before);
    let select = Selection::Targets(vec![important.id()]);
    let forgets = tract.with_hooks(Hooks::new().summarizer(Broken(text("short"))));
    let error =
        block_on(forgets.summarize(&SummarizeRange { select, ..SummarizeRange::default() }))
            .unwrap_err();
    assert!(error.to_string().contains("4242"), "{error}");
}

/// Bodies for two providers: what a model would read, byte for byte.
fn bodies(tract: &Tract) -> Vec<String> {
    let compiled = block_on(tract.compile()).unwrap();
    let of = |form| walks::form(&compiled, form).to_json();
    vec![of(Form::Params(Dialect::OpenAi)), of(Form::Params(Dialect::Anthropic))]
}

#[test]
fn recorded_conversations_are_summarized_and_come_back_byte_for_byte() {
    let recorded = tract_testkit::data::recorded();
    let wanted = |id: &str| id.starts_with("tau-") || id.contains("hands") || recorded.len() < 50;
    let most = |n: usize| n < 12;
    let (mut before_all, mut after_all, mut edited) = (0, 0, 0);
    let mut seen = 0;
    for conversation in recorded.iter().filter(|conversation| wanted(&conversation.id)) {
        let is_large = conversation.messages.iter().map(String::len).sum::<usize>() > 60_000;
        if !most(seen) && !is_large {
            continue;
        }
        seen += 1;
        let text = format!(
            r#"{{"id":"x","messages":[{}],"tools":[{}]}}"#,
            conversation.messages.join(","),
            conversation.tools.join(",")
        );
        let tract = memory();
        let done = walks::import(&tract, None, &[("x".to_owned(), text)]);
        let hooks = Hooks::new().summarizer(FirstLine);
        let tract = tract.on(&done[0].branch).unwrap().with_hooks(hooks);
        let original = bodies(&tract);
        let turns: Vec<_> = block_on(tract.turns().find(&ToolQuery::default())).unwrap().collect();
        let tokens = |tract: &Tract| block_on(tract.compile()).unwrap().token_count().count;
        let before = tokens(&tract);
        let how =
            Summarize { must_keep: vec![r"[A-Z0-9]{6}\b".into()], ..Summarize::to_tokens(30) };
        let options = CompressToolCalls { how, ..CompressToolCalls::default() };
        let done = block_on(tract.compress_tool_calls(&options)).unwrap();
        let results: usize = turns.iter().map(|turn| turn.results.len()).sum();
        assert_eq!(done.edits.len() + done.left.len(), results, "every result is accounted for");
        let after = tokens(&tract);
        assert!(after <= before);
        (before_all, after_all) = (before_all + before, after_all + after);
        edited += done.edits.len();
        if done.edits.is_empty() {
            continue;
        }
        assert_ne!(bodies(&tract), original);
        let ids: Vec<CommitId> = done.edits.iter().map(|edit| edit.id()).collect();
        let branch = tract::RefName::branch(tract.branch_name()).unwrap();
        block_on(tract.repo().revert(&branch, &ids)).unwrap();
        assert_eq!(bodies(&tract), original, "{}", conversation.id);
    }
    println!(
        "{seen} conversations, {edited} results: {before_all} tokens before, {after_all} after"
    );
    assert!(edited > 0 && after_all < before_all);
}

/// The same conversations, as if the results came one by one and were summarized as they came: ten
/// and the largest, all of them at `TRACT_SCALE=1`.
#[test]
fn results_are_summarized_as_they_come() {
    let recorded = tract_testkit::data::recorded();
    let all = std::env::var("TRACT_SCALE").is_ok_and(|scale| scale == "1");
    let of = |start: &'static str| {
        recorded.iter().filter(move |conversation| conversation.id.starts_with(start))
    };
    let most = if all { usize::MAX } else { 10 };
    let (mut count, mut changed, mut before, mut after) = (0, 0, 0, 0);
    for conversation in of("tau-").take(most).chain(of("openhands-")).chain(of("workshop-")) {
        let (results, plain, automatic) = summarized_as_they_come(conversation);
        count += 1;
        changed += results;
        (before, after) = (before + plain, after + automatic);
        assert!(automatic <= plain, "{}", conversation.id);
    }
    println!("{count} conversations, {changed} results: {before} tokens before, {after} after");
    assert!(changed > 0 && after < before);
}

/// Returns how many results were summarized, and the tokens without and with that.
fn summarized_as_they_come(
    conversation: &tract_testkit::data::RecordedConversation,
) -> (usize, u64, u64) {
    let text = format!(r#"{{"id":"x","messages":[{}]}}"#, conversation.messages.join(","));
    let (plain, automatic) = (memory(), memory());
    let config = ToolSummarization { auto_threshold: Some(60), ..ToolSummarization::default() };
    block_on(automatic.repo().configure_tool_summarization(Some(&config))).unwrap();
    let automatic = automatic.with_hooks(Hooks::new().summarizer(FirstLine));
    let read = tract::import::read(&text, None, "x").unwrap().conversation;
    let mut changed = Vec::new();
    for draft in read.drafts {
        // A recording's own bytes would go to its provider as they were, summary or not.
        let draft = Draft { verbatim: None, form: None, ..draft };
        block_on(plain.commit(draft.clone())).unwrap();
        let made = block_on(automatic.commit(draft)).unwrap();
        if made.origin.by == tract::AuthorKind::Hook {
            changed.push(made.id());
        }
    }
    let tokens = |tract: &Tract| block_on(tract.compile()).unwrap().token_count().count;
    let (before, after) = (tokens(&plain), tokens(&automatic));
    assert_eq!(changed.is_empty(), before == after, "{}", conversation.id);
    for commit in &changed {
        block_on(automatic.revert(*commit)).unwrap();
    }
    assert_eq!(bodies(&automatic), bodies(&plain), "{}", conversation.id);
    (changed.len(), before, after)
}
