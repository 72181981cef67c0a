//! Ids by their first digits.

use tract_core::{Blob, CommitId, IdPrefix, ObjectId, RepoName, StoreResult};

use crate::fixtures::{batch, done, push, push_with_tools, schemas, storing};
use crate::suite::Repo;

fn prefix(object: ObjectId, digits: usize) -> IdPrefix {
    let hex = CommitId::from_bytes(*object.as_bytes()).to_hex();
    IdPrefix::new(&hex[..digits]).expect("ids are hex")
}

pub(super) async fn prefix_finds_every_kind_of_object((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[r#"{"name":"t","input_schema":{}}"#]);
    let mut writing = batch("commit");
    let commit = push_with_tools(&mut writing, None, "one", &tools);
    let objects = [
        ObjectId::Commit(commit.id()),
        ObjectId::Blob(writing.blobs[0].id()),
        ObjectId::Blob(tools[0].blob().id()),
        ObjectId::Toolset(writing.toolsets[0].id()),
        ObjectId::Tool(tools[0].id()),
    ];
    done(store.apply(&repo, writing).await)?;
    for object in objects {
        for digits in [4, 5, 16, 17, 33] {
            let found = store.resolve_prefix(&repo, &prefix(object, digits), 10).await?;
            assert!(found.contains(&object), "{object} by {digits} digits: {found:?}");
        }
    }
    Ok(())
}

pub(super) async fn prefix_gives_at_most_limit_sorted((store, repo): Repo) -> StoreResult<()> {
    // Among this number of hashes, several share their first four digits.
    let mut writing = batch("put");
    let mut heads = std::collections::BTreeMap::<String, Vec<ObjectId>>::new();
    for n in 0..3000 {
        let commit = push(&mut writing, None, &format!("message {n}")).id();
        heads.entry(commit.to_hex()[..4].to_owned()).or_default().push(ObjectId::Commit(commit));
    }
    for blob in writing.blobs.iter().map(Blob::id) {
        heads.entry(blob.to_hex()[..4].to_owned()).or_default().push(ObjectId::Blob(blob));
    }
    done(store.apply(&repo, writing).await)?;
    let both = |ids: &[ObjectId]| {
        let commits = ids.iter().filter(|id| matches!(id, ObjectId::Commit(_))).count();
        commits > 0 && commits < ids.len()
    };
    let (head, mut expected) = heads
        .into_iter()
        .filter(|(_, ids)| both(ids))
        .max_by_key(|(_, ids)| ids.len())
        .expect("some commit begins like some blob");
    // Commits come first: a limit never hides one behind other objects.
    expected.sort();
    assert!(matches!(expected[0], ObjectId::Commit(_)));
    let prefix = IdPrefix::new(&head).expect("ids are hex");
    assert_eq!(store.resolve_prefix(&repo, &prefix, 100).await?, expected);
    assert_eq!(store.resolve_prefix(&repo, &prefix, 1).await?, expected[..1]);
    Ok(())
}

pub(super) async fn prefix_of_all_digits_finds_one((store, repo): Repo) -> StoreResult<()> {
    let blob = Blob::seal("one");
    done(store.apply(&repo, storing([blob.clone()])).await)?;
    let object = ObjectId::Blob(blob.id());
    assert_eq!(store.resolve_prefix(&repo, &prefix(object, 64), 10).await?, [object]);
    let absent = ObjectId::Blob(Blob::seal("two").id());
    assert_eq!(store.resolve_prefix(&repo, &prefix(absent, 64), 10).await?, []);
    // The same first sixteen digits, and another one after them.
    let mut other = blob.id().to_hex();
    let last = if other.ends_with('0') { "1" } else { "0" };
    other.replace_range(63.., last);
    let other = IdPrefix::new(&other).expect("ids are hex");
    assert_eq!(store.resolve_prefix(&repo, &other, 10).await?, []);
    Ok(())
}

pub(super) async fn repository_prefix_lookup_apart((store, repo): Repo) -> StoreResult<()> {
    let other = RepoName::new("another").expect("a valid name");
    let mut writing = batch("commit");
    let tools = schemas(&[r#"{"name":"t","input_schema":{}}"#]);
    let commit = push_with_tools(&mut writing, None, "one", &tools);
    done(store.apply(&repo, writing).await)?;
    done(store.apply(&other, storing([Blob::seal("else")])).await)?;
    for object in [
        ObjectId::Commit(commit.id()),
        ObjectId::Blob(tools[0].blob().id()),
        ObjectId::Toolset(commit.toolset.expect("it has tools")),
        ObjectId::Tool(tools[0].id()),
    ] {
        assert_eq!(store.resolve_prefix(&other, &prefix(object, 8), 10).await?, [], "{object}");
        assert_eq!(store.resolve_prefix(&repo, &prefix(object, 8), 10).await?, [object]);
    }
    Ok(())
}
