//! The comments and string literals of Rust sources: what a person reads of them, or a program prints.

/// A piece of prose: the line where it begins, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prose<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// Returns each line comment and each string literal. Block comments are not used here.
///
/// Character literals differ from lifetimes by their closing quote, since a quoted `"` or `'` would else
/// begin a literal.
pub(super) fn prose(source: &str) -> Vec<Prose<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let mut name_before = false;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let (skipped, length) = if rest.starts_with("//") {
            (2, rest.find('\n').unwrap_or(rest.len()))
        } else if let Some(open) = literal(rest).filter(|_| !name_before) {
            open
        } else {
            let length =
                character(rest).unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
            (0, length)
        };
        let piece = rest.get(..length).unwrap_or(rest);
        if skipped > 0 {
            found.push(Prose { line, text: piece.get(skipped..).unwrap_or_default() });
        }
        name_before = skipped == 0 && piece.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        line += piece.matches('\n').count();
        at += piece.len();
    }
    found
}

/// The lengths of the opening quote of a string literal and of the whole literal.
fn literal(rest: &str) -> Option<(usize, usize)> {
    let unprefixed = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - unprefixed.len();
    if prefix > 1 {
        return None;
    }
    if let Some(raw) = unprefixed.strip_prefix('r') {
        let body = raw.trim_start_matches('#');
        let hashes = raw.len() - body.len();
        let body = body.strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(hashes));
        let opened = prefix + 1 + hashes + 1;
        let end = body.find(&close).map_or(body.len(), |end| end + close.len());
        return Some((opened, opened + end));
    }
    let body = unprefixed.strip_prefix('"')?;
    let mut escaped = false;
    let end = body.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    Some((prefix + 1, prefix + 1 + end.map_or(body.len(), |end| end + 1)))
}

/// The length of a character literal; `None` for a lifetime and all else.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    let first = body.chars().next()?;
    if first == '\\' {
        let end = body.get(2..)?.find('\'')?;
        return Some(1 + 2 + end + 1);
    }
    body.get(first.len_utf8()..)?.starts_with('\'').then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<(usize, &str)> {
        prose(source).into_iter().map(|piece| (piece.line, piece.text)).collect()
    }

    #[test]
    fn comments_and_literals_are_found_with_their_lines() {
        let source = "/// One.\nlet a = \"two\"; // three\nlet b = r#\"four \"five\"\"#;\n";
        assert_eq!(
            texts(source),
            [(1, "/ One."), (2, "two\""), (2, " three"), (3, "four \"five\"\"#")]
        );
    }

    #[test]
    fn quotes_in_characters_and_escapes_open_nothing() {
        let source = "f('\"', '\\'', 'a', b'\\\\'); fn g<'a>(x: &'a str) {} let c = \"\\\"d\"; e";
        assert_eq!(texts(source), [(1, "\\\"d\"")]);
    }

    #[test]
    fn names_that_end_like_a_prefix_open_nothing() {
        assert_eq!(texts("number\n\"a\\\nb\"\n// c"), [(2, "a\\\nb\""), (4, " c")]);
    }
}
