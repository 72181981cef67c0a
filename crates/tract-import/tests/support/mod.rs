//! An empty repository, and imports into it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract_compile::Compiled;
use tract_core::{RefName, RefTarget, block_on};
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
