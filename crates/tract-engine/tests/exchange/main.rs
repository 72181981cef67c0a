//! Whole repositories: in, out, checked.

// A store that breaks one promise at a time.
mod broken;
// Repositories, and what tests ask of them.
#[path = "../support/mod.rs"]
mod support;
// Streams: what lines do, and what refused ones leave as it was.
mod apply;
// Lines that share a durable write, and how few writes that takes.
mod groups;
// What import makes of conversations, and that it makes the same again.
mod import;
// What a log shows, what tools were in force, where refs pointed when.
mod look;
// An export, applied elsewhere, is the same repository.
mod portable;
// Whether verify is content with what is sound, and names what is not.
mod verify;
