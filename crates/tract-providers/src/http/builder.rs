//! Configuration of a client.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tract_core::{KnownSecrets, ModelError, nearest};
use tract_schema::Dialect;

use super::retry::{Retry, RetryPolicy};
use super::{HttpModel, Inner, OnRetry};
use crate::api::Api;
use crate::profile::Server;
use crate::{api_of, profile_of};

/// A key. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Makes a key. Surrounding white space is trimmed.
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// Returns the key as a secret to look for.
    pub(super) fn secrets(&self) -> KnownSecrets {
        KnownSecrets::new([self.0.as_str()])
    }

    /// Returns whether a text contains the key, literally or with escapes. A key that is too short
    /// to be a secret is never found.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        self.secrets().are_in(&String::from_utf8_lossy(bytes))
    }

    /// Replaces the key in a text.
    pub(super) fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// Sets a client up.
///
/// ```
/// use tract_providers::http::HttpModel;
/// let model = HttpModel::builder("openai/local")?
///     .base_url("http://127.0.0.1:8080/v1")
///     .key("sk-not-shown")
///     .build()?;
/// assert!(!format!("{model:?}").contains("sk-not-shown"));
/// # Ok::<(), tract_core::ModelError>(())
/// ```
#[derive(Clone)]
pub struct HttpModelBuilder {
    pub(super) dialect: Dialect,
    pub(super) model: String,
    base_url: Option<String>,
    pub(super) key: Option<ApiKey>,
    headers: Vec<(String, String)>,
    pub(super) connect_timeout: Duration,
    pub(super) first_byte_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) retry: RetryPolicy,
    pub(super) on_retry: Option<OnRetry>,
    pub(super) max_reply_bytes: u64,
    pub(super) stream_usage: bool,
    pub(super) strict_tools: bool,
}

impl fmt::Debug for HttpModelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModelBuilder")
            .field("dialect", &self.dialect)
            .field("model", &self.model)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl HttpModelBuilder {
    pub(super) fn new(dialect: Dialect, model: &str) -> Self {
        Self {
            dialect,
            model: model.to_owned(),
            base_url: None,
            key: None,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(120),
            retry: RetryPolicy::default(),
            on_retry: None,
            max_reply_bytes: 32 << 20,
            stream_usage: true,
            strict_tools: false,
        }
    }

    /// Reads the key and base URL from the environment, unless they are set.
    #[must_use]
    pub fn from_env(mut self) -> Self {
        let variable =
            |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let api = api_of(self.dialect);
        self.key = self.key.or_else(|| variable(api.key_variable).map(ApiKey::new));
        self.base_url = self.base_url.or_else(|| variable(api.base_variable));
        self
    }

    /// Sets the base URL: the part before `/chat/completions`, `/responses`, `/v1/messages` or
    /// `/api/chat`.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        self.key = Some(ApiKey::new(key));
        self
    }

    /// Adds a header, such as `anthropic-beta`. Its value is never shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the timeout for connecting. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the timeout for the first byte of an answer, thinking included. Default: 10 min.
    #[must_use]
    pub fn first_byte_timeout(mut self, timeout: Duration) -> Self {
        self.first_byte_timeout = timeout;
        self
    }

    /// Sets the timeout between pieces of an answer. Default: 2 min.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets when a request is retried.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Sets a callback that is called before each wait.
    #[must_use]
    pub fn on_retry(mut self, callback: impl Fn(&Retry<'_>) + Send + Sync + 'static) -> Self {
        self.on_retry = Some(Arc::new(callback));
        self
    }

    /// Sets the maximum size of an answer in bytes. Default: 32 MiB.
    #[must_use]
    pub fn max_reply_bytes(mut self, bytes: u64) -> Self {
        self.max_reply_bytes = bytes;
        self
    }

    /// Sets whether OpenAI's Chat is asked for the token counts of a stream. Default: true. A few
    /// compatible servers reject the option.
    #[must_use]
    pub fn stream_usage(mut self, on: bool) -> Self {
        self.stream_usage = on;
        self
    }

    /// Sets whether the provider enforces the schemas of tools, if they can be written for strict
    /// mode. Default: false. Replies record how each tool was sent, so that hydration reads
    /// arguments by the original schema.
    #[must_use]
    pub fn strict_tools(mut self, strict: bool) -> Self {
        self.strict_tools = strict;
        self
    }

    /// Makes the client.
    ///
    /// # Errors
    /// [`ModelError::Unauthorized`] if the provider's own server is used without a key; other
    /// errors if the URL, the key or a header is invalid.
    pub fn build(self) -> Result<HttpModel, ModelError> {
        let (api, server) = (api_of(self.dialect), &profile_of(self.dialect).server);
        if self.key.is_none() && self.base_url.is_none() && api.needs_key {
            let message = format!("no key: set {}", api.key_variable);
            return Err(ModelError::Unauthorized { message });
        }
        let base = base_of(api, self.base_url.as_deref().unwrap_or(api.base_url))?;
        let headers = headers(server, self.key.as_ref(), &self.headers)?;
        let client = client(&base, self.connect_timeout)?;
        Ok(HttpModel { inner: Arc::new(Inner { settings: self, base, headers, client }) })
    }
}

/// Splits `provider/model`; the model's name may contain slashes.
pub(super) fn split(name: &str) -> Result<(Dialect, &str), ModelError> {
    let Some((word, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty()) else {
        return Err(ModelError::other(format!(
            "expected provider/model such as openai/gpt-5.5, found {name:?}"
        )));
    };
    let dialect = word.parse().map_err(|_| {
        let like = nearest(word, Dialect::ALL.map(Dialect::as_str));
        let hint = like.map(|like| format!("; did you mean {like:?}?")).unwrap_or_default();
        let words = Dialect::words();
        ModelError::other(format!("expected one of {words}, found provider {word:?}{hint}"))
    })?;
    Ok((dialect, model))
}

/// Parses a base URL. A query is kept, because some servers require one.
fn base_of(api: &Api, base: &str) -> Result<Url, ModelError> {
    let refused = |why: &str| ModelError::other(format!("the base url cannot be used: {why}"));
    let base = base.trim();
    // Ollama's variable may be just `host:port`.
    let text = match base.contains("://") {
        true => base.to_owned(),
        false => format!("http://{base}"),
    };
    let mut url = Url::parse(&text).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused(&format!("expected http or https, found {}", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("it holds credentials; a key is given apart"));
    }
    // `Url` omits a default port, so `h:80` is recognized in the text.
    let host = base.split(['/', '?', '#']).next().unwrap_or_default();
    let states_port = host.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if api.port.is_some() && !base.contains("://") && !states_port {
        url.set_port(api.port).map_err(|()| refused("it takes no port"))?;
    }
    Ok(url)
}

fn headers(
    server: &Server,
    key: Option<&ApiKey>,
    more: &[(String, String)],
) -> Result<HeaderMap, ModelError> {
    let secret = |value: &str, what: &str| {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| ModelError::other(format!("{what} holds what no header may hold")))?;
        value.set_sensitive(true);
        Ok::<_, ModelError>(value)
    };
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept-encoding", HeaderValue::from_static("identity"));
    for (name, value) in server.headers {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    if let Some(ApiKey(key)) = key {
        let (name, before) = server.key_header;
        headers.insert(name, secret(&format!("{before}{key}"), "the key")?);
    }
    for (name, value) in more {
        let known = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| ModelError::other(format!("{name:?} is no name of a header")))?;
        headers.insert(known, secret(value, "a header")?);
    }
    Ok(headers)
}

/// Returns whether a server is on this machine, so that no proxy is used.
fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

fn client(url: &Url, connect_timeout: Duration) -> Result<reqwest::Client, ModelError> {
    // The cryptography provider is set once per process; an existing one is kept.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut client = reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("tract/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        client = client.no_proxy();
    }
    client.build().map_err(|error| ModelError::Unavailable {
        message: "no client can be made".to_owned(),
        source: Some(Box::new(error.without_url())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_go_past_the_proxy() {
        let loopback = |url: &str| is_loopback(&Url::parse(url).expect("a url"));
        for url in
            ["http://localhost:1/v1", "http://127.0.0.1/", "http://127.9.9.9/", "http://[::1]:80/"]
        {
            assert!(loopback(url), "{url}");
        }
        for url in
            ["https://127.evil.example/", "https://127.0.0.1.evil.example/", "https://[::2]/"]
        {
            assert!(!loopback(url), "{url}");
        }
    }

    #[track_caller]
    fn check(dialect: Dialect, base: &str, expected: &str) {
        let url = base_of(api_of(dialect), base).and_then(|base| {
            let request = tract_core::ModelRequest::default();
            let params = crate::params_of(&request, dialect, &crate::FormOptions::default())
                .map_err(|error| ModelError::other(error.to_string()))?;
            let (path, _) = (profile_of(dialect).wire)(params.with("model", "m"), false, true);
            Ok(crate::http::send::url_of(&base, &path))
        });
        let found = url.map(|url| url.to_string());
        assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected);
    }

    #[test]
    fn urls_are_put_together() {
        check(Dialect::OpenAi, "http://h:8080/v1/", "http://h:8080/v1/chat/completions");
        check(Dialect::Responses, "https://h/v1", "https://h/v1/responses");
        check(
            Dialect::OpenAi,
            "https://h/d?api-version=1",
            "https://h/d/chat/completions?api-version=1",
        );
        check(Dialect::Anthropic, "https://h", "https://h/v1/messages");
        check(Dialect::Ollama, "h", "http://h:11434/api/chat");
        check(Dialect::Ollama, "h:80", "http://h/api/chat");
        check(
            Dialect::OpenAi,
            "https://user:pass@h/v1",
            "the base url cannot be used: it holds credentials; a key is given apart",
        );
        check(
            Dialect::OpenAi,
            "ftp://h",
            "the base url cannot be used: expected http or https, found ftp",
        );
    }

    #[test]
    fn names_are_provider_and_model() {
        let (dialect, model) = split("openai/meta-llama/Llama-3").expect("a name");
        assert_eq!((dialect, model), (Dialect::OpenAi, "meta-llama/Llama-3"));
        for (name, part) in [
            ("gpt-5.5", "expected provider/model"),
            ("openai/", "expected provider/model"),
            ("antropic/claude", "did you mean \"anthropic\"?"),
        ] {
            let error = split(name).expect_err("no name").to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_key_is_found_and_hidden() {
        let key = ApiKey::new(" sk-1234567890 \n");
        assert!(key.is_in(b"..sk-1234567890.."));
        assert!(!key.is_in(b"sk-123456789"));
        assert_eq!(key.hide_in("no sk-1234567890!"), "no [key]!");
        assert_eq!(format!("{key:?}"), "[key]");
        let missing = HttpModelBuilder::new(Dialect::OpenAi, "m").build();
        assert!(matches!(missing, Err(ModelError::Unauthorized { .. })));
    }
}
