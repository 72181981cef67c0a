//! `tract stats`

use serde::Serialize;

use crate::context::Context;
use crate::failure::Outcome;
use crate::render::{bytes, number};
use crate::style::{DIM, Styled};

#[derive(Serialize)]
struct Stats<'a> {
    store: &'static str,
    repo: &'a str,
    commits: u64,
    commit_bytes: u64,
    blobs: u64,
    blob_bytes: u64,
    toolsets: u64,
    tools: u64,
    refs: u64,
    ref_moves: u64,
    derived: u64,
    derived_bytes: u64,
    disk_bytes: u64,
}

pub(crate) async fn run(context: &mut Context<'_>) -> Outcome<()> {
    let tract = context.open().await?;
    let found = tract.store().stats(tract.repo().name()).await?;
    let stats = Stats {
        store: tract.store().backend(),
        repo: &context.global.repo,
        commits: found.commits,
        commit_bytes: found.commit_bytes,
        blobs: found.blobs,
        blob_bytes: found.blob_bytes,
        toolsets: found.toolsets,
        tools: found.tools,
        refs: found.refs,
        ref_moves: found.log_entries,
        derived: found.derived,
        derived_bytes: found.derived_bytes,
        disk_bytes: found.disk_bytes,
    };
    if context.out.is_json() {
        return context.out.json(&stats);
    }
    let rows = [
        ("commits", stats.commits, Some(stats.commit_bytes)),
        ("blobs", stats.blobs, Some(stats.blob_bytes)),
        ("toolsets", stats.toolsets, None),
        ("tools", stats.tools, None),
        ("refs", stats.refs, None),
        ("ref moves", stats.ref_moves, None),
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
