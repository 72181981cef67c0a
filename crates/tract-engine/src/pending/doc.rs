//! Requests as documents: what was asked for, whole, so that another process can do it later.

use serde::{Deserialize, Serialize};
use tract_core::{
    AuthorKind, Blob, BoundCall, CommitId, Content, ContentError, Draft, JsonText, Kind, Origin,
    Priority, Role, ToolCall, ToolSchema,
};

use super::{PendingRequest, damaged};
use crate::error::Result;
use crate::merge::KeptConflict;
use crate::plan::{
    ConflictKind, Details, MergeConflict, NewContent, Request, Resolution, Selection,
};

/// What was asked for. Tagged from outside: JSON texts inside keep every digit that way.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PendingRequestDoc {
    Append(DraftDoc),
    Edit {
        target: CommitId,
        content: ContentDoc,
        details: DetailsDoc,
    },
    Compress {
        targets: Option<Vec<CommitId>>,
        from: Option<CommitId>,
        to: Option<CommitId>,
        content: ContentDoc,
        role: Option<String>,
        details: DetailsDoc,
    },
    Merge {
        source: CommitId,
        no_fast_forward: bool,
        details: DetailsDoc,
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
pub(super) struct DraftDoc {
    content: ContentDoc,
    role: Option<String>,
    form: Option<String>,
    verbatim: Option<BlobDoc>,
    joins_previous: bool,
    priority: Option<Priority>,
    retention: Option<JsonText>,
    details: DetailsDoc,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ContentDoc {
    kind: String,
    content: JsonText,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DetailsDoc {
    message: Option<String>,
    metadata: Option<JsonText>,
    generation_config: Option<JsonText>,
    tools: Option<Vec<String>>,
    origin: OriginDoc,
    keeps: Vec<BlobDoc>,
    created_at: Option<i64>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ConflictDoc {
    kind: String,
    slot: Option<CommitId>,
    ours: Option<CommitId>,
    theirs: Option<CommitId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolution: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct OriginDoc {
    by: String,
    id: Option<String>,
    triggered_by: Option<String>,
    picked_from: Option<CommitId>,
    detail: Option<JsonText>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BlobDoc {
    Text(String),
    Bytes(Vec<u8>),
}

impl BlobDoc {
    fn of(blob: &Blob) -> Self {
        match blob.text() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(blob.bytes().to_vec()),
        }
    }

    fn blob(self) -> Blob {
        match self {
            Self::Text(text) => Blob::seal(text),
            Self::Bytes(bytes) => Blob::seal(bytes),
        }
    }
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
    fn of(kept: &KeptConflict) -> Self {
        let MergeConflict { kind, slot, ours, theirs } = kept.conflict;
        let text = match &kept.resolution {
            Some(Resolution::Text(text)) => Some(text.clone()),
            _ => None,
        };
        Self {
            kind: kind.as_str().to_owned(),
            slot,
            ours,
            theirs,
            resolution: kept.resolution.as_ref().map(|how| how.kind().as_str().to_owned()),
            text,
        }
    }

    fn conflict(self) -> Result<KeptConflict> {
        let Self { kind, slot, ours, theirs, resolution, text } = self;
        let kind = ConflictKind::parse(&kind)
            .ok_or_else(|| damaged(format!("a conflict of unknown kind {kind:?}")))?;
        let resolution = match (resolution.as_deref(), text) {
            (None, _) => None,
            (Some("ours"), _) => Some(Resolution::Ours),
            (Some("theirs"), _) => Some(Resolution::Theirs),
            (Some("both"), _) => Some(Resolution::Both),
            (Some("text"), Some(text)) => Some(Resolution::Text(text)),
            (Some(word), _) => return Err(damaged(format!("an unknown resolution {word:?}"))),
        };
        Ok(KeptConflict { conflict: MergeConflict { kind, slot, ours, theirs }, resolution })
    }
}

impl DetailsDoc {
    fn of(details: &Details) -> Self {
        let Details { message, metadata, generation_config, tools, origin, keeps, created_at } =
            details;
        let texts =
            |tools: &Vec<ToolSchema>| tools.iter().map(|tool| tool.text().to_owned()).collect();
        Self {
            message: message.clone(),
            metadata: metadata.clone(),
            generation_config: generation_config.clone(),
            tools: tools.as_ref().map(texts),
            origin: OriginDoc {
                by: origin.by.as_str().to_owned(),
                id: origin.id.clone(),
                triggered_by: origin.triggered_by.clone(),
                picked_from: origin.picked_from,
                detail: origin.detail.clone(),
            },
            keeps: keeps.iter().map(BlobDoc::of).collect(),
            created_at: *created_at,
        }
    }

    fn details(self) -> Result<Details> {
        let tools = self
            .tools
            .map(|tools| tools.iter().map(|text| ToolSchema::parse(text)).collect())
            .transpose()?;
        let origin = self.origin;
        let by = AuthorKind::parse(&origin.by)
            .ok_or_else(|| damaged(format!("an origin of unknown sort {:?}", origin.by)))?;
        Ok(Details {
            message: self.message,
            metadata: self.metadata,
            generation_config: self.generation_config,
            tools,
            origin: Origin {
                by,
                id: origin.id,
                triggered_by: origin.triggered_by,
                picked_from: origin.picked_from,
                detail: origin.detail,
            },
            keeps: self.keeps.into_iter().map(BlobDoc::blob).collect(),
            created_at: self.created_at,
        })
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
            details: DetailsDoc::of(&Details::from(draft)),
        })
    }

    fn draft(self) -> Result<Draft> {
        let details = self.details.details()?;
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
    pub(super) fn of(request: &PendingRequest) -> Result<Self> {
        Ok(match request {
            PendingRequest::Merge { source, no_fast_forward, details, conflicts } => Self::Merge {
                source: *source,
                no_fast_forward: *no_fast_forward,
                details: DetailsDoc::of(details),
                conflicts: conflicts.as_ref().map(|all| all.iter().map(ConflictDoc::of).collect()),
            },
            PendingRequest::Call { call, commit, index, bound } => Self::Call {
                call: call.clone(),
                commit: *commit,
                index: *index,
                bound: bound.clone(),
            },
            PendingRequest::Append(draft) => Self::Append(DraftDoc::of(draft)?),
            PendingRequest::Edit { target, content, details } => Self::Edit {
                target: *target,
                content: ContentDoc::of(content)?,
                details: DetailsDoc::of(details),
            },
            PendingRequest::Compress { select, content, role, details } => {
                let (targets, from, to) = match select {
                    Selection::Targets(targets) | Selection::Exactly(targets) => {
                        (Some(targets.clone()), None, None)
                    }
                    Selection::Range { from, to } => (None, *from, *to),
                };
                Self::Compress {
                    targets,
                    from,
                    to,
                    content: ContentDoc::of(content)?,
                    role: role.as_ref().map(|role| role.as_str().to_owned()),
                    details: DetailsDoc::of(details),
                }
            }
        })
    }

    pub(super) fn into_request(self) -> Result<PendingRequest> {
        Ok(match self {
            Self::Append(draft) => PendingRequest::Append(Box::new(draft.draft()?)),
            Self::Edit { target, content, details } => PendingRequest::Edit {
                target,
                content: content.content()?,
                details: details.details()?,
            },
            Self::Compress { targets, from, to, content, role, details } => {
                PendingRequest::Compress {
                    select: match targets {
                        // What waits was planned: these are the messages that the summary is of.
                        Some(targets) => Selection::Exactly(targets),
                        None => Selection::Range { from, to },
                    },
                    content: content.content()?,
                    role: role.as_deref().map(Role::parse),
                    details: details.details()?,
                }
            }
            Self::Merge { source, no_fast_forward, details, conflicts } => PendingRequest::Merge {
                source,
                no_fast_forward,
                details: details.details()?,
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
    pub(super) fn request(&self) -> Option<Request> {
        Some(match self {
            Self::Append(draft) => Request::Append(Draft::clone(draft)),
            Self::Edit { target, content, details } => Request::Edit {
                target: *target,
                content: NewContent::Content(content.clone()),
                details: details.clone(),
            },
            Self::Compress { select, content, role, details } => Request::Compress {
                select: select.clone(),
                content: content.clone(),
                role: role.clone(),
                details: details.clone(),
            },
            Self::Merge { .. } | Self::Call { .. } => return None,
        })
    }
}
