//! Closes the open stores when a signal ends the process.
//!
//! Every write is durable when it is acknowledged, but on SQLite it may be in the write-ahead log
//! only until the store is closed. So the first signal closes the stores and then ends the process
//! as the signal does by default; a second one ends it at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Poll, Waker};
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
/// The signals that commands handle themselves.
static CLAIMS: Mutex<Vec<Arc<Claimed>>> = Mutex::new(Vec::new());
/// The signals that are read, to which more can be added.
#[cfg(unix)]
static WATCHED: OnceLock<signal_hook::iterator::Handle> = OnceLock::new();
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
        lock(&OPEN).push(Arc::downgrade(store));
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        OPENING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Signals that a command handles itself. They stay claimed until the process ends, because the
/// thread that reads signals may read one after the command is done.
pub(crate) struct Claim(Arc<Claimed>);

struct Claimed {
    /// One bit for each signal.
    signals: u32,
    arrived: Mutex<Arrived>,
}

#[derive(Default)]
struct Arrived {
    unread: VecDeque<i32>,
    waiting: Option<Waker>,
}

/// Leaves signals to the caller. Each signal either ends the process or is delivered to a claim: no
/// other handler is needed, and between two handlers a signal would be lost. An interrupt or a request
/// to end is delivered even if the process was started to ignore it, as scripts do with commands in
/// the background.
#[allow(dead_code, reason = "only commands of some features handle signals")]
pub(crate) fn claim(signals: &[i32]) -> Claim {
    let signals = signals.iter().fold(0, |bits, signal| bits | bit(*signal));
    let claimed = Arc::new(Claimed { signals, arrived: Mutex::default() });
    lock(&CLAIMS).push(Arc::clone(&claimed));
    #[cfg(unix)]
    if let Some(watched) = WATCHED.get() {
        for signal in [SIGINT, SIGTERM] {
            if claimed.signals & bit(signal) != 0 {
                // It stays ignored if that fails.
                let _ = watched.add_signal(signal);
            }
        }
    }
    Claim(claimed)
}

impl Claim {
    /// Returns the next signal that arrived, and `None` if all were returned.
    #[allow(dead_code, reason = "only a build with the feature `ui` asks")]
    pub(crate) fn arrived(&self) -> Option<i32> {
        lock(&self.0.arrived).unread.pop_front()
    }

    /// Waits for the next signal.
    #[allow(dead_code, reason = "only commands of some features wait for signals")]
    pub(crate) async fn next(&self) -> i32 {
        std::future::poll_fn(|context| {
            let mut arrived = lock(&self.0.arrived);
            if let Some(signal) = arrived.unread.pop_front() {
                return Poll::Ready(signal);
            }
            arrived.waiting = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// Delivers a signal to those that claimed it; returns `false` if no command did.
fn deliver(signal: i32) -> bool {
    let claims = lock(&CLAIMS);
    let claims = claims.iter().filter(|claim| claim.signals & bit(signal) != 0);
    let mut is_claimed = false;
    for claim in claims {
        let mut arrived = lock(&claim.arrived);
        arrived.unread.push_back(signal);
        if let Some(waiting) = arrived.waiting.take() {
            waiting.wake();
        }
        is_claimed = true;
    }
    is_claimed
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    let _ = WATCHED.set(signals.handle());
    let watching = std::thread::Builder::new().name("signals".to_owned());
    let _ = watching.spawn(move || {
        for signal in signals.forever() {
            receive(signal);
        }
    });
}

/// Starts to handle the signals that end a process. Nothing wakes a thread for them here.
#[cfg(not(unix))]
pub(crate) fn watch() {
    for signal in [SIGINT, SIGTERM] {
        let arrived = Arc::new(AtomicBool::new(false));
        let Ok(_) = signal_hook::flag::register(signal, Arc::clone(&arrived)) else { continue };
        let watching = std::thread::Builder::new().name("signals".to_owned());
        let _ = watching.spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(50));
                if arrived.swap(false, Ordering::SeqCst) {
                    receive(signal);
                }
            }
        });
    }
}

fn receive(signal: i32) {
    if deliver(signal) {
        return;
    }
    if IS_ENDING.swap(true, Ordering::SeqCst) {
        end(signal);
    }
    let ending = std::thread::Builder::new().name("ending".to_owned());
    if ending.spawn(move || close_and_end(signal)).is_err() {
        end(signal);
    }
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

fn close_and_end(signal: i32) {
    let (closed, waiting) = mpsc::channel();
    let closing = std::thread::Builder::new().name("closing".to_owned());
    let spawned = closing.spawn(move || {
        while OPENING.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let stores = std::mem::take(&mut *lock(&OPEN));
        for store in stores.iter().filter_map(Weak::upgrade) {
            // The writes are durable, so an error changes nothing.
            let _ = tract::block_on(store.close());
        }
        let _ = closed.send(());
    });
    if spawned.is_ok() {
        // In parts: a suspension of the machine shortens the wait by one of them.
        let part = PATIENCE / 50;
        let _ = (0..50).any(|_| waiting.recv_timeout(part) != Err(RecvTimeoutError::Timeout));
    }
    end(signal);
}

/// Ends the process as the signal does by default.
fn end(signal: i32) {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    std::process::exit(128 + signal);
}
