//! Groups: lines that share one durable write.

use std::borrow::Cow;
use std::collections::VecDeque;

use tract_core::step::StreamOp;
use tract_core::{Applied, StoreError, StoreErrorKind};

use super::{ApplyEvent, ApplyOptions, Stream, StreamLine, ends_the_run, speaks_of_the_line};
use crate::repo::error::{Error, LineError, Result};

/// Lines in a group whose size the stream itself determines, at most. Their answers wait for each
/// other, and all are planned again after a lost race.
const MOST_LINES: usize = 512;

/// Bytes of a line from which on it is carried out by itself, and not kept in memory meanwhile.
const LARGE_BYTES: usize = 1 << 20;

/// Bytes of the lines of such a group, about.
const GROUP_BYTES: usize = 8 << 20;

/// Reads the lines of the next group, when none are left of the last one. Without a set size these
/// are one line, which may have to be waited for, and those that arrived with it.
pub(super) fn fill(
    group: &mut VecDeque<StreamLine>,
    lines: &mut impl Iterator<Item = StreamLine>,
    options: &ApplyOptions,
) {
    if !group.is_empty() {
        return;
    }
    let mut bytes = 0;
    while group.len() < options.batch.unwrap_or(MOST_LINES) {
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
    /// Carries out the first lines of a group as one durable write, all of them where nothing
    /// hinders it; takes them from the group, and says what became of each.
    pub(super) async fn group(
        &mut self,
        lines: &mut VecDeque<StreamLine>,
        options: &ApplyOptions,
    ) -> Result<Vec<ApplyEvent>> {
        if let Some(event) = self.large(lines).await? {
            return Ok(vec![event]);
        }
        let before = self.state.clone();
        let mut races = self.repo.races();
        let mut most = lines.len();
        loop {
            let mut events = Vec::with_capacity(most);
            for (place, line) in lines.iter().take(most).enumerate() {
                self.place = place;
                let (mark, result) = match &line.step {
                    Ok(step) => (step.mark.clone(), self.step(Cow::Borrowed(step)).await?),
                    // The error itself is put in once the group is done.
                    Err(_) => (None, Ok(None)),
                };
                let ends = match &line.step {
                    Ok(_) => ends_the_run(&result, options),
                    Err(_) => !options.keep_going,
                };
                events.push(ApplyEvent { line: line.line, mark, result });
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
                Ok(Applied::Conflict(_)) => {
                    self.roll_back(&before);
                    if let Err(over) = races.lose().await {
                        return outrun(over, lines.drain(..most), options);
                    }
                    // Less to plan again: another writer leaves little time between its writes.
                    if options.batch.is_none() {
                        most = most.div_ceil(2);
                    }
                }
                // One of the lines asks for what the store refuses, and takes no other with it.
                Err(Error::Store(error)) if most > 1 && speaks_of_the_line(&error) => {
                    self.roll_back(&before);
                    most = most.div_ceil(2);
                }
                // A single line, with bytes that are erased and banned.
                Err(Error::Store(error)) if is_erased(&error) => {
                    self.roll_back(&before);
                    let Some(line) = lines.pop_front() else { return Err(error.into()) };
                    return Ok(vec![refused(line, error)]);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Carries out a large line that is alone: what it says is in memory once, and is given away.
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
                Ok(Applied::Done | Applied::Already) => result,
                // It moves no ref, so there is no race to lose.
                Ok(Applied::Conflict(conflict)) => return Err(conflict.into()),
                Err(Error::Store(error)) if is_erased(&error) => {
                    self.roll_back(&before);
                    Err(LineError::Engine(Error::Store(error)))
                }
                Err(error) => return Err(error),
            }
        } else {
            // Nothing is held back, so that the write itself can plan again from what it sealed.
            let stored = self.stored.clone();
            let done = self.added(&stored, Cow::Owned(step)).await;
            self.answer(mark.clone(), done.map(Some))?
        };
        self.settle();
        Ok(Some(ApplyEvent { line, mark, result }))
    }
}

fn is_erased(error: &StoreError) -> bool {
    matches!(error.kind, StoreErrorKind::Erased { .. })
}

/// Refuses a line that the store refused.
fn refused(line: StreamLine, error: StoreError) -> ApplyEvent {
    let mark = line.step.ok().and_then(|step| step.mark);
    let result = Err(LineError::Engine(Error::Store(error)));
    ApplyEvent { line: line.line, mark, result }
}

/// Refuses lines whose refs kept moving: the first, or all where the stream continues after a
/// refused line.
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
