use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::ProptestConfig;
use tract_core::{
    Batch, Commit, CommitId, Draft, Expect, ManualClock, Priority, RefEdit, RefName, RefTarget,
    Store, ToolSchema, ViewId, block_on,
};
use tract_engine::plan::{History, Request, Selection};
use tract_engine::{Error, MergeOptions, Merged, Refusal, Repo, RepoOptions, Result};
use tract_kv::memory;

pub(crate) use crate::support::NOON;
use crate::support::{meanwhile, moves_main, sqlite, threaded};

/// A repository, the branch that a test works on, and the clock.
pub(crate) struct Fixture {
    pub(crate) repo: Repo,
    pub(crate) branch: RefName,
    pub(crate) clock: ManualClock,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(RepoOptions::default())
    }

    pub(crate) fn with(options: RepoOptions) -> Self {
        Self::of(Arc::new(memory()), options)
    }

    /// A repository on this store.
    pub(crate) fn of(store: Arc<dyn Store>, options: RepoOptions) -> Self {
        let clock = ManualClock::at_us(NOON);
        let options =
            RepoOptions { clock: Arc::new(clock.clone()), who: "test".to_owned(), ..options };
        let repo = Repo::new(store, options);
        block_on(repo.init()).unwrap();
        Self { repo, branch: RefName::branch("main").unwrap(), clock }
    }

    /// The same repository, working on another branch.
    pub(crate) fn on(&self, branch: &str) -> Self {
        let branch = RefName::branch(branch).unwrap();
        Self { repo: self.repo.clone(), branch, clock: self.clock.clone() }
    }

    /// The same store, read by a handle that has cached nothing.
    pub(crate) fn cold(&self) -> Self {
        let options = RepoOptions {
            clock: Arc::new(self.clock.clone()),
            who: "test".to_owned(),
            ..RepoOptions::default()
        };
        let repo = Repo::new(self.repo.store().clone(), options);
        Self { repo, branch: self.branch.clone(), clock: self.clock.clone() }
    }

    /// A new branch at a commit, to work on.
    pub(crate) fn fork(&self, name: &str, at: CommitId) -> Self {
        block_on(self.repo.create_branch(name, at)).unwrap();
        self.on(name)
    }

    pub(crate) fn head(&self) -> Option<CommitId> {
        block_on(self.repo.head_of(&self.branch)).unwrap()
    }

    pub(crate) fn commit(&self, id: CommitId) -> Commit {
        block_on(self.repo.require_commit(id)).unwrap()
    }

    pub(crate) fn history(&self) -> History {
        block_on(self.repo.fold(self.head())).unwrap()
    }

    pub(crate) fn try_do(&self, request: Request) -> Result<Commit> {
        block_on(self.repo.write_one(&self.branch, request))
    }

    #[track_caller]
    pub(crate) fn go(&self, request: impl Into<Request>) -> CommitId {
        match self.try_do(request.into()) {
            Ok(commit) => commit.id(),
            Err(error) => panic!("{error}: {:?}", error.notes()),
        }
    }

    #[track_caller]
    pub(crate) fn refused(&self, request: impl Into<Request>) -> Refusal {
        let before = self.head();
        match self.try_do(request.into()) {
            Err(Error::Refused(refusal)) => {
                assert_eq!(self.head(), before, "a refusal writes nothing");
                assert!(!refusal.to_string().is_empty() && !refusal.code().is_empty());
                refusal
            }
            other => panic!("expected a refusal, found {other:?}"),
        }
    }

    pub(crate) fn system(&self, text: &str) -> CommitId {
        self.go(Draft::system(text))
    }

    pub(crate) fn user(&self, text: &str) -> CommitId {
        self.go(Draft::user(text))
    }

    pub(crate) fn says(&self, text: &str) -> CommitId {
        self.go(Draft::assistant(text))
    }

    pub(crate) fn call(&self, id: &str) -> CommitId {
        self.go(Draft::assistant("").call(id, "grep", r#"{"pattern":"x"}"#))
    }

    pub(crate) fn result(&self, id: &str, text: &str) -> CommitId {
        self.go(Draft::tool_result(id, text))
    }

    pub(crate) fn edit(&self, target: CommitId, text: &str) -> CommitId {
        self.go(Request::edit_text(target, text))
    }

    pub(crate) fn mark(&self, target: CommitId, priority: Priority) -> CommitId {
        self.go(Request::annotate([target], priority))
    }

    pub(crate) fn compress(&self, targets: &[CommitId], text: &str) -> CommitId {
        self.go(Request::compress(Selection::Targets(targets.to_vec()), text))
    }

    pub(crate) fn revert(&self, targets: &[CommitId]) -> CommitId {
        self.go(Request::revert(targets))
    }

    pub(crate) fn view_id(&self) -> ViewId {
        block_on(self.repo.compile(self.head())).unwrap().view_id()
    }

    /// What a model would read, as `role: text` with calls in brackets.
    pub(crate) fn shown(&self) -> Vec<String> {
        let compiled = block_on(self.repo.compile(self.head())).unwrap();
        let cold = block_on(self.cold().repo.compile(self.head())).unwrap();
        assert_eq!(cold.view_id(), compiled.view_id(), "warm is cold");
        let texts = compiled.messages().map(|message| {
            let calls: Vec<&str> = message.content.calls().map(|call| call.id.as_str()).collect();
            let calls =
                if calls.is_empty() { String::new() } else { format!("[{}]", calls.join(",")) };
            format!("{}: {}{calls}", message.role, message.content.text())
        });
        texts.collect()
    }

    pub(crate) fn tool_names(&self) -> Vec<String> {
        let compiled = block_on(self.repo.compile(self.head())).unwrap();
        compiled.tools().iter().map(|tool| tool.name.clone()).collect()
    }

    /// Moves the branch where it should not be for free: as another process would.
    pub(crate) fn force(&self, to: CommitId) {
        let (name, to) = (self.branch.clone(), Some(RefTarget::Commit(to)));
        plant(&self.repo, |batch| batch.refs.push(RefEdit { name, expect: Expect::Any, to }));
    }
}

/// All messages that may be summarized.
pub(crate) fn all() -> Selection {
    Selection::Range { from: None, to: None }
}

/// A line of three messages, forked behind them.
pub(crate) fn forked() -> (Fixture, Fixture, [CommitId; 3]) {
    let desk = Fixture::new();
    let ids = [desk.user("a"), desk.says("b"), desk.user("c")];
    let side = desk.fork("side", ids[2]);
    (desk, side, ids)
}

/// Two branches that share one message.
pub(crate) fn sharing(text: &str) -> (Fixture, Fixture, CommitId) {
    let desk = Fixture::new();
    let shared = desk.user(text);
    let side = desk.fork("side", shared);
    (desk, side, shared)
}

pub(crate) fn try_merge(desk: &Fixture, side: &Fixture) -> Result<Merged> {
    block_on(desk.repo.merge(&desk.branch, side.head().unwrap(), &MergeOptions::default()))
}

#[track_caller]
pub(crate) fn merge(desk: &Fixture, side: &Fixture) -> Commit {
    match try_merge(desk, side) {
        Ok(Merged::Commit(commit)) => commit,
        Ok(other) => panic!("expected a merge commit, found {other:?}"),
        Err(error) => panic!("{error}: {:?}", error.notes()),
    }
}

/// Writes what no planner would.
#[track_caller]
pub(crate) fn plant(repo: &Repo, fill: impl FnOnce(&mut Batch)) {
    let mut batch = tract_testkit::fixtures::batch("plant");
    fill(&mut batch);
    tract_testkit::fixtures::done(block_on(repo.store().apply(repo.name(), batch))).unwrap();
}

/// So many histories, or as many as `PROPTEST_CASES` says.
pub(crate) fn histories(cases: u32) -> ProptestConfig {
    let chosen = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: chosen.unwrap_or(cases),
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) type Interruption = Box<dyn FnOnce(&Repo) + Send>;

/// Two handles on one store. What is armed runs on the other one right before the next batch of the
/// first one that moves `main`.
pub(crate) struct TwoHandles {
    pub(crate) repo: Repo,
    pub(crate) other: Repo,
    armed: Arc<Mutex<Option<Interruption>>>,
}

impl TwoHandles {
    fn on(below: Arc<dyn Store>, other: Arc<dyn Store>) -> Self {
        let armed: Arc<Mutex<Option<Interruption>>> = Arc::default();
        let (shots, other) = (
            armed.clone(),
            Repo::new(other, RepoOptions { who: "second".to_owned(), ..RepoOptions::default() }),
        );
        let writer = other.clone();
        let watched = meanwhile(below, usize::MAX, moves_main, move || {
            let shot = shots.lock().unwrap().take();
            if let Some(shot) = shot {
                shot(&writer);
            }
        });
        let repo =
            Repo::new(watched, RepoOptions { who: "first".to_owned(), ..RepoOptions::default() });
        block_on(repo.init()).unwrap();
        Self { repo, other, armed }
    }

    pub(crate) fn memory() -> Self {
        let store = threaded();
        Self::on(store.clone(), store)
    }

    pub(crate) fn sqlite(scratch: &tempfile::TempDir) -> Self {
        let path = scratch.path().join("one.db");
        Self::on(sqlite(&path), sqlite(&path))
    }

    pub(crate) fn arm(&self, shot: impl FnOnce(&Repo) + Send + 'static) {
        *self.armed.lock().unwrap() = Some(Box::new(shot));
    }
}

pub(crate) fn tool(name: &str, about: &str) -> ToolSchema {
    let text = format!(
        r#"{{"name":"{name}","description":"{about}","input_schema":{{"type":"object"}}}}"#
    );
    ToolSchema::parse(&text).unwrap()
}

/// Rows as `slot@key=version`, with names for ids.
pub(crate) fn rows(history: &History, names: &HashMap<CommitId, &str>) -> String {
    let name = |id: &CommitId| names.get(id).copied().unwrap_or("?").to_owned();
    let rows: Vec<String> = history
        .view()
        .rows()
        .map(|row| format!("{}@{}={}", name(&row.slot), row.key, name(&row.version)))
        .collect();
    rows.join(" ")
}
