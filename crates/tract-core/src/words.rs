//! Words of texts: for ranked search, for tool selection, and for their queries.
//!
//! All of them split texts with [`each_word`], so that a word of a query and a word of a text are
//! equal whenever a reader would call them the same word.

mod language;
mod normal;

use std::ops::Range;

pub use self::language::{Language, Stems};
pub use self::normal::{NormalForm, NormalText};

/// Maximum length of a word in characters. Longer runs of letters and digits are encoded data and
/// are skipped.
const MAX_RUN: usize = 100;

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// In lower case and in normal form.
    pub text: &'a str,
    /// The byte range of the original text.
    pub range: Range<usize>,
    /// Whether this is an identifier of several parts, which were reported before it.
    pub is_compound: bool,
}

/// Calls `each` with each word of a text, in order.
///
/// # Behavior
/// - A word is a run of letters, digits and `_`. An identifier of several parts (`parse_json`,
///   `parseJson`) is reported part by part, and then as a whole.
/// - In scripts without spaces between words, each pair of adjacent characters is a word.
/// - Different spellings of one text give the same words: the text is normalized to NFKC without
///   marks, and to lower case.
/// - Runs of more than 100 characters are skipped.
///
/// # Complexity
/// Linear in the text.
///
/// ```
/// use tract_core::words::each_word;
/// let mut words = Vec::new();
/// each_word("Where does parseJson fail?", |word| words.push(word.text.to_owned()));
/// assert_eq!(words, ["where", "does", "parse", "json", "parsejson", "fail"]);
/// ```
pub fn each_word(text: &str, mut each: impl FnMut(Word<'_>)) {
    match NormalText::of(text, NormalForm::Folded) {
        Some(normal) => split(&normal.text, |word| {
            let range = normal.original(&word.range);
            each(Word { range, ..word });
        }),
        None => split(text, each),
    }
}

fn split(text: &str, mut each: impl FnMut(Word<'_>)) {
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
            true => pairs(run, start, &mut word, &mut each),
            false => parts(run, start, &mut word, &mut each),
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
    match text.is_ascii() {
        true => word.extend(text.chars().map(|c| c.to_ascii_lowercase())),
        false => word.extend(text.chars().flat_map(char::to_lowercase)),
    }
    word
}

fn pairs(run: &str, start: usize, word: &mut String, each: &mut impl FnMut(Word<'_>)) {
    let mut emit = |from: usize, to: usize| {
        let text = lower(run.get(from..to).unwrap_or_default(), word);
        each(Word { text, range: start + from..start + to, is_compound: false });
    };
    let mut before = None;
    for (at, c) in run.char_indices() {
        let end = at + c.len_utf8();
        if let Some(from) = before.replace(at) {
            emit(from, end);
        } else if end == run.len() {
            emit(0, end);
        }
    }
}

fn parts(run: &str, start: usize, word: &mut String, each: &mut impl FnMut(Word<'_>)) {
    let trimmed = run.trim_matches('_');
    if trimmed.is_empty() || run.chars().nth(MAX_RUN).is_some() {
        return;
    }
    let start = start + run.len() - run.trim_start_matches('_').len();
    let mut emit = |text: &str, from: usize, is_compound| {
        if !text.is_empty() {
            let range = start + from..start + from + text.len();
            each(Word { text: lower(text, word), range, is_compound });
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
            emit(trimmed.get(from..at).unwrap_or_default(), from, false);
            count += 1;
        }
        if c == '_' {
            from = at + 1;
        } else if begins {
            from = at;
        }
        before = Some(c);
    }
    emit(trimmed.get(from..).unwrap_or_default(), from, false);
    if count > 0 {
        emit(trimmed, 0, true);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| {
            assert!(text.get(word.range).is_some_and(|part| !part.is_empty()), "in {text:?}");
            words.push(word.text.to_owned());
        });
        words
    }

    #[test]
    fn words_are_lower_case_and_identifiers_come_whole_and_in_parts() {
        assert_eq!(all("The login, v2.1: Don't!"), ["the", "login", "v2", "1", "don", "t"]);
        assert_eq!(all("parse_json"), ["parse", "json", "parse_json"]);
        assert_eq!(all("parseJSONValue x"), ["parse", "json", "value", "parsejsonvalue", "x"]);
        assert_eq!(all("src/search/grep.rs"), ["src", "search", "grep", "rs"]);
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
    fn only_the_whole_of_an_identifier_is_compound() {
        let mut compound = Vec::new();
        each_word("a parse_json b", |word| compound.push(word.is_compound));
        assert_eq!(compound, [false, false, false, true, false]);
    }

    proptest! {
        #[test]
        fn any_text_has_words(text in r"[\PC\n]{0,40}") {
            let _ = all(&text);
        }
    }
}
