//! The PostgreSQL store against the bare statement: the same server, the same bytes, the same
//! number of clients. Starts a server of its own, unless `TRACT_POSTGRES_URL` names one.

#[path = "../../crates/tract-store-postgres/tests/all/proxy.rs"]
pub(crate) mod proxy;
#[path = "../../crates/tract-store-postgres/tests/all/server.rs"]
pub(crate) mod server;

mod bare;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tract::block_on;
use tract::store::{CommitRepository, Store, Walk};
use tract_core::{Applied, Commit, CommitId, RefTarget, RepoName};
use tract_store_postgres::{PostgresOptions, PostgresStore};

use self::bare::{BARE_TABLES, Own, bare, sent};
use crate::sessions::batch;
use crate::stores;
use crate::table::{Table, median, timed};

const CLIENTS: usize = 8;
const MANY: usize = 64;
const ROUNDS: usize = 5;

static NEXT: AtomicU64 = AtomicU64::new(1);

fn append(store: &PostgresStore, head: Option<CommitId>, branch: &str) -> CommitId {
    let (batch, id) = batch(head, branch, NEXT.fetch_add(1, Ordering::Relaxed));
    let answer = block_on(store.apply(&RepoName::default(), batch)).unwrap();
    assert_eq!(answer, Applied::Done);
    id
}

/// Runs clients concurrently for a while, and returns their total rate per second.
fn rate(
    clients: usize,
    time: Duration,
    work: impl Fn(usize, &dyn Fn() -> bool) -> u64 + Sync,
) -> f64 {
    let start = Instant::now();
    let done: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn({
                    let work = &work;
                    move || work(client, &|| start.elapsed() < time)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    done as f64 / start.elapsed().as_secs_f64()
}

fn ours(store: &PostgresStore, clients: usize, time: Duration) -> f64 {
    rate(clients, time, |client, go_on| {
        let branch = format!("b{client}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (mut head, mut done) = (None, 0);
        while go_on() {
            head = Some(append(store, head, &branch));
            done += 1;
        }
        done
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A client without anything of the store.
async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    let Some(url) = server::shared() else { return };
    round_trips(table, url);
    rates(table, url, quick);
    walks(table, url, quick);
    size_does_not_matter(table, url, quick);
}

/// Opens a store of its own, where there is a server.
pub(crate) fn own_store() -> Option<PostgresStore> {
    server::shared().map(|url| open(url, &options()))
}

fn open(url: &str, options: &PostgresOptions) -> PostgresStore {
    open_schema(url, &server::schema(), options)
}

fn open_schema(url: &str, schema: &str, options: &PostgresOptions) -> PostgresStore {
    block_on(tract_store_postgres::open(&server::with_schema(url, schema), options)).unwrap()
}

fn options() -> PostgresOptions {
    PostgresOptions { create: true, pool_size: CLIENTS, ..PostgresOptions::default() }
}

fn round_trips(table: &mut Table, url: &str) {
    let proxy = proxy::Proxy::before(url);
    let store = open(proxy.url(), &PostgresOptions { pool_size: 1, ..options() });
    let mut head = append(&store, None, "main");
    let before = proxy.trips();
    for _ in 0..100 {
        head = append(&store, Some(head), "main");
    }
    let trips = proxy.trips() - before;
    table.limit(
        "PostgreSQL: round trips of 100 commits, counted by a proxy",
        trips.to_string(),
        "one each",
        trips == 100,
    );
}

fn rates(table: &mut Table, url: &str, quick: bool) {
    let time = Duration::from_millis(if quick { 1_000 } else { 3_000 });
    let runtime = runtime();
    runtime.block_on(async {
        let client = connect(url).await;
        client.batch_execute("DROP SCHEMA IF EXISTS bare CASCADE").await.unwrap();
        client.batch_execute(BARE_TABLES).await.unwrap();
    });
    for (what, named) in [("unnamed statements", false), ("named statements", true)] {
        let schema = server::schema();
        let store =
            open_schema(url, &schema, &PostgresOptions { named_statements: named, ..options() });
        let own = Own { url, schema: &schema, store: &store, named };
        for clients in [1, CLIENTS, MANY] {
            let (mut mine, mut floor, mut same) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                mine.push(ours(&store, clients, time));
                floor.push(bare(url, clients, time));
                same.push(sent(&own, clients, time));
            }
            let mine = median(mine);
            let wanted = clients == CLIENTS;
            for (floor, which) in [
                (median(floor), "a smaller bare statement, prepared"),
                (median(same), "the store's own statement, sent bare, its arguments made before"),
            ] {
                let what = format!("PostgreSQL: durable commits at {clients} clients, {what}");
                let met = wanted.then_some(mine / floor >= 0.8);
                let wanted = if wanted { "≥ 0.8" } else { "–" };
                table.compare(what, "a second", [mine, floor], which, wanted, met);
            }
        }
    }
}

fn fill(store: &PostgresStore, branch: &str, count: u64) -> CommitId {
    let mut head = None;
    let mut left = count;
    while left > 0 {
        let size = left.min(1_000);
        let (mut all, mut last) = batch(head, branch, NEXT.fetch_add(1, Ordering::Relaxed));
        for _ in 1..size {
            let (one, id) = batch(Some(last), branch, NEXT.fetch_add(1, Ordering::Relaxed));
            all.commits.extend(one.commits);
            all.blobs.extend(one.blobs);
            last = id;
        }
        all.refs[0].to = Some(RefTarget::Commit(last));
        assert_eq!(block_on(store.apply(&RepoName::default(), all)).unwrap(), Applied::Done);
        head = Some(last);
        left -= size;
    }
    head.unwrap()
}

fn walks(table: &mut Table, url: &str, quick: bool) {
    let proxy = proxy::Proxy::before(url);
    let schema = server::schema();
    let store = open_schema(url, &schema, &options());
    let head = fill(&store, "main", 10_000);
    let walk = Walk { limit: 10_000, ..Walk::from(head) };
    let counted = open_schema(proxy.url(), &schema, &options());
    block_on(counted.repos()).unwrap();
    let before = proxy.trips();
    let page = block_on(counted.walk(&RepoName::default(), walk)).unwrap();
    assert_eq!(page.entries.len(), 10_000);
    let trips = proxy.trips() - before;
    let (mut mine, mut floor) = (Vec::new(), Vec::new());
    let runtime = runtime();
    let client = runtime.block_on(connect(url));
    let sql = format!("SELECT hash, rec FROM {schema}.commits WHERE seg = $1 ORDER BY pos DESC");
    let seg = format!("SELECT max(seg) FROM {schema}.commits");
    let seg: i64 = runtime.block_on(client.query_one(&seg, &[])).unwrap().get(0);
    for _ in 0..if quick { 5 } else { 15 } {
        let (page, took) = timed(|| block_on(store.walk(&RepoName::default(), walk)).unwrap());
        assert_eq!(page.entries.len(), 10_000);
        mine.push(took.as_secs_f64() * 1e3);
        let (rows, took) = timed(|| {
            let rows = runtime.block_on(client.query(&sql, &[&seg])).unwrap();
            let commits = rows.iter().map(|row| Commit::decode_any(row.get(1)).unwrap());
            commits.collect::<Vec<_>>().len()
        });
        assert_eq!(rows, 10_000);
        floor.push(took.as_secs_f64() * 1e3);
    }
    let (mine, floor) = (median(mine), median(floor));
    let what = format!("PostgreSQL: walk of 10,000 commits in {trips} round trip");
    let note = "the same rows, decoded and hashed";
    table.compare(what, "ms", [mine, floor], note, "one round trip", trips == 1);
}

/// Opening, appending and compiling a context of 500 messages, in a small store and in a large one.
fn size_does_not_matter(table: &mut Table, url: &str, quick: bool) {
    let large = if quick { 50_000 } else { 1_000_000 };
    let figures = [1_000, large].map(|size| {
        let schema = server::schema();
        let store = open_schema(url, &schema, &options());
        // Many conversations, and one of 500 messages among them.
        for line in 0..size / 500 {
            fill(&store, &format!("line-{line}"), 500);
        }
        drop(store);
        stores::measure(ROUNDS, |branch| {
            block_on(branch.open_store(Arc::new(open_schema(url, &schema, &options())))).unwrap()
        })
    });
    stores::compare(table, "PostgreSQL:", large, figures);
}
