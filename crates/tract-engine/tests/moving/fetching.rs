use std::time::Duration;

use tract_core::{Blob, CommitId, RefName, RefTarget, block_on};
use tract_engine::{
    CopyOptions, FetchOptions, GcOptions, MergeOptions, PullBranches, PushOptions, Remote, Repo,
    RepoOptions, TransferStatus, copy, fetch, gc, push,
};

use crate::fixture::{
    branch, commits, exported, head, is_clean, one, repo, say, says, seen, with_everything,
};
use crate::support::{import_all, recorded, refs};

fn pull(names: &[&str]) -> FetchOptions {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    FetchOptions { pull: PullBranches::Named(names), ..FetchOptions::default() }
}

fn everything() -> FetchOptions {
    FetchOptions { pull: PullBranches::All, ..FetchOptions::default() }
}

#[test]
fn a_fetch_moves_no_branch() {
    let from = with_everything();
    let to = repo();
    let mine = say(&to, "main", "mine");
    let report = block_on(fetch(&to, &from, "team", &FetchOptions::default())).expect("it is read");
    assert_eq!(report.branches, []);
    assert_eq!(head(&to, &branch("main")), Some(mine));
    for name in ["main", "other", "third"] {
        assert_eq!(head(&to, &seen("team", name)), head(&from, &branch(name)), "{name}");
    }
    assert_eq!(
        head(&to, &RefName::tag("before").unwrap()),
        head(&from, &RefName::tag("before").unwrap())
    );
    // It can be named, also in short.
    for name in ["remotes/team/other", "team/other"] {
        let found: CommitId = block_on(to.resolve(name)).expect(name);
        assert_eq!(Some(found), head(&from, &branch("other")));
    }
    is_clean(&to);
}

#[test]
fn pulling_everything_gives_the_same_repository() {
    let from = with_everything();
    let to = repo();
    block_on(to.init()).expect("it is made");
    let report = block_on(fetch(&to, &from, "team", &everything())).expect("it is read");
    assert_eq!(report.commits as u64, commits(&from));
    assert!(says(&to) == says(&from));
    // Where a remote has its branches is part of no export.
    assert!(exported(&to) == exported(&from));
    is_clean(&to);
}

#[test]
fn a_pull_forwards_and_leaves_what_diverged_for_a_merge() {
    let (ours, theirs) = (repo(), repo());
    say(&theirs, "main", "first");
    block_on(ours.init()).expect("it is made");
    block_on(fetch(&ours, &theirs, "team", &pull(&["main"]))).expect("it is pulled");
    let second = say(&theirs, "main", "second");
    let report = block_on(fetch(&ours, &theirs, "team", &pull(&["main"]))).expect("it is pulled");
    assert_eq!(report.branches[0].status, TransferStatus::Forwarded);
    assert_eq!(head(&ours, &branch("main")), Some(second));

    let mine = say(&ours, "main", "mine");
    let report = block_on(fetch(&ours, &theirs, "team", &pull(&["main"]))).expect("it is read");
    assert_eq!(report.branches[0].status, TransferStatus::Ahead);
    assert!(!report.diverged());
    let third = say(&theirs, "main", "third");
    let report = block_on(fetch(&ours, &theirs, "team", &pull(&["main"]))).expect("it is read");
    assert!(report.diverged());
    assert_eq!(head(&ours, &branch("main")), Some(mine));
    assert_eq!(head(&ours, &seen("team", "main")), Some(third));

    // The way out: merge, then push.
    let there = block_on(ours.resolve("remotes/team/main")).expect("it is there");
    block_on(ours.merge(&branch("main"), there, &MergeOptions::default())).expect("it merges");
    let report =
        block_on(push(&ours, &theirs, "team", &PushOptions::default())).expect("it is pushed");
    assert_eq!(report.refs[0].status, TransferStatus::Forwarded);
    assert!(says(&theirs) == says(&ours));
    is_clean(&theirs);
}

#[test]
fn a_pull_is_undone_as_one_operation() {
    let (ours, theirs) = (repo(), with_everything());
    block_on(ours.init()).expect("it is made");
    let before = refs(&ours);
    block_on(fetch(&one(&ours), &theirs, "team", &everything())).expect("it is pulled");
    let undone = block_on(ours.undo(&branch("main"))).expect("it is undone");
    assert_eq!(undone.what, "pull");
    assert_eq!(refs(&ours), before);
    // So is a fetch, by a ref that it moved.
    block_on(fetch(&one(&ours), &theirs, "team", &FetchOptions::default())).expect("it is fetched");
    block_on(ours.undo(&seen("team", "main"))).expect("it is undone");
    assert_eq!(refs(&ours), before);
}

#[test]
fn a_rewritten_branch_is_followed_and_a_deleted_one_is_pruned() {
    let (ours, theirs) = (repo(), repo());
    say(&theirs, "main", "first");
    say(&theirs, "draft", "a draft");
    block_on(fetch(&ours, &theirs, "team", &FetchOptions::default())).expect("it is fetched");
    block_on(theirs.undo(&branch("main"))).expect("it is undone");
    let again = say(&theirs, "main", "first again");
    block_on(theirs.delete_branches(&["draft".to_owned()])).expect("it is deleted");
    let report =
        block_on(fetch(&ours, &theirs, "team", &FetchOptions::default())).expect("fetched");
    assert_eq!(report.refs[0].status, TransferStatus::Moved);
    assert_eq!(head(&ours, &seen("team", "main")), Some(again));
    assert!(head(&ours, &seen("team", "draft")).is_some());
    let options = FetchOptions { prune: true, ..FetchOptions::default() };
    let report = block_on(fetch(&ours, &theirs, "team", &options)).expect("it is fetched");
    assert!(report.refs.iter().any(|at| at.status == TransferStatus::Deleted));
    assert_eq!(head(&ours, &seen("team", "draft")), None);
}

#[test]
fn three_that_imported_the_same_recordings_share_them() {
    let imported = || {
        let repo = repo();
        import_all(&repo, &recorded()[..8]);
        repo
    };
    let team = repo();
    let machines: Vec<Repo> = (0..3).map(|_| imported()).collect();
    for (n, machine) in machines.iter().enumerate() {
        let options = PushOptions { all: true, ..PushOptions::default() };
        let report = block_on(push(machine, &team, "team", &options)).expect("it is pushed");
        assert!(!report.diverged());
        assert_eq!(report.commits == 0, n > 0, "only the first brings something");
    }
    let heads = |repo: &Repo| -> Vec<(RefName, RefTarget)> {
        let refs = refs(repo).into_iter();
        refs.filter(|(name, _)| name.is_history() && *name != RefName::head()).collect()
    };
    for machine in &machines {
        let report = block_on(fetch(machine, &team, "team", &everything())).expect("it is pulled");
        assert_eq!(report.commits, 0);
        assert_eq!(heads(machine), heads(&team));
    }
}

#[test]
fn a_branch_that_the_remote_has_not_is_named() {
    let (ours, theirs) = (repo(), repo());
    say(&theirs, "main", "first");
    let error = block_on(fetch(&ours, &theirs, "team", &pull(&["mian"]))).expect_err("none");
    assert_eq!(error.code(), "unknown_branch");
    assert!(error.notes()[0].contains("main"));
    assert_eq!(commits(&ours), 0);
}

#[test]
fn remotes_have_names_and_stay_when_a_repository_is_copied() {
    let repo = repo();
    say(&repo, "main", "first");
    block_on(async {
        assert_eq!(repo.remote(None).await.expect_err("none").code(), "unknown_remote");
        let url = "postgres://me:secret@db/agents";
        repo.add_remote(Remote { repo: Some("shop".to_owned()), ..Remote::new("team", url) })
            .await
            .expect("it is added");
        assert_eq!(repo.remote(None).await.expect("the only one").url, url);
        let error = repo.add_remote(Remote::new("team", "memory:")).await.expect_err("it is there");
        assert_eq!(error.code(), "remote_exists");
        let error = repo.add_remote(Remote::new("a/b", "memory:")).await.expect_err("no name");
        assert_eq!(error.code(), "bad_name");
        repo.add_remote(Remote::new("laptop", "sqlite:a.db")).await.expect("it is added");
        let error = repo.remote(None).await.expect_err("which");
        assert_eq!(error.to_string(), "which remote: there are laptop, team");
        let error = repo.remote(Some("tema")).await.expect_err("none");
        assert_eq!(error.notes(), ["did you mean \"team\"?"]);
        let other = crate::fixture::repo();
        fetch(&repo, &other, "team", &FetchOptions::default()).await.expect("it is fetched");
        // A url may hold a password: it is in no copy and no export.
        assert!(!exported(&repo).contains("secret"));
        copy(&repo, &other, &CopyOptions::default()).await.expect("it is copied");
        assert_eq!(other.remotes().await.expect("it is read"), []);
        repo.remove_remote("laptop").await.expect("it is removed");
        let error = repo.remove_remote("laptop").await.expect_err("it is gone");
        assert_eq!(error.code(), "unknown_remote");
        assert_eq!(repo.remotes().await.expect("it is read").len(), 1);
    });
    is_clean(&repo);
}

#[test]
fn a_removed_remote_leaves_no_refs() {
    let (ours, theirs) = (repo(), repo());
    say(&theirs, "main", "first");
    block_on(ours.add_remote(Remote::new("team", "memory:"))).expect("it is added");
    block_on(fetch(&ours, &theirs, "team", &FetchOptions::default())).expect("it is fetched");
    block_on(ours.remove_remote("team")).expect("it is removed");
    assert_eq!(refs(&ours), []);
}

#[test]
fn the_url_of_a_removed_remote_is_collected_as_garbage() {
    let repo = repo();
    say(&repo, "main", "first");
    let url = "postgres://me:secret@db/agents";
    let kept = Blob::seal(format!(r#"{{"team":{{"url":"{url}"}}}}"#).into_bytes()).id();
    block_on(repo.add_remote(Remote::new("team", url))).expect("it is added");
    assert!(block_on(repo.require_blob(kept)).is_ok());
    block_on(repo.remove_remote("team")).expect("it is removed");
    // A clock past that of the removal.
    let later = Repo::new(repo.store().clone(), RepoOptions::default());
    block_on(gc(&later, &GcOptions { keep: Duration::ZERO, ..GcOptions::default() }))
        .expect("it collects");
    assert!(block_on(repo.require_blob(kept)).is_err());
    is_clean(&repo);
}
