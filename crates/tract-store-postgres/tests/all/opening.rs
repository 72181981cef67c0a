//! Opening: what is refused, and what it says.

use tract_core::{RepoName, Store, StoreErrorKind, block_on};
use tract_store_postgres::{PostgresOptions, open};
use tract_testkit::fixtures::{appending, done, line};

use crate::{server, support};

#[test]
fn without_create_there_must_be_a_store() {
    let Some(url) = server::shared() else { return };
    let url = server::with_schema(url, &server::schema());
    let error = block_on(open(&url, &PostgresOptions { create: false, ..support::options() }))
        .expect_err("none yet");
    assert_eq!(error.kind, StoreErrorKind::NoStore);
    drop(block_on(open(&url, &support::options())).expect("it is made"));
    drop(
        block_on(open(&url, &PostgresOptions { create: false, ..support::options() }))
            .expect("it is there"),
    );
}

#[test]
fn a_missing_database_is_no_store() {
    let Some(url) = server::shared() else { return };
    let (base, _) = url.rsplit_once('/').expect("a url with a database");
    let error = block_on(open(&format!("{base}/nowhere"), &support::options()));
    assert_eq!(error.expect_err("no such database").kind, StoreErrorKind::NoStore);
}

#[test]
fn a_newer_format_is_refused_whole() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let with_schema = server::with_schema(url, &schema);
    drop(block_on(open(&with_schema, &support::options())).expect("it is made"));
    support::execute(url, &format!("UPDATE {schema}.tract_store SET format = 7"));
    let error = block_on(open(&with_schema, &support::options())).expect_err("it is newer");
    assert_eq!(error.kind, StoreErrorKind::TooNew { found: 7, known: 1 });
}

#[test]
fn many_make_one_store() {
    let Some(url) = server::shared() else { return };
    let url = server::with_schema(url, &server::schema());
    std::thread::scope(|scope| {
        let openers: Vec<_> = (0..6)
            .map(|n| {
                let url = &url;
                scope.spawn(move || {
                    let store = block_on(open(url, &support::options()))?;
                    let repo = RepoName::new(format!("repo-{n}")).expect("a valid name");
                    block_on(line(&store, &repo, "main", None, &["one", "two"])).map(drop)
                })
            })
            .collect();
        for opener in openers {
            opener.join().expect("no panic").expect("all of them open it and write");
        }
    });
    let store = block_on(open(&url, &support::options())).expect("it opens");
    assert_eq!(block_on(store.repos()).expect("they are listed").len(), 6);
}

#[test]
fn a_server_that_forgets_is_refused_unless_named_unsafe() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let role = format!("forgets_{schema}");
    support::execute(
        url,
        &format!(
            "CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'x'; \
             ALTER ROLE {role} SET synchronous_commit = off"
        ),
    );
    let (_, place) = url.split_once('@').expect("a url with a user");
    let url = server::with_schema(&format!("postgres://{role}:x@{place}"), &schema);
    let error = block_on(open(&url, &support::options())).expect_err("it forgets");
    assert_eq!(error.kind, StoreErrorKind::Unsupported);
    assert!(error.message.contains("synchronous_commit"), "{error}");
    let options = PostgresOptions { unsafe_lose_on_power_loss: true, ..support::options() };
    let store = block_on(open(&url, &options)).expect("it was named unsafe");
    assert!(!store.capabilities().durable);
}

#[test]
fn a_server_with_fsync_off_is_refused() {
    for setting in ["fsync = off", "full_page_writes = off"] {
        let Some(server) = server::Server::start(&[setting]) else { return server::left_out() };
        let error = block_on(open(&server.url(), &support::options())).expect_err("it forgets");
        assert_eq!(error.kind, StoreErrorKind::Unsupported);
        assert!(error.message.contains(&setting[..setting.len() - 6]), "{error}");
        let options = PostgresOptions { unsafe_lose_on_power_loss: true, ..support::options() };
        drop(block_on(open(&server.url(), &options)).expect("it was named unsafe"));
    }
}

#[test]
fn a_role_beyond_row_level_security_is_refused() {
    let Some(url) = server::shared() else { return };
    let options = PostgresOptions { row_security: true, ..support::options() };
    let with_schema = server::with_schema(url, &server::schema());
    let error = block_on(open(&with_schema, &options)).expect_err("a superuser sees all");
    assert_eq!(error.kind, StoreErrorKind::Unsupported);
}

#[test]
fn a_closed_port_is_unavailable_and_names_no_password() {
    let options = PostgresOptions { retry_for: std::time::Duration::ZERO, ..support::options() };
    let url = "postgres://me:secret@127.0.0.1:1/agents";
    let error = block_on(open(url, &options)).expect_err("port 1 is closed");
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(error.message.contains("127.0.0.1:1"), "it names the server: {error}");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}

#[cfg(not(feature = "tls"))]
#[test]
fn encryption_needs_the_feature() {
    let error = block_on(open("postgres://me@db/agents?sslmode=require", &support::options()));
    let error = error.expect_err("this build has none");
    assert_eq!(error.kind, StoreErrorKind::Unsupported);
    assert!(error.message.contains("tls"), "{error}");
}

/// Calls come from any executor, and a handle may be dropped on one.
#[test]
fn callers_need_no_runtime_of_ours() {
    let Some(url) = server::shared() else { return };
    let url = server::with_schema(url, &server::schema());
    let repo = RepoName::default();
    let runtimes = [
        tokio::runtime::Builder::new_current_thread().build(),
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build(),
    ];
    let mut head = None;
    for runtime in runtimes {
        runtime.expect("a runtime").block_on(async {
            let store = open(&url, &support::options()).await.expect("it opens");
            let (writing, next) = appending("main", head, "text");
            done(store.apply(&repo, writing).await).expect("it is written");
            head = Some(next);
        });
    }
    let store = block_on(open(&url, &support::options())).expect("it opens");
    assert_eq!(support::length(&store, head.expect("two were written")), 2);
}

#[test]
fn a_missing_grant_is_reported_as_one() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    drop(block_on(open(&server::with_schema(url, &schema), &support::options())).expect("made"));
    // Another role's schema, without any grant.
    let tenant = server::with_schema(&support::tenant_url(url), &schema);
    let error = block_on(open(&tenant, &support::options())).expect_err("nothing is granted");
    assert_eq!(error.kind, StoreErrorKind::ReadOnly, "{error}");
    let notes = error.notes().join(" ");
    assert!(notes.contains("USAGE on the schema"), "{notes}");
    assert!(!notes.contains("file"), "{notes}");
}

#[test]
fn advice_to_wait_longer_names_the_parameter_for_it() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let plain = server::with_schema(url, &schema);
    let store = block_on(open(&plain, &support::options())).expect("it is made");
    let one = support::append(&store, "main", None, "one");
    let held = support::hold(url, &format!("SELECT 1 FROM {schema}.refs FOR UPDATE"));
    let hasty = block_on(open(&format!("{plain}&lock_timeout=0.1"), &support::options()));
    let (writing, _) = appending("main", Some(one), "two");
    let answer = block_on(hasty.expect("it opens").apply(&RepoName::default(), writing));
    let error = answer.expect_err("it waits too long");
    assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
    assert!(error.notes().join(" ").contains("?lock_timeout="), "{:?}", error.notes());
    held.release();
}
