//! Runs cases of the contract.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use tract_core::store::Capabilities;
use tract_core::{RepoName, Store, StoreResult, block_on, panic_text};

use crate::data::{self, RecordedConversation};

/// An optional capability of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Acknowledged writes survive a crash.
    Durable,
    /// Writes survive closing and reopening the store.
    Persistent,
    /// Several processes can use it at the same time.
    MultiProcess,
    /// It can list and delete objects.
    CollectsGarbage,
    /// It can erase blobs permanently.
    Erases,
    /// It can rewrite blobs smaller.
    Repacks,
    /// It can replace damaged and missing objects.
    Restores,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 7] = [
        Self::Durable,
        Self::Persistent,
        Self::MultiProcess,
        Self::CollectsGarbage,
        Self::Erases,
        Self::Repacks,
        Self::Restores,
    ];

    /// Returns whether a store claims it.
    pub fn is_claimed(self, claims: Capabilities) -> bool {
        match self {
            Self::Durable => claims.durable,
            Self::Persistent => claims.persistent,
            Self::MultiProcess => claims.multi_process,
            Self::CollectsGarbage => claims.collects_garbage,
            Self::Erases => claims.erases,
            Self::Repacks => claims.repacks,
            Self::Restores => claims.restores,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

type Opener = dyn Fn(&Path) -> StoreResult<Arc<dyn Store>> + Send + Sync;
type Recordings = dyn Fn() -> Vec<RecordedConversation> + Send + Sync;

/// A store under test: a function that opens it, and the capabilities that it lacks.
#[derive(Clone)]
pub struct Suite {
    open: Arc<Opener>,
    lacks: Vec<Capability>,
    /// The parent of the folders of cases, to test another disk. Default: the temporary folder of
    /// the system.
    pub within: Option<PathBuf>,
    conversations: Arc<Recordings>,
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite").field("lacks", &self.lacks).finish_non_exhaustive()
    }
}

impl Suite {
    /// Makes a suite from a function that opens or reopens a store in a folder.
    pub fn new<S: Store>(open: impl Fn(&Path) -> StoreResult<S> + Send + Sync + 'static) -> Self {
        let open = move |dir: &Path| Ok(Arc::new(open(dir)?) as Arc<dyn Store>);
        let conversations = Arc::new(data::conversations);
        Self { open: Arc::new(open), lacks: Vec::new(), within: None, conversations }
    }

    /// Sets the capabilities that the store lacks.
    #[must_use]
    pub fn lacks(mut self, lacks: impl IntoIterator<Item = Capability>) -> Self {
        self.lacks.extend(lacks);
        self
    }

    /// Sets the conversations for the case that stores real ones. Default: those in this crate.
    #[must_use]
    pub fn conversations(
        mut self,
        conversations: impl Fn() -> Vec<RecordedConversation> + Send + Sync + 'static,
    ) -> Self {
        self.conversations = Arc::new(conversations);
        self
    }

    /// Returns the capabilities that a new store claims.
    ///
    /// # Errors
    /// If no store can be opened.
    pub fn claims(&self) -> StoreResult<Capabilities> {
        Ok(Harness::new(self)?.open()?.capabilities())
    }
}

/// A new folder for one case, with a function that opens a store in it.
#[derive(Clone, Debug)]
pub struct Harness {
    dir: Arc<tempfile::TempDir>,
    suite: Suite,
}

impl Harness {
    fn new(suite: &Suite) -> StoreResult<Self> {
        let dir = match &suite.within {
            Some(folder) => tempfile::tempdir_in(folder)?,
            None => tempfile::tempdir()?,
        };
        Ok(Self { dir: Arc::new(dir), suite: suite.clone() })
    }

    /// Opens or reopens the store.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn open(&self) -> StoreResult<Arc<dyn Store>> {
        (self.suite.open)(self.dir.path())
    }

    /// Copies the folder to a new one while stores in it are open, which is the state after the
    /// process is killed at this moment. A store on a server keeps its data elsewhere.
    ///
    /// # Errors
    /// If a file cannot be copied.
    pub fn as_killed(&self) -> StoreResult<Self> {
        let copied = Self::new(&self.suite)?;
        data::copy(self.dir.path(), copied.dir.path())?;
        Ok(copied)
    }

    /// Returns the folder.
    pub fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Returns the capabilities that the store lacks.
    pub fn missing_capabilities(&self) -> &[Capability] {
        &self.suite.lacks
    }

    /// Returns the real conversations that a case stores.
    pub fn conversations(&self) -> Vec<RecordedConversation> {
        (self.suite.conversations)()
    }

    /// Returns the repository that most cases use.
    pub fn repo(&self) -> RepoName {
        RepoName::default()
    }
}

/// A new store, and the repository in it that most cases use.
pub(crate) type Repo = (Arc<dyn Store>, RepoName);

/// The input of a case: an open store, or the harness that opens it as often as needed.
pub(crate) trait CaseInput: Sized {
    fn of(harness: &Harness) -> StoreResult<Self>;
}

impl CaseInput for Repo {
    fn of(harness: &Harness) -> StoreResult<Self> {
        Ok((harness.open()?, harness.repo()))
    }
}

impl CaseInput for Harness {
    fn of(harness: &Harness) -> StoreResult<Self> {
        Ok(harness.clone())
    }
}

/// The future of a case.
pub type Running = Pin<Box<dyn Future<Output = StoreResult<()>>>>;

/// A case of the contract: one promise.
#[derive(Clone, Copy)]
pub struct ContractCase {
    /// The unique name.
    pub name: &'static str,
    /// The promise, in the words of the trait.
    pub promise: &'static str,
    /// The capability that the promise requires.
    pub needs: Option<Capability>,
    /// Tests the promise: an error or a panic is a broken promise.
    pub test: fn(Harness) -> Running,
}

impl fmt::Debug for ContractCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({}: {})", self.name, self.promise)
    }
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The promise was kept.
    Kept,
    /// The promise was broken, and how.
    Broken(String),
    /// The store does not claim the capability.
    Lacks(Capability),
}

impl ContractCase {
    /// Runs the case on a new store.
    pub fn run(&self, suite: &Suite) -> Outcome {
        if let Some(needs) = self.needs
            && suite.lacks.contains(&needs)
        {
            return Outcome::Lacks(needs);
        }
        let run = || block_on((self.test)(Harness::new(suite)?));
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => Outcome::Kept,
            Ok(Err(error)) => Outcome::Broken(error.to_string()),
            Err(panic) => Outcome::Broken(panic_text(&*panic).unwrap_or("it panicked").to_owned()),
        }
    }
}

/// Runs a case by name, for [`store_suite!`](crate::store_suite).
///
/// # Panics
/// If the promise is broken.
pub fn assert_contract(name: &str, suite: &Suite) {
    let case = crate::cases().iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name:?}"));
    match case.run(suite) {
        Outcome::Kept => {}
        // Without the capability there is nothing to keep: `Suite::lacks` lists these cases.
        Outcome::Lacks(_) => {}
        Outcome::Broken(how) => panic!("{}: {how}", case.promise),
    }
}

/// Makes a `#[test]` of each case of the contract, in a module of this name.
///
/// `open` gets the path of a folder, and opens or reopens the store there. `lacks` lists the
/// capabilities that the store does not claim; a case checks that it claims all others.
/// `conversations` replaces the conversations that a case stores, as [`Suite::conversations`] does.
///
/// ```
/// tract_testkit::store_suite!(memory, open = |_dir: &std::path::Path| Ok(tract_kv::memory()),
///     lacks = [Durable, Persistent, MultiProcess]);
/// ```
#[macro_export]
macro_rules! store_suite {
    ($name:ident, open = $open:expr $(, lacks = [$($lack:ident),* $(,)?])?
        $(, conversations = $conversations:expr)? $(,)?) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn suite() -> $crate::Suite {
                $crate::Suite::new($open).lacks([$($($crate::Capability::$lack),*)?])
                    $(.conversations($conversations))?
            }

            $crate::__contract! { [$crate::__tests] }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($($module:ident { $($name:ident $([$needs:ident])? $promise:literal)* })*) => {
        $($(
            #[test]
            fn $name() {
                $crate::assert_contract(stringify!($name), &suite());
            }
        )*)*
    };
}
