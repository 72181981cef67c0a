//! Tests of tract's store contract, for any store.
//!
//! - [`store_suite!`] makes a `#[test]` of each case of the contract; [`cases`] returns the same
//!   cases to programs.
//! - [`FaultyStore`] breaks one promise at a time, which proves that the cases notice it;
//!   [`WatchedStore`] is for custom faults.
//! - [`differential`] plays one history on several stores; [`linear`] checks the answers of
//!   concurrent calls on refs.
//! - [`crash`] compares acknowledged writes with the store after a crash, and [`damage`] the
//!   readable data of damaged files with the stored data. [`power`] cuts the power at any file
//!   operation of a process, and [`disk`] checks the state after disk errors.
//! - [`blocking`] tests blocking stores. [`loopback`] is an HTTP server for tests of clients.
//!
//! The feature `proptest`, on by default, adds `strategies`, which generate random objects and
//! writes, and `machine`, a reference model for `proptest-state-machine`. Both crates are
//! reexported, because these modules use their types. The feature `simulation` adds the module of
//! that name, which runs the verbs of many clients on a store in an order determined by a seed.
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
