//! Messages of the Vercel AI SDK, as applications store them: UI messages, whose calls have their
//! results in the same part, model messages, and messages of version 4.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, Part, ToolAnswer};

use crate::document::{Conversation, Document, Steps};
use crate::object::Object;
use crate::values::{self, Metadata, Raw, canonical, given, lenient, recorded, shown};

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
    /// The thoughts of version 4.
    reasoning: Option<String>,
    /// The files of version 4.
    #[serde(rename = "experimental_attachments", borrow)]
    attachments: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartFields<'a> {
    #[serde(rename = "type")]
    part_type: Option<String>,
    text: Option<String>,
    /// The text of a thought of version 4.
    reasoning: Option<String>,
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
    content_type: Option<String>,
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
        let media_type = media_type.or_else(|| self.content_type.clone());
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
    let recording = &mut conversation.recording;
    let mut steps = Steps::default();
    let text = values::text(given(message.content));
    let listed = || lenient::<Vec<&RawValue>>(given(message.content).filter(|_| text.is_none()));
    let (member, parts) = match message.parts.clone().filter(|parts| !parts.is_empty()) {
        Some(parts) => ("parts", Some(parts)),
        None => ("content", listed().or_else(|| message.parts.clone())),
    };
    let invocations = message.tool_invocations.as_deref().unwrap_or_default();
    let attachments = message.attachments.as_deref().unwrap_or_default();
    let thoughts = message.reasoning.clone().filter(|text| !text.is_empty());
    let has_more = !invocations.is_empty() || !attachments.is_empty() || thoughts.is_some();
    if parts.is_none() && text.is_none() && !has_more {
        return None;
    }
    let parts = parts.unwrap_or_default();
    if member == "parts" && text.is_none() && given(message.content).is_some() {
        recording.unreadable(line, "content: a list next to the parts, which are read");
    }
    let has_kind = |kind: &str| {
        let mut parts = parts.iter().filter_map(|raw| Object::of(Some(raw)));
        parts.any(|part| {
            let text = part.filled("text").or_else(|| part.filled("reasoning"));
            part.text("type").as_deref() == Some(kind) && text.is_some()
        })
    };
    if let Some(text) = thoughts.filter(|_| !has_kind("reasoning")) {
        steps.parts.push(Part::Reasoning { text, signature: None, encrypted: None });
    }
    let text = text.filter(|text| !text.is_empty() && !has_kind("text"));
    steps.parts.extend(text.map(Part::text));
    let mut calls = HashSet::new();
    let mut unread = Vec::new();
    for (n, raw) in parts.iter().enumerate() {
        let place = format!("{member}[{n}]");
        let before = steps.parts.len();
        if let Some(text) = values::text(Some(raw)) {
            steps.parts.push(Part::text(text));
        } else if let Some(part) = lenient::<PartFields<'_>>(Some(raw)) {
            let inner: Option<PartFields<'_>> = lenient(part.tool_invocation);
            calls.extend(part.tool_call_id.clone());
            calls.extend(inner.and_then(|call| call.tool_call_id));
            // Only answers of the model have steps.
            let is_step = part.part_type.as_deref() == Some("step-start");
            if is_step && role != "assistant" {
                recording.skip("step-start");
            } else if let Some(skipped) = steps.part(&place, raw, &part, &mut unread) {
                recording.skip(skipped);
            }
        } else {
            steps.keep(raw, &mut unread, format!("{place}: a part in no known shape"));
        }
        steps.settle(role, before, &mut unread);
    }
    for raw in invocations {
        let call: PartFields<'_> = lenient(Some(raw)).unwrap_or_default();
        if call.tool_call_id.as_ref().is_none_or(|id| !calls.contains(id)) {
            let before = steps.parts.len();
            steps.invocation(&call);
            steps.settle(role, before, &mut unread);
        }
    }
    for (n, raw) in attachments.iter().enumerate() {
        let file: PartFields<'_> = lenient(Some(raw)).unwrap_or_default();
        match file.picture() {
            Some(picture) => steps.parts.push(picture),
            None => {
                let what = format!("experimental_attachments[{n}]: a file that is not a picture");
                steps.keep(raw, &mut unread, what);
            }
        }
    }
    unread.into_iter().for_each(|what| recording.unreadable(line, what));
    match role {
        "assistant" => steps.cut(),
        "system" | "user" | "tool" => {
            // A message of the user without parts is reported as one without content.
            if role == "tool" || !steps.parts.is_empty() || steps.done.is_empty() {
                steps.end_message(role);
            }
        }
        _ => return None,
    }
    Some(steps.done)
}

impl Steps {
    /// Keeps a part as its JSON.
    fn keep(&mut self, raw: &RawValue, unread: &mut Vec<String>, what: String) {
        unread.push(format!("{what}, kept as its JSON"));
        self.parts.push(Part::text(canonical(raw)));
    }

    /// Ends the message before a result, unless the model wrote it: its steps end by themselves. The
    /// parts from `first` on are new.
    fn settle(&mut self, role: &str, first: usize, unread: &mut Vec<String>) {
        if role == "assistant" {
            return;
        }
        for part in self.parts.iter_mut().skip(first) {
            if let Part::ToolCall(call) = part {
                unread.push(format!("a call of {:?} in a message of the {role}", call.name));
                let text = format!("{} {}", call.name, call.arguments);
                *part = Part::text(text.trim());
            }
        }
        if !self.results.is_empty() {
            if !self.parts.is_empty() {
                self.end_message(role);
            }
            self.done.append(&mut self.results);
        }
    }

    /// Ends a message that is not the model's.
    fn end_message(&mut self, role: &str) {
        let parts = std::mem::take(&mut self.parts);
        if role == "tool" && parts.is_empty() {
            return;
        }
        let body = Body { parts, name: None };
        let mut draft = Draft::new(match role {
            "system" => Content::System(body),
            _ => Content::User(body),
        });
        if role == "tool" {
            let mut metadata = Metadata::default();
            metadata.set("injected", "tool");
            draft.metadata = metadata.json();
        }
        self.done.push(draft);
    }

    /// Reads a part. Returns the name to count it under if no model saw it.
    fn part(
        &mut self,
        place: &str,
        raw: &RawValue,
        part: &PartFields<'_>,
        unread: &mut Vec<String>,
    ) -> Option<String> {
        let kind = part.part_type.as_deref().unwrap_or("untyped");
        match kind {
            "step-start" => self.cut(),
            "text" => {
                let text = part.text.clone().filter(|text| !text.is_empty());
                self.parts.extend(text.map(Part::text));
            }
            "reasoning" => self.parts.push(Part::Reasoning {
                text: part.text.clone().or_else(|| part.reasoning.clone()).unwrap_or_default(),
                signature: part.signature(),
                encrypted: None,
            }),
            "file" | "image" => match part.picture() {
                Some(picture) => self.parts.push(picture),
                None => self.keep(raw, unread, format!("{place}: a {kind} that is not a picture")),
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
            // The SDK sends neither sources nor an application's data to a model.
            "source" | "source-url" | "source-document" => return Some(kind.to_owned()),
            kind if kind.starts_with("data-") => return Some(kind.to_owned()),
            kind => match kind.strip_prefix("tool-") {
                Some(name) => return self.tool(part, name),
                None => {
                    let what = format!("{place}: a part of the unknown type {kind:?}");
                    self.keep(raw, unread, what);
                }
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
