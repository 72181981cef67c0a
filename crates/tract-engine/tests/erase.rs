//! Erasures: what is shown changes, what is stored goes, and others write meanwhile.

mod support;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::store::{ListKind, ObjectListing, StoreError, StoreErrorKind};
use tract_core::{
    Batch, Blob, CommitId, DerivedKind, Draft, Expect, Kind, ObjectId, RefEdit, RefName, RefTarget,
    Store, StoreExt as _, TokenCounter, ToolSchema, block_on,
};
use tract_engine::secrets::Scanner;
use tract_engine::{
    EraseRequest, EraseTarget, Error, GcOptions, GrepOptions, GrepPattern, ImportConversation,
    ImportOptions, MergeOptions, PendingRequest, Rebase, Repo, RepoOptions, SearchOptions,
    ToolQuery, ToolTurn, describe, erase, erasures, gc, grep, import, log, search,
};
use tract_testkit::{Call, WatchedStore};

use self::support::{assert_clean, meanwhile, on_each_store};

const LEAK: &str = "the door code of the vault is 4711-0815-2342-xyzzy";

fn repo(store: &Arc<dyn Store>) -> Repo {
    Repo::new(Arc::clone(store), RepoOptions { who: "tester".to_owned(), ..RepoOptions::default() })
}

fn main_branch() -> RefName {
    RefName::branch("main").expect("a valid name")
}

async fn shown(repo: &Repo) -> String {
    let head = repo.head_of(&main_branch()).await.expect("it is read");
    let compiled = repo.compile(head).await.expect("it compiles");
    compiled.messages().map(|message| message.content.to_blob().expect("canonical")).collect()
}

async fn turns(repo: &Repo) -> Vec<ToolTurn> {
    let head = repo.head_of(&main_branch()).await.expect("it is read");
    repo.find_tool_turns(head, &ToolQuery::default()).await.expect("they are found").collect()
}

/// Counts bytes.
struct Bytes;

impl TokenCounter for Bytes {
    fn name(&self) -> &str {
        "bytes"
    }

    fn count(&self, text: &str) -> u64 {
        text.len() as u64
    }
}

#[test]
fn arguments_of_answered_calls_and_their_results_are_redacted() {
    on_each_store(async |store| {
        let (repo, main) = (repo(&store), main_branch());
        let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
        let arguments = format!(r#"{{"cmd":"curl -H 'Authorization: token {key}'","n":1}}"#);
        let call = Draft::assistant("").call("c1", "shell", arguments);
        let call = repo.append(&main, call).await.expect("it is written");
        let result = Draft::tool_result("c1", format!("token {key} is valid"));
        repo.append(&main, result).await.expect("it is written");
        let report = erase(&repo, &EraseRequest::secrets(Scanner::builtin().clone())).await;
        let report = report.expect("it is erased");
        assert_eq!((report.blobs.len(), report.edits), (2, 2));
        let shown = shown(&repo).await;
        assert!(!shown.contains(&key), "{shown}");
        assert_eq!(shown.matches("[redacted:github-token:").count(), 2, "{shown}");
        assert!(shown.contains(r#"\"n\":1"#), "the rest of the arguments stays: {shown}");
        let older = repo.compile(Some(call.id())).await.expect_err("the bytes are gone");
        assert!(matches!(&older, Error::Erased(erasure) if erasure.who == "tester"), "{older}");
        assert_eq!(older.code(), "erased");
        assert_clean(&repo).await;
    });
}

/// The same bytes may be a signature in a message and the text of a note.
#[test]
fn a_long_branch_is_read_and_searched_without_what_was_erased() {
    on_each_store(async |store| {
        let options = || RepoOptions {
            who: "tester".to_owned(),
            turn_rows_every: 4,
            ..RepoOptions::default()
        };
        let (repo, main) = (Repo::new(Arc::clone(&store), options()), main_branch());
        let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
        let schema = format!(r#"{{"name":"door","description":"{key}"}}"#);
        let schema = ToolSchema::parse(&schema).expect("a definition");
        repo.set_tools(&main, vec![schema]).await.expect("it is written");
        for n in 0..4 {
            let call = format!(r#"{{"code":"{key}","n":{n}}}"#);
            let call = Draft::assistant("").call(format!("c{n}"), "door", call);
            repo.append(&main, call).await.expect("it is written");
            let result = Draft::tool_result(format!("c{n}"), format!("{key} opens {n}"));
            repo.append(&main, result).await.expect("it is written");
            for i in 0..3 {
                let text = format!("walk {i} through door {n}");
                repo.append(&main, Draft::user(text)).await.expect("it is written");
            }
        }
        let before = turns(&repo).await;
        assert_eq!(before.len(), 4);
        let report = erase(&repo, &EraseRequest::secrets(Scanner::builtin().clone())).await;
        let report = report.expect("it is erased");
        assert_eq!(report.blobs.len(), 9, "{:?}", report.places);
        assert!(report.wiped.is_ok(), "{:?}", report.wiped);

        // The turns are those that the edits show.
        let after = turns(&repo).await;
        let names = |turns: &[ToolTurn]| -> Vec<Vec<String>> {
            turns.iter().map(|turn| turn.tool_names.clone()).collect()
        };
        assert_eq!(names(&after), names(&before));
        assert!(after.iter().all(|turn| turn.results.len() == 1), "{after:?}");
        // As another counter reads the rows.
        let recounting =
            Repo::new(Arc::clone(&store), RepoOptions { counter: Arc::new(Bytes), ..options() });
        assert_eq!(names(&turns(&recounting).await), names(&before));
        // Older lines, whose versions are gone.
        let head = repo.head_of(&main).await.expect("read").expect("a head");
        let line = log(&repo, head, 100).await.expect("it is read").commits;
        for commit in &line {
            let found = repo.find_tool_turns(Some(commit.id()), &ToolQuery::default()).await;
            found.expect("it is read");
        }
        let lines = describe(&repo, &line).await.expect("it is described");
        assert!(lines.iter().any(|line| line.text.contains("erased")), "{lines:?}");
        let heads = [head];
        let found = search(
            &repo,
            &heads,
            "walk door",
            &SearchOptions { hidden: true, ..SearchOptions::default() },
        )
        .await;
        assert!(!found.expect("it is searched").hits.is_empty());
        let pattern = GrepPattern::new().text("through door").expect("a pattern");
        let found =
            grep(&repo, &heads, pattern, GrepOptions { hidden: true, ..GrepOptions::default() })
                .await;
        let mut found = found.expect("it is searched");
        let mut hits = 0;
        while let Some(more) = found.next_hits().await.expect("it is searched") {
            hits += more.len();
        }
        assert_eq!(hits, 12);
        assert_clean(&repo).await;
    });
}

#[test]
fn documents_and_kept_originals_lose_it_as_well() {
    on_each_store(async |store| {
        let (repo, main) = (repo(&store), main_branch());
        let leak = repo.append(&main, Draft::user(LEAK)).await.expect("it is written");
        let mut keeping = Draft::user("what a handler left of it");
        keeping.keeps = vec![Blob::seal(format!("{{\"was\":\"{LEAK}\"}}"))];
        repo.append(&main, keeping).await.expect("it is written");
        let name = RefName::new("effects/x/0").expect("a valid name");
        let document = Blob::seal(format!(r#"{{"answer":"{LEAK}!","n":12345678901234567890}}"#));
        repo.set_documents("effect", vec![(name.clone(), document)]).await.expect("written");
        let request = EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak");
        // Another message keeps what it has, and with it what may be of it.
        let alone = erase(&repo, &EraseRequest { dry_run: true, ..request.clone() })
            .await
            .expect("it is found");
        assert_eq!((alone.blobs.len(), alone.others().count()), (1, 2), "{:?}", alone.places);
        let request = EraseRequest { everywhere: true, ..request };
        let report = erase(&repo, &request).await.expect("it is erased");
        assert_eq!(report.blobs.len(), 3, "{:?}", report.places);
        let kinds: Vec<&str> = report.places.iter().map(|place| place.kind.as_str()).collect();
        assert_eq!(kinds, ["message", "kept original", "document"]);
        let documents = repo.documents("effects/").await.expect("they are read");
        let text = documents[0].1.text().expect("text");
        assert_eq!(text, r#"{"answer":"[erased: a leak]!","n":12345678901234567890}"#);
        assert_clean(&repo).await;
        // The erasure is not undone, neither the edit nor the document: the message before it is.
        assert_eq!(repo.undo(&main).await.expect("it is undone").what, "commit");
        assert_eq!(shown(&repo).await, r#""[erased: a leak]""#);
        assert_eq!(repo.documents("effects/").await.expect("they are read"), documents);
        assert_eq!(erasures(&repo).await.expect("they are read").len(), 3);
        assert_clean(&repo).await;
        gc(&repo, &GcOptions { keep: std::time::Duration::ZERO, ..GcOptions::default() })
            .await
            .expect("collected");
        assert_clean(&repo).await;
    });
}

#[test]
fn a_decision_keeps_no_message_that_was_erased_however_short() {
    on_each_store(async |store| {
        let (repo, main) = (repo(&store), main_branch());
        repo.append(&main, Draft::user("before")).await.expect("it is written");
        let message = PendingRequest::Append(Box::new(Draft::user("hunter2 first")));
        let pending = repo.defer(&main, message, "person", "to check").await.expect("it is kept");
        let edited = repo.edit_pending(&pending.id, "hunter2 next").await.expect("it is decided");
        let commit = edited.commit.expect("a message");
        let other = PendingRequest::Append(Box::new(Draft::user("hunter3")));
        let other = repo.defer(&main, other, "person", "to check").await.expect("it is kept");
        let other = repo.approve(&other.id).await.expect("it is approved");
        let request = EraseRequest::targets(vec![EraseTarget::Commit(commit)], "leaked");
        erase(&repo, &request).await.expect("it is erased");
        let listing = ObjectListing { kind: ListKind::Blobs, after: 0, limit: 1000 };
        let listed = store.list_objects(repo.name(), listing).await.expect("they are listed");
        let mut texts = String::new();
        for (object, _) in listed.objects {
            let ObjectId::Blob(id) = object else { continue };
            let blob = store.blob(repo.name(), id).await.expect("it is read").expect("it is there");
            texts.push_str(blob.text().unwrap_or_default());
        }
        assert!(!texts.contains("hunter2") && texts.contains("hunter3"), "{texts}");
        let decision = repo.decision(&edited.id).await.expect("it is read").expect("it is there");
        assert_eq!(decision.commit, Some(commit));
        let kept = repo.decision(&other.id).await.expect("it is read").expect("it is there");
        assert_eq!(kept.request, other.request);
        assert_clean(&repo).await;
    });
}

#[test]
fn a_message_that_comes_during_an_erasure_is_erased_too() {
    on_each_store(async |store| {
        let (own, main) = (repo(&store), main_branch());
        let leak = block_on(own.append(&main, Draft::user(LEAK))).expect("it is written");
        let other = RefName::branch("other").expect("a valid name");
        let branch = other.clone();
        let looks_last = |call: &Call<'_>| matches!(call, Call::ToolNames { .. });
        let watched = meanwhile(store, 1, looks_last, move || {
            for (branch, text) in [(&branch, "fine"), (&branch, LEAK), (&main, "fine")] {
                block_on(own.append(branch, Draft::user(text))).expect("it is written");
            }
        });
        let repo = repo(&watched);
        let request = EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak");
        let report = erase(&repo, &EraseRequest { everywhere: true, ..request })
            .await
            .expect("it is erased");
        assert_eq!((report.blobs.len(), report.edits), (1, 2));
        for branch in [&main_branch(), &other] {
            let head = repo.head_of(branch).await.expect("it is read");
            repo.compile(head).await.expect("it compiles");
        }
        assert_clean(&repo).await;
    });
}

/// Another message with the same bytes must not lose them, however it arrives between the scan of
/// an erasure and its write.
#[test]
fn a_message_that_arrives_before_the_write_keeps_the_bytes_that_it_shares() {
    let appends: fn(&Repo) = |repo| {
        let other = RefName::branch("other").expect("a valid name");
        block_on(repo.append(&other, Draft::user(LEAK))).expect("it is written");
    };
    // Objects are stored, and the ref follows after the erasure.
    let stores_ahead: fn(&Repo) = |repo| ahead(repo, |_, _| {});
    // As a stream, an import or a transfer in progress does: its lease names the commit.
    let holds_a_lease: fn(&Repo) = |repo| {
        ahead(repo, |batch, commit| {
            let document = format!(r#"{{"objects":["{}"],"until":{}}}"#, commit.to_hex(), i64::MAX);
            let document = Blob::seal(document);
            let to = Some(RefTarget::Blob(document.id()));
            let name = RefName::lease("aa", 0);
            batch.refs.push(RefEdit { name, expect: Expect::Absent, to });
            batch.blobs.push(document);
        });
    };
    let imports: fn(&Repo) = |repo| {
        let drafts = vec![Draft::user(LEAK), Draft::user("fine")];
        let conversation = ImportConversation::new("other", drafts);
        block_on(import(repo, conversation, &ImportOptions::default())).expect("it is imported");
    };
    for arrives in [appends, stores_ahead, holds_a_lease, imports] {
        on_each_store(async |store| {
            let own = repo(&store);
            let leak = block_on(own.append(&main_branch(), Draft::user(LEAK))).expect("written");
            AHEAD.set(None);
            let writer = own.clone();
            let writes = |call: &Call<'_>| matches!(call, Call::Apply { .. });
            let watched = meanwhile(Arc::clone(&store), 1, writes, move || arrives(&writer));
            let request = EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak");
            let report = erase(&repo(&watched), &request).await.expect("it is erased");
            assert_eq!((report.blobs.len(), report.edits), (0, 1), "the bytes are shared");
            assert_eq!(shown(&own).await, r#""[erased: a leak]""#);
            if let Some(ahead) = AHEAD.take() {
                own.create_branch("other", ahead).await.expect("it is made");
            }
            let other = RefName::branch("other").expect("a valid name");
            let head = own.head_of(&other).await.expect("it is read");
            let compiled = own.compile(head).await.expect("it compiles");
            assert_eq!(compiled.messages().next().expect("shown").content.text(), LEAK);
            assert_clean(&own).await;
        });
    }
}

#[test]
fn a_message_on_no_branch_that_is_restored_during_an_erasure_keeps_its_bytes() {
    on_each_store(async |store| {
        let own = repo(&store);
        let first = own.append(&main_branch(), Draft::user("first")).await.expect("written");
        let side = own.create_branch("side", first.id()).await.expect("it is made");
        let deleted = own.append(&side, Draft::assistant(LEAK)).await.expect("written").id();
        own.delete_branch("side").await.expect("it is deleted");
        let leak = own.append(&main_branch(), Draft::user(LEAK)).await.expect("written").id();
        let request = EraseRequest::targets(vec![EraseTarget::Commit(leak)], "a leak");
        let dry = EraseRequest { dry_run: true, ..request.clone() };
        let dry = erase(&own, &dry).await.expect("it is looked for");
        let unreferenced = dry.places.iter().find(|place| place.unreferenced);
        assert_eq!(unreferenced.and_then(|place| place.commit), Some(deleted));
        assert_eq!((dry.blobs.len(), dry.shared.len()), (1, 0));
        let writer = own.clone();
        let writes = |call: &Call<'_>| matches!(call, Call::Apply { .. });
        let watched = meanwhile(Arc::clone(&store), 1, writes, move || {
            block_on(writer.create_branch("side", deleted)).expect("it is made");
        });
        let report = erase(&repo(&watched), &request).await.expect("it is erased");
        assert_eq!((report.blobs.len(), report.shared.len()), (0, 1), "{:?}", report.places);
        let head = own.head_of(&side).await.expect("it is read");
        let compiled = own.compile(head).await.expect("it compiles");
        assert_eq!(compiled.messages().last().expect("shown").content.text(), LEAK);
        assert!(!shown(&own).await.contains(LEAK));
        assert_clean(&own).await;
    });
}

/// Stores a message with the bytes before a ref leads to it. `and` adds to its batch.
fn ahead(repo: &Repo, and: impl FnOnce(&mut Batch, CommitId)) {
    let source = self::repo(&(Arc::new(tract_kv::memory()) as Arc<dyn Store>));
    let commit = block_on(source.append(&main_branch(), Draft::user(LEAK))).expect("written");
    let content = commit.content.expect("a message has content");
    let blob = block_on(source.store().blob(source.name(), content)).expect("it is read");
    let mut batch = tract_testkit::fixtures::batch("import");
    (batch.blobs, batch.commits) = (blob.into_iter().collect(), vec![commit.clone()]);
    and(&mut batch, commit.id());
    let applied = block_on(repo.store().apply(repo.name(), batch)).expect("it is stored");
    assert!(applied.is_stored());
    AHEAD.set(Some(commit.id()));
}

thread_local! {
    /// The commit that was stored before a ref leads to it.
    static AHEAD: Cell<Option<CommitId>> = const { Cell::new(None) };
}

/// A branch on which the second of three messages was erased, with the commits of all three.
async fn erased_second(store: &Arc<dyn Store>) -> (Repo, Vec<CommitId>) {
    let (repo, main) = (repo(store), main_branch());
    let mut commits = Vec::new();
    for text in ["first", LEAK, "third"] {
        commits.push(repo.append(&main, Draft::user(text)).await.expect("it is written").id());
    }
    repo.create_tag("before", commits[2]).await.expect("it is made");
    let request = EraseRequest::targets(vec![EraseTarget::Commit(commits[1])], "a leak");
    erase(&repo, &request).await.expect("it is erased");
    (repo, commits)
}

const WITHOUT_SECOND: &str = r#""first""[erased: a leak]""third""#;

#[test]
fn no_verb_leaves_a_branch_that_shows_an_erased_message() {
    on_each_store(async |store| {
        let (repo, commits) = erased_second(&store).await;
        let main = main_branch();
        assert_eq!(shown(&repo).await, WITHOUT_SECOND);
        let erased = repo.head_of(&main).await.expect("it is read").expect("a head");
        // The tag itself leads to what is gone.
        assert!(matches!(repo.compile(Some(commits[2])).await, Err(Error::Erased(_))));

        let revert = repo.revert(&main, &[erased]).await;
        revert.expect("the edit is reverted, and made again");
        assert_eq!(shown(&repo).await, WITHOUT_SECOND);
        let drop_edit = Rebase::Drop { commits: vec![erased] };
        repo.reset(&main, erased).await.expect("it is reset");
        repo.rebase(&main, &drop_edit).await.expect("the edit is dropped, and made again");
        assert_eq!(shown(&repo).await, WITHOUT_SECOND);
        repo.reset(&main, commits[2]).await.expect("it is reset");
        assert_eq!(shown(&repo).await, WITHOUT_SECOND);
        assert_eq!(repo.head_of(&main).await.expect("it is read"), Some(erased), "the same edit");
        repo.reset(&main, commits[0]).await.expect("it is reset");
        assert_eq!(shown(&repo).await, r#""first""#);
        let options = MergeOptions::default();
        repo.merge(&main, commits[2], &options).await.expect("it is forwarded");
        assert_eq!(shown(&repo).await, WITHOUT_SECOND);
        repo.reset(&main, commits[0]).await.expect("it is reset");
        repo.append(&main, Draft::user("between")).await.expect("it is written");
        repo.merge(&main, commits[2], &options).await.expect("it is merged");
        assert!(shown(&repo).await.contains("[erased: a leak]"));

        for (name, at) in [("old", commits[2]), ("older", commits[1])] {
            let branch = repo.create_branch(name, at).await.expect("it is made");
            let head = repo.head_of(&branch).await.expect("it is read");
            let compiled = repo.compile(head).await.expect("it compiles");
            assert_eq!(
                compiled.messages().nth(1).expect("shown").content.text(),
                "[erased: a leak]"
            );
        }
        assert_clean(&repo).await;
    });
}

#[test]
fn an_undo_makes_the_edit_of_an_erasure_again() {
    on_each_store(async |store| {
        let (repo, _) = erased_second(&store).await;
        let main = main_branch();
        repo.append(&main, Draft::user("fourth")).await.expect("it is written");
        let undone =
            [r#""first""[erased: a leak]""third""#, r#""first""[erased: a leak]""#, r#""first""#];
        for expected in undone {
            assert_eq!(repo.undo(&main).await.expect("it is undone").what, "commit");
            assert_eq!(shown(&repo).await, expected);
        }
        for expected in undone.iter().rev().skip(1) {
            repo.redo(&main).await.expect("it is done again");
            assert_eq!(shown(&repo).await, *expected);
        }
        repo.redo(&main).await.expect("it is done again");
        assert!(shown(&repo).await.ends_with(r#""fourth""#));
        assert_clean(&repo).await;
    });
}

#[test]
fn a_branch_that_is_made_during_an_erasure_does_not_show_the_message() {
    on_each_store(async |store| {
        let (own, main) = (repo(&store), main_branch());
        let leak = block_on(own.append(&main, Draft::user(LEAK))).expect("it is written").id();
        block_on(own.append(&main, Draft::user("fine"))).expect("it is written");
        // The branch is made on what was read before the erasure.
        let writes = |call: &Call<'_>| matches!(call, Call::Apply { .. });
        let eraser = own.clone();
        let watched = meanwhile(Arc::clone(&store), 1, writes, move || {
            let request = EraseRequest::targets(vec![EraseTarget::Commit(leak)], "a leak");
            block_on(erase(&eraser, &request)).expect("it is erased");
        });
        let other = repo(&watched).create_branch("other", leak).await.expect("it is made");
        let head = own.head_of(&other).await.expect("it is read");
        let compiled = own.compile(head).await.expect("it compiles");
        assert_eq!(compiled.messages().next().expect("shown").content.text(), "[erased: a leak]");
        assert_clean(&own).await;
    });
}

#[test]
fn an_erasure_of_a_message_that_is_collected_meanwhile_says_so() {
    // The message is deleted when it is looked for the first time, or when it is named and known.
    let looks: [fn(&Call<'_>) -> bool; 2] = [
        |call| matches!(call, Call::Commits { .. }),
        |call| matches!(call, Call::ListObjects { .. }),
    ];
    for look in looks {
        on_each_store(async |store| {
            let own = repo(&store);
            let first =
                block_on(own.append(&main_branch(), Draft::user("first"))).expect("written");
            let side = own.create_branch("side", first.id()).await.expect("it is made");
            let leak = block_on(own.append(&side, Draft::user(LEAK))).expect("it is written").id();
            let collector = own.clone();
            let watched = meanwhile(Arc::clone(&store), 1, look, move || {
                block_on(collector.delete_branch("side")).expect("it is deleted");
                let options = GcOptions { keep: std::time::Duration::ZERO, ..GcOptions::default() };
                block_on(gc(&collector, &options)).expect("it is collected");
            });
            let request = EraseRequest::targets(vec![EraseTarget::Commit(leak)], "a leak");
            let error = erase(&repo(&watched), &request).await.expect_err("it is gone");
            assert!(
                matches!(error, Error::Collected { object } if object == tract_core::ObjectId::Commit(leak)),
                "{error}"
            );
            assert_eq!(error.code(), "collected");
            assert!(!error.notes().is_empty());
            assert_clean(&own).await;
        });
    }
}

#[test]
fn an_erasure_whose_wipe_failed_is_finished_by_the_next_one() {
    on_each_store(async |store| {
        let repo = repo(&store);
        let leak = repo.append(&main_branch(), Draft::user(LEAK)).await.expect("it is written");
        let request = EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak");
        let wipes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&wipes);
        let watched = WatchedStore::new(Arc::clone(&store), move |call: Call<'_>| match call {
            Call::Wipe { .. } if count.fetch_add(1, Ordering::Relaxed) == 0 => {
                Err(StoreError::new(StoreErrorKind::Busy, "test", "wipe", "it is in use"))
            }
            _ => Ok(()),
        });
        let watched: Arc<dyn Store> = Arc::new(watched);
        let watched = self::repo(&watched);
        let first = erase(&watched, &request).await.expect("it is erased");
        assert_eq!((first.blobs.len(), first.was_erased), (1, false));
        assert!(first.wiped.is_err());
        let dry = EraseRequest { dry_run: true, ..request.clone() };
        assert!(erase(&watched, &dry).await.expect("it is looked for").was_erased);
        assert_eq!(wipes.load(Ordering::Relaxed), 1);
        let second = erase(&watched, &request).await.expect("it is finished");
        assert!(second.was_erased && second.is_empty() && second.wiped.is_ok(), "{second:?}");
        assert_eq!(wipes.load(Ordering::Relaxed), 2);
        // A redaction that finds nothing may follow one that was interrupted, too.
        let redaction = EraseRequest::secrets(Scanner::builtin().clone());
        let third = erase(&watched, &redaction).await.expect("it is finished");
        assert!(third.is_empty() && third.wiped.is_ok(), "{third:?}");
        assert_eq!(wipes.load(Ordering::Relaxed), 3);
        assert_clean(&repo).await;
    });
}

#[test]
fn a_conversation_that_is_imported_again_gets_no_erased_bytes_back() {
    on_each_store(async |store| {
        let repo = repo(&store);
        let options = ImportOptions::default();
        let import_it = || {
            let drafts = vec![Draft::user("first"), Draft::user(LEAK)];
            import(&repo, ImportConversation::new("c", drafts), &options)
        };
        let head = import_it().await.expect("it is imported").head.expect("a head");
        repo.create_tag("kept", head).await.expect("it is made");
        let request = EraseRequest::targets(vec![EraseTarget::Commit(head)], "a leak");
        erase(&repo, &request).await.expect("it is erased");
        let branch = RefName::branch("c").expect("a valid name");
        repo.create_branch("other", head).await.expect("it is made");
        repo.checkout("other").await.expect("it is checked out");
        repo.delete_branch("c").await.expect("it is deleted");
        import_it().await.expect("it is imported");
        let at = repo.head_of(&branch).await.expect("it is read");
        let compiled = repo.compile(at).await.expect("it compiles");
        let texts: Vec<String> = compiled.messages().map(|it| it.content.text()).collect();
        assert_eq!(texts, ["first", "[erased: a leak]"]);
        assert_clean(&repo).await;
    });
}

#[test]
fn a_search_that_began_before_an_erasure_writes_no_erased_words() {
    on_each_store(async |store| {
        let (own, main) = (repo(&store), main_branch());
        let leak = block_on(own.append(&main, Draft::user("the zzcodewordzz"))).expect("written");
        for n in 0..8 {
            block_on(own.append(&main, Draft::user(format!("message {n}")))).expect("written");
        }
        let head = block_on(own.head_of(&main)).expect("read").expect("a head");
        // Each search is interrupted at its first write of rows.
        let writes_rows = |call: &Call<'_>| matches!(call, Call::Apply { batch, .. } if !batch.derived.is_empty());
        let eraser = own.clone();
        let watched = meanwhile(Arc::clone(&store), 1, writes_rows, move || {
            let request = EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak");
            block_on(erase(&eraser, &request)).expect("it is erased");
        });
        let searcher = repo(&watched);
        let options = SearchOptions { store_after: 1, hidden: true, ..SearchOptions::default() };
        let found = search(&searcher, &[head], "message zzcodewordzz", &options).await;
        assert_eq!(found.expect("it is searched").hits.len(), 8);
        for kind in DerivedKind::ALL {
            let line = log(&own, head, 100).await.expect("it is read").commits;
            let ids: Vec<_> = line.iter().map(tract_core::Commit::id).collect();
            let rows = store.derived(own.name(), kind, &ids).await.expect("they are read");
            let has_word = |row: &bytes::Bytes| row.windows(10).any(|it| it == b"codewordzz");
            assert!(!rows.iter().flatten().any(has_word), "{kind:?}");
        }
        assert_clean(&own).await;
    });
}

#[test]
fn writers_and_two_erasers_at_once_leave_nothing_half_done() {
    on_each_store(async |store| {
        let writer = repo(&store);
        let main = main_branch();
        let leak = block_on(writer.append(&main, Draft::user(LEAK))).expect("it is written");
        let request = EraseRequest {
            ban: true,
            ..EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak")
        };
        std::thread::scope(|scope| {
            for n in 0..2 {
                let (own, main) = (repo(&store), &main);
                scope.spawn(move || {
                    for i in 0..20 {
                        let text = format!("message {i} of writer {n}");
                        block_on(own.append(main, Draft::user(text))).expect("it is written");
                    }
                });
            }
            for _ in 0..2 {
                let (own, request) = (repo(&store), &request);
                scope.spawn(move || {
                    let report = block_on(erase(&own, request)).expect("one of them erases it");
                    assert_eq!(report.blobs.len(), usize::from(!report.was_erased));
                });
            }
        });
        let reader = repo(&store);
        let shown = shown(&reader).await;
        assert!(!shown.contains(LEAK), "{shown}");
        assert_eq!(shown.matches("[erased: a leak]").count(), 1, "{shown}");
        assert_eq!(shown.matches("of writer").count(), 40);
        let again = reader.append(&main, Draft::user(LEAK)).await.expect_err("it is refused");
        assert_eq!(again.code(), "erased");
        let other = Draft::new(tract_core::Content::user("fine"));
        assert_eq!(other.content.kind(), Kind::User);
        reader.append(&main, other).await.expect("it is written");
        assert_clean(&reader).await;
    });
}
