//! Reads doc comments.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Maximum length of a description, in characters.
pub(crate) const MOST: usize = 1024;

/// A line of a doc comment, without the space that follows the slashes.
pub(crate) struct Line {
    text: String,
    span: Span,
}

/// An entry of the section `# Arguments`.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// Returns the lines of the doc comments among attributes.
pub(crate) fn lines(attributes: &[Attribute]) -> Vec<Line> {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(meta) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value else { continue };
        // A blank line counts: `str::lines` would return nothing for it.
        for line in text.value().split('\n') {
            let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
            lines.push(Line { text: line.to_owned(), span: attribute.span() });
        }
    }
    lines
}

/// Returns the first paragraph, its lines joined by one space.
pub(crate) fn first_paragraph(lines: &[Line]) -> String {
    let words: Vec<&str> = lines
        .iter()
        .map(|line| line.text.trim())
        .skip_while(|line| line.is_empty())
        .take_while(|line| !line.is_empty() && heading(line).is_none())
        .collect();
    words.join(" ")
}

/// Returns the whole text: lines of a paragraph joined by a space, paragraphs separated by a blank
/// line.
pub(crate) fn full_text(lines: &[Line]) -> String {
    let paragraphs = lines.split(|line| line.text.trim().is_empty()).map(|lines| {
        let lines: Vec<&str> = lines.iter().map(|line| line.text.trim()).collect();
        lines.join(" ")
    });
    let paragraphs: Vec<String> = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect();
    paragraphs.join("\n\n")
}

/// Returns the entries of the section `# Arguments` (or `# Parameters`): `- name: text`, continued
/// by indented lines.
pub(crate) fn arguments(lines: &[Line]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut inside = false;
    for line in lines {
        if let Some(title) = heading(line.text.trim()) {
            inside =
                matches!(title.to_ascii_lowercase().as_str(), "arguments" | "args" | "parameters");
            continue;
        }
        if !inside {
            continue;
        }
        let indented = line.text.starts_with(' ');
        let text = line.text.trim();
        let item = text.strip_prefix(['-', '*']).filter(|_| !indented).and_then(item);
        match (item, entries.last_mut()) {
            (Some((name, text)), _) => entries.push(Entry { name, text, span: line.span }),
            (None, Some(last)) if !text.is_empty() => {
                if !last.text.is_empty() {
                    last.text.push(' ');
                }
                last.text.push_str(text);
            }
            _ => {}
        }
    }
    entries
}

/// Parses an entry: `` `name`: text ``, `name - text` or `name (type): text`.
fn item(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let at =
        text.find(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '`')))?;
    let (name, rest) = text.split_at(at);
    let name = name.trim_matches('`');
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(kind) => kind.split_once(')')?.1.trim_start(),
        None => rest,
    };
    let rest = [":", "-", "–", "—"].iter().find_map(|mark| rest.strip_prefix(mark))?;
    (!name.is_empty()).then(|| (name.to_owned(), rest.trim().to_owned()))
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    (title.len() < line.len() && title.starts_with(' ')).then(|| title.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Line> {
        text.lines().map(|line| Line { text: line.to_owned(), span: Span::call_site() }).collect()
    }

    #[test]
    fn the_first_paragraph_ends_at_a_blank_line_or_heading() {
        assert_eq!(first_paragraph(&of("\nOne\n  two.\n\nThree.")), "One two.");
        assert_eq!(first_paragraph(&of("One.\n# Arguments")), "One.");
        assert_eq!(first_paragraph(&of("#[derive] is fine")), "#[derive] is fine");
        assert_eq!(first_paragraph(&of("# Arguments\n- a: b")), "");
        assert_eq!(full_text(&of("One\ntwo.\n\n\nThree.\n")), "One two.\n\nThree.");
    }

    #[test]
    fn the_list_of_arguments_is_read() {
        let text = "Does.\n\n# Arguments\n- text: the text\n  Note: all of it\n* `to` (String): where\n- n - how many\n\n# Errors\n- no: none";
        let found: Vec<(String, String)> =
            arguments(&of(text)).into_iter().map(|entry| (entry.name, entry.text)).collect();
        let expected = [("text", "the text Note: all of it"), ("to", "where"), ("n", "how many")];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
