//! `tract checkout`

use clap::Args;
use serde::Serialize;
use tract::CommitId;

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::style::{ID, REF, Styled};

/// Stand on another branch.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract checkout terse
  tract branch again --from 'main~3' --checkout    a branch is made first, where it does not exist")]
pub(crate) struct Checkout {
    /// The branch.
    name: String,
}

#[derive(Serialize)]
struct Standing<'a> {
    branch: &'a str,
    commit: Option<CommitId>,
}

pub(crate) async fn run(context: &mut Context<'_>, checkout: Checkout) -> Outcome<()> {
    let tract = context.open().await?.checkout(&checkout.name).await?;
    let commit = tract.head().await?;
    if context.out.is_json() {
        return context.out.json(&Standing { branch: &checkout.name, commit });
    }
    let at = commit.map_or_else(|| "its beginning".to_owned(), |id| id.short());
    let name = Styled(REF, escape::line(&checkout.name));
    context.out.line(format_args!("on {name} at {}", Styled(ID, at)))
}
