//! Recorded text as a page may show it.

use std::borrow::Cow;
use std::fmt::Write;

use tract_core::text::{is_format_control, percent_encoded};

/// Writes out characters that a reader does not see and that change what is seen: controls, and
/// what steers the direction of text. Escaping for HTML is the templates' part.
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
            // A `String` takes every write.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Writes a text as a value in the query of a url.
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
