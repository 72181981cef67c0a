//! The share of the input's words that a tool contains.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::CatalogEntry;
use super::scorer::{OutOfTime, Score, Scorer, SelectionDeadline, WordMatch};
use super::weights::Field;
use super::words;

/// The default scorer: the share of the input's words that name, description and tags contain.
///
/// The score is the weight of the matching words over the weight of all words of the input. A word
/// in the name weighs [`TokenOverlap::NAME`], elsewhere 1. Words count once and are compared in
/// lower case; words of at most two letters count half.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenOverlap;

impl TokenOverlap {
    /// The weight of a word in the tool's name.
    pub const NAME: f64 = 2.0;
    /// Weight of a short word. Most of them only connect other words.
    const SHORT: f64 = 0.5;

    fn weight(word: &str) -> f64 {
        match word.chars().count() {
            ..=2 => Self::SHORT,
            _ => 1.0,
        }
    }
}

impl Scorer for TokenOverlap {
    fn name(&self) -> &str {
        "overlap"
    }

    fn score(
        &self,
        input: &str,
        tools: &[&CatalogEntry],
        until: &SelectionDeadline,
    ) -> Result<Vec<Score>, OutOfTime> {
        let mut query_terms = BTreeSet::new();
        words::each_word(input, |word| {
            query_terms.insert(word.to_owned());
        });
        let whole: f64 = query_terms.iter().map(|word| Self::NAME * Self::weight(word)).sum();
        let mut scores = Vec::with_capacity(tools.len());
        for tool in tools {
            until.check()?;
            let mut found: BTreeMap<String, f64> = BTreeMap::new();
            tool.each_heading(&mut |field, text| {
                let weight = if field == Field::Name { Self::NAME } else { 1.0 };
                words::each_word(text, |word| {
                    if query_terms.contains(word) {
                        let weight = weight * Self::weight(word);
                        let best = found.entry(word.to_owned()).or_insert(weight);
                        *best = best.max(weight);
                    }
                });
            });
            let sum: f64 = found.values().sum();
            let value = if whole > 0.0 { sum / whole } else { 0.0 };
            let matches = found.into_iter().map(|(word, weight)| WordMatch::new(word, weight));
            scores.push(Score::new(value, matches.collect()));
        }
        Ok(scores)
    }
}
