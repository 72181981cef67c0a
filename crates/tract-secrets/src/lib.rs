//! Finds keys and passwords in text, and replaces them with marks.
//!
//! The patterns favor precision: a prefix that only one issuer uses, a structure such as that of a
//! JSON Web Token, or a name like `api_key` before a value that looks random. A password that is a
//! plain word is found only in a place that cannot contain anything else, such as an element of XML
//! or a connection string.
//!
//! ```
//! use tract_secrets::Scanner;
//! // Written in two pieces, so that scanners of repositories pass over this page.
//! let text = format!("export GITHUB_TOKEN=ghp_{}", "16C7e42F292c6912E7710c838347Ae178B4a");
//! let redacted = Scanner::builtin().redact(&text).expect("a key is in it");
//! assert_eq!(redacted.text, "export GITHUB_TOKEN=[redacted:github-token:ed12f64e]");
//! ```
#![forbid(unsafe_code)]

mod escapes;
mod json;
mod kind;
mod likely;
mod mark;
mod members;
mod named;
mod names;
mod rules;
mod value;

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::Regex;

pub use self::escapes::{ESCAPE_LEVELS, find_through_escapes};
pub use self::json::is_opaque_field;
pub use self::kind::SecretKind;
pub use self::mark::mark;
use self::mark::{mark_length, outside_marks};
pub use self::members::redact_members;
use self::rules::Rules;

/// A secret in a text: its kind and its byte range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretMatch {
    /// The kind of secret.
    pub kind: SecretKind,
    /// Its byte range in the text, on character boundaries.
    pub range: Range<usize>,
}

/// A text with its secrets replaced. Holds no secret, so its `Debug` output is safe to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// The text with a mark in place of each secret.
    pub text: String,
    /// The secrets that were replaced, in order. The ranges refer to the original text.
    pub found: Vec<SecretMatch>,
}

/// Error of a pattern added by the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is not a valid regular expression.
    #[error("invalid pattern {pattern:?}: {cause}")]
    Invalid {
        /// The pattern.
        pattern: String,
        /// The error of the regex compiler.
        cause: String,
    },
    /// The pattern matches the empty text, and so would match everywhere.
    #[error("pattern {pattern:?} matches the empty text, so it says nothing about a secret")]
    Empty {
        /// The pattern.
        pattern: String,
    },
}

/// Finds secrets. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Scanner {
    builtin: Option<&'static Rules>,
    patterns: Vec<Arc<Regex>>,
}

/// Maximum number of scans of one text. A mark ends the match of most patterns, so scans after the
/// second rarely find anything. The bound keeps the time linear for patterns of the caller too.
const MAX_ROUNDS: usize = 8;

static BUILTIN: LazyLock<Scanner> =
    LazyLock::new(|| Scanner { builtin: Some(&RULES), patterns: Vec::new() });
static RULES: LazyLock<Rules> = LazyLock::new(Rules::new);

impl Scanner {
    /// Returns the scanner with all built-in patterns and no others. It is compiled once per
    /// process.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Creates a scanner without patterns. It finds nothing until patterns are added.
    pub fn empty() -> Self {
        Self { builtin: None, patterns: Vec::new() }
    }

    /// Adds a regular expression. The secret is its first group, or the whole match if there is no
    /// group.
    ///
    /// # Errors
    /// [`PatternError`] if it is invalid, too large, or matches the empty text.
    pub fn with_pattern(mut self, pattern: &str) -> Result<Self, PatternError> {
        let regex = Regex::new(pattern).map_err(|error| PatternError::Invalid {
            pattern: pattern.to_owned(),
            // The lines before the last one repeat the pattern, with a pointer into it.
            cause: error.to_string().lines().last().unwrap_or_default().trim().to_owned(),
        })?;
        if regex.is_match("") {
            return Err(PatternError::Empty { pattern: pattern.to_owned() });
        }
        self.patterns.push(Arc::new(regex));
        Ok(self)
    }

    /// Finds the secrets in a text.
    ///
    /// # Behavior
    /// - Returns matches in order, without overlap. Overlapping matches are joined into one, with
    ///   the kind of the one that starts first.
    /// - Takes time linear in the text for the built-in patterns, and memory for the matches.
    /// - Decodes JSON escapes, also those of JSON strings within JSON strings, up to six levels:
    ///   `postgres:\/\/…` and `\u0067hp_…` are found, with their range as written.
    /// - Finds nothing in the marks that [`redact`](Self::redact) writes.
    /// - Scans again after each redaction, since some secrets only match once their neighbor is a
    ///   mark. Redacting a redacted text therefore changes nothing.
    pub fn find(&self, text: &str) -> Vec<SecretMatch> {
        let mut found = self.find_once(text);
        for _ in 1..MAX_ROUNDS {
            let Some(redacted) = replace(text, found.clone()) else { break };
            let next = self.find_once(&redacted.text);
            if next.is_empty() {
                break;
            }
            found.extend(before_redaction(next, &found));
            found = join(found);
        }
        found
    }

    fn find_once(&self, text: &str) -> Vec<SecretMatch> {
        let is_escaped = match self.patterns.is_empty() {
            true => escapes::hides_letters(text),
            false => text.contains('\\'),
        };
        if !is_escaped {
            return join(self.find_plain(text));
        }
        let found = find_through_escapes(text, |_, text| {
            let found = self.find_plain(text).into_iter();
            found.map(|secret| (secret.range, secret.kind)).collect()
        });
        join(found.into_iter().map(|(range, kind)| SecretMatch { kind, range }).collect())
    }

    /// Finds the secrets in a text without decoding escapes.
    fn find_plain(&self, text: &str) -> Vec<SecretMatch> {
        let mut found = Vec::new();
        if let Some(rules) = self.builtin {
            rules.find(text, &mut found);
            named::find(text, &mut found);
        }
        for pattern in &self.patterns {
            let groups = usize::from(pattern.captures_len() > 1);
            for captures in pattern.captures_iter(text) {
                let whole = captures.get(groups).or_else(|| captures.get(0));
                let range = whole.map(|secret| secret.range()).unwrap_or_default();
                if let Some(range) = outside_marks(text, range).filter(|range| !range.is_empty()) {
                    found.push(SecretMatch { kind: SecretKind::Pattern, range });
                }
            }
        }
        found
    }

    /// Replaces the secrets in a text; `None` if there are none.
    pub fn redact(&self, text: &str) -> Option<Redacted> {
        replace(text, self.find(text))
    }

    /// Finds the secrets in a JSON text, except in fields that only a provider can read: signatures
    /// and encrypted content (see [`is_opaque_field`]), and base64 of media in a field `data`.
    /// Providers reject a request in which these were changed.
    ///
    /// A field `data` is skipped if it has at least 64 characters of base64 next to a media type or
    /// a `type` such as `redacted_thinking`, or if its base64 is longer than any key.
    ///
    /// If the text is not valid JSON, the fields that can be recognized are still skipped.
    pub fn find_in_json(&self, json: &str) -> Vec<SecretMatch> {
        let mut found = self.find(json);
        if !found.is_empty() {
            json::leave_opaque(json, &mut found);
        }
        found
    }

    /// Replaces the secrets in a JSON text, except in opaque fields; `None` if there are none.
    /// Valid JSON stays valid, unless a pattern of the caller matches quotes.
    pub fn redact_json(&self, json: &str) -> Option<Redacted> {
        replace(json, self.find_in_json(json))
    }
}

/// Replaces the words of an identifier that look like credentials, such as those of a session id or
/// a user agent; `None` if there are none. The same identifier always gets the same replacement.
///
/// UUIDs, ULIDs and hashes are kept.
///
/// ```
/// use tract_secrets::redact_identifier;
/// let redacted = redact_identifier("agent/q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ (linux)");
/// assert!(redacted.is_some_and(|text| text.starts_with("agent/[redacted:")));
/// assert_eq!(redact_identifier("claude-cli/2.0.1 (external, cli)"), None);
/// assert_eq!(redact_identifier("0b1a6f3e-93c5-4b6a-8a63-2b1d7f0c9e55"), None);
/// ```
pub fn redact_identifier(text: &str) -> Option<String> {
    if let Some(redacted) = Scanner::builtin().redact(text) {
        return Some(redact_identifier(&redacted.text).unwrap_or(redacted.text));
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '~');
    let mut out = String::with_capacity(text.len());
    let mut is_changed = false;
    for piece in text.split_inclusive(|c| !is_part(c)) {
        let word = piece.trim_end_matches(|c| !is_part(c));
        if likely::is_secret_word(word) && !out.ends_with(':') {
            out.push_str(&mark(&SecretKind::Assigned, word));
            out.push_str(piece.get(word.len()..).unwrap_or_default());
            is_changed = true;
        } else {
            out.push_str(piece);
        }
    }
    is_changed.then_some(out)
}

/// Sorts matches, and joins those that overlap.
fn join(mut found: Vec<SecretMatch>) -> Vec<SecretMatch> {
    // The sort is stable: if two matches start together, the earlier rule determines the kind.
    found.sort_by_key(|secret| secret.range.start);
    let mut joined: Vec<SecretMatch> = Vec::with_capacity(found.len());
    for secret in found {
        match joined.last_mut() {
            Some(last) if secret.range.start < last.range.end => {
                last.range.end = last.range.end.max(secret.range.end);
            }
            _ => joined.push(secret),
        }
    }
    joined
}

/// Maps matches in a redacted text to ranges in the original. `found` lists the replaced secrets,
/// in order.
fn before_redaction(matches: Vec<SecretMatch>, found: &[SecretMatch]) -> Vec<SecretMatch> {
    let mut shift = 0_isize;
    let marks: Vec<Range<usize>> = found
        .iter()
        .map(|secret| {
            let start = secret.range.start.saturating_add_signed(shift);
            let end = start + mark_length(&secret.kind);
            shift = end.cast_signed() - secret.range.end.cast_signed();
            start..end
        })
        .collect();
    let before = |at: usize| {
        let index = marks.partition_point(|mark| mark.start <= at).checked_sub(1);
        match index.and_then(|index| marks.get(index).zip(found.get(index))) {
            None => at,
            // A match contains whole marks only, so an offset inside of a mark is its start.
            Some((mark, secret)) if at < mark.end => secret.range.start,
            Some((mark, secret)) => secret.range.end + (at - mark.end),
        }
    };
    let moved = |secret: SecretMatch| SecretMatch {
        range: before(secret.range.start)..before(secret.range.end),
        ..secret
    };
    matches.into_iter().map(moved).collect()
}

fn replace(text: &str, found: Vec<SecretMatch>) -> Option<Redacted> {
    if found.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for secret in &found {
        out.push_str(text.get(from..secret.range.start).unwrap_or_default());
        out.push_str(&mark(&secret.kind, text.get(secret.range.clone()).unwrap_or_default()));
        from = secret.range.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Some(Redacted { text: out, found })
}
