//! Checkpoints of LangGraph: a tree of states, each with the whole list of messages.
//!
//! Messages are dumps of Python classes in msgpack or JSON. The dumps are read; no class is ever
//! constructed, and what is pickled is not read at all. What is stored where is the matter of the two
//! savers, [`sqlite`] and [`postgres`]; what becomes of it is the same.

mod message;
mod msgpack;
#[cfg(feature = "langgraph-postgres")]
pub(crate) mod postgres;
#[cfg(feature = "databases")]
pub(crate) mod sqlite;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use self::message::messages;
use crate::document::Conversation;
use crate::recording::Cursor;
use crate::report::AnomalyKind;
use crate::values;

/// A checkpoint, in the order of thread, namespace and id.
pub(crate) struct Checkpoint {
    pub(crate) thread: String,
    pub(crate) namespace: Option<String>,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    /// What it holds, with the values of its channels; or why that cannot be read.
    pub(crate) state: Result<Value, &'static str>,
}

/// The threads of a database, one after the other.
#[derive(Default)]
pub(crate) struct Threads {
    open: Option<(String, Thread)>,
}

/// A thread while it is read.
#[derive(Default)]
struct Thread {
    conversation: Conversation,
    /// What each checkpoint shows.
    places: HashMap<String, Cursor>,
    answers: HashSet<String>,
}

impl Threads {
    /// Takes the next checkpoint; returns the thread before it, where this one begins another.
    pub(crate) fn add(&mut self, checkpoint: Checkpoint) -> Option<Conversation> {
        let Checkpoint { thread, namespace, id, parent, state } = checkpoint;
        let name = match namespace.filter(|space| !space.is_empty()) {
            Some(space) => format!("{thread}.{space}"),
            None => thread,
        };
        let before = match &self.open {
            Some((known, _)) if *known == name => None,
            _ => {
                let mut thread = Thread::default();
                thread.conversation.recording.has_forks = true;
                thread.conversation.facts.session = Some(name.clone());
                self.open.replace((name, thread))
            }
        };
        if let Some((_, thread)) = &mut self.open {
            thread.checkpoint(&id, parent.as_deref(), state);
        }
        before.map(|(_, thread)| thread.conversation)
    }

    /// Returns the thread that is read.
    #[cfg(feature = "langgraph-postgres")]
    pub(crate) fn current(&mut self) -> Option<&mut Conversation> {
        self.open.as_mut().map(|(_, thread)| &mut thread.conversation)
    }

    /// Ends the last thread.
    pub(crate) fn finish(self) -> Option<Conversation> {
        self.open.map(|(_, thread)| thread.conversation)
    }
}

impl Thread {
    fn checkpoint(&mut self, id: &str, parent: Option<&str>, state: Result<Value, &'static str>) {
        let recording = &mut self.conversation.recording;
        recording.report.lines += 1;
        let number = recording.report.lines;
        let mut cursor = match parent.map(|parent| self.places.get(parent)) {
            Some(Some(place)) => place.clone(),
            Some(None) => {
                let what = "the parent of the checkpoint is not there: it begins a branch";
                recording.odd(number, AnomalyKind::MissingParent, what);
                Cursor::default()
            }
            None => Cursor::default(),
        };
        match state {
            Ok(state) => {
                let at = values::time(state.get("ts").and_then(Value::as_str));
                let list = state.get("channel_values").and_then(messages_of);
                if let Some(list) = list {
                    let read = messages(list, number, at, recording, &mut self.answers);
                    recording.change_to(&mut cursor, 0, read);
                }
            }
            Err(what) => recording.odd(number, AnomalyKind::UnreadableLine, what),
        }
        self.places.insert(id.to_owned(), cursor);
    }
}

/// Reads a dump by the word for its encoding.
fn decode(kind: Option<&str>, bytes: &[u8]) -> Result<Value, &'static str> {
    match kind {
        Some("msgpack") => msgpack::decode(bytes).ok_or("a checkpoint that is no msgpack"),
        Some("json") | None => {
            serde_json::from_slice(bytes).map_err(|_| "a checkpoint that is no JSON")
        }
        Some("pickle") => Err("a pickled checkpoint: reading it would run code, so it is not read"),
        Some(_) => Err("a checkpoint in an unknown encoding"),
    }
}

/// The channel that holds the messages, where a graph does not call it otherwise.
const MESSAGES: &str = "messages";

/// The list of messages of a state: `messages`, or the channel with the most.
fn messages_of(channels: &Value) -> Option<&Vec<Value>> {
    let channels = channels.as_object()?;
    if let Some(list) = channels.get(MESSAGES).and_then(Value::as_array) {
        return Some(list);
    }
    let is_list = |(_, list): &(&String, &Vec<Value>)| list.iter().any(message::is_message);
    let lists = channels.iter().filter(|(name, _)| *name != "__start__");
    let lists = lists.filter_map(|(name, value)| Some((name, value.as_array()?))).filter(is_list);
    lists.max_by_key(|(name, list)| (list.len(), *name)).map(|(_, list)| list)
}
