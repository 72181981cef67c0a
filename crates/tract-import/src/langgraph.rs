//! Checkpoints of LangGraph in SQLite: a tree of states, each with the whole list of messages.
//!
//! Messages are dumps of Python classes in msgpack or JSON. The dumps are read; no class is ever
//! constructed, and what is pickled is not read at all.

mod message;
mod msgpack;

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use self::message::messages;
use crate::document::{Conversation, Document};
use crate::recording::Cursor;
use crate::report::AnomalyKind;
use crate::sqlite::{failure, open_database, tables};
use crate::values;

fn has_tables(database: &Connection) -> rusqlite::Result<bool> {
    let wanted = ["thread_id", "checkpoint_id", "parent_checkpoint_id", "checkpoint"];
    let tables = tables(database)?;
    let table = tables.iter().find(|(name, _)| name == "checkpoints");
    Ok(table.is_some_and(|(_, columns)| wanted.iter().all(|c| columns.iter().any(|n| n == c))))
}

/// Whether a database has such tables.
pub(crate) fn is_one(path: &Path) -> bool {
    open_database(path).ok().is_some_and(|database| has_tables(&database).unwrap_or_default())
}

pub(crate) fn read(path: &Path) -> io::Result<Document> {
    let database = open_database(path)?;
    if !has_tables(&database).map_err(failure)? {
        return Err(failure("no checkpoints of LangGraph"));
    }
    threads(&database).map_err(failure)
}

/// A thread while it is read.
struct Thread {
    conversation: Conversation,
    /// What each checkpoint shows.
    places: HashMap<String, Cursor>,
    answers: std::collections::HashSet<String>,
}

fn threads(database: &Connection) -> rusqlite::Result<Document> {
    let mut statement = database.prepare(
        "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint \
         FROM checkpoints ORDER BY thread_id, checkpoint_ns, checkpoint_id",
    )?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    let mut open: Option<(String, Thread)> = None;
    while let Some(row) = rows.next()? {
        let (thread, space): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        let (id, parent): (String, Option<String>) = (row.get(2)?, row.get(3)?);
        let kind: Option<String> = row.get(4)?;
        let bytes = match row.get_ref(5)? {
            rusqlite::types::ValueRef::Blob(bytes) | rusqlite::types::ValueRef::Text(bytes) => {
                bytes
            }
            _ => &[],
        };
        let space = space.filter(|space| !space.is_empty());
        let name = match space {
            Some(space) => format!("{thread}.{space}"),
            None => thread,
        };
        if open.as_ref().is_none_or(|(known, _)| *known != name) {
            all.extend(open.take().map(|(_, thread)| thread.conversation));
            let mut conversation = Conversation::default();
            conversation.recording.has_forks = true;
            conversation.facts.session = Some(name.clone());
            let (places, answers) = (HashMap::new(), std::collections::HashSet::new());
            open = Some((name, Thread { conversation, places, answers }));
        }
        if let Some((_, thread)) = &mut open {
            thread.checkpoint(&id, parent.as_deref(), kind.as_deref(), bytes);
        }
    }
    all.extend(open.map(|(_, thread)| thread.conversation));
    Ok(all)
}

impl Thread {
    fn checkpoint(&mut self, id: &str, parent: Option<&str>, kind: Option<&str>, bytes: &[u8]) {
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
        match decode(kind, bytes) {
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

/// The list of messages of a state: `messages`, or the channel with the most.
fn messages_of(channels: &Value) -> Option<&Vec<Value>> {
    let channels = channels.as_object()?;
    let is_list = |value: &&Vec<Value>| value.iter().any(message::is_message);
    if let Some(list) = channels.get("messages").and_then(Value::as_array) {
        return Some(list);
    }
    let lists = channels.iter().filter(|(name, _)| *name != "__start__");
    let lists = lists.filter_map(|(_, value)| value.as_array()).filter(is_list);
    lists.max_by_key(|list| list.len())
}
