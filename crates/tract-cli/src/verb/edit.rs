//! `tract edit`

use std::io::{self, IsTerminal as _};

use clap::Args;
use tract::engine::{NewContent, Request};
use tract::{CommitId, Tract};

use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::editor;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::out::Output;
use crate::render;

/// Replace the text of a message; the original is kept.
///
/// Role, tool calls and call ids do not change. The original stays readable by its id.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract edit 'HEAD#20'                       in your editor: $VISUAL, $EDITOR, else vi
  tract edit 'HEAD#20' \"How much did I save? One sentence.\"
  tract edit 0a4f7712 - < better.txt")]
pub(crate) struct Edit {
    /// The message, by any of its versions.
    #[arg(value_name = "REV")]
    target: String,
    /// The new text; `-` reads standard input. Without it, an editor opens on a terminal, and
    /// standard input is read elsewhere. Empty input changes nothing.
    text: Option<String>,
    #[command(flatten)]
    commit_args: CommitArgs,
}

pub(crate) async fn run(context: &mut Context<'_>, edit: Edit) -> Outcome<()> {
    let tract = context.open().await?;
    let target = tract.resolve(edit.target.as_str()).await?;
    let text = match edit.text {
        None if io::stdin().is_terminal() => match in_editor(context.out, &tract, target).await? {
            Some(text) => text,
            None => return Ok(()),
        },
        text => input::message_text(text)?,
    };
    let content = NewContent::Text(text);
    let details = edit.commit_args.details()?;
    let made = tract.record(Request::Edit { target, content, details }).await?;
    render::committed(context.out, &tract, &made).await
}

/// Opens the text of a message in an editor; `None` if it was not changed.
async fn in_editor(out: &mut Output, tract: &Tract, target: CommitId) -> Outcome<Option<String>> {
    let commit = tract.repo().require_commit(target).await?;
    let before =
        tract.repo().content(&commit).await?.map(|content| content.text()).unwrap_or_default();
    let text = changed(&before)?;
    if text.is_none() {
        out.say("the text is as it was; nothing was changed");
    }
    Ok(text)
}

/// Opens a text in an editor; `None` if it was not changed.
///
/// # Errors
/// `editor` if the editor fails; `empty_input` if the text is empty afterwards.
pub(super) fn changed(before: &str) -> Outcome<Option<String>> {
    let after = editor::edit(before)?;
    if after == before {
        return Ok(None);
    }
    if after.is_empty() {
        return Err(Failure::no("empty_input", "the text is empty; nothing was changed")
            .note("`tract edit REV \"\"` makes a message empty, `tract annotate REV --priority skip` leaves it out"));
    }
    Ok(Some(after))
}
