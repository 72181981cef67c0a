//! Prefix hashes of conversations, by which a request finds the conversation that it continues.
//!
//! Only content that clients send back unchanged is hashed. Cache marks move, ids of items change,
//! defaults are added to arguments, thinking is left out: none of these makes a different
//! conversation. The store contains the content as it was sent.

use sha2::{Digest, Sha256};
use tract_core::{Content, ImageSource, JsonText, Part};

/// The hash of a message and all before it.
pub(crate) type ChainHash = [u8; 32];

/// The hash of an empty history.
pub(crate) const ROOT: ChainHash = [0; 32];

/// Members that servers add, or that move between requests.
const VOLATILE: [&str; 5] =
    ["cache_control", "caller", "id", "internal_chat_message_metadata_passthrough", "status"];

/// Returns the hash after one more message. How the parts of an answer are divided between
/// messages makes no difference, so that an answer read as a whole is the same as its items.
pub(crate) fn after(hash: ChainHash, content: &Content) -> ChainHash {
    let speaker = match content {
        Content::System(_) => "system",
        Content::User(_) => "user",
        Content::Assistant(_) => "assistant",
        Content::ToolResult(_) => "result",
        Content::Reasoning(_) | Content::Note(_) => return hash,
        Content::Artifact(_) => "artifact",
        Content::Custom { kind, .. } => kind.as_str(),
    };
    let mut hash = hash;
    if let Content::ToolResult(answer) = content {
        let is_error = if answer.is_error { "error" } else { "" };
        hash = link(hash, &["answers", &answer.call_id, is_error]);
    }
    if let Content::Artifact(artifact) = content {
        return link(hash, &[speaker, &artifact.text]);
    }
    for part in content.parts() {
        hash = match part {
            Part::Text { text } if speaker == "assistant" => {
                // Clients trim white space at the end of an answer.
                let text = text.trim_end();
                if text.is_empty() { hash } else { link(hash, &[speaker, "text", text]) }
            }
            Part::Text { text } => link(hash, &[speaker, "text", text]),
            Part::Image { source, .. } => {
                let (kind, source) = match source {
                    ImageSource::Url(url) => ("url", url),
                    ImageSource::Base64(data) => ("data", data),
                    ImageSource::File(id) => ("file", id),
                };
                link(hash, &[speaker, "image", kind, source])
            }
            Part::ToolCall(call) if call.id.is_empty() => {
                let arguments = canonical(&call.arguments);
                link(hash, &[speaker, "call", &call.name, &arguments])
            }
            Part::ToolCall(call) => link(hash, &[speaker, "call", &call.name, "id", &call.id]),
            Part::Reasoning { .. } => hash,
            Part::Opaque { json, .. } => link(hash, &[speaker, "opaque", &without_volatile(json)]),
        };
    }
    hash
}

/// Returns the hash of the visible part of an answer: its texts and calls.
pub(crate) fn visible(content: &Content) -> ChainHash {
    let mut hash = link(ROOT, &[content.kind().as_str()]);
    for part in content.parts() {
        hash = match part {
            Part::Text { text } => link(hash, &["text", text.trim_end()]),
            Part::ToolCall(call) => {
                link(hash, &["call", &call.id, &call.name, &canonical(&call.arguments)])
            }
            Part::Opaque { json, .. } => link(hash, &["opaque", &without_volatile(json)]),
            Part::Image { .. } | Part::Reasoning { .. } => hash,
        };
    }
    hash
}

fn link(hash: ChainHash, fields: &[&str]) -> ChainHash {
    let mut digest = Sha256::new();
    digest.update(hash);
    for field in fields {
        // With lengths, no two lists of fields have the same bytes.
        digest.update((field.len() as u64).to_le_bytes());
        digest.update(field.as_bytes());
    }
    digest.finalize().into()
}

/// Returns the canonical form of a JSON text, or the trimmed text if it is not JSON.
fn canonical(text: &str) -> String {
    JsonText::new(text).map_or_else(|_| text.trim().to_owned(), |json| json.as_str().to_owned())
}

fn without_volatile(json: &str) -> String {
    let Ok(serde_json::Value::Object(mut members)) = serde_json::from_str(json) else {
        return canonical(json);
    };
    for name in VOLATILE {
        members.remove(name);
    }
    canonical(&serde_json::Value::Object(members).to_string())
}

#[cfg(test)]
mod tests {
    use tract_core::Body;

    use super::*;

    fn assistant(parts: Vec<Part>) -> Content {
        Content::Assistant(Body { parts, name: None })
    }

    #[test]
    fn an_answer_is_the_same_however_it_is_divided() {
        let text = || Part::text("Let me look. ");
        let call = |arguments: &str| Part::call("c1", "read", arguments);
        let thought = Part::Reasoning { text: "hm".to_owned(), signature: None, encrypted: None };
        let whole = after(ROOT, &assistant(vec![thought, text(), call("{}")]));
        let first = after(ROOT, &assistant(vec![Part::text("Let me look.")]));
        let second = after(first, &assistant(vec![call(r#"{"all":false}"#)]));
        assert_eq!(whole, second);
        assert_ne!(whole, first);
    }

    #[test]
    fn order_of_members_is_not_visible_and_a_new_member_is() {
        let of = |arguments: &str| visible(&assistant(vec![Part::call("c", "t", arguments)]));
        assert_eq!(of(r#"{"a":1,"b":2}"#), of(r#"{"b":2, "a":1}"#));
        assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":1,"b":2}"#));
    }

    #[test]
    fn a_users_text_counts_in_full() {
        let of = |text: &str| after(ROOT, &Content::user(text));
        assert_ne!(of("a"), of("a "));
        assert_ne!(of("a"), after(ROOT, &Content::assistant("a")));
    }
}
