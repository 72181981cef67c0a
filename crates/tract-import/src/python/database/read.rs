//! Reads the rows of a file.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, Row};
use tract_core::time::parse_rfc3339;

use super::rows::{Annotation, Commit, Database, Event, Operation, RefRow, Spawn, Tag, Tool};
use super::{NEWEST_VERSION, OLDEST_VERSION, PythonError, hash};
use crate::sqlite::{self, OpenError};

type Result<T> = std::result::Result<T, PythonError>;

/// Reads all rows of a file of the Python original.
///
/// # Behavior
/// - The file is only read. Without a `-wal` or `-journal` file next to it, it is read as
///   immutable, even if its folder is not writable.
/// - The hash of every commit, of its content and of every tool is recomputed. A commit that fails
///   is included, with the reason in [`Commit::damage`].
/// - Tables that a schema version does not have yet are empty.
///
/// # Errors
/// [`PythonError`] when the file is not one of the original, has an unknown version, or is not
/// readable.
pub fn read(path: &Path) -> Result<Database> {
    let connection = sqlite::open(path).map_err(|error| match error {
        OpenError::File(source) => PythonError::File { path: path.to_owned(), source },
        OpenError::Sqlite(source) => PythonError::Sqlite { path: path.to_owned(), source },
    })?;
    let file = File { path, connection };
    let version = file.version()?;
    let mut data = Database {
        schema_version: version,
        old_edit_column: file.columns("commits")?.contains("response_to"),
        ..Database::default()
    };
    data.blobs = file
        .all("blobs", "SELECT content_hash, payload_json FROM blobs", |row| {
            Ok((row.get("content_hash")?, row.get("payload_json")?))
        })?
        .into_iter()
        .collect();
    data.tools = file.tools()?;
    data.refs = file.all(
        "refs",
        "SELECT tract_id, ref_name, commit_hash, symbolic_target FROM refs \
         ORDER BY tract_id, ref_name",
        |row| {
            Ok(RefRow {
                tract_id: row.get(0)?,
                name: row.get(1)?,
                commit: row.get(2)?,
                symbolic: row.get(3)?,
            })
        },
    )?;
    data.commits = file.commits(data.old_edit_column)?;
    data.annotations = file.annotations()?;
    data.events = file.events()?;
    data.tags = file.all(
        "tag_annotations",
        "SELECT tract_id, target_hash, tag FROM tag_annotations ORDER BY id",
        |row| Ok(Tag { tract_id: row.get(0)?, target: row.get(1)?, tag: row.get(2)? }),
    )?;
    data.automatic_tags = file.all(
        "tag_registry",
        "SELECT DISTINCT tag_name FROM tag_registry WHERE auto_created <> 0 ORDER BY tag_name",
        |row| row.get(0),
    )?;
    data.spawns = file.all(
        "spawn_pointers",
        "SELECT parent_tract_id, parent_commit_hash, child_tract_id, purpose, inheritance_mode \
         FROM spawn_pointers ORDER BY id",
        |row| {
            Ok(Spawn {
                parent_tract_id: row.get(0)?,
                parent_commit: row.get(1)?,
                child_tract_id: row.get(2)?,
                purpose: row.get(3)?,
                inheritance_mode: row.get(4)?,
            })
        },
    )?;
    check(&mut data);
    Ok(data)
}

struct File<'a> {
    path: &'a Path,
    connection: Connection,
}

impl File<'_> {
    fn sqlite(&self, source: rusqlite::Error) -> PythonError {
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => self.not_tract("no SQLite database"),
            _ => PythonError::Sqlite { path: self.path.to_owned(), source },
        }
    }

    fn not_tract(&self, found: &str) -> PythonError {
        PythonError::NotTract { path: self.path.to_owned(), found: found.to_owned() }
    }

    fn value(&self, what: String, expected: &'static str, found: &str) -> PythonError {
        PythonError::Value { path: self.path.to_owned(), what, expected, found: found.to_owned() }
    }

    fn columns(&self, table: &str) -> Result<HashSet<String>> {
        self.rows("SELECT name FROM pragma_table_info(?1)", [table], |row| row.get(0))
            .map(|names| names.into_iter().collect())
    }

    /// Returns the name of a column; `NULL` if this version lacks it.
    fn column<'a>(&self, table: &str, name: &'a str) -> Result<&'a str> {
        Ok(if self.columns(table)?.contains(name) { name } else { "NULL" })
    }

    /// Returns the rows of a table; empty if this version lacks it.
    fn all<T>(
        &self,
        table: &str,
        sql: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        if self.columns(table)?.is_empty() { Ok(Vec::new()) } else { self.rows(sql, [], read) }
    }

    fn rows<T, P: rusqlite::Params>(
        &self,
        sql: &str,
        params: P,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.connection.prepare(sql).map_err(|error| self.sqlite(error))?;
        let rows = statement.query_map(params, read).map_err(|error| self.sqlite(error))?;
        rows.collect::<rusqlite::Result<Vec<T>>>().map_err(|error| self.sqlite(error))
    }

    fn version(&self) -> Result<u32> {
        if self.columns("_trace_meta")?.is_empty() {
            return Err(self.not_tract("no such table"));
        }
        let sql = "SELECT value FROM _trace_meta WHERE key = 'schema_version'";
        let versions: Vec<String> = self.rows(sql, [], |row| row.get(0))?;
        let text = versions.first().ok_or_else(|| self.not_tract("no schema_version in it"))?;
        match text.parse::<u32>() {
            Ok(version) if (OLDEST_VERSION..=NEWEST_VERSION).contains(&version) => Ok(version),
            _ => Err(PythonError::Version { path: self.path.to_owned(), found: text.clone() }),
        }
    }

    fn tools(&self) -> Result<HashMap<String, Tool>> {
        let sql = "SELECT content_hash, name, schema_json FROM tool_definitions";
        let rows: Vec<(String, Tool)> = self.all("tool_definitions", sql, |row| {
            Ok((row.get(0)?, Tool { name: row.get(1)?, schema: row.get(2)? }))
        })?;
        for (id, tool) in &rows {
            if !hash::tool_is(id, &tool.schema) {
                let what = format!("tool {id}");
                return Err(self.value(what, "a schema of this hash", &tool.schema));
            }
        }
        Ok(rows.into_iter().collect())
    }

    fn commits(&self, old_edit_column: bool) -> Result<HashMap<String, Commit>> {
        let target = if old_edit_column { "response_to" } else { "edit_target" };
        let tags = self.column("commits", "tags_json")?;
        let sql = format!(
            "SELECT commit_hash, tract_id, parent_hash, content_hash, content_type, operation, \
             {target}, message, metadata_json, generation_config_json, {tags}, created_at \
             FROM commits"
        );
        let rows: Vec<(Commit, String, Option<String>, String)> = self.rows(&sql, [], |row| {
            let commit = Commit {
                hash: row.get(0)?,
                tract_id: row.get(1)?,
                parent: row.get(2)?,
                parents: Vec::new(),
                content_hash: row.get(3)?,
                content_type: row.get(4)?,
                operation: Operation::Append,
                edit_target: row.get(6)?,
                message: row.get(7)?,
                metadata: json(row.get(8)?),
                generation_config: json(row.get(9)?),
                tags: Vec::new(),
                tools: Vec::new(),
                created_at: 0,
                damage: None,
            };
            Ok((commit, row.get(5)?, json(row.get(10)?), row.get(11)?))
        })?;
        let mut commits = HashMap::with_capacity(rows.len());
        for (mut commit, operation, tags, created_at) in rows {
            commit.operation = match operation.to_ascii_lowercase().as_str() {
                "append" => Operation::Append,
                "edit" => Operation::Edit,
                other => {
                    let what = format!("commit {}, operation", commit.hash);
                    return Err(self.value(what, "APPEND or EDIT", other));
                }
            };
            commit.created_at = self.time(&created_at, || format!("commit {}", commit.hash))?;
            if let Some(tags) = tags {
                commit.tags = serde_json::from_str(&tags).map_err(|_| {
                    let what = format!("commit {}, tags_json", commit.hash);
                    self.value(what, "a JSON list of strings", &tags)
                })?;
            }
            commits.insert(commit.hash.clone(), commit);
        }
        let links = |table: &str, to: &str| -> Result<Vec<(String, String)>> {
            let sql =
                format!("SELECT commit_hash, {to} FROM {table} ORDER BY commit_hash, position");
            self.all(table, &sql, |row| Ok((row.get(0)?, row.get(1)?)))
        };
        for (commit, parent) in links("commit_parents", "parent_hash")? {
            commits.entry(commit).and_modify(|commit: &mut Commit| commit.parents.push(parent));
        }
        for (commit, tool) in links("commit_tools", "tool_hash")? {
            commits.entry(commit).and_modify(|commit: &mut Commit| commit.tools.push(tool));
        }
        Ok(commits)
    }

    fn annotations(&self) -> Result<Vec<Annotation>> {
        let retention = self.column("annotations", "retention_json")?;
        let sql = format!(
            "SELECT target_hash, priority, reason, {retention}, created_at FROM annotations \
             ORDER BY created_at, id"
        );
        let rows: Vec<(Annotation, String)> = self.all("annotations", &sql, |row| {
            let priority: String = row.get(1)?;
            let annotation = Annotation {
                target: row.get(0)?,
                priority: priority.to_ascii_lowercase(),
                reason: row.get(2)?,
                retention: json(row.get(3)?),
                created_at: 0,
            };
            Ok((annotation, row.get(4)?))
        })?;
        let timed = |(mut annotation, created_at): (Annotation, String)| {
            let what = || format!("annotation of commit {}", annotation.target);
            annotation.created_at = self.time(&created_at, what)?;
            Ok(annotation)
        };
        rows.into_iter().map(timed).collect()
    }

    fn events(&self) -> Result<Vec<Event>> {
        let sql = "SELECT event_id, tract_id, event_type, branch_name, params_json, created_at \
                   FROM operation_events ORDER BY created_at, event_id";
        let rows: Vec<(Event, String)> = self.all("operation_events", sql, |row| {
            let event = Event {
                id: row.get(0)?,
                tract_id: row.get(1)?,
                event_type: row.get(2)?,
                branch: row.get(3)?,
                params: json(row.get(4)?),
                created_at: 0,
                sources: Vec::new(),
                results: Vec::new(),
            };
            Ok((event, row.get(5)?))
        })?;
        let mut events = Vec::with_capacity(rows.len());
        for (mut event, created_at) in rows {
            event.created_at = self.time(&created_at, || format!("event {}", event.id))?;
            let sql = "SELECT commit_hash, role FROM operation_commits WHERE event_id = ?1 \
                       ORDER BY role, position";
            let parts: Vec<(String, String)> =
                self.rows(sql, [&event.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for (commit, role) in parts {
                match role.as_str() {
                    "source" => event.sources.push(commit),
                    _ => event.results.push(commit),
                }
            }
            events.push(event);
        }
        Ok(events)
    }

    /// Parses a time, which is stored in UTC without a zone.
    fn time(&self, text: &str, what: impl FnOnce() -> String) -> Result<i64> {
        parse_rfc3339(&format!("{}Z", text.replacen(' ', "T", 1)))
            .map_err(|_| self.value(what(), "a time such as 2026-02-25 10:00:00.000000", text))
    }
}

/// Reads a JSON column: Python's `None` is stored as `null`, or not at all.
fn json(text: Option<String>) -> Option<String> {
    text.filter(|text| text.trim() != "null")
}

/// Recomputes all hashes.
fn check(data: &mut Database) {
    let blobs = data.blobs.iter();
    let known: HashMap<&str, Option<String>> =
        blobs.map(|(id, text)| (id.as_str(), hash::blob_damage(id, text))).collect();
    for commit in data.commits.values_mut() {
        commit.damage = match known.get(commit.content_hash.as_str()) {
            None => Some("its content is missing".to_owned()),
            Some(Some(damage)) => Some(damage.clone()),
            Some(None) if !hash::commit_is(commit) => {
                Some("it is not what its hash names".to_owned())
            }
            Some(None) => None,
        };
    }
}
