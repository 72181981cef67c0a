//! Retries after races that a write lost to other writers.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use tract_core::{Applied, ObjectId};

use crate::repo::Repo;
use crate::repo::error::gone::gone;
use crate::repo::error::{Error, Result};
use crate::repo::heads::sleep;

/// Upper bound of the first pause, after the second lost race. It doubles with each loss, up to
/// `LONGEST_PAUSE`. Each pause lasts a random part of its bound, so that writers that collided once
/// do not collide again.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The races that one write lost. Retries are bounded by time, not by number: the number of losses
/// depends on how busy the branch is, and does not predict the next try.
#[derive(Debug)]
pub struct Races {
    limit: Duration,
    first: Option<Instant>,
    lost: usize,
}

impl Races {
    /// Starts counting the lost races of a write that is retried for up to `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, first: None, lost: 0 }
    }

    /// Returns the number of lost races.
    pub(crate) fn lost(&self) -> usize {
        self.lost
    }

    /// Returns whether the time for retries is up.
    pub(crate) fn is_over(&self) -> bool {
        self.first.is_some_and(|first| first.elapsed() >= self.limit)
    }

    /// Counts a lost race and pauses before the next try. The first loss causes no pause.
    ///
    /// # Errors
    /// [`Error::KeptMoving`] when the time is up.
    pub async fn lose(&mut self) -> Result<()> {
        let first = *self.first.get_or_insert_with(Instant::now);
        self.lost += 1;
        if self.lost == 1 {
            return Ok(());
        }
        let left = self.limit.saturating_sub(first.elapsed());
        if left.is_zero() {
            return Err(Error::KeptMoving { attempts: self.lost });
        }
        // At least 2 losses here, since the first one returned. The bound of the shift only
        // prevents an overflow; `LONGEST_PAUSE` is reached after five doublings.
        let doublings = u32::try_from(self.lost - 2).unwrap_or(u32::MAX).min(16);
        let most = (PAUSE * 2u32.pow(doublings)).min(LONGEST_PAUSE).min(left);
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        // Each `RandomState` has its own keys, which is random enough for a pause.
        let random = RandomState::new().hash_one(self.lost);
        sleep(Duration::from_nanos(random % nanos.max(1))).await;
        Ok(())
    }

    /// Returns whether a write went through. If not, counts a lost race and waits, as
    /// [`lose`](Self::lose) does.
    ///
    /// # Errors
    /// [`Error::KeptMoving`] when the time is up.
    pub(crate) async fn won(&mut self, applied: Applied) -> Result<bool> {
        match applied {
            Applied::Done | Applied::Already => Ok(true),
            Applied::Conflict(_) | Applied::Moved(_) => self.lose().await.map(|()| false),
        }
    }
}

/// Number of times that one object may be missing before it counts as lost. An object that is
/// collected or erased while it is read is not requested again.
const GONE: usize = 2;

/// The attempts of an operation that reads a repository while others erase and collect there. Each
/// attempt starts with the current refs.
#[derive(Debug)]
pub struct Attempts {
    races: Races,
    gone: Option<(ObjectId, usize)>,
}

impl Attempts {
    /// Starts counting the attempts to write to a repository, or to read it.
    pub fn new(repo: &Repo) -> Self {
        Self { races: Races::new(repo.retry_for()), gone: None }
    }

    /// Returns if another attempt makes sense after an error: an object that was needed is gone.
    ///
    /// # Errors
    /// The given error if another attempt would not help; [`Error::KeptMoving`] when the time for
    /// attempts is up.
    pub async fn again(&mut self, error: Error) -> Result<()> {
        let Some(object) = gone(&error) else { return Err(error) };
        let times = match self.gone {
            Some((before, times)) if before == object => times + 1,
            Some(_) | None => 1,
        };
        self.gone = Some((object, times));
        if times > GONE {
            return Err(error);
        }
        // When the time is up, report an object that was missing each time rather than the race.
        self.races.lose().await.map_err(|lost| if times > 1 { error } else { lost })
    }

    /// Returns the number of attempts that failed.
    pub(crate) fn lost(&self) -> usize {
        self.races.lost()
    }

    /// Returns whether the time for attempts is up.
    pub(crate) fn is_over(&self) -> bool {
        self.races.is_over()
    }

    /// Counts a lost race and pauses before the next attempt.
    ///
    /// # Errors
    /// [`Error::KeptMoving`] when the time is up.
    pub(crate) async fn lose(&mut self) -> Result<()> {
        self.races.lose().await
    }

    /// Returns whether a write went through. If not, counts a lost race and waits. A write also
    /// reads, to find erased messages that it would show again.
    ///
    /// # Errors
    /// As [`again`](Self::again), and any other error of the write.
    pub(crate) async fn won(&mut self, applied: Result<Applied>) -> Result<bool> {
        match applied {
            Ok(applied) => self.races.won(applied).await,
            Err(error) => self.again(error).await.map(|()| false),
        }
    }
}
