//! Selects tools: filters, scores and orders them, and returns the best.

use std::sync::Arc;
use std::time::Duration;

use tract_core::{Clock, SystemClock};

use super::bm25::Bm25;
use super::entry::CatalogEntry;
use super::index::ToolIndex;
use super::overlap::TokenOverlap;
use super::scorer::{OutOfTime, Scorer, SelectionDeadline, WordMatch};

/// Options for selecting tools.
#[derive(Clone)]
pub struct PickOptions {
    /// Maximum number of candidates; 3 by default.
    pub max_candidates: usize,
    /// Minimum score of a candidate, from 0 to 1; 0.05 by default. A tool without a match is never
    /// a candidate.
    pub min_score: f64,
    /// Whether unsafe tools may be selected; off by default.
    pub allow_unsafe: bool,
    /// The time limit, `None` by default. After it, the candidates are the first safe tools in
    /// order of registration, with score 0, and [`PickReport::timed_out`] is set.
    pub timeout: Option<Duration>,
    /// The scorer; [`TokenOverlap`] by default. An index has its own scorer and ignores this one.
    pub scorer: Arc<dyn Scorer>,
    /// The clock that the time limit is measured with.
    pub clock: Arc<dyn Clock>,
}

impl Default for PickOptions {
    /// Returns the defaults: at most 3 candidates with a score of at least 0.05, no unsafe tools,
    /// no time limit, scored by [`TokenOverlap`].
    fn default() -> Self {
        Self {
            max_candidates: 3,
            min_score: 0.05,
            allow_unsafe: false,
            timeout: None,
            scorer: Arc::new(TokenOverlap),
            clock: Arc::new(SystemClock),
        }
    }
}

impl PickOptions {
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

    /// Returns the tools that may be selected, with their places.
    fn safe<'a>(
        &self,
        tools: impl Iterator<Item = &'a CatalogEntry>,
    ) -> impl Iterator<Item = (usize, &'a CatalogEntry)> {
        tools.enumerate().filter(|(_, tool)| self.may_choose(tool))
    }
}

/// A selected tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its index among the given tools.
    pub place: usize,
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The score, from 0 to 1.
    pub score: f64,
    /// The reason: the best matching words.
    pub reason: String,
    /// The origin of the score.
    pub provenance: ScoreSource,
}

/// The origin of a score.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreSource {
    /// The name of the scorer; `none` after a timeout.
    pub scorer: String,
    /// The matches, by descending weight.
    pub details: Vec<WordMatch>,
}

/// The chosen tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PickReport {
    /// The candidates, best first. Of candidates with equal scores, the one registered first comes
    /// first.
    pub candidates: Vec<Candidate>,
    /// Number of tools that were skipped because they are not safe.
    pub skipped_unsafe: usize,
    /// Whether the time limit was exceeded, so that the candidates are the first safe tools,
    /// unscored.
    pub timed_out: bool,
}

/// Selects the tools that fit an input. If none fits, the list of candidates is empty.
///
/// ```
/// use tract_tools::select::{CatalogEntry, PickOptions, pick};
/// let tool = |name, says| CatalogEntry::new(name, name, says).parameters(r#"{"type":"object"}"#);
/// let tools = [tool("get_weather", "Weather in a city.")?, tool("send_mail", "Sends a letter.")?];
/// let picked = pick("the weather in Paris", &tools, &PickOptions::default());
/// assert_eq!(picked.candidates.len(), 1);
/// assert_eq!(picked.candidates[0].reason, "weather, in");
/// # Ok::<(), tract_tools::select::EntryError>(())
/// ```
pub fn pick(input: &str, tools: &[CatalogEntry], options: &PickOptions) -> PickReport {
    let until = options.until();
    let safe: Vec<(usize, &CatalogEntry)> = options.safe(tools.iter()).collect();
    let entries: Vec<&CatalogEntry> = safe.iter().map(|(_, tool)| *tool).collect();
    let scored = options.scorer.score(input, &entries, &until).and_then(|scores| {
        until.check()?;
        let scored = safe.iter().zip(scores);
        Ok(scored
            .map(|((place, tool), score)| (*place, *tool, score.value, score.matches))
            .collect())
    });
    let skipped = tools.len() - safe.len();
    report(scored, |_, matches| matches, options.scorer.name(), skipped, safe.into_iter(), options)
}

impl ToolIndex {
    /// Selects from its tools like [`pick`] with [`Bm25`], without reading them again.
    pub fn pick(&self, input: &str, options: &PickOptions) -> PickReport {
        let until = options.until();
        let query = self.query_terms(input);
        let scored = self.scores(&query).into_iter().filter_map(|(place, score)| {
            let tool = self.at(place).filter(|tool| options.may_choose(tool))?;
            Some((place, tool, f64::from(score), ()))
        });
        let scored: Vec<_> = scored.collect();
        let matches = |place, ()| self.matches(&query, place);
        let skipped = self.len() - options.safe(self.iter()).count();
        let scored = until.check().map(|()| scored);
        report(scored, matches, Bm25::NAME, skipped, options.safe(self.iter()), options)
    }
}

/// Reports the best tools, by score and then by place; the first safe tools after a timeout.
/// Matches are computed only for those.
fn report<'a, M>(
    scored: Result<Vec<(usize, &'a CatalogEntry, f64, M)>, OutOfTime>,
    matches: impl Fn(usize, M) -> Vec<WordMatch>,
    scorer: &str,
    skipped_unsafe: usize,
    safe: impl Iterator<Item = (usize, &'a CatalogEntry)>,
    options: &PickOptions,
) -> PickReport {
    let timed_out = scored.is_err();
    let candidates = match scored {
        Ok(mut ranked) => {
            ranked.retain(|(_, _, score, _)| *score > 0.0 && *score >= options.min_score);
            ranked.sort_by(|(a, _, x, _), (b, _, y, _)| y.total_cmp(x).then_with(|| a.cmp(b)));
            let best = ranked.into_iter().take(options.max_candidates);
            best.map(|(place, tool, score, found)| {
                candidate(place, tool, score, scorer, matches(place, found))
            })
            .collect()
        }
        Err(OutOfTime) => safe
            .take(options.max_candidates)
            .map(|(place, tool)| Candidate {
                reason: "time ran out: by order of registration".to_owned(),
                ..candidate(place, tool, 0.0, "none", Vec::new())
            })
            .collect(),
    };
    PickReport { candidates, skipped_unsafe, timed_out }
}

/// Maximum number of words in a reason.
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
