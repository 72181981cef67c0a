//! `tract compress`

use clap::Args;
use tract::engine::{Request, Selection};
use tract::{Body, Content};

use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::failure::Outcome;
use crate::input;
use crate::render;
use crate::revisions::{resolve_all, resolve_optional};

/// Replace messages with one summary.
///
/// Calls are summarized with their results; pinned messages and open calls stay. `tract revert`
/// restores the messages.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract compress --from 'HEAD#4' --to 'HEAD#12' --content \"Three reservations were looked up.\"
  tract compress 'HEAD#2' 'HEAD#3' --content - < summary.txt")]
pub(crate) struct Compress {
    /// The messages to replace; omit them to give a range.
    #[arg(value_name = "REV", conflicts_with_all = ["from", "to"])]
    targets: Vec<String>,
    /// The first message of a range [default: the first one]
    #[arg(long, value_name = "REV", required_unless_present_any = ["targets", "to"])]
    from: Option<String>,
    /// The last message of a range [default: the last one]
    #[arg(long, value_name = "REV")]
    to: Option<String>,
    /// The summary; standard input when absent or `-`
    #[arg(long, short, value_name = "TEXT")]
    content: Option<String>,
    /// The role of the summary.
    #[arg(long = "as", value_name = "KIND", value_enum, default_value = "assistant")]
    voice: SummaryRole,
    #[command(flatten)]
    commit_args: CommitArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SummaryRole {
    Assistant,
    User,
    System,
}

pub(crate) async fn run(context: &mut Context<'_>, compress: Compress) -> Outcome<()> {
    let tract = context.open().await?;
    let select = if compress.targets.is_empty() {
        Selection::Range {
            from: resolve_optional(&tract, compress.from.as_deref()).await?,
            to: resolve_optional(&tract, compress.to.as_deref()).await?,
        }
    } else {
        Selection::Targets(resolve_all(&tract, &compress.targets).await?)
    };
    let body = Body::text(input::text_or_stdin(compress.content)?);
    let content = match compress.voice {
        SummaryRole::Assistant => Content::Assistant(body),
        SummaryRole::User => Content::User(body),
        SummaryRole::System => Content::System(body),
    };
    let details = compress.commit_args.details()?;
    let made = tract.record(Request::Compress { select, content, role: None, details }).await?;
    render::committed(context.out, &tract, &made).await
}
