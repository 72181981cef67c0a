//! The servers that requests are forwarded to: only the configured ones.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, Scheme};
use tract_providers::{Dialect, api_of};

use crate::error::Error;

/// The base URL of a model server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// Without a trailing slash; empty for the root.
    path: String,
}

impl Upstream {
    /// Returns the path of its base URL, without a trailing slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns its host, with the port if the URL has one.
    pub fn host(&self) -> &str {
        self.authority.as_str()
    }

    /// Returns the URL of a path and query on this server. The path includes the base path.
    pub(crate) fn at(&self, path_and_query: &str) -> Option<Uri> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path_and_query)
            .build()
            .ok()
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

impl FromStr for Upstream {
    type Err = Error;

    /// Parses a base URL. A bare host, such as a value of `OLLAMA_HOST`, uses `http`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |why| Error::Upstream { found: shown(text), why };
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = whole.parse().map_err(|_| refused("it is no url"))?;
        let scheme = uri.scheme().cloned().ok_or_else(|| refused("it has no scheme"))?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(refused("its scheme is neither http nor https"));
        }
        let authority = uri.authority().cloned().ok_or_else(|| refused("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("a user and a password do not belong into it"));
        }
        if authority.host().is_empty() {
            return Err(refused("it has no host"));
        }
        if uri.query().is_some() {
            return Err(refused("a query does not belong into it"));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme, authority, path })
    }
}

/// Returns a URL for an error message, without user and query, which may be secret.
fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => text.to_owned(),
    }
}

/// A name in the proxy's paths, with the server that its requests go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The path segment after the secret one; empty if there is only one upstream.
    pub name: String,
    /// The server.
    pub upstream: Upstream,
}

impl Route {
    /// Makes the route of a proxy with a single upstream.
    pub fn only(upstream: Upstream) -> Self {
        Self { name: String::new(), upstream }
    }
}

/// An environment variable with the base URL that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseVariable {
    /// The variable.
    pub variable: &'static str,
    /// The route's name.
    pub route: &'static str,
    /// The default server of clients; absent if it depends on the account.
    pub default: Option<&'static str>,
    /// The port of a bare host, if the variable may be one.
    pub port: Option<u16>,
}

/// The variables of cloud services, whose servers depend on the account.
const CLOUD_VARIABLES: [(&str, &str); 3] = [
    ("GOOGLE_VERTEX_BASE_URL", "vertex"),
    ("ANTHROPIC_VERTEX_BASE_URL", "anthropic-vertex"),
    ("ANTHROPIC_BEDROCK_BASE_URL", "anthropic-bedrock"),
];

/// Returns the variables of known clients: those of all providers, then those of cloud services.
pub fn base_variables() -> Vec<BaseVariable> {
    let mut variables: Vec<BaseVariable> = Vec::new();
    for dialect in Dialect::ALL {
        let api = api_of(dialect);
        // Several dialects may share a server.
        if variables.iter().all(|known| known.variable != api.base_variable) {
            variables.push(BaseVariable {
                variable: api.base_variable,
                route: dialect.as_str(),
                default: Some(api.base_url),
                port: api.port,
            });
        }
    }
    let cloud = |(variable, route)| BaseVariable { variable, route, default: None, port: None };
    variables.extend(CLOUD_VARIABLES.map(cloud));
    variables
}

/// Returns the routes for a child process: for each variable, the server in `set`, else the
/// client's default.
///
/// # Errors
/// [`Error::Upstream`] if the value of a variable is not a base URL.
pub fn routes(set: impl Fn(&str) -> Option<String>) -> Result<Vec<Route>, Error> {
    let mut routes = Vec::new();
    for base in base_variables() {
        let value = set(base.variable).filter(|value| !value.trim().is_empty());
        let Some(url) = value.as_deref().or(base.default) else { continue };
        let mut upstream: Upstream = url.trim().parse()?;
        if let Some(port) = base.port
            && upstream.authority.port().is_none()
            && !url.contains("://")
        {
            let with_port = format!("{}:{port}", upstream.authority);
            upstream.authority = with_port.parse().unwrap_or(upstream.authority);
        }
        // The Ollama server reads the same variable as the address to listen on.
        if upstream.authority.host() == "0.0.0.0" {
            let local = upstream.authority.as_str().replacen("0.0.0.0", "127.0.0.1", 1);
            upstream.authority = local.parse().unwrap_or(upstream.authority);
        }
        routes.push(Route { name: base.route.to_owned(), upstream });
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let found = text.parse::<Upstream>().map(|upstream| upstream.to_string());
        let found = found.map_err(|error| error.to_string());
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            _ => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn base_urls_are_read_and_never_quoted_with_secrets() {
        check("https://api.openai.com/v1/", Ok("https://api.openai.com/v1"));
        check("127.0.0.1:11434", Ok("http://127.0.0.1:11434"));
        check("ftp://host", Err("neither http nor https"));
        check("https://user:hunter2@host/", Err("a user and a password"));
        check("https://host/?key=hunter2", Err("a query"));
        for secret in ["https://user:hunter2@host/", "https://host/?key=hunter2"] {
            let error = secret.parse::<Upstream>().expect_err("it is refused").to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_variable_that_is_set_names_the_upstream() {
        let set = |name: &str| match name {
            "OPENAI_BASE_URL" => Some("http://gateway.test/team/v1".to_owned()),
            "OLLAMA_HOST" => Some("0.0.0.0".to_owned()),
            "GOOGLE_VERTEX_BASE_URL" => Some("https://vertex.test".to_owned()),
            _ => None,
        };
        let routes = routes(set).expect("they are base urls");
        let of = |name: &str| {
            let route = routes.iter().find(|route| route.name == name);
            route.map(|route| route.upstream.to_string())
        };
        assert_eq!(of("openai").as_deref(), Some("http://gateway.test/team/v1"));
        assert_eq!(of("ollama").as_deref(), Some("http://127.0.0.1:11434"));
        assert_eq!(of("anthropic").as_deref(), Some("https://api.anthropic.com"));
        assert_eq!(of("vertex").as_deref(), Some("https://vertex.test"));
        assert_eq!(of("anthropic-bedrock"), None);
    }
}
