//! `tract expand`

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use tract::CommitId;

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};

/// Show the original of a message that a handler, a summary or an edit changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract expand 51b3c6e2                      what a summary replaced
  tract revert 51b3c6e2                      the model reads the original again")]
pub(crate) struct Expand {
    /// The commit.
    #[arg(default_value = "HEAD", value_name = "REV")]
    revision: String,
}

#[derive(Serialize)]
struct Document {
    commit: CommitId,
    kind: String,
    content: Box<RawValue>,
}

pub(crate) async fn run(context: &mut Context<'_>, expand: Expand) -> Outcome<()> {
    let tract = context.open().await?;
    let id = tract.resolve(expand.revision.as_str()).await?;
    let original = tract.expand(id).await?;
    let content = match original {
        Some(content) => content,
        // A message without changes is its own original.
        None => {
            let commit = tract.show(id).await?;
            tract.repo().content(&commit).await?.ok_or_else(|| {
                Failure::no("no_message", format!("{} has no message", id.short()))
                    .note("`tract show` prints what it does")
            })?
        }
    };
    if context.out.is_json() {
        let blob = content.to_blob().map_err(tract::Error::from)?;
        let content_json = RawValue::from_string(blob).map_err(Failure::json)?;
        let kind = content.kind().as_str().to_owned();
        return context.out.json(&Document { commit: id, kind, content: content_json });
    }
    context.out.line(escape::block(content.text().trim_end_matches('\n')))
}
