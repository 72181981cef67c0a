//! The message that starts a run.

use tract_core::Draft;

/// The start of [`Agent::run`](crate::Agent::run): a text of the user, a [`Draft`], or `None` to
/// continue from the head of the branch.
pub trait IntoMessage {
    /// Returns the message to record first, if there is one.
    fn into_message(self) -> Option<Draft>;
}

impl IntoMessage for &str {
    fn into_message(self) -> Option<Draft> {
        Some(Draft::user(self))
    }
}

impl IntoMessage for String {
    fn into_message(self) -> Option<Draft> {
        Some(Draft::user(self))
    }
}

impl IntoMessage for Draft {
    fn into_message(self) -> Option<Draft> {
        Some(self)
    }
}

impl IntoMessage for Option<Draft> {
    fn into_message(self) -> Option<Draft> {
        self
    }
}
