//! From the copy of an exchange to the messages that it says.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, JsonText, ModelError, Part, PartialReply, Reply, ToolSchema};
use tract_providers::stream::Assembler;
use tract_providers::{Dialect, ProviderConversation, read_reply_at};
use tract_secrets::SecretKind;

use crate::capture::Exchange;
use crate::counts::Reason;
use crate::decode::decode;
use crate::header;
use crate::turn::{self, Thread};

/// Members of a request that are about a person or an account, or say how it is sent.
const NOT_PARAMETERS: &[&str] = &[
    "client_metadata",
    "metadata",
    "prompt_cache_key",
    "safety_identifier",
    "stream",
    "stream_options",
    "user",
];

/// What agents send before there is a conversation, to have a cache or a quota.
const WARM_UPS: &[&str] = &["Warmup", "quota"];

/// A turn of a conversation: what was sent, and what the model answered.
#[derive(Debug)]
pub(crate) struct RecordedTurn {
    pub(crate) thread: Thread,
    /// Whether it is of an agent whose conversations always have tools.
    pub(crate) is_agent: bool,
    /// The instructions before the first message.
    pub(crate) system: Vec<Draft>,
    pub(crate) messages: Vec<Draft>,
    /// The secrets that were replaced in each message.
    pub(crate) redacted: Vec<Vec<SecretKind>>,
    pub(crate) tools: Option<Vec<ToolSchema>>,
    pub(crate) parameters: JsonText,
    /// The response of the provider that the messages continue, where the request names one.
    pub(crate) previous: Option<String>,
    /// The provider's id of the request.
    pub(crate) request_id: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) answer: Answer,
    pub(crate) requested_at_us: i64,
    pub(crate) answered_at_us: i64,
}

/// What came back.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole(Box<Reply>),
    /// It broke off.
    Partial {
        partial: Box<PartialReply>,
        cause: ModelError,
    },
    /// The upstream answered with an error.
    Error {
        status: u16,
        kind: Option<String>,
    },
}

impl RecordedTurn {
    /// Whether it is next to a session's conversation and no part of it: a title, a warm-up.
    /// `has_tools` says whether the conversation has tools.
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
/// The first reason why it is no turn, in the order of [`Reason::ALL`].
pub(crate) fn read(mut exchange: Exchange) -> Result<RecordedTurn, Reason> {
    if exchange.request.is_over_budget || exchange.response.is_over_budget {
        return Err(Reason::OverBudget);
    }
    let status = exchange.status.ok_or(Reason::NoResponse)?.as_u16();
    let endpoint = turn::endpoint(exchange.method.as_str(), &exchange.path);
    let is_answer = turn::is_answer(status);
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
    let request = request.and_then(|request| String::from_utf8(request.bytes).ok());
    let request = request.ok_or_else(|| reason(Reason::RequestUndecodable))?;
    if is_answer && exchange.response.len() == 0 {
        return Err(Reason::EmptyResponse);
    }
    let dialect = endpoint.dialect.ok_or_else(|| reason(Reason::UnknownProvider))?;
    let response_bytes = exchange.response.take_bytes();
    let coding = header::text(&exchange.response_headers, "content-encoding");
    let answer = if is_answer {
        let decoded = decode(response_bytes, coding).map_err(|_| Reason::ResponseUndecodable)?;
        answer(dialect, &decoded.bytes, messages_of(dialect, &request))?
    } else {
        let body = decode(response_bytes, coding).map(|decoded| decoded.bytes);
        Answer::Error { status, kind: body.ok().and_then(|body| error_kind(&body)) }
    };
    let read = ProviderConversation::read(&request, Some(dialect));
    let read = read.map_err(|_| reason(Reason::RequestUndecodable))?.imported;
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
        previous: member(&read.parameters, "previous_response_id"),
        parameters: parameters(&read.parameters, &exchange.path),
        request_id: answered_with("request-id").or_else(|| answered_with("x-request-id")),
        user_agent: text("user-agent"),
        answer,
        requested_at_us: exchange.requested_at_us,
        answered_at_us: exchange.answered_at_us,
    })
}

fn member(parameters: &JsonText, name: &str) -> Option<String> {
    let members = tract_core::json::split_object(parameters.as_str()).ok()?;
    let (_, raw) = members.into_iter().find(|(key, _)| key == name)?;
    serde_json::from_str(raw).ok()
}

/// The parameters that the next request would have as well.
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

/// Counts the messages of a request, which is the place of its answer in the next one. Only calls
/// without ids of the provider's are named by it.
fn messages_of(dialect: Dialect, request: &str) -> usize {
    if !matches!(dialect, Dialect::Ollama | Dialect::Gemini) {
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

/// Reads an answer, whole or streamed, as its bytes show. It comes after so many messages.
fn answer(dialect: Dialect, bytes: &[u8], place: usize) -> Result<Answer, Reason> {
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_document = || serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    if start == Some(&b'{') && (dialect != Dialect::Ollama || is_document()) {
        let text = std::str::from_utf8(bytes).map_err(|_| Reason::ResponseUndecodable)?;
        let reply = read_reply_at(dialect, text, place).map_err(|_| Reason::NoTurn)?;
        return Ok(Answer::Whole(Box::new(reply)));
    }
    let mut assembler = Assembler::new(dialect);
    let pushed = if start == Some(&b'[') {
        // Gemini streams a list where it is not asked for events.
        let elements = serde_json::from_slice::<Vec<&RawValue>>(bytes);
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
    let cause = match ended.map(|body| read_reply_at(dialect, &body, place)) {
        Ok(Ok(reply)) => return Ok(Answer::Whole(Box::new(reply))),
        Ok(Err(_)) => ModelError::Cut,
        Err(error) => error.into(),
    };
    let partial = assembler.partial();
    if partial.text.is_empty() && partial.reasoning.is_empty() && partial.calls.is_empty() {
        return Err(Reason::NoTurn);
    }
    Ok(Answer::Partial { partial: Box::new(partial), cause })
}

/// The provider's word for what is wrong. Its message may quote a key, so it is left where it is.
fn error_kind(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    let word = ["type", "status", "code"].into_iter().find_map(|name| error.get(name)?.as_str())?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (word.len() <= 40 && word.bytes().all(is_word)).then(|| word.to_owned())
}
