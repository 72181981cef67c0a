//! Revisions: expressions that name a commit.

use std::collections::HashMap;

use tract_compile::{Row, View};
use tract_core::store::LogQuery;
use tract_core::text::count;
use tract_core::time::{DayEdge, parse_time};
use tract_core::{
    Change, Changes, Commit, CommitId, IdPrefix, Op, Priority, RefName, RefTarget, nearest,
};

use crate::history::counts::{leap_back, recent_row};
use crate::history::reach::commit_id;
use crate::plan::Refusal;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::write::txn::Txn;

/// The marks of a stream: names for its commits.
pub type Marks = HashMap<String, CommitId>;

/// Maximum number of commits that the error for an ambiguous prefix lists.
const AMBIGUOUS: usize = 20;

/// A message named by a revision with `#n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NamedMessage {
    /// The commit whose context shows the message.
    pub head: CommitId,
    /// The message's slot.
    pub slot: CommitId,
    /// The commit of the shown version: the one that added it, or its last edit.
    pub version: CommitId,
    /// The commit of that history, along first parents, that added the message or merged it in.
    pub position: CommitId,
    /// Whether that commit adds this message and nothing else.
    pub is_own: bool,
}

/// The target of a revision, before a message is narrowed down to one of its commits.
enum NamedTarget {
    Commit(CommitId),
    /// The n-th message shown at a head.
    Message(CommitId, usize),
}

/// Resolves a revision as [`Repo::resolve_message`] does.
pub(crate) async fn resolve_message(repo: &Repo, text: &str) -> Result<Option<NamedMessage>> {
    let mut txn = Txn::new(repo)?;
    match find_target(&mut txn, text, &Marks::new()).await? {
        NamedTarget::Commit(_) => Ok(None),
        NamedTarget::Message(head, n) => named_message(&txn, text, head, n).await.map(Some),
    }
}

/// Finds the position of a message as [`Repo::position_of`] does.
pub(crate) async fn position_of(repo: &Repo, head: CommitId, slot: CommitId) -> Result<CommitId> {
    let txn = Txn::new(repo)?;
    let history = txn.fold(Some(head)).await?;
    let Some(row) = history.view().get(slot).copied() else {
        let text = slot.short();
        return Err(bad(&text, "the context does not have the message"));
    };
    Ok(find_position(&txn, history.view(), head, &row).await?.0)
}

/// Resolves a revision as [`Repo::resolve`] does, including the changes of this transaction.
/// `:name` names a mark.
///
/// # Errors
/// As [`Repo::resolve`].
pub async fn resolve_in(txn: &mut Txn<'_>, text: &str, marks: &Marks) -> Result<CommitId> {
    match find_target(txn, text, marks).await? {
        NamedTarget::Commit(commit) => Ok(commit),
        NamedTarget::Message(head, n) => Ok(shown_row(txn, text, head, n).await?.1.version),
    }
}

/// Resolves a revision to a position as [`Repo::resolve_position`] does, including the changes
/// of this transaction.
///
/// # Errors
/// As [`Repo::resolve`].
pub async fn resolve_position_in(txn: &mut Txn<'_>, text: &str, marks: &Marks) -> Result<CommitId> {
    match find_target(txn, text, marks).await? {
        NamedTarget::Commit(commit) => Ok(commit),
        NamedTarget::Message(head, n) => Ok(named_message(txn, text, head, n).await?.position),
    }
}

async fn find_target(txn: &mut Txn<'_>, text: &str, marks: &Marks) -> Result<NamedTarget> {
    let text = text.trim();
    let cut = ["~", "#", "@{"].iter().filter_map(|suffix| text.find(suffix)).min();
    let (base, mut rest) = text.split_at(cut.unwrap_or(text.len()));
    let commit = match rest.strip_prefix("@{") {
        Some(inside) => {
            let Some((inside, after)) = inside.split_once('}') else {
                return Err(bad(text, "\"@{\" is not closed by \"}\""));
            };
            rest = after;
            moved_target(txn, text, base, inside).await?
        }
        None => resolve_base(txn, text, base, marks).await?,
    };
    let mut target = NamedTarget::Commit(commit);
    while !rest.is_empty() {
        let (sign, number, after) = suffix(text, rest)?;
        // A suffix continues from the position of a message, not from its last edit.
        let commit = match target {
            NamedTarget::Commit(commit) => commit,
            NamedTarget::Message(head, n) => named_message(txn, text, head, n).await?.position,
        };
        target = match sign {
            '~' => NamedTarget::Commit(go_back(txn, text, commit, number.unwrap_or(1)).await?),
            _ => NamedTarget::Message(commit, number.unwrap_or(0)),
        };
        rest = after;
    }
    Ok(target)
}

/// Resolves a revision without suffixes.
async fn resolve_base(
    txn: &mut Txn<'_>,
    text: &str,
    base: &str,
    marks: &Marks,
) -> Result<CommitId> {
    if let Some(mark) = base.strip_prefix(':') {
        return marks.get(mark).copied().ok_or_else(|| {
            // Looks at all marks, so not before the mark is known to be missing.
            let near = nearest(mark, marks.keys().map(String::as_str));
            let nearest = near.map(|near| format!(":{near}")).into_iter().collect();
            Error::UnknownRevision { text: text.to_owned(), nearest }
        });
    }
    if let Some(name) = ref_named(txn, base).await? {
        return match follow(txn, &name).await? {
            Some(commit) => Ok(commit),
            None => Err(bad(text, "it has no commit yet")),
        };
    }
    if let Some(prefix) = IdPrefix::new(&base.to_ascii_lowercase()) {
        let ids = with_prefix(txn, &prefix).await?;
        match ids.as_slice() {
            [] => {}
            [id] => return Ok(*id),
            _ => return Err(Error::Ambiguous { text: text.to_owned(), ids }),
        }
    }
    let repo = txn.repo();
    let mut names: Vec<String> =
        repo.branches().await?.into_iter().map(|branch| branch.name).collect();
    names.extend(repo.tags().await?.into_iter().map(|(name, _)| name));
    let near = nearest(base, names.iter().map(String::as_str));
    let nearest = near.map(str::to_owned).into_iter().collect();
    Err(Error::UnknownRevision { text: text.to_owned(), nearest })
}

/// Returns the ref for a name. Tried in this order: `HEAD`, a full name, a branch, a tag, a
/// branch of a remote.
async fn ref_named(txn: &mut Txn<'_>, base: &str) -> Result<Option<RefName>> {
    if base.is_empty() || base == "HEAD" {
        return Ok(Some(RefName::head()));
    }
    // Branch names of older versions may be normalized differently.
    let as_given = RefName::new(format!("heads/{base}"));
    let names = [RefName::new(base), as_given, RefName::branch(base), RefName::tag(base)];
    let of_remote = base.split_once('/');
    let of_remote = of_remote.map(|(remote, branch)| RefName::remote_branch(remote, branch));
    for name in names.into_iter().chain(of_remote).flatten() {
        if txn.target(&name).await?.is_some() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

async fn follow(txn: &mut Txn<'_>, name: &RefName) -> Result<Option<CommitId>> {
    let mut name = name.clone();
    for _ in 0..5 {
        match txn.target(&name).await? {
            Some(RefTarget::Ref(next)) => name = next,
            Some(RefTarget::Commit(commit)) => return Ok(Some(commit)),
            Some(RefTarget::Blob(_)) => return Ok(None),
            // Without a `HEAD` the first branch is used.
            None if name == RefName::head() => name = txn.repo().current_branch().await?,
            None => return Ok(None),
        }
    }
    Ok(None)
}

async fn with_prefix(txn: &Txn<'_>, prefix: &IdPrefix) -> Result<Vec<CommitId>> {
    let repo = txn.repo();
    let found = repo.store().resolve_prefix(repo.name(), prefix, AMBIGUOUS * 4).await?;
    let stored = found.into_iter().filter_map(commit_id);
    let made = txn.commits().iter().map(|commit| commit.id());
    let made = made.filter(|id| prefix.matches(id.as_bytes()));
    let mut ids: Vec<CommitId> = stored.chain(made).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.truncate(AMBIGUOUS);
    Ok(ids)
}

/// Resolves the target of a ref `n` moves ago, or at a time.
async fn moved_target(txn: &mut Txn<'_>, text: &str, base: &str, inside: &str) -> Result<CommitId> {
    let Some(mut name) = ref_named(txn, base).await? else {
        return resolve_base(txn, text, base, &Marks::new()).await;
    };
    // `HEAD` only names the branch; the moves are those of the branch.
    if let Some(RefTarget::Ref(next)) = txn.target(&name).await? {
        name = next;
    } else if name == RefName::head() {
        name = txn.repo().current_branch().await?;
    }
    let repo = txn.repo();
    let query =
        |before, limit| LogQuery { name: Some(name.clone()), before, limit, ..LogQuery::default() };
    let target = match inside.parse::<usize>() {
        Ok(0) => txn.target(&name).await?,
        Ok(moves) => {
            let log = repo.store().ref_log(repo.name(), &query(None, moves)).await?;
            match log.get(moves - 1) {
                Some(entry) => entry.before.clone(),
                None => {
                    let what = format!("{} has {}", name.describe(), count(log.len(), "move"));
                    return Err(bad(text, what));
                }
            }
        }
        Err(_) => {
            let now = repo.now_us();
            let at = parse_time(inside, now, DayEdge::End)
                .map_err(|error| bad(text, error.to_string()))?;
            let mut before = None;
            loop {
                let log = repo.store().ref_log(repo.name(), &query(before, 256)).await?;
                let Some(last) = log.last() else { break None };
                before = Some(last.seq);
                if let Some(entry) = log.iter().find(|entry| entry.note.at <= at) {
                    break entry.after.clone();
                }
            }
        }
    };
    match target {
        Some(RefTarget::Commit(commit)) => {
            // For the current target, all readers report a missing commit anyway.
            if txn.target(&name).await? != target {
                txn.repo().require_uncollected(&[commit]).await?;
            }
            Ok(commit)
        }
        Some(RefTarget::Blob(_) | RefTarget::Ref(_)) | None => {
            Err(bad(text, format!("{} pointed to no commit then", name.describe())))
        }
    }
}

/// Goes back along first parents.
async fn go_back(txn: &Txn<'_>, text: &str, from: CommitId, commits: usize) -> Result<CommitId> {
    let beyond =
        |left: usize| bad(text, format!("the history has {}", count(commits - left + 1, "commit")));
    let (mut id, mut left) = (from, commits);
    if txn.made_here(from).is_none() {
        let (at, rest) = leap_back(txn.repo(), from, commits as u64).await?;
        (id, left) = (at, usize::try_from(rest).unwrap_or(left));
    }
    while left > 0 {
        let repo = txn.repo();
        if let Some(commit) = txn.made_here(id) {
            id = commit.parent().ok_or_else(|| beyond(left))?;
            left -= 1;
            continue;
        }
        let limit = left.saturating_add(1).min(4096);
        let page = repo.history(id).pages(limit, limit).next_page().await?;
        for commit in page.iter().flatten().take(left) {
            id = commit.parent().ok_or_else(|| beyond(left))?;
            left -= 1;
        }
    }
    Ok(id)
}

/// Returns the row of the n-th message shown at a head, from 1.
async fn shown_row(txn: &Txn<'_>, text: &str, head: CommitId, n: usize) -> Result<(View, Row)> {
    // A message near the end of a long history is found without reading all of it.
    if txn.made_here(head).is_none()
        && txn.repo().compiler().cached_history(head).is_none()
        && let Some(found) = recent_row(txn.repo(), head, n as u64).await?
    {
        return Ok(found);
    }
    let history = txn.fold(Some(head)).await?;
    let shown = || {
        history
            .view()
            .rows()
            .filter(|row| history.fact(row.slot).is_some_and(|fact| fact.priority > Priority::Skip))
    };
    let place = n.checked_sub(1).ok_or_else(|| bad(text, "messages are counted from 1"))?;
    match shown().nth(place) {
        Some(row) => Ok((history.view().clone(), *row)),
        None => {
            let has = count(shown().count(), "message");
            Err(bad(text, format!("the context has {has}")))
        }
    }
}

/// Returns the commit after which a new message comes directly after one that a head shows.
///
/// # Errors
/// [`Refusal::NotVisible`] when the head does not show the message.
pub(crate) async fn place_after(txn: &Txn<'_>, head: CommitId, slot: CommitId) -> Result<CommitId> {
    let history = txn.fold(Some(head)).await?;
    let view = history.view();
    let Some(row) = view.get(slot).copied() else {
        return Err(Refusal::NotVisible { target: slot, hidden_by: None }.into());
    };
    let (position, is_own) = find_position(txn, view, head, &row).await?;
    let is_summary =
        is_own && matches!(txn.require_commit(position).await?.op, Op::Compress { .. });
    // A summary is shown in the place of the messages that it hides, which may be far before
    // its commit: what follows it is the message that is shown next.
    if is_summary && let Some(next) = view.rows_after(row.row_key()).next().copied() {
        let (next, _) = find_position(txn, view, head, &next).await?;
        if let Some(before) = txn.require_commit(next).await?.parent() {
            return Ok(before);
        }
    }
    Ok(position)
}

async fn named_message(
    txn: &Txn<'_>,
    text: &str,
    head: CommitId,
    n: usize,
) -> Result<NamedMessage> {
    let (view, row) = shown_row(txn, text, head, n).await?;
    let (position, is_own) = find_position(txn, &view, head, &row).await?;
    Ok(NamedMessage { head, slot: row.slot, version: row.version, position, is_own })
}

/// Returns the commit along first parents that first added a row, and whether it does only
/// that.
async fn find_position(
    txn: &Txn<'_>,
    view: &View,
    head: CommitId,
    row: &Row,
) -> Result<(CommitId, bool)> {
    let mut position = (row.slot, false);
    let mut next = Some(head);
    let mut limit = 64;
    while let Some(at) = next {
        let commits = match txn.made_here(at) {
            Some(commit) => vec![commit.clone()],
            None => {
                let page = txn.repo().history(at).pages(limit, limit).next_page().await?;
                limit = (limit * 4).min(4096);
                page.unwrap_or_default()
            }
        };
        next = commits.last().and_then(|oldest| oldest.parent());
        for commit in commits {
            let id = commit.id();
            if let Op::Append { slot, .. } = &commit.op {
                let slot = slot.unwrap_or(id);
                if slot == row.slot {
                    position = (id, true);
                }
                // Keys increase with each new row, so a row with a smaller key was added
                // earlier.
                if id == row.slot || view.get(slot).is_some_and(|other| other.key < row.key) {
                    return Ok(position);
                }
            } else if adds(txn, &commit, row.slot).await? {
                position = (id, matches!(commit.op, Op::Compress { .. }));
                if id == row.slot {
                    return Ok(position);
                }
            }
        }
    }
    Ok(position)
}

/// Returns whether a commit adds a row of a message.
async fn adds(txn: &Txn<'_>, commit: &Commit, slot: CommitId) -> Result<bool> {
    let adds = |change: &Change| {
        matches!(change, Change::Add { .. }) && change.slot().resolve(commit.id()) == slot
    };
    match (&commit.changes, txn.made_changes(commit.id())) {
        (Changes::List(list), _) => Ok(list.iter().any(adds)),
        (Changes::Blob(_), Some(list)) => Ok(list.iter().any(adds)),
        (Changes::Blob(_), None) => Ok(txn.repo().changes(commit).await?.iter().any(adds)),
    }
}

/// Splits off a suffix: its sign, its number and the remaining text.
fn suffix<'a>(text: &str, rest: &'a str) -> Result<(char, Option<usize>, &'a str)> {
    let mut chars = rest.chars();
    let sign = chars.next().filter(|sign| matches!(sign, '~' | '#'));
    let Some(sign) = sign else {
        return Err(bad(text, format!("expected ~n or #n, found {rest:?}")));
    };
    let after = chars.as_str();
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (digits, after) = after.split_at(digits);
    match (digits.is_empty(), digits.parse()) {
        (true, _) if sign == '#' => Err(bad(text, "a number follows \"#\"")),
        (true, _) => Ok((sign, None, after)),
        (false, Ok(number)) => Ok((sign, Some(number), after)),
        (false, Err(_)) => Err(bad(text, format!("the number {digits} is too large"))),
    }
}

fn bad(text: &str, what: impl Into<String>) -> Error {
    Error::BadRevision { text: text.to_owned(), what: what.into() }
}
