//! Migrates a store to the newest format in numbered steps. A copy is made first, all in one
//! transaction.

use std::fmt::Write as _;

use tokio_postgres::types::Type;
use tract_core::{StoreErrorKind, StoreResult};

use crate::error::{failed, new};
use crate::link::{Connector, Scope, first_column};
use crate::schema::{CUT, WHOLE, in_schema};

const OP: &str = "migrate";

/// A migration from one format to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// The format before the step. The step leads to the next one.
    pub(crate) from: i32,
    /// The statements; `{s}` is the schema.
    pub(crate) sql: &'static str,
}

/// All steps, in order. Empty so far: format 1 is the first one.
pub(crate) const STEPS: &[Migration] = &[];

/// Maximum length of a name in PostgreSQL; longer ones are truncated.
const LONGEST_NAME: usize = 63;

/// Migrates a store to a format. First copies its tables into the schema `NAME_format_N`, which is
/// kept.
pub(crate) async fn upgrade(
    link: &Connector,
    steps: &[Migration],
    (from, to): (i32, i32),
    row_security: bool,
) -> StoreResult<()> {
    let way: Vec<Migration> =
        (from..to).map_while(|from| steps.iter().find(|step| step.from == from).copied()).collect();
    if i32::try_from(way.len()) != Ok(to - from) {
        let message = format!("expected a way from format {from} to {to}, found none");
        return Err(new(StoreErrorKind::Unsupported, OP, message));
    }
    let copy = format!("{}_format_{from}", link.schema);
    if copy.len() > LONGEST_NAME {
        let message = format!(
            "expected a schema whose copy has a name of at most {LONGEST_NAME} letters, found {copy}: \
             rename it (ALTER SCHEMA)"
        );
        return Err(new(StoreErrorKind::Unsupported, OP, message));
    }
    let copying = copying(link, &copy);
    let steps = carried_out(link, &way, row_security);
    let (before, shown) = (before(link), shown(link, row_security));
    let look = link.sql("SELECT format FROM {s}.tract_store");
    link.transaction(OP, &Scope::Own, async |object| {
        let fail = |error| failed(OP, error);
        link.lock_schema(OP, &object).await?;
        object.batch_execute(&before).await.map_err(fail)?;
        // Another process may have migrated it first.
        let rows = object.query_typed(&look, &[]).await.map_err(fail)?;
        let now: Option<i32> = first_column(OP, &rows)?;
        if now.is_some_and(|now| now != from) {
            return Ok(());
        }
        let sql = "SELECT to_regnamespace(quote_ident($1)) IS NOT NULL";
        let rows = object.query_typed(sql, &[(&copy as _, Type::TEXT)]).await.map_err(fail)?;
        let is_copied: Option<bool> = first_column(OP, &rows)?;
        object.batch_execute(&shown).await.map_err(fail)?;
        if is_copied != Some(true) {
            object.batch_execute(&copying).await.map_err(fail)?;
        }
        object.batch_execute(&steps).await.map_err(fail)
    })
    .await
}

fn tables() -> impl Iterator<Item = &'static str> {
    std::iter::once("tract_store").chain(hidden())
}

/// The tables with row-level security.
fn hidden() -> impl Iterator<Item = &'static str> {
    std::iter::once("repos").chain(CUT).chain(WHOLE)
}

/// Locks all tables, so that there is no other writer during a step.
fn before(link: &Connector) -> String {
    let mut script = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;".to_owned();
    for table in tables() {
        let _ = write!(script, "LOCK TABLE {{s}}.{table} IN EXCLUSIVE MODE;");
    }
    in_schema(&script, &link.schema)
}

/// Shows all rows to the owner of the tables until the steps are done.
fn shown(link: &Connector, row_security: bool) -> String {
    let mut script = String::new();
    if row_security {
        for table in hidden() {
            let _ = write!(script, "ALTER TABLE {{s}}.{table} NO FORCE ROW LEVEL SECURITY;");
        }
    }
    in_schema(&script, &link.schema)
}

fn copying(link: &Connector, copy: &str) -> String {
    let mut script = format!("CREATE SCHEMA \"{copy}\";");
    for table in tables() {
        let _ = write!(
            script,
            "CREATE TABLE \"{copy}\".{table} (LIKE {{s}}.{table} INCLUDING INDEXES); \
             INSERT INTO \"{copy}\".{table} SELECT * FROM {{s}}.{table};"
        );
    }
    in_schema(&script, &link.schema)
}

fn carried_out(link: &Connector, way: &[Migration], row_security: bool) -> String {
    let mut script = String::new();
    for step in way {
        script.push_str(step.sql);
        let _ = write!(script, "; UPDATE {{s}}.tract_store SET format = {};", step.from + 1);
    }
    if row_security {
        for table in hidden() {
            let _ = write!(script, "ALTER TABLE {{s}}.{table} FORCE ROW LEVEL SECURITY;");
        }
    }
    in_schema(&script, &link.schema)
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering;

    use tokio::runtime::{Builder, Runtime};
    use tokio_postgres::Row;
    use tract_core::{RepoName, Store, StoreExt, block_on};
    use tract_testkit::fixtures::line;

    use super::*;
    use crate::args::Args;
    use crate::options::target;
    use crate::schema::FORMAT;
    use crate::{PostgresOptions, open, server};

    /// The format after the current one, and the one after that.
    const NEXT: [Migration; 2] = [
        Migration { from: FORMAT + 1, sql: "UPDATE {s}.repos SET extra = extra || '!'" },
        Migration {
            from: FORMAT,
            sql: "ALTER TABLE {s}.repos ADD COLUMN extra text DEFAULT 'new'",
        },
    ];
    const BROKEN: [Migration; 2] =
        [NEXT[1], Migration { from: FORMAT + 1, sql: "INSERT INTO {s}.nowhere VALUES (1)" }];

    fn options() -> PostgresOptions {
        PostgresOptions { create: true, partitions: 2, ..PostgresOptions::default() }
    }

    /// A connector has no threads of its own.
    fn within<F: Future>(future: F) -> F::Output {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        let made = || Builder::new_multi_thread().worker_threads(1).enable_all().build();
        RUNTIME.get_or_init(|| made().expect("a runtime")).block_on(future)
    }

    fn linked(url: &str, options: &PostgresOptions) -> Connector {
        within(async { Connector::new(target(url, options).expect("a url")).expect("a link") })
    }

    fn ask(link: &Connector, sql: &str) -> StoreResult<Vec<Row>> {
        within(link.query(OP, &Scope::Own, &link.sql(sql), &Args::new(), false))
    }

    fn upgraded(url: &str, row_security: bool) {
        let schema = server::schema();
        let url = server::with_schema(url, &schema);
        let options = PostgresOptions { row_security, ..options() };
        let repo = RepoName::default();
        let store = block_on(open(&url, &options)).expect("it is made");
        let texts = ["from", "an", "earlier", "format"];
        let written = block_on(line(&store, &repo, "main", None, &texts)).expect("it is written");
        drop(store);
        let link = linked(&url, &options);

        // A step that fails rolls back everything, including the copy.
        let way = (FORMAT, FORMAT + 2);
        within(upgrade(&link, &BROKEN, way, row_security)).expect_err("there is no such table");
        let error = within(upgrade(&link, &NEXT[..1], way, row_security)).expect_err("no way");
        assert_eq!(error.kind, StoreErrorKind::Unsupported);
        let copy = format!("{schema}_format_{FORMAT}");
        let there = format!("SELECT 1 WHERE to_regnamespace('{copy}') IS NOT NULL");
        assert!(ask(&link, &there).expect("it is asked").is_empty());
        let store = block_on(open(&url, &options)).expect("it is as it was");
        let head = written[3].id();
        assert_eq!(block_on(store.walk_all(&repo, head)).expect("a line").len(), 4);
        drop(store);

        within(upgrade(&link, &NEXT, way, row_security)).expect("it goes");
        within(upgrade(&link, &NEXT, way, row_security)).expect("there is nothing to do");
        let hidden = ask(&link, "SELECT count(*) FROM {s}.commits").expect("it is counted");
        assert_eq!(hidden[0].get::<_, i64>(0), if row_security { 0 } else { 4 });
        link.row_security.store(row_security, Ordering::Relaxed);
        let sql = link.sql("SELECT extra FROM {s}.repos");
        let rows = within(link.query(OP, &Scope::Names, &sql, &Args::new(), false));
        let rows = rows.expect("the new column");
        assert_eq!(rows.first().map(|row| row.get::<_, String>(0)).as_deref(), Some("new!"));
        let error = block_on(open(&url, &options)).expect_err("it is newer than this build");
        let (found, known) = ((FORMAT + 2).unsigned_abs(), FORMAT.unsigned_abs());
        assert_eq!(error.kind, StoreErrorKind::TooNew { found, known });

        // The copy has the old contents: moved back into the old tables, it is the store.
        for (table, count) in [("repos", 1), ("commits", 4), ("ref_log", 4), ("refs", 1)] {
            let rows = ask(&link, &format!("SELECT count(*) FROM \"{copy}\".{table}"));
            assert_eq!(rows.expect("the copy")[0].get::<_, i64>(0), count, "{table}");
        }
        let back = "ALTER TABLE {s}.repos DROP COLUMN extra";
        ask(&link, back).expect("it is undone");
        ask(&link, &format!("UPDATE {{s}}.tract_store SET format = {FORMAT}")).expect("undone");
        let store = block_on(open(&url, &options)).expect("it opens");
        assert_eq!(block_on(store.walk_all(&repo, head)).expect("a line").len(), 4);
        assert_eq!(block_on(store.check(&repo, false)).expect("it is checked"), []);
        // Rows hidden by row-level security are hidden again.
        let hidden = ask(&link, "SELECT count(*) FROM {s}.commits").expect("it is counted");
        assert_eq!(hidden[0].get::<_, i64>(0), if row_security { 0 } else { 4 });
    }

    #[test]
    fn an_older_store_is_copied_and_then_brought_to_the_next_format() {
        let Some(url) = server::shared() else { return };
        upgraded(url, false);
    }

    #[test]
    fn row_level_security_hides_nothing_from_a_migration_and_all_afterwards() {
        let Some(url) = server::shared() else { return };
        let link = linked(url, &options());
        let sql = "DO $$ BEGIN CREATE ROLE tract_migrates LOGIN PASSWORD 'm'; \
                   EXCEPTION WHEN duplicate_object THEN NULL; END $$";
        ask(&link, sql).expect("a role");
        let sql = "DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO tract_migrates', \
                   current_database()); END $$";
        ask(&link, sql).expect("it may make schemas");
        let (scheme, rest) = url.split_once("://").expect("a url");
        let (_, place) = rest.split_once('@').expect("a url with a user");
        upgraded(&format!("{scheme}://tract_migrates:m@{place}"), true);
    }
}
