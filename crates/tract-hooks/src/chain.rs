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

/// A handler as a type: for handlers that await, or that keep state.
#[async_trait]
pub trait Handler<E: Event>: Send + Sync + 'static {
    /// Returns the answer to the event.
    async fn handle(&self, event: &E) -> E::Action;
}

/// A catch-all handler as a type: for handlers that await, or that keep state.
#[async_trait]
pub trait AnyHandler: Send + Sync + 'static {
    /// Returns the answer to the event.
    async fn handle(&self, event: AnyEvent<'_>) -> AnyAction;
}

/// Named handlers, in order. Cheap to clone; changing a clone does not change the original.
///
/// # Behavior
/// - Handlers of the event are called in the order in which they were added, then catch-all
///   handlers in theirs.
/// - The first answer that is not a pass decides. Later handlers are not called.
/// - If no handler decides, the event is approved.
/// - Names are unique for each event: a handler added under an existing name replaces that handler,
///   at its position in the order.
/// - Operations that a handler performs itself do not call handlers.
/// - A handler fails if it panics, returns an error, exceeds the time limit, or answers with the
///   action of another event. [`on_failure`](Self::on_failure) determines whether the event is then
///   refused. Every failure is reported with the decision. A closure that never returns keeps its
///   worker thread.
#[derive(Clone, Default)]
pub struct Hooks {
    chains: Option<Arc<Chains>>,
}

/// The treatment of an event if a handler fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The event is refused, with the failure as the reason.
    #[default]
    Refuse,
    /// The next handler is called, as if the failed one had passed.
    PassOn,
}

/// Error of naming a handler that the event lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no handler {name:?} for {event}")]
pub struct UnknownHandler {
    /// The name.
    pub name: String,
    /// The event.
    pub event: &'static str,
}

/// Default time limit of a handler.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Default time limit of a summary.
const SUMMARY_LIMIT: Duration = Duration::from_secs(120);

type Chain<E> = Vec<NamedHandler<Run<E>>>;

/// The chains of all events, and their settings.
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

/// Time limits of handlers and of summaries. `None` is unlimited.
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

/// Maps an event to its chain. Only the events of this crate have one.
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

/// A closure that answers immediately, or returns an error message.
type Function<E> = dyn Fn(&E) -> Result<<E as Event>::Action, String> + Send + Sync;

#[derive(Clone)]
pub enum Run<E: Event> {
    Now(Arc<Function<E>>),
    Later(Arc<dyn Handler<E>>),
}

/// A catch-all closure that answers immediately, or returns an error message.
type AnyFunction = dyn Fn(AnyEvent<'_>) -> Result<AnyAction, String> + Send + Sync;

#[derive(Clone)]
pub(crate) enum AnyRun {
    Now(Arc<AnyFunction>),
    Later(Arc<dyn AnyHandler>),
}

/// A closure that returns a future, which owns a copy of the event.
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
    /// Creates an empty chain, which approves everything.
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

    /// Adds a handler of the event that the closure accepts.
    #[must_use]
    pub fn on<E: Event>(
        self,
        name: impl Into<Arc<str>>,
        handler: impl Fn(&E) -> E::Action + Send + Sync + 'static,
    ) -> Self {
        self.with(name, Run::Now(Arc::new(move |event| Ok(handler(event)))))
    }

    /// Adds a handler that may fail. A failure is reported with the decision, see
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

    /// Adds an async handler. It gets its own copy of the event.
    ///
    /// It is polled by the task that awaits the decision, so it can use the runtime of that task.
    /// Code that blocks belongs in a closure of [`on`](Self::on): the time limit can drop a future,
    /// but it cannot interrupt a blocked thread.
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

    /// Adds a handler that implements [`Handler`].
    #[must_use]
    pub fn handler<E: Event>(self, name: impl Into<Arc<str>>, handler: impl Handler<E>) -> Self {
        self.with(name, Run::Later(Arc::new(handler)))
    }

    /// Adds a catch-all handler, for every event that can be decided. It is called after the
    /// handlers of that event, and can give all of their answers: see [`AnyAction`].
    #[must_use]
    pub fn on_any(
        self,
        name: impl Into<Arc<str>>,
        handler: impl Fn(AnyEvent<'_>) -> AnyAction + Send + Sync + 'static,
    ) -> Self {
        self.with_any(name, AnyRun::Now(Arc::new(move |event| Ok(handler(event)))))
    }

    /// Adds a catch-all handler that may fail. A failure is reported with the decision, see
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

    /// Adds a catch-all handler that implements [`AnyHandler`], for example an async one.
    #[must_use]
    pub fn any_handler(self, name: impl Into<Arc<str>>, handler: impl AnyHandler) -> Self {
        self.with_any(name, AnyRun::Later(Arc::new(handler)))
    }

    fn with_any(mut self, name: impl Into<Arc<str>>, run: AnyRun) -> Self {
        add(&mut self.chains_mut().any, name.into(), run);
        self
    }

    /// Removes the catch-all handler with this name, if it exists.
    #[must_use]
    pub fn without_any(mut self, name: &str) -> Self {
        if self.chains.is_some() {
            self.chains_mut().any.retain(|handler| &*handler.name != name);
        }
        self
    }

    /// Removes the handler of an event with this name, if it exists.
    #[must_use]
    pub fn without<E: Event>(mut self, name: &str) -> Self {
        if self.chains.is_some() {
            E::chain_mut(self.chains_mut()).retain(|handler| &*handler.name != name);
        }
        self
    }

    /// Moves the handler of an event directly before another one.
    ///
    /// # Errors
    /// [`UnknownHandler`] if the event lacks a handler of either name. Catch-all handlers do not
    /// count.
    pub fn before<E: Event>(self, name: &str, other: &str) -> Result<Self, UnknownHandler> {
        self.moved::<E>(name, other, 0)
    }

    /// Moves the handler of an event directly after another one.
    ///
    /// # Errors
    /// [`UnknownHandler`] if the event lacks a handler of either name. Catch-all handlers do not
    /// count.
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
        // `other` is missing only if it is `name` itself; the handler then keeps its position.
        let to = place(chain, other).map_or(from, |at| at + behind);
        chain.insert(to, handler);
        Ok(self)
    }

    /// Sets the time limit of a handler; 30 seconds by default. With `None` closures run on the
    /// caller's thread, without a limit.
    #[must_use]
    pub fn time_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.chains_mut().limits.handler = limit.into();
        self
    }

    /// Sets the treatment of an event if a handler fails; it is refused by default.
    #[must_use]
    pub fn on_failure(mut self, policy: OnFailure) -> Self {
        self.chains_mut().on_failure = policy;
        self
    }

    /// Sets the port that carries out [`Summarize`](crate::Summarize). It is polled by the caller,
    /// who stops waiting after [`summary_limit`](Self::summary_limit). An implementation that
    /// blocks must use a thread of its own.
    #[must_use]
    pub fn summarizer(mut self, port: impl Summarizer + 'static) -> Self {
        self.chains_mut().summarizer = Some(Arc::new(port));
        self
    }

    /// Sets the time limit of one summary; 120 seconds by default. `None` is unlimited.
    #[must_use]
    pub fn summary_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.chains_mut().limits.summary = limit.into();
        self
    }

    /// Returns the port that carries out [`Summarize`](crate::Summarize).
    pub fn summarizer_port(&self) -> Option<&Arc<dyn Summarizer>> {
        self.chains.as_ref()?.summarizer.as_ref()
    }

    /// Returns the time limit of one summary; `None` is unlimited.
    pub fn summary_time(&self) -> Option<Duration> {
        self.chains.as_ref().map_or(Some(SUMMARY_LIMIT), |chains| chains.limits.summary)
    }

    /// Returns the treatment of an event if a handler fails.
    pub fn failure_policy(&self) -> OnFailure {
        self.chains.as_ref().map_or(OnFailure::default(), |chains| chains.on_failure)
    }

    /// Returns the names of the handlers that receive an event, in the order in which they are
    /// called.
    pub fn names<E: Event>(&self) -> Vec<Arc<str>> {
        let Some(chains) = &self.chains else { return Vec::new() };
        let specific = E::chain(chains).iter().map(|handler| Arc::clone(&handler.name));
        let any = chains.any.iter().filter(|_| E::HEARD_BY_ANY).map(|h| Arc::clone(&h.name));
        specific.chain(any).collect()
    }

    /// Returns whether any handler receives an event. If not, callers need not build it.
    pub fn has_handler<E: Event>(&self) -> bool {
        self.chains.as_ref().is_some_and(|chains| {
            !E::chain(chains).is_empty() || (E::HEARD_BY_ANY && !chains.any.is_empty())
        })
    }

    /// Calls the handlers of an event and returns the decision.
    ///
    /// # Complexity
    /// A few nanoseconds if no handler receives the event.
    pub async fn decide<E: Event>(&self, event: &E) -> Decision<E::Action> {
        // A handler's own operations do not call handlers: one that commits on commit would never
        // end.
        let Some(chains) = self.chains.as_ref().filter(|_| !nested::is_nested()) else {
            return Decision::new(E::NAME, E::Action::pass(), None, Vec::new());
        };
        // A closure that runs on a worker may outlive this call after a timeout, so it gets a
        // shared copy of the event. The copy is made at most once, and only if a closure needs it.
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

    /// Decides on a message that is about to be committed.
    pub async fn before_commit(&self, event: &BeforeCommit) -> Decision<CommitAction> {
        self.decide(event).await
    }

    /// Decides on a tool result that is about to be committed.
    pub async fn tool_result_received(
        &self,
        event: &ToolResultReceived,
    ) -> Decision<ToolResultAction> {
        self.decide(event).await
    }

    /// Decides on a tool that is about to run.
    pub async fn before_dispatch(&self, event: &BeforeDispatch) -> Decision<DispatchAction> {
        self.decide(event).await
    }

    /// Decides on a context that is about to be compiled.
    pub async fn before_compile(&self, event: &BeforeCompile) -> Decision<CompileAction> {
        self.decide(event).await
    }

    /// Decides on a summary that is about to replace messages.
    pub async fn before_compress(&self, event: &BeforeCompress) -> Decision<CompressAction> {
        self.decide(event).await
    }

    /// Decides on a merge.
    pub async fn before_merge(&self, event: &BeforeMerge) -> Decision<MergeAction> {
        self.decide(event).await
    }

    /// Notifies all handlers that a ref has moved.
    pub async fn ref_moved(&self, event: &RefMoved) {
        // The only possible answer is an acknowledgement.
        let _heard = self.decide(event).await;
    }
}

impl Chains {
    /// Returns the decision made by a handler's answer or failure; `None` if the next handler is
    /// called.
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
