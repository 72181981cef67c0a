//! Writes requests: separate instructions, neighbors of one role as one content, responses first.

use super::lower;
use super::names::member;
use crate::raw::{Node, Object};
use crate::turns::{Block, Wording};

/// The member names of turns.
pub(super) const WORDING: Wording = Wording {
    format: &lower::FORMAT,
    assistant: "model",
    blocks_member: "parts",
    lower: lower::parts,
    from_content,
    placeholder_result: lower::placeholder_result,
    system: |parts| Object::new().nest("parts", parts).end(),
    text: lower::text,
    message: lower::content,
    is_paused: |_| false,
    begins_with_user: true,
    sign: Some(sign),
    why_refused: |_| None,
};

/// The signature that Google documents for calls of other models. Gemini 3 rejects a step whose
/// first call is unsigned.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Signs a call; `None` if it already has a signature.
fn sign(call: &str) -> Option<String> {
    let fields = Node::root(call).object().ok()?;
    if member(&fields, "thoughtSignature").is_some() {
        return None;
    }
    let mut out = Object::new();
    for (key, raw) in &fields.members {
        out.raw(key, raw);
    }
    Some(out.text("thoughtSignature", NO_SIGNATURE).end())
}

/// Returns the parts of a content, or of a list of parts, as received.
fn from_content(received: &str) -> Vec<Block> {
    let node = Node::root(received);
    let parts = match node.object() {
        Ok(fields) => fields.get("parts").and_then(|parts| parts.array().ok()),
        Err(_) => node.array().ok(),
    };
    parts.into_iter().flatten().map(|part| lower::received(part.raw)).collect()
}
