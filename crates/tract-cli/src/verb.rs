//! The verbs, one file each: arguments, calls, output.

pub(crate) mod annotate;
pub(crate) mod apply;
#[cfg(feature = "http")]
pub(crate) mod ask;
pub(crate) mod blame;
pub(crate) mod branch;
pub(crate) mod bundle;
pub(crate) mod cat;
pub(crate) mod checkout;
pub(crate) mod commit;
pub(crate) mod compile;
pub(crate) mod completions;
pub(crate) mod compress;
pub(crate) mod compress_tool_calls;
#[cfg(feature = "conformance")]
pub(crate) mod conformance;
pub(crate) mod copy;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod erase;
pub(crate) mod expand;
pub(crate) mod export;
pub(crate) mod gc;
pub(crate) mod grep;
pub(crate) mod hydrate;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod log;
pub(crate) mod lost;
pub(crate) mod man;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod merge;
pub(crate) mod options;
pub(crate) mod pending;
mod pins;
pub(crate) mod prune;
pub(crate) mod rebase;
#[cfg(feature = "record")]
pub(crate) mod record;
pub(crate) mod remote;
pub(crate) mod repack;
#[cfg(feature = "run")]
pub(crate) mod replay;
mod repos;
pub(crate) mod revert;
#[cfg(feature = "run")]
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod select;
mod server;
pub(crate) mod sessions;
pub(crate) mod show;
mod stats;
mod status;
pub(crate) mod summarization;
pub(crate) mod tag;
pub(crate) mod tools;
pub(crate) mod transfer;
pub(crate) mod turns;
#[cfg(feature = "ui")]
pub(crate) mod ui;
pub(crate) mod undo;
pub(crate) mod usage;
pub(crate) mod verify;
#[cfg(feature = "view")]
pub(crate) mod view;
pub(crate) mod why_miss;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Outcome;

/// Makes [`Command`], the function that runs it, and the groups of the help from the rows of
/// [`verbs`].
macro_rules! verbs {
    (|$context:ident, $args:ident| $($group:literal {
        $($(#[$meta:meta])*
        $word:literal $name:ident($type:ty) $(if $feature:literal)? $(, writes: $writes:expr)?
            => $run:expr;)*
    })*) => {
        /// The verbs with their arguments.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(
                $(#[cfg(feature = $feature)])?
                #[command(name = $word)]
                $(#[$meta])*
                $name($type),
            )*)*
        }

        impl Command {
            /// Returns whether the command writes. Only then is the store closed before the process
            /// ends: a command that only reads must not wait for a process that is writing.
            pub(crate) fn writes(&self) -> bool {
                match self {
                    $($(
                        $(#[cfg(feature = $feature)])?
                        Self::$name($args) => {
                            let _ = $args;
                            true $(&& $writes)?
                        }
                    )*)*
                }
            }
        }

        /// The verbs of the help, grouped by purpose. Verbs in the group without a title are
        /// hidden. A verb that is not in this build is left out.
        pub(crate) const GROUPS: &[(&str, &[&str])] = &[$(($group, &[$($word),*])),*];

        /// Runs one command.
        pub(crate) async fn run($context: &mut Context<'_>, command: Command) -> Outcome<()> {
            match command {
                $($(
                    $(#[cfg(feature = $feature)])?
                    Command::$name($args) => $run,
                )*)*
            }
        }
    };
}

// A row: the word, the variant and its arguments, the feature it needs, whether it writes (default
// yes), and the call. The short text of a verb is the first line of its type's documentation. If
// that is too long for the list of verbs, the row has its own short text.
verbs! { |context, args|
    "Start" {
        #[command(about = "Run a guided demo in a new store")]
        "demo" Demo(demo::Demo) => demo::run(context, args).await;
        "init" Init(init::Init) => init::run(context, args).await;
        "import" Import(import::Import) => import::run(context, args).await;
        "record" Record(record::Record) if "record" => record::run(context, args).await;
        "status" Status(status::Status), writes: false => status::run(context, args).await;
        #[command(about = "Print the completion script for a shell")]
        "completions" Completions(completions::Completions), writes: false => completions::run(context, &args);
    }
    "Record" {
        "commit" Commit(Box<commit::Commit>) => commit::run(context, *args).await;
        "apply" Apply(apply::Apply) => apply::run(context, args).await;
        "branch" Branch(branch::Branch) => branch::run(context, args).await;
        "checkout" Checkout(checkout::Checkout) => checkout::run(context, args).await;
        "tag" Tag(tag::Tag) => tag::run(context, args).await;
    }
    "Change" {
        "edit" Edit(edit::Edit) => edit::run(context, args).await;
        #[command(about = "Set how much messages matter, or leave them out")]
        "annotate" Annotate(annotate::Annotate) => annotate::run(context, args).await;
        "compress" Compress(compress::Compress) => compress::run(context, args).await;
        "revert" Revert(revert::Revert) => revert::run(context, args).await;
        "merge" Merge(merge::Merge), writes: args.writes() => merge::run(context, args).await;
        #[command(about = "Undo the last command on this branch, or --redo it")]
        "undo" Undo(undo::Undo) => undo::run(context, args).await;
    }
    "History" {
        "cherry-pick" CherryPick(rebase::CherryPick), writes: !args.dry_run => rebase::cherry_pick(context, args).await;
        #[command(about = "Reapply the commits of a branch on another revision")]
        "rebase" Rebase(rebase::Rebase), writes: !args.dry_run => rebase::rebase(context, args).await;
        "drop" Drop(rebase::Drop), writes: !args.dry_run => rebase::drop(context, args).await;
        "insert" Insert(rebase::Insert), writes: !args.dry_run => rebase::insert(context, args).await;
        "reset" Reset(rebase::Reset) => rebase::reset(context, args).await;
    }
    "Clean up" {
        "prune" Prune(prune::Prune), writes: !args.dry_run => prune::run(context, args).await;
        "gc" Gc(gc::Gc), writes: !args.dry_run => gc::run(context, args).await;
        "repack" Repack(repack::Repack) => repack::run(context, args).await;
        #[command(about = "Delete the text of a message for good, wherever it is")]
        "erase" Erase(erase::Erase), writes: args.writes() => erase::erase(context, args).await;
        #[command(about = "Replace keys and passwords with marks, for good")]
        "redact" Redact(erase::Redact), writes: !args.dry_run => erase::redact(context, args).await;
    }
    "Look" {
        "log" Log(log::Log), writes: false => log::run(context, args).await;
        #[command(about = "Print the conversation as plain text")]
        "cat" Cat(cat::Cat), writes: false => cat::run(context, args).await;
        #[command(about = "Show the content and the changes of one commit")]
        "show" Show(show::Show), writes: false => show::run(context, args).await;
        #[command(about = "Compare the messages and tools of two revisions")]
        "diff" Diff(diff::Diff), writes: false => diff::run(context, args).await;
        "view" View(view::View) if "view", writes: args.allow_decisions => view::run(context, args).await;
        "ui" Ui(ui::Ui) if "ui" => ui::run(context, args).await;
    }
    "Search" {
        #[command(about = "List conversations with their titles, newest first")]
        "sessions" Sessions(sessions::Sessions), writes: false => sessions::run(context, args).await;
        #[command(about = "Find messages by words, the best first")]
        "search" Search(search::Search), writes: false => search::run(context, args).await;
        #[command(about = "Search messages, tool calls, results and definitions")]
        "grep" Grep(grep::Grep), writes: false => grep::run(context, args).await;
        "blame" Blame(blame::Blame), writes: false => blame::run(context, args).await;
        #[command(about = "Show details that summaries left out")]
        "lost" Lost(lost::Lost), writes: false => lost::run(context, args).await;
        #[command(about = "Show the original of a changed message")]
        "expand" Expand(expand::Expand), writes: false => expand::run(context, args).await;
    }
    "Compile" {
        "compile" Compile(compile::Compile), writes: false => compile::run(context, args).await;
        #[command(about = "Show what breaks the provider's prompt cache")]
        "why-miss" WhyMiss(why_miss::WhyMiss), writes: false => why_miss::run(context, args).await;
        "usage" Usage(usage::Usage), writes: false => usage::run(context, args).await;
        "compress-tool-calls" CompressToolCalls(compress_tool_calls::CompressToolCalls) => compress_tool_calls::run(context, args).await;
        "summarization" Summarization(summarization::Summarization), writes: args.writes() => summarization::run(context, args).await;
    }
    "Tools" {
        #[command(about = "List, set, compare, pin and lint tool definitions")]
        "tools" Tools(tools::Tools), writes: args.writes() => tools::run(context, args).await;
        #[command(about = "Use the tools of an MCP server, or serve conversations")]
        "mcp" Mcp(mcp::Mcp) if "mcp", writes: args.writes() => mcp::run(context, args).await;
        #[command(about = "Find the tools of a catalog that match a query")]
        "select" Select(select::Select), writes: false => select::run(context, args).await;
        #[command(about = "Validate a model's calls against their schemas")]
        "hydrate" Hydrate(hydrate::Hydrate), writes: false => hydrate::run(context, &args).await;
        #[command(about = "List tool turns: calls with their results")]
        "turns" Turns(turns::Turns), writes: false => turns::run(context, args).await;
    }
    "Agents" {
        "chat" Chat(ask::Chat) if "http" => ask::chat(context, args).await;
        "generate" Generate(ask::Generate) if "http" => ask::generate(context, args).await;
        #[command(about = "Let a model work on a task with tools")]
        "run" Run(Box<run::Run>) if "run" => run::run(context, *args).await;
        "replay" Replay(replay::Replay) if "run", writes: false => replay::run(context, args).await;
        "pending" Pending(pending::Pending), writes: args.writes() => pending::run(context, args).await;
    }
    "Move" {
        "remote" Remote(remote::Remote), writes: args.writes() => remote::run(context, args).await;
        #[command(about = "Bring the branches of a remote here")]
        "fetch" Fetch(transfer::Fetch) => transfer::fetch(context, args).await;
        #[command(about = "Fetch, and move a branch forward")]
        "pull" Pull(transfer::Pull) => transfer::pull(context, args).await;
        "push" Push(transfer::Push) => transfer::push(context, args).await;
        #[command(about = "Move history as a file")]
        "bundle" Bundle(bundle::Bundle), writes: args.writes() => bundle::run(context, args).await;
    }
    "Stores" {
        "repos" Repos(repos::Repos), writes: false => repos::run(context, args).await;
        "stats" Stats(stats::Stats), writes: false => stats::run(context, args).await;
        #[command(about = "Copy a repository from one store to another")]
        "copy" Copy(copy::Copy) => copy::run(context, args).await;
        #[command(about = "Write the repository, or a conversation for another tool")]
        "export" Export(export::Export), writes: false => export::run(context, args).await;
        "verify" Verify(verify::Verify), writes: args.repair => verify::run(context, args).await;
        "conformance" Conformance(conformance::Conformance) if "conformance", writes: false => conformance::run(context, args).await;
    }
    "" {
        #[command(about = "Show the options that every command takes", hide = true)]
        "options" Options(options::Options), writes: false => options::run(context, &args);
        #[command(about = "Write the manual pages into a folder")]
        #[command(hide = true)]
        "man" Man(man::Man), writes: false => man::run(context, &args);
    }
}
