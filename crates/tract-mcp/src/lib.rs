#![doc = include_str!("docs.md")]
#![forbid(unsafe_code)]

mod answers;
mod client;
mod connection;
mod error;
mod event;
mod lines;
mod options;
mod result;
mod server;
mod tool;

pub use crate::error::{McpError, Result};
pub use crate::event::McpEvent;
pub use crate::options::{ServerCommand, ServerOptions};
pub use crate::result::CallResult;
pub use crate::server::{Listing, McpServer};
pub use crate::tool::{McpTool, distinct_names};
pub use tract_tools::pin::{PinPolicy, Pins};
