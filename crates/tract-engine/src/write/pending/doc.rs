//! Requests as documents that contain everything another process needs to carry them out.

use serde::{Deserialize, Serialize};
use tract_core::{
    BoundCall, CommitId, Content, ContentError, Draft, JsonText, Kind, Priority, Role, ToolCall,
};

use super::{PendingRequest, damaged};
use crate::plan::{
    BlobDoc, Details, KeptConflict, MergeConflict, NewContent, Request, Resolution, Selection,
};
use crate::repo::error::Result;

/// A request. Externally tagged: only that keeps all digits of numbers in embedded JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PendingRequestDoc {
    Append(DraftDoc),
    Edit {
        target: CommitId,
        content: ContentDoc,
        details: Details,
    },
    Compress {
        targets: Option<Vec<CommitId>>,
        from: Option<CommitId>,
        to: Option<CommitId>,
        content: ContentDoc,
        role: Option<String>,
        details: Details,
    },
    Merge {
        source: CommitId,
        no_fast_forward: bool,
        details: Details,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conflicts: Option<Vec<ConflictDoc>>,
    },
    Call {
        call: ToolCall,
        commit: Option<CommitId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bound: Option<Box<BoundCall>>,
    },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DraftDoc {
    content: ContentDoc,
    role: Option<String>,
    form: Option<String>,
    verbatim: Option<BlobDoc>,
    joins_previous: bool,
    priority: Option<Priority>,
    retention: Option<JsonText>,
    details: Details,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ContentDoc {
    kind: String,
    content: JsonText,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ConflictDoc {
    #[serde(flatten)]
    conflict: MergeConflict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolution: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl ContentDoc {
    fn of(content: &Content) -> Result<Self> {
        let text = content.to_blob()?;
        let content_json = JsonText::new(&text).map_err(ContentError::from)?;
        Ok(Self { kind: content.kind().as_str().to_owned(), content: content_json })
    }

    fn content(&self) -> Result<Content> {
        Ok(Content::from_blob(&Kind::parse(&self.kind), self.content.as_str())?)
    }
}

impl ConflictDoc {
    fn of(kept: KeptConflict) -> Self {
        let KeptConflict { conflict, resolution } = kept;
        let word = resolution.as_ref().map(|how| how.kind().as_str().to_owned());
        let text = match resolution {
            Some(Resolution::Text(text)) => Some(text),
            _ => None,
        };
        Self { conflict, resolution: word, text }
    }

    fn conflict(self) -> Result<KeptConflict> {
        let Self { conflict, resolution, text } = self;
        let resolution = match (resolution.as_deref(), text) {
            (None, _) => None,
            (Some("ours"), _) => Some(Resolution::Ours),
            (Some("theirs"), _) => Some(Resolution::Theirs),
            (Some("both"), _) => Some(Resolution::Both),
            (Some("text"), Some(text)) => Some(Resolution::Text(text)),
            (Some(word), _) => return Err(damaged(format!("an unknown resolution {word:?}"))),
        };
        Ok(KeptConflict { conflict, resolution })
    }
}

impl DraftDoc {
    fn of(draft: &Draft) -> Result<Self> {
        Ok(Self {
            content: ContentDoc::of(&draft.content)?,
            role: draft.role.as_ref().map(|role| role.as_str().to_owned()),
            form: draft.form.clone(),
            verbatim: draft.verbatim.as_ref().map(BlobDoc::of),
            joins_previous: draft.joins_previous,
            priority: draft.priority,
            retention: draft.retention.clone(),
            details: draft.into(),
        })
    }

    fn draft(self) -> Result<Draft> {
        let details = self.details;
        let mut draft = Draft::new(self.content.content()?);
        draft.role = self.role.as_deref().map(Role::parse);
        draft.form = self.form;
        draft.verbatim = self.verbatim.map(BlobDoc::blob);
        draft.joins_previous = self.joins_previous;
        draft.priority = self.priority;
        draft.retention = self.retention;
        draft.message = details.message;
        draft.metadata = details.metadata;
        draft.generation_config = details.generation_config;
        draft.tools = details.tools;
        draft.origin = details.origin;
        draft.keeps = details.keeps;
        draft.created_at = details.created_at;
        Ok(draft)
    }
}

impl PendingRequestDoc {
    pub(crate) fn of(request: PendingRequest) -> Result<Self> {
        Ok(match request {
            PendingRequest::Merge { source, no_fast_forward, details, conflicts } => {
                let conflicts = conflicts.map(|all| all.into_iter().map(ConflictDoc::of).collect());
                Self::Merge { source, no_fast_forward, details, conflicts }
            }
            PendingRequest::Call { call, commit, index, bound } => {
                Self::Call { call, commit, index, bound }
            }
            PendingRequest::Append(draft) => Self::Append(DraftDoc::of(&draft)?),
            PendingRequest::Edit { target, content, details } => {
                Self::Edit { target, content: ContentDoc::of(&content)?, details }
            }
            PendingRequest::Compress { select, content, role, details } => {
                let (targets, from, to) = match select {
                    // All of these name messages. The document does not record which it was: when
                    // it is carried out, the summary covers exactly the messages that were
                    // approved.
                    Selection::Targets(targets)
                    | Selection::Exactly(targets)
                    | Selection::Recorded(targets) => (Some(targets), None, None),
                    Selection::Range { from, to } => (None, from, to),
                };
                let (content, role) =
                    (ContentDoc::of(&content)?, role.map(|role| role.as_str().to_owned()));
                Self::Compress { targets, from, to, content, role, details }
            }
        })
    }

    pub(crate) fn into_request(self) -> Result<PendingRequest> {
        Ok(match self {
            Self::Append(draft) => PendingRequest::Append(Box::new(draft.draft()?)),
            Self::Edit { target, content, details } => {
                PendingRequest::Edit { target, content: content.content()?, details }
            }
            Self::Compress { targets, from, to, content, role, details } => {
                PendingRequest::Compress {
                    select: match targets {
                        // A planned summary names the messages that it was made of.
                        Some(targets) => Selection::Exactly(targets),
                        None => Selection::Range { from, to },
                    },
                    content: content.content()?,
                    role: role.as_deref().map(Role::parse),
                    details,
                }
            }
            Self::Merge { source, no_fast_forward, details, conflicts } => PendingRequest::Merge {
                source,
                no_fast_forward,
                details,
                conflicts: conflicts
                    .map(|all| all.into_iter().map(ConflictDoc::conflict).collect())
                    .transpose()?,
            },
            Self::Call { call, commit, index, bound } => {
                PendingRequest::Call { call, commit, index, bound }
            }
        })
    }
}

impl PendingRequest {
    /// Returns the request that carries it out; `None` for a merge and for a call.
    pub(crate) fn request(self) -> Option<Request> {
        Some(match self {
            Self::Append(draft) => Request::Append(*draft),
            Self::Edit { target, content, details } => {
                Request::Edit { target, content: NewContent::Content(content), details }
            }
            Self::Compress { select, content, role, details } => {
                Request::Compress { select, content, role, details }
            }
            Self::Merge { .. } | Self::Call { .. } => return None,
        })
    }
}
