//! A store whose calls are passed to a watcher, which may answer in its place.

mod call;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tract_core::store::Capabilities;
use tract_core::{Store, StoreResult};

pub use self::call::{Answer, Call};

/// Answers the calls of a [`WatchedStore`].
///
/// A closure that takes a [`Call`] is a watcher: it receives every call before the store, and an
/// error that it returns is the answer. Implement the trait to change more, such as the answer of
/// the store.
#[async_trait]
pub trait Watch: Send + Sync + 'static {
    /// Answers a call, usually with the answer of the store: [`Call::ask`].
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer>;

    /// Returns the capabilities that the store claims. Default: those of the store.
    fn capabilities(&self, store: &dyn Store) -> Capabilities {
        store.capabilities()
    }
}

#[async_trait]
impl<F> Watch for F
where
    F: Fn(Call<'_>) -> StoreResult<()> + Send + Sync + 'static,
{
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        self(call)?;
        call.ask(store).await
    }
}

/// A store that passes every call to a watcher, which can count calls, reject them, answer wrongly,
/// or end the process.
///
/// # Behavior
/// - `tools_of` and `tool_ids_of` arrive as the calls that they consist of.
/// - `backend` is forwarded to the store without the watcher.
///
/// # Examples
/// A disk that is full:
///
/// ```
/// use std::sync::Arc;
/// use tract_core::store::{RefRepository, StoreError, StoreErrorKind};
/// use tract_core::{RepoName, Store, block_on};
/// use tract_kv::memory;
/// use tract_testkit::fixtures::batch;
/// use tract_testkit::{Call, WatchedStore};
///
/// let full = WatchedStore::new(Arc::new(memory()), |call: Call<'_>| match call {
///     Call::Apply { .. } => {
///         Err(StoreError::new(StoreErrorKind::Engine, "full", "apply", "no space left"))
///     }
///     _ => Ok(()),
/// });
/// let repo = RepoName::default();
/// assert!(block_on(full.apply(&repo, batch("greet"))).is_err());
/// assert!(block_on(full.list_refs(&repo, ""))?.is_empty());
/// # Ok::<(), StoreError>(())
/// ```
///
/// A store whose listing of repositories is empty:
///
/// ```
/// use async_trait::async_trait;
/// use std::sync::Arc;
/// use tract_core::{Store, StoreError, StoreResult, block_on};
/// use tract_kv::memory;
/// use tract_testkit::{Answer, Call, Watch, WatchedStore};
///
/// struct Secretive;
///
/// #[async_trait]
/// impl Watch for Secretive {
///     async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
///         let mut answer = call.ask(store).await?;
///         if let Answer::Repos(repos) = &mut answer {
///             repos.clear();
///         }
///         Ok(answer)
///     }
/// }
///
/// let store = WatchedStore::new(Arc::new(memory()), Secretive);
/// assert!(block_on(store.repos())?.is_empty());
/// # Ok::<(), StoreError>(())
/// ```
pub struct WatchedStore<W> {
    store: Arc<dyn Store>,
    watch: W,
}

impl<W: Watch> WatchedStore<W> {
    /// Makes a store whose calls are passed to a watcher.
    pub fn new(store: Arc<dyn Store>, watch: W) -> Self {
        Self { store, watch }
    }

    /// Returns the watcher.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    async fn call<T>(&self, call: Call<'_>) -> StoreResult<T>
    where
        T: TryFrom<Answer, Error = tract_core::StoreError>,
    {
        self.watch.answer(&*self.store, call).await?.try_into()
    }
}

impl<W> fmt::Debug for WatchedStore<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("store", &self.store).finish_non_exhaustive()
    }
}
