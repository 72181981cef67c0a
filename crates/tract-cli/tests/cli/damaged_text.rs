//! Half an emoji and bytes that are not UTF-8 in databases and folders of other tools: the message
//! is kept, and the damage is reported with its member.

use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Workspace, text};

fn database(place: &Workspace, name: &str, tables: &str) -> (PathBuf, Connection) {
    let path = place.path(name);
    let database = Connection::open(&path).expect("a database");
    database.execute_batch(tables).expect("the tables are made");
    (path, database)
}

/// Imports a file, and checks what is reported and what is stored.
fn check(place: &Workspace, file: &str, damage: &[&str], texts: &[&str]) {
    let lines = place.json(&["import", file, "--json", "--anomalies"]);
    let report = &lines[0];
    assert_eq!(report["anomalies"], json!({"replaced_text": damage.len()}), "{report}");
    let listed = report["listed"].as_array().expect("a list");
    let whats: Vec<&str> = listed.iter().map(|a| a["what"].as_str().expect("words")).collect();
    for damage in damage {
        assert!(whats.contains(damage), "{damage:?} in {whats:?}");
    }
    let branch = report["branches"][0]["branch"].as_str().expect("a branch");
    let lines = place.json(&["cat", branch, "--json"]);
    let found: Vec<&Value> = lines.iter().map(|line| &line["text"]).collect();
    assert_eq!(
        found,
        texts.iter().map(|text| json!(text)).collect::<Vec<_>>().iter().collect::<Vec<_>>()
    );
    place.sessions_bring_nothing(&["import", file, "--json"]);
}

/// A value in msgpack, where `~` in a text is a byte that is not UTF-8.
fn packed(value: &Value, to: &mut Vec<u8>) {
    let short = |length: usize| u16::try_from(length).expect("a short one").to_be_bytes();
    match value {
        Value::String(text) => {
            to.push(0xda);
            to.extend(short(text.len()));
            to.extend(text.bytes().map(|byte| if byte == b'~' { 0xff } else { byte }));
        }
        Value::Array(values) => {
            to.push(0xdc);
            to.extend(short(values.len()));
            values.iter().for_each(|value| packed(value, to));
        }
        Value::Object(members) => {
            to.push(0xde);
            to.extend(short(members.len()));
            for (key, value) in members {
                packed(&json!(key), to);
                packed(value, to);
            }
        }
        _ => to.push(0xc0),
    }
}

#[test]
fn damaged_text_in_checkpoints_is_reported_once() {
    const TABLE: &str = "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, \
        checkpoint_id TEXT, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB)";
    let message = |kind: &str, id: &str, text: &str| {
        json!({"lc": 1, "type": "constructor", "id": ["x", "y"],
               "kwargs": {"type": kind, "id": id, "content": text}})
    };
    let state = |messages: &[Value]| json!({"ts": "2026-07-01T12:00:00+00:00", "channel_values": {"messages": messages}});
    let steps = [
        state(&[message("human", "m1", "caf~")]),
        // The list is there again, with the message.
        state(&[message("human", "m1", "caf~"), message("ai", "m2", "Yes.")]),
    ];
    let insert = "INSERT INTO checkpoints VALUES ('t', '', ?1, ?2, ?3, ?4)";
    for kind in ["msgpack", "json"] {
        let place = Workspace::new();
        let (path, database) = database(&place, "checkpoints.sqlite", TABLE);
        for (n, step) in steps.iter().enumerate() {
            let mut bytes = Vec::new();
            match kind {
                "msgpack" => packed(step, &mut bytes),
                _ => bytes.extend(step.to_string().replace('~', "\\ud83c").into_bytes()),
            }
            let parent = n.checked_sub(1).map(|before| before.to_string());
            database.execute(insert, (n.to_string(), parent, kind, bytes)).expect("it is stored");
        }
        drop(database);
        let what = match kind {
            "msgpack" => "channel_values.messages[0].kwargs.content: invalid UTF-8 was replaced",
            _ => "channel_values.messages[0].kwargs.content: an unpaired surrogate was replaced",
        };
        check(&place, text(&path), &[what], &["caf\u{fffd}", "Yes."]);
    }
}

#[test]
fn damaged_text_in_the_database_of_opencode_is_reported() {
    let place = Workspace::new();
    let (path, database) = database(
        &place,
        "opencode.db",
        "CREATE TABLE session (id TEXT, title TEXT); \
         CREATE TABLE message (id TEXT, session_id TEXT, data TEXT); \
         CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT); \
         INSERT INTO session VALUES ('ses_1', 'Tides'); \
         INSERT INTO message VALUES ('msg_1', 'ses_1', '{\"role\":\"user\",\"time\":{\"created\":1769940000000}}'); \
         INSERT INTO part VALUES ('prt_1', 'msg_1', 'ses_1', '{\"type\":\"text\",\"text\":\"tree \\ud83c\"}');",
    );
    drop(database);
    check(&place, text(&path), &["text: an unpaired surrogate was replaced"], &["tree \u{fffd}"]);
}

#[test]
fn damaged_text_in_the_database_of_goose_is_reported() {
    let place = Workspace::new();
    let (path, database) = database(
        &place,
        "sessions.db",
        "CREATE TABLE sessions (id TEXT, working_dir TEXT, name TEXT); \
         CREATE TABLE messages (session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER); \
         INSERT INTO sessions VALUES ('g1', '/quay', 'Tides'); \
         INSERT INTO messages VALUES ('g1', 'user', '[{\"type\":\"text\",\"text\":\"tree \\ud83c\"}]', 1769940000);",
    );
    drop(database);
    check(
        &place,
        text(&path),
        &["[0].text: an unpaired surrogate was replaced"],
        &["tree \u{fffd}"],
    );
}

#[test]
fn damaged_text_in_a_chat_of_cursor_is_reported() {
    let place = Workspace::new();
    let (path, database) = database(
        &place,
        "state.vscdb",
        "CREATE TABLE cursorDiskKV (key TEXT, value TEXT); \
         INSERT INTO cursorDiskKV VALUES ('composerData:c1', \
            '{\"createdAt\":1769940000000,\"fullConversationHeadersOnly\":[{\"bubbleId\":\"b1\",\"type\":1}]}'); \
         INSERT INTO cursorDiskKV VALUES ('bubbleId:c1:b1', '{\"type\":1,\"bubbleId\":\"b1\",\"text\":\"tree \\ud83c\"}');",
    );
    drop(database);
    check(&place, text(&path), &["text: an unpaired surrogate was replaced"], &["tree \u{fffd}"]);
}

#[test]
fn damaged_text_in_the_files_of_opencode_is_reported() {
    let place = Workspace::new();
    let base = "storage";
    place.write(
        &format!("{base}/session/p1/ses_1.json"),
        r#"{"id":"ses_1","title":"Tides","time":{"created":1769940000000}}"#,
    );
    place.write(
        &format!("{base}/message/ses_1/msg_1.json"),
        r#"{"id":"msg_1","sessionID":"ses_1","role":"user","time":{"created":1769940000000}}"#,
    );
    place.write(
        &format!("{base}/part/msg_1/prt_1.json"),
        r#"{"id":"prt_1","messageID":"msg_1","type":"text","text":"tree \ud83c"}"#,
    );
    let file = place.path(&format!("{base}/session/p1/ses_1.json"));
    check(&place, text(&file), &["text: an unpaired surrogate was replaced"], &["tree \u{fffd}"]);
}
