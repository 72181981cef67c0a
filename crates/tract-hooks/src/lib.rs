//! Events, actions and the chain of handlers.
#![forbid(unsafe_code)]
