//! The options that every command takes.

use clap::builder::StyledStr;
use clap::{ArgAction, Args, Command};
use tracing_subscriber::filter::Targets;

use crate::logging;
use crate::out::Color;

/// The flags of every command, before or after the verb.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Use this store: sqlite:PATH, redb:PATH or memory:; sled:PATH and
    /// postgres://USER@HOST/DATABASE with the features of that name [default:
    /// sqlite:.tract/tract.db, found upwards]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        hide_long_help = true,
        env = "TRACT_STORE",
        value_name = "URL",
        hide_env_values = true
    )]
    pub(crate) store: Option<String>,
    /// Use this repository of the store [default: default]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        hide_long_help = true,
        value_name = "NAME",
        default_value = "default"
    )]
    #[arg(hide_default_value = true)]
    pub(crate) repo: String,
    /// Summarize with this program: it reads the text on its standard input and writes the summary
    /// to its standard output. Without it, `tract chat` and `tract run` use their model.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        hide_long_help = true,
        env = "TRACT_SUMMARIZER",
        value_name = "COMMAND"
    )]
    #[arg(hide_env_values = true)]
    pub(crate) summarizer: Option<String>,
    /// Print answers as JSON: one document, or one line per item.
    #[arg(long, global = true, hide_short_help = true, hide_long_help = true)]
    pub(crate) json: bool,
    /// When to use colors.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        hide_long_help = true,
        value_name = "WHEN",
        default_value = "auto",
        value_enum
    )]
    #[arg(hide_default_value = true)]
    pub(crate) color: Color,
    /// Log to stderr: failures of tools with their causes, and notices. -vv adds every tool call.
    #[arg(long, short, global = true, hide_short_help = true, hide_long_help = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Log to stderr what a filter selects: LEVEL or TARGET=LEVEL, separated by commas, such as
    /// warn or tract::dispatch=debug. Levels: off, error, warn, info, debug, trace.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        hide_long_help = true,
        env = "TRACT_LOG",
        value_name = "FILTER",
        hide_env_values = true
    )]
    #[arg(value_parser = logging::parse_filter)]
    pub(crate) log: Option<Targets>,
    /// Write long answers straight to the terminal, not through the pager ($PAGER, else less).
    #[arg(long, global = true, hide_short_help = true, hide_long_help = true)]
    pub(crate) no_pager: bool,
}

/// Returns the options of every command, each with its text.
pub(crate) fn global_options() -> StyledStr {
    let shown = |argument: clap::Arg| argument.hide_short_help(false).hide_long_help(false);
    let options = Global::augment_args(Command::new("tract"))
        .disable_help_flag(true)
        .help_template("{options}")
        .max_term_width(100)
        .mut_args(shown);
    options.clone().render_help()
}
