//! Conversations of OpenHands: the list of events of version 0, and the events of the SDK, one per
//! line or per file.

mod events;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use tract_core::{Body, Content, Draft, Part, Reply, ToolAnswer};
use tract_providers::{Dialect, read_reply};

pub(crate) use self::events::{event_files, event_folder_of};
use crate::document::{Conversation, Document};
use crate::facts::{Facts, RunTotals};
use crate::line_reader::LineReader;
use crate::misfits;
use crate::object::Object;
use crate::recording::{Cursor, RecordedMessage, Recording};
use crate::report::{AnomalyKind, TokenTotals};
use crate::swe_agent::ThinkingBlock;
use crate::values::{self, Metadata, Raw, given, has_members, lenient, model_config, recorded};

#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    id: Raw<'a>,
    timestamp: Option<String>,
    source: Option<String>,
    cause: Option<i64>,
    action: Option<String>,
    observation: Option<String>,
    #[serde(borrow)]
    args: Raw<'a>,
    #[serde(borrow)]
    extras: Raw<'a>,
    #[serde(borrow)]
    status_update: Raw<'a>,
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(default, borrow, deserialize_with = "values::member")]
    tool_call_metadata: Option<CallMetadata<'a>>,
}

#[derive(Debug, Deserialize)]
struct CallMetadata<'a> {
    tool_call_id: Option<String>,
    function_name: Option<String>,
    #[serde(borrow)]
    model_response: Raw<'a>,
}

/// The actions and observations of version 0 that no model saw.
const UNSEEN: [&str; 10] = [
    "agent_state_changed",
    "change_agent_state",
    "condensation_request",
    "loop_recovery",
    "null",
    "pause",
    "recall",
    "resume",
    "start",
    "stop",
];

/// Returns whether a line is an event of the SDK.
pub(crate) fn is_event(members: &Object<'_>) -> bool {
    let kind = members.text("kind").unwrap_or_default();
    let is_kind = kind.ends_with("Event") || kind == "Condensation";
    let has_all = ["id", "source", "timestamp"].iter().all(|name| members.text(name).is_some());
    is_kind && has_all && !members.has("messages")
}

/// Returns whether an element of a list is an event of version 0.
pub(crate) fn is_entry(raw: &RawValue) -> bool {
    Object::of(Some(raw)).is_some_and(|event| {
        let is_step = event.text("action").or_else(|| event.text("observation")).is_some();
        event.text("source").is_some() && is_step
    })
}

/// Reads the events of version 0.
pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let events: Vec<&RawValue> = serde_json::from_slice(bytes)?;
    let mut conversation = Conversation::default();
    conversation.recording.report.lines = events.len();
    let mut answers: HashSet<String> = HashSet::new();
    let mut calls: HashMap<i64, ActionCall> = HashMap::new();
    for (n, raw) in events.into_iter().enumerate() {
        let number = n + 1;
        match lenient::<Event<'_>>(Some(raw)) {
            Some(event) => say(&mut conversation, number, &event, &mut answers, &mut calls),
            None => {
                conversation.recording.unreadable(number, "an event in no known shape");
            }
        }
    }
    Ok(conversation.into())
}

fn say(
    conversation: &mut Conversation,
    number: usize,
    event: &Event<'_>,
    answers: &mut HashSet<String>,
    calls: &mut HashMap<i64, ActionCall>,
) {
    let at = values::time(event.timestamp.as_deref());
    let id: Option<i64> = lenient(event.id);
    let name = id.map(|id| id.to_string());
    let call = event.tool_call_metadata.as_ref();
    let args = Object::of(given(event.args)).unwrap_or_default();
    let content = || args.raw("content");
    let is_user = event.source.as_deref() == Some("user");
    let draft = match (event.action.as_deref(), event.observation.as_deref()) {
        (Some("system"), _) => {
            let parts = conversation.recording.message_content(number, content());
            let mut draft = Draft::new(Content::System(body(parts)));
            let tools: Option<Vec<&RawValue>> = lenient(args.raw("tools"));
            draft.tools = tools.map(|tools| values::tools(&tools));
            draft
        }
        (Some("message"), _) if is_user => {
            let mut parts = conversation.recording.message_content(number, content());
            parts.extend(images(&args));
            report_args(conversation, number, &args, &["file_urls"]);
            Draft::new(Content::User(body(parts)))
        }
        (Some(_), _) if call.is_some_and(|call| given(call.model_response).is_some()) => {
            if let (Some(id), Some(call_id)) = (id, call.and_then(|c| c.tool_call_id.clone())) {
                calls.insert(id, ActionCall { id: call_id, name: None });
            }
            #[derive(Deserialize)]
            struct Named {
                id: Option<String>,
            }
            let completion = call.and_then(|call| call.model_response);
            // Each action of an answer repeats the whole answer.
            let own = lenient::<Named>(completion).and_then(|named| named.id);
            let own = own.unwrap_or_else(|| format!("event {number}"));
            if answers.contains(&own) {
                conversation.recording.report.repeated += 1;
                return;
            }
            let Some(completion) = completion else { return };
            let reply = match read_reply(Dialect::OpenAi, completion.get()) {
                Ok(reply) => reply,
                Err(error) => {
                    let what = format!("an action whose answer of the model is not read: {error}");
                    return conversation.recording.unreadable(number, what);
                }
            };
            answers.insert(own);
            watch_usage(completion);
            answer(conversation, reply)
        }
        (Some("message"), _) => {
            conversation.recording.answer(None, None);
            conversation.recording.end_answer(&conversation.cursor);
            let mut parts = conversation.recording.content(number, content());
            parts.extend(images(&args));
            assistant(parts)
        }
        (None, Some(kind)) => {
            let name = call.and_then(|call| call.function_name.clone());
            let called = call.and_then(|call| call.tool_call_id.clone());
            let called = called.map(|id| ActionCall { id, name: name.clone() });
            let called = called.or_else(|| {
                let called = calls.get(&event.cause?)?;
                let name = name.or_else(|| called.name.clone());
                Some(ActionCall { id: called.id.clone(), name })
            });
            match called {
                Some(ActionCall { id: call_id, name }) => {
                    Draft::new(Content::ToolResult(ToolAnswer {
                        call_id,
                        name,
                        is_error: kind == "error",
                        parts: conversation.recording.message_content(number, event.content),
                    }))
                }
                None if is_hidden(given(event.extras)) => {
                    return conversation.recording.skip(format!("observation:{kind}"));
                }
                None if UNSEEN.contains(&kind) => {
                    if values::text(event.content).is_some_and(|text| !text.is_empty()) {
                        let what = format!("an observation of the kind {kind:?} with a text");
                        conversation.recording.unreadable(number, what);
                    }
                    return conversation.recording.skip(format!("observation:{kind}"));
                }
                None => {
                    let what = format!(
                        "an observation of the kind {kind:?} without its action, kept as a user's message"
                    );
                    conversation.recording.unreadable(number, what);
                    let parts = conversation.recording.message_content(number, event.content);
                    let mut draft = Draft::new(Content::User(body(parts)));
                    let mut metadata = Metadata::default();
                    metadata.set("injected", "observation");
                    draft.metadata = metadata.json();
                    draft
                }
            }
        }
        (Some(kind), _) if UNSEEN.contains(&kind) || is_hidden(given(event.args)) => {
            return conversation.recording.skip(format!("action:{kind}"));
        }
        (Some(kind), _) if event.source.as_deref() == Some("agent") && kind != "condensation" => {
            conversation.recording.answer(None, None);
            conversation.recording.end_answer(&conversation.cursor);
            let known = call.and_then(|call| call.tool_call_id.clone());
            if kind == "finish" && known.is_none() {
                finish(conversation, number, &args)
            } else {
                let at = name.clone().unwrap_or_else(|| format!("line-{number}"));
                let call_id = known.unwrap_or_else(|| format!("event-{at}"));
                let function = call.and_then(|call| call.function_name.clone());
                let function = function.unwrap_or_else(|| kind.to_owned());
                let called = ActionCall { id: call_id.clone(), name: Some(function.clone()) };
                calls.extend(id.map(|id| (id, called)));
                action(&args, event.args, call_id, function)
            }
        }
        (Some(kind), _) => {
            let source = event.source.as_deref().unwrap_or_default();
            let what = format!("an action of the kind {kind:?} of the source {source:?}");
            return conversation.recording.unreadable(number, what);
        }
        (None, None) if given(event.status_update).is_some() => {
            return conversation.recording.skip("status_update");
        }
        (None, None) => {
            let what = "an event that is neither an action nor an observation";
            return conversation.recording.unreadable(number, what);
        }
    };
    conversation.say(name.as_deref(), number, recorded(draft, name.as_deref(), at));
}

/// The call that an action is.
struct ActionCall {
    id: String,
    /// The name of its function, if its result has none.
    name: Option<String>,
}

/// Returns whether an event is hidden from the model, by its members.
fn is_hidden(members: Raw<'_>) -> bool {
    Object::of(members).is_some_and(|members| members.is_true("hidden"))
}

/// Returns the images of an action.
fn images(args: &Object<'_>) -> Vec<Part> {
    let urls = args.list("image_urls").into_iter();
    urls.filter_map(|url| Some(values::image(values::text(Some(url))?, None))).collect()
}

/// Reports members of an action that have a value and are not read.
fn report_args(conversation: &mut Conversation, number: usize, args: &Object<'_>, names: &[&str]) {
    let is_empty = |text: &str| matches!(text, "\"\"" | "[]" | "{}");
    for name in names {
        if args.raw(name).is_some_and(|raw| !is_empty(raw.get())) {
            let what = format!("{:?} is not read: unknown member", format!("args.{name}"));
            conversation.recording.unreadable(number, what);
        }
    }
}

/// Reads the last action of an agent that has no functions: its texts.
fn finish(conversation: &mut Conversation, number: usize, args: &Object<'_>) -> Draft {
    let mut texts: Vec<String> =
        ["thought", "final_thought"].into_iter().filter_map(|name| args.filled(name)).collect();
    texts.dedup();
    report_args(conversation, number, args, &["outputs"]);
    assistant(texts.into_iter().map(Part::text).collect())
}

/// Reads an action of an agent whose answer of the model is not recorded: the thought and a call with
/// the other arguments.
fn action(args: &Object<'_>, raw: Raw<'_>, call_id: String, function: String) -> Draft {
    let thought = args.text("thought");
    let members: Option<BTreeMap<String, &RawValue>> = lenient(given(raw));
    if let (Some(_), Some(raw)) = (&members, raw) {
        // A thought of another type stays in the arguments.
        misfits::keep(raw);
    }
    let mut members = members.unwrap_or_default();
    if thought.is_some() {
        members.remove("thought");
    }
    let arguments = to_raw_value(&members).ok();
    let arguments = arguments.map_or_else(|| "{}".to_owned(), |raw| values::canonical(&raw));
    let thought = thought.filter(|text| !text.is_empty());
    let draft = assistant(thought.into_iter().map(Part::text).collect());
    let mut draft = draft.call(call_id, function, arguments);
    let mut metadata = Metadata::default();
    metadata.set("arguments", "canonical");
    draft.metadata = metadata.json();
    draft
}

/// Reports the members of an answer that its reader treats as absent if they have another type.
fn watch_usage(completion: &RawValue) {
    let answer = Object::of(Some(completion)).unwrap_or_default();
    let usage = answer.object("usage").unwrap_or_default();
    let details = usage.object("prompt_tokens_details").unwrap_or_default();
    let _ = (answer.text("model"), answer.text("id"), details.count("cached_tokens"));
    let _ = (usage.count("prompt_tokens"), usage.count("completion_tokens"));
}

fn answer(conversation: &mut Conversation, reply: Reply) -> Draft {
    let usage = reply.usage.map(TokenTotals::of_usage);
    let mut metadata = Metadata::default();
    metadata.set_some("message_id", reply.id.as_deref());
    if let Some(usage) = &usage {
        metadata.usage(usage);
    }
    let mut draft = Draft::new(reply.content);
    draft.form = reply.form;
    draft.verbatim = reply.verbatim;
    draft.metadata = metadata.json();
    draft.generation_config = model_config(reply.model.as_deref());
    conversation.recording.end_answer(&conversation.cursor);
    conversation.recording.answer(reply.model.as_deref(), usage.as_ref());
    draft
}

fn body(parts: Vec<Part>) -> Body {
    Body { parts, name: None }
}

fn assistant(parts: Vec<Part>) -> Draft {
    parts.into_iter().fold(Draft::assistant(""), Draft::part)
}

/// An event of the SDK.
#[derive(Debug, Deserialize)]
struct SdkEvent<'a> {
    kind: Option<String>,
    id: Option<String>,
    timestamp: Option<String>,
    source: Option<String>,
    parent_id: Option<String>,
    #[serde(borrow)]
    system_prompt: Raw<'a>,
    #[serde(borrow)]
    dynamic_context: Raw<'a>,
    #[serde(borrow)]
    tools: Raw<'a>,
    #[serde(borrow)]
    extended_content: Raw<'a>,
    #[serde(borrow)]
    llm_message: Raw<'a>,
    #[serde(borrow)]
    thought: Raw<'a>,
    reasoning_content: Option<String>,
    #[serde(borrow)]
    thinking_blocks: Raw<'a>,
    #[serde(borrow)]
    responses_reasoning_item: Raw<'a>,
    #[serde(borrow)]
    tool_call: Raw<'a>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    llm_response_id: Option<String>,
    #[serde(borrow)]
    observation: Raw<'a>,
    error: Option<String>,
    rejection_reason: Option<String>,
    #[serde(default, deserialize_with = "values::members")]
    forgotten_event_ids: Option<Vec<String>>,
    summary: Option<String>,
    key: Option<String>,
    #[serde(borrow)]
    value: Raw<'a>,
}

/// Reads the reasoning of an answer.
fn reasoning(text: Option<String>, blocks: Raw<'_>, item: Raw<'_>) -> Vec<Part> {
    let blocks: Option<Vec<ThinkingBlock>> = values::elements(given(blocks));
    let mut parts: Vec<Part> =
        blocks.unwrap_or_default().into_iter().map(ThinkingBlock::part).collect();
    // The same text as in the blocks, without their signatures.
    let text = text.filter(|text| parts.is_empty() && !text.is_empty());
    let Some(item) = Object::of(given(item)) else {
        let part = |text| Part::Reasoning { text, signature: None, encrypted: None };
        parts.extend(text.map(part));
        return parts;
    };
    // An item of the Responses API, whose summary is a list of texts.
    let texts = |name: &str| {
        let texts = item.list(name).into_iter();
        let texts = texts.filter_map(|raw| {
            values::text(Some(raw)).or_else(|| Object::of(Some(raw))?.text("text"))
        });
        texts.collect::<Vec<_>>().join("\n\n")
    };
    let (summary, content) = (texts("summary"), texts("content"));
    let item_text = if summary.is_empty() { content } else { summary };
    let part = |text| Part::Reasoning { text, signature: None, encrypted: None };
    parts.extend(text.filter(|text| *text != item_text).map(part));
    let encrypted = item.filled("encrypted_content");
    if !item_text.is_empty() || encrypted.is_some() {
        parts.push(Part::Reasoning { text: item_text, signature: None, encrypted });
    }
    parts
}

/// Reads the events of the SDK one by one.
#[derive(Default)]
pub(crate) struct SdkReader {
    recording: Recording,
    cursor: Cursor,
    facts: Facts,
    /// The context after each event.
    places: HashMap<String, Cursor>,
    response: Option<String>,
    model: Option<String>,
    spent: Option<TokenTotals>,
}

impl LineReader for SdkReader {
    fn recording(&mut self) -> &mut Recording {
        &mut self.recording
    }

    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let event: SdkEvent<'_> = values::read_record(bytes)?;
        if event.id.as_ref().is_some_and(|id| self.places.contains_key(id)) {
            self.recording.report.repeated += 1;
            return Ok(());
        }
        if let Some(parent) = &event.parent_id {
            match self.places.get(parent) {
                Some(place) => self.cursor = place.clone(),
                None => {
                    let what =
                        "no event before it has the id of its parent: it continues what is there";
                    self.recording.odd(number, AnomalyKind::MissingParent, what);
                }
            }
        }
        self.event(number, &event);
        if let Some(id) = &event.id {
            self.places.insert(id.clone(), self.cursor.clone());
        }
        Ok(())
    }

    fn is_record(text: &str) -> bool {
        has_members(text, &["id", "source", "timestamp"])
    }

    fn finish(&mut self) -> Facts {
        if let Some(spent) = self.spent.take() {
            self.recording.report.tokens = spent;
            let model = self.model.clone();
            let requests = self.recording.report.models.values().sum::<usize>() as u64;
            self.facts.run =
                Some(RunTotals { model, requests: Some(requests), ..RunTotals::default() });
        }
        std::mem::take(&mut self.facts)
    }
}

impl SdkReader {
    /// Names the conversation by its folder or its state, which may contain the model.
    pub(crate) fn named(session: Option<String>, model: Option<String>) -> Self {
        Self { facts: Facts { session, ..Facts::default() }, model, ..Self::default() }
    }

    fn say(&mut self, number: usize, event: &SdkEvent<'_>, draft: Draft) {
        let at = values::time(event.timestamp.as_deref());
        if at.is_none() {
            self.recording.odd(number, AnomalyKind::NoTime, "no readable time");
        }
        let draft = recorded(draft, event.id.as_deref(), at);
        let message = RecordedMessage { id: event.id.clone(), line: number, draft };
        self.recording.append(&mut self.cursor, message);
    }

    fn result(&mut self, number: usize, event: &SdkEvent<'_>, parts: Vec<Part>, is_error: bool) {
        let call_id = event.tool_call_id.clone().unwrap_or_default();
        let answer = ToolAnswer { call_id, name: event.tool_name.clone(), is_error, parts };
        self.say(number, event, Draft::new(Content::ToolResult(answer)));
    }

    fn event(&mut self, number: usize, event: &SdkEvent<'_>) {
        match event.kind.as_deref() {
            Some("SystemPromptEvent") => {
                #[derive(Deserialize)]
                struct Prompt {
                    text: Option<String>,
                }
                let text = values::text(event.system_prompt);
                let prompt = || lenient::<Prompt>(given(event.system_prompt))?.text;
                let text = text.or_else(prompt);
                let mut draft = Draft::system(text.unwrap_or_default());
                draft = self.dynamic_context(number, event).into_iter().fold(draft, Draft::part);
                let tools: Option<Vec<&RawValue>> = lenient(given(event.tools));
                draft.tools = tools.map(|tools| values::tools(&tools));
                self.say(number, event, draft);
            }
            Some("MessageEvent") => self.message(number, event),
            Some("ActionEvent") => self.action(number, event),
            Some("ObservationEvent") => {
                let observed = Object::of(event.observation).unwrap_or_default();
                let is_error = observed.is_true("is_error");
                let parts = match (observed.raw("content"), given(event.observation)) {
                    (Some(content), Some(raw)) => {
                        let parts = self.recording.content(number, Some(content));
                        // The text of older versions is in other members.
                        let is_lost = parts.is_empty()
                            && ["output", "error"]
                                .iter()
                                .any(|name| observed.filled(name).is_some());
                        if is_lost { self.kept_observation(number, raw) } else { parts }
                    }
                    (None, Some(raw)) => self.kept_observation(number, raw),
                    (_, None) => {
                        let what = "an observation event without its observation";
                        self.recording.unreadable(number, what);
                        Vec::new()
                    }
                };
                let parts = if parts.is_empty() { vec![Part::text("")] } else { parts };
                self.result(number, event, parts, is_error);
            }
            Some("AgentErrorEvent") => {
                let text = event.error.clone().unwrap_or_default();
                self.result(number, event, vec![Part::text(text)], true);
            }
            Some("UserRejectObservation") => {
                let text = event.rejection_reason.clone().unwrap_or_default();
                self.result(number, event, vec![Part::text(text)], true);
            }
            Some("Condensation") => self.condense(number, event),
            Some("ConversationStateUpdateEvent") => {
                self.stats(event);
                self.recording.skip("ConversationStateUpdateEvent");
            }
            kind if given(event.llm_message).is_some() => {
                let kind = kind.unwrap_or_default();
                let what = format!("an event of the unknown kind {kind:?} with a message");
                self.recording.unreadable(number, what);
            }
            kind => self.recording.skip(kind.unwrap_or("untyped")),
        }
    }

    /// Returns the part of the instructions that differs between conversations.
    fn dynamic_context(&mut self, number: usize, event: &SdkEvent<'_>) -> Option<Part> {
        let raw = given(event.dynamic_context)?;
        let text = values::text(Some(raw)).or_else(|| Object::of(Some(raw))?.text("text"));
        match text {
            Some(text) => (!text.is_empty()).then(|| Part::text(text)),
            None => {
                let what = "dynamic_context: not a text, kept as its JSON";
                self.recording.unreadable(number, what);
                Some(Part::text(values::canonical(raw)))
            }
        }
    }

    /// Keeps an observation whose content is in no known member.
    fn kept_observation(&mut self, number: usize, raw: &RawValue) -> Vec<Part> {
        self.recording.unreadable(number, "observation: no content, kept as its JSON");
        vec![Part::text(values::shown(raw))]
    }

    fn message(&mut self, number: usize, event: &SdkEvent<'_>) {
        #[derive(Deserialize)]
        struct Message<'a> {
            role: Option<String>,
            #[serde(borrow)]
            content: Raw<'a>,
            reasoning_content: Option<String>,
            #[serde(borrow)]
            thinking_blocks: Raw<'a>,
            #[serde(borrow)]
            responses_reasoning_item: Raw<'a>,
        }
        let Some(message) = lenient::<Message<'_>>(event.llm_message) else {
            return self.recording.unreadable(number, "a message in no known shape");
        };
        let content = message.content;
        let is_agent = message.role.as_deref() == Some("assistant")
            || (message.role.is_none() && event.source.as_deref() == Some("agent"));
        if is_agent {
            self.begin_answer(event);
            let text = message.reasoning_content.or_else(|| event.reasoning_content.clone());
            let blocks = given(message.thinking_blocks).or(event.thinking_blocks);
            let item = given(message.responses_reasoning_item);
            let item = item.or(event.responses_reasoning_item);
            let mut parts = reasoning(text, blocks, item);
            parts.extend(self.recording.content(number, content));
            parts.extend(self.extended(number, event));
            let mut draft = assistant(parts);
            draft.generation_config = model_config(self.model.as_deref());
            self.say(number, event, draft);
        } else if message.role.as_deref() == Some("system") {
            let mut parts = self.recording.message_content(number, content);
            parts.extend(self.extended(number, event));
            self.say(number, event, Draft::new(Content::System(body(parts))));
        } else {
            let mut parts = self.recording.message_content(number, content);
            parts.extend(self.extended(number, event));
            self.say(number, event, Draft::new(Content::User(body(parts))));
        }
    }

    /// Reads what the tool added to the content of a message.
    fn extended(&mut self, number: usize, event: &SdkEvent<'_>) -> Vec<Part> {
        let mut unread = Vec::new();
        let parts = values::content_parts(event.extended_content, &mut unread);
        for what in unread {
            self.recording.unreadable(number, format!("extended_{what}"));
        }
        parts
    }

    /// Starts an answer. Several actions with one response are one answer.
    fn begin_answer(&mut self, event: &SdkEvent<'_>) -> bool {
        let is_same = event.llm_response_id.is_some() && event.llm_response_id == self.response;
        if !is_same {
            self.recording.end_answer(&self.cursor);
            self.recording.answer(self.model.as_deref(), None);
            self.response.clone_from(&event.llm_response_id);
        }
        is_same
    }

    fn action(&mut self, number: usize, event: &SdkEvent<'_>) {
        #[derive(Deserialize)]
        struct Call {
            id: Option<String>,
            name: Option<String>,
            #[serde(default, deserialize_with = "values::shown_member")]
            arguments: Option<String>,
            #[serde(default, deserialize_with = "values::member")]
            function: Option<crate::swe_agent::Function>,
        }
        self.begin_answer(event);
        let mut draft = Draft::assistant("");
        let text = event.reasoning_content.clone();
        let parts = reasoning(text, event.thinking_blocks, event.responses_reasoning_item);
        draft = parts.into_iter().fold(draft, Draft::part);
        let thought = self.recording.content(number, event.thought);
        draft = thought.into_iter().fold(draft, Draft::part);
        match lenient::<Call>(given(event.tool_call)) {
            Some(call) => {
                let function = call.function;
                let name = call.name.or_else(|| function.as_ref()?.name.clone());
                let arguments = call.arguments.or_else(|| function?.arguments);
                let id = event.tool_call_id.clone().or(call.id).unwrap_or_default();
                let name = name.or_else(|| event.tool_name.clone()).unwrap_or_default();
                draft = draft.call(id, name, arguments.unwrap_or_default());
            }
            None => {
                self.recording.unreadable(number, "an action without its call");
            }
        }
        let mut metadata = Metadata::default();
        metadata.set_some("message_id", event.llm_response_id.as_deref());
        draft.metadata = metadata.json();
        draft.generation_config = model_config(self.model.as_deref());
        self.say(number, event, draft);
    }

    fn condense(&mut self, number: usize, event: &SdkEvent<'_>) {
        let forgotten: HashSet<&str> =
            event.forgotten_event_ids.iter().flatten().map(String::as_str).collect();
        let is_kept = |id: Option<&str>| id.is_none_or(|id| !forgotten.contains(id));
        let entries = self.cursor.entries().iter();
        let keep =
            entries.filter(|entry| is_kept(entry.id.as_deref())).map(|entry| entry.item).collect();
        let Some(summary) = event.summary.clone() else {
            // There is no summary to replace the forgotten messages, so they stay.
            let what = "a condensation without a summary: what it forgot stays";
            return self.recording.odd(number, AnomalyKind::EmptyCompaction, what);
        };
        let at = values::time(event.timestamp.as_deref());
        let draft = recorded(Draft::user(summary), event.id.as_deref(), at);
        let message = RecordedMessage { id: event.id.clone(), line: number, draft };
        self.recording.summarize(&mut self.cursor, keep, message);
    }

    /// Records the tokens of all answers so far. The last event wins.
    fn stats(&mut self, event: &SdkEvent<'_>) {
        #[derive(Deserialize)]
        struct Stats {
            #[serde(default, deserialize_with = "values::member")]
            usage_to_metrics: Option<BTreeMap<String, UsageMetrics>>,
        }
        #[derive(Deserialize)]
        struct UsageMetrics {
            model_name: Option<String>,
            #[serde(default, deserialize_with = "values::member")]
            accumulated_token_usage: Option<Accumulated>,
        }
        #[derive(Deserialize)]
        struct Accumulated {
            #[serde(default)]
            prompt_tokens: u64,
            #[serde(default)]
            completion_tokens: u64,
            #[serde(default)]
            cache_read_tokens: u64,
            #[serde(default)]
            cache_write_tokens: u64,
        }
        if event.key.as_deref() != Some("stats") {
            return;
        }
        let Some(stats) = lenient::<Stats>(event.value) else { return };
        let mut totals = TokenTotals::default();
        for (usage, metrics) in stats.usage_to_metrics.iter().flatten() {
            // The condenser may be another model; it writes summaries, not answers.
            if usage != "condenser" && metrics.model_name.is_some() {
                self.model.clone_from(&metrics.model_name);
            }
            if let Some(spent) = &metrics.accumulated_token_usage {
                let cached = spent.cache_read_tokens.saturating_add(spent.cache_write_tokens);
                totals.add(&TokenTotals {
                    // The prompt tokens include the cached ones.
                    input: spent.prompt_tokens.saturating_sub(cached),
                    output: spent.completion_tokens,
                    cache_read: spent.cache_read_tokens,
                    cache_write: spent.cache_write_tokens,
                    ..TokenTotals::default()
                });
            }
        }
        // These are running totals, so the newest event replaces those before it.
        self.spent = Some(totals);
    }
}
