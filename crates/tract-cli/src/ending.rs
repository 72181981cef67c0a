//! Closes the open stores when a signal ends the process.
//!
//! Every write is durable when it is acknowledged, but on SQLite it may be in the write-ahead log
//! only until the store is closed. So the first signal closes the stores and then ends the process
//! as the signal does by default; a second one ends it at once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
#[cfg(unix)]
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tract::Store;

#[cfg(unix)]
pub(crate) use signal_hook::consts::SIGHUP;
pub(crate) use signal_hook::consts::{SIGINT, SIGTERM};

/// Maximum wait for the stores. A store that is being read by a thread that waits for a closed pipe
/// or a person cannot be closed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stores that this process has open. Weak, because a store closes when it is dropped.
static OPEN: Mutex<Vec<Weak<dyn Store>>> = Mutex::new(Vec::new());
/// Number of stores that are being opened.
static OPENING: AtomicU32 = AtomicU32::new(0);
/// The signals that a command handles itself, one bit for each.
static CLAIMED: AtomicU32 = AtomicU32::new(0);
/// Whether a signal is ending the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The opening of a store. A signal waits until it is dropped.
pub(crate) struct Opening(());

impl Opening {
    /// Begins the opening of a store.
    pub(crate) fn begin() -> Self {
        OPENING.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Adds the opened store to those that are closed on a signal.
    pub(crate) fn register(self, store: &Arc<dyn Store>) {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(store));
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        OPENING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Leaves signals to the caller until the process ends. They are not released when the caller is
/// done, because the thread that handles signals may receive its last one later.
#[cfg(any(
    feature = "follow",
    feature = "http",
    feature = "mcp",
    feature = "record",
    feature = "ui",
    feature = "view"
))]
pub(crate) fn claim(signals: &[i32]) {
    let bits = signals.iter().fold(0, |bits, signal| bits | bit(*signal));
    CLAIMED.fetch_or(bits, Ordering::SeqCst);
}

fn bit(signal: i32) -> u32 {
    1 << (signal & 31)
}

/// Waits for the end of the process if a signal is ending it, so that the error of a command whose
/// store was closed is not printed.
pub(crate) fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        std::thread::park_timeout(PATIENCE);
    }
}

/// Starts to handle the signals that end a process. Without a thread for them, they end it as
/// before.
#[cfg(unix)]
pub(crate) fn watch() {
    let ignored = ignored_signals();
    let handled = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let handled = handled.filter(|signal| ignored & bit(*signal - 1) == 0);
    let Ok(mut signals) = signal_hook::iterator::Signals::new(handled) else { return };
    let watching = std::thread::Builder::new().name("signals".to_owned());
    let _ = watching.spawn(move || {
        for signal in signals.forever() {
            if CLAIMED.load(Ordering::SeqCst) & bit(signal) != 0 {
                continue;
            }
            if IS_ENDING.swap(true, Ordering::SeqCst) {
                end(signal);
            }
            let ending = std::thread::Builder::new().name("ending".to_owned());
            if ending.spawn(move || close_and_end(signal)).is_err() {
                end(signal);
            }
        }
    });
}

/// Returns the signals that the process was started to ignore, one bit for each, from the lowest on.
/// `nohup` and shells that run a command in the background do that.
#[cfg(unix)]
fn ignored_signals() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    match mask {
        Some(mask) => mask as u32,
        // Unknown: the one of `nohup` is left as it is.
        None => bit(SIGHUP - 1),
    }
}

#[cfg(unix)]
fn close_and_end(signal: i32) {
    let (closed, waiting) = mpsc::channel();
    let closing = std::thread::Builder::new().name("closing".to_owned());
    let spawned = closing.spawn(move || {
        while OPENING.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let stores = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
        for store in stores.iter().filter_map(Weak::upgrade) {
            // The writes are durable, so an error changes nothing.
            let _ = tract::block_on(store.close());
        }
        let _ = closed.send(());
    });
    if spawned.is_ok() {
        let _ = waiting.recv_timeout(PATIENCE);
    }
    end(signal);
}

/// Ends the process as the signal does by default.
#[cfg(unix)]
fn end(signal: i32) {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    std::process::exit(128 + signal);
}

/// The system ends the process, and the next one that opens the store writes its log back.
#[cfg(not(unix))]
pub(crate) fn watch() {}
