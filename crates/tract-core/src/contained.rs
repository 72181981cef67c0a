//! Contains panics of libraries that panic on damaged data.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Calls a library that may panic on damaged data, and returns the message of a panic as an error.
///
/// After an error the state that the call used may be inconsistent, so it must not be written to.
///
/// # Errors
/// The message of the panic.
///
/// ```
/// let damaged: Result<(), String> = tract_core::contained(|| std::panic::panic_any("bad page"));
/// assert_eq!(damaged, Err("bad page".to_owned()));
/// ```
pub fn contained<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    // Not a guard: the depth has to stay up while the panic unwinds, so that the panic hook and
    // destructors see the call as contained, and has to drop right after `catch_unwind`.
    DEPTH.set(DEPTH.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    DEPTH.set(DEPTH.get() - 1);
    outcome.map_err(|panic| panic_text(&*panic).unwrap_or("it panicked").to_owned())
}

/// Returns the message of a panic, if it is text.
pub fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
}

/// Returns whether this thread is inside of [`contained`], so that a panic becomes an error.
///
/// A panic hook can use this to print nothing: the error is reported where it is handled.
pub fn is_contained() -> bool {
    DEPTH.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_called_is_contained() {
        assert!(!is_contained());
        assert_eq!(contained(is_contained), Ok(true));
        let text = contained(|| {
            let _inner = contained(|| ());
            assert!(is_contained());
            std::panic::panic_any("page 7".to_owned())
        });
        assert_eq!(text, Err::<(), _>("page 7".to_owned()));
        assert!(!is_contained());
    }
}
