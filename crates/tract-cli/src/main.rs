//! The `tract` command line.
#![forbid(unsafe_code)]
fn main() {}
