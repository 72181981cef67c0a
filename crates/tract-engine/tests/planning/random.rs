//! Laws over random histories: every request that is not refused keeps them, in any order.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use tract_core::{Change, CommitId, Draft, Op, Priority, StoreExt as _, block_on};
use tract_engine::plan::{Request, Selection};
use tract_engine::{Error, MergeOptions, Merged};

use crate::fixture::{Fixture, histories, plant, tool};
use crate::ranked::{Ranked, check_ranked};
use crate::search::{check_blame, check_grep};

/// One thing to do; numbers choose among what there is then.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    User,
    /// A message with so many calls; ids come from a small stock, so they come again.
    Call(usize, usize),
    Result(usize, bool),
    /// A result that an import found without a call of its own.
    Orphan(usize),
    Edit(usize),
    Mark(usize, Priority),
    /// A summary of so many rows more than one.
    Compress(usize, usize),
    Revert(usize, bool),
    Tools(usize),
    Fork(usize),
    Switch(usize),
    Merge(usize),
    Undo,
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    let any = 0usize..1000;
    let priority =
        prop_oneof![Just(Priority::Skip), Just(Priority::Normal), Just(Priority::Pinned),];
    prop_oneof![
        6 => Just(Action::User),
        4 => (1usize..4, 0usize..4).prop_map(|(count, id)| Action::Call(count, id)),
        5 => (0usize..6, prop::bool::ANY).prop_map(|(id, failed)| Action::Result(id, failed)),
        1 => (0usize..6).prop_map(Action::Orphan),
        4 => any.clone().prop_map(Action::Edit),
        2 => (any.clone(), priority).prop_map(|(n, priority)| Action::Mark(n, priority)),
        4 => (any.clone(), 0usize..12).prop_map(|(from, more)| Action::Compress(from, more)),
        5 => (any.clone(), prop::bool::ANY).prop_map(|(n, cascade)| Action::Revert(n, cascade)),
        1 => any.clone().prop_map(Action::Tools),
        2 => any.clone().prop_map(Action::Fork),
        3 => any.clone().prop_map(Action::Switch),
        4 => any.prop_map(Action::Merge),
        1 => Just(Action::Undo),
    ]
}

/// The state of a run: the branches, and all commits ever made.
pub(crate) struct Run {
    desks: Vec<Fixture>,
    at: usize,
    pub(crate) commits: Vec<CommitId>,
    texts: usize,
}

fn choose<T: Copy>(of: &[T], n: usize) -> Option<T> {
    of.get(n % of.len().max(1)).copied()
}

impl Run {
    pub(crate) fn on(desk: Fixture) -> Self {
        let first = desk.user("first");
        Self { desks: vec![desk], at: 0, commits: vec![first], texts: 0 }
    }

    pub(crate) fn desk(&self) -> &Fixture {
        &self.desks[self.at]
    }

    /// Does it; says whether anything was written.
    pub(crate) fn act(&mut self, action: &Action) -> bool {
        self.texts += 1;
        let text = format!("text {}", self.texts);
        let rows: Vec<CommitId> =
            self.desk().history().view().rows().map(|row| row.version).collect();
        let request = match action {
            Action::User => Draft::user(text).into(),
            Action::Call(count, id) => {
                let names = ["f", "g", "h"].into_iter().take(*count).enumerate();
                let call = |draft: Draft, (n, name)| draft.call(format!("c{}", id + n), name, "{}");
                names.fold(Draft::assistant(text), call).into()
            }
            Action::Result(id, failed) => {
                Draft::tool_result(format!("c{id}"), text).is_error(*failed).into()
            }
            Action::Orphan(id) => {
                Request::Import(Draft::tool_result(format!("c{id}"), text).tool_name("odd"))
            }
            Action::Edit(n) => match choose(&rows, *n) {
                Some(target) => Request::edit_text(target, text),
                None => return false,
            },
            Action::Mark(n, priority) => match choose(&rows, *n) {
                Some(target) => Request::annotate([target], *priority),
                None => return false,
            },
            Action::Compress(from, more) => {
                let from = from % rows.len().max(1);
                let to = rows.get(from + more).or(rows.last()).copied();
                Request::compress(Selection::Range { from: rows.get(from).copied(), to }, text)
            }
            Action::Revert(n, cascade) => Request::Revert {
                targets: choose(&self.commits, *n).into_iter().collect(),
                cascade: *cascade,
                details: Default::default(),
            },
            Action::Tools(n) => Request::tools([tool("t", &(n % 3).to_string())]),
            Action::Fork(n) => {
                let Some(head) = self.desk().head() else { return false };
                let history =
                    block_on(self.desk().repo.store().walk_all(self.desk().repo.name(), head));
                let history: Vec<CommitId> =
                    history.unwrap().iter().map(|commit| commit.id()).collect();
                let at = choose(&history, *n).unwrap();
                let name = format!("b{}", self.desks.len());
                self.desks.push(self.desk().fork(&name, at));
                self.at = self.desks.len() - 1;
                return true;
            }
            Action::Switch(n) => {
                self.at = n % self.desks.len();
                return false;
            }
            Action::Merge(n) => return self.merge(n % self.desks.len()),
            Action::Undo => return block_on(self.desk().repo.undo(&self.desk().branch)).is_ok(),
        };
        self.request(request)
    }

    fn request(&mut self, request: Request) -> bool {
        let desk = self.desk();
        let (before, tools, head) = (desk.view_id(), desk.history().toolset(), desk.head());
        match desk.try_do(request) {
            Ok(commit) => {
                self.commits.push(commit.id());
                self.revert_and_repeat(commit.id(), before, tools);
                true
            }
            Err(error) => self.refused(&error, head),
        }
    }

    /// A refusal writes nothing, and nothing else goes wrong.
    fn refused(&self, error: &Error, head: Option<CommitId>) -> bool {
        assert!(matches!(error, Error::Refused(_)), "{error}");
        assert_eq!(self.desk().head(), head);
        false
    }

    /// Reverting the head gives its parent's rows and tools; reverting that gives them back.
    fn revert_and_repeat(
        &self,
        done: CommitId,
        before: tract_core::ViewId,
        tools: Option<tract_core::ToolsetId>,
    ) {
        let trial = self.desk().on("trial");
        trial.force(done);
        let (after, tools_after) = (trial.view_id(), trial.history().toolset());
        // A commit that only set the tools that were in force already is not reverted.
        let is_unchanged = before == after && tools == tools_after;
        let revert = |target| match trial.try_do(Request::revert([target])) {
            Ok(_) => trial.head(),
            Err(refused) => {
                assert_eq!((refused.code(), is_unchanged), ("nothing_to_revert", true));
                None
            }
        };
        let Some(back) = revert(done) else { return };
        assert_eq!((trial.view_id(), trial.history().toolset()), (before, tools));
        if revert(back).is_none() {
            return;
        }
        assert_eq!((trial.view_id(), trial.history().toolset()), (after, tools_after));
    }

    fn merge(&mut self, other: usize) -> bool {
        let (desk, Some(source)) = (self.desk(), self.desks[other].head()) else { return false };
        let (before, head) = (desk.view_id(), desk.head());
        match block_on(desk.repo.merge(&desk.branch, source, &MergeOptions::default())) {
            Ok(Merged::Commit(commit)) => {
                // Merge then revert is ours.
                let trial = desk.on("trial");
                trial.force(commit.id());
                trial.revert(&[commit.id()]);
                assert_eq!(trial.view_id(), before);
                self.commits.push(commit.id());
                true
            }
            Ok(_) => false,
            Err(error) => self.refused(&error, head),
        }
    }

    /// No row lies under a summary that is a row, nothing lies under two; no answer remains without
    /// its call; warm is cold; folding from the root gives the same rows.
    fn check(&self) {
        let desk = self.desk();
        let Some(head) = desk.head() else { return };
        let history = desk.history();
        let slots: HashSet<CommitId> = history.view().rows().map(|row| row.slot).collect();
        let mut under: HashMap<CommitId, CommitId> = HashMap::new();
        for slot in &slots {
            for covered in self.covered(*slot) {
                assert!(!slots.contains(&covered), "{covered} is shown next to its summary {slot}");
                let other = under.insert(covered, *slot);
                assert_eq!(other, None, "{covered} lies under two");
            }
        }
        let mut answered = HashSet::new();
        for row in history.view().rows() {
            if let Some(call) = row.answers {
                assert!(slots.contains(&call.slot), "an answer without its call");
                assert!(answered.insert(call), "a call with two answers");
            }
        }
        let cold = desk.cold();
        assert_eq!(cold.view_id(), desk.view_id());
        let mut view = tract_compile::View::empty();
        let commits = block_on(desk.repo.store().walk_all(desk.repo.name(), head)).unwrap();
        for commit in commits.iter().rev() {
            let changes = block_on(desk.repo.changes(commit)).unwrap();
            view = tract_compile::fold(&view, commit, &changes).unwrap();
        }
        assert_eq!(view, *history.view());
    }

    fn covered(&self, slot: CommitId) -> Vec<CommitId> {
        let repo = &self.desk().repo;
        let Some(commit) = block_on(repo.commit(slot)).unwrap() else { return Vec::new() };
        if !matches!(commit.op, Op::Compress { .. }) {
            return Vec::new();
        }
        let mut out = Vec::new();
        for change in block_on(repo.changes(&commit)).unwrap() {
            if let Change::Remove { slot: removed, .. } = change {
                let removed = removed.resolve(slot);
                out.push(removed);
                out.extend(self.covered(removed));
            }
        }
        out
    }
}

proptest! {
    #![proptest_config(histories(96))]

    #[test]
    fn cover_rule_after_any_sequence(actions in prop::collection::vec(action(), 1..60)) {
        let mut run = Run::on(Fixture::new());
        for action in &actions {
            if run.act(action) {
                run.check();
            }
        }
    }

    #[test]
    fn search_and_blame_agree_with_the_contexts(
        actions in prop::collection::vec(action(), 1..60),
        count in 1usize..6,
    ) {
        let mut run = Run::on(Fixture::new());
        for action in &actions {
            run.act(action);
        }
        let heads: Vec<CommitId> = run.desks.iter().rev().filter_map(Fixture::head).collect();
        let repo = &run.desk().repo;
        check_grep(repo, &heads);
        check_grep(repo, heads.get(..count).unwrap_or(&heads));
        for head in heads {
            check_grep(repo, &[head]);
            check_blame(repo, head);
        }
    }

    #[test]
    fn a_search_ranks_as_a_scan_of_all_messages(
        actions in prop::collection::vec((action(), 0usize..6, 1usize..4), 1..60),
        store_after in prop_oneof![Just(1usize), Just(7), Just(512)],
        dropped in 0usize..200,
    ) {
        let mut run = Run::on(Fixture::new());
        for (number, (action, search, hours)) in actions.iter().enumerate() {
            run.act(action);
            run.desk().clock.advance(std::time::Duration::from_secs(3600 * *hours as u64));
            let repo = &run.desk().repo;
            if number == dropped {
                block_on(tract_engine::forget_search_index(repo)).unwrap();
            }
            let ranked = Ranked { repo, store_after, query: "text f 7 text 12 first" };
            let heads: Vec<CommitId> = run.desks.iter().rev().filter_map(Fixture::head).collect();
            match search {
                0 => check_ranked(&ranked, &heads, false),
                1 => check_ranked(&ranked, heads.get(..1).unwrap_or_default(), false),
                2 => check_ranked(&ranked, &heads, true),
                _ => {}
            }
        }
    }
}

#[test]
fn the_checks_see_a_planted_fault() {
    // A summary whose source is put back next to it, by a record that no planner would write.
    let desk = Fixture::new();
    let a = desk.user("a");
    let summary = desk.compress(&[a], "s");
    let mut record = tract_core::CommitRecord::new(
        Op::Merge { sources: Vec::new() },
        tract_core::AuthorKind::User,
    );
    record.parents = vec![summary];
    let row = tract_core::RowFields { key: 1, version: a.into(), mark: None, answers: None };
    record.changes = tract_core::Changes::List(vec![Change::Add { slot: a.into(), row }]);
    let bad = tract_core::Commit::seal(record).unwrap();
    plant(&desk.repo, |batch| batch.commits = vec![bad.clone()]);
    desk.force(bad.id());
    let run = Run { desks: vec![desk], at: 0, commits: Vec::new(), texts: 0 };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.check()));
    assert!(caught.is_err(), "the check must fail here");
}
