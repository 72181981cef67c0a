//! Ranks messages: BM25, with more weight for recent messages.

use std::cmp::Ordering;

use super::index::Index;
use super::postings::{self, Posting};
use super::reach::Reach;
use super::segment::{Segment, SegmentPlace};

/// Saturation: the lower, the sooner further occurrences of a word stop mattering.
const K1: f64 = 1.2;
/// Weight of the length of a message.
const B: f64 = 0.75;
/// Bonus of a message that is as new as the newest head, relative to its score.
const RECENCY: f64 = 0.5;
/// Age in hours at which half of the bonus is left.
const HALF_LIFE_HOURS: f64 = 30.0 * 24.0;

/// Returns the weight of a word: higher for a word that fewer messages contain.
pub(super) fn word_weight(messages: u64, with_word: u64) -> f64 {
    let (all, with) = (messages as f64, with_word as f64);
    (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
}

/// Returns the weight of a word's occurrences in one message.
pub(super) fn occurrence_weight(occurrences: u32, length: u32, average: f64) -> f64 {
    let (times, length) = (f64::from(occurrences), f64::from(length));
    times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length / average.max(1.0)))
}

/// Precomputed [`occurrence_weight`] for common counts and lengths.
struct OccurrenceWeights {
    average: f64,
    /// By length, for each count of occurrences.
    known: Vec<[f64; Self::COUNTS]>,
}

impl OccurrenceWeights {
    const COUNTS: usize = 8;
    const LENGTHS: u32 = 256;

    fn new(average: f64) -> Self {
        let of_length = |length| {
            let mut counts = (1u32..).map(|count| occurrence_weight(count, length, average));
            std::array::from_fn(|_| counts.next().unwrap_or_default())
        };
        Self { average, known: (0..Self::LENGTHS).map(of_length).collect() }
    }

    fn get(&self, occurrences: u32, length: u32) -> f64 {
        let known = self.known.get(length as usize);
        let known = known.and_then(|known| known.get((occurrences as usize).wrapping_sub(1)));
        known.copied().unwrap_or_else(|| occurrence_weight(occurrences, length, self.average))
    }
}

/// Returns the factor for the age of a message relative to the newest head.
pub(super) fn recency(newest: Option<i32>, hour: Option<i32>) -> f64 {
    let age = newest.zip(hour).map(|(newest, hour)| f64::from(newest.saturating_sub(hour).max(0)));
    age.map_or(1.0, |age| 1.0 + RECENCY * (-age / HALF_LIFE_HOURS).exp2())
}

/// A message and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scored {
    pub(super) score: f64,
    pub(super) place: SegmentPlace,
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By score, and by place where scores are equal. The place depends on the state of the index, so
/// `search` sorts equal scores again by data of the commits.
impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.place.cmp(&other.place))
    }
}

/// The messages to rank.
pub(super) struct Filter {
    /// Messages of these kinds, or of any if empty.
    pub(super) kinds: Vec<tract_core::Kind>,
    /// First and last hour. If either is given, messages without a time are left out.
    pub(super) hours: [Option<i32>; 2],
}

impl Filter {
    fn takes(&self, segment: &Segment, position: u32, hour: Option<i32>) -> bool {
        let [from, to] = self.hours;
        let kind = || {
            let kind = segment.class(position).kind().and_then(|kind| segment.kinds.get(kind));
            kind.is_some_and(|kind| self.kinds.contains(kind))
        };
        from.is_none_or(|from| hour.is_some_and(|hour| hour >= from))
            && to.is_none_or(|to| hour.is_some_and(|hour| hour <= to))
            && (self.kinds.is_empty() || kind())
    }
}

/// A query's words with their lists and weights.
pub(super) struct Ranking {
    /// Per segment and word, the positions and occurrences.
    lists: Vec<Vec<Vec<Posting>>>,
    weights: Vec<f64>,
    average: f64,
    newest: Option<i32>,
    /// Number of entries of all lists.
    pub(super) read: u64,
}

/// Returns the other positions with the same content.
fn copies_of(copies: &[(u32, u32)], position: u32) -> &[(u32, u32)] {
    let start = copies.partition_point(|(_, of)| *of < position);
    let end = copies.partition_point(|(_, of)| *of <= position);
    copies.get(start..end).unwrap_or_default()
}

impl Ranking {
    /// Decodes the words' lists and computes the weights; `None` when a list is damaged.
    pub(super) fn new(
        index: &Index<'_>,
        reach: &Reach,
        copies: &[Vec<(u32, u32)>],
        encoded: &[Vec<Vec<u8>>],
        newest: Option<i32>,
    ) -> Option<Self> {
        let (mut messages, mut length) = (0u64, 0u64);
        for (segment, searched) in index.segments.iter().zip(&reach.searched) {
            for position in searched.iter() {
                messages += 1;
                let of = segment.lengths.get(position as usize).copied().unwrap_or_default();
                length += u64::from(of);
            }
        }
        let words = encoded.first().map_or(0, Vec::len);
        let mut with_word = vec![0u64; words];
        let mut lists = Vec::with_capacity(encoded.len());
        let mut read = 0;
        for ((encoded, searched), copies) in encoded.iter().zip(&reach.searched).zip(copies) {
            let mut of_segment = Vec::with_capacity(words);
            for (encoded, count) in encoded.iter().zip(&mut with_word) {
                let mut list = Vec::new();
                if !encoded.is_empty() {
                    postings::decode(encoded, 0, &mut list)?;
                }
                read += list.len() as u64;
                for (position, _) in &list {
                    *count += u64::from(searched.contains(*position));
                    // The words of a content are listed at its first position only. Each position
                    // that has it counts as a message.
                    if !copies.is_empty() {
                        let others = copies_of(copies, *position).iter();
                        *count += others.filter(|(at, _)| searched.contains(*at)).count() as u64;
                    }
                }
                of_segment.push(list);
            }
            lists.push(of_segment);
        }
        let weights = with_word.into_iter().map(|with| word_weight(messages, with)).collect();
        let average = length as f64 / messages.max(1) as f64;
        Some(Self { lists, weights, average, newest, read })
    }

    /// Returns the best messages, the best first, and the number of all matches. Returns at least
    /// `limit` messages if that many match, and all messages with the same score as the last one.
    /// Among equal contents in a segment, only those of the newest hour are listed.
    pub(super) fn best(
        &self,
        index: &Index<'_>,
        reach: &Reach,
        copies: &[Vec<(u32, u32)>],
        filter: &Filter,
        limit: usize,
    ) -> (Vec<Scored>, usize) {
        let mut best: Vec<Scored> = Vec::new();
        let mut total = 0;
        let occurrence_weights = OccurrenceWeights::new(self.average);
        let parts = index.segments.iter().zip(&self.lists).zip(&reach.searched).zip(copies);
        for (number, (((segment, lists), searched), copies)) in (0u32..).zip(parts) {
            let mut scores: Vec<f64> = Vec::new();
            if lists.iter().any(|list| !list.is_empty()) {
                scores.resize(segment.len() as usize, 0.0);
            }
            for (list, weight) in lists.iter().zip(&self.weights) {
                for (position, occurrences) in list {
                    let at = *position as usize;
                    let length = segment.lengths.get(at).copied().unwrap_or_default();
                    if let Some(score) = scores.get_mut(at) {
                        *score += weight * occurrence_weights.get(*occurrences, length);
                    }
                }
            }
            for (position, score) in (0u32..).zip(&scores) {
                if *score <= 0.0 {
                    continue;
                }
                let others = match copies.is_empty() {
                    true => &[],
                    false => copies_of(copies, position),
                };
                let places = std::iter::once(position).chain(others.iter().map(|(at, _)| *at));
                let hours = places.filter_map(|position| {
                    let hour = segment.hours.get(position as usize).copied().flatten();
                    let is_in =
                        searched.contains(position) && filter.takes(segment, position, hour);
                    is_in.then_some((hour, position))
                });
                let hours: Vec<(Option<i32>, u32)> = hours.collect();
                let Some(hour) = hours.iter().map(|(hour, _)| *hour).max() else { continue };
                total += hours.len();
                let score = score * recency(self.newest, hour);
                let newest = hours.iter().filter(|(at, _)| *at == hour);
                best.extend(newest.map(|(_, position)| Scored {
                    score,
                    place: SegmentPlace { segment: number, position: *position },
                }));
            }
        }
        if let Some(last) = limit.checked_sub(1).filter(|last| *last < best.len()) {
            // Selecting is linear, where sorting all matches of a common word would not be. Ties of
            // the last score are kept, since which of them would be cut off depends on the state of
            // the index.
            let (_, least, _) = best.select_nth_unstable_by(last, |a, b| b.cmp(a));
            let least = least.score;
            best.retain(|scored| scored.score >= least);
        }
        best.sort_unstable_by(|a, b| b.cmp(a));
        (best, total)
    }
}
