//! The marks that replace secrets.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::SecretKind;

/// Prefix of a mark.
const START: &str = "[redacted:";
/// Maximum length of a mark, in bytes.
const MAX_LENGTH: usize = 80;
/// Number of hex digits of the hash in a mark.
const HASH_DIGITS: usize = 8;

/// Returns the mark that replaces a secret: `[redacted:KIND:hash8]`.
///
/// The hash is the first eight hex digits of a SHA-256 over the kind and the secret. Equal secrets
/// get equal marks, so that a reader can see that the same key was used in two places. A mark can
/// also confirm a guess of the secret, which matters for short passwords but not for keys.
pub fn mark(kind: &SecretKind, secret: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(b"tract.redacted.v1\0");
    digest.update(kind.as_str().as_bytes());
    digest.update(b"\0");
    digest.update(secret.as_bytes());
    let digest = digest.finalize();
    let hash: String =
        digest.iter().take(HASH_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    format!("{START}{kind}:{hash}]")
}

/// Returns the length of the mark of this kind, in bytes.
pub(crate) fn mark_length(kind: &SecretKind) -> usize {
    START.len() + kind.as_str().len() + 1 + HASH_DIGITS + 1
}

/// Widens a match so that it does not split a mark. Returns `None` if marks cover all of it.
pub(crate) fn outside_marks(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut whole = range.clone();
    let mut covered = 0;
    let mut at = range.start.saturating_sub(MAX_LENGTH);
    while let Some(start) = find(bytes, at, range.end) {
        match mark_end(text, start) {
            Some(end) if end > range.start => {
                covered += end.min(range.end) - start.max(range.start);
                whole = whole.start.min(start)..whole.end.max(end);
                at = end;
            }
            Some(end) => at = end,
            None => at = start + START.len(),
        }
    }
    (covered < range.len()).then_some(whole)
}

/// Returns the offset of the next possible mark in the range.
fn find(bytes: &[u8], from: usize, to: usize) -> Option<usize> {
    let window = bytes.get(from..bytes.len().min(to + START.len()))?;
    let at = window.windows(START.len()).position(|window| window == START.as_bytes())? + from;
    (at < to).then_some(at)
}

/// Returns the end of the mark that starts here; `None` if it is not complete.
fn mark_end(text: &str, start: usize) -> Option<usize> {
    let rest = text.get(start..)?.strip_prefix(START)?;
    let colon = rest.bytes().take(MAX_LENGTH).position(|byte| byte == b':')?;
    let (kind, rest) = (rest.get(..colon)?, rest.get(colon + 1..)?);
    SecretKind::parse(kind)?;
    let hash = rest.get(..HASH_DIGITS)?;
    let is_hash = hash.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
    let is_complete = is_hash && rest.get(HASH_DIGITS..)?.starts_with(']');
    is_complete.then_some(start + START.len() + kind.len() + 1 + HASH_DIGITS + 1)
}
