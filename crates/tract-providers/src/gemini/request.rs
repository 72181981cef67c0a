//! Requests out: instructions apart, neighbors of one role as one content, responses first.

use tract_schema::Dialect;

use super::lower;
use crate::adapter::Members;
use crate::raw::{self, Node, Object};
use crate::sheet::RequestWriter;
use crate::turns::{self, Block, Wording};

/// How turns are written.
pub(super) const WORDING: Wording = Wording {
    dialect: Dialect::Gemini,
    assistant: "model",
    blocks_member: "parts",
    lower: lower::parts,
    from_content,
    placeholder_result: lower::placeholder_result,
    text: lower::text,
    message: lower::content,
    is_paused: |_| false,
    begins_with_user: true,
};

/// Writes `systemInstruction` and `contents`.
pub(crate) fn members(sheet: &mut RequestWriter<'_>) -> Members {
    let mut members = Vec::new();
    if let Some(system) = turns::instructions(sheet, &WORDING) {
        let system = match system.received {
            Some(received) => received.to_owned(),
            None => Object::new().raw("parts", &raw::array(system.blocks)).end(),
        };
        members.push(("systemInstruction".to_owned(), system));
    }
    members.push(("contents".to_owned(), turns::messages(sheet, &WORDING)));
    members
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
