//! `tract rebase`, and the verbs implemented as a rebase: `cherry-pick`, `drop`, `insert`, `reset`.

mod plan;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tract::engine::{Rebase as Request, Rebased};
use tract::{CommitId, Draft, Tract};

use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::input;
use crate::render::{count, short};
use crate::style::{DIM, REF, Styled};

/// Reapply the commits of a branch on top of another revision.
///
/// Commits and changes that the other revision already has are left out. If a commit cannot be
/// reapplied, it is listed and nothing is written. Only this branch moves: other branches and tags
/// keep the old commits, and `tract undo` returns to them.
///
/// Messages keep their identity, so a later merge does not show them twice. Model messages are sent
/// in the neutral form afterwards, since a provider's signature is valid only after the messages
/// that it was made for.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract rebase --onto main                   this branch, on top of main
  tract rebase --onto main --dry-run > plan  the plan, one line per commit
  tract rebase --onto main --plan plan       follow the edited plan

A plan has one line per commit, oldest first: `pick ID`, `drop ID`, or `insert KIND TEXT` for a
new message. Lines may be reordered. Text after the ID and lines that begin with `#` are ignored.")]
pub(crate) struct Rebase {
    /// The branch [default: the current one]
    branch: Option<String>,
    /// The revision to reapply the commits on.
    #[arg(long, value_name = "REV")]
    onto: String,
    /// Follow the plan in this file; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Print the plan and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Copy commits of other branches onto this one.
///
/// A message with calls is copied with its results and its reasoning, a result with its call. A
/// message named by its number (`side#4`) is copied with its edits; an ID names one commit alone.
/// An edit or a priority needs the same version of its message on this branch. A later merge does
/// not show copied messages twice.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract cherry-pick 'side#4'                 the 4th message of side
  tract cherry-pick side~1 side --onto main  two commits, on main")]
pub(crate) struct CherryPick {
    /// The commits.
    #[arg(value_name = "REV", required = true)]
    commits: Vec<String>,
    /// Pick onto this branch [default: the current one]
    #[arg(long, value_name = "BRANCH")]
    onto: Option<String>,
    /// Show what would be picked, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Remove commits from the history of this branch.
///
/// A message with calls is removed with its results and its reasoning, and a message with its edits
/// and priorities. Without a summary, the messages that it hides are shown again. To keep a message
/// in the history but out of the context, use `tract annotate REV --priority skip`; that is also
/// the way if a branch that contains the message is merged later, which would bring it back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract drop 'HEAD#3'                        the 3rd message, with its turn
  tract drop 51b3c6e2 --dry-run")]
pub(crate) struct Drop {
    /// The commits.
    #[arg(value_name = "REV", required = true)]
    commits: Vec<String>,
    /// Show what would be removed, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Insert a message between two turns of this branch.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract insert --after 'HEAD#1' system \"Answer in English.\"
  tract insert --after 51b3c6e2 user < forgotten.txt")]
pub(crate) struct Insert {
    /// The commit or message that the new message follows.
    #[arg(long, value_name = "REV")]
    after: String,
    /// The kind of message.
    kind: MessageKind,
    /// The text; standard input when absent or `-`
    text: Option<String>,
    /// Show what would be reapplied, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    commit_args: CommitArgs,
}

/// Move this branch to another commit.
///
/// Commits stay in the store, and `tract undo` moves the branch back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract reset                                without the last commit
  tract reset --to 'HEAD@{1}'                where the branch was one move ago")]
pub(crate) struct Reset {
    /// Move the branch here.
    #[arg(long, value_name = "REV", default_value = "HEAD~1")]
    to: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MessageKind {
    System,
    User,
    Assistant,
    Reasoning,
    Note,
}

impl MessageKind {
    fn draft(self, text: &str) -> Outcome<Draft> {
        Ok(match self {
            Self::System => Draft::system(text),
            Self::User => Draft::user(text),
            Self::Assistant => Draft::assistant(text),
            Self::Reasoning => Draft::reasoning(text),
            Self::Note => Draft::note(text)?,
        })
    }
}

#[derive(Serialize)]
struct Document<'a> {
    verb: &'a str,
    branch: &'a str,
    before: Option<CommitId>,
    /// Absent if nothing was written.
    head: Option<CommitId>,
    made: Vec<RebasedCommit>,
    left_out: &'a [CommitId],
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Vec<plan::PlanLine>>,
}

#[derive(Serialize)]
struct RebasedCommit {
    from: Option<CommitId>,
    commit: Option<CommitId>,
}

#[derive(Serialize)]
struct ResetDocument<'a> {
    branch: &'a str,
    before: Option<CommitId>,
    head: CommitId,
}

pub(crate) async fn rebase(context: &mut Context<'_>, args: Rebase) -> Outcome<()> {
    let tract = on_branch(context.open().await?, args.branch.as_deref()).await?;
    let onto = tract.resolve_position(args.onto.as_str()).await?;
    let plan = match &args.plan {
        Some(path) => Some(plan::read(&tract, path).await?),
        None => None,
    };
    carry_out(context, &tract, &Request::Onto { onto, plan }, args.dry_run).await
}

pub(crate) async fn cherry_pick(context: &mut Context<'_>, args: CherryPick) -> Outcome<()> {
    let here = context.open().await?;
    let mut targets = Vec::with_capacity(args.commits.len());
    for revision in &args.commits {
        targets.push(here.rebase_target(revision.as_str()).await?);
    }
    let from = common_branch(&here, &args.commits).await?;
    let tract = on_branch(here, args.onto.as_deref()).await?;
    carry_out(context, &tract, &Request::Pick { targets, from }, args.dry_run).await
}

pub(crate) async fn drop(context: &mut Context<'_>, args: Drop) -> Outcome<()> {
    let tract = context.open().await?;
    let mut commits = Vec::with_capacity(args.commits.len());
    for revision in &args.commits {
        commits.push(tract.drop_target(revision.as_str()).await?);
    }
    carry_out(context, &tract, &Request::Drop { commits }, args.dry_run).await
}

pub(crate) async fn insert(context: &mut Context<'_>, args: Insert) -> Outcome<()> {
    let tract = context.open().await?;
    let after = tract.rebase_target(args.after.as_str()).await?;
    let mut draft = args.kind.draft(&input::text_or_stdin(args.text)?)?;
    let details = args.commit_args.details()?;
    draft.message = details.message;
    draft.metadata = details.metadata;
    draft.created_at = details.created_at;
    carry_out(context, &tract, &Request::Insert { after, draft: Box::new(draft) }, args.dry_run)
        .await
}

pub(crate) async fn reset(context: &mut Context<'_>, args: Reset) -> Outcome<()> {
    let tract = context.open().await?;
    let head = tract.resolve_position(args.to.as_str()).await?;
    let before = tract.reset(head).await?;
    let branch = tract.branch_name();
    if context.out.is_json() {
        return context.out.json(&ResetDocument { branch, before, head });
    }
    if before == Some(head) {
        return context.out.line(format_args!(
            "{} is at {} already",
            escape::line(branch),
            short(head)
        ));
    }
    let from = before.map_or_else(|| "nothing".to_owned(), |id| id.short());
    let name = Styled(REF, escape::line(branch).into_owned());
    context.out.line(format_args!("{name} moved from {from} to {}", short(head)))?;
    context.out.say(Styled(DIM, "back: tract undo"));
    Ok(())
}

/// Returns a handle on a branch that must exist.
async fn on_branch(tract: Tract, branch: Option<&str>) -> Outcome<Tract> {
    let Some(branch) = branch else { return Ok(tract) };
    let on = tract.on(branch)?;
    if on.head().await?.is_none() && branch != tract.branch_name() {
        // The error of an unknown revision suggests similar names.
        tract.resolve(branch).await?;
    }
    Ok(on)
}

/// Returns the head of the branch that all revisions name, if they name one.
async fn common_branch(tract: &Tract, revisions: &[String]) -> Outcome<Option<CommitId>> {
    let base =
        |revision: &String| revision.split(['~', '#', '@']).next().unwrap_or_default().to_owned();
    let Some(first) = revisions.first().map(base) else { return Ok(None) };
    if !revisions.iter().all(|revision| base(revision) == first) {
        return Ok(None);
    }
    let branches = tract.branches().list().await?;
    let named = branches.into_iter().find(|branch| branch.name == first);
    Ok(named.map(|branch| branch.head))
}

async fn carry_out(
    context: &mut Context<'_>,
    tract: &Tract,
    request: &Request,
    dry_run: bool,
) -> Outcome<()> {
    let rebased = match dry_run {
        true => tract.repo().preview_rebase(tract.branch(), request).await?,
        false => tract.repo().rebase(tract.branch(), request).await?,
    };
    if context.out.is_json() {
        let made = rebased.made.iter();
        let made = made.map(|(from, commit)| RebasedCommit {
            from: *from,
            commit: Some(*commit).filter(|_| !dry_run),
        });
        let plan = match dry_run {
            true => Some(plan::lines(tract, &rebased.steps).await?),
            false => None,
        };
        return context.out.json(&Document {
            verb: request.verb(),
            branch: tract.branch_name(),
            before: rebased.before,
            head: Some(rebased.head).filter(|_| !dry_run),
            made: made.collect(),
            left_out: &rebased.left_out,
            plan,
        });
    }
    if dry_run {
        for line in plan::lines(tract, &rebased.steps).await? {
            context.out.line(line)?;
        }
        context.out.say(Styled(DIM, summary(&rebased)));
        return Ok(());
    }
    let name = Styled(REF, escape::line(tract.branch_name()).into_owned());
    if rebased.before == Some(rebased.head) {
        return context.out.line(format_args!("{name} is up to date"));
    }
    if rebased.is_fast_forward() && rebased.left_out.is_empty() {
        return context.out.line(format_args!("{name} forwarded to {}", short(rebased.head)));
    }
    let summary = summary(&rebased);
    context.out.line(format_args!("{name} is at {}: {summary}", short(rebased.head)))?;
    context.out.say(Styled(DIM, "back: tract undo"));
    Ok(())
}

fn summary(rebased: &Rebased) -> String {
    let inserted = rebased.made.iter().filter(|(from, _)| from.is_none()).count();
    let repeated = rebased.made.len() - inserted;
    let kept = rebased.steps.len() - rebased.made.len() - rebased.left_out.len();
    let mut parts = vec![format!("{} repeated", count(repeated, "commit"))];
    if kept > 0 {
        parts.push(format!("{kept} kept"));
    }
    if inserted > 0 {
        parts.push(format!("{inserted} inserted"));
    }
    if !rebased.left_out.is_empty() {
        parts.push(format!("{} left out", rebased.left_out.len()));
    }
    parts.join(", ")
}
