//! Scans the repository for every location of the erased bytes.
//!
//! The scan reads everything that is stored, which takes long, while others continue to write.
//! Before each write [`Scan::follow`] searches what was written since. The write itself requires the
//! position up to which everything was searched, so the store refuses it if anything was written in
//! between, and those writes are followed again. Holding the branches would not be enough: a branch
//! that is created in between, or an object that is stored ahead of its ref, may bring another
//! message with the same bytes, and they would be deleted under it.

mod effects;
mod keepers;
mod shared;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tract_core::batch::ids_in;
use tract_core::store::{BlobKey, ListKind, LogQuery, ObjectListing, WritePosition};
use tract_core::{
    Blob, BlobId, Changes, Commit, CommitId, Kind, ObjectId, Op, RefName, RefTarget, StoreExt as _,
    ToolSchema, ToolsetId,
};
use tract_secrets::SecretKind;

use self::keepers::Keepers;
use super::message::{slot_of, summarizes};
use super::report::{ErasePlace, ErasePlaceKind, EraseReport, ErasedBlob};
use super::search::Search;
use crate::history::reach::{commit_id, entries_since, links};
use crate::repo::Repo;
use crate::repo::erasure::Erasure;
use crate::repo::error::{Error, Result};

/// Number of objects that are listed together.
const LISTED: usize = 1024;
/// Number of bytes that are read together, unless a single blob is larger.
const READ_BYTES: u64 = 4 << 20;
/// Number of new commits of concurrent writers that are read together.
const FOLLOWED: usize = 64;
/// Number of blobs with an arrived erasure that are read together.
const ARRIVED: usize = 64;
/// Number of log entries that are read together.
const LOG_PAGE: usize = 4096;

/// For each content in which the bytes occur, read as a message of a kind: whether they occur only in
/// a signature or similar. The same bytes may be text for one kind and a signature for another.
type SparedContents = HashMap<(BlobId, Option<Kind>), bool>;

/// The part of a commit that is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErasureExtent {
    /// The content is a target: all of it is erased.
    Whole,
    /// The content contains the bytes.
    Part,
    /// Only the provider's bytes contain them.
    Verbatim,
}

/// A branch as it was scanned.
pub(super) struct ScannedBranch {
    pub(super) name: RefName,
    pub(super) head: CommitId,
    /// The versions with erased content that it shows, in the order of the view.
    pub(super) shown: Vec<CommitId>,
    /// The versions of other messages with the same bytes that it shows.
    others: Vec<CommitId>,
}

/// The searched texts and blobs, and the messages that lose them.
pub(super) struct Scope<'a> {
    pub(super) search: Search,
    /// The blobs that were named.
    pub(super) targets: HashSet<BlobId>,
    /// The messages that lose them, by slot; `None` for all messages.
    pub(super) messages: Option<HashSet<CommitId>>,
    /// The messages that the command named, by slot; empty for a redaction.
    pub(super) named: HashSet<CommitId>,
    /// Summaries of these messages, which lose the quoted passages.
    pub(super) summaries: HashSet<CommitId>,
    /// The blobs of these messages that earlier erasures deleted.
    pub(super) erased: HashSet<BlobId>,
    /// The erasures that arrived from another store; `from` is that store, if it can be read.
    pub(super) arrived: HashMap<BlobId, Erasure>,
    pub(super) from: Option<&'a Repo>,
}

/// All locations of the erased bytes.
pub(super) struct Scan<'a> {
    pub(super) repo: &'a Repo,
    pub(super) scope: Scope<'a>,
    /// The blobs that are deleted.
    blobs: BTreeMap<BlobId, ErasedBlob>,
    /// The blobs that stay because other messages share them.
    shared: BTreeMap<BlobId, Option<ErasedBlob>>,
    /// The messages that have each blob.
    pub(super) holders: HashMap<BlobId, BTreeSet<CommitId>>,
    /// Toolsets with a definition that arrived as erased.
    toolsets: HashMap<ToolsetId, Vec<BlobId>>,
    /// The commits whose message must be edited wherever it is shown.
    pub(super) commits: HashMap<CommitId, ErasureExtent>,
    /// The commits of other messages that keep the same bytes.
    others: HashSet<CommitId>,
    /// The commits of other messages that lose the same bytes because no ref leads to them.
    unreferenced: HashSet<CommitId>,
    /// Read when the first message shares bytes.
    keepers: Option<Keepers<'a>>,
    /// Commits in whose content only a signature or similar matches, with that content.
    spared: Vec<(CommitId, BlobId)>,
    /// Branches, sorted by name.
    pub(super) branches: Vec<ScannedBranch>,
    /// The commits that refs pointed to before the scan; their histories are searched.
    searched: HashSet<CommitId>,
    /// The position of the writes up to which everything was searched.
    position: WritePosition,
    /// Documents to rewrite, with their new text.
    pub(super) documents: Vec<(RefName, BlobId, String)>,
    /// Documents of effects whose answer is erased, with their new text.
    answers: HashMap<RefName, String>,
    places: Vec<ErasePlace>,
}

impl<'a> Scan<'a> {
    pub(super) async fn new(repo: &'a Repo, scope: Scope<'a>) -> Result<Self> {
        // Before anything else is read: every write that the scan may have missed moves it.
        let position = repo.store().write_position(repo.name()).await?;
        let mut scan = Self {
            repo,
            position,
            scope,
            blobs: BTreeMap::new(),
            shared: BTreeMap::new(),
            holders: HashMap::new(),
            toolsets: HashMap::new(),
            commits: HashMap::new(),
            others: HashSet::new(),
            unreferenced: HashSet::new(),
            keepers: None,
            spared: Vec::new(),
            branches: Vec::new(),
            // Before the objects are read: commits that arrive during the scan are not behind these
            // heads, and `follow` searches them.
            searched: heads_of(repo).await?,
            documents: Vec::new(),
            answers: HashMap::new(),
            places: Vec::new(),
        };
        // An erasure that arrived searches as one that is made here, unless it names no messages.
        if scan.scope.arrived.is_empty() || !scan.scope.named.is_empty() {
            scan.stored().await?;
        }
        if !scan.scope.arrived.is_empty() {
            scan.arrived().await?;
        }
        // The order matters. Blobs first: records, documents and tools are affected by the blobs
        // that were found. Effects before refs, which use the rewritten documents. Branches last,
        // since they are read against the list of affected commits.
        scan.records().await?;
        scan.effects().await?;
        scan.decisions().await?;
        scan.refs().await?;
        scan.log().await?;
        scan.tools().await?;
        for (id, kept) in &mut scan.shared {
            *kept = scan.blobs.remove(id);
        }
        scan.branches = scan.heads().await?;
        scan.name_branches();
        scan.places.sort();
        Ok(scan)
    }

    /// Searches what was written since, and reads the branches again. Returns `false` if it contains
    /// the bytes, or objects that no ref reaches: then the scan must be repeated.
    pub(super) async fn follow(&mut self) -> Result<bool> {
        // Before the log and the branches are read, so that every later write moves it.
        let now = self.repo.store().write_position(self.repo.name()).await?;
        if now == self.position {
            return Ok(true);
        }
        // No log entry names these objects, and any of them may link to the bytes.
        if now.unlogged != self.position.unlogged {
            return Ok(false);
        }
        let (mut open, mut leases): (Vec<CommitId>, Vec<BlobKey>) = Default::default();
        for entry in entries_since(self.repo, self.position.log).await? {
            match entry.after {
                Some(RefTarget::Commit(id)) => open.push(id),
                // The write expects the documents that it rewrites where they were.
                Some(RefTarget::Blob(id)) if self.has(id) => return Ok(false),
                Some(RefTarget::Blob(id)) if entry.name.is_lease() => leases.push(id.into()),
                Some(RefTarget::Blob(_) | RefTarget::Ref(_)) | None => {}
            }
        }
        let Some(ahead) = self.stored_ahead(&leases).await? else { return Ok(false) };
        open.extend(ahead);
        // Histories that were searched end the walk, so this costs only the new commits, and each
        // of them once.
        let mut seen = std::mem::take(&mut self.searched);
        while let Some(head) = open.pop() {
            let mut history = self.repo.history(head).pages(FOLLOWED, FOLLOWED);
            while let Some(commit) = history.next_unless(|id| !seen.insert(id)).await? {
                if self.is_unknown_holder(&commit).await? {
                    return Ok(false);
                }
                open.extend(commit.parents.iter().skip(1));
            }
        }
        self.searched = seen;
        self.branches = self.heads().await?;
        self.position = now;
        Ok(true)
    }

    /// Returns the commits that writers stored ahead of their refs, such as a stream in progress. The
    /// documents of their leases name these objects. `None` if one of them is among the bytes, or if
    /// a document is gone.
    async fn stored_ahead(&self, leases: &[BlobKey]) -> Result<Option<Vec<CommitId>>> {
        let mut named = BTreeSet::new();
        for document in self.repo.store().blobs(self.repo.name(), leases).await? {
            let Some(document) = document else { return Ok(None) };
            named.extend(ids_in(document.bytes()));
        }
        let is_found = named.iter().any(|id| {
            self.has(BlobId::from_bytes(*id))
                || self.toolsets.contains_key(&ToolsetId::from_bytes(*id))
        });
        if is_found {
            return Ok(None);
        }
        let named: Vec<CommitId> = named.into_iter().map(CommitId::from_bytes).collect();
        let commits = self.repo.store().commits(self.repo.name(), &named).await?;
        Ok(Some(commits.into_iter().flatten().map(|commit| commit.id()).collect()))
    }

    /// Returns whether a commit contains some of the bytes, or is a version of a named message, and
    /// was not stored when the scan read the commits.
    async fn is_unknown_holder(&self, commit: &Commit) -> Result<bool> {
        // It was on no branch, and is now.
        if self.unreferenced.contains(&commit.id()) {
            return Ok(true);
        }
        if self.commits.contains_key(&commit.id()) || self.others.contains(&commit.id()) {
            return Ok(false);
        }
        if !self.unreferenced.is_empty() {
            let changes = self.repo.changes(commit).await?;
            if links(commit, &changes).iter().any(|id| self.unreferenced.contains(id)) {
                return Ok(true);
            }
        }
        let mut toolsets = [commit.toolset, commit.active].into_iter().flatten();
        if commit.linked_blobs().any(|blob| self.has(blob))
            || toolsets.any(|id| self.toolsets.contains_key(&id))
        {
            return Ok(true);
        }
        match &self.scope.messages {
            Some(messages) if commit.content.is_some() => Ok(messages
                .contains(&slot_of(self.repo, commit).await?)
                || summarizes(self.repo, commit, messages).await?),
            Some(_) | None => Ok(false),
        }
    }

    /// Returns the position of the writes up to which everything was searched.
    pub(super) fn position(&self) -> WritePosition {
        self.position
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.shown().next().is_none()
    }

    /// Returns the affected versions that branches show, once per branch.
    pub(super) fn shown(&self) -> impl Iterator<Item = CommitId> + '_ {
        self.branches.iter().flat_map(|branch| branch.shown.iter().copied())
    }

    /// Returns whether a blob is deleted.
    pub(super) fn has(&self, blob: BlobId) -> bool {
        self.blobs.contains_key(&blob)
    }

    /// Returns the blobs that are kept because other messages share them.
    pub(super) fn shared(&self) -> impl Iterator<Item = BlobId> + '_ {
        self.shared.keys().copied()
    }

    pub(super) fn report(&self) -> EraseReport {
        EraseReport {
            blobs: self.blobs.values().cloned().collect(),
            shared: self.shared.values().flatten().cloned().collect(),
            places: self.places.clone(),
            edits: self.shown().count() + self.documents.len(),
            ..EraseReport::default()
        }
    }

    /// Searches all stored blobs, a few megabytes at a time.
    async fn stored(&mut self) -> Result<()> {
        let store = self.repo.store();
        let documents = store.list_refs(self.repo.name(), RefName::erasures()).await?;
        let index = store.ref_target(self.repo.name(), &RefName::search_index()).await?;
        // These documents contain only ids, which a pattern might match by accident.
        let erasures: HashSet<BlobId> = documents
            .into_iter()
            .map(|(_, to)| to)
            .chain(index)
            .filter_map(|to| to.blob())
            .collect();
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
                // Contents are of any size, so the number of blobs that are in memory together is
                // limited by bytes.
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
            let hit = self.scope.search.in_bytes(blob.bytes());
            if hit.is_some() || self.scope.targets.contains(&blob.id()) {
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

    /// Reads all commits: their links to the blobs found, and the texts in their records.
    async fn records(&mut self) -> Result<()> {
        // Contents in which only a signature or similar matches; these are not edited.
        let mut spared = SparedContents::new();
        let mut linked: HashSet<BlobId> = HashSet::new();
        let mut after = 0;
        loop {
            let listing = ObjectListing { kind: ListKind::Commits, after, limit: LISTED };
            let page = self.repo.store().list_objects(self.repo.name(), listing).await?;
            let ids: Vec<CommitId> =
                page.objects.iter().filter_map(|(object, _)| commit_id(*object)).collect();
            let commits = self.repo.store().commits(self.repo.name(), &ids).await?;
            let commits: Vec<Commit> = commits.into_iter().flatten().collect();
            let there = self.known_to_sender(&commits).await?;
            for commit in &commits {
                self.record(commit, &there, &mut spared, &mut linked).await?;
            }
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        // A blob stays if no message has the bytes in its text. One that is also linked to as
        // something else is deleted anyway, and so is one that is text in a message of another kind.
        let mut only_spared: HashSet<BlobId> = spared.keys().map(|(id, _)| *id).collect();
        for ((blob, _), is_spared) in &spared {
            if !is_spared || linked.contains(blob) {
                only_spared.remove(blob);
            }
        }
        for blob in only_spared {
            self.blobs.remove(&blob);
        }
        // A message that was spared loses its content if the blob is deleted on account of another.
        for (commit, content) in std::mem::take(&mut self.spared) {
            if self.has(content) && !self.shared.contains_key(&content) {
                self.commits.insert(commit, ErasureExtent::Whole);
                let place = ErasePlace::new(ErasePlaceKind::Message);
                self.places.push(ErasePlace { commit: Some(commit), ..place });
            }
        }
        Ok(())
    }

    /// Returns whether only a signature or similar matches in a content.
    async fn is_spared(
        &self,
        commit: &Commit,
        content: BlobId,
        spared: &mut SparedContents,
    ) -> Result<bool> {
        let key = (content, commit.kind.clone());
        if let Some(is_spared) = spared.get(&key) {
            return Ok(*is_spared);
        }
        let readable = self.repo.content(commit).await?;
        let is_spared = readable.is_some_and(|it| self.scope.search.content(&it).is_none());
        spared.insert(key, is_spared);
        Ok(is_spared)
    }

    async fn record(
        &mut self,
        commit: &Commit,
        there: &HashSet<CommitId>,
        spared: &mut SparedContents,
        linked: &mut HashSet<BlobId>,
    ) -> Result<()> {
        if let Changes::Blob(id) = commit.changes
            && self.has(id)
        {
            let what = format!("blob {} is a list of changes, which has no text", id.short());
            return Err(Error::BadErase { what });
        }
        let kept = self.keep_shared(commit, there.contains(&commit.id()), spared).await?;
        let goes = |scan: &Self, id: BlobId| scan.has(id) && !kept.contains(&id);
        let content = commit.content.filter(|id| goes(self, *id));
        let verbatim = commit.verbatim.filter(|id| goes(self, *id));
        let mut affected = verbatim.map(|_| ErasureExtent::Verbatim);
        if let Some(id) = content {
            if self.scope.targets.contains(&id) {
                affected = Some(ErasureExtent::Whole);
            } else {
                if self.is_spared(commit, id, spared).await? {
                    self.spared.push((commit.id(), id));
                } else {
                    affected = Some(ErasureExtent::Part);
                }
            }
        }
        let unreferenced = self.unreferenced.contains(&commit.id());
        let place =
            |kind| ErasePlace { commit: Some(commit.id()), unreferenced, ..ErasePlace::new(kind) };
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
                // The provider's bytes contain the same text in any encoding, so they are erased
                // with the content.
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
            if !goes(self, *id) {
                continue;
            }
            linked.insert(*id);
            self.places.push(place(ErasePlaceKind::Original));
        }
        for (field, text) in texts_of(commit) {
            if self.scope.search.in_text(&text).is_some() {
                let name = Some(field.to_owned());
                self.places.push(ErasePlace { name, ..place(ErasePlaceKind::Record) });
            }
        }
        Ok(())
    }

    /// Reads the branches and the affected versions that they show. A branch that has not moved since
    /// the last time is not read again.
    async fn heads(&mut self) -> Result<Vec<ScannedBranch>> {
        let before = std::mem::take(&mut self.branches).into_iter();
        let mut before: HashMap<(RefName, CommitId), ScannedBranch> =
            before.map(|branch| ((branch.name.clone(), branch.head), branch)).collect();
        let mut branches = Vec::new();
        for (name, target) in self.repo.store().list_refs(self.repo.name(), "heads/").await? {
            let Some(head) = target.commit() else { continue };
            let at = (name, head);
            if let Some(branch) = before.remove(&at) {
                branches.push(branch);
                continue;
            }
            let history = self.repo.fold(Some(head)).await?;
            let (mut shown, mut others) = (Vec::new(), Vec::new());
            for row in history.view().rows() {
                if self.commits.contains_key(&row.version) {
                    shown.push(row.version);
                } else if self.others.contains(&row.version) {
                    others.push(row.version);
                }
            }
            branches.push(ScannedBranch { name: at.0, head, shown, others });
        }
        Ok(branches)
    }

    /// Adds to each location the branches that show it.
    fn name_branches(&mut self) {
        let mut shown: HashMap<CommitId, Vec<String>> = HashMap::new();
        for branch in &self.branches {
            for version in branch.shown.iter().chain(&branch.others) {
                let name = branch.name.branch_name().unwrap_or_default().to_owned();
                shown.entry(*version).or_default().push(name);
            }
        }
        for place in &mut self.places {
            let branches = place.commit.and_then(|commit| shown.get(&commit));
            place.branches = branches.cloned().unwrap_or_default();
        }
    }

    /// Returns whether other messages contain or quote the same text.
    fn has_others(&self) -> bool {
        self.places.iter().any(|place| place.other)
    }

    /// Finds affected documents and their new text. If other messages have the text, a document may
    /// contain it on their behalf, and is kept.
    async fn refs(&mut self) -> Result<()> {
        let stay = self.has_others() && self.scope.arrived.is_empty();
        for (name, target) in self.repo.store().list_refs(self.repo.name(), "").await? {
            let RefTarget::Blob(id) = target else { continue };
            let is_erasure = name.erased_blob().or(name.pending_erasure_blob()).is_some();
            if is_erasure || !self.has(id) {
                continue;
            }
            let mut place = ErasePlace::named(ErasePlaceKind::Document, name.as_str());
            let text = match stay {
                _ if self.answers.contains_key(&name) => self.answers.remove(&name),
                true => None,
                false if self.scope.arrived.is_empty() => Some(self.rewritten(&name, id).await?),
                false => match self.as_sent(&name, id).await? {
                    None if !self.has_others() => self.without_text(id).await?,
                    sent => sent,
                },
            };
            match text {
                Some(text) => self.documents.push((name, id, text)),
                None => {
                    place.other = true;
                    self.shared.insert(id, None);
                }
            }
            self.places.push(place);
        }
        Ok(())
    }

    /// Returns the text of a document without the erased passages.
    async fn rewritten(&self, name: &RefName, id: BlobId) -> Result<String> {
        let refused = |what: &str| Error::BadErase { what: format!("document {name}: {what}") };
        if self.scope.targets.contains(&id) {
            return Err(refused("it is in use; `tract redact --pattern` takes a text out of it"));
        }
        let text = self.without_text(id).await?;
        text.ok_or_else(|| refused("the text cannot be taken out of it"))
    }

    /// Returns the text of a document without the erased passages; `None` if it is a target itself,
    /// or has them in a form that cannot be replaced.
    async fn without_text(&self, id: BlobId) -> Result<Option<String>> {
        if self.scope.targets.contains(&id) {
            return Ok(None);
        }
        let blob = self.repo.require_blob(id).await?;
        let text = blob.text().and_then(|text| self.scope.search.json(text));
        Ok(text.filter(|text| self.scope.search.in_bytes(text.as_bytes()).is_none()))
    }

    /// Searches the notes in the ref log.
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
                if texts.any(|text| self.scope.search.in_text(text).is_some()) {
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

    /// Finds the tools whose definition contains the bytes.
    async fn tools(&mut self) -> Result<()> {
        let other = self.has_others() && self.scope.arrived.is_empty();
        let store = self.repo.store();
        for name in store.tool_names(self.repo.name()).await? {
            for tool in store.tools_by_name(self.repo.name(), &name).await? {
                let with_it: Vec<BlobId> =
                    tool.schemas.iter().filter(|schema| self.has(**schema)).copied().collect();
                if with_it.is_empty() {
                    continue;
                }
                let place = ErasePlace::named(ErasePlaceKind::Tool, &name);
                self.places.push(ErasePlace { other, ..place });
                if other {
                    self.shared.extend(with_it.into_iter().map(|id| (id, None)));
                }
            }
        }
        Ok(())
    }

    /// Returns a definition without the bytes; `None` if the remaining text is not a valid
    /// definition.
    pub(super) fn tool(&self, schema: BlobId, text: &str) -> Option<ToolSchema> {
        if self.scope.targets.contains(&schema) {
            return None;
        }
        let text = self.scope.search.json(text)?;
        let is_clean = self.scope.search.in_bytes(text.as_bytes()).is_none();
        is_clean.then(|| ToolSchema::parse(&text).ok()).flatten()
    }
}

async fn heads_of(repo: &Repo) -> Result<HashSet<CommitId>> {
    let refs = repo.store().list_refs(repo.name(), "").await?;
    Ok(refs.iter().filter_map(|(_, target)| target.commit()).collect())
}

/// Returns the fields of a record with texts of the caller, by name.
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
