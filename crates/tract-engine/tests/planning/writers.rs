//! Many writers of one branch: tasks on one handle, futures that rest, other handles in between.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tract_core::store::LogQuery;
use tract_core::{Draft, RefName, Store, block_on};
use tract_engine::plan::Request;
use tract_engine::{ApplyOptions, Error, Repo, RepoOptions};
use tract_hooks::{CommitAction, Hooks};
use tract_testkit::Call;

use crate::support::{done, meanwhile, moves_main, others_write, run, threaded, writes};

fn repo_on(store: Arc<dyn Store>, options: RepoOptions) -> (Repo, RefName) {
    let repo = Repo::new(store, options);
    block_on(repo.init()).unwrap();
    (repo, RefName::branch("main").unwrap())
}

/// Counts the batches that reach a store.
fn counted(store: Arc<dyn Store>) -> (Arc<dyn Store>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counts = count.clone();
    let add = move || _ = counts.fetch_add(1, Ordering::SeqCst);
    (meanwhile(store, usize::MAX, writes, add), count)
}

/// Drives futures together, as tasks of one executor are.
async fn together<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().zip(&mut outputs).filter(|(_, o)| o.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Polls futures once, those of `which`; gives back those that are not ready.
fn poll_once<F: Future>(
    futures: Vec<Pin<Box<F>>>,
    which: impl Fn(usize) -> bool,
) -> Vec<Pin<Box<F>>> {
    let mut futures: Vec<_> = futures.into_iter().enumerate().collect();
    block_on(poll_fn(|context| {
        futures.retain_mut(|(n, future)| !which(*n) || future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    }));
    futures.into_iter().map(|(_, future)| future).collect()
}

/// How many commits the branch has, and how many messages it shows.
fn counts(repo: &Repo, branch: &RefName) -> (u64, usize) {
    let head = block_on(repo.head_of(branch)).unwrap();
    let compiled = block_on(repo.compile(head)).unwrap();
    (compiled.commit_count(), compiled.message_count())
}

fn log_entries(repo: &Repo, branch: &RefName) -> usize {
    let query = LogQuery { name: Some(branch.clone()), ..LogQuery::default() };
    block_on(repo.store().ref_log(repo.name(), &query)).unwrap().len()
}

#[test]
fn all_writes_of_many_tasks_on_one_branch_are_stored() {
    let (store, batches) = counted(threaded());
    let (repo, branch) = repo_on(store, RepoOptions::default());
    let (repo, branch) = (&repo, &branch);
    let task = |task: usize| async move {
        for n in 0..4 {
            repo.append(branch, Draft::user(format!("{task} {n}"))).await?;
        }
        Ok::<(), Error>(())
    };
    let before = batches.load(Ordering::SeqCst);
    let answers = block_on(together((0..200).map(task)));
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(refused.is_empty(), "{} tasks refused, such as {}", refused.len(), refused[0]);
    assert_eq!(counts(repo, branch), (800, 800));
    // Each write is an operation of its own, and went to the store once.
    assert_eq!(log_entries(repo, branch), 800);
    assert_eq!(batches.load(Ordering::SeqCst) - before, 800);
}

#[test]
fn each_task_finds_its_messages_in_the_order_in_which_it_wrote_them() {
    let (repo, branch) = repo_on(threaded(), RepoOptions::default());
    let (repo, branch) = (&repo, &branch);
    let task = |task: usize| async move {
        let mut made = Vec::new();
        for n in 0..6 {
            let call = format!("c{task}-{n}");
            // Plain messages, calls with their results, and edits: each on what the one before made.
            made.push(repo.append(branch, Draft::user(format!("{n}"))).await.unwrap().id());
            let asks = Draft::assistant("").call(&call, "grep", "{}");
            made.push(repo.append(branch, asks).await.unwrap().id());
            made.push(repo.append(branch, Draft::tool_result(&call, "x")).await.unwrap().id());
            let edit = Request::edit_text(made[made.len() - 3], format!("{n} edited"));
            repo.write_one(branch, edit).await.unwrap();
        }
        made
    };
    let made = block_on(together((0..20).map(task)));
    assert_eq!(counts(repo, branch), (480, 360));
    let history = block_on(repo.fold(block_on(repo.head_of(branch)).unwrap())).unwrap();
    let slots: Vec<_> = history.view().rows().map(|row| row.slot).collect();
    for task in made {
        let mine: Vec<_> = slots.iter().copied().filter(|slot| task.contains(slot)).collect();
        assert_eq!(mine, task);
    }
}

#[test]
fn a_write_that_is_neither_polled_nor_dropped_holds_no_other_up() {
    let (repo, branch) = repo_on(threaded(), RepoOptions::default());
    block_on(repo.append(&branch, Draft::user("first"))).unwrap();
    // Some rest before they are polled at all, some while they wait or are under way.
    let resting: Vec<_> =
        (0..8).map(|n| Box::pin(repo.append(&branch, Draft::user(format!("rests {n}"))))).collect();
    let resting = poll_once(resting, |n| n % 2 == 1);
    for n in 0..3 {
        block_on(repo.append(&branch, Draft::user(format!("goes {n}")))).unwrap();
        block_on(repo.set_tools(&branch, Vec::new())).unwrap();
    }
    let answers = block_on(together(resting));
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(log_entries(&repo, &branch), 1 + 8 + 6);
}

#[test]
fn a_write_that_is_dropped_gives_up_its_place() {
    let (repo, branch) = repo_on(threaded(), RepoOptions::default());
    let mut stored = 0;
    for round in 0..20 {
        let futures: Vec<_> = (0..10)
            .map(|n| Box::pin(repo.append(&branch, Draft::user(format!("{round} {n}")))))
            .collect();
        let mut futures = poll_once(futures, |_| true);
        // Every third one goes: while it waits, or with its batch in the store's hands.
        let mut n = 0;
        futures.retain(|_| {
            n += 1;
            n % 3 != 0
        });
        stored += futures.len();
        let answers = block_on(together(futures));
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    assert!(counts(&repo, &branch).1 >= stored);
}

#[test]
fn how_often_others_win_does_not_end_a_write() {
    let (repo, branch) = repo_on(others_write(80, moves_main), RepoOptions::default());
    block_on(repo.append(&branch, Draft::user("mine"))).unwrap();
    assert_eq!(counts(&repo, &branch).1, 81);
}

#[test]
fn a_write_that_others_keep_from_its_branch_ends_when_its_time_is_up() {
    let options = RepoOptions { retry_for: Duration::from_millis(20), ..RepoOptions::default() };
    let (repo, branch) = repo_on(others_write(usize::MAX, moves_main), options);
    let error = block_on(repo.append(&branch, Draft::user("mine"))).unwrap_err();
    assert!(matches!(error, Error::KeptMoving { attempts } if attempts > 1), "{error}");
}

const TWO_LINES: &str = r#"{"op":"user","text":"line 1"}
{"op":"user","text":"line 2"}"#;

#[test]
fn a_line_whose_branch_kept_moving_is_refused_by_its_number() {
    let options = RepoOptions { retry_for: Duration::from_millis(5), ..RepoOptions::default() };
    for keep_going in [false, true] {
        let (repo, _) = repo_on(others_write(usize::MAX, moves_main), options.clone());
        let options = ApplyOptions { keep_going, ..ApplyOptions::default() };
        let (report, events) = run(&repo, TWO_LINES, &options);
        let refused =
            events.into_iter().map(|event| (event.line, event.result.unwrap_err().code()));
        let refused: Vec<_> = refused.collect();
        let all = [(1, "conflict"), (2, "conflict")];
        assert_eq!(refused, if keep_going { &all[..] } else { &all[..1] });
        assert_eq!(report.refused, refused.len());
    }
}

#[test]
fn others_that_move_a_branch_between_the_reads_of_a_line_do_not_refuse_it() {
    // A line is planned with several reads of the head; others move the branch before each of them.
    let store = others_write(140, |call| matches!(call, Call::Refs { .. }));
    let (repo, _) = repo_on(store, RepoOptions::default());
    assert_eq!(done(&repo, TWO_LINES, &ApplyOptions::default()).done, 2);
}

#[test]
fn a_handler_may_write_to_the_branch_that_it_is_asked_about() {
    let (plain, branch) = repo_on(threaded(), RepoOptions::default());
    let questions = Arc::new(AtomicUsize::new(0));
    let (writer, on, count) = (plain.clone(), branch.clone(), questions.clone());
    let hooks = Hooks::new().on("notes", move |_: &tract_hooks::BeforeCommit| {
        count.fetch_add(1, Ordering::SeqCst);
        block_on(writer.append(&on, Draft::user("a note"))).unwrap();
        CommitAction::Pass
    });
    let repo = plain.with_hooks(hooks);
    let (repo, branch) = (&repo, &branch);
    let answers = block_on(together(
        (0..10).map(|n| async move { repo.append(branch, Draft::user(format!("{n}"))).await }),
    ));
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    // Each write was asked about once, however often it was planned.
    assert_eq!(questions.load(Ordering::SeqCst), 10);
    assert_eq!(counts(&plain, branch).1, 20);
}
