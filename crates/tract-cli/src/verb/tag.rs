//! `tract tag`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tract::engine::SignedTag;

use super::branch::deleted;
use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::ssh;
use crate::style::{ID, REF, Styled};

/// List, create, sign or delete tags; a tag never moves.
#[derive(Debug, Args)]
#[command(after_help = "\
A signature covers the tag's name and commit, and so the whole history of the commit. ssh-keygen
makes it, and it moves with the tag; `tract verify --signatures` checks it.
Examples:
  tract tag                                  all tags
  tract tag before-summary                   names the commit that HEAD points to
  tract tag first-answer 'main#3'            names the commit of the third message
  tract tag v1 --sign                        with ~/.ssh/id_ed25519, or TRACT_SIGNING_KEY
  tract tag --delete first-answer            the commit stays")]
pub(crate) struct Tag {
    /// Create a tag with this name.
    name: Option<String>,
    /// The commit to tag [default: HEAD; with --sign, where a tag of this name is]
    #[arg(value_name = "REV")]
    revision: Option<String>,
    /// Sign the tag, which may be there already.
    #[arg(long, requires = "name")]
    sign: bool,
    /// The key to sign with, private or, with an agent, public [default: TRACT_SIGNING_KEY, else
    /// ~/.ssh/id_ed25519]
    #[arg(long, value_name = "FILE", requires = "sign")]
    key: Option<PathBuf>,
    /// Delete tags, all or none; their commits stay.
    #[arg(long, short, value_name = "TAG", num_args = 1.., conflicts_with = "name")]
    delete: Vec<String>,
}

pub(crate) async fn run(context: &mut Context<'_>, tag: Tag) -> Outcome<()> {
    let tract = context.open().await?;
    if !tag.delete.is_empty() {
        let commits = tract.repo().delete_tags(&tag.delete).await?;
        return deleted(context.out, &tag.delete, commits, |name| format!("tract tag {name}"));
    }
    let tags = match tag.name {
        Some(name) if tag.sign => {
            let there = tract.tags().list().await?.into_iter().find(|(there, _)| *there == name);
            let commit = match (tag.revision, there) {
                (None, Some((_, commit))) => commit,
                (revision, _) => {
                    tract.resolve_position(revision.as_deref().unwrap_or("HEAD")).await?
                }
            };
            let mut signed = SignedTag::new(&name, commit);
            signed.signature = Some(ssh::sign(&signed, tag.key.as_deref())?);
            tract.repo().create_signed_tag(&signed).await?;
            vec![(name, commit)]
        }
        Some(name) => {
            let revision = tag.revision.as_deref().unwrap_or("HEAD");
            let commit = tract.tags().create(&name, revision).await?;
            vec![(name, commit)]
        }
        None => tract.tags().list().await?,
    };
    for (name, commit) in &tags {
        let (at, shown) = (Styled(ID, commit.short()), Styled(REF, escape::line(name)));
        let json = json!({ "tag": name, "commit": commit });
        context.out.item(&json, format_args!("{at}  {shown}"))?;
    }
    Ok(())
}
