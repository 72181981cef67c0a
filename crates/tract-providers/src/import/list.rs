//! Lists of conversations in one document.

use tract_core::json;

use crate::batch::REQUESTS;
use crate::detect::detect;
use crate::raw::Node;

/// Members with the messages of a request.
const LISTS: [&str; 2] = ["messages", "contents"];

/// Returns the elements of a list of conversations, such as requests with their answers, or the body
/// that creates a batch of Anthropic (`{"requests":[…]}`); `None` if the text is another one, such as
/// a list of messages. Elements that are not conversations are in it, so that they can be reported.
///
/// ```
/// use tract_providers::listed_conversations;
/// let list = r#"[{"messages":[{"role":"user","content":"Hi"}]}, 7]"#;
/// assert_eq!(listed_conversations(list).map(|list| list.len()), Some(2));
/// assert_eq!(listed_conversations(r#"[{"role":"user","content":"Hi"}]"#), None);
/// ```
pub fn listed_conversations(text: &str) -> Option<Vec<&str>> {
    let text = text.trim();
    if text.starts_with('{') {
        return requests_of_batch(text);
    }
    if !text.starts_with('[') || detect(text).is_some() {
        return None;
    }
    let elements = json::split_array(text).ok()?;
    let is_message = |element: &str| {
        let fields = Node::root(element).object();
        fields.is_ok_and(|fields| fields.has("role") || fields.has("type"))
    };
    // Traces have an `input` as well.
    let has_request = |element: &str| {
        let fields = Node::root(element).object();
        fields.is_ok_and(|fields| {
            let is_response = fields.has("input") && fields.has("model");
            is_response || REQUESTS.iter().chain(&LISTS).any(|key| fields.has(key))
        })
    };
    let is_conversation =
        |element: &&str| !is_message(element) && has_request(element) && detect(element).is_some();
    elements.iter().any(is_conversation).then_some(elements)
}

/// Returns the requests in the body of a request that creates a batch of Anthropic.
fn requests_of_batch(text: &str) -> Option<Vec<&str>> {
    // Most objects are others, which need not be split.
    if !text.contains("\"requests\"") {
        return None;
    }
    let members = json::split_object(text).ok()?;
    let [(name, list)] = members.as_slice() else { return None };
    let elements = json::split_array(list).ok().filter(|_| name == "requests")?;
    let is_request = |element: &&str| {
        let fields = Node::root(element).object();
        fields.is_ok_and(|fields| fields.has("custom_id")) && detect(element).is_some()
    };
    elements.iter().any(is_request).then_some(elements)
}
