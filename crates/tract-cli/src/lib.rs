//! The `tract` command line: one file per verb, nothing but parsing, calling and printing.
//!
//! The interface for scripts (URLs, JSON shapes, exit codes) is in `docs/cli.md`.
#![forbid(unsafe_code)]

mod args;
mod caches;
mod commit_args;
mod complete;
mod context;
mod definitions;
mod editor;
mod ending;
mod escape;
mod failure;
mod global;
mod help;
mod input;
mod logging;
mod markdown;
mod out;
mod pager;
mod prices;
mod render;
mod revisions;
mod runtime;
mod shell;
mod ssh;
mod style;
mod summarize;
#[cfg(feature = "otel")]
mod telemetry;
mod titles;
mod verb;
mod when;

use std::ffi::OsString;
use std::process::ExitCode;

use tract::store::hide_anywhere;

use crate::context::Context;
use crate::failure::{Failure, USAGE};
use crate::out::{Color, Output};

/// The exit code of a successful command.
const DONE: u8 = 0;

/// Runs the command of this process and returns its exit code: 0 done, 1 negative answer, 2 wrong
/// command line, 3 store unavailable or damaged.
///
/// Interrupting the process leaves nothing half-done: a write is one durable batch or none. The
/// process closes its stores first.
pub fn main() -> ExitCode {
    ExitCode::from(run_process(std::env::args_os().collect(), true))
}

/// Runs a command as [`main`] does, for a program that contains the command line. The first
/// argument is the program's name.
pub fn run(arguments: Vec<OsString>) -> u8 {
    run_process(arguments, false)
}

/// Runs a command. If the process is its own, signals close its stores before they end it.
fn run_process(arguments: Vec<OsString>, is_own_process: bool) -> u8 {
    let print = std::panic::take_hook();
    // Panics of an engine on a damaged file are caught and reported as errors, not here.
    std::panic::set_hook(Box::new(move |panic| {
        if !tract::core::is_contained() {
            print(panic);
        }
    }));
    let json = arguments.iter().any(|argument| argument == "--json");
    match complete::answer(&arguments) {
        Ok(false) => {}
        Ok(true) => return DONE,
        Err(error) => return refused(&error, json),
    }
    let (cli, verb) = match help::parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error, json),
    };
    let mut out = Output::new(cli.global.json, cli.global.color, !cli.global.no_pager);
    #[cfg(feature = "otel")]
    let telemetry = telemetry::Running::start(&verb, &mut out);
    #[cfg(feature = "otel")]
    let layer = telemetry.layer();
    #[cfg(not(feature = "otel"))]
    let (layer, _) = (logging::NO_LAYER, verb);
    logging::start(cli.global.log.clone(), cli.global.verbose, layer);
    if is_own_process {
        ending::watch();
    }
    let done = tract::block_on(async {
        let writes = cli.command.writes();
        let mut context = Context::new(cli.global, &mut out);
        let done = verb::run(&mut context, cli.command).await;
        // A failed command may have written before, so the store is closed, too.
        if writes {
            context.close().await;
        }
        done?;
        out.finish()
    });
    ending::wait_if_ending();
    if let Err(failure) = &done {
        out.failure(failure);
    }
    #[cfg(feature = "otel")]
    telemetry.finish(done.as_ref().err(), &mut out);
    match done {
        Ok(()) => DONE,
        Err(failure) => failure.exit,
    }
}

/// Prints the help, or the error of an invalid command line.
fn refused(error: &clap::Error, json: bool) -> u8 {
    let asks_for_help = !error.use_stderr();
    if asks_for_help {
        // A reader that closed its end has read enough of the help.
        let _ = error.print();
    } else if !json {
        // A URL in the wrong place is printed without its password.
        let styled = hide_anywhere(&error.render().ansi().to_string());
        anstream::eprint!("{styled}");
    } else {
        let text = hide_anywhere(&error.to_string());
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.next().unwrap_or("wrong command line");
        let failure = Failure::usage(message.trim_start_matches("error: "));
        let failure = lines.fold(failure, |failure, line| failure.note(line));
        Output::new(true, Color::Never, false).failure(&failure);
    }
    if asks_for_help { DONE } else { USAGE }
}
