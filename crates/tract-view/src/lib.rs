//! Recorded conversations as pages.
//!
//! [`Viewer::bind`] serves them on loopback to the one who has the url, read-only; [`export`] writes the
//! same pages into one HTML file. Recorded text stays text on them: it is escaped, characters
//! that steer a terminal or the direction of text are written out, and nothing is loaded from
//! elsewhere.
#![forbid(unsafe_code)]

mod error;
mod export;
mod load;
mod pages;
mod server;
mod text;

pub use crate::error::{Error, Result};
pub use crate::export::{HtmlExport, export};
pub use crate::server::Viewer;
