//! Markdown as HTML.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::code::{Language, highlight};
use super::escape;

/// Maximum nesting of elements. Browsers lay out deeper ones slowly; their text is kept.
const DEPTH: usize = 32;

/// Renders CommonMark with tables, strikethrough and task lists.
///
/// HTML in the text is shown as text. A link keeps its address only if it leads to the web or to a
/// mail address; an image becomes its description and address, because a page loads nothing.
pub(crate) fn markdown(text: &str) -> Markup {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer::default();
    for event in Parser::new_ext(text, options) {
        writer.event(event);
    }
    PreEscaped(writer.out)
}

#[derive(Default)]
struct Writer {
    out: String,
    /// The closing tags of the open elements.
    closing: Vec<&'static str>,
    /// The code block that is open: its language, and its text so far.
    code: Option<(String, String)>,
    /// The alignments of the open table's columns, and the next column.
    columns: (Vec<Alignment>, usize),
    is_head: bool,
    /// The addresses of the open images.
    images: Vec<String>,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => escape(&text, &mut self.out),
            },
            Event::Code(text) => {
                self.out.push_str("<code>");
                escape(&text, &mut self.out);
                self.out.push_str("</code>");
            }
            // Each line break of a message is shown: people and models use it as one.
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>\n"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(is_done) => {
                self.out.push_str(if is_done { "☑ " } else { "☐ " });
            }
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => escape(&text, &mut self.out),
        }
    }

    fn open(&mut self, opening: &str, closing: &'static str) {
        if self.closing.len() < DEPTH {
            self.out.push_str(opening);
            self.closing.push(closing);
        } else {
            self.closing.push("");
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open("<p>", "</p>"),
            // The page and its sections have the first two levels.
            Tag::Heading { level, .. } => match level as usize {
                1 => self.open("<h3>", "</h3>"),
                2 => self.open("<h4>", "</h4>"),
                3 => self.open("<h5>", "</h5>"),
                _ => self.open("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => self.open("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
                self.closing.push("");
            }
            Tag::HtmlBlock => self.open("<pre>", "</pre>"),
            Tag::List(None) => self.open("<ul>", "</ul>"),
            Tag::List(Some(1)) => self.open("<ol>", "</ol>"),
            Tag::List(Some(first)) => self.open(&format!("<ol start=\"{first}\">"), "</ol>"),
            Tag::Item => self.open("<li>", "</li>"),
            Tag::Table(columns) => {
                self.columns = (columns, 0);
                self.open("<div class=\"scroll\"><table>", "</tbody></table></div>");
            }
            Tag::TableHead => {
                (self.is_head, self.columns.1) = (true, 0);
                self.open("<thead><tr>", "</tr></thead><tbody>");
            }
            Tag::TableRow => {
                self.columns.1 = 0;
                self.open("<tr>", "</tr>");
            }
            Tag::TableCell => {
                let (columns, next) = &mut self.columns;
                let number = matches!(columns.get(*next), Some(Alignment::Right));
                *next += 1;
                match (self.is_head, number) {
                    (true, true) => self.open("<th class=\"number\">", "</th>"),
                    (true, false) => self.open("<th>", "</th>"),
                    (false, true) => self.open("<td class=\"number\">", "</td>"),
                    (false, false) => self.open("<td>", "</td>"),
                }
            }
            Tag::Emphasis => self.open("<em>", "</em>"),
            Tag::Strong => self.open("<strong>", "</strong>"),
            Tag::Strikethrough => self.open("<del>", "</del>"),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.images.push(dest_url.into_string());
                self.open("<span class=\"soft\">image: ", "</span>");
            }
            // Extensions that are not enabled.
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => self.closing.push(""),
        }
    }

    fn link(&mut self, address: &str) {
        let lower = address.to_ascii_lowercase();
        let is_safe = ["https://", "http://", "mailto:"].iter().any(|one| lower.starts_with(one));
        if !is_safe {
            return self.open("", "");
        }
        let mut opening = "<a rel=\"noopener noreferrer nofollow\" href=\"".to_owned();
        escape(address, &mut opening);
        opening.push_str("\">");
        self.open(&opening, "</a>");
    }

    fn end(&mut self, tag: TagEnd) {
        if let Some((language, code)) = self.code.take_if(|_| tag == TagEnd::CodeBlock) {
            self.out.push_str("<pre class=\"code\">");
            highlight(&code, Language::of(&language), &mut self.out);
            self.out.push_str("</pre>");
        }
        match tag {
            TagEnd::Image => {
                if let Some(address) = self.images.pop() {
                    self.out.push_str(" (");
                    escape(&address, &mut self.out);
                    self.out.push(')');
                }
            }
            TagEnd::TableHead => self.is_head = false,
            _ => {}
        }
        self.out.push_str(self.closing.pop().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, html: &str) {
        assert_eq!(markdown(text).into_string(), html);
    }

    #[test]
    fn common_elements_are_rendered() {
        check("a *b* **c** `d`", "<p>a <em>b</em> <strong>c</strong> <code>d</code></p>");
        check("# Title\n- one\n- [x] two", "<h3>Title</h3><ul><li>one</li><li>☑ two</li></ul>");
        check("3. three", "<ol start=\"3\"><li>three</li></ol>");
        check("one\ntwo", "<p>one<br>\ntwo</p>");
        check("```\na < b\n```", "<pre class=\"code\">a &lt; b\n</pre>");
        check(
            "|a|b|\n|-|-:|\n|x|1|",
            "<div class=\"scroll\"><table><thead><tr><th>a</th><th class=\"number\">b</th></tr></thead><tbody>\
             <tr><td>x</td><td class=\"number\">1</td></tr></tbody></table></div>",
        );
    }

    #[test]
    fn only_links_to_the_web_are_links() {
        check(
            "[here](https://example.org/?a=1&b=\"2\")",
            "<p><a rel=\"noopener noreferrer nofollow\" href=\"https://example.org/?a=1&amp;b=&quot;2&quot;\">here</a></p>",
        );
        for address in ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "/decide"]
        {
            check(&format!("[here]({address})"), "<p>here</p>");
        }
        check("<javascript:alert(1)>", "<p>javascript:alert(1)</p>");
    }

    #[test]
    fn html_and_images_are_text() {
        check("a <b onclick=x>c", "<p>a &lt;b onclick=x&gt;c</p>");
        check("<script>alert(1)</script>", "<pre>&lt;script&gt;alert(1)&lt;/script&gt;</pre>");
        check(
            "![a cat](https://example.org/cat.png)",
            "<p><span class=\"soft\">image: a cat (https://example.org/cat.png)</span></p>",
        );
    }

    #[test]
    fn deep_nesting_is_flattened() {
        let html = markdown(&format!("{} deep", ">".repeat(10_000))).into_string();
        assert!(html.matches("<blockquote>").count() <= DEPTH, "{}", html.len());
        assert_eq!(html.matches("<blockquote>").count(), html.matches("</blockquote>").count());
        assert!(html.contains("deep"));
    }
}
