//! `tract status`

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tract::engine::{AheadBehind, Pending};
use tract::{CommitId, Op};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::render::{self, count, short};
use crate::style::{BOLD, DIM, REF, Styled, WARN};
use crate::titles::Titles;

/// Returns the number of exchanges missing in the last recording; `None` if it is complete.
#[cfg(feature = "record")]
async fn not_recorded(tract: &tract::Tract) -> Outcome<Option<u64>> {
    let report = tract::recording::last_report(tract.repo()).await?;
    Ok(report.map(|report| report.lost()).filter(|lost| *lost > 0))
}

#[cfg(not(feature = "record"))]
async fn not_recorded(_tract: &tract::Tract) -> Outcome<Option<u64>> {
    Ok(None)
}

/// A branch of a remote as last fetched.
#[derive(Serialize)]
pub(super) struct RemoteLine {
    pub(super) remote: String,
    pub(super) head: CommitId,
    pub(super) ahead: usize,
    pub(super) behind: usize,
}

impl RemoteLine {
    pub(super) fn new(remote: String, head: CommitId, counts: AheadBehind) -> Self {
        Self { remote, head, ahead: counts.ahead, behind: counts.behind }
    }

    /// Returns the distance of the local branch from it, for people; `None` if they are equal.
    pub(super) fn distance(&self) -> Option<String> {
        match (self.ahead, self.behind) {
            (0, 0) => None,
            (ahead, 0) => Some(format!("{ahead} ahead of {}", escape::line(&self.remote))),
            (0, behind) => Some(format!("{behind} behind {}", escape::line(&self.remote))),
            (ahead, behind) => {
                Some(format!("{ahead} ahead, {behind} behind {}", escape::line(&self.remote)))
            }
        }
    }
}

/// Maximum number of commits of a branch for which tokens and open calls are counted.
const COUNTED: u64 = 10_000;

/// Show the branch, its head, messages, tools, open calls.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract status
  tract status --json | jq .head")]
pub(crate) struct Status {}

pub(crate) async fn run(context: &mut Context<'_>, _args: Status) -> Outcome<()> {
    let tract = context.open().await?;
    let head = tract.head().await?;
    let counts = tract.repo().counts(head).await?;
    // Counting tokens and open calls reads every message. For a long branch, `compile` shows them.
    let compiled = match counts.commits <= COUNTED {
        true => Some(tract.compile().await?),
        false => None,
    };
    let open = compiled.as_ref().map(tract::engine::open_calls);
    let tools = match head {
        Some(head) => tract.repo().tools_of(head).await?.len(),
        None => 0,
    };
    let pending = tract.pending().list().await?;
    let branch_of =
        |waits: &Pending| waits.branch.branch_name().unwrap_or(waits.branch.as_str()).to_owned();
    let remotes: Vec<RemoteLine> = tract
        .repo()
        .tracking(tract.branch())
        .await?
        .into_iter()
        .map(|at| RemoteLine::new(at.remote, at.head, at.counts))
        .collect();
    let skipped = counts.rows.saturating_sub(counts.shown);
    let tokens = compiled.as_ref().map(|compiled| compiled.token_count());
    let not_recorded = not_recorded(&tract).await?;
    if context.out.is_json() {
        let open = open.as_ref().map(|open| {
            let open = open.iter().map(|open| {
                json!({ "call_id": open.call_id, "name": open.name, "commit": open.call.slot })
            });
            open.collect::<Vec<_>>()
        });
        let pending = pending.iter().map(|waits| {
            let what = waits.request.describe();
            let (id, branch, reason) = (&waits.id, branch_of(waits), &waits.reason);
            json!({ "id": id, "branch": branch, "what": what, "reason": reason })
        });
        let mut json = json!({
            "store": tract.store().backend(),
            "repo": context.global.repo,
            "branch": tract.branch_name(),
            "head": head,
            "commits": counts.commits,
            "messages": counts.shown,
            "skipped": skipped,
            "tools": tools,
            "tokens": tokens.map(|tokens| tokens.count),
            "token_source": tokens.map(|tokens| &tokens.source),
            "open_calls": open,
            "pending": pending.collect::<Vec<_>>(),
            "remotes": remotes,
        });
        if let Some(lost) = not_recorded {
            json["not_recorded"] = lost.into();
        }
        return context.out.json(&json);
    }
    if let Some(lost) = not_recorded {
        let exchanges = render::counted(lost, "exchange");
        let what = format!("the last recording lacks {exchanges}");
        context.out.say(Styled(WARN, what));
    }
    let branch = Styled(REF, escape::line(tract.branch_name()).into_owned());
    let Some(head) = head else {
        context.out.line(format_args!("on {branch}, no commits yet"))?;
        let branches = tract.branches().list().await?.len();
        let next = match branches {
            0 => "tract commit user \"Hello\", or tract import FILE".to_owned(),
            n => format!("tract branch lists {}", count(n, "branch")),
        };
        context.out.say(Styled(DIM, format!("next: {next}")));
        return Ok(());
    };
    let commit = tract.repo().require_commit(head).await?;
    let line = render::described(&tract, &commit).await?;
    let room = context.out.columns.saturating_sub(30 + escape::width(tract.branch_name()));
    let text = escape::cut(&format!("{} {}", line.label, line.text), room);
    context.out.line(format_args!("on {branch} at {}  {text}", short(head)))?;
    let titles = match compiled {
        Some(_) => Titles::read(&tract).await,
        None => Titles::default(),
    };
    if let Some(title) = titles.get(tract.branch_name()) {
        context.out.line(Styled(BOLD, escape::cut(title, context.out.columns)))?;
    }
    let left_out = match skipped {
        0 => String::new(),
        n => format!(" ({n} skipped)"),
    };
    let tokens = compiled.as_ref().map(|compiled| format!(", {}", render::tokens(compiled)));
    context.out.line(format_args!(
        "{}{left_out}, {}{}, {}",
        render::counted(counts.shown, "message"),
        count(tools, "tool"),
        tokens.unwrap_or_default(),
        render::counted(counts.commits, "commit"),
    ))?;
    for at in &remotes {
        let name = format!("{}/{}", at.remote, tract.branch_name());
        let name = escape::line(&name);
        let line = match (at.ahead, at.behind) {
            (0, 0) => format!("as in {name}"),
            (ahead, 0) => format!("{ahead} ahead of {name}: tract push {}", at.remote),
            (0, behind) => format!("{behind} behind {name}: tract pull {}", at.remote),
            (ahead, behind) => {
                format!("{ahead} ahead, {behind} behind {name}: tract merge remotes/{name}")
            }
        };
        context.out.line(escape::line(&line))?;
    }
    for call in open.iter().flatten() {
        context.out.line(format_args!(
            "{} {} \"{}\" of {}",
            Styled(WARN, "open call"),
            escape::line(&call.name),
            escape::line(&call.call_id),
            short(call.call.slot)
        ))?;
    }
    for waits in &pending {
        context.out.line(format_args!(
            "{} {} on {}  {}: {}",
            Styled(WARN, "pending"),
            escape::line(&waits.id),
            escape::line(&branch_of(waits)),
            escape::line(&waits.request.describe()),
            escape::line(&waits.reason)
        ))?;
    }
    if let Some(first) = pending.first() {
        let id = escape::line(&first.id);
        let next = if first.request.conflicts().is_some() {
            format!("next: tract merge show {id}, tract merge resolve {id}")
        } else {
            format!("next: tract pending show {id}, tract pending approve {id}")
        };
        context.out.say(Styled(DIM, next));
    }
    if matches!(commit.op, Op::Merge { .. }) {
        context.out.say(Styled(DIM, "the head is a merge; tract log --graph shows its sides"));
    }
    Ok(())
}
