//! Web pages of recorded conversations.
//!
//! [`Viewer::bind`] serves them on loopback, read-only, to the user who has the URL; [`export`]
//! writes the same pages to one HTML file. Recorded text cannot affect the pages: its Markdown is
//! rendered to elements of ours, its HTML is escaped, characters that steer a terminal or the
//! direction of text are written out, and nothing is loaded from elsewhere.
#![forbid(unsafe_code)]

mod error;
mod export;
mod load;
mod pages;
mod render;
mod server;
mod text;
mod times;

pub use crate::error::{Error, Result};
pub use crate::export::{HtmlExport, export};
pub use crate::server::Viewer;
