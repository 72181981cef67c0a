//! Messages of the Vercel AI SDK, as applications store them: UI messages, whose calls have their
//! results in the same part, model messages, and messages of version 4.

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, Part, ToolAnswer};

use crate::document::{Conversation, Document, Steps};
use crate::object::Object;
use crate::values::{self, Raw, canonical, given, lenient, recorded, shown};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored<'a> {
    id: Option<String>,
    chat_id: Option<String>,
    title: Option<String>,
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    id: Option<String>,
    role: Option<String>,
    created_at: Option<String>,
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    tool_invocations: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartFields<'a> {
    #[serde(rename = "type")]
    part_type: Option<String>,
    text: Option<String>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    state: Option<String>,
    #[serde(borrow)]
    input: Raw<'a>,
    #[serde(borrow)]
    raw_input: Raw<'a>,
    #[serde(borrow)]
    args: Raw<'a>,
    #[serde(borrow)]
    output: Raw<'a>,
    #[serde(borrow)]
    result: Raw<'a>,
    error_text: Option<String>,
    is_error: Option<bool>,
    preliminary: Option<bool>,
    media_type: Option<String>,
    mime_type: Option<String>,
    url: Option<String>,
    #[serde(borrow)]
    image: Raw<'a>,
    #[serde(borrow)]
    data: Raw<'a>,
    #[serde(borrow)]
    provider_metadata: Raw<'a>,
    #[serde(borrow)]
    provider_options: Raw<'a>,
    #[serde(borrow)]
    tool_invocation: Raw<'a>,
}

impl PartFields<'_> {
    fn signature(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Options {
            #[serde(default, deserialize_with = "values::member")]
            anthropic: Option<Signed>,
        }
        #[derive(Deserialize)]
        struct Signed {
            signature: Option<String>,
        }
        let options: Options = lenient(given(self.provider_metadata.or(self.provider_options)))?;
        options.anthropic?.signature
    }

    fn call_id(&self) -> String {
        self.tool_call_id.clone().unwrap_or_default()
    }

    fn call(&self, name: &str) -> Part {
        let input = given(self.input).or(given(self.args));
        let input = input.or(given(self.raw_input));
        Part::call(self.call_id(), name, input.map_or_else(|| "{}".to_owned(), canonical))
    }

    fn answer(&self, name: &str, parts: Vec<Part>, is_error: bool) -> Draft {
        let (call_id, name) = (self.call_id(), Some(name.to_owned()));
        Draft::new(Content::ToolResult(ToolAnswer { call_id, name, is_error, parts }))
    }

    fn picture(&self) -> Option<Part> {
        let media_type = self.media_type.clone().or_else(|| self.mime_type.clone());
        let is_picture = self.part_type.as_deref() == Some("image")
            || media_type.as_deref().is_some_and(|kind| kind.starts_with("image/"));
        let text = self.url.clone().or_else(|| values::text(self.image.or(self.data)));
        text.filter(|_| is_picture).map(|text| values::image(text, media_type))
    }
}

/// Returns whether an element of a list is a message of the SDK: its parts have types, or its content
/// has a call or a result in the SDK's own form.
pub(crate) fn is_one(raw: &RawValue) -> bool {
    let Some(message) = Object::of(Some(raw)) else { return false };
    let role = message.text("role").unwrap_or_default();
    let part_type = |raw: &&RawValue| Object::of(Some(raw))?.text("type");
    let has_parts =
        message.has("parts") && message.list("parts").iter().all(|part| part_type(part).is_some());
    let is_own = |part: &&RawValue| {
        part_type(part).is_some_and(|kind| kind == "tool-call" || kind == "tool-result")
    };
    ["system", "user", "assistant", "tool"].contains(&role.as_str())
        && (message.has("toolInvocations")
            || has_parts
            || message.list("content").iter().any(is_own))
}

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let mut conversation = Conversation::default();
    let messages = match serde_json::from_slice::<Vec<&RawValue>>(bytes) {
        Ok(messages) => messages,
        Err(_) => {
            let stored: Stored<'_> = values::read_record(bytes)?;
            conversation.facts.session = stored.chat_id.or(stored.id);
            conversation.facts.title = stored.title;
            values::required(stored.messages, "messages")?
        }
    };
    conversation.recording.report.lines = messages.len();
    for (n, raw) in messages.into_iter().enumerate() {
        let number = n + 1;
        let drafts = lenient::<Message<'_>>(Some(raw)).map(|message| {
            let at = values::time(message.created_at.as_deref());
            (drafts(&message, number, &mut conversation), message.id, at)
        });
        let Some((Some(drafts), id, at)) = drafts else {
            conversation.recording.unreadable(number, "a message in no known shape");
            continue;
        };
        for (place, draft) in drafts.into_iter().enumerate() {
            if matches!(draft.content, Content::Assistant(_)) {
                conversation.recording.answer(None, None);
                conversation.recording.end_answer(&conversation.cursor);
            }
            let own = id.as_ref().map(|id| format!("{id}#{place}"));
            conversation.say(own.as_deref(), number, recorded(draft, id.as_deref(), at));
        }
    }
    Ok(conversation.into())
}

fn drafts(
    message: &Message<'_>,
    line: usize,
    conversation: &mut Conversation,
) -> Option<Vec<Draft>> {
    let role = message.role.as_deref()?;
    let mut steps = Steps::default();
    let text = values::text(given(message.content));
    let listed = || lenient::<Vec<&RawValue>>(given(message.content).filter(|_| text.is_none()));
    let parts = message.parts.clone().or_else(listed);
    if parts.is_none() && text.is_none() {
        return None;
    }
    for raw in parts.iter().flatten() {
        let Some(part) = lenient::<PartFields<'_>>(Some(raw)) else {
            conversation.recording.unreadable(line, "a part in no known shape");
            continue;
        };
        let mut unread = Vec::new();
        if let Some(skipped) = steps.part(&part, &mut unread) {
            conversation.recording.skip(skipped);
        }
        unread.into_iter().for_each(|what| conversation.recording.unreadable(line, what));
    }
    if parts.is_none() {
        steps.parts.extend(text.filter(|text| !text.is_empty()).map(Part::text));
        for raw in message.tool_invocations.iter().flatten() {
            let call: PartFields<'_> = lenient(Some(raw)).unwrap_or_default();
            steps.invocation(&call);
        }
    }
    let whole = |content: fn(tract_core::Body) -> Content, parts: Vec<Part>| {
        vec![Draft::new(content(tract_core::Body { parts, name: None }))]
    };
    Some(match role {
        "system" => whole(Content::System, steps.parts),
        "user" => whole(Content::User, steps.parts),
        "tool" => steps.results,
        "assistant" => {
            steps.cut();
            steps.done
        }
        _ => return None,
    })
}

impl Steps {
    /// Reads a part. Returns the name to count it under if no model saw it.
    fn part(&mut self, part: &PartFields<'_>, unread: &mut Vec<String>) -> Option<String> {
        let kind = part.part_type.as_deref().unwrap_or("untyped");
        match kind {
            "step-start" => self.cut(),
            "text" => {
                let text = part.text.clone().filter(|text| !text.is_empty());
                self.parts.extend(text.map(Part::text));
            }
            "reasoning" => self.parts.push(Part::Reasoning {
                text: part.text.clone().unwrap_or_default(),
                signature: part.signature(),
                encrypted: None,
            }),
            "file" | "image" => match part.picture() {
                Some(picture) => self.parts.push(picture),
                None => return Some(kind.to_owned()),
            },
            "tool-call" => {
                let name = part.tool_name.clone().unwrap_or_default();
                self.parts.push(part.call(&name));
            }
            "tool-result" => {
                let name = part.tool_name.clone().unwrap_or_default();
                let (parts, is_error) = output(given(part.output).or(given(part.result)), unread);
                let is_error = is_error || part.is_error.unwrap_or_default();
                self.results.push(part.answer(&name, parts, is_error));
            }
            "tool-invocation" => {
                let call: PartFields<'_> = lenient(part.tool_invocation).unwrap_or_default();
                self.invocation(&call);
            }
            // Approval requests and responses: the call and its result are separate parts. A tool
            // part with this name has a state.
            "tool-approval-request" | "tool-approval-response" if part.state.is_none() => {
                return Some(kind.to_owned());
            }
            "dynamic-tool" => {
                let name = part.tool_name.clone().unwrap_or_default();
                return self.tool(part, &name);
            }
            kind => match kind.strip_prefix("tool-") {
                Some(name) => return self.tool(part, name),
                None => return Some(kind.to_owned()),
            },
        }
        None
    }

    /// Reads a call and its result from one part.
    fn tool(&mut self, part: &PartFields<'_>, name: &str) -> Option<String> {
        let state = part.state.as_deref().unwrap_or("input-available");
        if state == "input-streaming" {
            return Some("tool:input-streaming".to_owned());
        }
        self.parts.push(part.call(name));
        let result = match state {
            "output-available" if part.preliminary.unwrap_or_default() => None,
            "output-available" => given(part.output).map(|output| (shown(output), false)),
            "output-error" => Some((part.error_text.clone().unwrap_or_default(), true)),
            "output-denied" => Some(("The user denied the call.".to_owned(), true)),
            _ => None,
        };
        let answer = |(text, is_error)| part.answer(name, vec![Part::text(text)], is_error);
        self.results.extend(result.map(answer));
        None
    }

    /// Reads a call of version 4.
    fn invocation(&mut self, call: &PartFields<'_>) {
        let name = call.tool_name.clone().unwrap_or_default();
        self.parts.push(call.call(&name));
        if let (Some("result"), Some(result)) = (call.state.as_deref(), given(call.result)) {
            let parts = vec![Part::text(shown(result))];
            self.results.push(call.answer(&name, parts, false));
        }
    }
}

/// Returns the parts of a result that the model sees, and whether it is an error.
fn output(raw: Raw<'_>, unread: &mut Vec<String>) -> (Vec<Part>, bool) {
    #[derive(Deserialize)]
    struct Output<'a> {
        #[serde(rename = "type")]
        output_type: String,
        #[serde(borrow)]
        value: Raw<'a>,
        reason: Option<String>,
    }
    let text = |text: String| vec![Part::text(text)];
    let Some(raw) = raw else { return (text(String::new()), false) };
    let Some(output) = lenient::<Output<'_>>(Some(raw)) else { return (text(shown(raw)), false) };
    let is_error = matches!(output.output_type.as_str(), "error-text" | "error-json");
    match (output.output_type.as_str(), output.value) {
        ("execution-denied", _) => {
            let reason = output.reason.unwrap_or_else(|| "The user denied the call.".to_owned());
            (text(reason), true)
        }
        ("text" | "json" | "error-text" | "error-json", Some(value)) => {
            (text(shown(value)), is_error)
        }
        ("content", Some(value)) => (values::message_parts(Some(value), unread), false),
        _ => (text(shown(raw)), false),
    }
}
