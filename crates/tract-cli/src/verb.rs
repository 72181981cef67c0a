//! The verbs, one file each: what each takes, what it calls, what it prints.

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

use std::collections::BTreeMap;

use clap::Args;
use tract::JsonText;
use tract::engine::Details;

use crate::args::Command;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::input;

/// The flags of every verb that makes a commit.
#[derive(Debug, Args)]
pub(crate) struct CommitArgs {
    /// Show this line in the log.
    #[arg(long, short, value_name = "LINE")]
    message: Option<String>,
    /// Store a key and a value of your own; may be given several times.
    #[arg(long, value_name = "KEY=JSON", value_parser = input::key_value)]
    metadata: Vec<(String, JsonText)>,
    /// State the time instead of the clock's; makes the id reproducible.
    #[arg(long, value_name = "TIME", value_parser = input::since)]
    at: Option<i64>,
}

impl CommitArgs {
    fn details(&self) -> Outcome<Details> {
        Ok(Details {
            message: self.message.clone(),
            metadata: object(&self.metadata)?,
            created_at: self.at,
            ..Details::default()
        })
    }
}

/// Makes an object of keys and values; `None` when there are none.
fn object(pairs: &[(String, JsonText)]) -> Outcome<Option<JsonText>> {
    let members: BTreeMap<&String, &JsonText> =
        pairs.iter().map(|(key, json)| (key, json)).collect();
    let object = (!members.is_empty()).then(|| JsonText::of(&members));
    object.transpose().map_err(Failure::json)
}

/// Runs one command.
pub(crate) async fn run(context: &mut Context<'_>, command: Command) -> Outcome<()> {
    match command {
        Command::Init(init) => init::run(context, init).await,
        Command::Status => status::run(context).await,
        Command::Log(log) => log::run(context, log).await,
        Command::Cat(cat) => cat::run(context, cat).await,
        Command::Show(show) => show::run(context, show).await,
        Command::Grep(grep) => grep::run(context, grep).await,
        Command::Search(search) => search::run(context, search).await,
        Command::Blame(blame) => blame::run(context, blame).await,
        Command::Lost(lost) => lost::run(context, lost).await,
        Command::Diff(diff) => diff::run(context, diff).await,
        Command::Branch(branch) => branch::run(context, branch).await,
        Command::Checkout(checkout) => checkout::run(context, checkout).await,
        Command::Tag(tag) => tag::run(context, tag).await,
        Command::Commit(commit) => commit::run(context, *commit).await,
        #[cfg(feature = "http")]
        Command::Chat(chat) => ask::chat(context, chat).await,
        #[cfg(feature = "http")]
        Command::Generate(generate) => ask::generate(context, generate).await,
        #[cfg(feature = "run")]
        Command::Run(args) => run::run(context, *args).await,
        #[cfg(feature = "run")]
        Command::Replay(args) => replay::run(context, args).await,
        Command::Edit(edit) => edit::run(context, edit).await,
        Command::Annotate(annotate) => annotate::run(context, annotate).await,
        Command::Revert(revert) => revert::run(context, revert).await,
        #[cfg(feature = "mcp")]
        Command::Mcp(mcp) => mcp::run(context, mcp).await,
        Command::Merge(merge) => merge::run(context, merge).await,
        Command::CherryPick(args) => rebase::cherry_pick(context, args).await,
        Command::Rebase(args) => rebase::rebase(context, args).await,
        Command::Drop(args) => rebase::drop(context, args).await,
        Command::Insert(args) => rebase::insert(context, args).await,
        Command::Reset(args) => rebase::reset(context, args).await,
        Command::Compress(compress) => compress::run(context, compress).await,
        #[cfg(feature = "conformance")]
        Command::Conformance(args) => conformance::run(context, args).await,
        Command::Repos => repos::run(context).await,
        Command::Copy(copy) => copy::run(context, copy).await,
        Command::Remote(remote) => remote::run(context, remote).await,
        Command::Fetch(args) => transfer::fetch(context, args).await,
        Command::Pull(args) => transfer::pull(context, args).await,
        Command::Push(args) => transfer::push(context, args).await,
        Command::Bundle(bundle) => bundle::run(context, bundle).await,
        Command::Apply(apply) => apply::run(context, apply).await,
        Command::Import(import) => import::run(context, import).await,
        #[cfg(feature = "record")]
        Command::Record(args) => record::run(context, args).await,
        Command::Expand(expand) => expand::run(context, expand).await,
        Command::Pending(pending) => pending::run(context, pending).await,
        Command::Summarization(config) => summarization::run(context, config).await,
        Command::Export(export) => export::run(context, export).await,
        Command::Compile(compile) => compile::run(context, compile).await,
        Command::WhyMiss(why_miss) => why_miss::run(context, why_miss).await,
        Command::Hydrate(hydrate) => hydrate::run(context, &hydrate).await,
        Command::Tools(tools) => tools::run(context, tools).await,
        Command::Select(select) => select::run(context, select).await,
        Command::Turns(turns) => turns::run(context, turns).await,
        Command::CompressToolCalls(args) => compress_tool_calls::run(context, args).await,
        Command::Verify(verify) => verify::run(context, verify).await,
        Command::Erase(args) => erase::erase(context, args).await,
        Command::Redact(args) => erase::redact(context, args).await,
        #[cfg(feature = "view")]
        Command::View(view) => view::run(context, view).await,
        Command::Gc(gc) => gc::run(context, gc).await,
        Command::Repack(repack) => repack::run(context, repack).await,
        Command::Prune(prune) => prune::run(context, prune).await,
        Command::Stats => stats::run(context).await,
        Command::Usage(usage) => usage::run(context, usage).await,
        #[cfg(feature = "ui")]
        Command::Ui(ui) => ui::run(context, ui).await,
        Command::Undo(undo) => undo::run(context, undo).await,
        Command::Completions(completions) => completions::run(context, &completions),
        Command::Man(man) => man::run(context, &man),
        Command::Demo(demo) => demo::run(context, demo).await,
    }
}
