//! The proxy in front of an upstream on loopback: what passes, and what is recorded.

#![allow(clippy::unwrap_used, reason = "tests")]

// What is sent arrives as it was sent, both ways.
mod bytes;
// Which conversation a request continues.
mod conversations;
// Nothing that happens to the recording harms the traffic.
mod failures;
// Responses that the provider keeps, and requests name.
mod responses;
// The server, the client and the store that the tests use.
mod support;
// Keys and headers that are not kept.
mod secrets;
// Recorded traffic of agents, where it is at hand.
mod wire;
