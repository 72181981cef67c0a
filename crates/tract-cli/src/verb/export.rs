//! `tract export`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use tract::engine::{self, ExportOptions};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::render::count;

/// Write the repository as a stream that `apply` reads.
///
/// Applied to an empty store, the stream produces the same commits with the same ids.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract export > backup.jsonl
  tract export --output backup.jsonl
  tract export | tract --store sqlite:copy.db apply --trust -")]
pub(crate) struct Export {
    /// The file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(context: &mut Context<'_>, export: Export) -> Outcome<()> {
    let tract = context.open().await?;
    let mut lines = engine::export(tract.repo(), &ExportOptions::new()).await?;
    let Some(path) = export.output.filter(|path| !input::is_stdin(path)) else {
        while let Some(line) = lines.next_line().await? {
            context.out.raw(&line)?;
            if context.out.is_lost() {
                break;
            }
        }
        return Ok(());
    };
    write_whole(&path, async || lines.next_line().await).await?;
    let commits = lines.commits();
    let name = path.display().to_string();
    context.out.done(format_args!("{} in {}", count(commits, "commit"), escape::line(&name)))
}

/// Writes lines to a file, which gets its name when it is whole.
pub(super) async fn write_whole(
    path: &Path,
    mut next: impl AsyncFnMut() -> engine::Result<Option<String>>,
) -> Outcome<()> {
    let told = |error: std::io::Error| Failure::file(path, &error);
    // What a link leads to is written; a device or a pipe takes the lines as they come.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let mut file = BufWriter::new(File::options().write(true).open(&target).map_err(told)?);
        write(&mut next, &mut file, told).await?;
        file.flush().map_err(told)?;
    } else {
        // The file gets its name when it is whole: half an export is not a copy. Until then its own
        // name is new, so that it meets no other export, and it is removed when this one fails.
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file =
            partial(&target).tempfile_in(folder.unwrap_or_else(|| Path::new("."))).map_err(told)?;
        let mut buffer = BufWriter::new(file.as_file_mut());
        write(&mut next, &mut buffer, told).await?;
        buffer.flush().map_err(told)?;
        drop(buffer);
        file.as_file().sync_all().map_err(told)?;
        file.persist(&target).map_err(|error| told(error.error))?;
    }
    Ok(())
}

async fn write(
    next: &mut impl AsyncFnMut() -> engine::Result<Option<String>>,
    file: &mut impl Write,
    told: impl Fn(std::io::Error) -> Failure,
) -> Outcome<()> {
    while let Some(line) = next().await? {
        writeln!(file, "{line}").map_err(&told)?;
    }
    Ok(())
}

/// How a file is named until it is whole: `.NAME.…partial`, with the permissions of a new file.
fn partial(target: &Path) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let kept = target.metadata().map(|metadata| metadata.permissions());
        builder.permissions(kept.unwrap_or_else(|_| std::fs::Permissions::from_mode(0o666)));
    }
    builder
}
