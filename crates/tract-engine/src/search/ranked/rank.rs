//! Ranks messages: BM25 over words and their stems, a share of the score of the messages next to
//! each, and a slight preference for recent messages.

use std::cmp::Ordering;

use super::index::Index;
use super::postings::{self, Posting};
use super::query::Term;
use super::reach::Reach;
use super::segment::{Segment, SegmentPlace};
use super::store::TermLists;

/// Saturation: the lower, the sooner further occurrences of a word stop mattering.
const K1: f64 = 1.2;
/// Weight of the length of a message.
const B: f64 = 0.5;
/// Factor of the weight of a word that matches by its stem only.
const STEM: f64 = 0.8;
/// Share of the better of the two messages before and after that is added to a score. The words of
/// a question are often in the message before the answer.
const NEIGHBOR: f64 = 0.35;
/// Bonus of a message that is as new as the newest head, relative to its score. It orders messages
/// that are equally good otherwise.
const RECENCY: f64 = 0.02;
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

/// The scores of all messages for a query.
pub(super) struct Ranking {
    /// Per segment, by position: the score without recency, 0 for a message that does not match.
    /// Empty for a segment without a match.
    scores: Vec<Vec<f64>>,
    newest: Option<i32>,
    /// Number of entries of all lists.
    pub(super) read: u64,
}

/// The positions of a term in a segment.
#[derive(Debug, Default)]
struct TermPostings {
    /// Of words as in the query.
    exact: Vec<Posting>,
    /// Of other words with the same stem.
    stem: Vec<Posting>,
}

impl TermPostings {
    /// Decodes lists; `None` when one is damaged.
    fn decode(lists: &TermLists) -> Option<Self> {
        Some(Self { exact: decode_all(&lists.exact)?, stem: decode_all(&lists.stem)? })
    }

    /// Calls `each` with each position in order, the number of occurrences of all forms, and whether
    /// one of them is exact.
    fn each(&self, mut each: impl FnMut(u32, u32, bool)) {
        let mut stem = self.stem.iter().copied().peekable();
        for (position, occurrences) in &self.exact {
            while let Some((at, times)) = stem.next_if(|(at, _)| at < position) {
                each(at, times, false);
            }
            let more = stem.next_if(|(at, _)| at == position).map_or(0, |(_, times)| times);
            each(*position, occurrences.saturating_add(more), true);
        }
        stem.for_each(|(at, times)| each(at, times, false));
    }
}

/// Decodes lists of different words into one with a single entry for each position.
fn decode_all(lists: &[Vec<u8>]) -> Option<Vec<Posting>> {
    let mut all: Vec<Posting> = Vec::new();
    for list in lists {
        postings::decode(list, 0, &mut all)?;
    }
    if lists.len() > 1 {
        all.sort_unstable_by_key(|(position, _)| *position);
        all.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
    }
    Some(all)
}

/// Returns the other positions with the same content.
fn copies_of(copies: &[(u32, u32)], position: u32) -> &[(u32, u32)] {
    let start = copies.partition_point(|(_, of)| *of < position);
    let end = copies.partition_point(|(_, of)| *of <= position);
    copies.get(start..end).unwrap_or_default()
}

impl Ranking {
    /// Decodes the lists of the terms and computes the scores; `None` when a list is damaged.
    /// `copies` are the copies of each segment, sorted by the position of the first one.
    pub(super) fn new(
        index: &Index<'_>,
        reach: &Reach,
        copies: &[Vec<(u32, u32)>],
        terms: &[Term],
        lists: &[Vec<TermLists>],
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
        let mut with_term = vec![0u64; terms.len()];
        let mut decoded = Vec::with_capacity(lists.len());
        let mut read = 0;
        for ((lists, searched), copies) in lists.iter().zip(&reach.searched).zip(copies) {
            let mut of_segment = Vec::with_capacity(terms.len());
            for (lists, count) in lists.iter().zip(&mut with_term) {
                let postings = TermPostings::decode(lists)?;
                read += (postings.exact.len() + postings.stem.len()) as u64;
                postings.each(|position, _, _| {
                    *count += u64::from(searched.contains(position));
                    // The words of a content are listed at its first position only. Each position
                    // that has it counts as a message.
                    if !copies.is_empty() {
                        let others = copies_of(copies, position).iter();
                        *count += others.filter(|(at, _)| searched.contains(*at)).count() as u64;
                    }
                });
                of_segment.push(postings);
            }
            decoded.push(of_segment);
        }
        let weighted = |(term, with): (&Term, u64)| term.factor * word_weight(messages, with);
        let weights: Vec<f64> = terms.iter().zip(with_term).map(weighted).collect();
        let average = length as f64 / messages.max(1) as f64;
        let occurrence_weights = OccurrenceWeights::new(average);
        let mut scores = Vec::with_capacity(decoded.len());
        for ((segment, postings), searched) in
            index.segments.iter().zip(&decoded).zip(&reach.searched)
        {
            let mut of_segment =
                matching_scores(segment, terms, postings, &weights, &occurrence_weights);
            for (position, score) in (0u32..).zip(&mut of_segment) {
                if *score > 0.0 && !searched.contains(position) {
                    *score = 0.0;
                }
            }
            scores.push(of_segment);
        }
        add_neighbors(index, reach, &mut scores);
        Some(Self { scores, newest, read })
    }

    /// Returns the best messages, the best first, and the number of all matches. Returns at least
    /// `limit` messages if that many match, and all messages with the same score as the last one.
    /// With `merged`, only the best of equal contents in a segment are listed.
    pub(super) fn best(
        &self,
        index: &Index<'_>,
        filter: &Filter,
        merged: bool,
        limit: usize,
    ) -> (Vec<Scored>, usize) {
        let mut best: Vec<Scored> = Vec::new();
        let mut total = 0;
        for (number, (segment, scores)) in (0u32..).zip(index.segments.iter().zip(&self.scores)) {
            let from = best.len();
            // Most messages have the hour of the one before.
            let mut factor = (None, recency(self.newest, None));
            for (position, score) in (0u32..).zip(scores) {
                if *score <= 0.0 {
                    continue;
                }
                let hour = segment.hours.get(position as usize).copied().flatten();
                if filter.takes(segment, position, hour) {
                    if factor.0 != hour {
                        factor = (hour, recency(self.newest, hour));
                    }
                    let score = score * factor.1;
                    let place = SegmentPlace { segment: number, position };
                    best.push(Scored { score, place });
                }
            }
            total += best.len() - from;
            if merged && !segment.copies.is_empty() {
                merge_copies(segment, &mut best, from);
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

/// Returns the scores of the messages of a segment on their own, by position.
fn matching_scores(
    segment: &Segment,
    terms: &[Term],
    postings: &[TermPostings],
    weights: &[f64],
    occurrence_weights: &OccurrenceWeights,
) -> Vec<f64> {
    if postings.iter().all(|postings| postings.exact.is_empty() && postings.stem.is_empty()) {
        return Vec::new();
    }
    let mut scores = vec![0.0; segment.len() as usize];
    let required = terms.iter().filter(|term| term.is_required).count();
    let mut present: Vec<u8> = if required > 0 { vec![0; scores.len()] } else { Vec::new() };
    for ((term, postings), weight) in terms.iter().zip(postings).zip(weights) {
        postings.each(|position, occurrences, is_exact| {
            let at = position as usize;
            let length = segment.lengths.get(at).copied().unwrap_or_default();
            let form = if is_exact { 1.0 } else { STEM };
            if let Some(score) = scores.get_mut(at) {
                *score += weight * form * occurrence_weights.get(occurrences, length);
            }
            if term.is_required
                && let Some(present) = present.get_mut(at)
            {
                *present = present.saturating_add(1);
            }
        });
    }
    for (score, present) in scores.iter_mut().zip(&present) {
        if usize::from(*present) < required {
            *score = 0.0;
        }
    }
    // The words of equal contents are indexed at the first one only.
    for (at, of) in &segment.copies {
        let first = scores.get(*of as usize).copied().unwrap_or_default();
        if let Some(score) = scores.get_mut(*at as usize) {
            *score = first;
        }
    }
    scores
}

/// Adds to the score of each message a share of the scores of the messages next to it: of the
/// commit that it continues, and of those that continue it. These are the same in every index,
/// wherever a run starts.
fn add_neighbors(index: &Index<'_>, reach: &Reach, scores: &mut [Vec<f64>]) {
    let score_at = |scores: &[Vec<f64>], place: SegmentPlace| {
        let of_segment = scores.get(place.segment as usize);
        of_segment.and_then(|scores| scores.get(place.position as usize)).copied().unwrap_or(0.0)
    };
    // Runs that continue a commit: the base, its first commit, and their scores on their own.
    let mut forks: Vec<(SegmentPlace, SegmentPlace, f64, f64)> = Vec::new();
    for (number, segment) in (0u32..).zip(&index.segments) {
        for run in &segment.runs {
            if let Some(base) = reach.base(number, run.start) {
                let first = SegmentPlace { segment: number, position: run.start };
                forks.push((base, first, score_at(scores, base), score_at(scores, first)));
            }
        }
    }
    let mut shares: Vec<Vec<f64>> = Vec::with_capacity(scores.len());
    for (segment, scores) in index.segments.iter().zip(scores.iter()) {
        let mut of_segment = vec![0.0; scores.len()];
        for run in &segment.runs {
            let run = run.start as usize..run.end() as usize;
            let (Some(scores), Some(shares)) = (scores.get(run.clone()), of_segment.get_mut(run))
            else {
                continue;
            };
            for (share, before) in shares.iter_mut().skip(1).zip(scores) {
                *share = *before;
            }
            for (share, after) in shares.iter_mut().zip(scores.iter().skip(1)) {
                *share = share.max(*after);
            }
        }
        shares.push(of_segment);
    }
    for (base, first, of_base, of_first) in forks {
        for (place, other) in [(base, of_first), (first, of_base)] {
            let share = shares.get_mut(place.segment as usize);
            if let Some(share) = share.and_then(|shares| shares.get_mut(place.position as usize)) {
                *share = share.max(other);
            }
        }
    }
    for (score, share) in scores.iter_mut().flatten().zip(shares.iter().flatten()) {
        if *score > 0.0 {
            *score += NEIGHBOR * share;
        }
    }
}

/// Keeps the best of equal contents of a segment, all of them if their scores are equal. `from` is
/// the index of the first message of the segment.
fn merge_copies(segment: &Segment, best: &mut Vec<Scored>, from: usize) {
    let first_of = |position: u32| {
        let copy = segment.copies.binary_search_by_key(&position, |(at, _)| *at).ok();
        copy.and_then(|copy| segment.copies.get(copy)).map_or(position, |(_, of)| *of)
    };
    let mut highest = vec![0.0f64; segment.len() as usize];
    for scored in best.get(from..).unwrap_or_default() {
        if let Some(highest) = highest.get_mut(first_of(scored.place.position) as usize) {
            *highest = highest.max(scored.score);
        }
    }
    let merged: Vec<Scored> = best
        .drain(from..)
        .filter(|scored| {
            let highest = highest.get(first_of(scored.place.position) as usize);
            highest.is_none_or(|highest| scored.score >= *highest)
        })
        .collect();
    best.extend(merged);
}
