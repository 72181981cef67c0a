//! The index of tools.

use tract_core::{CommitId, ObjectId, StoreErrorKind, StoreExt, StoreResult, ToolId, ToolSchema};

use crate::fixtures::{batch, done, push, push_with_tools, record, schemas, seal, toolset};
use crate::suite::Repo;

const WEATHER: &str = r#"{"type":"function","function":{"name":"get_weather","description":"Says how the weather is","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}"#;
const WEATHER_TWO: &str = r#"{"type":"function","function":{"name":"get_weather","description":"Says how the weather is","parameters":{"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["C","F"]}},"required":["city"]}}}"#;
const SEARCH: &str =
    r#"{"name":"search","description":"Finds pages","input_schema":{"type":"object"}}"#;

pub(super) async fn test_store_and_get((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[WEATHER]);
    let mut writing = batch("commit");
    let commit = push_with_tools(&mut writing, None, "one", &tools);
    done(store.apply(&repo, writing).await)?;
    let found = store.tools(&repo, &[tools[0].id()]).await?.remove(0).expect("it is stored");
    assert_eq!((found.id, found.name.as_str()), (tools[0].id(), "get_weather"));
    assert_eq!((found.first, Some(found.created_at)), (commit.id(), commit.created_at));
    assert_eq!(found.schemas, [tools[0].blob().id()]);
    assert_eq!(store.require_blob(&repo, found.schemas[0]).await?.text(), Some(WEATHER));
    Ok(())
}

pub(super) async fn test_store_idempotent((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[WEATHER]);
    let mut parent = None;
    for text in ["one", "two", "three"] {
        let mut writing = batch("commit");
        parent = Some(push_with_tools(&mut writing, parent, text, &tools).id());
        done(store.apply(&repo, writing).await)?;
    }
    let found = store.tools_by_name(&repo, "get_weather").await?;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].schemas.len(), 1);
    let line = store.walk_all(&repo, parent.expect("three were stored")).await?;
    assert_eq!(found[0].first, line[2].id(), "the first commit stays the first");
    let stats = store.stats(&repo).await?;
    assert_eq!((stats.tools, stats.toolsets, stats.blobs), (1, 1, 4));
    // A clock that runs backwards does not change the first sighting when the index is rebuilt.
    let (tools, mut writing) = (schemas(&[WEATHER, SEARCH]), batch("commit"));
    let both = toolset(&tools);
    for created_at in [-1, -2] {
        let (mut record, content) = record(parent, "by a slow clock");
        (record.toolset, record.created_at) = (Some(both.id()), Some(created_at));
        let commit = seal(record);
        parent = Some(commit.id());
        writing.commits.push(commit);
        writing.blobs.push(content);
    }
    let first = [line[2].id(), writing.commits[0].id()];
    writing.blobs.extend(tools.iter().map(ToolSchema::blob));
    writing.toolsets.push(both);
    done(store.apply(&repo, writing).await)?;
    store.check(&repo, true).await?;
    let found = store.tools(&repo, &[tools[0].id(), tools[1].id()]).await?;
    // A store whose index is not derived lacks rows for tools that were written without one.
    let mut named = found.iter().flatten().zip(first);
    assert!(named.all(|(tool, first)| tool.first == first), "{found:?}");
    Ok(())
}

pub(super) async fn test_get_by_name((store, repo): Repo) -> StoreResult<()> {
    let mut parent = None;
    for tools in [&[WEATHER_TWO, SEARCH], &[WEATHER, SEARCH]] {
        let mut writing = batch("commit");
        parent = Some(push_with_tools(&mut writing, parent, "text", &schemas(tools)).id());
        done(store.apply(&repo, writing).await)?;
    }
    let ids =
        |texts: &[&str]| -> Vec<ToolId> { schemas(texts).iter().map(ToolSchema::id).collect() };
    let found = store.tools_by_name(&repo, "get_weather").await?;
    let found: Vec<ToolId> = found.iter().map(|tool| tool.id).collect();
    assert_eq!(found, ids(&[WEATHER_TWO, WEATHER]), "in order of first sight");
    let found = store.tools_by_name(&repo, "search").await?;
    assert_eq!(found.iter().map(|tool| tool.id).collect::<Vec<_>>(), ids(&[SEARCH]));
    for absent in ["get_weathe", "get_weather2", "GET_WEATHER", ""] {
        assert_eq!(store.tools_by_name(&repo, absent).await?, [], "{absent:?}");
    }
    Ok(())
}

pub(super) async fn test_get_for_commit((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("commit");
    let both = push_with_tools(&mut writing, None, "one", &schemas(&[SEARCH, WEATHER])).id();
    let one = push_with_tools(&mut writing, Some(both), "two", &schemas(&[WEATHER_TWO])).id();
    done(store.apply(&repo, writing).await)?;
    let texts = async |commit: CommitId| -> StoreResult<Vec<String>> {
        let blobs = store.tools_of(&repo, commit).await?;
        Ok(blobs.iter().filter_map(|blob| blob.text()).map(str::to_owned).collect())
    };
    assert_eq!(texts(both).await?, [SEARCH, WEATHER]);
    assert_eq!(texts(one).await?, [WEATHER_TWO]);
    Ok(())
}

pub(super) async fn test_link_to_commit((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[WEATHER, SEARCH]);
    let mut writing = batch("commit");
    let linked = push_with_tools(&mut writing, None, "one", &tools).id();
    let without = push(&mut writing, Some(linked), "two").id();
    done(store.apply(&repo, writing).await)?;
    let ids: Vec<ToolId> = tools.iter().map(ToolSchema::id).collect();
    assert_eq!(store.tool_ids_of(&repo, linked).await?, ids);
    assert_eq!(store.tool_ids_of(&repo, without).await?, []);
    assert_eq!(store.tools_of(&repo, without).await?, []);
    Ok(())
}

pub(super) async fn tools_answer_each_id_in_order((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[WEATHER, SEARCH]);
    let mut writing = batch("commit");
    push_with_tools(&mut writing, None, "one", &tools);
    done(store.apply(&repo, writing).await)?;
    let ids = [tools[1].id(), ToolId::from_bytes([1; 32]), tools[0].id()];
    let found = store.tools(&repo, &ids).await?;
    let names: Vec<_> =
        found.iter().map(|tool| tool.as_ref().map(|tool| tool.name.as_str())).collect();
    assert_eq!(names, [Some("search"), None, Some("get_weather")]);
    Ok(())
}

pub(super) async fn tool_names_sorted_each_once((store, repo): Repo) -> StoreResult<()> {
    assert_eq!(store.tool_names(&repo).await?, Vec::<String>::new());
    let mut writing = batch("commit");
    let named = |name: &str| format!(r#"{{"name":"{name}","input_schema":{{}}}}"#);
    let more = [named("zebra"), named("a-much-longer-name"), named("b")];
    let mut tools = schemas(&[WEATHER, WEATHER_TWO, SEARCH]);
    tools.extend(schemas(&more.each_ref().map(String::as_str)));
    push_with_tools(&mut writing, None, "one", &tools);
    done(store.apply(&repo, writing).await)?;
    let expected = ["a-much-longer-name", "b", "get_weather", "search", "zebra"];
    assert_eq!(store.tool_names(&repo).await?, expected);
    Ok(())
}

pub(super) async fn tools_of_keeps_order_and_repeats((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[SEARCH, WEATHER, SEARCH]);
    let mut writing = batch("commit");
    let commit = push_with_tools(&mut writing, None, "one", &tools).id();
    done(store.apply(&repo, writing).await)?;
    let found = store.tools_of(&repo, commit).await?;
    assert_eq!(found, tools.iter().map(ToolSchema::blob).collect::<Vec<_>>());
    let ids: Vec<ToolId> = tools.iter().map(ToolSchema::id).collect();
    assert_eq!(store.tool_ids_of(&repo, commit).await?, ids);
    Ok(())
}

pub(super) async fn tools_of_unknown_commit_is_missing((store, repo): Repo) -> StoreResult<()> {
    let absent = CommitId::from_bytes([1; 32]);
    let missing = StoreErrorKind::Missing { object: ObjectId::Commit(absent) };
    let error = store.tools_of(&repo, absent).await.expect_err("it is not stored");
    assert_eq!(error.kind, missing);
    let error = store.tool_ids_of(&repo, absent).await.expect_err("it is not stored");
    assert_eq!(error.kind, missing);
    Ok(())
}

pub(super) async fn key_order_of_tools_per_commit((store, repo): Repo) -> StoreResult<()> {
    let spellings = [
        r#"{"name":"t","input_schema":{"type":"object"}}"#,
        "{\"input_schema\": {\"type\":\"object\"},\n \"name\": \"t\"}",
    ];
    let tools = schemas(&spellings);
    assert_eq!(tools[0].id(), tools[1].id(), "one tool in two spellings");
    let (mut commits, mut parent) = (Vec::new(), None);
    for tool in &tools {
        let mut writing = batch("commit");
        let commit = push_with_tools(&mut writing, parent, "text", std::slice::from_ref(tool)).id();
        done(store.apply(&repo, writing).await)?;
        commits.push(commit);
        parent = Some(commit);
    }
    for (commit, spelling) in commits.iter().zip(spellings) {
        assert_eq!(store.tools_of(&repo, *commit).await?[0].text(), Some(spelling));
    }
    let found = store.tools_by_name(&repo, "t").await?;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].schemas, [tools[0].blob().id(), tools[1].blob().id()]);
    assert_eq!(found[0].first, commits[0]);
    Ok(())
}

pub(super) async fn names_of_any_kind((store, repo): Repo) -> StoreResult<()> {
    let texts = [
        r#"{"type":"web_search_20250305"}"#.to_owned(),
        r#"{"name":"a%b_c","x":1}"#.to_owned(),
        r#"{"name":"a\u0000b","x":1}"#.to_owned(),
        r#"{"name":"a","x":1}"#.to_owned(),
        r#"{"name":"wetter_语","x":1}"#.to_owned(),
        format!(r#"{{"name":"{}","x":1}}"#, "n".repeat(255)),
    ];
    let tools = schemas(&texts.each_ref().map(String::as_str));
    let mut writing = batch("commit");
    push_with_tools(&mut writing, None, "one", &tools);
    done(store.apply(&repo, writing).await)?;
    for tool in &tools {
        let found = store.tools_by_name(&repo, tool.name()).await?;
        let ids: Vec<ToolId> = found.iter().map(|found| found.id).collect();
        assert_eq!(ids, [tool.id()], "{:?}", tool.name());
    }
    assert_eq!(store.tool_names(&repo).await?.len(), tools.len());
    assert_eq!(store.check(&repo, false).await?, []);
    Ok(())
}
