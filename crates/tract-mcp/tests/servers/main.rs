//! Servers of all kinds: recorded, misbehaving, real.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

// What servers do wrong, and what becomes of it.
mod misbehaving;

// The real servers of the protocol's authors, where Node is present.
mod live;

// What a program of a server gets from us, and what is left of it.
#[cfg(unix)]
mod program;

// A server that changes its tools behind the back of who bound them.
mod rebound;

// Approved tools, and those that changed since.
mod pinning;

// Recorded definitions come back as they were written.
mod recorded;

// The server of these tests: this program itself, controlled by its environment.
mod script;

// Servers behind a url, and what they do wrong.
#[cfg(feature = "http")]
mod http;

// The server of those tests.
#[cfg(feature = "http")]
mod web;
