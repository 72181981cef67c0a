//! The tools of a branch over its commits, with their approvals.

use std::collections::{BTreeMap, HashMap};

use tract_core::{Commit, CommitId, ToolId, ToolsetId};
use tract_engine::Repo;
use tract_schema::{Dialect, Loss, Target};
use tract_tools::pin::{Pin, Pins};

use crate::error::Result;

/// Maximum number of listed changes, the newest.
pub(crate) const CHANGES: usize = 100;

/// A commit that changed the active tools.
pub(crate) struct ToolsChange {
    pub(crate) commit: Commit,
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Tools with the same name and another definition.
    pub(crate) changed: Vec<String>,
}

/// The losses and the approval of one active tool.
pub(crate) struct ToolFacts {
    /// The losses per provider. Providers without a loss are left out.
    pub(crate) losses: Vec<(Dialect, Vec<Loss>)>,
    pub(crate) approval: Approval,
}

/// The approval of a definition in this repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approval {
    /// No tool of this name was approved.
    None,
    /// This definition was approved.
    Approved,
    /// Another definition of this name was approved.
    Other,
}

/// Reads the changes of the active tools in the history of a head, newest first. Also returns
/// whether there are more than are listed.
pub(crate) async fn tool_changes(repo: &Repo, head: CommitId) -> Result<(Vec<ToolsChange>, bool)> {
    let mut found = Vec::new();
    // The current commit. Only its parent shows whether it changed the tools.
    let mut later: Option<Commit> = None;
    let mut history = repo.history(head);
    while let Some(earlier) = history.next().await? {
        let before = earlier.toolset;
        if let Some(commit) = later.replace(earlier)
            && commit.toolset != before
        {
            if found.len() == CHANGES {
                return Ok((found, true));
            }
            found.push(change(repo, commit, before).await?);
        }
    }
    if let Some(first) = later.filter(|first| first.toolset.is_some()) {
        found.push(change(repo, first, None).await?);
    }
    Ok((found, false))
}

async fn change(repo: &Repo, commit: Commit, before: Option<ToolsetId>) -> Result<ToolsChange> {
    let (old, new) = (names(repo, before).await?, names(repo, commit.toolset).await?);
    let only = |these: &BTreeMap<String, Vec<ToolId>>, others: &BTreeMap<String, Vec<ToolId>>| {
        these.keys().filter(|name| !others.contains_key(*name)).cloned().collect()
    };
    let changed = new.iter().filter(|(name, ids)| old.get(*name).is_some_and(|old| old != *ids));
    Ok(ToolsChange {
        added: only(&new, &old),
        removed: only(&old, &new),
        changed: changed.map(|(name, _)| name.clone()).collect(),
        commit,
    })
}

/// Returns the tools of a list by name.
async fn names(repo: &Repo, toolset: Option<ToolsetId>) -> Result<BTreeMap<String, Vec<ToolId>>> {
    let Some(toolset) = toolset else { return Ok(BTreeMap::new()) };
    let toolset = repo.require_toolset(toolset).await?;
    let ids: Vec<ToolId> = toolset.entries().iter().map(|entry| entry.tool).collect();
    let tools = repo.store().tools(repo.name(), &ids).await.map_err(tract_engine::Error::from)?;
    let mut names: BTreeMap<String, Vec<ToolId>> = BTreeMap::new();
    for tool in tools.into_iter().flatten() {
        names.entry(tool.name).or_default().push(tool.id);
    }
    Ok(names)
}

/// Reads the losses and approvals of definitions, each given with its id and name.
pub(crate) async fn tool_facts(
    repo: &Repo,
    tools: impl Iterator<Item = (ToolId, &str, &str)>,
) -> Result<Vec<ToolFacts>> {
    let documents = repo.documents(Pins::DOCUMENTS).await?;
    // A damaged approval approves nothing; `tract tools pins` reports it.
    let mut approved: HashMap<String, Vec<ToolId>> = HashMap::new();
    let pins = documents.iter().filter_map(|(_, blob)| Pin::parse(blob.text()?).ok());
    pins.for_each(|pin| {
        approved.entry(pin.definition().name().to_owned()).or_default().push(pin.tool_id());
    });
    let facts = tools.map(|(id, name, schema)| {
        let approval = match approved.get(name) {
            None => Approval::None,
            Some(ids) if ids.contains(&id) => Approval::Approved,
            Some(_) => Approval::Other,
        };
        let losses = Dialect::ALL.into_iter().filter_map(|dialect| {
            let copy = tract_schema::translate(schema, Target::Provider(dialect), false).ok()?;
            (!copy.losses.is_empty()).then_some((dialect, copy.losses))
        });
        ToolFacts { losses: losses.collect(), approval }
    });
    Ok(facts.collect())
}
