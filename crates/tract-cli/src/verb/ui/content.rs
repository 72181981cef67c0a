//! The text of one message, or a diff, wrapped for its pane.

use anstyle::Style;
use textwrap::{Options, WrapAlgorithm};
use tract::Message;
use tract::engine::Diff;

use super::app::Conversation;
use super::keys::CursorMove;
use super::list::moved;
use crate::escape;
use crate::render;
use crate::style::DIM;
use crate::verb::{cat, diff};

/// Maximum bytes of one message that are laid out; `tract show` prints the rest.
const MOST_BYTES: usize = 256 << 10;

/// A line on the screen, in one style.
pub(super) type StyledLine = (Style, String);

/// The text of a pane, with its scroll position.
#[derive(Default)]
pub(super) struct ContentPane {
    /// A diff, which is shown instead of the message.
    diff: Option<(String, Vec<StyledLine>)>,
    /// The lines, wrapped at a width. They are computed when they are drawn.
    wrapped: Option<(usize, Vec<StyledLine>)>,
    top: usize,
    height: usize,
}

impl ContentPane {
    /// Shows the message at the cursor from its beginning.
    pub(super) fn forget(&mut self) {
        (self.diff, self.wrapped, self.top) = (None, None, 0);
    }

    /// Shows a diff instead of a message.
    pub(super) fn show_diff(&mut self, title: String, found: &Diff) {
        self.forget();
        let lines = found.lines();
        let lines = lines.iter().map(|line| {
            (diff::style(line), format!("{}{}", line.sign(), escape::block(&line.text)))
        });
        self.diff = Some((title, lines.collect()));
    }

    /// Returns the title of the shown diff.
    pub(super) fn diff_title(&self) -> Option<&str> {
        self.diff.as_ref().map(|(title, _)| title.as_str())
    }

    pub(super) fn scroll(&mut self, to: CursorMove) {
        let lines = self.wrapped.as_ref().map_or(0, |(_, lines)| lines.len());
        self.top = moved(self.top, to, self.height, lines.saturating_sub(self.height));
    }

    /// Returns the lines that fit, wrapped at `width` columns.
    pub(super) fn window(
        &mut self,
        conversation: &Conversation,
        message: Option<&Message>,
        width: usize,
        height: usize,
    ) -> &[StyledLine] {
        self.height = height;
        if self.wrapped.as_ref().is_none_or(|(wrapped_at, _)| *wrapped_at != width) {
            let paragraphs = match (&self.diff, message) {
                (Some((_, lines)), _) => lines.clone(),
                (None, Some(message)) => paragraphs(conversation, message),
                (None, None) => Vec::new(),
            };
            self.wrapped = Some((width, wrap(&paragraphs, width)));
        }
        let lines = self.wrapped.as_ref().map_or(&[][..], |(_, lines)| lines.as_slice());
        self.top = self.top.min(lines.len().saturating_sub(1));
        &lines[self.top..(self.top + height).min(lines.len())]
    }
}

/// Returns the paragraphs of a message, as `tract cat` prints them.
fn paragraphs(conversation: &Conversation, message: &Message) -> Vec<StyledLine> {
    let mut lines = vec![(DIM, head(conversation, message))];
    let mut left = MOST_BYTES;
    let mut left_out = 0;
    for paragraph in cat::paragraphs(message) {
        let mut text = paragraph.text;
        let fits = |at: &usize| text.is_char_boundary(*at);
        let kept = (0..=left.min(text.len())).rev().find(fits).unwrap_or(0);
        left_out += text.len() - kept;
        text.truncate(kept);
        left -= kept;
        if kept > 0 || left_out == 0 {
            lines.push((paragraph.style, text));
        }
        if let Some(aside) = paragraph.aside {
            lines.push((DIM, aside));
        }
    }
    if left_out > 0 {
        let rest = render::bytes(left_out as u64);
        lines.push((DIM, format!("… {rest} more: tract show {}", message.commit.short())));
    }
    lines
}

/// Formats the line above a message: its commit, whether it was edited, its size.
fn head(conversation: &Conversation, message: &Message) -> String {
    let mut head = format!("commit {}", message.commit.short());
    if message.commit != message.slot {
        head += &format!(", of {}", message.slot.short());
    }
    if let Some(call) = message.answers
        && let Some(place) = conversation.places.get(&call.slot)
    {
        head += &format!(", answers #{}", place + 1);
    }
    head += &format!(", {}", render::counted(message.token_count, "token"));
    head
}

fn wrap(paragraphs: &[StyledLine], width: usize) -> Vec<StyledLine> {
    let options = Options::new(width.max(1)).wrap_algorithm(WrapAlgorithm::FirstFit);
    let mut lines = Vec::new();
    for (style, text) in paragraphs {
        let text = text.replace('\t', "    ");
        for line in text.split('\n') {
            let wrapped = textwrap::wrap(line, &options);
            lines.extend(wrapped.into_iter().map(|line| (*style, line.into_owned())));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_by_columns() {
        let lines = |text: &str, width| -> Vec<String> {
            let wrapped = wrap(&[(DIM, text.to_owned())], width);
            wrapped.into_iter().map(|(_, line)| line).collect()
        };
        assert_eq!(lines("one two three", 8), ["one two", "three"]);
        assert_eq!(lines("日本語日本語", 6), ["日本語", "日本語"]);
        assert_eq!(lines("a\n\n\tb", 20), ["a", "", "    b"]);
        assert_eq!(lines("abcdef", 0).len(), 6);
    }
}
