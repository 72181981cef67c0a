//! Pages about a whole repository or branch.

use axum::extract::{Form, Query, State};
use axum::response::Redirect;
use serde::Deserialize;

use super::{Page, RevisionQuery, Served};
use crate::error::{Error, Result};
use crate::pages::RequestForm;
use crate::{load, pages};

/// Shows tokens and cost, by model and day.
pub(super) async fn usage(State(shared): Served) -> Page {
    let report = load::usage(&shared.repo).await?;
    Ok(shared.page("usage", None, &pages::usage(&report)))
}

/// Shows the pending approvals.
pub(super) async fn pending(State(shared): Served) -> Page {
    let pending = shared.repo.pending().await?;
    Ok(shared.page("pending", None, &pages::pending(&pending, shared.decides)))
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
    Ok(shared.page("search", None, &pages::search(&params.words, &found)))
}

/// Shows the tokens of a context over time.
pub(super) async fn window(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let window = load::window(&shared.repo, context.head).await?;
    Ok(shared.page("window", None, &pages::window(&context, &window)))
}

/// Shows the graph of the commits behind a revision.
pub(super) async fn history(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let all = params.all == 1;
    let history =
        load::history(&shared.repo, context.head, all, params.from, pages::HISTORY).await?;
    let main = pages::history(&context, all, params.from, &history);
    Ok(shared.page("history", None, &main))
}

/// Lists the request of a context for each provider.
pub(super) async fn requests(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let forms = RequestForm::all(&context);
    Ok(shared.page("requests", None, &pages::requests(&context, &forms)))
}
