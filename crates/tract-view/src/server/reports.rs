//! Pages about a whole repository or branch.

use axum::extract::{Form, Query, State};
use axum::response::Redirect;
use serde::Deserialize;

use super::{Page, RevisionQuery, Served};
use crate::error::{Error, Result};
use crate::pages::RequestForm;
use crate::{load, pages};

/// Shows the tokens and the cost of all answers.
pub(super) async fn usage(State(shared): Served) -> Page {
    let report = load::usage(&shared.repo).await?;
    Ok(shared.page("Cost", None, &pages::usage(&report)))
}

/// Shows the tokens and the cost of a session.
pub(super) async fn cost(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let report = load::session_usage(&shared.repo, &params.rev, context.head).await?;
    let title = format!("Cost of {}", context.name());
    Ok(shared.page(&title, None, &pages::session_cost(&context, &report)))
}

#[derive(Deserialize)]
pub(super) struct CacheQuery {
    rev: Option<String>,
}

/// Shows the cache misses of a session, or of all of them.
pub(super) async fn cache(State(shared): Served, Query(params): Query<CacheQuery>) -> Page {
    let repo = &shared.repo;
    let Some(revision) = params.rev else {
        return Ok(shared.page("Prompt cache", None, &pages::cache(&load::cache(repo).await?)));
    };
    let context = load::readable_context(repo, &revision).await?;
    let title = format!("Prompt cache of {}", context.name());
    let main = match load::session_cache(repo, &revision, context.head).await {
        Ok(report) => pages::session_cache(&context, Ok(&report)),
        // The header and the other tabs show everything that can be read.
        Err(Error::Engine(error)) => pages::session_cache(&context, Err(&error.to_string())),
        Err(error) => return Err(error),
    };
    Ok(shared.page(&title, None, &main))
}

/// Shows the pending approvals.
pub(super) async fn pending(State(shared): Served) -> Page {
    let pending = shared.repo.pending().await?;
    Ok(shared.page("Pending", None, &pages::pending(&pending, shared.decides)))
}

#[derive(Deserialize)]
pub(super) struct DecisionForm {
    id: String,
    decision: String,
    #[serde(default)]
    reason: String,
}

/// Decides a pending approval, as `tract pending approve` and `tract pending reject` do.
pub(super) async fn decide(
    State(shared): Served,
    Form(form): Form<DecisionForm>,
) -> Result<Redirect> {
    let DecisionForm { id, decision, reason } = form;
    match decision.as_str() {
        "approve" => drop(shared.repo.approve(&id).await?),
        "reject" => {
            let reason =
                if reason.trim().is_empty() { "rejected in the viewer".into() } else { reason };
            drop(shared.repo.reject(&id, reason).await?)
        }
        _ => {
            return Err(Error::NotFound(format!("expected approve or reject, found {decision:?}")));
        }
    }
    Ok(Redirect::to("/pending"))
}

#[derive(Deserialize)]
pub(super) struct SearchQuery {
    #[serde(default)]
    words: String,
}

/// Shows the messages that match some words.
pub(super) async fn search(State(shared): Served, Query(params): Query<SearchQuery>) -> Page {
    let found = load::search(&shared.repo, &params.words, pages::HITS).await?;
    Ok(shared.page("Search", None, &pages::search(&params.words, &found)))
}

/// Shows the tokens of a context over time.
pub(super) async fn window(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let window = load::window(&shared.repo, context.head).await?;
    Ok(shared.page(
        &format!("Window of {}", context.name()),
        None,
        &pages::window(&context, &window),
    ))
}

/// Shows the graph of the commits behind a revision.
pub(super) async fn history(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let all = params.all == 1;
    let history =
        load::history(&shared.repo, context.head, all, params.from, pages::HISTORY).await?;
    let main = pages::history(&context, all, params.from, &history);
    Ok(shared.page(&format!("Changes of {}", context.name()), None, &main))
}

/// Lists the request of a context for each provider.
pub(super) async fn requests(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let forms = RequestForm::all(&context);
    Ok(shared.page(
        &format!("Requests of {}", context.name()),
        None,
        &pages::requests(&context, &forms),
    ))
}
