//! Lines that request an operation: the verbs.

use std::borrow::Cow;

use tract_core::stream::{CompressWhat, StreamOp, StreamOpError, StreamOpFields, StreamOpKind};
use tract_core::{Body, CommitId, Content, JsonText, Kind, Part, ToolAnswer, ToolSchema};

use super::Stream;
use crate::plan::{Details, NewContent, Request, Selection};
use crate::repo::Repo;
use crate::repo::error::{Error, LineError};
use crate::verbs::merge::{MergeOptions, Merged};
use crate::verbs::revision::{resolve_in, resolve_position_in};
use crate::write::txn::Txn;

impl Stream {
    /// Adds the message of a line through the given handle, and returns its commit.
    pub(super) async fn added(
        &mut self,
        repo: &Repo,
        step: Cow<'_, StreamOp>,
    ) -> Result<CommitId, LineError> {
        let draft = match step {
            Cow::Owned(step) => step.into_draft(),
            Cow::Borrowed(step) => step.to_draft(),
        };
        let draft = draft.ok_or_else(|| bad("op", "it adds no message"))?;
        ToolSchema::check_names(draft.tools.as_deref().unwrap_or_default()).map_err(Error::from)?;
        let branch = self.state.branch.clone();
        let commit = repo.write_one(&branch, Request::Append(draft)).await?;
        // The id of the commit changes if the group is applied again. A summary of the group that
        // covers this message is then planned for the new commit.
        self.chosen.made(self.place, &commit);
        Ok(commit.id())
    }

    /// Applies a line that adds no message. Returns the commit that it made or named.
    pub(super) async fn carry_out(
        &mut self,
        step: &StreamOp,
    ) -> Result<Option<CommitId>, LineError> {
        let branch = self.state.branch.clone();
        let details = details(&step.fields);
        let request = match &step.op {
            StreamOpKind::Branch { name, from } => {
                let at = self.position_or_head(from.as_deref()).await?;
                self.repo.create_branch(name, at).await?;
                return Ok(Some(at));
            }
            StreamOpKind::Tag { name, target } => {
                let at = self.position_or_head(target.as_deref()).await?;
                self.repo.create_tag(name, at).await?;
                return Ok(Some(at));
            }
            StreamOpKind::Checkout { name } => {
                self.state.branch = self.repo.checkout(name).await?;
                return Ok(self.repo.head_of(&self.state.branch).await?);
            }
            StreamOpKind::Merge { from } => {
                let source = self.position(from).await?;
                // A stream cannot contain flags, so a merge line implies consent to unrelated
                // histories.
                let options =
                    MergeOptions { allow_unrelated: true, details, ..MergeOptions::default() };
                return Ok(match self.repo.merge(&branch, source, &options).await? {
                    Merged::NothingToMerge => self.repo.head_of(&branch).await?,
                    Merged::FastForward { head } => Some(head),
                    Merged::Commit(commit) => Some(commit.id()),
                });
            }
            StreamOpKind::Blob(blob) => {
                self.repo.limits().check_blob(blob.bytes().len()).map_err(Error::from)?;
                self.add_blob(blob.clone());
                return Ok(None);
            }
            StreamOpKind::Ref { name, to } => {
                self.point(name, to).await?;
                return Ok(None);
            }
            StreamOpKind::Record => return Ok(None),
            StreamOpKind::Edit { target, content } => {
                let target = self.revision(target).await?;
                let content = self.edited(target, content).await?;
                Request::Edit { target, content, details }
            }
            StreamOpKind::Annotate { targets, priority, reason, retention } => Request::Annotate {
                targets: self.revisions(targets).await?,
                priority: *priority,
                reason: reason.clone(),
                retention: retention.clone(),
                details,
            },
            StreamOpKind::Compress { what, content, kind } => Request::Compress {
                select: match what {
                    CompressWhat::Range { from, to } => Selection::Range {
                        from: Some(self.revision(from).await?),
                        to: Some(self.revision(to).await?),
                    },
                    CompressWhat::Targets(targets) => {
                        Selection::Targets(self.revisions(targets).await?)
                    }
                },
                content: summary(content, kind.as_ref())?,
                role: None,
                details,
            },
            StreamOpKind::Revert { targets, cascade } => Request::Revert {
                targets: self.revisions(targets).await?,
                cascade: *cascade,
                details,
            },
            StreamOpKind::SetTools { tools } => {
                ToolSchema::check_names(tools).map_err(Error::from)?;
                Request::Tools { tools: tools.clone(), details }
            }
            StreamOpKind::Note { text } => note(text, details)?,
            StreamOpKind::System { .. }
            | StreamOpKind::User { .. }
            | StreamOpKind::Assistant { .. }
            | StreamOpKind::ToolResult { .. }
            | StreamOpKind::Reasoning { .. }
            | StreamOpKind::Commit { .. } => return Ok(None),
        };
        let request = self.chosen.again(self.place, &request).unwrap_or(request);
        let commit = self.repo.write_one(&branch, request).await?;
        self.chosen.made(self.place, &commit);
        Ok(Some(commit.id()))
    }

    /// Resolves a revision, including marks, to a commit.
    pub(super) async fn revision(&self, text: &str) -> Result<CommitId, LineError> {
        Ok(resolve_in(&mut Txn::new(&self.repo)?, text, &self.marks).await?)
    }

    async fn revisions(&self, texts: &[String]) -> Result<Vec<CommitId>, LineError> {
        let mut ids = Vec::with_capacity(texts.len());
        for text in texts {
            ids.push(self.revision(text).await?);
        }
        Ok(ids)
    }

    /// Resolves a revision, including marks, to a position in a history.
    async fn position(&self, text: &str) -> Result<CommitId, LineError> {
        Ok(resolve_position_in(&mut Txn::new(&self.repo)?, text, &self.marks).await?)
    }

    async fn position_or_head(&self, text: Option<&str>) -> Result<CommitId, LineError> {
        if let Some(text) = text {
            return self.position(text).await;
        }
        let branch = &self.state.branch;
        self.repo.head_of(branch).await?.ok_or_else(|| {
            let name = branch.branch_name().unwrap_or(branch.as_str()).to_owned();
            LineError::Engine(Error::BadRevision {
                text: name,
                what: "it has no commit yet".into(),
            })
        })
    }

    /// Returns the new content of an edited message: a single text replaces only the texts, other
    /// parts replace all parts.
    async fn edited(&self, target: CommitId, parts: &[Part]) -> Result<NewContent, LineError> {
        if let [Part::Text { text }] = parts {
            return Ok(NewContent::Text(text.clone()));
        }
        let body = Body { parts: parts.to_vec(), name: None };
        let target = self.repo.require_commit(target).await?;
        let content = match target.kind.clone() {
            // The answered call and the error flag are kept from the original.
            Some(Kind::ToolResult) => Some(Content::ToolResult(ToolAnswer {
                call_id: String::new(),
                name: None,
                is_error: false,
                parts: body.parts,
            })),
            kind => kind.and_then(|kind| Content::of_body(kind, body)),
        };
        content
            .map(NewContent::Content)
            .ok_or_else(|| bad("content", "the message that it edits has no parts; use \"text\""))
    }
}

fn details(fields: &StreamOpFields) -> Details {
    Details {
        message: fields.message.clone(),
        metadata: fields.metadata.clone(),
        generation_config: fields.generation_config.clone(),
        tools: fields.tools.clone(),
        created_at: fields.at,
        ..Details::default()
    }
}

fn note(text: &str, mut details: Details) -> Result<Request, LineError> {
    // The note becomes the log message, unless the line has a message of its own; then it is stored
    // as data.
    let content = match details.message {
        Some(_) => Some(JsonText::of(text).map_err(|error| bad("text", &error.to_string()))?),
        None => {
            details.message = Some(text.to_owned());
            None
        }
    };
    Ok(Request::Note { content, details })
}

fn summary(text: &str, kind: Option<&Kind>) -> Result<Content, LineError> {
    let content = match kind.filter(|kind| **kind != Kind::Assistant) {
        Some(kind) => Content::of_body(kind.clone(), Body::text(text)),
        None => Some(Content::assistant(text)),
    };
    content.ok_or_else(|| bad("kind", "a summary is a message of text"))
}

fn bad(field: &'static str, why: &str) -> LineError {
    LineError::Step(StreamOpError::BadValue { field, why: why.to_owned() })
}
