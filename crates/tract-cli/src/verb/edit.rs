//! `tract edit`

use clap::Args;
use tract::engine::{NewContent, Request};

use super::Said;
use crate::context::Context;
use crate::failure::Outcome;
use crate::input;
use crate::render;

/// Replace what a message says; the original stays.
///
/// Role, tool calls and call ids stay as they are. The original can be read by its id for ever.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract edit 'HEAD#20' \"How much did I save? One sentence.\"
  tract edit 0a4f7712 - < better.txt")]
pub(crate) struct Edit {
    /// The message: any version of it.
    #[arg(value_name = "REV")]
    target: String,
    /// What it says from now on; standard input when absent or `-`
    text: Option<String>,
    #[command(flatten)]
    said: Said,
}

pub(crate) async fn run(context: &mut Context<'_>, edit: Edit) -> Outcome<()> {
    let tract = context.open().await?;
    let text = input::text_or_stdin(edit.text)?;
    let target = tract.resolve(edit.target.as_str()).await?;
    let content = NewContent::Text(text);
    let details = edit.said.details()?;
    let made = tract.record(Request::Edit { target, content, details }).await?;
    render::committed(context.out, &tract, &made).await
}
