//! What the answers of a repository cost in tokens, from what their commits say.

use std::collections::HashMap;

use tract_core::store::Walk;
use tract_core::{Commit, CommitId};
use tract_engine::{AnswerFacts, Repo, Result};

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

/// Lists the answers of all branches that say what they cost, each once: a commit that several
/// branches share counts on the first, and an API message that is several commits of a conversation
/// counts with the largest number of its tokens.
///
/// # Errors
/// When the store fails.
///
/// # Complexity
/// Linear in the commits of the repository.
pub async fn usage(repo: &Repo) -> Result<Vec<AnswerUsage>> {
    let mut answers: Vec<AnswerUsage> = Vec::new();
    let mut by_message: HashMap<(CommitId, String), usize> = HashMap::new();
    // The first commit of the conversation that each commit is of.
    let mut roots: HashMap<CommitId, CommitId> = HashMap::new();
    for branch in repo.branches().await? {
        let mut own: Vec<CommitId> = Vec::new();
        let mut found: Vec<(AnswerUsage, Option<String>)> = Vec::new();
        let mut root = branch.head;
        let mut next = Some(branch.head);
        while let Some(head) = next {
            let page = repo.store().walk(repo.name(), Walk::from(head)).await?;
            next = page.next;
            for entry in &page.steps {
                let id = entry.commit.id();
                if let Some(known) = roots.get(&id) {
                    root = *known;
                    next = None;
                    break;
                }
                root = id;
                own.push(id);
                found.extend(answer(&branch.name, &entry.commit));
            }
        }
        roots.extend(own.into_iter().map(|id| (id, root)));
        for (answer, message_id) in found {
            // Ids of messages are unique within a conversation; tools differ in what they promise.
            let key = message_id.map(|id| (root, id));
            match key.as_ref().and_then(|key| answers.get_mut(*by_message.get(key)?)) {
                // Its commits repeat the numbers of the request; the last one has all of the answer.
                Some(known) if known.tokens.output >= answer.tokens.output => {}
                Some(known) => known.tokens = answer.tokens,
                None => {
                    by_message.extend(key.map(|key| (key, answers.len())));
                    answers.push(answer);
                }
            }
        }
    }
    Ok(answers)
}

/// What a commit says that its answer cost, and the id of the API message.
fn answer(branch: &str, commit: &Commit) -> Option<(AnswerUsage, Option<String>)> {
    let facts = AnswerFacts::of(commit);
    let usage = facts.usage?;
    let answer = AnswerUsage {
        branch: branch.to_owned(),
        model: facts.model,
        at: commit.record().created_at,
        tokens: TokenTotals {
            input: usage.uncached().unwrap_or_default(),
            output: usage.output.unwrap_or_default(),
            cache_read: usage.cache_read.unwrap_or_default(),
            cache_write: usage.cache_write.unwrap_or_default(),
        },
    };
    Some((answer, facts.message_id))
}
