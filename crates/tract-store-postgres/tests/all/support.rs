//! Stores of their own for tests.

use std::path::Path;
use std::sync::OnceLock;

use tract_core::{StoreResult, block_on};
use tract_store_postgres::{PostgresOptions, PostgresStore};

use crate::server;

/// The options of a store that a test makes: few partitions, for every test makes its own tables.
pub(crate) fn options() -> PostgresOptions {
    PostgresOptions::new().create(true).partitions(2)
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
    block_on(tract_store_postgres::open(&server::with_schema(url, &schema), options))
}

/// Runs statements as the server's superuser.
pub(crate) fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    });
}

/// A connection of the server's superuser that holds a transaction open.
pub(crate) struct Held {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

/// Begins a transaction with a statement, and holds it.
pub(crate) fn hold(url: &str, sql: &str) -> Held {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let client = runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute(&format!("BEGIN; {sql}")).await.expect("it is held");
        client
    });
    Held { runtime, client }
}

impl Held {
    pub(crate) fn release(self) {
        let released = self.runtime.block_on(self.client.batch_execute("ROLLBACK"));
        released.expect("it is released");
    }
}

/// Reads rows as the server's superuser.
pub(crate) fn ask(url: &str, sql: &str) -> Vec<tokio_postgres::Row> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    })
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
