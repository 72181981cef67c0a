//! Atomic streams: all lines are applied, or none.

use std::borrow::Cow;

use tract_core::CommitId;
use tract_core::stream::StreamOp;

use super::{ApplyEvent, Stream, StreamLine};
use crate::repo::batch::require_done;
use crate::repo::error::{Error, LineError, Result};

/// Default limit for the lines, and for the objects made from them, that are kept in memory, in
/// bytes.
pub(super) const HELD_BYTES: usize = 8 << 20;

/// An applied line that is answered once it is durable.
struct DoneLine {
    line: usize,
    mark: Option<Box<str>>,
    commit: Option<CommitId>,
}

/// All lines so far, to be applied again after a lost race; none once they exceed the limit.
#[derive(Default)]
struct HeldLines {
    steps: Vec<(usize, StreamOp)>,
    bytes: usize,
    is_over: bool,
}

impl HeldLines {
    fn release(&mut self) {
        self.is_over = true;
        self.steps = Vec::new();
    }
}

impl Stream {
    /// Applies and answers all lines, or refuses one line and applies none.
    pub(super) async fn all_or_none(
        &mut self,
        lines: impl Iterator<Item = StreamLine>,
        held_bytes: usize,
        answer: &mut impl FnMut(ApplyEvent),
    ) -> Result<()> {
        let before = self.state.clone();
        match self.every(lines, held_bytes).await? {
            Ok(done) => {
                for DoneLine { line, mark, commit } in done {
                    answer(ApplyEvent { line, mark: mark.map(String::from), result: Ok(commit) });
                }
            }
            Err(refused) => {
                self.roll_back(&before);
                answer(refused);
            }
        }
        Ok(())
    }

    async fn every(
        &mut self,
        lines: impl Iterator<Item = StreamLine>,
        held_bytes: usize,
    ) -> Result<Result<Vec<DoneLine>, ApplyEvent>> {
        let before = self.state.clone();
        let mut held = HeldLines::default();
        let mut done = Vec::new();
        for StreamLine { line, step, bytes, .. } in lines {
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    return Ok(Err(ApplyEvent { line, mark: None, result: Err(error) }));
                }
            };
            held.bytes += bytes;
            if held.bytes > held_bytes {
                held.release();
            }
            let outcome = if held.is_over {
                self.carry_out_line(line, Cow::Owned(step)).await?
            } else {
                let outcome = self.carry_out_line(line, Cow::Borrowed(&step)).await?;
                held.steps.push((line, step));
                outcome
            };
            match outcome {
                Ok(one) => done.push(one),
                Err(refused) => return Ok(Err(refused)),
            }
            if self.overlay.bytes() > held_bytes {
                held.release();
                self.overlay.stage(self.note(), &self.operation, &self.lease).await?;
                // Stored objects cannot be rolled back by a later line.
                self.settle();
            }
        }
        let mut races = self.repo.races();
        loop {
            let applied = self.flush().await?;
            if applied.is_stored() {
                return Ok(Ok(done));
            }
            // Lines that were released cannot be planned again, so the first lost race ends such a
            // stream.
            let over =
                if held.is_over { require_done(applied).err() } else { races.lose().await.err() };
            if let Some(over) = over {
                if !matches!(over, Error::KeptMoving { .. } | Error::Conflict { .. }) {
                    return Err(over);
                }
                // No single line is at fault, so the first one is refused on behalf of all.
                let first = done.into_iter().next();
                let (line, mark) = first.map_or((1, None), |first| (first.line, first.mark));
                let (mark, result) = (mark.map(String::from), Err(LineError::Engine(over)));
                return Ok(Err(ApplyEvent { line, mark, result }));
            }
            // The commits get new ids on the new head, so marks and answers of the first try are
            // dropped.
            self.roll_back(&before);
            done.clear();
            for (line, step) in &held.steps {
                match self.carry_out_line(*line, Cow::Borrowed(step)).await? {
                    Ok(one) => done.push(one),
                    Err(refused) => return Ok(Err(refused)),
                }
            }
        }
    }

    async fn carry_out_line(
        &mut self,
        line: usize,
        step: Cow<'_, StreamOp>,
    ) -> Result<Result<DoneLine, ApplyEvent>> {
        self.place = line;
        let mark = step.mark.clone();
        Ok(match self.step(step).await? {
            Ok(commit) => Ok(DoneLine { line, mark: mark.map(String::into_boxed_str), commit }),
            Err(error) => Err(ApplyEvent { line, mark, result: Err(error) }),
        })
    }
}
