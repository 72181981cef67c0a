//! `tract replay`

use clap::Args;

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::{count, short};
use crate::style::{BAD, Styled};

/// Run a recorded conversation again and compare.
///
/// Model replies and tool results come from the recording. Everything else runs again: calls are
/// parsed, validated against the tools in force, dispatched and answered. Prints the first
/// difference and exits with 1 if there is one. Writes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract replay                  the branch as it is
  tract replay main~20 --json")]
pub(crate) struct Replay {
    /// The last commit of the conversation.
    #[arg(value_name = "REV", default_value = "HEAD")]
    revision: String,
}

pub(crate) async fn run(context: &mut Context<'_>, replay: Replay) -> Outcome<()> {
    let tract = context.open().await?;
    let replayed = tract.replay(replay.revision.as_str()).await?;
    if context.out.is_json() {
        context.out.json(&replayed)?;
    } else {
        context.out.line(format_args!(
            "{}, {}, {} again",
            count(replayed.messages, "message"),
            count(replayed.replies, "reply"),
            count(replayed.calls, "call"),
        ))?;
        match &replayed.difference {
            None => context.out.line("no difference")?,
            Some(difference) => {
                let at = difference.commit.map(|id| format!(" ({})", short(id)));
                context.out.line(format_args!(
                    "{} at message {}{}",
                    Styled(BAD, format!("{} differs", difference.what)),
                    difference.message,
                    at.unwrap_or_default()
                ))?;
                context
                    .out
                    .line(format_args!("  expected {}", escape::line(&difference.expected)))?;
                context.out.line(format_args!("  found    {}", escape::line(&difference.found)))?;
            }
        }
    }
    Failure::unless(replayed.difference.is_none())
}
