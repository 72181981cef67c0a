//! Lines with objects made elsewhere: commits by their records, blobs, refs.

use std::borrow::Cow;
use std::collections::HashSet;

use tract_core::store::ObjectCopies;
use tract_core::stream::{StreamOp, StreamOpError, StreamOpKind};
use tract_core::{
    Batch, Blob, BlobId, Changes, Commit, CommitId, Content, ObjectId, Op, RefName, RefTarget,
    StoreExt as _, ToolEntry, ToolId, ToolRow, ToolSchema, Toolset, ToolsetId,
};

use super::Stream;
use crate::history::reach::links;
use crate::history::received::{descends, shaped, time_of};
use crate::plan::seal_tools;
use crate::repo::batch::{apply_batch, require_done};
use crate::repo::error::{Error, LineError};
use crate::upkeep::erase::read_sent;
use crate::upkeep::restore::{is_corrupt, lacking_blobs, lacking_toolsets};
use crate::write::txn::{Txn, WriteOptions, ref_edit};

impl Stream {
    /// Keeps the blob of a line until something links to it.
    pub(super) fn add_blob(&mut self, blob: Blob) {
        if let Some(toolset) = toolset_of_list(&blob) {
            self.lists.insert(toolset.id(), (blob.id(), toolset));
        }
        self.blobs.insert(blob.id(), blob);
    }

    /// Stores a commit by its record. Everything that it links to must be stored or in the stream.
    /// An owned line is not copied.
    pub(super) async fn received(
        &mut self,
        mut step: Cow<'_, StreamOp>,
    ) -> Result<CommitId, LineError> {
        let Some(commit) = step.recorded.clone() else {
            return Err(LineError::Step(StreamOpError::MissingField {
                op: "record",
                field: "record",
            }));
        };
        agrees(&mut step, &commit)?;
        let (step, commit) = (&*step, &commit);
        if self.is_known(commit).await? {
            self.known(step, commit).await?;
            // Its parent was lost and has just been stored again.
            self.is_moved |= self.brought.take().is_some_and(|id| commit.parent() == Some(id));
            return Ok(commit.id());
        }
        let mut batch = self.repo.batch(&self.operation, "apply")?;
        for id in commit.linked_blobs() {
            self.link(id, &mut batch).await?;
        }
        let changes = match &commit.changes {
            Changes::List(list) => list.clone(),
            Changes::Blob(id) => {
                Changes::from_blob(self.read(*id, &batch).await?.bytes()).map_err(Error::from)?
            }
        };
        // The store checks the links of a record when the batch is applied. Checking here refuses
        // this line alone, before it is in a batch with others.
        for id in links(commit, &changes) {
            if self.repo.commit(id).await?.is_none() {
                return Err(not_brought(ObjectId::Commit(id)));
            }
        }
        if let (Some(id), Some(kind)) = (commit.content, &commit.kind) {
            let blob = self.read(id, &batch).await?;
            let text = blob.text().ok_or(tract_core::ContentError::NotText).map_err(Error::from)?;
            let content = Content::from_blob(kind, text).map_err(Error::from)?;
            // Equal contents must be equal blobs, or a message and its copy would not be recognized
            // as the same. An older or foreign writer may have used another spelling of the same
            // JSON.
            if content.to_blob().map_err(Error::from)? != text {
                let what = format!("the content is not a canonical {kind}");
                return Err(LineError::Disagrees { what });
            }
        }
        self.tools(step, commit, &mut batch).await?;
        shaped(&self.repo, commit, &changes).await?;

        let compiler = self.repo.compiler();
        // Folding the commit proves that its changes fit the history that it claims to continue. A
        // commit that cannot be folded would make its whole branch unreadable.
        let history = self.repo.fold(commit.parent()).await?;
        let advanced = compiler.advance(&history, std::slice::from_ref(commit), &batch.blobs).await;
        let mut next = advanced.map_err(Error::from)?;
        batch.derived.extend(compiler.snapshot_due(&mut next));
        batch.commits.push(commit.clone());
        self.store(batch).await?;
        self.repo.compiler().remember(&next);
        self.brought = Some(commit.id());
        Ok(commit.id())
    }

    /// Returns whether a commit is stored. A damaged one is replaced.
    async fn is_known(&mut self, commit: &Commit) -> Result<bool, LineError> {
        match self.repo.commit(commit.id()).await {
            Ok(found) => Ok(found.is_some()),
            Err(error) if is_corrupt(&error) => {
                let commits = vec![commit.clone()];
                let copies = ObjectCopies { commits, ..ObjectCopies::default() };
                let restored = self.restore(copies).await?;
                if restored == 0 { Err(error.into()) } else { Ok(true) }
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn restore(&mut self, copies: ObjectCopies) -> Result<usize, LineError> {
        let store = self.stored.store();
        if copies.is_empty() || !store.capabilities().restores {
            return Ok(0);
        }
        let restored = store.restore(self.stored.name(), copies).await.map_err(Error::from)?;
        self.restored += restored.len();
        Ok(restored.len())
    }

    /// Uses up the blobs of a commit that is already stored, and replaces its damaged or missing
    /// links with them.
    async fn known(&mut self, step: &StreamOp, commit: &Commit) -> Result<(), LineError> {
        if self.blobs.is_empty() && given_tools(step).is_empty() {
            return Ok(());
        }
        let mut links: Vec<BlobId> = commit.linked_blobs().collect();
        let mut copies = ObjectCopies::default();
        for id in [commit.toolset, commit.active].into_iter().flatten() {
            let lacking = lacking_toolsets(&self.repo, &[id]).await.map_err(Error::from)?;
            let toolset = match lacking.is_empty() {
                true => self.repo.require_toolset(id).await?,
                false => {
                    let (toolset, _) = self.given_toolset(step, id)?;
                    copies.toolsets.push(toolset.clone());
                    toolset
                }
            };
            links.extend(toolset.entries().iter().map(|entry| entry.schema));
            self.linked.extend(self.lists.get(&id).map(|(blob, _)| *blob));
        }
        let brought: Vec<BlobId> =
            links.iter().filter(|id| self.blobs.contains_key(*id)).copied().collect();
        self.linked.extend(links);
        self.replace_blobs(&brought, copies).await
    }

    /// Replaces the stored copies of blobs if they are damaged or missing, together with other
    /// objects.
    async fn replace_blobs(
        &mut self,
        brought: &[BlobId],
        mut copies: ObjectCopies,
    ) -> Result<(), LineError> {
        let lacking = lacking_blobs(&self.repo, brought).await.map_err(Error::from)?;
        copies.blobs.extend(lacking.iter().filter_map(|id| self.blobs.get(id)).cloned());
        self.restore(copies).await.map(drop)
    }

    async fn store(&self, batch: Batch) -> Result<(), LineError> {
        let (store, name) = (self.repo.store().as_ref(), self.repo.name());
        Ok(require_done(apply_batch(store, name, batch).await.map_err(Error::from)?)?)
    }

    /// Adds a linked blob to the batch if the stream contains it; otherwise it must be stored.
    async fn link(&mut self, id: BlobId, batch: &mut Batch) -> Result<(), LineError> {
        if let Some(blob) = self.blobs.get(&id) {
            batch.blobs.push(blob.clone());
            self.linked.push(id);
            return Ok(());
        }
        let stored = self.repo.store().blob(self.repo.name(), id).await;
        match stored.map_err(Error::from)? {
            Some(_) => Ok(()),
            None => Err(not_brought(ObjectId::Blob(id))),
        }
    }

    async fn read(&self, id: BlobId, batch: &Batch) -> Result<Blob, LineError> {
        match batch.blobs.iter().find(|blob| blob.id() == id) {
            Some(blob) => Ok(blob.clone()),
            None => Ok(self.repo.require_blob(id).await?),
        }
    }

    /// Adds the toolsets of a commit to the batch, and tool index rows for the tools that its
    /// parent did not have in force.
    async fn tools(
        &mut self,
        step: &StreamOp,
        commit: &Commit,
        batch: &mut Batch,
    ) -> Result<(), LineError> {
        let parent = match commit.parent() {
            Some(parent) => self.repo.require_commit(parent).await?.toolset,
            None => None,
        };
        let wanted: HashSet<ToolsetId> = [commit.toolset, commit.active]
            .into_iter()
            .flatten()
            .filter(|id| Some(*id) != parent)
            .collect();
        for id in wanted {
            let (toolset, known) = self.toolset(step, id).await?;
            let mut rows: Vec<ToolRow> = Vec::new();
            let mut seen: HashSet<BlobId> = HashSet::new();
            let given = given_tools(step);
            for entry in toolset.entries() {
                if !seen.insert(entry.schema) {
                    continue;
                }
                let stated = given.iter().map(ToolSchema::blob);
                match stated.into_iter().find(|blob| blob.id() == entry.schema) {
                    Some(blob) if !self.blobs.contains_key(&entry.schema) => batch.blobs.push(blob),
                    Some(_) | None => self.link(entry.schema, batch).await?,
                }
                let blob = self.read(entry.schema, batch).await?;
                let schema = blob.text().and_then(|text| ToolSchema::parse(text).ok());
                let Some(schema) = schema.filter(|schema| schema.id() == entry.tool) else {
                    let what = format!("tool {} has another schema", entry.tool);
                    return Err(LineError::Disagrees { what });
                };
                let limits = self.repo.limits();
                limits.check_schema(schema.text().len()).map_err(Error::from)?;
                limits.check_tool_name(schema.name()).map_err(Error::from)?;
                let at = time_of(&self.repo, commit).await?;
                rows.push(ToolRow::of(&schema, entry.schema, commit.id(), at));
            }
            self.repo.limits().check_toolset(toolset.entries().len()).map_err(Error::from)?;
            if commit.toolset == Some(id) {
                batch.tools.extend(rows);
            }
            if !known {
                batch.toolsets.push(toolset);
            }
        }
        Ok(())
    }

    /// Returns a toolset and whether it is stored; if it is not, it comes from the line or from a
    /// blob with its list.
    async fn toolset(
        &mut self,
        step: &StreamOp,
        id: ToolsetId,
    ) -> Result<(Toolset, bool), LineError> {
        let stored = self.repo.store().toolsets(self.repo.name(), &[id]).await;
        if let Some(toolset) = stored.map_err(Error::from)?.into_iter().flatten().next() {
            return Ok((toolset, true));
        }
        let (toolset, list) = self.given_toolset(step, id)?;
        // The list is used up: the toolset is stored instead.
        self.linked.extend(list);
        Ok((toolset, false))
    }

    /// Returns a toolset from a line, or from a blob of the stream that is its list.
    fn given_toolset(
        &self,
        step: &StreamOp,
        id: ToolsetId,
    ) -> Result<(Toolset, Option<BlobId>), LineError> {
        let given = seal_tools(given_tools(step));
        if given.id() == id {
            return Ok((given, None));
        }
        match self.lists.get(&id) {
            Some((blob, toolset)) => Ok((toolset.clone(), Some(*blob))),
            None => Err(not_brought(ObjectId::Toolset(id))),
        }
    }

    /// Creates a ref, or moves it forward.
    pub(super) async fn point(&mut self, name: &RefName, to: &RefTarget) -> Result<(), LineError> {
        let at = self.repo.ref_target(name).await?;
        if at.as_ref() == Some(to) {
            let brought: Vec<BlobId> =
                to.blob().filter(|id| self.blobs.contains_key(id)).into_iter().collect();
            self.replace_blobs(&brought, ObjectCopies::default()).await?;
            self.linked.extend(to.blob());
            return Ok(());
        }
        let edit = ref_edit(name.clone(), at.clone(), Some(to.clone()));
        edit.check()?;
        if !name.is_history() && !self.trust {
            return Err(LineError::NeedsTrust { name: name.clone() });
        }
        // The ref is not moved here. An erasure deletes bytes and edits branches, which is done for
        // all of them at the end of the stream, when the messages are stored.
        if name.erased_blob().is_some() {
            if let RefTarget::Blob(id) = to {
                let batch = self.repo.batch(&self.operation, "apply")?;
                let document = match self.blobs.get(id) {
                    Some(document) => document.clone(),
                    None => self.read(*id, &batch).await?,
                };
                self.linked.push(*id);
                self.state.erased.extend(read_sent(name, &document));
                self.state.trusted += 1;
            }
            return Ok(());
        }
        let mut batch = self.repo.batch(&self.operation, "apply")?;
        let repo = self.repo.clone();
        let mut txn = Txn::within(&repo, Some(&self.operation))?.any_name();
        let free = match (&at, to) {
            (None, _) => true,
            // The initial branch of a repository may be changed freely.
            (Some(RefTarget::Ref(_)), RefTarget::Ref(_)) => *name == RefName::head(),
            (Some(RefTarget::Commit(at)), RefTarget::Commit(to)) => {
                name.branch_name().is_some() && descends(&self.repo, *to, *at).await?
            }
            (Some(_), _) => false,
        };
        if let (false, Some(at)) = (free, &at) {
            return Err(LineError::Diverged {
                name: name.to_string(),
                found: at.to_string(),
                to: to.to_string(),
            });
        }
        match to {
            RefTarget::Commit(id) => _ = self.repo.require_commit(*id).await?,
            RefTarget::Blob(id) => self.link(*id, &mut batch).await?,
            RefTarget::Ref(_) => {}
        }
        for blob in batch.blobs {
            txn.blob(blob)?;
        }
        txn.move_from(name, at, Some(to.clone()));
        require_done(txn.apply("apply", &WriteOptions::default()).await?)?;
        self.state.trusted += usize::from(!name.is_history());
        if let RefTarget::Commit(head) = to {
            crate::history::turns::catch_up(&self.repo, *head).await;
        }
        Ok(())
    }
}

/// The tools that a line states.
pub(crate) fn given_tools(step: &StreamOp) -> &[ToolSchema] {
    match &step.op {
        StreamOpKind::SetTools { tools } => tools,
        _ => step.fields.tools.as_deref().unwrap_or_default(),
    }
}

fn not_brought(object: ObjectId) -> LineError {
    LineError::NotBrought { object: object.to_string() }
}

/// Parses a blob as the list of a toolset; `None` if it is something else.
pub(crate) fn toolset_of_list(blob: &Blob) -> Option<Toolset> {
    let text = blob.text().filter(|text| text.starts_with('['))?;
    let pairs: Vec<(ToolId, BlobId)> = serde_json::from_str(text).ok()?;
    let entries = pairs.into_iter().map(|(tool, schema)| ToolEntry { tool, schema }).collect();
    let toolset = Toolset::seal(entries);
    (toolset.canonical() == text).then_some(toolset)
}

/// Checks that the readable fields of a line match its record. Consumes the content of an owned
/// line.
fn agrees(step: &mut Cow<'_, StreamOp>, commit: &Commit) -> Result<(), LineError> {
    let refuse = |what: &str| Err(LineError::Disagrees { what: what.to_owned() });
    let fits = match (&step.op, &commit.op) {
        (StreamOpKind::Record, _) => return Ok(()),
        (StreamOpKind::Edit { .. }, Op::Edit { .. })
        | (StreamOpKind::Annotate { .. }, Op::Annotate { .. })
        | (StreamOpKind::Compress { .. }, Op::Compress { .. })
        | (StreamOpKind::Revert { .. }, Op::Revert { .. })
        | (StreamOpKind::Merge { .. }, Op::Merge { .. })
        | (StreamOpKind::SetTools { .. }, Op::Tools)
        | (StreamOpKind::Note { .. }, Op::Note) => true,
        (op, Op::Append { .. }) => op.adds_message(),
        (_, _) => false,
    };
    if !fits {
        return refuse("the operation");
    }
    let content = match &mut *step {
        Cow::Owned(step) if step.op.adds_message() => {
            std::mem::replace(&mut step.op, StreamOpKind::Record).into_content()
        }
        step => step.op.content(),
    };
    if let Some(content) = content {
        let blob = content.to_blob().map_err(Error::from)?;
        drop(content);
        if commit.content != Some(Blob::seal(blob.into_bytes()).id()) {
            return refuse("the content");
        }
    }
    if let (StreamOpKind::Note { text }, message) = (&step.op, &commit.message)
        && message.as_deref() != Some(text)
    {
        return refuse("the note");
    }
    Ok(())
}
