use std::sync::Arc;

use tract_core::{Draft, Store, block_on};
use tract_engine::{FetchOptions, PushOptions, Repo, RepoOptions, fetch, push};
use tract_kv::memory;

use crate::fixture::{
    branch, chain, counted, is_clean, one, read, repo, repo_in, say, says, sqlite, with_everything,
};

fn without_limit(store: &Arc<dyn Store>) -> (Repo, Arc<crate::fixture::Counts>) {
    let (store, counts) = counted(store, usize::MAX);
    // Rows of the turn index are made after a transfer: they are no questions of it.
    (Repo::new(store, RepoOptions { turn_rows_every: u64::MAX, ..RepoOptions::default() }), counts)
}

/// A chain of which the other side has the first part, and of which no ref there says so.
fn with_part(messages: usize, there: usize) -> (Repo, Arc<dyn Store>) {
    let from = repo();
    let ids = chain(&from, "main", messages);
    let store: Arc<dyn Store> = Arc::new(memory());
    let to = repo_in(Arc::clone(&store));
    if there > 0 {
        block_on(async {
            from.create_branch("part", ids[there - 1]).await.expect("it is made");
            let options =
                PushOptions { branches: vec!["part".to_owned()], ..PushOptions::default() };
            push(&from, &one(&to), "team", &options).await.expect("it is pushed");
            to.undo(&branch("part")).await.expect("it is undone");
        });
    }
    (from, store)
}

#[test]
fn the_missing_part_of_a_chain_is_found_with_few_questions() {
    for (messages, there) in
        [(1, 0), (100, 0), (100, 1), (100, 99), (3000, 0), (3000, 7), (3000, 1500), (3000, 2990)]
    {
        let (from, store) = with_part(messages, there);
        let (to, counts) = without_limit(&store);
        let options = PushOptions { branches: vec!["main".to_owned()], ..PushOptions::default() };
        let report = block_on(push(&from, &to, "team", &options)).expect("it is pushed");
        assert_eq!(report.commits, messages - there, "{there} of {messages}");
        assert_eq!(read(&counts.applied), messages - there, "nothing is sent that is there");
        // Doubling steps, then sections of fifteen.
        let most = 20 + 3 * 17 + (messages as f64).log2() as usize;
        assert!(read(&counts.questions) <= most, "{there} of {messages}: {counts:?}");
        is_clean(&repo_in(store));
    }
}

#[test]
fn questions_grow_with_the_logarithm_of_a_chain() {
    let questions = |messages: usize| {
        let (from, store) = with_part(messages, messages / 3);
        let (to, counts) = without_limit(&store);
        let options = PushOptions { branches: vec!["main".to_owned()], ..PushOptions::default() };
        block_on(push(&from, &to, "team", &options)).expect("it is pushed");
        read(&counts.questions)
    };
    let (short, long) = (questions(256), questions(4096));
    assert!(long <= short + 4 * 8, "{short} questions of 256 commits, {long} of 4,096");
}

#[test]
fn ten_new_messages_of_a_long_chain_take_few_calls() {
    let (from, store) = with_part(2000, 0);
    let options = PushOptions { branches: vec!["main".to_owned()], ..PushOptions::default() };
    block_on(push(&from, &repo_in(Arc::clone(&store)), "team", &options)).expect("it is pushed");
    chain(&from, "main", 10);
    let (to, counts) = without_limit(&store);
    let report = block_on(push(&from, &to, "team", &options)).expect("it is pushed");
    assert_eq!((report.commits, read(&counts.applied)), (10, 10));
    // The refs, what is missing, two writes of objects, the refs again and the write that moves them.
    assert!(read(&counts.calls) <= 10, "{counts:?}");
    // And back: what is new there comes with as few.
    let theirs = repo_in(Arc::clone(&store));
    chain(&theirs, "main", 10);
    let (theirs, counts) = without_limit(&store);
    let report =
        block_on(fetch(&from, &theirs, "team", &FetchOptions::default())).expect("it is fetched");
    assert_eq!(report.commits, 10);
    // One more asks what was erased there, and one whether something was while they came.
    assert!(read(&counts.calls) <= 14, "{counts:?}");
}

#[test]
fn many_branches_on_one_long_trunk_are_walked_together() {
    let from = repo();
    block_on(from.init()).expect("it is made");
    let trunk = chain(&from, "main", 500);
    block_on(async {
        for n in 0..40 {
            let name = format!("side-{n}");
            from.create_branch(&name, trunk[499 - n]).await.expect("it is made");
            from.append(&branch(&name), Draft::user(name.clone())).await.expect("it is written");
        }
    });
    let (source, counts) = without_limit(from.store());
    let to = repo();
    let options = PushOptions { all: true, ..PushOptions::default() };
    let report = block_on(push(&source, &to, "team", &options)).expect("it is pushed");
    assert_eq!(report.commits, 540);
    assert!(says(&to) == says(&from));
    assert!(read(&counts.calls) < 200, "{counts:?}");
}

#[test]
fn commits_that_only_changes_lead_to_are_sent_too() {
    let from = with_everything();
    let to = repo();
    // The other side has the beginning of everything, and none of the branches.
    let first = block_on(from.resolve("before~3")).expect("a commit");
    block_on(from.create_branch("begin", first)).expect("it is made");
    let options = PushOptions { branches: vec!["begin".to_owned()], ..PushOptions::default() };
    block_on(push(&from, &to, "team", &options)).expect("it is pushed");
    let options = PushOptions { branches: vec!["main".to_owned()], ..PushOptions::default() };
    block_on(push(&from, &to, "team", &options)).expect("it is pushed");
    is_clean(&to);
    say(&from, "main", "more");
    block_on(push(&from, &to, "team", &options)).expect("it is pushed");
    is_clean(&to);
}

/// A million with `TRACT_SCALE=1`.
#[test]
fn ten_new_messages_of_a_large_store_are_pushed_in_a_moment() {
    let messages = tract_testkit::scaled(1_000_000, 0.01, 10_000) / 10_000 * 10_000;
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str| sqlite(&folder.path().join(name));
    let store = open("from.db");
    let name = tract_core::RepoName::default();
    let mut at = None;
    for group in 0..messages / 10_000 {
        let mut batch = tract_testkit::fixtures::batch("fill");
        let before = at;
        for n in 0..10_000 {
            let text = format!("message {n} of group {group}");
            at = Some(tract_testkit::fixtures::push(&mut batch, at, &text).id());
        }
        batch.refs.extend(at.map(|at| tract_testkit::fixtures::advance("main", before, at)));
        tract_testkit::fixtures::done(block_on(store.apply(&name, batch))).expect("it is written");
    }
    block_on(store.close()).expect("it closes");
    drop(store);
    for file in std::fs::read_dir(folder.path()).expect("a folder") {
        let path = file.expect("a file").path();
        let other = path.file_name().and_then(|name| name.to_str()).expect("a name");
        std::fs::copy(&path, folder.path().join(other.replace("from", "to"))).expect("a copy");
    }
    let from = repo_in(open("from.db"));
    chain(&from, "main", 10);
    for _ in 0..3 {
        let to = repo_in(open("to.db"));
        let begun = std::time::Instant::now();
        let report =
            block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
        let took = begun.elapsed();
        tract_testkit::figure("push", "sqlite", format!("10 of {messages} commits in {took:?}"));
        assert_eq!(report.commits, 10);
        chain(&from, "main", 10);
    }
}
