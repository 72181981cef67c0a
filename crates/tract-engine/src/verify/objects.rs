//! The objects: hashes, links, contents, tools.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tract_compile::IdMap;
use tract_core::store::{BlobKey, Damage, StoreResult};
use tract_core::{
    Blob, BlobId, Commit, CommitId, Content, Kind, ObjectId, RepoName, Store, ToolDefinition,
    ToolId, ToolSchema, Toolset, ToolsetId,
};

use super::derived;
use crate::reach::{blob, damage, harm};

/// Blobs that are read together.
const BLOBS: usize = 128;

/// What a tool is called and under which texts it was given.
#[derive(Default)]
struct KnownTool {
    name: String,
    schemas: BTreeSet<BlobId>,
}

pub(super) struct Objects<'a> {
    store: &'a dyn Store,
    repo: &'a RepoName,
    /// Blobs read so far, each with the number of the kind that it was first read as content of: a
    /// few bytes for each of millions.
    blobs: IdMap<BlobId, Option<u32>>,
    /// The blobs that were read as content of a further kind.
    read_again: HashSet<(BlobId, u32)>,
    /// The number of each kind.
    kinds: HashMap<Kind, u32>,
    toolsets: HashSet<ToolsetId>,
    tools: BTreeMap<ToolId, KnownTool>,
    /// What was erased, and is not read.
    erased: HashSet<BlobId>,
    pub(super) damage: Vec<Damage>,
}

impl<'a> Objects<'a> {
    pub(super) fn new(store: &'a dyn Store, repo: &'a RepoName) -> Self {
        Self {
            store,
            repo,
            blobs: IdMap::default(),
            read_again: HashSet::new(),
            kinds: HashMap::new(),
            toolsets: HashSet::new(),
            tools: BTreeMap::new(),
            erased: HashSet::new(),
            damage: Vec::new(),
        }
    }

    /// Takes what was erased, and checks that none of it is stored.
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

    /// Returns how many blobs, tools and toolsets were read.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.blobs.len(), self.tools.len(), self.toolsets.len())
    }

    /// Reads commits by their ids; what cannot be read is named and left out.
    pub(super) async fn commits(&mut self, ids: &[CommitId]) -> StoreResult<Vec<Commit>> {
        if let Ok(found) = self.store.commits(self.repo, ids).await
            && found.len() == ids.len()
            && found
                .iter()
                .zip(ids)
                .all(|(found, id)| found.as_ref().is_some_and(|c| c.id() == *id))
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
    pub(super) async fn linked(&mut self, commits: &[Commit]) -> StoreResult<()> {
        let mut wanted: Vec<(BlobId, Option<Kind>)> = Vec::new();
        for commit in commits {
            for id in commit.linked_blobs() {
                let kind = commit.kind.clone().filter(|_| commit.content == Some(id));
                self.want(&mut wanted, id, kind);
            }
        }
        for commit in commits {
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

    /// Checks the blobs that refs point at.
    pub(super) async fn documents(&mut self, ids: &[BlobId]) -> StoreResult<()> {
        let mut wanted = Vec::new();
        ids.iter().for_each(|id| self.want(&mut wanted, *id, None));
        self.read(&wanted).await
    }

    fn want(&mut self, wanted: &mut Vec<(BlobId, Option<Kind>)>, id: BlobId, kind: Option<Kind>) {
        if self.erased.contains(&id) {
            return;
        }
        let next = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        let number = kind.as_ref().map(|kind| match self.kinds.get(kind) {
            Some(number) => *number,
            None => *self.kinds.entry(kind.clone()).or_insert(next),
        });
        let is_new = match self.blobs.entry(id) {
            Entry::Vacant(entry) => {
                entry.insert(number);
                true
            }
            Entry::Occupied(mut entry) => match (*entry.get(), number) {
                (_, None) => false,
                (None, Some(_)) => {
                    entry.insert(number);
                    true
                }
                (Some(first), Some(number)) => {
                    first != number && self.read_again.insert((id, number))
                }
            },
        };
        if is_new {
            wanted.push((id, kind));
        }
    }

    async fn read(&mut self, wanted: &[(BlobId, Option<Kind>)]) -> StoreResult<()> {
        for chunk in wanted.chunks(BLOBS) {
            let ids: Vec<BlobId> = chunk.iter().map(|(id, _)| *id).collect();
            let blobs = self.blobs(&ids).await?;
            for (blob, (id, kind)) in blobs.into_iter().zip(chunk) {
                let (Some(blob), Some(kind)) = (blob, kind) else { continue };
                let wrong = match blob.text() {
                    None => Some("it is not UTF-8".to_owned()),
                    Some(text) => match Content::from_blob(kind, text).map(|c| c.to_blob()) {
                        Ok(Ok(canonical)) if canonical == text => None,
                        Ok(_) => Some(format!("as content of kind {kind} it is not canonical")),
                        Err(error) => Some(error.to_string()),
                    },
                };
                self.damage.extend(wrong.map(|what| damage(ObjectId::Blob(*id), what)));
            }
        }
        Ok(())
    }

    /// Reads blobs; what cannot be read is named.
    async fn blobs(&mut self, ids: &[BlobId]) -> StoreResult<Vec<Option<Blob>>> {
        let keys: Vec<BlobKey> = ids.iter().map(|id| (*id).into()).collect();
        if let Ok(found) = self.store.blobs(self.repo, &keys).await
            && found.len() == ids.len()
            && found
                .iter()
                .zip(ids)
                .all(|(found, id)| found.as_ref().is_some_and(|b| b.id() == *id))
        {
            return Ok(found);
        }
        let mut blobs = Vec::with_capacity(ids.len());
        for id in ids {
            match blob(self.store, self.repo, *id).await? {
                Ok(blob) => blobs.push(Some(blob)),
                Err(found) => {
                    self.damage.push(found);
                    blobs.push(None);
                }
            }
        }
        Ok(blobs)
    }

    async fn toolset(&mut self, id: ToolsetId) -> StoreResult<Option<Toolset>> {
        let object = ObjectId::Toolset(id);
        let wrong = match self.store.toolsets(self.repo, &[id]).await {
            Ok(found) => match found.into_iter().flatten().next() {
                Some(toolset) if toolset.id() == id => return Ok(Some(toolset)),
                Some(_) => damage(object, "it reads as another toolset"),
                None => damage(object, "it is linked to, but not stored"),
            },
            Err(error) => harm(object, error)?,
        };
        self.damage.push(wrong);
        Ok(None)
    }

    /// Checks that the schemas of a toolset are stored and hash to the identities it states.
    async fn schemas(&mut self, toolset: &Toolset) -> StoreResult<()> {
        let entries = || {
            toolset.entries().iter().filter(|entry| !self.erased.contains(&entry.schema)).copied()
        };
        let (ids, entries): (Vec<BlobId>, Vec<_>) =
            entries().map(|entry| (entry.schema, entry)).unzip();
        ids.iter().for_each(|id| _ = self.blobs.entry(*id).or_default());
        let blobs = self.blobs(&ids).await?;
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

    async fn definitions_singly(
        &mut self,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.push(match self.store.tools(self.repo, &[*id]).await {
                Ok(one) => one.into_iter().flatten().next(),
                Err(error) => {
                    let what = harm(ObjectId::Tool(*id), error)?.what;
                    self.damage.push(derived(ObjectId::Tool(*id), what));
                    None
                }
            });
        }
        Ok(found)
    }

    /// Compares the tool index with the toolsets that were reached.
    pub(super) async fn tool_index(&mut self) -> StoreResult<()> {
        let ids: Vec<ToolId> = self.tools.keys().copied().collect();
        for chunk in ids.chunks(BLOBS) {
            let found = match self.store.tools(self.repo, chunk).await {
                Ok(found) => found,
                // Which row it is, reading them singly tells.
                Err(_) => self.definitions_singly(chunk).await?,
            };
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
