//! A case: the steps of the clients of a schedule, and their order.

use std::fmt;
use std::str::FromStr;

use super::random::Random;
use super::verb::Verb;

/// A schedule: a seed that determines everything, and the selected steps.
///
/// A failure prints it as a text that [`FromStr`] reads: `17` is the whole schedule of a seed;
/// `17/4:0,3;2` is the schedule that keeps steps 0 and 3 of the first client and step 2 of the
/// second, run in the order of seed 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The seed of the clients and their steps.
    pub seed: u64,
    /// The seed of the order in which they run.
    pub order: u64,
    /// The selected steps of each client; all if absent.
    pub kept: Option<Vec<Vec<usize>>>,
}

impl Case {
    /// The first seed whose schedules run by [priorities](Self::has_priorities).
    pub const PRIORITIES: u64 = 1 << 40;

    /// Makes the whole schedule of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, order: seed, kept: None }
    }

    /// Returns whether clients run by priorities that change now and then, so that one client may
    /// pause for many calls of the others. Otherwise each call is that of a random client.
    pub fn has_priorities(&self) -> bool {
        self.order >= Self::PRIORITIES
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        let Some(kept) = &self.kept else { return Ok(()) };
        let steps =
            |steps: &Vec<usize>| steps.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let clients: Vec<String> = kept.iter().map(steps).collect();
        write!(f, "/{}:{}", self.order, clients.join(";"))
    }
}

/// A text that is not a case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a case such as 17 or 17/4:0,3;2, found {found:?}")]
pub struct ParseCaseError {
    /// The text.
    pub found: String,
}

impl FromStr for Case {
    type Err = ParseCaseError;

    fn from_str(text: &str) -> Result<Self, ParseCaseError> {
        let parse = || {
            let Some((seed, kept)) = text.split_once('/') else {
                return Some(Self::new(text.parse().ok()?));
            };
            let (order, clients) = kept.split_once(':')?;
            let steps = |client: &str| {
                let numbers = client.split(',').filter(|number| !number.is_empty());
                numbers.map(|number| number.parse().ok()).collect::<Option<Vec<usize>>>()
            };
            let kept = clients.split(';').map(steps).collect::<Option<Vec<_>>>()?;
            Some(Self { seed: seed.parse().ok()?, order: order.parse().ok()?, kept: Some(kept) })
        };
        parse().ok_or_else(|| ParseCaseError { found: text.to_owned() })
    }
}

/// An early end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// The number of store calls after which it ends.
    pub(super) after: u32,
    /// Whether the client is reopened without its caches. Otherwise only the call is canceled.
    pub(super) crash: bool,
}

/// A verb of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) verb: Verb,
    /// The seed of its arguments.
    pub(super) seed: u64,
    pub(super) stop: Option<Stop>,
}

/// A client: its store and its steps.
#[derive(Clone, Debug)]
pub(super) struct ClientPlan {
    pub(super) store: usize,
    pub(super) steps: Vec<Step>,
}

/// The limits of generated schedules.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) verbs: Vec<Verb>,
    /// The caller's verbs.
    pub(super) own: Vec<Verb>,
    pub(super) clients: usize,
    pub(super) steps: usize,
}

impl Bounds {
    /// Makes the clients of a case. Each schedule uses only a few verbs, so that these often
    /// interact.
    pub(super) fn clients(&self, case: &Case) -> Vec<ClientPlan> {
        let mut random = Random::new(case.seed);
        let mut verbs = vec![Verb::Commit];
        // Half of the verbs delete, or must not be disturbed by other clients.
        let often: Vec<Verb> =
            self.verbs.iter().copied().filter(|verb| verb.meets_others()).collect();
        for _ in 0..2 + random.below(4) {
            let from = if random.chance(50) && !often.is_empty() { &often } else { &self.verbs };
            verbs.extend(random.choose(from).copied());
        }
        let clients = 2 + random.below(self.clients.saturating_sub(1));
        // All schedules have about the same number of steps: more clients have fewer each.
        let most = (self.steps * 3 / clients).clamp(1, self.steps);
        let two_stores = verbs.iter().any(|verb| verb.needs_two_stores());
        let stops = random.chance(40);
        let latest = if case.has_priorities() { 60 } else { 12 };
        let plan = |random: &mut Random| {
            let store = if two_stores { random.below(2) } else { 0 };
            let steps = 1 + random.below(most);
            let step = |random: &mut Random| Step {
                verb: {
                    let from =
                        if self.own.is_empty() || random.chance(40) { &verbs } else { &self.own };
                    random.choose(from).copied().unwrap_or(Verb::Commit)
                },
                seed: random.next(),
                stop: (stops && random.chance(12)).then(|| Stop {
                    after: u32::try_from(random.below(latest)).unwrap_or_default(),
                    crash: random.chance(50),
                }),
            };
            ClientPlan { store, steps: (0..steps).map(|_| step(random)).collect() }
        };
        let mut plans: Vec<ClientPlan> = (0..clients).map(|_| plan(&mut random)).collect();
        if let Some(kept) = &case.kept {
            for (at, plan) in plans.iter_mut().enumerate() {
                let kept = kept.get(at).map(Vec::as_slice).unwrap_or_default();
                let steps = kept.iter().filter_map(|step| plan.steps.get(*step).copied());
                plan.steps = steps.collect();
            }
        }
        plans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_it_is_printed() {
        let kept = Some(vec![vec![0, 3], vec![], vec![2]]);
        for case in [Case::new(17), Case { seed: 17, order: 4, kept }] {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        assert!("17/4".parse::<Case>().is_err());
    }
}
