//! Repositories, and what tests ask of them.
#![allow(dead_code, reason = "each test program uses a part")]

use std::sync::Arc;

use tract_core::{CommitId, Draft, ManualClock, RefName, Store, block_on};
use tract_engine::{ExportOptions, Repo, RepoOptions, VerifyOptions, export, verify};
use tract_kv::memory;

/// The time that the clock of every test shows at first.
pub(crate) const NOON: i64 = 1_767_268_800_000_000;

pub(crate) fn repo_in(store: Arc<dyn Store>) -> Repo {
    let clock = Arc::new(ManualClock::at_us(NOON));
    Repo::new(store, RepoOptions::new().clock(clock).who("test"))
}

pub(crate) fn repo() -> Repo {
    repo_in(Arc::new(memory()))
}

pub(crate) fn branch(name: &str) -> RefName {
    RefName::branch(name).expect("a valid name")
}

pub(crate) async fn say(repo: &Repo, name: &str, text: &str) -> CommitId {
    repo.append(&branch(name), Draft::user(text)).await.expect("it is written").id()
}

pub(crate) async fn assert_clean(repo: &Repo) {
    let report = verify(repo, &VerifyOptions::new()).await.expect("it is read");
    assert!(report.clean, "{:?}", report.damage);
}

/// All lines of an export.
pub(crate) fn exported(repo: &Repo) -> String {
    block_on(async {
        let mut export = export(repo, &ExportOptions::new()).await.expect("it exports");
        let mut lines = String::new();
        while let Some(line) = export.next_line().await.expect("it exports") {
            lines.push_str(&line);
            lines.push('\n');
        }
        lines
    })
}
