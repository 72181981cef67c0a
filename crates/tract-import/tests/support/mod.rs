//! An empty repository, and imports into it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tract_compile::Compiled;
use tract_core::store::Walk;
use tract_core::{Message, RefName, RefTarget, block_on};
use tract_engine::{Repo, RepoOptions};
use tract_import::{
    RecordingOptions, SessionFile, SessionFilter, SessionReport, Source, session_files,
};
use tract_providers::{Dialect, Form, FormOptions, compile_form};
use tract_testkit::data;

pub(crate) fn new_repo() -> Repo {
    let repo = Repo::new(Arc::new(tract_kv::memory()), RepoOptions::default());
    block_on(repo.init()).expect("it is made");
    repo
}

/// A place among the sessions of the repository.
pub(crate) fn bundled(path: &str) -> PathBuf {
    data::bundled("sessions").join(path)
}

/// A repository with the sessions of such a place.
pub(crate) fn import_bundled(source: Source, path: &str) -> (Repo, Vec<SessionReport>) {
    let repo = new_repo();
    let reports = import(&repo, &files(source, &bundled(path)));
    (repo, reports)
}

/// Writes a file and returns it as one of a source.
pub(crate) fn write(source: Source, path: PathBuf, bytes: impl AsRef<[u8]>) -> SessionFile {
    std::fs::write(&path, bytes).expect("it is written");
    SessionFile::new(source, path)
}

/// The sessions at a path.
pub(crate) fn files(source: Source, path: &Path) -> Vec<SessionFile> {
    session_files(source, &[path.to_owned()], &SessionFilter::new()).expect("they are there")
}

/// Each file, and what became of it.
pub(crate) type Reports = Vec<(PathBuf, Result<SessionReport, String>)>;

pub(crate) fn import_all(repo: &Repo, files: &[SessionFile]) -> Reports {
    let mut reports = Vec::new();
    let options = RecordingOptions::default();
    let done = tract_import::import(repo, files, &options, |path, report| {
        reports.push((path.to_owned(), report.map_err(|error| error.to_string())));
    });
    block_on(done).expect("the store works");
    reports
}

/// Imports files that can all be read.
pub(crate) fn import(repo: &Repo, files: &[SessionFile]) -> Vec<SessionReport> {
    let read = |(path, report): (PathBuf, Result<SessionReport, String>)| {
        report.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    import_all(repo, files).into_iter().map(read).collect()
}

pub(crate) fn compiled(repo: &Repo, branch: &str) -> Compiled {
    let name = RefName::branch(branch).expect("a good name");
    let head = block_on(repo.head_of(&name)).expect("it is read");
    block_on(repo.compile(head)).expect("it compiles")
}

/// Checks that a branch compiles for all providers.
pub(crate) fn check_forms(repo: &Repo, branch: &str) {
    let compiled = compiled(repo, branch);
    for dialect in Dialect::ALL {
        let form = compile_form(&compiled, Form::Params(dialect), &FormOptions::default());
        form.unwrap_or_else(|error| panic!("{branch} as {dialect}: {error}"));
    }
}

/// Where a file is cut: at every end of a line, and within lines.
pub(crate) fn cuts(bytes: &[u8], step: usize) -> Vec<usize> {
    let ends = (0..bytes.len()).filter(|n| bytes[*n] == b'\n');
    ends.chain((0..bytes.len()).step_by(step)).collect()
}

/// The branches of all refs.
pub(crate) fn branches(refs: &[(RefName, RefTarget)]) -> Vec<&(RefName, RefTarget)> {
    refs.iter().filter(|(name, _)| name.branch_name().is_some()).collect()
}

/// Everything that refs lead to: branches and documents.
pub(crate) fn refs(repo: &Repo) -> Vec<(RefName, RefTarget)> {
    block_on(repo.store().list_refs(repo.name(), "")).expect("they are read")
}

/// Reports of an import, and the repository with it.
pub(crate) struct Imported {
    pub(crate) repo: Repo,
    pub(crate) reports: Vec<SessionReport>,
}

impl Imported {
    pub(crate) fn of(files: &[SessionFile]) -> Self {
        let repo = new_repo();
        let reports = import(&repo, files);
        Self { repo, reports }
    }

    /// Imports one file with these bytes.
    pub(crate) fn of_bytes(source: Source, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        Self::of(&[write(source, scratch.path().join(name), bytes)])
    }

    pub(crate) fn of_json(source: Source, value: &Value) -> Self {
        Self::of_bytes(source, "made.json", value.to_string())
    }

    pub(crate) fn of_lines(source: Source, lines: &[Value]) -> Self {
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        Self::of_bytes(source, "made.jsonl", lines.concat())
    }

    pub(crate) fn report(&self) -> &SessionReport {
        assert_eq!(self.reports.len(), 1);
        &self.reports[0]
    }

    pub(crate) fn branches(&self) -> Vec<&str> {
        let all = self.reports.iter().flat_map(|report| &report.branches);
        all.map(|branch| branch.branch.as_str()).collect()
    }

    pub(crate) fn messages(&self, branch: &str) -> Vec<Message> {
        compiled(&self.repo, branch).messages().cloned().collect()
    }

    /// What a branch says: role, text and calls of each message.
    pub(crate) fn transcript(&self, branch: &str) -> Vec<String> {
        let line = |message: &Message| {
            let calls = message.content.calls().map(|call| format!(" [{}]", call.id));
            let calls: String = calls.collect();
            format!("{} {}{calls}", message.role.as_str(), message.content.text())
        };
        self.messages(branch).iter().map(line).collect()
    }

    pub(crate) fn tools(&self, branch: &str) -> Vec<String> {
        compiled(&self.repo, branch).tools().iter().map(|tool| format!("{tool:?}")).collect()
    }

    /// Everything that is stored, as text.
    pub(crate) fn stored(&self) -> String {
        let store = self.repo.store();
        let mut text = String::new();
        for (name, target) in refs(&self.repo) {
            text += &format!("{name}\n");
            match target {
                RefTarget::Commit(head) => {
                    let walk = Walk::from(head);
                    let page = block_on(store.walk(self.repo.name(), walk)).expect("it is read");
                    assert!(page.next.is_none(), "a short history");
                    let records = page.entries.iter().map(|entry| entry.commit.record());
                    text += &format!("{:?}\n", records.collect::<Vec<_>>());
                }
                RefTarget::Blob(blob) => {
                    let found =
                        block_on(store.blobs(self.repo.name(), &[blob.into()])).expect("read");
                    text += &format!("{:?}\n", found[0].as_ref().and_then(|blob| blob.text()));
                }
                other => text += &format!("{other:?}\n"),
            }
        }
        for branch in self.branches() {
            text += &format!("{:?}\n{:?}\n", self.messages(branch), self.tools(branch));
        }
        text
    }
}

/// The anomalies of a report: line, kind and text.
pub(crate) fn anomalies(report: &SessionReport) -> Vec<(usize, &str, &str)> {
    let listed = report.anomalies.listed.iter();
    listed.map(|anomaly| (anomaly.line, anomaly.kind.as_str(), anomaly.what.as_str())).collect()
}
