//! Words of a text, and their normal form for comparison.

/// Calls `each` with every word of a text, in lower case.
///
/// Words end at characters other than letters and digits, where a small letter is followed by a
/// capital, where a run of capitals is followed by a capitalized word, and between letters and
/// digits. Each character of a script without spaces is a word.
pub(crate) fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut chars = text.chars();
    let mut before = Class::Other;
    while let Some(c) = chars.next() {
        let class = Class::of(c);
        let begins = match (before, class) {
            (_, Class::Other | Class::Alone) => true,
            (Class::Upper, Class::Upper) => begins_a_word(chars.clone()),
            (Class::Upper, Class::Lower) => false,
            (before, class) => before != class,
        };
        if begins && !word.is_empty() {
            each(&word);
            word.clear();
        }
        match (class, c.is_ascii()) {
            (Class::Other, _) => {}
            (_, true) => word.push(c.to_ascii_lowercase()),
            (_, false) => word.extend(c.to_lowercase()),
        }
        before = class;
    }
    if !word.is_empty() {
        each(&word);
    }
}

/// Returns whether a capital after another capital begins a word, judging by the next letters.
fn begins_a_word(mut ahead: std::str::Chars<'_>) -> bool {
    match (ahead.next(), ahead.next()) {
        // The plural `s` belongs to the acronym.
        (Some('s'), after) if !after.is_some_and(char::is_lowercase) => false,
        (next, _) => next.is_some_and(|next| Class::of(next) == Class::Lower),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    /// A character that is a word by itself.
    Alone,
    Other,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            _ if c.is_ascii() => Self::Other,
            // Kana, Han, Hangul.
            '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}'
            | '\u{20000}'..='\u{3ffff}' => Self::Alone,
            _ if c.is_uppercase() => Self::Upper,
            _ if c.is_numeric() => Self::Digit,
            _ if c.is_alphanumeric() => Self::Lower,
            _ => Self::Other,
        }
    }
}

/// Returns the stem of a word: without endings of plurals and verb forms, and of nouns and
/// adjectives derived from verbs. Only words of ASCII letters are stemmed.
pub(crate) fn stem(word: &str) -> String {
    let mut word = word.to_owned();
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    plural(&mut word);
    inflection(&mut word);
    for ending in ENDINGS {
        if let Some(root) = word.strip_suffix(ending)
            && root.len() >= 4
            && has_vowel(root)
        {
            let length = root.len();
            word.truncate(length);
            break;
        }
    }
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
    if word.len() > 3 && word.ends_with('y') {
        word.pop();
        word.push('i');
    }
    undouble(&mut word);
    word
}

/// Longest first, because only the first matching ending is removed.
const ENDINGS: [&str; 16] = [
    "ization", "ational", "ations", "ation", "ators", "ator", "ition", "ities", "ment", "ness",
    "ical", "ions", "ion", "ate", "ity", "or",
];

fn plural(word: &mut String) {
    if word.ends_with("ies") && word.len() > 4 {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if ["sses", "shes", "ches", "xes", "zes"].iter().any(|end| word.ends_with(end)) {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        word.pop();
    }
}

fn inflection(word: &mut String) {
    for ending in ["ing", "ed", "er"] {
        if let Some(root) = word.strip_suffix(ending) {
            if root.len() >= 3 && has_vowel(root) {
                let length = root.len();
                word.truncate(length);
                if word.ends_with("at") {
                    word.push('e');
                }
            }
            return;
        }
    }
}

/// Removes a doubled final letter, so that `running` and `run` have the same stem.
fn undouble(word: &mut String) {
    let mut end = word.bytes().rev();
    let (last, before) = (end.next(), end.next());
    if word.len() > 3 && last == before && !matches!(last, Some(b'l' | b's' | b'z')) {
        word.pop();
    }
}

fn has_vowel(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.to_owned()));
        assert_eq!(words, expected, "{text}");
    }

    #[test]
    fn names_of_any_spelling_fall_into_words() {
        check("get_current-weather.v2", &["get", "current", "weather", "v", "2"]);
        check("parseHTTPResponse", &["parse", "http", "response"]);
        check("HTTPServer userIDs", &["http", "server", "user", "ids"]);
        check("Größe ÄNDERN", &["größe", "ändern"]);
        check("天气 in Paris", &["天", "气", "in", "paris"]);
        check("  --  ", &[]);
    }

    #[test]
    fn forms_of_a_word_share_a_stem() {
        let same = [
            ["calculate", "calculation"],
            ["calculates", "calculating"],
            ["convert", "converter"],
            ["running", "runs"],
            ["city", "cities"],
            ["stopped", "stop"],
            ["density", "densities"],
            ["boxes", "box"],
        ];
        for pair in same {
            let [a, b] = pair.map(stem);
            assert_eq!(a, b, "{pair:?}");
        }
        for word in ["class", "status", "analysis", "größen", "the", "is"] {
            assert_eq!(stem(word), word);
        }
    }
}
