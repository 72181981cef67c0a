use tract_core::{
    AuthorKind, Commit, Content, Draft, JsonText, Limits, Op, Part, Priority, RefName, StoreExt,
    ToolSchema, block_on,
};
use tract_engine::ImportAnomalyKind::{NoCall, SecondAnswer, Unanswered};
use tract_engine::ImportStatus::{Created, Diverged, Forwarded, Unchanged};
use tract_engine::{Error, ImportConversation, ImportOptions, Imported, Repo, RepoOptions, import};
use tract_testkit::fixtures::schemas;

use crate::support::{import_all, import_one as one, recorded, refs, repo};

/// The commits of a branch, oldest first.
fn commits(repo: &Repo, imported: &Imported) -> Vec<Commit> {
    let head = imported.head.expect("it has commits");
    let mut commits = block_on(repo.store().walk_all(repo.name(), head)).expect("the store walks");
    commits.reverse();
    commits
}

#[test]
fn import_writes_nothing_that_is_not_in_the_input() {
    let (one_store, other_store, conversations) = (repo(), repo(), recorded());
    let first = import_all(&one_store, &conversations);
    // Another order, another grouping, another name: the same commits.
    let mut reversed: Vec<ImportConversation> = conversations;
    reversed.reverse();
    for conversation in &mut reversed {
        conversation.id.push_str("-again");
    }
    let mut second: Vec<Imported> =
        reversed.into_iter().map(|conversation| one(&other_store, conversation)).collect();
    second.reverse();
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first.head, second.head, "{}", first.id);
        for commit in commits(&one_store, first) {
            assert_eq!((commit.batch, commit.created_at), (None, None));
            assert_eq!(commit.origin, AuthorKind::Import.into());
        }
    }
}

#[test]
fn equal_prefix_equal_commits() {
    let repo = repo();
    let drafts = |last: &str| {
        vec![Draft::system("Be brief."), Draft::user("Hello."), Draft::assistant(last)]
    };
    let left = one(&repo, ImportConversation::new("left", drafts("Hi.")));
    let right = one(&repo, ImportConversation::new("right", drafts("Good day.")));
    assert_eq!((left.commits, left.reused, right.commits, right.reused), (3, 0, 3, 2));
    let (left, right) = (commits(&repo, &left), commits(&repo, &right));
    assert_eq!(left[..2], right[..2]);
    assert_ne!(left[2], right[2]);
}

/// A request of the Responses API may end among the items of an answer, which are one message.
#[test]
fn a_conversation_that_ends_within_an_answer_is_continued_by_the_whole_one() {
    let repo = repo();
    let answer = |count: usize| {
        let calls = (0..count).map(|n| Part::call(format!("c{n}"), "look", "{}"));
        calls.fold(Draft::assistant("I look."), Draft::part)
    };
    let conversation = |answer: Draft, more: &[Draft]| {
        let mut drafts = vec![Draft::user("Hello."), answer];
        drafts.extend_from_slice(more);
        ImportConversation::new("chat", drafts)
    };
    let results = [Draft::tool_result("c0", "x"), Draft::tool_result("c1", "y")];
    let begin = one(&repo, conversation(answer(1), &[]));
    assert_eq!(begin.status, Created);
    let whole = one(&repo, conversation(answer(2), &results));
    assert_eq!((whole.status, whole.commits, whole.reused), (Forwarded, 4, 1));
    let after = refs(&repo);
    assert_eq!(one(&repo, conversation(answer(2), &results)).status, Unchanged);
    assert_eq!(one(&repo, conversation(answer(1), &[])).status, Unchanged);
    assert_eq!(refs(&repo), after);
    // Another answer is another history.
    let other = conversation(Draft::assistant("No."), &[]);
    assert_eq!(one(&repo, other).status, Diverged);
    assert_eq!(refs(&repo), after);
}

#[test]
fn tools_come_first_and_stay_in_force() {
    let repo = repo();
    let tools = schemas(&[r#"{"name":"b"}"#, r#"{"name":"a"}"#, r#"{"name":"b"}"#]);
    let drafts = vec![
        Draft::user("one"),
        Draft::assistant("two").tools(schemas(&[r#"{"name":"c"}"#])).unwrap(),
        Draft::user("three"),
    ];
    let imported = one(
        &repo,
        ImportConversation { tools: tools.clone(), ..ImportConversation::new("x", drafts) },
    );
    let commits = commits(&repo, &imported);
    assert_eq!(commits.len(), 4);
    assert_eq!(commits[0].op, Op::Tools);
    assert!(commits[0].parents.is_empty());
    let set = commits[0].toolset;
    assert_eq!([commits[1].toolset, commits[3].toolset], [set, set]);
    assert_ne!(commits[2].toolset, set);
    assert_eq!(commits.iter().map(|c| c.active).collect::<Vec<_>>(), [None, None, set, None]);
    // Order and repeats are kept, and the bytes are those given.
    let given = block_on(repo.store().tools_of(repo.name(), commits[3].id())).expect("tools");
    let texts: Vec<&str> = given.iter().filter_map(|blob| blob.text()).collect();
    assert_eq!(texts, tools.iter().map(ToolSchema::text).collect::<Vec<_>>());
    let names = block_on(repo.store().tool_names(repo.name())).expect("names");
    assert_eq!(names, ["a", "b", "c"]);
    let a = block_on(repo.store().tools_by_name(repo.name(), "a")).expect("a tool");
    assert_eq!(a[0].first, commits[0].id());
}

#[test]
fn results_are_bound_to_the_nearest_open_call() {
    let repo = repo();
    let call = || Draft::assistant("").call("c", "grep", "{}");
    let drafts = vec![
        Draft::tool_result("c", "before any call"),
        call(),
        Draft::tool_result("c", "first"),
        Draft::tool_result("c", "second answer"),
        call(),
        Draft::assistant("").call("d", "x", "{}").call("c", "y", "{}"),
        Draft::tool_result("c", "of the later message"),
        Draft::tool_result("c", "of the earlier one"),
        Draft::tool_result("elsewhere", "orphan"),
    ];
    let imported = one(&repo, ImportConversation::new("x", drafts));
    let commits = commits(&repo, &imported);
    let bound: Vec<Option<(usize, u32)>> = commits
        .iter()
        .filter(|commit| commit.kind == Some(tract_core::Kind::ToolResult))
        .map(|commit| match &commit.op {
            Op::Append { answers: Some(call), .. } => {
                let place = commits.iter().position(|c| c.id() == call.slot);
                Some((place.expect("an earlier commit"), call.index))
            }
            _ => None,
        })
        .collect();
    assert_eq!(bound, [None, Some((1, 0)), None, Some((5, 1)), Some((4, 0)), None]);
    let anomalies: Vec<_> = imported.anomalies.iter().map(|a| (a.draft, a.kind)).collect();
    assert_eq!(anomalies, [(0, NoCall), (3, SecondAnswer), (5, Unanswered), (8, NoCall)]);
    assert_eq!(imported.anomalies[0].to_string(), "message 1 answers no call (\"c\")");
}

#[test]
fn fields_of_a_draft_are_in_the_record() {
    let repo = repo();
    let verbatim = tract_core::Blob::seal("{ \"role\": \"user\" }");
    let mut draft = Draft::user("hello").at(-5).priority(Priority::Important).message("greeting");
    draft.verbatim = Some(verbatim.clone());
    draft.form = Some("openai-chat-1".to_owned());
    draft.generation_config = Some(JsonText::new(r#"{"model":"m"}"#).expect("JSON"));
    let mut next = Draft::user("and more");
    next.joins_previous = true;
    let imported = one(&repo, ImportConversation::new("x", vec![draft, next]));
    let commits = commits(&repo, &imported);
    let [first, second] = commits.as_slice() else { panic!("two commits") };
    assert_eq!(first.created_at, Some(-5));
    assert_eq!(first.verbatim, Some(verbatim.id()));
    assert_eq!(first.form.as_deref(), Some("openai-chat-1"));
    assert_eq!(first.message.as_deref(), Some("greeting"));
    assert!(matches!(first.op, Op::Append { priority: Some(Priority::Important), .. }));
    assert_eq!(first.joins, None);
    assert_eq!(second.joins, Some(first.id()));
    assert_eq!(second.created_at, None);
    let stored = block_on(repo.require_blob(verbatim.id())).expect("it is stored");
    assert_eq!(stored, verbatim);
}

#[test]
fn branches_are_created_forwarded_or_left_alone() {
    let repo = repo();
    let says = |texts: &[&str]| {
        let drafts = texts.iter().map(|text| Draft::user(*text)).collect();
        ImportConversation::new("tau/airline #2", drafts)
    };
    let status = |imported: Imported| (imported.status, imported.commits, imported.reused);
    let created = one(&repo, says(&["a", "b"]));
    assert_eq!(created.branch, "tau-airline-2-f7b67c32");
    assert_eq!(status(created), (Created, 2, 0));
    let longer = one(&repo, says(&["a", "b", "c"]));
    let head = longer.head;
    assert_eq!(status(longer), (Forwarded, 3, 2));
    assert_eq!(status(one(&repo, says(&["a", "x"]))), (Diverged, 2, 1));
    assert_eq!(status(one(&repo, says(&["a", "b"]))), (Diverged, 2, 2));
    let branch = RefName::branch("tau-airline-2-f7b67c32").expect("a name");
    assert_eq!(block_on(repo.head_of(&branch)).expect("it reads"), head);
}

#[test]
fn conversation_metadata_is_a_document() {
    let repo = repo();
    let meta = JsonText::new(r#"{"file":"a.jsonl","line":3}"#).expect("JSON");
    let mut conversation = ImportConversation {
        meta: Some(meta),
        ..ImportConversation::new("a b", vec![Draft::user("x")])
    };
    let imported = one(&repo, conversation.clone());
    let name = RefName::new(format!("imports/{}", imported.branch)).expect("a name");
    let document = || {
        let target = block_on(repo.ref_target(&name)).expect("it reads").expect("a document");
        let blob = block_on(repo.require_blob(target.blob().expect("a blob"))).expect("stored");
        blob.text().expect("text").to_owned()
    };
    let head = imported.head.expect("a head");
    assert_eq!(
        document(),
        format!(r#"{{"head":"{head}","id":"a b","meta":{{"file":"a.jsonl","line":3}}}}"#)
    );
    // The same conversation from elsewhere: the document moves, the history does not.
    conversation.meta = None;
    assert_eq!(one(&repo, conversation).status, Unchanged);
    assert_eq!(document(), format!(r#"{{"head":"{head}","id":"a b"}}"#));
}

#[test]
fn a_refused_conversation_leaves_its_neighbors() {
    let store = std::sync::Arc::new(tract_kv::memory());
    let limits = Limits { blob_bytes: 100, toolset_tools: 2, ..Limits::default() };
    let repo = Repo::new(store, RepoOptions { limits, ..RepoOptions::default() });
    block_on(async {
        let mut importer =
            tract_engine::Importer::new(&repo, ImportOptions::default()).expect("randomness");
        let long = ImportConversation::new("long", vec![Draft::user("x".repeat(101))]);
        let tools = schemas(&[r#"{"name":"t0"}"#, r#"{"name":"t1"}"#, r#"{"name":"t2"}"#]);
        let many =
            ImportConversation { tools, ..ImportConversation::new("many", vec![Draft::user("x")]) };
        let fits = ImportConversation::new("fits", vec![Draft::user("x")]);
        assert!(matches!(importer.add(long).await, Err(Error::TooLarge(_))));
        assert!(importer.add(fits).await.expect("it is taken").is_empty());
        assert!(matches!(importer.add(many).await, Err(Error::TooLarge(_))));
        let done = importer.finish().await.expect("it is written");
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].branch, "fits");
    });
    assert_eq!(refs(&repo).len(), 2);
}

#[test]
fn two_of_one_name_follow_each_other() {
    let repo = repo();
    let conversations = [
        ImportConversation::new("x", vec![Draft::user("a")]),
        ImportConversation::new("x", vec![Draft::user("a"), Draft::user("b")]),
        ImportConversation::new("x", vec![Draft::user("c")]),
        ImportConversation::new("nothing", Vec::new()),
    ];
    let statuses: Vec<_> = import_all(&repo, &conversations).iter().map(|one| one.status).collect();
    assert_eq!(statuses, [Created, Forwarded, Diverged, Unchanged]);
}

#[test]
fn content_that_has_no_canonical_form_is_refused() {
    let repo = repo();
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let deep = JsonText::new(&deep).expect("within the depth");
    // The document nests it twice more.
    let meta = JsonText::new(&format!(r#"{{"x":{deep}}}"#)).expect("at the limit");
    let conversation = ImportConversation {
        meta: Some(meta),
        ..ImportConversation::new("x", vec![Draft::new(Content::user("x"))])
    };
    let error = block_on(import(&repo, conversation, &ImportOptions::default())).unwrap_err();
    assert!(matches!(error, Error::Json(_)), "{error}");
    assert!(refs(&repo).is_empty());
}
