//! Blobs, toolsets and derived rows.

use bytes::Bytes;
use tract_core::store::{BlobKey, LocationHint, Walk};
use tract_core::{Blob, DerivedKind, StoreExt, StoreResult, ToolEntry, Toolset, ToolsetId};

use crate::fixtures::{batch, deriving, done, push, push_with_tools, row, schemas, storing};
use crate::suite::Repo;

pub(super) async fn blobs_answer_each_key_in_order((store, repo): Repo) -> StoreResult<()> {
    let blobs = ["one", "two", "three"].map(Blob::seal);
    done(store.apply(&repo, storing(blobs.clone())).await)?;
    let [one, two, three] = blobs;
    let absent = Blob::seal("absent");
    let keys = [three.id(), absent.id(), one.id(), two.id()].map(BlobKey::from);
    assert_eq!(store.blobs(&repo, &keys).await?, [Some(three), None, Some(one), Some(two)]);
    assert_eq!(store.blobs(&repo, &[]).await?, []);
    Ok(())
}

pub(super) async fn same_blob_twice_is_answered_twice((store, repo): Repo) -> StoreResult<()> {
    let blob = Blob::seal("again");
    done(store.apply(&repo, storing([blob.clone(), blob.clone()])).await)?;
    let keys = [blob.id(), blob.id()].map(BlobKey::from);
    assert_eq!(store.blobs(&repo, &keys).await?, [Some(blob.clone()), Some(blob)]);
    assert_eq!(store.stats(&repo).await?.blobs, 1);
    Ok(())
}

pub(super) async fn any_number_of_blobs_in_one_call((store, repo): Repo) -> StoreResult<()> {
    let blobs: Vec<Blob> = (0..5000).map(|n| Blob::seal(format!("blob {n}"))).collect();
    done(store.apply(&repo, storing(blobs.clone())).await)?;
    let keys: Vec<BlobKey> = blobs.iter().rev().map(|blob| blob.id().into()).collect();
    let found = store.blobs(&repo, &keys).await?;
    assert!(found.into_iter().eq(blobs.into_iter().rev().map(Some)));
    Ok(())
}

async fn comes_back((store, repo): Repo, bytes: Bytes) -> StoreResult<()> {
    let blob = Blob::seal(bytes);
    done(store.apply(&repo, storing([blob.clone()])).await)?;
    assert!(store.require_blob(&repo, blob.id()).await? == blob);
    Ok(())
}

pub(super) async fn blob_of_0_bytes(repo: Repo) -> StoreResult<()> {
    comes_back(repo, Bytes::new()).await
}

pub(super) async fn blob_of_16_mib(repo: Repo) -> StoreResult<()> {
    let bytes: Vec<u8> =
        (0u32..4 << 20).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    comes_back(repo, bytes.into()).await
}

pub(super) async fn blob_of_any_bytes(repo: Repo) -> StoreResult<()> {
    comes_back(repo, (0..=255).chain([0, 0, 255, 254]).collect::<Vec<u8>>().into()).await
}

pub(super) async fn wrong_hint_costs_no_truth((store, repo): Repo) -> StoreResult<()> {
    let mut first = batch("commit");
    let one = push(&mut first, None, "one");
    push(&mut first, Some(one.id()), "two");
    let blobs = first.blobs.clone();
    done(store.apply(&repo, first).await)?;
    for hint in [0, 1, 1 << 32, 1 << 32 | 1, u64::MAX, i64::MAX as u64] {
        let key = |blob: &Blob| BlobKey { id: blob.id(), hint: Some(LocationHint(hint)) };
        let keys: Vec<BlobKey> = blobs.iter().map(key).collect();
        let found = store.blobs(&repo, &keys).await?;
        assert!(found.into_iter().eq(blobs.iter().cloned().map(Some)), "hint {hint}");
    }
    let absent = BlobKey { id: Blob::seal("absent").id(), hint: Some(LocationHint(1 << 32)) };
    assert_eq!(store.blobs(&repo, &[absent]).await?, [None]);
    Ok(())
}

const TOOLS: [&str; 2] = [
    r#"{"name":"read_file","input_schema":{"type":"object"}}"#,
    r#"{"name":"write_file","input_schema":{"type":"object"}}"#,
];

pub(super) async fn toolsets_answer_each_id_in_order((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&TOOLS);
    let mut writing = batch("commit");
    let one = push_with_tools(&mut writing, None, "one", &tools[..1]);
    push_with_tools(&mut writing, Some(one.id()), "two", &tools);
    let sets = writing.toolsets.clone();
    done(store.apply(&repo, writing).await)?;
    let absent = ToolsetId::from_bytes([1; 32]);
    let found = store.toolsets(&repo, &[sets[1].id(), absent, sets[0].id()]).await?;
    assert_eq!(found, [Some(sets[1].clone()), None, Some(sets[0].clone())]);
    Ok(())
}

pub(super) async fn toolset_keeps_order_and_repeats((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&TOOLS);
    let entry = |n: usize| ToolEntry { tool: tools[n].id(), schema: tools[n].blob().id() };
    let entries = vec![entry(1), entry(0), entry(1), entry(1)];
    let set = Toolset::seal(entries.clone());
    let mut writing = storing(tools.iter().map(tract_core::ToolSchema::blob).collect::<Vec<_>>());
    writing.toolsets.push(set.clone());
    done(store.apply(&repo, writing).await)?;
    let found = store.toolsets(&repo, &[set.id()]).await?.remove(0);
    assert_eq!(found.as_ref().map(Toolset::entries), Some(entries.as_slice()));
    Ok(())
}

pub(super) async fn empty_toolset_is_a_toolset((store, repo): Repo) -> StoreResult<()> {
    let empty = Toolset::seal(Vec::new());
    assert_eq!(store.toolsets(&repo, &[empty.id()]).await?, [None]);
    let mut writing = batch("commit");
    let commit = push_with_tools(&mut writing, None, "no tools now", &[]);
    done(store.apply(&repo, writing).await)?;
    assert_eq!(store.toolsets(&repo, &[empty.id()]).await?, [Some(empty)]);
    assert_eq!(store.tools_of(&repo, commit.id()).await?, []);
    assert_eq!(store.tool_ids_of(&repo, commit.id()).await?, []);
    Ok(())
}

pub(super) async fn derived_answer_each_commit_in_order((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("commit");
    let one = push(&mut writing, None, "one").id();
    let two = push(&mut writing, Some(one), "two").id();
    let three = push(&mut writing, Some(two), "three").id();
    writing.derived.push(row(DerivedKind::Snapshot, one, "first"));
    done(store.apply(&repo, writing).await)?;
    done(store.apply(&repo, deriving([row(DerivedKind::Snapshot, three, "")])).await)?;
    let absent = tract_core::CommitId::from_bytes([9; 32]);
    let found = store.derived(&repo, DerivedKind::Snapshot, &[three, absent, two, one]).await?;
    assert_eq!(found, [Some("".into()), None, None, Some("first".into())]);
    Ok(())
}

pub(super) async fn derived_row_is_replaced((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("commit");
    let commit = push(&mut writing, None, "one").id();
    writing.derived.push(row(DerivedKind::Snapshot, commit, "older"));
    done(store.apply(&repo, writing).await)?;
    done(store.apply(&repo, deriving([row(DerivedKind::Snapshot, commit, "newer")])).await)?;
    let found = store.derived(&repo, DerivedKind::Snapshot, &[commit]).await?;
    assert_eq!(found, [Some("newer".into())]);
    assert_eq!(store.stats(&repo).await?.derived, 1);
    Ok(())
}

pub(super) async fn derived_kinds_are_apart((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("commit");
    let commit = push(&mut writing, None, "one").id();
    writing.derived.push(row(DerivedKind::Turn, commit, "turn"));
    done(store.apply(&repo, writing).await)?;
    assert_eq!(store.derived(&repo, DerivedKind::Snapshot, &[commit]).await?, [None]);
    assert_eq!(store.derived(&repo, DerivedKind::Turn, &[commit]).await?, [Some("turn".into())]);
    Ok(())
}

pub(super) async fn drop_derived_leaves_the_rest((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&TOOLS);
    let mut writing = batch("commit");
    let commit = push_with_tools(&mut writing, None, "one", &tools).id();
    writing.derived.push(row(DerivedKind::Snapshot, commit, "row"));
    writing.derived.push(row(DerivedKind::Turn, commit, "row"));
    done(store.apply(&repo, writing).await)?;
    store.drop_derived(&repo).await?;
    for kind in DerivedKind::ALL {
        assert_eq!(store.derived(&repo, kind, &[commit]).await?, [None]);
    }
    assert_eq!(store.stats(&repo).await?.derived, 0);
    assert_eq!(store.tool_names(&repo).await?, ["read_file", "write_file"]);
    let walk = Walk { stop_at: Some(DerivedKind::Snapshot), ..Walk::from(commit) };
    let page = store.walk(&repo, walk).await?;
    assert_eq!((page.entries.len(), page.stopped), (1, None), "there is no row to stop at");
    Ok(())
}
