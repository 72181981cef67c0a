//! Headers: the forwarded ones and the stored ones.

use std::collections::HashSet;

use http::header::{self, HeaderMap, HeaderName};

/// Headers that may be stored. All others, keys and cookies among them, are only forwarded.
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

/// Headers of a single connection, which a proxy must not forward. `trailer` is not one of them:
/// trailers are forwarded.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Returns the headers that may be stored.
pub(crate) fn stored(headers: &HeaderMap) -> HeaderMap {
    let is_stored = |name: &HeaderName| STORED_HEADERS.contains(&name.as_str());
    let kept = headers.iter().filter(|(name, _)| is_stored(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Removes the headers of this connection, and `more`. The others keep their order, which removing
/// headers one by one would change.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap, more: &[HeaderName]) {
    let mut removed: HashSet<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    removed.extend(more.iter().cloned());
    let is_kept =
        |name: &&HeaderName| !HOP_BY_HOP.contains(&name.as_str()) && !removed.contains(*name);
    let mut kept = HeaderMap::with_capacity(headers.len());
    let mut last = None;
    for (name, value) in std::mem::take(headers) {
        // Only the first value of a header comes with its name.
        last = name.or(last);
        if let Some(name) = last.as_ref().filter(is_kept) {
            kept.append(name.clone(), value);
        }
    }
    *headers = kept;
}

/// Returns whether a client accepts trailers.
pub(crate) fn takes_trailers(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::TE).iter().filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(','));
    codings.any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
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
        assert!(takes_trailers(&headers));
        remove_hop_by_hop(&mut headers, &[]);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-api-key", "anthropic-ratelimit-requests-remaining"]);
    }

    #[test]
    fn headers_that_pass_keep_their_order() {
        let mut headers = of(&[
            ("host", "h"),
            ("a", "1"),
            ("connection", "close"),
            ("b", "1"),
            ("a", "2"),
            ("c", "1"),
            ("te", "gzip"),
            ("d", "1"),
        ]);
        assert!(!takes_trailers(&headers));
        remove_hop_by_hop(&mut headers, &[header::HOST]);
        let left: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
            .collect();
        assert_eq!(left, [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1"), ("d", "1")]);
    }
}
