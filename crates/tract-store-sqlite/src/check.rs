//! Checking what only this store can: the engine's file, places, the tool index, refs and log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use rusqlite::{Connection, params};
use tract_core::store::Damage;
use tract_core::{
    BlobId, Commit, CommitId, ObjectId, StoreResult, ToolId, ToolRow, ToolSchema, Toolset,
    ToolsetId,
};

use crate::error::engine;
use crate::log;
use crate::memory::Memory;
use crate::read::{content_place, statement};
use crate::schema::{
    DERIVED, DERIVED_LAST, REPO, TEXT, TOOL, TOOL_NAME, TOOLSET, blob_segment, bytes_of, place,
    prefix, segment_start, small_sum,
};
use crate::tools;
use crate::write::{Tx, Writing};

const OP: &str = "check";

/// What the check of one repository knows and found.
struct Check<'c> {
    connection: &'c Connection,
    repo: i64,
    damage: Vec<Damage>,
    /// Sound blobs, by row.
    blobs: HashMap<i64, BlobId>,
    /// Sound commits, by row: what the other checks need of them.
    commits: BTreeMap<i64, Node>,
    toolsets: HashMap<ToolsetId, Toolset>,
    /// Rows of the tool index.
    tools: Vec<ToolRow>,
    /// Damaged rows of `small` that can be thrown away.
    broken: Vec<i64>,
    index_broken: bool,
}

struct Node {
    id: CommitId,
    parent: Option<CommitId>,
    content: Option<(BlobId, Option<i64>)>,
    toolset: Option<ToolsetId>,
    created_at: Option<i64>,
}

/// Checks a repository; with `repair`, builds anew what is derived.
pub(crate) fn check(
    connection: &Connection,
    memory: &Mutex<Memory>,
    repo: i64,
    repair: bool,
) -> StoreResult<Vec<Damage>> {
    let writing = match repair {
        true => Some(Writing::begin(connection, OP)?),
        false => None,
    };
    let mut check = Check {
        connection,
        repo,
        damage: Vec::new(),
        blobs: HashMap::new(),
        commits: BTreeMap::new(),
        toolsets: HashMap::new(),
        tools: Vec::new(),
        broken: Vec::new(),
        index_broken: false,
    };
    check.engine()?;
    check.blobs()?;
    check.commits()?;
    check.small()?;
    check.links()?;
    check.tool_index()?;
    check.refs()?;
    if let Some(writing) = writing {
        check.repair(memory)?;
        writing.commit(OP)?;
    }
    Ok(check.damage)
}

impl Check<'_> {
    fn found(&mut self, object: Option<ObjectId>, derived: bool, what: impl Into<String>) {
        self.damage.push(Damage { object, what: what.into(), derived });
    }

    /// Lets SQLite check its file: pages, tables against indexes.
    fn engine(&mut self) -> StoreResult<()> {
        let lines = self
            .connection
            .prepare("PRAGMA integrity_check(100)")
            .and_then(|mut check| {
                check.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()
            })
            .map_err(engine(OP))?;
        for line in lines.into_iter().filter(|line| line != "ok") {
            // Only what an index lacks or has too much can be built anew.
            let derived = line.contains(" index ");
            self.index_broken |= derived;
            self.found(None, derived, format!("database file: {line}"));
        }
        Ok(())
    }

    fn blobs(&mut self) -> StoreResult<()> {
        let sql = "SELECT id, h, data FROM blobs WHERE repo = ?1";
        let mut select = statement(self.connection, OP, sql)?;
        let mut rows = select.query(params![self.repo]).map_err(engine(OP))?;
        let mut bad = Vec::new();
        while let Some(row) = rows.next().map_err(engine(OP))? {
            let (at, h): (i64, i64) =
                (row.get(0).map_err(engine(OP))?, row.get(1).map_err(engine(OP))?);
            let id = tract_core::hash::blob(bytes_of(row.get_ref(2).map_err(engine(OP))?));
            match prefix(id.as_bytes()) == h {
                true => drop(self.blobs.insert(at, id)),
                false => bad.push(format!("blob {:016x}… reads as {id}", h as u64)),
            }
        }
        bad.into_iter().for_each(|what| self.found(None, false, what));
        Ok(())
    }

    fn commits(&mut self) -> StoreResult<()> {
        let sql = "SELECT id, h, content, rec FROM commits WHERE repo = ?1";
        let mut select = statement(self.connection, OP, sql)?;
        let mut rows = select.query(params![self.repo]).map_err(engine(OP))?;
        let mut bad = Vec::new();
        while let Some(row) = rows.next().map_err(engine(OP))? {
            let (at, h): (i64, i64) =
                (row.get(0).map_err(engine(OP))?, row.get(1).map_err(engine(OP))?);
            let content: Option<i64> = row.get(2).map_err(engine(OP))?;
            let record = bytes_of(row.get_ref(3).map_err(engine(OP))?);
            match Commit::decode_any(record) {
                Ok(commit) if prefix(commit.id().as_bytes()) == h => {
                    let node = Node {
                        id: commit.id(),
                        parent: commit.parent(),
                        content: commit.content.map(|id| (id, content_place(at, content))),
                        toolset: commit.toolset,
                        created_at: commit.created_at,
                    };
                    self.commits.insert(at, node);
                }
                Ok(commit) => {
                    bad.push(format!("commit {:016x}… reads as {}", h as u64, commit.id()))
                }
                Err(error) => bad.push(format!("commit {:016x}…: {error}", h as u64)),
            }
        }
        bad.into_iter().for_each(|what| self.found(None, false, what));
        Ok(())
    }

    /// Reads all rows of `small` of this repository and the one that names it.
    fn small(&mut self) -> StoreResult<()> {
        let sql = "SELECT id, repo, kind, key, data, sum FROM small WHERE repo IN (0, ?1)";
        let mut select = statement(self.connection, OP, sql)?;
        let mut rows = select.query(params![self.repo]).map_err(engine(OP))?;
        while let Some(row) = rows.next().map_err(engine(OP))? {
            let numbers = |n: usize| row.get::<_, i64>(n).map_err(engine(OP));
            let (id, repo, kind, key) = (numbers(0)?, numbers(1)?, numbers(2)?, numbers(3)?);
            let data = bytes_of(row.get_ref(4).map_err(engine(OP))?);
            let sum = numbers(5)?;
            let named = match kind {
                REPO => "the name of a repository",
                TEXT => "a text of the ref log",
                TOOLSET => "a toolset",
                TOOL | TOOL_NAME => "a row of the tool index",
                _ => "a derived row",
            };
            let rebuilt =
                kind == TOOL || kind == TOOL_NAME || (DERIVED..=DERIVED_LAST).contains(&kind);
            if small_sum(repo, kind, key, data) != sum {
                if rebuilt {
                    self.broken.push(id);
                }
                self.found(None, rebuilt, format!("{named} (row {id}) is damaged"));
                continue;
            }
            match kind {
                TOOLSET => match tools::decode_entries(data).map(Toolset::seal) {
                    Some(toolset) if prefix(toolset.id().as_bytes()) == key => {
                        self.toolsets.insert(toolset.id(), toolset);
                    }
                    _ => self.found(None, false, format!("{named} (row {id}) is damaged")),
                },
                TOOL => match tools::decode(data) {
                    Some(tool) => self.tools.push(tool),
                    None => {
                        self.broken.push(id);
                        self.found(None, true, format!("{named} (row {id}) is damaged"));
                    }
                },
                DERIVED..=DERIVED_LAST if !self.commits.contains_key(&key) => {
                    self.broken.push(id);
                    self.found(None, true, format!("{named} (row {id}) is of no commit"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks places: a commit stands right after its first parent, or begins a segment; its
    /// content lies where its row says; blobs of no commit lie in their segment.
    fn links(&mut self) -> StoreResult<()> {
        let mut bad = Vec::new();
        for (at, node) in &self.commits {
            let object = Some(ObjectId::Commit(node.id));
            if *at != segment_start(*at) {
                let before = self.commits.get(&(at - 1)).map(|before| before.id);
                if node.parent.is_none() || before != node.parent {
                    bad.push((object, "it does not stand right after its first parent"));
                }
            }
            if (at >> 32) % 2 != 0 || *at < place(2, 0) {
                bad.push((object, "it lies where no commit may lie"));
            }
            if let Some((content, row)) = node.content
                && row.and_then(|row| self.blobs.get(&row)) != Some(&content)
            {
                bad.push((object, "its content does not lie where its row says"));
            }
        }
        let own = blob_segment(self.repo);
        for (at, id) in &self.blobs {
            let beside = self.commits.get(at).and_then(|node| node.content);
            if at >> 32 != own && beside.is_none_or(|(content, _)| content != *id) {
                bad.push((Some(ObjectId::Blob(*id)), "it lies at the place of another commit"));
            }
        }
        bad.into_iter().for_each(|(object, what)| self.found(object, true, what));
        Ok(())
    }

    /// Works out which rows the tool index must have: per tool and schema the first commit whose
    /// tools in force hold it.
    fn expected_tools(&self) -> Vec<ToolRow> {
        let by_id: HashMap<_, _> = self.commits.values().map(|node| (node.id, node)).collect();
        let rows: HashMap<_, _> = self.blobs.iter().map(|(row, id)| (*id, *row)).collect();
        let mut first: HashMap<(ToolId, BlobId), (i64, CommitId)> = HashMap::new();
        for node in self.commits.values() {
            let parent = node.parent.and_then(|parent| by_id.get(&parent));
            if parent.is_some_and(|parent| parent.toolset == node.toolset) {
                continue;
            }
            let Some(toolset) = node.toolset.and_then(|id| self.toolsets.get(&id)) else {
                continue;
            };
            let seen = (created_at(node, &by_id), node.id);
            for entry in toolset.entries() {
                first
                    .entry((entry.tool, entry.schema))
                    .and_modify(|first| *first = seen.min(*first))
                    .or_insert(seen);
            }
        }
        let mut expected: Vec<_> = first
            .into_iter()
            .filter_map(|((id, schema), (created_at, commit))| {
                let name = self.tool_name(*rows.get(&schema)?)?;
                Some(ToolRow { id, name, schema, commit, created_at })
            })
            .collect();
        expected.sort_by_key(|row| (row.created_at, row.commit, row.id, row.schema));
        expected
    }

    fn tool_name(&self, row: i64) -> Option<String> {
        let sql = "SELECT data FROM blobs WHERE id = ?1";
        let mut select = self.connection.prepare_cached(sql).ok()?;
        let data: Vec<u8> =
            select.query_row([row], |row| Ok(bytes_of(row.get_ref(0)?).to_vec())).ok()?;
        Some(ToolSchema::parse(std::str::from_utf8(&data).ok()?).ok()?.name().to_owned())
    }

    fn tool_index(&mut self) -> StoreResult<()> {
        let have: HashMap<_, _> =
            self.tools.iter().map(|row| ((row.id, row.schema), row.name.clone())).collect();
        let mut names = HashSet::new();
        let mut bad = Vec::new();
        for row in self.expected_tools() {
            let object = Some(ObjectId::Tool(row.id));
            match have.get(&(row.id, row.schema)) {
                None => bad.push((object, "it is in force at a commit, but not in the tool index")),
                Some(name) if *name != row.name => {
                    bad.push((object, "the tool index has it under another name"));
                }
                Some(_) => {}
            }
            names.insert((row.id, row.name));
        }
        for (id, name) in names {
            let listed = tools::by_name(self.connection, self.repo, &name).unwrap_or_default();
            if !listed.iter().any(|definition| definition.id == id) {
                bad.push((Some(ObjectId::Tool(id)), "the tool index does not find it by name"));
            }
        }
        bad.into_iter().for_each(|(object, what)| self.found(object, true, what));
        Ok(())
    }

    fn refs(&mut self) -> StoreResult<()> {
        let (refs, bad) = log::list(self.connection, OP, self.repo, "")?;
        bad.into_iter()
            .for_each(|name| self.found(None, false, format!("the ref {name} is damaged")));
        let mut replayed = BTreeMap::new();
        let mut found = Vec::new();
        let mut last = 0;
        log::replay(self.connection, OP, self.repo, |seq, entry| {
            if seq != last + 1 {
                found.push(format!("the ref log jumps from entry {last} to {seq}"));
            }
            last = seq;
            let Some(entry) = entry else {
                return found.push(format!("entry {seq} of the ref log is damaged"));
            };
            let before = match &entry.after {
                Some(after) => replayed.insert(entry.name.clone(), after.clone()),
                None => replayed.remove(&entry.name),
            };
            if before != entry.before {
                found.push(format!("entry {seq} of the ref log does not follow from those before"));
            }
        })?;
        if replayed != refs.into_iter().collect() {
            found.push("replaying the ref log does not give the refs".to_owned());
        }
        found.into_iter().for_each(|what| self.found(None, false, what));
        Ok(())
    }

    fn repair(&mut self, memory: &Mutex<Memory>) -> StoreResult<()> {
        if self.damage.iter().all(|damage| !damage.derived) {
            return Ok(());
        }
        if self.index_broken {
            self.connection.execute_batch("REINDEX").map_err(engine(OP))?;
        }
        let run = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| {
            statement(self.connection, OP, sql)?.execute(parameters).map_err(engine(OP))
        };
        for id in &self.broken {
            run("DELETE FROM small WHERE id = ?1", &[id])?;
        }
        let rows: HashMap<_, _> = self.blobs.iter().map(|(row, id)| (*id, *row)).collect();
        for (at, node) in &self.commits {
            let Some((content, row)) = node.content else { continue };
            let right = rows.get(&content).copied();
            if row.and_then(|row| self.blobs.get(&row)) != Some(&content) && right.is_some() {
                run("UPDATE commits SET content = ?2 WHERE id = ?1", &[at, &right])?;
            }
        }
        let sql = "DELETE FROM small WHERE repo = ?1 AND kind IN (?2, ?3)";
        run(sql, &[&self.repo, &TOOL, &TOOL_NAME])?;
        let mut tx = Tx::new(self.connection, memory);
        for row in self.expected_tools() {
            tx.tool(self.repo, &row)?;
        }
        Ok(())
    }
}

/// Returns when a commit was made: an import without times counts as its parent's, a root as 0.
fn created_at(node: &Node, by_id: &HashMap<CommitId, &Node>) -> i64 {
    let mut node = node;
    loop {
        match (node.created_at, node.parent.and_then(|parent| by_id.get(&parent))) {
            (Some(at), _) => return at,
            (None, Some(parent)) => node = parent,
            (None, None) => return 0,
        }
    }
}
