//! The pattern: a regular expression that is held against lines.

use std::ops::Range;

use regex::{Regex, RegexBuilder};

use crate::error::{Error, Result};

/// The most memory that a compiled pattern may take, in bytes.
const MAX_COMPILED: usize = 4 << 20;
/// The most memory that a search may cache for a pattern, in bytes.
const MAX_CACHE: usize = 4 << 20;

/// What to search for: a regular expression in the syntax of the `regex` crate, held against each
/// line by itself. Searching takes time linear in the text for any pattern.
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
    /// Whether a line that matches by itself also matches inside the text. Only an anchor of the
    /// whole text (`\A`, `\z`) can make that false.
    matches_in_text: bool,
}

/// How a [`GrepPattern`] is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrepPatternBuilder {
    ignore_case: bool,
    word: bool,
}

impl GrepPattern {
    /// Begins a pattern that distinguishes case and matches anywhere in a line.
    #[allow(clippy::new_ret_no_self, reason = "a pattern is built from its text last")]
    pub fn new() -> GrepPatternBuilder {
        GrepPatternBuilder::default()
    }

    /// Returns whether a line matches.
    pub fn is_match(&self, line: &str) -> bool {
        self.regex.is_match(line)
    }

    /// Returns where the first match of a line is, in bytes.
    pub(super) fn find(&self, line: &str) -> Option<Range<usize>> {
        self.regex.find(line).map(|found| found.range())
    }

    /// Returns whether a line of a text may match: a quick answer for texts without a match.
    pub(super) fn may_match(&self, text: &str) -> bool {
        !self.matches_in_text || self.regex.is_match(text)
    }
}

impl GrepPatternBuilder {
    /// Sets whether upper and lower case are the same.
    #[must_use]
    pub fn ignore_case(self, ignore_case: bool) -> Self {
        Self { ignore_case, ..self }
    }

    /// Sets whether a match must begin and end where a word does.
    #[must_use]
    pub fn word(self, word: bool) -> Self {
        Self { word, ..self }
    }

    /// Reads a regular expression.
    ///
    /// # Errors
    /// [`Error::BadPattern`] when it is not one, or takes too much memory.
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
        // Apart first: what is put around it must not close a group for it.
        self.compiled(pattern).map_err(bad)?;
        let worded = format!(r"\b{{start-half}}(?:{pattern})\b{{end-half}}");
        let regex = self.compiled(if self.word { &worded } else { pattern }).map_err(bad)?;
        let matches_in_text = !pattern.contains(r"\A") && !pattern.contains(r"\z");
        Ok(GrepPattern { regex, matches_in_text })
    }

    /// Takes a text as it is.
    ///
    /// # Errors
    /// [`Error::BadPattern`] when it is too long.
    pub fn text(self, text: &str) -> Result<GrepPattern> {
        self.regex(&regex::escape(text))
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

    proptest! {
        #[test]
        fn a_text_without_a_match_has_no_line_with_one(
            pattern in r"(\^|\\b|\\A)?[ab ]{0,2}([ab]\*|\\s|\.|\\W)?[ab]{0,2}(\$|\\z|\\B)?",
            text in "[ab \n\u{e4}]{0,12}",
            word: bool,
        ) {
            let pattern = GrepPattern::new().word(word).regex(&pattern).unwrap();
            if text.split('\n').any(|line| pattern.is_match(line)) {
                prop_assert!(pattern.may_match(&text));
            }
        }
    }
}
