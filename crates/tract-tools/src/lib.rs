//! Registries of tools, and the way of a model's call from its bytes to validated arguments.
#![forbid(unsafe_code)]

pub mod policy;

pub use crate::policy::{Decision, Policy, PolicyRequest};
