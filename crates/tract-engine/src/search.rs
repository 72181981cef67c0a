//! Finding messages: ranked search over an index, and grep without one.

pub(crate) mod grep;
pub(crate) mod normal;
pub(crate) mod ranked;
