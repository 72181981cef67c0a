//! Databases of the Python original: the same messages, or the right ones and a line that says so.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};
use tract_testkit::data;

use crate::support::{Workspace, each, list, text};

/// The files of the original, with what it compiled of each branch: all of them where the
/// recordings are, else those that come with the repository.
fn files() -> Vec<(PathBuf, Value)> {
    let paths = data::files(&data::find("python_tract").0, "db");
    let expected = |path: &Path| {
        let text = std::fs::read_to_string(path.with_extension("expected.json")).expect("a file");
        serde_json::from_str(&text).expect("it is JSON")
    };
    paths.into_iter().map(|path| (path.clone(), expected(&path))).collect()
}

fn recorded(name: &str) -> Option<(PathBuf, Value)> {
    files().into_iter().find(|(path, _)| path.file_name().is_some_and(|found| found == name))
}

fn file(name: &str) -> PathBuf {
    data::bundled("python_tract").join(name)
}

/// A message in the words of the original.
fn of_theirs(message: &Value) -> Value {
    let calls =
        message["tool_calls"].as_array().into_iter().flatten().map(|call| {
            json!([call["id"], call["function"]["name"], call["function"]["arguments"]])
        });
    json!({
        "role": message["role"],
        "text": message["content"],
        "name": message["name"],
        "call_id": message["tool_call_id"],
        "calls": calls.collect::<Vec<_>>(),
    })
}

/// A compiled message of ours in the same words.
fn of_ours(message: &Value) -> Value {
    let content = &message["content"];
    // A message of one text is that text; results keep theirs under `content`.
    let plain = ["content", "parts", "text"].iter().find_map(|key| content.get(*key));
    let parts = match plain.unwrap_or(content) {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(parts) => parts.clone(),
        other => panic!("no parts: {other}"),
    };
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let calls = parts
        .iter()
        .filter(|part| part["type"] == "tool_call")
        .map(|call| json!([call["id"], call["name"], call["arguments"]]));
    json!({
        "role": message["role"],
        "text": texts.join("\n"),
        "name": content["name"],
        "call_id": content["call_id"],
        "calls": calls.collect::<Vec<_>>(),
    })
}

#[test]
fn every_branch_compiles_to_the_messages_of_the_original() {
    let branches: usize = files().iter().map(|(path, expected)| imports(path, expected)).sum();
    assert!(branches >= 17, "{branches} branches");
}

/// What each version added to the tables, as the original's migrations did: a file of the version
/// before becomes one of this version.
const MIGRATIONS: [(u32, &str); 6] = [
    (7, "ALTER TABLE annotations ADD COLUMN retention_json JSON"),
    (
        9,
        "ALTER TABLE operation_events ADD COLUMN original_instructions TEXT;
         ALTER TABLE operation_events ADD COLUMN effective_instructions TEXT",
    ),
    (
        10,
        "ALTER TABLE commits ADD COLUMN tags_json TEXT;
         CREATE TABLE tag_annotations (id INTEGER NOT NULL PRIMARY KEY, tract_id VARCHAR(64) NOT NULL,
           target_hash VARCHAR(64) NOT NULL, tag VARCHAR(100) NOT NULL, created_at DATETIME NOT NULL);
         CREATE TABLE tag_registry (id INTEGER NOT NULL PRIMARY KEY, tract_id VARCHAR(64) NOT NULL,
           tag_name VARCHAR(100) NOT NULL, description TEXT, auto_created INTEGER NOT NULL,
           created_at DATETIME NOT NULL)",
    ),
    (
        11,
        "CREATE TABLE operation_configs (id INTEGER NOT NULL PRIMARY KEY,
           tract_id VARCHAR(64) NOT NULL, config_key VARCHAR(100) NOT NULL, config_json TEXT NOT NULL,
           created_at DATETIME NOT NULL);
         CREATE TABLE hook_wirings (id INTEGER NOT NULL PRIMARY KEY);
         CREATE TABLE dynamic_op_specs (id INTEGER NOT NULL PRIMARY KEY)",
    ),
    (
        12,
        "CREATE TABLE config_change_log (id INTEGER NOT NULL PRIMARY KEY,
           tract_id VARCHAR(64) NOT NULL, change_type VARCHAR(50) NOT NULL, change_key VARCHAR(100),
           config_json TEXT, previous_json TEXT, source VARCHAR(50), created_at DATETIME NOT NULL)",
    ),
    (13, "CREATE TABLE behavioral_specs (id INTEGER NOT NULL PRIMARY KEY)"),
];

/// There is no recorded file of versions 7 and 9 to 12: these are made of those before them, by
/// what the original's migrations did. Rows are as they were, so the messages are too.
#[test]
fn versions_between_the_recorded_ones_read_like_those_before_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for (from, versions) in [("v6", 7..=7), ("v8", 9..=13)] {
        let name = format!("{from}.db");
        let (from, mut expected) = recorded(&name).expect("a file of this version");
        let path = folder.path().join(&name);
        std::fs::copy(from, &path).expect("a copy");
        for version in versions {
            if version == 10 {
                // From here on the original tells less of calls: what it compiled of this very file
                // after its own migrations is among the recordings.
                let Some((_, upgraded)) = recorded("v8_upgraded.db") else {
                    println!(
                        "left out: versions 10 to 12, for v8_upgraded.expected.json is missing"
                    );
                    break;
                };
                expected = upgraded;
            }
            let (_, sql) = MIGRATIONS.iter().find(|(to, _)| *to == version).expect("a migration");
            let connection = Connection::open(&path).expect("it opens");
            connection.execute_batch(sql).expect("it goes");
            let set = "UPDATE _trace_meta SET value = ?1 WHERE key = 'schema_version'";
            assert_eq!(connection.execute(set, [version.to_string()]).expect("it is set"), 1);
            if version == 10 {
                tagged(&connection);
            }
            drop(connection);
            expected["schema_version"] = version.into();
            assert!(imports(&path, &expected) >= 2, "version {version}");
            if version >= 10 {
                let place = Workspace::new();
                place.ok(&["import", "--format", "python-tract", text(&path)]);
                let tags = place.ok(&["--json", "tag"]);
                assert!(tags.contains("/reviewed/"), "version {version}: {tags}");
            }
        }
    }
}

/// Gives a head a tag of the kind that version 10 brought.
fn tagged(connection: &Connection) {
    connection
        .execute_batch(
            "INSERT INTO tag_annotations SELECT 1, tract_id, commit_hash, 'reviewed', '2026-03-01' \
             FROM refs WHERE ref_name = 'refs/heads/main' ORDER BY tract_id LIMIT 1;
             INSERT INTO tag_registry SELECT 1, tract_id, 'reviewed', NULL, 0, '2026-03-01' \
             FROM refs WHERE ref_name = 'refs/heads/main' ORDER BY tract_id LIMIT 1;",
        )
        .expect("it is tagged");
}

/// Imports a file twice, and holds each branch against what the original compiled of it; says how
/// many there were.
fn imports(path: &Path, expected: &Value) -> usize {
    let mut branches = 0;
    let place = Workspace::new();
    let arguments = ["import", "--json", "--format", "python-tract", text(path)];
    let lines = place.json(&arguments);
    for tract in list(&expected["tracts"]) {
        for branch in list(&tract["branches"]) {
            let name = branch["name"].as_str().expect("a name");
            let id = format!("{}/{name}", tract["tract_id"].as_str().expect("an id"));
            let line = lines.iter().find(|line| line["id"] == id.as_str());
            let line = line.unwrap_or_else(|| panic!("{}: {id} is not reported", path.display()));
            assert_eq!(line["status"], "created", "{line}");
            let name = line["branch"].as_str().expect("a name");
            compare(&place, name, branch, &line["anomalies"], path);
            branches += 1;
        }
    }
    place.is_clean();
    place.imports_nothing_new(&arguments);
    branches
}

fn compare(place: &Workspace, name: &str, branch: &Value, anomalies: &Value, path: &Path) {
    let compiled = place.json(&["compile", "--json", name, "--to", "messages"]);
    let lines: Vec<&str> = list(anomalies).iter().filter_map(Value::as_str).collect();
    let messages = list(&compiled[0]["messages"]);
    let ours: Vec<Value> = messages.iter().map(of_ours).collect();
    let is_note = |message: &Value| {
        let text = message["content"].as_str().unwrap_or_default();
        text.starts_with("{\n  \"message\": \"Merged ")
    };
    let theirs = list(&branch["messages"]).iter();
    let hashes = list(&branch["message_commits"]).iter();
    // A defect of the original: the note of a merge is a message to the model.
    let mut merges = 0;
    let theirs: Vec<Value> = theirs
        .zip(hashes)
        .filter(|(message, hash)| {
            let short = hash.as_str().and_then(|hash| hash.get(..8)).unwrap_or_default();
            if is_note(message) {
                merges += 1;
                let notice = format!("merge {short} adds no message");
                assert!(lines.iter().any(|line| line.starts_with(&notice)), "{name}: {lines:?}");
            }
            !is_note(message)
        })
        .map(|(message, _)| of_theirs(message))
        .collect();
    let notice = lines.iter().filter(|line| line.contains("adds no message")).count();
    assert_eq!(notice, merges, "{name}: {lines:?}");
    assert_eq!(ours, theirs, "{}: {name}: {lines:?}", path.display());
    if let Some(priorities) = branch["priorities"].as_array() {
        let ours: Vec<&Value> = messages.iter().map(|message| &message["priority"]).collect();
        let kept = priorities.iter().zip(list(&branch["messages"]));
        let kept = kept.filter(|(_, message)| !is_note(message)).map(|(priority, _)| priority);
        let kept: Vec<&Value> = kept.collect();
        assert_eq!(ours, kept, "{}: {name}", path.display());
    }
    let none = Vec::new();
    let theirs = branch["tools"].as_array().unwrap_or(&none);
    let ours = compiled[0]["tools"].as_array().unwrap_or(&none);
    // Two more: tools get lost when it compresses, and those of a merged branch stay behind.
    let differs = lines.iter().any(|line| line.contains("tools"));
    assert!(ours == theirs || differs, "{name}: {ours:?} for {theirs:?}: {lines:?}");
}

#[test]
fn unreferenced_and_tagged_commits_are_named() {
    let place = Workspace::new();
    place.ok(&["import", "--format", "python-tract", text(&file("v13.db"))]);
    let tags = place.ok(&["--json", "tag"]);
    for name in [
        "river-agent/unreferenced-9a9b389a",
        "b2/HEAD",
        "river-agent/числа/cba0b20f",
        "river-agent/source/b60c9adb",
    ] {
        assert!(tags.contains(name), "{name} in {tags}");
    }
    assert!(!tags.contains("tool_call"), "tags that the original gives by itself: {tags}");
    // The old hashes lead to the commits.
    let log = place.ok(&["--json", "log", "b2/HEAD"]);
    assert!(log.contains("222762c61065400863760c13a1581ce73dc1b82fc6e44177a75e4e12204c4041"));
    // At the time of the whole second its own message is the last one.
    let at = "2026-03-19T21:42:49Z";
    let then = place.json(&["compile", "--json", "river-agent/main", "--at", at]);
    let messages = list(&then[0]["messages"]);
    assert_eq!(messages.last().expect("some")["content"], "on the whole second");
}

#[test]
fn a_branch_that_was_continued_is_forwarded_and_damage_is_named() {
    let place = Workspace::new();
    let copy = place.path("old.db");
    std::fs::copy(file("v8.db"), &copy).expect("it is copied");
    // As it was two commits ago.
    let connection = Connection::open(&copy).expect("it opens");
    let set = |name: &str, commit: &str| {
        let sql = "UPDATE refs SET commit_hash = ?1 WHERE ref_name = ?2";
        connection.execute(sql, [commit, name]).expect("it is set");
    };
    let sql = "SELECT commit_hash FROM refs WHERE ref_name = 'refs/heads/main'";
    let head: String = connection.query_row(sql, [], |row| row.get(0)).expect("a head");
    let sql = "SELECT p.parent_hash FROM commits c JOIN commits p ON p.commit_hash = c.parent_hash \
               WHERE c.commit_hash = ?1";
    let older: String = connection.query_row(sql, [&head], |row| row.get(0)).expect("older");
    set("refs/heads/main", &older);
    let arguments = ["import", "--json", "--format", "python-tract", "old.db"];
    place.json(&arguments);
    set("refs/heads/main", &head);
    let lines = place.json(&arguments);
    let main = lines.iter().find(|line| line["id"] == "pilot-agent/main").expect("its line");
    assert_eq!(main["status"], "forwarded", "{lines:?}");
    // A payload changed on disk, which the original compiles happily.
    let sql =
        "UPDATE blobs SET payload_json = replace(payload_json, 'gauge to 200', 'gauge to 500')";
    connection.execute(sql, []).expect("it is changed");
    drop(connection);
    let ran = place.run(&arguments).expect(1);
    let mut refused = ran.lines();
    refused.retain(|line| line["error"].is_object());
    let ids = each(&refused, "id");
    assert_eq!(ids, ["pilot-agent/fix", "pilot-agent/main"], "{refused:?}");
    assert!(refused[0]["error"]["message"].as_str().expect("text").contains("damaged"));
    place.is_clean();
}

#[test]
fn commits_that_are_their_own_ancestors_are_refused_and_the_import_ends() {
    let place = Workspace::new();
    std::fs::copy(file("v8.db"), place.path("old.db")).expect("it is copied");
    let connection = Connection::open(place.path("old.db")).expect("it opens");
    let tip = "SELECT commit_hash FROM refs WHERE ref_name = 'refs/heads/main'";
    let sql = format!("UPDATE commits SET parent_hash = ({tip}) WHERE parent_hash IS NULL");
    assert!(connection.execute(&sql, []).expect("it is changed") > 0);
    drop(connection);
    let ran = place.run(&["import", "--json", "--format", "python-tract", "old.db"]).expect(1);
    let lines = ran.lines();
    let main = lines.iter().find(|line| line["id"] == "pilot-agent/main").expect("its line");
    let message = main["error"]["message"].as_str().expect("it is refused");
    assert!(message.contains("is its own ancestor"), "{message}");
    place.is_clean();
}

/// A transaction that broke off leaves pages of both sides of it in the file, and what the file was
/// before in a journal next to it.
#[test]
fn a_file_with_a_journal_of_a_broken_transaction_is_not_read_as_it_lies() {
    let place = Workspace::new();
    let live = place.path("live.db");
    std::fs::copy(file("v13.db"), &live).expect("it is copied");
    let connection = Connection::open(&live).expect("it opens");
    connection
        .execute_batch(
            "PRAGMA foreign_keys = OFF; PRAGMA journal_mode = DELETE; PRAGMA cache_spill = 1; PRAGMA cache_size = 1; BEGIN; \
             UPDATE commits SET message = hex(randomblob(2000)); DELETE FROM blobs;",
        )
        .expect("a transaction under way");
    let journal = std::fs::metadata(place.path("live.db-journal")).expect("a journal");
    assert!(journal.len() > 0);
    for end in ["", "-journal"] {
        let copy = place.path(&format!("old.db{end}"));
        std::fs::copy(place.path(&format!("live.db{end}")), copy).expect("it is copied");
    }
    place.refused(&["import", "--format", "python-tract", "old.db"], 1, "damaged_file", "-journal");
    drop(connection);
}

#[test]
fn other_files_are_refused_before_a_store_is_made() {
    let place = Workspace::empty();
    let refused = |file: &str, exit: i32, code: &str, says: &str| {
        place.refused(&["import", "--format", "python-tract", file], exit, code, says);
    };
    refused("missing.db", 2, "file", "missing.db");
    place.write("text.db", "no database, but a text that is long enough to be one, or so it seems");
    refused("text.db", 1, "no_python_tract", "no SQLite database");
    let connection = Connection::open(place.path("other.db")).expect("it opens");
    connection.execute_batch("CREATE TABLE t (a)").expect("a table");
    refused("other.db", 1, "no_python_tract", "_trace_meta");
    std::fs::copy(file("v13.db"), place.path("newer.db")).expect("it is copied");
    let connection = Connection::open(place.path("newer.db")).expect("it opens");
    let sql = "UPDATE _trace_meta SET value = '14' WHERE key = 'schema_version'";
    connection.execute(sql, []).expect("it is set");
    refused("newer.db", 1, "schema_version", "expected 6 to 13");
    assert!(!place.path(".tract").exists());
}

/// A file of the original that is written commit by commit, with the hashes that it would give.
struct LegacyFile {
    connection: Connection,
    seconds: u32,
}

impl LegacyFile {
    /// The tables of a recorded file, emptied.
    fn at(path: &Path) -> Self {
        std::fs::copy(file("v8.db"), path).expect("it is copied");
        let connection = Connection::open(path).expect("it opens");
        connection.execute_batch("PRAGMA foreign_keys = OFF").expect("it is set");
        let tables: Vec<String> = connection
            .prepare(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name != '_trace_meta'",
            )
            .and_then(|mut list| list.query_map([], |row| row.get(0))?.collect())
            .expect("names");
        for table in tables {
            connection.execute(&format!("DELETE FROM {table}"), []).expect("it is emptied");
        }
        Self { connection, seconds: 0 }
    }

    fn hash(value: &Value) -> String {
        tract::core::hash::tool_schema(&value.to_string()).expect("JSON").to_hex()
    }

    fn add(&mut self, payload: &Value, content_type: &str, parents: &[&str]) -> String {
        self.seconds += 1;
        let time = format!("2026-03-01 00:00:{:02}.000001", self.seconds);
        let content = Self::hash(payload);
        let mut sealed = json!({
            "content_hash": content, "content_type": content_type, "operation": "append",
            "parent_hash": parents.first(), "timestamp_iso": format!("{}+00:00", time.replace(' ', "T")),
        });
        if parents.len() > 1 {
            let mut sorted = parents.to_vec();
            sorted.sort_unstable();
            sealed["parent_hashes"] = json!(sorted);
        }
        let hash = Self::hash(&sealed);
        let sql = "INSERT OR IGNORE INTO blobs VALUES (?1, ?2, 1, 1, ?3)";
        self.connection.execute(sql, [&content, &payload.to_string(), &time]).expect("a blob");
        let sql = "INSERT INTO commits VALUES \
                   (?1, 't', ?2, ?3, ?4, 'APPEND', NULL, NULL, 1, 'null', 'null', ?5)";
        self.connection
            .execute(sql, (&hash, parents.first(), &content, content_type, &time))
            .expect("a commit");
        if parents.len() > 1 {
            for (place, parent) in parents.iter().enumerate() {
                let sql = "INSERT INTO commit_parents VALUES (?1, ?2, ?3)";
                self.connection.execute(sql, (&hash, parent, place as u32)).expect("a parent");
            }
        }
        hash
    }

    fn says(&mut self, text: &str, parents: &[&str]) -> String {
        let payload =
            json!({"content_type": "dialogue", "name": null, "role": "user", "text": text});
        self.add(&payload, "dialogue", parents)
    }

    fn merges(&mut self, name: &str, parents: &[&str]) -> String {
        let payload = json!({
            "content_type": "freeform",
            "payload": {"message": format!("Merged {name} into main")},
        });
        self.add(&payload, "freeform", parents)
    }

    fn points(&self, branch: &str, commit: &str) {
        let sql = "INSERT INTO refs VALUES ('t', ?1, ?2, NULL)";
        self.connection.execute(sql, [&format!("refs/heads/{branch}"), commit]).expect("a ref");
    }
}

/// The original shows of a merged branch what its first parents added, and nothing that was merged
/// into that branch. Here it is shown, and reported.
#[test]
fn messages_of_a_nested_merge_are_shown_and_reported() {
    let place = Workspace::new();
    let path = place.path("nested.db");
    let mut old = LegacyFile::at(&path);
    let root = old.says("root", &[]);
    let (side, deep) = (old.says("side", &[&root]), old.says("deep", &[&root]));
    let nested = old.merges("deep", &[&side, &deep]);
    let after = old.says("after", &[&nested]);
    let main = old.says("main", &[&root]);
    let merged = old.merges("side", &[&main, &after]);
    let end = old.says("end", &[&merged]);
    for (branch, commit) in [("main", &end), ("side", &after), ("deep", &deep)] {
        old.points(branch, commit);
    }
    drop(old);
    let lines = place.json(&["import", "--json", "--format", "python-tract", text(&path)]);
    let shown = |branch: &str| -> Vec<String> {
        let line = lines.iter().find(|line| line["branch"] == branch).expect("a branch");
        assert_eq!(line["status"], "created", "{line}");
        let anomalies = list(&line["anomalies"]).iter();
        let texts = anomalies.filter_map(|a| a.as_str()).filter(|a| a.contains("leaves it out"));
        texts.map(str::to_owned).collect()
    };
    let texts = |branch: &str| -> Vec<String> {
        let compiled = place.json(&["compile", branch, "--to", "openai"]);
        let mut texts = each(list(&compiled[0]), "content");
        texts.sort_unstable();
        texts.into_iter().map(str::to_owned).collect()
    };
    assert_eq!(texts("t/main"), ["after", "deep", "end", "main", "root", "side"]);
    let reported = shown("t/main");
    assert_eq!(reported.len(), 1, "{lines:?}");
    let is_named = reported[0].starts_with("1 message ") && reported[0].contains(&deep[..8]);
    assert!(is_named, "{reported:?}");
    // On the branch that it was merged into the original shows it.
    assert_eq!(shown("t/side"), Vec::<String>::new());
    assert_eq!(texts("t/side"), ["after", "deep", "root", "side"]);
    place.is_clean();
}
