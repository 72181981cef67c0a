//! Answers as they come in: JSON, or a stream of events.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use tract_core::json;
use tract_sse::{SseDecoder, SseError, SseEvent};

use super::exchange::{Exchange, cut, lock};
use super::outgoing::OutgoingMessage;
use crate::error::{McpError, Result};
use crate::wire::{self, Envelope};

/// How often in a row a stream is taken up again without a message in between.
const MOST_TRIES: u32 = 5;
/// How long is waited before that where the server does not say, and at most.
const USUAL_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Minimum pause before a reconnection. With the 0 that a server may send, it would be polled
/// without pause.
const SHORTEST_WAIT: Duration = Duration::from_millis(250);

impl Exchange {
    pub(super) async fn read(&self, mut response: Response, limit: usize) -> Result<Vec<u8>> {
        let mut read = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|_| self.cut_off())? {
            if read.len() + bytes.len() > limit {
                return Err(self.too_large());
            }
            read.extend_from_slice(&bytes);
        }
        Ok(read)
    }

    /// Reads the answer to a request, and all that comes with it.
    pub(super) async fn take_in(
        &self,
        response: Response,
        out: &OutgoingMessage,
        id: &str,
    ) -> Result<()> {
        match content_type(&response).as_str() {
            "application/json" => {
                let body = self.read(response, self.limit_bytes).await?;
                let body = String::from_utf8_lossy(&body);
                if self.deliver(&body, Some((out, id))).await {
                    Ok(())
                } else {
                    Err(self.broke("expected an answer to the request, found none"))
                }
            }
            "text/event-stream" => self.follow(response, out, id).await,
            "" => {
                Err(self.broke(&format!("expected an answer, found status {}", response.status())))
            }
            other => {
                let what = format!("expected JSON or a stream of events, found {:?}", cut(other));
                Err(self.broke(&what))
            }
        }
    }

    /// Reads a stream up to the answer. A stream that ends before is resumed, if the server sent an
    /// event id.
    async fn follow(&self, mut response: Response, out: &OutgoingMessage, id: &str) -> Result<()> {
        let mut events = SseDecoder::with_limit(self.limit_bytes);
        let mut tries = 0;
        loop {
            while let Ok(Some(bytes)) = response.chunk().await {
                let found = events.push(&bytes).map_err(|error| self.unreadable(error))?;
                for text in found.into_iter().filter_map(message) {
                    tries = 0;
                    if self.deliver(&text, Some((out, id))).await {
                        return Ok(());
                    }
                }
            }
            tries += 1;
            let Some(last_id) = events.last_id().filter(|_| tries <= MOST_TRIES) else {
                return Err(self.cut_off());
            };
            tokio::time::sleep(wait(&events)).await;
            // The server received the request: no error of this one rejects it.
            response = self.get(Some(last_id)).await.map_err(|_| self.cut_off())?;
            if content_type(&response) != "text/event-stream" {
                return Err(self.cut_off());
            }
            events.continue_stream();
        }
    }

    /// Reads what belongs to no request, for as long as the server offers it.
    pub(super) fn listen(exchange: &Arc<Self>) {
        let listening = Arc::clone(exchange);
        let work = async move {
            let mut events = SseDecoder::with_limit(listening.limit_bytes);
            let mut tries = 0;
            while tries <= MOST_TRIES {
                tries += 1;
                match listening.get(events.last_id()).await {
                    Ok(mut response) if content_type(&response) == "text/event-stream" => {
                        while let Ok(Some(bytes)) = response.chunk().await {
                            let found = match events.push(&bytes) {
                                Ok(found) => found,
                                Err(error) => return drop(listening.unreadable(error)),
                            };
                            for text in found.into_iter().filter_map(message) {
                                tries = 0;
                                listening.deliver(&text, None).await;
                            }
                        }
                    }
                    Err(McpError::Unreachable { .. }) => {}
                    // It does not offer a stream, or the session is gone.
                    Ok(_) | Err(_) => return,
                }
                tokio::time::sleep(wait(&events)).await;
                events.continue_stream();
            }
        };
        let mut tasks = lock(&exchange.tasks);
        let before = tasks.listening.replace(tokio::spawn(work).abort_handle());
        if let Some(before) = before {
            before.abort();
        }
    }

    /// Converts the error of an invalid event stream.
    fn unreadable(&self, error: SseError) -> McpError {
        match error {
            SseError::TooLong { .. } => self.too_large(),
        }
    }

    /// Delivers messages; returns whether the answer to the request was among them.
    async fn deliver(&self, text: &str, request: Option<(&OutgoingMessage, &str)>) -> bool {
        // Masked before it is parsed: its content is printed, stored and sent to models.
        let text = json::decode(text.as_bytes()).text;
        let text = self.secrets.mask_json(text.trim());
        let text = &*text;
        let mut answered = false;
        // Older servers may put several messages into a list.
        let listed = text.starts_with('[').then(|| json::split_array(text).ok()).flatten();
        for text in listed.unwrap_or_else(|| vec![text]) {
            let is_answer = request.is_some_and(|(out, id)| self.is_answer(text, out, id));
            if let Some(message) = wire::received(text, &self.answers, &self.listener) {
                answered |= is_answer;
                // Fails only when the connection was closed.
                let _ = self.messages.send(message).await;
            }
        }
        answered
    }

    /// Whether a message answers a request; of the first answer the version is kept that all later
    /// requests name.
    fn is_answer(&self, text: &str, out: &OutgoingMessage, id: &str) -> bool {
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else { return false };
        let is_answer =
            envelope.method.is_none() && envelope.id.is_some_and(|found| found.get() == id);
        if is_answer
            && out.method == "initialize"
            && let Some(result) = envelope.result
            && let Ok(Hello { version: Some(version) }) = serde_json::from_str(result.get())
        {
            lock(&self.session).version = HeaderValue::from_str(&version).ok();
        }
        is_answer
    }

    /// Answers a request that the server will not answer.
    pub(super) async fn fail(&self, id: &str, error: McpError) {
        let why = error.to_string();
        self.answers.fail(id, error);
        if let Some(message) = wire::refused(id, &why) {
            let _ = self.messages.send(message).await;
        }
    }
}

#[derive(Deserialize)]
struct Hello {
    #[serde(rename = "protocolVersion")]
    version: Option<String>,
}

/// Returns the message in an event; `None` for events with another name.
fn message(event: SseEvent) -> Option<String> {
    let is_message = matches!(event.event.as_str(), "" | "message") && !event.data.is_empty();
    is_message.then_some(event.data)
}

/// The media type of an answer, without parameters.
fn content_type(response: &Response) -> String {
    let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = header.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

fn wait(events: &SseDecoder) -> Duration {
    events.retry().unwrap_or(USUAL_WAIT).clamp(SHORTEST_WAIT, LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_without_a_name_of_their_own_are_messages() {
        let mut events = SseDecoder::with_limit(1024);
        let stream =
            "event: ping\ndata: {}\n\nevent: message\ndata: []\n\nid: 8\ndata:\n\ndata: 1\n\n";
        let found = events.push(stream.as_bytes()).unwrap();
        let found: Vec<String> = found.into_iter().filter_map(message).collect();
        assert_eq!(found, ["[]", "1"]);
    }

    #[test]
    fn a_server_is_never_asked_again_without_pause() {
        let waits = |stated: &str| {
            let mut events = SseDecoder::with_limit(1024);
            events.push(stated.as_bytes()).unwrap();
            wait(&events)
        };
        assert_eq!(waits("retry: 0\n\n"), SHORTEST_WAIT);
        assert_eq!(waits("retry: 700\n\n"), Duration::from_millis(700));
        assert_eq!(waits("retry: 99999999\n\n"), LONGEST_WAIT);
        assert_eq!(waits("\n"), USUAL_WAIT);
    }
}
