//! Requests and answers of HTTP, and their meaning in the protocol.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use rmcp::RoleClient;
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tract_core::KnownSecrets;

use super::outgoing::OutgoingMessage;
use super::url::ServerUrl;
use crate::answers::Answers;
use crate::error::{McpError, Result};
use crate::event::{Listener, McpEvent};
use crate::options::ServerOptions;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// How much of an error's body is read, and how many characters of it are shown.
const ERROR_BYTES: usize = 64 << 10;
const SHOWN: usize = 300;

/// The session and version from the server's first answer.
#[derive(Default)]
pub(super) struct Session {
    id: Option<HeaderValue>,
    pub(super) version: Option<HeaderValue>,
}

/// Tasks that run in the background of the caller.
#[derive(Default)]
pub(super) struct Tasks {
    /// The requests under way.
    asking: HashMap<Box<str>, AbortHandle>,
    /// The task that reads messages outside of requests.
    pub(super) listening: Option<AbortHandle>,
}

/// The state that all requests of a connection share.
pub(super) struct Exchange {
    label: String,
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    pub(super) secrets: KnownSecrets,
    pub(super) limit_bytes: usize,
    pub(super) answers: Arc<Answers>,
    pub(super) listener: Listener,
    pub(super) messages: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    pub(super) session: Mutex<Session>,
    pub(super) tasks: Mutex<Tasks>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one assignment, insertion or removal, so a panic leaves it usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchange {
    pub(super) fn new(
        label: &str,
        server: &ServerUrl,
        options: &ServerOptions,
        answers: Arc<Answers>,
        messages: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    ) -> Result<Self> {
        let url = server.url()?;
        Ok(Self {
            label: label.to_owned(),
            client: server.client(&url)?,
            headers: server.headers()?,
            secrets: server.secrets(),
            url,
            limit_bytes: options.max_line_bytes,
            answers,
            listener: options.listener.clone(),
            messages,
            session: Mutex::default(),
            tasks: Mutex::default(),
        })
    }

    /// Runs the work of a request, until it is given up.
    pub(super) fn work(&self, id: &str, work: impl Future<Output = ()> + Send + 'static) {
        // Held until the handle is stored: the work may end at once and remove it.
        let mut tasks = lock(&self.tasks);
        let handle = tokio::spawn(work).abort_handle();
        tasks.asking.insert(id.into(), handle);
    }

    pub(super) fn done(&self, id: &str) {
        lock(&self.tasks).asking.remove(id);
    }

    pub(super) fn give_up(&self, id: &str) {
        if let Some(work) = lock(&self.tasks).asking.remove(id) {
            work.abort();
        }
    }

    /// Ends all work.
    pub(super) fn stop(&self) {
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.asking.into_values().chain(tasks.listening).for_each(|work| work.abort());
    }

    /// Sends a message and waits for the status.
    pub(super) async fn post(&self, out: &OutgoingMessage) -> Result<Response> {
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .headers(out.headers())
            .body(out.body.clone());
        let response = self.send(request, out.version.as_deref()).await?;
        if out.method == "initialize"
            && let Some(id) = response.headers().get(SESSION)
        {
            let mut id = id.clone();
            id.set_sensitive(true);
            lock(&self.session).id = Some(id);
        }
        Ok(response)
    }

    /// Asks for messages that belong to no request, or for the rest of a stream.
    pub(super) async fn get(&self, last_id: Option<&str>) -> Result<Response> {
        let mut request = self.client.get(self.url.clone()).header(ACCEPT, "text/event-stream");
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            request = request.header("last-event-id", id);
        }
        self.send(request, None).await
    }

    /// Ends the session, where there is one; the server may not know how.
    pub(super) async fn end_session(&self) {
        if lock(&self.session).id.is_some() {
            let _ = self.send(self.client.delete(self.url.clone()), None).await;
            lock(&self.session).id = None;
        }
    }

    async fn send(&self, request: RequestBuilder, version: Option<&str>) -> Result<Response> {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let has_session = {
            let session = lock(&self.session);
            let header = version.and_then(|version| HeaderValue::from_str(version).ok());
            if let Some(version) = header.or_else(|| session.version.clone()) {
                headers.insert(VERSION, version);
            }
            if let Some(id) = &session.id {
                headers.insert(SESSION, id.clone());
            }
            session.id.is_some()
        };
        let sent = request.headers(headers).send().await;
        let response = sent.map_err(|error| self.unreachable(error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refused(response, has_session).await)
        }
    }

    /// Converts a status that is not a success to an error.
    async fn refused(&self, response: Response, has_session: bool) -> McpError {
        let status = response.status();
        let server = self.label.clone();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let challenge = response.headers().get("www-authenticate");
            let challenge = challenge.and_then(|value| value.to_str().ok());
            let challenge = challenge.map(|text| cut(&self.secrets.mask_json(text)));
            return McpError::Unauthorized { server, status: status.as_u16(), challenge };
        }
        if status.is_redirection() {
            let message = "redirects are not followed".to_owned();
            return McpError::Status { server, status: status.as_u16(), message };
        }
        // The status counts, even when its text does not come.
        let text = self.read(response, ERROR_BYTES).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let text = self.secrets.mask_json(&text);
        let refusal = serde_json::from_str::<Refusal>(&text).ok().map(|refusal| refusal.error);
        let message = refusal.as_ref().map_or(&*text, |error| &error.message);
        // The protocol uses 404 for a session that is gone; some servers send 400. A call whose
        // session is gone is sent again, so a tool's own error must not be mistaken for that.
        let of_session = status == StatusCode::NOT_FOUND
            || status == StatusCode::BAD_REQUEST && is_about_session(message);
        if has_session && of_session {
            return McpError::SessionLost { server };
        }
        match refusal {
            Some(error) if status.is_client_error() => {
                McpError::Refused { server, code: error.code, message: cut(&error.message) }
            }
            _ => McpError::Status { server, status: status.as_u16(), message: cut(message) },
        }
    }

    fn unreachable(&self, error: reqwest::Error) -> McpError {
        let connected = !error.is_connect() && !error.is_builder();
        let error = error.without_url();
        // The last cause is the failure itself; those before it are its context.
        let first: &dyn std::error::Error = &error;
        let last = std::iter::successors(Some(first), |cause| cause.source()).last();
        let reason = last.map(ToString::to_string).unwrap_or_default();
        McpError::Unreachable { server: self.label.clone(), connected, reason }
    }

    pub(super) fn broke(&self, what: &str) -> McpError {
        let what = self.secrets.mask(what).into_owned();
        McpError::Protocol { server: self.label.clone(), what }
    }

    pub(super) fn cut_off(&self) -> McpError {
        McpError::Cut { server: self.label.clone() }
    }

    pub(super) fn too_large(&self) -> McpError {
        let limit_bytes = self.limit_bytes;
        self.listener.tell(McpEvent::Oversized { limit_bytes });
        McpError::TooLarge { server: self.label.clone(), limit_bytes }
    }
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalError,
}

#[derive(Deserialize)]
struct RefusalError {
    code: i32,
    #[serde(default)]
    message: String,
}

/// Returns whether an error names the session of the protocol: `Bad Request: No valid session ID`, but
/// not `checkout session could not be confirmed`.
fn is_about_session(message: &str) -> bool {
    let message = message.trim().to_lowercase();
    let message = message.strip_prefix("bad request").unwrap_or(&message);
    let mut words = message.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let qualifiers = ["no", "valid", "invalid", "unknown", "expired", "missing", "mcp", "the"];
    words.find(|word| !qualifiers.contains(word)) == Some("session")
}

/// The beginning of a text that is shown to people, on one line.
pub(super) fn cut(text: &str) -> String {
    let text: String =
        text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().to_owned()
}
