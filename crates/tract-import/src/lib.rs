//! Readers of what other tools recorded.
//!
//! A reader turns the files of a tool into conversations with their branches; the engine stores
//! them as commits that contain nothing but what was recorded, so that importing again changes
//! nothing. What a file lacks is reported, never made up.
#![forbid(unsafe_code)]

mod error;
#[cfg(feature = "python")]
pub mod python;

pub use crate::error::{Error, Result};
