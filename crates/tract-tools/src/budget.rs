//! Budgets, and the count of spending against them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tract_core::{Clock, SystemClock, Usage};

/// Limits on spending: at least one, and each above zero.
///
/// ```
/// use tract_tools::budget::{Budget, BudgetError};
/// let budget = Budget { total_tokens: Some(100_000), calls: Some(50), ..Budget::default() };
/// assert!(budget.check().is_ok());
/// assert_eq!(Budget::default().check(), Err(BudgetError::NoLimit));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Deadline in microseconds since 1970 UTC.
    pub deadline_us: Option<i64>,
    /// Maximum number of tokens in requests.
    pub input_tokens: Option<u64>,
    /// Maximum number of tokens in replies.
    pub output_tokens: Option<u64>,
    /// Maximum number of tokens in both together.
    pub total_tokens: Option<u64>,
    /// Maximum number of tool calls.
    pub calls: Option<u64>,
    /// Maximum cost in millionths of the host's currency.
    pub cost_micros: Option<u64>,
}

impl Budget {
    /// Creates a budget without limits. It is valid only once a limit is set.
    pub const fn new() -> Self {
        Self {
            deadline_us: None,
            input_tokens: None,
            output_tokens: None,
            total_tokens: None,
            calls: None,
            cost_micros: None,
        }
    }

    /// Checks that it has a limit, and that no limit is zero.
    ///
    /// # Errors
    /// [`BudgetError`].
    pub fn check(&self) -> Result<(), BudgetError> {
        let limits = self.limits();
        if self.deadline_us.is_none() && limits.iter().all(|(_, limit)| limit.is_none()) {
            return Err(BudgetError::NoLimit);
        }
        match limits.into_iter().find(|(_, limit)| *limit == Some(0)) {
            Some((dimension, _)) => Err(BudgetError::Zero(dimension)),
            None => Ok(()),
        }
    }

    /// Returns the limits in the order in which they are reported.
    fn limits(&self) -> [(Dimension, Option<u64>); 5] {
        [
            (Dimension::InputTokens, self.input_tokens),
            (Dimension::OutputTokens, self.output_tokens),
            (Dimension::TotalTokens, self.total_tokens),
            (Dimension::Calls, self.calls),
            (Dimension::Cost, self.cost_micros),
        ]
    }
}

/// An error of an invalid budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// It has no limit.
    #[error("expected at least one limit in a budget, found none")]
    NoLimit,
    /// One of its limits is zero.
    #[error("expected a limit of {0} above 0, found 0")]
    Zero(Dimension),
}

/// A quantity that a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Time.
    Deadline,
    /// Tokens of requests.
    InputTokens,
    /// Tokens of replies.
    OutputTokens,
    /// Tokens of both.
    TotalTokens,
    /// Tool calls.
    Calls,
    /// Cost, in millionths.
    Cost,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "time",
            Self::InputTokens => "input tokens",
            Self::OutputTokens => "output tokens",
            Self::TotalTokens => "tokens",
            Self::Calls => "tool calls",
            Self::Cost => "cost in millionths",
        })
    }
}

/// The error of an exceeded budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetExceeded {
    /// The deadline has passed.
    #[error("the budget has no time left")]
    Deadline,
    /// A limit is exceeded.
    #[error("expected at most {limit} {dimension}, found {spent}")]
    Spent {
        /// The limited quantity.
        dimension: Dimension,
        /// The limit.
        limit: u64,
        /// The amount that was spent, or would be with the call.
        spent: u64,
    },
}

impl BudgetExceeded {
    /// Returns the quantity that was exceeded.
    pub fn dimension(&self) -> Dimension {
        match self {
            Self::Deadline => Dimension::Deadline,
            Self::Spent { dimension, .. } => *dimension,
        }
    }
}

/// The amounts that were spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Tokens of requests.
    pub input_tokens: u64,
    /// Tokens of replies.
    pub output_tokens: u64,
    /// Tool calls.
    pub calls: u64,
    /// Cost, in millionths of the host's currency.
    pub cost_micros: u64,
}

impl Spent {
    fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            calls: self.calls.saturating_add(other.calls),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }

    fn of(self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Deadline => 0,
            Dimension::InputTokens => self.input_tokens,
            Dimension::OutputTokens => self.output_tokens,
            Dimension::TotalTokens => self.input_tokens.saturating_add(self.output_tokens),
            Dimension::Calls => self.calls,
            Dimension::Cost => self.cost_micros,
        }
    }
}

/// Counts spending against a budget, also for several evaluations at once.
///
/// # Behavior
/// - A limit is exceeded when more than the limit is spent; spending exactly the limit is allowed.
/// - If several limits are exceeded, the first is reported, in the order time, input, output,
///   total, calls, cost.
///
/// ```
/// use tract_core::Usage;
/// use tract_tools::budget::{Budget, BudgetTracker};
/// let tracker = BudgetTracker::new(Budget { total_tokens: Some(100), ..Budget::default() })?;
/// tracker.usage("main", Usage::new(60, 40));
/// assert!(tracker.check().is_ok());
/// tracker.usage("summary", Usage::new(1, 0));
/// assert_eq!(tracker.check().unwrap_err().to_string(), "expected at most 100 tokens, found 101");
/// # Ok::<(), tract_tools::budget::BudgetError>(())
/// ```
pub struct BudgetTracker {
    budget: Budget,
    clock: Box<dyn Clock>,
    spent: Mutex<BTreeMap<String, Spent>>,
}

impl fmt::Debug for BudgetTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetTracker")
            .field("budget", &self.budget)
            .field("spent", &self.spent())
            .finish_non_exhaustive()
    }
}

impl BudgetTracker {
    /// Creates a tracker that has counted nothing yet.
    ///
    /// # Errors
    /// [`BudgetError`] if the budget has no limit, or a limit of zero.
    pub fn new(budget: Budget) -> Result<Self, BudgetError> {
        budget.check()?;
        Ok(Self { budget, clock: Box::new(SystemClock), spent: Mutex::default() })
    }

    /// Sets the clock that the deadline is compared with.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Returns the budget.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Spent>> {
        // Every change under this lock replaces one entry, so the map stays consistent after a
        // panic.
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, evaluation: &str, change: impl FnOnce(Spent) -> Spent) {
        let mut all = self.all();
        let spent = all.entry(evaluation.to_owned()).or_default();
        *spent = change(*spent);
    }

    /// Adds the tokens of one request and its reply to an evaluation.
    pub fn usage(&self, evaluation: &str, usage: Usage) {
        let more = Spent {
            input_tokens: usage.input_tokens.unwrap_or(0),
            output_tokens: usage.output_tokens.unwrap_or(0),
            ..Spent::default()
        };
        self.change(evaluation, |spent| spent.plus(more));
    }

    /// Replaces the tokens of an evaluation by a running total, as some providers report it.
    pub fn usage_so_far(&self, evaluation: &str, usage: Usage) {
        self.change(evaluation, |spent| Spent {
            input_tokens: usage.input_tokens.unwrap_or(spent.input_tokens),
            output_tokens: usage.output_tokens.unwrap_or(spent.output_tokens),
            ..spent
        });
    }

    /// Adds a cost in millionths to an evaluation.
    pub fn cost(&self, evaluation: &str, micros: u64) {
        let more = Spent { cost_micros: micros, ..Spent::default() };
        self.change(evaluation, |spent| spent.plus(more));
    }

    /// Counts a tool call that is about to run.
    ///
    /// # Errors
    /// [`BudgetExceeded`] if a limit is exceeded already, or would be with this call, which is then
    /// not counted.
    pub fn call(&self, evaluation: &str) -> Result<(), BudgetExceeded> {
        // Checked and counted under one lock, so that parallel calls cannot exceed the limit
        // together.
        let one = Spent { calls: 1, ..Spent::default() };
        let mut all = self.all();
        self.held(total(&all).plus(one))?;
        let spent = all.entry(evaluation.to_owned()).or_default();
        *spent = spent.plus(one);
        Ok(())
    }

    /// Returns the total spent by all evaluations.
    pub fn spent(&self) -> Spent {
        total(&self.all())
    }

    /// Returns the amounts spent by one evaluation.
    pub fn spent_by(&self, evaluation: &str) -> Spent {
        self.all().get(evaluation).copied().unwrap_or_default()
    }

    /// Checks that no limit is exceeded.
    ///
    /// # Errors
    /// [`BudgetExceeded`] with the first limit that is exceeded.
    pub fn check(&self) -> Result<(), BudgetExceeded> {
        self.held(self.spent())
    }

    fn held(&self, spent: Spent) -> Result<(), BudgetExceeded> {
        if self.budget.deadline_us.is_some_and(|deadline| self.clock.now_us() > deadline) {
            return Err(BudgetExceeded::Deadline);
        }
        let exceeded = self.budget.limits().into_iter().find_map(|(dimension, limit)| {
            let (limit, spent) = (limit?, spent.of(dimension));
            (spent > limit).then_some(BudgetExceeded::Spent { dimension, limit, spent })
        });
        exceeded.map_or(Ok(()), Err)
    }
}

fn total(all: &BTreeMap<String, Spent>) -> Spent {
    all.values().copied().fold(Spent::default(), Spent::plus)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tract_core::ManualClock;

    use super::*;

    #[test]
    fn a_limit_is_exceeded_only_above_it_and_reported_in_order() {
        let clock = ManualClock::at_us(1_000);
        let budget = Budget {
            deadline_us: Some(2_000),
            input_tokens: Some(10),
            output_tokens: Some(5),
            total_tokens: Some(15),
            cost_micros: Some(7),
            ..Budget::default()
        };
        let tracker = BudgetTracker::new(budget).unwrap().clock(clock.clone());
        tracker.usage("a", Usage::new(6, 5));
        tracker.usage("b", Usage::new(4, 0));
        tracker.cost("b", 7);
        assert_eq!(tracker.check(), Ok(()), "all limits are reached, none is exceeded");
        let wanted = [
            (Dimension::Cost, 0, 0, 1),
            (Dimension::OutputTokens, 0, 1, 0),
            (Dimension::InputTokens, 1, 0, 0),
        ];
        for (dimension, input, output, cost) in wanted {
            tracker.usage("c", Usage::new(input, output));
            tracker.cost("c", cost);
            assert_eq!(tracker.check().unwrap_err().dimension(), dimension);
        }
        clock.advance(Duration::from_micros(1_000));
        assert_eq!(tracker.check().unwrap_err().dimension(), Dimension::InputTokens);
        clock.advance(Duration::from_micros(1));
        assert_eq!(tracker.check(), Err(BudgetExceeded::Deadline));
    }

    #[test]
    fn calls_are_counted_before_they_run_and_running_totals_replace() {
        let tracker = BudgetTracker::new(Budget {
            calls: Some(2),
            total_tokens: Some(9),
            ..Budget::default()
        })
        .unwrap();
        assert_eq!((tracker.call("a"), tracker.call("b")), (Ok(()), Ok(())));
        let refused = tracker.call("a").unwrap_err();
        assert_eq!(refused.to_string(), "expected at most 2 tool calls, found 3");
        assert_eq!(tracker.spent().calls, 2, "what was refused is not counted");
        tracker.usage_so_far("a", Usage::new(4, 1));
        tracker.usage_so_far("a", Usage::new(6, 3));
        assert_eq!(tracker.check(), Ok(()));
        assert_eq!(tracker.spent_by("a").input_tokens, 6);
    }

    #[test]
    fn a_budget_limits_something_to_something() {
        assert_eq!(BudgetTracker::new(Budget::default()).err(), Some(BudgetError::NoLimit));
        let zero = BudgetTracker::new(Budget { calls: Some(0), ..Budget::default() }).err();
        assert_eq!(zero, Some(BudgetError::Zero(Dimension::Calls)));
    }
}
