//! The sessions of a repository, for lists and headers.

use std::collections::{BTreeMap, BTreeSet};

use tract_engine::{Repo, SessionParentKind, SessionQuery, SessionSummary, session_tree};
use tract_import::{UsageCost, cost_of_usage};
use tract_providers::PriceTable;

use crate::error::Result;

/// A session in a list.
pub(crate) struct ListedSession {
    pub(crate) session: SessionSummary,
    pub(crate) cost: UsageCost,
    /// Its subagents, forks and rewinds, and theirs, in the order of the tree.
    pub(crate) children: Vec<ListedSession>,
}

/// Sums over sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionTotals {
    pub(crate) sessions: usize,
    pub(crate) messages: u64,
    pub(crate) tokens: u64,
    pub(crate) cost: UsageCost,
}

/// The sessions that pass a filter.
pub(crate) struct SessionList {
    /// Those without a listed parent, the one with the latest activity first.
    pub(crate) sessions: Vec<ListedSession>,
    /// Without forks and rewinds, whose counts include what they share with their parent.
    pub(crate) totals: SessionTotals,
    /// The values to choose from, of all sessions.
    pub(crate) choices: SessionChoices,
    pub(crate) currency: String,
}

/// The values of filters.
#[derive(Default)]
pub(crate) struct SessionChoices {
    pub(crate) projects: BTreeSet<String>,
    pub(crate) tools: BTreeSet<String>,
    pub(crate) models: BTreeSet<String>,
}

/// Reads the sessions that pass a filter.
pub(crate) async fn sessions(repo: &Repo, filter: &SessionQuery) -> Result<SessionList> {
    let prices = PriceTable::builtin();
    let mut sessions = tract_engine::sessions(repo, &SessionQuery::default()).await?;
    let mut choices = SessionChoices::default();
    for session in &sessions {
        choices.projects.extend(session.project.clone());
        choices.tools.extend(session.tool.clone());
        choices.models.extend(session.models.iter().cloned());
    }
    sessions.retain(|session| filter.matches(session));
    let nodes = session_tree(&sessions);
    let mut all: Vec<Option<SessionSummary>> = sessions.into_iter().map(Some).collect();
    let mut totals = SessionTotals::default();
    let mut listed: Vec<ListedSession> = Vec::new();
    for node in nodes {
        let Some(session) = all.get_mut(node.index).and_then(Option::take) else { continue };
        let cost = cost_of_usage(&session.usage, &prices);
        totals.add(&session, &cost);
        let one = ListedSession { session, cost, children: Vec::new() };
        match listed.last_mut().filter(|_| node.depth > 0) {
            Some(root) => root.children.push(one),
            None => listed.push(one),
        }
    }
    let currency = prices.currency().to_owned();
    Ok(SessionList { sessions: listed, totals, choices, currency })
}

impl SessionTotals {
    fn add(&mut self, session: &SessionSummary, cost: &UsageCost) {
        let kind = session.parent.as_ref().filter(|parent| parent.branch.is_some());
        let kind = kind.map(|parent| parent.kind);
        if matches!(kind, Some(SessionParentKind::Fork | SessionParentKind::Rewind)) {
            return;
        }
        self.sessions += 1;
        self.messages = self.messages.saturating_add(session.messages);
        self.tokens = self.tokens.saturating_add(session.all_tokens());
        self.cost.cost += cost.cost;
        self.cost.requests = self.cost.requests.saturating_add(cost.requests);
        self.cost.unpriced = self.cost.unpriced.saturating_add(cost.unpriced);
    }
}

/// Reads the facts of all branches, by name.
pub(crate) async fn sessions_by_branch(repo: &Repo) -> Result<BTreeMap<String, SessionSummary>> {
    let sessions = tract_engine::sessions(repo, &SessionQuery::default()).await?;
    Ok(sessions.into_iter().map(|session| (session.branch.clone(), session)).collect())
}
