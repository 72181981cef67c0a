//! Counts of recorded exchanges, and of skipped ones by reason.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Why an exchange is not recorded as a turn, in the order in which the reasons are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The copy did not fit into the memory for copies.
    OverBudget,
    /// Too many exchanges wait to be recorded.
    QueueFull,
    /// The recorder has stopped.
    RecorderStopped,
    /// The upstream could not be reached, or gave no response.
    NoResponse,
    /// The status of the response is not 200.
    UpstreamStatus,
    /// The request is not one that a model answers: a list of models, a count of tokens.
    NotATurn,
    /// The body of the request could not be decoded or read.
    RequestUndecodable,
    /// The body of the response is empty.
    EmptyResponse,
    /// The request is in no known dialect.
    UnknownProvider,
    /// The body of the response could not be decoded.
    ResponseUndecodable,
    /// The response was read, and no answer is in it.
    NoTurn,
    /// The connection became a WebSocket, which is forwarded unread.
    WebSocket,
    /// The store rejected it.
    StoreFailed,
    /// The recorder failed while recording it.
    RecorderFailed,
}

impl Reason {
    /// Every reason, in order.
    pub const ALL: &'static [Self] = &[
        Self::OverBudget,
        Self::QueueFull,
        Self::RecorderStopped,
        Self::NoResponse,
        Self::UpstreamStatus,
        Self::NotATurn,
        Self::RequestUndecodable,
        Self::EmptyResponse,
        Self::UnknownProvider,
        Self::ResponseUndecodable,
        Self::NoTurn,
        Self::WebSocket,
        Self::StoreFailed,
        Self::RecorderFailed,
    ];

    /// Returns the stable word for it.
    pub const fn as_str(self) -> &'static str {
        self.words().0
    }

    /// Returns what happened, for people.
    pub const fn describe(self) -> &'static str {
        self.words().1
    }

    /// Returns the stable word of a reason, and its description.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::OverBudget => ("over_budget", "the memory for copies was used up"),
            Self::QueueFull => ("queue_full", "too many exchanges were waiting to be recorded"),
            Self::RecorderStopped => ("recorder_stopped", "the recorder had stopped"),
            Self::NoResponse => ("no_response", "the upstream gave no response"),
            Self::UpstreamStatus => ("upstream_status", "the upstream answered with an error"),
            Self::NotATurn => ("not_a_turn", "not a request to a model"),
            Self::RequestUndecodable => ("request_undecodable", "the request could not be read"),
            Self::EmptyResponse => ("empty_response", "the response was empty"),
            Self::UnknownProvider => ("unknown_provider", "the request is in no known dialect"),
            Self::ResponseUndecodable => {
                ("response_undecodable", "the response could not be decoded")
            }
            Self::NoTurn => ("no_turn", "no answer in the response"),
            Self::WebSocket => ("web_socket", "passed as a WebSocket, which is not read"),
            Self::StoreFailed => ("store_failed", "the store did not take it"),
            Self::RecorderFailed => ("recorder_failed", "the recorder failed on it"),
        }
    }

    /// Returns whether a conversation is incomplete because of it.
    pub const fn is_loss(self) -> bool {
        match self {
            Self::NotATurn | Self::UpstreamStatus | Self::NoResponse | Self::EmptyResponse => false,
            Self::OverBudget
            | Self::QueueFull
            | Self::RecorderStopped
            | Self::RequestUndecodable
            | Self::UnknownProvider
            | Self::ResponseUndecodable
            | Self::NoTurn
            | Self::WebSocket
            | Self::StoreFailed
            | Self::RecorderFailed => true,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Counts shared by the proxy and the recorder.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    seen: AtomicU64,
    done: AtomicU64,
    recorded: AtomicU64,
    skipped: [AtomicU64; Reason::ALL.len()],
    /// Bytes of request and response bodies that were forwarded.
    passed: AtomicU64,
}

impl Counts {
    pub(crate) fn seen(&self) {
        self.seen.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn record(&self) {
        self.recorded.fetch_add(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn skip(&self, reason: Reason) {
        let place = Reason::ALL.iter().position(|known| *known == reason);
        if let Some(count) = place.and_then(|place| self.skipped.get(place)) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn pass(&self, bytes: usize) {
        self.passed.fetch_add(u64::try_from(bytes).unwrap_or_default(), Ordering::Relaxed);
    }

    /// Returns the bytes of bodies that were forwarded so far.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Returns whether every exchange seen so far is recorded or skipped.
    pub(crate) fn is_settled(&self) -> bool {
        // `done` is read first. In the other order, exchanges that begin and end between the two
        // reads would hide one that is still open.
        self.done.load(Ordering::SeqCst) >= self.seen.load(Ordering::SeqCst)
    }

    pub(crate) fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::SeqCst)
    }

    pub(crate) fn seen_count(&self) -> u64 {
        self.seen.load(Ordering::SeqCst)
    }

    pub(crate) fn skipped(&self) -> BTreeMap<Reason, u64> {
        let counts = Reason::ALL.iter().zip(&self.skipped);
        let counts = counts.map(|(reason, count)| (*reason, count.load(Ordering::SeqCst)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}
