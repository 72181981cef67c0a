//! Undo over random commands of several processes: it reverts one command, whole, or refuses and
//! names who came between.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use tract_core::{
    Applied, Blob, Draft, ManualClock, OperationId, RefName, RefTarget, Store, block_on,
};
use tract_engine::{Repo, RepoOptions, Txn, WriteOptions};
use tract_kv::memory;

use crate::fixture::NOON;

type Refs = BTreeMap<RefName, RefTarget>;
type RefMove = (RefName, Option<RefTarget>, Option<RefTarget>);

const PROCESSES: usize = 3;
const BRANCHES: [&str; 4] = ["main", "a", "b", "c"];

/// One thing that a process does; numbers choose among what there is then.
#[derive(Clone, Debug)]
enum Action {
    /// A command of one write.
    Say,
    /// Begins a command of several writes, or ends it.
    Long,
    /// A write to a branch, within the long command where there is one.
    Write(usize),
    /// A document, within the long command where there is one.
    Document,
    /// One write to two branches, which makes them where they are missing.
    Both(usize, usize),
    /// A branch, and `HEAD` on it, in two writes of one command.
    Fork(usize),
    Checkout(usize),
    Delete(usize),
    /// The process works on another branch from here on.
    Work(usize),
    Undo,
    Redo,
}

fn action() -> impl Strategy<Value = (usize, Action)> {
    let any = 0usize..1000;
    let one = prop_oneof![
        5 => Just(Action::Say),
        3 => Just(Action::Long),
        6 => any.clone().prop_map(Action::Write),
        1 => Just(Action::Document),
        2 => (any.clone(), any.clone()).prop_map(|(one, other)| Action::Both(one, other)),
        2 => any.clone().prop_map(Action::Fork),
        2 => any.clone().prop_map(Action::Checkout),
        1 => any.clone().prop_map(Action::Delete),
        2 => any.prop_map(Action::Work),
        8 => Just(Action::Undo),
        4 => Just(Action::Redo),
    ];
    (0..PROCESSES, one)
}

/// What a write was part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Command,
    Undo(usize),
    Redo(usize),
}

/// One write as the test saw it.
#[derive(Clone, Debug)]
struct Write {
    operation: usize,
    part: Part,
    process: usize,
    /// Where `HEAD` was right before.
    head: Option<RefTarget>,
    moves: Vec<RefMove>,
}

struct Process {
    repo: Repo,
    branch: RefName,
    long: Option<(usize, OperationId)>,
}

struct Repository {
    processes: Vec<Process>,
    writes: Vec<Write>,
    operations: usize,
    texts: usize,
}

impl Repository {
    fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(memory());
        let process = |number: usize| {
            let clock = Arc::new(ManualClock::at_us(NOON));
            let options = RepoOptions::new().clock(clock).who(format!("process-{number}"));
            let repo = Repo::new(store.clone(), options);
            Process { repo, branch: RefName::branch("main").unwrap(), long: None }
        };
        let processes: Vec<Process> = (0..PROCESSES).map(process).collect();
        block_on(processes[0].repo.init()).unwrap();
        Self { processes, writes: Vec::new(), operations: 0, texts: 0 }
    }

    fn refs(&self) -> Refs {
        let repo = &self.processes[0].repo;
        block_on(repo.store().list_refs(repo.name(), "")).unwrap().into_iter().collect()
    }

    fn fresh(&mut self) -> usize {
        self.operations += 1;
        self.operations
    }

    /// Says which command the next write of a process belongs to.
    fn command(&mut self, process: usize) -> (usize, WriteOptions) {
        match self.processes[process].long {
            Some((operation, id)) => (operation, WriteOptions::new().operation(id)),
            None => (self.fresh(), WriteOptions::new()),
        }
    }

    /// Writes down what moved since.
    fn note(&mut self, before: &Refs, operation: usize, part: Part, process: usize) {
        let after = self.refs();
        let names: BTreeSet<&RefName> = before.keys().chain(after.keys()).collect();
        let moves: Vec<RefMove> = names
            .into_iter()
            .map(|name| (name.clone(), before.get(name).cloned(), after.get(name).cloned()))
            .filter(|(_, before, after)| before != after)
            .collect();
        if !moves.is_empty() {
            let head = before.get(&RefName::head()).cloned();
            self.writes.push(Write { operation, part, process, head, moves });
        }
    }

    fn say(&mut self, process: usize, branches: &[RefName], operation: usize, how: &WriteOptions) {
        let before = self.refs();
        let repo = self.processes[process].repo.clone();
        let mut txn = Txn::new(&repo).unwrap();
        for branch in branches {
            self.texts += 1;
            let draft = Draft::user(format!("text {}", self.texts));
            block_on(txn.add(branch, &draft.into())).unwrap();
        }
        assert_eq!(block_on(txn.apply("commit", how)).unwrap(), Applied::Done);
        self.note(&before, operation, Part::Command, process);
    }

    fn act(&mut self, process: usize, action: &Action) {
        let branch = |n: usize| RefName::branch(BRANCHES[n % BRANCHES.len()]).unwrap();
        let repo = self.processes[process].repo.clone();
        let before = self.refs();
        match action {
            Action::Say => {
                let (operation, on) = (self.fresh(), self.processes[process].branch.clone());
                self.say(process, &[on], operation, &WriteOptions::new());
            }
            Action::Long => {
                self.processes[process].long = match self.processes[process].long {
                    Some(_) => None,
                    None => Some((self.fresh(), OperationId::random().unwrap())),
                };
            }
            Action::Write(n) => {
                let (operation, how) = self.command(process);
                let on = match n % 3 {
                    0 => branch(*n),
                    _ => self.processes[process].branch.clone(),
                };
                self.say(process, &[on], operation, &how);
            }
            Action::Document => {
                let (operation, how) = self.command(process);
                self.texts += 1;
                let blob = Blob::seal(format!("\"{}\"", self.texts));
                let mut txn = Txn::new(&repo).unwrap();
                let name = RefName::new("config/some").unwrap();
                txn.blob(blob.clone()).unwrap();
                block_on(txn.move_ref(&name, Some(RefTarget::Blob(blob.id())))).unwrap();
                assert_eq!(block_on(txn.apply("config", &how)).unwrap(), Applied::Done);
                self.note(&before, operation, Part::Command, process);
            }
            Action::Both(one, other) => {
                let (operation, how) = self.command(process);
                let mut both = vec![branch(*one), branch(*other)];
                both.dedup();
                self.say(process, &both, operation, &how);
            }
            Action::Fork(n) => {
                let name = branch(*n);
                let on = self.processes[process].branch.clone();
                let Some(RefTarget::Commit(head)) = before.get(&on).cloned() else { return };
                if before.contains_key(&name) {
                    return;
                }
                let (operation, id) = (self.fresh(), OperationId::random().unwrap());
                let moves = [
                    (name.clone(), RefTarget::Commit(head)),
                    (RefName::head(), RefTarget::Ref(name.clone())),
                ];
                for (moved, to) in moves {
                    let before = self.refs();
                    let mut txn = Txn::new(&repo).unwrap();
                    block_on(txn.move_ref(&moved, Some(to))).unwrap();
                    let how = WriteOptions::new().operation(id);
                    let _ = block_on(txn.apply("branch", &how)).unwrap();
                    self.note(&before, operation, Part::Command, process);
                }
                self.processes[process].branch = name;
            }
            Action::Checkout(n) => {
                let operation = self.fresh();
                if block_on(repo.checkout(BRANCHES[n % BRANCHES.len()])).is_ok() {
                    self.note(&before, operation, Part::Command, process);
                }
            }
            Action::Delete(n) => {
                let operation = self.fresh();
                if block_on(repo.delete_branch(BRANCHES[n % BRANCHES.len()])).is_ok() {
                    self.note(&before, operation, Part::Command, process);
                }
            }
            Action::Work(n) => {
                let on = branch(*n);
                if before.contains_key(&on) {
                    self.processes[process].branch = on;
                }
            }
            Action::Undo => self.step(process, false),
            Action::Redo => self.step(process, true),
        }
    }

    /// The command that an undo of a branch reverts next, or the undo that a redo reverts.
    fn next_of(&self, branch: &RefName, redo: bool) -> Option<usize> {
        let last = |name: &RefName| {
            let touches = |write: &Write| write.moves.iter().any(|(moved, ..)| moved == name);
            self.writes.iter().rposition(touches)
        };
        let head = RefName::head();
        let here = self.refs().get(&head) == Some(&RefTarget::Ref(branch.clone()));
        if redo
            && here
            && let Some(place) = last(&head).filter(|place| last(branch) < Some(*place))
            && let Part::Undo(_) = self.writes[place].part
        {
            return Some(self.writes[place].operation);
        }
        let mut reverted = HashSet::new();
        for write in self.writes.iter().rev() {
            if !write.moves.iter().any(|(name, ..)| name == branch)
                || reverted.contains(&write.operation)
            {
                continue;
            }
            match write.part {
                Part::Undo(_) if redo => return Some(write.operation),
                Part::Undo(of) | Part::Redo(of) => drop(reverted.insert(of)),
                Part::Command if redo => return None,
                // A command that left everything as it was reverts to nothing.
                Part::Command if self.net(write.operation).is_empty() => {}
                Part::Command => return Some(write.operation),
            }
        }
        None
    }

    /// What an operation moved altogether, with the places of its first and last write to each.
    fn net(&self, operation: usize) -> BTreeMap<RefName, (usize, RefMove)> {
        let mut net: BTreeMap<RefName, (usize, RefMove)> = BTreeMap::new();
        for (place, write) in self.writes.iter().enumerate() {
            for one in write.moves.iter().filter(|_| write.operation == operation) {
                net.entry(one.0.clone())
                    .and_modify(|(_, sum)| sum.2.clone_from(&one.2))
                    .or_insert_with(|| (place, one.clone()));
            }
        }
        net.retain(|_, (_, (_, before, after))| before != after);
        net
    }

    fn step(&mut self, process: usize, redo: bool) {
        let branch = self.processes[process].branch.clone();
        let repo = self.processes[process].repo.clone();
        let before = self.refs();
        let next = self.next_of(&branch, redo);
        let done = if redo { block_on(repo.redo(&branch)) } else { block_on(repo.undo(&branch)) };
        let after = self.refs();
        let head = |refs: &Refs| match refs.get(&RefName::head()) {
            Some(RefTarget::Ref(name)) => refs.contains_key(name),
            _ => false,
        };
        match done {
            Ok(_) => {
                let next = next.expect("there was something to revert");
                let net = self.net(next);
                for (name, (_, (_, was, left))) in &net {
                    assert_eq!(before.get(name), left.as_ref(), "{name} was as it was left");
                    assert_eq!(after.get(name), was.as_ref(), "{name} is as it was before");
                }
                // What came between was reverted itself, or is still there.
                for (name, (place, _)) in &net {
                    let mut at = None;
                    let later = self.writes.iter().skip(*place);
                    let own = later.filter(|write| write.operation == next);
                    let moves = own.flat_map(|write| &write.moves);
                    for (_, from, to) in moves.filter(|one| one.0 == *name) {
                        assert!(at.is_none_or(|at| at == from), "{name}: a move was lost");
                        at = Some(to);
                    }
                }
                let others = before.keys().chain(after.keys());
                for name in others.filter(|name| !net.contains_key(name)) {
                    if *name != RefName::head() {
                        assert_eq!(before.get(name), after.get(name), "{name} is left alone");
                    }
                }
                let first = self.writes.iter().find(|write| write.operation == next);
                let was = first.and_then(|write| write.head.as_ref());
                let same = after.get(&RefName::head()) == was;
                assert!(!head(&before) || head(&after) || same, "HEAD is on a branch that is gone");
                let operation = self.fresh();
                let part = if redo { Part::Redo(next) } else { Part::Undo(next) };
                self.note(&before, operation, part, process);
            }
            Err(error) => {
                assert_eq!(before, after, "a refusal leaves everything as it is");
                match error.code() {
                    "nothing_to_undo" => assert_eq!(next, None, "{error}"),
                    "conflict" => {
                        let next = next.expect("there was something to revert");
                        let net = self.net(next);
                        let who = self.writes.iter().enumerate().filter(|(place, write)| {
                            write.operation != next
                                && write.moves.iter().any(|(name, ..)| {
                                    *name == RefName::head()
                                        || net.get(name).is_some_and(|(first, _)| place > first)
                                })
                        });
                        let who: BTreeSet<String> =
                            who.map(|(_, write)| format!("process-{}", write.process)).collect();
                        let text = error.to_string();
                        assert!(who.iter().any(|who| text.contains(who)), "{who:?}: {text}");
                    }
                    _ => panic!("{error}"),
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn undo_gives_back_the_state_before_or_names_who_came_between(
        actions in prop::collection::vec(action(), 1..60)
    ) {
        let mut world = Repository::new();
        for (process, action) in &actions {
            world.act(*process, action);
        }
    }
}
