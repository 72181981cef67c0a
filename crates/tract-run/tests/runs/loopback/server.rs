//! A server that says what was recorded, to requests that contain the conversation so far.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tract_testkit::loopback::{HttpAnswer, HttpRequest, Loopback};

use super::wire::{Request, Wire};
use crate::recorded::recording::{RecordedMessage, Recording, canonical};
use crate::recorded::simulated::AT_ITS_END;

pub(super) const KEY: &str = "sk-test-0123456789abcdef";

#[derive(Clone)]
pub(super) struct Server {
    loopback: Loopback,
    state: Arc<State>,
}

struct State {
    recordings: Vec<Arc<Recording>>,
    /// Whether results may say that they were lost.
    some_lost: bool,
    wrong: Mutex<Vec<String>>,
    served: AtomicUsize,
    streamed: AtomicUsize,
}

impl Server {
    /// Serves the n-th recording under `/n`, from 0.
    pub(super) fn start(recordings: Vec<Arc<Recording>>, some_lost: bool) -> Self {
        let state = Arc::new(State {
            recordings,
            some_lost,
            wrong: Mutex::default(),
            served: AtomicUsize::new(0),
            streamed: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&state);
        let loopback = Loopback::start(move |request| serving.answer(request)).unwrap();
        Self { loopback, state }
    }

    pub(super) fn url(&self, recording: usize, wire: Wire) -> String {
        match wire {
            Wire::OpenAi => self.loopback.url(&format!("/{recording}/v1")),
            Wire::Anthropic => self.loopback.url(&format!("/{recording}")),
        }
    }

    /// The requests that were not as they should be.
    pub(super) fn wrong(&self) -> Vec<String> {
        self.state.wrong.lock().unwrap().clone()
    }

    /// How many answers were given, and how many of them in events.
    pub(super) fn served(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.state.served), count(&self.state.streamed))
    }
}

impl State {
    fn answer(&self, request: &HttpRequest) -> HttpAnswer {
        let path = request.path.trim_start_matches('/');
        let (recording, path) = path.split_once('/').unwrap_or_default();
        let wire = match path {
            "v1/chat/completions" => Wire::OpenAi,
            _ => Wire::Anthropic,
        };
        let refused =
            |message: &str| HttpAnswer::new(400, "application/json", wire.refusal(message));
        let recording = recording.parse().ok().and_then(|n: usize| self.recordings.get(n));
        let matched = match recording {
            Some(recording) => self.read(wire, recording, path, request),
            None => Err("there is no such recording".to_owned()),
        };
        match (recording, matched) {
            (Some(recording), Ok((matched, spoken))) => {
                let Some(next) = recording.reply(spoken) else { return refused(AT_ITS_END) };
                self.served.fetch_add(1, Ordering::SeqCst);
                let (kind, body) = if matched.streams {
                    self.streamed.fetch_add(1, Ordering::SeqCst);
                    ("text/event-stream", wire.events(next).concat())
                } else {
                    ("application/json", wire.whole(next))
                };
                // In two pieces, so that no client may rely on one.
                let half = body.len() / 2;
                HttpAnswer::new(200, kind, body).cut(&[half])
            }
            (recording, matched) => {
                let why = matched.err().unwrap_or_default();
                let id = recording.map_or("", |recording| recording.id.as_str());
                let why = format!("{id} by {}: {why}", wire.word());
                let answer = refused(&why);
                self.wrong.lock().unwrap().push(why);
                answer
            }
        }
    }

    /// Reads a request and holds it against the recording; says how often the model has spoken.
    fn read(
        &self,
        wire: Wire,
        recording: &Recording,
        path: &str,
        http: &HttpRequest,
    ) -> Result<(Request, usize), String> {
        if !matches!(path, "v1/chat/completions" | "v1/messages") || http.method != "POST" {
            return Err(format!("expected a question, found {}", http.head));
        }
        let (name, value) = wire.key(KEY);
        if http.header(name) != Some(value.as_str()) {
            return Err(format!("expected the key in {name}"));
        }
        if wire == Wire::Anthropic && http.header("anthropic-version").is_none() {
            return Err("expected a version".to_owned());
        }
        let body: Value = serde_json::from_str(&http.body).map_err(|error| error.to_string())?;
        if body["model"] != "recorded" {
            return Err(format!("expected another model, found {}", body["model"]));
        }
        let request = wire.read(&body)?;
        tools_are(&request.tools, recording)?;
        let spoken = request.messages.iter().filter(|entry| entry.role == "assistant").count();
        is_so_far(&request.messages, recording.until(spoken), self.some_lost)?;
        Ok((request, spoken))
    }
}

fn tools_are(found: &[(String, Value)], recording: &Recording) -> Result<(), String> {
    let recorded = recording.conversation.tools.iter().map(|tool| {
        let tool: Value = serde_json::from_str(tool).unwrap();
        let function = &tool["function"];
        (function["name"].as_str().unwrap_or_default().to_owned(), function["parameters"].clone())
    });
    let recorded: BTreeMap<String, Value> = recorded.collect();
    for (name, schema) in &recorded {
        match found.iter().find(|(known, _)| known == name) {
            Some((_, known)) if known == schema => {}
            other => return Err(format!("expected {name} with {schema}, found {other:?}")),
        }
    }
    // A tool that is called without a recorded definition is known as well.
    let mut called = recording.messages.iter().flat_map(|entry| &entry.calls);
    let mut known =
        |name: &str| recorded.contains_key(name) || called.any(|call| call.name == name);
    match found.iter().find(|(name, _)| !known(name)) {
        None => Ok(()),
        Some((other, _)) => Err(format!("expected no tool {other:?}")),
    }
}

const LOST: [&str; 2] = ["interrupted, outcome unknown: ", "not executed: "];

/// Whether a request holds the conversation so far, and nothing else. An id that the recording has
/// used before may be another on the wire, as providers want it, in call and result alike.
fn is_so_far(
    found: &[RecordedMessage],
    recorded: &[RecordedMessage],
    some_lost: bool,
) -> Result<(), String> {
    let mut on_wire: HashMap<&str, &str> = HashMap::new();
    for (place, wanted) in recorded.iter().enumerate() {
        let wrong = |what: &str, found: &dyn std::fmt::Debug| {
            Err(format!("message {}: expected {what} of {wanted:?}, found {found:?}", place + 1))
        };
        let Some(entry) = found.get(place) else { return wrong("all", &"nothing") };
        if entry.role != wanted.role {
            return wrong("the role", entry);
        }
        // Where a wire has no word for a failure, the text says it.
        let plain = entry.text.strip_prefix("Error: ").unwrap_or(&entry.text);
        let lost = || LOST.iter().any(|text| plain.starts_with(text));
        // A text of blanks alone is refused by providers, and left out.
        let blank = wanted.text.trim().is_empty() && entry.text.is_empty();
        let is_lost = some_lost && wanted.role == "tool" && lost();
        if entry.text != wanted.text && !blank && !is_lost {
            return wrong("the text", entry);
        }
        if entry.calls.len() != wanted.calls.len() {
            return wrong("the calls", entry);
        }
        let known: Vec<&str> = on_wire.values().copied().collect();
        for (call, wanted) in entry.calls.iter().zip(&wanted.calls) {
            let free = if on_wire.contains_key(wanted.id.as_str()) {
                call.id == wanted.id || !known.contains(&call.id.as_str())
            } else {
                call.id == wanted.id
            };
            let arguments = canonical(&call.arguments) == canonical(&wanted.arguments);
            if call.name != wanted.name || !arguments || !free {
                return wrong("a call", call);
            }
            on_wire.insert(&wanted.id, &call.id);
        }
        match (&entry.answers, &wanted.answers) {
            (None, None) => {}
            (Some((id, _)), Some((wanted, _)))
                if on_wire.get(wanted.as_str()) == Some(&id.as_str()) => {}
            _ => return wrong("the call that is answered", entry),
        }
    }
    match found.get(recorded.len()) {
        Some(more) => Err(format!("expected no more than was recorded, found {more:?}")),
        None => Ok(()),
    }
}
