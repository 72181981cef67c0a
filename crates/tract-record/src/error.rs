//! Errors of a recording proxy as a whole.

/// The result of the proxy.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a proxy does not start. Later failures are answered to the client, or counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The address can be reached from other machines.
    #[error("{address} is not a loopback address")]
    NotLoopback {
        /// The address.
        address: String,
    },
    /// A URL is not the base URL of an upstream.
    #[error("expected http://HOST or https://HOST as the upstream, found {found:?}: {why}")]
    Upstream {
        /// The URL, without user and query.
        found: String,
        /// The reason why it is rejected.
        why: &'static str,
    },
    /// No upstream is configured.
    #[error("no upstream is configured")]
    NoUpstream,
    /// The operating system provides no random bytes.
    #[error("no randomness from the operating system: {0}")]
    Random(String),
    /// A client for encrypted connections cannot be made.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The thread that records cannot be started.
    #[error("cannot start the recorder: {0}")]
    Recorder(std::io::Error),
}

impl Error {
    /// Returns the stable word for it, which the command line prints too.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                "port_in_use"
            }
            Self::Listen { .. } => "cannot_listen",
            Self::NotLoopback { .. } => "not_loopback",
            Self::Upstream { .. } => "invalid_upstream",
            Self::NoUpstream => "no_upstream",
            Self::Random(_) => "no_randomness",
            Self::Tls(_) => "tls",
            Self::Recorder(_) => "recorder",
        }
    }
}
