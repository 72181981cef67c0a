//! Revisions from the command line.

use std::fmt::Write as _;

use tract::core::RepoName;
use tract::engine::SessionQuery;
use tract::{CommitId, Error, OpenOptions, Result, Tract};

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::out::Output;
use crate::render::count;

/// Maximum number of conversations that a failure lists.
const LISTED_TITLES: usize = 10;

/// Finds the commits that revisions name.
pub(crate) async fn resolve_all(tract: &Tract, revisions: &[String]) -> Result<Vec<CommitId>> {
    let mut ids = Vec::with_capacity(revisions.len());
    for revision in revisions {
        ids.push(tract.resolve(revision).await?);
    }
    Ok(ids)
}

/// Finds the commit of an optional revision.
pub(crate) async fn resolve_optional(
    tract: &Tract,
    revision: Option<&str>,
) -> Result<Option<CommitId>> {
    match revision {
        Some(revision) => tract.resolve(revision).await.map(Some),
        None => Ok(None),
    }
}

/// Finds the position in a history of an optional revision.
pub(crate) async fn resolve_optional_position(
    tract: &Tract,
    revision: Option<&str>,
) -> Result<Option<CommitId>> {
    match revision {
        Some(revision) => tract.resolve_position(revision).await.map(Some),
        None => Ok(None),
    }
}

/// Finds the position in a history of a revision; `None` for `HEAD` on a branch without commits,
/// which is not an unknown revision.
pub(crate) async fn resolve_head_position(
    tract: &Tract,
    revision: &str,
) -> Result<Option<CommitId>> {
    match tract.head().await? {
        None if revision == "HEAD" => Ok(None),
        _ => tract.resolve_position(revision).await.map(Some),
    }
}

/// Finds the commit of a revision; `None` for `HEAD` on a branch without commits, which is not an
/// unknown revision.
pub(crate) async fn resolve_head(tract: &Tract, revision: &str) -> Result<Option<CommitId>> {
    match tract.head().await? {
        None if revision == "HEAD" => Ok(None),
        _ => tract.resolve(revision).await.map(Some),
    }
}

/// As [`resolve_head`]. For an unknown revision, searches the titles of conversations for these words:
/// returns and prints the only match, or fails with a list of several.
pub(crate) async fn resolve_head_or_title(
    out: &mut Output,
    tract: &Tract,
    words: &str,
) -> Outcome<Option<CommitId>> {
    let unknown = match resolve_head(tract, words).await {
        Err(error @ Error::UnknownRevision { .. }) => error,
        resolved => return Ok(resolved?),
    };
    let query = SessionQuery { text: Some(words.to_owned()), ..SessionQuery::default() };
    let mut sessions = tract.sessions(&query).await?;
    sessions.retain(|session| session.title_has(words));
    let is_exact = |title: &str| title.to_lowercase() == words.to_lowercase();
    let mut exact = sessions.iter().filter(|one| one.title.as_deref().is_some_and(is_exact));
    if let (Some(session), None) = (exact.next().cloned(), exact.next()) {
        sessions = vec![session];
    }
    let line = |title: Option<&str>| escape::line(title.unwrap_or_default()).to_string();
    match sessions.as_slice() {
        [] => Err(unknown.into()),
        [session] => {
            out.say(format_args!("{}: {}", session.branch, line(session.title.as_deref())));
            Ok(Some(session.head))
        }
        _ => {
            let named = sessions
                .iter()
                .take(LISTED_TITLES)
                .map(|session| format!("{}: {}", session.branch, line(session.title.as_deref())));
            let failure = Failure::from(unknown)
                .note(format!("{} conversations have these words in their title", sessions.len()));
            Err(failure.notes(named))
        }
    }
}

/// Returns the heads that revisions name, or `HEAD` if there are none. A branch without commits
/// adds nothing.
pub(crate) async fn named_heads(
    tract: &Tract,
    all: bool,
    revisions: &[String],
) -> Result<Vec<(String, CommitId)>> {
    if all {
        return branch_heads(tract).await;
    }
    if revisions.is_empty() {
        let head = tract.head().await?;
        return Ok(head.map(|head| (tract.branch_name().to_owned(), head)).into_iter().collect());
    }
    let mut heads = Vec::with_capacity(revisions.len());
    for revision in revisions {
        heads.push((revision.clone(), tract.resolve_position(revision.as_str()).await?));
    }
    Ok(heads)
}

/// Returns the heads that a search covers: those that revisions name, else `HEAD`, or all branches
/// if the branch of `HEAD` has no commits yet.
pub(crate) async fn searched_heads(
    tract: &Tract,
    all: bool,
    revisions: &[String],
) -> Result<Vec<(String, CommitId)>> {
    let heads = named_heads(tract, all, revisions).await?;
    match heads.is_empty() && revisions.is_empty() {
        true => branch_heads(tract).await,
        false => Ok(heads),
    }
}

/// Describes the place of a search without a hit, and the options that search more: other branches if
/// the user named none, and hidden messages.
///
/// # Errors
/// Those of the store.
pub(crate) async fn nothing_in(
    tract: &Tract,
    searched: &[(String, CommitId)],
    is_default: bool,
    hidden: bool,
) -> Result<String> {
    let mut text = match searched {
        [] => return Ok("an empty repository: `tract import` and `tract commit` add to it".into()),
        [(one, _)] => {
            let titles = crate::titles::Titles::read(tract).await;
            titles.get(one).map_or_else(
                || escape::line(one).into_owned(),
                |title| format!("\"{}\"", escape::line(title)),
            )
        }
        many => count(many.len(), "branch"),
    };
    if is_default && searched.len() == 1 {
        let branches = tract.branches().list().await?.len();
        if branches > 1 {
            let _ = write!(text, "; --all searches all {}", count(branches, "branch"));
        }
    }
    if !hidden {
        text.push_str("; --hidden searches what was edited or hidden too");
    }
    Ok(text)
}

/// Returns the heads of all branches, by name.
pub(crate) async fn branch_heads(tract: &Tract) -> Result<Vec<(String, CommitId)>> {
    let branches = tract.branches().list().await?;
    Ok(branches.into_iter().map(|branch| (branch.name, branch.head)).collect())
}

/// Opens another repository of the same store.
pub(crate) async fn open_repo(tract: &Tract, repo: &RepoName) -> Result<Tract> {
    let options = OpenOptions::new().repo(repo.as_str()).create(false);
    options.open_store(tract.store().clone()).await
}
