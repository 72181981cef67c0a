//! The command line as a whole; the arguments of a verb are in its file.

use clap::{ArgAction, Args, Parser, Subcommand};
use tracing_subscriber::filter::Targets;

use crate::logging;
use crate::out::Color;
use crate::verb;

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
    /// Use this store: sqlite:PATH, redb:PATH or memory:; sled:PATH and postgres://USER@HOST/DATABASE with the features of that name [default: sqlite:.tract/tract.db, found upwards]
    #[arg(long, global = true, env = "TRACT_STORE", value_name = "URL", hide_env_values = true)]
    #[arg(help_heading = "Everywhere")]
    pub(crate) store: Option<String>,
    /// Use this repository of the store [default: default]
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    #[arg(help_heading = "Everywhere", hide_default_value = true)]
    pub(crate) repo: String,
    /// Summarize with this program: it reads the text on its standard input and writes the summary to
    /// its standard output. Without it, `tract chat` and `tract run` use their model.
    #[arg(long, global = true, env = "TRACT_SUMMARIZER", value_name = "COMMAND")]
    #[arg(help_heading = "Everywhere", hide_env_values = true)]
    pub(crate) summarizer: Option<String>,
    /// Print answers as JSON: one document, or one line per item.
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// When to use colors.
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
    /// Write long answers straight to the terminal, not through the pager ($PAGER, else less).
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) no_pager: bool,
}

/// The verbs. Where the first line of a verb's own type is too long for the list, the short text is
/// an attribute: a doc comment here would replace all of the type's own.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(verb::init::Init),
    /// Show the branch, its head, messages, tools, open calls.
    #[command(after_help = "\
Examples:
  tract status
  tract status --json | jq .head")]
    Status,
    Log(verb::log::Log),
    #[command(about = "Print the conversation as plain text")]
    Cat(verb::cat::Cat),
    #[command(about = "Show the content and the changes of one commit")]
    Show(verb::show::Show),
    #[command(about = "Search messages, tool calls, results and definitions")]
    Grep(verb::grep::Grep),
    #[command(about = "Find messages by words, the best first")]
    Search(verb::search::Search),
    Blame(verb::blame::Blame),
    #[command(about = "Show details that summaries left out")]
    Lost(verb::lost::Lost),
    #[command(about = "Compare the messages and tools of two revisions")]
    Diff(verb::diff::Diff),
    Branch(verb::branch::Branch),
    Checkout(verb::checkout::Checkout),
    Tag(verb::tag::Tag),
    Commit(Box<verb::commit::Commit>),
    #[cfg(feature = "http")]
    Chat(verb::ask::Chat),
    #[cfg(feature = "http")]
    Generate(verb::ask::Generate),
    #[command(about = "Let a model work on a task with tools")]
    #[cfg(feature = "run")]
    Run(Box<verb::run::Run>),
    #[cfg(feature = "run")]
    Replay(verb::replay::Replay),
    Edit(verb::edit::Edit),
    #[command(about = "Set how much messages matter, or leave them out")]
    Annotate(verb::annotate::Annotate),
    Revert(verb::revert::Revert),
    Merge(verb::merge::Merge),
    CherryPick(verb::rebase::CherryPick),
    #[command(about = "Reapply the commits of a branch on another revision")]
    Rebase(verb::rebase::Rebase),
    Drop(verb::rebase::Drop),
    Insert(verb::rebase::Insert),
    Reset(verb::rebase::Reset),
    Compress(verb::compress::Compress),
    #[command(about = "Show the original of a changed message")]
    Expand(verb::expand::Expand),
    Pending(verb::pending::Pending),
    Summarization(verb::summarization::Summarization),
    Apply(verb::apply::Apply),
    Import(verb::import::Import),
    #[cfg(feature = "record")]
    Record(verb::record::Record),
    #[command(about = "Write the repository, or a conversation for another tool")]
    Export(verb::export::Export),
    /// List the repositories of the store.
    #[command(after_help = "\
Examples:
  tract repos
  tract --store postgres://ada@db.example.com/agents repos")]
    Repos,
    #[command(about = "Copy a repository from one store to another")]
    Copy(verb::copy::Copy),
    Remote(verb::remote::Remote),
    #[command(about = "Bring the branches of a remote here")]
    Fetch(verb::transfer::Fetch),
    #[command(about = "Fetch, and move a branch forward")]
    Pull(verb::transfer::Pull),
    Push(verb::transfer::Push),
    #[command(about = "Move history as a file")]
    Bundle(verb::bundle::Bundle),
    #[cfg(feature = "conformance")]
    Conformance(verb::conformance::Conformance),
    Compile(verb::compile::Compile),
    #[command(about = "Show what breaks the provider's prompt cache")]
    WhyMiss(verb::why_miss::WhyMiss),
    #[command(about = "List, set, compare, pin and lint tool definitions")]
    Tools(verb::tools::Tools),
    #[command(about = "Validate a model's calls against their schemas")]
    Hydrate(verb::hydrate::Hydrate),
    #[command(about = "Use the tools of an MCP server, or serve conversations")]
    #[cfg(feature = "mcp")]
    Mcp(verb::mcp::Mcp),
    #[command(about = "Find the tools of a catalog that match a query")]
    Select(verb::select::Select),
    #[command(about = "List tool turns: calls with their results")]
    Turns(verb::turns::Turns),
    CompressToolCalls(verb::compress_tool_calls::CompressToolCalls),
    #[cfg(feature = "ui")]
    Ui(verb::ui::Ui),
    #[cfg(feature = "view")]
    View(verb::view::View),
    Verify(verb::verify::Verify),
    #[command(about = "Delete the text of a message for good, wherever it is")]
    Erase(verb::erase::Erase),
    #[command(about = "Replace keys and passwords with marks, for good")]
    Redact(verb::erase::Redact),
    Gc(verb::gc::Gc),
    Repack(verb::repack::Repack),
    Prune(verb::prune::Prune),
    /// Count the objects and bytes of the repository.
    #[command(after_help = "\
Examples:
  tract stats
  tract --repo customer-42 stats --json")]
    Stats,
    Usage(verb::usage::Usage),
    #[command(about = "Undo the last command on this branch, or --redo it")]
    Undo(verb::undo::Undo),
    #[command(about = "Print the completion script for a shell")]
    Completions(verb::completions::Completions),
    #[command(about = "Write the manual pages into a folder")]
    #[command(hide = true)]
    Man(verb::man::Man),
    #[command(about = "Run a guided demo in a new store")]
    Demo(verb::demo::Demo),
}

impl Command {
    /// Returns whether the command writes. Only then is the store closed in order before the process
    /// ends: a read-only command must not wait for another process that is writing.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Status
            | Self::Log(_)
            | Self::Cat(_)
            | Self::Show(_)
            | Self::Diff(_)
            | Self::Grep(_)
            | Self::Search(_)
            | Self::Blame(_)
            | Self::Lost(_)
            | Self::Expand(_)
            | Self::Export(_)
            | Self::Compile(_)
            | Self::WhyMiss(_)
            | Self::Hydrate(_)
            | Self::Select(_)
            | Self::Stats
            | Self::Usage(_)
            | Self::Repos
            | Self::Turns(_)
            | Self::Man(_)
            | Self::Completions(_) => false,
            #[cfg(feature = "conformance")]
            Self::Conformance(_) => false,
            #[cfg(feature = "run")]
            Self::Replay(_) => false,
            #[cfg(feature = "view")]
            Self::View(view) => view.allow_decisions,
            Self::Tools(tools) => tools.writes(),
            #[cfg(feature = "mcp")]
            Self::Mcp(mcp) => mcp.writes(),
            Self::Verify(verify) => verify.repair,
            Self::Gc(gc) => !gc.dry_run,
            Self::Erase(args) => args.writes(),
            Self::Redact(args) => !args.dry_run,
            Self::Prune(prune) => !prune.dry_run,
            Self::Pending(pending) => pending.writes(),
            Self::Summarization(config) => config.writes(),
            Self::Merge(merge) => merge.writes(),
            Self::Remote(remote) => remote.writes(),
            Self::Bundle(bundle) => bundle.writes(),
            Self::CherryPick(args) => !args.dry_run,
            Self::Rebase(args) => !args.dry_run,
            Self::Drop(args) => !args.dry_run,
            Self::Insert(args) => !args.dry_run,
            // Closing in order is right for every verb, so a new one may be left out above.
            _ => true,
        }
    }
}
