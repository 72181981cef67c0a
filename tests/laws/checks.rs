//! The laws, each as a function that says what breaks it. None of them asks the code it checks
//! for more than views, records and bodies.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use tract::compile::{Row, View, resolved};
use tract::core::{Change, CommitRef};
use tract::engine::{Error, Repo, Request, Txn};
use tract::forms::{Form, FormOptions, compile_form};
use tract::{Commit, CommitId, Op, RefName, block_on};

use crate::rules::{self, Accepted};

/// What a broken law says of itself.
pub(crate) type Broken = String;

/// All that a model would see of a head, in every form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Print {
    pub(crate) view_id: String,
    pub(crate) facts: String,
    pub(crate) bodies: Vec<(Form, String)>,
}

/// Compiles a head to every form.
pub(crate) fn print(repo: &Repo, head: Option<CommitId>) -> Result<Print, Broken> {
    let compiled = block_on(repo.compile(head)).map_err(|error| format!("{head:?}: {error}"))?;
    let mut bodies = Vec::new();
    for form in Form::all() {
        let params = compile_form(&compiled, form, &FormOptions::default())
            .map_err(|error| format!("{form}: {error}"))?;
        let repairs: Vec<String> = params.repairs.iter().map(ToString::to_string).collect();
        bodies.push((form, format!("{}\n{repairs:?}\n{:?}", params.to_json(), params.prefix)));
    }
    let tools: Vec<_> = compiled.tools().iter().map(|tool| (tool.id, &*tool.schema)).collect();
    let ids: Vec<CommitId> = compiled.commit_ids().collect();
    let facts = format!(
        "{} commits, {} messages, {:?}, {tools:?}, {ids:?}",
        compiled.commit_count(),
        compiled.message_count(),
        compiled.token_count(),
    );
    Ok(Print { view_id: compiled.view_id().to_string(), facts, bodies })
}

/// Law 7: every process that compiles a head sees the same.
pub(crate) fn same(what: &str, found: &Print, expected: &Print) -> Result<(), Broken> {
    if found.view_id != expected.view_id {
        return Err(format!("{what}: view id {} for {}", found.view_id, expected.view_id));
    }
    if found.facts != expected.facts {
        return Err(format!("{what}: {} for {}", found.facts, expected.facts));
    }
    for ((form, found), (_, expected)) in found.bodies.iter().zip(&expected.bodies) {
        if found != expected {
            return Err(format!("{what}: {form}: {found}\n  for {expected}"));
        }
    }
    Ok(())
}

/// Law 8: what is sent is accepted, after any history.
pub(crate) fn accepted(print: &Print) -> Result<(), Broken> {
    for (form, text) in &print.bodies {
        // Where no message is shown, there is nothing that could be sent.
        if print.facts.contains(" 0 messages") {
            continue;
        }
        let text = text.lines().next().unwrap_or_default();
        let body: Value = serde_json::from_str(text).map_err(|error| format!("{form}: {error}"))?;
        let broken = match form {
            Form::Params(dialect) => rules::broken(*dialect, Accepted::Nothing, &body),
            _ => Vec::new(),
        };
        if let Some(rule) = broken.first() {
            return Err(format!("{form}: {rule} in {text}"));
        }
    }
    Ok(())
}

/// The rows, the tools in force and those that a following commit goes back to.
pub(crate) type HistoryState =
    (Vec<Row>, Option<tract::core::ToolsetId>, Option<tract::core::ToolsetId>);

pub(crate) fn history_state(history: &tract::compile::History) -> HistoryState {
    (history.view().rows().copied().collect(), history.toolset(), history.active())
}

/// A change and then its inverse leave the rows as they were.
pub(crate) fn undone(
    before: &View,
    commit: &Commit,
    changes: &[Change],
    inverse: impl Fn(&Change) -> Change,
) -> Result<(), Broken> {
    let id = commit.id();
    let bad = |error| format!("{id}: {error}");
    let after = tract::compile::fold(before, commit, changes).map_err(bad)?;
    let mut all: Vec<Change> = tract::compile::appended(before, commit).into_iter().collect();
    all.extend(changes.iter().cloned());
    let back: Vec<Change> = all.iter().rev().map(|change| inverse(&resolved(change, id))).collect();
    // A commit of its own to contain the inverses; what it says is nothing to the fold.
    let mut record = tract::CommitRecord::new(
        Op::Revert { targets: vec![id], cascade: false },
        tract::AuthorKind::User,
    );
    record.parents = vec![id];
    let bearer = Commit::seal(record).map_err(|error| error.to_string())?;
    let restored = tract::compile::fold(&after, &bearer, &back)
        .map_err(|error| format!("{id}: the inverse does not fold: {error}"))?;
    let rows = |view: &View| view.rows().copied().collect::<Vec<Row>>();
    if rows(&restored) != rows(before) {
        return Err(format!("{id}: {:?} for {:?}", rows(&restored), rows(before)));
    }
    if after.next() < before.next() {
        return Err(format!("{id}: the next key fell from {} to {}", before.next(), after.next()));
    }
    Ok(())
}

/// Reverting the head gives its parent's rows and tools; reverting that gives them back. Merge
/// then revert is ours.
pub(crate) fn reverted(repo: &Repo, branch: &RefName) -> Result<(), Broken> {
    block_on(async {
        let text = |error: Error| error.to_string();
        let mut txn = Txn::new(repo).map_err(text)?.importing();
        let Some(head) = txn.head(branch).await.map_err(text)? else { return Ok(()) };
        let commit = repo.require_commit(head).await.map_err(text)?;
        let ours = commit.parents.first().copied();
        let [then, now] = [
            history_state(&txn.fold(ours).await.map_err(text)?),
            history_state(&txn.fold(Some(head)).await.map_err(text)?),
        ];
        let back = match txn.add(branch, &Request::revert([head])).await {
            Ok(commit) => commit.id(),
            // Nothing was changed that could be reverted.
            Err(_) if then == now => return Ok(()),
            Err(error) => return Err(format!("{head} ({:?}) is the head: {error}", commit.op)),
        };
        let found = history_state(&txn.fold(Some(back)).await.map_err(text)?);
        if found != then {
            return Err(format!("revert of {:?}: {found:?}\n  for {then:?}", commit.op));
        }
        let again = match txn.add(branch, &Request::revert([back])).await {
            Ok(commit) => commit.id(),
            Err(_) if then == now => return Ok(()),
            Err(error) => return Err(format!("revert of the revert: {error}")),
        };
        let found = history_state(&txn.fold(Some(again)).await.map_err(text)?);
        if found == now {
            Ok(())
        } else {
            Err(format!("revert of the revert: {found:?}\n  for {now:?}"))
        }
    })
}

/// What every summary took out, by the summary's slot.
pub(crate) type Sources = HashMap<CommitId, Vec<CommitId>>;

pub(crate) fn sources(repo: &Repo, commits: &[Commit]) -> Sources {
    let mut sources = Sources::new();
    for commit in commits {
        if let Op::Compress { .. } = commit.op {
            let changes = block_on(repo.changes(commit)).expect("stored changes");
            let removed = changes.iter().filter_map(|change| match change {
                Change::Remove { slot: CommitRef::Id(slot), .. } => Some(*slot),
                _ => None,
            });
            sources.insert(commit.id(), removed.collect());
        }
    }
    sources
}

/// The cover rule: no row lies under a summary that is a row, and nothing lies under two.
pub(crate) fn covered(rows: &[CommitId], sources: &Sources) -> Result<(), Broken> {
    let shown: BTreeSet<CommitId> = rows.iter().copied().collect();
    if shown.len() != rows.len() {
        return Err("a slot has two rows".to_owned());
    }
    let mut under: BTreeMap<CommitId, CommitId> = BTreeMap::new();
    for summary in rows {
        let mut left = sources.get(summary).cloned().unwrap_or_default();
        let mut seen = BTreeSet::new();
        while let Some(slot) = left.pop() {
            if !seen.insert(slot) {
                continue;
            }
            if shown.contains(&slot) {
                return Err(format!("{slot} is next to its summary {summary}"));
            }
            if let Some(other) = under.insert(slot, *summary) {
                return Err(format!("{slot} lies under {other} and {summary}"));
            }
            left.extend(sources.get(&slot).into_iter().flatten().copied());
        }
    }
    Ok(())
}

/// The records that a head leads to, all parents, each once.
pub(crate) fn reachable(repo: &Repo, heads: &[CommitId]) -> Vec<Commit> {
    let mut left = heads.to_vec();
    let mut seen = BTreeSet::new();
    let mut commits = Vec::new();
    while let Some(id) = left.pop() {
        if seen.insert(id) {
            let commit = block_on(repo.require_commit(id)).expect("closure");
            left.extend(commit.parents.iter().copied());
            commits.push(commit);
        }
    }
    commits
}
