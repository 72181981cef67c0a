//! The backward fold: determines which versions of messages the contexts of heads show, newest
//! first.
//!
//! The last change of a message wins. So when a walk from the heads reaches the commit that added a
//! message, it has seen all changes that matter, and knows whether and in which version the message
//! is a row of the view. State is kept only for messages that a later commit touched, until the
//! commit that added them is reached: plain messages take no memory.
//!
//! Heads are numbered so that those that lead to a commit over first parents form a range.

use std::hash::Hash;
use std::ops::Range;

use tract_compile::{IdMap, appended};
use tract_core::{Change, Commit, CommitId, CommitRef};

/// A row of a view: its version, its mark, and the heads whose view contains it. `K` identifies
/// commits, `M` marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRow<K = CommitId, M = K> {
    pub(crate) slot: K,
    pub(crate) version: K,
    pub(crate) mark: Option<M>,
    pub(crate) heads: Range<u32>,
}

/// A change of the row of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowChange<K = CommitId, M = K> {
    Add { version: K, mark: Option<M> },
    Remove,
    Version(K),
    Mark(Option<M>),
}

/// The fields of a row that later commits have determined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Decided<K, M> {
    /// Earlier changes have no effect: the row was removed or already reported.
    #[default]
    All,
    /// It is a row, with these fields; `None` for a field that no visited commit determines.
    Fields { version: Option<K>, mark: Option<Option<M>> },
}

/// The decisions about a message, by range of heads.
type Decisions<K, M> = Vec<(Range<u32>, Decided<K, M>)>;

/// A fold from the heads back to the root. The ranges of one message are disjoint and in order.
#[derive(Debug)]
pub(crate) struct BackwardFold<K = CommitId, M = K> {
    slots: IdMap<K, Decisions<K, M>>,
}

impl<K, M> Default for BackwardFold<K, M> {
    fn default() -> Self {
        Self { slots: IdMap::default() }
    }
}

impl BackwardFold {
    /// Processes a commit that `heads` lead to, and reports the rows that it adds to their views.
    /// All commits that continue it must have been processed before.
    pub(crate) fn visit(
        &mut self,
        commit: &Commit,
        changes: &[Change],
        heads: &Range<u32>,
        mut found: impl FnMut(FoundRow),
    ) {
        // The view is used only for the key of an append, which does not matter here.
        let appended = appended(&tract_compile::View::empty(), commit);
        for change in changes.iter().rev().chain(&appended) {
            let id = |this: CommitRef| this.resolve(commit.id());
            let what = match *change {
                Change::Add { row, .. } => {
                    RowChange::Add { version: id(row.version), mark: row.mark.map(id) }
                }
                Change::Remove { .. } => RowChange::Remove,
                Change::Version { to, .. } => RowChange::Version(id(to)),
                Change::Mark { to, .. } => RowChange::Mark(to.map(id)),
            };
            self.change(commit.id(), id(change.slot()), what, heads, &mut found);
        }
    }
}

impl<K: Copy + Eq + Hash, M: Copy + Eq> BackwardFold<K, M> {
    /// Processes one change of a commit.
    pub(crate) fn change(
        &mut self,
        commit: K,
        slot: K,
        change: RowChange<K, M>,
        heads: &Range<u32>,
        found: &mut impl FnMut(FoundRow<K, M>),
    ) {
        let mut decide = |heads: Range<u32>, before: Option<Decided<K, M>>| match (change, before) {
            (_, Some(Decided::All)) | (RowChange::Remove, None) => Decided::All,
            // A later commit added it again, or the history is inconsistent.
            (RowChange::Remove, Some(Decided::Fields { .. })) => Decided::All,
            (RowChange::Add { version: added, mark: with }, before) => {
                let (version, mark) = match before {
                    Some(Decided::Fields { version, mark }) => (version, mark),
                    Some(Decided::All) | None => (None, None),
                };
                let (version, mark) = (version.unwrap_or(added), mark.unwrap_or(with));
                found(FoundRow { slot, version, mark, heads });
                Decided::All
            }
            (RowChange::Version(to), None) => Decided::Fields { version: Some(to), mark: None },
            (RowChange::Version(to), Some(Decided::Fields { version, mark })) => {
                Decided::Fields { version: version.or(Some(to)), mark }
            }
            (RowChange::Mark(to), None) => Decided::Fields { version: None, mark: Some(to) },
            (RowChange::Mark(to), Some(Decided::Fields { version, mark })) => {
                Decided::Fields { version, mark: mark.or(Some(to)) }
            }
        };
        // No earlier commit can refer to a message before the commit that adds it, so its state is
        // dropped.
        let is_first = slot == commit;
        let Some(known) = self.slots.remove(&slot) else {
            let decided = decide(heads.clone(), None);
            if !is_first {
                self.slots.insert(slot, vec![(heads.clone(), decided)]);
            }
            return;
        };
        let mut after: Vec<(Range<u32>, Decided<K, M>)> = Vec::with_capacity(known.len() + 1);
        // Do not merge with the decisions of other branches: commits of those heads are still to be
        // processed.
        let mut keep = |range: Range<u32>, decided: Decided<K, M>| match after.last_mut() {
            Some((last, same))
                if last.end == range.start
                    && last.start >= heads.start
                    && range.end <= heads.end
                    && *same == decided =>
            {
                last.end = range.end;
            }
            Some(_) | None => after.push((range, decided)),
        };
        let mut at = heads.start;
        for (range, before) in known {
            if range.end <= heads.start || range.start >= heads.end {
                // A branch that does not lead to this commit.
                if range.start >= heads.end && at < heads.end {
                    let rest = at..heads.end;
                    at = heads.end;
                    let decided = decide(rest.clone(), None);
                    if !is_first {
                        keep(rest, decided);
                    }
                }
                keep(range, before);
                continue;
            }
            if at < range.start {
                let decided = decide(at..range.start, None);
                if !is_first {
                    keep(at..range.start, decided);
                }
            }
            at = range.end;
            let decided = decide(range.clone(), Some(before));
            if !is_first {
                keep(range, decided);
            }
        }
        if at < heads.end {
            let decided = decide(at..heads.end, None);
            if !is_first {
                keep(at..heads.end, decided);
            }
        }
        if !after.is_empty() {
            self.slots.insert(slot, after);
        }
    }

    /// Returns the messages for which a decision is kept: those that a commit other than the one
    /// that added them changed, and that were not yet reached for all heads.
    pub(crate) fn touched(&self) -> impl Iterator<Item = K> + '_ {
        self.slots.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use tract_core::{AuthorKind, CommitRecord, Op};

    use super::*;

    fn append(parent: Option<CommitId>, n: usize) -> Commit {
        let mut record = CommitRecord::new(Op::append(), AuthorKind::User);
        record.parents.extend(parent);
        record.kind = Some(tract_core::Kind::User);
        record.content = Some(tract_core::Blob::seal(format!("\"{n}\"")).id());
        Commit::seal(record).expect("a record")
    }

    fn edit(parent: CommitId, slot: CommitId) -> Commit {
        let mut record = CommitRecord::new(Op::Edit { target: slot }, AuthorKind::User);
        record.parents.push(parent);
        record.kind = Some(tract_core::Kind::User);
        record.content = Some(tract_core::Blob::seal("\"edited\"").id());
        let (slot, to) = (CommitRef::Id(slot), CommitRef::This);
        record.changes = tract_core::Changes::List(vec![Change::Version { slot, from: slot, to }]);
        Commit::seal(record).expect("a record")
    }

    #[test]
    fn memory_is_kept_for_messages_that_were_touched_until_they_are_reached() {
        let mut commits = Vec::new();
        for n in 0..1000 {
            commits.push(append(commits.last().map(Commit::id), n));
        }
        let edited = commits[10].id();
        let edit = edit(commits[999].id(), edited);
        let changes = match &edit.changes {
            tract_core::Changes::List(list) => list.clone(),
            tract_core::Changes::Blob(_) => Vec::new(),
        };
        let mut fold = BackwardFold::default();
        let mut found = Vec::new();
        fold.visit(&edit, &changes, &(0..1), |row| found.push(row));
        for commit in commits.iter().rev() {
            assert!(fold.slots.len() <= 1, "{} messages are kept", fold.slots.len());
            fold.visit(commit, &[], &(0..1), |row| found.push(row));
        }
        assert!(fold.slots.is_empty());
        assert_eq!(found.len(), 1000);
        assert_eq!((found[989].slot, found[989].version), (edited, edit.id()));
    }

    #[test]
    fn many_branches_that_end_at_one_commit_cost_one_entry() {
        let first = append(None, 0);
        let mut fold = BackwardFold::default();
        for head in 0..100 {
            let row = tract_core::RowFields {
                key: 0,
                version: first.id().into(),
                mark: None,
                answers: None,
            };
            let change = Change::Remove { slot: first.id().into(), row };
            fold.visit(&edit(first.id(), first.id()), &[change], &(head..head + 1), |_| ());
        }
        let second = edit(first.id(), first.id());
        let mark = Change::Mark { slot: first.id().into(), from: None, to: None };
        fold.visit(&second, &[mark], &(0..100), |_| ());
        assert_eq!(fold.slots.values().map(Vec::len).collect::<Vec<_>>(), [1]);
        fold.visit(&first, &[], &(0..100), |row| panic!("{row:?} was removed"));
    }
}
