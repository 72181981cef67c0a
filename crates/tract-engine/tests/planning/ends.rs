//! The end of a long line is read and written without the rest of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tract_core::{CommitId, Draft, Priority, RefName, Store, StoreResult, block_on};
use tract_engine::{MergeOptions, Repo, RepoOptions};
use tract_kv::memory;
use tract_testkit::{Answer, Call, Watch, WatchedStore};

/// Counts the commits that walks and look-ups give.
#[derive(Default)]
struct ReadCommits(AtomicUsize);

#[async_trait]
impl Watch for ReadCommits {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let answer = call.ask(store).await?;
        let read = match &answer {
            Answer::Walk(page) => page.entries.len(),
            Answer::Commits(commits) => commits.len(),
            _ => 0,
        };
        self.0.fetch_add(read, Ordering::Relaxed);
        Ok(answer)
    }
}

const MESSAGES: usize = 6000;
const EVERY: u64 = 64;
/// Commits that are read to come to a row of the turn index and to plan, with room to spare.
const FEW: usize = 1500;

fn options() -> RepoOptions {
    RepoOptions { turn_rows_every: EVERY, ..RepoOptions::default() }
}

/// A branch of many messages, and their ids.
fn long() -> (Arc<dyn Store>, Vec<CommitId>) {
    let store: Arc<dyn Store> = Arc::new(memory());
    let repo = Repo::new(Arc::clone(&store), options());
    let main = RefName::branch("main").unwrap();
    let mut ids = Vec::new();
    block_on(async {
        repo.init().await.unwrap();
        for start in (0..MESSAGES).step_by(100) {
            let drafts = (start..start + 100).map(|n| Draft::user(format!("message {n}")));
            let made = repo.append_all(&main, drafts).await.unwrap();
            ids.extend(made.iter().map(|commit| commit.id()));
        }
    });
    (store, ids)
}

/// Runs something on a handle that has read nothing, and says how many commits it read.
fn reads<T>(store: &Arc<dyn Store>, run: impl AsyncFnOnce(&Repo, &RefName) -> T) -> (T, usize) {
    let watched = Arc::new(WatchedStore::new(Arc::clone(store), ReadCommits::default()));
    let repo = Repo::new(Arc::clone(&watched) as Arc<dyn Store>, options());
    let main = RefName::branch("main").unwrap();
    let answer = block_on(run(&repo, &main));
    let read = watched.watch().0.load(Ordering::Relaxed);
    (answer, read)
}

#[test]
fn verbs_at_the_end_of_a_long_line_read_few_commits() {
    let (store, ids) = long();
    let last = *ids.last().unwrap();
    let (counts, read) = reads(&store, async |repo, _| repo.counts(Some(last)).await.unwrap());
    assert_eq!((counts.commits, counts.rows, counts.shown), (6000, 6000, 6000));
    assert!(read <= 3 * EVERY as usize, "counts: {read}");
    let (numbers, read) = reads(&store, async |repo, _| repo.recent_numbers(last).await.unwrap());
    assert_eq!(numbers.get(&last), Some(&6000));
    assert!(read < FEW, "numbers: {read}");
    for (text, wanted) in [("main~4500", 1499), ("main~5999", 0), ("main#5990", 5989)] {
        let (found, read) = reads(&store, async |repo, _| repo.resolve(text).await.unwrap());
        assert_eq!(found, ids[wanted], "{text}");
        assert!(read < FEW, "{text}: {read}");
    }
    let (_, read) = reads(&store, async |repo, main| {
        repo.append(main, Draft::assistant("an answer")).await.unwrap();
    });
    assert!(read < FEW, "a message: {read}");
    let (_, read) = reads(&store, async |repo, main| {
        repo.edit(main, last, "the last message").await.unwrap();
    });
    assert!(read < FEW, "an edit: {read}");
    let (_, read) = reads(&store, async |repo, main| {
        repo.annotate(main, &[last], Priority::Skip).await.unwrap();
    });
    assert!(read < FEW, "a priority: {read}");
    let side = RefName::branch("side").unwrap();
    let whole = Repo::new(Arc::clone(&store), options());
    let theirs = block_on(async {
        let head = whole.head_of(&RefName::branch("main").unwrap()).await.unwrap().unwrap();
        whole.create_branch("side", head).await.unwrap();
        whole.append(&RefName::branch("main").unwrap(), Draft::user("here")).await.unwrap();
        whole.append(&side, Draft::user("there")).await.unwrap().id()
    });
    let (_, read) = reads(&store, async |repo, main| {
        repo.merge(main, theirs, &MergeOptions::default()).await.unwrap();
    });
    assert!(read < 2 * FEW, "a merge: {read}");
    let whole = Repo::new(Arc::clone(&store), options());
    let report = block_on(tract_engine::verify(&whole, &Default::default())).unwrap();
    assert!(report.clean, "{:?}", report.damage);
    let head = block_on(whole.head_of(&RefName::branch("main").unwrap())).unwrap();
    let compiled = block_on(whole.compile(head)).unwrap();
    let texts: Vec<String> =
        compiled.messages().rev().take(4).map(|message| message.content.text()).collect();
    let shown = ["there", "here", "an answer", "message 5998"];
    assert_eq!(texts, shown, "the last message of the first ones is edited and left out");
    let counts = block_on(whole.counts(head)).unwrap();
    assert_eq!((counts.commits, counts.rows, counts.shown), (6005, 6003, 6002));
}

#[test]
fn messages_that_are_written_one_by_one_keep_counts() {
    let (store, ids) = long();
    // Each by a handle of its own, as a command line does it; some of them bring a row.
    for n in 0..150 {
        let ((), read) = reads(&store, async |repo, main| {
            repo.append(main, Draft::user(format!("later {n}"))).await.unwrap();
        });
        assert!(read < FEW, "message {n}: {read}");
    }
    let repo = Repo::new(Arc::clone(&store), options());
    let head = block_on(repo.head_of(&RefName::branch("main").unwrap())).unwrap().unwrap();
    let (counts, read) = reads(&store, async |repo, _| repo.counts(Some(head)).await.unwrap());
    assert_eq!(counts.commits, 6150);
    assert!(read <= 2 * EVERY as usize, "a row came with every {EVERY} of them: {read}");
    // An old message is changed on the whole line, with the same result.
    let main = RefName::branch("main").unwrap();
    block_on(repo.edit(&main, ids[10], "changed")).unwrap();
    let counts = block_on(repo.counts(block_on(repo.head_of(&main)).unwrap())).unwrap();
    assert_eq!((counts.commits, counts.rows), (6151, 6150));
    assert!(block_on(tract_engine::verify(&repo, &Default::default())).unwrap().clean);
}

#[test]
fn the_last_of_many_crossing_merges_reads_as_few_commits_as_the_first() {
    let store: Arc<dyn Store> = Arc::new(memory());
    let watched = Arc::new(WatchedStore::new(store, ReadCommits::default()));
    let repo = Repo::new(Arc::clone(&watched) as Arc<dyn Store>, options());
    let [main, side] = ["main", "side"].map(|name| RefName::branch(name).unwrap());
    let counted = async {
        let first = repo.append(&main, Draft::user("first")).await.unwrap().id();
        repo.create_branch("side", first).await.unwrap();
        let mut counted = Vec::new();
        for n in 0..200 {
            let ours = repo.append(&main, Draft::user(format!("here {n}"))).await.unwrap().id();
            let theirs = repo.append(&side, Draft::user(format!("there {n}"))).await.unwrap().id();
            let before = watched.watch().0.load(Ordering::Relaxed);
            // Both at once, so that each merge has two best common ancestors.
            repo.merge(&main, theirs, &MergeOptions::default()).await.unwrap();
            repo.merge(&side, ours, &MergeOptions::default()).await.unwrap();
            counted.push(watched.watch().0.load(Ordering::Relaxed) - before);
        }
        counted
    };
    let counted = block_on(counted);
    let most = |from: usize| counted.iter().skip(from).take(20).max().copied().unwrap();
    assert!(most(180) <= 3 * most(20), "{counted:?}");
    let heads = [&main, &side].map(|name| block_on(repo.head_of(name)).unwrap());
    let [ours, theirs] = heads.map(|head| block_on(repo.counts(head)).unwrap());
    assert_eq!((ours.shown, theirs.shown), (401, 401));
    assert!(block_on(tract_engine::verify(&repo, &Default::default())).unwrap().clean);
}
