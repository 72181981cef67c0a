//! Masks a client's own secrets in the answers of a server.

use std::borrow::Cow;

use serde_json::Value;

/// The replacement of a known secret.
const MASK: &str = "[key]";
/// Minimum length of a secret in bytes. Shorter ones occur in too many texts.
const SHORTEST: usize = 8;
/// Maximum number of escape levels: JSON strings within JSON strings.
const MAX_NESTING: usize = 4;
/// Maximum number of bytes at the end of a text in which the beginning of an escaped secret is looked
/// for.
const MAX_ESCAPED: usize = 1024;

/// The secrets that a client sends, such as a key or a token. An answer that repeats one of them
/// must be masked before it is printed or stored.
///
/// ```
/// use tract_core::KnownSecrets;
/// let secrets = KnownSecrets::new(["tok-0123456789"]);
/// assert!(secrets.are_in(r"..tok-\u0030123456789.."));
/// assert_eq!(secrets.mask("bad token tok-0123456789"), "bad token [key]");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KnownSecrets(Vec<String>);

impl KnownSecrets {
    /// Creates a set of secrets. Those shorter than eight bytes are ignored.
    pub fn new<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .map(|secret| secret.into().trim().to_owned())
            .filter(|secret| secret.len() >= SHORTEST)
            .collect();
        // Longest first: a secret may contain another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// Returns whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a text contains a secret, either as it is or behind JSON escapes.
    pub fn are_in(&self, text: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut text = Cow::Borrowed(text);
        for _ in 0..MAX_NESTING {
            if self.are_plainly_in(&text) {
                return true;
            }
            let Cow::Owned(unescaped) = unescaped(&text) else { return false };
            text = Cow::Owned(unescaped);
        }
        self.are_plainly_in(&text)
    }

    fn are_plainly_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret))
    }

    /// Returns the length of the text's end that may be the start of a secret continued in the next
    /// text, also of one that is written with JSON escapes, of which the last may be cut.
    pub fn begun_at_end(&self, text: &str) -> usize {
        let plain = self.plainly_begun_at_end(text);
        let first = text.len().saturating_sub(MAX_ESCAPED);
        let start = (first..text.len()).find(|at| text.is_char_boundary(*at));
        let tail = start.and_then(|start| text.get(start..)).unwrap_or_default();
        if !tail.contains('\\') {
            return plain;
        }
        let may_begin = |(at, _): &(usize, char)| {
            let text = without_cut_escape(tail.get(*at..).unwrap_or_default());
            let mut decoded = Cow::Borrowed(text);
            for _ in 0..MAX_NESTING {
                let Cow::Owned(unescaped) = unescaped(&decoded) else { break };
                decoded = Cow::Owned(unescaped);
            }
            self.plainly_begun_at_end(&decoded) == decoded.len()
        };
        let escaped = tail.char_indices().find(may_begin).map_or(0, |(at, _)| tail.len() - at);
        plain.max(escaped)
    }

    fn plainly_begun_at_end(&self, text: &str) -> usize {
        let begun = |secret: &String| {
            let longest = secret.len().saturating_sub(1).min(text.len());
            let ends = |length: &usize| {
                let start = text.len() - length;
                text.as_bytes().get(start..) == secret.as_bytes().get(..*length)
                    && text.is_char_boundary(start)
            };
            (1..=longest).rev().find(ends).unwrap_or(0)
        };
        self.0.iter().map(begun).max().unwrap_or(0)
    }

    /// Replaces each secret in a text with `[key]`.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for secret in &self.0 {
            if masked.contains(secret) {
                masked = Cow::Owned(masked.replace(secret, MASK));
            }
        }
        masked
    }

    /// Replaces each secret in a JSON text with `[key]`, including escaped ones. The text is
    /// otherwise unchanged, unless a secret is escaped: then numbers and white space may be
    /// rewritten.
    pub fn mask_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let masked = self.mask(json);
        if !self.are_in(&masked) {
            return masked;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&masked) else {
            return Cow::Owned(self.mask(&unescaped(&masked)).into_owned());
        };
        self.mask_value(&mut value);
        Cow::Owned(value.to_string())
    }

    fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.mask_string(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(members) => {
                let masked = std::mem::take(members).into_iter().map(|(mut name, mut member)| {
                    self.mask_string(&mut name);
                    self.mask_value(&mut member);
                    (name, member)
                });
                *members = masked.collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn mask_string(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.mask(text) {
            *text = masked;
        }
        // A string that contains an escaped secret cannot be masked in part.
        if self.are_in(text) {
            *text = MASK.to_owned();
        }
    }
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KnownSecrets({})", self.0.len())
    }
}

/// Removes an escape without its end, such as `\u00`.
fn without_cut_escape(text: &str) -> &str {
    let Some(at) = text.rfind('\\') else { return text };
    let end = text.get(at + 1..).unwrap_or_default();
    let is_cut = match end.strip_prefix('u') {
        Some(digits) => digits.len() < 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => end.is_empty(),
    };
    match is_cut {
        true => text.get(..at).unwrap_or_default().trim_end_matches('\\'),
        false => text,
    }
}

/// Decodes JSON escapes once; borrowed if there are none.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split('\\');
    out.push_str(pieces.next().unwrap_or_default());
    let mut escaped = false;
    for piece in pieces {
        // Two backslashes are an escaped one; the text after them is literal.
        if escaped {
            out.push_str(piece);
            escaped = false;
            continue;
        }
        let mut chars = piece.chars();
        match chars.next() {
            None => {
                out.push('\\');
                escaped = true;
                continue;
            }
            Some('u') => {
                let code = piece.get(1..5).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                match code.and_then(char::from_u32) {
                    Some(decoded) => {
                        out.push(decoded);
                        out.push_str(piece.get(5..).unwrap_or_default());
                        continue;
                    }
                    None => out.push('u'),
                }
            }
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some(other) => out.push(other),
        }
        out.push_str(chars.as_str());
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "tok-ABC-0123456789";

    #[test]
    fn a_secret_is_found_behind_any_number_of_escapes() {
        let secrets = KnownSecrets::new([KEY, "short"]);
        let mut text = KEY.replace('A', "\\u0041");
        for _ in 0..3 {
            assert!(secrets.are_in(&text), "{text}");
            text = serde_json::to_string(&text).unwrap();
        }
        assert!(!secrets.are_in("short, and tok-ABC-012345678"));
        assert!(secrets.are_in(&format!("\\\\{KEY}")));
        assert!(!secrets.are_in("\\u00"));
    }

    #[test]
    fn masking_keeps_all_else() {
        let secrets = KnownSecrets::new([KEY]);
        let json = format!(r#"{{"n": 1.50, "a":"x {KEY} y"}}"#);
        assert_eq!(secrets.mask_json(&json), r#"{"n": 1.50, "a":"x [key] y"}"#);
        let escaped = json.replace("ABC", r"A\u0042C");
        assert!(!secrets.are_in(&secrets.mask_json(&escaped)));
        assert!(secrets.mask_json(&escaped).contains("\"x [key] y\""));
        let same = r#"{"n": 1.50, "a": "\u0041"}"#;
        assert!(matches!(secrets.mask_json(same), Cow::Borrowed(text) if text == same));
        assert!(!secrets.are_in(&secrets.mask_json(&format!("not json {}", escaped))));
    }

    #[test]
    fn the_beginning_of_a_secret_at_the_end_is_measured() {
        let secrets = KnownSecrets::new([KEY]);
        assert_eq!(secrets.begun_at_end("x tok-AB"), 6);
        assert_eq!(secrets.begun_at_end("x"), 0);
        assert_eq!(secrets.begun_at_end("ät"), 1);
        assert_eq!(secrets.begun_at_end(""), 0);
    }
}
