//! Snapshots: a state as bytes, stored with its commit, so that a cold read need not fold the whole
//! history.
//!
//! Format: one version byte; the header; the main part with all rows of the context and their
//! facts; the separate part with the rows that left the context since the previous snapshot, which
//! is read only if a change may concern one of them; and the first eight bytes of SHA-256 over the
//! commit id and everything before. Each skipped row is thus written once, and the size of a
//! snapshot is proportional to the rows shown.

mod decode;
mod encode;

use sha2::{Digest, Sha256};
use tract_core::{CommitId, DerivedKind, DerivedRow};

pub(crate) use self::decode::{decode, separate_rows};
use crate::state::{SnapshotDelta, State};

/// The version of the format and of the fold that produced it.
const VERSION: u8 = 1;
/// Commits that a cold read folds at most, in addition to two for each shown row.
const SLACK: u64 = 256;

mod flag {
    pub(super) const TOOLS: u8 = 1;
    pub(super) const PREVIOUS: u8 = 1 << 1;
    pub(super) const TOOLS_SET: u8 = 1 << 2;

    pub(super) const VERSION: u64 = 1;
    pub(super) const MARK: u64 = 1 << 1;
    pub(super) const ANSWERS: u64 = 1 << 2;
    pub(super) const FACT: u64 = 1 << 3;
    pub(super) const CONTENT: u64 = 1 << 4;
    pub(super) const FORM: u64 = 1 << 5;
    pub(super) const VERBATIM: u64 = 1 << 6;
    pub(super) const CONFIG: u64 = 1 << 7;
    pub(super) const JOINS: u64 = 1 << 8;
    pub(super) const JOINED: u64 = 1 << 9;
    pub(super) const ROLE: u64 = 1 << 10;
    pub(super) const HINT: u64 = 1 << 11;
    /// The slot no longer has a row.
    pub(super) const NO_ROW: u64 = 1 << 12;
}

/// Returns whether enough commits follow the last snapshot to make the next one worth its size.
pub(crate) fn is_due(state: &State) -> bool {
    // A snapshot is as large as the shown rows. Waiting for twice as many commits keeps all
    // snapshots of a history together linear in its length, and a cold read linear in the shown
    // rows.
    state.since.commits > SLACK + 2 * state.shown_count as u64
}

/// Returns the number of commits that can follow before a snapshot is due.
pub(crate) fn room(state: &State) -> u64 {
    room_of(state.since.commits, state.shown_count as u64)
}

/// Returns the number of commits that can follow before a snapshot is due, given `since` commits
/// since the last one and `shown` shown rows.
pub(crate) fn room_of(since: u64, shown: u64) -> u64 {
    SLACK.saturating_add(shown.saturating_mul(2)).saturating_sub(since)
}

/// Writes the snapshot of a state. Returns it with the state that counts from it.
pub(crate) fn take(state: &State) -> Option<(DerivedRow, State)> {
    let commit = state.head?;
    let (mut bytes, apart) = encode::encode(state);
    let sum = checksum(commit, &bytes);
    bytes.extend_from_slice(&sum);
    let row = DerivedRow { kind: DerivedKind::Snapshot, commit, bytes: bytes.into() };
    let mut after = state.clone();
    let apart = state.since.apart + apart;
    after.since = SnapshotDelta { snapshot: Some(commit), apart, ..SnapshotDelta::default() };
    Some((row, after))
}

fn checksum(commit: CommitId, bytes: &[u8]) -> [u8; 8] {
    let sum = Sha256::new_with_prefix("tract-snapshot-1\0").chain_update(commit.as_bytes());
    sum.chain_update(bytes).finalize().first_chunk().copied().expect("there are 32 bytes")
}

/// Returns the bytes before the checksum; `None` if the checksum or the version does not match.
fn checked(commit: CommitId, bytes: &[u8]) -> Option<&[u8]> {
    let (body, sum) = bytes.split_last_chunk::<8>()?;
    (body.first() == Some(&VERSION) && checksum(commit, body) == *sum).then_some(body)
}
