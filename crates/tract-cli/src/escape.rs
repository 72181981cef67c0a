//! Text from recordings, made safe for a terminal.
//!
//! Texts of models and tools may contain escape sequences that move the cursor, hide text or set
//! the window's title, and bidirectional marks that change the displayed order. Both are shown as
//! escapes, so that the screen shows the stored text.

use std::borrow::Cow;
use std::fmt::Write as _;

use tract::core::text::{escape_controls, is_format_control};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr;

/// Escapes a text of several lines; line breaks and tabs stay.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    escape_controls(text, |character| matches!(character, '\n' | '\t'))
}

/// Escapes a text on one line; line breaks are escaped, too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape_controls(text, |_| false)
}

/// Returns JSON with these characters as `\u` escapes: the value is the same, and a terminal shows
/// it unchanged. They occur only in strings, where escapes are valid.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_format_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        // White space occurs between the members of a document.
        if !is_format_control(character) || matches!(character, '\n' | '\r' | '\t') {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    Cow::Owned(out)
}

/// Removes everything that could steer a terminal from output: of escape sequences only colors
/// stay, as [`Styled`](crate::style::Styled) writes them. Text from outside is escaped earlier;
/// this is the second line of defense.
pub(crate) fn screen(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !is_format_control(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while !rest.is_empty() {
        let color = color(rest);
        let next = || rest.char_indices().skip(1).find(|(_, c)| *c == '\u{1b}').map(|(at, _)| at);
        let (part, after) = rest.split_at(color.or_else(next).unwrap_or(rest.len()));
        out.push_str(&if color.is_some() { Cow::Borrowed(part) } else { block(part) });
        rest = after;
    }
    Cow::Owned(out)
}

/// Returns the length of the escape sequence at the beginning of a text, if it sets or ends a
/// color, bold or dim text. Sequences that conceal or reverse text are not ours.
fn color(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let (parameters, rest) = parameters.split_at(end);
    let ours = |parameter: &str| {
        matches!(parameter, "" | "0" | "1" | "2" | "22" | "39")
            || parameter.parse::<u8>().is_ok_and(|n| matches!(n, 30..=37 | 90..=97))
    };
    (rest.starts_with('m') && parameters.split(';').all(ours)).then_some(end + 3)
}

/// Returns the beginning of a text on one line: runs of white space become one space, and a text
/// wider than `columns` is cut and ends with `…`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    // Only the beginning is processed: recordings contain texts of megabytes.
    let beginning: String = text.chars().take(columns.saturating_mul(4).max(16)).collect();
    let flat = beginning.split_whitespace().collect::<Vec<_>>().join(" ");
    let safe = line(&flat);
    if safe.width() <= columns && beginning.len() == text.len() {
        return safe.into_owned();
    }
    let mut out = String::new();
    let mut width = 0;
    // An emoji may consist of several characters, and be narrower or wider than their sum.
    for character in safe.graphemes(true) {
        let wide = character.width();
        if width + wide + 1 > columns {
            break;
        }
        width += wide;
        out.push_str(character);
    }
    out.push('…');
    out
}

/// Returns the end of a text, at most `columns` wide.
#[cfg(feature = "ui")]
pub(crate) fn end(text: &str, columns: usize) -> &str {
    let mut width = 0;
    let kept = text.graphemes(true).rev().take_while(|character| {
        width += character.width();
        width <= columns
    });
    let bytes: usize = kept.map(str::len).sum();
    text.get(text.len() - bytes..).unwrap_or_default()
}

/// Returns the width of a text in columns.
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
    fn emoji_are_cut_whole_and_by_the_columns_that_they_take() {
        // A thumb with a skin tone, a heart with an emoji selector, a flag.
        for emoji in ["\u{1f44d}\u{1f3fd}", "\u{2764}\u{fe0f}", "\u{1f1eb}\u{1f1f7}"] {
            assert_eq!(width(emoji), 2, "{emoji}");
            let text = emoji.repeat(10);
            assert_eq!(cut(&text, 7), emoji.repeat(3) + "…");
            assert_eq!(cut(&text, 8), emoji.repeat(3) + "…");
            assert_eq!(cut(&text, 20), text);
            #[cfg(feature = "ui")]
            assert_eq!(end(&text, 5), emoji.repeat(2));
        }
    }

    #[test]
    fn bidirectional_marks_are_shown() {
        assert_eq!(line("user\u{202e}nimda"), "user\\u{202e}nimda");
        assert_eq!(block("\u{2066}x\u{2069}"), "\\u{2066}x\\u{2069}");
        assert_eq!(line("\u{feff}\u{200f}\u{e0041}"), "\\u{feff}\\u{200f}\\u{e0041}");
    }

    #[test]
    fn json_says_the_same_with_escapes() {
        let text = "{\"a\":\"x\u{9b}31m\u{202e}\u{e0041}\u{200d}\\n\"}\n";
        let safe = json(text);
        assert_eq!(safe, "{\"a\":\"x\\u009b31m\\u202e\\udb40\\udc41\u{200d}\\n\"}\n");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&safe), read(text));
        assert!(matches!(json("{\"a\":\"naïve\"}"), Cow::Borrowed(_)));
    }

    #[test]
    fn colors_are_all_that_reaches_a_screen() {
        let ours = "\u{1b}[1m\u{1b}[36mmain\u{1b}[0m\n\u{1b}[91mx";
        assert_eq!(screen(ours), ours);
        assert_eq!(screen("a\u{1b}[8mb"), "a\\x1b[8mb");
        assert_eq!(screen("a\u{1b}[2J\u{1b}]0;t\u{7}"), "a\\x1b[2J\\x1b]0;t\\x07");
        assert_eq!(screen("\u{1b}[38;5;8mx\u{1b}["), "\\x1b[38;5;8mx\\x1b[");
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
