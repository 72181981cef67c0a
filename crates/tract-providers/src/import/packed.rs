//! Bodies that a recording contains as JSON texts.

use crate::batch::{ANSWERS, REQUESTS, id_of};
use crate::raw::{self, Fields, Node, Object};

const BODY: &str = "body";

/// Writes the requests and bodies of a line that are JSON texts as the objects that they contain;
/// `None` if the line has none. A text within such a text stays a text.
///
/// ```
/// use tract_providers::unpacked;
/// let line = r#"{"request":{"body":"{\"messages\":[]}"}}"#;
/// assert_eq!(unpacked(line).as_deref(), Some(r#"{"request":{"body":{"messages":[]}}}"#));
/// assert_eq!(unpacked(r#"{"request":{"body":"Hi"}}"#), None);
/// ```
pub fn unpacked(line: &str) -> Option<String> {
    // A text with an object has escapes. Most other lines need not be split.
    let has_member = |key: &&str| line.contains(&format!("{key:?}"));
    if !line.contains('\\') || !REQUESTS.iter().chain(&ANSWERS).any(has_member) {
        return None;
    }
    let fields = Node::root(line).object().ok()?;
    let is_batch = id_of(&fields).is_some();
    let (mut out, mut is_changed) = (Object::new(), false);
    for (key, node) in fields.nodes() {
        let is_request = REQUESTS.contains(&key) && (key == "request" || is_batch);
        let text = match is_request {
            true => object_in(&node).or_else(|| with_object_body(&node)),
            false if ANSWERS.contains(&key) => with_object_body(&node),
            false => None,
        };
        is_changed |= text.is_some();
        match text {
            Some(text) => out.nest(key, text),
            None => out.raw(key, node.raw),
        };
    }
    let out = out.end();
    is_changed.then_some(out)
}

/// Returns an object with its body as an object; `None` if the body is not the text of one.
fn with_object_body(node: &Node<'_>) -> Option<String> {
    let fields: Fields<'_> = node.object().ok()?;
    let body = object_in(&fields.get(BODY)?)?;
    let mut out = Object::new();
    for (key, raw) in &fields.members {
        out.raw(key, if key == BODY { &body } else { raw });
    }
    Some(out.end())
}

/// Returns the object that a text contains.
fn object_in(node: &Node<'_>) -> Option<String> {
    let text = node.is_string().then(|| node.string().ok())??;
    let text = text.trim();
    raw::is_object(text).then(|| text.to_owned())
}
