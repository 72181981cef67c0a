//! Plays one history on several stores, and compares their answers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tract_core::store::{LogQuery, StoreResult};
use tract_core::{
    Batch, Commit, CommitId, RefName, RefTarget, RepoName, Store, StoreExt, block_on,
};

/// A store with a name for reports.
#[derive(Clone, Debug)]
pub struct NamedStore {
    /// The name.
    pub name: String,
    /// The store, which must be empty.
    pub store: Arc<dyn Store>,
}

impl NamedStore {
    /// Names a store.
    pub fn new(name: impl Into<String>, store: Arc<dyn Store>) -> Self {
        Self { name: name.into(), store }
    }
}

/// Two stores answered differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "after {after} writes, {query}: {} answers {}, {} answers {}",
    one.0, one.1, other.0, other.1
)]
pub struct Difference {
    /// The number of writes before it.
    pub after: usize,
    /// The query.
    pub query: String,
    /// The first store, and its answer.
    pub one: (String, String),
    /// The other store, and its answer.
    pub other: (String, String),
}

/// Counts of the comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonReport {
    /// Number of writes.
    pub writes: usize,
    /// Number of compared answers.
    pub answers: usize,
}

/// Plays a history on several stores, one write after the other. Compares after each: the answer,
/// the refs, the ref log, the history of each branch, and the result of `observe` for each head,
/// such as its view or its compiled context.
///
/// ```
/// use std::sync::Arc;
/// use tract_kv::memory;
/// use tract_testkit::differential::{NamedStore, play};
/// use tract_testkit::fixtures::{advance, batch, push};
/// let mut write = batch("commit");
/// let commit = push(&mut write, None, "Hi");
/// write.refs.push(advance("main", None, commit.id()));
/// let stores = [NamedStore::new("one", Arc::new(memory())), NamedStore::new("two", Arc::new(memory()))];
/// let compared = play(&stores, &[write], |_, head| head.to_hex().into())?;
/// assert_eq!(compared.writes, 1);
/// # Ok::<(), Box<tract_testkit::differential::Difference>>(())
/// ```
///
/// # Errors
/// The first [`Difference`].
pub fn play(
    stores: &[NamedStore],
    history: &[Batch],
    observe: impl Fn(&dyn Store, CommitId) -> Bytes,
) -> Result<ComparisonReport, Box<Difference>> {
    let repo = RepoName::default();
    let mut compared = ComparisonReport::default();
    for (number, batch) in history.iter().enumerate() {
        let after = number + 1;
        let mut ask = |query: &str, question: &dyn Fn(&dyn Store) -> String| {
            compared.answers += 1;
            same(stores, after, query, question)
        };
        ask("a write", &|store| shown(block_on(store.apply(&repo, batch.clone()))))?;
        // A repeated write is recognized.
        ask("the write again", &|store| shown(block_on(store.apply(&repo, batch.clone()))))?;
        ask("refs", &|store| shown(block_on(store.list_refs(&repo, ""))))?;
        ask("the ref log", &|store| shown(block_on(log(store, &repo))))?;
        for commit in &batch.commits {
            let id = commit.id();
            ask("a commit", &|store| shown(block_on(store.commits(&repo, &[id]))))?;
        }
        let first = stores.first().map(|named| named.store.as_ref());
        let refs = first.map(|store| block_on(store.list_refs(&repo, "heads/")));
        for (name, target) in refs.and_then(Result::ok).unwrap_or_default() {
            let Some(head) = target.commit() else { continue };
            let ids = |line: Vec<Commit>| line.iter().map(Commit::id).collect::<Vec<CommitId>>();
            ask(&format!("the line of {name}"), &|store| {
                shown(block_on(store.walk_all(&repo, head)).map(ids))
            })?;
            ask(&format!("what is observed at {name}"), &|store| {
                format!("{:?}", observe(store, head))
            })?;
        }
        compared.writes = after;
    }
    Ok(compared)
}

/// An entry of the ref log without its number, which differs between stores.
type Logged = (RefName, Option<RefTarget>, Option<RefTarget>, String);

async fn log(store: &dyn Store, repo: &RepoName) -> StoreResult<Vec<Logged>> {
    let entries = store.ref_log(repo, &LogQuery::default()).await?;
    Ok(entries.into_iter().map(|e| (e.name, e.before, e.after, e.note.what)).collect())
}

/// Formats an answer. Of an error only the kind is compared, because each engine has its own
/// messages.
fn shown<T: fmt::Debug>(answer: StoreResult<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("failure: {:?}", error.kind),
    }
}

fn same(
    stores: &[NamedStore],
    after: usize,
    query: &str,
    question: &dyn Fn(&dyn Store) -> String,
) -> Result<(), Box<Difference>> {
    let mut answers = stores.iter().map(|named| (&named.name, question(named.store.as_ref())));
    let Some((one, expected)) = answers.next() else { return Ok(()) };
    match answers.find(|(_, answer)| *answer != expected) {
        None => Ok(()),
        Some((other, answer)) => Err(Box::new(Difference {
            after,
            query: query.to_owned(),
            one: (one.clone(), cut(&expected)),
            other: (other.clone(), cut(&answer)),
        })),
    }
}

/// Cuts a text that is longer than a screen.
fn cut(text: &str) -> String {
    text.chars().take(2000).collect()
}
