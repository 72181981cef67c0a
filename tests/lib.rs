//! Whole walks through tract live in `main.rs`; this file only makes the folder a package.
#![forbid(unsafe_code)]
