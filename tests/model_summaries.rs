//! Summaries by a model: what it may answer that is not a summary, by itself and behind HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tract::core::{ModelRequest, Summarizer, SummaryRequest};
use tract::engine::{CompressToolCalls, SummarizeRange};
use tract::hooks::{
    Hooks, ModelSummarizer, Prompts, SUMMARIZE, SUMMARIZE_CONVERSATION, SUMMARIZE_RELEVANT,
    SUMMARIZE_TOOL_RESULT, SUMMARIZE_TOOL_RESULTS, Summarize, ToolSummarization,
};
use tract::models::{HttpModel, RetryPolicy};
use tract::{ChatModel, Content, Draft, ModelError, Reply, Tract, block_on};
use tract_testkit::loopback::{HttpAnswer, HttpEnd, HttpRequest, Loopback};

use crate::summaries::LONG;
use crate::walks::{assert_clean, memory, texts};

const SHORT: &str = "fn main is at main.rs:7";

/// What a model answers to every request.
#[derive(Clone)]
pub(crate) enum ModelAnswer {
    Text(String),
    /// What it was asked, twice.
    Echo,
    Calls,
    Never,
    Panics,
    Fails,
}

impl ModelAnswer {
    /// Returns what it says when it is asked this.
    pub(crate) async fn text(self, asked: &str) -> Result<String, ModelError> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Echo => Ok(asked.repeat(2)),
            Self::Calls => Ok(String::new()),
            Self::Never => std::future::pending().await,
            Self::Panics => panic!("out of tokens"),
            Self::Fails => Err(ModelError::other("out of order")),
        }
    }
}

pub(crate) fn text(text: &str) -> ModelAnswer {
    ModelAnswer::Text(text.to_owned())
}

/// A model that gives one answer after the other, the last for ever, and keeps what it was asked.
struct Double {
    answers: Mutex<Vec<ModelAnswer>>,
    requests: Arc<Mutex<Vec<String>>>,
}

fn double(answers: impl IntoIterator<Item = ModelAnswer>) -> Double {
    let mut answers: Vec<ModelAnswer> = answers.into_iter().collect();
    answers.reverse();
    Double { answers: Mutex::new(answers), requests: Arc::default() }
}

/// Takes the last answer, and leaves it where it is the only one.
fn next<T: Clone>(answers: &Mutex<Vec<T>>) -> T {
    let mut left = answers.lock().unwrap();
    match left.len() {
        1 => left[0].clone(),
        _ => left.pop().unwrap(),
    }
}

#[async_trait::async_trait]
impl ChatModel for Double {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let texts: Vec<String> =
            request.messages.iter().map(|message| message.content.text()).collect();
        self.requests.lock().unwrap().push(texts.join("\n---\n"));
        let content = match next(&self.answers) {
            ModelAnswer::Calls => Draft::assistant("").call("c9", "grep", "{}").content,
            answer => Content::assistant(answer.text(&texts[1]).await?),
        };
        Ok(Reply { model: Some("m-1".to_owned()), ..Reply::new(content) })
    }
}

/// A repository that summarizes by a model, with a turn of two calls, the first one answered.
fn by(model: impl ChatModel + 'static) -> Tract {
    with(ModelSummarizer::new(Arc::new(model)))
}

/// The same with any summarizer.
pub(crate) fn with(summarizer: impl Summarizer + 'static) -> Tract {
    let hooks = Hooks::new().summarizer(summarizer).summary_limit(Duration::from_millis(300));
    let tract = memory().with_hooks(hooks);
    let calls = Draft::assistant("").call("a", "grep", "{}").call("b", "ls", "{}");
    block_on(tract.commit(calls)).unwrap();
    block_on(tract.tool_result("a", LONG)).unwrap();
    tract
}

fn summarizing(tract: &Tract) {
    let config = ToolSummarization {
        instructions: BTreeMap::from([("ls".to_owned(), "keep paths".to_owned())]),
        must_keep: vec![r"\w+\.rs:\d+".into()],
        ..ToolSummarization::default()
    };
    block_on(tract.repo().configure_tool_summarization(Some(&config))).unwrap();
}

fn shown(tract: &Tract) -> Vec<String> {
    texts(tract).split_off(1)
}

/// Nothing is lost: a result that comes is committed as it came, with a note; what is there is left
/// alone, with an error.
#[track_caller]
pub(crate) fn loses_nothing(tract: &Tract, says: &str, code: &str) {
    summarizing(tract);
    let made = block_on(tract.tool_result("b", LONG)).unwrap();
    assert_eq!(shown(tract), [LONG, LONG], "{says}: it falls back to the original");
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    let note = record.note.unwrap_or_default();
    assert!(note.contains(says), "{says}: {note}");
    let head = block_on(tract.head()).unwrap();
    let range = SummarizeRange {
        how: Summarize { must_keep: vec![r"\w+\.rs:\d+".into()], ..Summarize::new() },
        ..SummarizeRange::default()
    };
    let error = block_on(tract.summarize(&range)).unwrap_err();
    assert!(error.to_string().contains(says), "{says}: {error}");
    assert_eq!(error.code(), code);
    assert_eq!(block_on(tract.head()).unwrap(), head, "nothing was written");
    assert_clean(tract, says);
}

/// Several at once: an error, nothing is written.
#[track_caller]
fn writes_nothing(tract: &Tract, says: &str, code: &str) {
    block_on(tract.tool_result("b", LONG)).unwrap();
    let head = block_on(tract.head()).unwrap();
    let error = block_on(tract.compress_tool_calls(&CompressToolCalls::default())).unwrap_err();
    assert!(error.to_string().contains(says), "{says}: {error}");
    assert_eq!(error.code(), code);
    assert_eq!(block_on(tract.head()).unwrap(), head, "nothing was written");
}

#[test]
fn an_unusable_summary_loses_nothing() {
    for (says, why, code) in [
        (text(""), "is empty", "bad_summary"),
        (text(" \n"), "is empty", "bad_summary"),
        (ModelAnswer::Calls, "is empty", "bad_summary"),
        (ModelAnswer::Echo, "tokens where the text takes", "bad_summary"),
        (ModelAnswer::Never, "did not answer within 300ms", "summarizer_timeout"),
        (ModelAnswer::Panics, "panicked: out of tokens", "summarizer_panicked"),
        (ModelAnswer::Fails, "out of order", "model_error"),
    ] {
        loses_nothing(&by(double([says])), why, code);
    }
}

#[test]
fn a_summary_that_misses_something_is_asked_for_again_with_the_reason() {
    let model = double([text("it is there"), text(""), text(SHORT)]);
    let requests = Arc::clone(&model.requests);
    let tract = by(model);
    summarizing(&tract);
    let made = block_on(tract.tool_result("b", LONG)).unwrap();
    assert_eq!(shown(&tract), [LONG, SHORT]);
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    assert_eq!(record.model.as_deref(), Some("m-1"));
    assert_eq!(record.instructions.as_deref(), Some("keep paths"));
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].contains("[tool:ls]: src/main.rs:7") && requests[0].contains("keep paths"));
    assert!(requests[0].contains("\n- main.rs:7"), "what must stay is said: {}", requests[0]);
    assert!(requests[1].contains("did not do: the summary lacks what it must keep: main.rs:7"));
    assert!(requests[2].contains("did not do: the summary is empty"));
    drop(requests);
    // There are bounds.
    let model = double([text("it is there")]);
    let requests = Arc::clone(&model.requests);
    let tract = by(model);
    summarizing(&tract);
    block_on(tract.tool_result("b", LONG)).unwrap();
    assert_eq!((shown(&tract)[1].as_str(), requests.lock().unwrap().len()), (LONG, 3));
}

#[test]
fn each_sort_of_text_has_a_prompt_that_can_be_replaced() {
    let model = || double([text(SHORT)]);
    let requests_of = |model: &Double| Arc::clone(&model.requests);
    let ask_model = |replace: bool, ask: &dyn Fn(&Tract)| {
        let model = model();
        let requests = requests_of(&model);
        let mut prompts = Prompts::default();
        if replace {
            prompts.tool_result = "mine alone".to_owned();
            prompts.conversation = "mine for talks".to_owned();
            prompts.relevant = "mine in context".to_owned();
            prompts.tool_results = "mine for many".to_owned();
        }
        let tract = with(ModelSummarizer { prompts, ..ModelSummarizer::new(Arc::new(model)) });
        ask(&tract);
        let requests = requests.lock().unwrap();
        requests[0].clone()
    };
    let configured = |config: ToolSummarization| {
        move |tract: &Tract| {
            block_on(tract.repo().configure_tool_summarization(Some(&config))).unwrap();
            block_on(tract.tool_result("b", LONG)).unwrap();
        }
    };
    let alone = configured(ToolSummarization {
        instructions: BTreeMap::from([("ls".to_owned(), "".to_owned())]),
        ..ToolSummarization::default()
    });
    assert!(ask_model(false, &alone).starts_with(SUMMARIZE_TOOL_RESULT));
    assert!(ask_model(true, &alone).starts_with("mine alone\n"));
    let relevant = configured(ToolSummarization {
        instructions: BTreeMap::from([("ls".to_owned(), "".to_owned())]),
        with_context: true,
        ..ToolSummarization::default()
    });
    let requests = ask_model(false, &relevant);
    assert!(requests.starts_with(SUMMARIZE_RELEVANT), "{requests}");
    assert!(
        requests.contains("The conversation:\n[assistant (calls: grep({}), ls({}))]"),
        "{requests}"
    );
    assert!(requests.contains("[tool:grep (call_id=a)]: src/main.rs:7"), "{requests}");
    assert!(ask_model(true, &relevant).starts_with("mine in context\n"));
    let talk = |tract: &Tract| {
        block_on(tract.tool_result("b", LONG)).unwrap();
        block_on(tract.summarize(&SummarizeRange::default())).unwrap();
    };
    assert!(ask_model(false, &talk).starts_with(SUMMARIZE_CONVERSATION));
    assert!(ask_model(true, &talk).starts_with("mine for talks\n"));
    let many = |tract: &Tract| {
        block_on(tract.tool_result("b", LONG)).unwrap();
        block_on(tract.compress_tool_calls(&CompressToolCalls::default())).unwrap_err();
    };
    assert!(ask_model(false, &many).starts_with(SUMMARIZE_TOOL_RESULTS));
    let requests = ask_model(true, &many);
    assert!(requests.starts_with("mine for many\n"));
    assert!(requests.contains("# 1\n[tool:grep]: src") && requests.contains("# 2\n[tool:ls]: src"));
    let model = model();
    let requests = requests_of(&model);
    let any = ModelSummarizer::new(Arc::new(model));
    block_on(
        any.summarize(&SummaryRequest {
            target_tokens: Some(9),
            ..SummaryRequest::new("whatever")
        }),
    )
    .unwrap();
    assert!(requests.lock().unwrap()[0].starts_with(SUMMARIZE));
    assert!(
        requests.lock().unwrap()[0].contains("whatever\n\nThe summary should take about 9 tokens")
    );
}

fn numbered(summaries: &[(u64, &str)]) -> ModelAnswer {
    let all: Vec<Value> = summaries
        .iter()
        .map(|(number, summary)| json!({"number": number, "summary": summary}))
        .collect();
    ModelAnswer::Text(Value::from(all).to_string())
}

#[test]
fn several_summaries_are_matched_by_their_numbers_or_none_is_taken() {
    for (says, why, code) in [
        (numbered(&[(1, "a")]), "expected 2 summaries, found 1", "invalid_reply"),
        (numbered(&[(1, "a"), (2, "b"), (3, "c")]), "found 3", "invalid_reply"),
        (numbered(&[(1, "a"), (1, "b")]), "twice", "invalid_reply"),
        (numbered(&[(0, "a"), (1, "b")]), "found 0", "invalid_reply"),
        (text("Here they are!"), "JSON array", "invalid_reply"),
        (text(r#"["a", "b"]"#), "JSON array", "invalid_reply"),
        (text(r#"[{"number":1,"summary":"a"},{"number":2,"#), "JSON array", "invalid_reply"),
        (text(""), "JSON array", "invalid_reply"),
        (ModelAnswer::Never, "did not answer within", "summarizer_timeout"),
        (ModelAnswer::Panics, "panicked", "summarizer_panicked"),
        (ModelAnswer::Fails, "out of order", "model_error"),
    ] {
        writes_nothing(&by(double([says])), why, code);
    }
    let fenced = format!(
        "```json\n{}\n```",
        json!([{"number": 2, "summary": "two"}, {"number": 1, "summary": "one"}])
    );
    let tract = by(double([ModelAnswer::Text(fenced)]));
    block_on(tract.tool_result("b", LONG)).unwrap();
    let done = block_on(tract.compress_tool_calls(&CompressToolCalls::default())).unwrap();
    assert_eq!(shown(&tract), ["one", "two"], "by number, in any order");
    for (edit, source) in done.edits.iter().zip(&done.sources) {
        let record = block_on(tract.decision_on(edit)).unwrap().unwrap();
        assert_eq!(record.model.as_deref(), Some("m-1"));
        assert_eq!(record.original(), block_on(tract.show(*source)).unwrap().content);
        assert_eq!(record.after, edit.content.map(|id| id.to_hex()));
    }
    let how = Summarize { must_keep: vec![r"\w+\.rs:\d+".into()], ..Summarize::new() };
    let again = [numbered(&[(1, SHORT), (2, "it is there")]), text(SHORT)];
    let longer = [numbered(&[(1, SHORT), (2, &LONG.repeat(2))])];
    for (answers, edits) in [(again.to_vec(), 2), (longer.to_vec(), 1)] {
        let tract = by(double(answers));
        block_on(tract.tool_result("b", LONG)).unwrap();
        let options = CompressToolCalls { how: how.clone(), ..CompressToolCalls::default() };
        let done = block_on(tract.compress_tool_calls(&options)).unwrap();
        assert_eq!((done.edits.len(), done.left.len()), (edits, 2 - edits));
        assert_eq!(shown(&tract)[0], SHORT, "one that does is taken regardless of the other");
    }
}

/// Answers requests with these bodies, the last one for ever; `None` leaves the client waiting.
fn server(answers: Vec<(u16, Option<String>)>) -> String {
    let left = Mutex::new(answers.into_iter().rev().collect::<Vec<_>>());
    let answer = move |_: &HttpRequest| {
        let (status, body) = next(&left);
        let end = if body.is_some() { HttpEnd::Whole } else { HttpEnd::Silent };
        HttpAnswer::new(status, "application/json", body.unwrap_or_default()).end(end)
    };
    Loopback::start(answer).unwrap().url("/v1")
}

fn completion(text: &str) -> (u16, Option<String>) {
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 2});
    let body = json!({"id": "r-1", "model": "m-1", "choices": [choice], "usage": usage});
    (200, Some(body.to_string()))
}

fn http(answers: Vec<(u16, Option<String>)>) -> HttpModel {
    let builder = HttpModel::builder("openai/small").unwrap().base_url(server(answers));
    builder.retry(RetryPolicy::never()).build().unwrap()
}

#[test]
fn a_model_behind_http_that_misbehaves_loses_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let html = (200, Some("<html>busy</html>".to_owned()));
    let none = (200, Some(r#"{"id":"r-1","model":"m-1","choices":[]}"#.to_owned()));
    let down = (503, Some(r#"{"error":{"message":"overloaded"}}"#.to_owned()));
    for (answer, why, code) in [
        (completion(""), "is empty", "bad_summary"),
        (completion(&LONG.repeat(9)), "tokens where the text takes", "bad_summary"),
        (html, "", "invalid_reply"),
        (none, "", "invalid_reply"),
        (down, "overloaded", "model_unavailable"),
        ((200, None), "did not answer within", "summarizer_timeout"),
    ] {
        loses_nothing(&by(http(vec![answer])), why, code);
    }
    let one = json!([{"number": 1, "summary": "a"}]).to_string();
    writes_nothing(&by(http(vec![completion(&one)])), "found 1", "invalid_reply");
    writes_nothing(&by(http(vec![completion("{}")])), "JSON array", "invalid_reply");
    writes_nothing(&by(http(vec![(200, None)])), "did not answer", "summarizer_timeout");
    let both = json!([{"number": 1, "summary": "one"}, {"number": 2, "summary": "two"}]);
    let tract = by(http(vec![completion(SHORT), completion(&both.to_string())]));
    summarizing(&tract);
    let made = block_on(tract.tool_result("b", LONG)).unwrap();
    assert_eq!(shown(&tract), [LONG, SHORT]);
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    assert_eq!(record.model.as_deref(), Some("m-1"));
    block_on(tract.compress_tool_calls(&CompressToolCalls::default())).unwrap();
    assert_eq!(shown(&tract), ["one", "two"]);
}

/// A real model, where one was started: see `docs/models.md`.
#[test]
fn a_real_model_summarizes_as_results_come() {
    let Ok(url) = std::env::var("TRACT_MODEL_URL") else {
        assert!(std::env::var_os("CI").is_none(), "set TRACT_MODEL_URL, as .ci/run does");
        println!("left out: a real model; see docs/models.md");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let model = HttpModel::builder("openai/local").unwrap().base_url(url).build().unwrap();
    let parameters = tract::JsonText::new(r#"{"max_tokens":80,"temperature":0}"#).unwrap();
    let summarizer =
        ModelSummarizer { parameters: Some(parameters), ..ModelSummarizer::new(Arc::new(model)) };
    let patience = Duration::from_secs(600);
    let hooks = Hooks::new().summarizer(summarizer).summary_limit(patience);
    let tract = memory().with_hooks(hooks);
    let config = ToolSummarization {
        auto_threshold: Some(100),
        target_tokens: Some(40),
        ..ToolSummarization::default()
    };
    block_on(tract.repo().configure_tool_summarization(Some(&config))).unwrap();
    let listing: String = (1..=10)
        .map(|n| format!("src/part{n}.rs: {n} functions, last changed in March by Ann\n"))
        .collect();
    block_on(tract.user("How large is this program?")).unwrap();
    block_on(tract.commit(Draft::assistant("").call("c1", "count", "{}"))).unwrap();
    let made = block_on(tract.tool_result("c1", listing.clone())).unwrap();
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    let text = block_on(tract.repo().content(&made)).unwrap().unwrap().text();
    println!("{}: {:?} tokens, now {:?}", record.action, record.tokens_before, record.tokens_after);
    match &record.note {
        // So small a model may give nothing that does; then it is as it came.
        Some(note) => {
            println!("{note}");
            assert_eq!(text, listing);
        }
        None => {
            println!("summary: {text}");
            assert!(record.tokens_after < record.tokens_before && record.model.is_some());
            assert_eq!(block_on(tract.expand(&made)).unwrap().unwrap().text(), listing);
            block_on(tract.revert(&made)).unwrap();
            assert_eq!(shown(&tract).pop().unwrap(), listing);
        }
    }
}
