//! The command line as a whole; the arguments of a verb are in its file.

use clap::{ArgAction, Args, Parser};
use tracing_subscriber::filter::Targets;

use crate::logging;
use crate::out::Color;
use crate::verb::Command;

/// Version control for the context of LLM agents.
///
/// Every message, tool definition, call and result is an immutable commit, named by its hash.
/// Branch it, edit it, summarize it, revert it, verify it, and compile it into the exact request
/// that OpenAI, Anthropic, Ollama or Gemini accepts.
#[derive(Debug, Parser)]
#[command(
    name = "tract",
    bin_name = "tract",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
`tract VERB --help` explains a verb, with examples.

A revision (REV) is a branch, a tag, HEAD, or 4 or more digits of a commit's id, and then any of:
  ~3       three commits back                      main~3
  #20      the 20th message of the context there   main#20
  @{1}     where the branch was one move ago       main@{1}
  @{TIME}  where it was at that time               main@{2026-01-31T09:30:00Z}
remotes/NAME/BRANCH is the branch of a remote, as it was fetched last.

Exit codes: 0 done, 1 the answer is no, 2 wrong command line, 3 store unavailable or damaged.

Examples:
  tract demo                                       see it work, on conversations that come with it
  tract init && tract import chats.jsonl           start with recordings of your own
  tract compile main --to anthropic-params         the request, ready to send")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

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
