//! Undo while commands of several handles run at once: judged by the ref log, which has the one
//! order in which everything happened.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use tract_core::store::LogQuery;
use tract_core::{CommitId, Draft, LogEntry, OperationId, RefName, RefTarget, Store, block_on};
use tract_engine::{Error, Operation, Repo, RepoOptions, Txn, UndoReport, WriteOptions};

use crate::fixture::TwoHandles;
use crate::support::{sqlite, threaded};

const HANDLES: usize = 4;
const BRANCHES: [&str; 3] = ["main", "a", "b"];

#[derive(Clone, Debug)]
enum Action {
    /// A command of one write.
    Say(usize),
    /// A command of one write to two branches.
    Both(usize, usize),
    /// A command of two writes, one after the other.
    Long(usize, usize),
    Undo(usize),
    Redo(usize),
}

fn actions() -> impl Strategy<Value = Vec<Vec<Action>>> {
    let on = 0..BRANCHES.len();
    let action = prop_oneof![
        3 => on.clone().prop_map(Action::Say),
        1 => (on.clone(), on.clone()).prop_map(|(one, other)| Action::Both(one, other)),
        2 => (on.clone(), on.clone()).prop_map(|(one, other)| Action::Long(one, other)),
        4 => on.clone().prop_map(Action::Undo),
        2 => on.prop_map(Action::Redo),
    ];
    prop::collection::vec(prop::collection::vec(action, 1..8), HANDLES)
}

fn branch(n: usize) -> RefName {
    RefName::branch(BRANCHES[n % BRANCHES.len()]).unwrap()
}

/// An undo or a redo, its answer, and the newest numbers of the log right before and after.
struct Answer {
    branch: RefName,
    redo: bool,
    outcome: Result<UndoReport, Error>,
    from: u64,
    until: u64,
}

async fn newest(repo: &Repo) -> u64 {
    let query = LogQuery { limit: 1, ..LogQuery::default() };
    let found = repo.store().ref_log(repo.name(), &query).await.unwrap();
    found.first().map_or(0, |entry| entry.seq)
}

async fn act(repo: Repo, actions: Vec<Action>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for action in actions {
        match action {
            Action::Say(on) => drop(repo.append(&branch(on), Draft::user("one")).await.unwrap()),
            Action::Both(one, other) => {
                let mut txn = Txn::new(&repo).unwrap();
                for on in [one, other] {
                    txn.add(&branch(on), &Draft::user("both").into()).await.unwrap();
                }
                // One that loses the race is given up, and has changed nothing.
                drop(txn.apply("both", &WriteOptions::default()).await.unwrap());
            }
            Action::Long(one, other) => {
                let command = repo.within(Operation::begin().unwrap());
                for on in [one, other] {
                    command.append(&branch(on), Draft::user("long")).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
            Action::Undo(on) | Action::Redo(on) => {
                let (branch, redo) = (branch(on), matches!(action, Action::Redo(_)));
                let from = newest(&repo).await;
                let outcome =
                    if redo { repo.redo(&branch).await } else { repo.undo(&branch).await };
                let until = newest(&repo).await;
                answers.push(Answer { branch, redo, outcome, from, until });
            }
        }
    }
    answers
}

/// The ref log, oldest first.
pub(crate) struct History(pub(crate) Vec<LogEntry>);

impl History {
    pub(crate) fn until(&self, seq: u64) -> &[LogEntry] {
        &self.0[..self.0.partition_point(|entry| entry.seq <= seq)]
    }

    fn operation_of(&self, seq: u64) -> OperationId {
        let entry = self.0.iter().find(|entry| entry.seq == seq);
        entry.expect("what was reverted is in the log").note.operation
    }

    /// The operation that an undo, or a redo, of a branch reverts next.
    pub(crate) fn next(
        &self,
        seen: &[LogEntry],
        branch: &RefName,
        redo: bool,
    ) -> Option<OperationId> {
        let mut passed = HashSet::new();
        for entry in seen.iter().rev().filter(|entry| entry.name == *branch) {
            let operation = entry.note.operation;
            if !passed.insert(operation) {
                continue;
            }
            match (entry.note.what.as_str(), entry.note.undoes) {
                ("undo", Some(_)) if redo => return Some(operation),
                ("undo" | "redo", Some(of)) => _ = passed.insert(self.operation_of(of)),
                _ if redo => return None,
                _ if net(seen, operation).is_empty() => {}
                _ => return Some(operation),
            }
        }
        None
    }
}

pub(crate) type Net = BTreeMap<RefName, (Option<RefTarget>, Option<RefTarget>)>;

/// What an operation moved altogether.
pub(crate) fn net(seen: &[LogEntry], operation: OperationId) -> Net {
    let mut net = Net::new();
    for entry in seen.iter().filter(|entry| entry.note.operation == operation) {
        let moved = net.entry(entry.name.clone());
        moved.or_insert_with(|| (entry.before.clone(), None)).1 = entry.after.clone();
    }
    net.retain(|_, (before, after)| before != after);
    net
}

fn judge(log: Vec<LogEntry>, answers: &[Answer]) {
    let history = History(log);
    let mut at: BTreeMap<&RefName, &Option<RefTarget>> = BTreeMap::new();
    for entry in &history.0 {
        let was = at.insert(&entry.name, &entry.after);
        assert!(was.is_none_or(|was| *was == entry.before), "{}: a move was lost", entry.name);
    }
    // Every undo and redo in the log: its number, its operation, what it reverted, what it moved.
    let mut reverts: Vec<(u64, OperationId, Net)> = Vec::new();
    let mut known = HashSet::new();
    for entry in &history.0 {
        let Some(of) = entry.note.undoes else { continue };
        if known.insert(entry.note.operation) {
            let mut moved = net(&history.0, entry.note.operation);
            moved.remove(&RefName::head());
            reverts.push((entry.seq, history.operation_of(of), moved));
        }
    }
    let done = answers.iter().filter(|answer| answer.outcome.is_ok()).count();
    assert_eq!(done, reverts.len(), "each was answered, and each answer is in the log");
    for answer in answers {
        let Answer { branch, redo, outcome, from, until } = answer;
        // Others may have written at any moment of it.
        let moments = || (*from..=*until).map(|seq| history.until(seq));
        match outcome {
            Ok(undone) => {
                let moves = undone.moves.iter().filter(|one| one.name != RefName::head());
                let logged: Net = moves
                    .map(|one| (one.name.clone(), (one.before.clone(), one.after.clone())))
                    .collect();
                // The entry of a revert that others did meanwhile, of a part of the same moves, looks
                // like this one's, so each that it can be is tried.
                let mine = |(seq, of, moved): &&(u64, OperationId, Net)| {
                    let is_reported = |one: (&RefName, &_)| logged.get(one.0) == Some(one.1);
                    *of == undone.operation
                        && (*from < *seq && seq <= until)
                        && moved.iter().all(is_reported)
                };
                // It is the last operation of the branch, and all of it goes, so that the refs are
                // where they were before it. A command of several writes may have had only some of
                // them then: no moment of the log says that a command is complete. Its later ones
                // come after the undo.
                let wrong = |(seq, of, moved): &(u64, OperationId, Net)| -> Option<String> {
                    let whole = |moment: u64| {
                        let seen = history.until(moment);
                        let reverted = net(seen, *of).into_iter();
                        let reverted: Net =
                            reverted.map(|(name, (was, left))| (name, (left, was))).collect();
                        history.next(seen, branch, *redo) == Some(*of) && reverted == logged
                    };
                    if !(*from..*seq).any(whole) {
                        return Some(format!("{seq}: it is no whole operation"));
                    }
                    let before = history.until(seq - 1);
                    for (name, (left, was)) in &logged {
                        let now = before.iter().rev().find(|one| one.name == *name);
                        let now = now.and_then(|one| one.after.clone());
                        let is_back = !moved.contains_key(name) && now == *was;
                        if now != *left && !is_back {
                            return Some(format!("{seq}: {name} was not as the operation left it"));
                        }
                        let mut at: Option<&Option<RefTarget>> = None;
                        let own = |one: &&LogEntry| one.note.operation == *of && one.name == *name;
                        for one in before.iter().filter(own) {
                            if at.is_some_and(|at| *at != one.before) {
                                return Some(format!("{seq}: another moved {name} in between"));
                            }
                            at = Some(&one.after);
                        }
                    }
                    None
                };
                let wrong: Vec<_> = reverts.iter().filter(mine).map(wrong).collect();
                assert!(
                    wrong.contains(&None),
                    "{branch}, {from}..={until}, {undone:#?}: {wrong:?}\n{:#?}",
                    history.0
                );
            }
            Err(Error::MovedSince(moved)) => {
                let came_between = |seen: &[LogEntry]| {
                    let Some(next) = history.next(seen, branch, *redo) else { return false };
                    let seen = history.until(*until);
                    let begun = seen.iter().find(|one| one.note.operation == next);
                    let by = moved.by.as_ref().expect("who came between");
                    by.note.operation != next
                        && by.name == moved.name
                        && begun.is_some_and(|begun| begun.seq < by.seq)
                };
                assert!(moments().any(came_between), "{branch}: {moved}");
                let who = moved.by.as_ref().map(|by| by.note.who.as_str());
                assert!(who.is_none_or(|who| who.starts_with("handle-")), "{moved}");
            }
            Err(Error::NothingToUndo { .. }) => {
                let nothing = |seen: &[LogEntry]| history.next(seen, branch, *redo).is_none();
                assert!(moments().any(nothing), "{branch}: there was something to revert");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs the actions of each handle at once, on as many threads.
fn run(stores: &[Arc<dyn Store>], actions: Vec<Vec<Action>>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(HANDLES).build().unwrap();
    let handle = |(n, store): (usize, &Arc<dyn Store>)| {
        Repo::new(
            store.clone(),
            RepoOptions { who: format!("handle-{n}"), ..RepoOptions::default() },
        )
    };
    let repos: Vec<Repo> = stores.iter().enumerate().map(handle).collect();
    let (log, answers) = runtime.block_on(async {
        repos[0].init().await.unwrap();
        for on in 0..BRANCHES.len() {
            repos[0].append(&branch(on), Draft::user("first")).await.unwrap();
        }
        let tasks: Vec<_> = repos
            .iter()
            .zip(actions)
            .map(|(repo, actions)| tokio::spawn(act(repo.clone(), actions)))
            .collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.extend(task.await.unwrap());
        }
        let query = LogQuery { limit: 100_000, ..LogQuery::default() };
        let log = repos[0].store().ref_log(repos[0].name(), &query).await.unwrap();
        (log.into_iter().rev().collect(), answers)
    });
    judge(log, &answers);
}

fn cases(cases: u32) -> ProptestConfig {
    // Another run of the same actions takes another order: there is nothing to shrink by.
    ProptestConfig { cases, max_shrink_iters: 0, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn undo_among_commands_at_once_gives_back_the_state_before_or_names_who_came_between(
        actions in actions()
    ) {
        run(&vec![threaded(); HANDLES], actions);
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn undo_among_handles_of_one_sqlite_file_keeps_the_same_law(actions in actions()) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("one.db");
        let stores: Vec<Arc<dyn Store>> = (0..HANDLES).map(|_| sqlite(&path)).collect();
        run(&stores, actions);
    }
}

/// Two handles on one store, with a message on `main`.
fn pair() -> TwoHandles {
    let pair = TwoHandles::memory();
    say(&pair.other, "first");
    pair
}

fn head(pair: &TwoHandles) -> Option<CommitId> {
    block_on(pair.other.head_of(&branch(0))).unwrap()
}

fn say(repo: &Repo, text: &str) {
    block_on(repo.append(&branch(0), Draft::user(text))).unwrap();
}

/// The write that keeps an undo from its command.
#[track_caller]
fn came_between(pair: &TwoHandles) -> LogEntry {
    match block_on(pair.repo.undo(&branch(0))) {
        Err(Error::MovedSince(moved)) => moved.by.expect("who came between"),
        other => panic!("another command came between: {other:?}"),
    }
}

#[test]
fn an_undo_gives_back_the_state_before_a_command_that_is_still_writing() {
    let pair = pair();
    let before = head(&pair);
    let command = pair.other.within(Operation::begin().unwrap());
    say(&command, "one half");
    block_on(pair.repo.undo(&branch(0))).unwrap();
    assert_eq!(head(&pair), before);
    // The command does not know of it and writes its other half behind what it finds.
    say(&command, "the other half");
    let halfway = head(&pair);
    // The two halves do not join.
    let by = came_between(&pair);
    assert_eq!((by.note.what.as_str(), by.note.who.as_str()), ("undo", "first"));
    assert_eq!(head(&pair), halfway);
}

#[test]
fn an_undo_that_loses_a_race_to_the_command_itself_reverts_all_that_it_has_written() {
    let pair = pair();
    let before = head(&pair);
    let command = pair.other.within(Operation::begin().unwrap());
    say(&command, "one half");
    let more = command.clone();
    pair.arm(move |_| say(&more, "the other half"));
    block_on(pair.repo.undo(&branch(0))).unwrap();
    assert_eq!(head(&pair), before);
}

#[test]
fn an_undo_that_loses_a_race_to_another_command_names_it() {
    let pair = pair();
    let command = pair.other.within(Operation::begin().unwrap());
    say(&command, "command");
    pair.arm(|other| say(other, "another"));
    assert_ne!(came_between(&pair).note.operation, command.operation().unwrap().id());
}
