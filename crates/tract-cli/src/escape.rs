//! Text from recordings, made safe for a terminal.
//!
//! What a model or a tool said may hold escape sequences that move the cursor, hide text or set
//! the window's title, and bidirectional marks that show text in another order than it is. Both
//! are shown as escapes, so that what is seen is what is stored.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns whether a character is shown as an escape.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

fn push_escaped(out: &mut String, character: char) {
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        other => {
            let _ = match u32::from(other) {
                code @ ..=0xff => write!(out, "\\x{code:02x}"),
                code => write!(out, "\\u{{{code:x}}}"),
            };
        }
    }
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let shown = |character: char| !is_hidden(character) || keep(character);
    if text.chars().all(shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match shown(character) {
            true => out.push(character),
            false => push_escaped(&mut out, character),
        }
    }
    Cow::Owned(out)
}

/// Returns a text that may have several lines; newlines and tabs stay.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

/// Returns a text on one line: newlines become escapes too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Returns the beginning of a text on one line: runs of white space become one space, and what is
/// wider than `columns` is cut and ends with `…`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    // What is cut away need not be looked at: recordings hold texts of megabytes.
    let beginning: String = text.chars().take(columns.saturating_mul(4).max(16)).collect();
    let flat = beginning.split_whitespace().collect::<Vec<_>>().join(" ");
    let safe = line(&flat);
    if safe.width() <= columns && beginning.len() == text.len() {
        return safe.into_owned();
    }
    let mut out = String::new();
    let mut width = 0;
    for character in safe.chars() {
        let wide = character.width().unwrap_or(0);
        if width + wide + 1 > columns {
            break;
        }
        width += wide;
        out.push(character);
    }
    out.push('…');
    out
}

/// Returns how many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_shown() {
        assert_eq!(line("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
        assert_eq!(line("a\u{9b}31m"), "a\\x9b31m");
        assert_eq!(line("one\ntwo\ttabs\r"), "one\\ntwo\\ttabs\\r");
        assert_eq!(block("one\ntwo\ttabs\r"), "one\ntwo\ttabs\\r");
        assert_eq!(line("nul\0"), "nul\\x00");
    }

    #[test]
    fn bidirectional_marks_are_shown() {
        assert_eq!(line("user\u{202e}nimda"), "user\\u{202e}nimda");
        assert_eq!(block("\u{2066}x\u{2069}"), "\\u{2066}x\\u{2069}");
        assert_eq!(line("\u{feff}\u{200f}\u{e0041}"), "\\u{feff}\\u{200f}\\u{e0041}");
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(line("naïve 日本語 👩‍💻"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_texts_are_cut_by_columns() {
        assert_eq!(cut("one\n  two   three", 40), "one two three");
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("日本語日本語", 6), "日本…");
        assert_eq!(cut(&"x".repeat(1 << 20), 4), "xxx…");
    }
}
