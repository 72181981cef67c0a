//! Pending approvals and records of decisions: documents under `pending/` and `decisions/`.

mod doc;

use std::fmt;

use serde::{Deserialize, Serialize};
use tract_core::{
    Blob, BoundCall, CommitId, Content, Draft, ObjectId, OperationId, Origin, RefName, RefTarget,
    Role, ToolCall,
};
use tract_hooks::DecisionRecord;

use self::doc::PendingRequestDoc;
use crate::history::reach::damage;
use crate::plan::{Details, KeptConflict, Selection};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// The prefix of refs to pending approvals.
pub(crate) const PENDING: &str = "pending/";
/// The prefix of refs to decisions that led to no commit of their own.
pub(crate) const DECISIONS: &str = "decisions/";
/// The first part of the ids of kept merges. Decisions about them are undone like other writes.
pub(crate) const KEPT_MERGE: &str = "m";

/// The request of a pending approval or of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum PendingRequest {
    /// A message, or a tool result.
    Append(Box<Draft>),
    /// An edit of a message.
    Edit {
        /// The message, by any of its versions.
        target: CommitId,
        /// The new content.
        content: Content,
        /// The rest.
        details: Details,
    },
    /// A summary that replaces messages.
    Compress {
        /// The messages.
        select: Selection,
        /// The summary.
        content: Content,
        /// Its role, if it is not the default of its kind.
        role: Option<Role>,
        /// The rest.
        details: Details,
    },
    /// A merge of another head.
    Merge {
        /// The head.
        source: CommitId,
        /// Whether to create a commit even if a fast-forward is possible.
        no_fast_forward: bool,
        /// The rest.
        details: Details,
        /// The conflicts of a kept merge and their resolutions so far; `None` if a handler deferred
        /// the merge.
        conflicts: Option<Vec<KeptConflict>>,
    },
    /// A tool call that has not run yet.
    Call {
        /// The call, as the model wrote it.
        call: ToolCall,
        /// The message with the call.
        commit: Option<CommitId>,
        /// Its position among the calls of the message, from 0; absent in older documents.
        index: Option<u32>,
        /// The exact call that runs once it is approved; absent in older documents.
        bound: Option<Box<BoundCall>>,
    },
}

impl PendingRequest {
    /// Returns the content that the request would write, if any.
    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::Append(draft) => Some(&draft.content),
            Self::Edit { content, .. } | Self::Compress { content, .. } => Some(content),
            Self::Merge { .. } | Self::Call { .. } => None,
        }
    }

    /// Returns the origin of the request; `None` for a call.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Append(draft) => Some(&draft.origin),
            Self::Edit { details, .. }
            | Self::Compress { details, .. }
            | Self::Merge { details, .. } => Some(&details.origin),
            Self::Call { .. } => None,
        }
    }

    pub(crate) fn origin_mut(&mut self) -> Option<&mut Origin> {
        match self {
            Self::Append(draft) => Some(&mut draft.origin),
            Self::Edit { details, .. }
            | Self::Compress { details, .. }
            | Self::Merge { details, .. } => Some(&mut details.origin),
            Self::Call { .. } => None,
        }
    }

    /// Returns content, origin and kept blobs of the request, for replacing the content. Drops the
    /// provider's bytes, which would no longer match.
    pub(crate) fn said_mut(&mut self) -> Option<(&mut Content, &mut Origin, &mut Vec<Blob>)> {
        match self {
            Self::Append(draft) => {
                let draft = draft.as_mut();
                (draft.form, draft.verbatim) = (None, None);
                Some((&mut draft.content, &mut draft.origin, &mut draft.keeps))
            }
            Self::Edit { content, details, .. } | Self::Compress { content, details, .. } => {
                Some((content, &mut details.origin, &mut details.keeps))
            }
            Self::Merge { .. } | Self::Call { .. } => None,
        }
    }

    /// Returns the conflicts of a kept merge.
    pub fn conflicts(&self) -> Option<&[KeptConflict]> {
        match self {
            Self::Merge { conflicts, .. } => conflicts.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn set_conflicts(&mut self, new: Vec<KeptConflict>) {
        if let Self::Merge { conflicts, .. } = self {
            *conflicts = Some(new);
        }
    }

    /// Describes the request in one line.
    pub fn describe(&self) -> String {
        let text = |content: &Content| {
            let text = content.text();
            let line: String = text.chars().take(80).collect();
            line.replace(['\n', '\r'], " ")
        };
        match self {
            Self::Append(draft) => match &draft.content {
                Content::ToolResult(answer) => format!(
                    "result of {} ({}): {}",
                    answer.name.as_deref().unwrap_or("a tool"),
                    answer.call_id,
                    text(&draft.content)
                ),
                content => format!("{}: {}", content.kind(), text(content)),
            },
            Self::Edit { target, content, .. } => {
                format!("edit of {}: {}", target.short(), text(content))
            }
            Self::Compress { content, .. } => format!("summary: {}", text(content)),
            Self::Merge { source, conflicts: None, .. } => format!("merge of {}", source.short()),
            Self::Merge { source, conflicts: Some(conflicts), .. } => {
                let decided = conflicts.iter().filter(|one| one.resolution.is_some()).count();
                let all = tract_core::text::count(conflicts.len(), "conflict");
                format!("merge of {}: {decided} of {all} decided", source.short())
            }
            Self::Call { call, bound: None, .. } => format!("{}({})", call.name, call.arguments),
            Self::Call { call, bound: Some(bound), .. } => {
                let mut text = format!("{}({})", bound.tool_name, bound.arguments);
                if let Some(server) = &bound.server {
                    text.push_str(&format!(" of server {server:?}"));
                }
                if bound.arguments.trim() != call.arguments.trim() {
                    text.push_str(&format!(" (the model wrote {})", call.arguments));
                }
                text
            }
        }
    }
}

/// A pending approval.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Its name, such as `p-7c1e02aa41d95b36`. Lookups accept a prefix of it.
    pub id: String,
    /// The event that a handler deferred.
    pub event: String,
    /// The branch that it would change.
    pub branch: RefName,
    /// The head of the branch when it was deferred.
    pub head: Option<CommitId>,
    /// The handler that deferred it.
    pub handler: String,
    /// The reason.
    pub reason: String,
    /// The time in microseconds since 1970, UTC.
    pub created_at_us: i64,
    /// The request.
    pub request: PendingRequest,
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let branch = self.branch.branch_name().unwrap_or(self.branch.as_str());
        let (id, request) = (&self.id, self.request.describe());
        write!(f, "{id}  {request}  on {branch}, by {}: {}", self.handler, self.reason)
    }
}

/// A decision that is stored as a document.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedDecision {
    /// Its name: that of the pending approval, or a new one.
    pub id: String,
    /// The branch concerned.
    pub branch: RefName,
    /// The decision, its author and the reason.
    pub record: DecisionRecord,
    /// The original request.
    pub request: PendingRequest,
    /// The commit that it led to.
    pub commit: Option<CommitId>,
}

#[derive(Serialize, Deserialize)]
struct PendingDoc {
    v: u8,
    id: String,
    event: String,
    branch: String,
    head: Option<CommitId>,
    handler: String,
    reason: String,
    created_at_us: i64,
    #[serde(rename = "asked")]
    request: PendingRequestDoc,
}

#[derive(Serialize, Deserialize)]
struct DecisionDoc {
    v: u8,
    id: String,
    branch: String,
    record: DecisionRecord,
    #[serde(rename = "asked")]
    request: PendingRequestDoc,
    commit: Option<CommitId>,
}

/// A document to store: its ref and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) name: RefName,
    pub(crate) blob: Blob,
}

impl Document {
    fn of<T: Serialize>(folder: &str, id: &str, doc: &T) -> Result<Self> {
        let text = serde_json::to_string(doc).map_err(|error| damaged(error.to_string()))?;
        Ok(Self { name: RefName::new(format!("{folder}{id}"))?, blob: Blob::seal(text) })
    }

    pub(crate) fn decided(decided: &RecordedDecision) -> Result<Self> {
        let doc = DecisionDoc {
            v: 1,
            id: decided.id.clone(),
            branch: decided.branch.as_str().to_owned(),
            record: decided.record.clone(),
            request: PendingRequestDoc::of(decided.request.clone())?,
            commit: decided.commit,
        };
        Self::of(DECISIONS, &decided.id, &doc)
    }

    pub(crate) fn pending(pending: &Pending) -> Result<Self> {
        let doc = PendingDoc {
            v: 1,
            id: pending.id.clone(),
            event: pending.event.clone(),
            branch: pending.branch.as_str().to_owned(),
            head: pending.head,
            handler: pending.handler.clone(),
            reason: pending.reason.clone(),
            created_at_us: pending.created_at_us,
            request: PendingRequestDoc::of(pending.request.clone())?,
        };
        Self::of(PENDING, &pending.id, &doc)
    }

    /// Returns the target of a ref to it.
    pub(crate) fn target(&self) -> RefTarget {
        RefTarget::Blob(self.blob.id())
    }

    pub(crate) fn is_named(&self, name: &RefName) -> bool {
        self.name == *name
    }

    /// Returns the ref of a pending approval.
    pub(crate) fn pending_name(id: &str) -> Result<RefName> {
        Ok(RefName::new(format!("{PENDING}{id}"))?)
    }
}

pub(crate) fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged { object: None, what: what.into() }
}

/// Creates the name of a pending approval or a decision: 64 random bits, since decisions are never
/// deleted.
pub(crate) fn fresh_id(first: &str) -> Result<String> {
    let random = OperationId::random().map_err(Error::Random)?.to_string();
    let digits: String = random.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    Ok(format!("{first}-{digits}"))
}

/// Records the change of a content. Returns the blob of the original.
pub(crate) fn record_change(
    repo: &Repo,
    record: &mut DecisionRecord,
    old: &Content,
    new: &Content,
) -> Result<Blob> {
    let original = Blob::seal(old.to_blob()?);
    record.before = Some(original.id().to_hex());
    record.after = Some(Blob::seal(new.to_blob()?).id().to_hex());
    record.tokens_before = Some(repo.count(&old.text()));
    record.tokens_after = Some(repo.count(&new.text()));
    Ok(original)
}

/// Reads the document that a ref points to.
pub(crate) async fn read_document<T: serde::de::DeserializeOwned>(
    repo: &Repo,
    target: &RefTarget,
) -> Result<T> {
    let id = target.blob().ok_or_else(|| damaged("expected a document, found a commit"))?;
    let blob = repo.require_blob(id).await?;
    let read = serde_json::from_slice(blob.bytes());
    Ok(read.map_err(|error| damage(ObjectId::Blob(id), format!("as a document: {error}")))?)
}

/// Reads a pending approval.
pub(crate) async fn read_pending(repo: &Repo, target: &RefTarget) -> Result<Pending> {
    let doc: PendingDoc = read_document(repo, target).await?;
    Ok(Pending {
        id: doc.id,
        event: doc.event,
        branch: RefName::new(doc.branch)?,
        head: doc.head,
        handler: doc.handler,
        reason: doc.reason,
        created_at_us: doc.created_at_us,
        request: doc.request.into_request()?,
    })
}

/// Reads a recorded decision.
pub(crate) async fn read_decided(repo: &Repo, target: &RefTarget) -> Result<RecordedDecision> {
    let doc: DecisionDoc = read_document(repo, target).await?;
    Ok(RecordedDecision {
        id: doc.id,
        branch: RefName::new(doc.branch)?,
        record: doc.record,
        request: doc.request.into_request()?,
        commit: doc.commit,
    })
}
