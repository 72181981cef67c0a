//! `tract export`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::render::count;

/// Write everything as a stream that `apply` reads.
///
/// Applied to an empty store, the stream gives the same commits with the same ids.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract export > backup.jsonl
  tract export --output backup.jsonl
  tract export | tract --store sqlite:copy.db apply -")]
pub(crate) struct Export {
    /// The file; standard output when absent.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(context: &mut Context<'_>, export: Export) -> Outcome<()> {
    let tract = context.open().await?;
    let mut lines = tract.export().await?;
    let Some(path) = export.output.filter(|path| !input::is_stdin(path)) else {
        while let Some(line) = lines.next_line().await? {
            context.out.raw(&line)?;
        }
        return Ok(());
    };
    // The file gets its name when it is whole: half an export is no copy.
    let partial = path.with_extension("partial");
    let told = |error: std::io::Error| Failure::file(&path, &error);
    let mut file = BufWriter::new(File::create(&partial).map_err(told)?);
    while let Some(line) = lines.next_line().await? {
        writeln!(file, "{line}").map_err(told)?;
    }
    let file = file.into_inner().map_err(|error| told(error.into_error()))?;
    file.sync_all().map_err(told)?;
    std::fs::rename(&partial, &path).map_err(told)?;
    let commits = lines.commits();
    context.out.done(format_args!("{} in {}", count(commits, "commit"), path.display()))
}
