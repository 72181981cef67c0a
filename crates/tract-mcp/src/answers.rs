//! The answers of a server as it wrote them, by request.
//!
//! `rmcp` reads answers into types and drops the members that it does not know. So the text of an
//! answer that we wait for is kept here, and `rmcp` is told only that it came.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What became of a request that we wait for.
#[derive(Debug)]
enum Waiting {
    Open,
    Answered(Box<str>),
    /// Answered and taken: whatever comes now comes twice.
    Taken,
}

/// The requests of a connection whose answers are kept as text.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<HashMap<Box<str>, Waiting>>);

/// What an answer is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The first to a request that we wait for.
    First,
    /// A further one to such a request.
    Again,
    /// None of ours.
    Unknown,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Waiting>> {
        // Each change is one insertion or removal, so a panic leaves the map usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait for the answer to a request; ids are JSON texts.
    pub(crate) fn expect(&self, id: &str) {
        self.lock().insert(id.into(), Waiting::Open);
    }

    /// Keeps an answer.
    pub(crate) fn keep(&self, id: &str, result: &str) -> Kept {
        match self.lock().get_mut(id) {
            Some(waiting @ Waiting::Open) => {
                *waiting = Waiting::Answered(result.into());
                Kept::First
            }
            Some(Waiting::Answered(_) | Waiting::Taken) => Kept::Again,
            None => Kept::Unknown,
        }
    }

    /// Takes the answer to a request.
    pub(crate) fn take(&self, id: &str) -> Option<Box<str>> {
        let mut waiting = self.lock();
        let found = waiting.get_mut(id)?;
        match std::mem::replace(found, Waiting::Taken) {
            Waiting::Answered(result) => Some(result),
            Waiting::Open | Waiting::Taken => None,
        }
    }

    /// Returns the only request that is open, if there is exactly one.
    pub(crate) fn only_open(&self) -> Option<Box<str>> {
        let waiting = self.lock();
        let mut open = waiting.iter().filter(|(_, waiting)| matches!(waiting, Waiting::Open));
        match (open.next(), open.next()) {
            (Some((id, _)), None) => Some(id.clone()),
            _ => None,
        }
    }

    /// Stops waiting, so that what comes later is none of ours.
    pub(crate) fn forget(&self, id: &str) {
        let mut waiting = self.lock();
        // Of those that were answered some are kept, to tell a second answer from a stray one.
        if waiting.len() > REMEMBERED {
            waiting.retain(|_, waiting| !matches!(waiting, Waiting::Taken));
        }
        if matches!(waiting.get(id), Some(Waiting::Open | Waiting::Answered(_))) {
            waiting.remove(id);
        }
    }
}

/// How many answered requests are remembered at most.
const REMEMBERED: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_counts() {
        let answers = Answers::default();
        assert_eq!(answers.keep("1", "{}"), Kept::Unknown);
        answers.expect("1");
        assert_eq!(answers.only_open().as_deref(), Some("1"));
        assert_eq!(answers.keep("1", r#"{"a":1}"#), Kept::First);
        assert_eq!(answers.keep("1", r#"{"a":2}"#), Kept::Again);
        assert_eq!(answers.take("1").as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(answers.keep("1", r#"{"a":3}"#), Kept::Again);
        answers.forget("1");
        assert_eq!(answers.take("1"), None);
        answers.expect("2");
        answers.expect("3");
        assert_eq!(answers.only_open(), None);
        answers.forget("2");
        assert_eq!(answers.keep("2", "{}"), Kept::Unknown);
    }
}
