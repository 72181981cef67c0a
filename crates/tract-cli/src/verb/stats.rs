//! `tract stats`

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::Outcome;
use crate::render::{bytes, number};
use crate::style::{DIM, Styled};

/// Count the objects and bytes of the repository.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract stats
  tract --repo customer-42 stats --json")]
pub(crate) struct Stats {}

pub(crate) async fn run(context: &mut Context<'_>, _args: Stats) -> Outcome<()> {
    let tract = context.open().await?;
    let stats = tract.store().stats(tract.repo().name()).await?;
    if context.out.is_json() {
        return context.out.json(&json!({
            "store": tract.store().backend(),
            "repo": context.global.repo,
            "commits": stats.commits,
            "commit_bytes": stats.commit_bytes,
            "blobs": stats.blobs,
            "blob_bytes": stats.blob_bytes,
            "toolsets": stats.toolsets,
            "tools": stats.tools,
            "refs": stats.refs,
            "ref_moves": stats.log_entries,
            "derived": stats.derived,
            "derived_bytes": stats.derived_bytes,
            "disk_bytes": stats.disk_bytes,
        }));
    }
    let rows = [
        ("commits", stats.commits, Some(stats.commit_bytes)),
        ("blobs", stats.blobs, Some(stats.blob_bytes)),
        ("toolsets", stats.toolsets, None),
        ("tools", stats.tools, None),
        ("refs", stats.refs, None),
        ("ref moves", stats.log_entries, None),
        ("derived", stats.derived, Some(stats.derived_bytes)),
    ];
    for (what, n, size) in rows {
        let size = size.map(bytes).unwrap_or_default();
        context.out.line(format_args!("{what:<10} {:>12} {size:>12}", number(n)))?;
    }
    if stats.disk_bytes > 0 {
        let all = "all repositories of the store, on disk";
        let size = bytes(stats.disk_bytes);
        context.out.line(format_args!("{:<10} {:>12} {size:>12}  {}", "", "", Styled(DIM, all)))?;
    }
    Ok(())
}
