//! What is asked of a store, and what it answers, as values.

use bytes::Bytes;
use tract_core::store::{
    BlobKey, Damage, LogQuery, ObjectListing, ObjectPage, RepackPage, RepackStep, SpaceRelease,
    StoreStats, Sweep, SweepAnswer, Walk, WalkPage, WipeReport, WritePosition,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, Store, StoreError, StoreErrorKind, StoreResult, ToolDefinition, ToolId,
    Toolset, ToolsetId,
};

macro_rules! calls {
    ($($call:ident $method:ident($($name:ident: $type:ty),*) $given:tt)*) => {
        /// A call of a store: a method of its traits, and what it is given.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "they are the methods and parameters of the traits")]
        pub enum Call<'a> {
            $($call { $($name: $type),* },)*
        }

        impl Call<'_> {
            /// Returns the name of the method.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$call { .. } => stringify!($method),)*
                }
            }

            /// Asks a store.
            ///
            /// # Errors
            /// Those of the method.
            pub async fn ask(self, store: &dyn Store) -> StoreResult<Answer> {
                match self {
                    $(Self::$call { $($name),* } => store.$method $given.await.map(Answer::from),)*
                }
            }
        }
    };
}

calls! {
    Blobs blobs(repo: &'a RepoName, keys: &'a [BlobKey]) (repo, keys)
    Toolsets toolsets(repo: &'a RepoName, ids: &'a [ToolsetId]) (repo, ids)
    ResolvePrefix resolve_prefix(repo: &'a RepoName, prefix: &'a IdPrefix, limit: usize)
        (repo, prefix, limit)
    Commits commits(repo: &'a RepoName, ids: &'a [CommitId]) (repo, ids)
    Walk walk(repo: &'a RepoName, walk: Walk) (repo, walk)
    Tools tools(repo: &'a RepoName, ids: &'a [ToolId]) (repo, ids)
    ToolsByName tools_by_name(repo: &'a RepoName, name: &'a str) (repo, name)
    ToolNames tool_names(repo: &'a RepoName) (repo)
    Refs refs(repo: &'a RepoName, names: &'a [RefName]) (repo, names)
    ListRefs list_refs(repo: &'a RepoName, prefix: &'a str) (repo, prefix)
    RefLog ref_log(repo: &'a RepoName, query: &'a LogQuery) (repo, query)
    Derived derived(repo: &'a RepoName, kind: DerivedKind, commits: &'a [CommitId])
        (repo, kind, commits)
    DerivedCommits derived_commits(repo: &'a RepoName, kind: DerivedKind) (repo, kind)
    DropDerived drop_derived(repo: &'a RepoName) (repo)
    Apply apply(repo: &'a RepoName, batch: &'a Batch) (repo, batch.clone())
    Repos repos() ()
    Stats stats(repo: &'a RepoName) (repo)
    Check check(repo: &'a RepoName, repair: bool) (repo, repair)
    ListObjects list_objects(repo: &'a RepoName, listing: ObjectListing) (repo, listing)
    WritePosition write_position(repo: &'a RepoName) (repo)
    Sweep sweep(repo: &'a RepoName, sweep: &'a Sweep) (repo, sweep.clone())
    ReleaseSpace release_space() ()
    Wipe wipe() ()
    Repack repack(repo: &'a RepoName, step: RepackStep) (repo, step)
    Close close() ()
}

macro_rules! answers {
    ($($(#[$meaning:meta])* $answer:ident($type:ty))*) => {
        /// An answer of a store.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
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
    /// To [`Call::ResolvePrefix`].
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
