//! Asking models: what is sent is committed, and what comes back. The two tests that the plan of
//! tool tracking names are here, too.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tract::core::{ModelRequest, PartialReply, Usage};
use tract::{
    CancellationToken, ChatModel, ChatOptions, Draft, Error, JsonText, ModelError, Reply,
    ReplyDelta, RequestForms, StopReason, ToolSchema, block_on,
};

use crate::walks::{body, memory};

/// A model with scripted replies, which keeps what it was asked.
#[derive(Default)]
struct ScriptedModel {
    replies: Mutex<Vec<Result<Reply, ModelError>>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl ScriptedModel {
    fn says(replies: impl IntoIterator<Item = Result<Reply, ModelError>>) -> Self {
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.reverse();
        Self { replies: Mutex::new(replies), requests: Mutex::default() }
    }

    fn request(&self) -> ModelRequest {
        self.requests.lock().unwrap().last().cloned().unwrap()
    }
}

#[async_trait::async_trait]
impl ChatModel for ScriptedModel {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        self.requests.lock().unwrap().push(request.clone());
        let mut reply = self.replies.lock().unwrap().pop().unwrap()?;
        reply.head = request.head;
        Ok(reply)
    }
}

fn calling() -> Reply {
    let content = Draft::assistant("Let me look.").call("c1", "search", r#"{"q":"rain"}"#).content;
    Reply {
        usage: Some(Usage { cached_tokens: Some(3), ..Usage::new(12, 7) }),
        stop_reason: Some(StopReason::ToolUse),
        model: Some("m-1".to_owned()),
        id: Some("r-1".to_owned()),
        raw: Some(tract::Blob::seal("as received")),
        ..Reply::new(content)
    }
}

fn answering(text: &str) -> Reply {
    Reply {
        stop_reason: Some(StopReason::EndTurn),
        model: Some("m-1".to_owned()),
        ..Reply::new(Draft::assistant(text).content)
    }
}

fn tool(name: &str) -> ToolSchema {
    let parameters = json!({"type": "object"});
    let tool = json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    ToolSchema::parse(&tool.to_string()).unwrap()
}

fn parameters(json: &str) -> JsonText {
    JsonText::new(json).unwrap()
}

fn names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn test_chat_with_tools() {
    let (tract, model) = (memory(), ScriptedModel::says([Ok(calling()), Ok(answering("No."))]));
    block_on(async {
        tract.set_tools([tool("clock")]).await.unwrap();
        let options = ChatOptions {
            tools: Some(vec![tool("search")]),
            parameters: Some(parameters(r#"{"temperature":0.5}"#)),
            ..ChatOptions::default()
        };
        let answer = tract.chat_with(&model, Draft::user("Rain?"), &options).await.unwrap();
        assert_eq!(names(&model.request()), ["search"], "sent to the model");
        assert_eq!(model.request().parameters.unwrap().as_str(), r#"{"temperature":0.5}"#);
        let sent = answer.sent.as_ref().unwrap();
        assert_eq!(answer.commit.parents, [sent.id()]);
        for commit in [sent, &answer.commit] {
            let tools = tract.tools().at(commit.id()).await.unwrap();
            assert_eq!(tools[0].name, "search", "linked to question and answer");
        }
        let commit = &answer.commit;
        let config = commit.generation_config.as_ref().unwrap();
        assert_eq!(config.as_str(), r#"{"model":"m-1","temperature":0.5}"#);
        let metadata: Value =
            serde_json::from_str(commit.metadata.as_ref().unwrap().as_str()).unwrap();
        let usage = json!({"input_tokens": 12, "output_tokens": 7, "cached_tokens": 3});
        assert_eq!(metadata, json!({"usage": usage, "stop_reason": "tool_use"}));
        assert_eq!(commit.origin.id.as_deref(), Some("r-1"));
        let raw = tract.repo().require_blob(commit.keeps[0]).await.unwrap();
        assert_eq!(raw.text(), Some("as received"));
        assert_eq!(answer.calls().next().unwrap().name, "search");
        // The tools in force come back, and the answer is one of the context.
        tract.tool_result("c1", "none").await.unwrap();
        let answer = tract.generate(&model).await.unwrap();
        assert_eq!(names(&model.request()), ["clock"]);
        assert_eq!(answer.text(), "No.");
        let sent = body(&tract.compile().await.unwrap().to_openai_params().unwrap());
        assert_eq!(sent["messages"].as_array().unwrap().len(), 4);
    });
}

#[test]
fn test_generate_with_tools() {
    let (tract, model) = (memory(), ScriptedModel::says([Ok(calling()), Ok(answering("Late."))]));
    block_on(async {
        let nothing = tract.generate(&model).await.unwrap_err();
        assert_eq!(nothing.code(), "invalid", "there is nothing to answer");
        tract.user("Rain?").await.unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let on_piece = {
            let received = Arc::clone(&received);
            move |piece: &ReplyDelta| received.lock().unwrap().push(piece.clone())
        };
        let options = ChatOptions {
            tools: Some(vec![tool("search"), tool("grep")]),
            on_piece: Some(Arc::new(on_piece)),
            discard_raw: true,
            ..ChatOptions::default()
        };
        let answer = tract.generate_with(&model, &options).await.unwrap();
        assert!(answer.sent.is_none());
        assert_eq!(names(&model.request()), ["search", "grep"], "sent to the model");
        let linked = tract.tools().own(answer.commit.id()).await.unwrap();
        assert_eq!(linked.len(), 2, "linked to the answer");
        assert!(answer.commit.keeps.is_empty());
        assert_eq!(received.lock().unwrap()[0], ReplyDelta::Text("Let me look.".to_owned()));
    });
}

#[test]
fn an_answer_that_broke_off_is_in_the_log_and_in_no_context() {
    let call =
        tract::ToolCall { id: "c1".into(), name: "search".into(), arguments: "{\"q\":".into() };
    let mut partial = PartialReply::new("Let me").call(call, false);
    partial.raw = Some(tract::Blob::seal("raw"));
    let broken =
        ModelError::BrokenOff { cause: Box::new(ModelError::Cut), partial: Box::new(partial) };
    let (tract, model) = (memory(), ScriptedModel::says([Err(broken), Ok(answering("Done."))]));
    block_on(async {
        let error = tract.chat(&model, "Rain?").await.unwrap_err();
        let Error::BrokenOff { recorded: Some(id), .. } = &error else { panic!("{error:?}") };
        assert_eq!(error.code(), "broken_off");
        let note = tract.show(*id).await.unwrap();
        assert_eq!(note.op.name(), "note");
        let note_text = tract.repo().require_blob(note.content.unwrap()).await.unwrap();
        let note_text: Value = serde_json::from_str(note_text.text().unwrap()).unwrap();
        assert_eq!(note_text["broken_off"]["why"], "reply_cut");
        assert_eq!(note_text["broken_off"]["calls"][0]["whole"], false);
        let raw = tract.repo().require_blob(note.keeps[0]).await.unwrap();
        assert_eq!(raw.text(), Some("raw"));
        assert_eq!(tract.compile().await.unwrap().message_count(), 1, "the question alone");
        assert_eq!(tract.generate(&model).await.unwrap().text(), "Done.");
    });
}

/// A model during whose answer another handle writes.
struct Slow(tract::Tract);

#[async_trait::async_trait]
impl ChatModel for Slow {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        self.0.user("Me first!").await.unwrap();
        Ok(Reply { head: Some(request.head.unwrap()), ..answering("Hello.") })
    }
}

#[test]
fn an_answer_that_comes_too_late_is_not_lost() {
    let tract = memory();
    block_on(async {
        let error = tract.chat(&Slow(tract.clone()), "Hi").await.unwrap_err();
        assert_eq!(error.code(), "conflict");
        let Error::Late { reply, .. } = error else { panic!("{error:?}") };
        let late = tract.fork("late", reply.head.unwrap()).await.unwrap();
        assert_eq!(late.commit(*reply).await.unwrap().parents.len(), 1);
    });
}

#[test]
fn cancelled_before_anything_came_nothing_is_recorded() {
    let (tract, model) = (memory(), ScriptedModel::says([Ok(answering("No."))]));
    block_on(async {
        let question = tract.user("Rain?").await.unwrap();
        let token = CancellationToken::new();
        token.cancel();
        let options = ChatOptions { cancellation: token, ..ChatOptions::default() };
        let error = tract.generate_with(&model, &options).await.unwrap_err();
        assert_eq!(error.code(), "cancelled");
        assert_eq!(tract.head().await.unwrap(), Some(question.id()));
    });
}

#[test]
fn a_request_of_a_model_is_the_compiled_one() {
    let tract = memory();
    block_on(async {
        tract.system("Be brief.").await.unwrap();
        tract.user("Rain?").await.unwrap();
        let draft = Draft::assistant("").call("c1", "search", "{}").call("c2", "clock", "{}");
        tract.commit(draft).await.unwrap();
        let result = tract.tool_result("c1", "long").await.unwrap();
        tract.annotate(result.id(), tract::Priority::Skip).await.unwrap();
        let compiled = tract.compile().await.unwrap();
        let model = tract::models::HttpModel::builder("openai/m").unwrap().base_url("http://h/v1");
        let sent = model.build().unwrap().params(&compiled.request()).unwrap();
        let expected = compiled.to_openai_params().unwrap().with("model", "m");
        assert_eq!(body(&sent), body(&expected), "a skipped result stays one");
        assert_eq!(sent.repairs, expected.repairs);
    });
}

/// A real model, where one was started: see `docs/models.md`.
#[test]
fn real_model() {
    let Ok(url) = std::env::var("TRACT_MODEL_URL") else {
        assert!(std::env::var_os("CI").is_none(), "set TRACT_MODEL_URL, as .ci/run does");
        println!("left out: a real model; see docs/models.md");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tract = tract::open("memory:").await.unwrap();
        let model = tract::models::HttpModel::builder("openai/local").unwrap().base_url(url);
        let model = model.build().unwrap();
        tract.system("You are a helpful assistant. Answer in one sentence.").await.unwrap();
        let parameters = Some(parameters(r#"{"max_tokens":40,"temperature":0}"#));
        let options = ChatOptions { parameters, ..ChatOptions::default() };
        let question = Draft::user("What is the capital of France?");
        let whole = tract.chat_with(&model, question, &options).await.unwrap();
        println!("chat: {}", whole.text());
        assert!(!whole.text().is_empty() && whole.reply.raw.is_some());
        assert!(whole.reply.usage.unwrap().output_tokens.unwrap() > 0);
        let received = Arc::new(Mutex::new((0, String::new())));
        let on_piece = {
            let received = Arc::clone(&received);
            move |piece: &ReplyDelta| {
                if let ReplyDelta::Text(text) = piece {
                    let mut received = received.lock().unwrap();
                    received.0 += 1;
                    received.1.push_str(text);
                }
            }
        };
        let streaming = ChatOptions { on_piece: Some(Arc::new(on_piece)), ..options.clone() };
        let question = Draft::user("And of Italy?");
        let streamed = tract.chat_with(&model, question, &streaming).await.unwrap();
        let (pieces, text) = received.lock().unwrap().clone();
        println!("streamed in {pieces} pieces: {text}");
        assert_eq!(text, streamed.text());
        assert!(pieces > 1 && streamed.reply.stop_reason.is_some());
        tract.user("Say it again.").await.unwrap();
        let again = tract.generate_with(&model, &options).await.unwrap();
        println!("generate: {}", again.text());
        assert!(!again.text().is_empty() && again.commit.origin.by == tract::AuthorKind::Model);
    });
}
