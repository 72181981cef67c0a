//! Calls as models made them, held against the tools that were offered.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // helpers of tests are tests

// The recorded calls of the catalogue, with the verdicts of another validator.
mod catalogue;
// Every call of every recorded exchange, against its own request's tools.
mod cassettes;
// What becomes of calls that may run.
mod dispatch;
// What asks for very much in few words.
mod exhaustion;
// Outputs of examples, checked against result types.
mod examples;
// Hostile text, hostile schemas.
mod hostile;
// What a call meets on its way: stages, modes, policies, repairs, provenance.
mod stages;
mod support;
// What may run without being asked about.
mod trust;
