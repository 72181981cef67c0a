use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tract_core::store::LogQuery;
use tract_core::time::format_rfc3339;
use tract_core::{Commit, CommitId, Draft, Priority, RefName, RefTarget, Store as _, block_on};
use tract_engine::plan::Request;
use tract_engine::{
    ApplyOptions, CopyOptions, Error, ImportConversation, Marks, RepoOptions, Result, Txn,
    WriteOptions, copy, resolve_in,
};
use tract_hooks::{BeforeCommit, CommitAction, Hooks, RefMoved, RefMovedAction};
use tract_testkit::fixtures::{advance, push};
use tract_testkit::{Call, WatchedStore};

use crate::fixture::{Fixture, NOON, plant, sharing};
use crate::support::{done, import_one, meanwhile, repo_in};

#[track_caller]
fn resolve(desk: &Fixture, text: &str) -> CommitId {
    block_on(desk.repo.resolve(text)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Writes one message.
fn write(desk: &Fixture, draft: Draft, options: &WriteOptions) -> Result<Vec<Commit>> {
    block_on(desk.repo.write(&desk.branch, &[draft.into()], options))
}

fn unresolved(desk: &Fixture, text: &str) -> Error {
    block_on(desk.repo.resolve(text)).unwrap_err()
}

#[test]
fn revisions_name_commits() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let b = desk.says("b");
    let edit = desk.edit(a, "A");
    block_on(desk.repo.create_tag("v1", b)).unwrap();
    block_on(desk.repo.create_branch("deep/er", a)).unwrap();
    for (text, expected) in [
        ("main", edit),
        ("HEAD", edit),
        ("", edit),
        ("heads/main", edit),
        ("v1", b),
        ("deep/er", a),
        ("main~", b),
        ("~2", a),
        ("main~1~1", a),
        ("main#1", edit),
        ("main#2", b),
        ("main~1#1", a),
        (&b.to_hex(), b),
        (&b.to_hex()[..12], b),
        ("main@{0}", edit),
        ("main@{1}", b),
        ("@{2}", a),
        ("HEAD@{1}~1", a),
    ] {
        assert_eq!(resolve(&desk, text), expected, "{text:?}");
    }
    let marks = Marks::from([("m1".to_owned(), a)]);
    let mut txn = Txn::new(&desk.repo).unwrap();
    assert_eq!(block_on(resolve_in(&mut txn, ":m1", &marks)).unwrap(), a);
    let made = block_on(txn.add(&desk.branch, &Draft::user("c").into())).unwrap().id();
    assert_eq!(block_on(resolve_in(&mut txn, "main~1", &marks)).unwrap(), edit);
    assert_eq!(block_on(resolve_in(&mut txn, &made.to_hex()[..20], &marks)).unwrap(), made);
    assert_eq!(block_on(resolve_in(&mut txn, "main#3", &marks)).unwrap(), made);
    block_on(txn.add(&desk.branch, &Draft::user("d").into())).unwrap();
    let history = block_on(txn.fold(Some(made))).unwrap();
    assert_eq!(
        (history.head(), history.view().len()),
        (Some(made), 3),
        "no head any more, yet known"
    );
}

#[test]
fn a_revision_that_names_nothing_says_what_is_near() {
    let desk = Fixture::new();
    desk.user("a");
    let error = unresolved(&desk, "mian");
    assert_eq!(error.to_string(), "unknown revision \"mian\"");
    assert_eq!(error.notes(), ["did you mean \"main\"?"]);
    assert_eq!(error.code(), "unknown_revision");
    for text in ["~5", "#0", "#2", "#", "@{9}", "@{1", "@{yesterday}", "main!x", "~x", "main^"] {
        let error = unresolved(&desk, text);
        assert!(
            matches!(error, Error::BadRevision { .. } | Error::UnknownRevision { .. }),
            "{text}: {error}"
        );
    }
    for text in [":m1", "abc", "0123456789abcdef"] {
        assert!(matches!(unresolved(&desk, text), Error::UnknownRevision { .. }), "{text}");
    }
    let nowhere = CommitId::from_bytes([9; 32]);
    assert!(block_on(desk.repo.compile(Some(nowhere))).is_err());
}

#[test]
fn an_ambiguous_prefix_lists_what_it_fits() {
    let desk = Fixture::new();
    // 4,000 commits share their first 4 digits with some other one almost surely.
    let requests: Vec<Request> = (0..4000).map(|n| Draft::user(n.to_string()).into()).collect();
    let commits =
        block_on(desk.repo.write(&desk.branch, &requests, &WriteOptions::default())).unwrap();
    let mut ids: Vec<CommitId> = commits.iter().map(|commit| commit.id()).collect();
    ids.sort();
    let four = |id: &CommitId| id.to_hex()[..4].to_owned();
    let twins = ids.windows(2).find(|pair| four(&pair[0]) == four(&pair[1])).unwrap();
    let error = unresolved(&desk, &four(&twins[0]));
    assert!(error.notes()[0].starts_with("use more digits"), "{error:?}");
    let Error::Ambiguous { ids: found, .. } = error else { panic!("{error:?}") };
    assert!(twins.iter().all(|twin| found.contains(twin)));
}

#[test]
fn branches_tags_and_head() {
    let desk = Fixture::new();
    let a = desk.user("a");
    assert!(!block_on(desk.repo.init()).unwrap(), "there is a HEAD already");
    block_on(desk.repo.create_branch("side", a)).unwrap();
    assert!(matches!(block_on(desk.repo.create_branch("side", a)), Err(Error::Exists { .. })));
    block_on(desk.repo.create_tag("t", a)).unwrap();
    let b = desk.user("b");
    let moved = block_on(desk.repo.create_tag("t", b)).unwrap_err();
    assert_eq!(moved.notes(), ["tags never move; choose another name"]);
    assert!(matches!(block_on(desk.repo.create_branch("a b", a)), Err(Error::BadName(_))));
    let unknown = block_on(desk.repo.checkout("sied")).unwrap_err();
    assert_eq!(unknown.code(), "unknown_branch");
    assert_eq!(unknown.notes(), ["did you mean \"side\"?"]);
    block_on(desk.repo.checkout("side")).unwrap();
    assert_eq!(resolve(&desk, "HEAD"), a);
    assert!(matches!(block_on(desk.repo.delete_branch("side")), Err(Error::CheckedOut { .. })));
    assert_eq!(block_on(desk.repo.delete_branch("main")).unwrap(), b);
    let names: Vec<_> = block_on(desk.repo.branches()).unwrap();
    assert_eq!(names.len(), 1);
    assert!(names[0].checked_out && names[0].name == "side");
    assert_eq!(resolve(&desk, &b.to_hex()[..16]), b, "commits stay");
}

#[test]
fn a_branch_by_time() {
    let desk = Fixture::new();
    let a = desk.user("a");
    desk.clock.advance(Duration::from_secs(60));
    let b = desk.user("b");
    let at = |us: i64| format!("main@{{{}}}", format_rfc3339(us).unwrap());
    assert_eq!(resolve(&desk, &at(NOON + 1)), a);
    assert_eq!(resolve(&desk, &at(NOON + 60_000_000)), b);
    assert!(matches!(unresolved(&desk, &at(NOON - 1)), Error::BadRevision { .. }));
}

#[test]
fn undo_steps_back_and_redo_forth() {
    let desk = Fixture::new();
    let [a, b, c] = [desk.user("a"), desk.user("b"), desk.user("c")];
    let undo = || block_on(desk.repo.undo(&desk.branch));
    let redo = || block_on(desk.repo.redo(&desk.branch));
    let undone = undo().unwrap();
    assert_eq!((undone.what.as_str(), undone.moves.len()), ("commit", 1));
    assert_eq!(undone.moves[0].before, Some(RefTarget::Commit(c)));
    assert_eq!(undone.moves[0].after, Some(RefTarget::Commit(b)));
    assert_eq!(desk.head(), Some(b));
    undo().unwrap();
    assert_eq!(desk.head(), Some(a), "the next undo continues from there");
    redo().unwrap();
    assert_eq!(desk.head(), Some(b));
    undo().unwrap();
    assert_eq!(desk.head(), Some(a), "what was redone is undone again");
    redo().unwrap();
    redo().unwrap();
    assert_eq!(desk.head(), Some(c));
    assert!(matches!(redo(), Err(Error::NothingToUndo { what: "redo", .. })));
    for expected in [Some(b), Some(a), None] {
        undo().unwrap();
        assert_eq!(desk.head(), expected);
    }
    assert!(matches!(undo(), Err(Error::NothingToUndo { what: "undo", .. })));
    redo().unwrap();
    let d = desk.user("d");
    assert!(redo().is_err(), "another action ends what could be redone");
    undo().unwrap();
    assert_eq!(desk.head(), Some(a));
    assert_eq!(desk.commit(d).parent(), Some(a));
    // Undo then append: the branch continues.
    desk.user("e");
    assert_eq!(desk.shown(), ["user: a", "user: e"]);
}

#[test]
fn one_command_is_one_undo() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let operation = tract_core::OperationId::random().unwrap();
    let options = WriteOptions { operation: Some(operation.into()), ..WriteOptions::default() };
    let side = desk.on("side");
    for (desk, text) in [(&desk, "b"), (&desk, "c"), (&side, "d")] {
        write(desk, Draft::user(text), &options).unwrap();
    }
    let undone = block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(undone.moves.len(), 2);
    assert_eq!((desk.head(), side.head()), (Some(a), None));
    block_on(desk.repo.redo(&side.branch)).unwrap();
    assert_eq!(desk.shown(), ["user: a", "user: b", "user: c"]);
}

#[test]
fn undo_does_not_run_over_what_others_moved() {
    let desk = Fixture::new();
    desk.user("a");
    let operation = tract_core::OperationId::random().unwrap();
    let options = WriteOptions { operation: Some(operation.into()), ..WriteOptions::default() };
    let side = desk.on("side");
    for desk in [&desk, &side] {
        write(desk, Draft::user("both"), &options).unwrap();
    }
    side.user("since then");
    let before = desk.head();
    let error = block_on(desk.repo.undo(&desk.branch)).unwrap_err();
    assert_eq!(error.code(), "conflict", "{error}");
    assert!(
        error.to_string().contains("branch \"side\" was moved since by \"commit\" of \"test\"")
    );
    assert_eq!(desk.head(), before, "nothing is undone by half");
}

#[test]
fn a_reply_answers_one_head() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let b = desk.user("b");
    let late = |head| {
        write(
            &desk,
            Draft::assistant("late"),
            &WriteOptions { expect: Some(head), ..WriteOptions::default() },
        )
    };
    let error = late(Some(a)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("branch \"main\" moved: expected {}, found {}", a.short(), b.short())
    );
    assert!(matches!(late(None), Err(Error::Conflict { .. })));
    late(Some(b)).unwrap();
}

#[test]
fn lost_races_plan_again() {
    let desk = Fixture::new();
    let target = desk.user("0");
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let (repo, branch) = (desk.cold().repo, desk.branch.clone());
            std::thread::spawn(move || {
                for n in 0..25 {
                    let request = match n % 5 {
                        4 => Request::edit_text(target, format!("{thread} {n}")),
                        _ => Draft::user(format!("{thread} {n}")).into(),
                    };
                    block_on(repo.write_one(&branch, request)).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let compiled = block_on(desk.cold().repo.compile(desk.head())).unwrap();
    assert_eq!((compiled.commit_count(), compiled.message_count()), (101, 81));
}

#[test]
fn large_contents_survive_a_lost_race() {
    let desk = Fixture::new();
    let other = desk.cold();
    let call = desk.go(Draft::assistant("").call("c1", "read", "{\"all\": true}"));
    let large = |line: &str| line.repeat((2 << 20) / line.len());
    let texts = ["a \"quoted\" line\n", "Grüße\u{1f980}\t", "small"].map(large);
    // This handle believes that the call is the head: it plans and seals there, and loses.
    other.user("meanwhile");
    let drafts = [
        Draft::tool_result("c1", texts[0].clone()),
        Draft::assistant(texts[1].clone()).call("c2", "write", texts[2].clone()),
        Draft::user("small"),
    ];
    let made = block_on(desk.repo.append_all(&desk.branch, drafts.clone())).unwrap();
    let compiled = block_on(desk.cold().repo.compile(desk.head())).unwrap();
    assert_eq!(compiled.commit_count(), 5);
    assert_eq!(made[0].parent().map(|parent| parent == call), Some(false));
    for (commit, draft) in made.iter().zip(drafts) {
        let message = compiled.message(commit.id()).unwrap();
        assert_eq!(message.content.to_blob().unwrap(), draft.content.to_blob().unwrap());
    }
}

#[test]
fn an_assumed_head_is_checked() {
    let desk = Fixture::new();
    let other = desk.cold();
    let parent = |id| desk.commit(id).parent();
    desk.user("a");
    // It moved meanwhile: planned again on what is there.
    let b = other.user("b");
    let c = desk.user("c");
    assert_eq!(parent(c), Some(b));
    // Refused where it was left, right where it is now.
    let call = other.go(Draft::assistant("").call("c1", "read", "{}"));
    let result = desk.go(Draft::tool_result("c1", "text"));
    assert_eq!(parent(result), Some(call));
    other.user("d");
    desk.refused(Draft::tool_result("c2", "text"));
    // What the caller expects is not guessed at.
    let options = WriteOptions { expect: Some(Some(result)), ..WriteOptions::default() };
    let error = write(&desk, Draft::user("late"), &options).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    // Back where it was, by another hand.
    block_on(other.repo.undo(&other.branch)).unwrap();
    assert_eq!(parent(desk.user("e")), Some(result));
}

#[test]
fn messages_that_were_not_read_fold_later() {
    let desk = Fixture::new();
    let derived = || block_on(desk.repo.store().stats(desk.repo.name())).unwrap().derived_bytes;
    for n in 0..400 {
        let draft = Draft::user(format!("{n}"));
        desk.go(if n % 2 == 0 { draft } else { draft.priority(Priority::Skip) });
    }
    assert_eq!(derived(), 0, "so few of so many are no reason for a snapshot");
    let call = desk.go(Draft::assistant("").call("c1", "read", "{}"));
    let result = desk.go(Draft::tool_result("c1", "text"));
    for n in 0..400 {
        desk.go(Draft::user(format!("skipped {n}")).priority(Priority::Skip));
    }
    assert!(derived() > 0, "most of what followed is not shown");
    let head = desk.head();
    let (warm, cold) =
        (block_on(desk.repo.compile(head)).unwrap(), block_on(desk.cold().repo.compile(head)));
    let cold = cold.unwrap();
    assert_eq!((warm.commit_count(), warm.message_count()), (802, 202));
    assert_eq!(warm.view_id(), cold.view_id());
    assert!(warm.commit_ids().eq(cold.commit_ids()));
    assert_eq!(warm.message(result).unwrap().answers.unwrap().slot, call);
    assert_eq!(desk.history().view(), desk.cold().history().view());
}

#[test]
fn same_text_same_microsecond_two_writers_two_commits() {
    let desk = Fixture::new();
    let a = desk.user("same");
    let other = Fixture::with(RepoOptions::default());
    assert_ne!(other.user("same"), a, "the batch keeps them apart");
}

#[test]
fn a_hook_that_rejects_writes_nothing() {
    let desk = Fixture::new();
    desk.user("a");
    let hooks = Hooks::new().on("no-keys", |commit: &BeforeCommit| {
        if commit.draft.content.text().contains("sk-") {
            CommitAction::Reject("it holds a key".into())
        } else {
            CommitAction::Pass
        }
    });
    let repo = desk.repo.with_hooks(hooks);
    let head = desk.head();
    let error = block_on(repo.append(&desk.branch, Draft::user("sk-123"))).unwrap_err();
    assert!(matches!(error, Error::Rejected(_)), "{error}");
    let first = head.unwrap();
    assert!(block_on(repo.edit(&desk.branch, first, "my sk-123")).is_err());
    assert_eq!(desk.head(), head);
    block_on(repo.append(&desk.branch, Draft::user("fine"))).unwrap();
}

#[test]
fn moves_by_all_that_writes_are_reported_once_they_are_durable() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let hooks = Hooks::new().on("listen", move |moved: &RefMoved| {
        sink.lock().unwrap().push((moved.entry.name.to_string(), moved.entry.note.what.clone()));
        RefMovedAction::Pass
    });
    let take_events = || std::mem::take(&mut *events.lock().unwrap());
    let moved = |name: &str, what: &str| (name.to_owned(), what.to_owned());
    let desk = Fixture::new();
    let repo = desk.repo.with_hooks(hooks.clone());
    block_on(repo.append(&desk.branch, Draft::user("a"))).unwrap();
    assert_eq!(take_events(), [moved("heads/main", "commit")]);
    let talk = ImportConversation::new("talk", vec![Draft::user("a")]);
    import_one(&repo, talk.clone());
    assert_eq!(take_events(), [moved("heads/talk", "import"), moved("imports/talk", "import")]);
    import_one(&repo, talk);
    assert_eq!(take_events(), [], "nothing moved");
    let lines =
        "{\"op\":\"user\",\"text\":\"b\"}\n{\"op\":\"tag\",\"name\":\"t\",\"target\":\"HEAD\"}";
    assert_eq!(
        done(&repo, lines, &ApplyOptions { atomic: true, ..ApplyOptions::default() }).done,
        2
    );
    let mut all = take_events();
    all.sort();
    assert_eq!(all, [moved("heads/main", "apply"), moved("tags/t", "apply")]);
    let to = Fixture::new();
    block_on(copy(&desk.repo, &to.repo.with_hooks(hooks), &CopyOptions::default())).unwrap();
    assert!(take_events().contains(&moved("heads/talk", "copy")));
}

#[test]
fn the_ref_log_tells_who_what_and_when() {
    let desk = Fixture::new();
    desk.user("a");
    let query = LogQuery { name: Some(desk.branch.clone()), ..LogQuery::default() };
    let log = block_on(desk.repo.store().ref_log(desk.repo.name(), &query)).unwrap();
    assert_eq!(log.len(), 1);
    let note = &log[0].note;
    assert_eq!((note.what.as_str(), note.who.as_str(), note.at), ("commit", "test", NOON));
    assert_eq!(note.undoes, None);
}

#[test]
fn several_branches_move_together_or_not_at_all() {
    let (desk, side, a) = sharing("a");
    let mut txn = Txn::new(&desk.repo).unwrap();
    block_on(async {
        txn.add(&desk.branch, &Draft::user("here").into()).await.unwrap();
        txn.add(&side.branch, &Draft::user("there").into()).await.unwrap();
    });
    let stolen = side.user("first");
    let applied = block_on(txn.apply("both", &WriteOptions::default())).unwrap();
    assert!(matches!(applied, tract_core::Applied::Conflict(_)));
    assert_eq!((desk.head(), side.head()), (Some(a), Some(stolen)));
    desk.force(stolen);
    assert_eq!(desk.head(), Some(stolen));
}

#[test]
fn a_checkout_that_loses_every_race_is_refused() {
    // Another process checks out another branch right before each checkout here.
    let (below, lost) = (Arc::new(tract_kv::memory()), Arc::new(AtomicUsize::new(0)));
    let (other, count) = (repo_in(below.clone()), Arc::clone(&lost));
    let moves_head = |call: &Call<'_>| matches!(call, Call::Apply { batch, .. } if batch.note.what == "checkout");
    let store = meanwhile(below, usize::MAX, moves_head, move || {
        let n = count.fetch_add(1, Ordering::SeqCst);
        block_on(other.checkout(["one", "two"][n % 2])).unwrap();
    });
    let desk = Fixture::of(
        store,
        RepoOptions { retry_for: Duration::from_millis(100), ..RepoOptions::default() },
    );
    let a = desk.user("a");
    for name in ["one", "two", "mine"] {
        block_on(desk.repo.create_branch(name, a)).unwrap();
    }
    let error = block_on(desk.repo.checkout("mine")).unwrap_err();
    assert!(matches!(error, Error::KeptMoving { .. }), "{error}");
    assert!(lost.load(Ordering::SeqCst) > 1);
    assert_ne!(block_on(desk.repo.current_branch()).unwrap().branch_name(), Some("mine"));
}

#[test]
fn head_and_full_names_are_no_names_of_branches() {
    let desk = Fixture::new();
    let a = desk.user("a");
    for name in ["HEAD", "heads/x", "heads/main"] {
        let error = block_on(desk.repo.create_branch(name, a)).unwrap_err();
        assert_eq!(error.code(), "bad_name", "{name}: {error}");
        assert!(desk.repo.name().as_str() != name);
    }
    for name in ["HEAD", "tags/x"] {
        assert_eq!(block_on(desk.repo.create_tag(name, a)).unwrap_err().code(), "bad_name");
    }
    // What an older version made can be read, and deleted.
    Fixture { branch: RefName::new("heads/heads/x").unwrap(), ..desk.cold() }.force(a);
    assert_eq!(resolve(&desk, "heads/heads/x"), a);
    assert_eq!(block_on(desk.repo.delete_branch("heads/x")).unwrap(), a);
}

#[test]
fn a_new_repository_has_a_name_that_can_be_seen() {
    for name in ["HEAD", "a\u{202e}b", "a\u{200b}b", "\u{feff}a"] {
        let options = RepoOptions {
            name: tract_core::RepoName::new(name).unwrap(),
            ..RepoOptions::default()
        };
        let repo = tract_engine::Repo::new(Arc::new(tract_kv::memory()), options);
        assert_eq!(block_on(repo.init()).unwrap_err().code(), "bad_name", "{name:?}");
    }
}

#[test]
fn a_tool_of_a_commit_without_time_is_dated_as_its_parent() {
    let desk = Fixture::new();
    let first = Draft { created_at: Some(NOON), ..Draft::user("a") };
    let mut txn = Txn::new(&desk.repo).unwrap().importing();
    block_on(async {
        txn.add(&desk.branch, &Request::Import(first)).await.unwrap();
        txn.add(&desk.branch, &Request::Import(Draft::user("b"))).await.unwrap();
        let tools = vec![crate::fixture::tool("grep", "g")];
        txn.add(&desk.branch, &Request::Import(Draft::user("c").tools(tools).unwrap()))
            .await
            .unwrap();
        let applied = txn.apply("import", &WriteOptions::default()).await.unwrap();
        assert_eq!(applied, tract_core::Applied::Done);
        let store = desk.repo.store();
        let tools = store.tools_by_name(desk.repo.name(), "grep").await.unwrap();
        assert_eq!(tools[0].created_at, NOON);
        store.check(desk.repo.name(), true).await.unwrap();
        let tools = store.tools_by_name(desk.repo.name(), "grep").await.unwrap();
        assert_eq!(tools[0].created_at, NOON, "a repair dates it alike");
    });
}

#[test]
fn an_operation_of_many_writes_is_found_without_reading_the_log_of_others() {
    let reads = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reads);
    let store = WatchedStore::new(Arc::new(tract_kv::memory()), move |call: Call<'_>| {
        if let Call::RefLog { query, .. } = call {
            count.fetch_add(1, Ordering::SeqCst);
            let bounded = query.limit != 0 || query.batch.or(None).is_some();
            assert!(bounded || query.batch_prefix.is_some(), "the whole log is read: {query:?}");
        }
        Ok(())
    });
    let repo = tract_engine::Repo::new(Arc::new(store), RepoOptions::default());
    let (main, side) = (RefName::branch("main").unwrap(), RefName::branch("side").unwrap());
    let one = block_on(repo.append(&main, Draft::user("one"))).unwrap().id();
    let command = repo.within(tract_engine::Operation::begin().unwrap());
    for n in 0..1200 {
        if n < 600 {
            block_on(command.append(&main, Draft::user(n.to_string()))).unwrap();
        }
        // Others write in between, and after it.
        block_on(repo.append(&side, Draft::user(n.to_string()))).unwrap();
    }
    reads.store(0, Ordering::SeqCst);
    assert_eq!(block_on(repo.undo(&main)).unwrap().moves.len(), 1);
    assert_eq!(block_on(repo.head_of(&main)).unwrap(), Some(one));
    assert!(reads.load(Ordering::SeqCst) < 10, "{reads:?} readings of the log");
}

#[test]
fn an_operation_of_an_older_version_is_undone_whole() {
    // Its writes have nothing in common but the operation.
    let desk = Fixture::new();
    let a = desk.user("a");
    let operation = tract_core::OperationId::random().unwrap();
    let mut at = a;
    for n in 0..300 {
        plant(&desk.repo, |batch| {
            batch.note.operation = operation;
            let to = push(batch, Some(at), &format!("{n}")).id();
            batch.refs.push(advance("main", Some(at), to));
            at = to;
        });
    }
    block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(desk.head(), Some(a));
}

#[test]
fn decisions_and_effects_are_out_of_the_reach_of_undo() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let command = desk.repo.within(tract_engine::Operation::begin().unwrap());
    block_on(command.append(&desk.branch, Draft::user("b"))).unwrap();
    let names =
        ["effects/c1", "decisions/p-1", "config/some"].map(|name| RefName::new(name).unwrap());
    let blob = tract_core::Blob::seal("{}");
    let documents = names.iter().map(|name| (name.clone(), blob.clone())).collect();
    block_on(command.set_documents("note", documents)).unwrap();
    block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(desk.head(), Some(a));
    let left = names.map(|name| block_on(desk.repo.ref_target(&name)).unwrap().is_some());
    assert_eq!(left, [true, true, false]);
}
