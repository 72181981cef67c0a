//! Clients against a server on loopback that answers with recordings, and badly.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use support::streams::{Exchange, Golden, StreamedReply, exchanges, goldens};
use tract_core::{CancellationToken, ChatModel, ModelError, ModelRequest, Reply, ReplyDelta};
use tract_providers::Dialect;
use tract_providers::http::{HttpModel, HttpModelBuilder, RetryPolicy};
use tract_testkit::loopback::{HttpAnswer, HttpEnd, Loopback};
use tract_testkit::power::SeededRng;

const KEY: &str = "sk-test-0123456789abcdef";

/// Runs a test with a server that answers as it is told.
fn run(test: impl AsyncFnOnce(Loopback)) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test(Loopback::answering([]).unwrap()));
}

fn builder(server: &Loopback, dialect: Dialect) -> HttpModelBuilder {
    let base = match dialect {
        Dialect::OpenAi | Dialect::Responses => server.url("/v1"),
        Dialect::Anthropic | Dialect::Ollama | Dialect::Gemini => server.url(""),
    };
    HttpModel::builder(&format!("{dialect}/some-model"))
        .unwrap()
        .base_url(base)
        .key(KEY)
        .retry(RetryPolicy::never())
}

fn model(server: &Loopback, dialect: Dialect) -> HttpModel {
    builder(server, dialect).build().unwrap()
}

fn answer(exchange: &Exchange) -> HttpAnswer {
    HttpAnswer::new(200, exchange.content_type(), exchange.body())
}

async fn ask(
    model: &HttpModel,
    request: &ModelRequest,
    streams: bool,
) -> (StreamedReply, Result<Reply, ModelError>) {
    let mut streamed = StreamedReply::default();
    let mut hear = |piece: ReplyDelta| streamed.hear(piece);
    let reply = match streams {
        true => model.stream(request, &CancellationToken::new(), &mut hear).await,
        false => model.chat(request).await,
    };
    (streamed, reply)
}

async fn stream(model: &HttpModel) -> (StreamedReply, Result<Reply, ModelError>) {
    ask(model, &ModelRequest::default(), true).await
}

/// Asks with a recording as the answer, cut and paused by a seed.
async fn seeded(server: &Loopback, exchange: &Exchange, golden: &Golden, seed: u64) {
    let mut random = SeededRng(seed);
    let mut cuts = match random.below(3) {
        0 => exchange.boundaries(),
        _ => Vec::new(),
    };
    let length = exchange.body().len();
    cuts.extend((0..random.below(30)).map(|_| random.below(length)));
    cuts.sort_unstable();
    let pauses = (0..5).map(|_| Duration::from_micros(random.below(600) as u64 / 500 * 900));
    server.will_answer(answer(exchange).cut(&cuts).pauses(pauses.collect()));
    let model = model(server, exchange.dialect());
    let (streamed, reply) = ask(&model, &ModelRequest::default(), exchange.is_stream()).await;
    match reply {
        Ok(reply) => {
            if exchange.is_stream() {
                streamed.check(&reply, &exchange.file);
            }
            let raw = reply.raw.as_ref().expect("the bytes are kept");
            assert_eq!(raw.text(), Some(exchange.body().as_str()), "{}", exchange.file);
            golden.check(&reply, exchange.dialect()).unwrap();
        }
        Err(error) => {
            assert!(golden.failed, "{}: {error:?}", exchange.file);
            let error = match error {
                ModelError::BrokenOff { cause, partial } => {
                    assert!(!partial.is_empty() && partial.raw.is_some());
                    *cause
                }
                error => error,
            };
            assert!(!matches!(error, ModelError::Cut), "{}: the provider said why", exchange.file);
        }
    }
}

#[test]
fn every_recorded_exchange_comes_through() {
    let (exchanges, goldens) = (exchanges(), goldens());
    run(async |server| {
        for (seed, exchange) in (0..).zip(&exchanges) {
            seeded(&server, exchange, &goldens[&exchange.file], seed).await;
        }
    });
    println!("{} exchanges", exchanges.len());
    assert!(exchanges.len() >= 25);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However a recording is cut and paused on its way, it is the same answer.
    #[test]
    fn cuts_and_pauses_make_no_difference(which in any::<prop::sample::Index>(), seed in any::<u64>()) {
        let (exchanges, goldens) = (exchanges(), goldens());
        let streams: Vec<&Exchange> = exchanges.iter().filter(|e| e.is_stream()).collect();
        let exchange = which.get(&streams);
        run(async |server| {
            seeded(&server, exchange, &goldens[&exchange.file], seed).await;
        });
    }
}

#[test]
fn a_stream_cut_at_any_event_is_a_typed_partial() {
    let exchanges = exchanges();
    let short = |exchange: &&Exchange| exchange.is_stream() && exchange.boundaries().len() <= 80;
    let (mut cut, mut dropped) = (0, 0);
    run(async |server| {
        for exchange in exchanges.iter().filter(short).take(40) {
            let model = model(&server, exchange.dialect());
            let body = exchange.body();
            let mut boundaries = exchange.boundaries();
            boundaries.pop();
            for at in boundaries {
                for end in [HttpEnd::Whole, HttpEnd::Dropped] {
                    let start = body.as_bytes()[..at].to_vec();
                    let cut_answer = HttpAnswer::new(200, exchange.content_type(), start).end(end);
                    server.will_answer(cut_answer);
                    let (streamed, reply) = stream(&model).await;
                    let context = format!("{} at {at}, {end:?}", exchange.file);
                    let cause = match reply {
                        Ok(reply) => {
                            let early = exchange.dialect() == Dialect::OpenAi;
                            assert!(early && reply.stop_reason.is_some(), "{context}");
                            continue;
                        }
                        Err(ModelError::BrokenOff { cause, partial }) => {
                            assert_eq!(partial.text, streamed.text, "{context}");
                            assert_eq!(partial.calls.len(), streamed.calls.len(), "{context}");
                            let raw = partial.raw.as_ref().unwrap();
                            assert_eq!(&raw.bytes()[..], &body.as_bytes()[..at], "{context}");
                            *cause
                        }
                        Err(error) => {
                            assert_eq!(streamed, StreamedReply::default(), "{context}: {error:?}");
                            error
                        }
                    };
                    match (end, cause) {
                        (HttpEnd::Whole, ModelError::Cut) => cut += 1,
                        (HttpEnd::Dropped, ModelError::Unavailable { .. }) => dropped += 1,
                        // The recording has an error before this place.
                        (_, ModelError::InvalidRequest { .. } | ModelError::Other { .. }) => {}
                        (_, error) => panic!("{context}: {error:?}"),
                    }
                }
            }
        }
    });
    println!("{cut} ended too early, {dropped} dropped");
    assert!(cut > 100 && dropped > 100, "{cut} {dropped}");
}

const CHAT: &str = r#"{"id":"c1","model":"m-1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;

/// The beginning of a stream.
const BEGUN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";

fn json(status: u16, body: &str) -> HttpAnswer {
    HttpAnswer::new(status, "application/json", body)
}

fn events(body: impl Into<Vec<u8>>) -> HttpAnswer {
    HttpAnswer::new(200, "text/event-stream", body)
}

#[test]
fn requests_are_sent_as_each_provider_wants_them() {
    run(async |server| {
        let parameters = tract_core::JsonText::new(r#"{"temperature":0.5}"#).unwrap();
        let request = ModelRequest { parameters: Some(parameters), ..ModelRequest::default() };
        for (dialect, path) in [
            (Dialect::OpenAi, "/v1/chat/completions"),
            (Dialect::Responses, "/v1/responses"),
            (Dialect::Anthropic, "/v1/messages"),
            (Dialect::Ollama, "/api/chat"),
        ] {
            let model = builder(&server, dialect).header("X-Beta", "b").build().unwrap();
            for streaming in [false, true] {
                server.will_answer(json(400, "{}"));
                let _ = ask(&model, &request, streaming).await;
                let sent = server.take_requests().remove(0);
                assert_eq!(sent.path, path);
                let body: serde_json::Value = serde_json::from_str(&sent.body).unwrap();
                assert_eq!(body["model"], "some-model");
                assert_eq!(body["stream"], streaming);
                let counts = streaming && dialect == Dialect::OpenAi;
                assert_eq!(body["stream_options"]["include_usage"] == true, counts);
                assert_eq!(sent.header("x-beta"), Some("b"));
                assert_eq!(sent.header("accept-encoding"), Some("identity"));
                let bearer = format!("Bearer {KEY}");
                match dialect {
                    Dialect::Anthropic => {
                        assert_eq!(sent.header("x-api-key"), Some(KEY));
                        assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
                        assert_eq!(body["max_tokens"], 4096);
                    }
                    _ => assert_eq!(sent.header("authorization"), Some(bearer.as_str())),
                }
                match dialect {
                    Dialect::Ollama => assert_eq!(body["options"]["temperature"], 0.5),
                    _ => assert_eq!(body["temperature"], 0.5),
                }
            }
        }
    });
}

#[test]
fn temporary_errors_are_retried() {
    run(async |server| {
        let retries = Arc::new(Mutex::new(Vec::new()));
        let model = builder(&server, Dialect::OpenAi)
            .retry(RetryPolicy {
                retries: 3,
                base: Duration::from_millis(1),
                ..RetryPolicy::default()
            })
            .on_retry({
                let retries = Arc::clone(&retries);
                move |retry| {
                    retries.lock().unwrap().push((retry.attempt, retry.wait, retry.error.code()))
                }
            })
            .build()
            .unwrap();
        for streaming in [false, true] {
            server.will_answer(json(500, "oops"));
            server.will_answer(
                json(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after", "0"),
            );
            server.will_answer(json(200, "{\"id\"").end(HttpEnd::Dropped));
            server.will_answer(json(200, CHAT));
            let (_, reply) = ask(&model, &ModelRequest::default(), streaming).await;
            assert_eq!(reply.unwrap().text(), "Hi");
            let requests = server.take_requests();
            assert_eq!(requests.len(), 4);
            assert!(requests.iter().all(|again| again.body == requests[0].body));
            let retries = std::mem::take(&mut *retries.lock().unwrap());
            let codes: Vec<_> = retries.iter().map(|(n, _, code)| (*n, *code)).collect();
            assert_eq!(
                codes,
                [(1, "model_unavailable"), (2, "rate_limited"), (3, "model_unavailable")]
            );
            assert_eq!(retries[1].1, Duration::ZERO, "as the server asked");
        }
        // A wait beyond the limit is reported, not waited.
        server.will_answer(json(429, "{}").header("retry-after", "4000"));
        let error = model.chat(&ModelRequest::default()).await.unwrap_err();
        let asks = Some(Duration::from_secs(4000));
        assert!(
            matches!(error, ModelError::RateLimited { retry_after, .. } if retry_after == asks)
        );
        assert_eq!(server.take_requests().len(), 1);
    });
}

#[test]
fn a_stream_with_delivered_pieces_is_not_retried() {
    run(async |server| {
        let retry =
            RetryPolicy { retries: 5, base: Duration::from_millis(1), ..RetryPolicy::default() };
        let model = builder(&server, Dialect::OpenAi).retry(retry).build().unwrap();
        server.will_answer(events(BEGUN).end(HttpEnd::Dropped));
        let (streamed, reply) = stream(&model).await;
        assert_eq!(streamed.text, "Hel");
        assert!(matches!(reply, Err(ModelError::BrokenOff { .. })), "{reply:?}");
        assert_eq!(server.take_requests().len(), 1);
    });
}

#[test]
fn refusals_are_typed_and_asked_once() {
    run(async |server| {
        let retry =
            RetryPolicy { retries: 5, base: Duration::from_millis(1), ..RetryPolicy::default() };
        for dialect in Dialect::ALL {
            let model = builder(&server, dialect).retry(retry).build().unwrap();
            for (status, code) in [
                (400, "invalid_request"),
                (401, "unauthorized"),
                (403, "unauthorized"),
                (404, "invalid_request"),
                (413, "invalid_request"),
                (307, "invalid_request"),
            ] {
                let body = r#"{"error":{"type":"x","message":"because"}}"#;
                server.will_answer(json(status, body).header("location", &server.url("/else")));
                let error = stream(&model).await.1.unwrap_err();
                assert_eq!(error.code(), code, "{status}");
                assert!(error.to_string().contains("because"), "{error}");
                assert_eq!(server.take_requests().len(), 1, "{status}");
            }
        }
    });
}

/// Everything that an error, and what it came from, would print.
fn printed(error: &ModelError) -> String {
    let mut text = format!("{error} {error:?} {:?}", error.notes());
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    text
}

#[test]
fn the_key_is_in_no_error_and_no_answer() {
    run(async |server| {
        for dialect in Dialect::ALL {
            let model = model(&server, dialect);
            assert!(!format!("{model:?} {:?}", builder(&server, dialect)).contains(KEY));
            let body = format!(r#"{{"error":{{"message":"bad key {KEY}!"}}}}"#);
            let mut errors = Vec::new();
            for status in [200, 400, 401, 429, 500] {
                server.will_answer(json(status, &body));
                errors.push(model.chat(&ModelRequest::default()).await.unwrap_err());
            }
            let inside = match dialect {
                Dialect::Ollama => format!("{body}\n"),
                _ => format!("event: error\ndata: {body}\n\n"),
            };
            server.will_answer(events(inside));
            errors.push(stream(&model).await.1.unwrap_err());
            server.will_answer(json(200, &CHAT.replace("Hi", KEY)));
            errors.push(model.chat(&ModelRequest::default()).await.unwrap_err());
            // With an escape, and in two pieces of a stream.
            let escaped = format!("\\u{:04x}{}", u32::from(KEY.as_bytes()[0]), &KEY[1..]);
            server.will_answer(json(200, &CHAT.replace("Hi", &escaped)));
            errors.push(model.chat(&ModelRequest::default()).await.unwrap_err());
            for error in errors {
                assert!(!printed(&error).contains(KEY), "{dialect}: {}", printed(&error));
            }
        }
        let gone = HttpModel::builder("openai/m").unwrap().key(KEY).retry(RetryPolicy::never());
        let gone = gone.base_url("http://127.0.0.1:9/v1?secret=s3cr3t").build().unwrap();
        let error = gone.chat(&ModelRequest::default()).await.unwrap_err();
        assert!(matches!(error, ModelError::Unavailable { .. }), "{error:?}");
        let text = format!("{} {gone:?}", printed(&error));
        assert!(!text.contains(KEY) && !text.contains("s3cr3t"), "{text}");
    });
}

#[test]
fn a_key_in_the_pieces_of_a_stream_is_neither_passed_on_nor_kept() {
    run(async |server| {
        let model = model(&server, Dialect::OpenAi);
        for field in ["content", "reasoning_content"] {
            let delta = |text: &str| {
                format!(r#"data: {{"choices":[{{"index":0,"delta":{{"{field}":"{text}"}}}}]}}"#)
            };
            let (first, second) = KEY.split_at(9);
            let stop = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
            for end in [format!("{stop}\n\ndata: [DONE]\n\n"), String::new()] {
                let body = format!("{}\n\n{}\n\n{end}", delta(first), delta(second));
                server.will_answer(events(body));
                let (passed, ended) = stream(&model).await;
                let error = printed(&ended.unwrap_err());
                assert!(error.contains("repeats the key"), "{field}: {error}");
                assert!(!error.contains(KEY) && !format!("{passed:?}").contains(first), "{field}");
            }
        }
    });
}

#[test]
fn a_key_in_the_details_of_reasoning_is_rejected() {
    run(async |server| {
        let model = model(&server, Dialect::OpenAi);
        let detail = |text: &str| format!(r#"{{"type":"reasoning.text","text":"{text}"}}"#);
        let (first, second) = KEY.split_at(9);
        let chunk = |details: &str| {
            format!(
                r#"data: {{"choices":[{{"index":0,"delta":{{"reasoning_details":[{details}]}}}}]}}"#
            )
        };
        let stop =
            r#"data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#;
        for begin in [
            format!("{}\n\n{}", chunk(&detail(first)), chunk(&detail(second))),
            chunk(&format!("{},{}", detail(first), detail(second))),
        ] {
            server.will_answer(events(format!("{begin}\n\n{stop}\n\ndata: [DONE]\n\n")));
            let (passed, ended) = stream(&model).await;
            let error = printed(&ended.unwrap_err());
            assert!(error.contains("repeats the key") && !error.contains(KEY), "{error}");
            assert!(!format!("{passed:?}").contains(first), "{passed:?}");
        }
    });
}

#[test]
fn a_key_with_escapes_in_arguments_is_not_passed_on() {
    run(async |server| {
        let model = model(&server, Dialect::OpenAi);
        let chunk = |call: &str| {
            format!(r#"data: {{"choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}"#)
        };
        let begin = r#"{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\""}}"#;
        // The key in JSON within JSON: its first letter as `\u0073`.
        let text = format!("\\\\u0073{}", &KEY[1..]);
        let (first, second) = text.split_at(14);
        let piece = |text: &str| format!(r#"{{"index":0,"function":{{"arguments":"{text}"}}}}"#);
        let stop = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
        let pieces = [begin.to_owned(), piece(first), piece(second), piece(r#"\"}"#)];
        let pieces = pieces.map(|piece| chunk(&piece)).join("\n\n");
        server.will_answer(events(format!("{pieces}\n\n{stop}\n\ndata: [DONE]\n\n")));
        let (passed, ended) = stream(&model).await;
        let error = printed(&ended.unwrap_err());
        assert!(error.contains("repeats the key") && !error.contains(KEY), "{error}");
        assert!(!format!("{passed:?}").contains("0073"), "{passed:?}");
    });
}

#[test]
fn a_key_in_several_parts_of_an_answer_or_in_a_signature_is_rejected() {
    run(async |server| {
        let (first, second) = KEY.split_at(9);
        let parts = |one: &str, two: &str| {
            format!(
                r#"{{"candidates":[{{"content":{{"role":"model","parts":[{one},{two}]}},"finishReason":"STOP"}}]}}"#
            )
        };
        let text = |text: &str| format!(r#"{{"text":"{text}"}}"#);
        let thought = |text: &str| format!(r#"{{"text":"{text}","thought":true}}"#);
        let signed = format!(r#"{{"text":"Hi","thoughtSignature":"{KEY}"}}"#);
        let model = model(&server, Dialect::Gemini);
        for body in [
            parts(&text(first), &text(second)),
            parts(&thought(first), &thought(second)),
            parts(&text("x"), &signed),
        ] {
            let body = format!("data: {body}\n\n");
            server.will_answer(events(body));
            let error = printed(&stream(&model).await.1.unwrap_err());
            assert!(error.contains("repeats the key") && !error.contains(KEY), "{error}");
        }
    });
}

#[test]
fn a_key_in_another_choice_is_rejected_and_all_choices_are_kept() {
    run(async |server| {
        for (dialect, chunk, stop) in [
            (
                Dialect::OpenAi,
                r#"data: {"choices":[{"index":INDEX,"delta":{"content":"TEXT"}}]}"#,
                r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            ),
            (
                Dialect::Gemini,
                r#"data: {"candidates":[{"index":INDEX,"content":{"role":"model","parts":[{"text":"TEXT"}]}}]}"#,
                r#"data: {"candidates":[{"index":0,"finishReason":"STOP"}]}"#,
            ),
        ] {
            let model = model(&server, dialect);
            let sent = |index: usize, text: &str| {
                chunk.replace("INDEX", &index.to_string()).replace("TEXT", text) + "\n\n"
            };
            let (first, second) = KEY.split_at(9);
            let choices = |half: &str| sent(0, "Hel") + &sent(1, half) + &sent(0, "lo");
            for end in [format!("{stop}\n\n"), String::new()] {
                server.will_answer(events(choices(first) + &sent(1, second) + &end));
                let error = printed(&stream(&model).await.1.unwrap_err());
                assert!(error.contains("repeats the key"), "{dialect}: {error}");
                assert!(!error.contains(KEY), "{dialect}: {error}");
            }
            server.will_answer(events(choices("Good ") + &sent(1, "day") + stop + "\n\n"));
            let (passed, reply) = stream(&model).await;
            let reply = reply.unwrap();
            assert_eq!(reply.text(), "Hello", "{dialect}");
            assert!(!format!("{passed:?}").contains("Good"), "{passed:?}");
            assert_eq!(reply.other_choices.len(), 1, "{dialect}");
            assert!(reply.other_choices[0].as_str().contains("Good day"), "{reply:?}");
            server.will_answer(events(choices("Good ")));
            let (_, broken) = stream(&model).await;
            let Err(ModelError::BrokenOff { partial, .. }) = broken else { panic!("{broken:?}") };
            assert!(partial.other_choices[0].as_str().contains("Good "), "{partial:?}");
        }
    });
}

#[test]
fn nothing_is_waited_for_for_ever() {
    run(async |server| {
        let short = Duration::from_millis(300);
        // A server of its own: on a busy machine the time is over before it has read the request.
        let silent = Loopback::answering([json(200, "").end(HttpEnd::Silent)]).unwrap();
        let model = builder(&silent, Dialect::OpenAi).first_byte_timeout(short).build().unwrap();
        let error = model.chat(&ModelRequest::default()).await.unwrap_err();
        assert!(matches!(error, ModelError::Timeout { after } if after == short), "{error:?}");
        let idle = Duration::from_secs(1);
        let model = builder(&server, Dialect::OpenAi).idle_timeout(idle).build().unwrap();
        server.will_answer(json(200, "{\"id\":").end(HttpEnd::Hanging));
        let error = model.chat(&ModelRequest::default()).await.unwrap_err();
        assert!(matches!(error, ModelError::Timeout { .. }), "{error:?}");
        server.will_answer(events(BEGUN).end(HttpEnd::Hanging));
        let (_, reply) = stream(&model).await;
        let Err(ModelError::BrokenOff { cause, partial }) = reply else { panic!("{reply:?}") };
        assert!(matches!(*cause, ModelError::Timeout { .. }), "{cause:?}");
        assert_eq!(partial.text, "Hel");
        // What hangs after the end marker is whole.
        let whole = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        server.will_answer(events(whole).end(HttpEnd::Hanging));
        assert_eq!(stream(&model).await.1.unwrap().text(), "Hi");
    });
}

#[test]
fn cancelling_ends_the_wait_and_keeps_what_came() {
    run(async |server| {
        let model = model(&server, Dialect::OpenAi);
        server.will_answer(events(BEGUN).end(HttpEnd::Hanging));
        let token = CancellationToken::new();
        let mut cancel = |_| token.cancel();
        let found = model.stream(&ModelRequest::default(), &token, &mut cancel).await;
        let Err(ModelError::BrokenOff { cause, partial }) = found else { panic!("{found:?}") };
        assert!(matches!(*cause, ModelError::Cancelled));
        assert_eq!(partial.text, "Hel");
        assert_eq!(partial.raw.unwrap().text(), Some(BEGUN));
        // Cancelled before anything came, there is nothing to keep.
        server.will_answer(json(200, CHAT));
        let found = model.stream(&ModelRequest::default(), &token, &mut |_| {}).await;
        assert!(matches!(found, Err(ModelError::Cancelled)), "{found:?}");
    });
}

#[test]
fn a_body_over_the_limit_is_a_typed_error() {
    run(async |server| {
        let model = builder(&server, Dialect::OpenAi).max_reply_bytes(100).build().unwrap();
        server.will_answer(json(200, CHAT));
        let error = model.chat(&ModelRequest::default()).await.unwrap_err();
        assert!(matches!(error, ModelError::TooLarge { limit_bytes: 100 }), "{error:?}");
        let long = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n{}",
            "x".repeat(99)
        );
        server.will_answer(events(long).cut(&[60]));
        let (_, reply) = stream(&model).await;
        let Err(ModelError::BrokenOff { cause, .. }) = reply else { panic!("{reply:?}") };
        assert!(matches!(*cause, ModelError::TooLarge { limit_bytes: 100 }), "{cause:?}");
    });
}

#[test]
fn an_unusable_answer_is_a_typed_error() {
    run(async |server| {
        for dialect in Dialect::ALL {
            let model = model(&server, dialect);
            for body in ["", "{", "null", "[]", "{}", "<html>", "{\"choices\":[]}"] {
                server.will_answer(json(200, body));
                let error = model.chat(&ModelRequest::default()).await.unwrap_err();
                assert_eq!(error.code(), "invalid_reply", "{dialect} {body:?}: {error:?}");
            }
            server.will_answer(HttpAnswer::new(200, "application/json", vec![b'"', 0xff, b'"']));
            let error = model.chat(&ModelRequest::default()).await.unwrap_err();
            assert_eq!(error.code(), "invalid_reply", "{error:?}");
        }
        // The limit of tokens cut a call in two: it cannot be run.
        let cut = CHAT.replace("\"content\":\"Hi\"", r#""content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":"}}]"#);
        server.will_answer(json(200, &cut.replace("\"stop\"", "\"length\"")));
        let found = model(&server, Dialect::OpenAi).chat(&ModelRequest::default()).await;
        let Err(ModelError::BrokenOff { partial, .. }) = found else { panic!("{found:?}") };
        assert!(!partial.calls[0].whole);
    });
}
