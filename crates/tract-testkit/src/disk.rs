//! Disk errors: compares the reports of a process whose disk fails with the store after the disk
//! works again.

use std::fmt;
use std::io::Write;

use tract_core::store::{BlockingStore, Walk};
use tract_core::{Applied, CommitId, RefTarget, RepoName};

use crate::fixtures::{appending, branch};

/// Prints a line for [`DiskReport::read`].
///
/// # Panics
/// If stdout is closed.
pub fn say(line: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}").expect("the parent reads");
    out.flush().expect("the parent reads");
}

/// The lines printed by a process: `asks ID` before it appends a commit to the main branch, `done
/// ID` when the commit was acknowledged, and others.
#[derive(Clone, Debug, Default)]
pub struct DiskReport {
    /// The requested commits, in order.
    pub requested: Vec<CommitId>,
    /// The acknowledged commits.
    pub acknowledged: Vec<CommitId>,
    /// All other lines: the first word, and the rest.
    pub others: Vec<(String, String)>,
}

impl DiskReport {
    /// Reads the output of a process.
    ///
    /// # Panics
    /// If it contains an invalid commit id.
    pub fn read(output: &str) -> Self {
        let mut report = Self::default();
        for line in output.lines() {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("asks", id) => report.requested.push(id.parse().expect("an id")),
                ("done", id) => report.acknowledged.push(id.parse().expect("an id")),
                (word, rest) => report.others.push((word.to_owned(), rest.to_owned())),
            }
        }
        report
    }

    /// Returns the rest of the other lines that begin with one of these words.
    pub fn lines_of(&self, words: &[&str]) -> Vec<&str> {
        let found = self.others.iter().filter(|(word, _)| words.contains(&word.as_str()));
        found.map(|(_, rest)| rest.as_str()).collect()
    }

    /// Asserts that a store contains all acknowledged commits and no unrequested ones, all with
    /// their contents, and that it accepts a write. Returns the stored commits, oldest first.
    ///
    /// # Panics
    /// If an assertion fails; `what` is part of the message.
    pub fn judge(&self, store: &impl BlockingStore, what: &str) -> Vec<CommitId> {
        let repo = RepoName::default();
        let found = store.refs(&repo, &[branch("main")]).expect("refs").swap_remove(0);
        let head = found.as_ref().and_then(RefTarget::commit);
        let page = head.map(|head| store.walk(&repo, Walk::from(head)).expect("a history"));
        let page = page.unwrap_or_default();
        let keys = page.entries.iter().filter_map(|entry| Some(entry.commit.content?.into()));
        let contents = store.blobs(&repo, &keys.collect::<Vec<_>>()).expect("contents");
        assert!(contents.iter().all(Option::is_some), "{what}");
        let history: Vec<_> = page.entries.iter().rev().map(|entry| entry.commit.id()).collect();
        let lost: Vec<_> = self.acknowledged.iter().filter(|id| !history.contains(id)).collect();
        assert!(lost.is_empty(), "{what}: lost {lost:?} of {self:?}");
        assert!(history.iter().all(|id| self.requested.contains(id)), "{what}: {history:?}");
        let (write, _) = appending("main", head, "and on");
        let answers = store.apply_group(&[(repo, write)]);
        assert!(matches!(answers[..], [Ok(Applied::Done)]), "{what}: {answers:?}");
        history
    }
}
