//! Dispatch: the table of failures, faults at every stage, order, and what policies and people say.

// How calls that run in parallel answer: as if they had run one after the other.
mod parallel;
// Policies, approvals, hooks, journals, budgets, retries.
mod deciding;
// Each stage × each way to break.
mod faults;
// The tools for files.
mod files;
// What a turn lends to its calls.
mod lent;
// How many run at a time, over turns and dispatchers.
mod limits;
// One row for each way in which a call ends.
mod rows;
// State that two turns share: a session, resources, all else that is restored.
mod shared_state;
pub(crate) mod support;
