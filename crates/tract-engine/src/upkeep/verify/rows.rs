//! The rows of one history at a time, in a few bytes each.

use std::collections::HashMap;

use tract_compile::{FoldRows, InvalidChange, Row, fold_change, fold_rows};
use tract_core::{CallRef, Change, Commit, CommitId, CommitRef, RowFields};

use super::facts::Facts;
use crate::history::reach::{BitSet, CommitGraph};

/// The absent number.
const NONE: u32 = u32::MAX;

/// Folds the commits of all histories in fold order, on a single set of rows.
///
/// An unchanged row of an append takes one bit and a key; its other fields are in the facts of its
/// commit. Only rows that were changed since, or added in another way, have a record. At a
/// branching, changes of the first branch are logged and undone before the next branch is folded,
/// so that rows are never copied.
pub(super) struct LineRows<'a> {
    graph: &'a CommitGraph,
    facts: &'a Facts,
    /// The unchanged rows of appends, by commit number.
    appended: BitSet,
    /// The keys of those rows; unset for other numbers.
    keys: Vec<u32>,
    other: HashMap<u32, OtherRow>,
    /// The numbers of rows that became unchanged again, perhaps through a commit of another
    /// history.
    restored: Vec<u32>,
    /// Numbers above those of the graph, for ids that are not commits of it.
    names: HashMap<CommitId, u32>,
    named: Vec<CommitId>,
    next: u64,
    /// Whether the rows are known. After damage they are not.
    is_known: bool,
    last: Option<u32>,
    /// The plain append that is being folded.
    folding: Option<u32>,
    /// The undo log since the oldest branching, oldest change first.
    undo: Vec<(u32, PriorRow)>,
    branchings: Vec<Branching>,
}

/// A row that differs from the one that an append of its commit adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OtherRow {
    key: u64,
    version: u32,
    mark: u32,
    call: u32,
    index: u32,
}

#[derive(Clone, Copy, Debug)]
enum PriorRow {
    None,
    Appended(u32),
    Other(OtherRow),
}

/// A commit with several continuations, some of which are still to be folded.
#[derive(Debug)]
struct Branching {
    commit: u32,
    undo: usize,
    next: u64,
    is_known: bool,
}

impl<'a> LineRows<'a> {
    pub(super) fn new(graph: &'a CommitGraph, facts: &'a Facts) -> Self {
        Self {
            graph,
            facts,
            appended: BitSet::new(graph.named()),
            keys: vec![0; graph.named()],
            other: HashMap::new(),
            restored: Vec::new(),
            names: HashMap::new(),
            named: Vec::new(),
            next: 0,
            is_known: false,
            last: None,
            folding: None,
            undo: Vec::new(),
            branchings: Vec::new(),
        }
    }

    /// Starts at a commit whose parent does not exist or is unreadable. The loaded rows are those
    /// of `before`, the commits that were folded since the last such start.
    pub(super) fn begin(&mut self, is_root: bool, before: &[u32]) {
        let restored = std::mem::take(&mut self.restored);
        // Only numbers that were set: clearing the whole set for every root would be quadratic in a
        // repository with many unrelated histories.
        before.iter().chain(&restored).for_each(|number| self.appended.remove(*number));
        // Rows of finished branches were undone, except for those of the last branch.
        self.other.clear();
        self.names.clear();
        self.named.clear();
        self.undo.clear();
        self.branchings.clear();
        (self.next, self.is_known) = (0, is_root);
    }

    /// Restores the rows at a folded commit, which the next commit continues. `is_last` means that
    /// no further commit continues it.
    pub(super) fn resume(&mut self, commit: u32, is_last: bool) {
        let at = self.branchings.last().filter(|branching| branching.commit == commit);
        let Some(&Branching { undo, next, is_known, .. }) = at else {
            // In fold order, only a commit with several continuations can be followed by an
            // unrelated commit.
            self.is_known &= self.last == Some(commit);
            return;
        };
        while self.undo.len() > undo
            && let Some((number, row)) = self.undo.pop()
        {
            self.set(number, row);
        }
        (self.next, self.is_known) = (next, is_known);
        if is_last {
            self.branchings.pop();
        }
    }

    /// Folds a plain append.
    pub(super) fn append(&mut self, number: u32) -> Result<(), InvalidChange> {
        let (id, facts) = (self.graph.id(number), self.facts.append(self.graph, number));
        let (Some(id), Some(facts)) = (id, facts) else {
            self.lose();
            return Ok(());
        };
        if !self.is_known {
            return Ok(());
        }
        let row = RowFields {
            key: self.next,
            version: CommitRef::This,
            mark: facts.is_marked.then_some(CommitRef::This),
            answers: facts.answers,
        };
        self.folding = Some(number);
        let folded = fold_change(self, id, 0, &Change::Add { slot: CommitRef::This, row });
        self.folding = None;
        self.is_known = folded.is_ok();
        folded
    }

    /// Folds any commit.
    pub(super) fn fold(
        &mut self,
        commit: &Commit,
        changes: &[Change],
    ) -> Result<(), InvalidChange> {
        if !self.is_known {
            return Ok(());
        }
        let folded = fold_rows(self, commit, changes);
        self.is_known = folded.is_ok();
        folded
    }

    /// Marks the rows as unknown until the next branch.
    pub(super) fn lose(&mut self) {
        self.is_known = false;
    }

    /// Records a folded commit and its number of children.
    pub(super) fn folded(&mut self, commit: u32, continuations: u32) {
        self.last = Some(commit);
        if continuations > 1 {
            let (undo, next, is_known) = (self.undo.len(), self.next, self.is_known);
            self.branchings.push(Branching { commit, undo, next, is_known });
        } else if self.branchings.is_empty() {
            self.undo.clear();
        }
    }

    fn find(&self, id: CommitId) -> Option<u32> {
        self.graph.find(id).or_else(|| self.names.get(&id).copied())
    }

    fn number(&mut self, id: CommitId) -> u32 {
        if let Some(number) = self.find(id) {
            return number;
        }
        // More names than numbers would not fit into memory.
        let number = u32::try_from(self.graph.named() + self.named.len()).unwrap_or(NONE);
        self.names.insert(id, number);
        self.named.push(id);
        number
    }

    fn id(&self, number: u32) -> Option<CommitId> {
        let beyond = (number as usize).checked_sub(self.graph.named());
        beyond.map_or_else(|| self.graph.id(number), |place| self.named.get(place).copied())
    }

    fn at(&self, number: u32) -> PriorRow {
        if self.appended.contains(number) {
            PriorRow::Appended(self.keys.get(number as usize).copied().unwrap_or(NONE))
        } else {
            self.other.get(&number).copied().map_or(PriorRow::None, PriorRow::Other)
        }
    }

    fn set(&mut self, number: u32, row: PriorRow) {
        self.other.remove(&number);
        self.appended.remove(number);
        match row {
            PriorRow::None => {}
            PriorRow::Other(row) => drop(self.other.insert(number, row)),
            PriorRow::Appended(key) => {
                if let Some(slot) = self.keys.get_mut(number as usize) {
                    *slot = key;
                    self.appended.insert(number);
                }
            }
        }
    }

    fn change(&mut self, number: u32, row: PriorRow) {
        if !self.branchings.is_empty() {
            self.undo.push((number, self.at(number)));
        }
        self.set(number, row);
    }

    /// Returns the key of a row that is unchanged since its append.
    fn appended_key(&self, number: u32, row: &Row) -> Option<u32> {
        let facts = self.facts.append(self.graph, number)?;
        let is_so = row.version == row.slot
            && row.mark == facts.is_marked.then_some(row.slot)
            && row.answers == facts.answers;
        u32::try_from(row.key).ok().filter(|_| is_so)
    }
}

impl FoldRows for LineRows<'_> {
    fn row(&self, slot: CommitId) -> Option<Row> {
        let number = self.find(slot)?;
        match self.at(number) {
            PriorRow::None => None,
            PriorRow::Appended(key) => {
                let facts = self.facts.append(self.graph, number)?;
                let (key, answers) = (key.into(), facts.answers);
                Some(Row {
                    slot,
                    key,
                    version: slot,
                    mark: facts.is_marked.then_some(slot),
                    answers,
                })
            }
            PriorRow::Other(row) => Some(Row {
                slot,
                key: row.key,
                version: self.id(row.version)?,
                mark: self.id(row.mark),
                answers: self.id(row.call).map(|slot| CallRef { slot, index: row.index }),
            }),
        }
    }

    fn next_key(&self) -> u64 {
        self.next
    }

    fn put_row(&mut self, row: Row) {
        self.next = self.next.max(row.key.saturating_add(1));
        let number = self.number(row.slot);
        let row = match self.appended_key(number, &row) {
            Some(key) => {
                // A revert may add the row of a commit that is not in the part that `begin` clears.
                if self.folding != Some(number) {
                    self.restored.push(number);
                }
                PriorRow::Appended(key)
            }
            None => PriorRow::Other(OtherRow {
                key: row.key,
                version: self.number(row.version),
                mark: row.mark.map_or(NONE, |mark| self.number(mark)),
                call: row.answers.map_or(NONE, |call| self.number(call.slot)),
                index: row.answers.map_or(0, |call| call.index),
            }),
        };
        self.change(number, row);
    }

    fn remove_row(&mut self, slot: CommitId) {
        if let Some(number) = self.find(slot) {
            self.change(number, PriorRow::None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use proptest::sample::Index;
    use tract_compile::{View, fold};
    use tract_core::{
        AuthorKind, Blob, Changes, CommitRecord, Kind, Op, Priority, RepoName, Store, block_on,
    };
    use tract_testkit::fixtures::batch;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Append {
            is_marked: bool,
            answers: Option<Index>,
        },
        /// A row under the name of another commit.
        AppendAs(Index),
        Edit(Index),
        Mark(Index),
        Remove(Index),
        /// The row of another commit as its append made it there, or with a version of its own.
        Add(Index, bool),
    }

    fn act() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (any::<bool>(), any::<Option<Index>>())
                .prop_map(|(is_marked, answers)| Step::Append { is_marked, answers }),
            1 => any::<Index>().prop_map(Step::AppendAs),
            2 => any::<Index>().prop_map(Step::Edit),
            1 => any::<Index>().prop_map(Step::Mark),
            3 => any::<Index>().prop_map(Step::Remove),
            3 => any::<(Index, bool)>().prop_map(|(at, own)| Step::Add(at, own)),
        ]
    }

    /// A commit, its changes, and the view that it leads to, if it is valid.
    type GeneratedCommit = (Commit, Vec<Change>, Option<View>);

    fn made(
        made: &[GeneratedCommit],
        number: usize,
        parent: Option<&GeneratedCommit>,
        act: &Step,
        blob: &Blob,
    ) -> GeneratedCommit {
        let view = parent.map_or(Some(View::empty()), |(_, _, view)| view.clone());
        let here = view.clone().unwrap_or_default();
        // Usually an existing row; otherwise a commit without a row, or an unknown id.
        let row = |at: &Index| here.rows().nth(at.index(here.len().max(1))).copied();
        let any = |at: &Index| match made {
            [] => CommitId::from_bytes([number as u8; 32]),
            made => made[at.index(made.len())].0.id(),
        };
        let slot = |at: &Index| row(at).map_or_else(|| any(at), |row| row.slot);
        let (mut op, mut changes) =
            (Op::Revert { targets: Vec::new(), cascade: false }, Vec::new());
        match act {
            Step::Append { is_marked, answers } => {
                let answers = answers.map(|at| CallRef { slot: any(&at), index: 1 });
                let priority = is_marked.then_some(Priority::Pinned);
                op = Op::Append { slot: None, answers, priority, retention: None };
            }
            Step::AppendAs(at) => {
                let slot = Some(any(at));
                op = Op::Append { slot, answers: None, priority: None, retention: None };
            }
            Step::Edit(at) => changes.push(Change::Version {
                slot: slot(at).into(),
                from: row(at).map_or(CommitRef::This, |row| row.version.into()),
                to: CommitRef::This,
            }),
            Step::Mark(at) => changes.push(Change::Mark {
                slot: slot(at).into(),
                from: row(at).and_then(|row| row.mark).map(CommitRef::Id),
                to: Some(CommitRef::This),
            }),
            Step::Remove(at) => changes.extend(
                row(at).map(|row| Change::Remove { slot: row.slot.into(), row: row.fields() }),
            ),
            Step::Add(at, is_own) => {
                let there = made.get(at.index(made.len().max(1)));
                let there = there.and_then(|(commit, _, view)| {
                    view.as_ref().and_then(|view| view.get(commit.id())).copied()
                });
                changes.extend(there.map(|row| {
                    let own = if *is_own { CommitRef::This } else { row.version.into() };
                    let fields = RowFields { version: own, ..row.fields() };
                    Change::Add { slot: row.slot.into(), row: fields }
                }));
            }
        }
        let mut record = CommitRecord::new(op, AuthorKind::User);
        record.parents.extend(parent.map(|(commit, ..)| commit.id()));
        record.message = Some(number.to_string());
        (record.content, record.kind) = (Some(blob.id()), Some(Kind::User));
        record.changes = Changes::List(changes.clone());
        let commit = Commit::seal(record).unwrap();
        let view = view.and_then(|view| fold(&view, &commit, &changes).ok());
        (commit, changes, view)
    }

    proptest! {
        #[test]
        fn rows_in_few_bytes_are_the_rows_of_the_view(
            acts in prop::collection::vec((any::<Option<Index>>(), any::<bool>(), act()), 1..60),
        ) {
            let blob = Blob::seal("\"text\"");
            let mut all: Vec<GeneratedCommit> = Vec::new();
            for (number, (branch, is_root, act)) in acts.iter().enumerate() {
                let parent = match (branch, is_root) {
                    // Most commits continue the one before.
                    (None, _) | (_, false) => all.last(),
                    (Some(at), true) => all.get(at.index(all.len() + 1)),
                };
                let next = made(&all, number, parent, act, &blob);
                all.push(next);
            }
            let (store, repo) = (tract_kv::memory(), RepoName::default());
            let mut batch = batch("fill");
            batch.blobs = vec![blob];
            batch.commits = all.iter().map(|(commit, ..)| commit.clone()).collect();
            let _ = block_on(store.apply(&repo, batch)).unwrap();

            let (mut graph, mut facts) = (CommitGraph::of_first_parents(), Facts::default());
            for (commit, ..) in all.iter().rev() {
                let mut reading = graph.begin(commit.id()).unwrap();
                loop {
                    let page = block_on(graph.page(&store, &repo, &mut reading)).unwrap();
                    if page.is_empty() {
                        break;
                    }
                    for reached in page {
                        facts.note(&mut graph, reached.number, &reached.commit, true).unwrap();
                    }
                }
            }
            let made: HashMap<u32, &GeneratedCommit> =
                all.iter().map(|made| (graph.find(made.0.id()).unwrap(), made)).collect();
            let mut order = graph.fold_order();
            let numbers = std::mem::take(&mut order.numbers);
            prop_assert_eq!(numbers.len(), all.len());
            let (mut rows, mut begun) = (LineRows::new(&graph, &facts), 0);
            for (place, number) in numbers.iter().enumerate() {
                match graph.parent(*number) {
                    None => {
                        rows.begin(true, &numbers[begun..place]);
                        begun = place;
                    }
                    Some(parent) => {
                        let is_last = order.continued_once(parent) == 0;
                        rows.resume(parent, is_last);
                    }
                }
                let (commit, changes, view) = made[number];
                let _ = match facts.is_append(*number) {
                    true => rows.append(*number),
                    false => rows.fold(commit, changes),
                };
                rows.folded(*number, order.continuations(*number));
                prop_assert_eq!(rows.is_known, view.is_some());
                let Some(view) = view else { continue };
                prop_assert_eq!(rows.next, view.next());
                for (commit, ..) in &all {
                    prop_assert_eq!(rows.row(commit.id()), view.get(commit.id()).copied());
                }
            }
        }
    }
}
