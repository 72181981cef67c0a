//! Output: answers to stdout, everything else to stderr.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::Child;

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use serde::Serialize;

use crate::escape;
use crate::failure::{Failure, Outcome, RefusedLine};
use crate::pager;

/// When to use colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The output streams of a command.
///
/// A command does its work whether or not its output is read. When stdout fails (`head` has exited,
/// a disk is full), the first error is kept, nothing more is written, and [`finish`](Self::finish)
/// returns the error. So a verb never stops halfway because its report cannot be written. Only a
/// verb that does nothing but write may end early: it checks [`is_lost`](Self::is_lost).
pub(crate) struct Output {
    stdout: BufWriter<Box<dyn Write>>,
    /// Whether a verb with a potentially long answer starts a pager.
    pages: bool,
    /// The pager that reads stdout.
    pager: Option<Child>,
    /// Lines for stderr that wait for the end of the pager, which owns the screen until then.
    held: Vec<String>,
    /// The first error of stdout.
    lost: Option<io::Error>,
    /// Whether stdout shows colors.
    colors_out: bool,
    /// Whether stderr shows colors.
    colors_err: bool,
    /// Whether answers are JSON.
    json: bool,
    /// The width of a line in columns.
    pub(crate) columns: usize,
}

impl Output {
    pub(crate) fn new(json: bool, color: Color, pages: bool) -> Self {
        let shows = |automatic: ColorChoice| match color {
            Color::Auto => automatic != ColorChoice::Never,
            Color::Always => true,
            Color::Never => false,
        };
        // A pipe does not have a width. Pagers fold long lines themselves.
        let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        Self {
            stdout: BufWriter::with_capacity(1 << 16, Box::new(io::stdout())),
            pages: pages && !json && io::stdout().is_terminal(),
            pager: None,
            held: Vec::new(),
            lost: None,
            colors_out: shows(AutoStream::choice(&io::stdout())),
            colors_err: shows(AutoStream::choice(&io::stderr())),
            json,
            columns: columns.or(terminal).unwrap_or(100).clamp(40, 240),
        }
    }

    /// Whether answers are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether stdout shows colors.
    #[cfg(feature = "ui")]
    pub(crate) fn shows_colors(&self) -> bool {
        self.colors_out
    }

    /// Starts a pager for the answer if stdout is a terminal. If the pager cannot be started, the
    /// answer goes to the terminal.
    pub(crate) fn page(&mut self) {
        if !std::mem::take(&mut self.pages) {
            return;
        }
        if let Some((pager, input)) = pager::start() {
            self.redirect(input);
            self.pager = Some(pager);
        }
    }

    /// Prevents verbs that are a part of a longer answer from starting a pager.
    pub(crate) fn never_page(&mut self) {
        self.pages = false;
    }

    /// Redirects the rest of the answer.
    pub(crate) fn redirect(&mut self, to: impl Write + 'static) {
        self.print(Write::flush);
        self.stdout = BufWriter::with_capacity(1 << 16, Box::new(to));
    }

    /// Waits until the pager has ended, and then writes the lines held back for it.
    fn close_pager(&mut self) {
        self.print(Write::flush);
        if let Some(mut pager) = self.pager.take() {
            // Dropping the stream to the pager ends its input.
            self.stdout = BufWriter::new(Box::new(io::stdout()));
            // The exit status of the pager is unrelated to the command.
            let _ = pager.wait();
            for line in std::mem::take(&mut self.held) {
                self.complain(line);
            }
        }
    }

    /// Writes to stdout, unless a write has failed.
    fn print(&mut self, write: impl FnOnce(&mut BufWriter<Box<dyn Write>>) -> io::Result<()>) {
        if self.lost.is_none() {
            self.lost = write(&mut self.stdout).err();
        }
    }

    /// Returns whether a write to stdout has failed, so that a verb that only writes can end.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Writes a line of the answer for people.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Outcome<()> {
        let line = shown(line, self.colors_out);
        self.raw(&line)
    }

    /// Writes a line to stderr, for people.
    pub(crate) fn say(&mut self, line: impl fmt::Display) {
        // Flushed first, so that a terminal shows the lines in order.
        self.print(Write::flush);
        match self.pager {
            None => self.complain(line),
            Some(_) => self.held.push(line.to_string()),
        }
    }

    fn complain(&self, line: impl fmt::Display) {
        // If stderr is closed, the error is ignored.
        let _ = writeln!(io::stderr(), "{}", shown(line, self.colors_err));
    }

    /// Writes a line about finished work, for people only: with `--json` the verb prints a
    /// document.
    pub(crate) fn done(&mut self, line: impl fmt::Display) -> Outcome<()> {
        if self.json { Ok(()) } else { self.line(line) }
    }

    /// Writes an item of the answer, as a line or as JSON.
    pub(crate) fn item<T: Serialize>(&mut self, value: &T, line: impl fmt::Display) -> Outcome<()> {
        if self.json { self.json(value) } else { self.line(line) }
    }

    /// Reports a refused line of the input.
    pub(crate) fn refuse(&mut self, refused: &RefusedLine<'_>) -> Outcome<()> {
        if self.json {
            return self.json(refused);
        }
        let why = refused.error.for_people();
        self.say(format_args!("line {}: {}", refused.line, why.trim_end()));
        Ok(())
    }

    /// Writes a JSON value as one line.
    pub(crate) fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome<()> {
        let text = serde_json::to_string(value).map_err(Failure::json)?;
        self.json_text(&text)
    }

    /// Writes JSON text as one line. Characters that could steer a terminal are escaped as `\u`.
    pub(crate) fn json_text(&mut self, text: &str) -> Outcome<()> {
        self.raw(&escape::json(text))
    }

    /// Writes text unchanged, and ends the line.
    pub(crate) fn raw(&mut self, text: &str) -> Outcome<()> {
        self.print(|out| writeln!(out, "{text}"));
        Ok(())
    }

    /// Writes text unchanged, without ending the line.
    #[allow(dead_code, reason = "only commands of some features print parts of lines")]
    pub(crate) fn write(&mut self, text: &str) -> Outcome<()> {
        self.print(|out| write!(out, "{text}"));
        Ok(())
    }

    /// Flushes stdout.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        self.print(Write::flush);
        Ok(())
    }

    /// Ends the output, and returns the first error. A reader that closed its end is not an error:
    /// the work is done, and the exit code is that of the command.
    pub(crate) fn finish(&mut self) -> Outcome<()> {
        self.close_pager();
        match self.lost.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::stdout(&error))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reports the failure of the command on stderr. With `--json` it is also written as a document
    /// to stdout, unless stdout has failed.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        self.close_pager();
        if !failure.is_silent() {
            if self.json && self.lost.is_none() {
                let _ = self.json(&failure.document());
                self.print(Write::flush);
            } else {
                self.complain(failure.for_people().trim_end());
            }
        }
        if let Err(output) = self.finish() {
            self.complain(output.for_people().trim_end());
        }
    }
}

/// Formats a line for a terminal, with or without colors.
fn shown(line: impl fmt::Display, colors: bool) -> String {
    let line = line.to_string();
    let line = escape::screen(&line);
    if colors { line.into_owned() } else { anstream::adapter::strip_str(&line).to_string() }
}
