//! The store as a whole.

use tract_core::{
    AuthorKind, Blob, CommitRecord, DerivedKind, Op, RepoName, StoreExt, StoreResult, ToolRow,
    ToolSchema,
};

use crate::fixtures::{
    advance, batch, branch, done, line, push, push_with_tools, row, schemas, seal, storing, toolset,
};
use crate::suite::Repo;
use crate::{Capability, Harness};

const TOOL: &str = r#"{"name":"t","input_schema":{}}"#;

pub(super) async fn repositories_are_apart((store, repo): Repo) -> StoreResult<()> {
    let other = RepoName::new("other").expect("a valid name");
    let tools = schemas(&[TOOL]);
    let mut writing = batch("commit");
    let commit = push_with_tools(&mut writing, None, "one", &tools).id();
    writing.derived.push(row(DerivedKind::Turn, commit, "row"));
    writing.refs.push(advance("main", None, commit));
    let toolset = writing.toolsets[0].id();
    let blob = writing.blobs[0].id();
    done(store.apply(&repo, writing.clone()).await)?;
    for is_empty in [true, false] {
        if !is_empty {
            line(&*store, &other, "mine", None, &["else"]).await?;
        }
        assert_eq!(store.commit(&other, commit).await?, None);
        assert_eq!(store.blob(&other, blob).await?, None);
        assert_eq!(store.toolsets(&other, &[toolset]).await?, [None]);
        assert_eq!(store.tools(&other, &[tools[0].id()]).await?, [None]);
        assert_eq!(store.tools_by_name(&other, "t").await?, []);
        assert_eq!(store.tool_names(&other).await?, Vec::<String>::new());
        assert_eq!(store.refs(&other, &[branch("main")]).await?, [None]);
        assert_eq!(store.derived(&other, DerivedKind::Turn, &[commit]).await?, [None]);
    }
    assert_eq!(store.list_refs(&other, "").await?.len(), 1);
    assert_eq!(store.ref_log(&other, &Default::default()).await?.len(), 1);
    assert_eq!(store.stats(&other).await?.commits, 1);
    // The same batch in another repository is another write, and shares nothing.
    done(store.apply(&other, writing).await)?;
    store.drop_derived(&repo).await?;
    let found = store.derived(&other, DerivedKind::Turn, &[commit]).await?;
    assert_eq!(found, [Some("row".into())]);
    assert_eq!(store.stats(&other).await?.commits, 2);
    for repo in [&repo, &other] {
        assert_eq!(store.check(repo, false).await?, []);
    }
    Ok(())
}

pub(super) async fn repositories_are_listed_sorted(harness: Harness) -> StoreResult<()> {
    let store = harness.open()?;
    assert_eq!(store.repos().await?, []);
    let names = ["zebra", "default", "a name with spaces", "語", "a", "%_"];
    let mut names = names.map(|name| RepoName::new(name).expect("valid names"));
    for name in &names {
        line(&*store, name, "main", None, &["one"]).await?;
    }
    names.sort();
    assert_eq!(store.repos().await?, names);
    Ok(())
}

pub(super) async fn stats_count_what_is_there((store, repo): Repo) -> StoreResult<()> {
    let empty = store.stats(&repo).await?;
    assert_eq!((empty.commits, empty.blobs, empty.refs, empty.log_entries), (0, 0, 0, 0));
    let mut writing = batch("commit");
    let one = push_with_tools(&mut writing, None, "one", &schemas(&[TOOL])).id();
    let two = push(&mut writing, Some(one), "two").id();
    writing.derived.push(row(DerivedKind::Turn, two, "12345"));
    writing.refs = vec![advance("a", None, one), advance("b", None, two)];
    let blob_bytes: usize = writing.blobs.iter().map(|blob| blob.bytes().len()).sum();
    done(store.apply(&repo, writing).await)?;
    let stats = store.stats(&repo).await?;
    assert_eq!((stats.commits, stats.blobs, stats.blob_bytes), (2, 3, blob_bytes as u64));
    assert_eq!((stats.toolsets, stats.tools, stats.refs), (1, 1, 2));
    assert_eq!((stats.log_entries, stats.derived, stats.derived_bytes), (2, 1, 5));
    assert!(stats.commit_bytes > 0);
    Ok(())
}

pub(super) async fn check_finds_nothing_wrong((store, repo): Repo) -> StoreResult<()> {
    assert_eq!(store.check(&repo, false).await?, []);
    let commits = line(&*store, &repo, "main", None, &["one", "two", "three"]).await?;
    line(&*store, &repo, "fork", Some(commits[1].id()), &["four"]).await?;
    let mut writing = batch("commit");
    let tools = schemas(&[TOOL, r#"{"name":"u"}"#]);
    let head = push_with_tools(&mut writing, Some(commits[2].id()), "five", &tools).id();
    writing.refs.push(advance("main", Some(commits[2].id()), head));
    done(store.apply(&repo, writing).await)?;
    assert_eq!(store.check(&repo, false).await?, []);
    assert_eq!(store.check(&repo, true).await?, []);
    assert_eq!(store.check(&repo, false).await?, []);
    assert_eq!(store.walk_all(&repo, head).await?.len(), 4);
    assert_eq!(store.tools_of(&repo, head).await?.len(), 2);
    Ok(())
}

pub(super) async fn real_conversations_come_back(harness: Harness) -> StoreResult<()> {
    let (store, repo) = (harness.open()?, harness.repo());
    let conversations = harness.conversations();
    let mut stored = Vec::new();
    for conversation in &conversations {
        let tools: Vec<ToolSchema> =
            conversation.tools.iter().filter_map(|text| ToolSchema::parse(text).ok()).collect();
        assert_eq!(tools.len(), conversation.tools.len(), "{}", conversation.id);
        let toolset = toolset(&tools);
        let mut writing = batch("import");
        writing.blobs.extend(tools.iter().map(ToolSchema::blob));
        let mut parent = None;
        for message in &conversation.messages {
            let content = Blob::seal(message.clone());
            let mut record = CommitRecord::new(Op::append(), AuthorKind::Import);
            record.parents = parent.into_iter().collect();
            record.content = Some(content.id());
            record.toolset = Some(toolset.id());
            let commit = seal(record);
            parent = Some(commit.id());
            if writing.tools.is_empty() {
                let tool_row =
                    |tool: &ToolSchema| ToolRow::of(tool, tool.blob().id(), commit.id(), 0);
                writing.tools.extend(tools.iter().map(tool_row));
            }
            writing.blobs.push(content);
            writing.commits.push(commit);
        }
        writing.toolsets.push(toolset);
        done(store.apply(&repo, writing).await)?;
        stored.extend(parent.map(|head| (head, conversation)));
    }
    assert!(!stored.is_empty());
    let store = match harness.missing_capabilities().contains(&Capability::Persistent) {
        true => store,
        false => {
            store.close().await?;
            harness.open()?
        }
    };
    for (head, conversation) in &stored {
        let line = store.walk_all(&repo, *head).await?;
        let keys: Vec<_> =
            line.iter().rev().filter_map(|commit| commit.content).map(Into::into).collect();
        let found = store.blobs(&repo, &keys).await?;
        let texts: Vec<&str> = found.iter().flatten().filter_map(Blob::text).collect();
        assert_eq!(texts, conversation.messages, "{}", conversation.id);
        let tools = store.tools_of(&repo, *head).await?;
        let texts: Vec<&str> = tools.iter().filter_map(Blob::text).collect();
        assert_eq!(texts, conversation.tools, "{}", conversation.id);
    }
    assert_eq!(store.check(&repo, false).await?, []);
    Ok(())
}

pub(super) async fn capabilities_are_as_claimed(harness: Harness) -> StoreResult<()> {
    let claims = harness.open()?.capabilities();
    for capability in Capability::ALL {
        let is_lacking = harness.missing_capabilities().contains(&capability);
        let claimed = capability.is_claimed(claims);
        assert_ne!(
            is_lacking, claimed,
            "{capability}: claimed is {claimed}, lacking is {is_lacking}"
        );
    }
    Ok(())
}

pub(super) async fn closed_store_refuses((store, repo): Repo) -> StoreResult<()> {
    line(&*store, &repo, "main", None, &["one"]).await?;
    store.close().await?;
    let writing = storing([Blob::seal("late")]);
    store.apply(&repo, writing).await.expect_err("the store is closed");
    Ok(())
}

pub(super) async fn reopened_store_shows_all(harness: Harness) -> StoreResult<()> {
    let repo = harness.repo();
    let mut head = None;
    for round in 1..=3 {
        let store = harness.open()?;
        let mut writing = batch("commit");
        let tools = schemas(&[TOOL]);
        let commit = push_with_tools(&mut writing, head, &format!("round {round}"), &tools).id();
        writing.refs.push(advance("main", head, commit));
        writing.derived.push(row(DerivedKind::Turn, commit, "row"));
        done(store.apply(&repo, writing).await)?;
        head = Some(commit);
        // Every other time the store is dropped without being closed.
        if round % 2 == 0 {
            store.close().await?;
        }
    }
    let (store, head) = (harness.open()?, head.expect("three were stored"));
    assert_eq!(store.walk_all(&repo, head).await?.len(), 3);
    assert_eq!(store.tools_of(&repo, head).await?.len(), 1);
    assert_eq!(store.ref_log(&repo, &Default::default()).await?.len(), 3);
    let rows = store.derived(&repo, DerivedKind::Turn, &[head]).await?;
    assert_eq!(rows, [Some("row".into())]);
    assert_eq!(store.repos().await?, std::slice::from_ref(&repo));
    assert_eq!(store.check(&repo, false).await?, []);
    Ok(())
}
