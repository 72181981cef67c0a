//! The encoding of the row with the facts of a history: one version byte, the facts as JSON, and
//! eight bytes of a hash over the commit and everything before.

use tract_core::{Blob, CommitId, DerivedKind, DerivedRow};

use super::HistoryFacts;

/// The version of the format. Increase it when a fact is added or the selection of prompts changes, so
/// that older rows are derived again.
const VERSION: u8 = 2;

pub(super) fn encode(commit: CommitId, facts: &HistoryFacts) -> DerivedRow {
    let mut out = vec![VERSION];
    serde_json::to_writer(&mut out, facts).expect("facts are plain data");
    let sum = checksum(commit, &out);
    out.extend_from_slice(&sum);
    DerivedRow { kind: DerivedKind::History, commit, bytes: out.into() }
}

pub(super) fn decode(commit: CommitId, bytes: &[u8]) -> Option<HistoryFacts> {
    let (body, sum) = bytes.split_last_chunk::<8>()?;
    if checksum(commit, body) != *sum {
        return None;
    }
    match body.split_first()? {
        (&VERSION, facts) => serde_json::from_slice(facts).ok(),
        _ => None,
    }
}

fn checksum(commit: CommitId, bytes: &[u8]) -> [u8; 8] {
    let mut all = b"tract-history-1\0".to_vec();
    all.extend_from_slice(commit.as_bytes());
    all.extend_from_slice(bytes);
    *Blob::seal(all).id().as_bytes().first_chunk().expect("an id has 32 bytes")
}
