//! Where output goes: answers to stdout, what is said beside them to stderr.

use std::fmt;
use std::io::{self, BufWriter, Write};

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use serde::Serialize;

use crate::failure::{Failure, Outcome};

/// When to colour.
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

impl Color {
    fn choice(self) -> ColorChoice {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::AlwaysAnsi,
            Self::Never => ColorChoice::Never,
        }
    }
}

/// The streams of a command, and how to write to them.
pub(crate) struct Out {
    stdout: BufWriter<io::Stdout>,
    /// Whether stdout shows colours.
    colors_out: bool,
    /// Whether stderr shows colours.
    colors_err: bool,
    /// Whether answers are JSON.
    json: bool,
    columns: usize,
}

impl Out {
    pub(crate) fn new(json: bool, color: Color) -> Self {
        let shows = |automatic: ColorChoice| match color.choice() {
            ColorChoice::Auto => automatic != ColorChoice::Never,
            chosen => chosen != ColorChoice::Never,
        };
        // A pipe has no width; people pipe into pagers, which fold what is too long for them.
        let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        Self {
            stdout: BufWriter::with_capacity(1 << 16, io::stdout()),
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

    /// How many columns a line has.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Writes a line of the answer for people.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Outcome<()> {
        let line = line.to_string();
        let written = match self.colors_out {
            true => writeln!(self.stdout, "{line}"),
            false => writeln!(self.stdout, "{}", anstream::adapter::strip_str(&line)),
        };
        written.map_err(Failure::stdout)
    }

    /// Writes a line beside the answer: to stderr, where nobody parses it.
    pub(crate) fn say(&mut self, line: impl fmt::Display) {
        // Lines of the answer that came before stand before it on a terminal, too.
        let _ = self.stdout.flush();
        self.complain(line);
    }

    fn complain(&self, line: impl fmt::Display) {
        let line = line.to_string();
        // When stderr is gone there is nobody left to tell.
        let _ = match self.colors_err {
            true => writeln!(io::stderr(), "{line}"),
            false => writeln!(io::stderr(), "{}", anstream::adapter::strip_str(&line)),
        };
    }

    /// Writes what was done: a line of the answer, which `--json` says in its own way.
    pub(crate) fn done(&mut self, line: impl fmt::Display) -> Outcome<()> {
        match self.json {
            true => Ok(()),
            false => self.line(line),
        }
    }

    /// Writes a JSON value as one line.
    pub(crate) fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome<()> {
        let text = serde_json::to_string(value).map_err(Failure::json)?;
        self.raw(&text)
    }

    /// Writes text as it is, and ends the line.
    pub(crate) fn raw(&mut self, text: &str) -> Outcome<()> {
        writeln!(self.stdout, "{text}").map_err(Failure::stdout)
    }

    /// Writes text as it is, without ending the line.
    pub(crate) fn write(&mut self, text: &str) -> Outcome<()> {
        write!(self.stdout, "{text}").map_err(Failure::stdout)
    }

    /// Hands what was written to whoever reads it.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        self.stdout.flush().map_err(Failure::stdout)
    }

    /// Says why the command failed: on stderr, and with `--json` as a document on stdout.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        let _ = self.stdout.flush();
        if failure.is_silent() {
            return;
        }
        match self.json {
            true => {
                let _ = self.json(&failure.document());
                let _ = self.stdout.flush();
            }
            false => self.complain(failure.for_people().trim_end()),
        }
    }
}
