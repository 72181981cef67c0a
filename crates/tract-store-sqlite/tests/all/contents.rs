use tract_core::store::{BlobKey, BlockingStore, LogQuery, Walk};
use tract_core::{
    Applied, DerivedKind, DerivedRow, Expect, ObjectId, RefEdit, RefTarget, Store, StoreErrorKind,
    StoreExt, block_on,
};
use tract_store_sqlite::SqliteOptions;

use crate::common::*;

#[test]
fn conversations_are_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/agent.db");
    let conversations = conversations();
    let mut stored = Vec::new();
    let store = create(&path);
    for (n, conversation) in conversations.iter().enumerate().take(20) {
        let name = branch(&format!("c{n}"));
        stored.push((name.clone(), store_conversation(&store, &name, conversation)));
    }
    block_on(store.close()).unwrap();
    drop(store);

    let store = tract_store_sqlite::open(&path, &SqliteOptions::new()).unwrap();
    let blocking = store.store();
    for ((name, ids), conversation) in stored.iter().zip(&conversations) {
        let head = block_on(store.ref_target(&repo(), name)).unwrap().unwrap().commit().unwrap();
        let page = blocking.walk(&repo(), Walk::from(head)).unwrap();
        let walked: Vec<_> = page.steps.iter().rev().map(|step| step.commit.id()).collect();
        assert_eq!(&walked, ids);
        let keys: Vec<_> = page
            .steps
            .iter()
            .rev()
            .map(|step| BlobKey { id: step.commit.content.unwrap(), hint: step.content })
            .collect();
        assert!(keys.iter().all(|key| key.hint.is_some()));
        let texts: Vec<_> = blocking
            .blobs(&repo(), &keys)
            .unwrap()
            .into_iter()
            .map(|blob| blob.unwrap().text().unwrap().to_owned())
            .collect();
        assert_eq!(texts, conversation.messages);
        let tools = block_on(async {
            use tract_core::store::ToolRepository;
            store.tools_of(&repo(), head).await.unwrap()
        });
        let tools: Vec<_> = tools.iter().map(|blob| blob.text().unwrap()).collect();
        assert_eq!(tools, conversation.tools);
    }
    let stats = blocking.stats(&repo()).unwrap();
    let messages: usize = conversations.iter().take(20).map(|c| c.messages.len()).sum();
    assert_eq!(stats.commits, messages as u64);
    assert_eq!(stats.log_entries, stored.len() as u64);
    assert_sound(&store);
}

#[test]
fn a_large_content_is_stored_once_and_comes_back() {
    let (_folder, path, store) = fresh();
    let name = branch("main");
    let mut text = String::new();
    messages()
        .take_while(|message| {
            text.push_str(message);
            text.len() < 3 << 20
        })
        .for_each(drop);
    let other = format!("{text}.");
    let mut head = None;
    for text in [&text, &other, &text] {
        let (batch, id) = appending(&name, head, text);
        assert_eq!(apply(&store, batch).unwrap(), Applied::Done);
        head = Some(id);
    }
    assert_eq!(store.store().stats(&repo()).unwrap().blobs, 2);
    block_on(store.close()).unwrap();
    drop(store);
    let store = tract_store_sqlite::open(&path, &SqliteOptions::new()).unwrap();
    let page = store.store().walk(&repo(), Walk::from(head.unwrap())).unwrap();
    let steps = page.steps.iter().rev();
    let keys: Vec<_> = steps
        .map(|step| BlobKey { id: step.commit.content.unwrap(), hint: step.content })
        .collect();
    let read = store.store().blobs(&repo(), &keys).unwrap();
    let texts: Vec<_> = read.iter().map(|blob| blob.as_ref().unwrap().text().unwrap()).collect();
    assert!(texts == [&text, &other, &text]);
    assert_sound(&store);
}

#[test]
fn interleaved_branches_walk_as_their_parents_say() {
    let (_folder, _, store) = fresh();
    let mut texts = messages();
    let trunk = append(&store, &branch("main"), None, texts.by_ref().take(20));
    let mut lines: Vec<Vec<_>> = (0..4).map(|n| trunk[..=n * 6].to_vec()).collect();
    for round in 0..10 {
        for (n, line) in lines.iter_mut().enumerate() {
            let name = branch(&format!("b{n}"));
            let parent = *line.last().unwrap();
            if round == 0 {
                // A fork is one ref write.
                let mut fork = batch();
                let to = Some(RefTarget::Commit(parent));
                fork.refs.push(RefEdit { name: name.clone(), expect: Expect::Absent, to });
                assert_eq!(apply(&store, fork).unwrap(), Applied::Done);
            }
            let added = append(&store, &name, Some(parent), texts.by_ref().take(3));
            line.extend(added);
        }
    }
    block_on(store.close()).unwrap();
    let store = tract_store_sqlite::open(store.store().path(), &SqliteOptions::new()).unwrap();
    for line in &lines {
        for limit in [1, 7, 4096] {
            let mut next = line.last().copied();
            let mut walked = Vec::new();
            while let Some(head) = next {
                let page = store.store().walk(&repo(), Walk { limit, ..Walk::from(head) }).unwrap();
                assert!(page.steps.len() <= limit);
                walked.extend(page.steps.iter().map(|step| step.commit.id()));
                next = page.next;
            }
            assert!(walked.iter().rev().eq(line), "limit {limit}");
        }
        let until = Walk { until: Some(line[3]), ..Walk::from(*line.last().unwrap()) };
        let page = store.store().walk(&repo(), until).unwrap();
        assert_eq!((page.steps.len(), page.next), (line.len() - 4, None));
    }
    assert_sound(&store);
}

#[test]
fn a_walk_stops_at_a_derived_row() {
    let (_folder, _, store) = fresh();
    let line = append(&store, &branch("main"), None, messages().take(30));
    let mut derived = batch();
    for at in [5, 17] {
        derived.derived.push(DerivedRow {
            kind: DerivedKind::Snapshot,
            commit: line[at],
            bytes: format!("view at {at}").into(),
        });
    }
    assert_eq!(apply(&store, derived).unwrap(), Applied::Done);
    let stop = |head: usize, kind| {
        let walk = Walk { stop_at: Some(kind), ..Walk::from(line[head]) };
        let page = store.store().walk(&repo(), walk).unwrap();
        assert_eq!(page.next, None);
        (page.steps.len(), page.stopped)
    };
    assert_eq!(stop(29, DerivedKind::Snapshot), (12, Some((line[17], "view at 17".into()))));
    assert_eq!(stop(17, DerivedKind::Snapshot), (0, Some((line[17], "view at 17".into()))));
    assert_eq!(stop(16, DerivedKind::Snapshot), (11, Some((line[5], "view at 5".into()))));
    assert_eq!(stop(4, DerivedKind::Snapshot), (5, None));
    assert_eq!(stop(29, DerivedKind::Turn), (30, None));
    block_on(async {
        use tract_core::store::DerivedRepository;
        store.drop_derived(&repo()).await.unwrap();
    });
    assert_eq!(stop(29, DerivedKind::Snapshot), (30, None));
}

#[test]
fn a_refused_batch_leaves_no_trace_next_to_its_neighbors() {
    let (_folder, _, store) = fresh();
    let main = branch("main");
    let line = append(&store, &main, None, messages().take(3));
    let before = store.store().stats(&repo()).unwrap();
    let (good, head) = appending(&main, Some(line[2]), "goes through");
    let (stale, stale_head) = appending(&main, Some(line[0]), "comes too late");
    let (mut dangling, dangling_head) = appending(&branch("other"), None, "says nothing");
    dangling.blobs.clear();
    let missing = ObjectId::Blob(dangling.commits[0].content.unwrap());
    let (next, next_head) = appending(&main, Some(head), "sees what the first one wrote");
    let group = [good, stale, dangling, next].map(|batch| (repo(), batch));
    let answers = store.store().apply_group(&group);
    let [good, stale, dangling, next] = answers.try_into().expect("four answers");
    assert_eq!(good.unwrap(), Applied::Done);
    assert!(matches!(stale.unwrap(), Applied::Conflict(conflict)
        if conflict.found == Some(RefTarget::Commit(head))));
    assert_eq!(dangling.unwrap_err().kind, StoreErrorKind::Missing { object: missing });
    assert_eq!(next.unwrap(), Applied::Done);
    let found =
        store.store().commits(&repo(), &[head, stale_head, dangling_head, next_head]).unwrap();
    let found: Vec<_> = found.iter().map(Option::is_some).collect();
    assert_eq!(found, [true, false, false, true]);
    let after = store.store().stats(&repo()).unwrap();
    assert_eq!((after.commits, after.blobs), (before.commits + 2, before.blobs + 2));
    assert_sound(&store);
}

#[test]
fn a_batch_that_joins_a_group_sees_its_writes_and_is_durable_with_it() {
    let (_folder, path, store) = fresh();
    let main = branch("main");
    let (first, head) = appending(&main, None, "begins the group");
    let (stale, _) = appending(&main, None, "comes too late");
    let (next, next_head) = appending(&main, Some(head), "sees what the group wrote");
    let (last, last_head) = appending(&main, Some(next_head), "sees what who joined wrote");
    let waves = [vec![stale, next], vec![last.clone()]]
        .map(|wave| wave.into_iter().map(|batch| (repo(), batch)).collect::<Vec<_>>());
    let mut waves = waves.into_iter();
    let answers =
        store.store().apply_joined(&[(repo(), first)], &mut || waves.next().unwrap_or_default());
    let [first, stale, next, last_answer] = answers.try_into().expect("four answers");
    assert_eq!(first.unwrap(), Applied::Done);
    assert!(matches!(stale.unwrap(), Applied::Conflict(_)));
    assert_eq!(next.unwrap(), Applied::Done);
    assert_eq!(last_answer.unwrap(), Applied::Done);
    // What joined is known as what began the group is: a second time it does nothing.
    assert_eq!(apply(&store, last).unwrap(), Applied::Already);
    drop(store);
    let store = tract_store_sqlite::open(&path, &SqliteOptions::new()).unwrap();
    let page = store.store().walk(&repo(), Walk::from(last_head)).unwrap();
    let line: Vec<_> = page.steps.iter().map(|step| step.commit.id()).collect();
    assert_eq!(line, [last_head, next_head, head]);
    assert_sound(&store);
}

#[test]
fn the_log_says_what_was_said() {
    let (_folder, _, store) = fresh();
    let main = branch("main");
    let line = append(&store, &main, None, messages().take(2));
    let mut undo = batch();
    undo.note.why = Some("too early".to_owned());
    undo.note.undoes = Some(2);
    undo.note.what = "undo".to_owned();
    let head = tract_core::RefName::head();
    let document = tract_core::Blob::seal("a document");
    undo.blobs.push(document.clone());
    let edits = [
        (main.clone(), Some(RefTarget::Commit(line[0]))),
        (head.clone(), Some(RefTarget::Ref(main.clone()))),
        (tract_core::RefName::new("config/x").unwrap(), Some(RefTarget::Blob(document.id()))),
    ];
    for (name, to) in edits {
        undo.refs.push(RefEdit { name, expect: Expect::Any, to });
    }
    assert_eq!(apply(&store, undo.clone()).unwrap(), Applied::Done);
    assert_eq!(apply(&store, undo.clone()).unwrap(), Applied::Already);
    let mut gone = batch();
    gone.note.operation = tract_core::OperationId::from_bytes(*gone.id.as_bytes());
    gone.refs.push(RefEdit { name: main.clone(), expect: Expect::Any, to: None });
    assert_eq!(apply(&store, gone.clone()).unwrap(), Applied::Done);

    let log = |query: LogQuery| store.store().ref_log(&repo(), &query).unwrap();
    let all = log(LogQuery::default());
    assert_eq!(all.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [6, 5, 4, 3, 2, 1]);
    assert_eq!(all[0].note, gone.note);
    assert_eq!((&all[0].before, &all[0].after), (&Some(RefTarget::Commit(line[0])), &None));
    assert_eq!((&all[1].after, &all[1].note), (&undo.refs[2].to, &undo.note));
    assert_eq!((&all[2].name, &all[2].after), (&head, &Some(RefTarget::Ref(main.clone()))));
    assert_eq!(all[3].before, Some(RefTarget::Commit(line[1])));
    assert_eq!((&all[5].before, &all[5].after), (&None, &Some(RefTarget::Commit(line[0]))));
    assert_eq!(log(LogQuery { name: Some(main), ..LogQuery::default() }).len(), 4);
    assert_eq!(log(LogQuery { batch: Some(undo.id), ..LogQuery::default() }), all[1..4]);
    assert_eq!(log(LogQuery { before: Some(4), limit: 2, ..LogQuery::default() }), all[3..5]);
    assert_sound(&store);
}

#[test]
fn repositories_of_one_file_stay_apart() {
    let (_folder, _, store) = fresh();
    let names = ["one", "two"].map(|name| tract_core::RepoName::new(name).unwrap());
    let mut heads = Vec::new();
    for name in &names {
        let (batch, head) = appending(&branch("main"), None, name.as_str());
        assert_eq!(block_on(store.apply(name, batch)).unwrap(), Applied::Done);
        heads.push(head);
    }
    let [one, two] = &names;
    assert_eq!(store.store().commits(one, &heads).unwrap().iter().flatten().count(), 1);
    let digits = tract_core::IdPrefix::new(&heads[1].to_hex()[..12]).unwrap();
    assert_eq!(store.store().resolve_prefix(one, &digits, 9).unwrap(), []);
    let found = store.store().resolve_prefix(two, &digits, 9).unwrap();
    assert_eq!(found, [ObjectId::Commit(heads[1])]);
    assert_eq!(store.store().repos().unwrap(), names);
    for name in &names {
        let log = store.store().ref_log(name, &LogQuery::default()).unwrap();
        assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1]);
        assert_eq!(store.store().check(name, false).unwrap(), []);
    }
}
