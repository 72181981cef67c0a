//! The copy of what passes: bounded, and never in the way of what passes.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::Sender;

use crate::counts::{Counts, Reason};
use crate::header;
use crate::turn;

/// Bytes from which a chunk is shared with the connection that it came from. Smaller ones are
/// copied: each would keep the connection's whole read buffer alive.
const SHARED_BYTES: usize = 32 << 10;

/// How many bytes all copies may take together.
#[derive(Debug)]
pub(crate) struct Budget {
    free: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { free: AtomicUsize::new(bytes) }
    }

    fn take(&self, bytes: usize) -> bool {
        let take = |free: usize| free.checked_sub(bytes);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.free.fetch_add(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }
}

/// The copy of one body. Its bytes count against the budget until it is dropped.
#[derive(Debug)]
pub(crate) struct BodyCopy {
    budget: Arc<Budget>,
    chunks: Vec<Bytes>,
    tail: Vec<u8>,
    bytes: usize,
    /// Whether the body has ended in order.
    pub(crate) is_complete: bool,
    /// Whether a part of it is missing, since the budget was used up.
    pub(crate) is_over_budget: bool,
}

impl BodyCopy {
    fn new(budget: Arc<Budget>) -> Self {
        let (chunks, tail) = (Vec::new(), Vec::new());
        Self { budget, chunks, tail, bytes: 0, is_complete: false, is_over_budget: false }
    }

    fn push(&mut self, chunk: &Bytes) {
        if self.is_over_budget || chunk.is_empty() {
            return;
        }
        if !self.budget.take(chunk.len()) {
            self.is_over_budget = true;
            self.release();
            return;
        }
        self.bytes += chunk.len();
        if chunk.len() >= SHARED_BYTES {
            if !self.tail.is_empty() {
                self.chunks.push(std::mem::take(&mut self.tail).into());
            }
            self.chunks.push(chunk.clone());
        } else {
            self.tail.extend_from_slice(chunk);
        }
    }

    fn release(&mut self) {
        self.chunks = Vec::new();
        self.tail = Vec::new();
        self.budget.give_back(std::mem::take(&mut self.bytes));
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes in one piece.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        if self.chunks.is_empty() {
            return std::mem::take(&mut self.tail);
        }
        let mut whole = Vec::with_capacity(self.bytes);
        for chunk in self.chunks.drain(..) {
            whole.extend_from_slice(&chunk);
        }
        whole.append(&mut self.tail);
        whole
    }
}

impl Drop for BodyCopy {
    fn drop(&mut self) {
        self.release();
    }
}

/// What passed: a request, and what was answered.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) method: http::Method,
    /// The path that the upstream sees.
    pub(crate) path: String,
    /// The headers of the request that may be kept.
    pub(crate) request_headers: HeaderMap,
    pub(crate) request: BodyCopy,
    /// The status; absent when no response came.
    pub(crate) status: Option<http::StatusCode>,
    pub(crate) response_headers: HeaderMap,
    pub(crate) response: BodyCopy,
    /// When the request came: microseconds since 1970, UTC.
    pub(crate) requested_at_us: i64,
    /// When the response ended.
    pub(crate) answered_at_us: i64,
}

/// An exchange while it passes. Both bodies hold it; when the last of them is dropped, for any
/// reason, what was copied goes to the recorder.
#[derive(Debug)]
pub(crate) struct Capture {
    exchange: Mutex<Option<Exchange>>,
    /// Whether its bodies are copied. They are not where the request is none that a model answers:
    /// nothing would read the copies, and they would take the place of others.
    has_copies: bool,
    to: Sender<Exchange>,
    counts: Arc<Counts>,
}

impl Capture {
    pub(crate) fn new(
        to: Sender<Exchange>,
        counts: Arc<Counts>,
        budget: &Arc<Budget>,
        parts: &http::request::Parts,
        path: &str,
    ) -> Arc<Self> {
        let has_copies = turn::endpoint(parts.method.as_str(), path).is_some();
        let exchange = Exchange {
            method: parts.method.clone(),
            path: path.to_owned(),
            request_headers: header::stored(&parts.headers),
            request: BodyCopy::new(Arc::clone(budget)),
            status: None,
            response_headers: HeaderMap::new(),
            response: BodyCopy::new(Arc::clone(budget)),
            requested_at_us: now_us(),
            answered_at_us: 0,
        };
        // From here on it is waited for: a client may end with the last byte of its answer, before
        // the copy of it is handed on.
        counts.seen();
        Arc::new(Self { exchange: Mutex::new(Some(exchange)), has_copies, to, counts })
    }

    /// A failure elsewhere leaves the copy as it is; it is never a reason to fail here as well.
    fn lock(&self) -> MutexGuard<'_, Option<Exchange>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the exchange out: what passes from here on is not read.
    pub(crate) fn skip(&self, reason: Reason) {
        if self.lock().take().is_some() {
            self.counts.skip(reason);
        }
    }

    pub(crate) fn respond(&self, parts: &http::response::Parts) {
        if let Some(exchange) = self.lock().as_mut() {
            exchange.status = Some(parts.status);
            exchange.response_headers = header::stored(&parts.headers);
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let exchange = self.exchange.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut exchange) = exchange else { return };
        exchange.answered_at_us = now_us();
        if let Err(refused) = self.to.try_send(exchange) {
            let reason = match refused {
                tokio::sync::mpsc::error::TrySendError::Full(_) => Reason::QueueFull,
                tokio::sync::mpsc::error::TrySendError::Closed(_) => Reason::RecorderStopped,
            };
            self.counts.skip(reason);
        }
    }
}

/// Which body of an exchange is copied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Request,
    Response,
}

/// A body that passes as it is, and is copied.
#[derive(Debug)]
pub(crate) struct CopiedBody<B: Body> {
    inner: B,
    capture: Arc<Capture>,
    side: Side,
    /// Why it broke off. Who forwards a body drops what is not sent yet when it fails, so the failure
    /// is told one poll later, when all that came before it is on its way.
    failed: Option<B::Error>,
}

impl<B: Body> CopiedBody<B> {
    pub(crate) fn new(inner: B, capture: Arc<Capture>, side: Side) -> Self {
        Self { inner, capture, side, failed: None }
    }

    fn copy(&self, change: impl FnOnce(&mut BodyCopy)) {
        if !self.capture.has_copies {
            return;
        }
        if let Some(exchange) = self.capture.lock().as_mut() {
            change(match self.side {
                Side::Request => &mut exchange.request,
                Side::Response => &mut exchange.response,
            });
        }
    }
}

impl<B: Body<Data = Bytes, Error: Unpin> + Unpin> Body for CopiedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(failed) = self.failed.take() {
            return Poll::Ready(Some(Err(failed)));
        }
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(chunk) = frame.data_ref() {
                    let is_end = self.inner.is_end_stream();
                    self.copy(|body| {
                        body.push(chunk);
                        body.is_complete |= is_end;
                    });
                }
            }
            Poll::Ready(None) => self.copy(|body| body.is_complete = true),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        match polled {
            Poll::Ready(Some(Err(error))) => {
                self.failed = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_end = self.inner.is_end_stream();
        if is_end {
            // Who sends a body without a byte does not poll it.
            self.copy(|body| body.is_complete = true);
        }
        is_end
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_micros()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn a_copy_over_the_budget_is_dropped_and_its_bytes_come_back() {
        let budget = Arc::new(Budget::new(100));
        let mut copy = BodyCopy::new(Arc::clone(&budget));
        copy.push(&Bytes::from(vec![1; 60]));
        assert_eq!((copy.len(), budget.free()), (60, 40));
        copy.push(&Bytes::from(vec![2; 60]));
        assert!(copy.is_over_budget);
        assert_eq!((copy.len(), budget.free()), (0, 100));
        copy.push(&Bytes::from(vec![3; 10]));
        assert_eq!(copy.bytes(), Vec::<u8>::new(), "a copy with a gap is none");
    }

    #[test]
    fn a_copy_has_the_bytes_in_order() {
        let budget = Arc::new(Budget::new(1 << 20));
        let mut copy = BodyCopy::new(Arc::clone(&budget));
        let large = vec![7; SHARED_BYTES];
        copy.push(&Bytes::from_static(b"ab"));
        copy.push(&Bytes::from(large.clone()));
        copy.push(&Bytes::from_static(b"cd"));
        let expected = [b"ab".as_slice(), &large, b"cd"].concat();
        assert_eq!(copy.bytes(), expected);
        drop(copy);
        assert_eq!(budget.free(), 1 << 20);
    }

    /// A body whose bytes and failure are there at once.
    struct Broken(bool);

    impl Body for Broken {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            let is_first = !std::mem::replace(&mut self.0, true);
            Poll::Ready(Some(match is_first {
                true => Ok(Frame::data(Bytes::from_static(b"before the cut"))),
                false => Err(std::io::ErrorKind::ConnectionReset.into()),
            }))
        }
    }

    #[tokio::test]
    async fn a_request_that_no_model_answers_is_not_copied() {
        for (path, copied) in [("/v1/messages", 10), ("/v1/files", 0)] {
            let (to, mut exchanges) = tokio::sync::mpsc::channel(1);
            let budget = Arc::new(Budget::new(100));
            let request = http::Request::post(path).body(()).expect("a request");
            let (parts, ()) = request.into_parts();
            let capture = Capture::new(to, Arc::default(), &budget, &parts, path);
            let body = http_body_util::Full::new(Bytes::from_static(b"0123456789"));
            let body = CopiedBody::new(body, capture, Side::Request);
            let passed = http_body_util::BodyExt::collect(body).await.expect("it passes");
            assert_eq!(passed.to_bytes(), b"0123456789".as_slice());
            let exchange = exchanges.recv().await.expect("it is over");
            assert_eq!(exchange.request.len(), copied, "{path}");
        }
    }

    #[tokio::test]
    async fn bytes_before_a_failure_are_sent() {
        let (to, _exchanges) = tokio::sync::mpsc::channel(1);
        let budget = Arc::new(Budget::new(100));
        let (parts, ()) = http::Request::new(()).into_parts();
        let capture = Capture::new(to, Arc::default(), &budget, &parts, "/");
        let service = hyper::service::service_fn(move |_| {
            let body = CopiedBody::new(Broken(false), Arc::clone(&capture), Side::Response);
            async { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
        });
        let (mut client, server) = tokio::io::duplex(1 << 10);
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it is taken");
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(hyper_util::rt::TokioIo::new(server), service)
            .await;
        assert!(served.is_err(), "the connection is not kept");
        let mut received = String::new();
        client.read_to_string(&mut received).await.expect("text");
        assert!(received.contains("200 OK") && received.contains("before the cut"), "{received}");
    }
}
