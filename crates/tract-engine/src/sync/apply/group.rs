//! Groups: lines that share a durable write.

use std::borrow::Cow;
use std::collections::VecDeque;

use tract_core::stream::StreamOp;
use tract_core::{Applied, StoreError, StoreErrorKind};

use super::{ApplyEvent, ApplyOptions, Stream, StreamLine, ends_the_run, speaks_of_the_line};
use crate::repo::batch::require_done;
use crate::repo::error::{Error, LineError, Result};

/// Maximum number of lines in a group without a fixed size. Their answers wait for each other, and
/// all of them are planned again after a lost race.
const MOST_LINES: usize = 512;

/// Size in bytes from which on a line is applied on its own, so that only one copy of it is in
/// memory.
const LARGE_BYTES: usize = 1 << 20;

/// Approximate size of the lines of a group, in bytes.
const GROUP_BYTES: usize = 8 << 20;

/// Reads the lines of the next group if the last one is used up. Without a fixed size, the group is
/// one line, which may have to be waited for, and the lines that arrived with it.
pub(super) fn fill(
    group: &mut VecDeque<StreamLine>,
    lines: &mut impl Iterator<Item = StreamLine>,
    options: &ApplyOptions,
) {
    if !group.is_empty() {
        return;
    }
    let mut bytes = 0;
    while group.len() < options.batch.map_or(MOST_LINES, |lines| lines.max(1)) {
        let Some(line) = lines.next() else { break };
        bytes += line.bytes;
        let is_full = line.bytes >= LARGE_BYTES || bytes >= GROUP_BYTES;
        let is_last = options.batch.is_none() && (!line.followed || is_full);
        group.push_back(line);
        if is_last {
            break;
        }
    }
}

impl Stream {
    /// Applies the first lines of a group in one durable write: all of them, unless a race or a
    /// refusal makes it retry with fewer. Removes them from the group and returns their outcomes.
    pub(super) async fn group(
        &mut self,
        lines: &mut VecDeque<StreamLine>,
        options: &ApplyOptions,
    ) -> Result<Vec<ApplyEvent>> {
        if let Some(event) = self.large(lines).await? {
            return Ok(vec![event]);
        }
        // The state after the last durable group. Every retry starts from it, since none of this
        // group is stored.
        let before = self.state.clone();
        let mut races = self.repo.races();
        let mut most = lines.len();
        loop {
            let mut events = Vec::with_capacity(most);
            for (place, line) in lines.iter().take(most).enumerate() {
                self.place = place;
                let (mark, result) = match &line.step {
                    Ok(step) => (step.mark.clone(), self.step(Cow::Borrowed(step)).await?),
                    // The line's own error is filled in once the group is durable.
                    Err(_) => (None, Ok(None)),
                };
                let ends = match &line.step {
                    Ok(_) => ends_the_run(&result, options),
                    Err(_) => !options.keep_going,
                };
                events.push(ApplyEvent { line: line.line, mark, result });
                // Later lines of this group are not applied, but the ones before are flushed and
                // answered.
                if ends {
                    break;
                }
            }
            match self.flush().await {
                Ok(Applied::Done | Applied::Already) => {
                    let carried = lines.drain(..events.len());
                    for (event, line) in events.iter_mut().zip(carried) {
                        if let Err(error) = line.step {
                            event.result = Err(error);
                        }
                    }
                    return Ok(events);
                }
                Ok(Applied::Conflict(_) | Applied::Moved(_)) => {
                    self.roll_back(&before);
                    if let Err(over) = races.lose().await {
                        return outrun(over, lines.drain(..most), options);
                    }
                    // Retry with fewer lines: another busy writer leaves little time between its
                    // writes.
                    if options.batch.is_none() {
                        most = most.div_ceil(2);
                    }
                }
                // One of the lines is rejected by the store. Halve the group until it is found, so
                // that the others are still applied.
                Err(Error::Store(error)) if most > 1 && speaks_of_the_line(&error) => {
                    self.roll_back(&before);
                    most = most.div_ceil(2);
                }
                // A single line: its bytes are erased and banned, or too large for the store.
                Err(Error::Store(error)) if is_refused(&error) => {
                    self.roll_back(&before);
                    let Some(line) = lines.pop_front() else { return Err(error.into()) };
                    return Ok(vec![refused(line, error)]);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Applies a large line on its own. Its content is moved instead of copied, so that it is in
    /// memory only once.
    async fn large(&mut self, lines: &mut VecDeque<StreamLine>) -> Result<Option<ApplyEvent>> {
        let has_content = |step: &StreamOp| step.op.adds_message() || step.recorded.is_some();
        let is_large = |line: &StreamLine| {
            line.bytes >= LARGE_BYTES && line.step.as_ref().is_ok_and(has_content)
        };
        if lines.len() != 1 || !lines.front().is_some_and(is_large) {
            return Ok(None);
        }
        let Some(StreamLine { line, step: Ok(step), .. }) = lines.pop_front() else {
            return Ok(None);
        };
        let mark = step.mark.clone();
        let result = if step.recorded.is_some() {
            let before = self.state.clone();
            let result = self.step(Cow::Owned(step)).await?;
            match self.flush().await {
                Ok(applied) => {
                    // A record moves no ref, so it cannot lose a race.
                    require_done(applied)?;
                    result
                }
                Err(Error::Store(error)) if is_refused(&error) => {
                    self.roll_back(&before);
                    Err(LineError::Engine(Error::Store(error)))
                }
                Err(error) => return Err(error),
            }
        } else {
            // Write directly instead of through the overlay, because the write can retry from the
            // sealed content without a copy of the line.
            let stored = self.stored.clone();
            let done = self.added(&stored, Cow::Owned(step)).await;
            self.answer(mark.clone(), done.map(Some))?
        };
        self.settle();
        Ok(Some(ApplyEvent { line, mark, result }))
    }
}

/// Returns whether the store rejected the bytes of a line. The store and the lines before it are
/// fine, so the stream may continue.
fn is_refused(error: &StoreError) -> bool {
    matches!(error.kind, StoreErrorKind::Erased { .. } | StoreErrorKind::TooLarge)
}

/// Creates the outcome of a line that the store rejected.
fn refused(line: StreamLine, error: StoreError) -> ApplyEvent {
    let mark = line.step.ok().and_then(|step| step.mark);
    let result = Err(LineError::Engine(Error::Store(error)));
    ApplyEvent { line: line.line, mark, result }
}

/// Refuses lines whose refs kept moving: all of them if the stream continues after a refused line,
/// else only the first.
fn outrun(
    over: Error,
    lines: impl ExactSizeIterator<Item = StreamLine>,
    options: &ApplyOptions,
) -> Result<Vec<ApplyEvent>> {
    let Error::KeptMoving { attempts } = over else { return Err(over) };
    let most = if options.keep_going { lines.len() } else { 1 };
    let event = |line: StreamLine| {
        let (mark, error) = match line.step {
            Ok(step) => (step.mark, LineError::Engine(Error::KeptMoving { attempts })),
            Err(error) => (None, error),
        };
        ApplyEvent { line: line.line, mark, result: Err(error) }
    };
    Ok(lines.take(most).map(event).collect())
}
