//! Events of a server.

use std::fmt;
use std::sync::Arc;

/// A notification of a server, or a violation of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpEvent {
    /// Its tools changed: list them again.
    ToolsChanged,
    /// It logged something.
    Log {
        /// The severity, as a word of the protocol.
        level: String,
        /// The message, as JSON or text.
        text: String,
    },
    /// It wrote a line that is not a message of the protocol; the line was left out.
    Malformed {
        /// The beginning of the line.
        line: String,
    },
    /// It wrote a line that is longer than allowed; the line was left out.
    Oversized {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// It answered a request that was answered already; the first answer counts.
    AnsweredTwice {
        /// The id of the request.
        id: String,
    },
    /// It was started again after it had ended.
    Restarted,
}

impl fmt::Display for McpEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToolsChanged => f.write_str("the tools changed"),
            Self::Log { level, text } => write!(f, "{level}: {text}"),
            Self::Malformed { line } => write!(f, "no message of the protocol: {line}"),
            Self::Oversized { limit_bytes } => write!(f, "a line of over {limit_bytes} bytes"),
            Self::AnsweredTwice { id } => write!(f, "request {id} was answered twice"),
            Self::Restarted => f.write_str("started again"),
        }
    }
}

/// The receiver of events; by default events are dropped.
#[derive(Clone, Default)]
pub struct Listener(Option<Arc<dyn Fn(McpEvent) + Send + Sync>>);

impl Listener {
    /// Creates a listener that calls a function with each event.
    pub fn new(on_event: impl Fn(McpEvent) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(on_event)))
    }

    pub(crate) fn tell(&self, event: McpEvent) {
        if let Some(listener) = &self.0 {
            listener(event);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}
