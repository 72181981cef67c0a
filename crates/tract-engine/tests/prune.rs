//! Branches that were not written to for a long time are deleted, and nothing that is in use.

#![allow(clippy::unwrap_used)] // a test that panics has failed

mod support;

use std::sync::Arc;
use std::time::Duration;

use tract_core::{Blob, CommitId, Draft, ManualClock, RefName, Store, block_on};
use tract_engine::{
    GcOptions, PendingRequest, PruneKept, PruneOptions, Repo, RepoOptions, gc, prune,
};

use self::support::{assert_clean, branch, meanwhile, say, writes};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A repository whose clock says the 1,000th day, and the clock.
fn opened(store: Arc<dyn Store>) -> (Repo, ManualClock) {
    let clock = ManualClock::at_us(0);
    clock.advance(1000 * DAY);
    let options = RepoOptions { clock: Arc::new(clock.clone()), ..RepoOptions::default() };
    (Repo::new(store, options), clock)
}

async fn names(repo: &Repo) -> Vec<String> {
    repo.branches().await.unwrap().into_iter().map(|branch| branch.name).collect()
}

#[test]
fn old_branches_go_in_one_operation_and_come_back() {
    block_on(async {
        let (repo, clock) = opened(Arc::new(tract_kv::memory()));
        repo.init().await.unwrap();
        say(&repo, "main", "checked out, and old").await;
        let old = say(&repo, "old", "one").await;
        let older = say(&repo, "older", "two").await;
        say(&repo, "tagged", "three").await;
        let tagged = repo.head_of(&branch("tagged")).await.unwrap().unwrap();
        repo.create_tag("release", tagged).await.unwrap();
        say(&repo, "waits", "four").await;
        let request = PendingRequest::Append(Box::new(Draft::user("five")));
        repo.defer(&branch("waits"), request, "test", "a person decides").await.unwrap();
        let document = |head: CommitId| Blob::seal(format!("{{\"head\":\"{head}\",\"id\":\"x\"}}"));
        let imports = |name: &str| RefName::new(format!("imports/{name}")).unwrap();
        let other = Blob::seal("[1]");
        let documents = vec![
            (imports("old"), document(old)),
            (imports("waits"), document(old)),
            (imports("gone-before"), document(older)),
            (imports("desk"), other),
        ];
        repo.set_documents("import", documents).await.unwrap();
        clock.advance(10 * DAY);
        say(&repo, "new", "six").await;
        clock.advance(DAY);

        let options = PruneOptions { older_than: 5 * DAY, keep_tagged: true, dry_run: false };
        let dry = prune(&repo, &PruneOptions { dry_run: true, ..options.clone() }).await.unwrap();
        assert_eq!(names(&repo).await.len(), 6, "a dry run deletes nothing");
        let report = prune(&repo, &options).await.unwrap();
        assert_eq!(report, dry);
        let deleted: Vec<&str> = report.branches.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(deleted, ["old", "older"]);
        assert_eq!(report.branches[0].head, old);
        assert_eq!(report.documents, [imports("gone-before"), imports("old")]);
        let kept = [PruneKept::CheckedOut, PruneKept::Pending, PruneKept::Tagged];
        assert_eq!(report.kept, kept.into_iter().map(|reason| (reason, 1)).collect());
        assert_eq!(names(&repo).await, ["main", "new", "tagged", "waits"]);
        let again = prune(&repo, &options).await.unwrap();
        assert_eq!((again.branches.len(), again.documents.len()), (0, 0));

        let undone = repo.undo(&branch("older")).await.unwrap();
        assert_eq!((undone.what.as_str(), undone.moves.len()), ("prune", 4));
        assert_eq!(names(&repo).await.len(), 6);
        assert_eq!(repo.head_of(&branch("old")).await.unwrap(), Some(old));
        repo.redo(&branch("older")).await.unwrap();

        // Without their log the commits go, and what is in use stays.
        clock.advance(DAY);
        let report =
            gc(&repo, &GcOptions { keep: Duration::ZERO, ..GcOptions::default() }).await.unwrap();
        assert_eq!(
            report.commits.objects, 1,
            "the document of a branch that waits names the other"
        );
        assert_eq!(repo.commit(older).await.unwrap(), None);
        assert!(repo.commit(old).await.unwrap().is_some());
        let untagged = prune(&repo, &PruneOptions::new(5 * DAY)).await.unwrap();
        assert_eq!(untagged.branches.len(), 1, "a tag keeps commits, not a branch");
        clock.advance(DAY);
        gc(&repo, &GcOptions { keep: Duration::ZERO, ..GcOptions::default() }).await.unwrap();
        assert!(repo.commit(tagged).await.unwrap().is_some());
        assert_clean(&repo).await;
    });
}

#[test]
fn a_commit_without_a_time_is_as_old_as_its_parent() {
    block_on(async {
        let (repo, _clock) = opened(Arc::new(tract_kv::memory()));
        say(&repo, "main", "now").await;
        say(&repo, "timed", "now").await;
        let drafts = (0..600).map(|n| Draft::user(n.to_string())).collect();
        let conversation = tract_engine::ImportConversation::new("recorded", drafts);
        tract_engine::import(&repo, conversation, &tract_engine::ImportOptions::default())
            .await
            .unwrap();
        let report = prune(&repo, &PruneOptions::new(900 * DAY)).await.unwrap();
        let deleted: Vec<_> =
            report.branches.iter().map(|one| (one.name.as_str(), one.created_at_us)).collect();
        assert_eq!(deleted, [("recorded", 0)]);
        assert_eq!(report.documents.len(), 1);
    });
}

/// A branch that is written to between the look and the write is not deleted.
#[test]
fn a_branch_that_moves_meanwhile_stays() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(tract_kv::memory());
        let (plain, clock) = opened(Arc::clone(&store));
        say(&plain, "main", "one").await;
        say(&plain, "old", "two").await;
        say(&plain, "other", "three").await;
        clock.advance(10 * DAY);
        let writer = plain.clone();
        let watched = meanwhile(store, 1, writes, move || {
            block_on(say(&writer, "old", "written again"));
        });
        let repo =
            Repo::new(watched, RepoOptions { clock: Arc::new(clock), ..RepoOptions::default() });
        let report = prune(&repo, &PruneOptions::new(5 * DAY)).await.unwrap();
        let deleted: Vec<&str> = report.branches.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(deleted, ["other"]);
        assert_eq!(names(&plain).await, ["main", "old"]);
    });
}
