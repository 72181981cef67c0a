//! The HTTP APIs of the providers: servers, variables and paths.

/// The HTTP API of a provider, for clients and recorders.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// The provider's name in the conventions of OpenTelemetry, if they have one.
    pub telemetry_name: &'static str,
    /// The base URL of the provider's own server.
    pub base_url: &'static str,
    /// The environment variable of another base URL.
    pub base_variable: &'static str,
    /// The default port in that variable, if it may be a bare host.
    pub port: Option<u16>,
    /// The environment variable of the key.
    pub key_variable: &'static str,
    /// Whether the provider's own server requires a key.
    pub needs_key: bool,
    /// Suffixes of the paths that a model answers, without the query.
    pub paths: &'static [&'static str],
    /// Whether a stream consists of JSON lines instead of server-sent events.
    pub streams_lines: bool,
    /// Whether every call has an id. Otherwise ids are made from the position of the message.
    pub has_call_ids: bool,
    /// Whether an answer may be generated in the background. It is fetched later from the path of
    /// its request and its id.
    pub has_background: bool,
}
