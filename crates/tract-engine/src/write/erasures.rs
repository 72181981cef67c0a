//! Edits branches that show an erased message again: a branch may move to an older commit, or
//! restore an older version. It then gets the edits of the erasure.

use std::collections::{BTreeMap, HashMap};

use tract_compile::RowKey;
use tract_core::{
    Artifact, AuthorKind, Blob, BlobId, Change, Commit, CommitId, Content, Kind, Op, Part, RefName,
    RefTarget, StoreExt as _, ToolAnswer, ToolSchema,
};

use crate::plan::{Details, History, NewContent, Request};
use crate::repo::Repo;
use crate::repo::erasure::{Erasure, MAX_MESSAGES};
use crate::repo::erasure_mark::ErasureMark;
use crate::repo::error::Result;
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// The verb, reason and time of an erasure, as its edits record them.
#[derive(Clone, Debug)]
pub(crate) struct EditNote {
    pub(crate) verb: String,
    pub(crate) reason: String,
    pub(crate) at_us: i64,
}

impl EditNote {
    pub(crate) fn mark(&self) -> String {
        format!("[erased: {}]", self.reason)
    }

    pub(crate) fn of(erasure: &Erasure) -> Self {
        let verb = if erasure.verb.is_empty() { "erase" } else { &erasure.verb };
        Self { verb: verb.to_owned(), reason: erasure.reason.clone(), at_us: erasure.at_us }
    }

    /// Returns the details of an edit. They contain the time of the erasure instead of the current
    /// one, so that an erasure makes the same commit on the same branch in every store. Otherwise
    /// the branches would diverge.
    pub(crate) fn details(&self) -> Details {
        Details {
            message: Some(format!("{}: {}", self.verb, self.reason)),
            origin: AuthorKind::User.into(),
            created_at: Some(self.at_us),
            ..Details::default()
        }
    }
}

/// Lists the erasures of a repository, by blob.
///
/// # Errors
/// Those of the store. An unreadable document does not fail: the blob is listed without its reason.
pub async fn erasures(repo: &Repo) -> Result<BTreeMap<BlobId, Erasure>> {
    let mut found = BTreeMap::new();
    for (name, document) in repo.documents(RefName::erasures()).await? {
        if let Some(blob) = name.erased_blob() {
            found.insert(blob, Erasure::read(blob, &document));
        }
    }
    Ok(found)
}

/// The erasures of a repository, with the erasure mark at which they were read.
#[derive(Clone, Debug)]
pub(crate) struct KnownErasures {
    pub(crate) mark: ErasureMark,
    by_blob: BTreeMap<BlobId, Erasure>,
}

impl KnownErasures {
    /// Reads the erasures. A write that relies on them must [hold](ErasureMark::hold) the mark, or
    /// it may miss an erasure that another client makes in the meantime.
    pub(crate) async fn read(repo: &Repo) -> Result<Self> {
        let refs = repo.store().list_refs(repo.name(), RefName::erasures()).await?;
        let newest = refs.iter().find(|(name, _)| *name == RefName::newest_erasure());
        // The mark comes from the same listing, before the documents are read. An erasure that is
        // made after the listing changes the mark, so a write that holds it conflicts.
        let mark = ErasureMark::at(newest.map(|(_, target)| target.clone()));
        let by_blob = match refs.iter().any(|(name, _)| name.erased_blob().is_some()) {
            true => erasures(repo).await?,
            false => BTreeMap::new(),
        };
        Ok(Self { mark, by_blob })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_blob.is_empty()
    }

    fn of(&self, blob: Option<BlobId>) -> Option<&Erasure> {
        self.by_blob.get(&blob?)
    }

    /// Returns the shown versions that may have an erased blob, in the order of the view.
    fn candidates(&self, history: &History) -> Vec<CommitId> {
        let view = history.view();
        // An erasure written by an older version of tract does not name its messages, and one with
        // `MAX_MESSAGES` names may lack others. Then every row is a candidate.
        let names_all = |erasure: &Erasure| {
            !erasure.messages.is_empty() && erasure.messages.len() < MAX_MESSAGES
        };
        if !self.by_blob.values().all(names_all) {
            return view.rows().map(|row| row.version).collect();
        }
        let slots = self.by_blob.values().flat_map(|erasure| &erasure.messages);
        let rows = slots.filter_map(|slot| view.get(*slot));
        let rows: BTreeMap<RowKey, CommitId> =
            rows.map(|row| (row.row_key(), row.version)).collect();
        rows.into_values().collect()
    }
}

/// Edits branches that show an erased message, in a separate write. Returns the number of edits.
///
/// # Errors
/// [`Error::KeptMoving`](crate::Error::KeptMoving) when others kept moving the branches; when the
/// store fails.
pub(crate) async fn mend(repo: &Repo, branches: &[RefName]) -> Result<usize> {
    if branches.is_empty() || KnownErasures::read(repo).await?.is_empty() {
        return Ok(0);
    }
    let mut attempts = Attempts::new(repo);
    loop {
        let mut txn = Txn::new(repo)?;
        let edits = match mend_branches(&mut txn, branches).await {
            Ok(edits) => edits,
            // A branch may have moved since it was read, and its commits may be collected.
            Err(error) => {
                attempts.again(error).await?;
                continue;
            }
        };
        if edits == 0 {
            return Ok(0);
        }
        let options = WriteOptions {
            why: Some("an erased message was shown".to_owned()),
            ..WriteOptions::default()
        };
        if attempts.won(txn.apply("erase", &options).await).await? {
            return Ok(edits);
        }
    }
}

/// Adds edits of the erased messages and tools that branches show. Returns the number of edits.
async fn mend_branches(txn: &mut Txn<'_>, branches: &[RefName]) -> Result<usize> {
    txn.look_up(branches).await?;
    let mut edits = 0;
    let known = KnownErasures::read(txn.repo()).await?;
    for branch in branches {
        edits += mend_branch(txn, branch, &known).await?;
    }
    Ok(edits)
}

/// Adds edits of the erased messages and tools that a branch of a write shows. Returns the number
/// of edits.
pub(crate) async fn mend_branch(
    txn: &mut Txn<'_>,
    branch: &RefName,
    known: &KnownErasures,
) -> Result<usize> {
    let Some(head) = txn.head(branch).await?.filter(|_| !known.by_blob.is_empty()) else {
        return Ok(0);
    };
    let history = txn.fold(Some(head)).await?;
    let mut edits = 0;
    for version in known.candidates(&history) {
        let commit = txn.require_commit(version).await?;
        // A version may have been erased in its content, in the provider's bytes, or in both. The
        // content decides what the edit contains.
        let content = known.of(commit.content);
        let Some(erasure) = content.or_else(|| known.of(commit.verbatim)) else { continue };
        // A new commit of this write stores the bytes again, and the batch lifts their erasure.
        if txn.made_here(version).is_some() && txn.repo().commit(version).await?.is_none() {
            continue;
        }
        let new = match content {
            Some(erasure) => left_of(txn.repo(), &commit, erasure).await?,
            // Only the provider's bytes were erased, so the content stays.
            None => txn.repo().content(&commit).await?,
        };
        let Some(new) = new else { continue };
        // The edit plans on the content of its target, whose bytes are gone.
        txn.know_content(version, new.clone());
        let details = EditNote::of(erasure).details();
        let content = NewContent::Redacted(new);
        txn.add_decided(branch, &Request::Edit { target: version, content, details }).await?;
        edits += 1;
    }
    Ok(edits + usize::from(mend_tools(txn, branch, known).await?))
}

/// Returns the content that replaces an erased message: the one that the erasure recorded, else its
/// mark.
async fn left_of(repo: &Repo, commit: &Commit, erasure: &Erasure) -> Result<Option<Content>> {
    let Some(kind) = &commit.kind else { return Ok(None) };
    if let Some(id) = erasure.replaced_by
        && let Some(blob) = repo.store().blob(repo.name(), id).await?
        && let Some(content) = blob.text().and_then(|text| Content::from_blob(kind, text).ok())
    {
        return Ok(Some(content));
    }
    let mark = EditNote::of(erasure).mark();
    Ok(Some(match kind {
        Kind::ToolResult => Content::ToolResult(ToolAnswer {
            call_id: answered_call(repo, commit).await?.unwrap_or_default(),
            name: None,
            is_error: false,
            parts: vec![Part::text(mark)],
        }),
        Kind::Artifact => Content::Artifact(Artifact {
            artifact_type: "text".to_owned(),
            language: None,
            text: mark,
        }),
        kind => Content::from_blob(kind, crate::plan::json_string(&mark).as_str())?,
    }))
}

/// Returns the provider's id of the call that a result answers; `None` if the message with the call
/// cannot be read.
async fn answered_call(repo: &Repo, commit: &Commit) -> Result<Option<String>> {
    let Op::Append { answers: Some(call), .. } = &commit.op else { return Ok(None) };
    let Some(message) = repo.commit(call.slot).await? else { return Ok(None) };
    let (Some(id), Some(kind)) = (message.content, &message.kind) else { return Ok(None) };
    let blob = repo.store().blob(repo.name(), id).await?;
    let content = blob.as_ref().and_then(Blob::text);
    let content = content.and_then(|text| Content::from_blob(kind, text).ok());
    let index = usize::try_from(call.index).unwrap_or(usize::MAX);
    Ok(content.and_then(|content| Some(content.calls().nth(index)?.id.clone())))
}

/// Replaces the tools in force on a branch if one of their definitions was erased. Returns whether
/// it did.
async fn mend_tools(txn: &mut Txn<'_>, branch: &RefName, known: &KnownErasures) -> Result<bool> {
    let Some(head) = txn.head(branch).await? else { return Ok(false) };
    let Some(id) = txn.require_commit(head).await?.active_toolset() else { return Ok(false) };
    // A toolset that this write makes is not stored yet, and comes with its definitions.
    let stored = txn.repo().store().toolsets(txn.repo().name(), &[id]).await?;
    let Some(toolset) = stored.into_iter().flatten().next() else { return Ok(false) };
    let erased: HashMap<BlobId, &Erasure> = toolset
        .entries()
        .iter()
        .filter_map(|entry| Some((entry.schema, known.of(Some(entry.schema))?)))
        .collect();
    let Some(at_us) = erased.values().map(|erasure| erasure.at_us).max() else { return Ok(false) };
    let mut tools: Vec<ToolSchema> = Vec::new();
    for entry in toolset.entries() {
        let schema = match erased.get(&entry.schema) {
            // If the remaining text is not a valid definition, there is no replacement, and the
            // tool is removed.
            Some(erasure) => erasure.replaced_by,
            None => Some(entry.schema),
        };
        let Some(schema) = schema else { continue };
        let blob = txn.repo().store().blob(txn.repo().name(), schema).await?;
        let text = blob.as_ref().and_then(Blob::text);
        tools.extend(text.and_then(|text| ToolSchema::parse(text).ok()));
    }
    let details = Details { created_at: Some(at_us), ..Details::default() };
    txn.add_decided(branch, &Request::Tools { tools, details }).await?;
    Ok(true)
}

/// Returns whether a branch points to a commit, or to one that follows it with only edits of
/// erasures in between.
pub(crate) async fn is_at_but_for_erasures(
    repo: &Repo,
    now: Option<&RefTarget>,
    at: Option<&RefTarget>,
) -> Result<bool> {
    let (Some(RefTarget::Commit(now)), Some(RefTarget::Commit(at))) = (now, at) else {
        return Ok(false);
    };
    let known = KnownErasures::read(repo).await?;
    let mut now = *now;
    // Ends at the first commit that is not the edit of an erasure, so it reads few commits
    // however far the branch has moved.
    while now != *at {
        let Some(commit) = repo.commit(now).await? else { return Ok(false) };
        let Some(parent) = commit.parent() else { return Ok(false) };
        if !is_edit_of_erasure(repo, &commit, &known).await? {
            return Ok(false);
        }
        now = parent;
    }
    Ok(true)
}

async fn is_edit_of_erasure(repo: &Repo, commit: &Commit, known: &KnownErasures) -> Result<bool> {
    let is_of = |erasure: &Erasure| Some(erasure.at_us) == commit.created_at;
    match &commit.op {
        Op::Edit { .. } => {
            let changes = repo.changes(commit).await?;
            let replaced = changes.iter().find_map(|change| match change {
                Change::Version { from, .. } => Some(from.resolve(commit.id())),
                Change::Add { .. } | Change::Remove { .. } | Change::Mark { .. } => None,
            });
            let Some(replaced) = replaced else { return Ok(false) };
            let Some(replaced) = repo.commit(replaced).await? else { return Ok(false) };
            let erasure = known.of(replaced.content).or_else(|| known.of(replaced.verbatim));
            Ok(erasure.is_some_and(is_of))
        }
        Op::Tools => Ok(known.by_blob.values().any(is_of)),
        _ => Ok(false),
    }
}
