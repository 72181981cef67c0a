//! An inverted index over thousands of tools, updated in place.

use std::collections::HashMap;

use super::entry::CatalogEntry;
use super::scorer::{Score, WordMatch};
use super::weights::{self, FIELDS, Field};
use super::words;

type Term = u32;

/// Tools by the words that they contain, for scorer `bm25`.
///
/// # Behavior
/// - An index that was updated in place scores like one that was built from the same entries.
/// - Tools keep the order in which they were first added; replacing a tool does not change its
///   place.
///
/// ```
/// use tract_tools::select::{CatalogEntry, PickOptions, ToolIndex};
/// let tool = |name, says| CatalogEntry::new(name, name, says).parameters(r#"{"type":"object"}"#);
/// let mut index = ToolIndex::new();
/// index.insert(tool("get_weather", "Current weather in a city.")?);
/// index.insert(tool("send_mail", "Sends a message to a person.")?);
/// let picked = index.pick("what is the weather in Oslo?", &PickOptions::default());
/// assert_eq!(picked.candidates[0].name, "get_weather");
/// index.remove("get_weather");
/// assert!(index.pick("weather", &PickOptions::default()).candidates.is_empty());
/// # Ok::<(), tract_tools::select::EntryError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolIndex {
    /// By place. A removed tool leaves a gap until the index is compacted.
    docs: Vec<Option<Doc>>,
    gaps: usize,
    by_id: HashMap<String, usize>,
    terms: HashMap<Box<str>, Term>,
    pairs: HashMap<(Term, Term), Term>,
    postings: Vec<Vec<Posting>>,
    /// Words by their prefix.
    by_prefix: HashMap<Box<str>, Vec<Term>>,
    /// Stems by word, so that each word is stemmed once.
    stems: HashMap<Box<str>, Term>,
}

#[derive(Clone, Debug)]
struct Doc {
    entry: CatalogEntry,
    /// All terms for which it has postings.
    terms: Vec<Term>,
    name: Vec<Term>,
    description: Vec<Term>,
}

#[derive(Clone, Copy, Debug)]
struct Posting {
    place: u32,
    /// The saturated weight of the term in this tool, 0 to 1.
    weight: f32,
}

/// Number of tools per input for which coverage is computed.
const COVERED: usize = 100;

/// The terms of an input with their weights.
#[derive(Debug, Default)]
pub(crate) struct QueryTerms {
    /// In the order of the input, so that sums are the same each time; each with the words of the
    /// input that led to it.
    terms: Vec<(Term, f32, String)>,
    places: HashMap<Term, usize>,
}

impl QueryTerms {
    fn add(&mut self, term: Term, weight: f32, word: &str) {
        let place = *self.places.entry(term).or_insert(self.terms.len());
        match self.terms.get_mut(place) {
            Some((_, known, _)) => *known = known.max(weight),
            None => self.terms.push((term, weight, word.to_owned())),
        }
    }

    fn weight(&self, term: Term) -> f32 {
        let place = self.places.get(&term);
        place.and_then(|place| self.terms.get(*place)).map_or(0.0, |(_, weight, _)| *weight)
    }
}

impl ToolIndex {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Returns the tool with this id.
    pub fn get(&self, id: &str) -> Option<&CatalogEntry> {
        self.at(*self.by_id.get(id)?)
    }

    /// Iterates over the tools in their order.
    pub fn iter(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.docs.iter().flatten().map(|doc| &doc.entry)
    }

    /// Adds a tool. Replaces and returns the one with the same id, if any.
    pub fn insert(&mut self, entry: CatalogEntry) -> Option<CatalogEntry> {
        let known = self.by_id.get(entry.id()).copied();
        let place = known.unwrap_or(self.docs.len());
        let before = known.and_then(|place| self.take(place));
        self.by_id.insert(entry.id().to_owned(), place);
        let doc = self.read(entry, place);
        match self.docs.get_mut(place) {
            Some(slot) => *slot = Some(doc),
            None => self.docs.push(Some(doc)),
        }
        before
    }

    /// Removes the tool with this id.
    pub fn remove(&mut self, id: &str) -> Option<CatalogEntry> {
        let place = self.by_id.remove(id)?;
        let entry = self.take(place);
        self.gaps += 1;
        // Postings name tools by place, so a removed tool leaves a gap, and its words stay known.
        // Without the rebuild, a catalog that changes often would grow with every change. The
        // removals before the rebuild pay for it, and the order of the tools stays the same.
        if self.gaps > 64 && self.gaps * 2 > self.docs.len() {
            *self = std::mem::take(self).docs.into_iter().flatten().map(|doc| doc.entry).collect();
        }
        entry
    }

    fn take(&mut self, place: usize) -> Option<CatalogEntry> {
        let doc = self.docs.get_mut(place)?.take()?;
        for term in doc.terms {
            if let Some(postings) = self.postings.get_mut(term as usize) {
                postings.retain(|posting| posting.place as usize != place);
            }
        }
        Some(doc.entry)
    }

    /// Adds the terms of a tool to the postings.
    fn read(&mut self, entry: CatalogEntry, place: usize) -> Doc {
        let mut fields: [Vec<Term>; Field::COUNT] = Default::default();
        entry.each_text(&mut |field, text| {
            if let Some(terms) = fields.get_mut(field as usize) {
                words::each_word(text, |word| terms.push(self.term(word)));
            }
        });
        let mut counts: Vec<(Term, f32)> = Vec::new();
        for (terms, field) in fields.iter().zip(&FIELDS) {
            let length = terms.len() as f32 / field.usual_length;
            let each = field.weight / (1.0 - field.by_length + field.by_length * length);
            counts.extend(terms.iter().map(|term| (*term, each)));
        }
        // In the first two fields, name and description, pairs of words are terms too.
        for (terms, field) in fields.iter().zip(&FIELDS).take(2) {
            for (first, second) in terms.iter().zip(terms.iter().skip(1)) {
                counts.push((self.pair(*first, *second), field.weight));
            }
        }
        counts.sort_by_key(|(term, _)| *term);
        let mut terms = Vec::new();
        for same in counts.chunk_by(|a, b| a.0 == b.0) {
            let Some((term, _)) = same.first() else { continue };
            let count: f32 = same.iter().map(|(_, count)| count).sum();
            // The counts of all fields are saturated together. If each field were saturated alone,
            // a word that is in every field would count as several words. The usual lengths are
            // constants and not averages of the catalog, so that the weights of a tool do not
            // change with the other tools.
            let weight = count / (count + weights::SATURATION);
            if let Some(postings) = self.postings.get_mut(*term as usize) {
                let posting = Posting { place: place as u32, weight };
                // `matches` finds a place by binary search. A tool that replaces another keeps its
                // place, which may be in the middle.
                let at = postings.partition_point(|known| (known.place as usize) < place);
                postings.insert(at, posting);
            }
            terms.push(*term);
        }
        let [mut name, mut description, ..] = fields;
        for terms in [&mut name, &mut description] {
            terms.sort_unstable();
            terms.dedup();
        }
        Doc { entry, terms, name, description }
    }

    /// Returns the term of a word, creating it if it is new.
    fn term(&mut self, word: &str) -> Term {
        if let Some(term) = self.stems.get(word) {
            return *term;
        }
        let stem = words::stem(word);
        let term = match self.terms.get(&*stem) {
            Some(term) => *term,
            None => {
                let term = new_term(&mut self.postings);
                if let Some(prefix) = prefix(&stem) {
                    self.by_prefix.entry(prefix.into()).or_default().push(term);
                }
                self.terms.insert(stem.as_ref().into(), term);
                term
            }
        };
        self.stems.insert(word.into(), term);
        term
    }

    fn pair(&mut self, first: Term, second: Term) -> Term {
        *self.pairs.entry((first, second)).or_insert_with(|| new_term(&mut self.postings))
    }

    /// Returns the terms of an input, and the similar terms of the index.
    pub(crate) fn query_terms(&self, input: &str) -> QueryTerms {
        let mut query = QueryTerms::default();
        let mut before: Option<(String, String, Option<Term>)> = None;
        words::each_word(input, |word| {
            let stem = words::stem(word);
            let term = self.terms.get(&*stem).copied();
            if let Some(term) = term {
                query.add(term, 1.0, word);
            }
            for near in
                prefix(&stem).and_then(|prefix| self.by_prefix.get(prefix)).into_iter().flatten()
            {
                if Some(*near) != term {
                    query.add(*near, weights::PREFIX, word);
                }
            }
            if let Some((previous, last, last_term)) = &before {
                // The input may write as two words what a tool writes as one, such as `webhook`.
                let joined = format!("{last}{stem}");
                if let Some(term) = self.terms.get(joined.as_str()) {
                    query.add(*term, 1.0, &format!("{previous} {word}"));
                }
                if let (Some(first), Some(second)) = (last_term, term)
                    && let Some(pair) = self.pairs.get(&(*first, second))
                {
                    query.add(*pair, weights::PAIR, &format!("{previous} {word}"));
                }
            }
            before = Some((word.to_owned(), stem.into_owned(), term));
        });
        query
    }

    fn rarity(&self, term: Term) -> f32 {
        let with = self.postings.get(term as usize).map_or(0, Vec::len) as f32;
        (1.0 + (self.len() as f32 - with + 0.5) / (with + 0.5)).ln()
    }

    /// Scores the tools that have a term in common with the input. Returns places and scores.
    pub(crate) fn scores(&self, query: &QueryTerms) -> Vec<(usize, f32)> {
        let mut sums = vec![0.0_f32; self.docs.len()];
        let mut whole = 0.0;
        for (term, weight, _) in &query.terms {
            let worth = weight * self.rarity(*term);
            whole += worth;
            for posting in self.postings.get(*term as usize).into_iter().flatten() {
                if let Some(sum) = sums.get_mut(posting.place as usize) {
                    *sum += worth * posting.weight;
                }
            }
        }
        if whole <= 0.0 {
            return Vec::new();
        }
        let mut found: Vec<(usize, f32)> =
            sums.into_iter().enumerate().filter(|(_, sum)| *sum > 0.0).collect();
        // Coverage only orders tools with similar scores.
        let near = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if found.len() > COVERED {
            found.select_nth_unstable_by(COVERED, near);
        }
        let best = 1.0 + weights::NAME_COVERAGE + weights::DESCRIPTION_COVERAGE;
        for (rank, (place, score)) in found.iter_mut().enumerate() {
            let mut covered = 1.0;
            if rank < COVERED
                && let Some(doc) = self.docs.get(*place).and_then(Option::as_ref)
            {
                covered += weights::NAME_COVERAGE * self.coverage(&doc.name, query)
                    + weights::DESCRIPTION_COVERAGE * self.coverage(&doc.description, query);
            }
            *score *= covered / (whole * best);
        }
        found
    }

    /// Returns the share of a text that the input covers, in which rare words count more.
    fn coverage(&self, text: &[Term], query: &QueryTerms) -> f32 {
        let (mut found, mut whole) = (0.0, 0.0);
        for term in text {
            let worth = self.rarity(*term);
            whole += worth;
            found += worth * query.weight(*term);
        }
        if whole > 0.0 { found / whole } else { 0.0 }
    }

    /// Returns the matches of an input in the tool at a place.
    pub(crate) fn matches(&self, query: &QueryTerms, place: usize) -> Vec<WordMatch> {
        let found = query.terms.iter().filter_map(|(term, weight, word)| {
            let postings = self.postings.get(*term as usize)?;
            let at =
                postings.binary_search_by_key(&(place as u32), |posting| posting.place).ok()?;
            let posting = postings.get(at)?;
            let worth = weight * self.rarity(*term) * posting.weight;
            Some(WordMatch::new(word.clone(), f64::from(worth)))
        });
        Score::new(0.0, found.collect()).matches
    }

    pub(crate) fn at(&self, place: usize) -> Option<&CatalogEntry> {
        self.docs.get(place)?.as_ref().map(|doc| &doc.entry)
    }
}

impl FromIterator<CatalogEntry> for ToolIndex {
    fn from_iter<I: IntoIterator<Item = CatalogEntry>>(entries: I) -> Self {
        let mut index = Self::new();
        index.extend(entries);
        index
    }
}

impl Extend<CatalogEntry> for ToolIndex {
    fn extend<I: IntoIterator<Item = CatalogEntry>>(&mut self, entries: I) {
        for entry in entries {
            self.insert(entry);
        }
    }
}

fn new_term(postings: &mut Vec<Vec<Posting>>) -> Term {
    postings.push(Vec::new());
    (postings.len() - 1) as Term
}

/// Returns the prefix by which similar words are found; `None` for a shorter word.
fn prefix(word: &str) -> Option<&str> {
    let (end, _) = word.char_indices().nth(weights::PREFIX_LENGTH)?;
    let prefix = word.get(..end)?;
    prefix.chars().all(char::is_alphabetic).then_some(prefix)
}
