//! Makes recorded text safe for a page.

use std::borrow::Cow;
use std::fmt::Write;

use tract_core::text::{is_format_control, percent_encoded};

/// Writes out invisible characters that affect the display: controls, and marks for the direction
/// of text. The templates escape HTML.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| !matches!(c, '\n' | '\t') && (c.is_control() || is_format_control(c));
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\r' {
            continue;
        }
        if is_hidden(c) {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Encodes a text as a value in the query of a URL.
pub(crate) fn query(text: &str) -> String {
    percent_encoded(text, "-._~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steering_characters_are_written_out() {
        assert_eq!(visible("plain\n\ttext"), "plain\n\ttext");
        assert_eq!(visible("a\u{1b}[2Jb\r\n"), "a\\u{1b}[2Jb\n");
        assert_eq!(visible("\u{202e}evil\u{7f}"), "\\u{202e}evil\\u{7f}");
    }

    #[test]
    fn a_query_escapes_what_has_a_meaning_in_a_url() {
        assert_eq!(query("a b/ü#"), "a%20b%2F%C3%BC%23");
    }
}
