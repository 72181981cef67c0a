//! Recognizes the exchanges that are turns of a conversation, and their session.

use http::HeaderMap;
use tract_providers::{Dialect, api_of};

use crate::header;

/// An API path that a model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The dialect; `None` if tract does not know it.
    pub(crate) dialect: Option<Dialect>,
}

/// Suffixes of paths that models answer in dialects that tract does not know.
const UNKNOWN: &[&str] = &[
    "/api/generate",
    "/v1/completions",
    "/invoke",
    "/invoke-with-response-stream",
    "/converse",
    "/converse-stream",
];

/// Returns the endpoint of a request; `None` if it is not a model request. `path` may contain a
/// query, and `method` is empty if unknown.
pub(crate) fn endpoint(method: &str, path: &str) -> Option<Endpoint> {
    if !method.is_empty() && !method.eq_ignore_ascii_case("post") {
        return None;
    }
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let answers = |paths: &[&str]| paths.iter().any(|end| path.ends_with(end));
    let dialect = Dialect::ALL.into_iter().find(|dialect| answers(api_of(*dialect).paths));
    (dialect.is_some() || answers(UNKNOWN)).then_some(Endpoint { dialect })
}

/// Returns the dialect of the background response that a request fetches; `None` for other
/// requests.
pub(crate) fn fetched_response(method: &str, path: &str) -> Option<Dialect> {
    if !method.eq_ignore_ascii_case("get") {
        return None;
    }
    let path = path.split(['?', '#']).next()?.trim_end_matches('/');
    let (before, id) = path.rsplit_once('/')?;
    let is_before = |dialect: &Dialect| {
        let api = api_of(*dialect);
        api.has_background && api.paths.iter().any(|end| before.ends_with(end))
    };
    Dialect::ALL.into_iter().find(is_before).filter(|_| !id.is_empty())
}

/// Returns the model in a path such as Gemini's.
pub(crate) fn model_of(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/models/")?;
    rest.split([':', '/', '?']).next().filter(|model| !model.is_empty())
}

/// Returns whether a status can come with an answer. Other 2xx responses do not have an answer.
pub(crate) fn is_answer(status: u16) -> bool {
    status == 200
}

/// Returns whether the headers are those of Claude Code or Codex.
pub(crate) fn is_agent(headers: &HeaderMap) -> bool {
    let is_there = |name| header::text(headers, name).is_some();
    is_there("x-claude-code-session-id") || (is_there("session-id") && is_there("thread-id"))
}

/// The conversation that the headers name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Thread {
    /// The session; absent if the client does not send one.
    pub(crate) session: Option<String>,
    /// The subagent within it; absent for the session itself.
    pub(crate) agent: Option<String>,
}

impl Thread {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name| header::text(headers, name).map(str::to_owned);
        let sessions = ["x-claude-code-session-id", "session-id", "x-session-id"];
        let session = sessions.into_iter().find_map(text);
        let agent = text("x-claude-code-agent-id").or_else(|| {
            // Codex always sends both headers. They differ only in a subagent.
            let (session, thread) = (text("session-id")?, text("thread-id")?);
            (session != thread).then_some(thread)
        });
        Self { session, agent }
    }
}
