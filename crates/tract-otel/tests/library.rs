//! Telemetry of a program that embeds the library, received on loopback.

mod receiver;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;
use tract::core::telemetry::{ModelDescription, names};
use tract::core::{Body, Content, Part, Reply, StopReason, Usage};
use tract::tools::{Registry as Tools, tool};
use tract::{ChatModel, Draft, ModelError, Tract, block_on};
use tract_core::{CancellationToken, ModelRequest, ReplyDelta};
use tract_otel::{Telemetry, TelemetryOptions};
use tract_testkit::loopback::HttpEnd;

use crate::receiver::{ReceivedSpan, Receiver};

/// Content is turned on for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

const SECRET: &str = "16C7e42F292c6912E7710c838347Ae178B4a";

/// Looks something up.
#[tool(read_only)]
async fn look_up(word: String) -> Result<String, tract::ToolError> {
    match word.as_str() {
        "nothing" => Err(tract::ToolError::validation("there is nothing")),
        word => Ok(format!("meaning-of-{word} token ghp_{SECRET}")),
    }
}

/// Calls the tool twice, then answers.
struct Scripted;

impl Scripted {
    fn reply(request: &ModelRequest) -> Reply {
        let call = |id: &str, word: &str| {
            let part = Part::call(id, "look_up", format!(r#"{{"word":"{word}"}}"#));
            Reply {
                stop_reason: Some(StopReason::ToolUse),
                ..Reply::new(Content::Assistant(Body { parts: vec![part], name: None }))
            }
        };
        let usage =
            Usage { cached_tokens: Some(40), reasoning_tokens: Some(5), ..Usage::new(100, 10) };
        let reply = match request.messages.len() {
            0..=2 => call("c1", "apple"),
            3..=4 => call("c2", "nothing"),
            _ => Reply {
                stop_reason: Some(StopReason::EndTurn),
                ..Reply::new(Content::assistant("answer-text"))
            },
        };
        Reply {
            usage: Some(usage),
            model: Some("model-2".to_owned()),
            id: Some("reply-1".to_owned()),
            ..reply
        }
    }
}

#[async_trait::async_trait]
impl ChatModel for Scripted {
    fn description(&self) -> ModelDescription {
        ModelDescription {
            address: Some("models.test".to_owned()),
            port: Some(8443),
            ..ModelDescription::new("openai", "model-1")
        }
    }

    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        Ok(Self::reply(request))
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        _cancellation: &CancellationToken,
        on_piece: &mut (dyn FnMut(ReplyDelta) + Send),
    ) -> Result<Reply, ModelError> {
        let reply = Self::reply(request);
        ReplyDelta::all_of(&reply).into_iter().for_each(on_piece);
        Ok(reply)
    }
}

struct Broken;

#[async_trait::async_trait]
impl ChatModel for Broken {
    async fn chat(&self, _: &ModelRequest) -> Result<Reply, ModelError> {
        Err(ModelError::Unauthorized { message: "secret-message".to_owned() })
    }
}

fn options(receiver: &Receiver) -> TelemetryOptions {
    TelemetryOptions::new(&receiver.url()).expect("a URL")
}

/// Runs work with telemetry, and returns what could not be exported.
fn observed(options: &TelemetryOptions, work: impl FnOnce()) -> Option<String> {
    let telemetry = Telemetry::start(options).expect("it starts");
    let subscriber = Registry::default().with(telemetry.layer());
    tracing::subscriber::with_default(subscriber, work);
    telemetry.finish()
}

/// An agent's run, a question that fails, a compile.
fn work() {
    block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("t.db").display());
        let options = tract::OpenOptions::new().create(true).repo("shelf");
        let tract: Tract = options.open(&url).await.expect("a store");
        tract.commit(Draft::system("instruction-text")).await.expect("a commit");
        let tools = Tools::builder().tool(LookUp).build().expect("tools");
        let parameters = r#"{"temperature":0.5,"top_p":0.9,"max_tokens":64}"#;
        let parameters = tract::JsonText::new(parameters).expect("JSON");
        let agent = tract.agent(Arc::new(Scripted), tools).parameters(parameters);
        let report = agent.run("question-text").await.expect("it runs");
        assert_eq!((report.steps, report.calls), (3, 2));
        let failed = tract.chat(&Broken, "another-question").await;
        assert!(failed.is_err());
    });
}

#[test]
fn a_run_is_received_as_the_table_says_without_content() {
    let _alone = alone();
    let receiver = Receiver::start();
    let failure = observed(
        &TelemetryOptions { service_name: Some("shelf-agent".to_owned()), ..options(&receiver) },
        work,
    );
    assert_eq!(failure, None);
    let received = receiver.take();
    received.is_as_the_table_says(false);
    assert_eq!(received.resource.get("service.name").map(String::as_str), Some("shelf-agent"));
    assert_eq!(received.scopes.iter().collect::<Vec<_>>(), ["tract"]);

    let run = received.one(names::AGENT_RUN);
    assert_eq!(run.get(names::CONVERSATION), Some("shelf/main"));
    assert_eq!(run.get(names::INPUT_TOKENS), Some("300"));
    assert_eq!(run.get(names::TRACT_STOP), Some("answered"));
    let calls = received.named(names::MODEL_CALL);
    assert_eq!(calls.len(), 4, "three of the run, and one that failed");
    for call in calls.iter().filter(|call| !call.failed) {
        assert_eq!((call.name.as_str(), &call.parent), ("chat model-1", &run.id));
        assert_eq!(call.get(names::RESPONSE_MODEL), Some("model-2"));
        assert_eq!(call.get(names::CACHE_READ_TOKENS), Some("40"));
        assert_eq!(call.get(names::SERVER_PORT), Some("8443"));
        assert_eq!(call.get(names::REQUEST_TEMPERATURE), Some("0.5"));
        for id in [names::TRACT_COMMIT, names::TRACT_VIEW, names::TRACT_TOOLSET] {
            assert_eq!(call.get(id).map(str::len), Some(64), "{id}: {call:?}");
        }
    }
    let reasons = |call: &&&ReceivedSpan| call.get(names::FINISH_REASONS) == Some("[tool_call]");
    assert_eq!(calls.iter().filter(reasons).count(), 2);
    let failed = calls.iter().find(|call| call.failed).expect("the one that failed");
    assert_eq!(failed.get(names::ERROR_TYPE), Some("unauthorized"));
    assert_eq!((failed.name.as_str(), failed.get(names::PROVIDER)), ("chat", Some("custom")));

    let tools = received.named(names::TOOL);
    assert_eq!(tools.len(), 2);
    for tool in &tools {
        assert_eq!((tool.name.as_str(), &tool.parent), ("execute_tool look_up", &run.id));
        // The message that asked for the call is the commit after the context.
        let view = tool.get(names::TRACT_VIEW);
        assert!(calls.iter().any(|call| call.get(names::TRACT_VIEW) == view));
        assert_eq!(tool.get(names::TRACT_TOOL).map(str::len), Some(64));
    }
    assert_eq!(tools.iter().filter(|tool| tool.failed).count(), 1);
    assert!(received.named(names::COMPILE).iter().any(|compile| compile.parent == run.id));
    let writes = received.named(names::STORE_WRITE);
    assert!(writes.iter().any(|write| write.parent == run.id), "{writes:?}");
    assert!(writes.iter().all(|write| write.get(names::DB_SYSTEM) == Some("sqlite")));
    let mut specs = vec![names::AGENT_RUN, names::MODEL_CALL, names::TOOL];
    specs.extend([names::COMPILE, names::STORE_WRITE]);
    let unseen = received.attributes_not_seen(&specs);
    let unseen: Vec<&String> = unseen
        .iter()
        .filter(|row| !names::is_content(row.rsplit(": ").next().unwrap_or_default()))
        .collect();
    let failures =
        ["invoke_agent: error.type", "tract.compile: error.type", "tract.store.apply: error.type"];
    assert_eq!(unseen, failures, "only these did not fail");

    let texts = "instruction-text question-text answer-text apple meaning-of secret-message";
    for content in texts.split(' ') {
        assert!(!received.contains(content), "{content}");
    }
    let value = |name: &str| {
        let metric = received.metric(name).unwrap_or_else(|| panic!("no {name}"));
        metric.points.iter().map(|(_, value)| value).sum::<u64>()
    };
    for (name, expected) in [
        ("gen_ai.client.inference.duration", 4),
        ("gen_ai.client.inference.time_to_first_chunk", 3),
        ("gen_ai.client.inference.usage.input_tokens", 300),
        ("gen_ai.client.inference.usage.output_tokens", 30),
        ("gen_ai.client.inference.usage.cache_read.input_tokens", 120),
        ("gen_ai.client.inference.usage.reasoning.output_tokens", 15),
        ("gen_ai.invoke_agent.duration", 1),
        ("gen_ai.invoke_agent.inference_calls", 1),
        ("gen_ai.invoke_agent.tool_calls", 1),
        ("gen_ai.execute_tool.duration", 2),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    let count = |spans: &[&ReceivedSpan]| u64::try_from(spans.len()).expect("a count");
    assert_eq!(value("db.client.operation.duration"), count(&writes));
    assert_eq!(value("tract.compile.duration"), count(&received.named(names::COMPILE)));
    assert_eq!(received.metrics.len(), names::METRICS.len(), "each row of the table arrived");
}

#[test]
fn content_is_there_when_asked_for_and_keys_in_it_are_not() {
    let _alone = alone();
    let receiver = Receiver::start();
    assert_eq!(observed(&TelemetryOptions { content: true, ..options(&receiver) }, work), None);
    let received = receiver.take();
    received.is_as_the_table_says(true);
    let calls = received.named(names::MODEL_CALL);
    let last = calls.iter().find(|call| {
        call.get(names::OUTPUT_MESSAGES).is_some_and(|text| text.contains("answer-text"))
    });
    let last = last.expect("the answer");
    let instructions = Some(r#"[{"type":"text","content":"instruction-text"}]"#);
    assert_eq!(last.get(names::SYSTEM_INSTRUCTIONS), instructions);
    let messages = last.get(names::INPUT_MESSAGES).expect("the context");
    for part in [
        r#"{"role":"user","parts":[{"type":"text","content":"question-text"}]}"#,
        r#"{"type":"tool_call","id":"c1","name":"look_up","arguments":{"word":"apple"}}"#,
        r#"{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"meaning-of-apple"#,
    ] {
        assert!(messages.contains(part), "{part} in {messages}");
    }
    let definitions = last.get(names::TOOL_DEFINITIONS).expect("tools");
    assert!(definitions.contains("Looks something up."), "{definitions}");
    let tools = received.named(names::TOOL);
    let tool = tools.iter().find(|tool| !tool.failed).expect("the one that succeeded");
    assert_eq!(tool.get(names::TOOL_ARGUMENTS), Some(r#"{"word":"apple"}"#));
    let result = tool.get(names::TOOL_RESULT).expect("its result");
    assert!(result.starts_with("meaning-of-apple") && result.contains("[redacted:"), "{result}");
    assert!(!received.contains(SECRET), "a key that a tool returned");
    assert_eq!(received.attributes_not_seen(&[names::TOOL]), Vec::<String>::new());
    // What is off again is off.
    assert_eq!(observed(&options(&receiver), work), None);
    assert!(!receiver.take().contains("question-text"));
}

#[test]
fn spans_belong_to_the_span_that_the_caller_names() {
    let _alone = alone();
    let receiver = Receiver::start();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = |text: String| Some((text, String::new()));
    let options = TelemetryOptions {
        parent: parent(format!("00-{trace}-b7ad6b7169203331-01")),
        ..options(&receiver)
    };
    assert_eq!(observed(&options, work), None);
    let received = receiver.take();
    assert!(received.spans.iter().all(|span| span.trace == trace));
    assert_eq!(received.one(names::AGENT_RUN).parent, "b7ad6b7169203331");

    let telemetry = Telemetry::start(&options).expect("it starts");
    let command = telemetry.command("test");
    tracing::subscriber::with_default(Registry::default().with(telemetry.layer()), work);
    command.end(3, Some("no_store"));
    assert_eq!(telemetry.finish(), None);
    let received = receiver.take();
    received.is_as_the_table_says(false);
    let command = received.one(names::COMMAND);
    assert_eq!(command.name, "tract test");
    assert_eq!(command.parent, "b7ad6b7169203331");
    assert_eq!(command.get(names::EXIT_CODE), Some("3"));
    assert_eq!(received.one(names::AGENT_RUN).parent, command.id);

    // What is no header is ignored.
    let options = TelemetryOptions { parent: parent("not one".to_owned()), ..options };
    assert_eq!(observed(&options, work), None);
    assert!(receiver.take().named(names::AGENT_RUN).iter().all(|run| run.parent.is_empty()));
}

#[test]
fn a_program_with_a_runtime_exports_and_drops_telemetry_within_it() {
    let _alone = alone();
    let receiver = Receiver::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        for finishes in [true, false] {
            let telemetry = Telemetry::start(&options(&receiver)).expect("it starts");
            let subscriber = Registry::default().with(telemetry.layer());
            let scope = tracing::subscriber::set_default(subscriber);
            let tract = tract::open("memory:").await.expect("a store");
            tract.commit(Draft::user("hello")).await.expect("a commit");
            drop(scope);
            match finishes {
                true => assert_eq!(telemetry.finish(), None),
                false => drop(telemetry),
            }
            let received = receiver.take();
            assert!(!received.named(names::STORE_WRITE).is_empty(), "finishes: {finishes}");
        }
    });
}

#[test]
fn a_collector_that_fails_is_reported_once_and_within_the_bound() {
    let _alone = alone();
    let bound = Duration::from_millis(500);
    let absent = TelemetryOptions::new("http://127.0.0.1:9").expect("a URL");
    let refuses = Receiver::refusing(401, "who are you?");
    let hangs = Receiver::ending(HttpEnd::Silent);
    let stops = Receiver::ending(HttpEnd::Hanging);
    let vanishes = Receiver::ending(HttpEnd::Dropped);
    for (options, says) in [
        (absent, "127.0.0.1:9: "),
        (options(&refuses), "status 401 (check OTEL_EXPORTER_OTLP_HEADERS): who are you?"),
        (options(&hangs), "no answer within 500ms"),
        (options(&stops), "no answer within 500ms"),
        (options(&vanishes), "telemetry was not exported to http://127.0.0.1:"),
    ] {
        let options = TelemetryOptions { flush_within: Some(bound), ..options };
        let telemetry = Telemetry::start(&options).expect("it starts");
        let subscriber = Registry::default().with(telemetry.layer());
        tracing::subscriber::with_default(subscriber, work);
        let failure = telemetry.finish().expect("it is reported");
        assert!(failure.contains(says), "{says}: {failure}");
        assert_eq!(failure.lines().count(), 1, "{failure}");
    }
}
