#![doc = include_str!("docs.md")]
#![forbid(unsafe_code)]

mod answers;
mod client;
mod connection;
mod error;
mod event;
#[cfg(feature = "host")]
mod host;
#[cfg(feature = "http")]
mod http;
mod line_writer;
mod lines;
mod listing;
mod options;
mod program;
mod request;
mod result;
#[cfg(feature = "host")]
mod served;
mod server;
mod tool;
mod wire;

pub use crate::error::{McpError, Result};
pub use crate::event::{Listener, McpEvent};
#[cfg(feature = "host")]
pub use crate::host::{HostDocument, HostDocuments, HostPage, McpHost};
#[cfg(feature = "http")]
pub use crate::http::ServerUrl;
pub use crate::listing::Listing;
pub use crate::options::{ServerCommand, ServerOptions};
pub use crate::result::CallResult;
pub use crate::server::McpServer;
pub use crate::tool::{McpTool, distinct_names, distinct_names_besides};
pub use tract_tools::pin::{PinPolicy, Pins};
