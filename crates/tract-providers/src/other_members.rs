//! The members of an answer that its [`Reply`](tract_core::Reply) does not have: the fingerprint of the
//! system, service tier, times, log probabilities, ratings, and members of later versions.

use tract_core::{JsonText, Usage};
use tract_schema::Dialect;

use crate::profile::AnswerShape;
use crate::profile_of;
use crate::raw::{Fields, Node, Object, array, same};

/// Members with the reason why a model stopped.
const REASONS: [&str; 6] =
    ["stop_reason", "finish_reason", "finishReason", "done_reason", "status", "reason"];

/// Reasons that a [`StopReason`](tract_core::StopReason) replaces. Several others become one
/// `StopReason`, so they are kept.
const PLAIN_REASONS: [&str; 16] = [
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "refusal",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "completed",
    "incomplete",
    "max_output_tokens",
    "load",
];

/// Returns the members of a complete answer that its reply does not have, as recorded: an object, or
/// `None` if there are none. Null members count as absent. `request` is the body of the request;
/// members that only repeat it are left out if the provider's answers always repeat them.
///
/// ```
/// use tract_providers::{Dialect, other_members};
/// let answer = r#"{"id":"a","system_fingerprint":"fp_1","choices":[
///     {"index":0,"message":{"role":"assistant","content":"Yes"},"finish_reason":"stop","logprobs":null}]}"#;
/// let others = other_members(Dialect::OpenAi, answer, "{}").expect("there is one");
/// assert_eq!(others.as_str(), r#"{"system_fingerprint":"fp_1"}"#);
/// ```
pub fn other_members(dialect: Dialect, answer: &str, request: &str) -> Option<JsonText> {
    let request = Node::root(request);
    let text = others_of(dialect, &Node::root(answer), &request, &counts_of(dialect, answer))?;
    JsonText::new(&text).ok()
}

/// Reads the token counts of an answer.
fn counts_of(dialect: Dialect, answer: &str) -> Usage {
    crate::reply::read(dialect, answer, None, None)
        .ok()
        .and_then(|reply| reply.usage)
        .unwrap_or_default()
}

/// Returns what [`other_members`] does, for an answer with these token counts.
pub(crate) fn others_of(
    dialect: Dialect,
    answer: &Node<'_>,
    request: &Node<'_>,
    counts: &Usage,
) -> Option<String> {
    let shape = &profile_of(dialect).answer;
    let mut fields = answer.object().ok()?;
    if shape.repeats_request
        && let Ok(request) = request.object()
    {
        // The provider completes the definitions of tools, so they are never equal.
        let is_repeated = |key: &str, raw: &str| {
            request.raw(key).is_some_and(|sent| key == "tools" || same(sent, raw))
        };
        fields.members.retain(|(key, raw)| !is_repeated(key, raw));
    }
    others_at(&fields, "", shape, counts)
}

/// Returns the other members of an object at a path, which is empty or ends with a dot.
fn others_at(
    fields: &Fields<'_>,
    path: &str,
    shape: &AnswerShape,
    counts: &Usage,
) -> Option<String> {
    let mut out = Object::new();
    let mut is_empty = true;
    for (key, node) in fields.nodes().filter(|(_, node)| !node.is_null()) {
        let at = format!("{path}{key}");
        let leads_to = |end: &str| {
            let start = format!("{at}{end}");
            shape.read.iter().any(|read| read.starts_with(&start))
        };
        let list_element = || node.array().ok()?.into_iter().next()?.object().ok();
        let value = if shape.read.contains(&at.as_str()) {
            is_other_value(key, &node, counts).then(|| node.raw.to_owned())
        } else if let (true, Ok(inner)) = (leads_to("."), node.object()) {
            others_at(&inner, &format!("{at}."), shape, counts)
        } else if let (true, Some(first)) = (leads_to("[0]."), list_element()) {
            others_at(&first, &format!("{at}[0]."), shape, counts).map(|first| array([first]))
        } else {
            Some(node.raw.to_owned())
        };
        if let Some(value) = value {
            out.nest(key, value);
            is_empty = false;
        }
    }
    (!is_empty).then(|| out.end())
}

/// Returns whether a member that is read has a value that the reply does not contain: a reason that
/// is one of several with the same meaning, or a total that is not the sum of the counts.
fn is_other_value(key: &str, node: &Node<'_>, counts: &Usage) -> bool {
    if REASONS.contains(&key) {
        return node.string().is_ok_and(|reason| !PLAIN_REASONS.contains(&reason.as_str()));
    }
    if matches!(key, "total_tokens" | "totalTokenCount") {
        let sum =
            counts.input_tokens.unwrap_or(0).saturating_add(counts.output_tokens.unwrap_or(0));
        return node.raw.parse::<u64>().is_ok_and(|total| total != sum);
    }
    false
}
