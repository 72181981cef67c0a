//! What lies at the path decides what opening gives.

use std::time::Duration;

use tract_core::{RepoName, Store, StoreErrorKind, block_on};
use tract_store_sled::{SledOptions, open};

#[test]
fn no_folder_is_no_store_and_none_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sled");
    let kind = open(&path, &SledOptions::default()).unwrap_err().kind;
    assert_eq!(kind, StoreErrorKind::NoStore);
    assert!(!path.exists());
    // An empty folder is none either.
    let kind = open(folder.path(), &SledOptions::default()).unwrap_err().kind;
    assert_eq!(kind, StoreErrorKind::NoStore);
    drop(open(&path, &SledOptions { create: true, ..SledOptions::default() }).unwrap());
    let store = open(&path, &SledOptions::default()).unwrap();
    assert_eq!(block_on(store.repos()).unwrap(), [] as [RepoName; 0]);
}

#[test]
fn a_foreign_file_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let options = SledOptions { create: true, ..SledOptions::default() };
    let file = folder.path().join("file");
    std::fs::write(&file, "another program's").unwrap();
    assert_eq!(open(&file, &options).unwrap_err().kind, StoreErrorKind::NotAStore);
    assert_eq!(open(folder.path(), &options).unwrap_err().kind, StoreErrorKind::NotAStore);

    let foreign = folder.path().join("foreign");
    let theirs = sled::open(&foreign).unwrap();
    theirs.insert("key", "value").unwrap();
    drop(theirs);
    assert_eq!(open(&foreign, &options).unwrap_err().kind, StoreErrorKind::NotAStore);
    assert_eq!(sled::open(&foreign).unwrap().get("key").unwrap().unwrap(), "value");
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sled");
    let store = open(&path, &SledOptions { create: true, ..SledOptions::default() }).unwrap();
    let hasty = SledOptions { busy_timeout: Duration::from_millis(20), ..SledOptions::default() };
    assert_eq!(open(&path, &hasty).unwrap_err().kind, StoreErrorKind::Busy);
    block_on(store.close()).unwrap();
    drop(open(&path, &hasty).unwrap());
}

#[test]
#[cfg(unix)]
fn a_folder_that_was_moved_takes_no_more_writes_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sled");
    tract_testkit::blocking::a_moved_store_takes_no_writes(&path, |path| {
        open(path, &SledOptions { create: true, ..SledOptions::default() }).unwrap()
    });
}
