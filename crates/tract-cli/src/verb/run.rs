//! `tract run`

mod again;
mod printed;
mod tools;

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use clap::{Args, ValueEnum};
use tract::run::{OnResume, Report, Stop};
use tract::tools::budget::{Budget, BudgetTracker};
use tract::tools::policy::ApprovalRequired;
use tract::tools::{Session, Strategy};
use tract::{CancellationToken, ChatModel, Draft, Tract};

use self::printed::{Printer, RunEvent};
use self::tools::{Commands, Tools};
use super::ask::{Model, empty_question, stop_on_interrupt};
use crate::commit_args::object;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::runtime;

/// Let a model work on a task with tools; everything is recorded on the branch.
///
/// The model gets tools for its plan, for a folder (--fs) and of MCP servers (--mcp). Answers are
/// printed as they arrive. If interrupted, open calls are answered and recorded. `tract run`
/// without a task continues after an interruption, a crash, or decided approvals.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract run --model openai/gpt-5.5 --fs . 'Write a summary of README.md to SUMMARY.md'
  tract run --model anthropic/claude-opus-4-7 --mcp 'npx -y @modelcontextprotocol/server-memory' 'Remember that I like tea'
  tract run --model openai/gpt-5.5 --mcp 'gh=npx -y @modelcontextprotocol/server-github' --mcp-env gh:GITHUB_TOKEN 'List my issues'
  tract run --model ollama/llama3 --branch attempt-2 --max-steps 20 'Try again'
  tract pending approve p-7c1e && tract run --model openai/gpt-5.5 --fs .
  tract run --on attempt-2 --model ollama/llama3

Keys and base URLs come from the environment, as for `tract chat`.")]
pub(crate) struct Run {
    /// The task [default: continue from the head of the branch]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    model: Model,
    /// Let the model read and write the files of this folder, and nothing outside of it.
    #[arg(long, value_name = "DIR")]
    fs: Option<PathBuf>,
    /// Start this MCP server and let the model call its tools. LABEL is the label under which they
    /// were approved (`tract tools pin --server LABEL`); may be given several times.
    #[cfg(feature = "mcp")]
    #[arg(long, value_name = "[LABEL=]CMD")]
    mcp: Vec<String>,
    /// Environment variable for all servers, or for the one with this label: NAME passes the
    /// current value on, NAME=VALUE sets it; may be given several times. Otherwise a server gets
    /// only PATH, HOME and a few others.
    #[cfg(feature = "mcp")]
    #[arg(long, value_name = "[LABEL:]NAME[=VALUE]", requires = "mcp")]
    mcp_env: Vec<String>,
    /// Send the servers' tools only after the model has found them with the additional tool
    /// `search_tools`. For servers with many tools.
    #[cfg(feature = "mcp")]
    #[arg(long, requires = "mcp")]
    search: bool,
    /// The planning instructions for the model, or `none`.
    #[arg(long, value_name = "STRATEGY", default_value = "react", value_enum)]
    plan: Plan,
    /// Use the instructions of this file instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    instructions: Option<PathBuf>,
    /// Work on a new branch that starts here.
    #[arg(long, value_name = "NAME", conflicts_with = "on")]
    branch: Option<String>,
    /// Work on an existing branch; HEAD does not move.
    #[arg(long, value_name = "BRANCH")]
    on: Option<String>,
    /// Ask the model at most this many times.
    #[arg(long, value_name = "N", default_value_t = 50)]
    max_steps: u32,
    /// Use at most this many tokens, requests and replies together.
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// The calls that wait for approval.
    #[arg(long, value_name = "WHICH", default_value = "destructive", value_enum)]
    approve: Approve,
    /// Let tools of servers run without the repository's approvals (`tract tools pin`).
    #[cfg(feature = "mcp")]
    #[arg(long)]
    ignore_pins: bool,
    /// How to treat calls that had not started when an earlier run ended.
    #[arg(long, value_name = "WHAT", default_value = "answer", value_enum)]
    resume: Resume,
}

/// A [`Strategy`], or none.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
#[expect(clippy::enum_variant_names, reason = "a strategy that begins with a plan")]
enum Plan {
    React,
    PlanActReflect,
    #[value(alias = "goal-decompose-route-synthesise")]
    GoalDecomposeRouteSynthesize,
    None,
}

impl Plan {
    fn strategy(self) -> Option<Strategy> {
        match self {
            Self::React => Some(Strategy::React),
            Self::PlanActReflect => Some(Strategy::PlanActReflect),
            Self::GoalDecomposeRouteSynthesize => Some(Strategy::GoalDecomposeRouteSynthesize),
            Self::None => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Approve {
    /// Calls of tools that may destroy data
    Destructive,
    /// Calls of tools that may change anything
    Changes,
    /// No calls
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Resume {
    /// Answer them as not executed
    Answer,
    /// Run them, and run calls of idempotent tools again
    Run,
}

pub(crate) async fn run(context: &mut Context<'_>, run: Run) -> Outcome<()> {
    if run.task.as_ref().is_some_and(|task| task.trim().is_empty()) {
        return Err(empty_question("without a task, `tract run` continues from the branch's head"));
    }
    let network = runtime::threads(1)?;
    let model = Arc::new(run.model.client()?);
    let mut tract = context.open().await?;
    let head_branch = tract.branch_name().to_owned();
    if let Some(name) = &run.on {
        tract = tract.on(name)?;
        if tract.head().await?.is_none() {
            return Err(Failure::no("unknown_branch", format!("no branch {name:?}"))
                .note("`tract branch` lists them; --branch makes a new one"));
        }
    }
    if let Some(name) = &run.branch {
        tract = match tract.head().await? {
            Some(head) => tract.fork(name, head).await?,
            None => tract.on(name)?,
        };
    }
    let again = again::command(&run, &context.global, &tract, &head_branch);
    let tract = context.summarized_by(tract, Arc::clone(&model) as Arc<dyn ChatModel>);
    let cancellation = CancellationToken::new();
    stop_on_interrupt(&network, &cancellation);
    let (sender, events) = mpsc::channel();
    let work = network.spawn({
        let (tract, cancellation) = (tract.clone(), cancellation.clone());
        async move { worked(&tract, run, model, cancellation, sender).await }
    });
    let mut printer = Printer::default();
    for event in events {
        printer.print_event(context.out, &event)?;
    }
    let report = work
        .await
        .map_err(|error| Failure::no("runtime", format!("the run failed: {error}")))??;
    printer.end(context.out, &tract, &report, &again)?;
    match &report.stop {
        Stop::Answered => Ok(()),
        Stop::Cancelled => Err(Failure::reported_no().interrupted()),
        _ => Err(Failure::reported_no()),
    }
}

/// Runs the agent; its events are sent to the printer.
async fn worked(
    tract: &Tract,
    run: Run,
    model: Arc<tract::models::HttpModel>,
    cancellation: CancellationToken,
    sender: mpsc::Sender<RunEvent>,
) -> Outcome<Report> {
    let session = Session::new();
    let instructions = run.instructions.as_deref().map(input::read_text).transpose()?;
    #[cfg(feature = "mcp")]
    let commands = Commands { commands: &run.mcp, variables: &run.mcp_env };
    #[cfg(not(feature = "mcp"))]
    let commands = Commands::default();
    let strategy = run.plan.strategy();
    let tools = Tools::start(&session, strategy, run.fs.as_deref(), commands, instructions).await?;
    let mut agent = tract
        .agent(model, tools.registry()?)
        .session(&session)
        .cancellation(cancellation)
        .max_steps(run.max_steps)
        .on_resume(match run.resume {
            Resume::Answer => OnResume::Answer,
            Resume::Run => OnResume::Run,
        })
        .on_progress(move |progress| {
            if let Some(event) = RunEvent::of(progress) {
                // If the printer is gone, it has already canceled the run.
                let _ = sender.send(event);
            }
        });
    if let Some(parameters) = object(&run.model.set)? {
        agent = agent.parameters(parameters);
    }
    if let Some(tokens) = run.max_tokens {
        let budget = BudgetTracker::new(Budget { total_tokens: Some(tokens), ..Budget::default() })
            .map_err(|error| Failure::usage(error.to_string()))?;
        agent = agent.budget(Arc::new(budget));
    }
    agent = match run.approve {
        Approve::Destructive => agent.policy(ApprovalRequired::of_destructive()),
        Approve::Changes => agent.policy(ApprovalRequired::of_all_that_change()),
        Approve::None => agent,
    };
    #[cfg(feature = "mcp")]
    if run.ignore_pins {
        agent = agent.ignore_pins();
    }
    #[cfg(feature = "mcp")]
    if run.search {
        agent = tools.searched(agent)?;
    }
    agent = tools.equip(agent)?;
    let report = agent.run(run.task.map(Draft::user)).await;
    drop(agent);
    tools.close().await;
    Ok(report.map_err(tract::Error::from)?)
}
