//! One request and its answer.

use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::{PeerRequestOptions, ServiceError};
use tokio::time::Instant;
use tract_core::json::{self, Escapes};
use tract_core::{ToolContext, ToolSchema};

use crate::connection::own;
use crate::error::{McpError, Result};
use crate::result::CallResult;
use crate::server::{McpServer, RequestConnection};
use crate::wire::RawArguments;

/// When a request is late.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    timeout: Duration,
}

impl McpServer {
    /// Returns when what is asked now is late.
    pub(crate) fn deadline(&self, context: &ToolContext) -> Result<Deadline> {
        if context.is_cancelled() {
            return Err(McpError::Cancelled);
        }
        let usual = self.options().call_timeout;
        let timeout = context.remaining().map_or(usual, |left| left.min(usual));
        if timeout.is_zero() {
            Err(self.late(timeout))
        } else {
            // One that the clock cannot express is never reached.
            let far = Instant::now() + Duration::from_secs(60 * 60 * 24 * 365);
            Ok(Deadline { at: Instant::now().checked_add(timeout).unwrap_or(far), timeout })
        }
    }

    /// Calls a tool by its name; one that is bound must be listed with this definition.
    pub(crate) async fn call_as(
        &self,
        name: &str,
        bound: Option<&ToolSchema>,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<CallResult> {
        let arguments = match arguments.trim() {
            "" => "{}",
            text => text,
        };
        json::split_object(arguments).map_err(McpError::Arguments)?;
        // A message is a line.
        let arguments = if arguments.contains(['\n', '\r']) {
            json::canonical(arguments, Escapes::Raw).map_err(McpError::Arguments)?
        } else {
            arguments.to_owned()
        };
        let mut call = CallToolRequest::new(CallToolRequestParams::new(name.to_owned()));
        call.extensions.insert(RawArguments(arguments.into()));
        let request = ClientRequest::CallToolRequest(call);
        let raw = match self.call_once(request.clone(), bound, context).await {
            // It did not know the session, and so did not look at the request.
            Err(McpError::SessionLost { .. }) => self.call_once(request, bound, context).await,
            done => done,
        };
        if matches!(raw, Ok(_) | Err(McpError::Refused { .. })) {
            self.has_answered().await;
        }
        let raw = raw?;
        // Newer servers may answer with a question of theirs.
        let kind = self.members(&raw)?.into_iter().find(|(key, _)| key == "resultType");
        if let Some((_, kind)) = kind.filter(|(_, kind)| *kind != "\"complete\"") {
            return Err(self.broke(&format!("expected a complete result, found {kind}")));
        }
        CallResult::parse(raw.into()).ok_or_else(|| self.broke("expected a result of a call"))
    }

    async fn call_once(
        &self,
        request: ClientRequest,
        bound: Option<&ToolSchema>,
        context: &ToolContext,
    ) -> Result<Box<str>> {
        self.deadline(context)?;
        let reach = async {
            match bound {
                Some(bound) => self.reach_bound(bound, context).await,
                None => self.connection().await,
            }
        };
        // A server may take long to start.
        let reach = tokio::select! {
            biased;
            () = context.cancellation().cancelled() => return Err(McpError::Cancelled),
            reach = reach => reach?,
        };
        let deadline = self.deadline(context)?;
        self.send(&reach, request, context, "tools/call", deadline).await
    }

    /// Sends a request and returns the text of its result.
    pub(crate) async fn send(
        &self,
        reach: &RequestConnection,
        request: ClientRequest,
        context: &ToolContext,
        what: &str,
        deadline: Deadline,
    ) -> Result<Box<str>> {
        let options = PeerRequestOptions::no_options();
        let sent = reach.peer.send_cancellable_request(request, options).await;
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => {
                let error = self.failed(error, reach);
                self.abandon_after(&error, reach.life).await;
                return Err(error);
            }
        };
        // As its answer is expected.
        let key = serde_json::to_string(&handle.id).unwrap_or_default();
        let token = handle.progress_token.0.clone();
        let mut progress = reach.board.listen(token.clone());
        let mut cancelled = context.cancellation().cancelled();
        let late = tokio::time::sleep_until(deadline.at);
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
                Err(failure.unwrap_or_else(|| self.failed(error, reach)))
            }
            Some(Err(_)) => Err(self.ended(reach).await),
            None => {
                let (error, why) = if context.is_cancelled() {
                    (McpError::Cancelled, "cancelled")
                } else {
                    (self.late(deadline.timeout), "timeout")
                };
                // Best effort: a server that hangs may not take the cancellation.
                let cancel_sent = handle.cancel(Some(why.to_owned()));
                let _ = tokio::time::timeout(TELLING, cancel_sent).await;
                Err(error)
            }
        };
        reach.answers.forget(&key);
        if let Err(error) = &done {
            self.abandon_after(error, reach.life).await;
        }
        done
    }

    pub(crate) fn members<'a>(&self, raw: &'a str) -> Result<Vec<(String, &'a str)>> {
        json::split_object(raw).map_err(|error| self.broke(&format!("no result: {error}")))
    }

    pub(crate) fn broke(&self, what: &str) -> McpError {
        McpError::Protocol { server: self.label().to_owned(), what: what.to_owned() }
    }

    fn late(&self, timeout: Duration) -> McpError {
        McpError::Timeout { server: self.label().to_owned(), timeout }
    }

    async fn ended(&self, reach: &RequestConnection) -> McpError {
        // Its last words may still be on their way.
        tokio::time::sleep(Duration::from_millis(50)).await;
        McpError::Ended { server: self.label().to_owned(), stderr: reach.stderr.text() }
    }

    fn failed(&self, error: ServiceError, reach: &RequestConnection) -> McpError {
        let server = self.label().to_owned();
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
