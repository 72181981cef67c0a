//! The address of an MCP server: a URL, or a command that starts it.

use std::ffi::OsString;

use clap::Args;
#[cfg(feature = "mcp")]
use tract::mcp::{McpServer, ServerCommand, ServerOptions};

#[cfg(feature = "mcp")]
use crate::failure::{Failure, Outcome};

/// A server of tools.
#[derive(Debug, Args)]
#[cfg_attr(
    not(all(feature = "mcp", feature = "http")),
    allow(dead_code, reason = "a build without them takes the same command line and says so")
)]
pub(crate) struct ServerArgs {
    /// URL of a server with streamable HTTP.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// Send this header to the URL; may be given several times.
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// Environment variable with a bearer token for the URL.
    #[arg(long, value_name = "VARIABLE", requires = "url")]
    token_env: Option<String>,
    /// Environment variable for the command: NAME passes the current value on, NAME=VALUE sets it;
    /// may be given several times. Otherwise a server gets only PATH, HOME and a few others.
    #[arg(long, value_name = "NAME[=VALUE]", requires = "command")]
    env: Vec<String>,
    /// The command that starts a server.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Sets a variable of a command: `NAME` passes on ours, and `NAME=VALUE` sets it.
#[cfg(feature = "mcp")]
pub(super) fn add_variable(command: &mut ServerCommand, variable: &str) -> Outcome<()> {
    match variable.split_once('=') {
        Some(("", _)) => {
            return Err(Failure::usage(format!("expected NAME=VALUE, found {variable:?}")));
        }
        Some((name, value)) => _ = command.env.insert(name.into(), value.into()),
        None if std::env::var_os(variable).is_some() => {
            _ = command.inherited.insert(variable.into());
        }
        None => {
            let text = format!("expected the variable {variable:?} in the environment, found none");
            return Err(Failure::usage(text));
        }
    }
    Ok(())
}

#[cfg(feature = "mcp")]
impl ServerArgs {
    /// Runs a function with a server, which is stopped afterwards.
    pub(crate) fn ask<T, F>(&self, label: &str, options: ServerOptions, asks: F) -> Outcome<T>
    where
        F: AsyncFnOnce(&McpServer) -> Outcome<T>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::no("runtime", error.to_string()))?;
        runtime.block_on(async {
            let server = self.open(label, options).await?;
            let answer = asks(&server).await;
            server.close().await;
            answer
        })
    }

    /// Returns the identity that approvals of a server without a label are bound to.
    pub(crate) fn identity(&self) -> Option<String> {
        #[cfg(feature = "http")]
        if let Some(url) = &self.url {
            return Some(tract::mcp::ServerUrl::new(url).identity());
        }
        let (program, args) = self.command.split_first()?;
        Some(ServerCommand::new(program).args(args).identity())
    }

    async fn open(&self, label: &str, options: ServerOptions) -> Outcome<McpServer> {
        if let Some(url) = &self.url {
            return self.connect(label, url, options).await;
        }
        let Some((program, args)) = self.command.split_first() else {
            return Err(Failure::usage("expected a server: --url URL, or its command after --"));
        };
        let mut command = ServerCommand::new(program).args(args);
        for variable in &self.env {
            add_variable(&mut command, variable)?;
        }
        Ok(McpServer::start(label, command, options).await?)
    }

    #[cfg(feature = "http")]
    async fn connect(&self, label: &str, url: &str, options: ServerOptions) -> Outcome<McpServer> {
        let mut server = tract::mcp::ServerUrl::new(url);
        for header in &self.header {
            let Some((name, value)) = header.split_once(':') else {
                return Err(Failure::usage("expected --header \"NAME: VALUE\", found no colon"));
            };
            server = server.header(name.trim(), value.trim());
        }
        if let Some(variable) = &self.token_env {
            let token = std::env::var(variable).map_err(|_| {
                Failure::usage(format!("expected a token in the variable {variable}, found none"))
            })?;
            server = server.bearer(token);
        }
        Ok(McpServer::connect(label, server, options).await?)
    }

    #[cfg(not(feature = "http"))]
    async fn connect(&self, _: &str, _: &str, _: ServerOptions) -> Outcome<McpServer> {
        Err(Failure::usage("this build cannot reach urls").note("build with the feature \"http\""))
    }
}
