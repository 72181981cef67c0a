//! The tokens of a repository's answers, from its commits.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use tract_core::{Blob, BlobId, Commit, CommitId, Op, RefName};
use tract_engine::{
    AnswerFacts, AnswerIds, AnswerPlace, Branch, CacheUse, ModelUsage, Repo, Result,
};
use tract_providers::{PriceBasis, PriceTable, TokenAmounts};

use crate::facts::RunTotals;
use crate::report::TokenTotals;

/// Tokens of one answer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerUsage {
    /// Its branch; if it is on several, the first by name.
    pub branch: String,
    /// The model, if the commit names it.
    pub model: Option<String>,
    /// The time in microseconds since 1970, UTC.
    pub at: Option<i64>,
    /// Its tokens.
    pub tokens: TokenTotals,
    /// Number of requests with these tokens; more than one if a tool counts them per run.
    pub requests: u64,
}

/// Lists the answers of all branches with recorded tokens, each once.
///
/// # Behavior
/// - A commit on several branches counts on the first. An API message that is several commits
///   counts with its largest number of tokens.
/// - An answer that a fork or a continued session repeats with other times and ids counts once. It
///   is recognized by the provider's ids; if a tool does not record them, by the session that the
///   recording was copied from.
/// - Tokens that a tool counts for a whole run are one entry, from the document of the import.
///
/// # Errors
/// When the store fails.
///
/// # Complexity
/// Linear in the commits of the repository.
pub async fn usage(repo: &Repo) -> Result<Vec<AnswerUsage>> {
    let branches = repo.branches().await?;
    usage_of(repo, branches).await
}

/// Lists the answers of some branches, as [`usage()`] does. Unknown branch names are ignored.
///
/// # Errors
/// When the store fails.
pub async fn branch_usage(repo: &Repo, names: &HashSet<String>) -> Result<Vec<AnswerUsage>> {
    let mut branches = repo.branches().await?;
    branches.retain(|branch| names.contains(&branch.name));
    usage_of(repo, branches).await
}

/// The cost of the answers of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageCost {
    /// The cost of the answers with a price, in the currency of the table.
    pub cost: f64,
    /// The number of requests.
    pub requests: u64,
    /// Requests to models without a price.
    pub unpriced: u64,
}

/// Returns the cost of the usage of a conversation
/// ([`SessionSummary::usage`](tract_engine::SessionSummary)).
pub fn cost_of_usage(usage: &[ModelUsage], prices: &PriceTable) -> UsageCost {
    // Prices by the hour are those at noon.
    const NOON_US: i64 = 12 * 3_600_000_000;
    let mut sum = UsageCost::default();
    for group in usage {
        let ModelUsage { input, output, cache_read, cache_write, cache_write_1h, .. } = *group;
        let requests = group.requests;
        let amounts =
            TokenAmounts { input, output, cache_read, cache_write, cache_write_1h, requests };
        let at = group.day_us.map(|day| day.saturating_add(NOON_US));
        let cost = group.model.as_ref().and_then(|model| prices.cost(model, &amounts, at));
        sum.requests = sum.requests.saturating_add(requests);
        sum.cost += cost.unwrap_or_default();
        if cost.is_none() {
            sum.unpriced = sum.unpriced.saturating_add(requests);
        }
    }
    sum
}

/// Returns the additional cost of the tokens that a request sent again, compared with reading them
/// from the prompt cache; `None` for a model without a price.
pub fn cost_of_cache_miss(request: &CacheUse, prices: &PriceTable) -> Option<f64> {
    let model = request.model.as_deref()?;
    let written = TokenAmounts {
        cache_write: request.written.unwrap_or_default(),
        cache_write_1h: request.written_1h,
        ..TokenAmounts::default()
    };
    let basis = PriceBasis { at: request.at, request: request.prompt };
    prices.cost_of_miss(model, request.again, &written, basis)
}

async fn usage_of(repo: &Repo, branches: Vec<Branch>) -> Result<Vec<AnswerUsage>> {
    let mut answers: Vec<AnswerUsage> = Vec::new();
    let mut ids = AnswerIds::default();
    // The place of each commit: its conversation, and the last prompt.
    let mut places: HashMap<CommitId, AnswerPlace> = HashMap::new();
    // The answers of each branch whose tool records no message ids, oldest first.
    let mut reported: HashMap<String, Vec<usize>> = HashMap::new();
    let times: HashMap<String, CommitId> =
        branches.iter().map(|branch| (branch.name.clone(), branch.head)).collect();
    for branch in branches {
        let mut own: Vec<OwnCommit> = Vec::new();
        let mut history = repo.history(branch.head);
        while let Some(commit) = history.next_unless(|id| places.contains_key(&id)).await? {
            own.push(OwnCommit::of(&branch.name, &commit));
        }
        let base = history.peek().and_then(|id| places.get(&id)).copied();
        let root = own.last().map_or(branch.head, |commit| commit.id);
        let mut place = base.unwrap_or_else(|| AnswerPlace::start(root));
        for OwnCommit { id, is_prompt, answer } in own.into_iter().rev() {
            place.prompt = if is_prompt { Some(id) } else { place.prompt };
            places.insert(id, place);
            let Some(FoundAnswer { answer, facts, content, is_note }) = answer.map(|it| *it) else {
                continue;
            };
            let known = ids.find(place, content, &facts);
            let number = known.unwrap_or(answers.len());
            ids.add(place, content, &facts, number);
            match answers.get_mut(number) {
                // Its commits repeat the numbers of the request; the last one has those of the
                // whole answer.
                Some(known) => {
                    if known.tokens.output <= answer.tokens.output {
                        known.tokens = answer.tokens;
                    }
                    known.at = known.at.min(answer.at).or(known.at).or(answer.at);
                }
                None => {
                    if is_note {
                        reported.entry(branch.name.clone()).or_default().push(number);
                    }
                    answers.push(answer);
                }
            }
        }
    }
    let documents = repo.documents("imports/").await?;
    if !reported.is_empty() {
        let copies = copies(&documents, &answers, &reported);
        let mut number = 0;
        answers.retain(|_| {
            number += 1;
            !copies.contains(&(number - 1))
        });
    }
    for (name, blob) in &documents {
        let branch = name.as_str().strip_prefix("imports/").unwrap_or_default();
        let Some(head) = times.get(branch) else { continue };
        if let Some((tokens, run)) = run_of(blob) {
            let at = repo.commit(*head).await?.and_then(|commit| commit.record().created_at);
            let requests = run.requests.unwrap_or(1).max(1);
            let branch = branch.to_owned();
            answers.push(AnswerUsage { branch, model: run.model, at, tokens, requests });
        }
    }
    Ok(answers)
}

/// Reads the totals of a run from the document of its branch.
fn run_of(document: &Blob) -> Option<(TokenTotals, RunTotals)> {
    #[derive(Deserialize)]
    struct Document {
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        tokens: TokenTotals,
        run: RunTotals,
    }
    let Document { meta } = serde_json::from_slice(document.bytes()).ok()?;
    (meta.tokens != TokenTotals::default() && !meta.run.by_answer)
        .then_some((meta.tokens, meta.run))
}

/// Returns the answers at the start of a fork that its tool copied from the original session.
fn copies(
    documents: &[(RefName, Blob)],
    answers: &[AnswerUsage],
    reported: &HashMap<String, Vec<usize>>,
) -> HashSet<usize> {
    #[derive(Deserialize)]
    struct Document {
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        session: Option<String>,
        parent: Option<String>,
    }
    type Key<'a> = (Option<&'a str>, TokenTotals);
    let mut by_session: HashMap<String, Vec<&str>> = HashMap::new();
    let mut forks: Vec<(&str, String)> = Vec::new();
    for (name, blob) in documents {
        let branch = name.as_str().strip_prefix("imports/").unwrap_or_default();
        let Some((branch, _)) = reported.get_key_value(branch) else { continue };
        let Ok(Document { meta }) = serde_json::from_slice(blob.bytes()) else { continue };
        if let Some(session) = meta.session {
            by_session.entry(session).or_default().push(branch);
        }
        forks.extend(meta.parent.map(|parent| (branch.as_str(), parent)));
    }
    let key = |number: &usize| -> Option<Key<'_>> {
        let answer = answers.get(*number)?;
        Some((answer.model.as_deref(), answer.tokens))
    };
    let mut copies = HashSet::new();
    for (fork, parent) in forks {
        let originals = by_session.get(&parent).into_iter().flatten();
        let originals = originals.filter(|branch| **branch != fork);
        let mut counts: HashMap<Key<'_>, usize> = HashMap::new();
        for number in originals.filter_map(|branch| reported.get(*branch)).flatten() {
            if let Some(key) = key(number) {
                *counts.entry(key).or_default() += 1;
            }
        }
        for number in reported.get(fork).into_iter().flatten() {
            let count = key(number).and_then(|key| counts.get_mut(&key));
            let Some(count) = count.filter(|count| **count > 0) else { break };
            *count -= 1;
            copies.insert(*number);
        }
    }
    copies
}

/// A commit of a branch that no earlier branch has.
struct OwnCommit {
    id: CommitId,
    is_prompt: bool,
    /// Boxed, as most commits have none.
    answer: Option<Box<FoundAnswer>>,
}

impl OwnCommit {
    fn of(branch: &str, commit: &Commit) -> Self {
        let answer = FoundAnswer::of(branch, commit).map(Box::new);
        Self { id: commit.id(), is_prompt: AnswerPlace::is_prompt(commit), answer }
    }
}

/// An answer as reported by one of its commits.
struct FoundAnswer {
    answer: AnswerUsage,
    facts: AnswerFacts,
    content: Option<BlobId>,
    /// Whether it is reported by a note in the log, not by the message.
    is_note: bool,
}

impl FoundAnswer {
    fn of(branch: &str, commit: &Commit) -> Option<Self> {
        let facts = AnswerFacts::of(commit);
        let usage = facts.usage?;
        let record = commit.record();
        let cache_write = usage.cache_write.unwrap_or_default();
        let answer = AnswerUsage {
            branch: branch.to_owned(),
            model: facts.model.clone(),
            at: record.created_at,
            requests: 1,
            tokens: TokenTotals {
                input: usage.uncached().unwrap_or_default(),
                output: usage.output.unwrap_or_default(),
                cache_read: usage.cache_read.unwrap_or_default(),
                cache_write,
                cache_write_1h: usage.cache_write_1h.unwrap_or_default().min(cache_write),
            },
        };
        let is_note = matches!(record.op, Op::Note);
        Some(Self { answer, facts, content: record.content, is_note })
    }
}
