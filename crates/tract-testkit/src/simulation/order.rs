//! The order in which clients run.

use super::case::Case;
use super::random::Random;

/// Chooses the client of each store call.
pub(super) struct Order {
    random: Random,
    priorities: Option<Priorities>,
}

/// Ranks of clients: the ready client with the highest one runs.
struct Priorities {
    /// By client.
    ranks: Vec<u64>,
    /// One in this many calls changes the rank of its client.
    change: usize,
}

impl Order {
    pub(super) fn of(case: &Case, clients: usize) -> Self {
        let mut random = Random::new(case.order);
        let priorities = case.has_priorities().then(|| Priorities {
            ranks: (0..clients).map(|_| random.next()).collect(),
            change: 4 << random.below(5),
        });
        Self { random, priorities }
    }

    /// Returns one of the clients that can run; `None` if there is none.
    pub(super) fn next(&mut self, ready: &[usize]) -> Option<usize> {
        let Some(Priorities { ranks, change }) = &mut self.priorities else {
            return self.random.choose(ready).copied();
        };
        let rank = |client: &usize| ranks.get(*client).copied();
        let next = ready.iter().copied().max_by_key(rank)?;
        if self.random.below(*change) == 0
            && let Some(rank) = ranks.get_mut(next)
        {
            *rank = self.random.next();
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_pauses_for_many_calls_by_priorities_only() {
        let longest = |seed: u64| {
            let mut order = Order::of(&Case::new(seed), 3);
            let mut since = [0; 3];
            let mut longest = 0;
            for _ in 0..200 {
                let next = order.next(&[0, 1, 2]).expect("all are ready");
                since.iter_mut().for_each(|calls| *calls += 1);
                longest = longest.max(std::mem::take(&mut since[next]));
            }
            longest
        };
        let pauses = |first: u64| (first..first + 100).filter(|seed| longest(*seed) > 40).count();
        assert!(pauses(0) < 5);
        assert!(pauses(Case::PRIORITIES) > 50);
    }
}
