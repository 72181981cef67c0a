//! The tests of the SQLite store that need a file: opening, damage, other processes.

#![allow(clippy::unwrap_used, reason = "helpers of tests are outside of `#[test]`")]

mod common;

/// What comes back is what went in: after reopening, over forks, pages and healed damage.
mod contents;
/// Flipped bytes, checks and repair.
mod damage;
/// The k-th access of the disk fails.
mod disk_errors;
/// What lies at the path decides what opening gives.
mod opening;
/// What a loss of power leaves.
mod power_loss;
/// Several handles and processes on one file, and processes that are killed.
mod processes;
mod shared_reads;
