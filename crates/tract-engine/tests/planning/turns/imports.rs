use std::sync::Arc;

use tract_core::{CommitId, Draft, RefName, block_on};
use tract_engine::{
    ApplyOptions, CopyOptions, ImportConversation, Repo, RepoOptions, ToolQuery, ToolTurn,
    VerifyOptions, copy, verify,
};
use tract_kv::memory;

use super::{indexed, rows};
use crate::support::{done, exported, import_all, import_one, is_clean, recorded, repo_in};

/// A conversation with a turn for every three messages; call ids repeat, and one is left open.
fn conversation(id: &str, turns: usize) -> ImportConversation {
    let mut drafts = vec![Draft::system("Be brief.")];
    for n in 0..turns {
        let call = format!("c{}", n % 5);
        drafts.push(Draft::user(format!("question {n}")));
        let calls = Draft::assistant("").call(call.clone(), format!("t{}", n % 3), "{}");
        drafts.push(if n % 7 == 3 { calls.call("open", "never", "{}") } else { calls });
        drafts.push(Draft::tool_result(call, format!("out {n}")).is_error(n % 4 == 0));
    }
    ImportConversation::new(id, drafts)
}

fn turns(repo: &Repo, head: CommitId) -> Vec<ToolTurn> {
    super::turns(repo, Some(head), &ToolQuery::default())
}

/// The index says what the walk says, and repair brings it back.
fn sound(repo: &Repo, heads: &[CommitId]) {
    is_clean(repo);
    let by_index: Vec<_> = heads.iter().map(|head| turns(repo, *head)).collect();
    block_on(repo.store().drop_derived(repo.name())).unwrap();
    let cold = repo_in(repo.store().clone());
    let walked: Vec<_> = heads.iter().map(|head| turns(&cold, *head)).collect();
    assert_eq!(by_index, walked);
}

#[test]
fn imported_conversations_bring_rows_that_say_what_the_walk_says() {
    let repo = indexed(8).repo;
    let (mut heads, mut rowed, mut found) = (Vec::new(), 0, 0);
    let mut conversations = recorded();
    conversations.truncate(60);
    for one in import_all(&repo, &conversations) {
        let head = one.head.unwrap();
        assert_eq!(rows(&repo, Some(head)), one.commits / 8, "{}", one.id);
        rowed += one.commits / 8;
        found += turns(&repo, head).len();
        heads.push(head);
    }
    assert!(rowed > 0 && found > 0);
    sound(&repo, &heads);
}

#[test]
fn commits_after_an_import_are_indexed() {
    let repo = indexed(10).repo;
    let done = import_one(&repo, conversation("talk", 9));
    assert_eq!((done.commits, rows(&repo, done.head)), (28, 2));
    let branch = RefName::branch("talk").unwrap();
    for n in 0..30 {
        let call = Draft::assistant("").call("c9", format!("t{n}"), "{}");
        block_on(repo.append(&branch, call)).unwrap();
        block_on(repo.append(&branch, Draft::tool_result("c9", "out"))).unwrap();
    }
    let head = block_on(repo.head_of(&branch)).unwrap().unwrap();
    assert_eq!((turns(&repo, head).len(), rows(&repo, Some(head))), (39, 8));
    // The longer conversation continues where the shorter one ended.
    let longer = import_one(&repo, conversation("more", 9));
    let all = import_one(&repo, conversation("more", 40));
    assert_eq!((longer.reused, all.reused), (28, 28), "{all:?}");
    assert_eq!(rows(&repo, all.head), 12);
    sound(&repo, &[head, done.head.unwrap(), all.head.unwrap()]);
}

#[test]
fn copies_and_streams_bring_rows_as_well() {
    let from = indexed(1000).repo;
    let talk = import_one(&from, conversation("talk", 30));
    let head = talk.head.unwrap();
    assert_eq!(rows(&from, Some(head)), 0);
    let to = indexed(16).repo;
    block_on(copy(&from, &to, &CopyOptions::default())).unwrap();
    assert_eq!((rows(&to, Some(head)), turns(&to, head)), (5, turns(&from, head)));
    sound(&to, &[head]);
    let to = indexed(16).repo;
    let lines = exported(&from);
    for options in
        [ApplyOptions::default(), ApplyOptions { atomic: true, ..ApplyOptions::default() }]
    {
        assert_eq!(done(&to, &lines, &options).refused, 0);
        assert_eq!((rows(&to, Some(head)), turns(&to, head)), (5, turns(&from, head)));
    }
    sound(&to, &[head]);
}

#[test]
fn a_row_put_between_others_makes_none_of_them_wrong() {
    let store = Arc::new(memory());
    let handle = |every| {
        Repo::new(store.clone(), RepoOptions { turn_rows_every: every, ..RepoOptions::default() })
    };
    let wide = handle(40);
    block_on(wide.init()).unwrap();
    let done = import_one(&wide, conversation("long", 30));
    let head = done.head.unwrap();
    let before = turns(&wide, head);
    assert_eq!(rows(&wide, Some(head)), 2);
    let narrow = handle(7);
    let start = import_one(&narrow, conversation("start", 8));
    assert_eq!((start.reused, rows(&narrow, Some(head))), (25, 5), "three below the others");
    assert_eq!(turns(&repo_in(wide.store().clone()), head), before);
    sound(&wide, &[head, start.head.unwrap()]);
    let repaired =
        block_on(verify(&wide, &VerifyOptions { repair: true, ..VerifyOptions::default() }))
            .unwrap();
    assert!(repaired.clean);
}
