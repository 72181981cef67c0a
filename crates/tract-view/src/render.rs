//! Renders recorded texts: Markdown, code, diffs and JSON.
//!
//! Every function escapes the text that it is given and writes only elements of its own, so that
//! recorded content cannot add markup to a page. No recorded text becomes an attribute, except the
//! address of a link to the web.

mod code;
mod diff;
mod json;
mod markdown;

pub(crate) use self::code::{Language, highlighted};
pub(crate) use self::diff::{diff, patch};
pub(crate) use self::json::json;
pub(crate) use self::markdown::markdown;

/// Appends a text with the characters that have a meaning in HTML escaped, and invisible ones
/// written out.
fn escape(text: &str, out: &mut String) {
    use std::fmt::Write;
    // Writing to a `String` cannot fail.
    let _ = maud::Escaper::new(out).write_str(&crate::text::visible(text));
}
