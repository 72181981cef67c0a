//! `branch`, `note` and `commit`: what a client may write when the server allows it.

use schemars::JsonSchema;
use serde::Serialize;
use tract_core::{AuthorKind, Draft, RefName, ToolContext, ToolError, ToolResult};
use tract_engine::Repo;
use tract_engine::plan::Request;
use tract_tools::{tool, tool_type};

use crate::shared::{Shared, failed, resolve_position};

/// The written commit.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WrittenCommit {
    /// The branch.
    branch: String,
    /// Its newest commit now.
    commit: String,
}

/// Makes a branch that begins at a revision. Nothing is copied, and no other branch changes.
#[tool]
pub(crate) async fn branch(
    /// The name of the new branch.
    name: String,
    /// The revision to begin at: a branch, a tag, a commit id, or BRANCH#N.
    from: String,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<WrittenCommit>, ToolError> {
    let shared = Shared::of(context)?;
    let repo = shared.repo(repo.as_deref()).await?;
    let at = resolve_position(&repo, &from).await?;
    repo.create_branch(&name, at).await.map_err(failed)?;
    shared.made_branch(&repo, &name);
    let message = format!("made branch {name} at {}", at.short());
    let written = WrittenCommit { branch: name, commit: at.to_string() };
    Ok(ToolResult { message, exclude_value_from_context: true, ..ToolResult::ok(written) })
}

/// Leaves a line in the log of a branch. No model reads it.
#[tool]
pub(crate) async fn note(
    /// The branch: one that `branch` made.
    branch: String,
    /// The line.
    text: String,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<WrittenCommit>, ToolError> {
    let shared = Shared::of(context)?;
    let repo = shared.repo(repo.as_deref()).await?;
    let mut request = Request::note(text);
    if let Request::Note { details, .. } = &mut request {
        details.origin = AuthorKind::Model.into();
    }
    write(&shared, &repo, branch, request).await
}

/// The role of a message.
#[tool_type]
#[derive(Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    User,
    Assistant,
}

/// Adds a message to the end of a branch.
#[tool]
pub(crate) async fn commit(
    /// The branch: one that `branch` made.
    branch: String,
    /// The role of the message.
    role: Role,
    /// The text of the message.
    text: String,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<WrittenCommit>, ToolError> {
    let shared = Shared::of(context)?;
    let repo = shared.repo(repo.as_deref()).await?;
    let mut draft = match role {
        Role::User => Draft::user(text),
        Role::Assistant => Draft::assistant(text),
    };
    draft.origin = AuthorKind::Model.into();
    write(&shared, &repo, branch, Request::Append(draft)).await
}

/// Writes to an existing branch, so that a misspelled name does not create one.
async fn write(
    shared: &Shared,
    repo: &Repo,
    branch: String,
    request: Request,
) -> Result<ToolResult<WrittenCommit>, ToolError> {
    let unknown = || {
        ToolError::validation(format!("there is no branch {branch:?}"))
            .at("branch")
            .note("`list` names the branches, and `branch` makes one")
    };
    let name = RefName::branch(&branch).map_err(|_| unknown())?;
    if repo.head_of(&name).await.map_err(failed)?.is_none() {
        return Err(unknown());
    }
    if !shared.may_write_to(repo, &branch) {
        return Err(ToolError::validation(format!("branch {branch:?} is not open to writing"))
            .at("branch")
            .note("make one with `branch` and write there")
            .operator("tract mcp serve --write --write-to BRANCH opens a branch"));
    }
    let made = repo.write_one(&name, request).await.map_err(failed)?;
    let message = format!("{} on {branch}", made.id().short());
    let written = WrittenCommit { branch, commit: made.id().to_string() };
    Ok(ToolResult { message, exclude_value_from_context: true, ..ToolResult::ok(written) })
}
