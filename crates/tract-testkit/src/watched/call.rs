//! Calls of a store and their answers, as values.

use async_trait::async_trait;
use bytes::Bytes;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectCopies,
    ObjectListing, ObjectPage, ObjectRepository, RefRepository, RepackPage, RepackStep,
    SpaceRelease, StoreStats, Sweep, SweepAnswer, ToolRepository, Walk, WalkPage, WipeReport,
    WritePosition,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, Store, StoreError, StoreErrorKind, StoreResult, ToolDefinition, ToolId,
    Toolset, ToolsetId,
};

use super::{Watch, WatchedStore};

/// Lists each method of the traits once, and makes from it the call, the forwarding to a store, and
/// the method of [`WatchedStore`]. Parameters by value are marked by `=`. Methods that borrow their
/// parameters, and those that are not calls, are written by hand.
macro_rules! calls {
    (
        lending { $($other:ident $asked:ident($($own_name:ident: &$own_type:ty),*) $given:tt;)* }
        $($repository:ident [$($own:tt)*] {
            $($call:ident $method:ident($($name:ident: $(&$lent:ty)? $(=$value:ty)?),*) -> $answer:ty;)*
        })*
    ) => {
        /// A call of a store: a method of its traits, with its arguments.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "they are the methods and parameters of the traits")]
        pub enum Call<'a> {
            $($($call { $($name: $(&'a $lent)? $($value)?),* },)*)*
            $($other { $($own_name: &'a $own_type),* },)*
        }

        impl Call<'_> {
            /// Returns the name of the method.
            pub fn name(self) -> &'static str {
                match self {
                    $($(Self::$call { .. } => stringify!($method),)*)*
                    $(Self::$other { .. } => stringify!($asked),)*
                }
            }

            /// Forwards the call to a store.
            ///
            /// # Errors
            /// Errors of the method.
            pub async fn ask(self, store: &dyn Store) -> StoreResult<Answer> {
                match self {
                    $($(Self::$call { $($name),* } => {
                        store.$method($($name),*).await.map(Answer::from)
                    })*)*
                    $(Self::$other { $($own_name),* } => {
                        store.$asked $given.await.map(Answer::from)
                    })*
                }
            }
        }

        $(
            #[async_trait]
            impl<W: Watch> $repository for WatchedStore<W> {
                $($own)*

                $(async fn $method(
                    &self,
                    $($name: $(&$lent)? $($value)?),*
                ) -> StoreResult<$answer> {
                    self.call(Call::$call { $($name),* }).await
                })*
            }
        )*
    };
}

calls! {
    lending {
        Apply apply(repo: &RepoName, batch: &Batch) (repo, batch.clone());
        Sweep sweep(repo: &RepoName, sweep: &Sweep) (repo, sweep.clone());
        Restore restore(repo: &RepoName, copies: &ObjectCopies) (repo, copies.clone());
    }
    ObjectRepository [] {
        Blobs blobs(repo: &RepoName, keys: &[BlobKey]) -> Vec<Option<Blob>>;
        Toolsets toolsets(repo: &RepoName, ids: &[ToolsetId]) -> Vec<Option<Toolset>>;
        ResolvePrefix resolve_prefix(repo: &RepoName, prefix: &IdPrefix, limit: =usize)
            -> Vec<ObjectId>;
    }
    CommitRepository [] {
        Commits commits(repo: &RepoName, ids: &[CommitId]) -> Vec<Option<Commit>>;
        Walk walk(repo: &RepoName, walk: =Walk) -> WalkPage;
    }
    ToolRepository [] {
        Tools tools(repo: &RepoName, ids: &[ToolId]) -> Vec<Option<ToolDefinition>>;
        ToolsByName tools_by_name(repo: &RepoName, name: &str) -> Vec<ToolDefinition>;
        ToolNames tool_names(repo: &RepoName) -> Vec<String>;
    }
    RefRepository [] {
        Refs refs(repo: &RepoName, names: &[RefName]) -> Vec<Option<RefTarget>>;
        ListRefs list_refs(repo: &RepoName, prefix: &str) -> Vec<(RefName, RefTarget)>;
        RefLog ref_log(repo: &RepoName, query: &LogQuery) -> Vec<LogEntry>;
    }
    DerivedRepository [] {
        Derived derived(repo: &RepoName, kind: =DerivedKind, commits: &[CommitId])
            -> Vec<Option<Bytes>>;
        DerivedCommits derived_commits(repo: &RepoName, kind: =DerivedKind) -> Option<Vec<CommitId>>;
        DropDerived drop_derived(repo: &RepoName) -> ();
    }
    Store [
        fn backend(&self) -> &'static str {
            self.store.backend()
        }

        fn capabilities(&self) -> Capabilities {
            self.watch.capabilities(&*self.store)
        }

        async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
            self.call(Call::Apply { repo, batch: &batch }).await
        }

        async fn sweep(&self, repo: &RepoName, sweep: Sweep) -> StoreResult<SweepAnswer> {
            self.call(Call::Sweep { repo, sweep: &sweep }).await
        }

        async fn restore(
            &self,
            repo: &RepoName,
            copies: ObjectCopies,
        ) -> StoreResult<Vec<ObjectId>> {
            self.call(Call::Restore { repo, copies: &copies }).await
        }
    ] {
        Repos repos() -> Vec<RepoName>;
        Stats stats(repo: &RepoName) -> StoreStats;
        Check check(repo: &RepoName, repair: =bool) -> Vec<Damage>;
        ListObjects list_objects(repo: &RepoName, listing: =ObjectListing) -> ObjectPage;
        WritePosition write_position(repo: &RepoName) -> WritePosition;
        ReleaseSpace release_space() -> SpaceRelease;
        Wipe wipe() -> WipeReport;
        Repack repack(repo: &RepoName, step: =RepackStep) -> RepackPage;
        Close close() -> ();
    }
}

macro_rules! answers {
    ($($(#[$meaning:meta])* $answer:ident($type:ty))*) => {
        /// An answer of a store.
        #[derive(Clone, Debug)]
        pub enum Answer {
            $($(#[$meaning])* $answer($type),)*
        }

        $(
            impl From<$type> for Answer {
                fn from(answer: $type) -> Self {
                    Self::$answer(answer)
                }
            }

            impl TryFrom<Answer> for $type {
                type Error = StoreError;

                fn try_from(answer: Answer) -> StoreResult<Self> {
                    match answer {
                        Answer::$answer(answer) => Ok(answer),
                        other => {
                            let found = format!("expected {}, found {other:?}", stringify!($answer));
                            Err(StoreError::new(StoreErrorKind::Invalid, "watched", "answer", found))
                        }
                    }
                }
            }
        )*
    };
}

answers! {
    /// To [`Call::Blobs`].
    Blobs(Vec<Option<Blob>>)
    /// To [`Call::Toolsets`].
    Toolsets(Vec<Option<Toolset>>)
    /// To [`Call::ResolvePrefix`] and [`Call::Restore`].
    Objects(Vec<ObjectId>)
    /// To [`Call::Commits`].
    Commits(Vec<Option<Commit>>)
    /// To [`Call::Walk`].
    Walk(WalkPage)
    /// To [`Call::Tools`].
    Tools(Vec<Option<ToolDefinition>>)
    /// To [`Call::ToolsByName`].
    ToolsByName(Vec<ToolDefinition>)
    /// To [`Call::ToolNames`].
    ToolNames(Vec<String>)
    /// To [`Call::Refs`].
    Refs(Vec<Option<RefTarget>>)
    /// To [`Call::ListRefs`].
    ListRefs(Vec<(RefName, RefTarget)>)
    /// To [`Call::RefLog`].
    RefLog(Vec<LogEntry>)
    /// To [`Call::Derived`].
    Derived(Vec<Option<Bytes>>)
    /// To [`Call::DerivedCommits`].
    DerivedCommits(Option<Vec<CommitId>>)
    /// To [`Call::Apply`].
    Applied(Applied)
    /// To [`Call::Repos`].
    Repos(Vec<RepoName>)
    /// To [`Call::Stats`].
    Stats(StoreStats)
    /// To [`Call::Check`].
    Check(Vec<Damage>)
    /// To [`Call::ListObjects`].
    Listed(ObjectPage)
    /// To [`Call::WritePosition`].
    Position(WritePosition)
    /// To [`Call::Sweep`].
    Swept(SweepAnswer)
    /// To [`Call::ReleaseSpace`].
    Released(SpaceRelease)
    /// To [`Call::Wipe`].
    Wiped(WipeReport)
    /// To [`Call::Repack`].
    Repacked(RepackPage)
    /// To [`Call::DropDerived`] and [`Call::Close`].
    Done(())
}
