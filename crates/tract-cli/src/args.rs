//! The command line as a whole; the arguments of a verb are in its file.

use clap::Parser;

use crate::global::Global;
use crate::verb::Command;

/// Version control for the context of LLM agents.
///
/// Every message, tool definition, call and result is an immutable commit, named by its hash.
/// Branch it, edit it, summarize it, revert it, verify it, and compile it into the exact request
/// that the provider of a model accepts.
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
