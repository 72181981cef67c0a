//! The ref log.

use std::collections::BTreeMap;

use tract_core::store::LogQuery;
use tract_core::{
    Applied, Batch, BatchId, Blob, Commit, Expect, LogEntry, LogNote, OperationId, RefEdit,
    RefName, RefTarget, RepoName, Store, StoreExt, StoreResult,
};

use crate::fixtures::{advance, batch, branch, done, line, moving, push};
use crate::suite::Repo;

async fn whole(store: &dyn Store, repo: &RepoName) -> StoreResult<Vec<LogEntry>> {
    store.ref_log(repo, &LogQuery::default()).await
}

pub(super) async fn log_replays_to_the_refs((store, repo): Repo) -> StoreResult<()> {
    let commits = line(&*store, &repo, "main", None, &["one", "two", "three"]).await?;
    let first = RefTarget::Commit(commits[0].id());
    let edits = vec![
        advance("other", None, commits[1].id()),
        RefEdit { name: branch("main"), expect: Expect::Any, to: Some(first.clone()) },
    ];
    done(store.apply(&repo, moving(edits)).await)?;
    let gone = RefEdit { name: branch("other"), expect: Expect::Any, to: None };
    let new = advance("third", None, commits[2].id());
    let (name, document) = (RefName::new("config/x").expect("valid"), Blob::seal("a document"));
    let to = Some(RefTarget::Blob(document.id()));
    let config = RefEdit { name, expect: Expect::Any, to };
    let to = Some(RefTarget::Ref(branch("main")));
    let head = RefEdit { name: RefName::head(), expect: Expect::Absent, to };
    let blobs = vec![document];
    done(store.apply(&repo, Batch { blobs, ..moving(vec![gone, new, head, config]) }).await)?;
    let mut refs = BTreeMap::new();
    let entries = whole(&*store, &repo).await?;
    assert_eq!(entries.len(), 9);
    for entry in entries.into_iter().rev() {
        assert_eq!(refs.get(&entry.name), entry.before.as_ref(), "entry {}", entry.seq);
        match entry.after {
            Some(after) => drop(refs.insert(entry.name, after)),
            None => drop(refs.remove(&entry.name)),
        }
    }
    assert!(store.list_refs(&repo, "").await?.into_iter().eq(refs));
    Ok(())
}

pub(super) async fn log_is_newest_first((store, repo): Repo) -> StoreResult<()> {
    let commits = line(&*store, &repo, "main", None, &["one", "two", "three"]).await?;
    let entries = whole(&*store, &repo).await?;
    let after: Vec<_> = entries.iter().filter_map(|entry| entry.after.as_ref()?.commit()).collect();
    assert!(after.iter().eq(commits.iter().rev().map(Commit::id).collect::<Vec<_>>().iter()));
    assert!(entries.windows(2).all(|pair| pair[0].seq > pair[1].seq));
    Ok(())
}

pub(super) async fn log_can_be_asked_by_name_batch_and_number(
    (store, repo): Repo,
) -> StoreResult<()> {
    let mut writing = batch("commit");
    let id = writing.id;
    let one = push(&mut writing, None, "one").id();
    writing.refs = vec![advance("a", None, one), advance("b", None, one), advance("c", None, one)];
    done(store.apply(&repo, writing).await)?;
    let two = line(&*store, &repo, "main", Some(one), &["two", "three", "four"]).await?;
    // Another write of the same command: only the first half of its id is equal.
    let sibling = BatchId::random()?.with_prefix(id.prefix());
    let mut second = Batch { id: sibling, ..batch("commit") };
    second.refs = vec![advance("a", Some(one), two[1].id()), advance("d", None, one)];
    done(store.apply(&repo, second).await)?;
    let all = whole(&*store, &repo).await?;
    assert_eq!(all.len(), 8);
    let middle = all[2].seq;
    let ask = LogQuery::default;
    type ExpectedFilter<'a> = Box<dyn Fn(&LogEntry) -> bool + 'a>;
    let table: Vec<(LogQuery, ExpectedFilter<'_>)> = vec![
        (LogQuery { name: Some(branch("main")), ..ask() }, Box::new(|e| e.name == branch("main"))),
        (LogQuery { name: Some(branch("absent")), ..ask() }, Box::new(|_| false)),
        (LogQuery { batch: Some(id), ..ask() }, Box::new(|e| e.batch == id)),
        (
            LogQuery { batch: Some(id), name: Some(branch("b")), ..ask() },
            Box::new(|e| e.batch == id && e.name == branch("b")),
        ),
        (
            LogQuery { batch_prefix: Some(id.prefix()), ..ask() },
            Box::new(|e| e.batch.prefix() == id.prefix()),
        ),
        (
            LogQuery { batch_prefix: Some(id.prefix()), before: Some(middle), ..ask() },
            Box::new(|e| e.batch.prefix() == id.prefix() && e.seq < middle),
        ),
        (
            LogQuery { batch_prefix: Some(sibling.prefix()), batch: Some(id), ..ask() },
            Box::new(|e| e.batch == id),
        ),
        (LogQuery { batch_prefix: Some([0; 8]), batch: Some(id), ..ask() }, Box::new(|_| false)),
        (LogQuery { before: Some(middle), ..ask() }, Box::new(|e| e.seq < middle)),
        (LogQuery { before: Some(0), ..ask() }, Box::new(|_| false)),
        (LogQuery { before: Some(u64::MAX), ..ask() }, Box::new(|_| true)),
    ];
    for (query, wanted) in table {
        let expected: Vec<LogEntry> = all.iter().filter(|entry| wanted(entry)).cloned().collect();
        assert_eq!(store.ref_log(&repo, &query).await?, expected, "{query:?}");
        let limited = store.ref_log(&repo, &LogQuery { limit: 2, ..query.clone() }).await?;
        assert_eq!(limited, expected[..expected.len().min(2)], "two of {query:?}");
    }
    Ok(())
}

pub(super) async fn log_keeps_what_was_said((store, repo): Repo) -> StoreResult<()> {
    let note = LogNote {
        operation: OperationId::from_bytes([7; 16]),
        what: "undo".to_owned(),
        who: "someone with a long name, 語".to_owned(),
        why: Some("second thoughts".to_owned()),
        undoes: Some(41),
        at: -12_345,
    };
    // A write may have the id of its operation.
    for (name, id) in [("main", BatchId::random()?), ("other", BatchId::from_bytes([7; 16]))] {
        let mut writing = Batch::new(id, note.clone());
        let one = push(&mut writing, None, "one").id();
        writing.refs.push(advance(name, None, one));
        done(store.apply(&repo, writing).await)?;
        let entry = whole(&*store, &repo).await?.remove(0);
        assert_eq!((entry.note, entry.batch, entry.name), (note.clone(), id, branch(name)));
        assert_eq!((entry.before, entry.after), (None, Some(RefTarget::Commit(one))));
    }
    Ok(())
}

pub(super) async fn log_of_thousands_of_moves_is_whole((store, repo): Repo) -> StoreResult<()> {
    const BRANCHES: usize = 250;
    const ROUNDS: usize = 20;
    let mut import = batch("import");
    let (mut parent, mut commits) = (None, Vec::new());
    for round in 0..ROUNDS {
        let next = push(&mut import, parent, &format!("message {round}")).id();
        commits.push(next);
        parent = Some(next);
    }
    done(store.apply(&repo, import).await)?;
    let mut before = None;
    for next in &commits {
        let moves = (0..BRANCHES).map(|n| advance(&format!("b{n}"), before, *next));
        done(store.apply(&repo, moving(moves.collect())).await)?;
        before = Some(*next);
    }
    let entries = whole(&*store, &repo).await?;
    assert_eq!(entries.len(), BRANCHES * ROUNDS);
    assert!(entries.windows(2).all(|pair| pair[0].seq > pair[1].seq));
    let oldest = &entries[entries.len() - BRANCHES..];
    assert!(oldest.iter().all(|entry| entry.before.is_none()), "every ref begins at nothing");
    // Pages by number return the same entries, and so does the log of one ref.
    let (mut paged, mut page) = (0, LogQuery { limit: 700, ..LogQuery::default() });
    loop {
        let found = store.ref_log(&repo, &page).await?;
        let Some(last) = found.last() else { break };
        assert_eq!(found, entries[paged..paged + found.len()]);
        (paged, page.before) = (paged + found.len(), Some(last.seq));
    }
    assert_eq!(paged, entries.len());
    let one = LogQuery { name: Some(branch("b7")), ..LogQuery::default() };
    assert_eq!(store.ref_log(&repo, &one).await?.len(), ROUNDS);
    assert_eq!(store.stats(&repo).await?.log_entries, entries.len() as u64);
    Ok(())
}

pub(super) async fn write_that_moves_nothing_logs_nothing((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("put");
    push(&mut writing, None, "one");
    done(store.apply(&repo, writing).await)?;
    assert_eq!(whole(&*store, &repo).await?, []);
    Ok(())
}

pub(super) async fn edit_already_there_succeeds_and_logs_nothing(
    (store, repo): Repo,
) -> StoreResult<()> {
    let commits = line(&*store, &repo, "main", None, &["one", "two"]).await?;
    let before = whole(&*store, &repo).await?;
    let there = Some(RefTarget::Commit(commits[1].id()));
    let other = Expect::Is(RefTarget::Commit(commits[0].id()));
    for expect in [Expect::Any, Expect::Absent, other.clone()] {
        let edit = RefEdit { name: branch("main"), expect, to: there.clone() };
        done(store.apply(&repo, moving(vec![edit])).await)?;
        assert_eq!(whole(&*store, &repo).await?, before);
    }
    let absent = RefEdit { name: branch("absent"), expect: other, to: None };
    done(store.apply(&repo, moving(vec![absent])).await)?;
    assert_eq!(whole(&*store, &repo).await?, before);
    Ok(())
}

pub(super) async fn import_twice_logs_nothing((store, repo): Repo) -> StoreResult<()> {
    let mut import = batch("import");
    let mut parent = None;
    for text in ["one", "two", "three"] {
        parent = Some(push(&mut import, parent, text).id());
    }
    let head = parent.expect("three were made");
    import.refs.push(advance("imported", None, head));
    done(store.apply(&repo, import.clone()).await)?;
    let (log, stats) = (whole(&*store, &repo).await?, store.stats(&repo).await?);
    assert_eq!(log.len(), 1);
    let again = Batch { id: batch("import").id, ..import.clone() };
    done(store.apply(&repo, again).await)?;
    assert_eq!(store.apply(&repo, import).await?, Applied::Already);
    assert_eq!(whole(&*store, &repo).await?, log);
    let now = store.stats(&repo).await?;
    assert_eq!((now.commits, now.blobs, now.log_entries), (stats.commits, stats.blobs, 1));
    assert_eq!(store.walk_all(&repo, head).await?.len(), 3);
    Ok(())
}
