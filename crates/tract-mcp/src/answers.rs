//! The answers of a server as it wrote them, by request.
//!
//! `rmcp` reads answers into types and drops the members that it does not know. So the text of an
//! answer that we wait for is kept here, and `rmcp` learns only that it came.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::McpError;

/// The outcome of a pending request.
#[derive(Debug)]
enum PendingRequest {
    Open,
    Answered(Box<str>),
    /// The request will not be answered, with the reason.
    Failed(Box<McpError>),
    /// Answered and taken: a further answer is a duplicate.
    Taken,
}

/// The requests of a connection whose answers are kept as text.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<HashMap<Box<str>, PendingRequest>>);

/// The use of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerMatch {
    /// The first to a request that we wait for.
    First,
    /// A further one to such a request.
    Again,
    /// None of ours.
    Unknown,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, PendingRequest>> {
        // Each change is one insertion or removal, so a panic leaves the map usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait for the answer to a request; ids are JSON texts.
    pub(crate) fn expect(&self, id: &str) {
        self.lock().insert(id.into(), PendingRequest::Open);
    }

    /// Keeps an answer.
    pub(crate) fn keep(&self, id: &str, result: &str) -> AnswerMatch {
        match self.lock().get_mut(id) {
            Some(waiting @ PendingRequest::Open) => {
                *waiting = PendingRequest::Answered(result.into());
                AnswerMatch::First
            }
            Some(_) => AnswerMatch::Again,
            None => AnswerMatch::Unknown,
        }
    }

    /// Fails a pending request; those of the handshake are included.
    pub(crate) fn fail(&self, id: &str, error: McpError) {
        let mut waiting = self.lock();
        let open = matches!(waiting.get(id), None | Some(PendingRequest::Open));
        if open {
            waiting.insert(id.into(), PendingRequest::Failed(Box::new(error)));
        }
    }

    /// Takes why a request failed.
    pub(crate) fn take_failure(&self, id: &str) -> Option<McpError> {
        let mut waiting = self.lock();
        let failed = |found: &&mut PendingRequest| matches!(found, PendingRequest::Failed(_));
        let found = waiting.get_mut(id).filter(failed)?;
        match std::mem::replace(found, PendingRequest::Taken) {
            PendingRequest::Failed(error) => Some(*error),
            _ => None,
        }
    }

    /// Takes why any request failed: in a handshake there is only one.
    #[cfg(feature = "http")]
    pub(crate) fn take_any_failure(&self) -> Option<McpError> {
        let failed = |waiting: &PendingRequest| matches!(waiting, PendingRequest::Failed(_));
        let id = self.lock().iter().find(|(_, waiting)| failed(waiting)).map(|(id, _)| id.clone());
        id.and_then(|id| self.take_failure(&id))
    }

    /// Takes the answer to a request.
    pub(crate) fn take(&self, id: &str) -> Option<Box<str>> {
        let mut waiting = self.lock();
        let found = waiting.get_mut(id)?;
        match std::mem::replace(found, PendingRequest::Taken) {
            PendingRequest::Answered(result) => Some(result),
            _ => None,
        }
    }

    /// Returns the only request that is open, if there is exactly one.
    pub(crate) fn only_open(&self) -> Option<Box<str>> {
        let waiting = self.lock();
        let mut open =
            waiting.iter().filter(|(_, waiting)| matches!(waiting, PendingRequest::Open));
        match (open.next(), open.next()) {
            (Some((id, _)), None) => Some(id.clone()),
            _ => None,
        }
    }

    /// Stops waiting for an answer. A later answer is ignored.
    pub(crate) fn forget(&self, id: &str) {
        let mut waiting = self.lock();
        // Of those that were answered some are kept, to tell a second answer from a stray one.
        if waiting.len() > REMEMBERED {
            waiting.retain(|_, waiting| !matches!(waiting, PendingRequest::Taken));
        }
        if !matches!(waiting.get(id), Some(PendingRequest::Taken)) {
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
        assert_eq!(answers.keep("1", "{}"), AnswerMatch::Unknown);
        answers.expect("1");
        assert_eq!(answers.only_open().as_deref(), Some("1"));
        assert_eq!(answers.keep("1", r#"{"a":1}"#), AnswerMatch::First);
        assert_eq!(answers.keep("1", r#"{"a":2}"#), AnswerMatch::Again);
        assert_eq!(answers.take("1").as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(answers.keep("1", r#"{"a":3}"#), AnswerMatch::Again);
        answers.forget("1");
        assert_eq!(answers.take("1"), None);
        answers.expect("2");
        answers.expect("3");
        assert_eq!(answers.only_open(), None);
        answers.forget("2");
        assert_eq!(answers.keep("2", "{}"), AnswerMatch::Unknown);
    }
}
