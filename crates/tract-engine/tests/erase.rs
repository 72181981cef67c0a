//! Erasures: what is shown changes, what is stored goes, and others write meanwhile.

mod support;

use std::sync::Arc;

use tract_core::{Blob, Draft, Kind, RefName, Store, TokenCounter, ToolSchema, block_on};
use tract_engine::secrets::Scanner;
use tract_engine::{
    EraseRequest, EraseTarget, Error, GcOptions, GrepOptions, GrepPattern, Repo, RepoOptions,
    SearchOptions, ToolQuery, ToolTurn, describe, erase, erasures, gc, grep, log, search,
};
use tract_testkit::Call;

use self::support::{assert_clean, meanwhile, on_each_store};

const LEAK: &str = "the door code of the vault is 4711-0815-2342-xyzzy";

fn repo(store: &Arc<dyn Store>) -> Repo {
    Repo::new(Arc::clone(store), RepoOptions::new().who("tester"))
}

fn main_branch() -> RefName {
    RefName::branch("main").expect("a valid name")
}

async fn shown(repo: &Repo) -> String {
    let head = repo.head_of(&main_branch()).await.expect("it is read");
    let compiled = repo.compile(head).await.expect("it compiles");
    compiled.messages().map(|message| message.content.to_blob().expect("canonical")).collect()
}

async fn turns(repo: &Repo) -> Vec<ToolTurn> {
    let head = repo.head_of(&main_branch()).await.expect("it is read");
    repo.find_tool_turns(head, &ToolQuery::new()).await.expect("they are found").collect()
}

/// Counts bytes.
struct Bytes;

impl TokenCounter for Bytes {
    fn name(&self) -> &str {
        "bytes"
    }

    fn count(&self, text: &str) -> u64 {
        text.len() as u64
    }
}

#[test]
fn arguments_of_answered_calls_and_their_results_are_redacted() {
    on_each_store(async |store| {
        let (repo, main) = (repo(&store), main_branch());
        let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
        let arguments = format!(r#"{{"cmd":"curl -H 'Authorization: token {key}'","n":1}}"#);
        let call = Draft::assistant("").call("c1", "shell", arguments);
        let call = repo.append(&main, call).await.expect("it is written");
        let result = Draft::tool_result("c1", format!("token {key} is valid"));
        repo.append(&main, result).await.expect("it is written");
        let report = erase(&repo, &EraseRequest::secrets(Scanner::builtin().clone())).await;
        let report = report.expect("it is erased");
        assert_eq!((report.blobs.len(), report.edits), (2, 2));
        let shown = shown(&repo).await;
        assert!(!shown.contains(&key), "{shown}");
        assert_eq!(shown.matches("[redacted:github-token:").count(), 2, "{shown}");
        assert!(shown.contains(r#"\"n\":1"#), "the rest of the arguments stays: {shown}");
        let older = repo.compile(Some(call.id())).await.expect_err("the bytes are gone");
        assert!(matches!(&older, Error::Erased(erasure) if erasure.who == "tester"), "{older}");
        assert_eq!(older.code(), "erased");
        assert_clean(&repo).await;
    });
}

#[test]
fn a_long_branch_is_read_and_searched_without_what_was_erased() {
    on_each_store(async |store| {
        let options = || RepoOptions::new().who("tester").turn_rows_every(4);
        let (repo, main) = (Repo::new(Arc::clone(&store), options()), main_branch());
        let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
        let schema = format!(r#"{{"name":"door","description":"{key}"}}"#);
        let schema = ToolSchema::parse(&schema).expect("a definition");
        repo.set_tools(&main, vec![schema]).await.expect("it is written");
        for n in 0..4 {
            let call = format!(r#"{{"code":"{key}","n":{n}}}"#);
            let call = Draft::assistant("").call(format!("c{n}"), "door", call);
            repo.append(&main, call).await.expect("it is written");
            let result = Draft::tool_result(format!("c{n}"), format!("{key} opens {n}"));
            repo.append(&main, result).await.expect("it is written");
            for i in 0..3 {
                let text = format!("walk {i} through door {n}");
                repo.append(&main, Draft::user(text)).await.expect("it is written");
            }
        }
        let before = turns(&repo).await;
        assert_eq!(before.len(), 4);
        let report = erase(&repo, &EraseRequest::secrets(Scanner::builtin().clone())).await;
        let report = report.expect("it is erased");
        assert_eq!(report.blobs.len(), 9, "{:?}", report.places);
        assert!(report.wiped.is_ok(), "{:?}", report.wiped);

        // The turns are those that the edits show.
        let after = turns(&repo).await;
        let names = |turns: &[ToolTurn]| -> Vec<Vec<String>> {
            turns.iter().map(|turn| turn.tool_names.clone()).collect()
        };
        assert_eq!(names(&after), names(&before));
        assert!(after.iter().all(|turn| turn.results.len() == 1), "{after:?}");
        // As another counter reads the rows.
        let recounting = Repo::new(Arc::clone(&store), options().counter(Arc::new(Bytes)));
        assert_eq!(names(&turns(&recounting).await), names(&before));
        // Older lines, whose versions are gone.
        let head = repo.head_of(&main).await.expect("read").expect("a head");
        let line = log(&repo, head, 100).await.expect("it is read").commits;
        for commit in &line {
            let found = repo.find_tool_turns(Some(commit.id()), &ToolQuery::new()).await;
            found.expect("it is read");
        }
        let lines = describe(&repo, &line).await.expect("it is described");
        assert!(lines.iter().any(|line| line.text.contains("erased")), "{lines:?}");
        let heads = [head];
        let found = search(&repo, &heads, "walk door", &SearchOptions::new().hidden(true)).await;
        assert!(!found.expect("it is searched").hits.is_empty());
        let pattern = GrepPattern::new().text("through door").expect("a pattern");
        let found = grep(&repo, &heads, pattern, GrepOptions::new().hidden(true)).await;
        let mut found = found.expect("it is searched");
        let mut hits = 0;
        while let Some(more) = found.next_hits().await.expect("it is searched") {
            hits += more.len();
        }
        assert_eq!(hits, 12);
        assert_clean(&repo).await;
    });
}

#[test]
fn documents_and_kept_originals_lose_it_as_well() {
    on_each_store(async |store| {
        let (repo, main) = (repo(&store), main_branch());
        let leak = repo.append(&main, Draft::user(LEAK)).await.expect("it is written");
        let mut keeping = Draft::user("what a handler left of it");
        keeping.keeps = vec![Blob::seal(format!("{{\"was\":\"{LEAK}\"}}"))];
        repo.append(&main, keeping).await.expect("it is written");
        let name = RefName::new("effects/x/0").expect("a valid name");
        let document = Blob::seal(format!(r#"{{"answer":"{LEAK}!","n":12345678901234567890}}"#));
        repo.set_documents("effect", vec![(name.clone(), document)]).await.expect("written");
        let request = EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak");
        let report = erase(&repo, &request).await.expect("it is erased");
        assert_eq!(report.blobs.len(), 3, "{:?}", report.places);
        let kinds: Vec<&str> = report.places.iter().map(|place| place.kind.as_str()).collect();
        assert_eq!(kinds, ["message", "kept original", "document"]);
        let documents = repo.documents("effects/").await.expect("they are read");
        let text = documents[0].1.text().expect("text");
        assert_eq!(text, r#"{"answer":"[erased: a leak]!","n":12345678901234567890}"#);
        assert_clean(&repo).await;
        // An undo moves the branch back, not the document whose bytes are gone.
        repo.undo(&main).await.expect("it is undone");
        assert_eq!(repo.documents("effects/").await.expect("they are read"), documents);
        assert_eq!(erasures(&repo).await.expect("they are read").len(), 3);
        assert_clean(&repo).await;
        gc(&repo, &GcOptions::new().keep(std::time::Duration::ZERO)).await.expect("collected");
        assert_clean(&repo).await;
    });
}

#[test]
fn a_message_that_comes_during_an_erasure_is_erased_too() {
    on_each_store(async |store| {
        let (own, main) = (repo(&store), main_branch());
        let leak = block_on(own.append(&main, Draft::user(LEAK))).expect("it is written");
        let other = RefName::branch("other").expect("a valid name");
        let branch = other.clone();
        let looks_last = |call: &Call<'_>| matches!(call, Call::ToolNames { .. });
        let watched = meanwhile(store, 1, looks_last, move || {
            for (branch, text) in [(&branch, "fine"), (&branch, LEAK), (&main, "fine")] {
                block_on(own.append(branch, Draft::user(text))).expect("it is written");
            }
        });
        let repo = repo(&watched);
        let request = EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak");
        let report = erase(&repo, &request).await.expect("it is erased");
        assert_eq!((report.blobs.len(), report.edits), (1, 2));
        for branch in [&main_branch(), &other] {
            let head = repo.head_of(branch).await.expect("it is read");
            repo.compile(head).await.expect("it compiles");
        }
        assert_clean(&repo).await;
    });
}

#[test]
fn writers_and_two_erasers_at_once_leave_nothing_half_done() {
    on_each_store(async |store| {
        let writer = repo(&store);
        let main = main_branch();
        let leak = block_on(writer.append(&main, Draft::user(LEAK))).expect("it is written");
        let request = EraseRequest::targets(vec![EraseTarget::Commit(leak.id())], "a leak");
        std::thread::scope(|scope| {
            for n in 0..2 {
                let (own, main) = (repo(&store), &main);
                scope.spawn(move || {
                    for i in 0..20 {
                        let text = format!("message {i} of writer {n}");
                        block_on(own.append(main, Draft::user(text))).expect("it is written");
                    }
                });
            }
            for _ in 0..2 {
                let (own, request) = (repo(&store), &request);
                scope.spawn(move || match block_on(erase(&own, request)) {
                    Ok(report) => assert_eq!(report.blobs.len(), 1),
                    // The other one was first.
                    Err(error) => assert_eq!(error.code(), "erased", "{error}"),
                });
            }
        });
        let reader = repo(&store);
        let shown = shown(&reader).await;
        assert!(!shown.contains("4711"), "{shown}");
        assert_eq!(shown.matches("[erased: a leak]").count(), 1, "{shown}");
        assert_eq!(shown.matches("of writer").count(), 40);
        let again = reader.append(&main, Draft::user(LEAK)).await.expect_err("it is refused");
        assert_eq!(again.code(), "erased");
        let other = Draft::new(tract_core::Content::user("fine"));
        assert_eq!(other.content.kind(), Kind::User);
        reader.append(&main, other).await.expect("it is written");
        assert_clean(&reader).await;
    });
}
