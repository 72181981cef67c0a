//! Registries of tools, and the way of a model's call from its bytes to validated arguments.
//!
//! A [`Registry`] holds definitions and what runs them. [`hydrate()`] makes of each call of a reply
//! one [`Hydrated`]: ready to run, or refused with the stage, the place and the reason. Nothing
//! runs here, so that policies and people can decide in between.
#![forbid(unsafe_code)]

mod compiled;
pub mod hydrate;
pub mod policy;
pub mod registry;

pub use crate::hydrate::{
    Bound, Call, HydrateOptions, Hydrated, IntoCalls, Provenance, Repair, RepairRequest, Stage,
    StageError, hydrate, hydrate_repairing, hydrate_with,
};
pub use crate::policy::{Decision, Policy, PolicyRequest};
pub use crate::registry::{
    Lookup, NoSchema, RegisterError, Registered, Registry, RegistryBuilder, RegistryError,
};
