//! Copies the traffic of a proxy. Copies are bounded, and never delay the traffic.

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

/// Size in bytes of a piece of a large body's copy.
const PIECE_BYTES: usize = 64 << 10;
/// Bodies up to this size in bytes are copied into a buffer of their own size.
const SMALL_BYTES: usize = 32 << 10;

/// The memory limit of all copies, and a pool of used pieces. Fresh memory costs a large body a
/// quarter of its throughput, because the system clears each page on first use.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    free: AtomicUsize,
    /// Pieces for later copies, up to a quarter of the limit.
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, free: AtomicUsize::new(bytes), spare: Mutex::default() }
    }

    pub(crate) fn take(&self, bytes: usize) -> bool {
        let take = |free: usize| free.checked_sub(bytes);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.free.fetch_add(bytes, Ordering::Relaxed);
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a piece; `None` if the budget is used up.
    fn take_piece(&self) -> Option<Vec<u8>> {
        self.take(PIECE_BYTES).then(|| {
            let spare = self.spare().pop();
            spare.unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES))
        })
    }

    fn give_back_piece(&self, mut piece: Vec<u8>) {
        piece.clear();
        let mut spare = self.spare();
        if (spare.len() + 1) * PIECE_BYTES <= self.bytes / 4 {
            spare.push(piece);
        }
        drop(spare);
        self.give_back(PIECE_BYTES);
    }

    pub(crate) fn is_half_used(&self) -> bool {
        self.free() <= self.bytes / 2
    }

    fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }
}

/// The copy of one body. Its memory counts against the budget until it is dropped.
#[derive(Debug)]
pub(crate) struct BodyCopy {
    budget: Arc<Budget>,
    /// The whole copy of a small body, else empty.
    small: Vec<u8>,
    /// The copy in pieces, of which all but the last are full.
    pieces: Vec<Vec<u8>>,
    bytes: usize,
    /// Whether the body ended without an error.
    pub(crate) is_complete: bool,
    /// Whether a part is missing because the budget was used up.
    pub(crate) is_over_budget: bool,
}

impl BodyCopy {
    fn new(budget: Arc<Budget>) -> Self {
        let (small, pieces) = (Vec::new(), Vec::new());
        Self { budget, small, pieces, bytes: 0, is_complete: false, is_over_budget: false }
    }

    fn push(&mut self, chunk: &[u8]) {
        if self.is_over_budget || chunk.is_empty() {
            return;
        }
        let is_copied = if self.pieces.is_empty() && self.bytes + chunk.len() <= SMALL_BYTES {
            self.push_small(chunk)
        } else {
            self.push_pieces(chunk)
        };
        if is_copied.is_none() {
            self.is_over_budget = true;
            self.release();
        }
    }

    fn push_small(&mut self, chunk: &[u8]) -> Option<()> {
        self.budget.take(chunk.len()).then_some(())?;
        self.small.extend_from_slice(chunk);
        self.bytes += chunk.len();
        Some(())
    }

    fn push_pieces(&mut self, chunk: &[u8]) -> Option<()> {
        if self.pieces.is_empty() {
            let mut first = self.budget.take_piece()?;
            first.extend_from_slice(&self.small);
            // After the piece was taken, so that the copy is never larger than what it has
            // reserved.
            self.budget.give_back(self.small.len());
            self.small = Vec::new();
            self.pieces.push(first);
        }
        let mut rest = chunk;
        while let Some(last) = self.pieces.last_mut() {
            let (fits, more) = rest.split_at(rest.len().min(PIECE_BYTES - last.len()));
            last.extend_from_slice(fits);
            self.bytes += fits.len();
            rest = more;
            if rest.is_empty() {
                break;
            }
            self.pieces.push(self.budget.take_piece()?);
        }
        Some(())
    }

    fn release(&mut self) {
        self.budget.give_back(std::mem::take(&mut self.small).len());
        for piece in self.pieces.drain(..) {
            self.budget.give_back_piece(piece);
        }
        self.bytes = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes in one piece, and releases the budget.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.bytes);
        whole.extend_from_slice(&self.small);
        for piece in self.pieces.drain(..) {
            whole.extend_from_slice(&piece);
            self.budget.give_back_piece(piece);
        }
        self.release();
        whole
    }
}

impl Drop for BodyCopy {
    fn drop(&mut self) {
        self.release();
    }
}

/// A request with its response.
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
    /// Arrival time of the request: microseconds since 1970, UTC.
    pub(crate) requested_at_us: i64,
    /// When the response ended.
    pub(crate) answered_at_us: i64,
}

/// An exchange in progress. Both bodies hold it; when the last of them is dropped, for any reason,
/// the copies go to the recorder.
#[derive(Debug)]
pub(crate) struct Capture {
    exchange: Mutex<Option<Exchange>>,
    /// Whether its bodies are copied. They are not if no model answers the request: the copies
    /// would not be read, and would use up the budget of others.
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
        let method = parts.method.as_str();
        let has_copies = turn::endpoint(method, path).is_some()
            || turn::fetched_response(method, path).is_some();
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
        // Counted as seen from the start, so that `settle` waits for it: a client may exit with the
        // last byte of its answer, before the copy reaches the recorder.
        counts.seen();
        Arc::new(Self { exchange: Mutex::new(Some(exchange)), has_copies, to, counts })
    }

    /// A panic elsewhere leaves the copy usable, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, Option<Exchange>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Excludes the exchange from recording; its copies are dropped.
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
        // Both bodies and the proxy share the capture. When the last of them drops it, the exchange
        // is over, whether it was completed or broken off.
        let exchange = self.exchange.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut exchange) = exchange else { return };
        exchange.answered_at_us = now_us();
        // Never waits: a recorder that is too slow loses exchanges, which are counted, and does not
        // delay the traffic.
        if let Err(refused) = self.to.try_send(exchange) {
            let reason = match refused {
                tokio::sync::mpsc::error::TrySendError::Full(_) => Reason::QueueFull,
                tokio::sync::mpsc::error::TrySendError::Closed(_) => Reason::RecorderStopped,
            };
            self.counts.skip(reason);
        }
    }
}

/// The body of an exchange that is copied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Request,
    Response,
}

/// A body that is forwarded unchanged, and copied.
#[derive(Debug)]
pub(crate) struct CopiedBody<B: Body> {
    inner: B,
    capture: Arc<Capture>,
    side: Side,
    /// The error that ended the body. A sender drops its unsent bytes when a body fails, so the
    /// error is returned one poll later, after everything before it was handed to the sender.
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
                    self.capture.counts.pass(chunk.len());
                    let is_end = self.inner.is_end_stream();
                    self.copy(|body| {
                        body.push(chunk);
                        body.is_complete |= is_end;
                    });
                } else if frame.is_trailers() {
                    // hyper does not poll a body again after its trailers.
                    self.copy(|body| body.is_complete = true);
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
            // Senders do not poll an empty body.
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
        copy.push(&[1; 60]);
        assert_eq!((copy.len(), budget.free()), (60, 40));
        copy.push(&[2; 60]);
        assert!(copy.is_over_budget);
        assert_eq!((copy.len(), budget.free()), (0, 100));
        copy.push(&[3; 10]);
        assert_eq!(copy.take_bytes(), Vec::<u8>::new(), "a copy with a gap is none");
    }

    #[test]
    fn a_copy_has_the_bytes_in_order() {
        let sizes = [1, 2, SMALL_BYTES - 3, 1, PIECE_BYTES, 3 * PIECE_BYTES + 1, 7, 500_000];
        let budget = Arc::new(Budget::new(4 << 20));
        for count in 0..=sizes.len() {
            let mut copy = BodyCopy::new(Arc::clone(&budget));
            let mut expected = Vec::new();
            for (number, size) in (0..).zip(&sizes[..count]) {
                let chunk = vec![number; *size];
                copy.push(&chunk);
                expected.extend(chunk);
                let taken = (4 << 20) - budget.free();
                assert!((expected.len()..expected.len() + PIECE_BYTES).contains(&taken), "{taken}");
            }
            assert_eq!(copy.len(), expected.len());
            assert!(copy.take_bytes() == expected, "{count}");
            assert_eq!(budget.free(), 4 << 20);
        }
    }

    #[test]
    fn memory_is_used_again_and_a_quarter_of_it_is_kept() {
        let budget = Arc::new(Budget::new(1 << 20));
        let mut copy = BodyCopy::new(Arc::clone(&budget));
        copy.push(&vec![1; 1 << 20]);
        assert_eq!((copy.is_over_budget, budget.free()), (false, 0));
        let mut refused = BodyCopy::new(Arc::clone(&budget));
        refused.push(&vec![1; SMALL_BYTES + 1]);
        assert!(refused.is_over_budget);
        drop(copy);
        assert_eq!((budget.spare().len(), budget.free()), (4, 1 << 20));
        let mut next = BodyCopy::new(Arc::clone(&budget));
        next.push(&vec![2; PIECE_BYTES]);
        assert_eq!(budget.spare().len(), 3);
        assert!(next.take_bytes() == [2; PIECE_BYTES]);
        assert_eq!(budget.spare().len(), 4);
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
