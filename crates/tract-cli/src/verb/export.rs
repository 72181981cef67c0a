//! `tract export`

mod session;

use std::fs::File;
use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use tract::Tract;
use tract::engine::{self, Attempts, ExportOptions};
use tract::import::SessionFormat;

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::render::count;

/// Write the repository as a stream, or a conversation in the format of another tool.
///
/// Without options, writes a stream that `apply` reads: applied to an empty store, it produces the
/// same commits with the same ids.
///
/// With --format, writes one conversation as a tool keeps it. One that was recorded by that tool
/// and not changed since is written as it was, so that importing the file makes the same commits.
/// Any other is written as a model would see it, as a session of its own.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract export > backup.jsonl
  tract export --output backup.jsonl
  tract export | tract --store sqlite:copy.db apply --trust -
  tract export --html talk.html main         one conversation as a page to read
  tract export --format claude-code main --output .
                                             a session that Claude Code can resume
  tract export --format atif main > run.json a trajectory for training and evaluation")]
pub(crate) struct Export {
    /// Write to this file. With --format it may be a folder: the file is then named as the other
    /// tool names its files [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write one conversation in this format.
    #[arg(long, value_name = "FORMAT", group = "shape", value_parser = session::format())]
    format: Option<SessionFormat>,
    /// Write conversations to this HTML file instead, to be read in any browser without a server.
    #[cfg(feature = "view")]
    #[arg(long, value_name = "FILE", group = "shape", conflicts_with = "output")]
    html: Option<PathBuf>,
    /// The conversations: one with --format, any number with --html [default: HEAD]
    #[arg(value_name = "REV", requires = "shape")]
    revisions: Vec<String>,
    /// Every branch in the HTML file.
    #[cfg(feature = "view")]
    #[arg(long, requires = "html", conflicts_with = "revisions")]
    all: bool,
    /// Keep keys and passwords in the HTML file; without it they are replaced with marks.
    #[cfg(feature = "view")]
    #[arg(long, requires = "html")]
    no_redact: bool,
}

pub(crate) async fn run(context: &mut Context<'_>, export: Export) -> Outcome<()> {
    let tract = context.open().await?;
    #[cfg(feature = "view")]
    if let Some(path) = &export.html {
        let redact = !export.no_redact;
        return html(context.out, &tract, path, (export.revisions, export.all), redact).await;
    }
    if let Some(format) = export.format {
        return session::run(context, &tract, format, &export.revisions, export.output).await;
    }
    let options = ExportOptions::default();
    let begin = async || engine::export(tract.repo(), &options).await;
    let Some(path) = export.output.filter(|path| !input::is_stdin(path)) else {
        let mut lines = begin().await?;
        while let Some(line) = lines.next_line().await? {
            context.out.raw(&line)?;
            if context.out.is_lost() {
                break;
            }
        }
        return Ok(());
    };
    let lines = write_lines(&tract, &path, begin, async |lines| lines.next_line().await).await?;
    let commits = lines.commits();
    let name = path.display().to_string();
    context.out.done(format_args!("{} in {}", count(commits, "commit"), escape::line(&name)))
}

/// Writes lines from a repository to a file, which gets its name when it is complete.
/// They start over if refs move and garbage collection deletes the commits being read.
pub(super) async fn write_lines<L>(
    tract: &Tract,
    path: &Path,
    begin: impl AsyncFn() -> engine::Result<L>,
    next: impl AsyncFn(&mut L) -> engine::Result<Option<String>>,
) -> Outcome<L> {
    // A pipe cannot be truncated.
    let is_file = !path.metadata().is_ok_and(|metadata| !metadata.is_file());
    let mut attempts = Attempts::new(tract.repo());
    loop {
        let error = match begin().await {
            Err(error) => error,
            Ok(mut lines) => {
                let mut failed = None;
                let read = async || {
                    let line = next(&mut lines).await;
                    line.map_err(|error| {
                        failed = Some(error);
                        engine::Error::KeptMoving { attempts: 1 }
                    })
                };
                let written = write_whole(path, read).await;
                match failed {
                    Some(error) => error,
                    None => return written.map(|()| lines),
                }
            }
        };
        if !is_file {
            return Err(error.into());
        }
        attempts.again(error).await?;
    }
}

/// Writes lines to a file, which gets its name when it is complete.
pub(super) async fn write_whole(
    path: &Path,
    mut next: impl AsyncFnMut() -> engine::Result<Option<String>>,
) -> Outcome<()> {
    let file_error = |error: std::io::Error| Failure::file(path, &error);
    // The target of a link is written; a device or a pipe gets the lines directly, and so does a link
    // whose target has no path, such as /dev/stdout of an unlinked file: a rename would replace it.
    let resolved = path.canonicalize();
    let is_open_link = resolved.is_err() && path.is_symlink();
    let target = resolved.unwrap_or_else(|_| path.to_owned());
    if is_database(&target) || is_of_database(&target) {
        let what = format!("{} is a store or another database", path.display());
        return Err(Failure::usage(what).note("give another name: a store is never overwritten"));
    }
    if is_open_link || target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let mut options = File::options();
        options.write(true).create(is_open_link).truncate(is_open_link);
        let mut file = BufWriter::new(options.open(&target).map_err(file_error)?);
        write(&mut next, &mut file, file_error).await?;
    } else {
        let mut file = new_file(&target).map_err(file_error)?;
        write(&mut next, &mut BufWriter::new(file.as_file_mut()), file_error).await?;
        file.as_file().sync_all().map_err(file_error)?;
        file.persist(&target).map_err(|error| file_error(error.error))?;
    }
    Ok(())
}

/// Returns whether a file belongs to a database next to it: SQLite reads its log when it opens.
fn is_of_database(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let database = name.and_then(|name| {
        ["-wal", "-shm", "-journal"].iter().find_map(|suffix| name.strip_suffix(suffix))
    });
    database.is_some_and(|database| is_database(&path.with_file_name(database)))
}

/// Returns whether a file is a database of SQLite or redb, as stores are.
fn is_database(path: &Path) -> bool {
    // Opening a pipe would wait for its other end.
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut start));
    read.is_ok() && (start.starts_with(b"SQLite format 3") || start.starts_with(b"redb"))
}

async fn write(
    next: &mut impl AsyncFnMut() -> engine::Result<Option<String>>,
    file: &mut impl Write,
    file_error: impl Fn(std::io::Error) -> Failure,
) -> Outcome<()> {
    while let Some(line) = next().await? {
        writeln!(file, "{line}").map_err(&file_error)?;
    }
    file.flush().map_err(file_error)
}

/// Makes the file that gets the name of the target when it is complete, so that a partial export is
/// never taken for a whole one. Until then its name is unique, so that concurrent exports do not
/// collide, and it is removed if this one fails.
/// It is named `.NAME.…partial`, and has the mode of the target, or that of a new file.
fn new_file(target: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let kept = target.metadata().ok().map(|metadata| metadata.permissions());
    let mut builder = tempfile::Builder::new();
    builder.suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let new = || std::fs::Permissions::from_mode(0o666);
        builder.permissions(kept.clone().unwrap_or_else(new));
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = builder.tempfile_in(folder.unwrap_or_else(|| Path::new(".")))?;
    if let Some(kept) = kept {
        // The umask does not apply to a file that is replaced.
        file.as_file().set_permissions(kept)?;
    }
    Ok(file)
}

/// Writes conversations as one HTML page.
#[cfg(feature = "view")]
async fn html(
    out: &mut crate::out::Output,
    tract: &tract::Tract,
    path: &Path,
    (mut revisions, all): (Vec<String>, bool),
    redact: bool,
) -> Outcome<()> {
    if all {
        let branches = tract.branches().list().await?;
        revisions.extend(branches.into_iter().map(|branch| branch.name));
    } else if revisions.is_empty() {
        revisions.push(tract.branch_name().to_owned());
    }
    let export = tract::view::export(tract.repo(), &revisions, redact).await?;
    if export.redacted > 0 {
        out.say(format_args!("{} replaced", count(export.redacted, "secret")));
    }
    if input::is_stdin(path) {
        return out.raw(export.page.trim_end());
    }
    let mut page = Some(export.page.trim_end().to_owned());
    write_whole(path, async || Ok(page.take())).await?;
    let name = path.display().to_string();
    let what = count(revisions.len(), "conversation");
    out.done(format_args!("{what} in {}", escape::line(&name)))
}
