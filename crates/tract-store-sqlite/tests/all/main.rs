//! The tests of the SQLite store that need a file: opening, damage, other processes.

#![allow(clippy::unwrap_used, reason = "helpers of tests are outside of `#[test]`")]

mod common;

/// Large contents, and batches that join a group.
mod contents;
/// Flipped bytes, checks and repair.
mod damage;
/// The k-th access of the disk fails.
mod disk_errors;
/// What lies at the path decides what opening gives.
mod opening;
/// What a loss of power leaves.
mod power_loss;
/// Several processes on one file.
mod processes;
mod shared_reads;
