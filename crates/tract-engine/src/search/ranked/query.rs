//! The terms of a query: words with their other forms, prefixes and phrases.

use tract_core::words::{Language, Stems, each_word};

use super::words::indexed_parts;

/// Maximum number of terms of a query.
const MAX_TERMS: usize = 64;
/// Minimum length of a prefix in bytes. A shorter one would read much of the index.
const MIN_PREFIX: usize = 2;
/// Weight of a stop word, relative to the weight that its rarity gives it. In a question most words
/// are stop words; together they must not outweigh the one that matters.
const STOP_WORD: f64 = 0.15;

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Query {
    /// Distinct, in the order of the query.
    pub(super) terms: Vec<Term>,
    /// The words of each quoted phrase.
    phrases: Vec<Vec<String>>,
}

/// A word of a query with its other forms, or a prefix of words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    /// The words as they are in the query. Several if they share a stem.
    words: Vec<String>,
    forms: Forms,
    /// Factor of the weight that the term has by its rarity.
    pub(super) factor: f64,
    /// Whether a message must contain it: it is a word of a phrase.
    pub(super) is_required: bool,
}

/// The words that match a term in addition to its own.
#[derive(Clone, Debug, PartialEq)]
enum Forms {
    None,
    /// All words that begin with the term's word.
    Prefix,
    /// All words with the same stem.
    Stems(Stems),
}

/// How a word of a message matches a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As in the query, or by a prefix.
    Exact,
    /// By its stem only.
    Stem,
}

impl Query {
    /// Reads a query.
    ///
    /// - A part in double quotes is a phrase.
    /// - A word before `*` is a prefix.
    /// - All other words match by their stem, too.
    pub(super) fn parse(text: &str) -> Self {
        let mut all: Vec<(String, bool, Option<usize>)> = Vec::new();
        let mut query = Self::default();
        // Odd parts are in quotes. Without a closing quote the last part is not.
        let parts: Vec<&str> = text.split('"').collect();
        for (number, part) in parts.iter().enumerate() {
            let is_phrase = number % 2 == 1 && number + 1 < parts.len();
            if is_phrase {
                let phrase = simple_words(part);
                if !phrase.is_empty() {
                    all.extend(phrase.iter().map(|word| (word.clone(), false, Some(number))));
                    query.phrases.push(phrase);
                }
                continue;
            }
            each_word(part, |word| {
                let after = part.get(word.range.end..).unwrap_or_default();
                let is_prefix =
                    after.trim_start_matches('_').starts_with('*') && word.text.len() >= MIN_PREFIX;
                all.push((word.text.to_owned(), is_prefix, None));
            });
        }
        let language = Language::of(all.iter().map(|(word, ..)| word.as_str()));
        for (word, is_prefix, phrase) in all {
            let is_stop_word = language.is_stop_word(&word) && !is_prefix;
            let forms = match (is_prefix, phrase) {
                (true, _) => Forms::Prefix,
                (false, Some(_)) => Forms::None,
                (false, None) if is_stop_word => Forms::None,
                (false, None) => Stems::of(language, &word).map_or(Forms::None, Forms::Stems),
            };
            let factor = if is_stop_word { STOP_WORD } else { 1.0 };
            query.add(Term { words: vec![word], forms, factor, is_required: phrase.is_some() });
        }
        // A query of stop words alone is meant.
        if query.terms.iter().all(|term| term.factor < 1.0) {
            query.terms.iter_mut().for_each(|term| term.factor = 1.0);
        }
        query
    }

    /// Adds a term, unless it is equal to another one or has the same stem.
    fn add(&mut self, term: Term) {
        let has_room = self.terms.len() < MAX_TERMS;
        let alike = self.terms.iter_mut().find(|known| {
            known.is_required == term.is_required
                && known.forms == term.forms
                && (known.words == term.words || matches!(known.forms, Forms::Stems(_)))
        });
        match alike {
            Some(known) => {
                for word in term.words {
                    if !known.words.contains(&word) {
                        known.words.push(word);
                    }
                }
            }
            None if has_room => self.terms.push(term),
            None => {}
        }
    }

    /// Returns whether the texts of a message contain all phrases.
    pub(super) fn has_phrases<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        if self.phrases.is_empty() {
            return true;
        }
        let mut missing: Vec<&Vec<String>> = self.phrases.iter().collect();
        for text in indexed_parts(texts) {
            let words = simple_words(text);
            missing.retain(|phrase| !words.windows(phrase.len()).any(|part| part == *phrase));
        }
        missing.is_empty()
    }
}

/// Returns the words of a text without compound identifiers, whose parts are words already.
fn simple_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, |word| {
        if !word.is_compound {
            words.push(word.text.to_owned());
        }
    });
    words
}

impl Term {
    /// Returns how a word matches; `None` when it does not.
    pub(super) fn matches(&self, word: &str) -> Option<Form> {
        if self.words.iter().any(|own| own == word) {
            return Some(Form::Exact);
        }
        match &self.forms {
            Forms::None => None,
            Forms::Prefix => word.starts_with(self.first()).then_some(Form::Exact),
            Forms::Stems(stems) => stems.contains(word).then_some(Form::Stem),
        }
    }

    /// Returns the first word, in byte order, that can match.
    pub(super) fn first(&self) -> &str {
        match &self.forms {
            Forms::Stems(stems) => stems.prefix(),
            Forms::None | Forms::Prefix => self.words.first().map_or("", String::as_str),
        }
    }

    /// Returns whether a word, and so every word after it in byte order, is after the last one that
    /// can match.
    pub(super) fn ends_before(&self, word: &[u8]) -> bool {
        let first = self.first().as_bytes();
        match &self.forms {
            Forms::None => word > first,
            Forms::Prefix | Forms::Stems(_) => word > first && !word.starts_with(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(query: &Query) -> Vec<(String, bool)> {
        query.terms.iter().map(|term| (term.words.join(" "), term.factor == 1.0)).collect()
    }

    #[test]
    fn stop_words_weigh_little_unless_there_are_only_stop_words() {
        let query = Query::parse("When did we deploy the deployed server?");
        let expected = [
            ("when", false),
            ("did", false),
            ("we", false),
            ("deploy deployed", true),
            ("the", false),
            ("server", true),
        ];
        assert_eq!(words(&query), expected.map(|(word, full)| (word.to_owned(), full)));
        let query = Query::parse("to be or not to be");
        assert!(query.terms.iter().all(|term| term.factor == 1.0), "{query:?}");
        assert_eq!(query.terms.len(), 4);
    }

    #[test]
    fn terms_match_forms_prefixes_and_phrases() {
        let query = Query::parse(r#"deploying conf* "disk full" parseJs*"#);
        let matches = |at: usize, word| query.terms[at].matches(word);
        assert_eq!(matches(0, "deploying"), Some(Form::Exact));
        assert_eq!(matches(0, "deployed"), Some(Form::Stem));
        assert_eq!(matches(0, "depot"), None);
        assert_eq!(matches(1, "config"), Some(Form::Exact));
        assert_eq!(matches(1, "con"), None);
        assert_eq!(matches(2, "disks"), None, "a phrase is exact");
        assert!(query.terms[2].is_required && !query.terms[0].is_required);
        assert_eq!(matches(4, "parse"), Some(Form::Exact));
        assert_eq!(matches(5, "jsonl"), Some(Form::Exact));
        assert_eq!(matches(6, "parsejsonl"), Some(Form::Exact));
        assert!(query.has_phrases(["the disk", "a Disk-full alarm"]));
        assert!(!query.has_phrases(["the disk", "full", "disk is full"]));
        assert!(!Query::parse(r#"an "open quote"#).terms.iter().any(|term| term.is_required));
    }
}
