//! The results of batches: lines that contain the answer to a request, and not the request itself.

use tract_core::json;
use tract_schema::Dialect;

use crate::answers::message_of;
use crate::error::ImportError;
use crate::import::unpacked;
use crate::profile_of;
use crate::raw::{self, Fields, Node, Object};

/// Members of a line that contain a whole request: in recordings, and in the batches of OpenAI,
/// Anthropic and Bedrock.
pub(crate) const REQUESTS: [&str; 4] = ["request", "body", "params", OF_BEDROCK];

/// Members of a line that may contain the answer. The last one is Bedrock's.
pub(crate) const ANSWERS: [&str; 5] =
    ["response", "output", "completion", "responses", "modelOutput"];

/// The member that names the request of a batch, of OpenAI and Anthropic.
const ID: &str = "custom_id";

/// The member that names the request of a batch of Bedrock.
const RECORD_ID: &str = "recordId";

/// The member with the request of a batch of Bedrock, in the form of the model's vendor.
pub(crate) const OF_BEDROCK: &str = "modelInput";

/// All members that the lines of Gemini's batches have. Its id is in `key`, which other lines have
/// too.
const OF_GEMINI: [&str; 4] = ["key", "request", "response", "error"];

/// Returns the name of a request in its batch; `None` if the line is not one of a batch.
pub(crate) fn id_of(fields: &Fields<'_>) -> Option<String> {
    id_member(fields).map(|(_, id)| id)
}

/// Returns the member with the name of a request in its batch, and the name.
pub(crate) fn id_member(fields: &Fields<'_>) -> Option<(&'static str, String)> {
    let id = |member: &'static str| Some((member, id_in(&fields.get(member)?)?));
    let is_of_gemini = || fields.members.iter().all(|(key, _)| OF_GEMINI.contains(&key.as_str()));
    id(ID)
        .or_else(|| id(RECORD_ID).filter(|_| fields.has(OF_BEDROCK)))
        .or_else(|| Some(("key", fields.text("key").filter(|_| is_of_gemini())?)))
}

/// Returns the id in a member: a text, or a whole number.
pub(crate) fn id_in(node: &Node<'_>) -> Option<String> {
    let number = || node.raw.parse::<u64>().ok().map(|number| number.to_string());
    if node.is_string() { node.string().ok() } else { number() }
}

/// Returns the members of a line with a request of a batch: the one with its name, and the one with
/// the request.
pub fn batch_members(dialect: Dialect) -> [&'static str; 2] {
    match profile_of(dialect).batch_member {
        Some(member) => [ID, member],
        None if dialect == Dialect::Gemini => ["key", "request"],
        None => [ID, "body"],
    }
}

/// Members that contain the outcome of a request: of OpenAI and Gemini, and of Anthropic.
const OUTCOMES: [&str; 3] = ["response", "result", "error"];

/// Members of an outcome that contain the answer: of OpenAI, and of Anthropic.
const WRAPPED: [&str; 2] = ["body", "message"];

/// The result of a request of a batch.
#[derive(Debug)]
pub(crate) struct BatchResult<'a> {
    /// The name of the request in its batch.
    pub(crate) id: String,
    /// The answer with its dialect; else the reason why there is none.
    pub(crate) answer: Result<(Dialect, Node<'a>), String>,
}

impl<'a> BatchResult<'a> {
    /// Reads a line; `None` if it is not a result, or contains its request.
    pub(crate) fn find(fields: &Fields<'a>) -> Option<Self> {
        let id = id_of(fields)?;
        let has_request = REQUESTS.iter().any(|key| fields.some(key).is_some())
            || Dialect::ALL.iter().any(|dialect| fields.has(profile_of(*dialect).format.list));
        if has_request {
            return None;
        }
        let answer = match fields.some("result") {
            Some(result) => of_result(&result)?,
            None => of_response(fields)?,
        };
        Some(Self { id, answer })
    }

    /// Returns the error of a result without an answer.
    pub(crate) fn failure(id: &str, cause: impl Into<String>) -> ImportError {
        ImportError::NoAnswer { id: id.to_owned(), cause: cause.into() }
    }
}

/// Reads the result of Anthropic: a type, with a message or an error.
fn of_result<'a>(result: &Node<'a>) -> Option<Result<(Dialect, Node<'a>), String>> {
    let result = result.object().ok()?;
    let kind = result.text("type")?;
    let message = result.some("message").filter(Node::is_object);
    Some(match (message, result.some("error")) {
        (Some(message), _) if kind == "succeeded" => Ok((Dialect::Anthropic, message)),
        (_, Some(error)) => Err(format!("{kind}: {}", reason(&error))),
        _ if kind == "succeeded" => Err(format!("{kind}, and it has no \"message\"")),
        _ => Err(kind),
    })
}

/// Reads the response of OpenAI, which has the answer in its body, or of Gemini, which is the answer.
fn of_response<'a>(fields: &Fields<'a>) -> Option<Result<(Dialect, Node<'a>), String>> {
    let Some(response) = fields.some("response") else {
        let error = fields.some("error").filter(Node::is_object);
        return error.map(|error| Err(reason(&error)));
    };
    let members = response.object().ok()?;
    let status = members.raw("status_code");
    let body = body_of(&response);
    let answer = body.object().ok();
    if let Some(error) = answer.as_ref().and_then(|answer| answer.some("error")) {
        let status = status.map(|status| format!("status {status}: ")).unwrap_or_default();
        return Some(Err(format!("{status}{}", reason(&error))));
    }
    let dialect = answer.and_then(|answer| {
        Dialect::ALL.into_iter().find(|dialect| profile_of(*dialect).answer.fits(&answer))
    });
    match (dialect, status) {
        (Some(dialect), _) => Some(Ok((dialect, body))),
        (None, Some(status)) => {
            Some(Err(format!("status {status}, and the body is not an answer of a model")))
        }
        (None, None) => None,
    }
}

/// Returns the reason in an error: its code, and its message.
fn reason(error: &Node<'_>) -> String {
    let fields = error.object().ok();
    // Anthropic's error has the error of its API in it.
    let inner = fields.as_ref().and_then(|fields| fields.some("error").filter(Node::is_object));
    if let Some(inner) = inner {
        return reason(&inner);
    }
    let word = |key: &str| fields.as_ref().and_then(|fields| fields.text(key));
    let code = word("code").or_else(|| word("type")).or_else(|| word("status"));
    match code {
        Some(code) if word("message").is_some() => format!("{code}: {}", message_of(error)),
        Some(code) => code,
        None => message_of(error),
    }
}

/// Returns the body of a recorded HTTP message, which is the value itself if it has no body.
pub(crate) fn body_of<'a>(node: &Node<'a>) -> Node<'a> {
    let body = node.object().ok().and_then(|fields| fields.some("body"));
    body.filter(|body| body.is_object() || body.is_string()).unwrap_or_else(|| node.clone())
}

/// Returns the members of a result's line, without its id, and of its answer only these members.
pub(crate) fn meta(fields: &Fields<'_>, answer: Option<String>) -> String {
    let mut out = Object::new();
    for (key, node) in fields.nodes() {
        if [ID, "key"].contains(&key) || node.is_null() {
            continue;
        }
        match node.object().ok().filter(|_| key != "error" && OUTCOMES.contains(&key)) {
            Some(outcome) => {
                // Gemini's response is the answer.
                let wrapped = WRAPPED.iter().find(|inner| outcome.has(inner));
                let others = match (wrapped, &answer) {
                    (Some(inner), _) => {
                        let members = outcome.without(&WRAPPED);
                        Some(with_member(members, inner, answer.as_deref()))
                    }
                    (None, answer) => answer.clone(),
                };
                if let Some(others) = others {
                    out.nest(key, others);
                }
            }
            None => drop(out.raw(key, node.raw)),
        }
    }
    out.end()
}

/// Returns an object with one more member, if it is given.
pub(crate) fn with_member(object: String, key: &str, value: Option<&str>) -> String {
    let Some(value) = value else { return object };
    let mut out = Object::new();
    for (key, raw) in json::split_object(&object).unwrap_or_default() {
        out.raw(&key, raw);
    }
    out.raw(key, value).end()
}

/// The part of a batch that a line contains, with the id of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchLine {
    /// A request without its answer.
    Request(String),
    /// An answer without its request.
    Answer(String),
    /// The failure of a request.
    Failure(String),
}

/// Reads which part of a batch a line contains; `None` for other lines.
///
/// ```
/// use tract_providers::{BatchLine, batch_line};
/// let line = r#"{"custom_id":"a","result":{"type":"expired"}}"#;
/// assert_eq!(batch_line(line), Some(BatchLine::Failure("a".to_owned())));
/// assert_eq!(batch_line(r#"{"messages":[]}"#), None);
/// ```
pub fn batch_line(line: &str) -> Option<BatchLine> {
    let unpacked = unpacked(line);
    let fields =
        Node::root(unpacked.as_ref().map_or(line, |line| line.text.as_str())).object().ok()?;
    let id = id_of(&fields)?;
    let is_object = |key: &str| fields.get(key).is_some_and(|node| node.is_object());
    if REQUESTS.iter().any(|key| is_object(key)) {
        let is_answered = ANSWERS.iter().any(|key| fields.some(key).is_some());
        return (!is_answered).then_some(BatchLine::Request(id));
    }
    Some(match BatchResult::find(&fields)?.answer {
        Ok(_) => BatchLine::Answer(id),
        Err(_) => BatchLine::Failure(id),
    })
}

/// Joins a request of a batch with the line of its answer, to a line that
/// [`ProviderConversation::read`](crate::ProviderConversation::read) accepts. `None` if one of them
/// is another line.
pub fn join_batch_lines(request: &str, result: &str) -> Option<String> {
    let unpacked_result = unpacked(result);
    let request = json::split_object(request.trim()).ok()?;
    let result = unpacked_result.as_ref().map_or(result, |line| line.text.as_str());
    let result = Node::root(result).object().ok()?;
    let (_, answer) = BatchResult::find(&result)?.answer.ok()?;
    let mut out = Object::new();
    for (key, raw) in &request {
        out.raw(key, raw);
    }
    // OpenAI's response is a recorded HTTP message.
    let response = result.some("response").map_or(answer.raw, |response| response.raw);
    out.raw("response", response);
    let mut others = Object::new();
    let mut has_others = false;
    let known = [ID, "key", "response", "result"];
    for (key, node) in result.nodes().filter(|(key, node)| !known.contains(key) && !node.is_null())
    {
        others.raw(key, node.raw);
        has_others = true;
    }
    if has_others {
        out.nest("result", others.end());
    }
    let joined = out.end();
    raw::is_object(&joined).then_some(joined)
}
