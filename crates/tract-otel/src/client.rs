//! The HTTP client of the exporters. It remembers the first failure, which is reported once.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Runtime;

/// The most that is read of a collector's answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// The most of a failed answer's text that is repeated.
const MAX_REASON_CHARS: usize = 200;

/// The first failure of an export.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstFailure(Arc<Mutex<Option<String>>>);

impl FirstFailure {
    pub(crate) fn report(&self, failure: impl FnOnce() -> String) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(failure);
    }

    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A client that is made at the first export, in the thread of the exporter: it needs no runtime of
/// the host, and works within one.
pub(crate) struct Client {
    timeout: Duration,
    failure: FirstFailure,
    made: OnceLock<Result<(Runtime, reqwest::Client), String>>,
}

impl Client {
    pub(crate) fn new(timeout: Duration, failure: FirstFailure) -> Self {
        Self { timeout, failure, made: OnceLock::new() }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let make = || make(self.timeout, request.uri().host());
        let (runtime, client) = self.made.get_or_init(make).as_ref().map_err(String::clone)?;
        let (parts, body) = request.into_parts();
        let sent =
            client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
        runtime.block_on(async {
            let mut response = sent.send().await.map_err(|error| reason(error, self.timeout))?;
            let status = response.status();
            let mut answer = Vec::new();
            while let Some(bytes) =
                response.chunk().await.map_err(|error| reason(error, self.timeout))?
            {
                answer.extend_from_slice(&bytes);
                if answer.len() > MAX_ANSWER_BYTES {
                    return Err(format!("the answer exceeds {MAX_ANSWER_BYTES} bytes"));
                }
            }
            if !status.is_success() {
                self.failure.report(|| refusal(status, &answer));
            }
            let mut answered = Response::new(Bytes::from(answer));
            *answered.status_mut() = status;
            *answered.headers_mut() = response.headers().clone();
            Ok(answered)
        })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.send(request).map_err(|failure| {
            self.failure.report(|| failure.clone());
            failure.into()
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Dropping a runtime within another one is a panic; this is not.
        if let Some(Ok((runtime, _))) = self.made.take() {
            runtime.shutdown_background();
        }
    }
}

fn make(timeout: Duration, host: Option<&str>) -> Result<(Runtime, reqwest::Client), String> {
    // One provider of cryptography for the process; the first one stays.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut client = reqwest::Client::builder()
        .connect_timeout(timeout)
        .timeout(timeout)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("tract-otel/", env!("CARGO_PKG_VERSION")));
    if host.is_some_and(|host| host == "localhost" || host == "[::1]" || host.starts_with("127.")) {
        client = client.no_proxy();
    }
    let client = client.build().map_err(|error| error.without_url().to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    Ok((runtime, client))
}

/// Why a request failed, without its URL, which may contain a secret.
fn reason(error: reqwest::Error, timeout: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {timeout:?}");
    }
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        // The last cause is the operating system's own word.
        text = next.to_string();
        cause = next.source();
    }
    text
}

fn refusal(status: reqwest::StatusCode, answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let readable = |c: &char| !c.is_control() && *c != char::REPLACEMENT_CHARACTER;
    let text: String = text.chars().filter(readable).take(MAX_REASON_CHARS).collect();
    let detail = if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) };
    let hint = match status.as_u16() {
        401 | 403 => " (check OTEL_EXPORTER_OTLP_HEADERS)",
        404 => " (check the path of the endpoint)",
        _ => "",
    };
    format!("the collector answered with status {}{hint}{detail}", status.as_u16())
}
