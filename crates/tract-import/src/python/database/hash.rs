//! Recomputes the hashes of the original.

use serde_json::json;
use sha2::{Digest, Sha256};
use tract_core::json::{self, Escapes};
use tract_core::time::format_rfc3339;

use super::rows::{Commit, Operation};

/// Returns the reason why a blob does not match its hash; `None` if it matches.
pub(super) fn blob_damage(hash: &str, text: &str) -> Option<String> {
    match json::canonical(text, Escapes::Raw) {
        Ok(canonical) if hex(canonical.as_bytes()) == hash => None,
        Ok(_) => Some("its content is not what its hash names".to_owned()),
        Err(error) => Some(format!("its content has no canonical form: {error}")),
    }
}

/// Returns whether a tool's schema matches its hash.
pub(super) fn tool_is(hash: &str, schema: &str) -> bool {
    json::canonical(schema, Escapes::Ascii).is_ok_and(|text| hex(text.as_bytes()) == hash)
}

/// Returns whether a commit's hash is one that any version of the original computes.
///
/// Versions differ in the name of the column for edits, which is hashed, and in whether a merge
/// hashes all its parents. A file may contain commits of several versions.
pub(super) fn commit_is(commit: &Commit) -> bool {
    let Some(time) = timestamp(commit.created_at) else { return false };
    let merge = commit.parents.len() > 1;
    let with_parents = [false, true].into_iter().filter(|with| merge || !with);
    let columns = match commit.edit_target {
        Some(_) => &["edit_target", "response_to"][..],
        None => &["edit_target"],
    };
    with_parents
        .flat_map(|with| columns.iter().map(move |column| (with, *column)))
        .any(|(with, column)| hex(text(commit, &time, with, column).as_bytes()) == commit.hash)
}

/// Returns the canonical JSON that a commit's hash covers. All strings are plain except for a
/// custom content type.
fn text(commit: &Commit, time: &str, with_parents: bool, column: &str) -> String {
    let operation = match commit.operation {
        Operation::Append => "append",
        Operation::Edit => "edit",
    };
    let mut members = json!({
        "content_hash": commit.content_hash,
        "content_type": commit.content_type,
        "operation": operation,
        "parent_hash": commit.parent,
        "timestamp_iso": time,
    });
    if let Some(target) = &commit.edit_target {
        members[column] = json!(target);
    }
    if with_parents {
        let mut parents = commit.parents.clone();
        parents.sort_unstable();
        members["parent_hashes"] = json!(parents);
    }
    json::canonical(&members.to_string(), Escapes::Raw).unwrap_or_default()
}

/// Formats a time like Python's `isoformat`: without a fraction at a whole second.
fn timestamp(at_us: i64) -> Option<String> {
    let whole = format_rfc3339(at_us.div_euclid(1_000_000) * 1_000_000)?;
    let seconds = whole.strip_suffix('Z')?.split('.').next()?.to_owned();
    let fraction = at_us.rem_euclid(1_000_000);
    Some(match fraction {
        0 => format!("{seconds}+00:00"),
        fraction => format!("{seconds}.{fraction:06}+00:00"),
    })
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
