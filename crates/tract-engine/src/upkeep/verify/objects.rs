//! Checks objects: hashes, links, contents and tools.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tract_core::store::{BlobKey, Damage, StoreResult};
use tract_core::{
    Blob, BlobId, Commit, CommitId, Content, Kind, ObjectId, RepoName, Store, ToolId, ToolSchema,
    Toolset, ToolsetId, parallel,
};

use super::blobs::CheckedBlobs;
use super::derived;
use crate::history::reach::{ReachedCommit, blob, damage, each, harm, one};
use crate::history::turns;

/// Number of blobs that are read together at first, while their size is unknown.
const BLOBS: usize = 128;
/// Maximum number of blobs that are read together if they are small.
const MOST_BLOBS: usize = 4096;
/// Target size of the blobs that are read together, estimated from the blobs before them.
const BLOB_BYTES: usize = 4 << 20;

/// The name of a tool, and the schemas under which it was declared.
#[derive(Default)]
struct KnownTool {
    name: String,
    schemas: BTreeSet<BlobId>,
}

pub(super) struct Objects<'a> {
    store: &'a dyn Store,
    repo: &'a RepoName,
    pub(super) blobs: CheckedBlobs,
    /// Number of blobs that are read together next.
    together: usize,
    toolsets: HashSet<ToolsetId>,
    tools: BTreeMap<ToolId, KnownTool>,
    /// The erased blobs, which are not read.
    erased: HashSet<BlobId>,
    pub(super) damage: Vec<Damage>,
}

impl<'a> Objects<'a> {
    pub(super) fn new(store: &'a dyn Store, repo: &'a RepoName) -> Self {
        Self {
            store,
            repo,
            blobs: CheckedBlobs::default(),
            together: BLOBS,
            toolsets: HashSet::new(),
            tools: BTreeMap::new(),
            erased: HashSet::new(),
            damage: Vec::new(),
        }
    }

    /// Sets the erased blobs, and checks that none of them is stored.
    pub(super) async fn erased(&mut self, ids: &[BlobId]) -> StoreResult<()> {
        for chunk in ids.chunks(BLOBS) {
            let keys: Vec<BlobKey> = chunk.iter().map(|id| (*id).into()).collect();
            let found = self.store.blobs(self.repo, &keys).await?;
            let stored = found.into_iter().flatten().map(|blob| ObjectId::Blob(blob.id()));
            self.damage.extend(stored.map(|blob| damage(blob, "it was erased, and is stored")));
        }
        self.erased = ids.iter().copied().collect();
        Ok(())
    }

    /// Returns the number of blobs, tools and toolsets that were read.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.blobs.count(), self.tools.len(), self.toolsets.len())
    }

    /// Reads commits. Reports and leaves out those that cannot be read.
    pub(super) async fn commits(&mut self, ids: &[CommitId]) -> StoreResult<Vec<Commit>> {
        // The fast path. If one object is missing, wrong or unreadable, all of them are read again
        // one by one, so that the damage is reported for its object and the others are still
        // checked.
        if let Ok(found) = self.store.commits(self.repo, ids).await
            && found
                .iter()
                .map(|found| found.as_ref().map(Commit::id))
                .eq(ids.iter().copied().map(Some))
        {
            return Ok(found.into_iter().flatten().collect());
        }
        let mut commits = Vec::with_capacity(ids.len());
        for id in ids {
            let object = ObjectId::Commit(*id);
            match self.store.commits(self.repo, &[*id]).await {
                Ok(found) => match found.into_iter().flatten().next() {
                    Some(commit) if commit.id() == *id => commits.push(commit),
                    Some(_) => self.damage.push(damage(object, "it reads as another commit")),
                    None => {
                        self.damage.push(damage(object, "a walk gives it, but it has no entry"))
                    }
                },
                Err(error) => self.damage.push(harm(object, error)?),
            }
        }
        Ok(commits)
    }

    /// Checks the objects other than commits that commits link to.
    pub(super) async fn linked(&mut self, reached: &[ReachedCommit]) -> StoreResult<()> {
        let mut wanted: Vec<(BlobKey, Option<Kind>)> = Vec::new();
        for ReachedCommit { commit, content, .. } in reached {
            for id in commit.linked_blobs().filter(|id| !self.erased.contains(id)) {
                let is_content = commit.content == Some(id);
                let kind = commit.kind.as_ref().filter(|_| is_content);
                if self.blobs.is_new(id, kind) {
                    let hint = content.filter(|_| is_content);
                    wanted.push((BlobKey { id, hint }, kind.cloned()));
                }
            }
        }
        for ReachedCommit { commit, .. } in reached {
            for id in [commit.toolset, commit.active].into_iter().flatten() {
                if self.toolsets.insert(id)
                    && let Some(toolset) = self.toolset(id).await?
                {
                    self.schemas(&toolset).await?;
                }
            }
        }
        self.read(&wanted).await
    }

    /// Checks the blobs that refs point to.
    pub(super) async fn documents(&mut self, ids: &[BlobId]) -> StoreResult<()> {
        let stored = ids.iter().filter(|id| !self.erased.contains(*id));
        let new = stored.filter(|id| self.blobs.is_new(**id, None));
        let wanted: Vec<_> = new.map(|id| (BlobKey::from(*id), None)).collect();
        self.read(&wanted).await
    }

    async fn read(&mut self, wanted: &[(BlobKey, Option<Kind>)]) -> StoreResult<()> {
        let mut rest = wanted;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(self.together.min(rest.len()));
            rest = after;
            let keys: Vec<BlobKey> = chunk.iter().map(|(key, _)| *key).collect();
            let blobs = self.blobs(&keys).await?;
            let bytes: usize = blobs.iter().flatten().map(|blob| blob.bytes().len()).sum();
            // The next read is sized by the average of this one. Sizes are not known before the
            // read.
            self.together = (BLOB_BYTES * chunk.len() / bytes.max(1)).clamp(1, MOST_BLOBS);
            let read: Vec<(Option<Blob>, &Option<Kind>)> =
                blobs.into_iter().zip(chunk.iter().map(|(_, kind)| kind)).collect();
            let faults = parallel::map(&read, parallel::OBJECTS, |(blob, kind)| {
                let (blob, kind) = (blob.as_ref()?, kind.as_ref()?);
                content_fault(blob, kind).map(|what| damage(ObjectId::Blob(blob.id()), what))
            });
            self.damage.extend(faults.into_iter().flatten());
            for (blob, _) in &read {
                let text = blob.as_ref().and_then(Blob::text);
                if let (Some(blob), true) = (blob, text.is_some_and(turns::is_one_text)) {
                    self.blobs.set_one_text(blob.id());
                }
            }
        }
        Ok(())
    }

    /// Reads blobs. Reports those that cannot be read.
    async fn blobs(&mut self, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        if let Ok(found) = self.store.blobs(self.repo, keys).await
            && found
                .iter()
                .map(|found| found.as_ref().map(Blob::id))
                .eq(keys.iter().map(|key| Some(key.id)))
        {
            return Ok(found);
        }
        let mut blobs = Vec::with_capacity(keys.len());
        for key in keys {
            let read = blob(self.store, self.repo, key.id).await?;
            blobs.push(read.map_err(|found| self.damage.push(found)).ok());
        }
        Ok(blobs)
    }

    async fn toolset(&mut self, id: ToolsetId) -> StoreResult<Option<Toolset>> {
        let read = self.store.toolsets(self.repo, &[id]).await;
        let other = |set: &Toolset| (set.id() != id).then(|| "it reads as another toolset".into());
        let read = one(ObjectId::Toolset(id), read, other)?;
        Ok(read.map_err(|wrong| self.damage.push(wrong)).ok())
    }

    /// Checks that the schemas of a toolset are stored and hash to the stated identities.
    async fn schemas(&mut self, toolset: &Toolset) -> StoreResult<()> {
        let entries: Vec<_> =
            toolset.entries().iter().filter(|entry| !self.erased.contains(&entry.schema)).collect();
        // Recorded, so that `documents` does not read a schema again to which a ref points.
        entries.iter().for_each(|entry| _ = self.blobs.is_new(entry.schema, None));
        let keys: Vec<BlobKey> = entries.iter().map(|entry| entry.schema.into()).collect();
        let blobs = self.blobs(&keys).await?;
        for (entry, blob) in entries.iter().zip(blobs) {
            let Some(blob) = blob else { continue };
            let schema = blob.text().map(ToolSchema::parse);
            match schema {
                Some(Ok(schema)) if schema.id() == entry.tool => {
                    let known = self.tools.entry(entry.tool).or_default();
                    schema.name().clone_into(&mut known.name);
                    known.schemas.insert(entry.schema);
                }
                Some(Ok(schema)) => {
                    let what =
                        format!("tool {} has the schema of tool {}", entry.tool, schema.id());
                    self.damage.push(damage(ObjectId::Toolset(toolset.id()), what));
                }
                Some(Err(_)) | None => {
                    let what = format!("it is no schema, though it is that of tool {}", entry.tool);
                    self.damage.push(damage(ObjectId::Blob(entry.schema), what));
                }
            }
        }
        Ok(())
    }

    /// Compares the tool index with the toolsets that were reached.
    pub(super) async fn tool_index(&mut self) -> StoreResult<()> {
        let ids: Vec<ToolId> = self.tools.keys().copied().collect();
        for chunk in ids.chunks(BLOBS) {
            let (store, repo) = (self.store, self.repo);
            let read = |ids: Vec<ToolId>| async move { store.tools(repo, &ids).await };
            let failed = |id: &ToolId, error| {
                let object = ObjectId::Tool(*id);
                self.damage.push(derived(object, harm(object, error)?.what));
                Ok(())
            };
            let found = each(chunk, read, failed).await?;
            for (id, definition) in chunk.iter().zip(found) {
                let Some(known) = self.tools.get(id) else { continue };
                let wrong = match definition {
                    None => Some("the tool index lacks it".to_owned()),
                    Some(row) if row.id != *id || row.name != known.name => Some(format!(
                        "the tool index has it as {:?} where its schema says {:?}",
                        row.name, known.name
                    )),
                    Some(row) if known.schemas.iter().any(|text| !row.schemas.contains(text)) => {
                        Some("the tool index lacks a text under which it was given".to_owned())
                    }
                    Some(_) => None,
                };
                self.damage.extend(wrong.map(|what| derived(ObjectId::Tool(*id), what)));
            }
        }
        Ok(())
    }
}

/// Returns the fault of a blob as content of a kind.
fn content_fault(blob: &Blob, kind: &Kind) -> Option<String> {
    let Some(text) = blob.text() else { return Some("it is not UTF-8".to_owned()) };
    match Content::from_blob(kind, text).map(|content| content.to_blob()) {
        Ok(Ok(canonical)) if canonical == text => None,
        Ok(_) => Some(format!("as content of kind {kind} it is not canonical")),
        Err(error) => Some(error.to_string()),
    }
}
