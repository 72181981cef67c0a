//! The runtime for sockets, timers and signals.

/// Makes a runtime with the given number of threads.
#[cfg(any(
    feature = "follow",
    feature = "http",
    feature = "record",
    feature = "serve",
    feature = "view"
))]
pub(crate) fn threads(count: usize) -> crate::failure::Outcome<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(count).enable_all().build().map_err(|error| {
        let message = format!("no thread for the network: {error}");
        crate::failure::Failure::no("runtime", message)
    })
}

/// Calls `stop` on an interrupt; a second one ends the process at once.
#[cfg(any(feature = "follow", feature = "http"))]
pub(crate) async fn on_interrupt(stop: impl FnOnce()) {
    let interrupts = crate::ending::claim(&[crate::ending::SIGINT]);
    interrupts.next().await;
    stop();
    interrupts.next().await;
    std::process::exit(i32::from(crate::failure::INTERRUPTED));
}

/// Waits until the process is interrupted or terminated.
#[cfg(any(feature = "record", feature = "view"))]
pub(crate) async fn interrupted() {
    crate::ending::claim(&[crate::ending::SIGINT, crate::ending::SIGTERM]).next().await;
}
