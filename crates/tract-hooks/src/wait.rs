//! Waiting for code that is not ours, without a runtime: for so long, even when it panics or
//! blocks.

pub use crate::ask::caught;
pub use crate::timer::within;
pub use crate::worker::run_on_worker;
