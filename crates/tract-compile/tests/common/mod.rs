//! Commits built directly from changes, without any planner, and written to a store in memory.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod counting;
pub mod oracle;

use std::collections::HashMap;
use std::sync::Arc;

use tract_compile::{Compiled, Compiler, History, Row, View, fold, inverse, resolved};
use tract_core::{
    Applied, ApproxCounter, AuthorKind, Batch, Blob, CallRef, Change, Changes, Commit, CommitId,
    CommitRecord, CommitRef, Content, DerivedKind, Message, Op, Part, Priority, RepoName, Store,
    ToolSchema, Toolset, ViewId, block_on,
};
use tract_testkit::fixtures::{self, batch};

/// An assistant's message of these calls alone.
pub fn calling(parts: Vec<Part>) -> Content {
    Content::Assistant(tract_core::Body { parts, name: None })
}

/// A history in a store, its commits by id, and a compiler that learns of every write.
pub struct TestHistory {
    pub store: Arc<dyn Store>,
    pub compiler: Compiler,
    pub commits: HashMap<CommitId, Commit>,
    pub views: HashMap<Option<CommitId>, View>,
    pub head: Option<CommitId>,
    pub warm: bool,
    written: u64,
}

/// Whether a write takes a snapshot along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snap {
    Never,
    WhenDue,
    Always,
}

impl TestHistory {
    pub fn new() -> Self {
        Self::over(Arc::new(tract_kv::memory()))
    }

    pub fn over(store: Arc<dyn Store>) -> Self {
        let compiler = compiler(&store);
        let views = HashMap::from([(None, View::empty())]);
        Self { store, compiler, commits: HashMap::new(), views, head: None, warm: true, written: 0 }
    }

    pub fn view(&self) -> &View {
        &self.views[&self.head]
    }

    pub fn row(&self, slot: CommitId) -> Row {
        *self.view().get(slot).expect("the row is there")
    }

    /// A record on the head: tools stay in force, the time is the number of the write.
    pub fn record(&self, op: Op) -> CommitRecord {
        let mut record = CommitRecord::new(op, AuthorKind::User);
        record.parents.extend(self.head);
        record.created_at = Some(self.written as i64);
        record.toolset = self.head.and_then(|head| self.commits[&head].toolset);
        record
    }

    /// Seals and stores a record on the head; `snap` says whether a snapshot goes with it.
    pub fn write(
        &mut self,
        record: CommitRecord,
        blobs: &[Blob],
        sets: &[Toolset],
        snap: Snap,
    ) -> CommitId {
        let commit = Commit::seal(record).expect("the record is valid");
        let changes = match &commit.changes {
            Changes::List(list) => list.clone(),
            Changes::Blob(id) => {
                let blob = blobs.iter().find(|blob| blob.id() == *id).expect("given");
                Changes::from_blob(blob.bytes()).expect("a list")
            }
        };
        let view = fold(self.view(), &commit, &changes).expect("the changes fit");
        let commits = std::slice::from_ref(&commit);
        let mut batch = batch("test");
        batch.blobs = blobs.to_vec();
        batch.toolsets = sets.to_vec();
        batch.commits = commits.to_vec();
        self.written += 1;
        if self.warm || snap != Snap::Never {
            let folded = block_on(self.compiler.fold(self.head)).expect("the head has a line");
            let mut folded =
                block_on(self.compiler.advance(&folded, commits, blobs)).expect("it continues");
            assert_eq!(folded.view(), &view, "a line folds as `fold` does");
            batch.derived.extend(match snap {
                Snap::Never => None,
                Snap::WhenDue => self.compiler.snapshot_due(&mut folded),
                Snap::Always => self.compiler.snapshot(&mut folded),
            });
            self.compiler.remember(&folded);
            self.compiler.remember_objects(commits, blobs, sets);
        }
        self.apply(batch);
        self.views.insert(Some(commit.id()), view);
        self.head = Some(commit.id());
        self.commits.insert(commit.id(), commit);
        self.head.expect("just set")
    }

    fn apply(&self, batch: Batch) {
        let applied = block_on(self.store.apply(&RepoName::default(), batch)).expect("it applies");
        assert_eq!(applied, Applied::Done);
    }

    /// A content as a blob, with a record of its kind.
    pub fn saying(&self, op: Op, content: &Content) -> (CommitRecord, Vec<Blob>) {
        let blob = Blob::seal(content.to_blob().expect("it is canonical"));
        let mut record = self.record(op);
        record.kind = Some(content.kind());
        record.content = Some(blob.id());
        (record, vec![blob])
    }

    pub fn append(&mut self, content: Content) -> CommitId {
        self.append_with(content, None, None)
    }

    pub fn append_with(
        &mut self,
        content: Content,
        answers: Option<CallRef>,
        priority: Option<Priority>,
    ) -> CommitId {
        let op = Op::Append { slot: None, answers, priority, retention: None };
        let (record, blobs) = self.saying(op, &content);
        self.write(record, &blobs, &[], Snap::WhenDue)
    }

    pub fn user(&mut self, text: &str) -> CommitId {
        self.append(Content::user(text))
    }

    pub fn edit(&mut self, slot: CommitId, content: Content) -> CommitId {
        let from = CommitRef::Id(self.row(slot).version);
        let (mut record, blobs) = self.saying(Op::Edit { target: slot }, &content);
        let change = Change::Version { slot: CommitRef::Id(slot), from, to: CommitRef::This };
        record.changes = Changes::List(vec![change]);
        record.joins = self.commits[&self.row(slot).version].joins;
        self.write(record, &blobs, &[], Snap::WhenDue)
    }

    pub fn annotate(&mut self, slots: &[CommitId], priority: Priority) -> CommitId {
        let marks = slots.iter().map(|slot| Change::Mark {
            slot: CommitRef::Id(*slot),
            from: self.row(*slot).mark.map(CommitRef::Id),
            to: Some(CommitRef::This),
        });
        let changes = marks.collect();
        let targets = slots.to_vec();
        let op = Op::Annotate { targets, priority, reason: None, retention: None };
        self.change(op, changes)
    }

    pub fn compress(&mut self, slots: &[CommitId], text: &str) -> CommitId {
        let mut changes: Vec<Change> = slots
            .iter()
            .map(|slot| Change::Remove {
                slot: CommitRef::Id(*slot),
                row: self.row(*slot).fields(),
            })
            .collect();
        let key = slots.iter().map(|slot| self.row(*slot).key).min().expect("some rows");
        let row =
            tract_core::RowFields { key, version: CommitRef::This, mark: None, answers: None };
        changes.push(Change::Add { slot: CommitRef::This, row });
        let op = Op::Compress { targets: slots.to_vec() };
        let (mut record, mut blobs) = self.saying(op, &Content::assistant(text));
        record.changes = listed(changes, &mut blobs);
        self.write(record, &blobs, &[], Snap::WhenDue)
    }

    /// Returns the inverses of what a commit changed; `None` where its changes are in a blob.
    pub fn undoing(&self, target: CommitId) -> Option<Vec<Change>> {
        let commit = &self.commits[&target];
        let Changes::List(list) = &commit.changes else { return None };
        let added = tract_compile::appended(&self.views[&commit.parent()], commit);
        let changes = list.iter().rev().chain(&added);
        Some(changes.map(|change| inverse(&resolved(change, target))).collect())
    }

    /// Takes a commit back with the inverses of what it changed, where they fit.
    pub fn revert(&mut self, target: CommitId) -> Option<CommitId> {
        let commit = self.commits[&target].clone();
        let changes = self.undoing(target)?;
        let mut record = self.record(Op::Revert { targets: vec![target], cascade: false });
        let mut blobs = Vec::new();
        record.changes = listed(changes.clone(), &mut blobs);
        if record.toolset == commit.toolset {
            record.toolset = commit.parent().and_then(|parent| self.commits[&parent].toolset);
        }
        let sealed = Commit::seal(record.clone()).expect("the record is valid");
        fold(self.view(), &sealed, &changes).ok()?;
        Some(self.write(record, &blobs, &[], Snap::WhenDue))
    }

    pub fn change(&mut self, op: Op, changes: Vec<Change>) -> CommitId {
        let mut record = self.record(op);
        let mut blobs = Vec::new();
        record.changes = listed(changes, &mut blobs);
        self.write(record, &blobs, &[], Snap::WhenDue)
    }

    pub fn tools(&mut self, schemas: &[&str]) -> CommitId {
        let (set, blobs) = toolset(schemas);
        let mut record = self.record(Op::Tools);
        record.toolset = Some(set.id());
        self.write(record, &blobs, &[set], Snap::WhenDue)
    }

    pub fn compile(&self) -> Compiled {
        block_on(self.compiler.compile(self.head)).expect("it compiles")
    }

    pub fn folded(&self) -> History {
        block_on(self.compiler.fold(self.head)).expect("it has a line")
    }

    /// Compiles with nothing but the store.
    pub fn cold(&self, head: Option<CommitId>) -> Compiled {
        block_on(compiler(&self.store).compile(head)).expect("it compiles")
    }

    pub fn texts(&self) -> Vec<String> {
        self.compile().messages().map(|message| message.content.text()).collect()
    }

    pub fn rows(&self) -> Vec<Row> {
        self.view().rows().copied().collect()
    }
}

pub fn listed(changes: Vec<Change>, blobs: &mut Vec<Blob>) -> Changes {
    if changes.len() <= 64 {
        return Changes::List(changes);
    }
    let blob = Blob::seal(Changes::to_blob(&changes));
    let id = blob.id();
    blobs.push(blob);
    Changes::Blob(id)
}

pub fn toolset(schemas: &[&str]) -> (Toolset, Vec<Blob>) {
    let schemas = fixtures::schemas(schemas);
    (fixtures::toolset(&schemas), schemas.iter().map(ToolSchema::blob).collect())
}

pub fn compiler(store: &Arc<dyn Store>) -> Compiler {
    Compiler::new(store.clone(), RepoName::default(), Arc::new(ApproxCounter))
}

/// All that a context says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFacts {
    pub rows: Vec<(Row, Option<Message>)>,
    pub messages: Vec<Message>,
    pub tools: Vec<tract_core::ActiveTool>,
    pub tokens: u64,
    pub commit_count: u64,
    pub message_count: usize,
    pub view_id: ViewId,
}

pub fn facts(compiled: &Compiled) -> ContextFacts {
    ContextFacts {
        rows: compiled.rows().map(|(row, message)| (*row, message.cloned())).collect(),
        messages: compiled.messages().cloned().collect(),
        tools: compiled.tools().to_vec(),
        tokens: compiled.token_count().count,
        commit_count: compiled.commit_count(),
        message_count: compiled.message_count(),
        view_id: compiled.view_id(),
    }
}

pub fn snapshots(history: &TestHistory) -> Vec<CommitId> {
    let ids: Vec<CommitId> = history.commits.keys().copied().collect();
    let kind = DerivedKind::Snapshot;
    let rows = block_on(history.store.derived(&RepoName::default(), kind, &ids)).expect("read");
    ids.into_iter().zip(rows).filter_map(|(id, row)| row.map(|_| id)).collect()
}
