//! Requests out: instructions apart, neighbors of one role as one content, responses first.

use tract_schema::Dialect;

use super::lower;
use super::names::member;
use crate::raw::{Node, Object};
use crate::turns::{Block, Wording};

/// How turns are written.
pub(super) const WORDING: Wording = Wording {
    dialect: Dialect::Gemini,
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

/// What Google documents for calls that another model made, which have no signature. Gemini 3 rejects
/// the first call of a step that has none.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Signs a call that has no signature; `None` where it has one.
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

/// The parts of a content as received, or of its list of parts.
fn from_content(received: &str) -> Vec<Block> {
    let node = Node::root(received);
    let parts = match node.object() {
        Ok(fields) => fields.get("parts").and_then(|parts| parts.array().ok()),
        Err(_) => node.array().ok(),
    };
    parts.into_iter().flatten().map(|part| lower::received(part.raw)).collect()
}
