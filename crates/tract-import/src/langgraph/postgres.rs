//! The PostgreSQL saver: checkpoints as JSON, and the values of their channels in a separate table.
//!
//! Numbers, texts and booleans of channels are in the checkpoint itself. All other values are found
//! by the channel and its version in the checkpoint.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use serde_json::{Map, Value};
use tract_core::StoreError;
use tract_store_postgres::{DatabaseReader, DatabaseRow, PostgresOptions};

use super::{Checkpoint, MESSAGES, decode, messages_of};
use crate::damage::decode_noting;
use crate::report::AnomalyKind;

/// Maximum number of bytes of checkpoints per read, unless a single one is larger.
const BATCH_BYTES: u64 = 8 << 20;
/// Maximum number of checkpoints per read.
const BATCH: usize = 64;

/// Checks whether the tables have the columns that are read.
const HAS_TABLES: &str = "\
    SELECT ((SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('checkpoints') \
        AND NOT attisdropped AND attname = ANY('{thread_id,checkpoint_ns,checkpoint_id,\
parent_checkpoint_id,checkpoint}')) = 5 \
    AND (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('checkpoint_blobs') \
        AND NOT attisdropped AND attname = ANY('{thread_id,checkpoint_ns,channel,version,type,\
blob}')) = 6)::text";

/// Lists the checkpoints with their sizes, in byte order, as SQLite does. The server sorts only the
/// keys, once, and not the checkpoints.
const LIST: &str = "\
    DECLARE tract_checkpoints NO SCROLL CURSOR FOR \
    SELECT thread_id, checkpoint_ns, checkpoint_id, size::text FROM (\
        SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id, \
            pg_column_size(c.checkpoint) + coalesce(octet_length(b.blob), 0) AS size \
        FROM checkpoints c LEFT JOIN checkpoint_blobs b ON b.thread_id = c.thread_id \
            AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = 'messages' \
            AND b.version = c.checkpoint -> 'channel_versions' ->> 'messages' \
        OFFSET 0) AS keys \
    ORDER BY thread_id COLLATE \"C\", checkpoint_ns COLLATE \"C\", checkpoint_id COLLATE \"C\"";

/// Fetches the next keys.
const NEXT: &str = "FETCH FORWARD 1000 FROM tract_checkpoints";

/// Reads checkpoints with their lists of messages.
const READ: &str = "\
    SELECT c.parent_checkpoint_id, c.checkpoint::text, b.type, b.blob \
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k(thread, ns, id, n) \
    JOIN checkpoints c ON c.thread_id = k.thread AND c.checkpoint_ns = k.ns \
        AND c.checkpoint_id = k.id \
    LEFT JOIN checkpoint_blobs b ON b.thread_id = k.thread AND b.checkpoint_ns = k.ns \
        AND b.channel = 'messages' AND b.version = c.checkpoint -> 'channel_versions' ->> 'messages' \
    ORDER BY k.n";

/// Reads the channels of a checkpoint that may be lists of messages.
const CHANNELS: &str = "\
    SELECT b.channel, b.type, b.blob \
    FROM unnest($1::text[], $2::text[], $3::text[]) AS k(thread, ns, id) \
    JOIN checkpoints c ON c.thread_id = k.thread AND c.checkpoint_ns = k.ns \
        AND c.checkpoint_id = k.id \
    CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') AS v \
    JOIN checkpoint_blobs b ON b.thread_id = k.thread AND b.checkpoint_ns = k.ns \
        AND b.channel = v.key AND b.version = v.value \
    WHERE b.channel NOT LIKE '\\_\\_%' AND b.channel NOT LIKE 'branch:%' AND b.type <> 'empty' \
    ORDER BY b.channel";

/// A checkpoint that is listed but not read.
struct Key {
    thread: String,
    namespace: String,
    id: String,
    size: u64,
}

/// Reads the checkpoints of a database in batches; memory holds one batch.
pub(crate) struct CheckpointReader {
    database: DatabaseReader,
    listed: VecDeque<Key>,
    is_at_end: bool,
}

impl CheckpointReader {
    /// Opens the database of a url.
    pub(crate) async fn open(url: &str) -> io::Result<Self> {
        let database =
            DatabaseReader::open(url, &PostgresOptions::default()).await.map_err(failure)?;
        let found = database.rows(HAS_TABLES, Vec::new()).await.map_err(failure)?;
        if found.first().and_then(|row| text(row, 0)).as_deref() != Some("true") {
            let what = "the database has no checkpoints of LangGraph";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        database.rows(LIST, Vec::new()).await.map_err(failure)?;
        Ok(Self { database, listed: VecDeque::new(), is_at_end: false })
    }

    /// Returns the next checkpoints; `None` at the end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Vec<Checkpoint>>> {
        if self.listed.is_empty() && !self.is_at_end {
            let rows = self.database.rows(NEXT, Vec::new()).await.map_err(failure)?;
            self.is_at_end = rows.is_empty();
            self.listed = rows.iter().map(key).collect::<io::Result<_>>()?;
        }
        let (mut keys, mut bytes) = (Vec::new(), 0_u64);
        while let Some(next) = self.listed.front() {
            bytes = bytes.saturating_add(next.size);
            if keys.len() >= BATCH || (bytes > BATCH_BYTES && !keys.is_empty()) {
                break;
            }
            keys.extend(self.listed.pop_front());
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let rows = self.database.rows(READ, parameters(&keys)).await.map_err(failure)?;
        if rows.len() != keys.len() {
            return Err(unexpected("a checkpoint without its row"));
        }
        let mut checkpoints = Vec::with_capacity(keys.len());
        for (key, row) in keys.into_iter().zip(rows) {
            let mut damage = Vec::new();
            let state = self.state(&key, &row, &mut damage).await?;
            let Key { thread, namespace, id, .. } = key;
            let (namespace, parent) = (Some(namespace), text(&row, 0));
            checkpoints.push(Checkpoint { thread, namespace, id, parent, state, damage });
        }
        Ok(Some(checkpoints))
    }

    /// Assembles a checkpoint in the form of the SQLite saver.
    async fn state(
        &self,
        key: &Key,
        row: &DatabaseRow,
        damage: &mut Vec<(AnomalyKind, String)>,
    ) -> io::Result<Result<Value, &'static str>> {
        let checkpoint = text(row, 1)
            .and_then(|text| serde_json::from_str(&decode_noting(text.as_bytes(), damage)).ok());
        let Some(Value::Object(mut state)) = checkpoint else {
            return Ok(Err("a checkpoint that is no JSON"));
        };
        let mut channels = match state.remove("channel_values") {
            Some(Value::Object(channels)) => channels,
            _ => Map::new(),
        };
        if let Some(kind) = text(row, 2).filter(|kind| kind != "empty") {
            match channel(&kind, row.get(3), damage) {
                Ok(value) => _ = channels.insert(MESSAGES.to_owned(), value),
                Err(what) => return Ok(Err(what)),
            }
        }
        let mut unread = None;
        if !channels.get(MESSAGES).is_some_and(Value::is_array) && has_other_channels(&state) {
            let keys = parameters(std::slice::from_ref(key));
            for row in self.database.rows(CHANNELS, keys).await.map_err(failure)? {
                let (Some(name), Some(kind)) = (text(&row, 0), text(&row, 1)) else { continue };
                match channel(&kind, row.get(2), damage) {
                    Ok(value) => _ = channels.insert(name, value),
                    Err(what) => unread = Some(what),
                }
            }
        }
        let channels = Value::Object(channels);
        if let (None, Some(what)) = (messages_of(&channels), unread) {
            return Ok(Err(what));
        }
        state.insert("channel_values".to_owned(), channels);
        Ok(Ok(Value::Object(state)))
    }
}

/// Returns whether a checkpoint has channels other than LangGraph's own and `messages`.
fn has_other_channels(state: &Map<String, Value>) -> bool {
    let versions = state.get("channel_versions").and_then(Value::as_object);
    let is_other =
        |name: &String| !name.starts_with("__") && !name.starts_with("branch:") && name != MESSAGES;
    versions.is_some_and(|versions| versions.keys().any(is_other))
}

/// Decodes the value of a channel.
fn channel(
    kind: &str,
    bytes: Option<&Option<Bytes>>,
    damage: &mut Vec<(AnomalyKind, String)>,
) -> Result<Value, &'static str> {
    match kind {
        "null" | "bytes" | "bytearray" => Ok(Value::Null),
        kind => {
            let bytes = bytes.and_then(Option::as_deref).unwrap_or_default();
            decode(Some(kind), bytes, damage)
        }
    }
}

fn parameters(keys: &[Key]) -> Vec<Vec<String>> {
    let all = |of: fn(&Key) -> &String| keys.iter().map(|key| of(key).clone()).collect();
    vec![all(|key| &key.thread), all(|key| &key.namespace), all(|key| &key.id)]
}

fn key(row: &DatabaseRow) -> io::Result<Key> {
    let read = || {
        let size = text(row, 3)?.parse().ok()?;
        Some(Key { thread: text(row, 0)?, namespace: text(row, 1)?, id: text(row, 2)?, size })
    };
    read().ok_or_else(|| unexpected("a checkpoint without thread, namespace or id"))
}

fn text(row: &DatabaseRow, column: usize) -> Option<String> {
    String::from_utf8(row.get(column)?.as_ref()?.to_vec()).ok()
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the database has {what}"))
}

fn failure(error: StoreError) -> io::Error {
    io::Error::other(error.message)
}
