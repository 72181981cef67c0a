//! The state that all calls share: the repositories, excluded branches, and branches that may be written.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tract_compile::{CompileError, Compiled};
use tract_core::{CommitId, RepoName, ToolContext, ToolError};
use tract_engine::{Error, Repo};

/// Maximum number of repositories that stay open, each with its cache of compiled contexts.
const OPEN_REPOS: usize = 8;

/// The state that all calls share.
pub(crate) struct Shared {
    repo: Repo,
    others: Mutex<HashMap<RepoName, Repo>>,
    exclude: Vec<String>,
    write_to: Vec<String>,
    /// The branches that clients made since the server started.
    made: Mutex<HashSet<(RepoName, String)>>,
}

impl Shared {
    pub(crate) fn new(repo: Repo, exclude: Vec<String>, write_to: Vec<String>) -> Self {
        Self { repo, others: Mutex::default(), exclude, write_to, made: Mutex::default() }
    }

    /// Remembers that a client made a branch: it may write to it.
    pub(crate) fn made_branch(&self, repo: &Repo, branch: &str) {
        let made = (repo.name().clone(), branch.to_owned());
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(made);
    }

    /// Returns whether clients may write to a branch. They may not write to conversations of others,
    /// whose next answer would be built on it.
    pub(crate) fn may_write_to(&self, repo: &Repo, branch: &str) -> bool {
        let made = (repo.name().clone(), branch.to_owned());
        let allowed = self.write_to.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(beginning) => branch.starts_with(beginning),
            None => branch == allowed,
        });
        allowed || self.made.lock().unwrap_or_else(PoisonError::into_inner).contains(&made)
    }

    /// Returns what the host lent to a call.
    pub(crate) fn of(context: &ToolContext) -> Result<Arc<Self>, ToolError> {
        context.resource::<Arc<Self>>().map(Arc::clone)
    }

    /// Returns the repository of this name, or the server's own.
    pub(crate) async fn repo(&self, name: Option<&str>) -> Result<Repo, ToolError> {
        let Some(name) = name.filter(|name| *name != self.repo.name().as_str()) else {
            return Ok(self.repo.clone());
        };
        let unknown = || {
            ToolError::validation(format!("there is no repository {name:?}"))
                .at("repo")
                .note("leave it out for the server's own")
        };
        let name = RepoName::new(name).map_err(|_| unknown())?;
        if let Some(repo) = self.others().get(&name) {
            return Ok(repo.clone());
        }
        let names = self.repo.store().repos().await.map_err(Error::from).map_err(failed)?;
        if !names.contains(&name) {
            return Err(unknown());
        }
        let repo = self.repo.sibling(name.clone());
        let mut others = self.others();
        if others.len() >= OPEN_REPOS {
            others.clear();
        }
        others.insert(name, repo.clone());
        Ok(repo)
    }

    fn others(&self) -> std::sync::MutexGuard<'_, HashMap<RepoName, Repo>> {
        // Each change is complete at each step, so a panic leaves the map usable.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the branches that are left out of an answer: those of the server and of the call.
    pub(crate) fn excluded<'a>(&'a self, more: &'a [String]) -> HashSet<&'a str> {
        self.exclude.iter().chain(more).map(String::as_str).collect()
    }
}

/// Resolves a revision and compiles its context.
pub(crate) async fn compiled(
    repo: &Repo,
    revision: &str,
) -> Result<(CommitId, Compiled), ToolError> {
    let head = resolve_position(repo, revision).await?;
    let compiled = repo.compile(Some(head)).await.map_err(failed)?;
    Ok((head, compiled))
}

/// Resolves a revision.
pub(crate) async fn resolve(repo: &Repo, revision: &str) -> Result<CommitId, ToolError> {
    repo.resolve(revision).await.map_err(failed)
}

/// Resolves a revision that names a place in a history.
pub(crate) async fn resolve_position(repo: &Repo, revision: &str) -> Result<CommitId, ToolError> {
    repo.resolve_position(revision).await.map_err(failed)
}

/// Turns a failure of the engine into what the client reads: what is wrong and the way out. What the
/// store itself reports is for the operator alone, since it may name paths and servers.
pub(crate) fn failed(error: Error) -> ToolError {
    if let Error::Store(error) | Error::Compile(CompileError::Store(error)) = &error {
        let code = error.kind.code();
        return ToolError::other(format!("the store failed ({code})")).operator(error.to_string());
    }
    let notes = error.notes();
    let tool_error = ToolError::validation(error.to_string());
    notes.into_iter().fold(tool_error, ToolError::note)
}
