//! Reads the messages from the copy of an exchange.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, JsonText, ModelError, Part, PartialReply, Reply, ToolSchema};
use tract_import::AnomalyKind;
use tract_providers::stream::Assembler;
use tract_providers::{Dialect, ProviderConversation, WholeAnswer, api_of, read_answer};
use tract_secrets::SecretKind;

use crate::capture::Exchange;
use crate::counts::Reason;
use crate::decode::decode;
use crate::header;
use crate::responses::ServerState;
use crate::turn::{self, Thread};

/// Members that describe a person, an account or the transport, not the conversation.
const NOT_PARAMETERS: &[&str] = &[
    "client_metadata",
    "metadata",
    "prompt_cache_key",
    "safety_identifier",
    "stream",
    "stream_options",
    "user",
];

/// Messages that agents send before a conversation to fill a cache or to check a quota.
const WARM_UPS: &[&str] = &["Warmup", "quota"];

/// What was replaced or not understood, each with its position.
pub(crate) type Damage = Vec<(AnomalyKind, String)>;

/// A turn of a conversation: the request, and the answer of the model.
#[derive(Debug)]
pub(crate) struct RecordedTurn {
    pub(crate) thread: Thread,
    /// Whether the client is an agent whose conversations always have tools.
    pub(crate) is_agent: bool,
    /// The instructions before the first message.
    pub(crate) system: Vec<Draft>,
    pub(crate) messages: Vec<Draft>,
    /// The kinds of secrets that were redacted in each message.
    pub(crate) redacted: Vec<Vec<SecretKind>>,
    pub(crate) tools: Option<Vec<ToolSchema>>,
    pub(crate) parameters: JsonText,
    /// The provider's response or conversation that the request names and continues.
    pub(crate) continues: Option<ServerState>,
    /// The background response that this exchange fetched. Such a turn does not have messages.
    pub(crate) fetched: Option<ServerState>,
    /// The provider's request id.
    pub(crate) request_id: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) answer: Answer,
    pub(crate) damage: Damage,
    pub(crate) requested_at_us: i64,
    pub(crate) answered_at_us: i64,
}

/// The answer of a turn.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole {
        reply: Box<Reply>,
        /// The members of the answer that are not part of the reply.
        others: Option<JsonText>,
    },
    /// The answer ended early.
    Partial { partial: Box<PartialReply>, cause: ModelError },
    /// The answer is generated in the background, and fetched later by this id.
    Pending { response: String },
    /// The upstream answered with an error.
    Error { status: u16, kind: Option<String> },
}

impl RecordedTurn {
    /// Returns the id of the response that is still being generated after this turn.
    pub(crate) fn background_response(&self) -> Option<&str> {
        match &self.answer {
            Answer::Pending { response } => Some(response),
            Answer::Partial { partial, .. } if is_background(&self.parameters) => {
                partial.id.as_deref()
            }
            Answer::Partial { .. } | Answer::Whole { .. } | Answer::Error { .. } => None,
        }
    }

    /// Returns whether the request is not part of the session's conversation: a title, a warm-up.
    /// `has_tools` is whether the conversation has tools.
    pub(crate) fn is_side_request(&self, has_tools: bool) -> bool {
        if self.thread.session.is_none() {
            return false;
        }
        let should_have_tools = has_tools || self.is_agent;
        let has_tools = self.tools.as_ref().is_some_and(|tools| !tools.is_empty());
        // Codex lists tools as the first item of its input.
        let names_tools = |part: &Part| match part {
            Part::Opaque { json, .. } => json.contains("\"additional_tools\""),
            _ => false,
        };
        let mut instructions = self.system.iter().flat_map(|draft| draft.content.parts());
        if should_have_tools && !has_tools && !instructions.any(names_tools) {
            return true;
        }
        let is_warm_up = |draft: &Draft| WARM_UPS.contains(&draft.content.text().as_str());
        matches!(self.messages.as_slice(), [only] if is_warm_up(only))
    }
}

/// Reads an exchange.
///
/// # Errors
/// The first reason why it is not a turn, in the order of [`Reason::ALL`].
pub(crate) fn read(mut exchange: Exchange) -> Result<RecordedTurn, Reason> {
    if exchange.request.is_over_budget || exchange.response.is_over_budget {
        return Err(Reason::OverBudget);
    }
    let status = exchange.status.ok_or(Reason::NoResponse)?.as_u16();
    let is_answer = turn::is_answer(status);
    let fetches = turn::fetched_response(exchange.method.as_str(), &exchange.path);
    if let Some(dialect) = fetches.filter(|_| is_answer) {
        return fetched(exchange, dialect);
    }
    let endpoint = turn::endpoint(exchange.method.as_str(), &exchange.path);
    let endpoint = match (is_answer, endpoint) {
        (_, Some(endpoint)) => endpoint,
        (true, None) => return Err(Reason::NotATurn),
        (false, None) => return Err(Reason::UpstreamStatus),
    };
    let reason = |reason| if is_answer { reason } else { Reason::UpstreamStatus };
    let request_bytes = exchange.request.take_bytes();
    let coding = header::text(&exchange.request_headers, "content-encoding");
    // Without a body there is no coding to undo.
    let coding = coding.filter(|_| !request_bytes.is_empty());
    let request = decode(request_bytes, coding).ok().filter(|request| !request.is_cut);
    let mut damage = Vec::new();
    let request = request.map(|request| readable("request", &request.bytes, &mut damage));
    let request = request.ok_or_else(|| reason(Reason::RequestUndecodable))?;
    if is_answer && exchange.response.len() == 0 {
        return Err(Reason::EmptyResponse);
    }
    let dialect = endpoint.dialect.ok_or_else(|| reason(Reason::UnknownProvider))?;
    let read = ProviderConversation::read(&request, Some(dialect));
    let read = read.map_err(|_| reason(Reason::RequestUndecodable))?.imported;
    let response_bytes = exchange.response.take_bytes();
    let coding = header::text(&exchange.response_headers, "content-encoding");
    let answer = if is_answer {
        let decoded = decode(response_bytes, coding).map_err(|_| Reason::ResponseUndecodable)?;
        let request = AnsweredRequest {
            text: &request,
            messages: messages_of(dialect, &request),
            is_background: is_background(&read.parameters),
        };
        answer(dialect, &decoded.bytes, &request, &mut damage)?
    } else {
        let body = decode(response_bytes, coding).map(|decoded| decoded.bytes);
        Answer::Error { status, kind: body.ok().and_then(|body| error_kind(&body)) }
    };
    let first = read.drafts.iter().position(|draft| !matches!(draft.content, Content::System(_)));
    let mut system = read.drafts;
    let messages = system.split_off(first.unwrap_or(system.len()));
    let text = |name| header::text(&exchange.request_headers, name).map(str::to_owned);
    let answered_with = |name| header::text(&exchange.response_headers, name).map(str::to_owned);
    Ok(RecordedTurn {
        thread: Thread::of(&exchange.request_headers),
        is_agent: turn::is_agent(&exchange.request_headers),
        system,
        messages,
        redacted: Vec::new(),
        tools: read.tools,
        continues: ServerState::continued_by(&read.parameters),
        fetched: None,
        parameters: parameters(&read.parameters, &exchange.path),
        request_id: answered_with("request-id").or_else(|| answered_with("x-request-id")),
        user_agent: text("user-agent"),
        answer,
        damage,
        requested_at_us: exchange.requested_at_us,
        answered_at_us: exchange.answered_at_us,
    })
}

/// Decodes a body and replaces damaged characters: a cut emoji must not cost the message. `name`
/// names the body in the notes about damage.
fn readable(name: &str, bytes: &[u8], damage: &mut Damage) -> String {
    let decoded = tract_core::json::decode(bytes);
    let kind = AnomalyKind::ReplacedText;
    damage.extend(decoded.replaced.iter().map(|replaced| (kind, format!("{name} {replaced}"))));
    let unlisted = decoded.count.saturating_sub(decoded.replaced.len());
    if unlisted > 0 {
        damage.push((kind, format!("{name}: {unlisted} more places were replaced")));
    }
    decoded.text.into_owned()
}

/// Reads the answer to an earlier request that was made in the background.
fn fetched(mut exchange: Exchange, dialect: Dialect) -> Result<RecordedTurn, Reason> {
    let bytes = exchange.response.take_bytes();
    if bytes.is_empty() {
        return Err(Reason::EmptyResponse);
    }
    let coding = header::text(&exchange.response_headers, "content-encoding");
    let decoded = decode(bytes, coding).map_err(|_| Reason::ResponseUndecodable)?;
    let text = |name| header::text(&exchange.request_headers, name).map(str::to_owned);
    let answered_with = |name| header::text(&exchange.response_headers, name).map(str::to_owned);
    // The client polls until the answer is complete. Earlier polls are not recorded.
    let mut damage = Vec::new();
    let request = AnsweredRequest { text: "{}", messages: 0, is_background: false };
    let answer = answer(dialect, &decoded.bytes, &request, &mut damage)?;
    let Answer::Whole { reply, others } = answer else { return Err(Reason::NotATurn) };
    let id = reply.id.as_deref().and_then(ServerState::response);
    Ok(RecordedTurn {
        thread: Thread::of(&exchange.request_headers),
        is_agent: turn::is_agent(&exchange.request_headers),
        system: Vec::new(),
        messages: Vec::new(),
        redacted: Vec::new(),
        tools: None,
        continues: None,
        fetched: Some(id.ok_or(Reason::NotATurn)?),
        parameters: JsonText::new("{}").expect("an empty object has a canonical form"),
        request_id: answered_with("request-id").or_else(|| answered_with("x-request-id")),
        user_agent: text("user-agent"),
        answer: Answer::Whole { reply, others },
        damage,
        requested_at_us: exchange.requested_at_us,
        answered_at_us: exchange.answered_at_us,
    })
}

fn is_background(parameters: &JsonText) -> bool {
    let members = tract_core::json::split_object(parameters.as_str()).unwrap_or_default();
    members.iter().any(|(name, raw)| name == "background" && *raw == "true")
}

/// Returns the id of a response that is not complete yet.
fn unfinished(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Response {
        id: String,
        status: String,
    }
    let response: Response = serde_json::from_slice(body).ok()?;
    let is_unfinished = matches!(response.status.as_str(), "queued" | "in_progress");
    is_unfinished.then_some(response.id)
}

/// Returns the parameters that also apply to the next request.
fn parameters(all: &JsonText, path: &str) -> JsonText {
    let members = tract_core::json::split_object(all.as_str()).unwrap_or_default();
    let kept = members.into_iter().filter(|(name, _)| !NOT_PARAMETERS.contains(&name.as_str()));
    let mut kept: Vec<(String, String)> = kept.map(|(name, raw)| (name, raw.to_owned())).collect();
    if let Some(model) = turn::model_of(path)
        && !kept.iter().any(|(name, _)| name == "model")
        && let Ok(model) = serde_json::to_string(model)
    {
        kept.push(("model".to_owned(), model));
    }
    let members: Vec<String> = kept
        .iter()
        .filter_map(|(name, raw)| Some(format!("{}:{raw}", serde_json::to_string(name).ok()?)))
        .collect();
    let whole = JsonText::new(&format!("{{{}}}", members.join(",")));
    whole.or_else(|_| JsonText::new("{}")).expect("an empty object has a canonical form")
}

/// Counts the messages of a request, which is the position of the answer in the next one. It is
/// needed only for dialects without call ids, where ids are derived from the position.
fn messages_of(dialect: Dialect, request: &str) -> usize {
    if api_of(dialect).has_call_ids {
        return 0;
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Lists {
        messages: Vec<IgnoredAny>,
        contents: Vec<IgnoredAny>,
    }
    let lists: Lists = serde_json::from_str(request).unwrap_or_default();
    lists.messages.len().max(lists.contents.len())
}

/// The request of an answer.
struct AnsweredRequest<'a> {
    /// Its body.
    text: &'a str,
    /// The number of its messages, which is the place of the answer.
    messages: usize,
    is_background: bool,
}

/// Reads a complete or streamed answer; the bytes show which it is.
fn answer(
    dialect: Dialect,
    bytes: &[u8],
    request: &AnsweredRequest<'_>,
    damage: &mut Damage,
) -> Result<Answer, Reason> {
    let read = |text: &str| read_answer(dialect, text, request.text, request.messages);
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_document = || serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    let api = api_of(dialect);
    if start == Some(&b'{') && (!api.streams_lines || is_document()) {
        if api.has_background
            && let Some(response) = unfinished(bytes)
        {
            return Ok(Answer::Pending { response });
        }
        let text = readable("response", bytes, damage);
        return Ok(whole(read(&text).map_err(|_| Reason::NoTurn)?, damage));
    }
    // The assembler replaces invalid bytes silently, so they are counted here.
    let invalid = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    let mut assembler = Assembler::new(dialect);
    let pushed = if start == Some(&b'[') {
        // Gemini streams a JSON list unless server-sent events are requested.
        let text = String::from_utf8_lossy(bytes);
        let elements = serde_json::from_str::<Vec<&RawValue>>(&text);
        let events: String = elements
            .map_err(|_| Reason::NoTurn)?
            .iter()
            .map(|element| format!("data: {}\n\n", element.get().replace(['\n', '\r'], " ")))
            .collect();
        assembler.push(events.as_bytes(), &mut |_| {})
    } else {
        assembler.push(bytes, &mut |_| {})
    };
    let ended = pushed.and_then(|()| assembler.end());
    let replaced = assembler.replaced_count();
    for (count, what) in [(invalid, "bytes that are not UTF-8"), (replaced, "unpaired surrogates")]
    {
        if count > 0 {
            let what = format!("response stream: {what} were replaced in {count} places");
            damage.push((AnomalyKind::ReplacedText, what));
        }
    }
    let cause = match ended.map(|body| read(&body)) {
        Ok(Ok(answer)) => return Ok(whole(answer, damage)),
        Ok(Err(_)) => ModelError::Cut,
        Err(error) => error.into(),
    };
    let partial = assembler.partial();
    if partial.text.is_empty() && partial.reasoning.is_empty() && partial.calls.is_empty() {
        // The response is generated to its end without the stream, and fetched by its id.
        let response = partial.id.filter(|_| request.is_background).ok_or(Reason::NoTurn)?;
        return Ok(Answer::Pending { response });
    }
    Ok(Answer::Partial { partial: Box::new(partial), cause })
}

/// Returns a complete answer, without the members that a recording leaves out of requests, too.
fn whole(answer: WholeAnswer, damage: &mut Damage) -> Answer {
    let unread = answer.anomalies.iter().filter(|anomaly| anomaly.is_kept_json());
    let kind = AnomalyKind::UnreadableMessage;
    damage.extend(unread.map(|anomaly| (kind, format!("response {anomaly}"))));
    let others = answer.others.and_then(|others| {
        let members = tract_core::json::split_object(others.as_str()).ok()?;
        let kept = members.iter().filter(|(name, _)| !NOT_PARAMETERS.contains(&name.as_str()));
        let kept: Vec<String> = kept
            .filter_map(|(name, raw)| Some(format!("{}:{raw}", serde_json::to_string(name).ok()?)))
            .collect();
        if kept.is_empty() { None } else { JsonText::new(&format!("{{{}}}", kept.join(","))).ok() }
    });
    Answer::Whole { reply: Box::new(answer.reply), others }
}

/// Returns the provider's code of an error. The message is not read, as it may quote a key.
fn error_kind(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    let word = ["type", "status", "code"].into_iter().find_map(|name| error.get(name)?.as_str())?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (word.len() <= 40 && word.bytes().all(is_word)).then(|| word.to_owned())
}
