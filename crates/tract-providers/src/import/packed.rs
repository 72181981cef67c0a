//! Bodies that a recording contains as JSON texts.

use tract_core::json;

use crate::batch::{ANSWERS, REQUESTS, id_of};
use crate::drafts::Anomaly;
use crate::raw::{self, Fields, Node, Object};

use super::placement::with_answer_in_place;

const BODY: &str = "body";

/// A line whose requests and bodies are objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedLine {
    /// The text of the line.
    pub text: String,
    /// Damaged characters that were replaced in the objects.
    pub replaced: Vec<Anomaly>,
}

/// Writes the requests and bodies of a line that are JSON texts as the objects that they contain, and
/// an answer that is next to the request in another way than under one member under `response`;
/// `None` if the line has none of them. A text within such a text stays a text.
///
/// ```
/// use tract_providers::unpacked;
/// let line = unpacked(r#"{"request":{"body":"{\"messages\":[]}"}}"#).expect("it has a body");
/// assert_eq!(line.text, r#"{"request":{"body":{"messages":[]}}}"#);
/// assert_eq!(unpacked(r#"{"request":{"body":"Hi"}}"#), None);
/// ```
pub fn unpacked(line: &str) -> Option<UnpackedLine> {
    let objects = with_objects(line);
    let text = objects.as_ref().map_or(line, |line| line.text.as_str());
    match with_answer_in_place(text) {
        Some(text) => {
            let replaced = objects.map(|line| line.replaced).unwrap_or_default();
            Some(UnpackedLine { text, replaced })
        }
        None => objects,
    }
}

/// Writes the requests and bodies of a line that are JSON texts as objects.
fn with_objects(line: &str) -> Option<UnpackedLine> {
    // A text with an object has escapes. Most other lines need not be split.
    let has_member = |key: &&str| line.contains(&format!("{key:?}"));
    if !line.contains('\\') || !REQUESTS.iter().chain(&ANSWERS).any(has_member) {
        return None;
    }
    let fields = Node::root(line).object().ok()?;
    let is_batch = id_of(&fields).is_some();
    let (mut out, mut is_changed, mut replaced) = (Object::new(), false, Vec::new());
    for (key, node) in fields.nodes() {
        let is_request = REQUESTS.contains(&key) && (key == "request" || is_batch);
        let text = match is_request {
            true => {
                object_in(&node, &mut replaced).or_else(|| with_object_body(&node, &mut replaced))
            }
            false if ANSWERS.contains(&key) => with_object_body(&node, &mut replaced),
            false => None,
        };
        is_changed |= text.is_some();
        match text {
            Some(text) => out.nest(key, text),
            None => out.raw(key, node.raw),
        };
    }
    let text = out.end();
    is_changed.then_some(UnpackedLine { text, replaced })
}

/// Returns an object with its body as an object; `None` if the body is not the text of one.
fn with_object_body(node: &Node<'_>, replaced: &mut Vec<Anomaly>) -> Option<String> {
    let fields: Fields<'_> = node.object().ok()?;
    let body = object_in(&fields.get(BODY)?, replaced)?;
    let mut out = Object::new();
    for (key, raw) in &fields.members {
        out.raw(key, if key == BODY { &body } else { raw });
    }
    Some(out.end())
}

/// Returns the object that a text contains. Damaged characters in it are replaced.
fn object_in(node: &Node<'_>, replaced: &mut Vec<Anomaly>) -> Option<String> {
    let text = node.is_string().then(|| node.string().ok())??;
    let (text, damage) = decoded(&text, &node.path);
    raw::is_object(text.trim()).then(|| {
        replaced.extend(damage);
        text.trim().to_owned()
    })
}

/// Replaces damaged characters of a JSON text that is the value at a path.
pub(super) fn decoded(text: &str, path: &str) -> (String, Vec<Anomaly>) {
    let decoded = json::decode(text.as_bytes());
    let shown = decoded.replaced.iter().map(ToString::to_string);
    let more = decoded.count.saturating_sub(decoded.replaced.len());
    let more = (more > 0).then(|| format!("{more} more places were replaced"));
    let anomaly = |what| Anomaly { at: path.to_owned(), what };
    let damage = shown.chain(more).map(anomaly).collect();
    (decoded.text.into_owned(), damage)
}
