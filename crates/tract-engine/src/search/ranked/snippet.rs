//! Snippets: the part of a message with the most words of the query.

use std::ops::Range;

use super::words::{MAX_TEXT, beginning, words};
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
/// Number of bytes before the first word.
const BEFORE: usize = 40;

impl SearchSnippet {
    /// Chooses the first excerpt with the most different words.
    pub(super) fn of(texts: &[SearchText], wanted: &[String]) -> Self {
        let mut best: Option<(usize, usize, usize)> = None;
        let mut left = MAX_TEXT;
        for (number, text) in texts.iter().enumerate() {
            let searched = beginning(&text.text, left);
            left = if searched.len() < text.text.len() { 0 } else { left - searched.len() };
            let found = matches(searched, wanted);
            let mut until = 0;
            let mut counts = vec![0usize; wanted.len()];
            let mut different = 0;
            for (from, word) in &found {
                while let Some((range, word)) = found.get(until)
                    && range.end <= from.start + WIDTH - BEFORE
                {
                    until += 1;
                    let Some(count) = counts.get_mut(*word) else { continue };
                    *count += 1;
                    different += usize::from(*count == 1);
                }
                if best.is_none_or(|(most, _, _)| different > most) {
                    best = Some((different, number, from.start));
                }
                if let Some(count) = counts.get_mut(*word) {
                    different -= usize::from(*count == 1);
                    *count = count.saturating_sub(1);
                }
            }
        }
        let (_, number, start) = best.unwrap_or_default();
        texts.get(number).map(|text| Self::around(text, start, wanted)).unwrap_or_default()
    }

    fn around(text: &SearchText, start: usize, wanted: &[String]) -> Self {
        let whole = text.text.as_str();
        let from = start.saturating_sub(BEFORE);
        // Start at the beginning of a word.
        let from = match from {
            0 => 0,
            from => {
                let from = (from..=start).find(|at| whole.is_char_boundary(*at)).unwrap_or(start);
                let before = whole.get(from..start).unwrap_or_default();
                let space = before.find(char::is_whitespace);
                space.map_or(from, |space| from + space)
            }
        };
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
            matches(&line_text, wanted).into_iter().map(|(range, _)| range).collect();
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

/// Returns the byte range of each word in the text, with the word's index in `wanted`.
fn matches(text: &str, wanted: &[String]) -> Vec<(Range<usize>, usize)> {
    let mut found = Vec::new();
    words(text, |word, range| {
        if let Some(number) = wanted.iter().position(|wanted| wanted == word) {
            found.push((range, number));
        }
    });
    found.sort_by_key(|(range, _)| range.start);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_that_of_the_first_word() {
        let text = |text: String| SearchText { part: "text", text };
        let wanted = ["needle".to_owned()];
        let line = |value: String| SearchSnippet::of(&[text(value)], &wanted).line;
        assert_eq!(line("needle".to_owned()), 1);
        assert_eq!(line(format!("{}\nneedle", "hay ".repeat(40))), 1);
        // The piece begins at a line break.
        assert_eq!(line(format!("hay\n{}\nneedle", "h".repeat(90))), 3);
        assert_eq!(line(format!("hay\n\n\n{} needle", "h".repeat(90))), 4);
    }
}
