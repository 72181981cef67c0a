//! Refs.

use tract_core::{
    Applied, Batch, Blob, Conflict, Expect, RefEdit, RefName, RefTarget, StoreExt, StoreResult,
};

use crate::fixtures::{advance, batch, branch, done, line, moving};
use crate::suite::Repo;

fn edit(name: &RefName, expect: Expect, to: Option<RefTarget>) -> RefEdit {
    RefEdit { name: name.clone(), expect, to }
}

pub(super) async fn refs_answer_each_name_in_order((store, repo): Repo) -> StoreResult<()> {
    assert_eq!(store.refs(&repo, &[branch("main")]).await?, [None]);
    let commits = line(&*store, &repo, "main", None, &["one", "two"]).await?;
    let ids: Vec<_> = commits.iter().map(|commit| RefTarget::Commit(commit.id())).collect();
    done(store.apply(&repo, moving(vec![advance("other", None, commits[0].id())])).await)?;
    let names = [branch("other"), branch("mai"), branch("main"), branch("other")];
    let expected = [Some(ids[0].clone()), None, Some(ids[1].clone()), Some(ids[0].clone())];
    assert_eq!(store.refs(&repo, &names).await?, expected);
    Ok(())
}

pub(super) async fn symbolic_ref_is_not_followed((store, repo): Repo) -> StoreResult<()> {
    line(&*store, &repo, "main", None, &["one"]).await?;
    let to = RefTarget::Ref(branch("main"));
    let head = edit(&RefName::head(), Expect::Absent, Some(to.clone()));
    done(store.apply(&repo, moving(vec![head])).await)?;
    assert_eq!(store.ref_target(&repo, &RefName::head()).await?, Some(to.clone()));
    // It may point at a branch that is not born yet.
    let unborn = RefTarget::Ref(branch("unborn"));
    let head = edit(&RefName::head(), Expect::Is(to), Some(unborn.clone()));
    done(store.apply(&repo, moving(vec![head])).await)?;
    assert_eq!(store.ref_target(&repo, &RefName::head()).await?, Some(unborn));
    Ok(())
}

pub(super) async fn refs_are_listed_by_prefix_sorted((store, repo): Repo) -> StoreResult<()> {
    let commit = line(&*store, &repo, "main", None, &["one"]).await?.remove(0).id();
    let names = ["heads/b", "heads/a/b", "tags/a", "heads/a", "heads/a-b", "heads/_%", "heads/ä"];
    let name = |name: &str| RefName::new(name).expect("valid names");
    let edits = names.iter().map(|text| RefEdit { name: name(text), ..advance("x", None, commit) });
    done(store.apply(&repo, moving(edits.collect())).await)?;
    let listed = async |prefix: &str| -> StoreResult<Vec<String>> {
        let refs = store.list_refs(&repo, prefix).await?;
        assert!(refs.iter().all(|(_, target)| *target == RefTarget::Commit(commit)));
        Ok(refs.into_iter().map(|(name, _)| name.to_string()).collect())
    };
    let heads =
        ["heads/_%", "heads/a", "heads/a-b", "heads/a/b", "heads/b", "heads/main", "heads/ä"];
    assert_eq!(listed("heads/").await?, heads);
    assert_eq!(listed("heads/a").await?, ["heads/a", "heads/a-b", "heads/a/b"]);
    assert_eq!(listed("heads/_").await?, ["heads/_%"], "a prefix is no pattern");
    assert_eq!(listed("heads/A").await?, Vec::<String>::new(), "case matters");
    assert_eq!(listed("").await?.len(), 8);
    Ok(())
}

pub(super) async fn ref_can_point_at_a_blob((store, repo): Repo) -> StoreResult<()> {
    let document = Blob::seal("{}");
    let name = RefName::new("config/default").expect("a valid name");
    let to = RefTarget::Blob(document.id());
    let mut writing = moving(vec![edit(&name, Expect::Absent, Some(to.clone()))]);
    writing.blobs.push(document);
    done(store.apply(&repo, writing).await)?;
    assert_eq!(store.ref_target(&repo, &name).await?, Some(to));
    Ok(())
}

pub(super) async fn ref_can_be_deleted((store, repo): Repo) -> StoreResult<()> {
    let commit = line(&*store, &repo, "main", None, &["one"]).await?.remove(0);
    let is = Expect::Is(RefTarget::Commit(commit.id()));
    done(store.apply(&repo, moving(vec![edit(&branch("main"), is, None)])).await)?;
    assert_eq!(store.ref_target(&repo, &branch("main")).await?, None);
    assert_eq!(store.list_refs(&repo, "").await?, []);
    assert_eq!(store.commit(&repo, commit.id()).await?, Some(commit.clone()), "commits stay");
    done(store.apply(&repo, moving(vec![advance("main", None, commit.id())])).await)?;
    assert_eq!(store.ref_log(&repo, &Default::default()).await?.len(), 3);
    Ok(())
}

pub(super) async fn expectations_are_compared((store, repo): Repo) -> StoreResult<()> {
    let commits = line(&*store, &repo, "line", None, &["one", "two", "three"]).await?;
    let at: Vec<_> = commits.iter().map(|commit| RefTarget::Commit(commit.id())).collect();
    let absent = Expect::Absent;
    let is = |n: usize| Expect::Is(at[n].clone());
    // The value of the ref, the expected one, whether an edit to the third commit succeeds.
    let table = [
        (None, Expect::Any, true),
        (None, absent.clone(), true),
        (None, is(0), false),
        (Some(0), Expect::Any, true),
        (Some(0), absent, false),
        (Some(0), is(0), true),
        (Some(0), is(1), false),
    ];
    for (n, (before, expect, goes)) in table.into_iter().enumerate() {
        let name = branch(&format!("case-{n}"));
        if let Some(before) = before {
            let set = edit(&name, Expect::Absent, Some(at[before].clone()));
            done(store.apply(&repo, moving(vec![set])).await)?;
        }
        let before = before.map(|n: usize| at[n].clone());
        let edit = edit(&name, expect.clone(), Some(at[2].clone()));
        let answer = store.apply(&repo, moving(vec![edit])).await?;
        let found = store.ref_target(&repo, &name).await?;
        if goes {
            assert_eq!((answer, found), (Applied::Done, Some(at[2].clone())), "case {n}")
        } else {
            let conflict = Conflict { name, expected: expect, found: before.clone() };
            assert_eq!((answer, found), (Applied::Conflict(conflict), before), "case {n}");
        }
    }
    Ok(())
}

pub(super) async fn conflict_says_what_was_found((store, repo): Repo) -> StoreResult<()> {
    let commits = line(&*store, &repo, "main", None, &["one", "two"]).await?;
    let stale = advance("main", Some(commits[0].id()), commits[0].id());
    let stale = RefEdit { to: None, ..stale };
    let answer = store.apply(&repo, Batch { refs: vec![stale.clone()], ..batch("move") }).await?;
    let Applied::Conflict(conflict) = answer else { panic!("expected a conflict: {answer:?}") };
    assert_eq!((conflict.name, conflict.expected), (stale.name, stale.expect));
    assert_eq!(conflict.found, Some(RefTarget::Commit(commits[1].id())));
    Ok(())
}
