//! The chain: named handlers in order; the first that does not pass decides.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;

use crate::action::{Action, AnyAction, Verdict};
use crate::decision::Decision;
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

/// Named handlers, in order. Cheap to clone; a clone that is changed leaves the other alone.
///
/// # Behavior
/// - Handlers for the event are asked in the order in which they were added, then those for all
///   events in theirs.
/// - The first that does not pass decides, and the others are not asked.
/// - When nobody decides, the event is approved.
/// - A name stands once for each event: adding another handler under it puts that one in the
///   place of the first.
/// - What a handler does itself does not ask handlers again.
#[derive(Clone, Default)]
pub struct Hooks {
    chains: Option<Arc<stored::Chains>>,
}

pub(crate) mod stored {
    use super::{AnyHandler, Event, Named, Run};
    use crate::event::{
        BeforeCommit, BeforeCompile, BeforeCompress, BeforeDispatch, BeforeMerge, RefMoved,
        ToolResultReceived,
    };

    pub(crate) type Chain<E> = Vec<Named<Run<E>>>;

    /// One chain for each event.
    #[derive(Clone, Default)]
    pub struct Chains {
        pub(crate) before_commit: Chain<BeforeCommit>,
        pub(crate) tool_result_received: Chain<ToolResultReceived>,
        pub(crate) before_dispatch: Chain<BeforeDispatch>,
        pub(crate) before_compile: Chain<BeforeCompile>,
        pub(crate) before_compress: Chain<BeforeCompress>,
        pub(crate) before_merge: Chain<BeforeMerge>,
        pub(crate) ref_moved: Chain<RefMoved>,
        pub(crate) any: Vec<Named<AnyHandler>>,
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
}

#[derive(Clone)]
pub struct Named<R> {
    name: Arc<str>,
    run: R,
}

/// A closure that answers at once.
type Function<E> = dyn Fn(&E) -> <E as Event>::Action + Send + Sync;

pub enum Run<E: Event> {
    Now(Arc<Function<E>>),
    Later(Arc<dyn Handler<E>>),
}

// Derived, it would want the event to be `Clone` for the sake of two `Arc`s.
impl<E: Event> Clone for Run<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Now(run) => Self::Now(Arc::clone(run)),
            Self::Later(run) => Self::Later(Arc::clone(run)),
        }
    }
}

type AnyHandler = Arc<dyn Fn(AnyEvent<'_>) -> AnyAction + Send + Sync>;

/// A closure that makes a future of its own copy of the event.
struct Waits<F>(F);

#[async_trait]
impl<E, F, Fut> Handler<E> for Waits<F>
where
    E: Event,
    F: Fn(Arc<E>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = E::Action> + Send + 'static,
{
    async fn handle(&self, event: &E) -> E::Action {
        (self.0)(Arc::new(event.clone())).await
    }
}

fn add<R>(chain: &mut Vec<Named<R>>, name: Arc<str>, run: R) {
    match chain.iter_mut().find(|handler| handler.name == name) {
        Some(handler) => handler.run = run,
        None => chain.push(Named { name, run }),
    }
}

impl Hooks {
    /// Makes an empty chain, which approves everything.
    pub const fn new() -> Self {
        Self { chains: None }
    }

    fn chains_mut(&mut self) -> &mut stored::Chains {
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
        self.with(name, Run::Now(Arc::new(handler)))
    }

    /// Adds a handler that has to wait; it gets its own copy of the event.
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
    /// assert!(hooks.hears::<BeforeMerge>());
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
        self.with(name, Run::Later(Arc::new(Waits(handler))))
    }

    /// Adds a handler that is a type.
    #[must_use]
    pub fn handler<E: Event>(self, name: impl Into<Arc<str>>, handler: impl Handler<E>) -> Self {
        self.with(name, Run::Later(Arc::new(handler)))
    }

    /// Adds a handler that hears every event which waits for a decision, after the handlers for
    /// that event.
    #[must_use]
    pub fn on_any(
        mut self,
        name: impl Into<Arc<str>>,
        handler: impl Fn(AnyEvent<'_>) -> AnyAction + Send + Sync + 'static,
    ) -> Self {
        add(&mut self.chains_mut().any, name.into(), Arc::new(handler));
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

    /// Returns the names of those who hear an event, in the order in which they are asked.
    pub fn names<E: Event>(&self) -> Vec<Arc<str>> {
        let Some(chains) = &self.chains else { return Vec::new() };
        let specific = E::chain(chains).iter().map(|handler| Arc::clone(&handler.name));
        let any = chains.any.iter().filter(|_| E::HEARD_BY_ANY).map(|h| Arc::clone(&h.name));
        specific.chain(any).collect()
    }

    /// Returns whether anybody hears an event; when not, it need not be made.
    pub fn hears<E: Event>(&self) -> bool {
        self.chains.as_ref().is_some_and(|chains| {
            !E::chain(chains).is_empty() || (E::HEARD_BY_ANY && !chains.any.is_empty())
        })
    }

    /// Asks the handlers of an event.
    ///
    /// # Complexity
    /// Some nanoseconds when nobody hears the event.
    pub async fn decide<E: Event>(&self, event: &E) -> Decision<E::Action> {
        let Some(chains) = self.chains.as_ref().filter(|_| !nested::is_nested()) else {
            return Decision::nobody(E::NAME);
        };
        for handler in E::chain(chains) {
            let action = match &handler.run {
                Run::Now(run) => nested::run(|| run(event)),
                Run::Later(run) => nested::wait(run.handle(event)).await,
            };
            if action.verdict() != Verdict::Pass {
                return Decision::new(E::NAME, action, &handler.name);
            }
        }
        for handler in &chains.any {
            let Some(any) = event.as_any() else { break };
            let action = nested::run(|| (handler.run)(any));
            if action != AnyAction::Pass {
                return Decision::new(E::NAME, E::Action::from_any(action), &handler.name);
            }
        }
        Decision::nobody(E::NAME)
    }

    /// Asks about a message that is about to be committed.
    pub async fn before_commit(
        &self,
        event: &BeforeCommit,
    ) -> Decision<<BeforeCommit as Event>::Action> {
        self.decide(event).await
    }

    /// Asks about a tool's result that is about to be committed.
    pub async fn tool_result_received(
        &self,
        event: &ToolResultReceived,
    ) -> Decision<<ToolResultReceived as Event>::Action> {
        self.decide(event).await
    }

    /// Asks about a tool that is about to run.
    pub async fn before_dispatch(
        &self,
        event: &BeforeDispatch,
    ) -> Decision<<BeforeDispatch as Event>::Action> {
        self.decide(event).await
    }

    /// Asks about a context that is about to be compiled.
    pub async fn before_compile(
        &self,
        event: &BeforeCompile,
    ) -> Decision<<BeforeCompile as Event>::Action> {
        self.decide(event).await
    }

    /// Asks about a summary that is about to take the place of messages.
    pub async fn before_compress(
        &self,
        event: &BeforeCompress,
    ) -> Decision<<BeforeCompress as Event>::Action> {
        self.decide(event).await
    }

    /// Asks about a merge.
    pub async fn before_merge(
        &self,
        event: &BeforeMerge,
    ) -> Decision<<BeforeMerge as Event>::Action> {
        self.decide(event).await
    }

    /// Tells all who listen that a ref has moved.
    pub async fn ref_moved(&self, event: &RefMoved) {
        // The answer can only be that it was heard.
        let _heard = self.decide(event).await;
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
