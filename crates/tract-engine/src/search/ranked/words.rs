//! Splits texts and queries into words.

use std::collections::HashMap;
use std::ops::Range;

use crate::search::normal::{NormalForm, NormalText};

/// Maximum length of a word in characters. Longer runs of letters and digits are encoded data and
/// are skipped.
const MAX_RUN: usize = 100;
/// Number of bytes of a message that are indexed.
pub(super) const MAX_TEXT: usize = 64 << 10;

/// Calls `found` with each word of a text, in lower case, and its byte range.
///
/// A word is a run of letters, digits and `_`. An identifier of several parts (`parse_json`,
/// `parseJson`) counts as a word, and so does each part. In scripts without spaces between words,
/// each pair of adjacent characters is a word. Different spellings of one text give the same words:
/// the text is normalized to NFKC without marks.
pub(super) fn words(text: &str, mut found: impl FnMut(&str, Range<usize>)) {
    match NormalText::of(text, NormalForm::Folded) {
        Some(normal) => {
            words_of_normal(&normal.text, |word, range| found(word, normal.original(&range)));
        }
        None => words_of_normal(text, found),
    }
}

fn words_of_normal(text: &str, mut found: impl FnMut(&str, Range<usize>)) {
    let mut word = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, first)) = chars.next() {
        let (unspaced, in_word) = (is_unspaced(first), is_word(first));
        if !unspaced && !in_word {
            continue;
        }
        let mut end = start + first.len_utf8();
        while let Some((at, next)) =
            chars.next_if(|(_, c)| is_unspaced(*c) == unspaced && (unspaced || is_word(*c)))
        {
            end = at + next.len_utf8();
        }
        let run = text.get(start..end).unwrap_or_default();
        match unspaced {
            true => pairs(run, start, &mut word, &mut found),
            false => parts(run, start, &mut word, &mut found),
        }
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Returns whether a character belongs to a script that is written without spaces.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF)
}

fn lower<'a>(text: &str, word: &'a mut String) -> &'a str {
    word.clear();
    word.extend(text.chars().flat_map(char::to_lowercase));
    word
}

fn pairs(run: &str, start: usize, word: &mut String, found: &mut impl FnMut(&str, Range<usize>)) {
    let mut before = None;
    for (at, c) in run.char_indices() {
        let end = at + c.len_utf8();
        if let Some(from) = before.replace(at) {
            found(lower(run.get(from..end).unwrap_or_default(), word), start + from..start + end);
        } else if end == run.len() {
            found(lower(run, word), start..start + end);
        }
    }
}

fn parts(run: &str, start: usize, word: &mut String, found: &mut impl FnMut(&str, Range<usize>)) {
    let trimmed = run.trim_matches('_');
    if trimmed.is_empty() || run.chars().nth(MAX_RUN).is_some() {
        return;
    }
    let start = start + run.len() - run.trim_start_matches('_').len();
    let mut emit = |text: &str, from: usize| {
        if !text.is_empty() {
            found(lower(text, word), start + from..start + from + text.len());
        }
    };
    let (mut from, mut count) = (0, 0);
    let mut chars = trimmed.char_indices().peekable();
    let mut before: Option<char> = None;
    while let Some((at, c)) = chars.next() {
        let next_is_lower = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
        let begins = before.is_some_and(|before| {
            c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_is_lower))
        });
        if (c == '_' || begins) && from < at {
            emit(trimmed.get(from..at).unwrap_or_default(), from);
            count += 1;
        }
        if c == '_' {
            from = at + 1;
        } else if begins {
            from = at;
        }
        before = Some(c);
    }
    emit(trimmed.get(from..).unwrap_or_default(), from);
    if count > 0 {
        emit(trimmed, 0);
    }
}

/// The words of a message, with the number of occurrences of each.
#[derive(Debug, Default)]
pub(super) struct WordCounts {
    /// Total number of occurrences.
    pub(super) length: u32,
    pub(super) words: HashMap<String, u32>,
}

impl WordCounts {
    /// Counts the words of the texts of one message.
    pub(super) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut counts = Self::default();
        let mut left = MAX_TEXT;
        for text in texts {
            let kept = beginning(text, left);
            // Stop after a text that was cut: the remainder would start in the middle of a word.
            left = if kept.len() < text.len() { 0 } else { left - kept.len() };
            words(kept, |word, _| {
                counts.length += 1;
                match counts.words.get_mut(word) {
                    Some(count) => *count += 1,
                    None => {
                        counts.words.insert(word.to_owned(), 1);
                    }
                }
            });
        }
        counts
    }
}

/// Returns the longest prefix of whole characters with at most `bytes` bytes.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// Returns the distinct words of a query, in order.
pub(super) fn query_words(query: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    words(query, |word, _| {
        if found.len() < MAX_QUERY && !found.iter().any(|known| known == word) {
            found.push(word.to_owned());
        }
    });
    found
}

/// Maximum number of words of a query.
const MAX_QUERY: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        words(text, |word, range| {
            assert!(text.get(range).is_some_and(|part| !part.is_empty()), "in {text:?}");
            found.push(word.to_owned());
        });
        found
    }

    #[test]
    fn words_are_lower_case_and_identifiers_come_whole_and_in_parts() {
        assert_eq!(all("The login, v2.1: Don't!"), ["the", "login", "v2", "1", "don", "t"]);
        assert_eq!(all("parse_json"), ["parse", "json", "parse_json"]);
        assert_eq!(all("parseJSONValue x"), ["parse", "json", "value", "parsejsonvalue", "x"]);
        assert_eq!(all("__init__ _ HTTP"), ["init", "http"]);
        assert_eq!(all("Straße ÉCOLE наШ"), ["straße", "ecole", "на", "ш", "наш"]);
        assert_eq!(all("cafe\u{301} ＦＵＬＬ ﬁle"), ["cafe", "full", "file"]);
        assert_eq!(all("한글"), all("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"));
        assert_eq!(
            all("用户登录 x 中 テスト"),
            ["用户", "户登", "登录", "x", "中", "テス", "スト"]
        );
        assert_eq!(all(&"a".repeat(101)), [""; 0]);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = "é ".repeat(MAX_TEXT);
        let counts = WordCounts::of([long.as_str(), "after"]);
        assert_eq!(counts.words.keys().collect::<Vec<_>>(), ["e"]);
    }

    proptest! {
        #[test]
        fn any_text_has_words(text in r"[\PC\n]{0,40}", bytes in 0usize..50) {
            words(&text, |_, range| assert!(text.get(range).is_some_and(|word| !word.is_empty())));
            prop_assert!(text.starts_with(beginning(&text, bytes)));
        }
    }
}
