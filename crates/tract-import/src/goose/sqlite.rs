//! Goose's database: a table of sessions, and one of messages.

use std::io;
use std::path::Path;

use rusqlite::Connection;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::GooseReader;
use crate::damage::{decode_noting, read_object};
use crate::document::Conversation;
use crate::object::Object;
use crate::report::{AnomalyKind, TokenTotals};
use crate::sqlite::{failure, has_tables, is_database_with, open_database};

/// The tables to read, with their characteristic columns.
const TABLES: [(&str, &[&str]); 2] =
    [("sessions", &["id", "working_dir"]), ("messages", &["session_id", "role", "content_json"])];

/// Returns whether a file is such a database.
pub(crate) fn is_one(path: &Path) -> bool {
    is_database_with(path, &TABLES)
}

/// Reads the sessions one by one.
pub(crate) fn read<E: From<io::Error>>(
    path: &Path,
    mut each: impl FnMut(Conversation) -> Result<(), E>,
) -> Result<(), E> {
    let database = open_database(path)?;
    if !has_tables(&database, &TABLES).map_err(failure)? {
        return Err(failure("no sessions of Goose").into());
    }
    let sessions = rows(&database, "SELECT * FROM sessions ORDER BY id", None).map_err(failure)?;
    for (session, damage) in sessions {
        let Some(id) = session.get("id").and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        let mut reader = GooseReader::default();
        reader.recording.odds(0, damage);
        let text = |name: &str| {
            let text = session.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        if let Some(text) = text("model_config_json") {
            let name = |config: &Object<'_>| config.text("model_name");
            let (model, odds) = read_object("model_config_json", &text, name);
            reader.model = model;
            reader.recording.odds(0, odds);
        }
        reader.facts.session = Some(id.clone());
        reader.facts.title = text("name").or_else(|| text("description"));
        reader.facts.cwd = text("working_dir");
        let count = |name: &str| session.get(name).and_then(Value::as_u64).unwrap_or_default();
        // Only the session has tokens; its messages have none.
        let (input, output) =
            (count("accumulated_input_tokens"), count("accumulated_output_tokens"));
        if input > 0 || output > 0 {
            let usage = TokenTotals { input, output, ..TokenTotals::default() };
            reader.recording.report.tokens = usage;
            let model = reader.model.clone();
            reader.facts.run = Some(crate::facts::RunTotals { model, ..Default::default() });
        }
        let query = "SELECT * FROM messages WHERE session_id = ?1 ORDER BY rowid";
        let rows = rows(&database, query, Some(&id)).map_err(failure)?;
        for (n, (row, damage)) in rows.into_iter().enumerate() {
            reader.recording.odds(n + 1, damage);
            message(&mut reader, n + 1, &row);
        }
        reader.end();
        let facts = std::mem::take(&mut reader.facts);
        let recording = std::mem::take(&mut reader.recording);
        each(Conversation { recording, facts, ..Conversation::default() })?;
    }
    Ok(())
}

fn message(reader: &mut GooseReader, number: usize, row: &Value) {
    reader.recording.report.lines += 1;
    let member = |name: &str| row.get(name).cloned().unwrap_or_default();
    let content = member("content_json");
    let metadata = member("metadata_json");
    let metadata = match metadata.as_str().map(serde_json::from_str::<Value>) {
        Some(Err(_)) => {
            reader.recording.unreadable(number, "a message whose metadata_json is not JSON");
            Value::Null
        }
        Some(Ok(metadata)) => metadata,
        None => Value::Null,
    };
    let id = row.get("message_id").filter(|id| id.is_string()).or_else(|| row.get("id")).cloned();
    let message = json!({
        "id": id,
        "role": member("role"),
        "created": member("created_timestamp"),
        "metadata": metadata,
    });
    let content = content.as_str().unwrap_or_default();
    if serde_json::from_str::<Vec<IgnoredAny>>(content).is_err() {
        let what = "a message whose content_json is not a list in JSON";
        return reader.recording.unreadable(number, what);
    }
    let text = format!(r#"{{"message":{message},"content":{content}}}"#);
    let ((), odds) = read_object("", &text, |row| {
        let message = row.object("message").unwrap_or_default();
        reader.message(number, &message, &row.list("content"));
    });
    reader.recording.odds(number, odds);
}

/// A row as an object, and the replacements in it.
type ReadRow = (Value, Vec<(AnomalyKind, String)>);

fn rows(database: &Connection, query: &str, id: Option<&str>) -> rusqlite::Result<Vec<ReadRow>> {
    use rusqlite::types::ValueRef;
    let mut statement = database.prepare_cached(query)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query(rusqlite::params_from_iter(id))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let (mut members, mut damage) = (serde_json::Map::new(), Vec::new());
        for (n, name) in names.iter().enumerate() {
            let value = match row.get_ref(n)? {
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(bytes) => decode_noting(bytes, &mut damage).into(),
                ValueRef::Blob(_) | ValueRef::Null => continue,
            };
            members.insert(name.clone(), value);
        }
        all.push((Value::Object(members), damage));
    }
    Ok(all)
}
