//! A server and its tools: lists and calls them, and restarts the server if it has ended.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use rmcp::service::Peer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc};
use tract_core::{ToolContext, ToolSchema};
use tract_schema::diff;

use crate::answers::Answers;
use crate::client::ProgressBoard;
use crate::connection::{Connection, Stderr};
use crate::error::{McpError, Result};
use crate::event::McpEvent;
#[cfg(feature = "http")]
use crate::http::ServerUrl;
use crate::listing::{ListedPage, Listing, ListingReader};
use crate::options::{ServerCommand, ServerOptions};
use crate::result::CallResult;
#[cfg(doc)]
use crate::tool::McpTool;

/// A server of tools. Clones share one server.
///
/// # Behavior
/// - It needs the tokio runtime in which it was connected, with time and I/O enabled.
/// - A server that has ended is restarted by the next request. A call in progress at that time
///   fails and is not repeated, because it is unknown how far it came.
/// - A [`McpTool`] is called only while the server lists it with the same definition. After every
///   start, and after the server reports a change of its tools, they are listed and compared first.
/// - Dropping the last clone ends the program and its child processes; [`McpServer::close`] waits
///   for that.
#[derive(Clone)]
pub struct McpServer(Arc<Inner>);

struct Inner {
    label: String,
    /// The identity that approvals are bound to.
    identity: String,
    options: ServerOptions,
    way: Endpoint,
    life: Mutex<ConnectionState>,
    /// Number of times that the tools may have changed: the server reported it, or was restarted.
    changes: Arc<AtomicU64>,
    listed: std::sync::Mutex<CachedListing>,
    /// Held during a listing that calls need, so that concurrent calls share one listing.
    listing: Mutex<()>,
}

/// The last listing of the server.
#[derive(Default)]
struct CachedListing {
    /// The value of `changes` that it includes; `None` before the first listing.
    changes: Option<u64>,
    definitions: HashMap<String, ToolSchema>,
}

/// The way to reconnect to a server.
enum Endpoint {
    Program(ServerCommand),
    #[cfg(feature = "http")]
    Url(ServerUrl),
    /// Streams, which cannot be reopened.
    Streams,
}

struct ConnectionState {
    connection: Option<Connection>,
    /// Number of connections before this one.
    number: u64,
    /// Number of restarts since the server last answered.
    restarts: u32,
}

/// The part of a connection that one request uses.
pub(crate) struct RequestConnection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) board: Arc<ProgressBoard>,
    pub(crate) stderr: Stderr,
    /// The number of the connection that it belongs to.
    pub(crate) life: u64,
    /// The value of `changes` when the request began.
    changes: u64,
    /// Held while the request is in progress.
    _in_use: mpsc::Sender<Infallible>,
}

impl McpServer {
    /// Starts a program that speaks the protocol on its standard streams. The label names the
    /// server in errors and approvals, and prefixes names that several servers have. If the label
    /// is empty, the server is named after the program, and approvals are bound to the whole
    /// command line ([`ServerCommand::identity`]).
    ///
    /// # Errors
    /// [`McpError::Start`], [`McpError::Handshake`].
    pub async fn start(
        label: impl Into<String>,
        command: ServerCommand,
        options: ServerOptions,
    ) -> Result<Self> {
        let (label, identity) = named(label.into(), || (command.name(), command.identity()));
        let changes = Arc::default();
        let connection = Connection::start(&label, &command, &options, &changes).await?;
        Ok(Self::of([label, identity], options, Endpoint::Program(command), connection, changes))
    }

    /// Connects to a server behind a URL (streamable HTTP). If the label is empty, the server is
    /// named after the URL, and approvals are bound to it ([`ServerUrl::identity`]).
    ///
    /// # Behavior
    /// - A session that the server has dropped is replaced by a new one, and the rejected request
    ///   is sent again, because the server did not process it.
    /// - An interrupted stream is resumed if the server supports it; otherwise the call fails and
    ///   is not repeated.
    /// - Redirects are not followed.
    ///
    /// # Errors
    /// [`McpError::Url`], [`McpError::Unreachable`], [`McpError::Unauthorized`],
    /// [`McpError::Status`], and other errors of the handshake.
    #[cfg(feature = "http")]
    pub async fn connect(
        label: impl Into<String>,
        url: ServerUrl,
        options: ServerOptions,
    ) -> Result<Self> {
        let (label, identity) = named(label.into(), || (url.shown(), url.identity()));
        let changes = Arc::default();
        let connection = Connection::at(&label, &url, &options, &changes).await?;
        Ok(Self::of([label, identity], options, Endpoint::Url(url), connection, changes))
    }

    /// Connects to a server over two streams, such as those of a socket or within this process.
    ///
    /// # Errors
    /// [`McpError::Handshake`].
    pub async fn over<R, W>(
        label: impl Into<String>,
        reader: R,
        writer: W,
        options: ServerOptions,
    ) -> Result<Self>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let label = label.into();
        let changes = Arc::default();
        let stderr = Stderr::default();
        let connection =
            Connection::over(&label, reader, writer, None, stderr, &options, &changes).await?;
        Ok(Self::of([label.clone(), label], options, Endpoint::Streams, connection, changes))
    }

    fn of(
        [label, identity]: [String; 2],
        options: ServerOptions,
        way: Endpoint,
        connection: Connection,
        changes: Arc<AtomicU64>,
    ) -> Self {
        let life =
            Mutex::new(ConnectionState { connection: Some(connection), number: 0, restarts: 0 });
        let (listed, listing) = Default::default();
        Self(Arc::new(Inner { label, identity, options, way, life, changes, listed, listing }))
    }

    /// Returns the identity that approvals are bound to: the given label, else the command line or
    /// the URL.
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Returns the label.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// Returns whether the server has reported a change of its tools or was restarted since the
    /// last listing.
    pub fn tools_changed(&self) -> bool {
        self.listed().changes.unwrap_or(0) != self.0.changes.load(Ordering::Acquire)
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, CachedListing> {
        // The value is replaced as a whole, so it stays consistent after a panic.
        self.0.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.0.options
    }

    /// Ends the server and waits until it is gone. The next request restarts it.
    pub async fn close(&self) {
        let connection = self.0.life.lock().await.connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Returns the connection for a request, restarting the server if it has ended.
    pub(crate) async fn connection(&self) -> Result<RequestConnection> {
        let Inner { label, options, way, changes, .. } = &*self.0;
        // Held while the server starts, so that concurrent requests wait for one restart.
        let mut life = self.0.life.lock().await;
        let ended = life.connection.as_ref().is_none_or(Connection::has_ended);
        if ended {
            let before = life.connection.take();
            let stderr = before.map(|before| before.stderr.text()).unwrap_or_default();
            if life.restarts >= options.max_restarts {
                let times = life.restarts;
                return Err(McpError::KeepsEnding { server: label.clone(), times });
            }
            let started = match way {
                Endpoint::Program(command) => {
                    // Counted before the start: a program that fails to start must not be tried
                    // forever.
                    life.restarts += 1;
                    Connection::start(label, command, options, changes).await?
                }
                // Counted only once it is reached: an unreachable server may come back at any time.
                #[cfg(feature = "http")]
                Endpoint::Url(url) => {
                    let connection = Connection::at(label, url, options, changes).await?;
                    life.restarts += 1;
                    connection
                }
                Endpoint::Streams => return Err(McpError::Ended { server: label.clone(), stderr }),
            };
            life.connection = Some(started);
            life.number += 1;
            // The restarted server may have other tools.
            changes.fetch_add(1, Ordering::AcqRel);
            options.listener.tell(McpEvent::Restarted);
        }
        let number = life.number;
        let Some(connection) = &life.connection else { unreachable!("it was just started") };
        Ok(RequestConnection {
            peer: connection.peer(),
            answers: Arc::clone(&connection.answers),
            board: Arc::clone(&connection.board),
            stderr: connection.stderr.clone(),
            _in_use: connection.in_use(),
            life: number,
            changes: changes.load(Ordering::Acquire),
        })
    }

    /// Gives a connection up after an error that ends it, unless it has been replaced already. For
    /// a program, the check of the next request may not see its end yet.
    pub(crate) async fn abandon_after(&self, error: &McpError, number: u64) {
        let is_lost = matches!(error, McpError::SessionLost { .. });
        let is_program = matches!(self.0.way, Endpoint::Program(_));
        let has_ended = matches!(error, McpError::Ended { .. }) && is_program;
        if !is_lost && !has_ended {
            return;
        }
        let mut life = self.0.life.lock().await;
        if life.number == number
            && let Some(connection) = life.connection.take()
            && is_lost
        {
            // Other requests may be in progress, which the server still answers or rejects.
            tokio::spawn(connection.end_after_use());
        }
    }

    /// Lists the tools, page by page, with each definition as the server wrote it.
    ///
    /// # Behavior
    /// - An invalid definition does not hide the others: see [`Listing::refused`].
    /// - The time limit of a request and the size limit of a message apply to all pages together.
    ///   What fits is kept, the rest is left out: see [`Listing::warnings`].
    ///
    /// # Errors
    /// [`McpError`] if the server ends, exceeds a limit, or refuses the request.
    pub async fn tools(&self) -> Result<Listing> {
        let context = ToolContext::new("tools/list");
        let list = async || self.list(&self.connection().await?, &context).await;
        let listing = match list().await {
            Err(McpError::SessionLost { .. }) => list().await,
            done => done,
        }?;
        self.has_answered().await;
        Ok(listing)
    }

    /// Lists the tools over one connection, and caches their definitions for comparison.
    async fn list(&self, reach: &RequestConnection, context: &ToolContext) -> Result<Listing> {
        let deadline = self.deadline(context)?;
        let limit_bytes = self.0.options.max_line_bytes;
        let mut reading = ListingReader::default();
        let mut cursors: HashSet<String> = HashSet::new();
        let mut cursor: Option<String> = None;
        'pages: loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let list = ListToolsRequest { params: Some(params), ..Default::default() };
            let request = ClientRequest::ListToolsRequest(list);
            let sent = self.send(reach, request, context, "tools/list", deadline).await;
            let raw = match sent {
                Err(error @ (McpError::SessionLost { .. } | McpError::Cancelled)) => {
                    return Err(error);
                }
                // The tools of the pages before are usable.
                Err(error) if !cursors.is_empty() => {
                    reading.warn(format!("a later page of the list failed: {error}"));
                    break;
                }
                sent => sent?,
            };
            if let Err(limit) = reading.count(&raw, limit_bytes) {
                reading.warn(limit);
                break;
            }
            let page = match ListedPage::read(&raw) {
                Err(why) if !cursors.is_empty() => {
                    reading.warn(format!("a later page of the list is invalid: {why}"));
                    break;
                }
                page => page.map_err(|why| self.broke(&why))?,
            };
            for tool in page.tools {
                if let Err(limit) = reading.add(self, tool.get()) {
                    reading.warn(limit);
                    break 'pages;
                }
            }
            let next = page.next.and_then(|raw| serde_json::from_str(raw.get()).ok());
            // Some servers end their list with an empty cursor, or repeat the last one.
            let Some(next): Option<String> = next else { break };
            if next.is_empty() {
                reading.warn("the list ends with an empty cursor".to_owned());
                break;
            }
            if cursors.contains(&next) {
                reading
                    .warn(format!("the cursor {next:.80?} was listed before: the list ends here"));
                break;
            }
            if cursors.len() >= MAX_PAGES {
                reading
                    .warn(format!("it has more than {MAX_PAGES} pages: the others are left out"));
                break;
            }
            cursors.insert(next.clone());
            cursor = Some(next);
        }
        let listing = reading.listing;
        let definitions = listing.tools.iter().map(|tool| {
            let definition = tool.definition().clone();
            (definition.name().to_owned(), definition)
        });
        let mut listed = self.listed();
        // A slower listing may be older than the cached one.
        if listed.changes.is_none_or(|changes| changes <= reach.changes) {
            *listed =
                CachedListing { changes: Some(reach.changes), definitions: definitions.collect() };
        }
        drop(listed);
        Ok(listing)
    }

    /// Returns the [`connection`](Self::connection) for a call of a tool that the server has to
    /// list there with this definition.
    pub(crate) async fn reach_bound(
        &self,
        bound: &ToolSchema,
        context: &ToolContext,
    ) -> Result<RequestConnection> {
        for _ in 0..MOST_LISTINGS {
            let reach = self.connection().await?;
            let listing = self.0.listing.lock().await;
            let is_current = self.listed().changes == Some(reach.changes);
            if !is_current {
                self.list(&reach, context).await?;
            }
            drop(listing);
            self.compare(bound)?;
            // The server may have reported another change during the listing.
            if self.0.changes.load(Ordering::Acquire) == reach.changes {
                return Ok(reach);
            }
        }
        Err(self.broke("its tools change faster than they are listed"))
    }

    fn compare(&self, bound: &ToolSchema) -> Result<()> {
        let (server, tool) = (self.0.label.clone(), bound.name().to_owned());
        let listed = self.listed();
        match listed.definitions.get(&tool) {
            Some(found) if found.id() == bound.id() => Ok(()),
            Some(found) => {
                let changes = diff(bound.text(), found.text()).unwrap_or_default();
                let changes = changes.iter().map(ToString::to_string).collect();
                Err(McpError::ToolChanged { server, tool, changes })
            }
            None => Err(McpError::ToolGone { server, tool }),
        }
    }

    /// Calls a tool by the server's own name. The arguments are JSON text and are sent unchanged.
    /// The call goes to the tool that has the name now, even if another definition was listed
    /// before. To call the tool that was listed, use [`McpTool::call`].
    ///
    /// # Errors
    /// [`McpError`]. A failure of the tool is not an error: see [`CallResult::is_error`].
    pub async fn call(
        &self,
        name: &str,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<CallResult> {
        self.call_as(name, None, arguments, context).await
    }

    /// Resets the count of restarts without an answer.
    pub(crate) async fn has_answered(&self) {
        self.0.life.lock().await.restarts = 0;
    }
}

/// Returns the label and the identity of a server; both are the given label if it is not empty.
fn named(label: String, unlabeled: impl FnOnce() -> (String, String)) -> (String, String) {
    if label.is_empty() { unlabeled() } else { (label.clone(), label) }
}

/// Maximum number of pages in a listing.
const MAX_PAGES: usize = 10_000;
/// Maximum listings for one call, if the server reports a change each time.
const MOST_LISTINGS: u32 = 3;

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServer").field("label", &self.0.label).finish_non_exhaustive()
    }
}
