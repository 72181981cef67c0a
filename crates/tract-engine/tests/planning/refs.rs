use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tract_core::store::LogQuery;
use tract_core::time::format_rfc3339;
use tract_core::{CommitId, Draft, Priority, RefName, RefTarget, block_on};
use tract_engine::plan::Request;
use tract_engine::{
    ApplyOptions, Conversation, CopyOptions, Error, ImportOptions, Marks, RepoOptions, Txn,
    WriteOptions, apply_stream, copy, import, read_lines,
};
use tract_hooks::{BeforeCommit, CommitAction, Hooks, RefMoved, RefMovedAction};

use crate::fixture::{Desk, NOON};

#[track_caller]
fn resolve(desk: &Desk, text: &str) -> CommitId {
    block_on(desk.repo.resolve(text)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn unresolved(desk: &Desk, text: &str) -> Error {
    block_on(desk.repo.resolve(text)).unwrap_err()
}

#[test]
fn revisions_name_commits() {
    let desk = Desk::new();
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
    assert_eq!(block_on(txn.resolve(":m1", &marks)).unwrap(), a);
    let made = block_on(txn.add(&desk.branch, &Draft::user("c").into())).unwrap().id();
    assert_eq!(block_on(txn.resolve("main~1", &marks)).unwrap(), edit);
    assert_eq!(block_on(txn.resolve(&made.to_hex()[..20], &marks)).unwrap(), made);
    assert_eq!(block_on(txn.resolve("main#3", &marks)).unwrap(), made);
    block_on(txn.add(&desk.branch, &Draft::user("d").into())).unwrap();
    let line = block_on(txn.line(Some(made))).unwrap();
    assert_eq!((line.head(), line.view().len()), (Some(made), 3), "no head any more, yet known");
}

#[test]
fn a_revision_that_names_nothing_says_what_is_near() {
    let desk = Desk::new();
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
    assert!(matches!(unresolved(&desk, ":m1"), Error::UnknownRevision { .. }));
}

#[test]
fn an_ambiguous_prefix_lists_what_it_fits() {
    let desk = Desk::new();
    // 4,000 commits share their first 4 digits with some other one almost surely.
    let requests: Vec<Request> = (0..4000).map(|n| Draft::user(n.to_string()).into()).collect();
    let commits = block_on(desk.repo.write(&desk.branch, &requests, &WriteOptions::new())).unwrap();
    let mut ids: Vec<CommitId> = commits.iter().map(|commit| commit.id()).collect();
    ids.sort();
    let four = |id: &CommitId| id.to_hex()[..4].to_owned();
    let twins = ids.windows(2).find(|pair| four(&pair[0]) == four(&pair[1])).unwrap();
    let Error::Ambiguous { ids: found, .. } = unresolved(&desk, &four(&twins[0])) else {
        panic!("ambiguous")
    };
    assert!(twins.iter().all(|twin| found.contains(twin)));
}

#[test]
fn branches_tags_and_head() {
    let desk = Desk::new();
    let a = desk.user("a");
    assert!(!block_on(desk.repo.init()).unwrap(), "there is a HEAD already");
    block_on(desk.repo.create_branch("side", a)).unwrap();
    assert!(matches!(
        block_on(desk.repo.create_branch("side", a)).unwrap_err(),
        Error::Exists { .. }
    ));
    block_on(desk.repo.create_tag("t", a)).unwrap();
    let b = desk.user("b");
    let moved = block_on(desk.repo.create_tag("t", b)).unwrap_err();
    assert_eq!(moved.notes(), ["tags never move; choose another name"]);
    assert!(matches!(block_on(desk.repo.create_branch("a b", a)), Err(Error::BadName(_))));
    assert!(matches!(block_on(desk.repo.checkout("sied")), Err(Error::UnknownBranch { .. })));
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
    let desk = Desk::new();
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
    let desk = Desk::new();
    let [a, b, c] = [desk.user("a"), desk.user("b"), desk.user("c")];
    let undo = || block_on(desk.repo.undo(&desk.branch));
    let redo = || block_on(desk.repo.redo(&desk.branch));
    let undone = undo().unwrap();
    assert_eq!((undone.what.as_str(), undone.moves.len()), ("commit", 1));
    assert_eq!(undone.moves[0].before, Some(RefTarget::Commit(c)));
    assert_eq!(undone.moves[0].after, Some(RefTarget::Commit(b)));
    assert_eq!(desk.head(), Some(b));
    undo().unwrap();
    assert_eq!(desk.head(), Some(a), "the next undo goes on from there");
    redo().unwrap();
    assert_eq!(desk.head(), Some(b));
    undo().unwrap();
    assert_eq!(desk.head(), Some(a), "what was done again is taken back again");
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
    assert!(redo().is_err(), "another deed ends what could be redone");
    undo().unwrap();
    assert_eq!(desk.head(), Some(a));
    let commit = block_on(desk.repo.require_commit(d)).unwrap();
    assert_eq!(commit.parent(), Some(a));
    // Undo then append: the branch goes on.
    desk.user("e");
    assert_eq!(desk.shown(), ["user: a", "user: e"]);
}

#[test]
fn one_command_is_one_undo() {
    let desk = Desk::new();
    let a = desk.user("a");
    let operation = tract_core::OperationId::random().unwrap();
    let options = WriteOptions::new().operation(operation);
    for text in ["b", "c"] {
        let requests = [Draft::user(text).into()];
        block_on(desk.repo.write(&desk.branch, &requests, &options)).unwrap();
    }
    let side = desk.on("side");
    block_on(side.repo.write(&side.branch, &[Draft::user("d").into()], &options)).unwrap();
    let undone = block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(undone.moves.len(), 2);
    assert_eq!((desk.head(), side.head()), (Some(a), None));
    block_on(desk.repo.redo(&side.branch)).unwrap();
    assert_eq!(desk.shown(), ["user: a", "user: b", "user: c"]);
}

#[test]
fn undo_does_not_run_over_what_others_moved() {
    let desk = Desk::new();
    desk.user("a");
    let operation = tract_core::OperationId::random().unwrap();
    let options = WriteOptions::new().operation(operation);
    let side = desk.on("side");
    for desk in [&desk, &side] {
        let requests = [Draft::user("both").into()];
        block_on(desk.repo.write(&desk.branch, &requests, &options)).unwrap();
    }
    side.user("since then");
    let error = block_on(desk.repo.undo(&desk.branch)).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
}

#[test]
fn a_reply_answers_one_head() {
    let desk = Desk::new();
    let a = desk.user("a");
    let b = desk.user("b");
    let late = |head| {
        let requests = [Draft::assistant("late").into()];
        let options = WriteOptions::new().expect(head);
        block_on(desk.repo.write(&desk.branch, &requests, &options))
    };
    let error = late(Some(a)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("heads/main moved: expected {}, found {}", a.short(), b.short())
    );
    assert!(matches!(late(None), Err(Error::Conflict { .. })));
    late(Some(b)).unwrap();
}

#[test]
fn lost_races_plan_again() {
    let desk = Desk::new();
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
    let desk = Desk::new();
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
fn what_a_handle_believes_of_a_branch_is_checked() {
    let desk = Desk::new();
    let other = desk.cold();
    let parent = |id| block_on(desk.repo.require_commit(id)).unwrap().parent();
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
    let options = WriteOptions::new().expect(Some(result));
    let late = [Draft::user("late").into()];
    let error = block_on(desk.repo.write(&desk.branch, &late, &options)).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    // Back where it was, by another hand.
    block_on(other.repo.undo(&other.branch)).unwrap();
    assert_eq!(parent(desk.user("e")), Some(result));
}

#[test]
fn messages_that_nobody_looked_at_fold_later() {
    let desk = Desk::new();
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
    assert_eq!(desk.line().view(), desk.cold().line().view());
}

#[test]
fn same_text_same_microsecond_two_writers_two_commits() {
    let desk = Desk::new();
    let a = desk.user("same");
    let other = Desk::with(RepoOptions::new());
    assert_ne!(other.user("same"), a, "the batch keeps them apart");
}

#[test]
fn a_hook_that_rejects_writes_nothing() {
    let desk = Desk::new();
    desk.user("a");
    let hooks = Hooks::new().on("no-keys", |commit: &BeforeCommit| {
        match commit.draft.content.text().contains("sk-") {
            true => CommitAction::Reject("it holds a key".into()),
            false => CommitAction::Pass,
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
fn moves_are_told_once_they_are_durable() {
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    let hooks = Hooks::new().on("listen", |moved: &RefMoved| {
        assert_eq!(moved.entry.name, RefName::branch("main").unwrap());
        HEARD.fetch_add(1, Ordering::SeqCst);
        RefMovedAction::Pass
    });
    let desk = Desk::new();
    let repo = desk.repo.with_hooks(hooks);
    block_on(repo.append(&desk.branch, Draft::user("a"))).unwrap();
    assert_eq!(HEARD.load(Ordering::SeqCst), 1);
}

#[test]
fn moves_by_imports_copies_and_streams_are_told_as_well() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let hooks = Hooks::new().on("listen", move |moved: &RefMoved| {
        ear.lock().unwrap().push((moved.entry.name.to_string(), moved.entry.note.what.clone()));
        RefMovedAction::Pass
    });
    let told = || std::mem::take(&mut *heard.lock().unwrap());
    let moved = |name: &str, what: &str| (name.to_owned(), what.to_owned());
    let desk = Desk::new();
    let repo = desk.repo.with_hooks(hooks.clone());
    let talk = Conversation::new("talk", vec![Draft::user("a")]);
    block_on(import(&repo, talk.clone(), &ImportOptions::new())).unwrap();
    assert_eq!(told(), [moved("heads/talk", "import"), moved("imports/talk", "import")]);
    block_on(import(&repo, talk, &ImportOptions::new())).unwrap();
    assert_eq!(told(), [], "nothing moved");
    let lines =
        "{\"op\":\"user\",\"text\":\"b\"}\n{\"op\":\"tag\",\"name\":\"t\",\"target\":\"HEAD\"}";
    let lines = read_lines(lines.as_bytes());
    let options = ApplyOptions::new().atomic(true);
    let done = block_on(apply_stream(&repo, lines, &options, |event| {
        assert!(event.result.is_ok(), "{event:?}");
    }));
    assert_eq!(done.unwrap().done, 2);
    let mut all = told();
    all.sort();
    assert_eq!(all, [moved("heads/main", "apply"), moved("tags/t", "apply")]);
    let to = Desk::new();
    block_on(copy(&desk.repo, &to.repo.with_hooks(hooks), &CopyOptions::new())).unwrap();
    assert!(told().contains(&moved("heads/talk", "copy")));
}

#[test]
fn the_ref_log_tells_who_what_and_when() {
    let desk = Desk::new();
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
    let desk = Desk::new();
    let a = desk.user("a");
    let side = desk.fork("side", a);
    let mut txn = Txn::new(&desk.repo).unwrap();
    block_on(async {
        txn.add(&desk.branch, &Draft::user("here").into()).await.unwrap();
        txn.add(&side.branch, &Draft::user("there").into()).await.unwrap();
    });
    let stolen = side.user("first");
    let applied = block_on(txn.apply("both", &WriteOptions::new())).unwrap();
    assert!(matches!(applied, tract_core::Applied::Conflict(_)));
    assert_eq!((desk.head(), side.head()), (Some(a), Some(stolen)));
    desk.force(stolen);
    assert_eq!(desk.head(), Some(stolen));
}
