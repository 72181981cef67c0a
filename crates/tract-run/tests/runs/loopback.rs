//! Recorded conversations through the clients, against a server on loopback that says what was
//! recorded, and only to requests that contain the conversation so far.

mod processes;
mod server;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use tract_core::{ChatModel, ModelError, ModelRequest, Reply};
use tract_providers::http::{HttpModel, RetryPolicy};
use tract_testkit::power::SeededRng;

use self::server::{KEY, Server};
use self::wire::Wire;
use crate::recorded::kills::{check, killed_at_random};
use crate::recorded::points::{Death, ProcessLife};
use crate::recorded::recording::airline;
use crate::recorded::simulated::{Setting, Tools};
use crate::support::{memory, messages, repo_on};

/// A client that never asks for a stream.
struct UnstreamedModel(HttpModel);

#[async_trait]
impl ChatModel for UnstreamedModel {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        self.0.chat(request).await
    }
}

fn client(wire: Wire, url: &str, streams: bool) -> Arc<dyn ChatModel> {
    let name = format!("{}/recorded", wire.word());
    let builder = HttpModel::builder(&name).unwrap().base_url(url).key(KEY);
    let model = builder.retry(RetryPolicy::never()).build().unwrap();
    if streams { Arc::new(model) } else { Arc::new(UnstreamedModel(model)) }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Drives all of them by one wire; every other one streams.
fn all_by(wire: Wire) {
    run(async {
        let recordings = airline(50);
        let server = Server::start(recordings.clone(), false);
        let (mut replies, mut streamed) = (0, 0);
        for (place, recording) in recordings.iter().enumerate() {
            let streams = place % 2 == 1;
            let model = client(wire, &server.url(place, wire), streams);
            let setting = Setting::new(memory(), model, recording);
            setting.live_on().await;
            check(recording, &messages(&repo_on(&setting.store).await).await);
            replies += recording.replies();
            streamed += if streams { recording.replies() } else { 0 };
        }
        assert_eq!(server.wrong(), Vec::<String>::new());
        assert_eq!(server.served(), (replies, streamed));
        println!(
            "{} conversations by {}: {replies} replies, {streamed} of them in events",
            recordings.len(),
            wire.word()
        );
    });
}

#[test]
fn recorded_conversations_run_over_the_wire_of_openai() {
    all_by(Wire::OpenAi);
}

#[test]
fn recorded_conversations_run_over_the_wire_of_anthropic() {
    all_by(Wire::Anthropic);
}

#[test]
fn killed_at_random_points_they_still_run_over_both_wires() {
    run(async {
        let recordings = airline(50);
        let server = Server::start(recordings.clone(), false);
        let (mut draws, mut kills) = (SeededRng(6), 0);
        for (place, recording) in recordings.iter().enumerate() {
            let wire = Wire::ALL[place % 2];
            let model = client(wire, &server.url(place, wire), place % 4 > 1);
            let mut setting = Setting::new(memory(), model, recording);
            setting.tools = Tools::Idempotent;
            kills += killed_at_random(&setting, recording, &mut draws).await;
            check(recording, &messages(&repo_on(&setting.store).await).await);
        }
        assert_eq!(server.wrong(), Vec::<String>::new());
        println!("{kills} kills in {} conversations", recordings.len());
        assert!(kills >= recordings.len() / 2, "{kills}");
    });
}

/// A server that would take any request would prove nothing.
#[test]
fn a_wrong_request_is_refused() {
    run(async {
        let recordings = airline(4);
        for wire in Wire::ALL {
            let server = Server::start(recordings.clone(), false);
            // The conversation of one recording, sent to the server as that of another.
            let model = client(wire, &server.url(1, wire), false);
            let setting = Setting::new(memory(), model, &recordings[0]);
            let life = ProcessLife::new(None, Death::Stopped);
            let error = setting.live(&life).await.unwrap().unwrap_err();
            assert_eq!(error.code(), "invalid_request", "{error}");
            let wrong = server.wrong();
            assert!(
                wrong.len() == 1 && wrong[0].contains("message 2: expected the text"),
                "{wrong:?}"
            );
        }
    });
}
