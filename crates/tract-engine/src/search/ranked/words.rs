//! The words of a message.

use std::collections::HashMap;

use tract_core::words::each_word;

/// Number of bytes of a message that are indexed.
pub(super) const MAX_TEXT: usize = 64 << 10;

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
        for text in indexed_parts(texts) {
            each_word(text, |word| {
                counts.length += 1;
                match counts.words.get_mut(word.text) {
                    Some(count) => *count += 1,
                    None => {
                        counts.words.insert(word.text.to_owned(), 1);
                    }
                }
            });
        }
        counts
    }
}

/// Returns the beginnings of the texts of one message that are indexed.
pub(super) fn indexed_parts<'a>(
    texts: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    let mut left = MAX_TEXT;
    texts.into_iter().map(move |text| {
        let part = beginning(text, left);
        // Stop after a text that was cut: the remainder would start in the middle of a word.
        left = if part.len() < text.len() { 0 } else { left - part.len() };
        part
    })
}

/// Returns the longest prefix of whole characters with at most `bytes` bytes.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = "é ".repeat(MAX_TEXT);
        let counts = WordCounts::of([long.as_str(), "after"]);
        assert_eq!(counts.words.keys().collect::<Vec<_>>(), ["e"]);
    }

    proptest! {
        #[test]
        fn the_beginning_of_a_text_is_a_prefix(text in r"[\PC\n]{0,40}", bytes in 0usize..50) {
            prop_assert!(text.starts_with(beginning(&text, bytes)));
            prop_assert!(beginning(&text, bytes).len() <= bytes);
        }
    }
}
