//! Words of tools and of inputs: those of ranked search, so that a word means the same in both.

use std::borrow::Cow;

use tract_core::words::{self, Language};

/// Calls `each` with every word of a text, in normal form. An identifier counts by its parts only:
/// as a whole it would count twice.
pub(crate) fn each_word(text: &str, mut each: impl FnMut(&str)) {
    words::each_word(text, |word| {
        if !word.is_compound {
            each(word.text);
        }
    });
}

/// Returns the stem of a word. Tools are described in English, and words of other scripts keep
/// their form.
pub(crate) fn stem(word: &str) -> Cow<'_, str> {
    Language::English.stem(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_counts_by_its_parts() {
        let mut words = Vec::new();
        each_word("parseHTTPResponse get_weather", |word| words.push(word.to_owned()));
        assert_eq!(words, ["parse", "http", "response", "get", "weather"]);
    }
}
