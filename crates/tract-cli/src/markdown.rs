//! Markdown on a terminal: every character stays, in a style that shows its meaning.

use std::ops::Range;

use anstyle::{AnsiColor, Effects, Style};
use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::style::{BOLD, DIM};

/// Code, inline and in blocks.
const CODE: Style = AnsiColor::Cyan.on_default();
const EMPHASIS: Style = Style::new().italic();
const LINK: Style = Style::new().underline();
const STRUCK: Style = Style::new().strikethrough();

/// Maximum bytes of a text that is styled. Larger texts are logs and dumps.
const MOST_BYTES: usize = 256 << 10;

/// Splits a text into its lines, and these into runs of one style. Together they are the text.
pub(crate) fn lines(text: &str) -> Vec<Vec<(Style, &str)>> {
    let mut lines = vec![Vec::new()];
    for (range, style) in runs(text) {
        for (n, piece) in text.get(range).unwrap_or_default().split('\n').enumerate() {
            if n > 0 {
                lines.push(Vec::new());
            }
            if let Some(line) = lines.last_mut().filter(|_| !piece.is_empty()) {
                line.push((style, piece));
            }
        }
    }
    lines
}

/// Returns runs of one style, in order and without gaps. What marks the structure (`#`, `**`,
/// fences, the targets of links) is dimmed.
fn runs(text: &str) -> Vec<(Range<usize>, Style)> {
    if text.len() > MOST_BYTES {
        return vec![(0..text.len(), Style::new())];
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let (mut runs, mut end) = (Vec::new(), 0);
    let mut styles = vec![Style::new()];
    let mut add = |range: Range<usize>, style| {
        // Where the parser reports a range twice, the first report counts.
        let range = range.start.max(end)..range.end.max(end);
        runs.push((end..range.start, DIM));
        end = range.end;
        runs.push((range, style));
    };
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        let style = styles.last().copied().unwrap_or_default();
        match event {
            Event::Start(tag) => {
                if matches!(tag, Tag::Item) {
                    let marker = text.get(range.clone()).unwrap_or_default();
                    let marker = marker.find(char::is_whitespace).unwrap_or(marker.len());
                    add(range.start..range.start + marker, style);
                }
                styles.push(over(style, of_tag(&tag)));
            }
            Event::End(_) => drop(styles.pop()),
            Event::Code(_) => add(range, over(style, CODE)),
            Event::Text(_) | Event::Html(_) | Event::InlineHtml(_) => add(range, style),
            _ => {}
        }
    }
    add(text.len()..text.len(), Style::new());
    runs.retain(|(range, _)| !range.is_empty());
    runs
}

fn of_tag(tag: &Tag<'_>) -> Style {
    match tag {
        Tag::Heading { .. } | Tag::Strong | Tag::TableHead => BOLD,
        Tag::Emphasis => EMPHASIS,
        Tag::Strikethrough => STRUCK,
        Tag::CodeBlock(_) => CODE,
        Tag::Link { .. } | Tag::Image { .. } => LINK,
        _ => Style::new(),
    }
}

/// Adds a style to the one around it.
fn over(outer: Style, inner: Style) -> Style {
    let effects: Effects = outer.get_effects() | inner.get_effects();
    Style::new().fg_color(inner.get_fg_color().or(outer.get_fg_color())).effects(effects)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &[&str] = &[
        "",
        "\n\n",
        "# A *b* `c`\n\ntext **bold _both_** ~~no~~\\* &amp; <b>x</b>\n",
        "1. one\n   - two\n\n     ```rust\n     fn main() {}\n     ```\n2. three",
        "| a | b |\n|---|---|\n| `1` | [x](https://example.com \"t\") |\n",
        "[a]: https://example.com\n\n![i][a] > q\n> quoted\n> > twice\n",
        "```\nnot closed",
        "日本語 *強調* \u{202e}x",
        "- [ ] task\n-\n- \n* * *\n***\n_",
    ];

    fn joined(text: &str) -> String {
        let lines = lines(text).into_iter().map(|line| line.into_iter().map(|(_, t)| t).collect());
        lines.collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn no_character_is_lost() {
        for text in ODD {
            assert_eq!(joined(text), *text);
            for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let (start, rest) = text.split_at(cut);
                assert_eq!(joined(start), start);
                assert_eq!(joined(rest), rest);
            }
        }
    }

    #[test]
    fn structure_is_styled() {
        let found = lines("# Head\n\nsay **it** in `code`, see [docs](u)\n- x\n");
        assert_eq!(found[0], [(DIM, "# "), (BOLD, "Head")]);
        let plain = Style::new();
        let expected = [
            (plain, "say "),
            (DIM, "**"),
            (BOLD, "it"),
            (DIM, "**"),
            (plain, " in "),
            (CODE, "`code`"),
            (plain, ", see "),
            (DIM, "["),
            (LINK, "docs"),
            (DIM, "](u)"),
        ];
        assert_eq!(found[2], expected);
        assert_eq!(found[3], [(plain, "-"), (DIM, " "), (plain, "x")]);
        assert_eq!(lines("```rust\nlet x;\n```")[1], [(CODE, "let x;")]);
    }
}
