//! Agents that run, stop, are killed, and continue.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // helpers of tests are tests

// Pauses until a decision, across restarts.
mod approval;
// Recorded conversations through real clients, against a server on loopback.
mod loopback;
// Effects that happen once, as they were approved.
mod effects;
// Who works on calls, and how long others wait for it.
mod leases;
// The loop and its reasons to stop.
mod loops;
// What was approved, and what changed since.
mod pins;
// Prompts whose sections open.
mod prompts;
// Recorded conversations, driven, killed and replayed.
mod recorded;
// What tools remember, on the branch.
mod remembered;
// What a restart finds.
mod resume;
// Tools that the model has to look for.
mod searching;
// Why a run stops after a reply without calls.
mod stops;

mod support;
// Tools that were started and gave no answer.
mod unanswered;
// A validator of the registry's own.
mod validators;
