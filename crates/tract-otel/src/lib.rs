#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod client;
mod layer;
mod metrics;
mod options;
mod telemetry;
mod unresponsive;

pub use self::options::{OptionsError, TelemetryOptions};
pub use self::telemetry::{CommandSpan, Telemetry, TelemetryError};
