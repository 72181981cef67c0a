//! Checkpoints of LangGraph: a tree of states, each with the whole list of messages.
//!
//! Messages are dumps of Python classes in msgpack or JSON. The dumps are parsed without ever
//! constructing a class, and pickled data is not read at all. The two savers, [`sqlite`] and
//! [`postgres`], differ in where they store the data; the conversion is the same.

mod msgpack;
#[cfg(feature = "langgraph-postgres")]
pub(crate) mod postgres;
#[cfg(feature = "databases")]
pub(crate) mod sqlite;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, JsonText, Role};

use crate::damage::decode_noting;
use crate::document::Conversation;
use crate::langchain::message::{is_dump, messages};
use crate::misfits;
use crate::recording::{Cursor, RecordedMessage, Recording};
use crate::report::AnomalyKind;
use crate::values::{self, recorded};

/// A checkpoint, in the order of thread, namespace and id.
pub(crate) struct Checkpoint {
    pub(crate) thread: String,
    pub(crate) namespace: Option<String>,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    /// Its state with the values of its channels, or the reason why it cannot be read.
    pub(crate) state: Result<Value, &'static str>,
    /// Damaged text that was replaced in it.
    pub(crate) damage: Vec<(AnomalyKind, String)>,
}

/// The threads of a database, one by one.
pub(crate) struct Threads {
    open: Option<(String, Thread)>,
    /// The channels to read instead of a list of messages.
    texts: Vec<TextChannel>,
}

/// A channel whose value is a text of one role.
#[derive(Clone, Debug)]
struct TextChannel {
    name: String,
    role: Role,
}

impl TextChannel {
    /// Parses `NAME` or `NAME:ROLE`. The default role is the user.
    fn parse(word: &str) -> Self {
        let named = word.rsplit_once(':').and_then(|(name, role)| {
            let role = match role {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                "system" => Role::System,
                _ => return None,
            };
            Some(Self { name: name.to_owned(), role })
        });
        named.unwrap_or_else(|| Self { name: word.to_owned(), role: Role::User })
    }

    /// Creates the message for a value.
    fn draft(&self, value: &Value) -> Option<Draft> {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            value => JsonText::of(value).ok()?.as_str().to_owned(),
        };
        if text.is_empty() {
            return None;
        }
        Some(match self.role {
            Role::Assistant => Draft::assistant(text),
            Role::System => Draft::system(text),
            _ => Draft::user(text),
        })
    }
}

/// A thread while it is read.
#[derive(Default)]
struct Thread {
    conversation: Conversation,
    /// The messages and texts at each checkpoint.
    places: HashMap<String, ThreadStep>,
    /// The answers that were counted, and the members that were reported.
    seen: HashSet<String>,
    /// The channels of states without a list of messages.
    channels: BTreeSet<String>,
    /// Damage that was reported: each checkpoint contains the whole list of messages again.
    damage: HashSet<String>,
}

/// The state of the conversation at a checkpoint: its messages, and the texts of the channels to
/// read.
#[derive(Clone, Default)]
struct ThreadStep {
    cursor: Cursor,
    texts: Vec<Option<Value>>,
}

impl Threads {
    /// Starts with the channels to read as texts, each as `NAME` or `NAME:ROLE`.
    pub(crate) fn new(channels: &[String]) -> Self {
        Self { open: None, texts: channels.iter().map(|word| TextChannel::parse(word)).collect() }
    }

    /// Adds the next checkpoint. Returns the previous thread if this one starts another.
    pub(crate) fn add(&mut self, checkpoint: Checkpoint) -> Option<Conversation> {
        let Checkpoint { thread, namespace, id, parent, state, damage } = checkpoint;
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
            thread.checkpoint(&id, parent.as_deref(), state, &self.texts);
            thread.note_damage(damage);
        }
        before.map(|(_, thread)| thread.end())
    }

    /// Returns the current thread.
    #[cfg(feature = "langgraph-postgres")]
    pub(crate) fn current(&mut self) -> Option<&mut Conversation> {
        self.open.as_mut().map(|(_, thread)| &mut thread.conversation)
    }

    /// Ends the last thread.
    pub(crate) fn finish(self) -> Option<Conversation> {
        self.open.map(|(_, thread)| thread.end())
    }
}

impl Thread {
    /// Ends the thread. Reports the channels of a thread without messages.
    fn end(self) -> Conversation {
        let mut conversation = self.conversation;
        if conversation.recording.starts.is_empty() {
            conversation.recording.report.channels = self.channels.into_iter().collect();
        }
        conversation
    }

    /// Records the damage of the latest checkpoint.
    fn note_damage(&mut self, damage: Vec<(AnomalyKind, String)>) {
        let line = self.conversation.recording.report.lines;
        for (kind, what) in damage {
            if self.damage.insert(what.clone()) {
                self.conversation.recording.odd(line, kind, what);
            }
        }
    }

    fn checkpoint(
        &mut self,
        id: &str,
        parent: Option<&str>,
        state: Result<Value, &'static str>,
        texts: &[TextChannel],
    ) {
        let recording = &mut self.conversation.recording;
        recording.report.lines += 1;
        let number = recording.report.lines;
        let mut place = match parent.map(|parent| self.places.get(parent)) {
            Some(Some(place)) => place.clone(),
            Some(None) => {
                let what = "the parent of the checkpoint is not there: it begins a branch";
                recording.odd(number, AnomalyKind::MissingParent, what);
                ThreadStep::default()
            }
            None => ThreadStep::default(),
        };
        match state {
            Ok(state) => {
                let at = values::time(state.get("ts").and_then(Value::as_str));
                let channels = state.get("channel_values");
                for what in unfit_members(&state, texts.is_empty()) {
                    if self.damage.insert(what.clone()) {
                        recording.unreadable(number, what);
                    }
                }
                if !texts.is_empty() {
                    say_texts(recording, &mut place, texts, channels, (number, at));
                } else if let Some(list) = channels.and_then(messages_of) {
                    let text = serde_json::to_string(list).unwrap_or_default();
                    let (read, misfits) = misfits::watch_within(MESSAGES, &text, || {
                        let list: Vec<&RawValue> = serde_json::from_str(&text).unwrap_or_default();
                        messages(&list, number, at, recording, &mut self.seen)
                    });
                    // Each checkpoint contains the whole list of messages again.
                    for (_, what) in misfits {
                        if self.damage.insert(what.clone()) {
                            recording.unreadable(number, what);
                        }
                    }
                    recording.change_to(&mut place.cursor, 0, read);
                } else {
                    let names = channels.and_then(Value::as_object).into_iter().flatten();
                    let names = names.map(|(name, _)| name);
                    let own = |name: &&String| !name.starts_with("__") && !name.contains(':');
                    self.channels.extend(names.filter(own).take(MAX_CHANNELS).cloned());
                }
            }
            Err(what) => recording.odd(number, AnomalyKind::UnreadableLine, what),
        }
        self.places.insert(id.to_owned(), place);
    }
}

/// Describes the members of a state that are not read because of their type.
fn unfit_members(state: &Value, has_messages: bool) -> Vec<String> {
    if !state.is_object() {
        return vec![misfits::unread("checkpoint", state)];
    }
    let channels = state.get("channel_values");
    let messages = channels.and_then(|channels| channels.get(MESSAGES));
    let messages = messages.filter(|_| has_messages);
    let is_unfit = |value: &Value, fits: bool| !fits && !value.is_null();
    let ts = state.get("ts").filter(|ts| is_unfit(ts, ts.is_string()));
    let messages = messages.filter(|messages| is_unfit(messages, messages.is_array()));
    let channels = channels.filter(|channels| is_unfit(channels, channels.is_object()));
    let members = [("ts", ts), ("channel_values", channels), ("channel_values.messages", messages)];
    members.iter().filter_map(|(path, value)| Some(misfits::unread(path, (*value)?))).collect()
}

/// Maximum number of channels that a report names.
const MAX_CHANNELS: usize = 50;

/// Adds the texts of channels that changed since the previous checkpoint, in the given order of
/// channels.
fn say_texts(
    recording: &mut Recording,
    place: &mut ThreadStep,
    texts: &[TextChannel],
    channels: Option<&Value>,
    (line, at): (usize, Option<i64>),
) {
    place.texts.resize(texts.len(), None);
    for (channel, before) in texts.iter().zip(&mut place.texts) {
        let value = channels.and_then(|channels| channels.get(&channel.name));
        if value == before.as_ref() {
            continue;
        }
        *before = value.cloned();
        let Some(draft) = value.and_then(|value| channel.draft(value)) else { continue };
        if matches!(draft.content, Content::Assistant(_)) {
            recording.answer(None, None);
            recording.end_answer(&place.cursor);
        }
        let message = RecordedMessage { id: None, line, draft: recorded(draft, None, at) };
        recording.append(&mut place.cursor, message);
    }
}

/// Decodes a dump by the name of its encoding. Replacements are added to `damage`.
fn decode(
    kind: Option<&str>,
    bytes: &[u8],
    damage: &mut Vec<(AnomalyKind, String)>,
) -> Result<Value, &'static str> {
    match kind {
        Some("msgpack") => msgpack::decode(bytes, damage).ok_or("a checkpoint that is no msgpack"),
        Some("json") | None => {
            let text = decode_noting(bytes, damage);
            serde_json::from_str(&text).map_err(|_| "a checkpoint that is no JSON")
        }
        Some("pickle") => Err("a pickled checkpoint: reading it would run code, so it is not read"),
        Some(_) => Err("a checkpoint in an unknown encoding"),
    }
}

/// The default name of the channel with the messages.
const MESSAGES: &str = "messages";

/// Returns the list of messages of a state: `messages`, or the channel with the most messages.
fn messages_of(channels: &Value) -> Option<&Vec<Value>> {
    let channels = channels.as_object()?;
    if let Some(list) = channels.get(MESSAGES).and_then(Value::as_array) {
        return Some(list);
    }
    let is_list = |(_, list): &(&String, &Vec<Value>)| list.iter().any(is_dump);
    let lists = channels.iter().filter(|(name, _)| *name != "__start__");
    let lists = lists.filter_map(|(name, value)| Some((name, value.as_array()?))).filter(is_list);
    lists.max_by_key(|(name, list)| (list.len(), *name)).map(|(_, list)| list)
}
