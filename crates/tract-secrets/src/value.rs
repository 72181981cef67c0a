//! Reads the value after a name: in quotes of any escaping, or up to the next separator.

use std::ops::Range;

use crate::named::starts_with_field;

/// A value in a text.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// The byte range, without quotes.
    pub(crate) range: Range<usize>,
    /// Whether the value is in quotes that are closed.
    pub(crate) is_quoted: bool,
}

/// Where a value without quotes ends, besides at white space, quotes and escapes.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// Nowhere else.
    Text,
    /// Before the next field of a form, a connection string or a command.
    Field,
    /// Before the next parameter of a URL.
    Parameter,
    /// Before a character that tokens do not have: others than those of base64 and a few more.
    Token,
}

/// Returns the value that starts here, after `open` if that is given. A value in quotes ends at the
/// quote that closes it; escaped quotes are a part of it. Returns an empty value if a value in
/// quotes contains white space.
pub(crate) fn value_at(text: &str, start: usize, open: Option<&str>, ending: Ending) -> Value {
    let Some(open) = open else { return unquoted(text, start, ending) };
    let value = Value::quoted(text, start, open, ending);
    let content = value.text(text);
    match content.bytes().any(|byte| byte <= b' ') || has_escaped_space(content) {
        true => Value { range: start..start, is_quoted: true },
        false => value,
    }
}

/// Returns the value without quotes that starts here. Reads no further than to its end.
fn unquoted(text: &str, start: usize, ending: Ending) -> Value {
    let rest = text.as_bytes().get(start..).unwrap_or_default();
    let ends = |(at, byte): (usize, &u8)| {
        let after = text.get(start + at + 1..).unwrap_or_default();
        match (ending, *byte) {
            (_, b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>') => true,
            (_, byte) if byte <= b' ' => true,
            (Ending::Token, b'/' | b'+' | b'~' | b'.' | b'-' | b'_') => false,
            (Ending::Token, byte) => !byte.is_ascii_alphanumeric(),
            (Ending::Parameter, b'&') => true,
            (Ending::Field | Ending::Parameter, b';' | b'&' | b'|' | b',') => {
                let next = after.bytes().next();
                next.is_none_or(|next| next <= b' ' || next == *byte || next == b'\\')
                    || starts_with_field(after)
            }
            _ => false,
        }
    };
    let length = rest.iter().enumerate().position(|(at, byte)| ends((at, byte)));
    let value = text.get(start..start + length.unwrap_or(rest.len())).unwrap_or_default();
    let value = match ending {
        Ending::Text => value,
        Ending::Token => {
            let padding = rest.iter().skip(value.len()).take_while(|byte| **byte == b'=').count();
            let next = rest.get(value.len() + padding);
            // In `a=b`, the sign is not padding.
            let is_padding = !next.is_some_and(u8::is_ascii_alphanumeric);
            let end = start + value.len() + if is_padding { padding } else { 0 };
            text.get(start..end).unwrap_or_default().trim_end_matches('.')
        }
        Ending::Field | Ending::Parameter if value.contains(['(', '[', '{']) => {
            value.trim_end_matches([',', ';', ':'])
        }
        Ending::Field | Ending::Parameter => {
            value.trim_end_matches([',', ';', ':', ')', ']', '}', '.'])
        }
    };
    Value { range: start..start + value.len(), is_quoted: false }
}

fn has_escaped_space(text: &str) -> bool {
    text.contains("\\n") || text.contains("\\r") || text.contains("\\t")
}

impl Value {
    /// Returns the value in quotes that starts here. It is not marked as quoted if the text ends
    /// first; then it ends at white space.
    pub(crate) fn quoted(text: &str, start: usize, open: &str, ending: Ending) -> Self {
        let rest = text.get(start..).unwrap_or_default();
        let quote = match open.as_bytes() {
            [.., quote @ (b'"' | b'\'' | b'`')] => *quote,
            _ => {
                let length =
                    rest.find(open).filter(|end| rest.find('"').is_none_or(|at| at > *end));
                return match length {
                    Some(length) => Self { range: start..start + length, is_quoted: true },
                    None => unquoted(text, start, ending),
                };
            }
        };
        let slashes = open.len() - 1;
        let mut run = 0;
        for (at, byte) in rest.bytes().enumerate() {
            // A quote with fewer escapes than those around the value ends a text around it. Other
            // backslashes before it are escaped ones, at the end of the value.
            let ends_outer = run % (slashes + 1) != slashes;
            // An escaped quote has one escape more than the quotes around the value.
            let closes = run % (2 * slashes + 2) == slashes;
            if byte == quote && (ends_outer || closes) {
                let end = at - if ends_outer { run } else { slashes };
                return Self { range: start..start + end, is_quoted: true };
            }
            // Other quotes may be in a JSON string, which ends here.
            if byte == b'"' && quote != b'"' {
                break;
            }
            run = if byte == b'\\' { run + 1 } else { 0 };
        }
        unquoted(text, start, ending)
    }

    pub(crate) fn text<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.range.clone()).unwrap_or_default()
    }

    /// Returns the value up to the end of its element.
    pub(crate) fn of_element(self, text: &str) -> Self {
        let value = self.text(text);
        let length = value.find("&lt;").or_else(|| value.find("]]")).unwrap_or(value.len());
        Self { range: self.range.start..self.range.start + length, ..self }
    }

    /// Returns the value without a scheme of authentication, such as `Bearer`.
    pub(crate) fn without_scheme(&self, text: &str) -> Self {
        let value = self.text(text);
        let credentials = value.split_once(' ').filter(|(scheme, _)| {
            scheme.len() <= 24
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        });
        let length = credentials.map_or(value, |(_, credentials)| credentials.trim_start()).len();
        Self { range: self.range.end - length..self.range.end, ..self.clone() }
    }
}
