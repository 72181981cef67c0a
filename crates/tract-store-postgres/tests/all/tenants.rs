//! One repository never sees, changes or betrays another, also where a statement forgets to ask.

use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::store::{
    CommitRepository, DerivedRepository, LogQuery, ObjectRepository, RefRepository, ToolRepository,
    Walk,
};
use tract_core::{
    Applied, Blob, CommitId, DerivedKind, DerivedRow, IdPrefix, ObjectId, RefTarget, RepoName,
    Store, StoreExt, block_on,
};
use tract_store_postgres::{PostgresOptions, PostgresStore, open};
use tract_testkit::fixtures::{advance, batch, branch, push_with_tools, schemas};
use tract_testkit::power::SeededRng;

use crate::server;
use crate::support::{self, opened};

/// What belongs to one repository, and the number of things seen that do not.
struct Tenant<'s> {
    store: &'s PostgresStore,
    repo: RepoName,
    commits: Vec<CommitId>,
    /// Commits, blobs and the like of another tenant.
    foreign: Vec<ObjectId>,
    random: SeededRng,
    leaks: &'s AtomicUsize,
}

impl Tenant<'_> {
    fn expect(&self, holds: bool) {
        if !holds {
            self.leaks.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_mine(&self, text: Option<&str>) -> bool {
        text.is_some_and(|text| text.contains(self.repo.as_str()))
    }

    /// Writes a message; gives what that brought.
    fn write(&mut self, n: usize) -> Vec<ObjectId> {
        let name = self.repo.as_str().to_owned();
        let tool =
            format!(r#"{{"name":"tool-{name}","description":"{}","input_schema":{{}}}}"#, n % 7);
        let mut writing = batch(&name);
        let parent = self.commits.last().copied();
        let commit =
            push_with_tools(&mut writing, parent, &format!("{name} says {n}"), &schemas(&[&tool]))
                .id();
        let bytes = format!("derived of {name}").into();
        writing.derived.push(DerivedRow { kind: DerivedKind::Turn, commit, bytes });
        writing.refs.push(advance("main", parent, commit));
        let brought = writing.objects().collect();
        let answer = block_on(self.store.apply(&self.repo, writing)).expect("it is written");
        assert_eq!(answer, Applied::Done, "no other writer moves this branch");
        self.commits.push(commit);
        brought
    }

    fn act(&mut self, n: usize) {
        let (store, repo) = (self.store, self.repo.clone());
        let own = self.commits[self.random.below(self.commits.len())];
        match self.random.below(9) {
            0 | 1 => drop(self.write(n)),
            2 => {
                let page = block_on(store.walk(&repo, Walk { limit: 5, ..Walk::from(own) }));
                let ids = page.expect("it is walked").entries;
                self.expect(ids.iter().all(|entry| self.commits.contains(&entry.commit.id())));
            }
            3 => {
                let commit = block_on(store.require_commit(&repo, own)).expect("it is read");
                let content = commit.content.expect("messages have content");
                let blob = block_on(store.require_blob(&repo, content)).expect("it is read");
                self.expect(self.is_mine(blob.text()));
                let schema = block_on(store.tools_of(&repo, own)).expect("they are read");
                self.expect(schema.iter().all(|blob: &Blob| self.is_mine(blob.text())));
            }
            4 => {
                let refs = block_on(store.list_refs(&repo, "")).expect("they are listed");
                let last = self.commits.last().copied().map(RefTarget::Commit);
                self.expect(refs.len() == 1 && refs.first().map(|one| one.1.clone()) == last);
            }
            5 => {
                let query = LogQuery { limit: 10, ..LogQuery::default() };
                let log = block_on(store.ref_log(&repo, &query)).expect("it is read");
                self.expect(log.iter().all(|entry| entry.note.what == repo.as_str()));
            }
            6 => {
                let names = block_on(store.tool_names(&repo)).expect("they are listed");
                self.expect(names == [format!("tool-{repo}")]);
                let rows = block_on(store.derived(&repo, DerivedKind::Turn, &[own]));
                let row = rows.expect("it is read").remove(0).expect("every commit has one");
                self.expect(row == format!("derived of {repo}"));
            }
            7 => {
                let stats = block_on(store.stats(&repo)).expect("it is counted");
                self.expect(stats.commits == self.commits.len() as u64);
            }
            _ => {
                let foreign = self.foreign[self.random.below(self.foreign.len())];
                let hex = CommitId::from_bytes(*foreign.as_bytes()).to_hex();
                let prefix = IdPrefix::new(&hex[..12]).expect("ids are hex");
                let found = block_on(store.resolve_prefix(&repo, &prefix, 5)).expect("it is read");
                self.expect(found.is_empty());
                if let ObjectId::Commit(id) = foreign {
                    self.expect(block_on(store.commit(&repo, id)).expect("it is read").is_none());
                    self.expect(block_on(store.walk(&repo, Walk::from(id))).is_err());
                }
                if let ObjectId::Blob(id) = foreign {
                    self.expect(block_on(store.blob(&repo, id)).expect("it is read").is_none());
                }
            }
        }
    }
}

/// Two repositories, 10,000 operations each at full scale, through one pool of connections.
#[test]
fn two_repositories_through_one_pool_leak_nothing() {
    let Some(url) = server::shared() else { return };
    let operations = tract_testkit::scaled(10_000, 0.05, 200);
    for row_security in [false, true] {
        let url = support::role(url, row_security);
        let url = server::with_schema(&url, &server::schema());
        let options = PostgresOptions { row_security, pool_size: 3, ..support::options() };
        let store = opened(&url, &options);
        let leaks = AtomicUsize::new(0);
        let repos = ["alpha", "omega"].map(|name| RepoName::new(name).expect("a valid name"));
        let mut random = (1..).map(SeededRng);
        let mut tenants = repos.clone().map(|repo| Tenant {
            store: &store,
            repo,
            commits: Vec::new(),
            foreign: Vec::new(),
            random: random.next().expect("numbers do not end"),
            leaks: &leaks,
        });
        // What each must never see is there before the other begins.
        let mut brought = tenants.each_mut().map(|tenant| tenant.write(0));
        brought.reverse();
        std::thread::scope(|scope| {
            for (mut tenant, foreign) in tenants.into_iter().zip(brought) {
                tenant.foreign = foreign;
                scope.spawn(move || (0..operations).for_each(|n| tenant.act(n)));
            }
        });
        let leaks = leaks.into_inner();
        assert_eq!(leaks, 0);
        let rows = if row_security { "with" } else { "without" };
        let finding = format!(
            "2 repositories x {operations} operations through one pool, {rows} row-level security: \
             {leaks} leaks"
        );
        tract_testkit::figure("S10 tenants", "postgres", finding);
        for repo in &repos {
            assert_eq!(block_on(store.check(repo, false)).expect("it is checked"), []);
            assert!(block_on(store.ref_target(repo, &branch("main"))).expect("read").is_some());
        }
    }
}

/// The server itself holds the border: a tenant that asks for everything gets its own rows.
#[test]
fn a_statement_that_forgets_to_ask_sees_its_own_rows() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let tenant = support::tenant_url(url);
    let options = PostgresOptions { row_security: true, ..support::options() };
    let store = opened(&server::with_schema(&tenant, &schema), &options);
    for name in ["alpha", "omega", "third"] {
        let repo = RepoName::new(name).expect("a valid name");
        let mut writing = batch("commit");
        let tools = schemas(&[r#"{"name":"t"}"#]);
        let commit = push_with_tools(&mut writing, None, "text", &tools).id();
        let bytes = "row".into();
        writing.derived.push(DerivedRow { kind: DerivedKind::Turn, commit, bytes });
        writing.refs.push(advance("main", None, commit));
        block_on(store.apply(&repo, writing)).map(drop).expect("it is written");
    }
    let (runtime, client) = support::connected(&tenant);
    runtime.block_on(async {
        let tables =
            ["blobs", "commits", "segments", "derived", "ref_log", "refs", "toolsets", "tools"];
        for table in tables {
            let count = format!("SELECT count(DISTINCT repo) FROM {schema}.{table}");
            for (setting, expected) in [("", 0i64), ("alpha", 1), ("absent", 0)] {
                client.batch_execute("BEGIN").await.expect("begun");
                let set = "SELECT set_config('tract.repo', $1, true)";
                client.query(set, &[&setting]).await.expect("it is set");
                let row = client.query_one(&count, &[]).await.expect("it is counted");
                assert_eq!(row.get::<_, i64>(0), expected, "{table} as {setting:?}");
                client.batch_execute("ROLLBACK").await.expect("ended");
            }
            // Nor can anything be put into, or taken from, another repository.
            let sql = format!(
                "BEGIN; SELECT set_config('tract.repo', 'alpha', true); \
                 DELETE FROM {schema}.{table}; COMMIT"
            );
            client.batch_execute(&sql).await.expect("its own rows are its own");
        }
    });
    for (name, commits) in [("alpha", 0), ("omega", 1), ("third", 1)] {
        let repo = RepoName::new(name).expect("a valid name");
        let stats = block_on(store.stats(&repo)).expect("it is counted");
        assert_eq!((stats.commits, stats.refs, stats.log_entries), (commits, commits, commits));
    }
}

/// Counts the rows of all repositories that a role finds in the partitions.
fn rows_in_partitions(url: &str, schema: &str) -> i64 {
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {schema}.{table}");
        support::ask(url, &sql)[0].get::<_, i64>(0)
    };
    let tables = ["blobs", "commits", "segments", "derived", "ref_log"];
    tables.iter().flat_map(|table| (0..2).map(move |n| count(&format!("{table}_{n}")))).sum()
}

#[test]
fn partitions_hide_what_their_tables_hide() {
    let Some(url) = server::shared() else { return };
    let (tenant, schema) = (support::tenant_url(url), server::schema());
    let with_schema = server::with_schema(&tenant, &schema);
    let options = PostgresOptions { row_security: true, ..support::options() };
    let store = opened(&with_schema, &options);
    let tenants = ["one", "two"].map(|name| RepoName::new(name).expect("a name"));
    for repo in &tenants {
        let mut writing = batch("commit");
        push_with_tools(&mut writing, None, "a secret", &schemas(&[]));
        let commit = writing.commits[0].id();
        writing.refs.push(advance("main", None, commit));
        assert_eq!(block_on(store.apply(repo, writing)).expect("it is written"), Applied::Done);
    }
    drop(store);
    assert!(rows_in_partitions(url, &schema) > 0, "a superuser sees them");
    assert_eq!(rows_in_partitions(&tenant, &schema), 0);

    // A store of an earlier edition, whose partitions had no policies, is given them.
    for table in ["blobs", "commits", "segments", "derived", "ref_log"] {
        for n in 0..2 {
            let sql = format!(
                "DROP POLICY this_repo ON {schema}.{table}_{n}; \
                 ALTER TABLE {schema}.{table}_{n} DISABLE ROW LEVEL SECURITY"
            );
            support::execute(url, &sql);
        }
    }
    support::set_edition(url, &schema, Some(3));
    assert!(rows_in_partitions(&tenant, &schema) > 0);
    let store = opened(&with_schema, &support::options());
    assert_eq!(rows_in_partitions(&tenant, &schema), 0);
    for repo in &tenants {
        assert_eq!(block_on(store.check(repo, false)).expect("it is checked"), []);
    }
}

#[test]
fn a_protected_store_refuses_a_role_that_would_bypass_the_protection() {
    let Some(url) = server::shared() else { return };
    let (tenant, schema) = (support::tenant_url(url), server::schema());
    let options = PostgresOptions { row_security: true, ..support::options() };
    drop(opened(&server::with_schema(&tenant, &schema), &options));
    // Neither the options nor the url say that it is protected: the store itself does.
    let superuser = server::with_schema(url, &schema);
    let error = block_on(open(&superuser, &support::options())).expect_err("a superuser");
    assert_eq!(error.kind, tract_core::StoreErrorKind::Unsupported, "{error}");
    drop(opened(&server::with_schema(&tenant, &schema), &support::options()));
}
