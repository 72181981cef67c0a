//! The scorer `bm25`: weighted fields, in which rare words count more.

use super::entry::CatalogEntry;
use super::index::ToolIndex;
use super::scorer::{OutOfTime, Score, Scorer, SelectionDeadline};

/// BM25 over name, description, tags, and the names, descriptions and fixed values of parameters.
///
/// It reads all tools for each input. For a catalog that does not change, use a [`ToolIndex`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Bm25;

impl Bm25 {
    /// The name in the provenance of its scores.
    pub const NAME: &'static str = "bm25";
}

impl Scorer for Bm25 {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn score(
        &self,
        input: &str,
        tools: &[&CatalogEntry],
        until: &SelectionDeadline,
    ) -> Result<Vec<Score>, OutOfTime> {
        let mut index = ToolIndex::new();
        for (place, tool) in tools.iter().enumerate() {
            until.check()?;
            // Two tools may have the same id here, but the index needs unique ones.
            index.insert((*tool).clone().with_id(place.to_string()));
        }
        let mut scores = vec![Score::default(); tools.len()];
        let query = index.query_terms(input);
        for (place, value) in index.scores(&query) {
            until.check()?;
            if let Some(score) = scores.get_mut(place) {
                let matches = index.matches(&query, place);
                *score = Score::new(f64::from(value), matches);
            }
        }
        Ok(scores)
    }
}
