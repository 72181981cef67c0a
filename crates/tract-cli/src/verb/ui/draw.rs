//! Drawing of the screen.

use anstyle::{AnsiColor, Color as Ansi, Effects, Style as AnsiStyle};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use tract::forms::Form;
use tract::{Content, Message, Part};

use super::app::{App, Overlay};
use super::keys::{BINDINGS, Pane, shown};
use crate::escape;
use crate::render::{count, number};
use crate::style::{self, BAD, BOLD, DIM, GOOD, REF};

/// Minimum width for panes next to each other; below it, one pane fills the screen.
const WIDE: u16 = 100;

/// The styles of the screen.
#[derive(Clone, Copy)]
pub(super) struct Theme {
    pub(super) colors: bool,
}

impl Theme {
    /// Converts a style of the command line to one of the terminal library.
    fn of(self, style: AnsiStyle) -> Style {
        let mut out = Style::new();
        if self.colors
            && let Some(Ansi::Ansi(color)) = style.get_fg_color()
        {
            out = out.fg(basic(color));
        }
        for (effect, modifier) in [
            (Effects::BOLD, Modifier::BOLD),
            (Effects::DIMMED, Modifier::DIM),
            (Effects::ITALIC, Modifier::ITALIC),
            (Effects::UNDERLINE, Modifier::UNDERLINED),
            (Effects::STRIKETHROUGH, Modifier::CROSSED_OUT),
        ] {
            if style.get_effects().contains(effect) {
                out = out.add_modifier(modifier);
            }
        }
        out
    }
}

fn basic(color: AnsiColor) -> Color {
    match color {
        AnsiColor::Red | AnsiColor::BrightRed => Color::Red,
        AnsiColor::Green | AnsiColor::BrightGreen => Color::Green,
        AnsiColor::Yellow | AnsiColor::BrightYellow => Color::Yellow,
        AnsiColor::Blue | AnsiColor::BrightBlue => Color::Blue,
        AnsiColor::Magenta | AnsiColor::BrightMagenta => Color::Magenta,
        AnsiColor::Cyan | AnsiColor::BrightCyan => Color::Cyan,
        AnsiColor::Black | AnsiColor::BrightBlack => Color::DarkGray,
        AnsiColor::White | AnsiColor::BrightWhite => Color::Gray,
    }
}

/// Draws everything.
pub(super) fn all(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let rows = [Constraint::Min(1), Constraint::Length(1), Constraint::Length(1)];
    let [panes, status, hints] = Layout::vertical(rows).areas(frame.area());
    if panes.width >= WIDE {
        let columns = [Constraint::Percentage(22), Constraint::Percentage(34), Constraint::Min(1)];
        let [left, middle, right] = Layout::horizontal(columns).areas(panes);
        branches(frame, app, theme, left);
        messages(frame, app, theme, middle);
        content(frame, app, theme, right);
    } else {
        match app.focus {
            Pane::Branches => branches(frame, app, theme, panes),
            Pane::Messages => messages(frame, app, theme, panes),
            Pane::Content => content(frame, app, theme, panes),
        }
    }
    frame.render_widget(Paragraph::new(status_line(app, theme)), status);
    frame.render_widget(Paragraph::new(hint_line(theme, hints.width)), hints);
    match &app.overlay {
        Some(Overlay::Help) => popup(frame, theme, "Keys", &help(theme)),
        Some(Overlay::Forms(chosen)) => {
            let lines = Form::all().enumerate().map(|(place, form)| {
                let line = Line::raw(format!(" {form} "));
                if place == *chosen { line.style(Modifier::REVERSED) } else { line }
            });
            popup(frame, theme, "Copy the request: enter", &lines.collect::<Vec<_>>());
        }
        Some(Overlay::Prompt(_)) | None => {}
    }
}

fn pane(app: &App, theme: Theme, which: Pane, title: &str) -> Block<'static> {
    let style = if app.focus == which { theme.of(REF) } else { theme.of(DIM) };
    Block::bordered().border_style(style).title(format!(" {} ", escape::line(title)))
}

/// Cuts the middle of a name that is wider than `room` columns, because names of imported branches
/// have the same beginning.
fn shortened(name: &str, room: usize) -> String {
    let name = escape::line(name);
    if escape::width(&name) <= room {
        return name.into_owned();
    }
    let end = escape::end(&name, room.saturating_sub(1) / 2);
    escape::cut(&name, room.saturating_sub(escape::width(end))) + end
}

/// Highlights the line at the cursor.
fn chosen(line: Line<'static>, is_focused: bool) -> Line<'static> {
    let line = line.patch_style(Modifier::BOLD);
    if is_focused { line.patch_style(Modifier::REVERSED) } else { line }
}

fn branches(frame: &mut Frame<'_>, app: &mut App, theme: Theme, area: Rect) {
    let title = count(app.branches.items.len(), "branch");
    let block = pane(app, theme, Pane::Branches, &title);
    let inner = block.inner(area);
    let is_focused = app.focus == Pane::Branches;
    let cursor = app.branches.cursor;
    let window = app.branches.window(usize::from(inner.height));
    let lines = window.map(|place| {
        let branch = &app.branches.items[place];
        let mark = if branch.checked_out { "* " } else { "  " };
        let room = usize::from(inner.width).saturating_sub(2);
        let name = match app.titles.get(&branch.name) {
            Some(title) => escape::cut(title, room),
            None => shortened(&branch.name, room),
        };
        let name = Span::styled(name, theme.of(REF));
        let line = Line::from(vec![Span::raw(mark), name]);
        if place == cursor { chosen(line, is_focused) } else { line }
    });
    let lines: Vec<Line<'static>> = lines.collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn messages(frame: &mut Frame<'_>, app: &mut App, theme: Theme, area: Rect) {
    let size = app.conversation.compiled.as_ref().map(|compiled| {
        let messages = count(app.messages.items.len(), "message");
        format!(": {messages}, {} tokens", number(compiled.token_count().count))
    });
    let size = size.unwrap_or_default();
    let room = usize::from(area.width).saturating_sub(size.len() + 4);
    let title = shortened(app.shown_branch(), room) + &size;
    let block = pane(app, theme, Pane::Messages, &title);
    let inner = block.inner(area);
    let is_focused = app.focus == Pane::Messages;
    let (cursor, marked) = (app.messages.cursor, app.mark.map(|_| app.marked()));
    let window = app.messages.window(usize::from(inner.height));
    let width = app.messages.items.len().to_string().len() + 1;
    let lines = window.map(|place| {
        let Some(message) = app.conversation.message(app.messages.items[place]) else {
            return Line::default();
        };
        let is_marked = marked.as_ref().is_some_and(|marked| marked.contains(&place));
        let sign = match (is_marked, message.commit == message.slot) {
            (true, _) => ">",
            (false, false) => "~",
            (false, true) => " ",
        };
        let head = format!("{sign}{:>width$} ", format!("#{}", place + 1));
        let role = role_of(message);
        let room = usize::from(inner.width).saturating_sub(head.len() + 10);
        let line = Line::from(vec![
            Span::styled(head, theme.of(DIM)),
            Span::styled(format!("{:<10}", escape::cut(role, 9)), theme.of(style::kind(role))),
            Span::raw(gist(message, room)),
        ]);
        if place == cursor { chosen(line, is_focused) } else { line }
    });
    let mut lines: Vec<Line<'static>> = lines.collect();
    if app.branches.items.is_empty() {
        let text = "no messages yet: tract import FILE, or tract commit user \"Hello\"";
        lines.push(Line::styled(text, theme.of(DIM)));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Returns the word for the role of a message, as in `tract cat`.
fn role_of(message: &Message) -> &str {
    match &message.content {
        Content::ToolResult(_) => "result",
        _ => message.role.as_str(),
    }
}

/// Returns the beginning of a message and its calls, in `room` columns.
fn gist(message: &Message, room: usize) -> String {
    let parts = message.content.parts();
    let text = parts.iter().find_map(|part| match part {
        Part::Text { text } if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    });
    let call = message.content.calls().next().map(|call| {
        let name = escape::cut(&call.name, room / 2);
        let left = room.saturating_sub(escape::width(&name) + 4);
        format!("→ {name}({})", escape::cut(&call.arguments, left))
    });
    match (text, call, parts.first()) {
        (Some(text), Some(call), _) => {
            let left = (room / 2).max(room.saturating_sub(escape::width(&call) + 1));
            format!("{} {call}", escape::cut(text, left))
        }
        (Some(text), None, _) => escape::cut(text, room),
        (None, Some(call), _) => call,
        (None, None, Some(Part::Reasoning { text, .. })) if !text.trim().is_empty() => {
            format!("({})", escape::cut(text, room.saturating_sub(2)))
        }
        (None, None, Some(Part::Reasoning { .. })) => "(reasoning)".to_owned(),
        (None, None, Some(Part::Image { .. })) => "(image)".to_owned(),
        (None, None, Some(Part::Opaque { dialect, .. })) => format!("({})", escape::line(dialect)),
        (None, None, _) => escape::cut(&message.content.text(), room),
    }
}

fn content(frame: &mut Frame<'_>, app: &mut App, theme: Theme, area: Rect) {
    let title = match (app.content.diff_title(), app.message()) {
        (Some(title), _) => title.to_owned(),
        (None, Some(message)) => {
            format!("#{} {}", app.messages.cursor + 1, role_of(message))
        }
        (None, None) => "content".to_owned(),
    };
    let block = pane(app, theme, Pane::Content, &title);
    let inner = block.inner(area);
    let App { content, conversation, messages, .. } = app;
    let message = messages.chosen().and_then(|slot| conversation.message(*slot));
    let (width, height) = (usize::from(inner.width), usize::from(inner.height));
    let lines = content.window(conversation, message, width, height);
    let lines = lines.iter().map(|line| {
        let run =
            |(style, text): &(AnsiStyle, String)| Span::styled(text.clone(), theme.of(*style));
        Line::from(line.iter().map(run).collect::<Vec<_>>())
    });
    let lines: Vec<Line<'static>> = lines.collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// The status line: a question, the result of the last key, or the position.
fn status_line(app: &App, theme: Theme) -> Line<'static> {
    if let Some(Overlay::Prompt(prompt)) = &app.overlay {
        let typed = Span::raw(escape::line(&prompt.text).into_owned());
        let cursor = Span::styled(" ", Modifier::REVERSED);
        return Line::from(vec![
            Span::styled(prompt.question.label(), theme.of(BOLD)),
            typed,
            cursor,
        ]);
    }
    match &app.status {
        Some(Ok(message)) => Line::styled(escape::line(message).into_owned(), theme.of(GOOD)),
        Some(Err(failure)) => {
            Line::styled(escape::line(&failure.one_line()).into_owned(), theme.of(BAD))
        }
        None => {
            let mut line = format!("on {}", app.tract.branch_name());
            if app.conversation.unreadable > 0 {
                let lost = count(app.conversation.unreadable, "message");
                line += &format!("; {lost} cannot be read: tract verify");
            }
            Line::styled(escape::line(&line).into_owned(), theme.of(DIM))
        }
    }
}

/// Formats the keys that fit.
fn hint_line(theme: Theme, width: u16) -> Line<'static> {
    let mut spans = Vec::new();
    let mut left = usize::from(width);
    // The last keys open the help and quit, so they are always shown.
    let hints = BINDINGS.iter().rev().filter_map(|binding| {
        let word = binding.hint?;
        Some((binding.label.split(',').next().unwrap_or_default(), word))
    });
    for (key, word) in hints {
        let text = format!(" {word}  ");
        let Some(rest) = left.checked_sub(key.len() + text.len()) else { break };
        left = rest;
        spans.extend([Span::styled(text, theme.of(DIM)), Span::styled(key, theme.of(BOLD))]);
    }
    spans.reverse();
    Line::from(spans)
}

fn help(theme: Theme) -> Vec<Line<'static>> {
    let width = shown().map(|binding| binding.label.len()).max().unwrap_or(0);
    let line = |label: &str, what: &'static str| {
        let label = Span::styled(format!(" {label:width$}  "), theme.of(BOLD));
        Line::from(vec![label, Span::raw(what), Span::raw(" ")])
    };
    shown().map(|binding| line(binding.label, binding.what)).collect()
}

/// Draws lines in the middle, over everything else.
fn popup(frame: &mut Frame<'_>, theme: Theme, title: &str, lines: &[Line<'static>]) {
    let area = frame.area();
    let width = lines.iter().map(Line::width).max().unwrap_or(0).max(title.len() + 2) + 2;
    let width = u16::try_from(width).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let area = Rect { x, y, width, height };
    let block = Block::bordered().border_style(theme.of(REF)).title(format!(" {title} "));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), area);
}
