//! Runs a blocking store under async.

/// How writes reach a blocking store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// On the store's own thread, which groups what is queued into one transaction.
    #[default]
    Thread,
    /// On the caller's thread when nobody else is writing, together with whatever is queued.
    InPlace,
}

/// Placeholder.
#[derive(Debug)]
pub struct Threaded<S>(S);
