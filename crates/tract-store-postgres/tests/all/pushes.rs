//! Pushing to a server costs round trips that depend on what is new, not on what is there.

use std::sync::Arc;

use tract_core::{Draft, RefName, block_on};
use tract_engine::{FetchOptions, PushOptions, Repo, RepoOptions, fetch, push};
use tract_store_postgres::{PostgresOptions, open};

use crate::proxy::Proxy;
use crate::{server, support};

#[test]
fn ten_new_messages_of_a_long_chain_take_less_than_twenty_round_trips() {
    let Some(url) = server::shared() else { return };
    let proxy = Proxy::before(url);
    let url = server::with_schema(proxy.url(), &server::schema());
    let store = block_on(open(&url, &PostgresOptions { pool_size: 1, ..support::options() }))
        .expect("it opens");
    let to = Repo::new(Arc::new(store), RepoOptions::default());
    let from = Repo::new(Arc::new(tract_kv::memory()), RepoOptions::default());
    let main = RefName::branch("main").expect("a name");
    let say = |repo: &Repo, count: usize| {
        for n in 0..count {
            let draft = Draft::user(format!("message {n}"));
            block_on(repo.append(&main, draft)).expect("it is written");
        }
    };
    say(&from, 3000);
    let options = PushOptions::default();
    let begun = std::time::Instant::now();
    block_on(push(&from, &to, "team", &options)).expect("it is pushed");
    eprintln!("3,000 commits in {:?}, {} round trips", begun.elapsed(), proxy.trips());
    say(&from, 10);
    let before = proxy.trips();
    let report = block_on(push(&from, &to, "team", &options)).expect("it is pushed");
    let trips = proxy.trips() - before;
    assert_eq!(report.commits, 10);
    assert!(trips < 20, "{trips} round trips");
    eprintln!("ten new commits: {trips} round trips");
    // A push of nothing, which compares the newest messages there with those here; and what came there
    // meanwhile.
    let before = proxy.trips();
    block_on(push(&from, &to, "team", &options)).expect("it is pushed");
    assert!(proxy.trips() - before <= 14, "{} round trips", proxy.trips() - before);
    say(&to, 10);
    let before = proxy.trips();
    let report =
        block_on(fetch(&from, &to, "team", &FetchOptions::default())).expect("it is fetched");
    assert_eq!(report.commits, 10);
    let trips = proxy.trips() - before;
    assert!(trips < 20, "{trips} round trips");
    eprintln!("ten commits fetched: {trips} round trips");
}
