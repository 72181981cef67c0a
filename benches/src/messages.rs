//! Messages of 500 characters, and stores full of them.

use std::path::Path;

use tempfile::TempDir;
use tract::store::WriteMode;
use tract::{Draft, Tract, block_on};

use crate::stores;

const WORDS: &[&str] = &[
    "agent",
    "branch",
    "commit",
    "context",
    "model",
    "tool",
    "result",
    "answer",
    "reservation",
    "flight",
    "the",
    "a",
    "of",
    "and",
    "to",
    "with",
    "was",
    "is",
    "for",
    "payment",
];

/// The n-th message: 500 characters of words, no two messages alike.
pub(crate) fn text(n: u64) -> String {
    let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = format!("{n}");
    while text.len() < 500 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push(' ');
        text.push_str(WORDS[(state % WORDS.len() as u64) as usize]);
    }
    text.truncate(500);
    text
}

/// The bytes of the files of a folder.
pub(crate) fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

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

/// Makes a store with so many messages, in a folder of its own.
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
