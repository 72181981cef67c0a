//! `tract repos`

use clap::Args;
use serde_json::json;
use tract::RepoName;

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::style::{REF, Styled};

/// List the repositories of the store.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract repos
  tract --store postgres://ada@db.example.com/agents repos")]
pub(crate) struct Repos {}

pub(crate) async fn run(context: &mut Context<'_>, _args: Repos) -> Outcome<()> {
    let store = context.open_named_store().await?;
    let current = RepoName::new(&context.global.repo).map_err(tract::Error::from)?;
    for repo in store.repos().await? {
        let (name, is_current) = (repo.as_str(), repo == current);
        let json = json!({ "repo": name, "current": is_current });
        let mark = if is_current { '*' } else { ' ' };
        let name = Styled(REF, escape::line(name));
        context.out.item(&json, format_args!("{mark} {name}"))?;
    }
    Ok(())
}
