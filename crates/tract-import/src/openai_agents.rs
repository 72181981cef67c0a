//! Session tables of OpenAI's Agents SDK in SQLite: items of the Responses API, one per row, and in
//! the advanced schema the branches that list them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;

use rusqlite::Connection;
use serde_json::value::RawValue;
use tract_core::{Content, RefName, json};

use crate::damage::{last_of_repeated, replacements};
use crate::document::{Conversation, Document};
use crate::recording::{Cursor, RecordedMessage};
use crate::report::{AnomalyKind, TokenTotals};
use crate::sqlite::{failure, open_database, quoted, tables};
use crate::{misfits, responses, values};

/// The names of the tables, which an application may choose.
struct Schema {
    messages: String,
    structure: Option<String>,
    usage: Option<String>,
}

fn schema(database: &Connection) -> rusqlite::Result<Option<Schema>> {
    let tables = tables(database)?;
    let with = |wanted: &[&str]| {
        let has =
            |columns: &Vec<String>| wanted.iter().all(|name| columns.iter().any(|c| c == name));
        tables.iter().find(|(_, columns)| has(columns)).map(|(name, _)| name.clone())
    };
    let messages = with(&["id", "session_id", "message_data"]);
    let structure = with(&["session_id", "message_id", "branch_id", "sequence_number"]);
    let usage = with(&["session_id", "requests", "input_tokens", "output_tokens"]);
    Ok(messages.map(|messages| Schema { messages, structure, usage }))
}

/// Returns whether a database has such tables.
pub(crate) fn is_one(path: &Path) -> bool {
    let found = open_database(path).ok().and_then(|database| schema(&database).ok().flatten());
    found.is_some()
}

/// A row with an item.
struct Row {
    id: i64,
    item: Vec<u8>,
    created_at: Option<String>,
}

pub(crate) fn read(path: &Path) -> io::Result<Document> {
    let database = open_database(path)?;
    let schema = schema(&database).map_err(failure)?;
    let schema = schema.ok_or_else(|| failure("no table of sessions of the Agents SDK"))?;
    let sessions = rows(&database, &schema).map_err(failure)?;
    let branches = match &schema.structure {
        Some(table) => branches(&database, table).map_err(failure)?,
        None => HashMap::new(),
    };
    let usage = match &schema.usage {
        Some(table) => usage(&database, table).map_err(failure)?,
        None => Vec::new(),
    };
    let mut all = Vec::with_capacity(sessions.len());
    for (session, rows) in sessions {
        let mut conversation = Conversation::default();
        conversation.recording.has_forks = true;
        conversation.recording.report.lines = rows.len();
        for (of, requests, totals) in &usage {
            if *of == session {
                let run = conversation.facts.run.get_or_insert_default();
                run.requests = Some(run.requests.unwrap_or_default() + requests);
                for n in 0..*requests {
                    conversation.recording.answer(None, (n == 0).then_some(totals));
                }
            }
        }
        match branches.get(&session) {
            Some(branches) => say_branches(&mut conversation, &rows, branches),
            None => {
                for row in &rows {
                    if let Some(message) = message(&mut conversation, row) {
                        conversation.recording.append(&mut conversation.cursor, message);
                    }
                }
            }
        }
        conversation.facts.session = Some(session);
        all.push(conversation);
    }
    Ok(all)
}

fn rows(database: &Connection, schema: &Schema) -> rusqlite::Result<BTreeMap<String, Vec<Row>>> {
    let table = quoted(&schema.messages);
    let has_time = database.prepare(&format!("SELECT created_at FROM {table} LIMIT 0")).is_ok();
    let time = if has_time { "CAST(created_at AS TEXT)" } else { "NULL" };
    let mut statement = database.prepare(&format!(
        "SELECT CAST(session_id AS TEXT), id, CAST(message_data AS BLOB), {time} FROM {table} ORDER BY id"
    ))?;
    let mut sessions: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let read = Row { id: row.get(1)?, item: row.get(2)?, created_at: row.get(3)? };
        sessions.entry(row.get(0)?).or_default().push(read);
    }
    Ok(sessions)
}

/// The branches of a session in the order in which they start, each with the ids that it lists.
type Branches = Vec<(String, Vec<i64>)>;

fn branches(database: &Connection, table: &str) -> rusqlite::Result<HashMap<String, Branches>> {
    let mut statement = database.prepare(&format!(
        "SELECT CAST(session_id AS TEXT), CAST(branch_id AS TEXT), message_id FROM {} \
         ORDER BY sequence_number, message_id",
        quoted(table)
    ))?;
    let mut sessions: HashMap<String, Branches> = HashMap::new();
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let (session, branch): (String, String) = (row.get(0)?, row.get(1)?);
        let branches = sessions.entry(session).or_default();
        let at = branches.iter().position(|(name, _)| *name == branch).unwrap_or_else(|| {
            branches.push((branch, Vec::new()));
            branches.len() - 1
        });
        if let Some((_, ids)) = branches.get_mut(at) {
            ids.push(row.get(2)?);
        }
    }
    Ok(sessions)
}

fn usage(database: &Connection, table: &str) -> rusqlite::Result<Vec<(String, u64, TokenTotals)>> {
    #[derive(serde::Deserialize)]
    struct Details {
        cached_tokens: Option<u64>,
        cache_write_tokens: Option<u64>,
    }
    let mut statement = database.prepare(&format!(
        "SELECT CAST(session_id AS TEXT), requests, input_tokens, output_tokens, \
         CAST(input_tokens_details AS TEXT) FROM {}",
        quoted(table)
    ))?;
    let of = |row: &rusqlite::Row<'_>| {
        let number = |n: usize| -> rusqlite::Result<u64> {
            let value: Option<i64> = row.get(n)?;
            Ok(value.and_then(|value| u64::try_from(value).ok()).unwrap_or_default())
        };
        let details: Option<String> = row.get(4)?;
        let details = details.and_then(|text| serde_json::from_str::<Details>(&text).ok());
        let cached = details.as_ref().and_then(|details| details.cached_tokens).unwrap_or_default();
        let written = details.and_then(|details| details.cache_write_tokens).unwrap_or_default();
        let input = number(2)?.saturating_sub(cached).saturating_sub(written);
        let totals = TokenTotals {
            input,
            output: number(3)?,
            cache_read: cached,
            cache_write: written,
            ..TokenTotals::default()
        };
        // Bounds the work for a hostile row.
        Ok((row.get(0)?, number(1)?.min(10_000), totals))
    };
    statement.query_map([], of)?.collect()
}

fn message(conversation: &mut Conversation, row: &Row) -> Option<RecordedMessage> {
    let line = usize::try_from(row.id).unwrap_or_default();
    let decoded = json::decode(&row.item);
    for (kind, what) in replacements(&decoded) {
        conversation.recording.odd(line, kind, what);
    }
    let recording = &mut conversation.recording;
    let text = last_of_repeated(&decoded.text).map_or(decoded.text, |(text, what)| {
        recording.odd(line, AnomalyKind::DamagedLine, what);
        text.into()
    });
    let Ok(raw) = RawValue::from_string(text.into_owned()) else {
        recording.unreadable(line, "an item that is not JSON");
        return None;
    };
    let mut unread = Vec::new();
    let (draft, misfits) = misfits::watch(raw.get(), || responses::draft(&raw, &mut unread));
    unread.into_iter().for_each(|what| recording.unreadable(line, what));
    let draft = draft.map_err(|what| recording.unreadable(line, what)).ok()?;
    misfits.into_iter().for_each(|(_, what)| recording.unreadable(line, what));
    let at = values::time(row.created_at.as_deref());
    Some(RecordedMessage { id: None, line, draft: values::recorded(draft, None, at) })
}

/// Adds each branch from the point where it leaves an earlier one. Rows in both are the shared
/// start.
fn say_branches(conversation: &mut Conversation, rows: &[Row], branches: &Branches) {
    // Each row is read once, for any number of branches that list it; `None` for an unknown format.
    let mut read: HashMap<i64, Option<RecordedMessage>> = HashMap::new();
    let listed: HashSet<i64> = branches.iter().flat_map(|(_, ids)| ids).copied().collect();
    for row in rows {
        if listed.contains(&row.id) {
            read.insert(row.id, message(conversation, row));
        } else {
            let is_message = responses_content(row);
            conversation.recording.skip(if is_message { "item of no branch" } else { "untyped" });
        }
    }
    // The readable rows of each branch, and its end.
    let mut heads: Vec<(Vec<i64>, Cursor)> = Vec::new();
    for (name, ids) in branches {
        let mut own = Vec::with_capacity(ids.len());
        for id in ids {
            match read.get(id) {
                Some(Some(_)) => own.push(*id),
                Some(None) => {}
                None => {
                    let what = format!("branch {name:?} lists row {id}, which is not there");
                    conversation.recording.odd(0, AnomalyKind::MissingParent, what);
                }
            }
        }
        let same = |other: &[i64]| other.iter().zip(&own).take_while(|(a, b)| a == b).count();
        let best = heads.iter().max_by_key(|(other, _)| same(other));
        let (shared, mut cursor) = match best {
            Some((other, cursor)) => (same(other), cursor.clone()),
            None => (0, Cursor::default()),
        };
        cursor.truncate(shared);
        let shared = cursor.entries().len();
        if !heads.is_empty() {
            let suffix = format!(".{}", RefName::distinct(name));
            conversation.recording.fork(&mut cursor, Some(suffix));
        }
        for message in own.iter().skip(shared).filter_map(|id| read.get(id)?.clone()) {
            conversation.recording.append(&mut cursor, message);
        }
        heads.push((own, cursor));
    }
}

fn responses_content(row: &Row) -> bool {
    let text = json::decode(&row.item).text;
    let raw = RawValue::from_string(text.into_owned()).ok();
    let draft = raw.as_ref().map(|raw| responses::draft(raw, &mut Vec::new()));
    draft.is_some_and(|draft| draft.is_ok_and(|draft| !matches!(draft.content, Content::Note(_))))
}
