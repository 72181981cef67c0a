//! Undo over random commands of several processes: it reverts one command, whole, or refuses and
//! names who came between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use tract_core::{
    Applied, Batch, Blob, Draft, LogEntry, LogNote, ManualClock, OperationId, RefName, RefTarget,
    Store, block_on,
};
use tract_engine::{Repo, RepoOptions, Txn, WriteOptions};
use tract_kv::memory;

use crate::fixture::NOON;
use crate::undo_at_once::{History, net};

type Refs = BTreeMap<RefName, RefTarget>;

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

struct Process {
    repo: Repo,
    branch: RefName,
    long: Option<OperationId>,
}

struct Repository {
    processes: Vec<Process>,
    /// The moves of refs as the test saw them.
    log: History,
    texts: usize,
}

fn fresh() -> OperationId {
    OperationId::random().unwrap()
}

impl Repository {
    fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(memory());
        let process = |number: usize| {
            let clock = Arc::new(ManualClock::at_us(NOON));
            let options =
                RepoOptions { clock, who: format!("process-{number}"), ..RepoOptions::default() };
            let repo = Repo::new(store.clone(), options);
            Process { repo, branch: RefName::branch("main").unwrap(), long: None }
        };
        let processes: Vec<Process> = (0..PROCESSES).map(process).collect();
        block_on(processes[0].repo.init()).unwrap();
        Self { processes, log: History(Vec::new()), texts: 0 }
    }

    fn refs(&self) -> Refs {
        let repo = &self.processes[0].repo;
        block_on(repo.store().list_refs(repo.name(), "")).unwrap().into_iter().collect()
    }

    /// Says which command the next write of a process belongs to.
    fn command(&self, process: usize) -> (OperationId, WriteOptions) {
        match self.processes[process].long {
            Some(id) => {
                (id, WriteOptions { operation: Some(id.into()), ..WriteOptions::default() })
            }
            None => (fresh(), WriteOptions::default()),
        }
    }

    /// Writes down what a command has moved since.
    fn note(&mut self, before: &Refs, operation: OperationId, process: usize) {
        self.note_part(before, operation, process, "command", None);
    }

    fn note_part(
        &mut self,
        before: &Refs,
        operation: OperationId,
        process: usize,
        what: &str,
        undoes: Option<u64>,
    ) {
        let after = self.refs();
        let names: BTreeSet<&RefName> = before.keys().chain(after.keys()).collect();
        let Batch { id: batch, note, .. } = tract_testkit::fixtures::batch(what);
        let note = LogNote { operation, who: format!("process-{process}"), undoes, ..note };
        for name in names.into_iter().filter(|name| before.get(*name) != after.get(*name)) {
            let (before, after) = (before.get(name).cloned(), after.get(name).cloned());
            let (seq, name, note) = (self.log.0.len() as u64 + 1, name.clone(), note.clone());
            self.log.0.push(LogEntry { seq, name, before, after, batch, note });
        }
    }

    fn say(
        &mut self,
        process: usize,
        branches: &[RefName],
        operation: OperationId,
        how: &WriteOptions,
    ) {
        let before = self.refs();
        let repo = self.processes[process].repo.clone();
        let mut txn = Txn::new(&repo).unwrap();
        for branch in branches {
            self.texts += 1;
            let draft = Draft::user(format!("text {}", self.texts));
            block_on(txn.add(branch, &draft.into())).unwrap();
        }
        assert_eq!(block_on(txn.apply("commit", how)).unwrap(), Applied::Done);
        self.note(&before, operation, process);
    }

    fn act(&mut self, process: usize, action: &Action) {
        let branch = |n: usize| RefName::branch(BRANCHES[n % BRANCHES.len()]).unwrap();
        let repo = self.processes[process].repo.clone();
        let before = self.refs();
        match action {
            Action::Say => {
                let on = self.processes[process].branch.clone();
                self.say(process, &[on], fresh(), &WriteOptions::default());
            }
            Action::Long => {
                let long = &mut self.processes[process].long;
                *long = if long.is_some() { None } else { Some(fresh()) };
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
                self.note(&before, operation, process);
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
                let operation = fresh();
                let moves = [
                    (name.clone(), RefTarget::Commit(head)),
                    (RefName::head(), RefTarget::Ref(name.clone())),
                ];
                for (moved, to) in moves {
                    let before = self.refs();
                    let mut txn = Txn::new(&repo).unwrap();
                    block_on(txn.move_ref(&moved, Some(to))).unwrap();
                    let how = WriteOptions {
                        operation: Some(operation.into()),
                        ..WriteOptions::default()
                    };
                    let _ = block_on(txn.apply("branch", &how)).unwrap();
                    self.note(&before, operation, process);
                }
                self.processes[process].branch = name;
            }
            Action::Checkout(n) | Action::Delete(n) => {
                let name = BRANCHES[n % BRANCHES.len()];
                let done = match action {
                    Action::Checkout(_) => block_on(repo.checkout(name)).is_ok(),
                    _ => block_on(repo.delete_branch(name)).is_ok(),
                };
                if done {
                    self.note(&before, fresh(), process);
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
    fn next_of(&self, branch: &RefName, redo: bool) -> Option<OperationId> {
        let log = &self.log.0;
        let last = |name: &RefName| log.iter().rfind(|entry| entry.name == *name);
        let head = RefName::head();
        let here = self.refs().get(&head) == Some(&RefTarget::Ref(branch.clone()));
        if redo
            && here
            && let Some(entry) =
                last(&head).filter(|entry| last(branch).is_none_or(|last| last.seq < entry.seq))
            && entry.note.what == "undo"
        {
            return Some(entry.note.operation);
        }
        self.log.next(log, branch, redo)
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
                let net = net(&self.log.0, next);
                for (name, (was, left)) in &net {
                    assert_eq!(before.get(name), left.as_ref(), "{name} was as it was left");
                    assert_eq!(after.get(name), was.as_ref(), "{name} is as it was before");
                }
                // What came between was reverted itself, or is still there.
                let own = || self.log.0.iter().filter(|entry| entry.note.operation == next);
                for name in net.keys() {
                    let mut at: Option<&Option<RefTarget>> = None;
                    for entry in own().filter(|entry| entry.name == *name) {
                        assert!(at.is_none_or(|at| *at == entry.before), "{name}: a move was lost");
                        at = Some(&entry.after);
                    }
                }
                let others = before.keys().chain(after.keys());
                for name in others.filter(|name| !net.contains_key(name)) {
                    if *name != RefName::head() {
                        assert_eq!(before.get(name), after.get(name), "{name} is left alone");
                    }
                }
                let first = own().next().expect("it is in the log").seq;
                let mut earlier = self.log.until(first - 1).iter().rev();
                let was = earlier.find(|entry| entry.name == RefName::head());
                let main = RefTarget::Ref(RefName::branch("main").unwrap());
                let was = was.map_or(Some(main), |entry| entry.after.clone());
                let same = after.get(&RefName::head()) == was.as_ref();
                assert!(!head(&before) || head(&after) || same, "HEAD is on a branch that is gone");
                let what = if redo { "redo" } else { "undo" };
                self.note_part(&before, fresh(), process, what, Some(first));
            }
            Err(error) => {
                assert_eq!(before, after, "a refusal leaves everything as it is");
                match error.code() {
                    "nothing_to_undo" => assert_eq!(next, None, "{error}"),
                    "conflict" => {
                        let next = next.expect("there was something to revert");
                        let net = net(&self.log.0, next);
                        let mut begun = BTreeSet::from([RefName::head()]);
                        let mut who = BTreeSet::new();
                        for entry in &self.log.0 {
                            if entry.note.operation != next && begun.contains(&entry.name) {
                                who.insert(entry.note.who.as_str());
                            } else if entry.note.operation == next && net.contains_key(&entry.name)
                            {
                                begun.insert(entry.name.clone());
                            }
                        }
                        let text = error.to_string();
                        assert!(who.iter().any(|who| text.contains(*who)), "{who:?}: {text}");
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
