//! Checks the parts specific to this store: the database file, places, the tool index, refs and
//! log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Mutex;

use rusqlite::{Row, params};
use tract_compression::{DICTIONARY_COPIES, DictionaryRow};
use tract_core::store::{
    Damage, ListKind, SeenCommit, ToolChanges, ToolsInForce, damaged_log_path,
};
use tract_core::{
    Blob, BlobId, Commit, CommitId, ObjectId, StoreError, StoreErrorKind, StoreResult, ToolRow,
    ToolSchema, Toolset, ToolsetId,
};

use crate::error::engine;
use crate::memory::{Memory, lock};
use crate::read::{Columns, RepoReader, content_place, statement};
use crate::schema::{
    DERIVED, DERIVED_LAST, DICTIONARY, REPO, SWEEPS, TEXT, TOOL, TOOL_NAME, TOOLSET, UNLOGGED,
    blob_segment, bytes_of, place, prefix, segment_start, small_sum,
};
use crate::sweep::LogRows;
use crate::write::{Tx, WriteTransaction};
use crate::{compressed, sweep, tools};

const OP: &str = "check";

/// The state and findings of the check of one repository.
struct Check<'c> {
    reader: RepoReader<'c>,
    damage: Vec<Damage>,
    /// Intact blobs, sorted by row.
    blobs: Vec<StoredBlob>,
    /// Rows of intact commits: the first and last of each run.
    commits: Vec<(i64, i64)>,
    /// Commits whose row has the wrong place for their content.
    misplaced: Vec<(i64, BlobId)>,
    tool_changes: ToolChanges,
    toolsets: HashMap<ToolsetId, Toolset>,
    /// Rows of the tool index.
    tools: Vec<ToolRow>,
    /// Commits without a commit directly before them, each with its first parent.
    gaps: Vec<(i64, CommitId)>,
    /// Damaged rows of `small` that can be deleted.
    broken: Vec<i64>,
    /// Intact objects in rows with the key of another object.
    wrong_keys: Vec<WrongKey>,
    /// Keys of dictionaries that have an intact copy and a damaged or missing one.
    copies: Vec<i64>,
    index_broken: bool,
    /// Whether pages are damaged. If so, rows are read as far as possible.
    pages_broken: bool,
    /// Whether objects were swept. If so, blobs may be at places without a commit.
    was_swept: bool,
    /// Erased contents, which commits still name.
    erased: HashSet<BlobId>,
}

/// An intact blob. Half of its id identifies it: this finds wrong places, not forgeries.
struct StoredBlob {
    at: i64,
    head: [u8; 16],
    beside: CommitAtPlace,
}

/// The commit at the place of a blob.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitAtPlace {
    /// No readable commit.
    Nothing,
    /// A commit with different content.
    Other,
    /// The commit that has this content.
    Own,
}

/// An object in a row with the key or checksum of another object, which no read by id finds. If
/// nothing links to it, the key may be right and the object be what is left of another one.
struct WrongKey {
    at: i64,
    object: ObjectId,
    /// What a check reports if the object is not to be kept.
    what: String,
}

/// What to do with a row whose key does not match its object.
enum KeyRepair {
    /// The object is needed, and is stored nowhere else.
    SetKey,
    /// The object is also stored under its own key.
    Delete,
}

fn head(id: BlobId) -> [u8; 16] {
    id.as_bytes().first_chunk().copied().unwrap_or_default()
}

/// Checks a repository. With `repair`, rebuilds derived data.
pub(crate) fn check(
    reader: RepoReader<'_>,
    memory: &Mutex<Memory>,
    repair: bool,
) -> StoreResult<Vec<Damage>> {
    // A repair holds the write lock from the first read, so that what it changes is what was found.
    let writing = if repair { Some(WriteTransaction::begin(reader.connection, OP)?) } else { None };
    let mut check = Check {
        reader,
        damage: Vec::new(),
        blobs: Vec::new(),
        commits: Vec::new(),
        misplaced: Vec::new(),
        tool_changes: ToolChanges::default(),
        toolsets: HashMap::new(),
        tools: Vec::new(),
        broken: Vec::new(),
        wrong_keys: Vec::new(),
        gaps: Vec::new(),
        copies: Vec::new(),
        index_broken: false,
        pages_broken: false,
        // A damaged count is reported as a damaged row.
        was_swept: sweep::sweeps(reader).is_ok_and(|sweeps| sweeps > 0),
        erased: crate::erase::erased(reader),
    };
    // In this order: commits are compared with the blobs that were found, derived rows with the
    // commits, and the tool index with both.
    check.kept_log();
    check.engine()?;
    check.blobs()?;
    check.commits()?;
    check.small()?;
    let key_repairs = check.key_repairs()?;
    check.dictionaries()?;
    // With damaged pages, findings about missing rows would only repeat that damage.
    if !check.pages_broken {
        check.loose_blobs();
        check.tool_index()?;
    }
    check.refs().or_else(|error| check.unreadable(error))?;
    if let Some(writing) = writing {
        check.repair(memory, &key_repairs)?;
        writing.commit(OP)?;
        if !key_repairs.is_empty() {
            // Objects whose rows had wrong keys were not compared with the derived rows.
            self::check(reader, memory, true)?;
        }
    }
    Ok(check.damage)
}

/// Reads rows of a table in file order. `columns_of` is the part of the statement from the columns
/// after `id` to the condition. With damaged pages, rows on other pages are still read: unreadable
/// ids are skipped in steps that double in size.
fn rows(
    reader: RepoReader<'_>,
    pages_broken: bool,
    columns_of: &str,
    mut take: impl FnMut(Columns<'_>) -> StoreResult<()>,
) -> StoreResult<()> {
    if !pages_broken {
        let sql = format!("SELECT id, {columns_of} ORDER BY id");
        return reader.each_row(&sql, params![reader.repo], take);
    }
    let sql = format!("SELECT id, {columns_of} AND id > ?2 ORDER BY id");
    let mut select = reader.connection.prepare(&sql).map_err(engine(OP))?;
    let (mut after, mut step) = (i64::MIN, 1i64);
    loop {
        let mut rows = select.query(params![reader.repo, after]).map_err(engine(OP))?;
        loop {
            match rows.next() {
                Ok(None) => return Ok(()),
                Ok(Some(row)) => {
                    after = row.get(0).map_err(engine(OP))?;
                    step = 1;
                    take(Columns { row, op: OP })?;
                }
                Err(error) => {
                    let error = engine(OP)(error);
                    if !matches!(error.kind, StoreErrorKind::Corrupt { .. }) {
                        return Err(error);
                    }
                    break;
                }
            }
        }
        // A skipped object is reported when another one refers to it and it cannot be read by id.
        let Some(next) = after.checked_add(step) else { return Ok(()) };
        (after, step) = (next, step.saturating_mul(2));
    }
}

impl Check<'_> {
    fn found(&mut self, object: Option<ObjectId>, derived: bool, what: impl Into<String>) {
        self.damage.push(Damage { object, what: what.into(), derived });
    }

    /// Reports a damaged log that was set aside.
    fn kept_log(&mut self) {
        let Some(path) = self.reader.connection.path().map(Path::new) else { return };
        let kept = damaged_log_path(path);
        if kept.exists() {
            let what = format!(
                "{} is a damaged log with writes that are lost here; remove it once it is of no \
                 more use",
                kept.display()
            );
            self.found(None, false, what);
        }
    }

    /// Reports corruption as damage and passes other errors on.
    fn unreadable(&mut self, error: StoreError) -> StoreResult<()> {
        match error.kind {
            StoreErrorKind::Corrupt { object } => self.found(object, false, error.message),
            _ => return Err(error),
        }
        Ok(())
    }

    /// Runs SQLite's own check of pages, and of tables against indexes.
    fn engine(&mut self) -> StoreResult<()> {
        let lines = self
            .reader
            .connection
            .prepare("PRAGMA integrity_check(100)")
            .and_then(|mut check| {
                check.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()
            })
            .map_err(engine(OP));
        let lines = match lines {
            Ok(lines) => lines,
            Err(error) => {
                self.pages_broken = true;
                return self.unreadable(error);
            }
        };
        for line in lines.into_iter().filter(|line| line != "ok") {
            // Only an index can be rebuilt if it has missing or extra rows.
            let derived = line.contains(" index ");
            self.index_broken |= derived;
            self.pages_broken |= !derived;
            self.found(None, derived, format!("database file: {line}"));
        }
        Ok(())
    }

    fn blobs(&mut self) -> StoreResult<()> {
        let reader = self.reader;
        let columns_of = "h, data FROM blobs NOT INDEXED WHERE repo = ?1";
        rows(reader, self.pages_broken, columns_of, |row| {
            let (at, h) = (row.number(0)?, row.number(1)?);
            let Some(bytes) = reader.plain(row.bytes(2)?)? else {
                self.found(None, false, format!("blob {:016x}… cannot be decompressed", h as u64));
                return Ok(());
            };
            let id = tract_core::hash::blob(&bytes);
            if prefix(id.as_bytes()) == h {
                self.blobs.push(StoredBlob { at, head: head(id), beside: CommitAtPlace::Nothing });
            } else {
                let what = format!("blob {:016x}… reads as {id}", h as u64);
                self.wrong_keys.push(WrongKey { at, object: ObjectId::Blob(id), what });
            }
            Ok(())
        })
    }

    /// Returns whether a blob is stored in a row.
    fn has_blob(&self, at: i64, id: BlobId) -> bool {
        let found = self.blobs.binary_search_by_key(&at, |blob| blob.at).ok();
        found.and_then(|place| self.blobs.get(place)).is_some_and(|blob| blob.head == head(id))
    }

    /// Checks commits and their places in one pass: a commit directly follows its first parent, or
    /// starts a segment, and its content is in the row that its own row names.
    fn commits(&mut self) -> StoreResult<()> {
        let mut next_blob = 0;
        let mut before: Option<(i64, SeenCommit)> = None;
        let reader = self.reader;
        let read = |id| {
            let found = reader.find_commit(id).ok().flatten();
            found.map(|(_, commit)| commit)
        };
        let mut tools = ToolsInForce::new(&read);
        // Parents that are not directly before their child, each with the child.
        let mut elsewhere: Vec<(CommitId, CommitId)> = Vec::new();
        let columns_of = "h, content, rec FROM commits NOT INDEXED WHERE repo = ?1";
        rows(reader, self.pages_broken, columns_of, |row| {
            let (at, h, content) = (row.number(0)?, row.number(1)?, row.get(2)?);
            let commit = match Commit::decode_any(row.bytes(3)?) {
                Ok(commit) if prefix(commit.id().as_bytes()) == h => commit,
                Ok(commit) => {
                    let object = ObjectId::Commit(commit.id());
                    let what = format!("commit {:016x}… reads as {}", h as u64, commit.id());
                    self.wrong_keys.push(WrongKey { at, object, what });
                    return Ok(());
                }
                Err(error) => {
                    self.found(None, false, format!("commit {:016x}…: {error}", h as u64));
                    return Ok(());
                }
            };
            match self.commits.last_mut() {
                Some((_, last)) if *last + 1 == at => *last = at,
                _ => self.commits.push((at, at)),
            }
            let object = Some(ObjectId::Commit(commit.id()));
            let near = before.filter(|(place, _)| place + 1 == at).map(|(_, near)| near);
            let is_near = |id: &&CommitId| near.is_some_and(|near| near.id == **id);
            let others = commit.parents.iter().filter(|id| !is_near(id));
            elsewhere.extend(others.map(|parent| (commit.id(), *parent)));
            if !self.pages_broken {
                let is_first = at == segment_start(at);
                let parent = commit.parent();
                let follows = parent.is_some() && near.map(|near| near.id) == parent;
                if !is_first && !follows {
                    self.found(object, true, "it is not right after its first parent");
                    self.gaps.extend(parent.filter(|_| near.is_none()).map(|id| (at, id)));
                }
                // Odd segments are for blobs that are not the content of a commit.
                if (at >> 32) % 2 != 0 || at < place(2, 0) {
                    self.found(object, true, "it lies where no commit may lie");
                }
            }
            if let Some(id) = commit.content {
                let lies = content_place(at, content);
                let is_stored = lies.is_some_and(|lies| self.has_blob(lies, id));
                // The content may have been erased; its commit still names it.
                if !is_stored && !self.erased.contains(&id) {
                    // Or it was erased, and another message stored the same bytes again.
                    let came_back =
                        || self.was_swept && matches!(reader.find_blob(id), Ok(Some(_)));
                    if !self.pages_broken && !came_back() {
                        self.found(object, true, "its content does not lie where its row says");
                    }
                    self.misplaced.push((at, id));
                }
            }
            // Both lists are in the order of places, so one pass over them finds the blobs at
            // places of commits.
            while self.blobs.get(next_blob).is_some_and(|blob| blob.at < at) {
                next_blob += 1;
            }
            if let Some(blob) = self.blobs.get_mut(next_blob).filter(|blob| blob.at == at) {
                let is_own = commit.content.is_some_and(|id| head(id) == blob.head);
                blob.beside = if is_own { CommitAtPlace::Own } else { CommitAtPlace::Other };
            }
            before = Some((at, tools.see(&commit, near)));
            Ok(())
        })?;
        self.tool_changes = tools.into_changes();
        for (child, parent) in elsewhere {
            // A stored but damaged parent is reported under its own id.
            if let Ok(None) = reader.find_commit(parent) {
                let what = format!("its parent {parent} is missing");
                self.found(Some(ObjectId::Commit(child)), false, what);
            }
        }
        Ok(())
    }

    /// Returns whether an intact commit is stored in a row.
    fn has_commit(&self, at: i64) -> bool {
        let after = self.commits.partition_point(|(first, _)| *first <= at);
        let run = after.checked_sub(1).and_then(|place| self.commits.get(place));
        run.is_some_and(|(_, last)| at <= *last)
    }

    /// Checks that blobs that are not the content of a commit are in their own segment.
    fn loose_blobs(&mut self) {
        let own = blob_segment(self.reader.repo);
        let astray = |blob: &&StoredBlob| {
            // A sweep keeps a blob that is still needed when it deletes the commit in the same row.
            let is_left = self.was_swept && blob.beside == CommitAtPlace::Nothing;
            blob.at >> 32 != own && !is_left && blob.beside != CommitAtPlace::Own
        };
        let places: Vec<i64> = self.blobs.iter().filter(astray).map(|blob| blob.at).collect();
        for at in places {
            let id = self.reader.id_at(ListKind::Blobs, at).ok().flatten();
            let object = id.map(|id| ObjectId::Blob(BlobId::from_bytes(id)));
            self.found(object, true, "it lies at the place of another commit");
        }
    }

    /// Reads all rows of `small` for this repository, and the row with its name.
    fn small(&mut self) -> StoreResult<()> {
        let columns_of = "repo, kind, key, data, sum FROM small NOT INDEXED WHERE repo IN (0, ?1)";
        rows(self.reader, self.pages_broken, columns_of, |row| {
            let (id, repo) = (row.number(0)?, row.number(1)?);
            let (kind, key) = (row.number(2)?, row.number(3)?);
            let (data, sum) = (row.bytes(4)?, row.number(5)?);
            let named = match kind {
                REPO => "the name of a repository",
                TEXT => "a text of the ref log",
                TOOLSET => "a toolset",
                SWEEPS | UNLOGGED => "a count of writes",
                TOOL | TOOL_NAME => "a row of the tool index",
                _ => "a derived row",
            };
            let rebuilt =
                kind == TOOL || kind == TOOL_NAME || (DERIVED..=DERIVED_LAST).contains(&kind);
            let damaged = || format!("{named} (row {id}) is damaged");
            if kind == DICTIONARY {
                // Dictionaries are checked together with their copies.
                return Ok(());
            }
            if kind == TOOLSET {
                let Some(set) = tools::decode_entries(data).map(Toolset::seal) else {
                    self.found(None, false, damaged());
                    return Ok(());
                };
                let is_sound = small_sum(repo, kind, key, data) == sum;
                if is_sound && prefix(set.id().as_bytes()) == key {
                    self.toolsets.insert(set.id(), set);
                } else {
                    let object = ObjectId::Toolset(set.id());
                    self.wrong_keys.push(WrongKey { at: id, object, what: damaged() });
                }
                return Ok(());
            }
            if small_sum(repo, kind, key, data) != sum {
                self.broken.extend(rebuilt.then_some(id));
                self.found(None, rebuilt, damaged());
                return Ok(());
            }
            match kind {
                TOOL => match tools::decode(data) {
                    Some(tool) => self.tools.push(tool),
                    None => {
                        self.broken.push(id);
                        self.found(None, true, damaged());
                    }
                },
                DERIVED..=DERIVED_LAST if !self.pages_broken && !self.has_commit(key) => {
                    self.broken.push(id);
                    self.found(None, true, format!("{named} (row {id}) is of no commit"));
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Reports the rows with wrong keys, and returns how to repair them.
    fn key_repairs(&mut self) -> StoreResult<Vec<(WrongKey, KeyRepair)>> {
        let wrong_keys = std::mem::take(&mut self.wrong_keys);
        if wrong_keys.is_empty() {
            return Ok(Vec::new());
        }
        let linked = self.linked(wrong_keys.iter().map(|wrong| wrong.object).collect())?;
        let mut repairs = Vec::new();
        for wrong in wrong_keys {
            let is_stored = matches!(self.reader.find_place(wrong.object), Ok(Some(_)));
            let is_linked = linked.contains(&wrong.object) && !self.pages_broken;
            let (repair, what) = match (is_stored && !self.pages_broken, is_linked) {
                (true, _) => (KeyRepair::Delete, "it is also in a row with a wrong key"),
                (false, true) => (KeyRepair::SetKey, "its row has a wrong key"),
                (false, false) => {
                    self.found(None, false, wrong.what);
                    continue;
                }
            };
            self.found(Some(wrong.object), true, what);
            repairs.push((wrong, repair));
        }
        Ok(repairs)
    }

    /// Returns those of the objects that a commit, a toolset or a ref links to.
    fn linked(&self, of: HashSet<ObjectId>) -> StoreResult<HashSet<ObjectId>> {
        let mut linked = HashSet::new();
        let mut link = |object: ObjectId| linked.extend(of.contains(&object).then_some(object));
        let columns_of = "rec FROM commits NOT INDEXED WHERE repo = ?1";
        rows(self.reader, self.pages_broken, columns_of, |row| {
            let Ok(commit) = Commit::decode_any(row.bytes(1)?) else { return Ok(()) };
            commit.parents.iter().for_each(|id| link(ObjectId::Commit(*id)));
            commit.linked_blobs().for_each(|id| link(ObjectId::Blob(id)));
            for id in [commit.toolset, commit.active].into_iter().flatten() {
                link(ObjectId::Toolset(id));
            }
            Ok(())
        })?;
        for set in self.toolsets.values() {
            set.entries().iter().for_each(|entry| link(ObjectId::Blob(entry.schema)));
        }
        // Damaged refs are reported by the check of the refs.
        let refs = self.reader.list_refs("").map(|(refs, _)| refs).unwrap_or_default();
        refs.into_iter().filter_map(|(_, target)| target.object()).for_each(link);
        Ok(linked)
    }

    /// Checks that each dictionary has all its copies.
    fn dictionaries(&mut self) -> StoreResult<()> {
        let mut copies: BTreeMap<i64, (u8, Vec<i64>)> = BTreeMap::new();
        self.reader.each_small(DICTIONARY, |row, key, data| {
            let (sound, damaged) = copies.entry(key).or_default();
            match data.and_then(DictionaryRow::decode) {
                Some(_) => *sound = sound.saturating_add(1),
                None => damaged.push(row),
            }
            Ok(())
        })?;
        for (key, (sound, damaged)) in copies {
            if sound >= DICTIONARY_COPIES && damaged.is_empty() {
                continue;
            }
            self.broken.extend(&damaged);
            if sound > 0 {
                self.copies.push(key);
                let what = "a copy of a dictionary is damaged; another copy is whole";
                self.found(None, true, what);
            } else if self.needs_dictionary(key)? {
                self.broken.retain(|row| !damaged.contains(row));
                let what = "a dictionary is damaged, and so are the blobs that need it";
                self.found(None, false, what);
            } else {
                self.found(None, true, "a dictionary that no blob needs is damaged");
            }
        }
        Ok(())
    }

    /// Returns whether a blob of the repository needs the dictionary with this key.
    fn needs_dictionary(&self, key: i64) -> StoreResult<bool> {
        let Some(mark) = compressed::mark(key) else { return Ok(false) };
        let sql = "SELECT 1 FROM blobs WHERE +repo = ?1 AND substr(data, 1, 5) = ?2 LIMIT 1";
        let found = self.reader.find_row(sql, params![self.reader.repo, mark], |_| Ok(Some(())))?;
        Ok(found.is_some())
    }

    /// Returns the correct rows of the tool index: for each tool and schema, the first commit that
    /// has it in force.
    fn expected_tools(&self) -> Vec<ToolRow> {
        let first = self.tool_changes.first(&self.toolsets);
        let mut expected: Vec<_> = first
            .into_iter()
            .filter_map(|((id, schema), (created_at, commit))| {
                let (_, blob) = self.find(schema)?;
                let name = ToolSchema::parse(blob.text()?).ok()?.name().to_owned();
                Some(ToolRow { id, name, schema, commit, created_at })
            })
            .collect();
        expected.sort_by_key(|row| (row.created_at, row.commit, row.id, row.schema));
        expected
    }

    /// Finds a blob, even if the index is damaged.
    fn find(&self, id: BlobId) -> Option<(i64, Blob)> {
        if let Ok(Some(found)) = self.reader.find_blob(id) {
            return Some(found);
        }
        let at = self.blobs.iter().find(|blob| blob.head == head(id))?.at;
        let sql = "SELECT data FROM blobs WHERE id = ?1";
        let mut select = self.reader.connection.prepare_cached(sql).ok()?;
        let read = |row: &Row<'_>| Ok(bytes_of(row.get_ref(0)?).to_vec());
        let data: Vec<u8> = select.query_row([at], read).ok()?;
        let bytes = self.reader.plain(&data).ok()??;
        Some((at, Blob::check(id, bytes.into_owned())?))
    }

    fn tool_index(&mut self) -> StoreResult<()> {
        let have: HashMap<_, _> =
            self.tools.iter().map(|row| ((row.id, row.schema), row.name.clone())).collect();
        let mut names = HashSet::new();
        for row in self.expected_tools() {
            let object = Some(ObjectId::Tool(row.id));
            match have.get(&(row.id, row.schema)) {
                None => self.found(
                    object,
                    true,
                    "it is in force at a commit, but not in the tool index",
                ),
                Some(name) if *name != row.name => {
                    self.found(object, true, "the tool index has it under another name");
                }
                Some(_) => {}
            }
            names.insert((row.id, row.name));
        }
        for (id, name) in names {
            let listed = self.reader.tools_by_name(&name).unwrap_or_default();
            if !listed.iter().any(|definition| definition.id == id) {
                let object = Some(ObjectId::Tool(id));
                self.found(object, true, "the tool index does not find it by name");
            }
        }
        Ok(())
    }

    fn refs(&mut self) -> StoreResult<()> {
        let (refs, bad) = self.reader.list_refs("")?;
        bad.into_iter()
            .for_each(|name| self.found(None, false, format!("the ref {name} is damaged")));
        let mut replayed = BTreeMap::new();
        let mut last = 0;
        self.reader.replay(|seq, entry| {
            if seq != last + 1 {
                self.found(None, false, format!("the ref log jumps from entry {last} to {seq}"));
            }
            last = seq;
            let Some(entry) = entry else {
                let what = format!("entry {seq} of the ref log is damaged");
                return self.found(None, false, what);
            };
            let before = match &entry.after {
                Some(after) => replayed.insert(entry.name.clone(), after.clone()),
                None => replayed.remove(&entry.name),
            };
            if before != entry.before {
                let what = format!("entry {seq} of the ref log does not follow from those before");
                self.found(None, false, what);
            }
        })?;
        if replayed != refs.into_iter().collect() {
            self.found(None, false, "replaying the ref log does not give the refs");
        }
        Ok(())
    }

    fn repair(
        &mut self,
        memory: &Mutex<Memory>,
        key_repairs: &[(WrongKey, KeyRepair)],
    ) -> StoreResult<()> {
        if self.damage.iter().all(|damage| !damage.derived) {
            return Ok(());
        }
        let RepoReader { connection, repo, .. } = self.reader;
        if self.index_broken {
            connection.execute_batch("REINDEX").map_err(engine(OP))?;
        }
        let run = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| {
            statement(connection, OP, sql)?.execute(parameters).map_err(engine(OP))
        };
        for id in &self.broken {
            run("DELETE FROM small WHERE id = ?1", &[id])?;
        }
        let mut log_rows = LogRows::default();
        if !self.gaps.is_empty() || !key_repairs.is_empty() {
            log_rows.extend(self.reader)?;
        }
        for (row, repair) in key_repairs {
            let mut tx = Tx::new(connection, memory);
            match repair {
                KeyRepair::SetKey => tx.set_key(repo, row.at, row.object)?,
                KeyRepair::Delete => tx.delete_row(repo, row.at, row.object, &log_rows)?,
            }
        }
        for (at, content) in &self.misplaced {
            if let Some((right, _)) = self.find(*content) {
                run("UPDATE commits SET content = ?2 WHERE id = ?1", &[at, &right])?;
            }
        }
        let sql = "DELETE FROM small WHERE repo = ?1 AND kind IN (?2, ?3)";
        run(sql, &[&repo, &TOOL, &TOOL_NAME])?;
        let mut tx = Tx::new(connection, memory);
        for key in &self.copies {
            tx.copy_dictionary(repo, *key)?;
        }
        let mut is_moved = false;
        for (child, parent) in &self.gaps {
            is_moved |= tx.fill_gap(repo, *child, *parent, &log_rows)?;
        }
        if is_moved {
            // Makes other handles drop their cached places.
            tx.sweeps = tx.count(0, SWEEPS)?;
            lock(memory).forget_swept(tx.sweeps);
        }
        for row in self.expected_tools() {
            tx.tool(repo, &row)?;
        }
        Ok(())
    }
}
