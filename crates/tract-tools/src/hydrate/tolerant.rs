//! The tolerant profile: a bounded pass over text that is nearly JSON. Every edit is listed, and
//! backslashes are left as they are.

use super::provenance::Edit;

/// Maximum size of repaired text in bytes.
const MOST_BYTES: usize = 1 << 20;
/// Maximum nesting depth of repaired text.
const MOST_LEVELS: usize = 128;
/// Maximum number of edits. Text that needs more is not nearly JSON.
const MOST_EDITS: usize = 1000;

/// Repairs code fences, single quotes around strings, bare keys, Python's words for true, false and
/// null, trailing commas, and a missing end. Returns the reason if it cannot.
pub(super) fn mend(raw: &str) -> Result<(String, Vec<Edit>), &'static str> {
    if raw.len() > MOST_BYTES {
        return Err("more than 1 MiB");
    }
    let (start, body) = unfenced(raw);
    let mut pass =
        RepairPass { text: body, at: 0, start, out: String::new(), edits: vec![], open: vec![] };
    if start > raw.len() - raw.trim_start().len() {
        pass.edit("code_fence", raw.get(..start).unwrap_or_default(), "", 0)?;
    }
    pass.run()?;
    Ok((pass.out, pass.edits))
}

/// Returns the text within a code fence, and its offset.
fn unfenced(raw: &str) -> (usize, &str) {
    let trimmed = raw.trim_start();
    let lead = raw.len() - trimmed.len();
    let Some(after) = trimmed.strip_prefix("```") else { return (lead, trimmed.trim_end()) };
    let line = after.find('\n').map_or(after.len(), |end| end + 1);
    let word = after.get(..line).unwrap_or_default();
    let is_name = word.trim().chars().all(|c| c.is_ascii_alphanumeric());
    let skipped = if is_name { line } else { 0 };
    let body = after.get(skipped..).unwrap_or_default();
    let body = body.trim_end().strip_suffix("```").unwrap_or(body.trim_end());
    (lead + 3 + skipped, body.trim_end())
}

struct RepairPass<'a> {
    text: &'a str,
    at: usize,
    /// The offset of `text` in the received text.
    start: usize,
    out: String,
    edits: Vec<Edit>,
    /// The closing bracket of each open container.
    open: Vec<char>,
}

impl<'a> RepairPass<'a> {
    fn run(&mut self) -> Result<(), &'static str> {
        while let Some(c) = self.peek() {
            match c {
                '{' | '[' => {
                    if self.open.len() == MOST_LEVELS {
                        return Err("more than 128 levels");
                    }
                    self.open.push(if c == '{' { '}' } else { ']' });
                    self.copy(c);
                }
                '}' | ']' => {
                    if self.open.pop() != Some(c) {
                        return Err("brackets that do not match");
                    }
                    self.drop_comma()?;
                    self.copy(c);
                    if self.open.is_empty() && !self.remaining().trim().is_empty() {
                        return Err("text after the object");
                    }
                }
                '"' => self.string('"')?,
                '\'' => self.string('\'')?,
                ',' | ':' => self.copy(c),
                c if c.is_whitespace() => self.copy(c),
                c if is_word(c) => self.word()?,
                _ => return Err("a character that JSON does not know"),
            }
        }
        self.finish()
    }

    fn remaining(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.remaining().chars().next()
    }

    fn copy(&mut self, c: char) {
        self.out.push(c);
        self.at += c.len_utf8();
    }

    fn edit(
        &mut self,
        kind: &'static str,
        before: &str,
        after: &str,
        at: usize,
    ) -> Result<(), &'static str> {
        if self.edits.len() == MOST_EDITS {
            return Err("more than 1000 edits");
        }
        let edit = Edit::new("tolerant", kind, before, after);
        self.edits.push(Edit { offset: Some(at), ..edit });
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), &'static str> {
        let begin = self.at;
        let rest = self.remaining();
        let mut body = String::from("\"");
        let mut chars = rest.char_indices().skip(1).peekable();
        let mut end = None;
        while let Some((n, c)) = chars.next() {
            match c {
                // A backslash and the character after it are kept; only `\'` is invalid in a JSON
                // string.
                '\\' => match chars.next() {
                    Some((_, '\'')) if quote == '\'' => body.push('\''),
                    Some((_, next)) => {
                        body.push('\\');
                        body.push(next);
                    }
                    None => return Err("the end within an escape"),
                },
                c if c == quote => {
                    end = Some(n + 1);
                    break;
                }
                '"' => body.push_str("\\\""),
                '\n' => body.push_str("\\n"),
                '\r' => body.push_str("\\r"),
                '\t' => body.push_str("\\t"),
                c => body.push(c),
            }
        }
        // The rest of a truncated string is unknown, so closing it would change its value.
        let Some(end) = end else { return Err("a string that does not end") };
        body.push('"');
        let raw = rest.get(..end).unwrap_or(rest);
        let at = self.start + begin;
        if quote == '\'' {
            self.edit("single_quotes", raw, &body, at)?;
        } else if raw != body {
            self.edit("raw_line_break", raw, &body, at)?;
        }
        self.out.push_str(&body);
        self.at += end;
        Ok(())
    }

    fn word(&mut self) -> Result<(), &'static str> {
        let rest = self.remaining();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or(rest);
        let after = rest.get(end..).unwrap_or_default().trim_start();
        let at = self.start + self.at;
        let is_key = self.open.last() == Some(&'}') && after.starts_with(':');
        let instead = match word {
            _ if is_key => format!("\"{word}\""),
            "True" => "true".to_owned(),
            "False" => "false".to_owned(),
            "None" => "null".to_owned(),
            word => word.to_owned(),
        };
        if instead != word {
            let kind = if is_key { "bare_key" } else { "python_literal" };
            self.edit(kind, word, &instead, at)?;
        }
        self.out.push_str(&instead);
        self.at += end;
        Ok(())
    }

    /// Removes a trailing comma.
    fn drop_comma(&mut self) -> Result<(), &'static str> {
        let kept = self.out.trim_end();
        if kept.ends_with(',') {
            let length = kept.len() - 1;
            self.out.truncate(length);
            self.edit("trailing_comma", ",", "", self.start + self.at)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), &'static str> {
        if self.open.is_empty() {
            return Ok(());
        }
        self.drop_comma()?;
        if self.out.trim_end().ends_with(':') || self.ends_with_key() {
            // The missing value is unknown.
            return Err("the end before a value");
        }
        if self.ends_with_number() {
            // More digits may be missing, so the number is unknown.
            return Err("the end within a number");
        }
        let closers = self.closers();
        self.edit("missing_end", "", &closers, self.start + self.text.len())?;
        self.out.push_str(&closers);
        Ok(())
    }

    /// Returns the brackets that close all open containers.
    fn closers(&self) -> String {
        self.open.iter().rev().collect()
    }

    /// Returns whether the text ends with a number, of which more digits may be missing.
    fn ends_with_number(&self) -> bool {
        let start = self.out.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
        let word = self.out.get(start..).unwrap_or_default();
        // These words are complete.
        !word.is_empty() && !matches!(word, "true" | "false" | "null") && !word.ends_with('"')
    }

    /// Returns whether the text ends with a key without a value.
    fn ends_with_key(&self) -> bool {
        let closed = self.out.clone() + &self.closers();
        serde_json::from_str::<serde::de::IgnoredAny>(&closed).is_err()
    }
}

/// Returns whether a character is part of a word: a bare key, a number or a literal.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '$')
}

/// Returns the beginning of a text.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, text: &str, kinds: &[&str]) {
        let (mended, edits) = mend(raw).unwrap();
        assert_eq!(mended, text);
        assert_eq!(edits.iter().map(|edit| edit.kind).collect::<Vec<_>>(), kinds);
    }

    #[test]
    fn each_edit_is_listed() {
        check("```json\n{\"a\": 1}\n```", "{\"a\": 1}", &["code_fence"]);
        check("{'a': \"it's\"}", "{\"a\": \"it's\"}", &["single_quotes"]);
        check(r#"{'a': 'say "hi"'}"#, r#"{"a": "say \"hi\""}"#, &["single_quotes"; 2]);
        check("{\"a\": [1, 2,], }", "{\"a\": [1, 2]}", &["trailing_comma"; 2]);
        check("{\"a\": {\"b\": [1]", "{\"a\": {\"b\": [1]}}", &["missing_end"]);
        check("{\"a\": [true, \"x\"", "{\"a\": [true, \"x\"]}", &["missing_end"]);
        check(
            "{a: True, b: None}",
            "{\"a\": true, \"b\": null}",
            &["bare_key", "python_literal", "bare_key", "python_literal"],
        );
        check("{\"a\": \"x\ny\"}", "{\"a\": \"x\\ny\"}", &["raw_line_break"]);
    }

    #[test]
    fn backslashes_are_left_as_they_are() {
        check(r#"{'p': 'C:\\Users\\x'}"#, r#"{"p": "C:\\Users\\x"}"#, &["single_quotes"; 2]);
        // An escape that JSON does not know is not made into one that it knows.
        let (mended, _) = mend(r"{'p': 'C:\Users'}").unwrap();
        assert!(mended.contains(r"C:\Users"));
        assert!(serde_json::from_str::<serde_json::Value>(&mended).is_err());
    }

    #[test]
    fn text_far_from_json_is_refused() {
        for raw in ["{\"a\": \"x", "{'a': 'x", "{\"a\": 1", "{\"a\": [1, 2", "{\"a\": -"] {
            assert!(mend(raw).is_err(), "{raw}: a value that was cut off is not known");
        }
        for raw in ["{\"a\": 1} {\"b\": 2}", "{]", "{\"a\":", "{\"a\"", "{\"a\": <b>}"] {
            assert!(mend(raw).is_err(), "{raw}");
        }
        assert!(mend(&"[".repeat(200_000)).is_err());
        assert!(mend(&" ".repeat(2 << 20)).is_err());
    }
}
