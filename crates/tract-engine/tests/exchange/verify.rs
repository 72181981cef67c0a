use std::sync::{Arc, Mutex};

use tract_core::{
    Applied, Batch, BatchId, Blob, By, Change, Changes, Commit, CommitId, CommitRecord, Content,
    Draft, Expect, Kind, LogNote, ObjectId, Op, OperationId, Priority, RefEdit, RefName, RefTarget,
    RowFields, StoreExt, This, ToolEntry, ToolSchema, Toolset, block_on,
};
use tract_engine::{ApplyOptions, Repo, VerifyOptions, VerifyReport, verify};
use tract_testkit::Watched;

use crate::broken::Fault;
use crate::fixture::{EVERYTHING, done, import_all, recorded, repo, repo_in};

fn check(repo: &Repo) -> VerifyReport {
    block_on(verify(repo, &VerifyOptions::new())).expect("the store reads")
}

#[test]
fn what_was_imported_is_clean() {
    let repo = repo();
    import_all(&repo, &recorded());
    let told = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&told);
    let options = VerifyOptions::new().progress(Arc::new(move |at| {
        progress.lock().expect("no panic").push((at.commits_done, at.commits));
    }));
    let report = block_on(verify(&repo, &options)).expect("the store reads");
    assert_eq!(report.damage, []);
    assert!(report.clean);
    let stats = block_on(repo.store().stats(repo.name())).expect("stats");
    assert_eq!(report.commits as u64, stats.commits);
    assert_eq!(report.blobs as u64, stats.blobs);
    assert_eq!(report.toolsets as u64, stats.toolsets);
    assert_eq!(report.tools as u64, stats.tools);
    assert_eq!(report.ref_moves as u64, stats.log_entries);
    let told = told.lock().expect("no panic");
    assert_eq!(told.last(), Some(&(report.commits, report.commits)));
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
    done(&sound, EVERYTHING, &ApplyOptions::new());
    assert!(check(&sound).clean);
    let fault = fault(&sound);
    let store = Arc::clone(sound.store());
    (check(&repo_in(Arc::new(Watched::new(store, fault.clone())))), fault)
}

#[track_caller]
fn names(report: &VerifyReport, object: ObjectId) {
    assert!(!report.clean);
    let named = report.damage.iter().any(|damage| damage.object == Some(object));
    assert!(named, "{object} is not among {:?}", report.damage);
}

/// The commits of main, newest first.
fn line(repo: &Repo) -> Vec<Commit> {
    let main = RefName::branch("main").expect("a name");
    let head = block_on(repo.head_of(&main)).expect("it reads").expect("a head");
    block_on(repo.store().walk_all(repo.name(), head)).expect("it walks")
}

#[test]
fn verify_tells() {
    // Each object of one commit in the middle, damaged and then missing.
    for place in [0, 3, 8] {
        let (report, fault) = seen(|repo| Fault::Commit(line(repo)[place].id()));
        let Fault::Commit(id) = fault else { panic!("a commit") };
        names(&report, ObjectId::Commit(id));
        let (report, fault) = seen(|repo| Fault::NoCommit(line(repo)[place].id()));
        let Fault::NoCommit(id) = fault else { panic!("a commit") };
        // A head that is gone is no longer a root unless a ref names it.
        names(&report, ObjectId::Commit(id));
    }
    let content = |repo: &Repo| {
        line(repo).iter().find_map(|commit| commit.content).expect("a commit with content")
    };
    let (report, fault) = seen(|repo| Fault::Blob(content(repo)));
    let Fault::Blob(id) = fault else { panic!("a blob") };
    names(&report, ObjectId::Blob(id));
    let (report, fault) = seen(|repo| Fault::NoBlob(content(repo)));
    let Fault::NoBlob(id) = fault else { panic!("a blob") };
    names(&report, ObjectId::Blob(id));
    let toolset = |repo: &Repo| line(repo)[0].toolset.expect("tools are in force");
    let (report, fault) = seen(|repo| Fault::Toolset(toolset(repo)));
    let Fault::Toolset(id) = fault else { panic!("a toolset") };
    names(&report, ObjectId::Toolset(id));
    let (report, fault) = seen(|repo| Fault::NoToolset(toolset(repo)));
    let Fault::NoToolset(id) = fault else { panic!("a toolset") };
    names(&report, ObjectId::Toolset(id));
    // A damaged schema, which is the raw text of a tool.
    let (report, fault) = seen(|repo| {
        let tools = block_on(repo.store().tools_of(repo.name(), line(repo)[0].id()));
        Fault::Blob(tools.expect("tools")[0].id())
    });
    let Fault::Blob(id) = fault else { panic!("a blob") };
    names(&report, ObjectId::Blob(id));
}

#[test]
fn only_what_is_damaged_is_named() {
    let (report, fault) = seen(|repo| {
        Fault::Blob(line(repo).iter().find_map(|commit| commit.content).expect("content"))
    });
    let Fault::Blob(id) = fault else { panic!("a blob") };
    assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
    assert_eq!(report.damage[0].object, Some(ObjectId::Blob(id)));
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
    let main = RefName::branch("main").expect("a name");
    let (report, _) = seen(|repo| Fault::Ref(main.clone(), line(repo)[1].id()));
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
fn the_tool_index_is_compared() {
    let (report, _) = seen(|_| Fault::Index);
    assert!(!report.clean);
    assert!(report.damage.iter().all(|damage| damage.derived));
    assert!(report.damage.iter().all(|damage| matches!(damage.object, Some(ObjectId::Tool(_)))));
}

#[test]
fn snapshots_are_compared_and_repaired() {
    let sound = repo();
    let main = RefName::branch("main").expect("a name");
    let first = block_on(sound.append(&main, Draft::user("0"))).expect("it is written");
    // Many changes of one row: the history grows, the view does not.
    let lines: String = (0..300)
        .map(|n| format!("{{\"op\":\"edit\",\"target\":\"{}\",\"text\":\"{n}\"}}\n", first.id()))
        .collect();
    done(&sound, &lines, &ApplyOptions::new().batch(100));
    let stats = block_on(sound.store().stats(sound.name())).expect("stats");
    assert!(stats.derived > 0, "a snapshot was written");
    assert!(check(&sound).clean);
    let broken = Watched::new(Arc::clone(sound.store()), Fault::Snapshots);
    let repo = repo_in(Arc::new(broken));
    let report = check(&repo);
    assert!(!report.clean);
    assert!(report.damage.iter().all(|damage| damage.derived), "{:?}", report.damage);
    let repaired =
        block_on(verify(&repo, &VerifyOptions::new().repair(true))).expect("the store reads");
    assert!(repaired.clean, "{:?}", repaired.damage);
    assert_eq!(repaired.repaired, report.damage);
    assert!(check(&sound).clean);
}

/// Puts one commit on top of a plain history, whatever it says.
fn planted(plant: impl FnOnce(&[Commit], &mut Batch) -> CommitRecord) -> (VerifyReport, CommitId) {
    let repo = repo();
    let main = RefName::branch("main").expect("a name");
    let drafts = [Draft::user("a"), Draft::assistant("b")];
    let commits = block_on(repo.append_all(&main, drafts)).expect("it is written");
    let note = LogNote {
        operation: OperationId::from_bytes([1; 16]),
        what: "planted".to_owned(),
        who: String::new(),
        why: None,
        undoes: None,
        at: 0,
    };
    let mut batch = Batch::new(BatchId::from_bytes([1; 16]), note);
    let mut record = plant(&commits, &mut batch);
    if record.parents.is_empty() {
        record.parents = vec![commits[1].id()];
    }
    let commit = Commit::seal(record).expect("the format has no rule against it");
    let id = commit.id();
    batch.commits.push(commit);
    batch.refs.push(RefEdit { name: main, expect: Expect::Any, to: Some(RefTarget::Commit(id)) });
    let applied = block_on(repo.store().apply(repo.name(), batch)).expect("a store has no rules");
    assert_eq!(applied, Applied::Done);
    (check(&repo), id)
}

fn content(batch: &mut Batch, text: &str) -> Option<tract_core::BlobId> {
    let blob = Blob::seal(text.as_bytes().to_vec());
    batch.blobs.push(blob.clone());
    Some(blob.id())
}

#[test]
fn commits_that_do_not_fold_are_named() {
    // An edit whose `from` is not what the view holds.
    let (report, id) = planted(|commits, batch| {
        let target = commits[0].id();
        let mut record = CommitRecord::new(Op::Edit { target }, By::User);
        let (slot, from) = (target.into(), commits[1].id().into());
        record.changes = Changes::List(vec![Change::Version { slot, from, to: This::This }]);
        record.kind = Some(Kind::User);
        record.content = content(batch, "\"x\"");
        record
    });
    names(&report, ObjectId::Commit(id));
    // A row beyond the next key.
    let (report, id) = planted(|commits, batch| {
        let op = Op::Compress { targets: vec![commits[0].id()] };
        let mut record = CommitRecord::new(op, By::User);
        let row = |key, version| RowFields { key, version, mark: None, answers: None };
        let (slot, gone) = (commits[0].id().into(), row(0, commits[0].id().into()));
        record.changes = Changes::List(vec![
            Change::Remove { slot, row: gone },
            Change::Add { slot: This::This, row: row(9, This::This) },
        ]);
        record.kind = Some(Kind::Assistant);
        record.content = content(batch, "\"x\"");
        record
    });
    names(&report, ObjectId::Commit(id));
}

#[test]
fn log_op_and_changes_agree() {
    // Says that it appends, and edits on the quiet.
    let (report, id) = planted(|commits, batch| {
        let mut record = CommitRecord::new(Op::append(), By::User);
        let slot: This = commits[0].id().into();
        record.changes = Changes::List(vec![Change::Version { slot, from: slot, to: This::This }]);
        record.kind = Some(Kind::User);
        record.content = content(batch, "\"x\"");
        record
    });
    names(&report, ObjectId::Commit(id));
    // Says that it annotates, and removes.
    let (report, id) = planted(|commits, _| {
        let op = Op::Annotate {
            targets: vec![commits[0].id()],
            priority: Priority::Skip,
            reason: None,
            retention: None,
        };
        let mut record = CommitRecord::new(op, By::User);
        let version = commits[0].id().into();
        let row = RowFields { key: 0, version, mark: None, answers: None };
        record.changes = Changes::List(vec![Change::Remove { slot: version, row }]);
        record
    });
    names(&report, ObjectId::Commit(id));
    // Reverts one commit, and takes back another.
    let (report, id) = planted(|commits, _| {
        let op = Op::Revert { targets: vec![commits[0].id()], cascade: false };
        let mut record = CommitRecord::new(op, By::User);
        let version = commits[1].id().into();
        let row = RowFields { key: 1, version, mark: None, answers: None };
        record.changes = Changes::List(vec![Change::Remove { slot: version, row }]);
        record
    });
    names(&report, ObjectId::Commit(id));
}

#[test]
fn contents_that_are_not_what_they_say_are_named() {
    let append = |text: &'static str, kind: Option<Kind>| {
        planted(move |_, batch| {
            let mut record = CommitRecord::new(Op::append(), By::User);
            record.kind = kind;
            record.content = content(batch, text);
            record
        })
    };
    let blob = |text: &str| ObjectId::Blob(Blob::seal(text.as_bytes().to_vec()).id());
    let (report, _) = append("{\"neither\":1}", Some(Kind::User));
    names(&report, blob("{\"neither\":1}"));
    let (report, _) =
        append("[{\"type\": \"text\", \"text\": \"not canonical\"}]", Some(Kind::User));
    names(&report, blob("[{\"type\": \"text\", \"text\": \"not canonical\"}]"));
    let (report, id) = append("\"no kind\"", None);
    names(&report, ObjectId::Commit(id));
    let (report, id) = planted(|_, _| {
        let mut record = CommitRecord::new(Op::append(), By::User);
        record.kind = Some(Kind::User);
        record
    });
    names(&report, ObjectId::Commit(id));
    assert!(Content::from_blob(&Kind::User, "\"fine\"").is_ok());
}

#[test]
fn flipped_bit_in_raw_schema_is_seen() {
    // A toolset that states one tool's identity and another's bytes.
    let (report, _) = planted(|_, batch| {
        let tool = ToolSchema::parse(r#"{"name":"a"}"#).expect("a schema");
        let other = Blob::seal(&b"{\"name\":\"b\"}"[..]);
        let toolset = Toolset::seal(vec![ToolEntry { tool: tool.id(), schema: other.id() }]);
        let mut record = CommitRecord::new(Op::Tools, By::User);
        record.toolset = Some(toolset.id());
        batch.blobs.push(other);
        batch.toolsets.push(toolset);
        record
    });
    assert!(!report.clean);
    assert!(report.damage.iter().any(|damage| damage.what.contains("has the schema of tool")));
}
