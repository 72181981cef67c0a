//! The URL of a server, and the headers that we send to it.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tract_core::KnownSecrets;

use crate::error::{McpError, Result};
use crate::options::short_hash;

/// The URL of a server with streamable HTTP, and the headers it requires.
///
/// ```
/// use tract_mcp::ServerUrl;
/// let server = ServerUrl::new("https://example.com/mcp?key=1").bearer("not-shown");
/// assert_eq!(format!("{server:?}"), r#"ServerUrl("https://example.com/mcp")"#);
/// ```
#[derive(Clone)]
pub struct ServerUrl {
    url: String,
    headers: Vec<(String, String)>,
    /// Time limit for connecting; 10 s by default.
    pub connect_timeout: Duration,
}

impl ServerUrl {
    /// Takes the url of the one endpoint, such as `https://example.com/mcp`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new(), connect_timeout: Duration::from_secs(10) }
    }

    /// Adds a header that goes out with every request. Its value is never shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds the header `Authorization` with a bearer token. Surrounding white space is trimmed.
    #[must_use]
    pub fn bearer(self, token: impl AsRef<str>) -> Self {
        self.header("authorization", format!("Bearer {}", token.as_ref().trim()))
    }

    /// Returns the url as it may be shown: user, password, query and fragment may hold secrets.
    pub fn shown(&self) -> String {
        match Url::parse(self.url.trim()) {
            Ok(mut url) => {
                url.set_query(None);
                url.set_fragment(None);
                // URLs that cannot have credentials have none to remove.
                let _ = url.set_username("").and_then(|()| url.set_password(None));
                url.into()
            }
            Err(_) => "a text that is no url".to_owned(),
        }
    }

    /// Returns the identity that approvals of a server without a label are bound to: the URL as
    /// [shown](Self::shown), with a hash of the whole URL if it has a query. Headers are not part
    /// of it.
    pub fn identity(&self) -> String {
        match Url::parse(self.url.trim()) {
            Ok(url) if url.query().is_some() => {
                format!("{}#{}", self.shown(), short_hash(url.as_str().as_bytes()))
            }
            _ => self.shown(),
        }
    }

    pub(super) fn url(&self) -> Result<Url> {
        let refused = |reason: String| McpError::Url { reason };
        let url = Url::parse(self.url.trim()).map_err(|error| refused(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(format!("expected http or https, found {}", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("it holds credentials; a header carries them".to_owned()));
        }
        Ok(url)
    }

    pub(super) fn headers(&self) -> Result<HeaderMap> {
        let refused = |reason: String| McpError::Url { reason };
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let known = HeaderName::from_bytes(name.trim().as_bytes())
                .map_err(|_| refused(format!("{name:?} is no name of a header")))?;
            let mut value = HeaderValue::from_str(value.trim())
                .map_err(|_| refused(format!("header {name:?} holds what no header may hold")))?;
            value.set_sensitive(true);
            headers.append(known, value);
        }
        Ok(headers)
    }

    /// The secrets that requests carry: what servers repeat of them is masked.
    pub(super) fn secrets(&self) -> KnownSecrets {
        let headers =
            self.headers.iter().filter(|(name, _)| !is_ordinary(name)).flat_map(|(_, value)| {
                // `Bearer TOKEN`, and cookies of several values.
                let parts = value
                    .split([' ', ';'])
                    .map(|part| part.split_once('=').map_or(part, |(_, v)| v));
                std::iter::once(value.as_str()).chain(parts)
            });
        let query = Url::parse(self.url.trim()).ok();
        let query = query.iter().flat_map(|url| {
            // As it was written, and as a server reads it.
            let decoded =
                url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned()));
            let written = url.query().unwrap_or_default().split('&').filter_map(|pair| {
                pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
            });
            decoded.chain(written).collect::<Vec<_>>()
        });
        let query = query.filter(|(name, _)| names_secret(name)).map(|(_, value)| value);
        KnownSecrets::new(headers.map(str::to_owned).chain(query))
    }

    pub(super) fn client(&self, url: &Url) -> Result<reqwest::Client> {
        // One provider of cryptography for the process; the first one stays.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let loopback = url.host_str().is_some_and(|host| {
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        });
        // A redirect could carry headers to where they are not meant for.
        let mut client = reqwest::Client::builder()
            .connect_timeout(self.connect_timeout)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("tract/", env!("CARGO_PKG_VERSION")));
        if loopback {
            client = client.no_proxy();
        }
        client.build().map_err(|error| McpError::Url { reason: error.without_url().to_string() })
    }
}

/// Whether a header of this name carries no secret.
fn is_ordinary(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    let known = ["host", "origin", "referer", "user-agent", "cache-control", "connection"];
    name.starts_with("accept") || name.starts_with("content-") || known.contains(&name.as_str())
}

/// Whether a parameter of this name carries a secret.
fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "auth", "pass", "sig", "code", "session", "cred"]
        .into_iter()
        .any(|part| name.contains(part))
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerUrl").field(&self.shown()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_headers_that_cannot_be_used_are_refused() {
        let reason = |url: &str| match ServerUrl::new(url).url() {
            Err(McpError::Url { reason }) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason("example.com/mcp").contains("relative"));
        assert_eq!(reason("ftp://h/mcp"), "expected http or https, found ftp");
        assert!(reason("https://a:b@h/mcp").contains("credentials"));
        let bad = ServerUrl::new("http://h").header("x", "a\nb").headers().unwrap_err();
        assert!(!bad.to_string().contains("a\nb"), "{bad}");
        assert!(ServerUrl::new("http://h").header("no name", "a").headers().is_err());
        assert_eq!(ServerUrl::new("https://a:b@h/mcp?k=1#f").shown(), "https://h/mcp");
    }
}
