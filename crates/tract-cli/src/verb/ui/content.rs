//! The text of one message, or a diff, wrapped for its pane.

use std::collections::VecDeque;

use anstyle::Style;
use textwrap::{Options, WrapAlgorithm};
use tract::Message;
use tract::engine::Diff;

use super::app::Conversation;
use super::keys::CursorMove;
use super::list::moved;
use crate::escape;
use crate::markdown;
use crate::render;
use crate::style::DIM;
use crate::verb::{cat, diff};

/// Maximum bytes of one message that are laid out; `tract show` prints the rest.
const MOST_BYTES: usize = 256 << 10;

/// A line on the screen, in runs of one style.
pub(super) type StyledLine = Vec<(Style, String)>;

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
            vec![(diff::style(line), format!("{}{}", line.sign(), escape::block(&line.text)))]
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
    let mut lines = vec![vec![(DIM, head(conversation, message))]];
    let mut left = MOST_BYTES;
    let mut left_out = 0;
    for paragraph in cat::paragraphs(message) {
        let mut text = paragraph.text;
        let fits = |at: &usize| text.is_char_boundary(*at);
        let kept = (0..=left.min(text.len())).rev().find(fits).unwrap_or(0);
        left_out += text.len() - kept;
        text.truncate(kept);
        left -= kept;
        if paragraph.is_markdown {
            let owned = |(style, text): (Style, &str)| (style, text.to_owned());
            let styled = markdown::lines(&text).into_iter();
            lines.extend(styled.map(|line| line.into_iter().map(owned).collect()));
        } else if kept > 0 || left_out == 0 {
            lines.extend(text.split('\n').map(|line| vec![(paragraph.style, line.to_owned())]));
        }
        if let Some(aside) = paragraph.aside {
            lines.push(vec![(DIM, aside)]);
        }
    }
    if left_out > 0 {
        let rest = render::bytes(left_out as u64);
        let more = format!("… {rest} more: tract show {}", message.commit.short());
        lines.push(vec![(DIM, more)]);
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

/// Wraps lines at `width` columns, and keeps the styles of their texts.
fn wrap(lines: &[StyledLine], width: usize) -> Vec<StyledLine> {
    let options = Options::new(width.max(1)).wrap_algorithm(WrapAlgorithm::FirstFit);
    let mut wrapped = Vec::new();
    for line in lines {
        let mut runs: VecDeque<(Style, String)> =
            line.iter().map(|(style, text)| (*style, text.replace('\t', "    "))).collect();
        let text: String = runs.iter().map(|(_, text)| text.as_str()).collect();
        let mut left = text.as_str();
        for piece in textwrap::wrap(&text, &options) {
            // Between two pieces, only spaces are left out.
            let skipped = left.find(&*piece).unwrap_or(0);
            left = left.get(skipped + piece.len()..).unwrap_or_default();
            taken(&mut runs, skipped);
            wrapped.push(taken(&mut runs, piece.len()));
        }
    }
    wrapped
}

/// Takes the first bytes of runs.
fn taken(runs: &mut VecDeque<(Style, String)>, mut bytes: usize) -> StyledLine {
    let mut line = Vec::new();
    while bytes > 0
        && let Some((style, mut text)) = runs.pop_front()
    {
        if text.len() > bytes {
            let rest = text.split_off(bytes);
            runs.push_front((style, rest));
        }
        bytes -= text.len();
        line.push((style, text));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::BOLD;

    #[test]
    fn lines_are_wrapped_by_columns() {
        let lines = |text: &str, width| -> Vec<String> {
            let wrapped = wrap(&[vec![(DIM, text.to_owned())]], width);
            let joined = |line: StyledLine| line.into_iter().map(|(_, text)| text).collect();
            wrapped.into_iter().map(joined).collect()
        };
        assert_eq!(lines("one two three", 8), ["one two", "three"]);
        assert_eq!(lines("日本語日本語", 6), ["日本語", "日本語"]);
        assert_eq!(lines("", 20), [""]);
        assert_eq!(lines("\tb", 20), ["    b"]);
        assert_eq!(lines("abcdef", 0).len(), 6);
    }

    #[test]
    fn styles_are_kept_across_wrapped_lines() {
        let run = |style, text: &str| (style, text.to_owned());
        let line = vec![run(DIM, "one t"), run(BOLD, "wo  three 日本"), run(DIM, "語")];
        let wrapped = wrap(&[line], 8);
        assert_eq!(wrapped[0], [run(DIM, "one t"), run(BOLD, "wo")]);
        assert_eq!(wrapped[1], [run(BOLD, "three")]);
        assert_eq!(wrapped[2], [run(BOLD, "日本"), run(DIM, "語")]);
    }
}
