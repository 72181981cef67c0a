//! Every stage of dispatch and every fault: what the branch contains afterwards is what it
//! contained before, what the calls that succeeded did, and exactly one answer for each call. On
//! every store.

mod agent;
mod failing;
mod killed;
mod matrix;
pub(crate) mod places;
mod resumed;
mod trap;
