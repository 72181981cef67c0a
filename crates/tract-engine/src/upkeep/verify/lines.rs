//! Checks histories: shapes of commits, folds, snapshots, rows of the turn index.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use tract_compile::{Changed, CompileError, Compiler, FoldedHistory, SnapshotCheck, shape};
use tract_core::store::{Damage, StoreError, StoreErrorKind, StoreResult};
use tract_core::{ApproxCounter, Change, Commit, CommitId, CommitRef, DerivedKind, ObjectId, Op};

use super::facts::Facts;
use super::objects::Objects;
use super::rows::LineRows;
use super::{CHUNK, derived};
use crate::history::reach::{BitSet, CommitGraph, FoldOrder, changes_of, damage, each, harm};
use crate::history::turns::{self, TurnEntry, TurnsSinceRow};
use crate::repo::Repo;

/// Folds every history once, starting from its root, and compares its derived data on the way.
pub(super) struct Lines<'a> {
    repo: &'a Repo,
    reach: &'a CommitGraph,
    facts: &'a Facts,
    order: FoldOrder,
    rows: LineRows<'a>,
    /// Index in the order at which the history started whose rows are loaded.
    begun: usize,
    compiler: Compiler,
    snapshots: Stored,
    turn_rows: Stored,
    /// The states at commits with further continuations, until the last of them is folded. Only
    /// kept while a derived row is still to come.
    ends: HashMap<u32, LineEnd>,
}

/// The state at the end of a history; `None` for a part that damage makes unknown.
#[derive(Clone, Default)]
struct LineEnd {
    /// Including the contents of the rows. Only kept while a snapshot is still to come.
    folded: Option<FoldedHistory>,
    /// Only kept while a row of the turn index is still to come.
    turns: Option<TurnsSinceRow>,
}

impl LineEnd {
    fn root() -> Self {
        Self { folded: Some(FoldedHistory::default()), turns: Some(TurnsSinceRow::at_root()) }
    }
}

/// The derived rows of a kind: the commits that have one, and the commits that lead to one.
struct Stored {
    kind: DerivedKind,
    commits: HashSet<u32>,
    leading: BitSet,
}

impl Stored {
    async fn find(
        repo: &Repo,
        reach: &CommitGraph,
        order: &FoldOrder,
        kind: DerivedKind,
        found: &mut Vec<Damage>,
    ) -> StoreResult<Self> {
        let listed = match repo.store().derived_commits(repo.name(), kind).await {
            // The list is damaged: look up each commit, so that damaged rows are named.
            Err(StoreError { kind: StoreErrorKind::Corrupt { .. }, .. }) => None,
            listed => listed?,
        };
        let listed: Option<Vec<u32>> = listed.map(|ids| {
            let read = ids.into_iter().filter(|id| reach.holds(*id));
            read.filter_map(|id| reach.find(id)).collect()
        });
        let mut commits = HashSet::new();
        for chunk in listed.as_ref().unwrap_or(&order.numbers).chunks(CHUNK) {
            let ids: Vec<CommitId> = chunk.iter().filter_map(|number| reach.id(*number)).collect();
            let read = |ids: Vec<CommitId>| async move {
                repo.store().derived(repo.name(), kind, &ids).await
            };
            let failed = |id: &CommitId, error| {
                let object = ObjectId::Commit(*id);
                found.push(derived(object, harm(object, error)?.what));
                Ok(())
            };
            let rows = each(&ids, read, failed).await?;
            let rows = chunk.iter().zip(rows).filter(|(_, row)| row.is_some());
            commits.extend(rows.map(|(number, _)| *number));
        }
        let leading = reach.leading_to(commits.iter().copied());
        Ok(Self { kind, commits, leading })
    }

    /// Reads the row of a commit; `None` if it never had one or it was deleted.
    async fn row(&self, repo: &Repo, number: u32, commit: CommitId) -> StoreResult<Option<Bytes>> {
        if !self.commits.contains(&number) {
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
        facts: &'a Facts,
        found: &mut Vec<Damage>,
    ) -> StoreResult<Self> {
        let order = reach.fold_order();
        let (snapshot, turn) = (DerivedKind::Snapshot, DerivedKind::Turn);
        let snapshots = Stored::find(repo, reach, &order, snapshot, found).await?;
        let turn_rows = Stored::find(repo, reach, &order, turn, found).await?;
        // No cache, because it may contain state of the write path that differs from the stored
        // data.
        let (store, counter) = (Arc::clone(repo.store()), Arc::new(ApproxCounter));
        let compiler = Compiler::with_cache(store, repo.name().clone(), counter, 0);
        let rows = LineRows::new(reach, facts);
        let (begun, ends) = (0, HashMap::new());
        Ok(Self { repo, reach, facts, order, rows, begun, compiler, snapshots, turn_rows, ends })
    }

    /// Returns the number of commits to fold.
    pub(super) fn count(&self) -> usize {
        self.order.numbers.len()
    }

    /// Folds the next commits in the order, from `start`; returns their number.
    pub(super) async fn fold(
        &mut self,
        start: usize,
        objects: &mut Objects<'_>,
    ) -> StoreResult<usize> {
        let chunk: Vec<u32> = self.order.numbers.iter().skip(start).take(CHUNK).copied().collect();
        // The facts noted during hashing are enough for most commits; read only the others.
        let again = chunk.iter().copied().filter(|number| self.is_read_again(*number));
        let ids: Vec<CommitId> = again.filter_map(|number| self.reach.id(number)).collect();
        let read = if ids.is_empty() { Vec::new() } else { objects.commits(&ids).await? };
        let commits: HashMap<u32, Commit> = read
            .into_iter()
            .filter_map(|commit| Some((self.reach.find(commit.id())?, commit)))
            .collect();
        let mut stored = self.turn_entries(&chunk, &commits).await?;
        let mut rest = chunk.as_slice();
        while !rest.is_empty() {
            let place = start + chunk.len() - rest.len();
            let (stretch, after) = rest.split_at(self.stretch(rest));
            rest = after;
            self.fold_stretch(place, stretch, &commits, &mut stored, &mut objects.damage).await?;
        }
        Ok(chunk.len())
    }

    fn is_read_again(&self, number: u32) -> bool {
        !self.facts.is_append(number)
            || self.snapshots.leading.contains(number)
            || self.says_of_turns(number)
    }

    fn says_of_turns(&self, number: u32) -> bool {
        self.turn_rows.leading.contains(number) && self.facts.may_say_of_turns(number)
    }

    /// Returns the length of the stretch at the beginning of `numbers`: consecutive commits without
    /// a branch or a derived row in between.
    fn stretch(&self, numbers: &[u32]) -> usize {
        let mut count = 1;
        for (number, next) in numbers.iter().zip(numbers.iter().skip(1)) {
            let ends = self.snapshots.commits.contains(number)
                || self.turn_rows.commits.contains(number)
                || self.order.continuations(*number) != 1;
            if ends || self.reach.parent(*next) != Some(*number) {
                break;
            }
            count += 1;
        }
        count
    }

    /// Reads the turn entries of those commits that lead to a row of the turn index.
    async fn turn_entries(
        &self,
        numbers: &[u32],
        commits: &HashMap<u32, Commit>,
    ) -> StoreResult<HashMap<u32, Vec<TurnEntry>>> {
        let leading = numbers.iter().copied().filter(|number| self.says_of_turns(*number));
        let (numbers, wanted): (Vec<u32>, Vec<Commit>) =
            leading.filter_map(|number| Some((number, commits.get(&number)?.clone()))).unzip();
        let mut stored = HashMap::new();
        match turns::entries_of(self.repo, &wanted).await {
            Ok(all) => stored.extend(numbers.into_iter().zip(all)),
            // Something unreadable, which is reported by another check. Retry commit by commit to
            // find out which ones are affected.
            Err(_) => {
                for (number, commit) in numbers.iter().zip(&wanted) {
                    if let Ok(one) =
                        turns::entries_of(self.repo, std::slice::from_ref(commit)).await
                    {
                        stored.insert(*number, one.concat());
                    }
                }
            }
        }
        Ok(stored)
    }

    async fn fold_stretch(
        &mut self,
        place: usize,
        numbers: &[u32],
        commits: &HashMap<u32, Commit>,
        stored: &mut HashMap<u32, Vec<TurnEntry>>,
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        let [first, ..] = numbers else { return Ok(()) };
        let mut end = self.before(place, *first);
        for number in numbers {
            self.fold_rows(*number, commits, found).await?;
        }
        let last = numbers.last().copied().unwrap_or(*first);
        let Some(id) = self.reach.id(last) else { return Ok(()) };
        // A view is only kept as long as a stored snapshot further on is compared with it. The
        // changes themselves were checked above, in the few bytes per row of `rows`.
        let history = end.folded.filter(|_| self.snapshots.leading.contains(last));
        // A commit that is no longer readable was reported when it was read.
        let read = || -> Option<Vec<Commit>> {
            numbers.iter().map(|number| commits.get(number).cloned()).collect()
        };
        end.folded = match history.and_then(|history| Some((history, read()?))) {
            Some((history, commits)) => match self.compiler.fold_onto(&history, &commits).await {
                Ok(history) => Some(history),
                Err(error) => unfolded(id, error)?,
            },
            None => None,
        };
        if !self.turn_rows.leading.contains(last) {
            end.turns = None;
        }
        if let Some(turns) = &mut end.turns {
            for number in numbers {
                match (commits.get(number), turns.counts()) {
                    (_, None) => break,
                    (_, Some(counts)) if self.facts.is_append(*number) => {
                        self.facts.count(*number, counts);
                    }
                    (Some(commit), Some(_)) => turns.count(self.repo, commit).await,
                    // It is unreadable, which was reported.
                    (None, Some(_)) => turns.lose_counts(),
                }
            }
        }
        for number in numbers.iter().filter(|number| self.says_of_turns(**number)) {
            match (stored.remove(number), &mut end.turns) {
                (Some(entries), Some(turns)) => turns.add(entries),
                (None, turns) => *turns = None,
                (Some(_), None) => {}
            }
        }
        self.snapshot(last, id, &mut end, found).await?;
        self.turn_row(last, id, &mut end, found).await?;
        let continuations = self.order.continuations(last);
        self.rows.folded(last, continuations);
        if continuations > 0 && (end.folded.is_some() || end.turns.is_some()) {
            self.ends.insert(last, end);
        }
        Ok(())
    }

    /// Returns the state at a commit's parent, and makes `rows` the rows at the parent.
    fn before(&mut self, place: usize, number: u32) -> LineEnd {
        let parent = self.reach.parent(number);
        let read = parent.filter(|parent| self.reach.is_read(*parent));
        let Some(read) = read else {
            let over = self.order.numbers.get(self.begun..place).unwrap_or_default();
            self.rows.begin(parent.is_none(), over);
            self.begun = place;
            return if parent.is_none() { LineEnd::root() } else { LineEnd::default() };
        };
        let is_last = self.order.continued_once(read) == 0;
        self.rows.resume(read, is_last);
        // The last continuation takes the state; only the others clone it. So a state is freed as
        // soon as nothing is left that continues it.
        let end = match is_last {
            true => self.ends.remove(&read),
            false => self.ends.get(&read).cloned(),
        };
        end.unwrap_or_default()
    }

    async fn fold_rows(
        &mut self,
        number: u32,
        commits: &HashMap<u32, Commit>,
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        let folded = if self.facts.is_append(number) {
            self.rows.append(number)
        } else if let Some(commit) = commits.get(&number) {
            let changes = changes_of(self.repo.store().as_ref(), self.repo.name(), commit).await?;
            // A damaged list of changes was reported when it was reached.
            let Ok(changes) = changes else {
                self.rows.lose();
                return Ok(());
            };
            if let Some(what) = self.shape_fault(commit, &changes).await? {
                found.push(damage(ObjectId::Commit(commit.id()), what));
            }
            self.rows.fold(commit, &changes)
        } else {
            self.rows.lose();
            Ok(())
        };
        if let Err(invalid) = folded {
            found.push(damage(ObjectId::Commit(invalid.commit), invalid.to_string()));
        }
        Ok(())
    }

    /// Compares the snapshot at a commit with its history.
    async fn snapshot(
        &self,
        number: u32,
        id: CommitId,
        end: &mut LineEnd,
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        let Some(history) = &mut end.folded else { return Ok(()) };
        let Some(bytes) = self.snapshots.row(self.repo, number, id).await? else { return Ok(()) };
        let check = match self.compiler.check_snapshot(history, &bytes).await {
            Ok(check) => check,
            Err(error) => return unfolded::<()>(id, error).map(drop),
        };
        let what = match check {
            SnapshotCheck::Sound | SnapshotCheck::Absent => return Ok(()),
            SnapshotCheck::Damaged => "its snapshot is damaged",
            _ => "its snapshot differs from the view folded from the root",
        };
        // Another process may have dropped or replaced the snapshot in the meantime.
        if self.snapshots.row(self.repo, number, id).await? == Some(bytes) {
            found.push(derived(ObjectId::Commit(id), what));
        }
        Ok(())
    }

    /// Compares the row of the turn index at a commit with its history.
    async fn turn_row(
        &self,
        number: u32,
        id: CommitId,
        end: &mut LineEnd,
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        let Some(bytes) = self.turn_rows.row(self.repo, number, id).await? else { return Ok(()) };
        // A history that cannot be read was reported elsewhere.
        if let Ok(false) = turns::is_sound(self.repo, id, &bytes, &mut end.turns).await
            && self.turn_rows.row(self.repo, number, id).await?.as_ref() == Some(&bytes)
            && !turns::covers_erased(self.repo, id, &bytes).await.unwrap_or_default()
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
        let Op::Revert { targets, .. } = &commit.op else {
            return Ok(own_fault(commit, changes));
        };
        if let Some(what) = record_fault(commit, changes) {
            return Ok(Some(what.to_owned()));
        }
        let store = self.repo.store().as_ref();
        let mut reverted = Vec::with_capacity(targets.len());
        for target in targets {
            // Targets are names, not links, but on a history they must be ancestors.
            if !self.reach.holds(*target) {
                return Ok(Some(format!("it reverts commit {target}, which is no ancestor")));
            }
            // An unreadable target was reported when it was reached.
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

/// Ignores an error of folding, because the damage is reported where it is located; other errors of
/// the store are returned.
fn unfolded<T>(commit: CommitId, error: CompileError) -> StoreResult<Option<T>> {
    match error {
        CompileError::Store(error) => harm(ObjectId::Commit(commit), error).map(|_| None),
        _ => Ok(None),
    }
}

/// Returns the fault of a commit that reverts nothing, judged by its record alone.
pub(super) fn own_fault(commit: &Commit, changes: &[Change]) -> Option<String> {
    let shaped = || shape(Changed { commit, changes }, &[]).err().map(|bad| bad.what.to_owned());
    record_fault(commit, changes).map(str::to_owned).or_else(shaped)
}

/// Returns the fault of a commit whose record lacks a field that compiling its row requires.
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
