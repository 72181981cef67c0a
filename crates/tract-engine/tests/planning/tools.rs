use tract_core::store::ToolRepository as _;
use tract_core::{CommitId, Draft, Limits, Op, block_on};
use tract_engine::plan::Request;
use tract_engine::{Error, RepoOptions};

use crate::fixture::{Fixture, merge, tool};

fn tools_of(desk: &Fixture, commit: CommitId) -> Vec<String> {
    let blobs = block_on(desk.repo.store().tools_of(desk.repo.name(), commit)).unwrap();
    blobs.iter().map(|blob| blob.text().unwrap().to_owned()).collect()
}

fn toolset(desk: &Fixture, commit: CommitId) -> Option<tract_core::ToolsetId> {
    desk.commit(commit).toolset
}

#[test]
fn test_commit_with_tools() {
    let desk = Fixture::new();
    let (one, two) = (tool("one", "first"), tool("two", "second"));
    let commit =
        desk.go(Draft::user("hi").tools(vec![two.clone(), one.clone(), two.clone()]).unwrap());
    assert_eq!(tools_of(&desk, commit), [two.text(), one.text(), two.text()]);
}

#[test]
fn test_commit_without_tools() {
    let desk = Fixture::new();
    let commit = desk.user("hi");
    assert_eq!(toolset(&desk, commit), None);
    assert_eq!(tools_of(&desk, commit), [""; 0]);
}

#[test]
fn test_tool_deduplication() {
    let desk = Fixture::new();
    let schema = tool("one", "first");
    let a = desk.go(Draft::user("a").tools(vec![schema.clone()]).unwrap());
    let blobs = block_on(desk.repo.store().stats(desk.repo.name())).unwrap();
    let b = desk.go(Draft::user("b").tools(vec![schema.clone()]).unwrap());
    let stats = block_on(desk.repo.store().stats(desk.repo.name())).unwrap();
    assert_eq!(toolset(&desk, a), toolset(&desk, b));
    assert_eq!((stats.tools, stats.toolsets), (1, 1));
    assert_eq!(stats.blobs, blobs.blobs + 1, "the message and nothing else");
}

#[test]
fn test_tool_versioning() {
    let desk = Fixture::new();
    let (old, new) = (tool("grep", "finds"), tool("grep", "finds lines"));
    assert_ne!(old.id(), new.id());
    desk.go(Request::tools([old.clone()]));
    desk.clock.advance(std::time::Duration::from_secs(1));
    desk.go(Request::tools([new.clone()]));
    let store = desk.repo.store();
    let versions = block_on(store.tools_by_name(desk.repo.name(), "grep")).unwrap();
    let ids: Vec<_> = versions.iter().map(|version| version.id).collect();
    assert_eq!(ids, [old.id(), new.id()], "in order of first sight");
}

#[test]
fn test_compile_returns_tools() {
    let desk = Fixture::new();
    desk.go(Draft::user("a").tools(vec![tool("one", "first"), tool("two", "second")]).unwrap());
    assert_eq!(desk.tool_names(), ["one", "two"]);
    assert_eq!(desk.shown(), ["user: a"], "tools are never messages");
}

#[test]
fn test_compile_no_tools() {
    let desk = Fixture::new();
    desk.user("a");
    assert_eq!(desk.tool_names(), [""; 0]);
}

#[test]
fn test_compile_latest_tools_win() {
    let desk = Fixture::new();
    desk.go(Draft::user("a").tools(vec![tool("one", "first")]).unwrap());
    desk.go(Draft::user("b").tools(vec![tool("two", "second")]).unwrap());
    assert_eq!(desk.tool_names(), ["two"]);
    // Nothing was ever set to stay, so what is in force stays.
    desk.user("c");
    assert_eq!(desk.tool_names(), ["two"]);
}

#[test]
fn test_set_tools_auto_links() {
    let desk = Fixture::new();
    let set = desk.go(Request::tools([tool("one", "first")]));
    assert_eq!(desk.commit(set).op, Op::Tools);
    let a = desk.user("a");
    let once = desk.go(Draft::user("b").tools(vec![tool("two", "second")]).unwrap());
    let c = desk.user("c");
    assert_eq!(toolset(&desk, a), toolset(&desk, set));
    assert_ne!(toolset(&desk, once), toolset(&desk, set), "tools of one commit alone");
    assert_eq!(toolset(&desk, c), toolset(&desk, set), "and then back");
    // Every verb carries them on, from any handle.
    let cold = desk.cold();
    let edit = cold.edit(a, "A");
    assert_eq!(toolset(&desk, edit), toolset(&desk, set));
}

#[test]
fn test_set_tools_clear() {
    let desk = Fixture::new();
    desk.go(Request::tools([tool("one", "first")]));
    let clear = desk.go(Request::tools([]));
    let after = desk.user("a");
    assert_eq!(desk.tool_names(), [""; 0]);
    assert!(toolset(&desk, clear).is_some(), "the empty list is a set: no tools now");
    assert_eq!(toolset(&desk, after), toolset(&desk, clear));
}

#[test]
fn test_get_commit_tools() {
    let desk = Fixture::new();
    let (one, two) = (tool("one", "first"), tool("two", "second"));
    let a = desk.go(Request::tools([one.clone()]));
    let b = desk.go(Request::tools([two.clone()]));
    assert_eq!(tools_of(&desk, a), [one.text()]);
    assert_eq!(tools_of(&desk, b), [two.text()]);
    let ids = block_on(desk.repo.store().tool_ids_of(desk.repo.name(), a)).unwrap();
    assert_eq!(ids, [one.id()]);
    assert_eq!((own(&desk, a), own(&desk, b)), (vec!["one".to_owned()], vec!["two".to_owned()]));
}

/// The tools that a commit reports as its own, read by a handle that knows nothing yet.
fn own(desk: &Fixture, commit: CommitId) -> Vec<String> {
    let tools = block_on(desk.cold().repo.get_commit_tools(commit)).unwrap();
    tools.into_iter().map(|tool| tool.name).collect()
}

#[test]
fn a_commit_after_one_with_tools_of_its_own_reports_none_where_none_were_set() {
    let desk = Fixture::new();
    let before = desk.user("before");
    let given = desk.go(Draft::user("given").tools(vec![tool("one", "first")]).unwrap());
    let after = desk.user("after");
    let edit = desk.edit(after, "AFTER");
    assert_eq!(own(&desk, before), [""; 0]);
    assert_eq!(own(&desk, given), ["one"]);
    assert_eq!(own(&desk, after), [""; 0]);
    assert_eq!(own(&desk, edit), [""; 0]);
    // What is compiled is another question: the last commit's tools are in force.
    assert_eq!(desk.tool_names(), ["one"]);
    assert_eq!(tools_of(&desk, after), tools_of(&desk, given));
    let root = desk.on("root");
    let root = root.go(Draft::user("root").tools(vec![tool("one", "first")]).unwrap());
    assert_eq!(own(&desk, root), ["one"], "the first commit of a history");
}

#[test]
fn commits_after_set_tools_report_the_set_as_their_own() {
    let desk = Fixture::new();
    let set = desk.go(Request::tools([tool("one", "first")]));
    let after = desk.user("after");
    let given = desk.go(Draft::user("given").tools(vec![tool("two", "second")]).unwrap());
    let back = desk.user("back");
    assert_eq!(own(&desk, set), ["one"]);
    assert_eq!(own(&desk, after), ["one"]);
    assert_eq!(own(&desk, given), ["two"]);
    assert_eq!(own(&desk, back), ["one"]);
    let clear = desk.go(Request::tools([]));
    assert_eq!(own(&desk, clear), [""; 0]);
    assert_eq!(own(&desk, desk.user("without")), [""; 0]);
}

#[test]
fn a_revert_and_a_merge_report_only_tools_that_were_set() {
    let desk = Fixture::new();
    desk.user("first");
    desk.go(Draft::user("one").tools(vec![tool("one", "first")]).unwrap());
    let given = desk.go(Draft::user("two").tools(vec![tool("two", "second")]).unwrap());
    let revert = desk.go(Request::revert([given]));
    assert_eq!(desk.tool_names(), ["one"], "they are in force again");
    assert_eq!(own(&desk, revert), [""; 0], "and were not given to the revert");

    let root = desk.head().unwrap();
    let side = desk.fork("side", root);
    side.go(Draft::user("theirs").tools(vec![tool("three", "third")]).unwrap());
    desk.user("ours");
    let merge = merge(&desk, &side).id();
    assert_eq!(desk.tool_names(), ["three"]);
    assert_eq!(own(&desk, desk.user("after")), ["three"], "a merge sets what it brings in");
    assert_eq!(own(&desk, merge), ["three"]);
}

#[test]
fn giving_the_set_in_force_again_looks_like_giving_none() {
    let desk = Fixture::new();
    desk.go(Draft::user("given").tools(vec![tool("one", "first")]).unwrap());
    let again = desk.go(Draft::user("again").tools(vec![tool("one", "first")]).unwrap());
    assert_eq!(own(&desk, again), [""; 0]);
    assert_eq!(
        tools_of(&desk, again),
        [tool("one", "first").text()],
        "it is in force all the same"
    );
    let respelled = tract_core::ToolSchema::parse(r#"{ "name" : "one" }"#).unwrap();
    let other_bytes = desk.go(Draft::user("other bytes").tools(vec![respelled]).unwrap());
    assert_eq!(own(&desk, other_bytes), ["one"]);
}

#[test]
fn the_bytes_of_a_tool_are_those_given_to_that_commit() {
    let desk = Fixture::new();
    let one = tract_core::ToolSchema::parse(r#"{"name":"x","description":"d"}"#).unwrap();
    let other = tract_core::ToolSchema::parse(r#"{ "description":"d", "name":"x" }"#).unwrap();
    assert_eq!(one.id(), other.id());
    let a = desk.go(Request::tools([one.clone()]));
    let b = desk.go(Request::tools([other.clone()]));
    assert_eq!(tools_of(&desk, a), [one.text()]);
    assert_eq!(tools_of(&desk, b), [other.text()]);
    assert_eq!(block_on(desk.repo.store().stats(desk.repo.name())).unwrap().tools, 1);
}

#[test]
fn twenty_linked_tools_cost_under_a_hundred_bytes() {
    let tools: Vec<_> = (0..20).map(|n| tool(&format!("t{n}"), "does much")).collect();
    let bytes_each = |draft: &dyn Fn(String) -> Draft| {
        let desk = Fixture::new();
        let stats = || block_on(desk.repo.store().stats(desk.repo.name())).unwrap();
        desk.go(draft("message 000".to_owned()));
        let before = stats();
        for n in 1..=50 {
            desk.go(draft(format!("message {n:03}")));
        }
        let after = stats();
        assert_eq!((after.tools, after.toolsets), (before.tools, before.toolsets));
        (after.blob_bytes + after.commit_bytes - before.blob_bytes - before.commit_bytes) / 50
    };
    let with = bytes_each(&|text| Draft::user(text).tools(tools.clone()).unwrap());
    let without = bytes_each(&|text| Draft::user(text));
    assert!(with < without + 100, "{with} bytes against {without} without tools");
}

#[test]
fn a_set_with_too_large_a_tool_is_refused() {
    let limits =
        Limits { blob_bytes: 2_000, schema_bytes: 200, toolset_tools: 3, tool_name_chars: 10 };
    let desk = Fixture::with(RepoOptions { limits, ..RepoOptions::default() });
    let refused = |request: Request, what: &str| {
        let error = desk.try_do(request).unwrap_err();
        let Error::TooLarge(large) = &error else { panic!("{error}") };
        assert!(large.what.starts_with(what) && large.found > large.limit, "{error}");
        assert_eq!((error.code(), desk.head()), ("too_large", None));
    };
    refused(Draft::user("x".repeat(3_000)).into(), "blob");
    refused(Request::tools([tool("long", &"x".repeat(300))]), "tool schema");
    refused(Request::tools(vec![tool("x", "y"); 4]), "tool set");
    refused(Request::tools([tool("a_very_long_name", "y")]), "tool name");
    desk.go(Draft::user("x".repeat(1_900)));
}
