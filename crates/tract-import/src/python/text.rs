//! Formats JSON like the original does for a model: the layouts of `json.dumps`.

use tract_core::json::{self, Escapes, JsonError};

/// `json.dumps(value)`: a space after every comma and colon.
pub(super) fn spaced(text: &str) -> Result<String, JsonError> {
    layout(text, None)
}

/// `json.dumps(value, indent=2)`.
pub(super) fn indented(text: &str) -> Result<String, JsonError> {
    layout(text, Some(2))
}

/// `json.dumps(value, separators=(",", ":"))`.
pub(super) fn compact(text: &str) -> Result<String, JsonError> {
    json::canonical(text, Escapes::Ascii)
}

/// Formats canonical text with another layout; keys are sorted, as the original stores them.
fn layout(text: &str, indent: Option<usize>) -> Result<String, JsonError> {
    let text = json::canonical(text, Escapes::Ascii)?;
    let mut out = String::with_capacity(text.len() * 5 / 4);
    let mut depth = 0;
    let mut in_string = false;
    let mut escaped = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = character == '\\' && !escaped;
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                out.push('"');
            }
            '{' | '[' => {
                out.push(character);
                let close = if character == '{' { '}' } else { ']' };
                if let Some(end) = characters.next_if_eq(&close) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, indent, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut out, indent, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                match indent {
                    Some(_) => line(&mut out, indent, depth),
                    None => out.push(' '),
                }
            }
            ':' => out.push_str(": "),
            other => out.push(other),
        }
    }
    Ok(out)
}

fn line(out: &mut String, indent: Option<usize>, depth: usize) {
    if let Some(width) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', width * depth));
    }
}

/// Python's `repr` of a string.
pub(super) fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x20 || (0x7f..0xa0).contains(&u32::from(c)) => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_looks_as_python_writes_it() {
        let text = r#"{"z":1,"a":{"y":[],"x":{}},"t":"ü, \"q\": [\u007f","l":[1,2.50]}"#;
        assert_eq!(
            spaced(text).expect("it is JSON"),
            r#"{"a": {"x": {}, "y": []}, "l": [1, 2.5], "t": "\u00fc, \"q\": [\u007f", "z": 1}"#
        );
        assert_eq!(
            indented(r#"{"a":{"x":{},"y":[1,"b"]}}"#).expect("it is JSON"),
            "{\n  \"a\": {\n    \"x\": {},\n    \"y\": [\n      1,\n      \"b\"\n    ]\n  }\n}"
        );
        assert_eq!(repr("it's\n\u{1}"), "\"it's\\n\\x01\"");
        assert_eq!(repr("a'b\"c"), "'a\\'b\"c'");
    }
}
