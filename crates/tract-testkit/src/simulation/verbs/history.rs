//! Verbs that change one history.

use std::sync::PoisonError;

use tract_core::{Draft, Priority, ToolSchema};
use tract_engine::plan::{Resolution, Selection};
use tract_engine::{
    Error, MergeOptions, MergeProgress, Merged, PendingRequest, Rebase, RebaseStep, log,
};

use super::super::session::{Acknowledged, Outcome, Session};
use super::super::world::{BRANCHES, StoredWord};

pub(super) async fn commit(session: &mut Session<'_>) -> Outcome {
    let (branch, (text, secret)) = (session.branch(), session.text_with_secret());
    let commit = session.repo.append(&branch, Draft::user(text)).await?;
    if let Some(word) = secret {
        let mut secrets = session.world.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.push(StoredWord { store: session.store, word });
    }
    Ok(Acknowledged::commits([commit.id()]))
}

pub(super) async fn repeat(session: &mut Session<'_>) -> Outcome {
    let (branch, from) = (session.branch(), session.branch());
    let source = session.message_of(&from).await?;
    // It may have been erased, or be a commit without a message.
    let text = match session.repo.content_of(source).await {
        Ok(content) => content.text(),
        Err(_) => session.text(),
    };
    let commit = session.repo.append(&branch, Draft::user(text)).await?;
    Ok(Acknowledged::commits([commit.id()]))
}

pub(super) async fn turn(session: &mut Session<'_>) -> Outcome {
    let (branch, text, result) = (session.branch(), session.text(), session.text());
    let id = format!("call-{}", session.random.below(1000));
    let call = Draft::assistant(text).call(id.clone(), "read", "{}");
    let drafts = [call, Draft::tool_result(id, result)];
    let commits = session.repo.append_all(&branch, drafts).await?;
    Ok(Acknowledged::commits(commits.iter().map(tract_core::Commit::id)))
}

pub(super) async fn edit(session: &mut Session<'_>) -> Outcome {
    let (branch, text) = (session.branch(), session.text());
    let target = session.message_of(&branch).await?;
    let commit = session.repo.edit(&branch, target, text).await?;
    Ok(Acknowledged::commits([commit.id()]))
}

pub(super) async fn annotate(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    let target = session.message_of(&branch).await?;
    let priority = if session.random.chance(50) { Priority::Skip } else { Priority::Pinned };
    let commit = session.repo.annotate(&branch, &[target], priority).await?;
    Ok(Acknowledged::commits([commit.id()]))
}

pub(super) async fn compress(session: &mut Session<'_>) -> Outcome {
    let (branch, text) = (session.branch(), session.text());
    let target = session.message_of(&branch).await?;
    let select = Selection::Range { from: None, to: Some(target) };
    let commit = session.repo.compress(&branch, select, text).await?;
    Ok(Acknowledged::commits([commit.id()]))
}

pub(super) async fn revert(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    let target = session.commit_of(&branch).await?;
    let commit = session.repo.revert(&branch, &[target]).await?;
    Ok(Acknowledged::commits([commit.id()]))
}

fn resolved() -> MergeOptions {
    MergeOptions { allow_unrelated: true, ..MergeOptions::default() }
        .resolve(|_| Some(Resolution::Ours))
}

pub(super) async fn merge(session: &mut Session<'_>) -> Outcome {
    let (into, from) = (session.branch(), session.branch());
    let source = session.head(&from).await?;
    let merged = session.repo.merge(&into, source, &resolved()).await?;
    Ok(of_merge(&merged))
}

fn of_merge(merged: &Merged) -> Acknowledged {
    match merged {
        Merged::FastForward { head } => Acknowledged::commits([*head]),
        Merged::Commit(commit) => Acknowledged::commits([commit.id()]),
        _ => Acknowledged::default(),
    }
}

pub(super) async fn keep_merge(session: &mut Session<'_>) -> Outcome {
    let (into, from) = (session.branch(), session.branch());
    let source = session.head(&from).await?;
    let options = MergeOptions { allow_unrelated: true, ..MergeOptions::default() };
    Ok(match session.repo.merge_or_keep(&into, source, &options).await? {
        MergeProgress::Merged(merged) => of_merge(&merged),
        _ => Acknowledged::default(),
    })
}

pub(super) async fn cherry_pick(session: &mut Session<'_>) -> Outcome {
    let (into, from) = (session.branch(), session.branch());
    let commit = session.commit_of(&from).await?;
    rebased(session, &into, Rebase::Pick { targets: vec![commit.into()], from: None }).await
}

pub(super) async fn rebase(session: &mut Session<'_>) -> Outcome {
    let (branch, onto) = (session.branch(), session.branch());
    let onto = session.head(&onto).await?;
    rebased(session, &branch, Rebase::Onto { onto, plan: None }).await
}

pub(super) async fn drop_commit(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    let commit = session.commit_of(&branch).await?;
    rebased(session, &branch, Rebase::Drop { commits: vec![commit] }).await
}

pub(super) async fn insert(session: &mut Session<'_>) -> Outcome {
    let (branch, text) = (session.branch(), session.text());
    let head = session.head(&branch).await?;
    let page = log(&session.repo, head, 8).await?;
    let mut plan: Vec<RebaseStep> =
        page.commits.iter().rev().map(|commit| RebaseStep::Pick(commit.id())).collect();
    let Some(RebaseStep::Pick(onto)) = plan.first().cloned() else {
        return Ok(Acknowledged::default());
    };
    plan.remove(0);
    plan.insert(
        session.random.below(plan.len() + 1),
        RebaseStep::Insert(Box::new(Draft::user(text))),
    );
    rebased(session, &branch, Rebase::Onto { onto, plan: Some(plan) }).await
}

async fn rebased(
    session: &mut Session<'_>,
    branch: &tract_core::RefName,
    rebase: Rebase,
) -> Outcome {
    let rebased = session.repo.rebase(branch, &rebase).await?;
    Ok(Acknowledged::commits([rebased.head]))
}

pub(super) async fn reset(session: &mut Session<'_>) -> Outcome {
    let (branch, from) = (session.branch(), session.branch());
    let to = any_commit(session, &from).await?;
    session.repo.reset(&branch, to).await?;
    Ok(Acknowledged::commits([to]))
}

/// Selects a commit of a branch, or one that was reported to the client and may have been deleted.
async fn any_commit(
    session: &mut Session<'_>,
    from: &tract_core::RefName,
) -> Result<tract_core::CommitId, Error> {
    let remembered = session.random.choose(&session.commits).copied();
    match remembered.filter(|_| session.random.chance(60)) {
        Some(commit) => session.repo.resolve(&commit.to_hex()).await,
        None => session.commit_of(from).await,
    }
}

pub(super) async fn create_branch(session: &mut Session<'_>) -> Outcome {
    let (name, from) = (session.branch(), session.branch());
    let at = any_commit(session, &from).await?;
    session.repo.create_branch(name.branch_name().unwrap_or_default(), at).await?;
    Ok(Acknowledged::commits([at]))
}

pub(super) async fn delete_branch(session: &mut Session<'_>) -> Outcome {
    let name = session.branch();
    session.repo.delete_branch(name.branch_name().unwrap_or_default()).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn rename_branch(session: &mut Session<'_>) -> Outcome {
    let (name, to) = (session.branch(), session.branch());
    let names = (name.branch_name().unwrap_or_default(), to.branch_name().unwrap_or_default());
    session.repo.rename_branch(names.0, names.1).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn tag(session: &mut Session<'_>) -> Outcome {
    if session.random.chance(40) {
        session.repo.delete_tags(&["v1"]).await?;
        return Ok(Acknowledged::default());
    }
    let from = session.branch();
    let at = any_commit(session, &from).await?;
    session.repo.create_tag("v1", at).await?;
    Ok(Acknowledged::commits([at]))
}

pub(super) async fn checkout(session: &mut Session<'_>) -> Outcome {
    let name = *session.random.choose(&BRANCHES).unwrap_or(&"main");
    session.repo.checkout(name).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn undo(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    session.repo.undo(&branch).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn redo(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    session.repo.redo(&branch).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn set_tools(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    let name = format!("tool{}", session.random.below(3));
    let schema = format!(r#"{{"name":"{name}","parameters":{{"type":"object"}}}}"#);
    let tools = ToolSchema::parse(&schema).map_err(Error::Json)?;
    let commit = session.repo.set_tools(&branch, vec![tools]).await?;
    Ok(Acknowledged::commits([commit.id()]))
}

pub(super) async fn defer(session: &mut Session<'_>) -> Outcome {
    let (branch, text) = (session.branch(), session.text());
    let request = PendingRequest::Append(Box::new(Draft::user(text)));
    session.repo.defer(&branch, request, "simulation", "to be decided").await?;
    Ok(Acknowledged::default())
}

pub(super) async fn decide(session: &mut Session<'_>) -> Outcome {
    let pending = session.repo.pending().await?;
    let Some(pending) = session.random.choose(&pending).cloned() else {
        return Ok(Acknowledged::default());
    };
    let id = pending.id.as_str();
    if pending.request.conflicts().is_some() {
        if session.random.chance(30) {
            session.repo.abort_merge(id, "not needed").await?;
        } else {
            session.repo.resolve_merge(id, |_| Some(Resolution::Ours)).await?;
        }
    } else if session.random.chance(60) {
        session.repo.approve(id).await?;
    } else if session.random.chance(50) {
        session.repo.reject(id, "not needed").await?;
    } else {
        let text = session.text();
        session.repo.edit_pending(id, text).await?;
    }
    Ok(Acknowledged::default())
}
