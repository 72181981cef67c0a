//! The pattern of a grep: a regular expression that is matched against single lines.

use std::ops::Range;

use memchr::memmem::{self, Finder};
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, Look};
use tract_core::words::{NormalForm, NormalText};
use unicode_normalization::UnicodeNormalization as _;

use crate::repo::error::{Error, Result};

/// Memory limit of a compiled pattern, in bytes.
const MAX_COMPILED: usize = 4 << 20;
/// Memory limit of the caches of a running match, in bytes.
const MAX_CACHE: usize = 4 << 20;

/// Maximum number of needles. They are searched for one after another.
const MAX_NEEDLES: usize = 8;
/// Minimum length of a needle in letters. Shorter runs also occur in numbers, which JSON may write
/// differently, such as `e`.
const MIN_NEEDLE: usize = 3;

/// A pattern: a regular expression in the syntax of the `regex` crate, matched against each line on
/// its own. Matching takes time linear in the text for any pattern.
///
/// ```
/// use tract_engine::GrepPattern;
/// let pattern = GrepPattern::new().ignore_case(true).word(true).regex("timeouts?")?;
/// assert!(pattern.is_match("a Timeout occurred"));
/// assert!(!pattern.is_match("timeoutless"));
/// # Ok::<(), tract_engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GrepPattern {
    regex: Regex,
    /// Whether a line that matches on its own also matches as part of a text. False only if the
    /// pattern has an anchor of the whole text (`\A`, `\z`, or `^` and `$` under `(?-m)`).
    matches_in_text: bool,
    /// Runs of letters, one of which is in every match; empty if unknown.
    needles: Vec<Finder<'static>>,
    /// Whether the pattern is plain text, which is compared in NFC.
    is_text: bool,
}

/// Options for building a [`GrepPattern`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GrepPatternBuilder {
    ignore_case: bool,
    word: bool,
}

impl GrepPattern {
    /// Returns a builder for a pattern that is case-sensitive and matches anywhere in a line.
    #[allow(clippy::new_ret_no_self, reason = "a pattern is built from its text last")]
    pub fn new() -> GrepPatternBuilder {
        GrepPatternBuilder::default()
    }

    /// Returns whether a line matches.
    pub fn is_match(&self, line: &str) -> bool {
        match self.normal(line) {
            Some(normal) => self.regex.is_match(&normal.text),
            None => self.regex.is_match(line),
        }
    }

    fn normal(&self, text: &str) -> Option<NormalText> {
        self.is_text.then(|| NormalText::of(text, NormalForm::Composed)).flatten()
    }

    /// Returns the byte range of the first match in a line.
    pub(super) fn find(&self, line: &str) -> Option<Range<usize>> {
        match self.normal(line) {
            Some(normal) => {
                self.regex.find(&normal.text).map(|found| normal.original(&found.range()))
            }
            None => self.regex.find(line).map(|found| found.range()),
        }
    }

    /// Returns whether a stored content may match, before it is parsed. Most contents contain no
    /// needle.
    ///
    /// Needles consist of letters only. No rule of [`text`](super::text) joins or creates letters,
    /// and JSON writes them literally except as `\u` escapes, so contents with such escapes have to
    /// be parsed.
    pub(super) fn may_match_stored(&self, stored: &[u8]) -> bool {
        self.needles.is_empty()
            || self.needles.iter().any(|needle| needle.find(stored).is_some())
            || memmem::find(stored, br"\u").is_some()
    }

    /// Returns whether a line of a text may match. Quickly rejects texts without a match.
    pub(super) fn may_match(&self, text: &str) -> bool {
        // `$` does not match before the `\r` of a line that ends in `\r\n`.
        !self.matches_in_text
            || memchr::memchr(b'\r', text.as_bytes()).is_some()
            || self.is_match(text)
    }
}

impl GrepPatternBuilder {
    /// Sets whether case is ignored.
    #[must_use]
    pub fn ignore_case(self, ignore_case: bool) -> Self {
        Self { ignore_case, ..self }
    }

    /// Sets whether a match must start and end at word boundaries.
    #[must_use]
    pub fn word(self, word: bool) -> Self {
        Self { word, ..self }
    }

    /// Compiles a regular expression.
    ///
    /// # Errors
    /// [`Error::BadPattern`] when it is invalid or takes too much memory.
    pub fn regex(self, pattern: &str) -> Result<GrepPattern> {
        let bad = |error: regex::Error| {
            let what = match error {
                regex::Error::CompiledTooBig(limit) => {
                    format!("too large when compiled (limit {limit} bytes)")
                }
                error => error.to_string(),
            };
            Error::BadPattern { text: pattern.to_owned(), what }
        };
        // Compile the pattern alone first, so that an unbalanced parenthesis cannot close the group
        // around it.
        self.compiled(pattern).map_err(bad)?;
        let worded = format!(r"\b{{start-half}}(?:{pattern})\b{{end-half}}");
        let regex = self.compiled(if self.word { &worded } else { pattern }).map_err(bad)?;
        let parsed = self.parsed(pattern);
        // However it is written, such an anchor can match only at an end of the line.
        let anchors = |parsed: &Hir| {
            let looks = parsed.properties().look_set();
            looks.contains(Look::Start) || looks.contains(Look::End)
        };
        let matches_in_text = parsed.as_ref().is_some_and(|parsed| !anchors(parsed));
        let needles = parsed.as_ref().and_then(needles).unwrap_or_default();
        Ok(GrepPattern { regex, matches_in_text, needles, is_text: false })
    }

    /// Builds a pattern that matches a text literally. Unicode spelling does not matter: pattern
    /// and lines are compared in NFC.
    ///
    /// # Errors
    /// [`Error::BadPattern`] when it is too long.
    pub fn text(self, text: &str) -> Result<GrepPattern> {
        let text: String = text.nfc().collect();
        Ok(GrepPattern { is_text: true, ..self.regex(&regex::escape(&text))? })
    }

    /// Parses a pattern with the same options as `compiled`.
    fn parsed(self, pattern: &str) -> Option<Hir> {
        let mut parser = regex_syntax::ParserBuilder::new();
        parser.case_insensitive(self.ignore_case).multi_line(true).build().parse(pattern).ok()
    }

    fn compiled(self, pattern: &str) -> std::result::Result<Regex, regex::Error> {
        RegexBuilder::new(pattern)
            .case_insensitive(self.ignore_case)
            .multi_line(true)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_CACHE)
            .build()
    }
}

/// Returns the needles: the longest run of letters of each prefix that a match can start with.
/// `None` if a prefix lacks such a run.
fn needles(parsed: &Hir) -> Option<Vec<Finder<'static>>> {
    let prefixes = Extractor::new().extract(parsed);
    let prefixes = prefixes.literals().filter(|found| found.len() <= MAX_NEEDLES)?;
    let run = |prefix: &[u8]| {
        let runs = prefix.split(|byte| !(byte.is_ascii_alphabetic() || *byte == b'_'));
        let longest = runs.max_by_key(|run| run.len())?;
        (longest.len() >= MIN_NEEDLE).then(|| Finder::new(longest).into_owned())
    };
    prefixes.iter().map(|prefix| run(prefix.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pattern_that_is_none_or_too_large_is_refused() {
        for bad in ["(", "a{2,1}", r"\p{Nope}", "a)|(b", r"(?:\w{1000}){1000}"] {
            for word in [false, true] {
                let refused = GrepPattern::new().word(word).regex(bad);
                assert!(matches!(refused, Err(Error::BadPattern { .. })), "{bad}: {refused:?}");
            }
        }
    }

    #[test]
    fn a_text_matches_in_both_spellings_of_its_characters() {
        for (wanted, line) in [("café", "a cafe\u{301} b"), ("cafe\u{301}", "a café b")] {
            let pattern = GrepPattern::new().text(wanted).unwrap();
            let found = pattern.find(line).expect("it matches");
            assert_eq!(line[found].nfc().collect::<String>(), "café");
            assert!(pattern.may_match(line) && !pattern.is_match("cafe"));
        }
        assert!(!GrepPattern::new().text("cafe").unwrap().is_match("cafe\u{301}"));
    }

    #[test]
    fn a_content_without_the_letters_of_a_pattern_is_not_read() {
        let pattern = |text: &str| GrepPattern::new().regex(text).unwrap();
        for (text, stored, expected) in [
            ("zzqx+y", r#"{"text":"nothing of it"}"#, false),
            ("zzqx+y", r#"{"text":"a zzqxy"}"#, true),
            ("zzqx+y", r#"{"text":"\u007azqxy"}"#, true),
            ("command: cat", r#"{"command":"cat"}"#, true),
            ("(alpha|beta)1", r#"{"text":"alp beth"}"#, false),
            ("(alpha|beta)1", r#"{"text":"beta1"}"#, true),
            (r"\d+ms", r#"{"text":"no"}"#, true),
            ("1e5", r#"{"n":100000.0}"#, true),
        ] {
            assert_eq!(
                pattern(text).may_match_stored(stored.as_bytes()),
                expected,
                "{text} {stored}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_content_with_a_match_is_read(
            pattern in r"(\^|\\b)?(alpha|be ta|\(one\|two\)|\(\?i\)gamma|a_b-c)[ab]?(\*|\+|\?)?",
            key in "[ab_ ]{1,4}",
            text in "(alpha|be ta|one|two|GAMma|a_b-c|[ab\u{e4}\"]){0,4}",
            word: bool,
        ) {
            let pattern = GrepPattern::new().word(word).regex(&pattern).unwrap();
            let arguments = serde_json::json!({key: text}).to_string();
            let stored = serde_json::json!({"parts": [{"text": text}, {"arguments": arguments}]}).to_string();
            let read = [text.as_str(), &super::super::text::lines(&arguments), &super::super::text::lines(&stored)];
            if read.iter().flat_map(|text| text.lines()).any(|line| pattern.is_match(line)) {
                prop_assert!(pattern.may_match_stored(stored.as_bytes()), "{stored}");
            }
        }

        #[test]
        fn a_text_without_a_match_has_no_line_with_one(
            pattern in r"(\^|\\b|\\A|\(\?-m\)\^|\(\?-m\))?[ab ]{0,2}([ab]\*|\\s|\.|\\W)?[ab]{0,2}(\$|\\z|\\B)?",
            text in "[ab \r\n\u{e4}]{0,12}",
            word: bool,
        ) {
            let pattern = GrepPattern::new().word(word).regex(&pattern).unwrap();
            if text.lines().any(|line| pattern.is_match(line)) {
                prop_assert!(pattern.may_match(&text));
            }
        }
    }
}
