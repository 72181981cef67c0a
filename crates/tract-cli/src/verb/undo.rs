//! `tract undo`

use clap::Args;
use serde_json::json;
use tract::{RefName, RefTarget};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::render;
use crate::style::{DIM, ID, REF, Styled};

/// Undo the last command on this branch; --redo reverts the undo.
///
/// Moves every branch that the command moved back, or none: if another command has moved one of
/// them since, the undo is refused and names it. Commits stay in the store, and `--redo` returns to
/// them. Effects of tools and decisions about pending approvals are not undone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract undo                                 as if the last command had not run
  tract undo && tract undo                   the last two commands
  tract undo --redo                          forward again
  tract undo --branch old                    the last command that moved or deleted that branch")]
pub(crate) struct Undo {
    /// Revert the last undo.
    #[arg(long)]
    redo: bool,
    /// Undo the last command that moved, made or deleted this branch, instead of the current one.
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
}

/// Maximum number of refs listed for people; `--json` lists all.
const SHOWN: usize = 10;

pub(crate) async fn run(context: &mut Context<'_>, undo: Undo) -> Outcome<()> {
    let tract = context.open().await?;
    let branch = match undo.branch {
        // Branches of older stores may have names that are invalid now.
        Some(name) => RefName::new(format!("heads/{name}")).map_err(tract::Error::from)?,
        None => tract.branch().clone(),
    };
    let repo = tract.repo();
    let done = if undo.redo { repo.redo(&branch).await } else { repo.undo(&branch).await };
    let done = done.map_err(tract::Error::from)?;
    if context.out.is_json() {
        let moves = done.moves.iter().map(|step| {
            let [before, after] = [&step.before, &step.after];
            let [before, after] = [before, after].map(|to| to.as_ref().map(render::target));
            json!({ "name": step.name.as_str(), "before": before, "after": after })
        });
        let moves: Vec<_> = moves.collect();
        let json = json!({ "what": done.what, "redone": undo.redo, "moves": moves });
        return context.out.json(&json);
    }
    let (way, what, again) = if undo.redo {
        ("forward", "redone", "back: tract undo")
    } else {
        ("back", "reverted", "again: tract undo --redo")
    };
    // A kept merge is reported by its pending decision; the other ref only orders decisions.
    let moves: Vec<_> =
        done.moves.iter().filter(|step| !step.name.as_str().starts_with("merge/")).collect();
    for step in moves.iter().take(SHOWN) {
        context.out.line(format_args!(
            "{}: {way} from {} to {} ({what}: {})",
            Styled(REF, plain(&step.name)),
            Styled(ID, short(step.before.as_ref())),
            Styled(ID, short(step.after.as_ref())),
            escape::line(&done.what)
        ))?;
    }
    if let Some(more) = moves.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        context.out.line(format_args!("and {}", render::count(more, "other ref")))?;
    }
    context.out.say(Styled(DIM, again));
    Ok(())
}

fn plain(name: &RefName) -> String {
    let plain = name.branch_name().map_or_else(|| name.describe(), str::to_owned);
    escape::line(&plain).into_owned()
}

fn short(target: Option<&RefTarget>) -> String {
    match target {
        Some(RefTarget::Commit(id)) => id.short(),
        Some(RefTarget::Blob(id)) => id.short(),
        Some(RefTarget::Ref(name)) => plain(name),
        None => "nothing".to_owned(),
    }
}
