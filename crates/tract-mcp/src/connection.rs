//! A connection to a server, from its start to its end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
#[cfg(feature = "http")]
use rmcp::model::ProtocolVersion;
#[cfg(feature = "http")]
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientLifecycleMode::Initialize,
    serve_client_with_lifecycle,
};
use rmcp::service::{Peer, RunningService, serve_client};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc;

use crate::answers::Answers;
use crate::client::{Client, ProgressBoard};
use crate::error::{McpError, Result};
#[cfg(feature = "http")]
use crate::http::{Http, ServerUrl};
use crate::lines::Lines;
use crate::options::{ServerCommand, ServerOptions};
use crate::program::{Program, Streams};

/// The last part of a program's output on stderr.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stderr(Arc<Mutex<VecDeque<u8>>>);

/// Number of bytes of stderr that are kept.
const KEPT_BYTES: usize = 4096;

impl Stderr {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let over = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..over);
    }

    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// A connection to a running server.
pub(crate) struct Connection {
    service: RunningService<RoleClient, Client>,
    program: Option<Program>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) board: Arc<ProgressBoard>,
    pub(crate) stderr: Stderr,
    /// Tracks the requests in progress: each holds a clone of the sender, and the receiver sees the
    /// channel close after the last one. Nothing is sent.
    uses: (mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>),
}

impl Connection {
    /// Starts a program and performs the handshake.
    pub(crate) async fn start(
        label: &str,
        command: &ServerCommand,
        options: &ServerOptions,
        changes: &Arc<AtomicU64>,
    ) -> Result<Self> {
        let (program, streams) = Program::start(command)?;
        let Streams { stdin, stdout, stderr: mut errors } = streams;
        let stderr = Stderr::default();
        let kept = stderr.clone();
        tokio::spawn(async move {
            let mut bytes = vec![0; 1024];
            // An error ends the stream as well.
            while let Ok(read @ 1..) = errors.read(&mut bytes).await {
                kept.push(bytes.get(..read).unwrap_or_default());
            }
        });
        Self::over(label, stdout, stdin, Some(program), stderr, options, changes).await
    }

    /// Performs the handshake over two streams.
    pub(crate) async fn over<R, W>(
        label: &str,
        reader: R,
        writer: W,
        program: Option<Program>,
        stderr: Stderr,
        options: &ServerOptions,
        changes: &Arc<AtomicU64>,
    ) -> Result<Self>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let answers = Arc::new(Answers::default());
        let (client, board) = client(options, changes);
        let listener = options.listener.clone();
        let limit = options.max_line_bytes;
        let lines = Lines::new(label, reader, writer, limit, Arc::clone(&answers), listener);
        let failed = |reason: String| McpError::Handshake {
            server: label.to_owned(),
            reason,
            stderr: stderr.text(),
        };
        let hello = tokio::time::timeout(options.handshake_timeout, serve_client(client, lines));
        let service = match hello.await {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                // The program's last output may not have been read yet.
                tokio::time::sleep(LAST_WORDS).await;
                return Err(failed(error.to_string()));
            }
            Err(_) => {
                let timeout_ms = options.handshake_timeout.as_millis();
                return Err(failed(format!("no answer within {timeout_ms} ms")));
            }
        };
        Ok(Self { service, program, answers, board, stderr, uses: mpsc::channel(1) })
    }

    /// Performs the handshake with a server behind a URL: with sessions first, and if the server
    /// rejects them, with the stateless version of the protocol.
    #[cfg(feature = "http")]
    pub(crate) async fn at(
        label: &str,
        server: &ServerUrl,
        options: &ServerOptions,
        changes: &Arc<AtomicU64>,
    ) -> Result<Self> {
        let first = Self::greet(label, server, options, changes, Initialize).await;
        match first {
            Err(error) if is_of_stateless(&error) => {
                let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
                let lifecycle = ClientLifecycleMode::Discover { preferred_versions };
                let second = Self::greet(label, server, options, changes, lifecycle).await;
                // If the server rejects both, the first error is more useful.
                second.map_err(|_| error)
            }
            first => first,
        }
    }

    #[cfg(feature = "http")]
    async fn greet(
        label: &str,
        server: &ServerUrl,
        options: &ServerOptions,
        changes: &Arc<AtomicU64>,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self> {
        let answers = Arc::new(Answers::default());
        let (client, board) = client(options, changes);
        let http = Http::new(label, server, options, Arc::clone(&answers))?;
        let hello = serve_client_with_lifecycle(client, http, lifecycle);
        let timeout = options.handshake_timeout;
        let Ok(hello) = tokio::time::timeout(timeout, hello).await else {
            return Err(McpError::Timeout { server: label.to_owned(), timeout });
        };
        let service = hello.map_err(|error| match error {
            ClientInitializeError::TransportError { error, .. } => own(error.error, label),
            other => answers.take_any_failure().unwrap_or_else(|| not_greeted(other, label)),
        })?;
        let (stderr, uses) = (Stderr::default(), mpsc::channel(1));
        Ok(Self { service, program: None, answers, board, stderr, uses })
    }

    pub(crate) fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// Returns a guard, which a request holds while it is in progress.
    pub(crate) fn in_use(&self) -> mpsc::Sender<Infallible> {
        self.uses.0.clone()
    }

    /// Drops the connection once all requests in progress have ended. Each gets its own answer or
    /// error, and all of them have a time limit.
    pub(crate) async fn end_after_use(self) {
        let (sender, mut receiver) = self.uses;
        // Without this, `recv` would wait for our own sender forever.
        drop(sender);
        receiver.recv().await;
    }

    /// Closes the streams and waits for the program to exit. If it does not, it is killed with all
    /// of its child processes.
    pub(crate) async fn close(self) {
        // The outcome of the service is irrelevant here.
        let _ = self.service.cancel().await;
        if let Some(program) = self.program {
            program.wait_for_exit().await;
        }
    }
}

fn client(options: &ServerOptions, changes: &Arc<AtomicU64>) -> (Client, Arc<ProgressBoard>) {
    let board = Arc::new(ProgressBoard::default());
    let client = Client {
        board: Arc::clone(&board),
        listener: options.listener.clone(),
        changes: Arc::clone(changes),
    };
    (client, board)
}

/// Returns the error that our own transport passed through `rmcp`.
pub(crate) fn own(error: Box<dyn std::error::Error + Send + Sync>, label: &str) -> McpError {
    match error.downcast::<McpError>() {
        Ok(error) => *error,
        Err(other) => McpError::Protocol { server: label.to_owned(), what: other.to_string() },
    }
}

#[cfg(feature = "http")]
fn not_greeted(error: ClientInitializeError, label: &str) -> McpError {
    let server = label.to_owned();
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            McpError::Refused { server, code: error.code.0, message: error.message.into_owned() }
        }
        other => McpError::Protocol { server, what: other.to_string() },
    }
}

/// Returns whether a rejected handshake may mean that the server uses the stateless version.
#[cfg(feature = "http")]
fn is_of_stateless(error: &McpError) -> bool {
    matches!(
        error,
        McpError::Refused { .. } | McpError::Status { status: 400 | 404 | 405 | 501, .. }
    )
}

/// Time to wait for the last output of a program that failed.
const LAST_WORDS: Duration = Duration::from_millis(50);
