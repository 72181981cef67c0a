//! Stores of their own for tests.

use std::path::Path;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};
use tract_core::{Batch, CommitId, RepoName, Store, StoreExt, StoreResult, block_on};
use tract_store_postgres::{PostgresOptions, PostgresStore, open};
use tract_testkit::fixtures::{advance, appending, batch, done, push};

use crate::server;

/// The options of a store that a test makes: few partitions, for every test makes its own tables.
pub(crate) fn options() -> PostgresOptions {
    PostgresOptions { create: true, partitions: 2, ..PostgresOptions::default() }
}

pub(crate) fn opened(url: &str, options: &PostgresOptions) -> PostgresStore {
    block_on(open(url, options)).expect("it opens")
}

pub(crate) fn repo() -> RepoName {
    RepoName::default()
}

/// Appends a message to a branch.
pub(crate) fn append(
    store: &PostgresStore,
    branch: &str,
    head: Option<CommitId>,
    text: &str,
) -> CommitId {
    let (writing, next) = appending(branch, head, text);
    done(block_on(store.apply(&repo(), writing))).expect("it is written");
    next
}

/// Makes a batch that appends several messages to a branch.
pub(crate) fn turn(branch: &str, head: CommitId, texts: &[&str]) -> (Batch, CommitId) {
    let mut writing = batch("turn");
    let last = texts.iter().fold(head, |at, text| push(&mut writing, Some(at), text).id());
    writing.refs.push(advance(branch, Some(head), last));
    (writing, last)
}

/// Returns how many commits lead to one, itself included.
pub(crate) fn length(store: &PostgresStore, head: CommitId) -> usize {
    block_on(store.walk_all(&repo(), head)).expect("it is walked").len()
}

pub(crate) fn is_sound(store: &PostgresStore) {
    assert_eq!(block_on(store.check(&repo(), false)).expect("it is checked"), []);
}

/// Opens a store in the schema that a folder remembers.
pub(crate) fn open_in(
    url: &str,
    folder: &Path,
    options: &PostgresOptions,
) -> StoreResult<PostgresStore> {
    let file = folder.join("schema");
    let schema = std::fs::read_to_string(&file).unwrap_or_else(|_| {
        let name = server::schema();
        std::fs::write(&file, &name).expect("the folder can be written");
        name
    });
    block_on(open(&server::with_schema(url, &schema), options))
}

/// Connects without a store, as the user of the url, for a runtime that drives the connection.
pub(crate) fn connected(url: &str) -> (Runtime, Client) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let connected = runtime.block_on(tokio_postgres::connect(url, NoTls));
    let (client, connection) = connected.expect("a connection");
    runtime.spawn(connection);
    (runtime, client)
}

/// Runs statements as the server's superuser.
pub(crate) fn execute(url: &str, sql: &str) {
    let (runtime, client) = connected(url);
    let done = runtime.block_on(client.batch_execute(sql));
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A connection of the server's superuser that holds a transaction open.
pub(crate) struct OpenTransaction {
    runtime: Runtime,
    client: Client,
}

/// Begins a transaction with a statement, and holds it.
pub(crate) fn hold(url: &str, sql: &str) -> OpenTransaction {
    let (runtime, client) = connected(url);
    runtime.block_on(client.batch_execute(&format!("BEGIN; {sql}"))).expect("it is held");
    OpenTransaction { runtime, client }
}

impl OpenTransaction {
    pub(crate) fn release(self) {
        let released = self.runtime.block_on(self.client.batch_execute("ROLLBACK"));
        released.expect("it is released");
    }
}

/// Reads rows as the server's superuser.
pub(crate) fn ask(url: &str, sql: &str) -> Vec<tokio_postgres::Row> {
    let (runtime, client) = connected(url);
    let rows = runtime.block_on(client.query(sql, &[]));
    rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Lets every role use a store.
pub(crate) fn grant_all(url: &str, schema: &str) {
    execute(
        url,
        &format!(
            "GRANT USAGE ON SCHEMA {schema} TO PUBLIC; \
             GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO PUBLIC; \
             GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO PUBLIC"
        ),
    );
}

/// Marks the functions of a store as those of an earlier edition; the first had no mark.
pub(crate) fn set_edition(url: &str, schema: &str, edition: Option<i32>) {
    let mark = edition.map_or("NULL".to_owned(), |edition| format!("'edition {edition}'"));
    execute(
        url,
        &format!(
            "DO $$ BEGIN EXECUTE (SELECT format('COMMENT ON FUNCTION %s IS %L', \
             oid::regprocedure, {mark}) FROM pg_proc WHERE proname = 'apply' \
             AND pronamespace = to_regnamespace('{schema}')); END $$"
        ),
    );
}

/// Returns the shared server's url, for a role that row-level security holds where it is wanted.
pub(crate) fn role(url: &str, row_security: bool) -> String {
    if row_security { tenant_url(url) } else { url.to_owned() }
}

/// Returns the shared server's url for a role that row-level security holds.
pub(crate) fn tenant_url(url: &str) -> String {
    static ROLE: OnceLock<()> = OnceLock::new();
    ROLE.get_or_init(|| {
        execute(
            url,
            "DO $$ BEGIN CREATE ROLE tract_tenant LOGIN PASSWORD 'tenant'; \
             EXCEPTION WHEN duplicate_object THEN NULL; END $$; \
             DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO tract_tenant', \
             current_database()); END $$",
        );
    });
    let (scheme, rest) = url.split_once("://").expect("a url");
    let (_, place) = rest.split_once('@').expect("a url with a user");
    format!("{scheme}://tract_tenant:tenant@{place}")
}
