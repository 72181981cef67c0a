//! `tract tag`

use clap::Args;
use serde::Serialize;
use tract::CommitId;

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::style::{ID, REF, Styled};

/// List or make tags; a tag never moves.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract tag                                  all tags
  tract tag before-summary                   names the commit you stand on
  tract tag first-answer 'main#3'            names the commit of the third message")]
pub(crate) struct Tag {
    /// The new tag.
    name: Option<String>,
    /// What it names.
    #[arg(default_value = "HEAD", value_name = "REV")]
    revision: String,
}

#[derive(Serialize)]
struct Tagged<'a> {
    tag: &'a str,
    commit: CommitId,
}

pub(crate) async fn run(context: &mut Context<'_>, tag: Tag) -> Outcome<()> {
    let tract = context.open().await?;
    let tags = match tag.name {
        Some(name) => {
            let commit = tract.tag(&name, tag.revision.as_str()).await?;
            vec![(name, commit)]
        }
        None => tract.tags().await?,
    };
    for (name, commit) in &tags {
        match context.out.is_json() {
            true => context.out.json(&Tagged { tag: name, commit: *commit })?,
            false => context.out.line(format_args!(
                "{}  {}",
                Styled(ID, commit.short()),
                Styled(REF, escape::line(name))
            ))?,
        }
    }
    Ok(())
}
