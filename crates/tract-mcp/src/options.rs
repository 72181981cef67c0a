//! How to reach a server, and what it may do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::event::{Listener, McpEvent};

/// The program of a server that speaks on its standard streams.
///
/// ```
/// use tract_mcp::ServerCommand;
/// let files = ServerCommand::new("npx").args(["-y", "@modelcontextprotocol/server-filesystem", "."]);
/// ```
#[derive(Clone, Debug)]
pub struct ServerCommand {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) folder: Option<PathBuf>,
}

impl ServerCommand {
    /// Names the program.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: BTreeMap::new(), folder: None }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment, which is otherwise ours.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(key.into(), value.into());
        self
    }

    /// Sets the folder that it runs in.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

/// What a server may do, and how long it may take.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub(crate) handshake_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) max_line_bytes: usize,
    pub(crate) max_restarts: u32,
    pub(crate) trust_annotations: bool,
    pub(crate) listener: Listener,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerOptions {
    /// 30 seconds for the handshake, 60 for a request, 16 MiB for a message, 3 restarts in a row,
    /// annotations not trusted, nobody listening.
    pub fn new() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            max_line_bytes: 16 << 20,
            max_restarts: 3,
            trust_annotations: false,
            listener: Listener::default(),
        }
    }

    /// Sets how long it may take to say hello.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Sets how long one request may take; a call's own deadline may be shorter.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets how long one message may be.
    #[must_use]
    pub fn max_line_bytes(mut self, bytes: usize) -> Self {
        self.max_line_bytes = bytes;
        self
    }

    /// Sets how often it is started again without having answered in between.
    #[must_use]
    pub fn max_restarts(mut self, times: u32) -> Self {
        self.max_restarts = times;
        self
    }

    /// Takes the server's word that its tools only read or may be repeated. Without it annotations
    /// only restrict: what a server calls destructive is, what it calls harmless promises nothing.
    #[must_use]
    pub fn trust_annotations(mut self, trust: bool) -> Self {
        self.trust_annotations = trust;
        self
    }

    /// Sets who hears of events. It is called between two messages and must return soon.
    #[must_use]
    pub fn on_event(mut self, listener: impl Fn(McpEvent) + Send + Sync + 'static) -> Self {
        self.listener = Listener(Some(Arc::new(listener)));
        self
    }
}
