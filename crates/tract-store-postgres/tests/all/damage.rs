//! What is damaged is noticed; what can be derived is rebuilt.

use tract_core::store::{CommitRepository, ObjectRepository, RefRepository, ToolRepository, Walk};
use tract_core::{Commit, CommitId, RepoName, Store, StoreErrorKind, block_on};
use tract_store_postgres::PostgresStore;
use tract_testkit::fixtures::{advance, batch, branch, done, line, push_with_tools, schemas};

use crate::server;
use crate::support::{self, is_sound, opened};

pub(crate) const TOOLS: [&str; 2] = [r#"{"name":"t","input_schema":{}}"#, r#"{"name":"u"}"#];

/// Makes a store with five commits, and three on a fork of them, the last one with tools.
pub(crate) fn filled(url: &str) -> (String, PostgresStore, Vec<Commit>) {
    let schema = server::schema();
    let store = opened(&server::with_schema(url, &schema), &support::options());
    let repo = RepoName::default();
    let mut commits = block_on(line(&store, &repo, "main", None, &["a", "b", "c", "d", "e"]))
        .expect("it is written");
    let fork = block_on(line(&store, &repo, "fork", Some(commits[1].id()), &["f", "g"]));
    commits.extend(fork.expect("it is written"));
    let mut writing = batch("commit");
    let parent = Some(commits[6].id());
    commits.push(push_with_tools(&mut writing, parent, "h", &schemas(&TOOLS)));
    writing.refs.push(advance("fork", parent, commits[7].id()));
    done(block_on(store.apply(&repo, writing))).expect("it is written");
    (schema, store, commits)
}

fn walked(store: &PostgresStore, head: CommitId) -> Vec<CommitId> {
    let page = block_on(store.walk(&RepoName::default(), Walk::from(head))).expect("it is walked");
    page.entries.iter().map(|entry| entry.commit.id()).collect()
}

#[test]
fn wrong_places_cost_time_and_no_truth_and_are_repaired() {
    let Some(url) = server::shared() else { return };
    let (schema, store, commits) = filled(url);
    let repo = RepoName::default();
    let heads = [commits[4].id(), commits[7].id()];
    let right = heads.map(|head| walked(&store, head));
    for wrong in [
        "UPDATE {s}.commits SET pos = -1 - pos; UPDATE {s}.commits SET pos = 4 + pos + 1 WHERE seg = (SELECT min(seg) FROM {s}.commits); UPDATE {s}.commits SET pos = 2 + pos + 1 WHERE pos < 0",
        "UPDATE {s}.segments SET parent_pos = 0 WHERE parent_pos IS NOT NULL",
        "DELETE FROM {s}.segments",
        "UPDATE {s}.commits SET pos = pos + 10 WHERE pos = 2",
    ] {
        support::execute(url, &wrong.replace("{s}", &schema));
        for (head, right) in heads.iter().zip(&right) {
            assert_eq!(&walked(&store, *head), right, "{wrong}");
        }
        let damage = block_on(store.check(&repo, false)).expect("it is checked");
        assert!(!damage.is_empty() && damage.iter().all(|one| one.derived), "{wrong}: {damage:?}");
        block_on(store.check(&repo, true)).expect("it is repaired");
        assert_eq!(block_on(store.check(&repo, false)).expect("it is checked"), [], "{wrong}");
        for (head, right) in heads.iter().zip(&right) {
            assert_eq!(&walked(&store, *head), right, "{wrong}");
        }
    }
    // Writing continues after a repair.
    block_on(line(&store, &repo, "after", Some(heads[0]), &["i", "j"])).expect("it is written");
    is_sound(&store);
}

#[test]
fn a_lost_tool_index_is_rebuilt() {
    let Some(url) = server::shared() else { return };
    let (schema, store, _) = filled(url);
    let repo = RepoName::default();
    let before = block_on(store.tools_by_name(&repo, "t")).expect("it is read");
    assert_eq!(before.len(), 1);
    support::execute(url, &format!("DELETE FROM {schema}.tools"));
    let damage = block_on(store.check(&repo, true)).expect("it is repaired");
    assert!(damage.len() == 2 && damage.iter().all(|one| one.derived), "{damage:?}");
    assert_eq!(block_on(store.tools_by_name(&repo, "t")).expect("it is read"), before);
    assert_eq!(block_on(store.tool_names(&repo)).expect("it is read"), ["t", "u"]);
    is_sound(&store);
}

#[test]
fn damaged_bytes_are_an_error_and_never_data() {
    let Some(url) = server::shared() else { return };
    let repo = RepoName::default();
    type Read = fn(&PostgresStore, &[Commit]) -> Option<tract_core::StoreError>;
    let cases: [(&str, Read); 4] = [
        ("UPDATE {s}.blobs SET data = data || 'x'", |store, commits| {
            block_on(store.blobs(&RepoName::default(), &[commits[0].content?.into()])).err()
        }),
        (
            "UPDATE {s}.commits SET rec = set_byte(rec, 5, 255 - get_byte(rec, 5))",
            |store, commits| {
                block_on(store.walk(&RepoName::default(), Walk::from(commits[4].id()))).err()
            },
        ),
        (
            "UPDATE {s}.refs SET target = set_byte(target, 5, 255 - get_byte(target, 5))",
            |store, _| block_on(store.refs(&RepoName::default(), &[branch("main")])).err(),
        ),
        (
            "UPDATE {s}.ref_log SET after = set_byte(after, 5, 255 - get_byte(after, 5))",
            |store, _| block_on(store.ref_log(&RepoName::default(), &Default::default())).err(),
        ),
    ];
    for (harm, read) in cases {
        let (schema, store, commits) = filled(url);
        support::execute(url, &harm.replace("{s}", &schema));
        let error = read(&store, &commits).expect(harm);
        assert!(matches!(error.kind, StoreErrorKind::Corrupt { .. }), "{harm}: {error}");
        let damage = block_on(store.check(&repo, false)).expect("it is checked");
        assert!(damage.iter().any(|one| !one.derived), "{harm}: {damage:?}");
    }
}
