//! `tract checkout`

use clap::Args;
use serde_json::json;
use tract::Tract;

use super::branch;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::style::{ID, REF, Styled};

/// Switch to another branch.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract checkout terse
  tract checkout -                           the previous branch
  tract checkout -b again 'main~3'           a new branch, three commits back")]
pub(crate) struct Checkout {
    /// The branch; `-` is the previous one.
    #[arg(value_name = "BRANCH")]
    name: String,
    /// Create the branch first.
    #[arg(short = 'b', long = "create")]
    create: bool,
    /// Start the new branch here [default: HEAD]
    #[arg(value_name = "REV", requires = "create")]
    from: Option<String>,
}

pub(crate) async fn run(context: &mut Context<'_>, checkout: Checkout) -> Outcome<()> {
    let tract = context.open().await?;
    if checkout.create {
        let from = checkout.from.as_deref().unwrap_or("HEAD");
        return branch::make(context.out, &tract, &checkout.name, from, true).await;
    }
    let name = match checkout.name.as_str() {
        "-" => tract.repo().previous_branch().await?.ok_or_else(|| {
            Failure::no("no_previous_branch", "no other branch was checked out before")
                .note("`tract branch` lists the branches")
        })?,
        name => name.to_owned(),
    };
    let tract = match tract.checkout(&name).await {
        Ok(tract) => tract,
        Err(error) => return Err(hint(&tract, &name, error).await),
    };
    let commit = tract.head().await?;
    let json = json!({ "branch": name, "head": commit });
    let at = commit.map_or_else(|| "its beginning".to_owned(), |id| id.short());
    let shown = Styled(REF, escape::line(&name));
    context.out.item(&json, format_args!("on {shown} at {}", Styled(ID, at)))
}

/// Adds advice if a tag or an id was given, which cannot be checked out.
async fn hint(tract: &Tract, name: &str, error: tract::Error) -> Failure {
    let is_unknown = error.code() == "unknown_branch";
    let failure = Failure::from(error);
    if !is_unknown {
        return failure;
    }
    let found = tract.resolve_position(name).await;
    match found {
        Ok(id) => failure.note(format!(
            "{name:?} is commit {}, not a branch; start one there: tract checkout -b NAME {name}",
            id.short()
        )),
        Err(_) => failure,
    }
}
