//! Merges, picks and rebases of random histories of several branches, against a model that knows
//! lists of texts and nothing of views, keys or changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tract_core::{CommitId, Priority, RefName, RefTarget, Store, StoreExt as _, block_on};
use tract_engine::plan::{ConflictKind, MergeConflict, Resolution};
use tract_engine::{Error, MergeOptions, MergeProgress, Merged, Rebase, Refusal, RepoOptions};

use crate::fixture::{self, Fixture};

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Say,
    Edit(usize),
    Mark(usize, bool),
    Fork(usize),
    Switch(usize),
    Rebase(usize),
    Pick(usize, usize),
    Merge(usize, usize),
}

fn action() -> impl Strategy<Value = Action> {
    let any = 0usize..1000;
    prop_oneof![
        5 => Just(Action::Say),
        4 => any.clone().prop_map(Action::Edit),
        3 => (any.clone(), prop::bool::ANY).prop_map(|(n, skip)| Action::Mark(n, skip)),
        2 => any.clone().prop_map(Action::Fork),
        3 => any.clone().prop_map(Action::Switch),
        4 => any.clone().prop_map(Action::Rebase),
        4 => (any.clone(), any.clone()).prop_map(|(branch, n)| Action::Pick(branch, n)),
        4 => (any, 0usize..3).prop_map(|(branch, side)| Action::Merge(branch, side)),
    ]
}

/// Histories of several branches.
pub(crate) fn histories() -> impl Strategy<Value = Vec<Action>> {
    prop::collection::vec(action(), 1..40)
}

/// How often a law was held against something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LawCounts {
    pub(crate) refusals: usize,
    pub(crate) empty_rebases: usize,
    pub(crate) rebases_in_two: usize,
    pub(crate) merges_both_ways: usize,
    pub(crate) kept_merges: usize,
}

impl LawCounts {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            refusals: self.refusals + other.refusals,
            empty_rebases: self.empty_rebases + other.empty_rebases,
            rebases_in_two: self.rebases_in_two + other.rebases_in_two,
            merges_both_ways: self.merges_both_ways + other.merges_both_ways,
            kept_merges: self.kept_merges + other.kept_merges,
        }
    }
}

/// Carries out a history on a store, and holds it against the model and the laws after each action.
pub(crate) fn holds_on(store: Arc<dyn Store>, actions: &[Action]) -> LawCounts {
    let mut run = Run::new(store);
    for action in actions {
        run.act(action);
        run.check();
    }
    run.counts
}

/// All refs, and how many objects and moves of refs a store has.
type Stored = (BTreeMap<RefName, RefTarget>, [u64; 4]);

fn stored(desk: &Fixture) -> Stored {
    let (store, name) = (desk.repo.store(), desk.repo.name());
    let refs = block_on(store.list_refs(name, "")).unwrap().into_iter().collect();
    let stats = block_on(store.stats(name)).unwrap();
    (refs, [stats.commits, stats.blobs, stats.toolsets, stats.log_entries])
}

/// What an operation does to a list of messages.
#[derive(Clone, Debug, PartialEq)]
enum Effect {
    Say { slot: CommitId, text: String },
    Edit { slot: CommitId, before: String, after: String },
    Mark { slot: CommitId, before: bool, after: bool },
}

/// An operation; the same one on two branches has one id.
#[derive(Clone, Debug, PartialEq)]
struct ModelOp {
    id: usize,
    parent: usize,
    effect: Effect,
    commit: CommitId,
}

#[derive(Clone, Debug, PartialEq)]
struct ModelMessage {
    slot: CommitId,
    text: String,
    /// The commit that the text is from.
    version: CommitId,
    /// Whether it was said of the message that it is skipped; `None` where nothing was said.
    skip: Option<bool>,
}

fn state(ops: &[ModelOp]) -> Vec<ModelMessage> {
    let mut messages: Vec<ModelMessage> = Vec::new();
    for op in ops {
        match &op.effect {
            Effect::Say { slot, text } => {
                messages.push(ModelMessage {
                    slot: *slot,
                    text: text.clone(),
                    version: op.commit,
                    skip: None,
                });
            }
            Effect::Edit { slot, after, .. } => {
                let message = messages.iter_mut().find(|m| m.slot == *slot).unwrap();
                message.text.clone_from(after);
                message.version = op.commit;
            }
            Effect::Mark { slot, after, .. } => {
                messages.iter_mut().find(|m| m.slot == *slot).unwrap().skip = Some(*after);
            }
        }
    }
    messages
}

fn texts(messages: &[ModelMessage]) -> Vec<String> {
    let shown = messages.iter().filter(|message| message.skip != Some(true));
    shown.map(|message| format!("user: {}", message.text)).collect()
}

struct Run {
    desks: Vec<Fixture>,
    ops: Vec<Vec<ModelOp>>,
    at: usize,
    next: usize,
    counts: LawCounts,
}

impl Run {
    fn new(store: Arc<dyn Store>) -> Self {
        let desk = Fixture::of(store, RepoOptions::default());
        let counts = LawCounts::default();
        let mut run = Self { desks: vec![desk], ops: vec![Vec::new()], at: 0, next: 1, counts };
        run.say();
        run
    }

    fn fresh(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn push(&mut self, effect: Effect, commit: CommitId) {
        let id = self.fresh();
        let parent = self.ops[self.at].last().map_or(0, |op| op.id);
        self.ops[self.at].push(ModelOp { id, parent, effect, commit });
    }

    fn say(&mut self) {
        let text = format!("text {}", self.next);
        let commit = self.desks[self.at].user(&text);
        self.push(Effect::Say { slot: commit, text }, commit);
    }

    fn message(&self, n: usize) -> ModelMessage {
        let messages = state(&self.ops[self.at]);
        messages[n % messages.len()].clone()
    }

    /// Repeats operations on others; `None` where one cannot be repeated.
    fn replay(&mut self, onto: &[ModelOp], ops: &[ModelOp]) -> Option<Vec<ModelOp>> {
        let mut out = onto.to_vec();
        for op in ops {
            let last = out.last().map_or(0, |op| op.id);
            if op.parent == last {
                out.push(op.clone());
                continue;
            }
            let messages = state(&out);
            let here = |slot: &CommitId| messages.iter().find(|message| message.slot == *slot);
            let repeats = match &op.effect {
                Effect::Say { slot, .. } => here(slot).is_none(),
                Effect::Edit { slot, before, after } => match here(slot)?.text.as_str() {
                    text if text == after => false,
                    text if text == before => true,
                    _ => return None,
                },
                Effect::Mark { slot, before, after } => match here(slot)?.skip {
                    Some(skip) if skip == *after => false,
                    skip if skip.unwrap_or(false) == *before => true,
                    _ => return None,
                },
            };
            if repeats {
                let id = self.fresh();
                out.push(ModelOp { id, parent: last, ..op.clone() });
            }
        }
        Some(out)
    }

    /// Takes the commits of the branch that is worked on as those of the model's operations.
    fn align(&mut self) {
        let desk = &self.desks[self.at];
        let head = desk.head().unwrap();
        let commits = block_on(desk.repo.store().walk_all(desk.repo.name(), head)).unwrap();
        let ops = &mut self.ops[self.at];
        assert_eq!(commits.len(), ops.len(), "as many commits as operations");
        for (op, commit) in ops.iter_mut().zip(commits.iter().rev()) {
            op.commit = commit.id();
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Say => self.say(),
            Action::Edit(n) => {
                let message = self.message(*n);
                let after = format!("text {}", self.next);
                let commit = self.desks[self.at].edit(message.slot, &after);
                let (slot, before) = (message.slot, message.text);
                self.push(Effect::Edit { slot, before, after }, commit);
            }
            Action::Mark(n, skip) => {
                let message = self.message(*n);
                let priority = if *skip { Priority::Skip } else { Priority::Normal };
                let commit = self.desks[self.at].mark(message.slot, priority);
                let before = message.skip.unwrap_or(false);
                self.push(Effect::Mark { slot: message.slot, before, after: *skip }, commit);
            }
            Action::Fork(n) => {
                let ops = &self.ops[self.at];
                let kept = ops[..=n % ops.len()].to_vec();
                let name = format!("b{}", self.desks.len());
                let fork = self.desks[self.at].fork(&name, kept.last().unwrap().commit);
                self.desks.push(fork);
                self.ops.push(kept);
                self.at = self.desks.len() - 1;
            }
            Action::Switch(n) => self.at = n % self.desks.len(),
            Action::Rebase(n) => self.rebase(n % self.desks.len()),
            Action::Pick(branch, n) => self.pick(branch % self.desks.len(), *n),
            Action::Merge(branch, side) => self.merge(branch % self.desks.len(), *side),
        }
    }

    fn shared(&self, other: usize) -> usize {
        let pairs = self.ops[self.at].iter().zip(&self.ops[other]);
        pairs.take_while(|(ours, theirs)| ours.id == theirs.id).count()
    }

    fn rebase(&mut self, other: usize) {
        let shared = self.shared(other);
        let own = self.ops[self.at][shared..].to_vec();
        let other_ops = self.ops[other].clone();
        let contains = shared == other_ops.len();
        let expected = match contains {
            true => Some(self.ops[self.at].clone()),
            false => self.replay(&other_ops, &own),
        };
        let desk = &self.desks[self.at];
        let (head, onto) = (desk.head(), self.desks[other].head().unwrap());
        let rebase = Rebase::Onto { onto, plan: None };
        let two = (shared < other_ops.len().saturating_sub(1))
            .then(|| self.rebased_in_two(&other_ops[shared..], own.len()))
            .flatten();
        let desk = &self.desks[self.at];
        let before = stored(desk);
        match (block_on(desk.repo.rebase(&desk.branch, &rebase)), expected) {
            (Ok(rebased), Some(expected)) => {
                if contains || own.is_empty() {
                    assert_eq!(rebased.made, [], "an empty rebase makes no commit");
                    let objects = |stored: &Stored| [stored.1[0], stored.1[1], stored.1[2]];
                    assert_eq!(objects(&stored(desk)), objects(&before), "nor any object");
                    self.counts.empty_rebases += 1;
                }
                if let Some(two) = two.filter(|_| rebased.made.len() == own.len()) {
                    assert_eq!(desk.view_id(), two, "a rebase of a rebase is one rebase");
                    self.counts.rebases_in_two += 1;
                }
                // A rebase of the rebase changes nothing, and makes nothing.
                let view = desk.view_id();
                let again = block_on(desk.repo.rebase(&desk.branch, &rebase)).unwrap();
                assert_eq!((again.made.len(), again.head), (0, rebased.head));
                assert_eq!(desk.view_id(), view);
                self.ops[self.at] = expected;
                self.align();
            }
            (Err(Error::Refused(Refusal::Replay(_))), None) => {
                assert_eq!(self.desks[self.at].head(), head);
                assert_eq!(stored(&self.desks[self.at]), before, "a refusal writes nothing");
                self.counts.refusals += 1;
            }
            (found, expected) => panic!("{found:?}, the model says {expected:?}"),
        }
    }

    /// Rebases onto an earlier commit of the other branch, and that onto the branch; the view, where
    /// every operation is repeated both times.
    fn rebased_in_two(&self, theirs: &[ModelOp], own: usize) -> Option<tract_core::ViewId> {
        let desk = &self.desks[self.at];
        let trial = desk.on("in-two");
        trial.force(desk.head()?);
        for onto in [theirs.get(theirs.len() / 2)?.commit, theirs.last()?.commit] {
            let rebase = Rebase::Onto { onto, plan: None };
            let rebased = block_on(trial.repo.rebase(&trial.branch, &rebase)).ok()?;
            if rebased.made.len() != own {
                return None;
            }
        }
        Some(trial.view_id())
    }

    fn pick(&mut self, other: usize, n: usize) {
        let picked = self.ops[other][n % self.ops[other].len()].clone();
        let ours = self.ops[self.at].clone();
        let expected = self.replay(&ours, std::slice::from_ref(&picked));
        let desk = &self.desks[self.at];
        let (head, before) = (desk.head(), stored(desk));
        let rebase = Rebase::Pick { targets: vec![picked.commit.into()], from: None };
        match (block_on(desk.repo.rebase(&desk.branch, &rebase)), expected) {
            (Ok(_), Some(expected)) if expected != ours => {
                self.ops[self.at] = expected;
                self.align();
                // Merged as well, it shows once.
                self.merge(other, 0);
            }
            (Err(Error::Refused(Refusal::NothingToPick)), Some(expected)) if expected == ours => {
                assert_eq!(self.desks[self.at].head(), head);
            }
            (Err(Error::Refused(Refusal::Replay(_))), None) => {
                assert_eq!(self.desks[self.at].head(), head);
                assert_eq!(stored(&self.desks[self.at]), before, "a refusal writes nothing");
                self.counts.refusals += 1;
            }
            (found, expected) => panic!("{found:?}, the model says {expected:?}"),
        }
    }

    /// Merges on a branch of its own, by a three-way comparison of lists, and reverts that.
    fn merge(&mut self, other: usize, side: usize) {
        let shared = self.shared(other);
        let base = state(&self.ops[other][..shared]);
        let (ours, theirs) = (state(&self.ops[self.at]), state(&self.ops[other]));
        let find = |list: &[ModelMessage], slot| list.iter().find(|m| m.slot == slot).cloned();
        let mut merged = ours.clone();
        let mut behind = Vec::new();
        for their in &theirs {
            let Some(our) = merged.iter_mut().find(|m| m.slot == their.slot) else {
                behind.push(their.clone());
                continue;
            };
            let before = find(&base, their.slot);
            let text = before.as_ref().map(|m| m.text.as_str());
            if our.text != their.text && text != Some(their.text.as_str()) {
                if text == Some(our.text.as_str()) || side == 1 {
                    our.text.clone_from(&their.text);
                } else if side == 2 && their.version != their.slot {
                    behind.push(ModelMessage { skip: None, ..their.clone() });
                }
            }
            let says = |skip: Option<bool>| skip.unwrap_or(false);
            let mark = before.as_ref().map(|m| says(m.skip));
            let differs = says(our.skip) != says(their.skip) && mark != Some(says(their.skip));
            if differs && (mark == Some(says(our.skip)) || side == 1) {
                our.skip = their.skip;
            }
        }
        merged.extend(behind);

        let desk = &self.desks[self.at];
        let (view, head) = (desk.view_id(), desk.head().unwrap());
        let source = self.desks[other].head().unwrap();
        let trial = desk.on("trial");
        trial.force(head);
        let answer = move |conflict: &MergeConflict| {
            Some(match (side, conflict.kind) {
                (1, _) => Resolution::Theirs,
                // The first version of a message has no name of its own.
                (2, ConflictKind::Version) if conflict.theirs != conflict.slot => Resolution::Both,
                _ => Resolution::Ours,
            })
        };
        let options = MergeOptions::default().resolve(answer);
        let done = block_on(trial.repo.merge(&trial.branch, source, &options)).unwrap();
        assert_eq!(trial.shown(), texts(&merged));
        let merged_view = trial.view_id();
        if let Merged::Commit(commit) = done {
            trial.revert(&[commit.id()]);
            assert_eq!(trial.view_id(), view, "a merge, reverted, gives ours");
        }
        self.counts.kept_merges +=
            usize::from(kept_and_resolved(desk, source, answer, merged_view));
        // Both versions of a skipped message are not skipped alike, so that is left out.
        let skipped = ours.iter().chain(&theirs).any(|message| message.skip == Some(true));
        if !skipped && merged_both_ways(desk, head, source) {
            self.counts.merges_both_ways += 1;
        }
    }

    fn check(&self) {
        assert_eq!(self.desks[self.at].shown(), texts(&state(&self.ops[self.at])));
    }
}

/// Keeps a merge and decides it afterwards: the same as merging with these resolutions. Returns
/// whether there was something to decide.
fn kept_and_resolved(
    desk: &Fixture,
    source: CommitId,
    answer: impl Fn(&MergeConflict) -> Option<Resolution> + Send + Sync + 'static,
    expected: tract_core::ViewId,
) -> bool {
    let kept = desk.on("kept");
    let head = desk.head().unwrap();
    kept.force(head);
    let before = stored(&kept).0;
    let done = block_on(kept.repo.merge_or_keep(&kept.branch, source, &MergeOptions::default()));
    let waits = match done.unwrap() {
        MergeProgress::Kept(waits) => *waits,
        other => {
            assert!(matches!(other, MergeProgress::Merged(_)));
            assert_eq!(kept.view_id(), expected);
            return false;
        }
    };
    assert_eq!(kept.head(), Some(head), "a kept merge leaves the branch");
    let done = block_on(kept.repo.resolve_merge(&waits.pending.id, answer)).unwrap();
    assert!(matches!(done, MergeProgress::Merged(Merged::Commit(_))), "{done:?}");
    assert_eq!(kept.view_id(), expected);
    block_on(kept.repo.undo(&kept.branch)).unwrap();
    assert_eq!(
        block_on(kept.repo.kept_merge(&waits.pending.id)).unwrap().conflicts,
        waits.conflicts
    );
    block_on(kept.repo.undo(&kept.branch)).unwrap();
    assert_eq!(stored(&kept).0, before, "two operations, undone");
    true
}

/// Merges each of two heads into the other, keeping both sides of every conflict: the same messages
/// are shown. Returns whether that is defined here.
fn merged_both_ways(desk: &Fixture, one: CommitId, other: CommitId) -> bool {
    let merged = |into: CommitId, source: CommitId| {
        let trial = desk.on("both");
        trial.force(into);
        let options = MergeOptions::default().resolve(|_| Some(Resolution::Both));
        match block_on(trial.repo.merge(&trial.branch, source, &options)) {
            Ok(_) => Some((trial.shown(), trial.view_id())),
            Err(Error::Refused(Refusal::IllegalResolution { .. })) => None,
            Err(error) => panic!("{error}"),
        }
    };
    let (Some(mine), Some(yours)) = (merged(one, other), merged(other, one)) else { return false };
    if mine.0 == yours.0 {
        assert_eq!(mine.1, yours.1, "the same messages in one order are one view");
    }
    let sorted = |mut texts: Vec<String>| {
        texts.sort();
        texts
    };
    assert_eq!(sorted(mine.0), sorted(yours.0), "both ways show the same messages");
    true
}

#[test]
fn merges_picks_and_rebases_are_what_the_model_says() {
    let sum = std::cell::Cell::new(LawCounts::default());
    let result = TestRunner::new(fixture::histories(64)).run(&histories(), |actions| {
        let counts = holds_on(Arc::new(tract_kv::memory()), &actions);
        sum.set(sum.get().plus(counts));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let LawCounts { refusals, empty_rebases, rebases_in_two, merges_both_ways, kept_merges } =
        sum.get();
    println!("{:?}", sum.get());
    for count in [refusals, empty_rebases, rebases_in_two, merges_both_ways, kept_merges] {
        assert!(count > 0, "a law was held against nothing: {:?}", sum.get());
    }
}
