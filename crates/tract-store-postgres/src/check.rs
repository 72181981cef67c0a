//! Checks a whole repository, in pages of one snapshot, so that concurrent writes neither appear as
//! damage nor hide it.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use tokio_postgres::Row;
use tract_core::store::{Damage, ToolChanges};
use tract_core::{
    Blob, BlobId, Commit, CommitId, ObjectId, RefName, RefTarget, RepoName, StoreResult, ToolId,
    Toolset, ToolsetId,
};

use crate::args::Args;
use crate::link::{Snapshot, column, first_column, id_column};
use crate::portions::{self, PORTION};
use crate::read::RepoReader;
use crate::repair::DerivedTables;
use crate::{log, tools};

pub(crate) const OP: &str = "check";
/// Maximum number of rows per page. A page has at most one portion of contents: further rows are
/// read with the next page, and a larger content in portions.
const PAGE: i64 = 2_000;

/// The data about a commit that a check keeps.
pub(crate) struct Node {
    pub(crate) parent: Option<CommitId>,
    pub(crate) place: (i64, i64),
    pub(crate) toolset: Option<ToolsetId>,
    pub(crate) created_at: Option<i64>,
}

/// The state and findings of a check.
pub(crate) struct Check<'l> {
    pub(crate) snapshot: &'l Snapshot<'l>,
    pub(crate) repo: &'l RepoName,
    pub(crate) number: i64,
    damage: Vec<Damage>,
    pub(crate) blobs: HashSet<BlobId>,
    /// Erased blobs, which commits, toolsets and refs may still name.
    pub(crate) erased: HashSet<BlobId>,
    /// The names of tools whose schema was erased. Only the index has them.
    pub(crate) erased_tools: HashMap<(ToolId, BlobId), String>,
    pub(crate) commits: HashMap<CommitId, Node>,
    pub(crate) toolsets: HashMap<ToolsetId, Toolset>,
    /// Number of records read, including damaged ones.
    pub(crate) records: usize,
    links: Vec<(CommitId, ObjectId)>,
}

/// Checks a repository. With `repair`, rebuilds derived data.
pub(crate) async fn check(reader: RepoReader, repair: bool) -> StoreResult<Vec<Damage>> {
    let RepoReader { link, repo, number: Some(number), .. } = &reader else {
        return Ok(Vec::new());
    };
    let snapshot = link.snapshot(OP, repo).await?;
    let mut check = Check {
        snapshot: &snapshot,
        repo,
        number: *number,
        damage: Vec::new(),
        blobs: HashSet::new(),
        erased: HashSet::new(),
        erased_tools: HashMap::new(),
        commits: HashMap::new(),
        toolsets: HashMap::new(),
        records: 0,
        links: Vec::new(),
    };
    check.read_erased().await?;
    check.blobs().await?;
    check.toolsets().await?;
    check.commits().await?;
    check.links();
    check.places().await?;
    check.tools().await?;
    check.refs().await?;
    let derived = if repair { Some(DerivedTables::from(&check).await?) } else { None };
    let damage = check.damage;
    // The snapshot's connection may be the only one of the pool, so release it first.
    snapshot.end().await?;
    if let Some(derived) = derived {
        derived.store(&reader).await?;
    }
    Ok(damage)
}

impl Check<'_> {
    fn found(&mut self, object: Option<ObjectId>, derived: bool, what: impl Into<String>) {
        self.damage.push(Damage { object, what: what.into(), derived });
    }

    /// Reads rows of `hash, content, …` in hash order, page by page; `None` after the last one.
    /// `after` is the last hash of the previous page, and is updated.
    async fn page(
        &self,
        content: &str,
        more: &str,
        table: &str,
        after: &mut Vec<u8>,
    ) -> StoreResult<Option<Page>> {
        // The server knows the length of a content without reading it.
        let sql = format!(
            "SELECT hash, CASE WHEN upto <= {PORTION} THEN {content} END, length{more} FROM ( \
             SELECT *, sum(length) OVER (ORDER BY hash) AS upto FROM ( \
             SELECT *, octet_length({content}) AS length FROM {{s}}.{table} \
             WHERE repo = $1 AND hash > $2 ORDER BY hash LIMIT {PAGE}) AS page) AS summed \
             ORDER BY hash"
        );
        let args = Args::new().int(self.number).id(after);
        let mut rows = self.snapshot.read(&sql, args).await?;
        let mut whole = 0;
        for row in &rows {
            if column::<Option<&[u8]>>(OP, row, 1)?.is_none() {
                break;
            }
            whole += 1;
        }
        let Some(first) = rows.first() else { return Ok(None) };
        let mut large = None;
        if whole == 0 {
            let id = id_column(OP, first, 0)?;
            let length = usize::try_from(column::<i32>(OP, first, 2)?).unwrap_or_default();
            let portion = portions::portion_of(table, content);
            let read = |args| self.snapshot.read(&portion, args);
            let found = portions::read(read, OP, self.number, &id, length).await?;
            large = Some(found.unwrap_or_default());
            whole = 1;
        }
        rows.truncate(whole);
        if let Some(last) = rows.last() {
            *after = id_column(OP, last, 0)?.to_vec();
        }
        Ok(Some(Page { rows, large }))
    }

    async fn blobs(&mut self) -> StoreResult<()> {
        let mut after = Vec::new();
        while let Some(page) = self.page("data", "", "blobs", &mut after).await? {
            for row in &page.rows {
                let id = BlobId::from_bytes(id_column(OP, row, 0)?);
                if tract_core::hash::blob(page.content(row)?) != id {
                    self.found(Some(ObjectId::Blob(id)), false, "its bytes do not hash to its id");
                }
                self.blobs.insert(id);
            }
        }
        Ok(())
    }

    async fn toolsets(&mut self) -> StoreResult<()> {
        let mut after = Vec::new();
        while let Some(page) = self.page("data", "", "toolsets", &mut after).await? {
            for row in &page.rows {
                let id = ToolsetId::from_bytes(id_column(OP, row, 0)?);
                let object = Some(ObjectId::Toolset(id));
                match Toolset::decode(id, page.content(row)?) {
                    None => self.found(object, false, "its bytes do not hash to its id"),
                    Some(toolset) => {
                        let missing: Vec<BlobId> = toolset
                            .entries()
                            .iter()
                            .map(|entry| entry.schema)
                            .filter(|schema| !self.has_blob(*schema))
                            .collect();
                        for schema in missing {
                            self.found(object, false, format!("its schema {schema} is missing"));
                        }
                        self.toolsets.insert(id, toolset);
                    }
                }
            }
        }
        Ok(())
    }

    async fn commits(&mut self) -> StoreResult<()> {
        let mut after = Vec::new();
        while let Some(page) = self.page("rec", ", seg, pos", "commits", &mut after).await? {
            self.records += page.rows.len();
            for row in &page.rows {
                let id = CommitId::from_bytes(id_column(OP, row, 0)?);
                let object = Some(ObjectId::Commit(id));
                let Ok(commit) = Commit::decode(id, page.content(row)?) else {
                    self.found(object, false, "its record does not hash to its id");
                    continue;
                };
                self.links.extend(commit.links().map(|link| (id, link)));
                let node = Node {
                    parent: commit.parent(),
                    place: (column(OP, row, 3)?, column(OP, row, 4)?),
                    toolset: commit.toolset,
                    created_at: commit.created_at,
                };
                self.commits.insert(id, node);
            }
        }
        Ok(())
    }

    fn has(&self, object: ObjectId) -> bool {
        match object {
            ObjectId::Commit(id) => self.commits.contains_key(&id),
            ObjectId::Blob(id) => self.has_blob(id),
            ObjectId::Toolset(id) => self.toolsets.contains_key(&id),
            ObjectId::Tool(_) => true,
        }
    }

    fn links(&mut self) {
        for (commit, link) in std::mem::take(&mut self.links) {
            if !self.has(link) {
                let what = format!("it links to {link}, which is missing or damaged");
                self.found(Some(ObjectId::Commit(commit)), false, what);
            }
        }
    }

    /// Checks places against first parents: the commit before another one in its segment is its
    /// parent, and a segment starts after the parent of its first commit.
    async fn places(&mut self) -> StoreResult<()> {
        let sql = "SELECT seg, parent_seg, parent_pos FROM {s}.segments WHERE repo = $1";
        let rows = self.snapshot.read(sql, Args::new().int(self.number)).await?;
        let mut segments: HashMap<i64, Option<(i64, i64)>> = HashMap::new();
        for row in &rows {
            let from: (Option<i64>, Option<i64>) = (column(OP, row, 1)?, column(OP, row, 2)?);
            segments.insert(column(OP, row, 0)?, from.0.zip(from.1));
        }
        let by_place: HashMap<(i64, i64), CommitId> =
            self.commits.iter().map(|(id, node)| (node.place, *id)).collect();
        let mut wrong = Vec::new();
        for (id, node) in &self.commits {
            let (seg, pos) = node.place;
            let before = match pos {
                0 => segments
                    .get(&seg)
                    .map(|from| from.and_then(|from| by_place.get(&from).copied())),
                pos => Some(by_place.get(&(seg, pos - 1)).copied()),
            };
            if before != Some(node.parent) {
                let what = format!("place {seg}.{pos}: what lies before it is not its parent");
                wrong.push((*id, what));
            }
        }
        wrong.sort();
        for (id, what) in wrong {
            self.found(Some(ObjectId::Commit(id)), true, what);
        }
        let sql = "SELECT count(*) FROM {s}.derived d WHERE repo = $1 AND NOT EXISTS \
                   (SELECT 1 FROM {s}.commits c WHERE c.repo = $1 AND c.seg = d.seg AND c.pos = d.pos)";
        let rows = self.snapshot.read(sql, Args::new().int(self.number)).await?;
        if let Some(orphans) = first_column::<i64>(OP, &rows)?.filter(|orphans| *orphans > 0) {
            self.found(None, true, format!("{orphans} derived rows belong to no commit"));
        }
        Ok(())
    }

    /// Returns the time of a commit. A commit without a time has the time of its parent, or 0 at a
    /// root.
    fn time_of(&self, id: CommitId, known: &mut HashMap<CommitId, i64>) -> i64 {
        let mut path = Vec::new();
        let mut next = Some(id);
        let at = loop {
            let Some(here) = next else { break 0 };
            let Some(node) = self.commits.get(&here) else { break 0 };
            match known.get(&here).copied().or(node.created_at) {
                Some(at) => break at,
                None => path.push(here),
            }
            next = node.parent;
        };
        known.extend(path.into_iter().map(|id| (id, at)));
        at
    }

    /// Returns the tools in force, each with the first commit that has it.
    pub(crate) fn tools_in_force(&self) -> BTreeMap<(ToolId, BlobId), (i64, CommitId)> {
        let (mut changes, mut times) = (ToolChanges::default(), HashMap::new());
        for (id, node) in &self.commits {
            let Some(toolset) = node.toolset else { continue };
            let parent = node.parent.and_then(|parent| self.commits.get(&parent));
            let at_parent = parent.and_then(|parent| parent.toolset);
            changes.note(at_parent, toolset, (self.time_of(*id, &mut times), *id));
        }
        changes.first(&self.toolsets)
    }

    async fn tools(&mut self) -> StoreResult<()> {
        let sql = "SELECT hash, schema, data, name_key FROM {s}.tools WHERE repo = $1";
        let rows = self.snapshot.read(sql, Args::new().int(self.number)).await?;
        let mut indexed = HashSet::new();
        for row in &rows {
            let (id, read) = tools::decode(OP, row)?;
            match read {
                None => {
                    self.found(Some(ObjectId::Tool(id)), true, "its row in the index is damaged")
                }
                Some(row) => {
                    if !self.commits.contains_key(&row.commit) {
                        let what = format!("its first commit {} is missing", row.commit);
                        self.found(Some(ObjectId::Tool(id)), true, what);
                    }
                    indexed.insert((id, row.schema));
                    if self.erased.contains(&row.schema) {
                        self.erased_tools.insert((id, row.schema), row.name);
                    }
                }
            }
        }
        // Without its schema, the name of a tool is unknown, so it cannot be listed.
        let is_missing =
            |key: &(ToolId, BlobId)| !indexed.contains(key) && !self.erased.contains(&key.1);
        let missing: Vec<(ToolId, BlobId)> =
            self.tools_in_force().into_keys().filter(is_missing).collect();
        for (id, schema) in missing {
            let what = format!("the index lacks it with the schema {schema}");
            self.found(Some(ObjectId::Tool(id)), true, what);
        }
        Ok(())
    }

    /// Checks the refs, and that replaying the log produces them.
    async fn refs(&mut self) -> StoreResult<()> {
        let sql = "SELECT name, target, sum FROM {s}.refs WHERE repo = $1 ORDER BY name";
        let rows = self.snapshot.read(sql, Args::new().int(self.number)).await?;
        let mut refs: BTreeMap<RefName, RefTarget> = BTreeMap::new();
        for row in &rows {
            match log::ref_row(OP, self.repo, row)? {
                (name, None) => self.found(None, false, format!("the ref {name} is damaged")),
                (_, Some((name, target))) => {
                    if let Some(object) = target.object().filter(|object| !self.has(*object)) {
                        let what = format!("the ref {name} points at it: missing");
                        self.found(Some(object), false, what);
                    }
                    refs.insert(name, target);
                }
            }
        }
        let replayed = self.replay().await?;
        for (name, target) in &refs {
            if replayed.get(name) != Some(target) {
                self.found(None, false, format!("the log does not lead to what the ref {name} is"));
            }
        }
        for name in replayed.keys().filter(|name| !refs.contains_key(name)) {
            self.found(None, false, format!("the log leads to a ref {name} that is missing"));
        }
        Ok(())
    }

    async fn replay(&mut self) -> StoreResult<BTreeMap<RefName, RefTarget>> {
        let sql = format!(
            "SELECT {} FROM {{s}}.ref_log WHERE repo = $1 AND seq > $2 ORDER BY seq LIMIT {PAGE}",
            log::COLUMNS
        );
        let mut refs = BTreeMap::new();
        let mut after = i64::MIN;
        loop {
            let args = Args::new().int(self.number).int(after);
            let rows = self.snapshot.read(&sql, args).await?;
            let Some(last) = rows.last() else { return Ok(refs) };
            after = column(OP, last, 0)?;
            for row in &rows {
                let (seq, entry) = log::entry_row(OP, self.repo, row)?;
                let Some(entry) = entry else {
                    self.found(None, false, format!("entry {seq} of the ref log is damaged"));
                    continue;
                };
                if refs.get(&entry.name) != entry.before.as_ref() {
                    let what =
                        format!("entry {seq} of the ref log does not follow the one before it");
                    self.found(None, false, what);
                }
                match entry.after {
                    Some(target) => drop(refs.insert(entry.name, target)),
                    None => drop(refs.remove(&entry.name)),
                }
            }
        }
    }
}

/// The rows of one page, in hash order.
struct Page {
    rows: Vec<Row>,
    /// The content of the only row if it is larger than a page.
    large: Option<Vec<u8>>,
}

impl Page {
    fn content<'p>(&'p self, row: &'p Row) -> StoreResult<&'p [u8]> {
        match &self.large {
            Some(bytes) => Ok(bytes),
            None => Ok(column::<Option<&[u8]>>(OP, row, 1)?.unwrap_or_default()),
        }
    }
}

/// Reads the text of a schema blob if it is intact.
pub(crate) async fn schema_text(check: &Check<'_>, id: BlobId) -> StoreResult<Option<Blob>> {
    let sql = "SELECT data FROM {s}.blobs WHERE repo = $1 AND hash = $2";
    let args = Args::new().int(check.number).id(id.as_bytes());
    let rows = check.snapshot.read(sql, args).await?;
    let data: Option<&[u8]> = first_column(OP, &rows)?;
    // The name of a damaged schema is unknown. The damage itself is reported.
    Ok(data.and_then(|data| Blob::check(id, Bytes::copy_from_slice(data))))
}
