//! The SQLite saver: a table of checkpoints, each stored as one dump.

use std::io;
use std::path::Path;

use rusqlite::Connection;

use super::{Checkpoint, Threads, decode};
use crate::document::Document;
use crate::sqlite::{failure, open_database, tables};

fn has_tables(database: &Connection) -> rusqlite::Result<bool> {
    let wanted = ["thread_id", "checkpoint_id", "parent_checkpoint_id", "checkpoint"];
    let tables = tables(database)?;
    let table = tables.iter().find(|(name, _)| name == "checkpoints");
    Ok(table.is_some_and(|(_, columns)| wanted.iter().all(|c| columns.iter().any(|n| n == c))))
}

/// Returns whether a database has such tables.
pub(crate) fn is_one(path: &Path) -> bool {
    open_database(path).ok().is_some_and(|database| has_tables(&database).unwrap_or_default())
}

pub(crate) fn read(path: &Path, channels: &[String]) -> io::Result<Document> {
    let database = open_database(path)?;
    if !has_tables(&database).map_err(failure)? {
        return Err(failure("no checkpoints of LangGraph"));
    }
    threads(&database, channels).map_err(failure)
}

fn threads(database: &Connection, channels: &[String]) -> rusqlite::Result<Document> {
    let mut statement = database.prepare(
        "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint \
         FROM checkpoints ORDER BY thread_id, checkpoint_ns, checkpoint_id",
    )?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    let mut threads = Threads::new(channels);
    while let Some(row) = rows.next()? {
        let kind: Option<String> = row.get(4)?;
        let bytes = match row.get_ref(5)? {
            rusqlite::types::ValueRef::Blob(bytes) | rusqlite::types::ValueRef::Text(bytes) => {
                bytes
            }
            _ => &[],
        };
        let mut damage = Vec::new();
        let state = decode(kind.as_deref(), bytes, &mut damage);
        all.extend(threads.add(Checkpoint {
            thread: row.get(0)?,
            namespace: row.get(1)?,
            id: row.get(2)?,
            parent: row.get(3)?,
            state,
            damage,
        }));
    }
    all.extend(threads.finish());
    Ok(all)
}
