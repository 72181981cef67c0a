//! Timeouts, and what becomes of connections that were given up.

use std::time::Duration;

use tract_core::{RepoName, Store, StoreErrorKind, block_on};
use tract_store_postgres::{PostgresOptions, open};
use tract_testkit::fixtures::appending;

use crate::server;
use crate::support::{self, append, is_sound, length};

/// A write that waits for a lock too long fails, whether the server or the store ends the waiting;
/// the next one finds a clean connection.
#[test]
fn waiting_ends_and_leaves_a_clean_pool() {
    let Some(url) = server::shared() else { return };
    for is_server in [true, false] {
        let schema = server::schema();
        let options =
            PostgresOptions { pool_size: 1, retry_for: Duration::ZERO, ..support::options() };
        let options = if is_server {
            PostgresOptions { lock_timeout: Duration::from_millis(100), ..options }
        } else {
            PostgresOptions { statement_timeout: Duration::from_millis(300), ..options }
        };
        let with_schema = server::with_schema(url, &schema);
        // The tables are made without haste.
        drop(block_on(open(&with_schema, &support::options())).expect("it is made"));
        let store = block_on(open(&with_schema, &options)).expect("it opens");
        let repo = RepoName::default();
        let one = append(&store, "main", None, "one");
        let (writing, two) = appending("main", Some(one), "two");
        let held = support::hold(url, &format!("SELECT 1 FROM {schema}.refs FOR UPDATE"));
        let error = block_on(store.apply(&repo, writing.clone())).expect_err("it waits too long");
        let expected = if is_server { StoreErrorKind::Busy } else { StoreErrorKind::Unknown };
        assert_eq!(error.kind, expected, "{error}");
        held.release();
        // The write that was given up may still happen: once, whichever try comes first.
        let store = block_on(open(&with_schema, &support::options())).expect("it opens");
        let answer = block_on(store.apply(&repo, writing)).expect("it goes through");
        assert!(!matches!(answer, tract_core::Applied::Conflict(_)), "{answer:?}");
        assert_eq!(length(&store, two), 2);
        is_sound(&store);
        let log =
            block_on(tract_core::store::RefRepository::ref_log(&store, &repo, &Default::default()));
        assert_eq!(log.expect("it is read").len(), 2);
    }
}
