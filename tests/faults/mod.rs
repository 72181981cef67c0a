//! Every stage of dispatch and every fault: what stands on the branch afterwards is what stood there
//! before, what the calls that succeeded did, and exactly one answer for each call. On every store.

mod agent;
mod failing;
mod killed;
mod matrix;
pub(crate) mod places;
mod resumed;
mod trap;
