//! The command line as a whole; what a verb takes stands with the verb.

use clap::{ArgAction, Args, Parser, Subcommand};
use tracing_subscriber::filter::Targets;

use crate::logging;
use crate::out::Color;
use crate::verb;

/// Version control for the context of LLM agents.
///
/// Every message, tool definition, call and result is an immutable commit, named by its hash.
/// Branch it, edit it, summarise it, take that back, verify it, and compile it into the exact
/// request that OpenAI, Anthropic or Ollama accepts.
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
Start with:
  tract demo                              conversations in, edited, compiled, verified
  tract init && tract import chats.jsonl  your own

A revision (REV) is a branch, a tag, HEAD, or 4 or more digits of a commit's id, and then any of:
  ~3       three commits back                 main~3
  #20      the 20th message shown there       main#20
  @{1}     where the branch was a move ago    main@{1}
  @{TIME}  where it was at that time          main@{2026-01-31T09:30:00Z}

Exit codes: 0 done, 1 the answer is no, 2 wrong command line, 3 store unavailable or damaged.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes, before or after the verb.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Where the store is: sqlite:PATH, redb:PATH or memory:; sled:PATH and postgres://USER@HOST/DATABASE with the features of that name [default: sqlite:.tract/tract.db, found upwards]
    #[arg(long, global = true, env = "TRACT_STORE", value_name = "URL", hide_env_values = true)]
    #[arg(help_heading = "Everywhere")]
    pub(crate) store: Option<String>,
    /// The repository in the store.
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    #[arg(help_heading = "Everywhere", hide_default_value = true)]
    pub(crate) repo: String,
    /// A program that writes summaries: the text on its standard input, the summary on its standard
    /// output. `tract chat` and `tract run` ask their model where none is named.
    #[arg(long, global = true, env = "TRACT_SUMMARIZER", value_name = "COMMAND")]
    #[arg(help_heading = "Everywhere", hide_env_values = true)]
    pub(crate) summarizer: Option<String>,
    /// Answer in JSON, on stdout: one document, or one line for each item.
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// When to colour.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_enum)]
    #[arg(help_heading = "Everywhere", hide_default_value = true)]
    pub(crate) color: Color,
    /// Log to stderr: failures of tools with their causes, and notices. -vv adds every tool call.
    #[arg(long, short, global = true, action = ArgAction::Count, help_heading = "Everywhere")]
    pub(crate) verbose: u8,
    /// Log to stderr what a filter selects: LEVEL or TARGET=LEVEL, separated by commas, such as
    /// warn or tract::dispatch=debug. Levels: off, error, warn, info, debug, trace.
    #[arg(long, global = true, env = "TRACT_LOG", value_name = "FILTER", hide_env_values = true)]
    #[arg(help_heading = "Everywhere", value_parser = logging::parse_filter)]
    pub(crate) log: Option<Targets>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a store, or a repository in one.
    Init(verb::init::Init),
    /// Say where you stand: branch, head, messages, tools, open calls.
    Status,
    /// Show the commits of a line, newest first.
    Log(verb::log::Log),
    /// Show one commit: what it says, what it changed, how to take it back.
    Show(verb::show::Show),
    /// Compare what two revisions compile to: messages, tools, tokens.
    Diff(verb::diff::Diff),
    /// List, make or delete branches.
    Branch(verb::branch::Branch),
    /// Stand on another branch.
    Checkout(verb::checkout::Checkout),
    /// List or make tags; a tag never moves.
    Tag(verb::tag::Tag),
    /// Record a message.
    Commit(Box<verb::commit::Commit>),
    /// Record a question, ask a model, and record its answer.
    #[cfg(feature = "http")]
    Chat(verb::ask::Chat),
    /// Ask a model to go on from here, and record its answer.
    #[cfg(feature = "http")]
    Generate(verb::ask::Generate),
    /// Let a model work on a task, with tools; everything is recorded on the branch.
    #[cfg(feature = "run")]
    Run(Box<verb::run::Run>),
    /// Run a recorded conversation again, and name the first difference.
    #[cfg(feature = "run")]
    Replay(verb::replay::Replay),
    /// Replace what a message says; the original stays.
    Edit(verb::edit::Edit),
    /// Set the priority of messages: skip, normal, important, pinned.
    Annotate(verb::annotate::Annotate),
    /// Take back what commits changed, with a new commit.
    Revert(verb::revert::Revert),
    /// Bring in what another branch has.
    Merge(verb::merge::Merge),
    /// Put one summary in the place of messages.
    Compress(verb::compress::Compress),
    /// Show the original of a message that was changed.
    Expand(verb::expand::Expand),
    /// Show and decide what waits to be decided.
    Pending(verb::pending::Pending),
    /// Show or say which tool results are summarised automatically.
    Summarization(verb::summarization::Summarization),
    /// Run a stream of operations, one JSON object a line.
    Apply(verb::apply::Apply),
    /// Take in recorded conversations, a branch for each.
    Import(verb::import::Import),
    /// Write everything as a stream that `apply` reads.
    Export(verb::export::Export),
    /// Copy a repository from one store to another.
    Copy(verb::copy::Copy),
    /// Measure the engine of a url here, beside what it could do at best.
    Bench(verb::bench::Bench),
    /// Run the contract for stores against the engine of a url.
    #[cfg(feature = "conformance")]
    Conformance(verb::conformance::Conformance),
    /// Write the request that a provider accepts.
    Compile(verb::compile::Compile),
    /// Name what breaks the provider's prompt cache between two revisions.
    WhyMiss(verb::why_miss::WhyMiss),
    /// Look at tool definitions, or set those in force.
    Tools(verb::tools::Tools),
    /// Hold a model's calls against the schemas of their tools.
    Hydrate(verb::hydrate::Hydrate),
    /// Ask an MCP server for its tools, and call them.
    #[cfg(feature = "mcp")]
    Mcp(verb::mcp::Mcp),
    /// Choose the tools of a catalog that fit what is asked.
    Select(verb::select::Select),
    /// List tool turns: calls, and the results that answer them.
    Turns(verb::turns::Turns),
    /// Make the results of tool calls shorter, each by a summary of its own.
    CompressToolCalls(verb::compress_tool_calls::CompressToolCalls),
    /// Hash everything again and check that it fits together.
    Verify(verb::verify::Verify),
    /// Count what the repository holds.
    Stats,
    /// Undo the last command on this branch; --redo reverts the undo.
    Undo(verb::undo::Undo),
    /// Write completions for a shell.
    Completions(verb::completions::Completions),
    /// Show what tract does, on conversations of a workshop, in a store of its own.
    Demo(verb::demo::Demo),
}

impl Command {
    /// Whether it writes: then what it wrote is put in order before the process ends. A command
    /// that only looks must not wait for somebody else who is writing.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Status
            | Self::Log(_)
            | Self::Show(_)
            | Self::Bench(_)
            | Self::Diff(_)
            | Self::Expand(_)
            | Self::Export(_)
            | Self::Compile(_)
            | Self::WhyMiss(_)
            | Self::Hydrate(_)
            | Self::Select(_)
            | Self::Stats
            | Self::Turns(_)
            | Self::Completions(_) => false,
            #[cfg(feature = "conformance")]
            Self::Conformance(_) => false,
            Self::Tools(tools) => tools.writes(),
            #[cfg(feature = "mcp")]
            Self::Mcp(mcp) => mcp.writes(),
            Self::Verify(verify) => verify.writes(),
            Self::Pending(pending) => pending.writes(),
            Self::Summarization(config) => config.writes(),
            #[cfg(feature = "http")]
            Self::Chat(_) | Self::Generate(_) => true,
            #[cfg(feature = "run")]
            Self::Run(_) => true,
            #[cfg(feature = "run")]
            Self::Replay(_) => false,
            Self::Init(_)
            | Self::Branch(_)
            | Self::Checkout(_)
            | Self::Tag(_)
            | Self::Commit(_)
            | Self::Edit(_)
            | Self::Annotate(_)
            | Self::Revert(_)
            | Self::Merge(_)
            | Self::Compress(_)
            | Self::CompressToolCalls(_)
            | Self::Copy(_)
            | Self::Apply(_)
            | Self::Import(_)
            | Self::Undo(_)
            | Self::Demo(_) => true,
        }
    }
}
