//! Answers that a line contains next to its request in another way than under one member.

use tract_core::json;

use crate::batch::{ANSWERS, OF_BEDROCK};
use crate::raw::{Fields, Node, Object, array};

/// The member under which the answer is written.
const PLACE: &str = ANSWERS[0];

/// A member with several whole answers.
const RESPONSES: &str = "responses";

/// The lists of an answer that may be members of the line, and the members of the line that are then
/// the answer's.
const FLAT: [(&str, &[&str]); 2] = [
    ("choices", &["usage", "object", "created", "system_fingerprint"]),
    ("candidates", &["usageMetadata", "modelVersion", "responseId", "promptFeedback"]),
];

/// Returns a line with its answer under `response`, if it is in the members of the line itself, is the
/// first one of several, or is a list of messages; `None` for other lines.
///
/// - `{"messages","choices","usage"}`: the answer's members are those of the line.
/// - `{"messages","responses":[…]}`: the first answer; the others stay where they are.
/// - `{"messages","output":[{"role":"assistant",…}]}`: messages of the model are choices.
pub(super) fn with_answer_in_place(line: &str) -> Option<String> {
    // Most lines need not be split.
    let has_member = |key: &str| line.contains(&format!("{key:?}"));
    let is_candidate = FLAT.iter().any(|(list, _)| has_member(list))
        || ANSWERS.iter().any(|key| *key != OF_BEDROCK && has_member(key));
    if !is_candidate || !line.trim_start().starts_with('{') {
        return None;
    }
    let fields = Node::root(line).object().ok()?;
    let has_list =
        |key: &str| fields.get(key).is_some_and(|list| list.is_array() || list.is_string());
    let has_request = ["messages", "contents", "input"].into_iter().any(has_list)
        || fields.get("request").is_some_and(|request| request.is_object());
    if !has_request {
        return None;
    }
    if let Some(line) = ANSWERS.into_iter().find_map(|key| messages_in_place(&fields, key)) {
        return Some(line);
    }
    if ANSWERS.iter().any(|key| *key != RESPONSES && fields.some(key).is_some()) {
        return None;
    }
    first_in_place(&fields).or_else(|| flat_in_place(&fields))
}

/// Writes a line with another value under one of its members, or without the member, and its answer.
fn with(fields: &Fields<'_>, member: &str, value: Option<&str>, answer: &str) -> String {
    let mut out = Object::new();
    for (key, raw) in &fields.members {
        let kept = if key == member { value } else { Some(*raw).filter(|_| key != PLACE) };
        if let Some(kept) = kept {
            out.raw(key, kept);
        }
    }
    out.raw(PLACE, answer).end()
}

/// Moves the first of several whole answers.
fn first_in_place(fields: &Fields<'_>) -> Option<String> {
    let all = fields.get(RESPONSES)?.array().ok()?;
    let (first, others) = all.split_first()?;
    if !all.iter().all(is_whole_answer) {
        return None;
    }
    let others = array(others.iter().map(|answer| answer.raw));
    let others = (all.len() > 1).then_some(others.as_str());
    Some(with(fields, RESPONSES, others, first.raw))
}

/// Returns whether a value is an answer, and not a piece of a stream.
fn is_whole_answer(node: &Node<'_>) -> bool {
    let Ok(fields) = node.object() else { return false };
    let first = |key: &str| fields.get(key)?.array().ok()?.into_iter().next()?.object().ok();
    first("choices").is_some_and(|choice| choice.has("message"))
        || first("candidates").is_some_and(|candidate| candidate.has("finishReason"))
        || fields.has("content") && fields.has("role")
        || fields.get("output").is_some_and(|output| output.is_array())
}

/// Moves the members of an answer that are members of the line.
fn flat_in_place(fields: &Fields<'_>) -> Option<String> {
    let is_answer = |list: &str| {
        let all = fields.get(list).and_then(|list| list.array().ok()).unwrap_or_default();
        let is_choice = |choice: &Node<'_>| {
            choice.object().is_ok_and(|choice| choice.has("message") || choice.has("content"))
        };
        !all.is_empty() && all.iter().all(is_choice)
    };
    let (list, others) = FLAT.into_iter().find(|(list, _)| is_answer(list))?;
    let mut answer = Object::new();
    let mut out = Object::new();
    let is_completion = fields.text("object").is_some_and(|it| it.starts_with("chat.completion"));
    for (key, raw) in &fields.members {
        let key = key.as_str();
        if key == list || others.contains(&key) {
            answer.raw(key, raw);
        } else if key != PLACE {
            out.raw(key, raw);
        }
        // It is the id of the answer, and names the conversation as well.
        if key == "id" && is_completion {
            answer.raw(key, raw);
        }
    }
    Some(out.nest(PLACE, answer.end()).end())
}

/// Moves messages of the model that are the value of a member for the answer.
fn messages_in_place(fields: &Fields<'_>, member: &str) -> Option<String> {
    let value = fields.get(member)?;
    let all = value.array().ok().filter(|all| !all.is_empty())?;
    let objects: Vec<Fields<'_>> = all.iter().filter_map(|one| one.object().ok()).collect();
    if objects.len() < all.len() {
        return None;
    }
    let role = |message: &Fields<'_>| message.text("role").unwrap_or_default();
    let is_item = |item: &Fields<'_>| {
        let kind = item.text("type").unwrap_or_default();
        let is_own = kind != "message" || role(item) == "assistant";
        is_own && (kind == "message" || kind == "reasoning" || kind.ends_with("_call"))
    };
    // Neighboring items of the Responses API are one answer.
    if objects.iter().all(is_item) {
        return Some(with(fields, member, None, &wrapped("output", value.raw)));
    }
    let is_of_gemini = |message: &Fields<'_>| role(message) == "model" && message.has("parts");
    if objects.iter().all(is_of_gemini) {
        let candidates = all.iter().map(|message| wrapped("content", message.raw));
        return Some(with(fields, member, None, &wrapped("candidates", &array(candidates))));
    }
    // A whole answer of Anthropic is a message, and has more members than one of a conversation.
    let is_message = |message: &Fields<'_>| {
        role(message) == "assistant" && !message.has("usage") && !message.has("type")
    };
    if !objects.iter().all(is_message) {
        return None;
    }
    if let ([message], [only]) = (objects.as_slice(), all.as_slice())
        && has_blocks_of_anthropic(fields, message)
    {
        return Some(with(fields, member, None, only.raw));
    }
    let choices = all.iter().enumerate().map(|(index, message)| {
        let mut choice = Object::new();
        choice.raw("index", &index.to_string());
        choice.raw("message", message.raw).end()
    });
    Some(with(fields, member, None, &wrapped("choices", &array(choices))))
}

/// Returns whether the content of a message has the blocks of Anthropic.
fn has_blocks_of_anthropic(request: &Fields<'_>, message: &Fields<'_>) -> bool {
    const BLOCKS: [&str; 3] = ["tool_use", "thinking", "redacted_thinking"];
    let blocks = message.get("content").and_then(|content| content.array().ok());
    let Some(blocks) = blocks else { return false };
    let kind = |block: &Node<'_>| block.object().ok().and_then(|block| block.text("type"));
    let is_own = |block: &Node<'_>| kind(block).is_some_and(|it| BLOCKS.contains(&it.as_str()));
    request.has("system") || request.has("max_tokens") || blocks.iter().any(is_own)
}

fn wrapped(member: &str, raw: &str) -> String {
    Object::new().raw(member, raw).end()
}

/// Returns an answer whose choices are in the order of their indexes; `None` if they are already. The
/// choice with the lowest one is the message.
pub(super) fn with_ordered_choices(answer: &str) -> Option<String> {
    let members = json::split_object(answer).ok()?;
    let (_, list) = members.iter().find(|(key, _)| key == "choices" || key == "candidates")?;
    let mut choices = json::split_array(list).ok()?;
    let index = |choice: &&str| {
        let fields = Node::root(choice).object().ok();
        fields.and_then(|fields| fields.raw("index")?.parse::<u64>().ok())
    };
    // A choice without an index stays where it is, so the order is only changed if all have one.
    let has_indexes = choices.iter().all(|choice| index(choice).is_some());
    if !has_indexes || choices.is_sorted_by_key(index) {
        return None;
    }
    choices.sort_by_key(index);
    let list = array(choices.iter().copied());
    let mut out = Object::new();
    for (key, raw) in &members {
        let is_list = key == "choices" || key == "candidates";
        out.raw(key, if is_list { &list } else { raw });
    }
    Some(out.end())
}
