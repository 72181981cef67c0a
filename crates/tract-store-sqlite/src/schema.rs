//! Tables, numbers and checksums of format 2.

use rusqlite::types::ValueRef;
use sha2::{Digest, Sha256};

/// Marks a file as a tract store: `trac`.
pub(crate) const APPLICATION_ID: i32 = 0x7472_6163;
/// The format that this build writes, and the newest that it can read.
pub(crate) const FORMAT: u32 = 2;
/// Maximum size of a value in one row, in bytes; SQLite's own limit is 1,000,000,000 bytes a row.
pub(crate) const MAX_BYTES: usize = 999_000_000;

/// All tables and indexes, sorted by name. An opened file must have exactly these.
///
/// - `id` of commits and blobs is a [`place`], so that a walk is a range of the primary key.
/// - `h` is the first eight bytes of an object's id, which keeps the index small. Two objects can
///   share it, so readers hash the rows that they find.
/// - `ref_log_batch` only indexes `b1`, the half of a batch id that is shared by all batches of one
///   command, so that one index finds both a batch and a command.
/// - `refs` is small and only read by name, so it has no rowid.
/// - Without STRICT, SQLite would convert types silently, and a damaged value could read as a valid
///   one.
pub(crate) const TABLES: [(&str, &str); 9] = [
    (
        "blobs",
        "CREATE TABLE blobs (id INTEGER PRIMARY KEY, repo INTEGER NOT NULL, h INTEGER NOT NULL, \
         data BLOB NOT NULL) STRICT",
    ),
    ("blobs_h", "CREATE INDEX blobs_h ON blobs (repo, h)"),
    (
        "commits",
        "CREATE TABLE commits (id INTEGER PRIMARY KEY, repo INTEGER NOT NULL, h INTEGER NOT NULL, \
         content INTEGER, rec BLOB NOT NULL) STRICT",
    ),
    ("commits_h", "CREATE INDEX commits_h ON commits (repo, h)"),
    (
        "ref_log",
        "CREATE TABLE ref_log (id INTEGER PRIMARY KEY, ref INTEGER NOT NULL, \
         kinds INTEGER NOT NULL, before INTEGER NOT NULL, after INTEGER NOT NULL, \
         b1 INTEGER NOT NULL, b2 INTEGER NOT NULL, operation BLOB, what INTEGER NOT NULL, \
         who INTEGER NOT NULL, why INTEGER, undoes INTEGER, at INTEGER NOT NULL, \
         sum INTEGER NOT NULL) STRICT",
    ),
    ("ref_log_batch", "CREATE INDEX ref_log_batch ON ref_log (b1)"),
    (
        "refs",
        "CREATE TABLE refs (repo INTEGER NOT NULL, name TEXT NOT NULL, target BLOB NOT NULL, \
         sum INTEGER NOT NULL, PRIMARY KEY (repo, name)) STRICT, WITHOUT ROWID",
    ),
    (
        "small",
        "CREATE TABLE small (id INTEGER PRIMARY KEY, repo INTEGER NOT NULL, \
         kind INTEGER NOT NULL, key INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL) \
         STRICT",
    ),
    ("small_key", "CREATE INDEX small_key ON small (repo, kind, key)"),
];

/// The kinds of rows in `small`; derived rows have [`DERIVED`] plus their own number.
pub(crate) const REPO: i64 = 1;
pub(crate) const TEXT: i64 = 2;
pub(crate) const TOOLSET: i64 = 3;
pub(crate) const TOOL: i64 = 4;
pub(crate) const TOOL_NAME: i64 = 5;
/// The number of sweeps in the store, under repository 0; absent while it is 0.
pub(crate) const SWEEPS: i64 = 6;
/// The number of writes of a repository that stored objects but moved no ref; absent while it is 0.
pub(crate) const UNLOGGED: i64 = 7;
/// The dictionaries that blobs of a repository are compressed with, keyed by their id.
pub(crate) const DICTIONARY: i64 = 8;
pub(crate) const DERIVED: i64 = 16;
pub(crate) const DERIVED_LAST: i64 = DERIVED + 255;

/// Returns a place: the segment in the upper half, the position in the lower. Commits have even
/// segments. Blobs that are not the content of a commit in their batch are in the odd segment of
/// their repository.
pub(crate) const fn place(segment: i64, position: i64) -> i64 {
    segment << 32 | position
}

/// Returns the first place of the segment that contains `place`.
pub(crate) const fn segment_start(place: i64) -> i64 {
    place >> 32 << 32
}

/// Returns the segment for a repository's blobs that are not the content of a commit.
pub(crate) const fn blob_segment(repo: i64) -> i64 {
    repo * 2 - 1
}

/// Returns the number before the first entry of a repository's ref log.
pub(crate) const fn log_base(repo: i64) -> i64 {
    (repo - 1) << 40
}

/// Returns the first eight bytes of an id, which are the index key.
pub(crate) fn prefix(id: &[u8; 32]) -> i64 {
    let (first, _) = id.split_first_chunk::<8>().expect("an id has 32 bytes");
    i64::from_be_bytes(*first)
}

/// Returns the index key of a text.
pub(crate) fn text_key(text: &[u8]) -> i64 {
    prefix(&Sha256::digest(text).into())
}

fn short_sum(digest: Sha256) -> i64 {
    let digest: [u8; 32] = digest.finalize().into();
    let (first, _) = digest.split_first_chunk::<4>().expect("a digest has 32 bytes");
    // Only four bytes are stored. The sign is irrelevant.
    i64::from(i32::from_be_bytes(*first))
}

/// Returns the checksum of a row of `small`.
pub(crate) fn small_sum(repo: i64, kind: i64, key: i64, data: &[u8]) -> i64 {
    let mut digest = Sha256::new();
    [repo, kind, key].iter().for_each(|number| digest.update(number.to_le_bytes()));
    digest.update(data);
    short_sum(digest)
}

/// Returns the checksum of a row of `refs`.
pub(crate) fn ref_sum(repo: i64, name: &str, target: &[u8]) -> i64 {
    let mut digest = Sha256::new();
    digest.update(repo.to_le_bytes());
    digest.update(target);
    digest.update(name.as_bytes());
    short_sum(digest)
}

/// Returns the checksum of a row of `ref_log`.
pub(crate) fn log_sum(numbers: &[i64], operation: Option<&[u8]>) -> i64 {
    let mut digest = Sha256::new();
    numbers.iter().for_each(|number| digest.update(number.to_le_bytes()));
    digest.update(operation.unwrap_or_default());
    short_sum(digest)
}

/// Returns the bytes of a text or blob value; empty for other types, which only occur if the row is
/// damaged.
pub(crate) fn bytes_of(value: ValueRef<'_>) -> &[u8] {
    match value {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => bytes,
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => &[],
    }
}
