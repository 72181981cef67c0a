//! From commits to a view, and from a view to a neutral compiled context.
#![forbid(unsafe_code)]

mod compiled;
mod fold;
mod shape;
mod view;

pub use crate::compiled::{Compiled, TokenCount};
pub use crate::fold::{InvalidChange, appended, fold, inverse, resolved};
pub use crate::shape::{BadShape, Changed, shape};
pub use crate::view::{Row, RowKey, View};
