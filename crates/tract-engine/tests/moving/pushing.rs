use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::task::yield_now;
use tract_core::{Blob, Draft, RefName, Store, StoreResult, block_on};
use tract_engine::{
    ApplyOptions, EraseRequest, EraseTarget, FetchOptions, GcOptions, PullBranches, PushOptions,
    Repo, RepoOptions, ToolQuery, TransferStatus, erase, fetch, gc, push,
};
use tract_kv::memory;
use tract_testkit::{Answer, Call, Watch, WatchedStore};

use crate::fixture::{
    branch, chain, commits, head, is_clean, meanwhile, moves_main, one, repo, repo_in, say, says,
    seen, with_everything, writes,
};
use crate::support::{done, refs};

fn all() -> PushOptions {
    PushOptions { all: true, ..PushOptions::default() }
}

#[test]
fn a_push_of_everything_makes_the_same_repository() {
    let from = with_everything();
    let to = repo();
    block_on(to.init()).expect("it is made");
    let report = block_on(push(&from, &to, "team", &all())).expect("it is pushed");
    assert!(!report.diverged());
    assert_eq!(report.commits as u64, commits(&from));
    assert!(says(&to) == says(&from));
    is_clean(&to);
    is_clean(&from);
    // Where its branches are is noted here, and not told there.
    assert_eq!(head(&from, &seen("team", "main")), head(&from, &branch("main")));
    let tracking = block_on(to.store().list_refs(to.name(), "remotes/")).expect("it is read");
    assert!(tracking.is_empty());
    // A second push finds nothing to do.
    let before = block_on(to.store().stats(to.name())).expect("stats");
    let report = block_on(push(&from, &to, "team", &all())).expect("it is pushed");
    assert_eq!(report.commits, 0);
    assert!(report.refs.iter().all(|at| at.status == TransferStatus::Unchanged), "{report:?}");
    assert_eq!(block_on(to.store().stats(to.name())).expect("stats"), before);
}

#[test]
fn the_current_branch_is_pushed_alone_and_begins_an_empty_repository() {
    let from = with_everything();
    done(&from, r#"{"op":"checkout","name":"other"}"#, &ApplyOptions::default());
    let to = repo();
    block_on(to.init()).expect("it is made");
    let report = block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    let names: Vec<&str> = report.refs.iter().map(|at| at.name.as_str()).collect();
    assert_eq!(names, ["heads/other"]);
    assert_eq!(block_on(to.current_branch()).expect("it is read"), branch("other"));
    is_clean(&to);
}

#[test]
fn a_branch_that_went_elsewhere_is_left_alone() {
    let (from, to) = (repo(), repo());
    say(&from, "main", "first");
    block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    let theirs = say(&to, "main", "theirs");
    say(&from, "main", "ours");
    let report = block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is read");
    assert!(report.diverged());
    assert_eq!(head(&to, &branch("main")), Some(theirs));
    assert!(matches!(report.refs[0].status, TransferStatus::Diverged { .. }));
    is_clean(&to);
}

#[test]
fn a_branch_that_is_behind_the_remote_is_said_to_be() {
    let (from, to) = (repo(), repo());
    say(&from, "main", "first");
    block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    say(&from, "main", "second");
    block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    block_on(from.undo(&branch("main"))).expect("it is undone");
    // The undo took the note of the push with it or not: the remote has both commits.
    let report = block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is read");
    assert_eq!(report.refs[0].status, TransferStatus::Ahead);
    assert!(report.diverged());
}

#[test]
fn approvals_and_decisions_are_not_pushed() {
    let from = with_everything();
    for name in ["config/pins", "pins/one", "pending/p-1", "decisions/p-1", "effects/c1"] {
        let name = RefName::new(name).expect("a name");
        let blob = Blob::seal(b"{}".to_vec());
        block_on(from.set_documents("note", vec![(name, blob)])).expect("it is written");
    }
    let to = repo();
    block_on(push(&from, &to, "team", &all())).expect("it is pushed");
    let refs = refs(&to);
    assert!(refs.iter().all(|(name, _)| name.is_history()), "{refs:?}");
}

#[test]
fn a_remote_that_moves_meanwhile_is_asked_again() {
    let (from, store) = (repo(), Arc::new(memory()) as Arc<dyn Store>);
    let plain = repo_in(Arc::clone(&store));
    say(&from, "main", "first");
    block_on(push(&from, &plain, "team", &PushOptions::default())).expect("it is pushed");
    say(&from, "main", "second");
    // Another writer comes right before the ref moves.
    let other = plain.clone();
    let to = repo_in(meanwhile(store, 1, moves_main, move || {
        say(&other, "main", "theirs");
    }));
    let report = block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is read");
    assert!(matches!(report.refs[0].status, TransferStatus::Diverged { .. }), "{report:?}");
    is_clean(&plain);
}

#[test]
fn a_push_is_one_operation_there() {
    let from = with_everything();
    let to = repo();
    block_on(to.init()).expect("it is made");
    block_on(push(&from, &one(&to), "team", &all())).expect("it is pushed");
    block_on(to.undo(&branch("main"))).expect("it is undone");
    let refs = block_on(to.store().list_refs(to.name(), "heads/")).expect("it is read");
    assert_eq!(refs, []);
}

#[test]
fn the_rows_of_the_turn_index_are_copied_with_the_commits() {
    let options = || RepoOptions { turn_rows_every: 4, ..RepoOptions::default() };
    let from = Repo::new(Arc::new(memory()), options());
    for n in 0..40 {
        let call = Draft::assistant("").call(format!("c{n}"), "grep", "{}");
        block_on(from.append(&branch("main"), call)).expect("it is written");
        let result = Draft::tool_result(format!("c{n}"), "nothing");
        block_on(from.append(&branch("main"), result)).expect("it is written");
    }
    let (contents, store) = (Arc::new(AtomicUsize::new(0)), Arc::new(memory()) as Arc<dyn Store>);
    let read = Arc::clone(&contents);
    let watched = WatchedStore::new(Arc::clone(&store), move |call: Call<'_>| -> StoreResult<()> {
        if let Call::Blobs { keys, .. } = call {
            read.fetch_add(keys.len(), Ordering::SeqCst);
        }
        Ok(())
    });
    let to = Repo::new(Arc::new(watched), options());
    block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    assert_eq!(contents.load(Ordering::SeqCst), 0, "the target reads no message that it got");
    let main = head(&to, &branch("main"));
    let turns = |repo: &Repo| -> Vec<_> {
        block_on(repo.find_tool_turns(main, &ToolQuery::default()))
            .expect("they are read")
            .collect()
    };
    assert_eq!(turns(&to).len(), 40);
    assert_eq!(turns(&to), turns(&from));
    assert_eq!(contents.load(Ordering::SeqCst), 0, "rows answer the query");
    is_clean(&to);
    // Rows of erased messages are made in each repository.
    let first = block_on(from.find_tool_calls(main, &ToolQuery::default())).expect("a call").next();
    let erased = EraseTarget::Commit(first.expect("a call").id);
    block_on(erase(&from, &EraseRequest::targets(vec![erased], "a leak"))).expect("it is erased");
    let other = Repo::new(Arc::new(memory()), options());
    block_on(push(&from, &other, "team", &PushOptions::default())).expect("it is pushed");
    is_clean(&other);
}

#[test]
fn the_source_is_read_while_the_target_writes() {
    let from = repo();
    chain(&from, "main", 100);
    let (reads, overlaps) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&reads);
    let source =
        WatchedStore::new(Arc::clone(from.store()), move |call: Call<'_>| -> StoreResult<()> {
            if matches!(call, Call::Walk { .. }) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        });
    let slow = SlowApply { reads: Arc::clone(&reads), overlaps: Arc::clone(&overlaps) };
    let to = repo_in(Arc::new(WatchedStore::new(Arc::new(memory()) as Arc<dyn Store>, slow)));
    let from = repo_in(Arc::new(source));
    block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    assert_eq!(commits(&to), 100);
    assert!(overlaps.load(Ordering::SeqCst) > 1, "{overlaps:?}");
    is_clean(&to);
}

/// Counts the writes of commits during which another store was read.
struct SlowApply {
    reads: Arc<AtomicUsize>,
    overlaps: Arc<AtomicUsize>,
}

#[async_trait]
impl Watch for SlowApply {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let before = self.reads.load(Ordering::SeqCst);
        if matches!(call, Call::Apply { batch, .. } if !batch.commits.is_empty()) {
            for _ in 0..10 {
                yield_now().await;
            }
            if self.reads.load(Ordering::SeqCst) > before {
                self.overlaps.fetch_add(1, Ordering::SeqCst);
            }
        }
        call.ask(store).await
    }
}

#[test]
fn an_unknown_branch_is_named() {
    let (from, to) = (repo(), repo());
    say(&from, "main", "first");
    let options = PushOptions { branches: vec!["mian".to_owned()], ..PushOptions::default() };
    let error = block_on(push(&from, &to, "team", &options)).expect_err("there is none");
    assert_eq!(
        (error.code(), error.notes()),
        ("unknown_branch", vec!["did you mean \"main\"?".to_owned()])
    );
}

/// What no ref there leads to may be collected between the question for it and the write.
#[test]
fn objects_collected_as_garbage_meanwhile_are_sent_again() {
    let from = repo();
    crate::fixture::chain(&from, "main", 60);
    let store: Arc<dyn Store> = Arc::new(memory());
    let plain = repo_in(Arc::clone(&store));
    let part = block_on(from.resolve("main~20")).expect("a commit");
    block_on(from.create_branch("part", part)).expect("it is made");
    let options = PushOptions { branches: vec!["part".to_owned()], ..PushOptions::default() };
    block_on(push(&from, &one(&plain), "team", &options)).expect("it is pushed");
    block_on(plain.undo(&branch("part"))).expect("it is undone");
    assert_eq!(commits(&plain), 40);
    // Its clock is past that of the undo.
    let other = Repo::new(Arc::clone(&store), RepoOptions::default());
    let to = repo_in(meanwhile(store, 1, writes, move || {
        let keep = GcOptions { keep: std::time::Duration::ZERO, ..GcOptions::default() };
        let report = block_on(gc(&other, &keep)).expect("it collects");
        assert_eq!(report.commits.objects, 40);
    }));
    let options = PushOptions { branches: vec!["main".to_owned()], ..PushOptions::default() };
    let report = block_on(push(&from, &to, "team", &options)).expect("it is pushed");
    assert_eq!(report.commits, 60);
    assert_eq!(head(&plain, &branch("main")), head(&from, &branch("main")));
    is_clean(&plain);
}

#[test]
fn of_two_that_push_one_branch_at_once_one_moves_it() {
    let store: Arc<dyn Store> = Arc::new(memory());
    let base = repo();
    say(&base, "main", "first");
    block_on(push(&base, &repo_in(Arc::clone(&store)), "team", &all())).expect("it is pushed");
    for round in 0..8 {
        let statuses: Vec<TransferStatus> = std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..2)
                .map(|n| {
                    let store = Arc::clone(&store);
                    scope.spawn(move || {
                        let (from, to) = (repo(), repo_in(store));
                        let options =
                            FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
                        block_on(fetch(&from, &to, "team", &options)).expect("it is pulled");
                        for line in 0..5 {
                            say(&from, "main", &format!("round {round}, {n}, {line}"));
                        }
                        let options = PushOptions {
                            branches: vec!["main".to_owned()],
                            ..PushOptions::default()
                        };
                        let report = block_on(push(&from, &to, "team", &options));
                        report.expect("it is read").refs.remove(0).status
                    })
                })
                .collect();
            pushers.into_iter().map(|pusher| pusher.join().expect("it ends")).collect()
        });
        let moved = statuses.iter().filter(|status| **status == TransferStatus::Forwarded).count();
        // Both where the second began after the first was done.
        assert!(moved >= 1, "{statuses:?}");
        is_clean(&repo_in(Arc::clone(&store)));
    }
}

/// Deletes objects that no ref leads to, as a collection does that is cut short or misses a mark.
fn sweep(repo: &Repo, commits: &[tract_core::CommitId]) {
    let position = block_on(repo.store().write_position(repo.name())).expect("a position");
    let objects = commits.iter().copied().map(tract_core::ObjectId::Commit).collect();
    let sweep = tract_core::store::Sweep { position, objects, tools: Vec::new() };
    let answer = block_on(repo.store().sweep(repo.name(), sweep)).expect("it is swept");
    assert_eq!(answer, tract_core::store::SweepAnswer::Done);
}

#[test]
fn a_commit_that_is_there_without_its_ancestors_proves_nothing() {
    let (from, to) = (repo(), repo());
    let ids: Vec<_> = (0..20).map(|n| say(&from, "main", &format!("message {n}"))).collect();
    block_on(push(&from, &to, "team", &all())).expect("it is pushed");
    say(&to, "other", "so that another branch is checked out");
    block_on(to.checkout("other")).expect("it is checked out");
    block_on(to.delete_branch("main")).expect("it is deleted");
    // A gap, below commits that are still there and that no ref leads to.
    sweep(&to, &ids[8..10]);
    let report = block_on(tract_engine::verify(&to, &Default::default())).expect("it is read");
    assert!(!report.clean, "a commit lacks its parent");
    for more in ["the same again", "and more"] {
        say(&from, "main", more);
        block_on(push(&from, &to, "team", &all())).expect("it is pushed");
        assert_eq!(head(&to, &branch("main")), head(&from, &branch("main")));
        // Where the commits lie is derived; nothing else is wrong.
        let repair =
            tract_engine::VerifyOptions { repair: true, ..tract_engine::VerifyOptions::default() };
        let report = block_on(tract_engine::verify(&to, &repair)).expect("it is read");
        assert!(report.clean, "{:?}", report.damage);
    }
    is_clean(&to);
}

#[test]
fn a_push_to_a_branch_that_is_only_ahead_says_so() {
    let (from, to, other) = (repo(), repo(), repo());
    for n in 0..50 {
        say(&from, "main", &format!("message {n}"));
    }
    block_on(push(&from, &to, "team", &all())).expect("it is pushed");
    let options = FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
    block_on(fetch(&other, &to, "team", &options)).expect("it is fetched");
    for n in 0..50 {
        say(&other, "main", &format!("theirs {n}"));
    }
    block_on(push(&other, &to, "team", &all())).expect("it is pushed");
    let status = |report: &tract_engine::PushReport| report.refs[0].status.clone();
    let report = block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    assert_eq!(status(&report), TransferStatus::Ahead);
    // Where both continued, it is diverged.
    say(&from, "main", "ours");
    let report = block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    assert!(matches!(status(&report), TransferStatus::Diverged { .. }));
}

#[test]
fn a_branch_that_cannot_be_brought_stops_no_other() {
    let from = repo();
    for name in ["main", "damaged", "whole"] {
        for n in 0..5 {
            say(&from, name, &format!("{name} {n}"));
        }
    }
    // One branch of an older version has a name that leaves no room for the name of a remote, and the
    // history of another one has a gap.
    let head_of = |name: &str| head(&from, &branch(name)).expect("it has commits");
    let long = RefName::branch(&"x".repeat(990)).expect("a name");
    let mut old = tract_engine::Txn::new(&from).expect("a write");
    old.move_from(&long, None, Some(tract_core::RefTarget::Commit(head_of("whole"))));
    let refused = block_on(old.apply("branch", &Default::default())).expect_err("it is too long");
    assert_eq!(refused.code(), "bad_name");
    let note = tract_core::LogNote {
        operation: tract_core::OperationId::random().expect("randomness"),
        what: "branch".to_owned(),
        who: String::new(),
        why: None,
        undoes: None,
        at: 0,
    };
    let id = tract_core::BatchId::random().expect("randomness");
    let mut batch = tract_core::Batch::new(id, note);
    let to = Some(tract_core::RefTarget::Commit(head_of("whole")));
    batch.refs = vec![tract_core::RefEdit { name: long, expect: tract_core::Expect::Any, to }];
    let _applied = block_on(from.store().apply(from.name(), batch)).expect("it is stored");
    let second =
        block_on(from.store().walk(from.name(), tract_core::store::Walk::from(head_of("damaged"))));
    let gone = second.expect("it is read").entries[2].commit.id();
    sweep(&from, &[gone]);

    let is_refused = |refs: &[tract_engine::TransferredRef]| {
        refs.iter().filter(|at| matches!(at.status, TransferStatus::Refused { .. })).count()
    };
    let to = repo();
    let report = block_on(push(&from, &to, "team", &all())).expect("the others are pushed");
    assert!(report.refused());
    assert_eq!(is_refused(&report.refs), 2, "{:?}", report.refs);
    for name in ["main", "whole"] {
        assert_eq!(head(&to, &branch(name)), Some(head_of(name)));
    }
    is_clean(&to);
    let here = repo();
    let options = FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
    let report = block_on(fetch(&here, &from, "team", &options)).expect("the others are fetched");
    assert!(report.refused());
    assert!(is_refused(&report.refs) + is_refused(&report.branches) >= 2);
    for name in ["main", "whole"] {
        assert_eq!(head(&here, &branch(name)), Some(head_of(name)));
        assert_eq!(head(&here, &seen("team", name)), Some(head_of(name)));
    }
    is_clean(&here);
}
