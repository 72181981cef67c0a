//! Collecting garbage: what is needed stays while others write, and the rest goes.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tract_core::store::{StoreError, StoreErrorKind};
use tract_core::stream::StreamOp;
use tract_core::{Blob, CommitId, Draft, ManualClock, RefName, Store, StoreResult, block_on};
use tract_engine::{
    ApplyOptions, Error, GcOptions, GcReport, ImportConversation, ImportOptions, Importer, KeptBy,
    PushOptions, Repo, RepoOptions, StreamLine, Txn, VerifyOptions, apply_stream, copy, gc, import,
    push, verify,
};
use tract_testkit::{Call, FaultyStore, WatchedStore};

use self::support::{assert_clean, branch, meanwhile, on_each_store, say, sqlite};

fn repo(store: &Arc<dyn Store>) -> Repo {
    Repo::new(Arc::clone(store), RepoOptions::default())
}

fn now() -> GcOptions {
    GcOptions { keep: Duration::ZERO, ..GcOptions::default() }
}

fn without_space(report: &GcReport) -> GcReport {
    let mut report = report.clone();
    report.released = None;
    report
}

#[test]
fn undone_commits_are_deleted_when_old_enough() {
    on_each_store(async |store| {
        let repo = repo(&store);
        let kept = say(&repo, "main", "kept").await;
        let undone = say(&repo, "main", "undone").await;
        repo.undo(&branch("main")).await.unwrap();
        let report = gc(&repo, &GcOptions::default()).await.unwrap();
        assert_eq!(report.deleted().objects, 0, "undo may need it");
        assert_eq!(report.kept.get(&KeptBy::RefLog).map(|kept| kept.objects), Some(2));
        let dry = gc(&repo, &GcOptions { dry_run: true, ..now() }).await.unwrap();
        assert!(repo.commit(undone).await.unwrap().is_some(), "a dry run deletes nothing");
        let report = gc(&repo, &now()).await.unwrap();
        assert_eq!(without_space(&report), dry, "a dry run counts the same");
        assert_eq!((report.commits.objects, report.blobs.objects), (1, 1));
        assert_eq!(repo.commit(undone).await.unwrap(), None);
        assert!(repo.commit(kept).await.unwrap().is_some());
        assert_clean(&repo).await;
        let again = gc(&repo, &now()).await.unwrap();
        assert_eq!(again.deleted().objects, 0);
        // What is gone cannot be brought back, and the branch stays where it is.
        let error = repo.redo(&branch("main")).await.unwrap_err();
        assert!(
            matches!(error, Error::Collected { object } if object == tract_core::ObjectId::Commit(undone)),
            "{error:?}"
        );
        assert!(!error.is_store_failure(), "the store is whole");
        let revision = repo.resolve("main@{1}").await.unwrap_err();
        assert!(matches!(revision, Error::Collected { .. }), "{revision:?}");
        assert_eq!(repo.head_of(&branch("main")).await.unwrap(), Some(kept));
        say(&repo, "main", "undone").await;
        assert_clean(&repo).await;
    });
}

#[test]
fn objects_named_by_a_document_are_kept() {
    on_each_store(async |store| {
        let repo = repo(&store);
        say(&repo, "main", "one").await;
        let named = say(&repo, "main", "named by a pin").await;
        repo.undo(&branch("main")).await.unwrap();
        let gone = say(&repo, "main", "named by nothing").await;
        repo.undo(&branch("main")).await.unwrap();
        let document = Blob::seal(format!("{{\"commit\":\"{named}\"}}"));
        let name = RefName::new("pins/one").unwrap();
        repo.set_documents("pin", vec![(name, document)]).await.unwrap();
        gc(&repo, &now()).await.unwrap();
        assert!(repo.commit(named).await.unwrap().is_some());
        assert_eq!(repo.content_of(named).await.unwrap(), Draft::user("named by a pin").content);
        assert_eq!(repo.commit(gone).await.unwrap(), None);
        assert_eq!(repo.documents("pins/").await.unwrap().len(), 1);
        assert_clean(&repo).await;
    });
}

#[test]
fn repositories_of_one_store_keep_their_own() {
    on_each_store(async |store| {
        let one = repo(&store);
        let name = tract_core::RepoName::new("other").unwrap();
        let other = Repo::new(Arc::clone(&store), RepoOptions { name, ..RepoOptions::default() });
        for repo in [&one, &other] {
            say(repo, "main", "kept").await;
            say(repo, "main", "undone").await;
            repo.undo(&branch("main")).await.unwrap();
        }
        assert_eq!(gc(&one, &now()).await.unwrap().commits.objects, 1);
        assert!(other.redo(&branch("main")).await.is_ok(), "it has all of its own");
        assert_clean(&one).await;
        assert_clean(&other).await;
    });
}

#[test]
fn a_copy_whose_objects_are_collected_brings_them_again() {
    on_each_store(async |store| {
        let from = repo(&(Arc::new(tract_kv::memory()) as Arc<dyn Store>));
        for number in 0..40 {
            say(&from, "main", &format!("message {number}")).await;
        }
        // After the first write of the copy, which moves no ref yet, garbage is collected.
        let writes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (below, counted) = (Arc::clone(&store), Arc::clone(&writes));
        let watched = WatchedStore::new(Arc::clone(&store), move |call: Call<'_>| {
            if matches!(call, Call::Apply { .. }) && counted.fetch_add(1, Ordering::Relaxed) == 1 {
                let repo = repo(&below);
                let report = block_on(gc(&repo, &now())).unwrap();
                assert!(report.commits.objects > 0, "the copy is in no ref's reach");
            }
            Ok(())
        });
        let to = repo(&(Arc::new(watched) as Arc<dyn Store>));
        let report = copy(&from, &to, &Default::default()).await.unwrap();
        assert_eq!(report.commits, 40);
        assert!(writes.load(Ordering::Relaxed) > 4);
        assert_clean(&repo(&store)).await;
        let (one, two) = (from.compile(None).await, to.compile(None).await);
        assert_eq!(one.is_ok(), two.is_ok());
    });
}

/// Writers append, undo, fork and delete branches while garbage is collected in a loop.
#[test]
fn racing_writers_lose_nothing_that_is_needed() {
    on_each_store(async |store| {
        let operations = tract_testkit::scaled(2_500, 0.02, 50);
        let done = Arc::new(AtomicBool::new(false));
        let collector = {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            std::thread::spawn(move || {
                let repo = repo(&store);
                let mut rounds = (0u64, 0u64);
                while !done.load(Ordering::Acquire) {
                    match block_on(gc(&repo, &now())) {
                        Ok(report) => {
                            rounds = (rounds.0 + 1, rounds.1 + report.deleted().objects);
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                }
                rounds
            })
        };
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let store = Arc::clone(&store);
                std::thread::spawn(move || {
                    let repo = repo(&store);
                    let name = format!("writer-{writer}");
                    let mut expected = Vec::new();
                    block_on(async {
                        for number in 0..operations {
                            let message =
                                say(&repo, &name, &format!("{writer} said {number}")).await;
                            // Every third is undone, and said again by all writers alike.
                            if number % 3 == 0 {
                                repo.undo(&branch(&name)).await.unwrap();
                                expected.push(say(&repo, &name, "the same words").await);
                            } else {
                                expected.push(message);
                            }
                        }
                    });
                    (name, expected)
                })
            })
            .collect();
        let lines: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Release);
        let (rounds, deleted) = collector.join().unwrap();
        assert!(rounds > 0);
        let repo = repo(&store);
        for (name, expected) in lines {
            let head = repo.head_of(&branch(&name)).await.unwrap().unwrap();
            let mut found: Vec<CommitId> = Vec::new();
            let mut next = Some(head);
            while let Some(id) = next {
                found.push(id);
                next = repo.require_commit(id).await.unwrap().parent();
            }
            found.reverse();
            assert_eq!(found, expected, "{name}");
        }
        assert_clean(&repo).await;
        let last = gc(&repo, &now()).await.unwrap();
        assert!(deleted + last.deleted().objects > 0);
        assert_clean(&repo).await;
    });
}

#[test]
fn a_collection_that_is_cut_short_leaves_a_whole_store() {
    on_each_store(async |store| {
        let repo = repo(&store);
        say(&repo, "main", "kept").await;
        for number in 0..1500 {
            say(&repo, "gone", &format!("message {number}")).await;
        }
        let head = repo.head_of(&branch("gone")).await.unwrap();
        repo.delete_branch("gone").await.unwrap();
        // Each collection may do one sweep and is cut short then.
        let mut left = 3_000;
        for _ in 0..20 {
            let sweeps = std::sync::atomic::AtomicUsize::new(0);
            let watched = WatchedStore::new(Arc::clone(&store), move |call: Call<'_>| {
                let cut = matches!(call, Call::Sweep { .. })
                    && sweeps.fetch_add(1, Ordering::Relaxed) > 0;
                let error = || {
                    let kind = StoreErrorKind::Unavailable;
                    tract_core::StoreError::new(kind, "test", "sweep", "cut short")
                };
                if cut { Err(error()) } else { Ok(()) }
            });
            let cut = Repo::new(Arc::new(watched), RepoOptions::default());
            let outcome = gc(&cut, &now()).await;
            assert_clean(&repo).await;
            let rest =
                gc(&repo, &GcOptions { dry_run: true, ..now() }).await.unwrap().deleted().objects;
            assert!(rest <= left);
            left = rest;
            if outcome.is_ok() {
                break;
            }
        }
        assert_eq!(left, 0);
        assert_eq!(repo.commit(head.unwrap()).await.unwrap(), None);
    });
}

#[test]
fn nothing_is_deleted_where_something_needed_is_missing() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(tract_kv::memory());
        let repo = repo(&store);
        let first = say(&repo, "main", "one").await;
        say(&repo, "main", "two").await;
        let undone = say(&repo, "main", "undone").await;
        repo.undo(&branch("main")).await.unwrap();
        let position = store.write_position(repo.name()).await.unwrap();
        let objects = vec![tract_core::ObjectId::Commit(first)];
        let sweep = tract_core::store::Sweep { position, objects, tools: Vec::new() };
        let _ = store.sweep(repo.name(), sweep).await.unwrap();
        let error = gc(&repo, &now()).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        assert!(repo.commit(undone).await.unwrap().is_some());
    });
}

#[test]
fn a_store_that_cannot_collect_says_so() {
    /// A store at the second level without the methods that a collection needs.
    fn refusing(call: Call<'_>) -> StoreResult<()> {
        match call {
            Call::WritePosition { .. } => {
                let kind = StoreErrorKind::Unsupported;
                Err(tract_core::StoreError::new(kind, "test", "write_position", "it cannot"))
            }
            _ => Ok(()),
        }
    }
    let store: Arc<dyn Store> = Arc::new(tract_kv::memory());
    let watched: Arc<dyn Store> = Arc::new(WatchedStore::new(store, refusing));
    let error = block_on(gc(&repo(&watched), &now())).unwrap_err();
    assert_eq!(error.code(), "unsupported");
}

#[test]
fn a_file_shrinks_when_what_it_held_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(&folder.path().join("agent.db"));
    block_on(async {
        let repo = repo(&store);
        say(&repo, "main", "kept").await;
        for number in 0..60u64 {
            // Words that do not come again, so that compression does not make them short.
            let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let words = std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                format!("{state:x}")
            });
            say(&repo, "gone", &words.take(12_000).collect::<String>()).await;
        }
        repo.delete_branch("gone").await.unwrap();
        let report = gc(&repo, &now()).await.unwrap();
        let released = report.released.unwrap();
        assert_eq!(released.note, None);
        assert!(released.before > 4_000_000, "{released:?}");
        assert!(released.after < 1_000_000, "{released:?}");
        assert_clean(&repo).await;
    });
}

/// A document may name a commit that is stored only later. Being named does not mean that what the
/// commit links to is marked.
#[test]
fn a_commit_that_a_document_named_before_it_was_stored_keeps_its_content() {
    block_on(async {
        let below: Arc<dyn Store> = Arc::new(tract_kv::memory());
        let plain = repo(&below);
        say(&plain, "main", "one").await;
        // The content is garbage, of a commit that is deleted.
        say(&plain, "gone", "shared").await;
        plain.delete_branch("gone").await.unwrap();
        let mut late = tract_testkit::fixtures::batch("late");
        let commit = tract_testkit::fixtures::push(&mut late, None, "shared");
        let source: Arc<dyn Store> = Arc::new(tract_kv::memory());
        let id = say(&repo(&source), "main", "shared").await;
        let original = repo(&source).commit(id).await.unwrap().unwrap();
        let mut record = commit.record().clone();
        record.content = original.content;
        record.kind = original.kind.clone();
        let commit = tract_testkit::fixtures::seal(record);
        late.blobs.clear();
        late.commits = vec![commit.clone()];
        late.refs.push(tract_testkit::fixtures::advance("late", None, commit.id()));
        let document = tract_core::Blob::seal(format!("{{\"names\":\"{}\"}}", commit.id()));
        let mut pin = tract_testkit::fixtures::advance("unused", None, commit.id());
        pin.name = tract_core::RefName::new("pins/one").unwrap();
        pin.to = Some(tract_core::RefTarget::Blob(document.id()));
        let mut pinning = tract_testkit::fixtures::batch("pin");
        (pinning.blobs, pinning.refs) = (vec![document], vec![pin]);
        assert!(below.apply(plain.name(), pinning).await.unwrap().is_stored());
        let (writer, name) = (Arc::clone(&below), plain.name().clone());
        let sweeps = |call: &Call<'_>| matches!(call, Call::Sweep { .. });
        let watched = meanwhile(Arc::clone(&below), 1, sweeps, move || {
            assert!(block_on(writer.apply(&name, late.clone())).unwrap().is_stored());
        });
        gc(&repo(&watched), &now()).await.unwrap();
        assert!(plain.content_of(commit.id()).await.is_ok(), "its content is kept");
        assert!(verify(&plain, &VerifyOptions::default()).await.unwrap().clean);
    });
}

/// A branch that is made between marking and sweeping keeps what it leads to; a store that sweeps
/// without comparing the position would lose it.
#[test]
fn a_branch_made_before_the_sweep_keeps_what_it_leads_to() {
    for (fault, is_lost) in
        [(tract_testkit::Fault::StaysOpen, false), (tract_testkit::Fault::SweepsAnyway, true)]
    {
        block_on(async {
            let below: Arc<dyn Store> = Arc::new(tract_kv::memory());
            let plain = repo(&below);
            say(&plain, "main", "one").await;
            let back = say(&plain, "main", "comes back").await;
            plain.undo(&branch("main")).await.unwrap();
            let writer = plain.clone();
            let faulty = Arc::new(FaultyStore::new(Arc::clone(&below), fault));
            let sweeps = |call: &Call<'_>| matches!(call, Call::Sweep { .. });
            let watched = meanwhile(faulty, 1, sweeps, move || {
                block_on(writer.create_branch("back", back)).unwrap();
            });
            gc(&repo(&watched), &now()).await.unwrap();
            assert_eq!(plain.commit(back).await.unwrap().is_none(), is_lost, "{fault:?}");
            let clean = verify(&plain, &VerifyOptions::default()).await.unwrap().clean;
            assert_eq!(clean, !is_lost, "{fault:?}");
        });
    }
}

/// Where others write without a pause, a sweep succeeds only if what they wrote is marked before they
/// write again. So it costs what they wrote: a page of the log, and the commits.
#[test]
fn marks_of_what_others_wrote_take_few_calls() {
    on_each_store(async |below| {
        let plain = repo(&below);
        for n in 0..200 {
            say(&plain, "main", &format!("message {n}")).await;
        }
        say(&plain, "main", "undone").await;
        plain.undo(&branch("main")).await.unwrap();
        for name in ["a", "b"] {
            let head = plain.head_of(&branch("main")).await.unwrap().unwrap();
            plain.create_branch(name, head).await.unwrap();
        }
        let calls = Arc::new(std::sync::Mutex::new(Vec::<Vec<String>>::new()));
        let (writer, seen) = (plain.clone(), Arc::clone(&calls));
        let watched = WatchedStore::new(Arc::clone(&below), move |call: Call<'_>| {
            let mut seen = seen.lock().expect("no panic");
            match call {
                Call::Sweep { .. } => {
                    if seen.len() < 5 {
                        for name in ["main", "a", "b"] {
                            block_on(say(&writer, name, &format!("sweep {}", seen.len())));
                        }
                        block_on(writer.undo(&branch("a"))).expect("it is undone");
                    }
                    seen.push(Vec::new());
                }
                Call::RefLog { query, .. } => {
                    let last = seen.last_mut();
                    last.into_iter().for_each(|calls| calls.push(format!("log {}", query.limit)));
                }
                call => {
                    let call = format!("{call:?}");
                    let name: String = call.chars().take_while(|c| c.is_alphanumeric()).collect();
                    seen.last_mut().into_iter().for_each(|calls| calls.push(name.clone()));
                }
            }
            Ok(())
        });
        let report = gc(&repo(&(Arc::new(watched) as Arc<dyn Store>)), &now()).await.unwrap();
        assert!(report.deleted().objects > 0);
        assert_clean(&plain).await;
        let calls = calls.lock().expect("no panic");
        for between in calls.iter().take(5) {
            assert_eq!(between[..], ["log 32", "Commits"], "{calls:?}");
        }
    });
}

fn leases(repo: &Repo) -> usize {
    let found = block_on(repo.store().list_refs(repo.name(), RefName::leases()));
    found.expect("the refs are read").len()
}

/// A stream of messages of a megabyte each, which does something else before one of them.
fn slow_stream<'a>(
    messages: usize,
    at: usize,
    act: impl Fn() + 'a,
) -> impl Iterator<Item = StreamLine> + 'a {
    (1..=messages).map(move |number| {
        if number == at {
            act();
        }
        let text = format!("{number} {}", "x".repeat(1 << 20));
        let line = serde_json::json!({ "op": "user", "text": text }).to_string();
        let mut line = StreamLine::new(number, Ok(StreamOp::parse(&line).expect("a line")));
        line.bytes = 1 << 20;
        line
    })
}

#[test]
fn a_stream_that_pauses_keeps_what_it_stored() {
    on_each_store(async |store| {
        let repo = repo(&store);
        say(&repo, "main", "first").await;
        let collect = || {
            assert_eq!(leases(&repo), 1);
            let report = block_on(gc(&repo, &now())).unwrap();
            assert_eq!(report.commits.objects, 0, "the stream needs them");
            assert!(report.kept.contains_key(&KeptBy::Written));
        };
        let lines = slow_stream(24, 20, collect);
        let options = ApplyOptions { atomic: true, ..ApplyOptions::default() };
        let report = apply_stream(&repo, lines, &options, |event| {
            event.result.expect("each line is done");
        });
        assert_eq!(report.await.unwrap().done, 24);
        assert_eq!(leases(&repo), 0, "refs lead there now");
        gc(&repo, &now()).await.unwrap();
        assert_clean(&repo).await;
        // The lease is no part of what one undo reverts.
        repo.undo(&branch("main")).await.unwrap();
        assert_eq!(support::texts(&repo, "main"), ["first"]);
    });
}

#[test]
fn objects_of_a_dead_writer_are_deleted_once_its_lease_has_ended() {
    on_each_store(async |store| {
        let clock = Arc::new(ManualClock::at_us(support::NOON));
        let options = RepoOptions { clock: clock.clone(), ..RepoOptions::default() };
        let collector = Repo::new(Arc::clone(&store), options.clone());
        say(&collector, "main", "first").await;
        // The writer is cut off: it cannot even give its lease back.
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let watched = WatchedStore::new(Arc::clone(&store), move |call: Call<'_>| match call {
            Call::Apply { .. } if cut.load(Ordering::SeqCst) => {
                Err(StoreError::new(StoreErrorKind::Engine, "test", "apply", "cut off"))
            }
            _ => Ok(()),
        });
        let writer = Repo::new(Arc::new(watched) as Arc<dyn Store>, options);
        let lines = slow_stream(24, 15, || is_cut.store(true, Ordering::SeqCst));
        let options = ApplyOptions { atomic: true, ..ApplyOptions::default() };
        assert!(apply_stream(&writer, lines, &options, drop).await.is_err());
        assert_eq!(leases(&collector), 1);
        let report = gc(&collector, &now()).await.unwrap();
        assert_eq!(report.commits.objects, 0, "it may still be writing");
        clock.advance(Duration::from_secs(11 * 60));
        let dry = gc(&collector, &GcOptions { dry_run: true, ..now() }).await.unwrap();
        assert!(dry.commits.objects > 0);
        assert_eq!(leases(&collector), 1, "a dry run deletes nothing");
        let report = gc(&collector, &now()).await.unwrap();
        assert_eq!(report.commits.objects, dry.commits.objects);
        assert_eq!(leases(&collector), 0);
        assert_clean(&collector).await;
    });
}

#[test]
fn a_large_import_keeps_its_beginning() {
    on_each_store(async |store| {
        let repo = repo(&store);
        let options = ImportOptions { group_bytes: 1 << 12, ..ImportOptions::default() };
        let mut importer = Importer::new(&repo, options).unwrap();
        let mut number = 0;
        let next = || {
            number += 1;
            if number % 50 == 0 {
                block_on(gc(&repo, &now())).unwrap();
            }
            let draft = Draft::user(format!("{number} {}", "x".repeat(200)));
            Ok::<_, Error>((number <= 200).then_some(draft))
        };
        let done = importer.add_large("large", &[], None, next).await.unwrap();
        assert_eq!(done[0].commits, 200);
        assert_eq!(leases(&repo), 0);
        assert_clean(&repo).await;
    });
}

/// The commits of a conversation that diverged are stored with those of another one. A collection that
/// takes this for a plain move of a branch deletes their parent.
#[test]
fn a_diverged_import_next_to_a_collection_leaves_no_gap() {
    on_each_store(async |store| {
        let repo_below = repo(&store);
        let conversation = |id: &str, texts: &[&str]| {
            let drafts = texts.iter().map(|text| Draft::user(*text)).collect();
            ImportConversation::new(id, drafts)
        };
        let options = ImportOptions::default();
        // The shared message becomes garbage.
        let garbage = import(&repo_below, conversation("gone", &["shared", "a"]), &options).await;
        let shared = garbage.unwrap().head.unwrap();
        let shared = repo_below.commit(shared).await.unwrap().unwrap().parent().unwrap();
        repo_below.delete_branch("gone").await.unwrap();
        let mut forgotten = Txn::new(&repo_below).unwrap();
        let document = RefName::new("imports/gone").unwrap();
        forgotten.move_ref(&document, None).await.unwrap();
        let _applied = forgotten.apply("prune", &Default::default()).await.unwrap();
        import(&repo_below, conversation("one", &["A", "B"]), &options).await.unwrap();
        let importing = repo(&store);
        // In the middle of the collection, right before it deletes.
        let during = meanwhile(
            Arc::clone(&store),
            1,
            |call| matches!(call, Call::Sweep { .. }),
            move || {
                let mut importer = Importer::new(&importing, ImportOptions::default()).unwrap();
                let diverged = conversation("one", &["shared", "new 1", "new 2"]);
                block_on(importer.add(diverged)).unwrap();
                block_on(importer.add(conversation("two", &["Z"]))).unwrap();
                block_on(importer.finish()).unwrap();
            },
        );
        gc(&repo(&during), &now()).await.unwrap();
        let is_there = repo_below.commit(shared).await.unwrap().is_some();
        assert_clean(&repo_below).await;
        // What is left of the diverged conversation, if anything, is whole.
        let pushed = support::repo();
        import(&pushed, conversation("again", &["shared", "new 1", "new 2"]), &options)
            .await
            .unwrap();
        let all = PushOptions { all: true, ..PushOptions::default() };
        push(&pushed, &repo_below, "team", &all).await.unwrap();
        assert_eq!(support::texts(&repo_below, "again"), ["shared", "new 1", "new 2"]);
        assert_clean(&repo_below).await;
        assert!(!is_there, "it is unreachable");
    });
}
