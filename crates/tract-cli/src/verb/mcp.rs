//! `tract mcp`

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use tract::core::ToolContext;
use tract::engine::Request;
use tract::mcp::{Listing, McpError, ServerOptions};
use tract::{CancellationToken, ToolSchema};

use super::server::ServerArgs;
use super::tools::{one_line, row, width};
use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::ending;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::out::Output;
use crate::render;
use crate::style::{DIM, Styled};

/// List, import and call the tools of an MCP server, or be one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract mcp tools -- npx -y @modelcontextprotocol/server-memory
  tract mcp tools --url https://example.com/mcp --token-env EXAMPLE_TOKEN
  tract mcp tools --env GITHUB_TOKEN -- npx -y @modelcontextprotocol/server-github
  tract mcp import -- npx -y @modelcontextprotocol/server-filesystem .
  tract mcp call read_graph '{}' -- npx -y @modelcontextprotocol/server-memory
  tract mcp serve                            let an agent search and read the conversations here
  claude mcp add tract -- tract --store sqlite:PATH mcp serve
  tract tools pin --server memory -- npx -y @modelcontextprotocol/server-memory")]
pub(crate) struct Mcp {
    #[command(subcommand)]
    verb: McpVerb,
}

#[derive(Debug, Subcommand)]
enum McpVerb {
    /// List the tools of a server byte for byte; opens no store.
    Tools {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Add the tools of a server to those in force; a tool with the same name is replaced.
    Import {
        /// Replace the tools in force instead of adding to them.
        #[arg(long)]
        only: bool,
        #[command(flatten)]
        commit_args: CommitArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Call a tool of a server; opens no store. Exits with 1 when the tool reports a failure.
    Call {
        /// The tool, by the name that the server gives it.
        tool: String,
        /// The arguments: a JSON object; `-` for standard input.
        #[arg(default_value = "{}", hide_default_value = true)]
        arguments: String,
        /// Time limit of the call, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        timeout: u64,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Serve the recorded conversations to an MCP client on the standard streams.
    ///
    /// Agents search, list, read and compare them. Nothing can be deleted. The client starts this
    /// command by itself; it ends when the client closes its end.
    #[cfg(feature = "serve")]
    Serve {
        /// Let clients make branches, and write notes and messages to the branches that they made.
        #[arg(long)]
        write: bool,
        /// With --write, let them write to this branch too, or with a `*` at its end to all that
        /// begin like it; may be given several times.
        #[arg(long, value_name = "BRANCH", requires = "write")]
        write_to: Vec<String>,
        /// Leave this branch out of lists and searches; may be given several times.
        #[arg(long, value_name = "BRANCH")]
        exclude: Vec<String>,
    },
}

impl Mcp {
    /// Returns whether the command writes.
    pub(crate) fn writes(&self) -> bool {
        match self.verb {
            McpVerb::Import { .. } => true,
            #[cfg(feature = "serve")]
            McpVerb::Serve { write, .. } => write,
            McpVerb::Tools { .. } | McpVerb::Call { .. } => false,
        }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, mcp: Mcp) -> Outcome<()> {
    match mcp.verb {
        McpVerb::Tools { server } => tools(context.out, &server),
        McpVerb::Import { only, commit_args, server } => {
            import(context, only, &commit_args, &server).await
        }
        McpVerb::Call { tool, arguments, timeout, server } => {
            call(context.out, &tool, &arguments, timeout, &server)
        }
        #[cfg(feature = "serve")]
        McpVerb::Serve { write, write_to, exclude } => {
            serve(context, tract::serve::ServeOptions { write, write_to, exclude }).await
        }
    }
}

impl From<McpError> for Failure {
    fn from(error: McpError) -> Self {
        Self::no(error.code(), error.to_string()).notes(error.notes())
    }
}

/// Lists the tools of a server. Invalid definitions are reported and left out.
pub(crate) fn definitions(label: &str, server: &ServerArgs) -> Outcome<Vec<ToolSchema>> {
    let options = ServerOptions::default();
    let listing = server.ask(label, options, async |server| Ok(server.tools().await?))?;
    report_refused("the server", &listing);
    Ok(listing.tools.iter().map(|tool| tool.definition().clone()).collect())
}

/// Maximum number of definitions that are reported one by one.
const MAX_REPORTED: usize = 20;

/// Reports the definitions that were left out.
pub(super) fn report_refused(server: &str, listing: &Listing) {
    for warning in &listing.warnings {
        let line = format!("the list of {server}: {warning}");
        anstream::eprintln!("{}", escape::line(&line));
    }
    for (text, why) in listing.refused.iter().take(MAX_REPORTED) {
        let shown: String = text.chars().take(80).collect();
        let line = format!("left out of what {server} lists: {why}: {shown}");
        anstream::eprintln!("{}", escape::line(&line));
    }
    let more = listing.refused.len().saturating_sub(MAX_REPORTED);
    if more > 0 {
        anstream::eprintln!("left out of what {server} lists: {more} more");
    }
}

fn call(
    out: &mut Output,
    tool: &str,
    arguments: &str,
    timeout_s: u64,
    server: &ServerArgs,
) -> Outcome<()> {
    let arguments = match arguments {
        "-" => input::read_text(std::path::Path::new("-"))?,
        given => given.to_owned(),
    };
    let options =
        ServerOptions { call_timeout: Duration::from_secs(timeout_s), ..ServerOptions::default() };
    let result = server.ask("", options, async |server| {
        let cancellation = CancellationToken::new();
        let call = ToolContext::new("call").with_cancellation(cancellation.clone()).with_progress(
            Arc::new(|_: &str, line: std::fmt::Arguments<'_>| {
                anstream::eprintln!("{}", escape::line(&line.to_string()));
            }),
        );
        let interrupts = ending::claim(&[ending::SIGINT]);
        let interrupted = async {
            interrupts.next().await;
            cancellation.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = server.call(tool, &arguments, &call) => done.map_err(failed_call),
            () = interrupted => unreachable!("it waits for ever"),
        }
    })?;
    if out.is_json() {
        out.json_text(&one_line(result.raw())?)?
    } else {
        out.line(escape::block(&result.text()))?
    }
    Failure::unless(!result.is_error())
}

/// Converts the error of a call. A call that may have run must not be repeated blindly.
fn failed_call(error: McpError) -> Failure {
    let mut notes = match &error {
        McpError::Timeout { .. } => vec!["--timeout allows more time".to_owned()],
        McpError::Ended { stderr, .. } if stderr.trim().is_empty() => Vec::new(),
        McpError::Ended { stderr, .. } => vec![format!("its last output: {}", stderr.trim())],
        error => error.notes(),
    };
    if error.may_have_run() && !matches!(error, McpError::Cut { .. }) {
        notes.push("the call may have run: check before you repeat it".to_owned());
    }
    Failure::no(error.code(), error.to_string()).notes(notes)
}

fn tools(out: &mut Output, server: &ServerArgs) -> Outcome<()> {
    let found = definitions("", server)?;
    let width = width(found.iter().map(ToolSchema::name));
    for tool in &found {
        if out.is_json() {
            out.json_text(&one_line(tool.text())?)?;
            continue;
        }
        let view = tract::schema::ToolView::parse(tool.text())?;
        let says = view.description.and_then(|raw| serde_json::from_str::<String>(raw).ok());
        let says = says.unwrap_or_default();
        let first = says.lines().next().unwrap_or_default();
        let first = Styled(DIM, escape::line(first));
        out.line(row(tool.id(), tool.name(), width, first))?;
    }
    Ok(())
}

async fn import(
    context: &mut Context<'_>,
    only: bool,
    commit_args: &CommitArgs,
    server: &ServerArgs,
) -> Outcome<()> {
    let tract = context.open().await?;
    let found = definitions("", server)?;
    let mut tools = Vec::new();
    if !only {
        for tool in tract.tools().in_force().await? {
            if !found.iter().any(|new| new.name() == tool.name) {
                tools.push(ToolSchema::parse(&tool.schema)?);
            }
        }
    }
    tools.extend(found);
    let made = tract.record(Request::Tools { tools, details: commit_args.details()? }).await?;
    render::committed(context.out, &tract, &made).await
}

#[cfg(feature = "serve")]
async fn serve(context: &mut Context<'_>, options: tract::serve::ServeOptions) -> Outcome<()> {
    let tract = context.open_to_serve("mcp").await?;
    let host = tract::serve::host(tract.repo().clone(), options);
    let runtime = crate::runtime::threads(2)?;
    let interrupts = ending::claim(&[ending::SIGINT]);
    let served = runtime.block_on(async {
        tokio::select! {
            served = host.serve_stdio() => served.map_err(Failure::from),
            _ = interrupts.next() => Ok(()),
        }
    });
    // A pending read of standard input cannot be canceled, and must not keep the process alive.
    runtime.shutdown_background();
    served
}
