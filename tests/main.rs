//! Whole walks through tract, on recorded data: one binary.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use tract::forms::Dialect;

// Handlers for all events do all that a handler for one event does.
mod any_handlers;

// Who may depend on whom, and what each feature brings in.
mod architecture;

// The stores that walks are tried on.
mod backends;

// Wrong input is reported, and changes nothing.
mod bad_input;

// Asking models, and what is recorded of it.
mod chat;

// Processes of this binary that run one of its tests.
mod child;

// One wrong byte is an error and is named.
mod damage;

// The same for sled, which may hang: in processes of their own.
mod damage_sled;

// Where the recordings are.
mod data;

// What the Python original got wrong, each by its name.
mod defects;

// Every stage of dispatch and every fault, on every store.
mod faults;

// Files that earlier builds wrote.
mod golden;

// Processes that are killed while they write, and several on one branch.
mod processes;

// Processes that are killed while they summarize, defer and decide.
mod kills;

// Garbage collection next to writers, and cut off by kills and full disks.
mod collect;

// Erasures, cut off by kills.
mod erasures;

// Many clients on one store, in an order that a seed determines.
mod simulated;

// Repacks, cut off by kills and losses of power, and next to all others.
mod repacks;

// Random histories keep the laws, in every store.
mod laws;

// Merges, picks and rebases against the model of the engine's tests, in every store.
mod histories;

// The model, the repository that it works on, and what both use.
#[allow(dead_code, reason = "other tests of the engine use the rest")]
#[path = "../crates/tract-engine/tests/planning/fixture.rs"]
mod fixture;
#[path = "../crates/tract-engine/tests/planning/history_model.rs"]
mod history_model;
#[path = "../crates/tract-engine/tests/support/mod.rs"]
mod support;

// Models that summarize, and what they may say instead.
mod model_summaries;

// What was recorded comes back as it was.
mod roundtrip;

// What providers refuse, apart from the compiler.
mod rules;

// Pending approvals: each is decided once, also when processes break.

// What a huge result takes in memory.
mod peaks;
mod pending;

// A PostgreSQL server of our own, as the tests of its store have it.
#[path = "../crates/tract-store-postgres/tests/all/server.rs"]
mod server;

// The tools of a context and of a request, through the facade.
mod tool_tracking;

// Results that are edited, found, and summarized or held by hooks.
mod tool_results;

// Many agents at once, and what a turn writes.
mod sessions;

// Summaries of what was recorded, and summarizers that misbehave.
mod summaries;

// What one provider recorded, the others accept.
mod translation;

// Concurrent callers on one branch, and one history on all stores.
mod together;

// Many writers of one branch.
mod writers;

// Stores, imports and bodies, for all of them.
mod walks;
