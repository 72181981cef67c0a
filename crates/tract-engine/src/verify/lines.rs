//! The lines: shapes, folds, snapshots, rows of the turn index.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tract_compile::{
    Changed, CompileError, Compiler, FoldedLine, IdMap, SnapshotCheck, View, fold, shape,
};
use tract_core::store::{Damage, StoreResult};
use tract_core::{ApproxCounter, Change, Commit, CommitId, CommitRef, DerivedKind, ObjectId, Op};

use super::{CHUNK, derived};
use crate::reach::{AncestorSet, CommitGraph, FoldOrder, changes_of, damage, harm};
use crate::repo::Repo;
use crate::turns::{self, TurnEntry, TurnsSinceRow};

/// Folds every line once, from its root on, and compares what is derived of it on the way.
pub(super) struct Lines<'a> {
    repo: &'a Repo,
    reach: &'a CommitGraph,
    order: FoldOrder,
    compiler: Compiler,
    snapshots: Stored,
    turn_rows: Stored,
    /// What is known at commits that others continue, until the last of those is folded.
    ends: IdMap<CommitId, LineEnd>,
}

/// What is known of a line at its end; a part that damage keeps from being known is `None`.
#[derive(Clone)]
struct LineEnd {
    view: Option<View>,
    /// With what the rows show: only kept while a snapshot is still to come.
    folded: Option<FoldedLine>,
    /// Only kept while a row of the turn index is still to come.
    turns: Option<TurnsSinceRow>,
}

impl LineEnd {
    fn root() -> Self {
        let (folded, turns) = (Some(FoldedLine::default()), Some(TurnsSinceRow::default()));
        Self { view: Some(View::empty()), folded, turns }
    }

    fn unknown() -> Self {
        Self { view: None, folded: None, turns: None }
    }
}

/// The derived rows of a kind: which commits have one, and which lead there.
struct Stored {
    kind: DerivedKind,
    commits: tract_compile::IdSet<CommitId>,
    leading: AncestorSet,
}

impl Stored {
    async fn find(
        repo: &Repo,
        reach: &CommitGraph,
        order: &FoldOrder,
        kind: DerivedKind,
        found: &mut Vec<Damage>,
    ) -> StoreResult<Self> {
        let store = repo.store();
        let mut commits = tract_compile::IdSet::default();
        for chunk in order.commits.chunks(CHUNK) {
            if let Ok(rows) = store.derived(repo.name(), kind, chunk).await {
                let rows = chunk.iter().zip(rows).filter(|(_, row)| row.is_some());
                commits.extend(rows.map(|(id, _)| *id));
                continue;
            }
            // Which row it is, reading them singly tells.
            for id in chunk {
                match store.derived(repo.name(), kind, &[*id]).await {
                    Ok(row) => commits.extend(row.iter().flatten().map(|_| *id)),
                    Err(error) => {
                        let what = harm(ObjectId::Commit(*id), error)?.what;
                        found.push(derived(ObjectId::Commit(*id), what));
                    }
                }
            }
        }
        let leading = reach.leading_to(commits.iter().copied());
        Ok(Self { kind, commits, leading })
    }

    /// Reads the row of a commit; `None` where it has none, or none any more.
    async fn row(&self, repo: &Repo, commit: CommitId) -> StoreResult<Option<Bytes>> {
        if !self.commits.contains(&commit) {
            return Ok(None);
        }
        let found = repo.store().derived(repo.name(), self.kind, &[commit]).await?;
        Ok(found.into_iter().flatten().next())
    }
}

impl<'a> Lines<'a> {
    pub(super) async fn new(
        repo: &'a Repo,
        reach: &'a CommitGraph,
        found: &mut Vec<Damage>,
    ) -> StoreResult<Self> {
        let order = reach.fold_order();
        let (snapshot, turn) = (DerivedKind::Snapshot, DerivedKind::Turn);
        let snapshots = Stored::find(repo, reach, &order, snapshot, found).await?;
        let turn_rows = Stored::find(repo, reach, &order, turn, found).await?;
        // Without a cache, which could answer from what the write path remembered.
        let (store, counter) = (Arc::clone(repo.store()), Arc::new(ApproxCounter));
        let compiler = Compiler::with_cache(store, repo.name().clone(), counter, 0);
        let ends = IdMap::default();
        Ok(Self { repo, reach, order, compiler, snapshots, turn_rows, ends })
    }

    /// Returns the commits in the order in which they are to be folded.
    pub(super) fn commits(&self) -> Vec<CommitId> {
        self.order.commits.clone()
    }

    /// Folds commits, given in order.
    pub(super) async fn fold(
        &mut self,
        commits: &[Commit],
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        let mut said = self.turn_entries(commits).await?;
        let mut rest = commits;
        while !rest.is_empty() {
            let (stretch, after) = rest.split_at(self.stretch(rest));
            rest = after;
            self.fold_stretch(stretch, &mut said, found).await?;
        }
        Ok(())
    }

    /// Returns how many of these commits follow one another with nothing to compare and no branch
    /// in between.
    fn stretch(&self, commits: &[Commit]) -> usize {
        let mut count = 1;
        for (commit, next) in commits.iter().zip(commits.iter().skip(1)) {
            let id = commit.id();
            let ends = self.snapshots.commits.contains(&id)
                || self.turn_rows.commits.contains(&id)
                || self.reach.continuations(&self.order, id) != 1;
            if ends || next.parent() != Some(id) {
                break;
            }
            count += 1;
        }
        count
    }

    /// Reads what those of the commits say of tool turns that lead to a row of their index.
    async fn turn_entries(
        &self,
        commits: &[Commit],
    ) -> StoreResult<HashMap<CommitId, Vec<TurnEntry>>> {
        let leads = |commit: &&Commit| self.reach.leads(commit.id(), &self.turn_rows.leading);
        let wanted: Vec<Commit> = commits.iter().filter(leads).cloned().collect();
        let ids = wanted.iter().map(Commit::id);
        let mut said = HashMap::new();
        match turns::entries_of(self.repo, &wanted).await {
            Ok(all) => said.extend(ids.zip(all)),
            // What cannot be read is named where that lies; which commit it is, one by one tells.
            Err(_) => {
                for commit in &wanted {
                    if let Ok(one) =
                        turns::entries_of(self.repo, std::slice::from_ref(commit)).await
                    {
                        said.insert(commit.id(), one.concat());
                    }
                }
            }
        }
        Ok(said)
    }

    async fn fold_stretch(
        &mut self,
        commits: &[Commit],
        said: &mut HashMap<CommitId, Vec<TurnEntry>>,
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        let [first, ..] = commits else { return Ok(()) };
        let mut end = self.before(first);
        for commit in commits {
            end.view = self.fold_view(end.view, commit, found).await?;
        }
        let id = commits.last().map_or(first.id(), Commit::id);
        let leads = self.reach.leads(id, &self.snapshots.leading);
        end.folded = match end.folded.filter(|_| leads) {
            Some(line) => match self.compiler.fold_onto_line(&line, commits).await {
                Ok(line) => Some(line),
                Err(error) => unfolded(id, error)?,
            },
            None => None,
        };
        if !self.reach.leads(id, &self.turn_rows.leading) {
            end.turns = None;
        }
        for commit in commits {
            match (said.remove(&commit.id()), &mut end.turns) {
                (Some(entries), Some(turns)) => turns.add(entries),
                (None, turns) => *turns = None,
                (Some(_), None) => {}
            }
        }
        self.snapshot(id, &mut end, found).await?;
        self.turn_row(id, &mut end, found).await?;
        if self.reach.continuations(&self.order, id) > 0 {
            self.ends.insert(id, end);
        }
        Ok(())
    }

    /// Returns what is known of the line that a commit continues.
    fn before(&mut self, commit: &Commit) -> LineEnd {
        let Some(parent) = commit.parent() else { return LineEnd::root() };
        let end = match self.reach.continued_once(&mut self.order, parent) {
            0 => self.ends.remove(&parent),
            _ => self.ends.get(&parent).cloned(),
        };
        end.unwrap_or_else(LineEnd::unknown)
    }

    async fn fold_view(
        &self,
        before: Option<View>,
        commit: &Commit,
        found: &mut Vec<Damage>,
    ) -> StoreResult<Option<View>> {
        let object = ObjectId::Commit(commit.id());
        let changes = changes_of(self.repo.store().as_ref(), self.repo.name(), commit).await?;
        // A damaged list of changes was named when it was reached.
        let Ok(changes) = changes else { return Ok(None) };
        if let Some(what) = self.shape_fault(commit, &changes).await? {
            found.push(damage(object, what));
        }
        let Some(before) = before else { return Ok(None) };
        Ok(match fold(&before, commit, &changes) {
            Ok(view) => Some(view),
            Err(error) => {
                found.push(damage(object, error.to_string()));
                None
            }
        })
    }

    /// Compares the snapshot at a commit with its line.
    async fn snapshot(
        &self,
        id: CommitId,
        end: &mut LineEnd,
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        let Some(line) = &mut end.folded else { return Ok(()) };
        let Some(bytes) = self.snapshots.row(self.repo, id).await? else { return Ok(()) };
        let check = match self.compiler.check_snapshot(line, &bytes).await {
            Ok(check) => check,
            Err(error) => return unfolded::<()>(id, error).map(drop),
        };
        let what = match check {
            SnapshotCheck::Sound | SnapshotCheck::Absent => return Ok(()),
            SnapshotCheck::Damaged => "its snapshot is damaged",
            _ => "its snapshot differs from the view folded from the root",
        };
        // Another process may have dropped or replaced the snapshots meanwhile.
        if self.snapshots.row(self.repo, id).await? == Some(bytes) {
            found.push(derived(ObjectId::Commit(id), what));
        }
        Ok(())
    }

    /// Compares the row of the turn index at a commit with its line.
    async fn turn_row(
        &self,
        id: CommitId,
        end: &mut LineEnd,
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        let Some(bytes) = self.turn_rows.row(self.repo, id).await? else { return Ok(()) };
        // A line that cannot be read was named where that lies.
        if let Ok(false) = turns::is_sound(self.repo, id, &bytes, &mut end.turns).await
            && self.turn_rows.row(self.repo, id).await? == Some(bytes)
        {
            found.push(derived(ObjectId::Commit(id), "its row of the turn index is wrong"));
        }
        Ok(())
    }

    async fn shape_fault(
        &self,
        commit: &Commit,
        changes: &[Change],
    ) -> StoreResult<Option<String>> {
        if let Some(what) = record_fault(commit, changes) {
            return Ok(Some(what.to_owned()));
        }
        let Op::Revert { targets, .. } = &commit.op else {
            let of = Changed { commit, changes };
            return Ok(shape(of, &[]).err().map(|bad| bad.what.to_owned()));
        };
        let store = self.repo.store().as_ref();
        let mut reverted = Vec::with_capacity(targets.len());
        for target in targets {
            // Targets are names, not links; on this line they are ancestors all the same.
            if !self.reach.holds(*target) {
                return Ok(Some(format!("it reverts commit {target}, which is no ancestor")));
            }
            // One that cannot be read was named when it was reached.
            let target = match store.commits(self.repo.name(), &[*target]).await {
                Ok(target) => target,
                Err(error) => {
                    harm(ObjectId::Commit(*target), error)?;
                    return Ok(None);
                }
            };
            let Some(target) = target.into_iter().flatten().next() else { return Ok(None) };
            let Ok(changes) = changes_of(store, self.repo.name(), &target).await? else {
                return Ok(None);
            };
            reverted.push((target, changes));
        }
        let targets: Vec<Changed<'_>> =
            reverted.iter().map(|(commit, changes)| Changed { commit, changes }).collect();
        let of = Changed { commit, changes };
        Ok(shape(of, &targets).err().map(|bad| bad.what.to_owned()))
    }
}

/// A line that does not fold, or lacks something, was named where that lies; other errors of the
/// store stay errors.
fn unfolded<T>(commit: CommitId, error: CompileError) -> StoreResult<Option<T>> {
    match error {
        CompileError::Store(error) => harm(ObjectId::Commit(commit), error).map(|_| None),
        _ => Ok(None),
    }
}

/// What a commit must have for its row to be compiled.
fn record_fault(commit: &Commit, changes: &[Change]) -> Option<&'static str> {
    let shows = |change: &Change| match change {
        Change::Add { row, .. } => row.version == CommitRef::This,
        Change::Version { to, .. } => *to == CommitRef::This,
        Change::Remove { .. } | Change::Mark { .. } => false,
    };
    let says = matches!(commit.op, Op::Append { .. }) || changes.iter().any(shows);
    match (commit.content, &commit.kind) {
        (Some(_), Some(_)) => None,
        (Some(_), None) => Some("it has content without a kind"),
        (None, _) if says => Some("a row shows it, but it has no content"),
        (None, _) => None,
    }
}
