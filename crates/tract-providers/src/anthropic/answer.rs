//! Writes a block of an answer as a block of the next request.

use tract_core::json;

use crate::raw::Object;

/// Converts a block. Results of executed code have an end reason in answers, but not in requests.
pub(super) fn sent(received: &str) -> Option<String> {
    const MEMBER: &str = "abort_reason";
    if !received.contains("\"abort_reason\"") {
        return None;
    }
    let (mut block, mut is_changed) = (Object::new(), false);
    for (name, raw) in json::split_object(received).ok()? {
        let inner = json::split_object(raw).unwrap_or_default();
        let is_result = name == "content" && inner.iter().any(|(name, _)| name == MEMBER);
        if !is_result {
            block.raw(&name, raw);
            continue;
        }
        let mut content = Object::new();
        for (name, raw) in inner.iter().filter(|(name, _)| name != MEMBER) {
            content.raw(name, raw);
        }
        is_changed = true;
        block.nest(&name, content.end());
    }
    is_changed.then(|| block.end())
}
