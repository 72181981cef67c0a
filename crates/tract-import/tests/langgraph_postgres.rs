//! Checkpoints of LangGraph on a PostgreSQL server: what is in a database of SQLite, stored as the
//! other saver stores it, gives the same commits.

#[path = "../../tract-store-postgres/tests/all/server.rs"]
mod server;
mod support;

use std::path::PathBuf;

use rmpv::Value as Packed;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value, json};
use tokio_postgres::{Client, NoTls};
use tract_engine::Repo;
use tract_import::{SessionFile, SessionReport, Source};
use tract_testkit::data;

use self::support::{import_all, new_repo, refs};

/// The tables as the saver's own migrations leave them.
const TABLES: &str = "
CREATE TABLE checkpoint_migrations (v INTEGER PRIMARY KEY);
CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB NOT NULL,
    metadata JSONB NOT NULL DEFAULT '{}', PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE checkpoint_blobs (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL,
    version TEXT NOT NULL, type TEXT NOT NULL, blob BYTEA,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version));
CREATE TABLE checkpoint_writes (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT,
    blob BYTEA NOT NULL, task_path TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
INSERT INTO checkpoint_migrations SELECT generate_series(0, 9)";

/// A schema of its own on the server, and its url.
fn database() -> Option<(tokio::runtime::Runtime, Client, String)> {
    let url = server::shared()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (client, connection) =
        runtime.block_on(tokio_postgres::connect(url, NoTls)).expect("the server answers");
    runtime.spawn(connection);
    let schema = server::schema();
    let made = format!("CREATE SCHEMA {schema}; SET search_path TO {schema}");
    runtime.block_on(client.batch_execute(&made)).expect("a schema");
    Some((runtime, client, server::with_schema(url, &schema)))
}

/// A checkpoint as the table of the SQLite saver has it.
struct Row {
    thread: String,
    namespace: String,
    id: String,
    parent: Option<String>,
    kind: Option<String>,
    checkpoint: Vec<u8>,
}

fn bundled() -> PathBuf {
    data::bundled("sessions/langgraph/checkpoints.sqlite")
}

fn rows() -> Vec<Row> {
    let database = Connection::open_with_flags(bundled(), OpenFlags::SQLITE_OPEN_READ_ONLY);
    let database = database.expect("it opens");
    let columns = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint";
    let sql = format!("SELECT {columns} FROM checkpoints ORDER BY rowid");
    let mut statement = database.prepare(&sql).expect("the table is there");
    let rows = statement.query_map([], |row| {
        Ok(Row {
            thread: row.get(0)?,
            namespace: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
            id: row.get(2)?,
            parent: row.get(3)?,
            kind: row.get(4)?,
            checkpoint: match row.get_ref(5)? {
                ValueRef::Blob(bytes) | ValueRef::Text(bytes) => bytes.to_vec(),
                other => panic!("{other:?}"),
            },
        })
    });
    rows.expect("they are read").map(|row| row.expect("a row")).collect()
}

/// What a channel holds: in the checkpoint itself, or as a dump.
enum Stored {
    Inline(Value),
    Blob(&'static str, Vec<u8>),
}

fn json_of(value: &Packed) -> Value {
    match value {
        Packed::String(text) => text.as_str().expect("text").into(),
        Packed::Integer(number) => number.as_i64().expect("a number").into(),
        Packed::F64(number) => (*number).into(),
        Packed::Boolean(value) => (*value).into(),
        Packed::Array(values) => values.iter().map(json_of).collect(),
        Packed::Map(members) => {
            let member = |(name, value): &(Packed, Packed)| {
                (name.as_str().expect("a name").to_owned(), json_of(value))
            };
            Value::Object(members.iter().map(member).collect())
        }
        _ => Value::Null,
    }
}

/// Takes a checkpoint apart, as the saver does: its own members, and what its channels hold.
fn split_checkpoint(row: &Row) -> (Map<String, Value>, Vec<(String, Stored)>) {
    match row.kind.as_deref() {
        Some("msgpack") => {
            let mut bytes = row.checkpoint.as_slice();
            let Ok(Packed::Map(members)) = rmpv::decode::read_value(&mut bytes) else {
                panic!("a checkpoint is a map");
            };
            let (mut own, mut channels) = (Map::new(), Vec::new());
            for (name, value) in members {
                let name = name.as_str().expect("a name").to_owned();
                let Packed::Map(values) = &value else {
                    own.insert(name, json_of(&value));
                    continue;
                };
                if name != "channel_values" {
                    own.insert(name, json_of(&value));
                    continue;
                }
                for (channel, value) in values {
                    let channel = channel.as_str().expect("a name").to_owned();
                    let stored = match value {
                        Packed::Array(_) | Packed::Map(_) | Packed::Ext(..) => {
                            let mut bytes = Vec::new();
                            rmpv::encode::write_value(&mut bytes, value).expect("it is packed");
                            Stored::Blob("msgpack", bytes)
                        }
                        value => Stored::Inline(json_of(value)),
                    };
                    channels.push((channel, stored));
                }
            }
            (own, channels)
        }
        Some("json") | None => {
            let Ok(Value::Object(mut own)) = serde_json::from_slice(&row.checkpoint) else {
                panic!("a checkpoint is an object");
            };
            let Some(Value::Object(values)) = own.remove("channel_values") else {
                panic!("it has channels");
            };
            let stored = |(name, value): (String, Value)| match &value {
                Value::Array(_) | Value::Object(_) => {
                    (name, Stored::Blob("json", value.to_string().into_bytes()))
                }
                _ => (name, Stored::Inline(value)),
            };
            (own, values.into_iter().map(stored).collect())
        }
        Some("pickle") => {
            let blob = Stored::Blob("pickle", row.checkpoint.clone());
            (Map::new(), vec![("messages".to_owned(), blob)])
        }
        other => panic!("{other:?}"),
    }
}

/// Fills the tables, with this name for the channel of the messages.
async fn fill(client: &Client, rows: &[Row], messages: &str) {
    client.batch_execute(TABLES).await.expect("tables");
    for (number, row) in rows.iter().enumerate() {
        let (mut own, channels) = split_checkpoint(row);
        let (mut inline, mut versions) = (Map::new(), Map::new());
        for (channel, stored) in channels {
            let channel = if channel == "messages" { messages.to_owned() } else { channel };
            let version = format!("{number:032}.0.5");
            versions.insert(channel.clone(), version.clone().into());
            match stored {
                Stored::Inline(value) => _ = inline.insert(channel, value),
                Stored::Blob(kind, bytes) => {
                    let sql = "INSERT INTO checkpoint_blobs VALUES ($1, $2, $3, $4, $5, $6)";
                    let (thread, space) = (&row.thread, &row.namespace);
                    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                        [thread, space, &channel, &version, &kind, &bytes];
                    client.execute(sql, &values).await.expect("a blob");
                }
            }
        }
        own.insert("channel_values".to_owned(), Value::Object(inline));
        own.insert("channel_versions".to_owned(), Value::Object(versions));
        let sql = "INSERT INTO checkpoints VALUES ($1, $2, $3, $4, NULL, $5::text::jsonb, '{}')";
        let checkpoint = Value::Object(own).to_string();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&row.thread, &row.namespace, &row.id, &row.parent, &checkpoint];
        client.execute(sql, &values).await.expect("a checkpoint");
    }
}

fn import(repo: &Repo, file: SessionFile) -> Vec<Result<SessionReport, String>> {
    let one = |(path, report): (PathBuf, _)| {
        assert!(!path.to_string_lossy().contains("secret"), "{}", path.display());
        report
    };
    import_all(repo, &[file]).into_iter().map(one).collect()
}

fn of_postgres(url: &str) -> SessionFile {
    SessionFile::database(Source::LangGraph, url, "postgres://server/agents")
}

fn of_sqlite() -> SessionFile {
    SessionFile::new(Source::LangGraph, bundled())
}

#[test]
fn checkpoints_in_postgres_give_the_commits_of_those_in_sqlite() {
    let Some((runtime, client, url)) = database() else { return };
    let rows = rows();
    assert!(rows.len() > 5);
    runtime.block_on(fill(&client, &rows, "messages"));
    let (sqlite, postgres) = (new_repo(), new_repo());
    let expected = import(&sqlite, of_sqlite());
    assert_eq!(expected.len(), 3);
    assert_eq!(import(&postgres, of_postgres(&url)), expected);
    assert_eq!(refs(&postgres), refs(&sqlite));
    // Again, and from the one on top of the other: nothing is new.
    for (repo, file) in
        [(&postgres, of_postgres(&url)), (&postgres, of_sqlite()), (&sqlite, of_postgres(&url))]
    {
        let before = refs(repo);
        let new = |report: Result<SessionReport, String>| {
            report.expect("it reads").branches.iter().map(|branch| branch.new).sum::<usize>()
        };
        assert_eq!(import(repo, file).into_iter().map(new).sum::<usize>(), 0);
        assert_eq!(refs(repo), before);
    }
}

#[test]
fn checkpoints_in_postgres_may_call_their_messages_otherwise() {
    let Some((runtime, client, url)) = database() else { return };
    runtime.block_on(fill(&client, &rows(), "chat"));
    let (sqlite, postgres) = (new_repo(), new_repo());
    assert_eq!(import(&postgres, of_postgres(&url)), import(&sqlite, of_sqlite()));
    assert_eq!(refs(&postgres), refs(&sqlite));
}

/// More than a page of them, in an order that is not that of the server's language.
#[test]
fn checkpoints_in_postgres_are_read_page_by_page_in_the_order_of_bytes() {
    let Some((runtime, client, url)) = database() else { return };
    let threads = ["b", "Z", "a", "ä", "A b"];
    let count = 500;
    let sql = format!(
        "{TABLES};
        INSERT INTO checkpoints SELECT thread, '', lpad(n::text, 6, '0'),
            CASE WHEN n > 1 THEN lpad((n - 1)::text, 6, '0') END, NULL,
            jsonb_build_object('ts', '2026-01-01T00:00:00+00:00',
                'channel_versions', jsonb_build_object('messages', n::text)), '{{}}'
        FROM unnest('{{{}}}'::text[]) AS t(thread), generate_series(1, {count}) AS n;
        INSERT INTO checkpoint_blobs SELECT thread, '', 'messages', n::text, 'json', convert_to(
            (SELECT json_agg(json_build_object('lc', 2, 'type', 'constructor',
                'id', '[\"HumanMessage\"]'::json,
                'kwargs', json_build_object('type', 'human', 'id', m::text, 'content', thread || m))
                ORDER BY m)::text
             FROM generate_series(greatest(1, n - 9), n) AS m), 'UTF8')
        FROM unnest('{{{}}}'::text[]) AS t(thread), generate_series(1, {count}) AS n",
        threads.join(","),
        threads.join(",")
    );
    runtime.block_on(client.batch_execute(&sql)).expect("they are stored");
    let repo = new_repo();
    let reports = import(&repo, of_postgres(&url));
    let sessions: Vec<(String, usize)> = reports
        .into_iter()
        .map(|report| report.expect("it reads"))
        .map(|report| (report.session.clone(), report.messages))
        .collect();
    let expected = ["A b", "Z", "a", "b", "ä"].map(|thread| (thread.to_owned(), count));
    assert_eq!(sessions, expected);
}

#[test]
fn a_database_that_cannot_be_read_is_reported_without_its_password() {
    let reports = import(
        &new_repo(),
        of_postgres("postgres://ada:secret@127.0.0.1:1/agents?retry_for=0&connect_timeout=1"),
    );
    let error = reports[0].as_ref().expect_err("there is no server");
    assert!(error.contains("127.0.0.1:1") && !error.contains("secret"), "{error}");
    let other = SessionFile::database(Source::Codex, "postgres://server/agents", "name");
    let error = import(&new_repo(), other).remove(0).expect_err("no such format");
    assert!(error.contains("Codex CLI is not read from PostgreSQL"), "{error}");
    let Some((runtime, client, url)) = database() else { return };
    let error = import(&new_repo(), of_postgres(&url)).remove(0).expect_err("no tables");
    assert!(error.contains("no checkpoints of LangGraph"), "{error}");
    // Damage: a checkpoint that is no object, and a dump that is none.
    let sql = format!(
        "{TABLES};
        INSERT INTO checkpoints VALUES ('t', '', '1', NULL, NULL, '[]', '{{}}');
        INSERT INTO checkpoints VALUES ('t', '', '2', '1', NULL,
            '{{\"channel_versions\": {{\"messages\": \"1\"}}}}', '{{}}');
        INSERT INTO checkpoint_blobs VALUES ('t', '', 'messages', '1', 'msgpack', '\\x81')"
    );
    runtime.block_on(client.batch_execute(&sql)).expect("they are stored");
    let report = import(&new_repo(), of_postgres(&url)).remove(0).expect("it is read");
    assert_eq!((report.lines, report.anomalies.count(), report.branches.len()), (2, 2, 0));
    assert_eq!(json!(report.anomalies.listed[1].kind), "unreadable_line");
}
