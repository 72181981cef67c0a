//! The binary, run as people and scripts run it.
#![forbid(unsafe_code)]

// `kill -9` while importing and appending.
mod kill;

mod support;

// Models asked, on loopback.
#[cfg(all(unix, feature = "http"))]
mod chat;
// Exit codes and errors: every way in which input can be bad.
mod errors;
// What `log --graph` draws, in colour.
mod graph;
// Recordings in: reuse, anomalies, refused lines.
mod imports;
// The shapes that scripts rely on.
mod json_shapes;
// Streams: apply, export, interruption.
mod streams;
// Verbs one after another, as in a day's work; the demo.
mod walk;
