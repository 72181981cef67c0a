//! Fields of JSON texts whose values only a provider can read.

use std::ops::Range;

use crate::SecretMatch;

/// Returns whether a field of this name holds a signature or encrypted content: `signature`,
/// `encrypted_content` and what other providers call them. Their values are never redacted.
pub fn is_opaque_field(name: &str) -> bool {
    matches!(
        name,
        "signature"
            | "thoughtSignature"
            | "thought_signature"
            | "encrypted"
            | "encrypted_content"
            | "encryptedContent"
            | "encrypted_index"
            | "redacted_data"
            | "reasoning_signature"
    )
}

/// A value of this many base64 characters in a field `data` is an encrypted block or a picture.
const DATA_LENGTH: usize = 64;

/// Takes out the matches within values of opaque fields.
pub(crate) fn leave_opaque(json: &str, found: &mut Vec<SecretMatch>) {
    let opaque = opaque_values(json);
    let mut spans = opaque.iter().peekable();
    found.retain(|secret| {
        while spans.next_if(|span| span.end <= secret.range.start).is_some() {}
        spans.peek().is_none_or(|span| secret.range.end <= span.start)
    });
}

/// Finds the values of opaque fields, without their quotes, in order. Reads strings only: what is
/// between them does not matter, so a text that is cut off or is no JSON is read to its end.
fn opaque_values(json: &str) -> Vec<Range<usize>> {
    let bytes = json.as_bytes();
    let mut spans = Vec::new();
    let mut at = 0;
    // The last string, when a colon follows it: a field's name.
    let mut name: Option<Range<usize>> = None;
    while let Some(open) = next_quote(bytes, at) {
        let between = bytes.get(at..open).unwrap_or_default();
        let is_value =
            name.is_some() && between.iter().all(|b| b.is_ascii_whitespace() || *b == b':');
        let end = string_end(bytes, open + 1);
        let span = open + 1..end;
        if is_value && let Some(name) = name.take() {
            let field = json.get(name).unwrap_or_default();
            let value = bytes.get(span.clone()).unwrap_or_default();
            if is_opaque_field(field) || (field == "data" && is_base64(value)) {
                spans.push(span.clone());
            }
        } else {
            name = None;
        }
        at = end + 1;
        let rest = bytes.get(at..).unwrap_or_default();
        let is_name = rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':');
        if is_name {
            name = Some(span);
        }
    }
    spans
}

fn next_quote(bytes: &[u8], from: usize) -> Option<usize> {
    bytes.get(from..)?.iter().position(|byte| *byte == b'"').map(|at| from + at)
}

/// Returns the place of the quote that ends a string, or the end of the text.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn is_base64(value: &[u8]) -> bool {
    value.len() >= DATA_LENGTH
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_'))
}
