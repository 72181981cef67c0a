//! Sends one request and reads the answer, whole or as a stream, with retries.

use std::future::Future;
use std::time::Duration;

use reqwest::{Response, Url};
use tract_core::{
    Blob, CancellationToken, Clock, ModelError, PartialCall, PartialReply, Reply, ReplyDelta,
    SystemClock, unless_cancelled,
};

use super::Inner;
use super::answer::{Failed, check_calls, repeats_key};
use super::guard::PieceGuard;
use super::retry::{Retry, retry_after};
use crate::params::Params;
use crate::profile_of;
use crate::stream::Assembler;

/// Maximum number of bytes of an error's body that are read.
const ERROR_BYTES: u64 = 64 << 10;
/// Timeout for the end of a stream after its end marker. Reading to the end only allows the
/// connection to be reused.
const AFTER_THE_END: Duration = Duration::from_millis(500);

/// A request that is ready to send.
struct Wire {
    url: Url,
    body: String,
}

/// Appends a path to a base URL. Both may have a query.
pub(super) fn url_of(base: &Url, path: &str) -> Url {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    let queries = [base.query().unwrap_or_default(), query].into_iter().filter(|q| !q.is_empty());
    let query = queries.collect::<Vec<_>>().join("&");
    url.set_query((!query.is_empty()).then_some(query.as_str()));
    url
}

impl Inner {
    /// Sends a body and reads the answer: as a stream if there is a receiver, else whole.
    pub(super) async fn answer(
        &self,
        params: &Params,
        cancellation: &CancellationToken,
        mut on_piece: Option<&mut (dyn FnMut(ReplyDelta) + Send)>,
    ) -> Result<Reply, ModelError> {
        let wire = profile_of(self.settings.dialect).wire;
        let (path, body) = wire(params.clone(), on_piece.is_some(), self.settings.stream_usage);
        let sent = Wire { url: url_of(&self.base, &path), body: body.to_json() };
        let mut attempt = 0;
        loop {
            let tried = match &mut on_piece {
                Some(on_piece) => self.try_streaming(params, &sent, cancellation, *on_piece).await,
                None => self.try_whole(params, &sent, cancellation).await,
            };
            let failed = match tried {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            // Delivered parts cannot be recalled, so the request is not repeated.
            if matches!(failed.error, ModelError::BrokenOff { .. }) {
                return Err(failed.error);
            }
            attempt += 1;
            self.wait(attempt, failed, cancellation).await?;
        }
    }

    /// Waits before the next retry, or returns the error if there is none.
    async fn wait(
        &self,
        attempt: u32,
        failed: Failed,
        cancellation: &CancellationToken,
    ) -> Result<(), ModelError> {
        let Failed { error, retry_after } = failed;
        // Without random numbers all clients wait equally long, which is acceptable.
        let jitter = getrandom::u64().unwrap_or(0);
        let Some(wait) = self.settings.retry.wait(attempt, &error, retry_after, jitter) else {
            return Err(error);
        };
        if let Some(on_retry) = &self.settings.on_retry {
            on_retry(&Retry { attempt, wait, error: &error });
        }
        let sleep = async {
            tokio::time::sleep(wait).await;
            Ok(())
        };
        unless_cancelled(sleep, cancellation).await
    }

    /// Sends the request and waits for the status of the answer.
    async fn ask(&self, sent: &Wire, cancellation: &CancellationToken) -> Result<Response, Failed> {
        let request = self
            .client
            .post(sent.url.clone())
            .headers(self.headers.clone())
            .body(sent.body.clone())
            .send();
        let sent = self.within(self.settings.first_byte_timeout, request);
        let response = unless_cancelled(sent, cancellation).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, retry_after) =
            (response.status(), retry_after(response.headers(), SystemClock.now_us()));
        // The status is reported even if the body cannot be read.
        let text = self.read(response, ERROR_BYTES, cancellation).await.unwrap_or_default();
        Err(self.refused(status, &text, retry_after))
    }

    async fn within<T>(
        &self,
        timeout: Duration,
        work: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, ModelError> {
        match tokio::time::timeout(timeout, work).await {
            Ok(done) => done.map_err(|error| self.unreachable(error)),
            Err(_) => Err(ModelError::Timeout { after: timeout }),
        }
    }

    /// Waits for the next bytes.
    async fn next(
        &self,
        response: &mut Response,
        timeout: Duration,
        cancellation: &CancellationToken,
    ) -> Result<Option<Vec<u8>>, ModelError> {
        let chunk = self.within(timeout, response.chunk());
        let chunk = unless_cancelled(chunk, cancellation).await?;
        Ok(chunk.map(|bytes| bytes.to_vec()))
    }

    async fn read(
        &self,
        mut response: Response,
        limit: u64,
        cancellation: &CancellationToken,
    ) -> Result<Vec<u8>, ModelError> {
        let mut read = Vec::new();
        let mut timeout = self.settings.first_byte_timeout;
        while let Some(bytes) = self.next(&mut response, timeout, cancellation).await? {
            if (read.len() + bytes.len()) as u64 > limit {
                return Err(ModelError::TooLarge { limit_bytes: limit });
            }
            read.extend(bytes);
            timeout = self.settings.idle_timeout;
        }
        Ok(read)
    }

    async fn try_whole(
        &self,
        params: &Params,
        sent: &Wire,
        cancellation: &CancellationToken,
    ) -> Result<Reply, Failed> {
        let response = self.ask(sent, cancellation).await?;
        let received = self.read(response, self.settings.max_reply_bytes, cancellation).await?;
        Ok(self.reply(params, received)?)
    }

    /// Reads an answer that is not a stream.
    fn reply(&self, params: &Params, received: Vec<u8>) -> Result<Reply, ModelError> {
        self.check_for_key(&received)?;
        let text = tract_core::json::decode(&received).text;
        let mut reply = params.reply(&text).map_err(|error| self.unreadable(error))?;
        self.check_reply_for_key(&reply)?;
        let raw = Blob::seal(received);
        if let Err(cause) = check_calls(&reply) {
            return Err(broken_off(cause, &reply, raw));
        }
        reply.raw = Some(raw);
        Ok(reply)
    }

    async fn try_streaming(
        &self,
        params: &Params,
        sent: &Wire,
        cancellation: &CancellationToken,
        on_piece: &mut (dyn FnMut(ReplyDelta) + Send),
    ) -> Result<Reply, Failed> {
        let mut response = self.ask(sent, cancellation).await?;
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("application/json")) {
            // The server ignored the request to stream.
            let received = self.read(response, self.settings.max_reply_bytes, cancellation).await?;
            let reply = self.reply(params, received)?;
            ReplyDelta::all_of(&reply).into_iter().for_each(on_piece);
            return Ok(reply);
        }
        let assembler = params.assembler().map_err(|error| self.unreadable(error))?;
        let mut assembler = assembler.limit(self.settings.max_reply_bytes);
        let mut raw = Vec::new();
        let mut guard = PieceGuard::new(self.secrets());
        let mut guarded = |piece: ReplyDelta| guard.push(piece, on_piece);
        let read = self
            .read_chunks(&mut response, &mut assembler, &mut raw, cancellation, &mut guarded)
            .await;
        guard.end(on_piece);
        if guard.has_found() {
            return Err(repeats_key().into());
        }
        self.check_for_key(&raw)?;
        let ended = read.and_then(|()| assembler.end().map_err(ModelError::from));
        match ended {
            Ok(whole) => {
                // Again: the key may be spread over the events of the stream.
                self.check_for_key(whole.as_bytes())?;
                let mut reply = params.reply(&whole).map_err(|error| self.unreadable(error))?;
                self.check_reply_for_key(&reply)?;
                reply.raw = Some(Blob::seal(raw));
                Ok(reply)
            }
            Err(cause) => {
                let cause = self.tell(cause);
                let mut partial = assembler.partial();
                self.check_partial_for_key(&partial)?;
                if partial.is_empty() {
                    return Err(cause.into());
                }
                partial.raw = Some(Blob::seal(raw));
                let (cause, partial) = (Box::new(cause), Box::new(partial));
                Err(ModelError::BrokenOff { cause, partial }.into())
            }
        }
    }

    /// Feeds a stream to its assembler, until its end.
    async fn read_chunks(
        &self,
        response: &mut Response,
        assembler: &mut Assembler,
        raw: &mut Vec<u8>,
        cancellation: &CancellationToken,
        on_piece: &mut (dyn FnMut(ReplyDelta) + Send),
    ) -> Result<(), ModelError> {
        loop {
            let timeout = match (assembler.is_ended(), raw.is_empty()) {
                (true, _) => AFTER_THE_END.min(self.settings.idle_timeout),
                (false, true) => self.settings.first_byte_timeout,
                (false, false) => self.settings.idle_timeout,
            };
            let bytes = match self.next(response, timeout, cancellation).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Ok(()),
                // The answer is complete, so an error of the connection is ignored.
                Err(_) if assembler.is_ended() => return Ok(()),
                Err(error) => return Err(error),
            };
            let longest = usize::try_from(self.settings.max_reply_bytes).unwrap_or(usize::MAX);
            // Bytes after the end must not make a complete answer too large.
            if assembler.is_ended() && raw.len() + bytes.len() > longest {
                return Ok(());
            }
            raw.extend_from_slice(&bytes);
            assembler.push(&bytes, &mut |piece| on_piece(piece))?;
        }
    }
}

/// Makes the error of an answer whose calls were cut off.
fn broken_off(cause: ModelError, reply: &Reply, raw: Blob) -> ModelError {
    let mut partial = PartialReply::new(reply.text());
    for call in reply.calls() {
        let whole = crate::raw::is_object(call.arguments.trim());
        partial = partial.call(call.clone(), whole);
    }
    partial.usage = reply.usage;
    partial.model.clone_from(&reply.model);
    partial.id.clone_from(&reply.id);
    partial.raw = Some(raw);
    debug_assert!(partial.calls.iter().any(|PartialCall { whole, .. }| !whole));
    ModelError::BrokenOff { cause: Box::new(cause), partial: Box::new(partial) }
}
