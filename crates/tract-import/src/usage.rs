//! What the answers of a repository cost in tokens, from what their commits say.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use tract_core::store::Walk;
use tract_core::{Commit, CommitId, JsonText};
use tract_engine::{Repo, Result};

use crate::report::TokenTotals;

/// Tokens of one answer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnswerUsage {
    /// The branch that it is on; of several, the first by name.
    pub branch: String,
    /// The model, where the commit names it.
    pub model: Option<String>,
    /// When: microseconds since 1970, UTC.
    pub at: Option<i64>,
    /// Its tokens.
    pub tokens: TokenTotals,
}

#[derive(Deserialize)]
struct Facts {
    usage: Option<Usage>,
    message_id: Option<String>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl Usage {
    /// Tokens of a request include those that a cache had.
    fn totals(&self) -> TokenTotals {
        let cache_read = self.cached_tokens.unwrap_or_default();
        let cache_write = self.cache_write_tokens.unwrap_or_default();
        let input = self.input_tokens.unwrap_or_default();
        TokenTotals {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: self.output_tokens.unwrap_or_default(),
            cache_read,
            cache_write,
        }
    }
}

/// Lists the answers of all branches that say what they cost, each once: a commit that several
/// branches share counts on the first, and an API message that is several commits counts with the
/// largest number of its tokens.
///
/// # Errors
/// When the store fails.
///
/// # Complexity
/// Linear in the commits of the repository.
pub async fn usage(repo: &Repo) -> Result<Vec<AnswerUsage>> {
    let mut answers: Vec<AnswerUsage> = Vec::new();
    let mut by_message: HashMap<String, usize> = HashMap::new();
    let mut seen: HashSet<CommitId> = HashSet::new();
    for branch in repo.branches().await? {
        let mut next = Some(branch.head);
        'walk: while let Some(head) = next {
            let page = repo.store().walk(repo.name(), Walk::from(head)).await?;
            for entry in &page.steps {
                if !seen.insert(entry.commit.id()) {
                    break 'walk;
                }
                add(&branch.name, &entry.commit, &mut answers, &mut by_message);
            }
            next = page.next;
        }
    }
    Ok(answers)
}

fn add(
    branch: &str,
    commit: &Commit,
    answers: &mut Vec<AnswerUsage>,
    by_message: &mut HashMap<String, usize>,
) {
    let record = commit.record();
    let facts = record.metadata.as_ref().map(JsonText::as_str);
    let facts = facts.and_then(|text| serde_json::from_str::<Facts>(text).ok());
    let Some(Facts { usage: Some(usage), message_id, model }) = facts else { return };
    #[derive(Deserialize)]
    struct Config {
        model: Option<String>,
    }
    let config = record.generation_config.as_ref().map(JsonText::as_str);
    let config = config.and_then(|text| serde_json::from_str::<Config>(text).ok());
    let answer = AnswerUsage {
        branch: branch.to_owned(),
        model: config.and_then(|config| config.model).or(model),
        at: record.created_at,
        tokens: usage.totals(),
    };
    let Some(id) = message_id else { return answers.push(answer) };
    match by_message.get(&id).and_then(|at| answers.get_mut(*at)) {
        // Its commits repeat the numbers of the request, and the last one has all of the answer.
        Some(known) if known.tokens.output >= answer.tokens.output => {}
        Some(known) => known.tokens = answer.tokens,
        None => {
            by_message.insert(id, answers.len());
            answers.push(answer);
        }
    }
}
