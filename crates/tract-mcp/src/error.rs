//! Why a server did not do what was asked.

use std::time::Duration;

use tract_core::ToolError;

/// Why a server did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// Its program cannot be started.
    #[error("expected to start {program:?}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It started, but did not complete the handshake.
    #[error("server {server:?} did not complete its handshake: {reason}")]
    Handshake {
        /// The server.
        server: String,
        /// Why.
        reason: String,
        /// The last that it wrote to its error stream.
        stderr: String,
    },
    /// It ended, or its connection broke, before it answered.
    #[error("server {server:?} ended before it answered")]
    Ended {
        /// The server.
        server: String,
        /// The last that it wrote to its error stream.
        stderr: String,
    },
    /// It was restarted as often as it may without having answered in between.
    #[error("server {server:?} ended {times} times in a row without an answer")]
    KeepsEnding {
        /// The server.
        server: String,
        /// How often.
        times: u32,
    },
    /// It did not answer in time; it was asked to stop.
    #[error("server {server:?} gave no answer within {} ms", timeout.as_millis())]
    Timeout {
        /// The server.
        server: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// The call was cancelled; the server was asked to stop.
    #[error("the call was cancelled")]
    Cancelled,
    /// It refused the request.
    #[error("server {server:?} refused: {message} (code {code})")]
    Refused {
        /// The server.
        server: String,
        /// The code of JSON-RPC.
        code: i32,
        /// The message of the server.
        message: String,
    },
    /// Its answer violates the protocol.
    #[error("server {server:?} broke the protocol: {what}")]
    Protocol {
        /// The server.
        server: String,
        /// The expectation, and the content that was found.
        what: String,
    },
    /// Its url cannot be used.
    #[error("expected the url of a server: {reason}")]
    Url {
        /// Why not.
        reason: String,
    },
    /// It cannot be reached, or hung up before it answered.
    #[error("server {server:?} cannot be reached: {reason}")]
    Unreachable {
        /// The server.
        server: String,
        /// Whether a connection was made: the server may have received the request.
        connected: bool,
        /// Why.
        reason: String,
    },
    /// It requires authentication, or refuses access.
    #[error("server {server:?}: authentication failed ({status})")]
    Unauthorized {
        /// The server.
        server: String,
        /// The status of HTTP: 401 or 403.
        status: u16,
        /// The `WWW-Authenticate` challenge of the server.
        challenge: Option<String>,
    },
    /// It answered with a status that is not a success.
    #[error("server {server:?} answered with status {status}: {message}")]
    Status {
        /// The server.
        server: String,
        /// The status of HTTP.
        status: u16,
        /// The beginning of its response.
        message: String,
    },
    /// It dropped our session, and also the new one that replaced it.
    #[error("server {server:?} does not know the session")]
    SessionLost {
        /// The server.
        server: String,
    },
    /// Its answer broke off.
    #[error("the answer of server {server:?} broke off")]
    Cut {
        /// The server.
        server: String,
    },
    /// Its answer is longer than allowed.
    #[error("the answer of server {server:?} is longer than {limit_bytes} bytes")]
    TooLarge {
        /// The server.
        server: String,
        /// The limit.
        limit_bytes: usize,
    },
    /// After a restart, or after it said so, it lists another definition of a tool than before. The
    /// tool was not called.
    #[error("the definition of tool {tool:?} changed since server {server:?} listed it first")]
    ToolChanged {
        /// The server.
        server: String,
        /// The server's own name of the tool.
        tool: String,
        /// The differences between the definitions.
        changes: Vec<String>,
    },
    /// After a restart, or after it said so, it does not list a tool that it listed before. The
    /// tool was not called.
    #[error("server {server:?} no longer lists tool {tool:?}")]
    ToolGone {
        /// The server.
        server: String,
        /// The server's own name of the tool.
        tool: String,
    },
    /// The arguments of the call are not a JSON object.
    #[error("expected arguments as a JSON object: {0}")]
    Arguments(tract_core::json::JsonError),
}

/// The codes with which SDKs and gateways report that a request did not end: its connection closed,
/// it timed out, an internal error, it was cancelled.
const UNFINISHED: [i32; 4] = [-32000, -32001, -32603, -32800];

/// A result of this crate.
pub type Result<T, E = McpError> = std::result::Result<T, E>;

impl McpError {
    /// Returns the stable word for the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "mcp_start",
            Self::Handshake { .. } => "mcp_handshake",
            Self::Ended { .. } => "mcp_ended",
            Self::KeepsEnding { .. } => "mcp_keeps_ending",
            Self::Timeout { .. } => "mcp_timeout",
            Self::Cancelled => "mcp_cancelled",
            Self::Refused { .. } => "mcp_refused",
            Self::Protocol { .. } => "mcp_protocol",
            Self::Url { .. } => "mcp_url",
            Self::Unreachable { .. } => "mcp_unreachable",
            Self::Unauthorized { .. } => "mcp_unauthorized",
            Self::Status { .. } => "mcp_status",
            Self::SessionLost { .. } => "mcp_session_lost",
            Self::Cut { .. } => "mcp_cut",
            Self::TooLarge { .. } => "mcp_too_large",
            Self::ToolChanged { .. } => "mcp_tool_changed",
            Self::ToolGone { .. } => "mcp_tool_gone",
            Self::Arguments(_) => "mcp_arguments",
        }
    }

    /// Returns the ways out.
    pub fn notes(&self) -> Vec<String> {
        let one = |note: &str| vec![note.to_owned()];
        let quoted = |stderr: &str, note: &str| match stderr.trim() {
            "" => one(note),
            text => vec![format!("its last output: {text}"), note.to_owned()],
        };
        match self {
            Self::Start { .. } => one("check that the program is installed and on the PATH"),
            Self::Handshake { stderr, .. } => {
                quoted(stderr, "run it by hand: it must speak MCP on its standard streams")
            }
            Self::Ended { stderr, .. } => quoted(stderr, "the next call starts it again"),
            Self::KeepsEnding { .. } => {
                one("see what it writes to its error stream; connect again to retry")
            }
            Self::Timeout { .. } => one("allow more time, or ask for less in one call"),
            Self::Url { .. } => one("such as https://example.com/mcp"),
            Self::Unreachable { .. } => one("check the url, and that the server runs"),
            Self::Unauthorized { challenge, .. } => {
                let mut notes = one("send a header with a token, such as Authorization");
                notes.extend(challenge.iter().map(|text| format!("the server says: {text}")));
                notes
            }
            Self::Status { status: 404 | 405, .. } => {
                one("check the path of the url: often it ends in /mcp")
            }
            Self::SessionLost { .. } => one("try again: a new session starts"),
            Self::Cut { .. } => one("the call may have run: check before you repeat it"),
            Self::TooLarge { .. } => one("ask for less, or allow longer messages"),
            Self::ToolChanged { changes, .. } => {
                let then = one("look at it, then list the tools again and approve them");
                changes.iter().cloned().chain(then).collect()
            }
            Self::ToolGone { .. } => one("list the tools again"),
            Self::Arguments(_) => one("send one JSON object"),
            Self::Cancelled
            | Self::Refused { .. }
            | Self::Protocol { .. }
            | Self::Status { .. } => Vec::new(),
        }
    }

    /// Returns whether the server may have run the call although it gave no usable answer. Not when
    /// it rejected the request or never received it.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Ended { .. }
            | Self::Timeout { .. }
            | Self::Cancelled
            | Self::Protocol { .. }
            | Self::Cut { .. }
            | Self::TooLarge { .. } => true,
            Self::Unreachable { connected, .. } => *connected,
            // 408 is a timeout; other statuses from 400 to 499 reject the request.
            Self::Status { status, .. } => *status == 408 || *status >= 500 || *status < 300,
            Self::Refused { code, .. } => UNFINISHED.contains(code),
            Self::Start { .. }
            | Self::Handshake { .. }
            | Self::KeepsEnding { .. }
            | Self::Url { .. }
            | Self::Unauthorized { .. }
            | Self::SessionLost { .. }
            | Self::ToolChanged { .. }
            | Self::ToolGone { .. }
            | Self::Arguments(_) => false,
        }
    }

    /// Returns what the model reads of a failed call.
    pub(crate) fn into_tool_error(self) -> ToolError {
        let message = self.to_string();
        let operator = self.notes().join("; ");
        let error = match &self {
            Self::Cancelled => ToolError::evaluation(message),
            // The call's own deadline ends the evaluation; a slow server does not.
            Self::Arguments(_) => ToolError::validation(message),
            Self::Timeout { .. } => {
                ToolError::other(message).note("ask for less in one call, or try another way")
            }
            Self::ToolChanged { .. } | Self::ToolGone { .. } => {
                ToolError::other(message).note("it was not called; use another tool")
            }
            _ => ToolError::other(message),
        };
        let error = if self.may_have_run() { error.outcome_unknown() } else { error };
        let error = if operator.is_empty() { error } else { error.operator(operator) };
        error.caused_by(self)
    }
}
