//! Planners: from a request, a view and the records it needs to a draft, or a refusal.
//!
//! Pure: no store, no clock, no `async`. They may get better; what they wrote stays.

mod refusal;
mod line;

pub use self::line::Line;
pub use self::refusal::{ConflictKind, MergeConflict, OpenCall, Refusal};
