//! The contract of a store of tract, as tests that every store can run.
//!
//! - [`store_suite!`] makes one `#[test]` of every case of the contract; [`cases`] gives the same cases to
//!   programs.
//! - [`FaultyStore`] breaks one promise at a time, which proves that the cases notice it;
//!   [`WatchedStore`] is for faults of your own.
//! - [`differential`] plays one history on several stores; [`linear`] checks the answers that concurrent
//!   callers got about refs.
//! - [`crash`] compares acknowledged writes with the store after a crash, and [`damage`] the readable data
//!   of damaged files with the stored data. [`power`] cuts the power at any file operation of a process,
//!   and [`disk`] checks the state after errors of the disk.
//! - [`blocking`] has the cases for blocking stores alone. [`loopback`] is an HTTP server for tests of
//!   clients.
//!
//! The feature `proptest`, on by default, brings `strategies`, which make random objects and
//! writes, and `machine`, a reference model for `proptest-state-machine`; both crates are exported
//! again, since those modules name their types. The feature `simulation` brings the module of that
//! name, which runs the verbs of many clients on your store in an order that a seed determines.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use tract_testkit::{Outcome, Suite, cases};
//! let suite = Suite::new(|_: &Path| Ok(tract_kv::memory()));
//! for case in cases().iter().filter(|case| case.name.starts_with("toolset")) {
//!     assert_eq!(case.run(&suite), Outcome::Kept, "{}", case.name);
//! }
//! ```
#![forbid(unsafe_code)]

pub mod blocking;
pub mod contract;
pub mod crash;
pub mod damage;
pub mod data;
pub mod differential;
pub mod disk;
mod faulty;
pub mod fixtures;
pub mod linear;
pub mod loopback;
#[cfg(feature = "proptest")]
pub mod machine;
pub mod power;
mod scale;
#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg(feature = "proptest")]
pub mod strategies;
mod suite;
pub mod upgrade;
pub mod visits;
mod watched;

#[cfg(feature = "proptest")]
pub use proptest;
#[cfg(feature = "proptest")]
pub use proptest_state_machine;

pub use self::contract::cases;
pub use self::faulty::{Fault, FaultyStore};
pub use self::scale::{Rounds, figure, rounds, scaled};
pub use self::suite::{
    Capability, ContractCase, Harness, Outcome, Running, Suite, assert_contract,
};
pub use self::watched::{Answer, Call, Watch, WatchedStore};
