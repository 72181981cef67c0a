//! Histories long enough for snapshots, and changes too many for a record.

use tract::engine::{Request, Selection, Txn, WriteOptions};
use tract::{CommitId, Draft, Priority, Tract, block_on};

use super::checks::{Print, history_state, print, same};
use super::{cold, portable};
use crate::backends;
use crate::walks::{assert_clean, exported, memory};

/// Makes a history whose changes outnumber its messages by far; gives every 50th head.
fn busy(tract: &Tract, acts: usize) -> Vec<CommitId> {
    block_on(async {
        let branch = tract.repo().current_branch().await.unwrap();
        let mut txn = Txn::new(tract.repo()).unwrap().importing();
        let mut slots = Vec::new();
        for n in 0..12 {
            let draft = Draft::user(format!("message {n}"));
            slots.push(txn.add(&branch, &Request::Append(draft)).await.unwrap().id());
        }
        let mut heads = Vec::new();
        for n in 0..acts {
            let slot = slots[n * 7 % slots.len()];
            let request = match n % 4 {
                0 => Request::annotate([slot], Priority::Skip),
                1 => Request::annotate([slot], Priority::Normal),
                2 => Request::tools(super::world::tools((n % 3) as u8)),
                _ => Request::edit_text(slot, format!("version {n}")),
            };
            let made = txn.add(&branch, &request).await.unwrap().id();
            if n % 50 == 49 {
                heads.push(made);
            }
        }
        let _ = txn.apply("busy", &WriteOptions::default()).await.unwrap();
        heads
    })
}

/// Folding from a snapshot is folding from the root.
#[test]
fn snapshot_start_equals_root() {
    let folder = tempfile::tempdir().unwrap();
    let kept = backends::all().map(|backend| backend.fast(folder.path(), "busy"));
    for tract in std::iter::once(memory()).chain(kept) {
        let heads = busy(&tract, 700);
        let stats = block_on(tract.store().stats(tract.repo().name())).unwrap();
        assert!(stats.derived > 0, "a busy history has snapshots");
        let prints = |repo: &tract::engine::Repo| -> Vec<Print> {
            heads.iter().map(|head| print(repo, Some(*head)).unwrap()).collect()
        };
        let warm = prints(tract.repo());
        let snapshot = prints(&cold(&tract));
        block_on(tract.store().drop_derived(tract.repo().name())).unwrap();
        assert_eq!(block_on(tract.store().stats(tract.repo().name())).unwrap().derived, 0);
        let root = prints(&cold(&tract));
        for ((warm, snapshot), root) in warm.iter().zip(&snapshot).zip(&root) {
            same("from a snapshot", snapshot, root).unwrap();
            same("warm", warm, root).unwrap();
        }
        assert_clean(&tract, "a busy history");
    }
}

/// More changes than a record holds inline are a blob, and nothing else differs.
#[test]
fn many_changes_are_a_blob_and_travel() {
    let tract = memory();
    let texts = (0..100).map(|n| Draft::user(format!("message {n}")));
    let made = block_on(tract.commit_all(texts)).unwrap();
    let before = block_on(tract.repo().fold(Some(made[99].id()))).unwrap();
    let from = Selection::Range { from: None, to: None };
    let summary = block_on(tract.record(Request::compress(from, "a hundred messages"))).unwrap();
    assert!(matches!(summary.changes, tract::core::Changes::Blob(_)));
    assert_eq!(block_on(tract.compile()).unwrap().message_count(), 1);
    let back = block_on(tract.revert(&summary)).unwrap();
    let after = block_on(tract.repo().fold(Some(back.id()))).unwrap();
    assert_eq!(history_state(&after), history_state(&before));
    portable(&tract, &memory(), &exported(tract.repo())).unwrap();
}
