//! The transport over HTTP: each message is a POST, answers come as JSON or as a stream of events.

mod exchange;
mod outgoing;
mod reading;
mod url;

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{mpsc, oneshot};

use self::exchange::Exchange;
use self::outgoing::OutgoingMessage;
pub use self::url::ServerUrl;
use crate::answers::Answers;
use crate::error::{McpError, Result};
use crate::options::ServerOptions;

/// How many messages of the server may wait to be read.
const WAITING: usize = 64;
/// How long saying good-bye may take.
const LEAVING: Duration = Duration::from_secs(2);

/// A server behind a url.
pub(crate) struct Http {
    exchange: Arc<Exchange>,
    inbox: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
}

impl Http {
    pub(crate) fn new(
        label: &str,
        server: &ServerUrl,
        options: &ServerOptions,
        answers: Arc<Answers>,
    ) -> Result<Self> {
        let (outbox, inbox) = mpsc::channel(WAITING);
        let exchange = Exchange::new(label, server, options, answers, outbox)?;
        Ok(Self { exchange: Arc::new(exchange), inbox })
    }
}

/// Sends a request. A separate task reads the answer, so that the call can be cancelled and other
/// requests can be sent concurrently.
async fn ask(exchange: Arc<Exchange>, out: OutgoingMessage, id: Box<str>) -> Result<()> {
    let (begun, has_begun) = oneshot::channel();
    let key = id.clone();
    let working = Arc::clone(&exchange);
    exchange.work(&key, async move {
        match working.post(&out).await {
            Ok(response) => {
                let _ = begun.send(Ok(()));
                if let Err(error) = working.take_in(response, &out, &id).await {
                    working.fail(&id, error).await;
                }
            }
            Err(error) => {
                let _ = begun.send(Err(error));
            }
        }
        working.done(&id);
    });
    // Cancelled before it was sent; the caller no longer waits.
    has_begun.await.unwrap_or(Ok(()))
}

/// Sends what is not answered: a notification, or an answer of ours.
async fn tell(exchange: Arc<Exchange>, out: OutgoingMessage) -> Result<()> {
    let sent = exchange.post(&out).await;
    if let Some(given_up) = &out.cancels {
        exchange.give_up(given_up);
    }
    sent?;
    if out.method == "notifications/initialized" {
        Exchange::listen(&exchange);
    }
    Ok(())
}

impl Transport<RoleClient> for Http {
    type Error = McpError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let exchange = Arc::clone(&self.exchange);
        let out = OutgoingMessage::of(&message, &exchange.answers)
            .map_err(|error| exchange.broke(&format!("a message of ours: {error}")));
        async move {
            let out = out?;
            match out.id.clone() {
                Some(id) => ask(exchange, out, id).await,
                None => tell(exchange, out).await,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inbox.recv().await
    }

    async fn close(&mut self) -> Result<()> {
        self.exchange.stop();
        // A server that is gone already does not hear it.
        let _ = tokio::time::timeout(LEAVING, self.exchange.end_session()).await;
        Ok(())
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.exchange.stop();
    }
}
