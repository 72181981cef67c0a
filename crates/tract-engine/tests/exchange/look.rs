use tract_core::{Commit, CommitId, Draft, ToolSchema, block_on};
use tract_engine::{
    ApplyOptions, Repo, ToolChange, describe, graph, log, log_all, no_schema_diff, stats,
};

use crate::support::{self, done, import_all, recorded, repo, with_everything};

fn head(repo: &Repo, branch: &str) -> CommitId {
    block_on(repo.head_of(&support::branch(branch))).expect("it reads").expect("a head")
}

/// The rows of a graph, with the places of commits instead of their short ids.
fn drawn(repo: &Repo, commits: &[Commit]) -> Vec<String> {
    let shape: Vec<_> = commits.iter().map(|c| (c.id(), c.parents.clone())).collect();
    let lines = block_on(describe(repo, commits)).expect("it reads");
    let row = |row: &graph::GraphRow| {
        let Some(place) = row.commit else { return row.text() };
        let text = format!("{:5} {} {}", row.text(), lines[place].label, lines[place].text);
        let ids = commits.iter().map(|commit| commit.id().short()).enumerate();
        ids.fold(text, |text, (n, id)| text.replace(&id, &format!("<{n}>")))
    };
    graph::layout(&shape).iter().map(row).collect()
}

#[test]
fn a_graph_shows_lines_forks_and_merges() {
    let repo = with_everything();
    let heads = [head(&repo, "main"), head(&repo, "other")];
    let commits = block_on(log_all(&repo, &heads, 100)).expect("it reads");
    assert_eq!(
        drawn(&repo, &commits),
        [
            "*     merge of <6>",
            "|\\",
            "* |   revert of <2>",
            "* |   compress replaced 5 messages (<5>…<12>): The bug is in lib.rs.",
            "* |   user polite",
            "* |   annotate <14> important: it names the file",
            "* |   edit of <16>: Where are the bugs?",
            "| *   user And the docs?",
            "| | * revert of <8>",
            "| | * plan 1. fix",
            "| | * note a line in the log",
            "| | * tools none from here on",
            "| | * edit of <14>: src/lib.rs:7: bug",
            "|/  |",
            "|  /",
            "|/",
            "*     assistant In lib.rs.",
            "*     reasoning It lies in lib.rs.",
            "*     result grep → error: src/lib.rs: bug",
            "*     assistant Let me look. grep(pattern=\"bug\")",
            "*     user Where is the bug?",
            "*     system Be brief.",
            "*     tools added grep, ls",
        ]
    );
}

#[test]
fn a_log_comes_in_pages_and_all_lines_together() {
    let repo = repo();
    let imported = import_all(&repo, &recorded());
    let one = imported.iter().max_by_key(|one| one.commits).expect("a conversation");
    let (mut next, mut ids) = (one.head, Vec::new());
    while let Some(head) = next {
        let page = block_on(log(&repo, head, 7)).expect("it reads");
        assert!(page.commits.len() <= 7);
        ids.extend(page.commits.iter().map(Commit::id));
        next = page.next;
    }
    assert_eq!(ids.len(), one.commits);
    let whole = block_on(log(&repo, ids[0], usize::MAX)).expect("it reads");
    assert_eq!(whole.commits.iter().map(Commit::id).collect::<Vec<_>>(), ids);
    assert_eq!(whole.next, None);

    let heads: Vec<CommitId> = imported.iter().filter_map(|one| one.head).collect();
    let all = block_on(log_all(&repo, &heads, usize::MAX)).expect("it reads");
    let stored = block_on(repo.store().stats(repo.name())).expect("stats").commits;
    assert_eq!(all.len() as u64, stored);
    let place = |id: CommitId| all.iter().position(|commit| commit.id() == id);
    for (n, commit) in all.iter().enumerate() {
        let parents = commit.parents.iter();
        assert!(parents.into_iter().all(|parent| place(*parent) > Some(n)));
    }
    let some = block_on(log_all(&repo, &heads, 50)).expect("it reads");
    assert_eq!(some, all[..50]);
}

#[test]
fn tools_are_listed_by_revision_name_and_difference() {
    let repo = repo();
    let main = support::branch("main");
    let texts = [r#"{"name":"a"}"#, r#"{"x":1,"name":"a"}"#, r#"{"name":"b"}"#];
    let [a1, a2, b] = texts.map(|text| ToolSchema::parse(text).expect("a schema"));
    let write = |tools: &[&ToolSchema]| {
        let tools: Vec<ToolSchema> = tools.iter().map(|tool| (*tool).clone()).collect();
        // As an import does, which keeps two tools of one name.
        block_on(repo.write_one(&main, tract_engine::plan::Request::tools(tools)))
            .expect("it is written")
            .id()
    };
    let first = write(&[&b, &a1, &b]);
    block_on(repo.append(&main, Draft::user("x"))).expect("it is written");
    let second = write(&[&a2]);
    let cleared = write(&[]);
    block_on(async {
        let names = |tools: Vec<tract_core::ActiveTool>| {
            tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert_eq!(names(repo.tools_of(first).await.expect("tools")), ["b", "a", "b"]);
        let tools = repo.get_commit_tools(second).await.expect("tools");
        assert_eq!(&*tools[0].schema, a2.text());
        assert!(repo.tools_of(cleared).await.expect("tools").is_empty());
        assert_eq!(repo.tool_ids_of(second).await.expect("ids"), [a2.id()]);
        let history = repo.tool_history("a").await.expect("a history");
        let mut ids: Vec<_> = history.iter().map(|tool| tool.id).collect();
        // One clock tick: the commits' ids decide.
        ids.sort_unstable();
        let mut expected = [a1.id(), a2.id()];
        expected.sort_unstable();
        assert_eq!(ids, expected);
        let diff = repo.tools_between(first, second, &no_schema_diff).await.expect("a diff");
        assert_eq!(diff.changes.len(), 3);
        assert!(matches!(&diff.changes[2], ToolChange::Changed { name, .. } if name == "a"));
        let page = log(&repo, cleared, 4).await.expect("a log");
        let lines = describe(&repo, &page.commits).await.expect("lines");
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["none from here on", "changed a; removed b, b", "x", "added b, a, b"]);
    });
}

#[test]
fn time_travel_gives_the_state_of_that_time() {
    let repo = repo();
    let lines = concat!(
        "{\"op\":\"set_tools\",\"tools\":[{\"name\":\"a\"}],\"at\":\"2026-01-01T00:00:00Z\"}\n",
        "{\"op\":\"user\",\"text\":\"one\",\"mark\":\"m\",\"at\":\"2026-01-01T00:00:01Z\"}\n",
        "{\"op\":\"user\",\"text\":\"two\",\"at\":\"2026-01-01T00:00:02Z\"}\n",
        "{\"op\":\"annotate\",\"target\":\":m\",\"priority\":\"skip\",\"at\":\"2026-01-01T00:00:03Z\"}\n",
        "{\"op\":\"set_tools\",\"tools\":[],\"at\":\"2026-01-01T00:00:04Z\"}\n",
    );
    done(&repo, lines, &ApplyOptions::default());
    let head = head(&repo, "main");
    let at = |second: &str| {
        let text = format!("2026-01-01T00:00:{second}Z");
        let at_us = tract_core::time::parse_rfc3339(&text).expect("a time");
        let compiled = block_on(repo.compile_at_time(head, at_us)).expect("it compiles");
        let texts: Vec<String> = compiled.messages().map(|m| m.content.text()).collect();
        (texts.join(" "), compiled.tools().len())
    };
    assert_eq!(at("00"), (String::new(), 1));
    assert_eq!(at("01.5"), ("one".to_owned(), 1));
    assert_eq!(at("02"), ("one two".to_owned(), 1));
    assert_eq!(at("03"), ("two".to_owned(), 1));
    assert_eq!(at("59"), ("two".to_owned(), 0));
    let before = block_on(repo.head_at_time(head, 0)).expect("it reads");
    assert_eq!(before, None);
}

#[test]
fn stats_count_refs_by_sort() {
    let repo = with_everything();
    let stats = block_on(stats(&repo)).expect("it counts");
    assert_eq!((stats.branches, stats.tags, stats.documents), (3, 1, 0));
    assert_eq!(stats.store.commits, 19);
}
