//! Messages of 500 characters, and stores full of them.

use std::path::Path;

use tempfile::TempDir;
use tract::store::WriteMode;
use tract::{Draft, Tract, block_on};
pub(crate) use tract_benches::engine::{size_of as bytes, text};

use crate::stores;

pub(crate) fn open(folder: &Path, mode: WriteMode) -> Tract {
    stores::open("sqlite", folder, mode)
}

/// Appends messages, one commit each, a hundred in a durable write.
pub(crate) fn fill(tract: &Tract, from: u64, count: u64) {
    let mut n = from;
    while n < from + count {
        let to = (n + 100).min(from + count);
        let drafts: Vec<Draft> = (n..to).map(draft).collect();
        block_on(tract.commit_all(drafts)).unwrap();
        n = to;
    }
}

/// Makes a store with `count` messages in a new folder.
pub(crate) fn filled(count: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tract = open(folder.path(), WriteMode::InPlace);
    fill(&tract, 0, count);
    close(tract);
    folder
}

pub(crate) fn draft(n: u64) -> Draft {
    match n % 2 {
        0 => Draft::user(text(n)),
        _ => Draft::assistant(text(n)),
    }
}

pub(crate) fn close(tract: Tract) {
    block_on(tract.store().close()).unwrap();
}
