//! Ports: traits through which the upper layers use models, clocks and token counters, so that
//! tests and hosts can supply their own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use crate::commit::CallRef;
use crate::id::CommitId;
use crate::message::{ActiveTool, Message};
pub use crate::model_error::ModelError;
use crate::partial::ReplyDelta;
pub use crate::reply::{Reply, StopReason, Usage};
use crate::telemetry::ModelDescription;
use crate::text::JsonText;
use crate::tool::CancellationToken;

/// A clock.
pub trait Clock: Send + Sync {
    /// Returns the time in microseconds since 1970, UTC. It may go backwards.
    fn now_us(&self) -> i64;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> i64 {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => micros(since),
            Err(before) => -micros(before.duration()),
        }
    }
}

/// A clock for tests that only moves when it is told to. Clones share the time.
///
/// ```
/// use tract_core::{Clock, ManualClock};
/// let clock = ManualClock::at_us(1_000_000);
/// clock.advance(std::time::Duration::from_millis(2));
/// assert_eq!(clock.now_us(), 1_002_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Creates a clock with this time: microseconds since 1970, UTC.
    pub fn at_us(now_us: i64) -> Self {
        Self(Arc::new(AtomicI64::new(now_us)))
    }

    /// Sets the time, forwards or backwards.
    pub fn set_us(&self, now_us: i64) {
        self.0.store(now_us, Ordering::SeqCst);
    }

    /// Moves the time forwards.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Counts tokens. Must be deterministic: equal texts have equal counts.
pub trait TokenCounter: Send + Sync {
    /// Returns the name under which counts are reported and stored, such as `tiktoken:o200k_base`.
    fn name(&self) -> &str;

    /// Returns the number of tokens of a text.
    fn count(&self, text: &str) -> u64;
}

/// Estimates token counts: one token per four characters, rounded up.
///
/// ```
/// use tract_core::{ApproxCounter, TokenCounter};
/// assert_eq!(ApproxCounter.count("café!"), 2);
/// assert_eq!(ApproxCounter.count(""), 0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ApproxCounter;

impl TokenCounter for ApproxCounter {
    fn name(&self) -> &str {
        "approx"
    }

    fn count(&self, text: &str) -> u64 {
        text.chars().count().div_ceil(4) as u64
    }
}

/// A request to a model, in the neutral form. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// The context, in order.
    pub messages: Arc<[Message]>,
    /// The tools in force, in order; repeats are kept.
    pub tools: Arc<[ActiveTool]>,
    /// Model and sampling parameters: a JSON object.
    pub parameters: Option<JsonText>,
    /// Skipped results of calls in the messages, each by its slot and its call. Their content is
    /// not sent, only the fact that there was a result.
    pub skipped: Arc<[(CommitId, CallRef)]>,
    /// The commit from which the context was compiled; a reply is appended to this head.
    pub head: Option<CommitId>,
}

impl ModelRequest {
    /// Creates a request with messages only.
    pub fn new(messages: impl Into<Arc<[Message]>>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }
}

/// A chat model. Dropping the future cancels a request.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Returns the model's description for telemetry; empty by default.
    fn description(&self) -> ModelDescription {
        ModelDescription::default()
    }

    /// Sends a request and waits for the complete answer.
    ///
    /// # Errors
    /// [`ModelError`] if there is no answer.
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError>;

    /// Sends a request, passes on the answer piece by piece, and returns it when it is complete.
    ///
    /// # Behavior
    /// - The pieces together are the reply, except after an error.
    /// - Cancelling the token ends the wait immediately.
    /// - A model that cannot stream passes on the whole answer at the end.
    ///
    /// # Errors
    /// [`ModelError::BrokenOff`] with the part that arrived, if any; [`ModelError::Cancelled`] if
    /// no part had arrived; or else those of [`chat`](Self::chat).
    async fn stream(
        &self,
        request: &ModelRequest,
        cancellation: &CancellationToken,
        on_piece: &mut (dyn FnMut(ReplyDelta) + Send),
    ) -> Result<Reply, ModelError> {
        let reply = unless_cancelled(self.chat(request), cancellation).await?;
        ReplyDelta::all_of(&reply).into_iter().for_each(on_piece);
        Ok(reply)
    }
}

/// A text to summarize, with instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryRequest {
    /// The text.
    pub text: String,
    /// The kind of text, such as `result of grep`.
    pub what: Option<String>,
    /// Instructions, such as the facts to keep.
    pub instructions: Option<String>,
    /// Target length of the summary, in tokens.
    pub target_tokens: Option<u64>,
    /// Texts that the summary must contain verbatim. The caller checks that.
    pub must_keep: Vec<String>,
    /// The conversation around the text, so that the summary keeps the relevant parts.
    pub context: Option<String>,
}

impl SummaryRequest {
    /// Creates a request without instructions.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A summary of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// The author, such as a model's name.
    pub by: Option<String>,
    /// The tokens used to write it.
    pub usage: Option<Usage>,
}

impl Summary {
    /// Creates a summary without author and token usage.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), by: None, usage: None }
    }
}

/// Summarizes texts.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// Summarizes one text.
    ///
    /// # Errors
    /// [`ModelError`] if there is no summary.
    async fn summarize(&self, request: &SummaryRequest) -> Result<Summary, ModelError>;

    /// Summarizes several related texts: exactly one summary for each, in order. The default
    /// implementation summarizes one after the other.
    ///
    /// # Errors
    /// The first error of [`summarize`](Self::summarize).
    async fn summarize_all(&self, requests: &[SummaryRequest]) -> Result<Vec<Summary>, ModelError> {
        let mut summaries = Vec::with_capacity(requests.len());
        for request in requests {
            summaries.push(self.summarize(request).await?);
        }
        Ok(summaries)
    }
}

/// Awaits work until the token is canceled, which drops the work.
///
/// # Errors
/// [`ModelError::Cancelled`], or the error of the work.
pub async fn unless_cancelled<T>(
    work: impl Future<Output = Result<T, ModelError>>,
    cancellation: &CancellationToken,
) -> Result<T, ModelError> {
    let mut work = pin!(work);
    let mut cancelled = pin!(cancellation.cancelled());
    poll_fn(|context| {
        // First, so that work is not started after the cancellation.
        if cancelled.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(ModelError::Cancelled));
        }
        work.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;

    #[test]
    fn estimates_count_characters_not_bytes() {
        for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語日本", 2)]
        {
            assert_eq!(ApproxCounter.count(text), tokens, "{text:?}");
        }
        assert_eq!(ApproxCounter.name(), "approx");
    }

    #[test]
    fn the_system_clock_shows_this_century() {
        let now = SystemClock.now_us();
        assert!(now > 1_700_000_000_000_000 && now < 4_102_444_800_000_000, "{now}");
    }

    #[test]
    fn a_manual_clock_goes_where_it_is_set() {
        let clock = ManualClock::default();
        let same = clock.clone();
        clock.set_us(-5);
        assert_eq!(same.now_us(), -5);
        same.advance(Duration::from_secs(1));
        assert_eq!(clock.now_us(), 999_995);
    }

    #[test]
    fn ports_are_objects_and_errors_say_what_helps() {
        fn object<T: ?Sized + Send + Sync>() {}
        object::<dyn ChatModel>();
        object::<dyn Summarizer>();
        object::<dyn TokenCounter>();
        object::<dyn Clock>();
        let limited = ModelError::RateLimited {
            message: "slow down".to_owned(),
            retry_after: Some(Duration::from_secs(3)),
        };
        assert!(limited.retryable());
        assert_eq!(limited.notes(), ["try again in 3s"]);
        assert!(!ModelError::other("odd").retryable());
    }

    #[test]
    fn cancelling_ends_what_would_never_end() {
        let token = CancellationToken::new();
        token.cancel();
        let never = std::future::pending::<Result<(), ModelError>>();
        let found = block_on(unless_cancelled(never, &token));
        assert!(matches!(found, Err(ModelError::Cancelled)));
        let done = block_on(unless_cancelled(async { Ok(6) }, &CancellationToken::new()));
        assert!(matches!(done, Ok(6)));
    }
}
