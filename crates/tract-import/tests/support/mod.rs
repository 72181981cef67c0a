//! An empty repository, and imports into it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract_core::{RefName, RefTarget, block_on};
use tract_engine::{Repo, RepoOptions};
use tract_import::{
    RecordingOptions, SessionFile, SessionFilter, SessionReport, Source, session_files,
};

pub(crate) fn new_repo() -> Repo {
    let repo = Repo::new(Arc::new(tract_kv::memory()), RepoOptions::new());
    block_on(repo.init()).expect("it is made");
    repo
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

/// Everything that refs lead to: branches and documents.
pub(crate) fn refs(repo: &Repo) -> Vec<(RefName, RefTarget)> {
    block_on(repo.store().list_refs(repo.name(), "")).expect("they are read")
}
