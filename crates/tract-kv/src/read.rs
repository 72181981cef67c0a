//! Reads one repository in one snapshot. All hashes are checked here.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::keys::{self, Indexed, Repo};
use super::value::{self, Reader, State, WriteCounts};
use super::{KvRead, Scan, Space};
use tract_core::batch::DerivedKind;
use tract_core::commit::Commit;
use tract_core::id::{BatchId, BlobId, CommitId, RepoName, ToolId, ToolsetId};
use tract_core::object::{Blob, IdPrefix, ObjectId, ToolDefinition, Toolset};
use tract_core::refs::{LogEntry, RefName, RefTarget};
use tract_core::store::{LogQuery, StoreError, StoreErrorKind, StoreResult};

/// A stored commit with its place.
#[derive(Clone, Debug)]
pub(super) struct StoredCommit {
    pub(super) place: u64,
    pub(super) content: Option<u64>,
    pub(super) commit: Commit,
}

/// One repository in one snapshot.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) read: &'a dyn KvRead,
    pub(super) repo: Repo,
    pub(super) backend: &'static str,
}

/// Returns the error for a damaged value that is not an object.
pub(super) fn damaged(backend: &'static str, op: &'static str, what: &str) -> StoreError {
    let kind = StoreErrorKind::Corrupt { object: None };
    StoreError::new(kind, backend, op, format!("{what} is damaged"))
}

pub(super) fn repo_number(
    read: &dyn KvRead,
    backend: &'static str,
    name: &RepoName,
) -> StoreResult<Option<Repo>> {
    let key = keys::repo_number(name);
    let Some(sealed) = read.get(Space::Small, &key)? else { return Ok(None) };
    match value::open_number(&key, &sealed) {
        Some(number) => Ok(Some(Repo(number))),
        None => Err(damaged(backend, "open", &format!("the number of repository \"{name}\""))),
    }
}

/// Visits all entries of a scan.
pub(super) fn each(
    read: &dyn KvRead,
    scan: &Scan,
    mut visit: impl FnMut(&[u8], &[u8]) -> StoreResult<()>,
) -> StoreResult<()> {
    read.scan(scan, &mut |key, value| visit(key, value).map(ControlFlow::Continue))
}

/// Collects the results of `pick` for the keys and values of a scan.
pub(super) fn collect<T, C: Default + Extend<T>>(
    read: &dyn KvRead,
    scan: &Scan,
    pick: impl Fn(&[u8], &[u8]) -> Option<T>,
) -> StoreResult<C> {
    let mut picked = C::default();
    each(read, scan, |key, value| {
        picked.extend(pick(key, value));
        Ok(())
    })?;
    Ok(picked)
}

pub(super) fn scan_keys(read: &dyn KvRead, scan: &Scan) -> StoreResult<Vec<Vec<u8>>> {
    collect(read, scan, |key, _| Some(key.to_vec()))
}

impl View<'_> {
    fn corrupt(&self, object: ObjectId) -> StoreError {
        StoreError::corrupt(self.backend, "read", object)
    }

    pub(super) fn damaged(&self, what: &str) -> StoreError {
        damaged(self.backend, "read", what)
    }

    /// Reads a small value and verifies its checksum.
    pub(super) fn small(&self, key: &[u8], what: &str) -> StoreResult<Option<Bytes>> {
        let Some(sealed) = self.read.get(Space::Small, key)? else { return Ok(None) };
        match value::open(key, &sealed) {
            Some(value) => Ok(Some(sealed.slice_ref(value))),
            None => Err(self.damaged(what)),
        }
    }

    pub(super) fn state(&self) -> StoreResult<State> {
        let what = "the counters of a repository";
        match self.small(&self.repo.state(), what)? {
            Some(value) => State::decode(&value).ok_or_else(|| self.damaged(what)),
            None => Err(self.damaged(what)),
        }
    }

    pub(super) fn writes(&self) -> StoreResult<WriteCounts> {
        let what = "the count of sweeps";
        match self.small(&self.repo.writes(), what)? {
            Some(value) => WriteCounts::decode(&value).ok_or_else(|| self.damaged(what)),
            None => Ok(WriteCounts::default()),
        }
    }

    /// Returns the numbers of the index entries with a prefix.
    pub(super) fn hits(&self, kind: Indexed, head: [u8; 8]) -> StoreResult<Vec<u64>> {
        collect(self.read, &self.repo.indexed(kind, &head), |key, _| Repo::number(key))
    }

    /// Reads the commit at a place, regardless of its id; `None` if it is missing or damaged.
    pub(super) fn commit_at(&self, place: u64) -> StoreResult<Option<StoredCommit>> {
        let value = self.read.get(Space::Commits, &self.repo.numbered(place))?;
        Ok(value.and_then(|value| any_commit(place, &value)))
    }

    /// Finds a commit by its id.
    ///
    /// # Errors
    /// `Corrupt` if it is in the index but no record hashes to it.
    pub(super) fn commit(&self, id: CommitId) -> StoreResult<Option<StoredCommit>> {
        let head = keys::head(id.as_bytes());
        let mut suspect = false;
        for place in self.hits(Indexed::Commit, head)? {
            let found = self.commit_at(place)?;
            let found_id = found.as_ref().map(|found| found.commit.id());
            if found_id == Some(id) {
                return Ok(found);
            }
            // A different commit with the same prefix is not damage. A damaged record would not
            // hash to the prefix under which it is indexed.
            suspect |= found_id.is_none_or(|other| keys::head(other.as_bytes()) != head);
        }
        if suspect { Err(self.corrupt(ObjectId::Commit(id))) } else { Ok(None) }
    }

    /// Reads the uncompressed blob at a place; `None` if it is missing or damaged.
    fn plain_at(&self, place: u64) -> StoreResult<Option<Bytes>> {
        match self.read.get(Space::Blobs, &self.repo.numbered(place))? {
            Some(stored) => self.plain(stored),
            None => Ok(None),
        }
    }

    /// Finds a blob by its id, trying the hint first.
    ///
    /// # Errors
    /// `Corrupt` if it is in the index but no bytes hash to it.
    pub(super) fn blob(&self, id: BlobId, hint: Option<u64>) -> StoreResult<Option<(u64, Blob)>> {
        // A hint is a place that some other read has returned. A repair may have moved the blob
        // since, so the bytes count only if they hash to the id.
        if let Some(place) = hint
            && let Some(bytes) = self.plain_at(place)?
            && let Some(blob) = Blob::check(id, bytes)
        {
            return Ok(Some((place, blob)));
        }
        let head = keys::head(id.as_bytes());
        let mut suspect = false;
        for place in self.hits(Indexed::Blob, head)? {
            let Some(bytes) = self.plain_at(place)? else {
                suspect = true;
                continue;
            };
            let blob = Blob::seal(bytes);
            if blob.id() == id {
                return Ok(Some((place, blob)));
            }
            suspect |= keys::head(blob.id().as_bytes()) != head;
        }
        if suspect { Err(self.corrupt(ObjectId::Blob(id))) } else { Ok(None) }
    }

    /// Finds the place of a blob whose bytes are known. Comparing bytes is cheaper than hashing.
    pub(super) fn place_of_blob(&self, blob: &Blob) -> StoreResult<Option<u64>> {
        let hits = self.hits(Indexed::Blob, keys::head(blob.id().as_bytes()))?;
        if hits.is_empty() {
            return Ok(None);
        }
        for place in hits {
            if self.plain_at(place)?.is_some_and(|plain| plain == blob.bytes()) {
                return Ok(Some(place));
            }
        }
        // Either damage, or another blob with the same prefix: decide by the hash.
        Ok(self.blob(blob.id(), None)?.map(|(place, _)| place))
    }

    pub(super) fn toolset(&self, id: ToolsetId) -> StoreResult<Option<Toolset>> {
        let Some(bytes) = self.read.get(Space::Small, &self.repo.toolset(id))? else {
            return Ok(None);
        };
        match Toolset::decode(id, &bytes) {
            Some(toolset) => Ok(Some(toolset)),
            None => Err(self.corrupt(ObjectId::Toolset(id))),
        }
    }

    /// Reads a tool definition from the tool index.
    pub(super) fn tool(&self, id: ToolId) -> StoreResult<Option<ToolDefinition>> {
        let mut rows = Vec::new();
        each(self.read, &self.repo.tools(id.as_bytes()), |key, sealed| {
            let row = value::open_tool(key, sealed);
            rows.push(row.ok_or_else(|| self.damaged(&format!("the index entry of tool {id}")))?);
            Ok(())
        })?;
        rows.sort_by_key(|row| (row.created_at, row.commit, row.schema));
        Ok(rows.first().map(|first| ToolDefinition {
            id,
            name: first.name.clone(),
            schemas: rows.iter().map(|row| row.schema).collect(),
            first: first.commit,
            created_at: first.created_at,
        }))
    }

    pub(super) fn tools_by_name(&self, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        let mut found = Vec::new();
        for key in scan_keys(self.read, &self.repo.tools_named(name))? {
            if let Some((_, tool)) = self.repo.tool_name_parts(&key) {
                found.extend(self.tool(tool)?);
            }
        }
        found.sort_by_key(|tool| (tool.created_at, tool.first, tool.id));
        Ok(found)
    }

    pub(super) fn tool_names(&self) -> StoreResult<Vec<String>> {
        let names: BTreeSet<String> = collect(self.read, &self.repo.tool_names(), |key, _| {
            self.repo.tool_name_parts(key).map(|(name, _)| name.to_owned())
        })?;
        Ok(names.into_iter().collect())
    }

    pub(super) fn ref_target(&self, name: &RefName) -> StoreResult<Option<RefTarget>> {
        let what = format!("ref {name}");
        let Some(value) = self.small(&self.repo.ref_key(name.as_str()), &what)? else {
            return Ok(None);
        };
        value::target(&mut Reader(&value)).flatten().map(Some).ok_or_else(|| self.damaged(&what))
    }

    pub(super) fn list_refs(&self, prefix: &str) -> StoreResult<Vec<(RefName, RefTarget)>> {
        let skip = self.repo.ref_key("").len();
        let mut refs = Vec::new();
        each(self.read, &self.repo.refs(prefix), |key, sealed| {
            let name = key.get(skip..).and_then(|name| std::str::from_utf8(name).ok());
            let target =
                value::open(key, sealed).and_then(|value| value::target(&mut Reader(value)));
            match (name.and_then(|name| RefName::new(name).ok()), target.flatten()) {
                (Some(name), Some(target)) => refs.push((name, target)),
                _ => return Err(self.damaged(&format!("a ref that begins with {prefix:?}"))),
            }
            Ok(())
        })?;
        Ok(refs)
    }

    pub(super) fn open_move(&self, key: &[u8], sealed: &[u8]) -> StoreResult<LogEntry> {
        let seq = Repo::number(key).unwrap_or_default();
        let opened = value::open(key, sealed).and_then(|value| value::decode_move(seq, value));
        opened.ok_or_else(|| self.damaged(&format!("entry {seq} of the ref log")))
    }

    /// Returns the log entries of batches whose id starts with these bytes, oldest first.
    fn moves_with(&self, prefix: [u8; 8]) -> StoreResult<Vec<LogEntry>> {
        let mut entries = Vec::new();
        for seq in self.hits(Indexed::Batch, prefix)? {
            let key = self.repo.numbered(seq);
            let sealed = self.read.get(Space::Log, &key)?;
            let sealed =
                sealed.ok_or_else(|| self.damaged(&format!("entry {seq} of the ref log")))?;
            entries.push(self.open_move(&key, &sealed)?);
        }
        Ok(entries)
    }

    pub(super) fn ref_log(&self, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let wanted = |entry: &LogEntry| {
            query.name.as_ref().is_none_or(|name| entry.name == *name)
                && query.before.is_none_or(|before| entry.seq < before)
                && query.batch.is_none_or(|batch| entry.batch == batch)
                && query.batch_prefix.is_none_or(|prefix| entry.batch.prefix() == prefix)
        };
        if let Some(prefix) = query.batch.map(BatchId::prefix).or(query.batch_prefix) {
            let entries = self.moves_with(prefix)?;
            return Ok(entries.into_iter().rev().filter(wanted).take(limit).collect());
        }
        let last = match query.before {
            Some(0) => return Ok(Vec::new()),
            Some(before) => before - 1,
            None => u64::MAX,
        };
        let mut entries = Vec::new();
        // There is no index by ref name, so a query for one ref reads the entries of all refs back
        // to the ones that it requests.
        let scan = Scan { reverse: true, ..self.repo.places(Space::Log, 0, last) };
        self.read.scan(&scan, &mut |key, sealed| {
            let entry = self.open_move(key, sealed)?;
            if wanted(&entry) {
                entries.push(entry);
            }
            Ok(if entries.len() >= limit {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok(entries)
    }

    /// Returns the commits that have a derived row of a kind.
    pub(super) fn derived_commits(&self, kind: DerivedKind) -> StoreResult<Vec<CommitId>> {
        let mut found = Vec::new();
        for key in scan_keys(self.read, &self.repo.derived_between(kind, 0, u64::MAX))? {
            let Some(place) = Repo::number(&key) else { continue };
            if let Some(ObjectId::Commit(id)) = self.object_at(Indexed::Commit, place)? {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// Returns all ids with this prefix.
    pub(super) fn resolve(&self, prefix: &IdPrefix) -> StoreResult<Vec<ObjectId>> {
        let mut found = Vec::new();
        let (from, to) = prefix.range();
        for kind in [Indexed::Commit, Indexed::Blob] {
            for key in scan_keys(self.read, &self.repo.index_range(kind, from, to))? {
                let Some(place) = Repo::number(&key) else { continue };
                found.extend(self.object_at(kind, place)?);
            }
        }
        for toolset in self.heads(prefix, |bytes| self.repo.toolsets(bytes))? {
            found.push(ObjectId::Toolset(ToolsetId::from_bytes(toolset)));
        }
        for tool in self.heads(prefix, |bytes| self.repo.tools(bytes))? {
            found.push(ObjectId::Tool(ToolId::from_bytes(tool)));
        }
        found.retain(|id| prefix.matches(id.as_bytes()));
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Returns the id of the object at a place; `None` if it is missing or damaged.
    pub(super) fn object_at(&self, kind: Indexed, place: u64) -> StoreResult<Option<ObjectId>> {
        Ok(match kind {
            Indexed::Commit => {
                self.commit_at(place)?.map(|found| ObjectId::Commit(found.commit.id()))
            }
            Indexed::Blob => {
                self.plain_at(place)?.map(|bytes| ObjectId::Blob(Blob::seal(bytes).id()))
            }
            Indexed::Batch => None,
        })
    }

    /// Returns the ids at the start of keys that may have a prefix.
    fn heads(&self, prefix: &IdPrefix, scan: impl Fn(&[u8]) -> Scan) -> StoreResult<Vec<[u8; 32]>> {
        // Whole bytes only. `resolve` filters by the last digit of an odd prefix.
        let whole = prefix.as_str().len().min(16) / 2;
        let (from, _) = prefix.range();
        let bytes = from.to_be_bytes();
        let skip = scan(&[]).from.len();
        let keys = scan_keys(self.read, &scan(bytes.get(..whole).unwrap_or_default()))?;
        let id = |key: &Vec<u8>| key.get(skip..)?.first_chunk::<32>().copied();
        Ok(keys.iter().filter_map(id).collect())
    }
}

/// Decodes a commit's value, regardless of its id; `None` if it is damaged.
pub(super) fn any_commit(place: u64, value: &[u8]) -> Option<StoredCommit> {
    let (content, record) = value::split_commit(place, value)?;
    let commit = Commit::decode_any(record).ok()?;
    Some(StoredCommit { place, content, commit })
}
