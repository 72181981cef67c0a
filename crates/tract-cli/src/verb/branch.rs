//! `tract branch`

use clap::Args;
use serde::Serialize;
use tract::{CommitId, Tract};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::render;
use crate::style::{ID, REF, Styled};

/// List, make or delete branches.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract branch                               all branches, with their heads
  tract branch terse                         made where you stand, and you stay there
  tract branch terse --from 'main#20'        made at the 20th message of main
  tract branch --delete terse                the commits stay")]
pub(crate) struct Branch {
    /// The new branch.
    name: Option<String>,
    /// Where it begins [default: where you stand]
    #[arg(long, value_name = "REV", requires = "name")]
    from: Option<String>,
    /// Stand on it at once.
    #[arg(long, short, requires = "name")]
    checkout: bool,
    /// Delete a branch.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "from", "checkout"])]
    delete: Option<String>,
}

#[derive(Serialize)]
struct Listed {
    branch: String,
    commit: CommitId,
    head: bool,
}

#[derive(Serialize)]
struct Deleted<'a> {
    deleted: &'a str,
    commit: CommitId,
}

pub(crate) async fn run(context: &mut Context<'_>, branch: Branch) -> Outcome<()> {
    let tract = context.open().await?;
    match (branch.name, branch.delete) {
        (Some(name), _) => {
            let from = branch.from.as_deref().unwrap_or("HEAD");
            make(context, &tract, &name, from, branch.checkout).await
        }
        (None, Some(name)) => delete(context, &tract, &name).await,
        (None, None) => list(context, &tract).await,
    }
}

async fn make(
    context: &mut Context<'_>,
    tract: &Tract,
    name: &str,
    from: &str,
    checkout: bool,
) -> Outcome<()> {
    let commit = tract.branch(name, from).await?;
    if checkout {
        tract.checkout(name).await?;
    }
    if context.out.is_json() {
        return context.out.json(&Listed { branch: name.to_owned(), commit, head: checkout });
    }
    let at = render::short(commit);
    let stand = match checkout {
        true => ", and you stand on it",
        false => "",
    };
    context.out.line(format_args!("{} at {at}{stand}", Styled(REF, escape::line(name))))
}

async fn delete(context: &mut Context<'_>, tract: &Tract, name: &str) -> Outcome<()> {
    let commit = tract.delete_branch(name).await?;
    if context.out.is_json() {
        return context.out.json(&Deleted { deleted: name, commit });
    }
    let name = escape::line(name);
    context.out.line(format_args!(
        "deleted {}, which was at {}   bring it back: tract branch {name} --from {}",
        Styled(REF, &name),
        render::short(commit),
        commit.short()
    ))
}

async fn list(context: &mut Context<'_>, tract: &Tract) -> Outcome<()> {
    let branches = tract.branches().await?;
    if context.out.is_json() {
        for found in branches {
            let (branch, commit, head) = (found.name, found.head, found.checked_out);
            context.out.json(&Listed { branch, commit, head })?;
        }
        return Ok(());
    }
    if branches.is_empty() {
        let branch = escape::line(tract.branch_name()).into_owned();
        context.out.say(format_args!("no commits yet; the first one makes branch {branch}"));
    }
    let width = branches.iter().map(|b| escape::width(&escape::line(&b.name))).max().unwrap_or(0);
    for branch in branches {
        let name = escape::line(&branch.name);
        let mark = if branch.checked_out { '*' } else { ' ' };
        let pad = " ".repeat(width - escape::width(&name));
        let commit = tract.repo().require_commit(branch.head).await?;
        let line = render::described(tract, &commit).await?;
        let room = context.out.columns().saturating_sub(width + 14);
        context.out.line(format_args!(
            "{mark} {}{pad}  {}  {}",
            Styled(REF, &name),
            Styled(ID, branch.head.short()),
            escape::cut(&format!("{} {}", line.label, line.text), room)
        ))?;
    }
    Ok(())
}
