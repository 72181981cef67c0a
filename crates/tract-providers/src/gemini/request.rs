//! Writes requests: separate instructions, neighbors of one role as one content, responses first.

use std::borrow::Cow;

use tract_compile::{Repair, RepairKind};

use super::lower;
use super::names::member;
use crate::params::Params;
use crate::raw::{self, Node, Object};
use crate::turns::{Block, BlockKind, Wording, around};

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
    needs_signatures,
    results_first: false,
    repaired: |_| None,
    why_refused: |_| None,
    is_nothing,
};

/// Returns whether a part has neither content nor a signature.
fn is_nothing(part: &str) -> bool {
    let Ok(fields) = Node::root(part).object() else { return false };
    let is_blank = |(key, raw): &(String, &str)| match key.as_str() {
        "text" => matches!(*raw, "\"\"" | "null"),
        "thought" => true,
        _ => *raw == "null",
    };
    fields.members.iter().all(is_blank)
}

/// Returns whether a model requires signatures: Gemini 3 and its successors. The names without a
/// version are those of the newest models.
pub(super) fn needs_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(version) = name.strip_prefix("gemini-") else { return false };
    let end = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    match version.get(..end).and_then(|digits| digits.parse::<u32>().ok()) {
        Some(major) => major >= 3,
        None => version.ends_with("-latest"),
    }
}

/// Signs the first call of each turn of a request whose model was set after it was compiled.
pub(super) fn sign_calls(params: &mut Params) {
    let model = params.get("model").and_then(raw::string).unwrap_or_default();
    if !needs_signatures(&model) {
        return;
    }
    let Some(contents) = params.get("contents").and_then(|raw| Node::root(raw).array().ok()) else {
        return;
    };
    let mut is_changed = false;
    let signed = contents.iter().map(|content| match signed_content(content) {
        Some(signed) => {
            is_changed = true;
            Cow::Owned(signed)
        }
        None => Cow::Borrowed(content.raw),
    });
    let contents = raw::array(signed.collect::<Vec<_>>());
    if is_changed {
        params.set("contents", contents);
        let text = "calls without a signature get the one that Gemini 3 ignores";
        params.repairs.push(Repair::new(RepairKind::Changed, None, text));
    }
}

/// Signs the first call of a content of the model; `None` if there is nothing to sign.
fn signed_content(content: &Node<'_>) -> Option<String> {
    let fields = content.object().ok()?;
    let parts = fields.get("parts").filter(|_| fields.text("role").as_deref() == Some("model"))?;
    let parts = parts.array().ok()?;
    let first = parts.iter().position(|part| lower::received(part.raw).sort == BlockKind::Call)?;
    let signed = sign(parts.get(first)?.raw)?;
    let written = parts.iter().enumerate().map(|(place, part)| match place == first {
        true => signed.as_str(),
        false => part.raw,
    });
    Some(around(&fields, "parts", raw::array(written)))
}

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
