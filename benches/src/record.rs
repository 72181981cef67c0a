//! The recording proxy, against a bare pass-through of the same libraries and the direct way, taken
//! in turns in the same run.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tract::recording::{Proxy, ProxyOptions, Recorder, RecorderOptions, Route};

use crate::table::{Figure, Table, median};

/// Bytes of a large answer.
const LARGE: usize = 8 << 20;
/// Requests that come at once.
const AT_ONCE: usize = 500;

const ANSWER: &str = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Yes."}],"stop_reason":"end_turn"}"#;

pub(crate) fn run(table: &mut Table, quick: bool) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let upstream = runtime.block_on(serve_answers());
    let bare = runtime.block_on(serve_bare(upstream));
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("tract.db").display());
    let tract = tract::block_on(tract::OpenOptions::new().create(true).open(&url)).unwrap();
    let recorder = Recorder::start(tract.repo().clone(), &RecorderOptions::default()).unwrap();
    let route = Route::only(format!("http://{upstream}").parse().unwrap());
    let proxy = runtime.block_on(async {
        Proxy::bind(&ProxyOptions::default(), vec![route.clone()], recorder.handle()).await.unwrap()
    });
    let ours = proxy.address();
    let base = proxy.base_url(&route).replace(&format!("http://{ours}"), "");
    runtime.spawn(proxy.run(std::future::pending()));

    let rounds = if quick { 300 } else { 3000 };
    first_bytes(table, [upstream, bare, ours], &base, rounds);
    let settle = || runtime.block_on(recorder.settle(Duration::from_secs(60)));
    let large = format!("{base}{LARGE_PATH}");
    let other = format!("{base}{OTHER_PATH}");
    let calls = if quick { 5 } else { 100 };
    for (what, bare_path, path, in_a_row) in [
        ("one after another", LARGE_PATH, &large, 1),
        ("five in a row", LARGE_PATH, &large, 5),
        ("to requests that are not recorded", OTHER_PATH, &other, 5),
    ] {
        let ways = [(bare, bare_path), (ours, path.as_str())];
        throughput(table, what, ways, calls / in_a_row, in_a_row, settle);
    }
    at_once(table, bare, ours, &base);
    let report = runtime.block_on(recorder.finish(Duration::from_secs(60)));
    eprintln!("  recorded {} of {} exchanges", report.recorded, report.exchanges);
    runtime.shutdown_background();
}

/// Asks for a large answer, which is a turn and is recorded.
const LARGE_PATH: &str = "/v1/messages?large";
/// Asks for one that no model gives, which passes unread.
const OTHER_PATH: &str = "/v1/files/large";

/// Answers every request with a message: a short one, or one of many bytes that is another each
/// time, so that the store has to take all of it.
async fn serve_answers() -> SocketAddr {
    let rest = large_text();
    let answers = Arc::new(AtomicUsize::new(0));
    serve(move |request: Request<Incoming>| {
        let (rest, answers) = (rest.clone(), Arc::clone(&answers));
        async move {
            let path = request.uri().path_and_query().map_or("", |path| path.as_str());
            let (start, rest) = if path.ends_with("large") {
                let number = answers.fetch_add(1, Ordering::Relaxed);
                let text =
                    r#"{"type":"message","role":"assistant","content":[{"type":"text","text":""#;
                (format!("{text}{number:08} ").into(), rest)
            } else {
                (Bytes::from_static(ANSWER.as_bytes()), Bytes::new())
            };
            Response::new(Full::<Chain<Bytes, Bytes>>::new(start.chain(rest)))
        }
    })
    .await
}

/// Makes the text of a large answer, and the end of its document.
fn large_text() -> Bytes {
    let words = ["context ", "of ", "the ", "model ", "is ", "a ", "tree, ", "answer\\n"];
    let (mut text, mut number) = (String::with_capacity(LARGE + 64), 1_u64);
    while text.len() < LARGE {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(words[(number >> 61) as usize]);
    }
    text.push_str(r#""}],"stop_reason":"end_turn"}"#);
    text.into()
}

/// Forwards requests with the same libraries, and nothing else.
async fn serve_bare(upstream: SocketAddr) -> SocketAddr {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    serve(move |mut request: Request<Incoming>| {
        let client = client.clone();
        async move {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let uri: Uri = format!("http://{upstream}{path}").parse().unwrap();
            *request.uri_mut() = uri;
            client.request(request).await.unwrap()
        }
    })
    .await
}

async fn serve<B, F, Fut>(answer: F) -> SocketAddr
where
    B: hyper::body::Body<Data: Send, Error: std::error::Error + Send + Sync> + Send + 'static,
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// A client that does as little as a client can.
struct Caller {
    stream: TcpStream,
    request: Vec<u8>,
}

impl Caller {
    fn new(address: SocketAddr, path: &str, session: usize) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let body =
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Is it so?"}]}"#;
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nx-session-id: {session}\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        Self { stream, request: request.into_bytes() }
    }

    /// Asks, and returns the time until the first byte of the body, and until the last.
    fn call(&mut self, buffer: &mut [u8]) -> (Duration, Duration) {
        let start = Instant::now();
        self.stream.write_all(&self.request).unwrap();
        let (mut head, mut first) = (Vec::new(), None);
        let mut left = usize::MAX;
        while left > 0 {
            let count = self.stream.read(buffer).unwrap();
            assert!(count > 0, "the connection stays open");
            if first.is_some() {
                left -= count;
                continue;
            }
            head.extend_from_slice(&buffer[..count]);
            let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            if head.len() == end + 4 {
                continue;
            }
            first = Some(start.elapsed());
            let text = String::from_utf8_lossy(&head[..end]).to_lowercase();
            assert!(text.starts_with("http/1.1 200"), "{text}");
            let length = text.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            left = length - (head.len() - end - 4);
        }
        (first.unwrap(), start.elapsed())
    }
}

fn first_bytes(table: &mut Table, ways: [SocketAddr; 3], base: &str, rounds: usize) {
    let paths =
        ["/v1/messages".to_owned(), "/v1/messages".to_owned(), format!("{base}/v1/messages")];
    let mut callers: Vec<Caller> =
        ways.iter().zip(&paths).map(|(address, path)| Caller::new(*address, path, 0)).collect();
    let mut buffer = vec![0; 1 << 16];
    let mut times = [vec![], vec![], vec![]];
    for round in 0..rounds + 50 {
        for (caller, times) in callers.iter_mut().zip(&mut times) {
            let (first, _) = caller.call(&mut buffer);
            if round >= 50 {
                times.push(first.as_secs_f64() * 1e6);
            }
        }
    }
    let [direct, bare, ours] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[times.len() * 99 / 100])
    });
    for (what, direct, bare, ours, wanted, most) in [
        ("median", direct.0, bare.0, ours.0, "≤ 1 ms over direct", 1000.0),
        ("99th percentile", direct.1, bare.1, ours.1, "≤ 3 ms over direct", 3000.0),
    ] {
        table.add(Figure {
            what: format!("first byte through the recording proxy, {what}"),
            ours: format!("{ours:.0} µs, direct {direct:.0} µs"),
            floor: format!("{bare:.0} µs"),
            ratio: Some(bare / ours),
            wanted,
            met: Some(ours - direct <= most),
        });
    }
}

/// Measures large answers through the bare pass-through and through ours, `in_a_row` of each. The
/// recorder may work while ours follow each other, and is done before the bare ones start: they have
/// the machine to themselves.
fn throughput(
    table: &mut Table,
    what: &str,
    ways: [(SocketAddr, &str); 2],
    rows: usize,
    in_a_row: usize,
    settle: impl Fn(),
) {
    let mut buffer = vec![0; 1 << 18];
    let mut callers = ways.map(|(address, path)| Caller::new(address, path, 0));
    let mut times = [vec![], vec![]];
    for row in 0..=rows {
        for (caller, times) in callers.iter_mut().zip(&mut times) {
            for _ in 0..in_a_row {
                let (_, whole) = caller.call(&mut buffer);
                if row > 0 {
                    times.push(whole.as_secs_f64());
                }
            }
            settle();
        }
    }
    let [bares, our_times] = times;
    let rate = |seconds: f64| LARGE as f64 / seconds / 1e6;
    let (bare, ours) = (median(bares), median(our_times));
    table.add(Figure {
        what: format!("throughput of the recording proxy, answers of 8 MiB {what}"),
        ours: format!("{:.0} MB/s", rate(ours)),
        floor: format!("{:.0} MB/s", rate(bare)),
        ratio: Some(bare / ours),
        wanted: "≥ 0.9",
        met: Some(bare / ours >= 0.9),
    });
}

fn at_once(table: &mut Table, bare: SocketAddr, ours: SocketAddr, base: &str) {
    let all = |address: SocketAddr, path: String| {
        let barrier = Arc::new(std::sync::Barrier::new(AT_ONCE + 1));
        let threads: Vec<_> = (0..AT_ONCE)
            .map(|n| {
                let (barrier, path) = (Arc::clone(&barrier), path.clone());
                std::thread::spawn(move || {
                    let mut caller = Caller::new(address, &path, n + 1);
                    barrier.wait();
                    caller.call(&mut [0; 4096])
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().unwrap();
        }
        start.elapsed().as_secs_f64() * 1e3
    };
    let (mut bares, mut our_times) = (vec![], vec![]);
    for _ in 0..5 {
        bares.push(all(bare, "/v1/messages".to_owned()));
        our_times.push(all(ours, format!("{base}/v1/messages")));
    }
    let (bare, ours) = (median(bares), median(our_times));
    table.add(Figure {
        what: format!("{AT_ONCE} requests at once through the recording proxy"),
        ours: format!("{ours:.0} ms"),
        floor: format!("{bare:.0} ms"),
        ratio: Some(bare / ours),
        wanted: "–",
        met: None,
    });
}
