//! The choice itself: filter, score, order, cut.

use std::sync::Arc;
use std::time::Duration;

use tract_core::{Clock, SystemClock};

use super::bm25::Bm25;
use super::entry::CatalogEntry;
use super::index::ToolIndex;
use super::overlap::TokenOverlap;
use super::scorer::{Score, Scorer, SelectionDeadline, WordMatch};

/// How to choose.
#[derive(Clone)]
pub struct PickOptions {
    max_candidates: usize,
    min_score: f64,
    allow_unsafe: bool,
    timeout: Option<Duration>,
    scorer: Arc<dyn Scorer>,
    clock: Arc<dyn Clock>,
}

impl Default for PickOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl PickOptions {
    /// At most 3 candidates, of score 0.05 or more, no unsafe tools, no limit of time, scored by
    /// [`TokenOverlap`].
    pub fn new() -> Self {
        Self {
            max_candidates: 3,
            min_score: 0.05,
            allow_unsafe: false,
            timeout: None,
            scorer: Arc::new(TokenOverlap),
            clock: Arc::new(SystemClock),
        }
    }

    /// Sets how many candidates there are at most.
    #[must_use]
    pub fn max_candidates(mut self, count: usize) -> Self {
        self.max_candidates = count;
        self
    }

    /// Sets the least score of a candidate, from 0 to 1. One without any match is none, even at 0.
    #[must_use]
    pub fn min_score(mut self, score: f64) -> Self {
        self.min_score = score;
        self
    }

    /// Lets unsafe tools be chosen.
    #[must_use]
    pub fn allow_unsafe(mut self, allow: bool) -> Self {
        self.allow_unsafe = allow;
        self
    }

    /// Sets how long the choice may take. After that the first safe tools in order of registration
    /// are the candidates, with score 0, and [`PickReport::timed_out`] says so.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets who scores. An index scores by itself and does not ask.
    #[must_use]
    pub fn scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.scorer = Arc::new(scorer);
        self
    }

    /// Sets the clock that the timeout is judged by.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    fn until(&self) -> SelectionDeadline {
        let deadline = self.timeout.map(|timeout| {
            let timeout_us = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
            self.clock.now_us().saturating_add(timeout_us)
        });
        SelectionDeadline::new(Arc::clone(&self.clock), deadline)
    }

    fn may_choose(&self, tool: &CatalogEntry) -> bool {
        self.allow_unsafe || tool.is_safe()
    }
}

/// A tool that was chosen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// Its place among the tools that were given.
    pub place: usize,
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// From 0 to 1.
    pub score: f64,
    /// Why, in a few words.
    pub reason: String,
    /// Where the score comes from.
    pub provenance: ScoreSource,
}

/// Where a score comes from.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ScoreSource {
    /// Who scored; `none` after a timeout.
    pub scorer: String,
    /// What was found, the weightiest first.
    pub details: Vec<WordMatch>,
}

/// What was chosen.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PickReport {
    /// The candidates, best first; of equal scores the one that was registered first.
    pub candidates: Vec<Candidate>,
    /// How many tools were skipped because they are not safe.
    pub skipped_unsafe: usize,
    /// Whether time ran out: then the candidates are the first safe tools, unscored.
    pub timed_out: bool,
}

/// Chooses the tools that fit an input; nothing is changed, and nothing that fits is an empty list.
///
/// ```
/// use tract_tools::select::{CatalogEntry, PickOptions, pick};
/// let tool = |name, says| CatalogEntry::new(name, name, says).parameters(r#"{"type":"object"}"#);
/// let tools = [tool("get_weather", "Weather in a city.")?, tool("send_mail", "Sends a letter.")?];
/// let picked = pick("the weather in Paris", &tools, &PickOptions::new());
/// assert_eq!(picked.candidates.len(), 1);
/// assert_eq!(picked.candidates[0].reason, "weather, in");
/// # Ok::<(), tract_tools::select::EntryError>(())
/// ```
pub fn pick(input: &str, tools: &[CatalogEntry], options: &PickOptions) -> PickReport {
    let until = options.until();
    let (safe, places): (Vec<&CatalogEntry>, Vec<usize>) = tools
        .iter()
        .enumerate()
        .filter(|(_, tool)| options.may_choose(tool))
        .map(|(place, tool)| (tool, place))
        .unzip();
    let skipped_unsafe = tools.len() - safe.len();
    let scored = options.scorer.score(input, &safe, &until);
    let Ok(scores) = scored.and_then(|scores| until.check().map(|()| scores)) else {
        let first = safe.iter().zip(&places).map(|(tool, place)| (*place, *tool));
        return timed_out(first, skipped_unsafe, options);
    };
    let mut ranked: Vec<(usize, Score)> = places.into_iter().zip(scores).collect();
    rank(&mut ranked, |score| score.value, options);
    let candidates = ranked
        .into_iter()
        .filter_map(|(place, score)| {
            let tool = tools.get(place)?;
            Some(candidate(place, tool, score.value, options.scorer.name(), score.matches))
        })
        .collect();
    PickReport { candidates, skipped_unsafe, timed_out: false }
}

impl ToolIndex {
    /// Chooses among its tools as [`pick`] does with [`Bm25`], without reading them again.
    pub fn pick(&self, input: &str, options: &PickOptions) -> PickReport {
        let until = options.until();
        let skipped_unsafe = self.iter().filter(|tool| !options.may_choose(tool)).count();
        let query = self.query_terms(input);
        let mut ranked: Vec<(usize, f64)> = self
            .scores(&query)
            .into_iter()
            .filter(|(place, _)| self.at(*place).is_some_and(|tool| options.may_choose(tool)))
            .map(|(place, score)| (place, f64::from(score)))
            .collect();
        if until.check().is_err() {
            let safe = self.iter().enumerate().filter(|(_, tool)| options.may_choose(tool));
            return timed_out(safe, skipped_unsafe, options);
        }
        rank(&mut ranked, |score| *score, options);
        let candidates = ranked
            .into_iter()
            .filter_map(|(place, score)| {
                let matches = self.matches(&query, place);
                Some(candidate(place, self.at(place)?, score, Bm25::NAME, matches))
            })
            .collect();
        PickReport { candidates, skipped_unsafe, timed_out: false }
    }
}

/// Orders by score, then by place, and cuts.
fn rank<S>(ranked: &mut Vec<(usize, S)>, value: impl Fn(&S) -> f64, options: &PickOptions) {
    ranked.retain(|(_, score)| value(score) > 0.0 && value(score) >= options.min_score);
    ranked.sort_by(|(a, x), (b, y)| value(y).total_cmp(&value(x)).then_with(|| a.cmp(b)));
    ranked.truncate(options.max_candidates);
}

fn timed_out<'a>(
    safe: impl Iterator<Item = (usize, &'a CatalogEntry)>,
    skipped_unsafe: usize,
    options: &PickOptions,
) -> PickReport {
    let candidates = safe
        .take(options.max_candidates)
        .map(|(place, tool)| Candidate {
            reason: "time ran out: by order of registration".to_owned(),
            ..candidate(place, tool, 0.0, "none", Vec::new())
        })
        .collect();
    PickReport { candidates, skipped_unsafe, timed_out: true }
}

/// How many words a reason names.
const REASON_WORDS: usize = 6;

fn candidate(
    place: usize,
    tool: &CatalogEntry,
    score: f64,
    scorer: &str,
    details: Vec<WordMatch>,
) -> Candidate {
    let mut words: Vec<&str> = Vec::new();
    for found in &details {
        if words.len() < REASON_WORDS && !words.contains(&found.word.as_str()) {
            words.push(&found.word);
        }
    }
    let reason = words.join(", ");
    Candidate {
        place,
        id: tool.id().to_owned(),
        name: tool.name().to_owned(),
        score,
        reason,
        provenance: ScoreSource { scorer: scorer.to_owned(), details },
    }
}
