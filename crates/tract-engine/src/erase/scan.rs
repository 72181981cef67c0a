//! Finding every place that has the bytes.

use std::collections::{BTreeMap, HashMap, HashSet};

use tract_core::store::{BlobKey, ListKind, LogQuery, ObjectListing, Walk};
use tract_core::{
    Blob, BlobId, Changes, Commit, CommitId, Content, ObjectId, Op, RefName, RefTarget,
    StoreExt as _, ToolSchema,
};
use tract_secrets::SecretKind;

use super::report::{ErasePlace, ErasePlaceKind, EraseReport, ErasedBlob};
use super::request::{EraseRequest, EraseTarget, EraseWhat};
use super::search::Search;
use crate::error::{Error, Result};
use crate::reach::commit_id;
use crate::repo::Repo;

/// Objects that are listed together.
const LISTED: usize = 1024;
/// Bytes that are read together, unless one blob alone has more.
const READ_BYTES: u64 = 4 << 20;
/// Commits that others made meanwhile and that are read together.
const FOLLOWED: usize = 64;
/// Entries of the log that are read together.
const LOG_PAGE: usize = 4096;

/// What of a commit has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErasureExtent {
    /// Its content was asked for: nothing is left of it.
    Whole,
    /// Its content has the bytes somewhere.
    Part,
    /// Only the provider's bytes have them.
    Verbatim,
}

/// A branch, as it was found.
pub(super) struct ScannedBranch {
    pub(super) name: RefName,
    pub(super) head: CommitId,
    /// What it shows of what has to go, in the order of the view.
    pub(super) shown: Vec<CommitId>,
}

/// Everything that has the bytes.
pub(super) struct Scan<'a> {
    pub(super) repo: &'a Repo,
    pub(super) search: Search,
    /// What is deleted.
    blobs: BTreeMap<BlobId, ErasedBlob>,
    /// The blobs that were asked for.
    targets: HashSet<BlobId>,
    /// The commits whose message has to be edited where it is shown.
    pub(super) commits: HashMap<CommitId, ErasureExtent>,
    /// Branches, sorted by name.
    pub(super) branches: Vec<ScannedBranch>,
    /// Documents to be rewritten, with their new text.
    pub(super) documents: Vec<(RefName, BlobId, String)>,
    places: Vec<ErasePlace>,
}

impl<'a> Scan<'a> {
    pub(super) async fn new(repo: &'a Repo, request: &EraseRequest) -> Result<Self> {
        let (targets, search) = targets(repo, request).await?;
        let mut scan = Self {
            repo,
            search,
            blobs: BTreeMap::new(),
            targets,
            commits: HashMap::new(),
            branches: Vec::new(),
            documents: Vec::new(),
            places: Vec::new(),
        };
        scan.stored().await?;
        scan.records().await?;
        scan.branches = scan.heads().await?;
        scan.name_branches();
        scan.refs().await?;
        scan.log().await?;
        scan.tools().await?;
        scan.places.sort();
        Ok(scan)
    }

    /// Finds the branches again that others made or moved since. `false` when something that came
    /// with them has the bytes: all has to be looked for again.
    pub(super) async fn follow(&mut self) -> Result<bool> {
        let known: HashSet<CommitId> = self.branches.iter().map(|branch| branch.head).collect();
        let now = self.heads().await?;
        let mut open: Vec<CommitId> = now.iter().map(|branch| branch.head).collect();
        let mut seen = known;
        while let Some(head) = open.pop() {
            let mut next = Some(head).filter(|head| !seen.contains(head));
            while let Some(from) = next {
                let walk = Walk { limit: FOLLOWED, ..Walk::from(from) };
                let page = self.repo.store().walk(self.repo.name(), walk).await?;
                next = page.next;
                for step in page.steps {
                    if !seen.insert(step.commit.id()) {
                        next = None;
                        break;
                    }
                    if step.commit.linked_blobs().any(|blob| self.has(blob)) {
                        return Ok(false);
                    }
                    open.extend(step.commit.parents.iter().skip(1));
                }
            }
        }
        self.branches = now;
        Ok(true)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    pub(super) fn has(&self, blob: BlobId) -> bool {
        self.blobs.contains_key(&blob)
    }

    pub(super) fn report(&self) -> EraseReport {
        EraseReport {
            blobs: self.blobs.values().cloned().collect(),
            places: self.places.clone(),
            edits: 0,
            wiped: Ok(Default::default()),
        }
    }

    /// Searches all that is stored, some megabytes at a time.
    async fn stored(&mut self) -> Result<()> {
        let documents = self.repo.store().list_refs(self.repo.name(), RefName::erasures()).await?;
        let erasures: HashSet<BlobId> =
            documents.iter().filter_map(|(_, target)| target.blob()).collect();
        let mut after = 0;
        loop {
            let listing = ObjectListing { kind: ListKind::Blobs, after, limit: LISTED };
            let page = self.repo.store().list_objects(self.repo.name(), listing).await?;
            let (mut keys, mut bytes) = (Vec::new(), 0);
            for (object, size) in page.objects {
                let ObjectId::Blob(id) = object else { continue };
                if erasures.contains(&id) {
                    continue;
                }
                if bytes + size > READ_BYTES {
                    self.search_blobs(&std::mem::take(&mut keys)).await?;
                    bytes = 0;
                }
                bytes += size;
                keys.push(BlobKey::from(id));
            }
            self.search_blobs(&keys).await?;
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    async fn search_blobs(&mut self, keys: &[BlobKey]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let found = self.repo.store().blobs(self.repo.name(), keys).await?;
        for blob in found.into_iter().flatten() {
            let hit = self.search.in_bytes(blob.bytes());
            if hit.is_some() || self.targets.contains(&blob.id()) {
                let kinds = hit.map(|hit| hit.kinds()).unwrap_or_default();
                self.add(&blob, kinds);
            }
        }
        Ok(())
    }

    fn add(&mut self, blob: &Blob, kinds: Vec<SecretKind>) {
        let (id, bytes) = (blob.id(), blob.bytes().len() as u64);
        self.blobs.insert(id, ErasedBlob { id, bytes, kinds });
    }

    /// Reads all commits: which of them link to what was found, and what their records say.
    async fn records(&mut self) -> Result<()> {
        // Contents in which nothing but a signature or the like matches, which is not touched.
        let mut spared: HashMap<BlobId, bool> = HashMap::new();
        let mut linked: HashSet<BlobId> = HashSet::new();
        let mut after = 0;
        loop {
            let listing = ObjectListing { kind: ListKind::Commits, after, limit: LISTED };
            let page = self.repo.store().list_objects(self.repo.name(), listing).await?;
            let ids: Vec<CommitId> =
                page.objects.iter().filter_map(|(object, _)| commit_id(*object)).collect();
            let commits = self.repo.store().commits(self.repo.name(), &ids).await?;
            for commit in commits.into_iter().flatten() {
                self.record(&commit, &mut spared, &mut linked).await?;
            }
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        for (blob, is_spared) in spared {
            // A blob that something else links to for other reasons goes all the same.
            if is_spared && !linked.contains(&blob) {
                self.blobs.remove(&blob);
            }
        }
        Ok(())
    }

    async fn record(
        &mut self,
        commit: &Commit,
        spared: &mut HashMap<BlobId, bool>,
        linked: &mut HashSet<BlobId>,
    ) -> Result<()> {
        if let Changes::Blob(id) = commit.changes
            && self.has(id)
        {
            let what = format!("blob {} is a list of changes, which has no text", id.short());
            return Err(Error::BadErase { what });
        }
        let content = commit.content.filter(|id| self.has(*id));
        let verbatim = commit.verbatim.filter(|id| self.has(*id));
        let mut affected = verbatim.map(|_| ErasureExtent::Verbatim);
        if let Some(id) = content {
            if self.targets.contains(&id) {
                affected = Some(ErasureExtent::Whole);
            } else {
                let is_spared = match spared.get(&id) {
                    Some(is_spared) => *is_spared,
                    None => {
                        let readable = self.repo.content(commit).await?;
                        readable.is_some_and(|readable| self.search.content(&readable).is_none())
                    }
                };
                spared.insert(id, is_spared);
                if !is_spared {
                    affected = Some(ErasureExtent::Part);
                }
            }
        }
        let place = |kind| ErasePlace { commit: Some(commit.id()), ..ErasePlace::new(kind) };
        if let Some(affected) = affected {
            if affected != ErasureExtent::Verbatim {
                let is_summary = matches!(commit.op, Op::Compress { .. });
                self.places.push(place(if is_summary {
                    ErasePlaceKind::Summary
                } else {
                    ErasePlaceKind::Message
                }));
            }
            if let Some(id) = commit.verbatim {
                // What the content says, the provider's bytes say too, however they are written.
                if !self.has(id)
                    && let Some(blob) = self.repo.store().blob(self.repo.name(), id).await?
                {
                    self.add(&blob, Vec::new());
                }
                linked.insert(id);
                self.places.push(place(ErasePlaceKind::Verbatim));
            }
            self.commits.insert(commit.id(), affected);
        }
        for id in &commit.keeps {
            if !self.has(*id) {
                continue;
            }
            linked.insert(*id);
            self.places.push(place(ErasePlaceKind::Original));
        }
        for (field, text) in texts_of(commit) {
            if self.search.in_text(&text).is_some() {
                let name = Some(field.to_owned());
                self.places.push(ErasePlace { name, ..place(ErasePlaceKind::Record) });
            }
        }
        Ok(())
    }

    /// Finds what branches show of it.
    async fn heads(&self) -> Result<Vec<ScannedBranch>> {
        let mut branches = Vec::new();
        for (name, target) in self.repo.store().list_refs(self.repo.name(), "heads/").await? {
            let Some(head) = target.commit() else { continue };
            let line = self.repo.line(Some(head)).await?;
            let shown = line
                .view()
                .rows()
                .map(|row| row.version)
                .filter(|version| self.commits.contains_key(version))
                .collect();
            branches.push(ScannedBranch { name, head, shown });
        }
        Ok(branches)
    }

    /// Says of each place which branches show it.
    fn name_branches(&mut self) {
        let mut shown: HashMap<CommitId, Vec<String>> = HashMap::new();
        for branch in &self.branches {
            for version in &branch.shown {
                let name = branch.name.branch_name().unwrap_or_default().to_owned();
                shown.entry(*version).or_default().push(name);
            }
        }
        for place in &mut self.places {
            let branches = place.commit.and_then(|commit| shown.get(&commit));
            place.branches = branches.cloned().unwrap_or_default();
        }
    }

    /// Finds documents, and says what they are without it.
    async fn refs(&mut self) -> Result<()> {
        for (name, target) in self.repo.store().list_refs(self.repo.name(), "").await? {
            let RefTarget::Blob(id) = target else { continue };
            if name.erased_blob().is_some() || !self.has(id) {
                continue;
            }
            let refused = |what: &str| Error::BadErase { what: format!("document {name}: {what}") };
            if self.targets.contains(&id) {
                return Err(refused(
                    "it is in use; `tract redact --pattern` takes a text out of it",
                ));
            }
            let blob = self.repo.require_blob(id).await?;
            let text = blob.text().and_then(|text| self.search.json(text));
            let text = text.filter(|text| self.search.in_bytes(text.as_bytes()).is_none());
            let Some(text) = text else {
                return Err(refused("the text cannot be taken out of it"));
            };
            self.places.push(ErasePlace::named(ErasePlaceKind::Document, name.as_str()));
            self.documents.push((name, id, text));
        }
        Ok(())
    }

    /// Searches what the ref log says of writes.
    async fn log(&mut self) -> Result<()> {
        let mut before = None;
        loop {
            let query = LogQuery { before, limit: LOG_PAGE, ..LogQuery::default() };
            let page = self.repo.store().ref_log(self.repo.name(), &query).await?;
            for entry in &page {
                let note = &entry.note;
                let texts = [Some(&note.what), Some(&note.who), note.why.as_ref()];
                let name = entry.name.as_str().to_owned();
                let mut texts = texts.into_iter().flatten().chain([&name]);
                if texts.any(|text| self.search.in_text(text).is_some()) {
                    let name = entry.seq.to_string();
                    self.places.push(ErasePlace::named(ErasePlaceKind::Log, name));
                }
            }
            before = page.last().map(|entry| entry.seq);
            if page.len() < LOG_PAGE {
                return Ok(());
            }
        }
    }

    /// Finds the tools whose definition has it.
    async fn tools(&mut self) -> Result<()> {
        let store = self.repo.store();
        for name in store.tool_names(self.repo.name()).await? {
            for tool in store.tools_by_name(self.repo.name(), &name).await? {
                if tool.schemas.iter().any(|schema| self.has(*schema)) {
                    self.places.push(ErasePlace::named(ErasePlaceKind::Tool, &name));
                }
            }
        }
        Ok(())
    }

    /// Returns a definition without it; `None` when it cannot be one any more.
    pub(super) fn tool(&self, schema: BlobId, text: &str) -> Option<ToolSchema> {
        if self.targets.contains(&schema) {
            return None;
        }
        let text = self.search.json(text)?;
        let is_clean = self.search.in_bytes(text.as_bytes()).is_none();
        is_clean.then(|| ToolSchema::parse(&text).ok()).flatten()
    }
}

/// Returns the fields of a record that are texts of the caller's, by their names.
fn texts_of(commit: &Commit) -> Vec<(&'static str, String)> {
    let json =
        |json: &Option<tract_core::JsonText>| json.as_ref().map(|json| json.as_str().to_owned());
    let reason = match &commit.op {
        Op::Annotate { reason, .. } => reason.clone(),
        _ => None,
    };
    [
        ("message", commit.message.clone()),
        ("metadata", json(&commit.metadata)),
        ("generation_config", json(&commit.generation_config)),
        ("origin.detail", json(&commit.origin.detail)),
        ("origin.id", commit.origin.id.clone()),
        ("reason", reason),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((name, text?)))
    .collect()
}

/// Finds the blobs that were asked for, and what else is searched for.
async fn targets(repo: &Repo, request: &EraseRequest) -> Result<(HashSet<BlobId>, Search)> {
    let targets = match &request.what {
        EraseWhat::Secrets(scanner) => {
            return Ok((HashSet::new(), Search::Secrets(scanner.as_ref().clone())));
        }
        EraseWhat::Targets(targets) => targets,
    };
    let (mut blobs, mut contents) = (HashSet::new(), Vec::new());
    for target in targets {
        match target {
            EraseTarget::Blob(id) => {
                let blob = repo.require_blob(*id).await?;
                blobs.insert(*id);
                contents.extend(blob.text().and_then(any_content));
            }
            EraseTarget::Commit(id) => {
                let commit = repo.require_commit(*id).await?;
                let Some(content) = repo.content(&commit).await? else {
                    let what = format!("commit {} says nothing that could be erased", id.short());
                    return Err(Error::BadErase { what });
                };
                blobs.extend(commit.content);
                blobs.extend(commit.verbatim);
                contents.push(content);
            }
        }
    }
    let search = Search::texts(&contents, request.mark());
    if contents
        .iter()
        .any(|content| search.in_text(&request.reason).is_some() && !content.text().is_empty())
    {
        let what = "the reason has the text that is to be erased".to_owned();
        return Err(Error::BadErase { what });
    }
    Ok((blobs, search))
}

/// Reads stored bytes as a message of the kind that they may be of.
fn any_content(text: &str) -> Option<Content> {
    use tract_core::Kind;
    [Kind::User, Kind::ToolResult, Kind::Artifact]
        .iter()
        .find_map(|kind| Content::from_blob(kind, text).ok())
}
