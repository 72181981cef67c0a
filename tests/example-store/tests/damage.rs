//! Cut, flipped and foreign journals.

use std::path::Path;

use tract_core::store::BlockingStore;
use tract_core::{
    Applied, Batch, Expect, RefEdit, RefName, RefTarget, RepoName, Store, StoreErrorKind, block_on,
};
use tract_testkit::fixtures::moving;

fn repo() -> RepoName {
    RepoName::default()
}

/// A batch that makes a document.
fn document(name: &str, text: &str) -> Batch {
    let blob = tract_core::Blob::seal(text.to_owned());
    let to = Some(RefTarget::Blob(blob.id()));
    let name = RefName::new(name).expect("a name");
    let edit = RefEdit { name, expect: Expect::Absent, to };
    Batch { blobs: vec![blob], ..moving(vec![edit]) }
}

/// Writes some documents; gives the journal's bytes.
fn stored(path: &Path) -> Vec<u8> {
    let store = tract_example_store::open(path).expect("a new store");
    for number in 0..5 {
        let batch = document(&format!("config/{number}"), &format!("text {number}"));
        assert_eq!(block_on(store.apply(&repo(), batch)).expect("it is written"), Applied::Done);
    }
    assert_eq!(store.store().check(&repo(), false).expect("it can be read"), []);
    block_on(store.close()).expect("it closes");
    std::fs::read(path).expect("the journal")
}

#[test]
fn a_tail_that_was_cut_is_dropped_and_writing_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.journal");
    let whole = stored(&path);
    for cut in (1..whole.len()).step_by(37) {
        std::fs::write(&path, &whole[..cut]).expect("written");
        let store = tract_example_store::open(&path).expect("what is whole is kept");
        let refs = store.store().list_refs(&repo(), "").expect("refs").len();
        assert!(refs < 5, "cut at {cut}");
        let batch = document("config/after", "text");
        assert_eq!(block_on(store.apply(&repo(), batch)).expect("written"), Applied::Done);
        drop(store);
        let store = tract_example_store::open(&path).expect("it opens again");
        assert_eq!(store.store().list_refs(&repo(), "").expect("refs").len(), refs + 1);
        assert_eq!(store.store().check(&repo(), false).expect("checked"), []);
    }
}

#[test]
fn a_flipped_byte_is_an_error_or_a_lost_tail_and_never_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.journal");
    let whole = stored(&path);
    let mut refused = 0;
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).expect("written");
        match tract_example_store::open(&path) {
            Ok(store) => {
                let refs = store.store().list_refs(&repo(), "").expect("refs");
                assert_eq!(refs.len(), 4, "byte {at}: only the last batch can look like a tail");
            }
            Err(error) => {
                let is_reported = matches!(
                    error.kind,
                    StoreErrorKind::Corrupt { .. } | StoreErrorKind::NotAStore
                );
                assert!(is_reported, "byte {at}: {error:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn another_file_is_left_as_it_is_and_a_second_process_gets_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = folder.path().join("notes.txt");
    std::fs::write(&other, "another program's").expect("written");
    let error = tract_example_store::open(&other).expect_err("no journal");
    assert_eq!(error.kind, StoreErrorKind::NotAStore);
    assert_eq!(std::fs::read_to_string(&other).expect("text"), "another program's");
    let path = folder.path().join("agent.journal");
    let first = tract_example_store::open(&path).expect("a new store");
    let error = tract_example_store::open(&path).expect_err("it is open");
    assert_eq!(error.kind, StoreErrorKind::Busy);
    drop(first);
}
