//! Planners and the write path: git's verbs over contexts.
#![forbid(unsafe_code)]

pub mod graph;
