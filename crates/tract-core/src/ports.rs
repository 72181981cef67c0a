//! Ports: what the layers above reach through a trait, so that tests and hosts bring their own.

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
    /// Returns microseconds since 1970, UTC. It may run backwards.
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

/// A clock that stops until it is moved, for tests. Clones are the same clock.
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
    /// Makes a clock that shows this time: microseconds since 1970, UTC.
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

/// Counts tokens. Pure: equal texts have equal counts.
pub trait TokenCounter: Send + Sync {
    /// Returns the name that counts are reported and kept under, such as `tiktoken:o200k_base`.
    fn name(&self) -> &str;

    /// Returns how many tokens a text takes.
    fn count(&self, text: &str) -> u64;
}

/// Estimates: one token for four characters, rounded up.
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

/// A request to a model, neutral: no provider's shape. Cheap to clone.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The context, in order.
    pub messages: Arc<[Message]>,
    /// The tools in force, in order; repeats are kept.
    pub tools: Arc<[ActiveTool]>,
    /// Model and sampling parameters: a JSON object.
    pub parameters: Option<JsonText>,
    /// The skipped results of calls that the messages hold: each by its slot and its call. What
    /// they say is not sent; that they were given is.
    pub skipped: Arc<[(CommitId, CallRef)]>,
    /// The commit that the context was compiled from; a reply answers this head.
    pub head: Option<CommitId>,
}

impl ModelRequest {
    /// Makes a request of messages alone.
    pub fn new(messages: impl Into<Arc<[Message]>>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }

    /// Sets the tools.
    #[must_use]
    pub fn tools(mut self, tools: impl Into<Arc<[ActiveTool]>>) -> Self {
        self.tools = tools.into();
        self
    }

    /// Sets model and sampling parameters: a JSON object.
    #[must_use]
    pub fn parameters(mut self, parameters: JsonText) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// Sets the skipped results, each by its slot and the call that it answers.
    #[must_use]
    pub fn skipped(mut self, results: impl Into<Arc<[(CommitId, CallRef)]>>) -> Self {
        self.skipped = results.into();
        self
    }

    /// Sets the commit that the context was compiled from.
    #[must_use]
    pub fn head(mut self, head: CommitId) -> Self {
        self.head = Some(head);
        self
    }
}

/// Answers requests. Cancelled by dropping the future.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Returns what telemetry says of the model before it is asked: nothing by default.
    fn description(&self) -> ModelDescription {
        ModelDescription::default()
    }

    /// Sends a request and waits for the whole answer.
    ///
    /// # Errors
    /// [`ModelError`] when there is no answer.
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError>;

    /// Sends a request, hands over the answer piece by piece as it comes, and returns it whole.
    ///
    /// # Behavior
    /// - The pieces put together are the reply, except after an error.
    /// - Cancelling the token ends the wait at once.
    /// - A model that cannot stream hands over the whole answer when it has come.
    ///
    /// # Errors
    /// [`ModelError::BrokenOff`] with the part that arrived, if any did;
    /// [`ModelError::Cancelled`] when nothing had; else as [`chat`](Self::chat).
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

/// What to make shorter, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The text.
    pub text: String,
    /// The kind of text, such as `result of grep`.
    pub what: Option<String>,
    /// What the caller wants kept.
    pub instructions: Option<String>,
    /// Target length of the summary, in tokens.
    pub target_tokens: Option<u64>,
    /// Texts that the summary must contain verbatim; the caller checks that.
    pub must_keep: Vec<String>,
    /// The conversation that the text belongs to, for a summary of what matters to it.
    pub context: Option<String>,
}

impl SummaryRequest {
    /// Asks for a summary of a text, with nothing said about how.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Sets the texts that the summary must contain verbatim.
    #[must_use]
    pub fn must_keep(mut self, texts: Vec<String>) -> Self {
        self.must_keep = texts;
        self
    }

    /// Shows the conversation that the text belongs to.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Sets the kind of text.
    #[must_use]
    pub fn what(mut self, what: impl Into<String>) -> Self {
        self.what = Some(what.into());
        self
    }

    /// Sets what the summary must keep.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets the target length of the summary.
    #[must_use]
    pub fn target_tokens(mut self, tokens: u64) -> Self {
        self.target_tokens = Some(tokens);
        self
    }
}

/// A shorter text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The text.
    pub text: String,
    /// The author, such as a model's name.
    pub by: Option<String>,
    /// What it cost.
    pub usage: Option<Usage>,
}

impl Summary {
    /// Makes a summary of unknown origin and cost.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), by: None, usage: None }
    }

    /// Sets the author.
    #[must_use]
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Sets the token usage.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// Makes texts shorter.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// Summarizes one text.
    ///
    /// # Errors
    /// [`ModelError`] when there is no summary.
    async fn summarize(&self, request: &SummaryRequest) -> Result<Summary, ModelError>;

    /// Summarizes several texts that belong together: exactly one summary for each, in order. One
    /// after the other, unless the port knows better.
    ///
    /// # Errors
    /// As [`summarize`](Self::summarize), for the first that has no summary.
    async fn summarize_all(&self, requests: &[SummaryRequest]) -> Result<Vec<Summary>, ModelError> {
        let mut summaries = Vec::with_capacity(requests.len());
        for request in requests {
            summaries.push(self.summarize(request).await?);
        }
        Ok(summaries)
    }
}

/// Waits for work, or for its token to be cancelled, whichever is first; then the work is dropped.
///
/// # Errors
/// [`ModelError::Cancelled`], and what the work says.
pub async fn unless_cancelled<T>(
    work: impl Future<Output = Result<T, ModelError>>,
    cancellation: &CancellationToken,
) -> Result<T, ModelError> {
    let mut work = pin!(work);
    let mut cancelled = pin!(cancellation.cancelled());
    poll_fn(|context| {
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
