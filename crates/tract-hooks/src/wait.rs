//! Runs third-party code with a time limit and a panic guard, without an async runtime.

pub use crate::ask::caught;
pub use crate::timer::within;
pub use crate::worker::run_on_worker;
