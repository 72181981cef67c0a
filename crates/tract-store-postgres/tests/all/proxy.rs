//! A proxy before the server: it counts round trips, and loses answers when asked to.

#![allow(dead_code, reason = "shared by tests and benches, which each need a part")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug, Default)]
struct Shared {
    trips: AtomicUsize,
    connections: AtomicUsize,
    /// Cut the connection instead of passing on the next answer.
    lose_answer: AtomicBool,
    /// Cut the connection instead of passing on the next request.
    lose_request: AtomicBool,
    /// Pass on nothing, and keep all connections.
    silent: AtomicBool,
    /// The most bytes that answered one request.
    largest: AtomicUsize,
}

/// A proxy that lives as long as the process.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    url: String,
}

impl Proxy {
    /// Starts a proxy in front of the server of a url.
    pub(crate) fn before(url: &str) -> Self {
        let (user, place) = url.split_once('@').expect("a url with a user");
        let (host, rest) = place.split_once('/').expect("a url with a database");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared::default());
        let proxy =
            Self { shared: Arc::clone(&shared), url: format!("{user}@127.0.0.1:{port}/{rest}") };
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:5432") };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&host) else { continue };
                shared.connections.fetch_add(1, Ordering::SeqCst);
                pass(&shared, client, server);
            }
        });
        proxy
    }

    /// Returns the url that leads through it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns how often something was asked after an answer, so far.
    pub(crate) fn trips(&self) -> usize {
        self.shared.trips.load(Ordering::SeqCst)
    }

    /// Returns how many connections were made so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Loses the next answer: the server has done what was asked, and no client hears of it.
    pub(crate) fn lose_answer(&self) {
        self.shared.lose_answer.store(true, Ordering::SeqCst);
    }

    /// Loses the next request before the server sees it.
    pub(crate) fn lose_request(&self) {
        self.shared.lose_request.store(true, Ordering::SeqCst);
    }

    /// Passes on nothing from now on: the server neither answers nor goes away.
    pub(crate) fn fall_silent(&self) {
        self.shared.silent.store(true, Ordering::SeqCst);
    }

    /// Returns the most bytes that answered one request since it was last asked.
    pub(crate) fn largest_answer(&self) -> usize {
        self.shared.largest.swap(0, Ordering::SeqCst)
    }
}

fn pass(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    // Small messages both ways: without this each waits for the other's acknowledgement.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let answered = Arc::new(AtomicBool::new(true));
    let pump = |mut from: TcpStream, mut to: TcpStream, is_request: bool| {
        let (shared, answered) = (Arc::clone(shared), Arc::clone(&answered));
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            let mut answer = 0;
            loop {
                let read = from.read(&mut buffer).unwrap_or(0);
                if read > 0 && shared.silent.load(Ordering::SeqCst) {
                    continue;
                }
                let lose = if is_request { &shared.lose_request } else { &shared.lose_answer };
                let lost = read > 0 && lose.swap(false, Ordering::SeqCst);
                if is_request {
                    if read > 0 && answered.swap(false, Ordering::SeqCst) {
                        shared.trips.fetch_add(1, Ordering::SeqCst);
                    }
                } else {
                    if !answered.swap(true, Ordering::SeqCst) {
                        answer = 0;
                    }
                    answer += read;
                    shared.largest.fetch_max(answer, Ordering::SeqCst);
                }
                let bytes = buffer.get(..read).filter(|bytes| !bytes.is_empty() && !lost);
                if bytes.is_none_or(|bytes| to.write_all(bytes).is_err()) {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    };
    if let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) {
        pump(client, server, true);
        pump(server_too, client_too, false);
    }
}
