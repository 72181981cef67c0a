//! `tract bundle`

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use tract::engine::{
    ApplyBundleOptions, Bundle as Opened, BundleOptions, apply_bundle, create_bundle,
};
use tract::{CommitId, RefName, Tract};

use super::export::write_lines;
use super::transfer::{RefLine, named, print, progress};
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::render::{self, count};
use crate::style::{GOOD, Styled, WARN};

/// Move history as a file, where no store can be reached.
#[derive(Debug, Args)]
#[command(after_help = "\
A bundle holds commits with all that they need, refs, and a hash of itself: one that was cut or
changed is refused as a whole. It can be a remote too: tract remote add mail talk.bundle
Examples:
  tract bundle create talk.bundle            all branches and tags
  tract bundle create new.bundle main --since main@{2026-01-31T09:30:00Z}
  tract bundle verify new.bundle
  tract bundle apply new.bundle")]
pub(crate) struct Bundle {
    #[command(subcommand)]
    what: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    /// Write a bundle.
    Create {
        /// The file; `-` for standard output.
        file: PathBuf,
        /// The branches and tags [default: all, and HEAD]
        #[arg(value_name = "REF")]
        refs: Vec<String>,
        /// Leave out this commit and all that it leads to: the receiver has them. May be given
        /// several times.
        #[arg(long, value_name = "REV")]
        since: Vec<String>,
        /// Take approvals, policies, decisions, effects and pins too.
        #[arg(long, conflicts_with = "refs")]
        everything: bool,
    },
    /// Check a bundle, and whether this repository has what it continues.
    Verify {
        /// The file; `-` for standard input.
        file: PathBuf,
    },
    /// Bring what a bundle holds into this repository.
    ///
    /// A branch that has other commits stays. Nothing is written unless the whole bundle is good.
    Apply {
        /// The file; `-` for standard input.
        file: PathBuf,
        /// Take approvals, policies, decisions, effects and pins too.
        #[arg(long)]
        trust: bool,
    },
}

impl Bundle {
    /// Returns whether the command writes.
    pub(crate) fn writes(&self) -> bool {
        matches!(self.what, BundleCommand::Apply { .. })
    }
}

#[derive(Serialize)]
struct Created {
    commits: usize,
    refs: usize,
    prerequisites: Vec<CommitId>,
}

#[derive(Serialize)]
struct Verified {
    commits: usize,
    refs: Vec<NamedRef>,
    prerequisites: Vec<CommitId>,
    missing: Option<Vec<CommitId>>,
}

#[derive(Serialize)]
struct NamedRef {
    name: String,
    to: String,
}

#[derive(Serialize)]
struct AppliedBundle {
    commits: usize,
    reused: usize,
    #[serde(skip_serializing_if = "super::transfer::is_zero")]
    restored: usize,
    refs: Vec<RefLine>,
    untrusted: usize,
}

pub(crate) async fn run(context: &mut Context<'_>, bundle: Bundle) -> Outcome<()> {
    match bundle.what {
        BundleCommand::Create { file, refs, since, everything } => {
            let tract = context.open().await?;
            let mut options = BundleOptions { everything, ..BundleOptions::default() };
            if !refs.is_empty() {
                options.refs = Some(chosen(&tract, &refs).await?);
            }
            for revision in &since {
                options.since.push(tract.repo().resolve_position(revision).await?);
            }
            create(context, &tract, &file, &options).await
        }
        BundleCommand::Verify { file } => verify(context, &file).await,
        BundleCommand::Apply { file, trust } => apply(context, &file, trust).await,
    }
}

/// Returns the refs of the given names: branches, tags, or full names.
async fn chosen(tract: &Tract, texts: &[String]) -> Outcome<Vec<RefName>> {
    let mut chosen = Vec::with_capacity(texts.len());
    for text in texts {
        let names = [RefName::branch(text), RefName::tag(text), RefName::new(text.as_str())];
        let mut found = None;
        for name in names.into_iter().flatten() {
            if tract.repo().ref_target(&name).await?.is_some() {
                found = Some(name);
                break;
            }
        }
        // An unknown name is reported as a branch, with similar names.
        chosen.push(match found {
            Some(name) => name,
            None => RefName::branch(text)?,
        });
    }
    Ok(chosen)
}

async fn create(
    context: &mut Context<'_>,
    tract: &Tract,
    file: &Path,
    options: &BundleOptions,
) -> Outcome<()> {
    if input::is_stdin(file) {
        let mut lines = create_bundle(tract.repo(), options).await?;
        while let Some(line) = lines.next_line().await? {
            context.out.raw(&line)?;
            if context.out.is_lost() {
                break;
            }
        }
        return Ok(());
    }
    let begin = async || create_bundle(tract.repo(), options).await;
    let lines = write_lines(tract, file, begin, async |lines| lines.next_line().await).await?;
    if context.out.is_json() {
        return context.out.json(&Created {
            commits: lines.commits(),
            refs: lines.refs(),
            prerequisites: lines.prerequisites().to_vec(),
        });
    }
    let (commits, refs) = (count(lines.commits(), "commit"), count(lines.refs(), "ref"));
    let name = file.display().to_string();
    context.out.line(format_args!("{commits} and {refs} in {}", escape::line(&name)))?;
    continues(context, lines.prerequisites())
}

/// Formats the commits that a receiver must have.
fn continues(context: &mut Context<'_>, prerequisites: &[CommitId]) -> Outcome<()> {
    let Some((first, others)) = prerequisites.split_first() else { return Ok(()) };
    let others = match others.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    context.out.line(format_args!("continues {}{others}", render::short(*first)))
}

/// Opens a file that can be read twice. Standard input is copied to an unnamed file first.
fn open(path: &Path) -> Outcome<File> {
    let file_error = |error: io::Error| Failure::file(path, &error);
    if !input::is_stdin(path) {
        let file = File::open(path).map_err(file_error)?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(file_error(io::ErrorKind::IsADirectory.into()));
        }
        return Ok(file);
    }
    let mut file = tempfile::tempfile().map_err(file_error)?;
    io::copy(&mut io::stdin(), &mut file).map_err(file_error)?;
    Ok(file)
}

async fn verify(context: &mut Context<'_>, file: &Path) -> Outcome<()> {
    let bundle = Opened::open(open(file)?)?;
    // Without a store only the file is checked.
    let missing = match context.open().await {
        Ok(tract) => Some(bundle.missing_prerequisites(tract.repo()).await?),
        Err(error) if context.global.store.is_none() && error.is_no_store() => None,
        Err(error) => return Err(error),
    };
    let lacks = missing.as_ref().is_some_and(|missing| !missing.is_empty());
    if context.out.is_json() {
        context.out.json(&Verified {
            commits: bundle.commits(),
            refs: bundle
                .refs()
                .iter()
                .map(|(name, to)| NamedRef { name: name.to_string(), to: render::target(to) })
                .collect(),
            prerequisites: bundle.prerequisites().to_vec(),
            missing,
        })?;
    } else {
        for (name, _) in bundle.refs() {
            context.out.line(named(name))?;
        }
        let whole = Styled(GOOD, "whole");
        context.out.line(format_args!("{whole}: {}", count(bundle.commits(), "commit")))?;
        continues(context, bundle.prerequisites())?;
        for id in missing.iter().flatten().take(10) {
            let missing = Styled(WARN, "not here");
            context.out.line(format_args!("{missing}: {}", render::short(*id)))?;
        }
    }
    Failure::unless(!lacks)
}

async fn apply(context: &mut Context<'_>, file: &Path, trust: bool) -> Outcome<()> {
    let source = open(file)?;
    let tract = context.open_or_create().await?;
    let (bar, progress) = progress("applying");
    let options = ApplyBundleOptions { trust, progress: Some(progress) };
    let report = apply_bundle(tract.repo(), source, &options).await;
    bar.finish_and_clear();
    let report = report?;
    if context.out.is_json() {
        context.out.json(&AppliedBundle {
            commits: report.commits,
            reused: report.reused,
            restored: report.restored,
            refs: report.refs.iter().map(RefLine::of).collect(),
            untrusted: report.untrusted,
        })?;
    } else {
        print(context, &report.refs)?;
        let there = render::number(report.reused as u64);
        let commits = count(report.commits, "commit");
        context.out.line(format_args!("{commits}, {there} of them here already"))?;
        render::restored(context.out, report.restored)?;
        render::erasures(context.out, &report.erased)?;
        if report.untrusted > 0 {
            let refs = count(report.untrusted, "ref");
            context.out.say(format_args!(
                "  note: {refs} left out that say what may run or what was decided; --trust takes them"
            ));
        }
    }
    if !report.diverged() {
        return Ok(());
    }
    context.out.say(
        "  note: a diverged branch has other commits here; as a remote the bundle can be merged: \
         tract remote add NAME FILE, tract fetch NAME, tract merge remotes/NAME/BRANCH",
    );
    Err(Failure::reported_no())
}
