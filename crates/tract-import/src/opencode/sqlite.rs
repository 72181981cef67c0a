//! OpenCode's database: tables of sessions, messages and parts, with their members as JSON in
//! `data`.

use std::io;
use std::path::Path;

use rusqlite::{Connection, Row};
use serde_json::{Map, Value};

use super::Session;
use crate::damage::decode_noting;
use crate::document::Conversation;
use crate::object::Object;
use crate::report::AnomalyKind;
use crate::sqlite::{failure, has_tables, is_database_with, open_database};

/// The tables to read, with their characteristic columns.
const TABLES: [(&str, &[&str]); 3] = [
    ("session", &["id"]),
    ("message", &["id", "session_id", "data"]),
    ("part", &["id", "message_id", "session_id", "data"]),
];

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
        return Err(failure("no sessions of OpenCode").into());
    }
    let sessions = sessions(&database).map_err(failure)?;
    for (id, text, damage) in sessions {
        let mut session = Session::of_text(&text);
        session.conversation().recording.odds(0, damage);
        session.conversation().facts.session = Some(id.clone());
        messages(&database, &id, &mut session).map_err(failure)?;
        each(session.finish())?;
    }
    Ok(())
}

/// The replacements in a text.
type Damage = Vec<(AnomalyKind, String)>;

/// Returns the sessions, oldest first, each with its columns as members.
fn sessions(database: &Connection) -> rusqlite::Result<Vec<(String, String, Damage)>> {
    let mut statement = database.prepare("SELECT * FROM session ORDER BY id")?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let (mut members, mut damage) = (Map::new(), Damage::new());
        for (n, name) in names.iter().enumerate() {
            if let Some(value) = column(row, n, &mut damage)? {
                members.insert(name.clone(), value);
            }
        }
        let id: String = row.get("id")?;
        all.push((id, Value::Object(members).to_string(), damage));
    }
    Ok(all)
}

fn column(row: &Row<'_>, n: usize, damage: &mut Damage) -> rusqlite::Result<Option<Value>> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(n)? {
        ValueRef::Integer(number) => Some(number.into()),
        ValueRef::Real(number) => Some(number.into()),
        ValueRef::Text(bytes) => {
            let text = decode_noting(bytes, damage);
            // Some columns contain JSON, such as the one for reverted messages.
            let object = serde_json::from_str(&text).ok().filter(Value::is_object);
            Some(object.unwrap_or(Value::String(text)))
        }
        ValueRef::Blob(_) | ValueRef::Null => None,
    })
}

fn messages(database: &Connection, id: &str, session: &mut Session) -> rusqlite::Result<()> {
    // Ids of messages and parts increase with time.
    let mut statement = database
        .prepare_cached("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY id")?;
    let mut parts_of =
        database.prepare_cached("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let mut damage = Damage::new();
        let (message, data) = (row.get::<_, String>(0)?, text(row, 1, &mut damage)?);
        let mut texts = Vec::new();
        let mut rows = parts_of.query([&message])?;
        while let Some(row) = rows.next()? {
            texts.push(text(row, 1, &mut damage)?);
        }
        let is_object = Object::parse(&data).is_some();
        if !is_object {
            let what = "a message whose data are not an object in JSON";
            session.conversation().recording.unreadable(0, what);
        }
        session.note_damage(damage);
        let info = if is_object { data.as_str() } else { "{}" };
        session.message_of_texts(Some(&message), info, &texts);
    }
    Ok(())
}

fn text(row: &Row<'_>, n: usize, damage: &mut Damage) -> rusqlite::Result<String> {
    use rusqlite::types::ValueRef;
    let bytes = match row.get_ref(n)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        _ => &[],
    };
    Ok(decode_noting(bytes, damage))
}
