//! The chain: named handlers in order; the first that does not pass decides.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tract_core::Summarizer;

use crate::action::{
    Action, ActionKind, AnyAction, CommitAction, CompileAction, CompressAction, DispatchAction,
    MergeAction, ToolResultAction,
};
use crate::ask::{in_place, run_separately, waited};
use crate::decision::{Decision, HandlerFailure, HandlerFailureKind};
use crate::event::{
    AnyEvent, BeforeCommit, BeforeCompile, BeforeCompress, BeforeDispatch, BeforeMerge, Event,
    RefMoved, ToolResultReceived,
};
use crate::nested;

/// A handler as a type, for those that wait and those that keep state.
#[async_trait]
pub trait Handler<E: Event>: Send + Sync + 'static {
    /// Looks at the event and answers.
    async fn handle(&self, event: &E) -> E::Action;
}

/// A handler for all events as a type, for those that wait and those that keep state.
#[async_trait]
pub trait AnyHandler: Send + Sync + 'static {
    /// Looks at the event and answers.
    async fn handle(&self, event: AnyEvent<'_>) -> AnyAction;
}

/// Named handlers, in order. Cheap to clone; a clone that is changed leaves the other alone.
///
/// # Behavior
/// - Handlers for the event are asked in the order in which they were added, then those for all
///   events in theirs.
/// - The first that does not pass decides, and the others are not asked.
/// - When no handler decides, the event is approved.
/// - A name is unique for each event: adding another handler under it puts that one in the
///   place of the first.
/// - What a handler does itself does not ask handlers again.
/// - A handler that panics, fails, takes longer than the time limit, or answers one event with the
///   action of another decides nothing: what becomes of the event then is said by
///   [`on_failure`](Self::on_failure), and every such failure is reported with the decision. A
///   closure that never ends is left to its own thread.
#[derive(Clone, Default)]
pub struct Hooks {
    chains: Option<Arc<Chains>>,
}

/// The treatment of an event when a handler fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// It is refused, with the failure as the reason.
    #[default]
    Refuse,
    /// The next handler is asked, as if the failed one had passed.
    PassOn,
}

/// There is no handler of this name for the event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no handler {name:?} for {event}")]
pub struct UnknownHandler {
    /// The name.
    pub name: String,
    /// The event.
    pub event: &'static str,
}

/// How long a handler may take by default.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// How long a summary may take by default.
const SUMMARY_LIMIT: Duration = Duration::from_secs(120);

type Chain<E> = Vec<NamedHandler<Run<E>>>;

/// One chain for each event.
#[derive(Clone, Default)]
pub struct Chains {
    limits: TimeLimits,
    on_failure: OnFailure,
    summarizer: Option<Arc<dyn Summarizer>>,
    before_commit: Chain<BeforeCommit>,
    tool_result_received: Chain<ToolResultReceived>,
    before_dispatch: Chain<BeforeDispatch>,
    before_compile: Chain<BeforeCompile>,
    before_compress: Chain<BeforeCompress>,
    before_merge: Chain<BeforeMerge>,
    ref_moved: Chain<RefMoved>,
    any: Vec<NamedHandler<AnyRun>>,
}

/// How long a handler may take, and how long a summary.
#[derive(Clone)]
struct TimeLimits {
    handler: Option<Duration>,
    summary: Option<Duration>,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { handler: Some(TIME_LIMIT), summary: Some(SUMMARY_LIMIT) }
    }
}

/// Says where the chain of an event is. Only the events of this crate have one.
pub trait Stored: Sized {
    fn chain(chains: &Chains) -> &Chain<Self>
    where
        Self: Event;
    fn chain_mut(chains: &mut Chains) -> &mut Chain<Self>
    where
        Self: Event;
}

macro_rules! stored {
    ($event:ident, $field:ident) => {
        impl Stored for $event {
            fn chain(chains: &Chains) -> &Chain<Self> {
                &chains.$field
            }
            fn chain_mut(chains: &mut Chains) -> &mut Chain<Self> {
                &mut chains.$field
            }
        }
    };
}

stored!(BeforeCommit, before_commit);
stored!(ToolResultReceived, tool_result_received);
stored!(BeforeDispatch, before_dispatch);
stored!(BeforeCompile, before_compile);
stored!(BeforeCompress, before_compress);
stored!(BeforeMerge, before_merge);
stored!(RefMoved, ref_moved);

#[derive(Clone)]
pub struct NamedHandler<R> {
    name: Arc<str>,
    run: R,
}

/// A closure that answers at once, or says why it cannot.
type Function<E> = dyn Fn(&E) -> Result<<E as Event>::Action, String> + Send + Sync;

#[derive(Clone)]
pub enum Run<E: Event> {
    Now(Arc<Function<E>>),
    Later(Arc<dyn Handler<E>>),
}

/// A closure for all events that answers at once, or says why it cannot.
type AnyFunction = dyn Fn(AnyEvent<'_>) -> Result<AnyAction, String> + Send + Sync;

#[derive(Clone)]
pub(crate) enum AnyRun {
    Now(Arc<AnyFunction>),
    Later(Arc<dyn AnyHandler>),
}

/// A closure that makes a future of its own copy of the event.
struct AsyncFunction<F>(F);

#[async_trait]
impl<E, F, Fut> Handler<E> for AsyncFunction<F>
where
    E: Event,
    F: Fn(Arc<E>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = E::Action> + Send + 'static,
{
    async fn handle(&self, event: &E) -> E::Action {
        (self.0)(Arc::new(event.clone())).await
    }
}

fn add<R>(chain: &mut Vec<NamedHandler<R>>, name: Arc<str>, run: R) {
    match chain.iter_mut().find(|handler| handler.name == name) {
        Some(handler) => handler.run = run,
        None => chain.push(NamedHandler { name, run }),
    }
}

impl Hooks {
    /// Makes an empty chain, which approves everything.
    pub const fn new() -> Self {
        Self { chains: None }
    }

    fn chains_mut(&mut self) -> &mut Chains {
        Arc::make_mut(self.chains.get_or_insert_default())
    }

    fn with<E: Event>(mut self, name: impl Into<Arc<str>>, run: Run<E>) -> Self {
        add(E::chain_mut(self.chains_mut()), name.into(), run);
        self
    }

    /// Adds a handler for the event that the closure takes.
    #[must_use]
    pub fn on<E: Event>(
        self,
        name: impl Into<Arc<str>>,
        handler: impl Fn(&E) -> E::Action + Send + Sync + 'static,
    ) -> Self {
        self.with(name, Run::Now(Arc::new(move |event| Ok(handler(event)))))
    }

    /// Adds a handler that may fail; a failure is reported with the decision, see
    /// [`on_failure`](Self::on_failure).
    ///
    /// ```
    /// use tract_hooks::{BeforeMerge, Hooks, MergeAction};
    /// let hooks = Hooks::new().on_try("policy", |_: &BeforeMerge| {
    ///     let limit: usize = "three".parse()?;
    ///     Ok::<_, std::num::ParseIntError>(if limit > 1 { MergeAction::Pass } else { MergeAction::Approve })
    /// });
    /// # assert!(hooks.has_handler::<BeforeMerge>());
    /// ```
    #[must_use]
    pub fn on_try<E: Event, X: fmt::Display>(
        self,
        name: impl Into<Arc<str>>,
        handler: impl Fn(&E) -> Result<E::Action, X> + Send + Sync + 'static,
    ) -> Self {
        let run = move |event: &E| handler(event).map_err(|error| error.to_string());
        self.with(name, Run::Now(Arc::new(run)))
    }

    /// Adds a handler that has to wait; it gets its own copy of the event.
    ///
    /// It is polled where the event is asked about, so that a runtime is at hand there. What
    /// blocks belongs into a closure of [`on`](Self::on): waiting can be given up, blocking cannot.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tract_hooks::{BeforeMerge, Hooks, MergeAction};
    /// let hooks = Hooks::new().on_async("ask", |merge: Arc<BeforeMerge>| async move {
    ///     match merge.sources.len() {
    ///         1 => MergeAction::Pass,
    ///         _ => MergeAction::Reject("one at a time".into()),
    ///     }
    /// });
    /// assert!(hooks.has_handler::<BeforeMerge>());
    /// ```
    #[must_use]
    pub fn on_async<E: Event, Fut>(
        self,
        name: impl Into<Arc<str>>,
        handler: impl Fn(Arc<E>) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = E::Action> + Send + 'static,
    {
        self.with(name, Run::Later(Arc::new(AsyncFunction(handler))))
    }

    /// Adds a handler that is a type.
    #[must_use]
    pub fn handler<E: Event>(self, name: impl Into<Arc<str>>, handler: impl Handler<E>) -> Self {
        self.with(name, Run::Later(Arc::new(handler)))
    }

    /// Adds a handler for every event that waits for a decision. It is asked after the handlers for
    /// that event, and may answer all that they may: see [`AnyAction`].
    #[must_use]
    pub fn on_any(
        self,
        name: impl Into<Arc<str>>,
        handler: impl Fn(AnyEvent<'_>) -> AnyAction + Send + Sync + 'static,
    ) -> Self {
        self.with_any(name, AnyRun::Now(Arc::new(move |event| Ok(handler(event)))))
    }

    /// Adds a handler for all events that may fail; a failure is reported with the decision, see
    /// [`on_failure`](Self::on_failure).
    #[must_use]
    pub fn on_any_try<X: fmt::Display>(
        self,
        name: impl Into<Arc<str>>,
        handler: impl Fn(AnyEvent<'_>) -> Result<AnyAction, X> + Send + Sync + 'static,
    ) -> Self {
        let run = move |event: AnyEvent<'_>| handler(event).map_err(|error| error.to_string());
        self.with_any(name, AnyRun::Now(Arc::new(run)))
    }

    /// Adds a handler for all events that is a type, such as one that waits.
    #[must_use]
    pub fn any_handler(self, name: impl Into<Arc<str>>, handler: impl AnyHandler) -> Self {
        self.with_any(name, AnyRun::Later(Arc::new(handler)))
    }

    fn with_any(mut self, name: impl Into<Arc<str>>, run: AnyRun) -> Self {
        add(&mut self.chains_mut().any, name.into(), run);
        self
    }

    /// Removes the handler for all events that has this name, where there is one.
    #[must_use]
    pub fn without_any(mut self, name: &str) -> Self {
        if self.chains.is_some() {
            self.chains_mut().any.retain(|handler| &*handler.name != name);
        }
        self
    }

    /// Removes the handler of an event that has this name, where there is one.
    #[must_use]
    pub fn without<E: Event>(mut self, name: &str) -> Self {
        if self.chains.is_some() {
            E::chain_mut(self.chains_mut()).retain(|handler| &*handler.name != name);
        }
        self
    }

    /// Moves the handler of an event right before another one.
    ///
    /// # Errors
    /// [`UnknownHandler`] when one of them does not hear the event by itself.
    pub fn before<E: Event>(self, name: &str, other: &str) -> Result<Self, UnknownHandler> {
        self.moved::<E>(name, other, 0)
    }

    /// Moves the handler of an event right after another one.
    ///
    /// # Errors
    /// [`UnknownHandler`] when one of them does not hear the event by itself.
    pub fn after<E: Event>(self, name: &str, other: &str) -> Result<Self, UnknownHandler> {
        self.moved::<E>(name, other, 1)
    }

    fn moved<E: Event>(
        mut self,
        name: &str,
        other: &str,
        behind: usize,
    ) -> Result<Self, UnknownHandler> {
        let chain = E::chain_mut(self.chains_mut());
        let place = |chain: &[NamedHandler<Run<E>>], name: &str| {
            let unknown = || UnknownHandler { name: name.to_owned(), event: E::NAME };
            chain.iter().position(|handler| &*handler.name == name).ok_or_else(unknown)
        };
        let from = place(chain, name)?;
        place(chain, other)?;
        let handler = chain.remove(from);
        // Before itself, or after: it stays where it is.
        let to = place(chain, other).map_or(from, |at| at + behind);
        chain.insert(to, handler);
        Ok(self)
    }

    /// Sets how long a handler may take; 30 seconds by default. `None` lets closures run on the
    /// caller's thread, without a limit.
    #[must_use]
    pub fn time_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.chains_mut().limits.handler = limit.into();
        self
    }

    /// Sets what becomes of an event when a handler fails; it is refused by default.
    #[must_use]
    pub fn on_failure(mut self, policy: OnFailure) -> Self {
        self.chains_mut().on_failure = policy;
        self
    }

    /// Sets the port that carries out [`Summarize`](crate::Summarize). It is polled by the caller,
    /// who gives up waiting after a time: what blocks belongs on a thread of its own.
    #[must_use]
    pub fn summarizer(mut self, port: impl Summarizer + 'static) -> Self {
        self.chains_mut().summarizer = Some(Arc::new(port));
        self
    }

    /// Sets how long one summary may take; 120 seconds by default, `None` is for ever.
    #[must_use]
    pub fn summary_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.chains_mut().limits.summary = limit.into();
        self
    }

    /// Returns the port that carries out [`Summarize`](crate::Summarize).
    pub fn summarizer_port(&self) -> Option<&Arc<dyn Summarizer>> {
        self.chains.as_ref()?.summarizer.as_ref()
    }

    /// Returns how long one summary may take.
    pub fn summary_time(&self) -> Option<Duration> {
        self.chains.as_ref().map_or(Some(SUMMARY_LIMIT), |chains| chains.limits.summary)
    }

    /// Returns what becomes of an event when a handler fails.
    pub fn failure_policy(&self) -> OnFailure {
        self.chains.as_ref().map_or(OnFailure::default(), |chains| chains.on_failure)
    }

    /// Returns the names of those who hear an event, in the order in which they are asked.
    pub fn names<E: Event>(&self) -> Vec<Arc<str>> {
        let Some(chains) = &self.chains else { return Vec::new() };
        let specific = E::chain(chains).iter().map(|handler| Arc::clone(&handler.name));
        let any = chains.any.iter().filter(|_| E::HEARD_BY_ANY).map(|h| Arc::clone(&h.name));
        specific.chain(any).collect()
    }

    /// Returns whether a handler listens to an event; when not, it need not be made.
    pub fn has_handler<E: Event>(&self) -> bool {
        self.chains.as_ref().is_some_and(|chains| {
            !E::chain(chains).is_empty() || (E::HEARD_BY_ANY && !chains.any.is_empty())
        })
    }

    /// Asks the handlers of an event.
    ///
    /// # Complexity
    /// Some nanoseconds when no handler listens to the event.
    pub async fn decide<E: Event>(&self, event: &E) -> Decision<E::Action> {
        let Some(chains) = self.chains.as_ref().filter(|_| !nested::is_nested()) else {
            return Decision::new(E::NAME, E::Action::pass(), None, Vec::new());
        };
        let (limit, mut own) = (chains.limits.handler, None);
        let mut failures = Vec::new();
        for handler in E::chain(chains) {
            let answer = match &handler.run {
                Run::Now(run) => match limit {
                    None => in_place(|| run(event)),
                    Some(limit) => {
                        let run = Arc::clone(run);
                        let event = Arc::clone(own.get_or_insert_with(|| Arc::new(event.clone())));
                        run_separately(limit, move || run(&event)).await
                    }
                },
                Run::Later(run) => waited(limit, run.handle(event)).await,
            };
            if let Some(decision) = chains.decided::<E>(&handler.name, answer, &mut failures) {
                return decision;
            }
        }
        for handler in &chains.any {
            let Some(any) = event.as_any() else { break };
            let answer = match &handler.run {
                AnyRun::Now(run) => match limit {
                    None => in_place(|| run(any)),
                    Some(limit) => {
                        let run = Arc::clone(run);
                        let event = Arc::clone(own.get_or_insert_with(|| Arc::new(event.clone())));
                        let ask =
                            move || event.as_any().map_or(Ok(AnyAction::Pass), |any| run(any));
                        run_separately(limit, ask).await
                    }
                },
                AnyRun::Later(run) => waited(limit, run.handle(any)).await,
            };
            let answer = answer.and_then(|any| {
                E::Action::from_any(any)
                    .map_err(|foreign| HandlerFailureKind::Invalid(foreign.to_string()))
            });
            if let Some(decision) = chains.decided::<E>(&handler.name, answer, &mut failures) {
                return decision;
            }
        }
        Decision::new(E::NAME, E::Action::pass(), None, failures)
    }

    /// Asks about a message that is about to be committed.
    pub async fn before_commit(&self, event: &BeforeCommit) -> Decision<CommitAction> {
        self.decide(event).await
    }

    /// Asks about a tool's result that is about to be committed.
    pub async fn tool_result_received(
        &self,
        event: &ToolResultReceived,
    ) -> Decision<ToolResultAction> {
        self.decide(event).await
    }

    /// Asks about a tool that is about to run.
    pub async fn before_dispatch(&self, event: &BeforeDispatch) -> Decision<DispatchAction> {
        self.decide(event).await
    }

    /// Asks about a context that is about to be compiled.
    pub async fn before_compile(&self, event: &BeforeCompile) -> Decision<CompileAction> {
        self.decide(event).await
    }

    /// Asks about a summary that is about to take the place of messages.
    pub async fn before_compress(&self, event: &BeforeCompress) -> Decision<CompressAction> {
        self.decide(event).await
    }

    /// Asks about a merge.
    pub async fn before_merge(&self, event: &BeforeMerge) -> Decision<MergeAction> {
        self.decide(event).await
    }

    /// Notifies all listeners that a ref has moved.
    pub async fn ref_moved(&self, event: &RefMoved) {
        // The answer can only be that it was heard.
        let _heard = self.decide(event).await;
    }
}

impl Chains {
    /// Returns the decision that a handler's answer, or its failure, makes; `None` when the next
    /// handler is asked.
    fn decided<E: Event>(
        &self,
        handler: &Arc<str>,
        answer: Result<E::Action, HandlerFailureKind>,
        failures: &mut Vec<HandlerFailure>,
    ) -> Option<Decision<E::Action>> {
        let action = match answer {
            Ok(action) if action.kind() == ActionKind::Pass => return None,
            Ok(action) => action,
            Err(kind) => {
                let failure = HandlerFailure { handler: handler.to_string(), kind };
                let reason = failure.to_string();
                failures.push(failure);
                if self.on_failure == OnFailure::PassOn {
                    return None;
                }
                E::Action::refuse(reason)
            }
        };
        Some(Decision::new(E::NAME, action, Some(handler), std::mem::take(failures)))
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entry(&BeforeCommit::NAME, &self.names::<BeforeCommit>())
            .entry(&ToolResultReceived::NAME, &self.names::<ToolResultReceived>())
            .entry(&BeforeDispatch::NAME, &self.names::<BeforeDispatch>())
            .entry(&BeforeCompile::NAME, &self.names::<BeforeCompile>())
            .entry(&BeforeCompress::NAME, &self.names::<BeforeCompress>())
            .entry(&BeforeMerge::NAME, &self.names::<BeforeMerge>())
            .entry(&RefMoved::NAME, &self.names::<RefMoved>())
            .finish()
    }
}
