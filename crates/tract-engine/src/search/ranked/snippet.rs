//! Snippets: the part of a message with the most words of the query.

use std::ops::Range;

use tract_core::words::each_word;

use super::query::Term;
use super::words::{beginning, indexed_parts};
use crate::search::grep::SearchText;

/// An excerpt of a message on one line, with the matched words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchSnippet {
    /// The part of the message: `text`, `reasoning` or `arguments`.
    pub part: &'static str,
    /// The line number at which it starts, from 1.
    pub line: usize,
    /// The text, with white space collapsed to single spaces.
    pub text: String,
    /// Whether the message has more text before and after the excerpt.
    pub cut: [bool; 2],
    /// The byte ranges of the matched words in `text`, in order and disjoint.
    pub matched: Vec<Range<usize>>,
}

/// Approximate length of a snippet in bytes.
const WIDTH: usize = 240;
/// Maximum number of bytes before the first word, if a sentence begins there.
const SENTENCE: usize = 120;
/// Number of bytes before the first word in a longer sentence.
const BEFORE: usize = 40;

impl SearchSnippet {
    /// Chooses the first excerpt with the most different terms, of which stop words count little.
    pub(super) fn of(texts: &[SearchText], terms: &[Term]) -> Self {
        let weights: Vec<usize> = terms.iter().map(|term| (term.factor * 100.0) as usize).collect();
        let mut best: Option<(usize, usize, usize)> = None;
        let searched = indexed_parts(texts.iter().map(|text| text.text.as_str()));
        for (number, searched) in searched.enumerate() {
            let found = matches(searched, terms);
            let mut until = 0;
            let mut counts = vec![0usize; terms.len()];
            let mut sum = 0;
            for (from, term) in &found {
                while let Some((range, term)) = found.get(until)
                    && range.end <= from.start + WIDTH - BEFORE
                {
                    until += 1;
                    let (Some(count), Some(weight)) = (counts.get_mut(*term), weights.get(*term))
                    else {
                        continue;
                    };
                    *count += 1;
                    sum += if *count == 1 { *weight } else { 0 };
                }
                if best.is_none_or(|(most, _, _)| sum > most) {
                    best = Some((sum, number, from.start));
                }
                if let (Some(count), Some(weight)) = (counts.get_mut(*term), weights.get(*term)) {
                    sum -= if *count == 1 { *weight } else { 0 };
                    *count = count.saturating_sub(1);
                }
            }
        }
        let (_, number, start) = best.unwrap_or_default();
        texts.get(number).map(|text| Self::around(text, start, terms)).unwrap_or_default()
    }

    fn around(text: &SearchText, start: usize, terms: &[Term]) -> Self {
        let whole = text.text.as_str();
        let from = sentence_start(whole, start).unwrap_or_else(|| word_start(whole, start));
        let rest = whole.get(from..).unwrap_or_default();
        let piece = beginning(rest, WIDTH);
        // The leading white space may contain line breaks.
        let skipped = rest.len() - rest.trim_start().len();
        let before = whole.get(..from + skipped).unwrap_or_default();
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let cut = [
            whole.get(..from).is_some_and(|before| !before.trim().is_empty()),
            rest.get(piece.len()..).is_some_and(|after| !after.trim().is_empty()),
        ];
        let line_text = piece.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut matched: Vec<Range<usize>> = Vec::new();
        let mut ranges: Vec<Range<usize>> =
            matches(&line_text, terms).into_iter().map(|(range, _)| range).collect();
        ranges.sort_by_key(|range| range.start);
        for range in ranges {
            match matched.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                Some(_) | None => matched.push(range),
            }
        }
        Self { part: text.part, line, text: line_text, cut, matched }
    }
}

/// Returns where the sentence of a position begins, if that is near; the beginning of the text if
/// that is nearer than [`BEFORE`].
fn sentence_start(text: &str, position: usize) -> Option<usize> {
    if position <= BEFORE {
        return Some(0);
    }
    let from = position.saturating_sub(SENTENCE);
    let from = (from..=position).find(|at| text.is_char_boundary(*at))?;
    let before = text.get(from..position)?;
    let mut start = (from == 0).then_some(0);
    let mut chars = before.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends = match c {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' => chars.peek().is_some_and(|(_, next)| next.is_whitespace()),
            _ => false,
        };
        if ends {
            start = Some(from + at + c.len_utf8());
        }
    }
    start
}

/// Returns the beginning of a word at most [`BEFORE`] bytes before a position.
fn word_start(text: &str, position: usize) -> usize {
    let from = position.saturating_sub(BEFORE);
    let from = (from..=position).find(|at| text.is_char_boundary(*at)).unwrap_or(position);
    let before = text.get(from..position).unwrap_or_default();
    before.find(char::is_whitespace).map_or(from, |space| from + space)
}

/// Returns the byte range of each word that matches, with the index of the term.
fn matches(text: &str, terms: &[Term]) -> Vec<(Range<usize>, usize)> {
    let mut found = Vec::new();
    each_word(text, |word| {
        for (number, term) in terms.iter().enumerate() {
            if term.matches(word.text).is_some() {
                found.push((word.range.clone(), number));
            }
        }
    });
    found.sort_by_key(|(range, _)| range.start);
    found
}

#[cfg(test)]
mod tests {
    use super::super::query::Query;
    use super::*;

    #[test]
    fn the_line_is_that_of_the_first_word() {
        let text = |text: String| SearchText { part: "text", text };
        let terms = Query::parse("needle").terms;
        let line = |value: String| SearchSnippet::of(&[text(value)], &terms).line;
        assert_eq!(line("needle".to_owned()), 1);
        // The sentence begins at a line break.
        assert_eq!(line(format!("{}\nneedle", "hay ".repeat(40))), 2);
        assert_eq!(line(format!("hay\n{}\nneedle", "h".repeat(90))), 3);
        assert_eq!(line(format!("hay\n\n\n{} needle", "h".repeat(90))), 4);
    }

    #[test]
    fn an_excerpt_is_the_sentence_with_the_rarest_words() {
        let of = |text: &str, query: &str| {
            let texts = [SearchText { part: "text", text: text.to_owned() }];
            SearchSnippet::of(&texts, &Query::parse(query).terms).text
        };
        let text =
            format!("What is it and why? {}We deployed the parser. Done.", "Hay. ".repeat(90));
        assert_eq!(of(&text, "why is it deploying"), "We deployed the parser. Done.");
        let text = format!("{} hay needle", "hay ".repeat(90));
        assert!(of(&text, "needle").len() < 60);
    }
}
