//! The hits of a grep as a stream.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::{Grep, GrepHit};
use crate::repo::error::Result;

type Page = (Box<Grep>, Result<Option<Vec<GrepHit>>>);

/// A stream of hits. It ends after the first error.
pub struct GrepStream {
    ready: VecDeque<GrepHit>,
    /// The grep, while no page is being searched.
    idle: Option<Box<Grep>>,
    running: Option<Pin<Box<dyn Future<Output = Page> + Send>>>,
}

impl GrepStream {
    pub(super) fn new(grep: Grep) -> Self {
        Self { ready: VecDeque::new(), idle: Some(Box::new(grep)), running: None }
    }
}

impl fmt::Debug for GrepStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrepStream").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

impl Stream for GrepStream {
    type Item = Result<GrepHit>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(hit) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(hit)));
            }
            if let Some(mut grep) = self.idle.take() {
                self.running = Some(Box::pin(async move {
                    let hits = grep.next_hits().await;
                    (grep, hits)
                }));
            }
            let Some(running) = &mut self.running else { return Poll::Ready(None) };
            let Poll::Ready((grep, hits)) = running.as_mut().poll(context) else {
                return Poll::Pending;
            };
            self.running = None;
            match hits {
                Ok(Some(hits)) => {
                    self.ready.extend(hits);
                    self.idle = Some(grep);
                }
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}
