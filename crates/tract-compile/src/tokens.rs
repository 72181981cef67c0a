//! Token counts of messages.
//!
//! Each text of a message is counted separately, plus a few tokens for the markup that surrounds it
//! in any provider's format. The rule is the same for all kinds of messages.

use tract_core::{Content, Part, TokenCounter};

/// Tokens for the role and delimiters of a message.
const PER_MESSAGE: u64 = 3;

/// Counts the tokens of a content: parts, calls with their ids and arguments, names.
///
/// ```
/// use tract_compile::count_content;
/// use tract_core::{ApproxCounter, Content};
/// assert_eq!(count_content(&Content::user("12345678"), &ApproxCounter), 3 + 2);
/// ```
pub fn count_content(content: &Content, counter: &dyn TokenCounter) -> u64 {
    let named = |name: &Option<String>| name.as_deref().map_or(0, |name| counter.count(name) + 1);
    let inside = match content {
        Content::System(body)
        | Content::User(body)
        | Content::Assistant(body)
        | Content::Reasoning(body)
        | Content::Custom { body, .. } => named(&body.name),
        Content::ToolResult(answer) => counter.count(&answer.call_id) + named(&answer.name),
        Content::Artifact(artifact) => {
            counter.count(&artifact.artifact_type)
                + artifact.language.as_deref().map_or(0, |language| counter.count(language))
                + counter.count(&artifact.text)
        }
        Content::Note(json) => counter.count(json.as_str()),
    };
    let parts = content.parts().iter().map(|part| match part {
        Part::Text { text } => counter.count(text),
        Part::ToolCall(call) => {
            counter.count(&call.id) + counter.count(&call.name) + counter.count(&call.arguments)
        }
        Part::Reasoning { text, .. } => counter.count(text),
        Part::Opaque { json, .. } => counter.count(json),
        // The cost of an image depends on its size in pixels and on the model, which are unknown
        // here.
        Part::Image { .. } => 0,
    });
    PER_MESSAGE + inside + parts.sum::<u64>()
}
