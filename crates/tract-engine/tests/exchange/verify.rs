use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tract_core::{
    AuthorKind, Batch, Blob, BlobId, Change, Changes, Commit, CommitId, CommitRecord, CommitRef,
    Content, Draft, Expect, Kind, ObjectId, Op, Priority, RefEdit, RefTarget, RowFields, Store,
    StoreError, StoreErrorKind, StoreExt, StoreResult, ToolEntry, ToolSchema, Toolset, block_on,
};
use tract_engine::{
    ApplyOptions, OnVerify, Repo, RepoOptions, VerifyOptions, VerifyReport, verify,
};
use tract_testkit::fixtures::batch;
use tract_testkit::{Answer, Call, Watch, WatchedStore};

use crate::broken::Fault;
use crate::support::{EVERYTHING, branch, done, import_all, recorded, repo, repo_in, say};

fn check(repo: &Repo) -> VerifyReport {
    block_on(verify(repo, &VerifyOptions::default())).expect("the store reads")
}

#[test]
fn an_import_verifies_clean() {
    let repo = repo();
    import_all(&repo, &recorded());
    let reports = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&reports);
    let options = VerifyOptions {
        progress: Some(OnVerify::new(move |at| {
            progress.lock().expect("no panic").push((at.commits_done, at.commits));
        })),
        ..VerifyOptions::default()
    };
    let report = block_on(verify(&repo, &options)).expect("the store reads");
    assert_eq!(report.damage, []);
    assert!(report.clean);
    let stats = block_on(repo.store().stats(repo.name())).expect("stats");
    assert_eq!(report.commits as u64, stats.commits);
    assert_eq!(report.blobs as u64, stats.blobs);
    assert_eq!(report.toolsets as u64, stats.toolsets);
    assert_eq!(report.tools as u64, stats.tools);
    assert_eq!(report.ref_moves as u64, stats.log_entries);
    let reports = reports.lock().expect("no panic");
    assert_eq!(reports.last(), Some(&(report.commits, report.commits)));
}

#[test]
fn an_empty_repository_is_clean() {
    let report = check(&repo());
    assert!(report.clean);
    assert_eq!(report.objects(), 0);
}

/// A sound repository, seen through a fault.
fn seen(fault: impl FnOnce(&Repo) -> Fault) -> (VerifyReport, Fault) {
    let sound = repo();
    done(&sound, EVERYTHING, &ApplyOptions { batch: Some(1), ..ApplyOptions::default() });
    assert!(check(&sound).clean);
    let fault = fault(&sound);
    let store = Arc::clone(sound.store());
    (check(&repo_in(Arc::new(WatchedStore::new(store, fault.clone())))), fault)
}

#[track_caller]
fn names(report: &VerifyReport, object: ObjectId) {
    assert!(!report.clean);
    let named = report.damage.iter().any(|damage| damage.object == Some(object));
    assert!(named, "{object} is not among {:?}", report.damage);
}

/// The commits of main, newest first.
fn line(repo: &Repo) -> Vec<Commit> {
    let head = block_on(repo.head_of(&branch("main"))).expect("it reads").expect("a head");
    block_on(repo.store().walk_all(repo.name(), head)).expect("it walks")
}

/// A content of the history.
fn some_content(repo: &Repo) -> ObjectId {
    let content = line(repo).iter().find_map(|commit| commit.content);
    ObjectId::Blob(content.expect("a commit with content"))
}

#[test]
fn verify_tells() {
    /// Damages an object, and leaves it out.
    #[track_caller]
    fn tells(object: impl Fn(&Repo) -> ObjectId) {
        for fault in [Fault::Damaged, Fault::Missing] {
            let (report, fault) = seen(|repo| fault(object(repo)));
            names(&report, fault.object());
        }
    }
    for place in [0, 3, 8] {
        // A head that is gone is no longer a root unless a ref names it.
        tells(|repo| ObjectId::Commit(line(repo)[place].id()));
    }
    tells(some_content);
    tells(|repo| ObjectId::Toolset(line(repo)[0].toolset.expect("tools are in force")));
    // A schema, which is the raw text of a tool.
    tells(|repo| {
        let tools = block_on(repo.store().tools_of(repo.name(), line(repo)[0].id()));
        ObjectId::Blob(tools.expect("tools")[0].id())
    });
}

#[test]
fn only_what_is_damaged_is_named() {
    let (report, fault) = seen(|repo| Fault::Damaged(some_content(repo)));
    assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
    assert_eq!(report.damage[0].object, Some(fault.object()));
    assert!(!report.damage[0].derived);
}

#[test]
fn walk_equals_walk() {
    let (report, _) = seen(|repo| Fault::Walk(line(repo)[4].id()));
    assert!(!report.clean);
    assert!(report.damage.iter().all(|damage| damage.derived), "{:?}", report.damage);
    assert!(report.damage.iter().any(|damage| damage.what.contains("range walk")));
}

#[test]
fn log_replays() {
    let (report, _) = seen(|repo| Fault::Ref(branch("main"), line(repo)[1].id()));
    assert!(report.damage.iter().any(|damage| damage.what.contains("heads/main points at")));
    let (report, _) = seen(|_| Fault::Log(5));
    assert!(!report.clean);
    assert!(
        report.damage.iter().all(|damage| damage.what.contains("ref log")),
        "{:?}",
        report.damage
    );
}

#[test]
fn a_ref_log_without_its_oldest_entries_is_damage() {
    let (report, _) = seen(|_| Fault::OldestLogEntries(4));
    assert!(!report.clean);
    let findings: Vec<&str> = report.damage.iter().map(|damage| damage.what.as_str()).collect();
    assert!(findings.iter().any(|what| what.contains("but it was at nothing")), "{findings:?}");
}

/// Others append before and after every look at the refs and at their log.
struct Others {
    repo: Repo,
}

#[async_trait::async_trait]
impl Watch for Others {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let looks = matches!(call, Call::ListRefs { .. } | Call::Refs { .. } | Call::RefLog { .. });
        if looks {
            say(&self.repo, "busy", "before").await;
        }
        let answer = call.ask(store).await?;
        if looks {
            say(&self.repo, "busy", "after").await;
        }
        Ok(answer)
    }
}

#[test]
fn moves_by_others_while_it_is_verified_are_no_damage() {
    let sound = repo();
    done(&sound, EVERYTHING, &ApplyOptions { batch: Some(1), ..ApplyOptions::default() });
    let others = Others { repo: repo_in(Arc::clone(sound.store())) };
    let watched = repo_in(Arc::new(WatchedStore::new(Arc::clone(sound.store()), others)));
    for _ in 0..3 {
        let report = check(&watched);
        assert_eq!(report.damage, []);
    }
    // A ref without a log entry is damage as well.
    let fault = Fault::Ref(branch("main"), line(&sound)[1].id());
    let broken = Arc::new(WatchedStore::new(Arc::clone(sound.store()), fault));
    let others = Others { repo: repo_in(Arc::clone(sound.store())) };
    let report = check(&repo_in(Arc::new(WatchedStore::new(broken, others))));
    assert!(report.damage.iter().any(|damage| damage.what.contains("heads/main points at")));
}

#[test]
fn a_write_whose_outcome_is_unknown_says_why_and_not_that_the_handle_is_spent() {
    // A store that fails while it writes, and writes nothing more.
    let writes = AtomicUsize::new(0);
    let store = WatchedStore::new(Arc::new(tract_kv::memory()), move |call: Call<'_>| {
        let Call::Apply { .. } = call else { return Ok(()) };
        let (kind, message) = match writes.fetch_add(1, Ordering::Relaxed) {
            0 => (StoreErrorKind::Unknown, "the flush failed"),
            _ => (StoreErrorKind::Poisoned, "an earlier write failed"),
        };
        Err(StoreError::new(kind, "failing", "apply", message))
    });
    let repo = repo_in(Arc::new(store));
    let error = block_on(repo.append(&branch("main"), Draft::user("one"))).expect_err("it fails");
    assert_eq!(error.code(), "outcome_unknown", "{error}");
    assert!(error.to_string().contains("the flush failed"), "{error}");
}

/// Counts the objects that a store gives.
#[derive(Default)]
struct ObjectsRead {
    commits: AtomicUsize,
    blobs: AtomicUsize,
    derived: AtomicUsize,
}

#[async_trait::async_trait]
impl Watch for ObjectsRead {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        if let Call::Derived { commits, .. } = call {
            self.derived.fetch_add(commits.len(), Ordering::Relaxed);
        }
        let answer = call.ask(store).await?;
        let (count, read) = match &answer {
            Answer::Commits(found) => (&self.commits, found.iter().flatten().count()),
            Answer::Walk(page) => (&self.commits, page.entries.len()),
            Answer::Blobs(found) => (&self.blobs, found.iter().flatten().count()),
            _ => return Ok(answer),
        };
        count.fetch_add(read, Ordering::Relaxed);
        Ok(answer)
    }
}

/// Lines that edit a message so many times.
fn edits_of(target: CommitId, count: u64) -> String {
    let line = |n| format!("{{\"op\":\"edit\",\"target\":\"{target}\",\"text\":\"{n}\"}}\n");
    (0..count).map(line).collect()
}

/// A repository with rows of the turn index that have no entries: none of them names one before it.
fn with_turn_rows() -> Repo {
    Repo::new(
        Arc::new(tract_kv::memory()),
        RepoOptions { turn_rows_every: 64, ..RepoOptions::default() },
    )
}

fn derived_rows(repo: &Repo) -> u64 {
    block_on(repo.store().stats(repo.name())).expect("stats").derived
}

/// Verifies a sound repository, and counts what is read for that.
fn counted(repo: &Repo) -> (VerifyReport, Arc<WatchedStore<ObjectsRead>>) {
    let counted = WatchedStore::new(Arc::clone(repo.store()), ObjectsRead::default());
    let counted = Arc::new(counted);
    let report = check(&repo_in(Arc::clone(&counted) as Arc<dyn Store>));
    assert_eq!(report.damage, []);
    (report, counted)
}

#[test]
fn verifying_reads_each_commit_a_few_times_however_many_snapshots_and_rows_there_are() {
    for edits in [600, 2400] {
        let repo = with_turn_rows();
        let first = block_on(say(&repo, "main", "0"));
        done(
            &repo,
            &edits_of(first, edits),
            &ApplyOptions { batch: Some(50), ..ApplyOptions::default() },
        );
        let derived = derived_rows(&repo);
        assert!(derived > edits / 64, "{derived} derived rows");
        let (report, counted) = counted(&repo);
        let read = counted.watch().commits.load(Ordering::Relaxed);
        assert!(read <= 4 * report.commits, "{read} commits read for {}", report.commits);
    }
}

#[test]
fn verifying_messages_reads_each_object_once() {
    for messages in [600, 2400] {
        let repo = with_turn_rows();
        for n in 0..messages / 100 {
            let drafts = (0..100).map(|m| match m % 2 {
                0 => Draft::user(format!("{n} {m}")),
                _ => Draft::assistant(format!("{n} {m}")),
            });
            block_on(repo.append_all(&branch("main"), drafts)).expect("it is written");
        }
        let rows = derived_rows(&repo) as usize;
        assert!(rows > 0, "there are rows of the turn index");
        let (report, counted) = counted(&repo);
        assert_eq!(report.commits, messages);
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let watch = counted.watch();
        assert_eq!(read(&watch.commits), messages, "commits are read once");
        assert_eq!(read(&watch.blobs), report.blobs, "blobs are read once");
        assert!(read(&watch.derived) <= 4 * rows, "only commits with rows are asked for them");
    }
}

#[test]
fn the_tool_index_is_compared() {
    let (report, _) = seen(|_| Fault::Index);
    assert!(!report.clean);
    assert!(report.damage.iter().all(|damage| damage.derived));
    assert!(report.damage.iter().all(|damage| matches!(damage.object, Some(ObjectId::Tool(_)))));
}

#[test]
fn snapshots_are_compared_and_repaired() {
    let sound = repo();
    let first = block_on(say(&sound, "main", "0"));
    // Many changes of one row: the history grows, the view does not.
    done(
        &sound,
        &edits_of(first, 300),
        &ApplyOptions { batch: Some(100), ..ApplyOptions::default() },
    );
    assert!(derived_rows(&sound) > 0, "a snapshot was written");
    assert!(check(&sound).clean);
    let broken = WatchedStore::new(Arc::clone(sound.store()), Fault::Snapshots);
    let repo = repo_in(Arc::new(broken));
    let report = check(&repo);
    assert!(!report.clean);
    assert!(report.damage.iter().all(|damage| damage.derived), "{:?}", report.damage);
    let repaired =
        block_on(verify(&repo, &VerifyOptions { repair: true, ..VerifyOptions::default() }))
            .expect("the store reads");
    assert!(repaired.clean, "{:?}", repaired.damage);
    assert_eq!(repaired.repaired, report.damage);
    assert!(check(&sound).clean);
}

/// Puts one commit on top of a plain history, without checking what it says.
fn planted(plant: impl FnOnce(&[Commit], &mut Batch) -> CommitRecord) -> (VerifyReport, CommitId) {
    let repo = repo();
    let main = branch("main");
    let drafts = [Draft::user("a"), Draft::assistant("b")];
    let commits = block_on(repo.append_all(&main, drafts)).expect("it is written");
    let mut batch = batch("planted");
    let mut record = plant(&commits, &mut batch);
    if record.parents.is_empty() {
        record.parents = vec![commits[1].id()];
    }
    let commit = Commit::seal(record).expect("the format has no rule against it");
    let id = commit.id();
    batch.commits.push(commit);
    batch.refs.push(RefEdit { name: main, expect: Expect::Any, to: Some(RefTarget::Commit(id)) });
    tract_testkit::fixtures::done(block_on(repo.store().apply(repo.name(), batch)))
        .expect("a store has no rules");
    (check(&repo), id)
}

/// Plants a commit, and checks that it is named.
#[track_caller]
fn is_named(plant: impl FnOnce(&[Commit], &mut Batch) -> CommitRecord) {
    let (report, id) = planted(plant);
    names(&report, ObjectId::Commit(id));
}

fn content(batch: &mut Batch, text: &str) -> Option<BlobId> {
    let blob = Blob::seal(text.as_bytes().to_vec());
    batch.blobs.push(blob.clone());
    Some(blob.id())
}

fn record(op: Op, changes: Vec<Change>) -> CommitRecord {
    let mut record = CommitRecord::new(op, AuthorKind::User);
    record.changes = Changes::List(changes);
    record
}

/// A record with a content.
fn message(batch: &mut Batch, kind: Kind, op: Op, changes: Vec<Change>) -> CommitRecord {
    let mut record = record(op, changes);
    record.kind = Some(kind);
    record.content = content(batch, "\"x\"");
    record
}

fn row(key: u64, version: CommitRef) -> RowFields {
    RowFields { key, version, mark: None, answers: None }
}

#[test]
fn commits_that_do_not_fold_are_named() {
    // An edit whose `from` is not what the view holds.
    is_named(|commits, batch| {
        let target = commits[0].id();
        let (slot, from) = (target.into(), commits[1].id().into());
        let change = Change::Version { slot, from, to: CommitRef::This };
        message(batch, Kind::User, Op::Edit { target }, vec![change])
    });
    // A row beyond the next key.
    is_named(|commits, batch| {
        let op = Op::Compress { targets: vec![commits[0].id()] };
        let slot = commits[0].id().into();
        let changes = vec![
            Change::Remove { slot, row: row(0, slot) },
            Change::Add { slot: CommitRef::This, row: row(9, CommitRef::This) },
        ];
        message(batch, Kind::Assistant, op, changes)
    });
}

#[test]
fn log_op_and_changes_agree() {
    // Says that it appends, and edits on the quiet.
    is_named(|commits, batch| {
        let slot = commits[0].id().into();
        let change = Change::Version { slot, from: slot, to: CommitRef::This };
        message(batch, Kind::User, Op::append(), vec![change])
    });
    // Says that it annotates, and removes.
    is_named(|commits, _| {
        let op = Op::Annotate {
            targets: vec![commits[0].id()],
            priority: Priority::Skip,
            reason: None,
            retention: None,
        };
        let slot = commits[0].id().into();
        record(op, vec![Change::Remove { slot, row: row(0, slot) }])
    });
    // Reverts one commit, and changes what another did.
    is_named(|commits, _| {
        let op = Op::Revert { targets: vec![commits[0].id()], cascade: false };
        let slot = commits[1].id().into();
        record(op, vec![Change::Remove { slot, row: row(1, slot) }])
    });
}

#[test]
fn contents_that_are_not_what_they_say_are_named() {
    let append = |text: &'static str, kind: Option<Kind>| {
        planted(move |_, batch| {
            let mut record = CommitRecord::new(Op::append(), AuthorKind::User);
            record.kind = kind;
            record.content = content(batch, text);
            record
        })
    };
    for text in ["{\"neither\":1}", "[{\"type\": \"text\", \"text\": \"not canonical\"}]"] {
        let (report, _) = append(text, Some(Kind::User));
        names(&report, ObjectId::Blob(Blob::seal(text.as_bytes().to_vec()).id()));
    }
    let (report, id) = append("\"no kind\"", None);
    names(&report, ObjectId::Commit(id));
    is_named(|_, _| {
        let mut record = CommitRecord::new(Op::append(), AuthorKind::User);
        record.kind = Some(Kind::User);
        record
    });
    assert!(Content::from_blob(&Kind::User, "\"fine\"").is_ok());
}

#[test]
fn flipped_bit_in_raw_schema_is_seen() {
    // A toolset that states one tool's identity and another's bytes.
    let (report, _) = planted(|_, batch| {
        let tool = ToolSchema::parse(r#"{"name":"a"}"#).expect("a schema");
        let other = Blob::seal(&b"{\"name\":\"b\"}"[..]);
        let toolset = Toolset::seal(vec![ToolEntry { tool: tool.id(), schema: other.id() }]);
        let mut record = CommitRecord::new(Op::Tools, AuthorKind::User);
        record.toolset = Some(toolset.id());
        batch.blobs.push(other);
        batch.toolsets.push(toolset);
        record
    });
    assert!(!report.clean);
    assert!(report.damage.iter().any(|damage| damage.what.contains("has the schema of tool")));
}
