//! `tract fetch`, `tract pull`, `tract push`

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use tract::RefName;
use tract::engine::{
    FetchOptions, OnCopy, PullBranches, PushOptions, TransferStatus, TransferredRef,
};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::{self, count};
use crate::style::{DIM, GOOD, REF, Styled, WARN};

/// Bring the branches of a remote here, as remotes/REMOTE/BRANCH.
///
/// No branch of this repository moves. Only what is not here is read.
#[derive(Debug, Args)]
#[command(after_help = "\
Approvals, policies, decisions, effects and pins of the remote are not fetched; `tract copy` brings
a whole repository.
Examples:
  tract fetch                                from origin, or the only remote
  tract fetch team && tract log remotes/team/main
  tract fetch team --prune                   forgets branches that are gone there")]
pub(crate) struct Fetch {
    /// The remote [default: origin, or the only one]
    remote: Option<String>,
    /// Delete remotes/REMOTE/BRANCH where the branch is gone from the remote.
    #[arg(long)]
    prune: bool,
}

/// Fetch, and move a branch forward to where the remote has it.
///
/// A branch that has other commits stays, for `tract merge remotes/REMOTE/BRANCH`. One `tract undo`
/// reverts a pull.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract pull                                 the current branch
  tract pull team --branch main --branch draft
  tract pull team --all                      every branch that the remote has")]
pub(crate) struct Pull {
    /// The remote [default: origin, or the only one]
    remote: Option<String>,
    /// Move this branch; may be given several times [default: the current branch]
    #[arg(long, short, value_name = "BRANCH")]
    branch: Vec<String>,
    /// Move every branch that the remote has.
    #[arg(long, conflicts_with = "branch")]
    all: bool,
}

/// Bring branches to a remote.
///
/// Only what the remote lacks is sent, and its branches move last, each only if it is an ancestor
/// of the new head. A push that is cut short continues when it is run again.
#[derive(Debug, Args)]
#[command(after_help = "\
The store is created if it does not exist. Approvals, policies, decisions, effects and pins stay here;
`tract copy` brings a whole repository.
Examples:
  tract push                                 the current branch, to origin or the only remote
  tract push team main draft
  tract push team --all                      every branch and tag
  tract fetch team && tract merge remotes/team/main && tract push team
                                             when another push came first")]
pub(crate) struct Push {
    /// The remote [default: origin, or the only one]
    remote: Option<String>,
    /// The branches [default: the current branch]
    #[arg(value_name = "BRANCH")]
    branches: Vec<String>,
    /// Push every branch and every tag.
    #[arg(long, conflicts_with = "branches")]
    all: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    remote: &'a str,
    commits: usize,
    #[serde(skip_serializing_if = "is_zero")]
    restored: usize,
    refs: Vec<RefLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branches: Option<Vec<RefLine>>,
}

/// Returns whether a number is omitted in JSON.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(super) fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The result of a ref.
#[derive(Serialize)]
pub(super) struct RefLine {
    pub(super) name: String,
    pub(super) to: Option<String>,
    pub(super) status: &'static str,
}

impl RefLine {
    pub(super) fn of(at: &TransferredRef) -> Self {
        Self {
            name: at.name.to_string(),
            to: at.to.as_ref().map(render::target),
            status: at.status.word(),
        }
    }
}

/// Makes a progress bar, and the callback that moves it.
pub(super) fn progress(what: &'static str) -> (ProgressBar, OnCopy) {
    let bar = render::progress(what, "commits");
    let watched = bar.clone();
    let progress = OnCopy::new(move |progress| {
        watched.set_length(progress.commits as u64);
        watched.set_position(progress.commits_done as u64);
    });
    (bar, progress)
}

pub(crate) async fn fetch(context: &mut Context<'_>, fetch: Fetch) -> Outcome<()> {
    let options = FetchOptions { prune: fetch.prune, ..FetchOptions::default() };
    receive(context, fetch.remote.as_deref(), options).await
}

pub(crate) async fn pull(context: &mut Context<'_>, pull: Pull) -> Outcome<()> {
    let branches = match (pull.all, pull.branch.as_slice()) {
        (true, _) => PullBranches::All,
        (false, []) => {
            let current = context.open().await?;
            PullBranches::Named(vec![current.branch_name().to_owned()])
        }
        (false, _) => PullBranches::Named(pull.branch),
    };
    receive(
        context,
        pull.remote.as_deref(),
        FetchOptions { pull: branches, ..FetchOptions::default() },
    )
    .await
}

async fn receive(
    context: &mut Context<'_>,
    remote: Option<&str>,
    options: FetchOptions,
) -> Outcome<()> {
    let tract = context.open().await?;
    let remote = tract.repo().remote(remote).await?.name;
    let (bar, progress) = progress("fetching");
    let options = FetchOptions { progress: Some(progress), ..options };
    let report = tract.remotes().fetch(&remote, &options).await;
    bar.finish_and_clear();
    let report = report?;
    if context.out.is_json() {
        context.out.json(&Document {
            remote: &remote,
            commits: report.commits,
            restored: report.restored,
            refs: report.refs.iter().map(RefLine::of).collect(),
            branches: Some(report.branches.iter().map(RefLine::of).collect()),
        })?;
    } else {
        print(context, report.refs.iter().chain(&report.branches))?;
        let commits = count(report.commits, "commit");
        context.out.line(format_args!("{}: {commits} fetched", escape::line(&remote)))?;
        render::restored(context.out, report.restored)?;
        render::erasures(context.out, &report.erased)?;
    }
    if !report.diverged() && !report.refused() {
        return Ok(());
    }
    refusals(context, report.refs.iter().chain(&report.branches));
    for at in &report.branches {
        if let (TransferStatus::Diverged { .. }, Some(branch)) = (&at.status, at.name.branch_name())
        {
            let (branch, remote) = (escape::line(branch), escape::line(&remote));
            context.out.say(format_args!(
                "  note: {branch} has other commits here; on it, merge theirs: tract merge remotes/{remote}/{branch}"
            ));
        }
    }
    Err(Failure::reported_no())
}

pub(crate) async fn push(context: &mut Context<'_>, push: Push) -> Outcome<()> {
    let tract = context.open().await?;
    let remote = tract.repo().remote(push.remote.as_deref()).await?.name;
    let (bar, progress) = progress("pushing");
    let options = PushOptions { branches: push.branches, all: push.all, progress: Some(progress) };
    let report = tract.remotes().push(&remote, &options).await;
    bar.finish_and_clear();
    let report = report?;
    if context.out.is_json() {
        context.out.json(&Document {
            remote: &remote,
            commits: report.commits,
            restored: report.restored,
            refs: report.refs.iter().map(RefLine::of).collect(),
            branches: None,
        })?;
    } else {
        print(context, &report.refs)?;
        let commits = count(report.commits, "commit");
        context.out.line(format_args!("{}: {commits} pushed", escape::line(&remote)))?;
        render::restored(context.out, report.restored)?;
        render::erasures(context.out, &report.erased)?;
    }
    if !report.diverged() && !report.refused() {
        return Ok(());
    }
    refusals(context, &report.refs);
    let remote = escape::line(&remote);
    for at in &report.refs {
        let note = match (&at.status, at.name.branch_name()) {
            (TransferStatus::Ahead, Some(branch)) => {
                format!(
                    "{0} is further there; get it: tract pull {remote} --branch {0}",
                    escape::line(branch)
                )
            }
            (TransferStatus::Diverged { .. }, Some(branch)) => format!(
                "{0} has other commits there; on it: tract fetch {remote}, tract merge remotes/{remote}/{0}, then push again",
                escape::line(branch)
            ),
            (TransferStatus::Diverged { .. }, None) => {
                "a tag never moves; make one with another name".to_owned()
            }
            _ => continue,
        };
        context.out.say(format_args!("  note: {note}"));
    }
    Err(Failure::reported_no())
}

/// Reports why refs were not transferred.
pub(super) fn refusals<'a>(
    context: &mut Context<'_>,
    refs: impl IntoIterator<Item = &'a TransferredRef>,
) {
    for at in refs {
        if let TransferStatus::Refused { why } = &at.status {
            let why = escape::line(why);
            context.out.say(format_args!("  note: {}: {why}", named(&at.name)));
        }
    }
}

/// Prints the results of refs. Unchanged refs are only counted.
pub(super) fn print<'a>(
    context: &mut Context<'_>,
    refs: impl IntoIterator<Item = &'a TransferredRef>,
) -> Outcome<()> {
    let mut unchanged = 0;
    for at in refs {
        let style = match at.status {
            TransferStatus::Unchanged => {
                unchanged += 1;
                continue;
            }
            TransferStatus::Diverged { .. }
            | TransferStatus::Refused { .. }
            | TransferStatus::Moved => WARN,
            _ => GOOD,
        };
        let word = Styled(style, format!("{:<9}", at.status.word()));
        context.out.line(format_args!("{word}  {}", named(&at.name)))?;
    }
    if unchanged > 0 {
        context.out.line(Styled(DIM, format!("{} unchanged", count(unchanged, "ref"))))?;
    }
    Ok(())
}

/// Formats a ref for people: `branch main`, `tag v1`, `remotes/team/main`.
pub(super) fn named(name: &RefName) -> String {
    let (kind, short) = match (name.branch_name(), name.tag_name()) {
        (Some(branch), _) => ("branch ", branch),
        (_, Some(tag)) => ("tag ", tag),
        _ => ("", name.as_str()),
    };
    format!("{kind}{}", Styled(REF, escape::line(short)))
}
