//! The share of tool definitions in the requests of conversations.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use tract_core::{CommitId, ToolsetId};

use super::{Answer, Answers, KnownCommit, reported};
use crate::history::answer_facts::AnswerPlace;
use crate::history::turns::ToolQuery;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// What the definitions of one tool added to the requests of conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCost {
    /// The name of the tool.
    pub name: String,
    /// Tokens of its largest definition.
    pub tokens: u64,
    /// Requests that contained a definition of it.
    pub requests: u64,
    /// Tokens of its definitions in all of these requests.
    pub sent_tokens: u64,
    /// Tokens of these requests, as far as providers reported them.
    pub prompt_tokens: u64,
    /// Tokens of its definitions in the requests of `prompt_tokens`.
    pub reported_tokens: u64,
    /// How often models called it.
    pub calls: u64,
}

impl ToolCost {
    /// Returns the share of its definitions in the tokens of its requests, from 0 to 1; `None` if
    /// no provider reported the tokens.
    pub fn share(&self) -> Option<f64> {
        let share = self.reported_tokens as f64 / self.prompt_tokens as f64;
        (self.prompt_tokens > 0).then_some(share.min(1.0))
    }
}

/// A definition in force: its tool's name and its tokens.
type DefinitionTokens = (String, u64);

/// Returns what each tool's definitions added to the requests of conversations, those with the most
/// tokens first. The heads are those of branches or other commits.
///
/// # Behavior
/// - A request contains the tools in force at the commit before its answer. An answer that several
///   heads share, or that occurs again with the same provider's id, counts once.
/// - Tokens of definitions are counted by the repository's counter, over the definitions as they
///   were given.
/// - A tool that is called and never defined, as in recordings without definitions, is listed with
///   its calls only.
/// - Definitions that were erased are left out.
///
/// # Errors
/// When stored data is damaged, or the store fails.
///
/// # Complexity
/// Linear in the commits: what several heads share is read once.
pub async fn tool_costs(repo: &Repo, heads: &[CommitId]) -> Result<Vec<ToolCost>> {
    let mut costs: HashMap<String, ToolCost> = HashMap::new();
    let mut definitions: HashMap<ToolsetId, Vec<DefinitionTokens>> = HashMap::new();
    let Requests { requests, branches } = requests(repo, heads).await?;
    for (request, prompt) in requests {
        let Some(toolset) = request.toolset else { continue };
        let definitions = match definitions.entry(toolset) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(defined(repo, request.commit).await?),
        };
        // Several definitions of one name are one tool, and one request.
        let mut counted: HashSet<&str> = HashSet::new();
        for (name, tokens) in &*definitions {
            let cost = costs.entry(name.clone()).or_default();
            cost.tokens = cost.tokens.max(*tokens);
            cost.sent_tokens = cost.sent_tokens.saturating_add(*tokens);
            if counted.insert(name) {
                cost.requests += 1;
                cost.prompt_tokens = cost.prompt_tokens.saturating_add(prompt.unwrap_or_default());
            }
            if prompt.is_some() {
                cost.reported_tokens = cost.reported_tokens.saturating_add(*tokens);
            }
        }
    }
    let mut counted: HashSet<CommitId> = HashSet::new();
    for (head, after) in branches {
        let query = ToolQuery { after, hidden: true, ..ToolQuery::default() };
        for call in repo.find_tool_calls(Some(head), &query).await? {
            if counted.insert(call.id) {
                for name in call.tool_names {
                    costs.entry(name).or_default().calls += 1;
                }
            }
        }
    }
    let mut costs: Vec<ToolCost> =
        costs.into_iter().map(|(name, cost)| ToolCost { name, ..cost }).collect();
    costs.sort_by(|a, b| {
        let size = |cost: &ToolCost| Reverse((cost.sent_tokens, cost.calls));
        size(a).cmp(&size(b)).then_with(|| a.name.cmp(&b.name))
    });
    Ok(costs)
}

/// A request, by the commit whose context was sent.
struct Request {
    commit: CommitId,
    toolset: Option<ToolsetId>,
}

/// The requests behind some heads.
struct Requests {
    /// Each once, with the tokens that its provider reported.
    requests: Vec<(Request, Option<u64>)>,
    /// The heads with commits of their own, and the commit after which these begin.
    branches: Vec<(CommitId, Option<CommitId>)>,
}

async fn requests(repo: &Repo, heads: &[CommitId]) -> Result<Requests> {
    let mut branches = Vec::new();
    let mut answers = Answers::default();
    let mut known: HashMap<CommitId, KnownCommit> = HashMap::new();
    let mut toolsets: Vec<Option<ToolsetId>> = Vec::new();
    for head in heads {
        let mut commits = Vec::new();
        let mut history = repo.history(*head);
        while let Some(commit) = history.next_unless(|id| known.contains_key(&id)).await? {
            commits.push(commit);
        }
        let base = history.peek().and_then(|id| known.get(&id)).copied();
        let Some(first) = commits.last() else { continue };
        branches.push((*head, first.parent()));
        let mut place = base.map_or(AnswerPlace::start(first.id()), |base| base.place);
        let mut before = base.and_then(|base| base.answer);
        let mut in_force = match first.parent() {
            Some(parent) => repo.require_commit(parent).await?.toolset,
            None => None,
        };
        let mut is_adjacent = false;
        for commit in commits.into_iter().rev() {
            let answer = Answer::of(&commit);
            is_adjacent &= answer.is_some();
            if let Some(answer) = answer {
                match answers.same(place, &answer, before.filter(|_| is_adjacent)) {
                    Some(known) => answers.join(place, known, &answer),
                    None => {
                        before = Some(answers.push(place, answer));
                        toolsets.push(in_force);
                    }
                }
                is_adjacent = true;
            } else if let Some((answer, usage)) = before.zip(reported(&commit)) {
                answers.report(answer, usage);
            }
            place.pass(&commit);
            known.insert(commit.id(), KnownCommit { place, answer: before });
            in_force = commit.toolset;
        }
    }
    let requests = toolsets.into_iter().enumerate().filter_map(|(place, toolset)| {
        let answer = answers.get(place)?;
        let prompt = answer.usage.map(|usage| usage.prompt);
        Some((Request { commit: answer.request, toolset }, prompt))
    });
    Ok(Requests { requests: requests.collect(), branches })
}

/// Returns the definitions in force after a commit.
async fn defined(repo: &Repo, commit: CommitId) -> Result<Vec<DefinitionTokens>> {
    let tools = match repo.tools_of(commit).await {
        Err(Error::Erased(_)) => return Ok(Vec::new()),
        tools => tools?,
    };
    Ok(tools.into_iter().map(|tool| (tool.name, repo.counter().count(&tool.schema))).collect())
}
