//! Headers: which pass, and which are kept.

use http::header::{self, HeaderMap, HeaderName};

/// Headers that may be kept. All others pass and are forgotten, keys and cookies among them.
pub const STORED_HEADERS: &[&str] = &[
    "anthropic-beta",
    "anthropic-version",
    "content-encoding",
    "content-type",
    "request-id",
    "session-id",
    "thread-id",
    "user-agent",
    "x-claude-code-agent-id",
    "x-claude-code-session-id",
    "x-request-id",
    "x-session-id",
];

/// Headers of one connection, which end at a proxy.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns the headers that may be kept.
pub(crate) fn stored(headers: &HeaderMap) -> HeaderMap {
    let is_stored = |name: &HeaderName| STORED_HEADERS.contains(&name.as_str());
    let kept = headers.iter().filter(|(name, _)| is_stored(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Removes the headers that are for this connection alone.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(*name);
    }
}

/// Returns the text of a header; `None` for an empty one.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, value.parse().expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn headers_of_the_deny_list_are_not_kept() {
        let denied = [
            "authorization",
            "x-api-key",
            "x-goog-api-key",
            "api-key",
            "cookie",
            "set-cookie",
            "proxy-authorization",
            "openai-organization",
        ];
        let all: Vec<(&str, &str)> = denied.iter().map(|name| (*name, "secret")).collect();
        assert!(stored(&of(&all)).is_empty());
        assert_eq!(stored(&of(&[("Session-Id", "s")])).len(), 1);
    }

    #[test]
    fn hop_by_hop_headers_end_here_and_all_others_pass() {
        let mut headers = of(&[
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("x-api-key", "k"),
            ("anthropic-ratelimit-requests-remaining", "3"),
        ]);
        remove_hop_by_hop(&mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-api-key", "anthropic-ratelimit-requests-remaining"]);
    }
}
