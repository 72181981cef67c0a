//! The client's side of a connection: handles notifications and requests of the server.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
#[allow(deprecated, reason = "the protocol leaves logging behind; servers still log")]
use rmcp::model::LoggingMessageNotificationParam;
use rmcp::model::{ClientConfig, Implementation, NumberOrString, ProgressNotificationParam};
use rmcp::service::NotificationContext;
use tokio::sync::mpsc;

use crate::event::{Listener, McpEvent};

/// The progress of calls, by progress token.
#[derive(Debug, Default)]
pub(crate) struct ProgressBoard(Mutex<Sinks>);

#[derive(Debug, Default)]
struct Sinks {
    by_token: HashMap<NumberOrString, mpsc::Sender<String>>,
    /// Progress that arrived before its call was registered. A fast server sends some before the
    /// request's token is known here.
    early: VecDeque<(NumberOrString, String)>,
}

/// Maximum number of early lines, and of unread lines per call.
const KEPT: usize = 64;

/// Maximum size of a line of progress in bytes. The rest is cut off.
const KEPT_BYTES: usize = 1 << 10;

/// Returns the beginning of a text.
fn beginning(text: &str) -> Cow<'_, str> {
    if text.len() <= KEPT_BYTES {
        return Cow::Borrowed(text);
    }
    let cut = (0..=KEPT_BYTES).rev().find(|cut| text.is_char_boundary(*cut)).unwrap_or(0);
    Cow::Owned(format!("{}…", text.get(..cut).unwrap_or_default()))
}

impl ProgressBoard {
    fn lock(&self) -> MutexGuard<'_, Sinks> {
        // The maps are consistent after each operation, so the board is usable after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call. Returns its progress, including early lines.
    pub(crate) fn listen(&self, token: NumberOrString) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(KEPT);
        let mut sinks = self.lock();
        for (of, line) in std::mem::take(&mut sinks.early) {
            match of == token {
                // If the channel is full, the line is dropped: only recent progress is of interest,
                // and a slow reader must not block the connection.
                true => drop(sender.try_send(line)),
                false => sinks.early.push_back((of, line)),
            }
        }
        sinks.by_token.insert(token, sender);
        receiver
    }

    /// Unregisters a call.
    pub(crate) fn forget(&self, token: &NumberOrString) {
        self.lock().by_token.remove(token);
    }

    fn tell(&self, token: NumberOrString, line: String) {
        let mut sinks = self.lock();
        if let Some(sender) = sinks.by_token.get(&token) {
            return drop(sender.try_send(line));
        }
        if sinks.early.len() == KEPT {
            sinks.early.pop_front();
        }
        sinks.early.push_back((token, line));
    }
}

/// The handler that `rmcp` calls.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) board: Arc<ProgressBoard>,
    pub(crate) listener: Listener,
    /// Number of times that the server reported a change of its tools or was restarted.
    pub(crate) changes: Arc<AtomicU64>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.client_info = Implementation::new("tract", env!("CARGO_PKG_VERSION"));
        config
    }

    async fn on_progress(
        &self,
        notification: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let so_far = match notification.total {
            Some(total) => format!("{} of {total}", notification.progress),
            None => notification.progress.to_string(),
        };
        let line = match notification.message {
            Some(message) => format!("{so_far}: {}", beginning(&message)),
            None => so_far,
        };
        self.board.tell(notification.progress_token.0, line);
    }

    #[allow(deprecated, reason = "the protocol leaves logging behind; servers still log")]
    async fn on_logging_message(
        &self,
        notification: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let level = serde_json::to_value(notification.level).ok();
        let level = level.as_ref().and_then(|level| level.as_str()).unwrap_or("info").to_owned();
        let text = match notification.data {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        self.listener.tell(McpEvent::Log { level, text });
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.listener.tell(McpEvent::ToolsChanged);
    }
}
