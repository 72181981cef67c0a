//! A server and its tools: list them, call them, start it again when it has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, PaginatedRequestParams};
use rmcp::model::{ListToolsRequest, RequestId};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tract_core::json::{self, Escapes};
use tract_core::{ToolContext, ToolSchema};

use crate::answers::Answers;
use crate::client::Board;
use crate::connection::{Connection, Stderr, own};
use crate::error::{McpError, Result};
use crate::event::McpEvent;
#[cfg(feature = "http")]
use crate::http::ServerUrl;
use crate::listing::Listing;
use crate::options::{ServerCommand, ServerOptions};
use crate::result::CallResult;
use crate::tool::McpTool;
use crate::wire::RawArguments;

/// A server of tools. Clones are the same server.
///
/// # Behavior
/// - Needs a tokio runtime with time and I/O, in which it was connected.
/// - A server that has ended is started again by the next request. A call that was under way when
///   it ended failed and is not repeated: nobody knows how far it came.
/// - Dropping the last clone ends the program; [`McpServer::close`] waits for it.
#[derive(Clone)]
pub struct McpServer(Arc<Inner>);

struct Inner {
    label: String,
    options: ServerOptions,
    way: Way,
    life: Mutex<Life>,
    tools_changed: Arc<AtomicBool>,
}

/// How a server is reached again.
enum Way {
    Program(ServerCommand),
    #[cfg(feature = "http")]
    Url(ServerUrl),
    /// Over streams that cannot be opened again.
    Streams,
}

struct Life {
    connection: Option<Connection>,
    /// How many connections came before this one.
    number: u64,
    /// How often it was started without an answer since.
    restarts: u32,
}

/// What one request needs of a connection.
struct Reach {
    peer: Peer<RoleClient>,
    answers: Arc<Answers>,
    board: Arc<Board>,
    stderr: Stderr,
    /// Which of the server's lives it is of.
    life: u64,
}

impl McpServer {
    /// Starts a program that speaks the protocol on its standard streams. The label names the
    /// server in errors, in pins and before names that several servers have.
    ///
    /// # Errors
    /// [`McpError::Start`], [`McpError::Handshake`].
    pub async fn start(
        label: impl Into<String>,
        command: ServerCommand,
        options: ServerOptions,
    ) -> Result<Self> {
        let label = label.into();
        let tools_changed = Arc::default();
        let connection = Connection::start(&label, &command, &options, &tools_changed).await?;
        Ok(Self::of(label, options, Way::Program(command), connection, tools_changed))
    }

    /// Connects to a server behind a url (streamable HTTP).
    ///
    /// # Behavior
    /// - A session that the server does not know any more is begun anew, and the request that met
    ///   that is sent again: the server did not look at it.
    /// - A stream that breaks off is taken up where it ended, when the server offers that; else the
    ///   call fails and is not repeated.
    /// - Redirects are not followed.
    ///
    /// # Errors
    /// [`McpError::Url`], [`McpError::Unreachable`], [`McpError::Unauthorized`],
    /// [`McpError::Status`], and what else the handshake meets.
    #[cfg(feature = "http")]
    pub async fn connect(
        label: impl Into<String>,
        url: ServerUrl,
        options: ServerOptions,
    ) -> Result<Self> {
        let label = label.into();
        let tools_changed = Arc::default();
        let connection = Connection::at(&label, &url, &options, &tools_changed).await?;
        Ok(Self::of(label, options, Way::Url(url), connection, tools_changed))
    }

    /// Speaks with a server over two streams: one of this process, or over a socket.
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
        let tools_changed = Arc::default();
        let stderr = Stderr::default();
        let connection =
            Connection::over(&label, reader, writer, None, stderr, &options, &tools_changed)
                .await?;
        Ok(Self::of(label, options, Way::Streams, connection, tools_changed))
    }

    fn of(
        label: String,
        options: ServerOptions,
        way: Way,
        connection: Connection,
        tools_changed: Arc<AtomicBool>,
    ) -> Self {
        let life = Mutex::new(Life { connection: Some(connection), number: 0, restarts: 0 });
        Self(Arc::new(Inner { label, options, way, life, tools_changed }))
    }

    /// Returns the label.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// Returns whether the server said that its tools changed since they were listed last.
    pub fn tools_changed(&self) -> bool {
        self.0.tools_changed.load(Ordering::Acquire)
    }

    pub(crate) fn trusts_annotations(&self) -> bool {
        self.0.options.trust_annotations
    }

    /// Ends the server and waits until it is gone. The next request starts it again.
    pub async fn close(&self) {
        let connection = self.0.life.lock().await.connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Returns what a request needs, starting the server again when it has ended.
    async fn reach(&self) -> Result<Reach> {
        let Inner { label, options, way, tools_changed, .. } = &*self.0;
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
                Way::Program(command) => {
                    life.restarts += 1;
                    Connection::start(label, command, options, tools_changed).await?
                }
                // A server that cannot be reached has not begun to live.
                #[cfg(feature = "http")]
                Way::Url(url) => {
                    let connection = Connection::at(label, url, options, tools_changed).await?;
                    life.restarts += 1;
                    connection
                }
                Way::Streams => return Err(McpError::Ended { server: label.clone(), stderr }),
            };
            life.connection = Some(started);
            life.number += 1;
            // Another life may have other tools.
            tools_changed.store(true, Ordering::Release);
            options.listener.tell(McpEvent::Restarted);
        }
        let number = life.number;
        let Some(connection) = &life.connection else { unreachable!("it was just started") };
        Ok(Reach {
            peer: connection.peer(),
            answers: Arc::clone(&connection.answers),
            board: Arc::clone(&connection.board),
            stderr: connection.stderr.clone(),
            life: number,
        })
    }

    /// Gives a connection up after a failure that ends it, unless another took its place already. Of a
    /// program, that it has ended may not have been noticed yet where the next call looks.
    async fn abandon_after(&self, error: &McpError, number: u64) {
        let ends = match error {
            McpError::SessionLost { .. } => true,
            McpError::Ended { .. } => matches!(self.0.way, Way::Program(_)),
            _ => false,
        };
        if ends {
            let mut life = self.0.life.lock().await;
            if life.number == number {
                life.connection = None;
            }
        }
    }

    /// Lists the tools, page by page, each definition as the server wrote it.
    ///
    /// # Behavior
    /// - A definition that is no tool does not hide the others: see [`Listing::refused`].
    ///
    /// # Errors
    /// [`McpError`] when the server ends, is late, refuses, or repeats a page.
    pub async fn tools(&self) -> Result<Listing> {
        self.0.tools_changed.store(false, Ordering::Release);
        let context = ToolContext::new("tools/list");
        let mut listing = Listing::default();
        let mut cursors: Vec<String> = Vec::new();
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursors.last().cloned());
            let list = ListToolsRequest { params: Some(params), ..Default::default() };
            let request = ClientRequest::ListToolsRequest(list);
            let raw = self.request(request, &context, "tools/list").await?;
            let page = self.members(&raw)?;
            let member =
                |key: &str| page.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| *raw);
            let tools = member("tools").and_then(|raw| json::split_array(raw).ok());
            let tools = tools.ok_or_else(|| self.broke("expected a list \"tools\""))?;
            for text in tools {
                match ToolSchema::parse(text) {
                    Ok(definition) => listing.add(McpTool::new(self, definition)),
                    Err(error) => listing.refused.push((text.to_owned(), error.to_string())),
                }
            }
            let next = member("nextCursor").and_then(|raw| serde_json::from_str(raw).ok());
            let Some(next) = next else { return Ok(listing) };
            if cursors.contains(&next) || cursors.len() >= MAX_PAGES {
                return Err(self.broke("expected a new page of tools, found one seen before"));
            }
            cursors.push(next);
        }
    }

    /// Calls a tool by the server's own name for it, with arguments as JSON text, which go out as
    /// they are.
    ///
    /// # Errors
    /// [`McpError`]. That the tool failed is no error: see [`CallResult::is_error`].
    pub async fn call(
        &self,
        name: &str,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<CallResult> {
        let arguments = match arguments.trim() {
            "" => "{}",
            text => text,
        };
        json::split_object(arguments).map_err(McpError::Arguments)?;
        // A message is a line.
        let arguments = match arguments.contains(['\n', '\r']) {
            true => json::canonical(arguments, Escapes::Raw).map_err(McpError::Arguments)?,
            false => arguments.to_owned(),
        };
        let mut call = CallToolRequest::new(CallToolRequestParams::new(name.to_owned()));
        call.extensions.insert(RawArguments(arguments.into()));
        let request = ClientRequest::CallToolRequest(call);
        let raw = self.request(request, context, "tools/call").await?;
        // Newer servers may answer with a question of theirs.
        let kind = self.members(&raw)?.into_iter().find(|(key, _)| key == "resultType");
        if let Some((_, kind)) = kind.filter(|(_, kind)| *kind != "\"complete\"") {
            return Err(self.broke(&format!("expected a complete result, found {kind}")));
        }
        CallResult::parse(raw.into()).ok_or_else(|| self.broke("expected a result of a call"))
    }

    /// Sends a request and returns the text of its result; once more where the server did not know
    /// the session and so did not look at it.
    async fn request(
        &self,
        request: ClientRequest,
        context: &ToolContext,
        what: &str,
    ) -> Result<Box<str>> {
        let again = request.clone();
        match self.request_once(request, context, what).await {
            Err(McpError::SessionLost { .. }) => self.request_once(again, context, what).await,
            done => done,
        }
    }

    async fn request_once(
        &self,
        request: ClientRequest,
        context: &ToolContext,
        what: &str,
    ) -> Result<Box<str>> {
        if context.is_cancelled() {
            return Err(McpError::Cancelled);
        }
        let usual = self.0.options.call_timeout;
        let timeout = context.remaining().map_or(usual, |left| left.min(usual));
        if timeout.is_zero() {
            return Err(self.late(timeout));
        }
        let reach = self.reach().await?;
        let options = PeerRequestOptions::no_options();
        let sent = reach.peer.send_cancellable_request(request, options).await;
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => {
                let error = self.failed(error, &reach);
                self.abandon_after(&error, reach.life).await;
                return Err(error);
            }
        };
        let id = handle.id.clone();
        let key = key_of(&id);
        let token = handle.progress_token.0.clone();
        let mut progress = reach.board.listen(token.clone());
        let mut cancelled = context.cancellation().cancelled();
        let late = tokio::time::sleep(timeout);
        tokio::pin!(late);
        let outcome = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => break Some(answer),
                Some(line) = progress.recv() => context.progress(format_args!("{line}")),
                () = &mut cancelled => break None,
                () = &mut late => break None,
            }
        };
        reach.board.forget(&token);
        while let Ok(line) = progress.try_recv() {
            context.progress(format_args!("{line}"));
        }
        let done = match outcome {
            Some(Ok(Ok(_))) => match reach.answers.take(&key) {
                Some(raw) => Ok(raw),
                None => Err(self.broke(&format!("expected the result of {what}"))),
            },
            Some(Ok(Err(error))) => {
                let failure = reach.answers.take_failure(&key);
                Err(failure.unwrap_or_else(|| self.failed(error, &reach)))
            }
            Some(Err(_)) => Err(self.ended(&reach).await),
            None => {
                let (error, why) = match context.is_cancelled() {
                    true => (McpError::Cancelled, "cancelled"),
                    false => (self.late(timeout), "timeout"),
                };
                // Told on a best-effort basis: a server that hangs may not take it.
                let told = handle.cancel(Some(why.to_owned()));
                let _ = tokio::time::timeout(TELLING, told).await;
                Err(error)
            }
        };
        reach.answers.forget(&key);
        if let Err(error) = &done {
            self.abandon_after(error, reach.life).await;
        }
        if matches!(done, Ok(_) | Err(McpError::Refused { .. })) {
            self.0.life.lock().await.restarts = 0;
        }
        done
    }

    fn members<'a>(&self, raw: &'a str) -> Result<Vec<(String, &'a str)>> {
        json::split_object(raw).map_err(|error| self.broke(&format!("no result: {error}")))
    }

    fn broke(&self, what: &str) -> McpError {
        McpError::Protocol { server: self.0.label.clone(), what: what.to_owned() }
    }

    fn late(&self, timeout: Duration) -> McpError {
        McpError::Timeout { server: self.0.label.clone(), timeout }
    }

    async fn ended(&self, reach: &Reach) -> McpError {
        // Its last words may still be on their way.
        tokio::time::sleep(Duration::from_millis(50)).await;
        McpError::Ended { server: self.0.label.clone(), stderr: reach.stderr.text() }
    }

    fn failed(&self, error: ServiceError, reach: &Reach) -> McpError {
        let server = self.0.label.clone();
        match error {
            ServiceError::McpError(error) => McpError::Refused {
                server,
                code: error.code.0,
                message: error.message.into_owned(),
            },
            ServiceError::TransportSend(error) if error.error.is::<McpError>() => {
                own(error.error, &server)
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                McpError::Ended { server, stderr: reach.stderr.text() }
            }
            other => McpError::Protocol { server, what: other.to_string() },
        }
    }
}

/// How long telling a server to stop may take.
const TELLING: Duration = Duration::from_millis(200);
/// How many pages of tools a server may have.
const MAX_PAGES: usize = 10_000;

fn key_of(id: &RequestId) -> String {
    match id {
        RequestId::Number(number) => number.to_string(),
        RequestId::String(text) => {
            let mut key = String::new();
            json::write_string(&mut key, text, Escapes::Raw);
            key
        }
    }
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServer").field("label", &self.0.label).finish_non_exhaustive()
    }
}
