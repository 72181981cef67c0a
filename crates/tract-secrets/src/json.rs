//! JSON fields whose values only a provider can read, and which must not be changed.

use std::ops::Range;

use crate::SecretMatch;

/// Returns whether a field of this name contains a signature or encrypted content: `signature`,
/// `encrypted_content`, and the names used by other providers. Their values are never redacted.
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

/// Minimum length of base64 in a field `data` that is taken for media (an image, a recording) if
/// the object has a media type.
const MEDIA_LENGTH: usize = 64;
/// Minimum length of base64 in a field `data` that is taken for media or encrypted content even
/// without a media type. Keys are shorter than that.
const BLOCK_LENGTH: usize = 2048;
/// Maximum nesting depth at which objects are checked for a media type.
const MAX_DEPTH: usize = 128;

/// Removes the matches that overlap values of opaque fields.
pub(crate) fn leave_opaque(json: &str, found: &mut Vec<SecretMatch>) {
    let opaque = opaque_values(json);
    let mut spans = opaque.iter().peekable();
    found.retain(|secret| {
        while spans.next_if(|span| span.end <= secret.range.start).is_some() {}
        spans.peek().is_none_or(|span| secret.range.end <= span.start)
    });
}

/// An object that is not closed yet.
#[derive(Default)]
struct OpenObject {
    /// Whether one of its fields marks its `data` as media or encrypted.
    is_media: bool,
    /// The values of its `data` fields that are base64 of at least `MEDIA_LENGTH`.
    data: Vec<Range<usize>>,
}

/// Returns the ranges of the values of opaque fields, without their quotes, in order. Only strings
/// and braces are tokenized, so that truncated or invalid JSON is searched to its end.
fn opaque_values(json: &str) -> Vec<Range<usize>> {
    let bytes = json.as_bytes();
    let mut spans = Vec::new();
    let mut objects: Vec<OpenObject> = Vec::new();
    let mut deeper = 0_usize;
    let mut at = 0;
    // The last string, if a colon follows it: the name of a field.
    let mut name: Option<Range<usize>> = None;
    loop {
        let open = next_quote(bytes, at);
        let between = bytes.get(at..open.unwrap_or(bytes.len())).unwrap_or_default();
        for byte in between {
            match byte {
                b'{' if objects.len() < MAX_DEPTH => objects.push(OpenObject::default()),
                b'{' => deeper += 1,
                b'}' if deeper > 0 => deeper -= 1,
                b'}' => spans.extend(objects.pop().into_iter().flat_map(OpenObject::media)),
                _ => {}
            }
        }
        let Some(open) = open else { break };
        let is_value =
            name.is_some() && between.iter().all(|b| b.is_ascii_whitespace() || *b == b':');
        let end = string_end(bytes, open + 1);
        let span = open + 1..end;
        if is_value && let Some(name) = name.take() {
            let field = json.get(name).unwrap_or_default();
            let value = json.get(span.clone()).unwrap_or_default();
            let is_block = field == "data" && value.len() >= BLOCK_LENGTH && is_base64(value);
            if is_opaque_field(field) || is_block {
                spans.push(span.clone());
            } else if let Some(object) = objects.last_mut().filter(|_| deeper == 0) {
                object.is_media |= says_media(field, value);
                if field == "data" && value.len() >= MEDIA_LENGTH && is_base64(value) {
                    object.data.push(span.clone());
                }
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
    spans.extend(objects.into_iter().flat_map(OpenObject::media));
    spans.sort_by_key(|span| span.start);
    spans
}

impl OpenObject {
    fn media(self) -> Vec<Range<usize>> {
        if self.is_media { self.data } else { Vec::new() }
    }
}

/// Returns whether a field marks the `data` next to it as media, or as encrypted by a provider.
fn says_media(field: &str, value: &str) -> bool {
    match field {
        "media_type" | "mediaType" | "mime_type" | "mimeType" => {
            let is_text = value.starts_with("text/") || value.ends_with("json");
            value.contains('/') && !is_text
        }
        "type" => matches!(value, "base64" | "redacted_thinking"),
        _ => false,
    }
}

fn next_quote(bytes: &[u8], from: usize) -> Option<usize> {
    bytes.get(from..)?.iter().position(|byte| *byte == b'"').map(|at| from + at)
}

/// Returns the offset of the quote that ends a string, or the length of the text.
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

fn is_base64(value: &str) -> bool {
    value
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_'))
}
