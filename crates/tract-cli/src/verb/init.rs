//! `tract init`

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::Outcome;
use crate::style::{DIM, REF, Styled};

/// Create a store, or a repository in one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract init                                 .tract/tract.db in this folder
  tract --store sqlite:agent.db init         one file, in any place
  tract --repo customer-42 init              a second repository in the same store")]
pub(crate) struct Init {}

pub(crate) async fn run(context: &mut Context<'_>, _init: Init) -> Outcome<()> {
    let url = context.url_to_make();
    let repo = tract::RepoName::new(context.global.repo.clone())?;
    let opened = context.open_store(&url, true).await;
    let elsewhere = "choose another place: tract --store sqlite:PATH init";
    let store = opened.map_err(|failure| failure.advise_other_than("tract init", elsewhere))?;
    let created = !store.repos().await?.contains(&repo);
    let tract = context.open_repo(store, true).await?;
    let branch = tract.branch_name().to_owned();
    let shown = tract::store::hide_passwords(&url);
    let repo = context.global.repo.as_str();
    let json = json!({ "store": shown, "repo": repo, "branch": branch, "created": created });
    let what = if created { "created" } else { "already exists:" };
    let line = format_args!("{what} {shown}, on branch {}", Styled(REF, &branch));
    context.out.item(&json, line)?;
    context.out.done(Styled(DIM, "next: tract import FILE, or tract commit user \"Hello\""))
}
