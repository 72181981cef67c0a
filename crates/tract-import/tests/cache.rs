//! Imports with a cache: what they leave unread, and that nothing else differs.

mod support;

use std::path::{Path, PathBuf};

use tract_core::block_on;
use tract_engine::Repo;
use tract_import::{ImportCache, RecordingOptions, SessionFile, SessionReport, Source};

use self::support::{bundled, files, new_repo, refs};

fn sessions(source: Source) -> Vec<SessionFile> {
    files(source, &bundled(source.as_str()))
}

type Reports = Vec<(PathBuf, SessionReport)>;

fn import(repo: &Repo, files: &[SessionFile], cache: Option<&mut ImportCache>) -> Reports {
    let mut reports = Vec::new();
    let options = RecordingOptions::default();
    let each = |path: &Path, report: Result<SessionReport, std::io::Error>| {
        reports.push((path.to_owned(), report.expect("it reads")));
    };
    let done = match cache {
        Some(cache) => block_on(tract_import::import_cached(repo, files, &options, cache, each)),
        None => block_on(tract_import::import(repo, files, &options, each)),
    };
    done.expect("the store works");
    reports
}

#[test]
fn a_cache_leaves_unchanged_files_of_every_source_unread_and_changes_no_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let all: Vec<SessionFile> = Source::ALL.iter().copied().flat_map(sessions).collect();
    let is_database = |file: &SessionFile| {
        let in_databases = [
            Source::LangGraph,
            Source::OpenAiAgents,
            Source::OpenCode,
            Source::Goose,
            Source::Cursor,
        ];
        in_databases.contains(&file.source()) || file.path().is_dir()
    };
    let databases = all.iter().filter(|file| is_database(file)).count();
    assert!(databases > 2 && all.len() > databases + 10, "{databases} of {}", all.len());
    let (plain, cached) = (new_repo(), new_repo());
    let mut cache = ImportCache::open(&path, "build 1");
    for unread in [0, all.len() - databases, all.len() - databases] {
        let expected = import(&plain, &all, None);
        let found = import(&cached, &all, Some(&mut cache));
        assert_eq!((found, cache.unchanged_files()), (expected, unread));
        assert_eq!(refs(&cached), refs(&plain));
        cache.save(&path).expect("it is written");
        cache = ImportCache::open(&path, "build 1");
    }
    let mut other = ImportCache::open(&path, "build 2");
    import(&cached, &all, Some(&mut other));
    assert_eq!(other.unchanged_files(), 0, "another build reads differently");
}

#[cfg(unix)]
#[test]
fn a_cache_has_no_files_that_make_the_same_branch() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = sessions(Source::ClaudeCode)
        .into_iter()
        .find(|file| file.path().ends_with("f2c71dd1-538d-55a4-9725-6db16fce0c50.jsonl"));
    let session = session.expect("a session");
    let copy = |name: &str| {
        let path = folder.path().join(name);
        std::os::unix::fs::symlink(session.path(), &path).expect("a link");
        SessionFile::new(Source::ClaudeCode, path)
    };
    let others: Vec<SessionFile> = sessions(Source::Codex);
    let copies = [copy("a.jsonl"), copy("b.jsonl"), copy("c.jsonl")];
    let all = [&copies[..], &others[..]].concat();
    let (repo, mut cache) = (new_repo(), ImportCache::new("build"));
    import(&repo, &all, Some(&mut cache));
    import(&repo, &all, Some(&mut cache));
    let has_branches = !import(&new_repo(), &copies[..1], None)[0].1.branches.is_empty();
    assert!(has_branches, "the session has messages");
    assert_eq!(cache.unchanged_files(), others.len());
}
