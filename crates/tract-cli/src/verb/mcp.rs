//! `tract mcp`

use std::ffi::OsString;

use clap::{Args, Subcommand};
use tract::ToolSchema;
use tract::engine::Request;
use tract::mcp::{McpError, McpServer, ServerCommand, ServerOptions};

use super::Said;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::{self, count};
use crate::style::{BOLD, DIM, ID, Styled};

/// Ask an MCP server for its tools.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract mcp tools -- npx -y @modelcontextprotocol/server-memory
  tract mcp import -- npx -y @modelcontextprotocol/server-filesystem .
  tract tools pin --server memory -- npx -y @modelcontextprotocol/server-memory")]
pub(crate) struct Mcp {
    #[command(subcommand)]
    verb: McpVerb,
}

#[derive(Debug, Subcommand)]
enum McpVerb {
    /// List the tools of a server, as it writes them; opens no store.
    Tools {
        /// The command that starts the server.
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Add the tools of a server to those in force; one of the same name is replaced.
    Import {
        /// Only these tools, not those in force.
        #[arg(long)]
        only: bool,
        #[command(flatten)]
        said: Said,
        /// The command that starts the server.
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

impl Mcp {
    /// Whether it writes.
    pub(crate) fn writes(&self) -> bool {
        matches!(self.verb, McpVerb::Import { .. })
    }
}

pub(crate) async fn run(context: &mut Context<'_>, mcp: Mcp) -> Outcome<()> {
    match mcp.verb {
        McpVerb::Tools { command } => tools(context, &command),
        McpVerb::Import { only, said, command } => import(context, only, &said, &command).await,
    }
}

impl From<McpError> for Failure {
    fn from(error: McpError) -> Self {
        let failure = Self::no(error.code(), error.to_string());
        error.notes().into_iter().fold(failure, Self::note)
    }
}

/// Starts a server, lists its tools and ends it.
pub(crate) fn definitions(label: &str, command: &[OsString]) -> Outcome<Vec<ToolSchema>> {
    let Some((program, args)) = command.split_first() else {
        return Err(Failure::usage("expected the command of a server after --"));
    };
    let label = match label {
        "" => program.to_string_lossy().into_owned(),
        label => label.to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::no("runtime", error.to_string()))?;
    let listing = runtime.block_on(async {
        let command = ServerCommand::new(program).args(args);
        let server = McpServer::start(label, command, ServerOptions::new()).await?;
        let listing = server.tools().await;
        server.close().await;
        listing
    })?;
    if let Some((text, why)) = listing.refused.first() {
        let text: String = text.chars().take(80).collect();
        let failed = listing.refused.len();
        let message = format!("{} the server lists: {why}: {text}", count(failed, "tool"));
        return Err(Failure::no("bad_tool", message));
    }
    Ok(listing.tools.iter().map(|tool| tool.definition().clone()).collect())
}

fn tools(context: &mut Context<'_>, command: &[OsString]) -> Outcome<()> {
    let found = definitions("", command)?;
    let names = found.iter().map(|tool| escape::width(&escape::line(tool.name())));
    let width = names.max().unwrap_or(0);
    for tool in &found {
        if context.out.is_json() {
            context.out.raw(&line_of(tool)?)?;
            continue;
        }
        let name = escape::line(tool.name());
        let pad = " ".repeat(width - escape::width(&name));
        let view = tract::schema::ToolView::parse(tool.text())?;
        let says = view.description.and_then(|raw| serde_json::from_str::<String>(raw).ok());
        let says = says.unwrap_or_default();
        let first = says.lines().next().unwrap_or_default();
        context.out.line(format_args!(
            "{}  {}{pad}  {}",
            Styled(ID, tool.id().short()),
            Styled(BOLD, name),
            Styled(DIM, escape::line(first))
        ))?;
    }
    Ok(())
}

fn line_of(tool: &ToolSchema) -> Outcome<String> {
    match tool.text().contains('\n') {
        false => Ok(tool.text().to_owned()),
        true => Ok(tract::JsonText::new(tool.text())?.as_str().to_owned()),
    }
}

async fn import(
    context: &mut Context<'_>,
    only: bool,
    said: &Said,
    command: &[OsString],
) -> Outcome<()> {
    let tract = context.open().await?;
    let found = definitions("", command)?;
    let mut tools = Vec::new();
    if !only {
        for tool in tract.tools().await? {
            if !found.iter().any(|new| new.name() == tool.name) {
                tools.push(ToolSchema::parse(&tool.schema)?);
            }
        }
    }
    tools.extend(found);
    let made = tract.record(Request::Tools { tools, details: said.details()? }).await?;
    render::committed(context.out, &tract, &made).await
}
