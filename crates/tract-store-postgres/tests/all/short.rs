//! The short way of a write (the functions `append`) answers and stores what the long way (`apply`)
//! does, in one round trip in every case.

use tract_core::store::{ObjectRepository, RefRepository};
use tract_core::{
    Applied, Batch, Commit, CommitId, Expect, ObjectId, RefEdit, RefTarget, RepoName, Store,
    StoreErrorKind, StoreExt, StoreResult, block_on,
};
use tract_store_postgres::{PostgresOptions, PostgresStore, open};
use tract_testkit::fixtures::{
    advance, appending, batch, branch, done, moving, push, push_with_tools, record, schemas, seal,
    toolset,
};

use crate::proxy::Proxy;
use crate::server;
use crate::support::{self, append, is_sound, length, repo, role, turn};

fn opened(url: &str, row_security: bool) -> PostgresStore {
    support::opened(url, &PostgresOptions { row_security, ..support::options() })
}

/// Without the long way only what goes the short way is written.
pub(crate) fn without_apply(url: &str, schema: &str, write: impl FnOnce()) {
    let rename = |from: &str, to: &str| {
        support::execute(
            url,
            &format!(
                "DO $$ BEGIN EXECUTE (SELECT format('ALTER FUNCTION %s RENAME TO {to}', \
                 oid::regprocedure) FROM pg_proc WHERE proname = '{from}' \
                 AND pronamespace = to_regnamespace('{schema}')); END $$"
            ),
        );
    };
    rename("apply", "gone");
    write();
    rename("gone", "apply");
}

#[test]
fn a_line_of_commits_goes_the_short_way() {
    let Some(url) = server::shared() else { return };
    [false, true].into_iter().for_each(|row_security| goes_the_short_way(url, row_security));
}

fn goes_the_short_way(url: &str, row_security: bool) {
    let schema = server::schema();
    let store = opened(&server::with_schema(&role(url, row_security), &schema), row_security);
    let apply = |writing| block_on(store.apply(&repo(), writing));
    // The first write tells which way that is.
    let mut head = append(&store, "main", None, "the first");
    let tools = schemas(&[r#"{"name":"t"}"#]);
    let mut writing = batch("tools");
    let armed = push_with_tools(&mut writing, Some(head), "with a tool", &tools);
    writing.refs.push(advance("main", Some(head), armed.id()));
    done(apply(writing)).expect("it is written");
    head = armed.id();
    without_apply(url, &schema, || {
        let (mut record, content) = record(Some(head), "the first");
        (record.toolset, record.active) = (armed.toolset, armed.active);
        let commit = seal(record);
        let mut writing = batch("nothing new but the commit");
        writing.refs.push(advance("main", Some(head), commit.id()));
        writing.requires.push(ObjectId::Blob(content.id()));
        head = commit.id();
        writing.commits.push(commit);
        done(apply(writing)).expect("a commit that links to what is stored");
        for n in 0..10 {
            // Some of the contents are stored already.
            head = append(&store, "main", Some(head), &format!("message {}", n / 2));
        }
        let texts = ["result 0", "result 1", "result 2", "result 3", "result 4"];
        let (writing, last) = turn("main", head, &texts);
        done(apply(writing)).expect("a line of commits");
        head = last;
    });
    assert_eq!(length(&store, head), 18);
    let log = block_on(store.ref_log(&repo(), &Default::default())).expect("its sums are right");
    assert_eq!(log.len(), 14);
    is_sound(&store);
    // One segment: each commit found the end of the line free.
    let rows = support::ask(url, &format!("SELECT count(*) FROM {schema}.segments"));
    assert_eq!(rows[0].get::<_, i64>(0), 1);
}

/// What is asked of both ways: each case says what it wants.
fn cases(apply: &dyn Fn(Batch) -> StoreResult<Applied>, read: &PostgresStore) {
    let (writing, one) = appending("main", None, "one");
    done(apply(writing)).expect("the first");
    let (writing, two) = appending("main", Some(one), "two");
    done(apply(writing.clone())).expect("the second");
    assert_eq!(apply(writing.clone()).expect("the same again"), Applied::Already);

    let (late, _) = appending("main", Some(one), "too late");
    let Applied::Conflict(conflict) = apply(late.clone()).expect("an answer") else {
        panic!("the ref has moved")
    };
    assert_eq!(conflict.found, Some(RefTarget::Commit(two)));
    assert_eq!((conflict.name, conflict.expected), (branch("main"), late.refs[0].expect.clone()));
    let blob = late.blobs[0].id();
    let stored = block_on(read.blobs(&repo(), &[tract_core::store::BlobKey::from(blob)]));
    assert_eq!(stored.expect("it is read"), [None], "a loser writes nothing");

    // The ref goes back, and the batch that moved it is still one that went through.
    done(apply(moving(vec![advance("main", Some(two), one)]))).expect("back");
    assert_eq!(apply(writing.clone()).expect("it went through"), Applied::Already);
    // Another batch brings the same commit again, and another continues next to it.
    let again = Batch { commits: writing.commits, blobs: writing.blobs, ..batch("again") };
    done(apply(Batch { refs: vec![advance("main", Some(one), two)], ..again })).expect("known");
    done(apply(moving(vec![advance("main", Some(two), one)]))).expect("back");
    let (writing, fork) = appending("main", Some(one), "fork");
    done(apply(writing)).expect("a fork");
    let mut writing = batch("turn");
    let three = push(&mut writing, Some(one), "three").id();
    let four = push(&mut writing, Some(three), "four").id();
    writing.refs.push(advance("main", Some(fork), four));
    done(apply(writing)).expect("a line that forks off");
    for head in [fork, two, four] {
        let line = block_on(read.walk_all(&repo(), head)).expect("it is walked");
        assert_eq!(line.last().map(Commit::id), Some(one));
    }

    let missing = |writing: Batch, object: ObjectId| {
        let error = apply(writing).expect_err("something is missing");
        assert_eq!(error.kind, StoreErrorKind::Missing { object });
    };
    let main = |to| RefEdit {
        name: branch("main"),
        expect: Expect::Is(RefTarget::Commit(four)),
        to: Some(RefTarget::Commit(to)),
    };
    let nowhere = CommitId::from_bytes([9; 32]);
    let mut writing = batch("an orphan");
    let orphan = push(&mut writing, Some(nowhere), "orphan").id();
    writing.refs.push(main(orphan));
    missing(writing, ObjectId::Commit(nowhere));
    let (record_, content) = record(Some(four), "never stored");
    let commit = seal(record_);
    let mut writing = batch("no content");
    writing.refs.push(main(commit.id()));
    writing.commits.push(commit);
    missing(writing, ObjectId::Blob(content.id()));
    let (mut record_, content) = record(Some(four), "tools");
    let set = toolset(&schemas(&[r#"{"name":"unknown"}"#]));
    record_.toolset = Some(set.id());
    let commit = seal(record_);
    let mut writing = batch("no toolset");
    writing.refs.push(main(commit.id()));
    writing.blobs.push(content);
    writing.commits.push(commit);
    missing(writing, ObjectId::Toolset(set.id()));

    let delete = RefEdit { to: None, ..main(four) };
    done(apply(moving(vec![delete]))).expect("the ref is deleted");
    let (writing, _) = appending("main", Some(four), "late");
    let Applied::Conflict(conflict) = apply(writing).expect("an answer") else {
        panic!("the ref is gone")
    };
    assert_eq!(conflict.found, None);
    is_sound(read);
    let log = block_on(read.ref_log(&repo(), &Default::default())).expect("its sums are right");
    assert_eq!(log.len(), 8);
}

#[test]
fn both_ways_answer_and_store_alike_in_one_round_trip() {
    let Some(url) = server::shared() else { return };
    [false, true].into_iter().for_each(|row_security| alike(url, row_security));
}

fn alike(url: &str, row_security: bool) {
    let url = &role(url, row_security);
    let proxy = Proxy::before(url);
    let schema = server::schema();
    let opened = |url: &str| opened(url, row_security);
    let store = opened(&server::with_schema(proxy.url(), &schema));
    let read = opened(&server::with_schema(url, &schema));
    let short = |writing| {
        let before = proxy.trips();
        let answer = block_on(store.apply(&repo(), writing));
        assert_eq!(proxy.trips() - before, 1);
        answer
    };
    // Connected, with the short way known.
    let (writing, _) = appending("other", None, "elsewhere");
    done(block_on(store.apply(&RepoName::new("other").expect("a name"), writing))).expect("done");
    cases(&short, &read);

    let url = server::with_schema(url, &server::schema());
    let read = opened(&url);
    // A handle that has not written yet knows no short way.
    cases(&|writing| block_on(opened(&url).apply(&repo(), writing)), &read);
}

#[test]
fn a_store_with_older_functions_is_given_the_newest_where_the_role_may() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let with_schema = server::with_schema(url, &schema);
    drop(opened(&with_schema, false));
    support::execute(
        url,
        &format!("DROP FUNCTION {schema}.append_0; DROP FUNCTION {schema}.append_group_1"),
    );
    support::set_edition(url, &schema, None);
    support::grant_all(url, &schema);
    let look = format!(
        "SELECT to_regproc('{schema}.append_0') IS NOT NULL \
         AND to_regproc('{schema}.append_group_1') IS NOT NULL"
    );
    let there = || support::ask(url, &look)[0].get::<_, bool>(0);
    let mut head = None;
    let mut write = |store: &PostgresStore| {
        for text in ["one", "two", "three"] {
            head = Some(append(store, "main", head, text));
        }
    };
    write(&opened(&server::with_schema(&support::tenant_url(url), &schema), false));
    assert!(!there(), "a guest leaves the functions as they are");
    let store = opened(&with_schema, false);
    assert!(there());
    write(&store);
    without_apply(url, &schema, || write(&store));
    assert_eq!(length(&store, head.expect("nine were written")), 9);
}

#[test]
fn a_schema_that_is_made_again_is_written_to_all_the_same() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let with_schema = server::with_schema(url, &schema);
    let store = opened(&with_schema, false);
    let (writing, one) = appending("main", None, "one");
    done(block_on(store.apply(&repo(), writing.clone()))).expect("it is written");
    support::execute(url, &format!("DROP SCHEMA {schema} CASCADE"));
    drop(
        block_on(open(&with_schema, &PostgresOptions { partitions: 1, ..support::options() }))
            .expect("made again"),
    );
    let (late, two) = appending("main", Some(one), "two");
    let answer = block_on(store.apply(&repo(), late.clone())).expect("an answer");
    assert!(matches!(&answer, Applied::Conflict(conflict) if conflict.found.is_none()));
    done(block_on(store.apply(&repo(), writing))).expect("it is written again");
    done(block_on(store.apply(&repo(), late))).expect("and what follows");
    let fresh = opened(&with_schema, false);
    assert_eq!(length(&fresh, two), 2);
}
