//! `tract tag`

use clap::Args;
use serde::Serialize;
use tract::{CommitId, Tract};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::style::{ID, REF, Styled};

/// List, create or delete tags; a tag never moves.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract tag                                  all tags
  tract tag before-summary                   names the commit that HEAD points to
  tract tag first-answer 'main#3'            names the commit of the third message
  tract tag --delete first-answer            the commit stays")]
pub(crate) struct Tag {
    /// Create a tag with this name.
    name: Option<String>,
    /// The commit to tag.
    #[arg(default_value = "HEAD", value_name = "REV")]
    revision: String,
    /// Delete tags, all or none; their commits stay.
    #[arg(long, short, value_name = "TAG", num_args = 1.., conflicts_with = "name")]
    delete: Vec<String>,
}

#[derive(Serialize)]
struct Tagged<'a> {
    tag: &'a str,
    commit: CommitId,
}

#[derive(Serialize)]
struct Deleted<'a> {
    deleted: &'a str,
    commit: CommitId,
}

pub(crate) async fn run(context: &mut Context<'_>, tag: Tag) -> Outcome<()> {
    let tract = context.open().await?;
    if !tag.delete.is_empty() {
        return delete(context, &tract, &tag.delete).await;
    }
    let tags = match tag.name {
        Some(name) => {
            let commit = tract.tags().create(&name, tag.revision.as_str()).await?;
            vec![(name, commit)]
        }
        None => tract.tags().list().await?,
    };
    for (name, commit) in &tags {
        if context.out.is_json() {
            context.out.json(&Tagged { tag: name, commit: *commit })?
        } else {
            context.out.line(format_args!(
                "{}  {}",
                Styled(ID, commit.short()),
                Styled(REF, escape::line(name))
            ))?
        }
    }
    Ok(())
}

async fn delete(context: &mut Context<'_>, tract: &Tract, names: &[String]) -> Outcome<()> {
    let commits = tract.repo().delete_tags(names).await?;
    for (name, commit) in names.iter().zip(commits) {
        if context.out.is_json() {
            context.out.json(&Deleted { deleted: name, commit })?
        } else {
            let name = escape::line(name);
            context.out.line(format_args!(
                "deleted {}, which was at {}   restore it: tract tag {name} {}",
                Styled(REF, &name),
                Styled(ID, commit.short()),
                commit.short()
            ))?;
        }
    }
    Ok(())
}
