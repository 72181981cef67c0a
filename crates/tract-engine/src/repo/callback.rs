//! A function of the caller in a set of options.

use std::fmt;
use std::sync::Arc;

/// A function that a caller passes with options, such as a receiver of progress. Cheap to clone.
pub struct Callback<T>(Arc<dyn Fn(T) + Send + Sync>);

impl<T> Callback<T> {
    /// Wraps a function. It is called within the operation and should return soon.
    pub fn new(function: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Calls the function.
    pub fn call(&self, value: T) {
        (self.0)(value);
    }
}

impl<T> Clone for Callback<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Callback<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}
