//! `tract branch`

use std::cmp::Reverse;
use std::collections::HashMap;

use clap::{Args, ValueEnum};
use serde_json::json;
use tract::engine::Branch as BranchHead;
use tract::{Commit, CommitId, Tract};

use super::status::RemoteLine;
use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::out::Output;
use crate::render;
use crate::style::{DIM, ID, REF, Styled};
use crate::titles::Titles;
use crate::when;

/// List, create, rename or delete branches.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract branch                               all branches, with their heads
  tract branch --list 'tau-*' --sort date    matching branches, newest first
  tract branch terse                         create at HEAD, without switching to it
  tract branch terse --from 'main#20'        create at the 20th message of main
  tract branch -m terse brief                rename
  tract branch terse --title 'Short answers' name the conversation for people
  tract branch --delete terse draft          delete two branches; their commits stay")]
pub(crate) struct Branch {
    /// Create a branch with this name.
    name: Option<String>,
    /// Start the new branch here [default: HEAD]
    #[arg(long, value_name = "REV", requires = "name")]
    from: Option<String>,
    /// Switch to the new branch.
    #[arg(long, short, requires = "name")]
    checkout: bool,
    /// List only branches that match these patterns; `*` matches any text, `?` any character.
    #[arg(long, short, value_name = "PATTERN", num_args = 1.., conflicts_with = "name")]
    list: Vec<String>,
    /// Set the title of a branch [default: the current one], or remove it with `--title ""`.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["list", "rename", "delete", "from", "checkout"])]
    title: Option<String>,
    /// Sort order of the list.
    #[arg(long, value_enum, default_value = "name", conflicts_with = "name")]
    sort: Order,
    /// Rename a branch: OLD NEW, or NEW alone for the current branch.
    #[arg(long, short = 'm', visible_alias = "move", value_names = ["OLD", "NEW"], num_args = 1..=2)]
    #[arg(conflicts_with_all = ["name", "list", "delete"])]
    rename: Vec<String>,
    /// Delete branches, all or none; their commits stay.
    #[arg(long, short, value_name = "BRANCH", num_args = 1.., conflicts_with_all = ["name", "list"])]
    delete: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// By name
    Name,
    /// By time of the head, newest first; heads without a time come last
    Date,
}

pub(crate) async fn run(context: &mut Context<'_>, branch: Branch) -> Outcome<()> {
    let tract = context.open().await?;
    if let Some(title) = &branch.title {
        let name = branch.name.as_deref().unwrap_or(tract.branch_name());
        return set_title(context.out, &tract, name, title).await;
    }
    match (&branch.name, branch.rename.as_slice()) {
        (Some(name), _) => {
            let from = branch.from.as_deref().unwrap_or("HEAD");
            make(context.out, &tract, name, from, branch.checkout).await
        }
        (None, [to]) => rename(context.out, &tract, tract.branch_name(), to).await,
        (None, [name, to]) => rename(context.out, &tract, name, to).await,
        (None, _) if !branch.delete.is_empty() => {
            let commits = tract.repo().delete_branches(&branch.delete).await?;
            let restore = |name: &str| format!("tract branch {name} --from");
            deleted(context.out, &branch.delete, commits, restore)
        }
        (None, _) => list(context.out, &tract, &branch).await,
    }
}

/// Creates a branch, and switches to it if requested.
pub(super) async fn make(
    out: &mut Output,
    tract: &Tract,
    name: &str,
    from: &str,
    checkout: bool,
) -> Outcome<()> {
    let commit = tract.branches().create(name, from).await?;
    if checkout {
        tract.checkout(name).await?;
    }
    let json = json!({ "branch": name, "head": commit, "checked_out": checkout });
    let at = render::short(commit);
    let switched = if checkout { ", checked out" } else { "" };
    let name = Styled(REF, escape::line(name));
    out.item(&json, format_args!("{name} at {at}{switched}"))
}

async fn set_title(out: &mut Output, tract: &Tract, name: &str, title: &str) -> Outcome<()> {
    let title = (!title.trim().is_empty()).then(|| title.trim());
    tract.branches().set_title(name, title).await?;
    let json = json!({ "branch": name, "title": title });
    let name = Styled(REF, escape::line(name));
    match title {
        Some(title) => {
            out.item(&json, format_args!("{name} has the title {:?}", escape::line(title)))
        }
        None => out.item(&json, format_args!("{name} has no title of its own")),
    }
}

async fn rename(out: &mut Output, tract: &Tract, name: &str, to: &str) -> Outcome<()> {
    let head = tract.repo().rename_branch(name, to).await?;
    let json = json!({ "branch": to, "renamed": name, "head": head });
    let (name, to) = (Styled(REF, escape::line(name)), Styled(REF, escape::line(to)));
    out.item(&json, format_args!("{name} is now {to}"))
}

/// Prints the deleted branch, with the command that restores it.
pub(super) fn deleted(
    out: &mut Output,
    names: &[String],
    commits: Vec<CommitId>,
    restore: impl Fn(&str) -> String,
) -> Outcome<()> {
    for (name, commit) in names.iter().zip(commits) {
        let json = json!({ "deleted": name, "commit": commit });
        let at = render::short(commit);
        let (name, short) = (escape::line(name), commit.short());
        let (was, restore) = (Styled(REF, &name), restore(&name));
        let line = format_args!("deleted {was}, which was at {at}   restore it: {restore} {short}");
        out.item(&json, line)?;
    }
    Ok(())
}

async fn list(out: &mut Output, tract: &Tract, args: &Branch) -> Outcome<()> {
    let all = tract.branches().list().await?;
    let is_empty = all.is_empty();
    let listed = |branch: &BranchHead| {
        args.list.is_empty() || args.list.iter().any(|pattern| fits(pattern, &branch.name))
    };
    let branches: Vec<BranchHead> = all.into_iter().filter(listed).collect();
    let heads: Vec<CommitId> = branches.iter().map(|branch| branch.head).collect();
    let commits = if out.is_json() && args.sort == Order::Name {
        Vec::new()
    } else {
        tract.store().commits(tract.repo().name(), &heads).await?
    };
    let mut rows: Vec<(BranchHead, Option<Commit>)> = branches
        .into_iter()
        .zip(commits.into_iter().chain(std::iter::repeat_with(|| None)))
        .collect();
    if args.sort == Order::Date {
        let at = |(_, commit): &(BranchHead, Option<Commit>)| commit.as_ref()?.created_at;
        rows.sort_by_key(|row| Reverse(at(row)));
    }
    let seen = tract.repo().remote_branches().await?;
    if out.is_json() {
        for (branch, _) in rows {
            let BranchHead { name, head, checked_out, .. } = &branch;
            let mut json = json!({ "branch": name, "head": head, "checked_out": checked_out });
            let remotes = distances(tract, &seen, &branch).await?;
            if !remotes.is_empty() {
                json["remotes"] = json!(remotes);
            }
            out.json(&json)?;
        }
        return Ok(());
    }
    out.page();
    if is_empty {
        let branch = escape::line(tract.branch_name()).into_owned();
        out.say(format_args!("no commits yet; the first one makes branch {branch}"));
    }
    print(out, tract, rows, &seen).await
}

/// The branches of remotes as last fetched, by branch: the remote and the commit.
type SeenBranches = HashMap<String, Vec<(String, CommitId)>>;

/// Returns how far a branch is ahead of and behind the remotes.
async fn distances(
    tract: &Tract,
    seen: &SeenBranches,
    branch: &BranchHead,
) -> Outcome<Vec<RemoteLine>> {
    let mut found = Vec::new();
    for (remote, head) in seen.get(&branch.name).into_iter().flatten() {
        let counts = tract.repo().ahead_behind(branch.head, *head).await?;
        found.push(RemoteLine::new(remote.clone(), *head, counts));
    }
    Ok(found)
}

/// Columns of a row before and between its name, id and text.
const FIXED: usize = "* ".len() + "  ".len() + 8 + "  ".len();
/// Minimum width of the text column next to names of usual length.
const TEXT: usize = 24;

async fn print(
    out: &mut Output,
    tract: &Tract,
    rows: Vec<(BranchHead, Option<Commit>)>,
    seen: &SeenBranches,
) -> Outcome<()> {
    let mut commits = Vec::with_capacity(rows.len());
    for (branch, commit) in &rows {
        commits.push(match commit {
            Some(commit) => commit.clone(),
            None => tract.repo().require_commit(branch.head).await?,
        });
    }
    let lines = tract::engine::describe(tract.repo(), &commits).await?;
    let titles = Titles::read(tract).await;
    let widths = rows.iter().map(|(branch, _)| escape::width(&escape::line(&branch.name)));
    let columns = out.columns;
    // A long name takes the space of its own text, not that of all rows.
    let width = widths.max().unwrap_or(0).min(columns.saturating_sub(FIXED + TEXT));
    for ((branch, commit), line) in rows.iter().zip(lines) {
        let name = escape::cut(&branch.name, columns.saturating_sub(FIXED - 2));
        let mark = if branch.checked_out { '*' } else { ' ' };
        let taken = escape::width(&name).max(width);
        let pad = " ".repeat(taken - escape::width(&name));
        let room = columns.saturating_sub(FIXED + taken);
        let remotes = distances(tract, seen, branch).await?;
        let remotes: Vec<String> = remotes.iter().filter_map(RemoteLine::distance).collect();
        let mut text = match titles.get(&branch.name) {
            Some(title) => title.to_owned(),
            None => format!("{} {}", line.label, line.text),
        };
        if !remotes.is_empty() {
            text = format!("[{}] {text}", remotes.join("; "));
        }
        let at = commit.as_ref().and_then(|commit| commit.created_at).and_then(when::minute);
        let (at, room) = match at {
            Some(at) if room >= TEXT + at.len() + 2 => {
                let room = room - at.len() - 2;
                (format!("{}  ", Styled(DIM, at)), room)
            }
            _ => (String::new(), room),
        };
        let text = if room > 1 { escape::cut(&text, room) } else { String::new() };
        out.line(
            format_args!(
                "{mark} {}{pad}  {}  {at}{text}",
                Styled(REF, &name),
                Styled(ID, branch.head.short()),
            )
            .to_string()
            .trim_end(),
        )?;
    }
    Ok(())
}

/// Returns whether a name matches a pattern: `*` is any text, `?` any character.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from) = (0, 0);
    // The position of the last `*`, and the end of the text that it matches.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, from));
                at += 1;
            }
            (Some(wanted), _) if *wanted == '?' || Some(wanted) == name.get(from) => {
                at += 1;
                from += 1;
            }
            (_, Some((back, end))) => {
                at = back + 1;
                from = end + 1;
                star = Some((back, from));
            }
            (_, None) => return false,
        }
    }
    pattern.iter().skip(at).all(|left| *left == '*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_take_any_text_and_any_character() {
        for (pattern, name) in [
            ("*", ""),
            ("tau-*", "tau-airline-2"),
            ("*-2", "tau-airline-2"),
            ("t?u*line*", "tau-airline-2"),
            ("main", "main"),
            ("**a", "ba"),
            ("*ab*ab", "abcababab"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("tau", "tau-1"), ("?", ""), ("*-3", "tau-airline-2"), ("Main", "main")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
