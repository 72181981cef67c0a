//! Pictures in the documentation, as SVG: what a terminal shows.

use std::fmt::Write as _;
use std::num::NonZeroU16;

/// The size of a character, in pixels.
const CELL: (f64, f64) = (8.4, 19.0);
const MARGIN: f64 = 16.0;

const BACKGROUND: &str = "#0d1117";
const TEXT: &str = "#e6edf3";

/// What is drawn in one piece.
#[derive(Clone, Copy, PartialEq)]
struct Style {
    bold: bool,
    dim: bool,
    text: vt100::Color,
    behind: vt100::Color,
    inverse: bool,
}

/// Draws lines with the escape sequences of colors, as a terminal with so many columns shows them.
pub(crate) fn of_lines(title: &str, columns: u16, lines: &[String]) -> String {
    let size = |n| NonZeroU16::new(n).expect("a size");
    let rows = u16::try_from(lines.len()).expect("few lines");
    let mut parser = vt100::Parser::new(size(rows), size(columns), 0);
    parser.process(lines.join("\r\n").as_bytes());
    of_screen(title, parser.screen())
}

/// Draws what a screen shows.
pub(crate) fn of_screen(title: &str, screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let mut picture = Picture::new(title, usize::from(columns), usize::from(rows));
    for row in 0..rows {
        let mut piece: Option<(u16, Style, String)> = None;
        for column in 0..columns {
            let cell = screen.cell(row, column).expect("a cell of the screen");
            let style = Style {
                bold: cell.bold(),
                dim: cell.dim(),
                text: cell.fgcolor(),
                behind: cell.bgcolor(),
                inverse: cell.inverse(),
            };
            let text = if cell.has_contents() { cell.contents() } else { " " };
            match &mut piece {
                Some((_, same, whole)) if *same == style => whole.push_str(text),
                other => {
                    if let Some(done) = other.replace((column, style, text.to_owned())) {
                        picture.piece(row, done);
                    }
                }
            }
        }
        if let Some(done) = piece {
            picture.piece(row, done);
        }
    }
    picture.end()
}

/// A picture that is drawn on a grid of characters.
pub(crate) struct Picture(String);

impl Picture {
    pub(crate) fn new(title: &str, columns: usize, rows: usize) -> Self {
        let width = MARGIN * 2.0 + columns as f64 * CELL.0;
        let height = MARGIN * 2.0 + rows as f64 * CELL.1;
        let title = escaped(title);
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace, SFMono-Regular, \
             Menlo, Consolas, monospace\" font-size=\"14\" fill=\"{TEXT}\">\n\
             <title>{title}</title>\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
        ))
    }

    /// Draws a bar from a column to another; both may be between two characters.
    #[cfg(all(unix, feature = "otel", feature = "run"))]
    pub(crate) fn bar(&mut self, row: usize, (from, to): (f64, f64), color: &str) {
        let (x, y) = (MARGIN + from * CELL.0, MARGIN + row as f64 * CELL.1 + 3.0);
        let (width, height) = (((to - from) * CELL.0).max(2.0), CELL.1 - 6.0);
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{height:.0}\" rx=\"2\" \
             fill=\"{color}\"/>"
        );
    }

    /// Writes a text from a column on, with more attributes.
    pub(crate) fn text(&mut self, row: usize, column: f64, text: &str, attributes: &str) {
        let shown = text.trim_end();
        let left = shown.len() - shown.trim_start().len();
        let shown = shown.trim_start();
        if shown.is_empty() {
            return;
        }
        let x = MARGIN + (column + left as f64) * CELL.0;
        let y = MARGIN + (row + 1) as f64 * CELL.1 - 5.0;
        let width = shown.chars().count() as f64 * CELL.0;
        let shown = escaped(shown);
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.0}\" textLength=\"{width:.1}\" \
             xml:space=\"preserve\"{attributes}>{shown}</text>"
        );
    }

    fn piece(&mut self, row: u16, (column, style, text): (u16, Style, String)) {
        let (mut front, mut behind) = (color(style.text), color(style.behind));
        if style.inverse {
            (front, behind) = (behind.or(Some(BACKGROUND)), front.or(Some(TEXT)));
        }
        let from = f64::from(column);
        if let Some(behind) = behind {
            let (x, y) = (MARGIN + from * CELL.0, MARGIN + f64::from(row) * CELL.1);
            let width = text.chars().count() as f64 * CELL.0;
            let height = CELL.1;
            let _ = writeln!(
                self.0,
                "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{height:.0}\" \
                 fill=\"{behind}\"/>"
            );
        }
        let mut attributes = String::new();
        if let Some(front) = front {
            let _ = write!(attributes, " fill=\"{front}\"");
        }
        if style.bold {
            attributes.push_str(" font-weight=\"bold\"");
        }
        if style.dim {
            attributes.push_str(" fill-opacity=\"0.6\"");
        }
        self.text(usize::from(row), from, &text, &attributes);
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// The color of a code; `None` for the usual one.
fn color(color: vt100::Color) -> Option<&'static str> {
    match color {
        vt100::Color::Idx(code) => match code % 8 {
            0 => Some("#8b949e"),
            1 => Some("#ff7b72"),
            2 => Some("#7ee787"),
            3 => Some("#e3b341"),
            4 => Some("#79c0ff"),
            5 => Some("#d2a8ff"),
            6 => Some("#76e3ea"),
            _ => Some("#c9d1d9"),
        },
        vt100::Color::Default | vt100::Color::Rgb(..) => None,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
