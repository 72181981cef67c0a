//! The SQLite store of tract.
#![forbid(unsafe_code)]
