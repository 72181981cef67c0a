//! Exports a repository as lines, which `apply` turns back into the same objects and refs.

use std::collections::{HashSet, VecDeque};

use tract_core::store::BlobKey;
use tract_core::stream::{CompressWhat, StreamOp, StreamOpFields, StreamOpKind};
use tract_core::{
    Blob, BlobId, Commit, CommitId, Content, Op, Part, RefName, RefTarget, ToolSchema, Toolset,
    ToolsetId,
};

use crate::history::reach::{CommitGraph, chosen_refs};
use crate::repo::Repo;
use crate::repo::error::Result;

/// Options of [`export`].
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The refs to export with everything that they lead to; `HEAD` and all refs except [remote
    /// state](RefName::is_remote_state) if absent.
    pub refs: Option<Vec<RefName>>,
}

/// An export that is being written, line by line.
#[derive(Debug)]
pub struct Export {
    repo: Repo,
    /// The commits, parents first.
    order: Vec<CommitId>,
    /// Number of commits that were read.
    read: usize,
    refs: VecDeque<(RefName, RefTarget)>,
    blobs: HashSet<BlobId>,
    toolsets: HashSet<ToolsetId>,
    lines: VecDeque<String>,
}

/// Number of commits that are read together, with the objects that they link to.
const CHUNK: usize = 64;

/// Starts an export.
///
/// # Behavior
/// - Every commit that the refs lead to is exported once, after everything that it links to. Its
///   line has readable fields for the operation, the whole record, and the id.
/// - The blobs that a commit links to come before it, unless an earlier line has them: contents,
///   verbatim bytes, changes, kept originals, schemas. A list of tools without a field in the
///   commit's line is exported as a blob with its canonical text.
/// - The refs come last, preceded by the blobs of documents.
/// - Equal repositories produce equal lines, in every store.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged) when an object that the refs lead to is damaged or
/// missing; [`Error::Erased`](crate::Error::Erased) when it was erased, which a stream cannot
/// express yet, unlike a [`copy`](crate::copy()).
pub async fn export(repo: &Repo, options: &ExportOptions) -> Result<Export> {
    let refs = chosen_refs(repo, options.refs.as_deref()).await?;
    let heads = refs.iter().filter_map(|(_, target)| target.commit());
    let reach = CommitGraph::of(repo, heads).await?;
    Ok(Export::of(repo, reach.parents_first(), refs))
}

impl Export {
    /// Starts an export of commits, parents first, and of refs after them.
    pub(crate) fn of(repo: &Repo, order: Vec<CommitId>, refs: Vec<(RefName, RefTarget)>) -> Self {
        Self {
            repo: repo.clone(),
            order,
            read: 0,
            refs: refs.into(),
            blobs: HashSet::new(),
            toolsets: HashSet::new(),
            lines: VecDeque::new(),
        }
    }

    /// Returns the number of commits in the export.
    pub fn commits(&self) -> usize {
        self.order.len()
    }

    /// Returns the next line, without a line break; `None` at the end.
    ///
    /// # Errors
    /// When the store fails, or an object is damaged.
    pub async fn next_line(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            if self.read < self.order.len() {
                let upto = (self.read + CHUNK).min(self.order.len());
                let ids = self.order[self.read..upto].to_vec();
                self.read = upto;
                for commit in self.repo.require_commits(&ids).await? {
                    self.commit_line(&commit).await?;
                }
            } else if let Some((name, to)) = self.refs.pop_front() {
                if let RefTarget::Blob(id) = &to {
                    self.export_blobs(&[*id]).await?;
                }
                self.push(StreamOpKind::Ref { name, to })?;
            } else {
                return Ok(None);
            }
        }
    }

    fn push(&mut self, step: impl Into<StreamOp>) -> Result<()> {
        self.lines.push_back(step.into().to_line()?);
        Ok(())
    }

    /// Exports blobs that no earlier line has.
    async fn export_blobs(&mut self, ids: &[BlobId]) -> Result<()> {
        let new: Vec<BlobKey> =
            ids.iter().filter(|id| self.blobs.insert(**id)).map(|id| (*id).into()).collect();
        let blobs = self.repo.store().blobs(self.repo.name(), &new).await?;
        for (key, blob) in new.iter().zip(blobs) {
            let Some(blob) = blob else { return Err(self.repo.absent_blob(key.id).await) };
            self.push(StreamOpKind::Blob(blob))?;
        }
        Ok(())
    }

    async fn commit_line(&mut self, commit: &Commit) -> Result<()> {
        // A reader applies the lines in order, so everything that a commit links to precedes it.
        let links: Vec<BlobId> = commit.linked_blobs().collect();
        self.export_blobs(&links).await?;
        let mut tools = None;
        for id in [commit.toolset, commit.active].into_iter().flatten() {
            if !self.toolsets.insert(id) {
                continue;
            }
            let toolset = self.repo.require_toolset(id).await?;
            let schemas: Vec<BlobId> = toolset.entries().iter().map(|entry| entry.schema).collect();
            self.export_blobs(&schemas).await?;
            match self.schemas(&toolset).await? {
                Some(schemas) if commit.toolset == Some(id) => tools = Some((toolset, schemas)),
                Some(_) | None => self.push(StreamOpKind::Blob(list(&toolset)))?,
            }
        }
        // This operation cannot be written without its tools, even if an earlier line has them.
        if let (Op::Tools, None, Some(id)) = (&commit.op, &tools, commit.toolset) {
            let toolset = self.repo.require_toolset(id).await?;
            tools = self.schemas(&toolset).await?.map(|schemas| (toolset, schemas));
        }
        let content = match (commit.content, &commit.kind) {
            (Some(id), Some(kind)) => {
                let blob = self.repo.require_blob(id).await?;
                blob.text().and_then(|text| Content::from_blob(kind, text).ok())
            }
            (Some(_), None) | (None, _) => None,
        };
        let given = tools.as_ref().map(|(_, schemas)| schemas.clone());
        let line = stream_op_of(commit, content, given)
            .map(|step| StreamOp { recorded: Some(commit.clone()), ..step })
            .and_then(|step| step.to_line().ok());
        match line {
            Some(line) => self.lines.push_back(line),
            None => {
                // No operation has a readable form of this commit, so export the record alone.
                if let Some((toolset, _)) = tools {
                    self.push(StreamOpKind::Blob(list(&toolset)))?;
                }
                self.push(StreamOp {
                    recorded: Some(commit.clone()),
                    ..StreamOp::from(StreamOpKind::Record)
                })?;
            }
        }
        Ok(())
    }

    /// Reads the schemas of a toolset; `None` if a line could not reproduce them byte for byte.
    async fn schemas(&self, toolset: &Toolset) -> Result<Option<Vec<ToolSchema>>> {
        let keys: Vec<BlobKey> =
            toolset.entries().iter().map(|entry| entry.schema.into()).collect();
        let blobs = self.repo.store().blobs(self.repo.name(), &keys).await?;
        let schema = |blob: Option<Blob>| {
            let blob = blob?;
            let schema = ToolSchema::parse(blob.text()?).ok()?;
            // A line gives its tools as JSON. A text that does not survive this would get another
            // id, so the list and the schemas are written as blobs only.
            (schema.blob().id() == blob.id()).then_some(schema)
        };
        Ok(blobs.into_iter().map(schema).collect())
    }
}

/// Returns a toolset's list as a blob. Nothing links to it, but its bytes hash to the toolset's id.
fn list(toolset: &Toolset) -> Blob {
    Blob::seal(toolset.canonical().into_bytes())
}

/// Returns the readable fields of a commit's line, for people and other programs; `None` if no
/// operation expresses it.
fn stream_op_of(
    commit: &Commit,
    content: Option<Content>,
    mut tools: Option<Vec<ToolSchema>>,
) -> Option<StreamOp> {
    let hex = |ids: &[CommitId]| ids.iter().map(CommitId::to_hex).collect::<Vec<_>>();
    let mut fields = StreamOpFields::default();
    fields.message.clone_from(&commit.message);
    fields.metadata.clone_from(&commit.metadata);
    fields.generation_config.clone_from(&commit.generation_config);
    fields.at = commit.created_at;
    let op = match &commit.op {
        Op::Append { priority, .. } => {
            fields.priority = *priority;
            StreamOpKind::adding(content?, commit.role.clone())
        }
        Op::Edit { target } => {
            StreamOpKind::Edit { target: target.to_hex(), content: parts(content?)? }
        }
        Op::Annotate { targets, priority, reason, retention } => StreamOpKind::Annotate {
            targets: hex(targets),
            priority: *priority,
            reason: reason.clone(),
            retention: retention.clone(),
        },
        Op::Compress { targets } => match parts(content?)?.as_slice() {
            [Part::Text { text }] => StreamOpKind::Compress {
                what: CompressWhat::Targets(hex(targets)),
                content: text.clone(),
                kind: commit.kind.clone(),
            },
            _ => return None,
        },
        Op::Revert { targets, cascade } => {
            StreamOpKind::Revert { targets: hex(targets), cascade: *cascade }
        }
        Op::Merge { sources } => match sources.as_slice() {
            [source] => StreamOpKind::Merge { from: source.to_hex() },
            _ => return None,
        },
        Op::Tools => StreamOpKind::SetTools { tools: tools.take()? },
        Op::Note => StreamOpKind::Note { text: fields.message.take()? },
        Op::Unknown { .. } => return None,
    };
    fields.tools = tools;
    Some(StreamOp { fields, ..StreamOp::from(op) })
}

/// Returns the parts of a content that consists only of parts.
fn parts(mut content: Content) -> Option<Vec<Part>> {
    if content.body().is_some_and(|body| body.name.is_some()) {
        return None;
    }
    content.parts_mut().map(std::mem::take)
}
