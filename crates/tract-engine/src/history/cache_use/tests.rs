//! Conversations whose requests miss the cache, and why.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tract_core::{ManualClock, Store, block_on};
use tract_kv::memory;
use tract_testkit::{Call, WatchedStore};

use super::*;
use crate::{ApplyOptions, RepoOptions, apply_stream, read_lines};

/// Applies lines to a new repository, and compares the requests of all branches.
#[track_caller]
fn requests(lines: &[Value]) -> Vec<CacheUse> {
    all_requests(&repo(lines))
}

fn all_requests(repo: &Repo) -> Vec<CacheUse> {
    let branches = block_on(repo.branches()).expect("it reads");
    let heads: Vec<_> = branches.into_iter().map(|branch| (branch.name, branch.head)).collect();
    block_on(cache_use(repo, &heads)).expect("it compares")
}

#[track_caller]
fn repo(lines: &[Value]) -> Repo {
    repo_in(Arc::new(memory()), lines)
}

#[track_caller]
fn repo_in(store: Arc<dyn Store>, lines: &[Value]) -> Repo {
    let clock = Arc::new(ManualClock::at_us(1_767_268_800_000_000));
    let repo =
        Repo::new(store, RepoOptions { clock, who: "test".to_owned(), ..RepoOptions::default() });
    block_on(repo.init()).expect("it is made");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let lines = read_lines(text.as_bytes());
    let options = ApplyOptions::default();
    let applied = apply_stream(&repo, lines, &options, |event| {
        if let Err(error) = event.result {
            panic!("{error}");
        }
    });
    block_on(applied).expect("it applies");
    repo
}

fn system(text: &str) -> Value {
    json!({"op": "system", "text": text, "mark": "system"})
}

fn user(text: &str) -> Value {
    json!({"op": "user", "text": text, "mark": text})
}

fn answer(text: &str) -> Value {
    json!({"op": "assistant", "text": text, "mark": text})
}

/// An answer with what the provider reported: tokens of the request, and those from the cache.
fn measured(text: &str, at: &str, usage: (u64, u64, Option<u64>)) -> Value {
    let (input, read, written) = usage;
    let mut line = json!({"op": "assistant", "text": text, "at": at});
    let mut tokens = json!({"input_tokens": input, "cached_tokens": read, "output_tokens": 5});
    if let Some(written) = written {
        tokens["cache_write_tokens"] = json!(written);
    }
    line["metadata"] = json!({"usage": tokens});
    line["generation_config"] = json!({"model": "claude-sonnet-4"});
    line
}

fn tools(names: &[&str]) -> Value {
    let tools: Vec<Value> = names
        .iter()
        .map(|name| {
            let (name, more) = name.split_once(' ').unwrap_or((name, "does it"));
            json!({"name": name, "description": more, "input_schema": {"type": "object"}})
        })
        .collect();
    json!({"op": "set_tools", "tools": tools})
}

/// Two turns with this between them: the second request has to miss the cache for this reason.
#[track_caller]
fn between(lines: &[Value], cause: Option<MissCause>) -> CacheUse {
    let beginning = [
        tools(&["read", "write"]),
        system("You are a clerk. It is 10:01."),
        user("one"),
        answer("yes"),
    ];
    let end = [user("two"), answer("no")];
    let mut all = requests(&[&beginning[..], lines, &end[..]].concat());
    assert_eq!(all.len(), 2, "{all:?}");
    let second = all.remove(1);
    assert_eq!(second.miss.as_ref().map(|miss| miss.cause), cause, "{second:?}");
    assert_eq!(second.again > 0, cause.is_some(), "{second:?}");
    assert!(second.read + second.again <= second.prompt, "{second:?}");
    assert!(!second.is_recorded);
    second
}

fn edit(target: &str, text: &str) -> Value {
    json!({"op": "edit", "target": target, "text": text})
}

#[test]
fn a_conversation_that_only_grows_misses_nothing() {
    let second = between(&[], None);
    assert!(second.read > 0 && second.prompt > second.read, "{second:?}");
    between(&[json!({"op": "note", "text": "no model sees it"})], None);
    // What was edited before it was ever sent is no difference.
    between(&[user("three"), edit(":three", "3")], None);
}

#[test]
fn each_change_has_its_cause() {
    use MissCause as Cause;
    let clock = between(&[edit(":system", "You are a clerk. It is 10:02.")], Some(Cause::Clock));
    let miss = clock.miss.expect("a miss");
    assert_eq!((miss.before.as_deref(), miss.after.as_deref()), (Some("10:01."), Some("10:02.")));
    let block = miss.block.expect("a block").to_string();
    assert!(block.starts_with("#1 system ("), "{block}");

    between(&[edit(":system", "You are a pirate. It is 10:01.")], Some(Cause::SystemPrompt));
    between(&[edit(":one", "of course")], Some(Cause::Edit));
    // An answer is first sent with the request after it.
    between(&[edit(":yes", "of course")], None);
    between(&[tools(&["write", "read"])], Some(Cause::ToolOrder));
    between(&[tools(&["read", "write does more"])], Some(Cause::ToolSchema));
    between(&[tools(&["read", "write", "list"])], Some(Cause::ToolAdded));
    between(&[tools(&["write"])], Some(Cause::ToolRemoved));
    let switched = [tools(&["read"]), edit(":system", "You are a planner.")];
    between(&switched, Some(Cause::ModeSwitch));
    let compress =
        json!({"op": "compress", "from": ":one", "to": ":yes", "content": "They agreed."});
    between(&[compress], Some(Cause::Compaction));
    let skip = json!({"op": "annotate", "target": ":one", "priority": "skip"});
    between(std::slice::from_ref(&skip), Some(Cause::Removal));
    // The first request lacks what the second one has again.
    let insertion = requests(&[
        user("zero"),
        json!({"op": "annotate", "target": ":zero", "priority": "skip", "mark": "skip"}),
        user("one"),
        answer("yes"),
        json!({"op": "revert", "target": ":skip"}),
        user("two"),
        answer("no"),
    ]);
    assert_eq!(insertion[1].miss.as_ref().map(|miss| miss.cause), Some(Cause::Insertion));
}

#[test]
fn blocks_before_the_difference_are_read_from_the_cache() {
    let tools_changed =
        between(&[tools(&["read", "write does more"])], Some(MissCause::ToolSchema));
    let edited = between(&[edit(":one", "of course")], Some(MissCause::Edit));
    assert!(tools_changed.read > 0, "the first tool: {tools_changed:?}");
    assert!(edited.read > tools_changed.read, "{edited:?}");
    assert!(edited.again < tools_changed.again, "{edited:?}");
}

#[test]
fn another_model_has_another_cache() {
    let ask = |text: &str, model: &str| {
        let mut line = answer(text);
        line["generation_config"] = json!({"model": model});
        line
    };
    let all = requests(&[user("one"), ask("yes", "small"), user("two"), ask("no", "large")]);
    let miss = all[1].miss.as_ref().expect("a miss");
    assert_eq!(miss.cause, MissCause::ModelSwitch);
    assert_eq!((miss.before.as_deref(), miss.after.as_deref()), (Some("small"), Some("large")));
    assert_eq!((all[1].read, all[1].again), (0, all[0].prompt));
}

#[test]
fn recorded_tokens_are_believed() {
    let morning = "2026-01-31T09:00:00Z";
    let all = requests(&[
        user("one"),
        measured("a", morning, (5000, 0, Some(4900))),
        user("two"),
        measured("b", "2026-01-31T09:01:00Z", (5600, 4900, Some(600))),
        user("three"),
        // Nothing that was recorded differs, and half was read.
        measured("c", "2026-01-31T09:02:00Z", (6000, 3000, Some(2900))),
        user("four"),
        measured("d", "2026-01-31T10:02:00Z", (6500, 0, Some(6400))),
        edit(":one", "another"),
        user("five"),
        measured("e", "2026-01-31T10:03:00Z", (7000, 400, Some(6500))),
        edit(":two", "an edit that was not sent"),
        user("six"),
        measured("f", "2026-01-31T10:04:00Z", (7500, 6900, Some(500))),
    ]);
    let seen: Vec<_> =
        all.iter().map(|one| (one.again, one.miss.as_ref().map(|miss| miss.cause))).collect();
    use MissCause as Cause;
    assert_eq!(
        seen,
        [
            (0, None),
            (0, None),
            (5500 - 3000, Some(Cause::NotRecorded)),
            (5900, Some(Cause::Expired)),
            (6400 - 400, Some(Cause::Edit)),
            (0, None),
        ]
    );
    assert!(all.iter().all(|one| one.is_recorded), "{all:?}");
    let hour = all[3].miss.as_ref().and_then(|miss| miss.after.clone());
    assert_eq!(hour.as_deref(), Some("60 min after the answer before"));
}

#[test]
fn a_provider_that_caches_by_itself_keeps_steps_of_128_tokens() {
    let measured = |text: &str, usage| {
        let mut line = measured(text, "2026-01-31T09:00:00Z", usage);
        line["generation_config"] = json!({"model": "gpt-5"});
        line
    };
    let all = requests(&[
        user("one"),
        measured("a", (900, 0, None)),
        user("two"),
        // What is shorter than 1,024 tokens was not kept.
        measured("b", (2000, 0, Some(0))),
        user("three"),
        measured("c", (2100, 1920, None)),
        user("four"),
        measured("d", (2200, 0, None)),
    ]);
    let again: Vec<u64> = all.iter().map(|one| one.again).collect();
    assert_eq!(again, [0, 0, 0, 2048]);
}

/// Some tools report the tokens in a line of their own.
#[test]
fn tokens_that_a_note_reports_are_those_of_the_answer_before_it() {
    let usage = json!({"usage": {"input_tokens": 3000, "cached_tokens": 2944}});
    let note = |text: &str| json!({"op": "note", "text": text, "metadata": usage});
    let lines = [user("one"), answer("a"), note("n"), user("two"), answer("b"), note("m")];
    let all = requests(&lines);
    assert_eq!(all.iter().map(|one| (one.prompt, one.read)).collect::<Vec<_>>(), [(3000, 2944); 2]);
    assert!(all.iter().all(|one| one.is_recorded && one.again == 0), "{all:?}");
}

#[test]
fn causes_are_ranked_by_the_tokens_that_were_sent_again() {
    let all = requests(&[
        system("It is 10:01."),
        user("a-long-question"),
        answer("a"),
        edit(":system", "It is 10:02."),
        user("two"),
        answer("b"),
        edit(":two", "2"),
        user("three"),
        answer("c"),
        edit(":system", "It is 10:03."),
        user("four"),
        answer("d"),
    ]);
    let ranked = rank_misses(&all, |request| (request.answer != all[3].answer).then_some(0.5));
    let seen: Vec<_> = ranked
        .iter()
        .map(|cause| (cause.cause, cause.requests, cause.cost, cause.unpriced, cause.largest))
        .collect();
    assert_eq!(
        seen,
        [(MissCause::Clock, 2, 0.5, 1, 3), (MissCause::Edit, 1, 0.5, 0, 2)],
        "{ranked:?}"
    );
    assert_eq!(ranked[0].again, all[1].again + all[3].again);
    assert_eq!(rank_misses(&[], |_| None), []);
}

#[test]
fn the_parts_of_an_answer_are_one_request() {
    let part = |text: &str, id: &str| {
        let mut line = measured(text, "2026-01-31T09:00:00Z", (2000, 0, Some(2000)));
        line["metadata"]["message_id"] = json!(id);
        line
    };
    let mut call = part("", "m1");
    call["tool_calls"] = json!([{"id": "c1", "name": "read", "arguments": {}}]);
    let result = json!({"op": "tool_result", "call_id": "c1", "content": "text"});
    let all = requests(&[
        user("one"),
        json!({"op": "reasoning", "text": "hm"}),
        part("look", "m1"),
        call,
        result,
        // A parallel call of the same answer that was written late.
        part("on", "m1"),
        user("two"),
        json!({"op": "assistant", "text": "Well."}),
        json!({"op": "assistant", "text": "It is so."}),
    ]);
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[1].before, Some(all[0].answer));
}

#[test]
fn branches_share_what_they_have_in_common() {
    let lines = [
        user("one"),
        answer("yes"),
        user("two"),
        answer("no"),
        json!({"op": "branch", "name": "other", "from": ":yes"}),
        json!({"op": "checkout", "name": "other"}),
        user("else"),
        answer("well"),
        edit(":one", "1"),
        user("more"),
        answer("fine"),
    ];
    let all = requests(&lines);
    let seen: Vec<_> = all.iter().map(|one| (one.branch.as_str(), one.again > 0)).collect();
    let expected = [("main", false), ("main", false), ("other", false), ("other", true)];
    assert_eq!(seen, expected, "{all:?}");
    assert_eq!(all[2].before, Some(all[0].answer), "the last answer that both have");
    let repo = repo(&lines);
    let heads: Vec<_> = block_on(repo.branches()).expect("it reads");
    let other = heads.iter().find(|branch| branch.name == "other").expect("a branch").head;
    let alone = block_on(cache_use(&repo, &[("other".to_owned(), other)])).expect("it compares");
    assert_eq!(alone.len(), 3);
    assert_eq!(alone[1].again, all[2].again);
}

/// Comparing step by step is the same as comparing whole contexts, for any changes between requests.
#[test]
fn following_a_conversation_compares_as_two_whole_contexts_do() {
    let mut lines = vec![system("It is 9:00.")];
    for turn in 0..60 {
        lines.push(user(&format!("u{turn}")));
        match turn % 7 {
            3 => lines.push(edit(&format!(":u{}", turn / 2), &format!("edited in {turn}"))),
            5 => {
                let target = format!(":u{}", turn - 1);
                lines.push(json!({"op": "annotate", "target": target, "priority": "skip"}));
            }
            6 => lines.push(edit(":system", &format!("It is 9:{turn:02}."))),
            _ => {}
        }
        lines.push(answer(&format!("a{turn}")));
    }
    let repo = repo(&lines);
    let all = all_requests(&repo);
    assert_eq!(all.len(), 60);
    for pair in all.windows(2) {
        let [old, new] = pair else { continue };
        let contexts =
            [old, new].map(|one| block_on(repo.compile(Some(one.request))).expect("one"));
        let [before, after] = &contexts;
        let pairs = before.messages().zip(after.messages());
        let same = pairs.take_while(|(a, b)| (a.slot, a.commit) == (b.slot, b.commit));
        let same: Vec<u64> = same.map(|(message, _)| message.token_count).collect();
        let begins = same.len() == before.message_count().min(after.message_count());
        assert_eq!(new.miss.is_none(), begins || new.again == 0, "{new:?}");
        assert_eq!(new.read, same.iter().sum::<u64>(), "{new:?}");
        let all: u64 = after.messages().map(|message| message.token_count).sum();
        assert_eq!(new.prompt, all);
    }
}

/// What was read is not read again for the next request.
#[test]
fn a_long_conversation_is_read_once() {
    let reads = |turns: usize| {
        let turn = |turn| [user(&format!("u{turn}")), answer(&format!("a{turn}"))];
        let lines: Vec<Value> = (0..turns).flat_map(turn).collect();
        let store: Arc<dyn Store> = Arc::new(memory());
        repo_in(Arc::clone(&store), &lines);
        let read = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&read);
        let watched = WatchedStore::new(store, move |call: Call<'_>| {
            let objects = match &call {
                Call::Blobs { keys, .. } => keys.len(),
                Call::Commits { ids, .. } => ids.len(),
                // A page of a walk is as long as all of these conversations.
                Call::Walk { .. } => 2 * turns,
                _ => 0,
            };
            counter.fetch_add(objects, Ordering::Relaxed);
            Ok(())
        });
        let repo = Repo::new(Arc::new(watched), RepoOptions::default());
        assert_eq!(all_requests(&repo).len(), turns);
        read.load(Ordering::Relaxed)
    };
    let (short, long) = (reads(100), reads(400));
    assert!(long <= 4 * short + 100, "{short} for 100 turns, {long} for 400");
}
