//! The turn and the loop: an agent that runs, is recorded, survives, and can be replayed.
//!
//! A turn is: compile the head, ask the model, commit its reply, dispatch its calls, and commit all
//! their answers and the state of the tools in one durable write. [`Agent::run`] repeats turns
//! until the model ends its reply without calls, a budget is spent, a call waits for a decision, or
//! the run is cancelled. All state is on the branch, so another process that opens it continues
//! where this one stopped.
#![forbid(unsafe_code)]

mod agent;
mod answers;
mod effects;
mod error;
mod instructions;
mod journal;
mod message;
mod pins;
mod position;
mod progress;
mod replay;
mod resume;
mod run;
mod session;
mod telemetry;
mod turn;

pub use crate::agent::{Agent, OnResume};
pub use crate::error::{Result, RunError};
pub use crate::message::IntoMessage;
pub use crate::progress::{Progress, Stop};
pub use crate::replay::{Difference, ReplayReport, replay};
pub use crate::run::Report;
pub use crate::session::{load_session, stored_slices};
pub use crate::turn::{AnsweredCall, TurnDone, TurnEnd};
