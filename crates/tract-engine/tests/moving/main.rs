//! Conversations that move from one repository to another.

// Repositories, and what tests ask of them.
#[path = "../support/mod.rs"]
mod support;
// Repositories that are counted, cut off, and compared.
mod fixture;
// Files: what they hold, and what is refused of a file that was cut or changed.
mod bundles;
// A transfer that fails at any call continues where it was.
mod cuts;
// How far branches are from where a remote has them.
mod distance;
// What was erased on one side.
mod erasing;
// Branches of a remote, here.
mod fetching;
// Branches, there.
mod pushing;
// How few questions find what is missing.
mod questions;
