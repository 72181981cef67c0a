//! Finding messages: ranked search over an index, and grep, which reads the messages themselves.

pub(crate) mod grep;
pub(crate) mod ranked;
