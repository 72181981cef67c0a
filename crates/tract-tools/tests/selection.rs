//! Selection on a catalog of recorded tools and questions.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tract_core::{Clock, ManualClock};
use tract_testkit::data;
use tract_tools::select::{
    Bm25, CatalogEntry, OutOfTime, PickOptions, Score, Scorer, SelectionDeadline, TokenOverlap,
    ToolIndex, pick,
};

#[derive(Deserialize)]
struct Query {
    query: String,
    expected: Vec<String>,
}

fn catalog(folder: &Path) -> Vec<CatalogEntry> {
    let text = fs::read_to_string(folder.join("tools.jsonl")).unwrap();
    text.lines().map(|line| CatalogEntry::parse(line).unwrap()).collect()
}

fn queries(folder: &Path) -> Vec<Query> {
    let text = fs::read_to_string(folder.join("queries.jsonl")).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Query>(line).unwrap());
    all.filter(|query| query.expected.len() == 1).collect()
}

#[derive(Debug, Default)]
struct Measure {
    queries: f64,
    at_1: f64,
    at_5: f64,
    at_10: f64,
    reciprocal: f64,
}

impl Measure {
    fn of<'a>(index: &ToolIndex, queries: impl Iterator<Item = &'a Query>) -> Self {
        let options = PickOptions { min_score: 0.0, max_candidates: 100, ..PickOptions::default() };
        let mut sums = Self::default();
        for query in queries {
            sums.queries += 1.0;
            let picked = index.pick(&query.query, &options);
            let Some(rank) = picked.candidates.iter().position(|c| c.id == query.expected[0])
            else {
                continue;
            };
            let within = |k: usize| f64::from(u8::from(rank < k));
            sums.at_1 += within(1);
            sums.at_5 += within(5);
            sums.at_10 += within(10);
            sums.reciprocal += 1.0 / (rank as f64 + 1.0);
        }
        for sum in [&mut sums.at_1, &mut sums.at_5, &mut sums.at_10, &mut sums.reciprocal] {
            *sum /= sums.queries;
        }
        sums
    }

    #[track_caller]
    fn reaches(&self, at_1: f64, at_5: f64, at_10: f64, reciprocal: f64) {
        assert!(self.at_1 >= at_1, "{self:?}");
        assert!(self.at_5 >= at_5, "{self:?}");
        assert!(self.at_10 >= at_10, "{self:?}");
        assert!(self.reciprocal >= reciprocal, "{self:?}");
    }
}

#[test]
fn the_right_tool_is_among_the_first() {
    let (folder, whole) = data::find("toolcatalog");
    let index: ToolIndex = catalog(&folder).into_iter().collect();
    let queries = queries(&folder);
    let all = Measure::of(&index, queries.iter());
    println!("all: {all:?}");
    all.reaches(0.559, 0.82, 0.853, 0.69);
    if whole {
        assert_eq!((index.len(), queries.len()), (1498, 924));
        // The weights were tuned on the queries of even places: those of odd ones never had a say.
        let unseen = Measure::of(&index, queries.iter().skip(1).step_by(2));
        println!("unseen: {unseen:?}");
        unseen.reaches(0.559, 0.82, 0.853, 0.69);
    }
}

#[test]
fn an_index_and_the_plain_scorer_choose_alike() {
    let (folder, _) = data::find("toolcatalog");
    let tools: Vec<CatalogEntry> = catalog(&folder).into_iter().take(60).collect();
    let index: ToolIndex = tools.iter().cloned().collect();
    for query in queries(&folder).iter().take(40) {
        let options =
            PickOptions { max_candidates: 5, scorer: Arc::new(Bm25), ..PickOptions::default() };
        let listed = pick(&query.query, &tools, &options);
        let indexed = index.pick(&query.query, &options);
        assert_eq!(listed, indexed);
        assert_eq!(indexed, index.pick(&query.query, &options), "the same again");
        for candidate in &listed.candidates {
            assert!((0.05..=1.0).contains(&candidate.score), "{candidate:?}");
            assert_eq!(candidate.provenance.scorer, "bm25");
            assert!(!candidate.provenance.details.is_empty() && !candidate.reason.is_empty());
        }
    }
}

#[test]
fn an_index_changed_in_place_equals_a_new_one() {
    let (folder, _) = data::find("toolcatalog");
    let tools = catalog(&folder);
    let (first, second) = tools.split_at(tools.len() / 2);
    let mut changed: ToolIndex = tools.iter().cloned().collect();
    for tool in second {
        assert_eq!(changed.remove(tool.id()).as_ref(), Some(tool));
    }
    assert_eq!(changed.remove("no such tool"), None);
    // A tool is replaced by another text and then put back: its place stays.
    let other = CatalogEntry::new(first[0].id(), "other", "Something else.");
    assert_eq!(changed.insert(other).as_ref(), Some(&first[0]));
    changed.insert(first[0].clone());
    changed.extend(second.iter().cloned());
    let anew: ToolIndex = tools.iter().cloned().collect();
    assert_eq!(changed.len(), anew.len());
    let options = PickOptions { min_score: 0.0, max_candidates: 10, ..PickOptions::default() };
    for query in queries(&folder).iter().take(50) {
        let chosen = |index: &ToolIndex| {
            let picked = index.pick(&query.query, &options);
            picked.candidates.into_iter().map(|c| (c.id, c.score)).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&changed), chosen(&anew), "{}", query.query);
    }
}

fn tool(name: &str, says: &str) -> CatalogEntry {
    CatalogEntry::new(name, name, says).parameters(r#"{"type":"object"}"#).unwrap()
}

fn names(input: &str, tools: &[CatalogEntry], options: &PickOptions) -> Vec<String> {
    pick(input, tools, options).candidates.into_iter().map(|c| c.name).collect()
}

#[test]
fn overlap_is_the_share_of_the_words_that_are_found() {
    let tools =
        [tool("get_weather", "Weather in a city."), tool("mail", "Sends a weather report.")];
    let picked = pick("weather report", &tools, &PickOptions::default());
    let scores: Vec<f64> = picked.candidates.iter().map(|c| c.score).collect();
    // Of 2 × 2: a word in the name is 2, elsewhere 1.
    assert_eq!(scores, [0.5, 0.5]);
    assert_eq!(picked.candidates[0].name, "get_weather", "ties go by order of registration");
    assert_eq!(picked.candidates[0].provenance.scorer, "overlap");
    assert_eq!(
        names("GetWeather", &tools, &PickOptions { min_score: 1.0, ..PickOptions::default() }),
        ["get_weather"]
    );
    assert!(
        names("", &tools, &PickOptions { min_score: 0.0, ..PickOptions::default() }).is_empty()
    );
    let mut tagged = [tool("a", "b"), tool("c", "d")];
    tagged[0].tags.push("Finance".to_owned());
    assert_eq!(names("finance", &tagged, &PickOptions::default()), ["a"]);
}

#[test]
fn nothing_above_the_least_score_is_an_empty_list() {
    let tools = [tool("get_weather", "Weather in a city.")];
    assert!(
        names("sing a song", &tools, &PickOptions { min_score: 0.5, ..PickOptions::default() })
            .is_empty()
    );
    let many: Vec<CatalogEntry> = (0..9).map(|n| tool(&format!("w{n}"), "weather")).collect();
    assert_eq!(names("weather", &many, &PickOptions::default()).len(), 3, "three unless said");
    assert_eq!(
        names("weather", &many, &PickOptions { max_candidates: 7, ..PickOptions::default() }).len(),
        7
    );
}

#[test]
fn unsafe_tools_are_skipped_before_they_are_scored() {
    let bare = CatalogEntry::new("bare", "weather", "Weather, without a schema.");
    let mut risky = tool("weather2", "weather");
    risky.is_unsafe = true;
    let tools = [bare, risky, tool("weather3", "weather")];
    let index: ToolIndex = tools.iter().cloned().collect();
    let picked = pick("weather", &tools, &PickOptions::default());
    assert_eq!((picked.candidates[0].place, picked.skipped_unsafe), (2, 2));
    assert_eq!(index.pick("weather", &PickOptions::default()).skipped_unsafe, 2);
    for picked in [
        pick("weather", &tools, &PickOptions { allow_unsafe: true, ..PickOptions::default() }),
        index.pick("weather", &PickOptions { allow_unsafe: true, ..PickOptions::default() }),
    ] {
        assert_eq!((picked.candidates.len(), picked.skipped_unsafe), (3, 0));
    }
}

/// A scorer for which a second passes at each tool.
struct Slow(Arc<ManualClock>);

impl Scorer for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn score(
        &self,
        _: &str,
        tools: &[&CatalogEntry],
        until: &SelectionDeadline,
    ) -> Result<Vec<Score>, OutOfTime> {
        tools
            .iter()
            .map(|_| {
                self.0.advance(Duration::from_secs(1));
                until.check()?;
                Ok(Score::new(f64::INFINITY, Vec::new()))
            })
            .collect()
    }
}

#[test]
fn a_timeout_gives_the_first_tools_in_order_of_registration() {
    let tools: Vec<CatalogEntry> = (0..5).map(|n| tool(&format!("t{n}"), "x")).collect();
    let clock = Arc::new(ManualClock::at_us(0));
    let options = PickOptions {
        scorer: Arc::new(Slow(Arc::clone(&clock))),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        max_candidates: 2,
        ..PickOptions::default()
    };
    let late = pick(
        "x",
        &tools,
        &PickOptions { timeout: Some(Duration::from_secs(3)), ..options.clone() },
    );
    assert!(late.timed_out);
    let found: Vec<(&str, f64)> =
        late.candidates.iter().map(|c| (c.name.as_str(), c.score)).collect();
    assert_eq!(found, [("t0", 0.0), ("t1", 0.0)]);
    let in_time =
        pick("x", &tools, &PickOptions { timeout: Some(Duration::from_secs(6)), ..options });
    assert!(!in_time.timed_out);
    assert_eq!(in_time.candidates[0].score, 1.0, "a score beyond 1 is brought inside");
    let at_once = PickOptions {
        scorer: Arc::new(TokenOverlap),
        timeout: Some(Duration::ZERO),
        ..PickOptions::default()
    };
    assert!(pick("x", &tools, &at_once).timed_out);
}
