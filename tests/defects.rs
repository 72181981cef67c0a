//! What the Python original got wrong, each with a test named after it.
//!
//! Those of its compress, its edits, its branches and its clock are in
//! `crates/tract-engine/tests/planning/defects.rs`:
//!
//! | section | defect | test |
//! | --- | --- | --- |
//! | 9 (a) | a range removes later and unlisted commits | `compress_of_a_range_keeps_later_and_unlisted_messages` |
//! | 9 (b) | pins are swallowed by the next compress | `pins_survive_every_compress` |
//! | 9 (c) | tool links are lost | `tools_survive_compress_merge_revert_and_edit` |
//! | 9 (d) | merged-in commits vanish unsummarised | `merged_messages_are_summarized_with_the_rest` |
//! | 9 (e) | the summary reads originals, not edits | `the_sources_of_a_summary_are_what_was_shown` |
//! | 9 (f) | an edited system prompt stops compress | `an_edited_system_prompt_does_not_stop_compress` |
//! | 9 (g) | the ratio counts pins on one side | `tokens_before_and_after_compress_count_the_same_things` |
//! | 14.1 | a compile costs the whole history | `a_step_does_not_grow_with_history` |
//! | 14.6 | edits without effect, lost calls, global priorities, time travel, merge text | `an_edit_without_effect_is_refused`, `an_edit_of_a_call_keeps_the_call`, `priorities_belong_to_their_branch`, `time_travel_gives_messages_priorities_and_tools_as_they_were`, `a_merge_puts_nothing_into_the_prompt`, `an_edit_and_an_append_do_not_conflict` |
//! | 14.7 | the hash leaves out metadata, message, tools | `the_id_covers_message_metadata_and_tools`; hashes are never verified: `damage` here |
//! | 14.11 | active tools are not persisted | `another_handle_sees_the_same_context_and_tools`; after reopening: here |
//! | 14.12 | an unknown revision is ignored | `an_unknown_revision_is_an_error`; limits that fail silently: here |
//! | 14.17 | token counts differ warm and cold | `tokens_are_the_same_warm_and_cold` |

use tract::engine::Request;
use tract::{Draft, JsonText, Limits, Priority, RequestForms, ToolSchema, block_on};

use crate::walks::{body, exported, memory, sqlite, texts};

/// 14.2, 14.4: one row read per ancestor, one list of all hashes in a query. A long chain is read
/// in pages, and its priorities travel with the rows.
#[test]
fn a_long_chain_with_a_priority_on_every_message_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let tract = sqlite(folder.path());
    let drafts = (0..6_000).map(|n| Draft::user(format!("message {n}")));
    let commits = block_on(tract.commit_all(drafts)).unwrap();
    let even: Vec<_> = commits.iter().step_by(2).map(tract::Commit::id).collect();
    block_on(tract.record(Request::annotate(even, Priority::Skip))).unwrap();
    block_on(tract.store().close()).unwrap();
    drop(tract);
    let again = sqlite(folder.path());
    let compiled = block_on(again.compile()).unwrap();
    assert_eq!((compiled.message_count(), compiled.commit_count()), (3_000, 6_001));
    assert_eq!(texts(&again)[1_000], "message 2001");
}

/// 14.3: 20 linked tools are 20 inserts and a row each per commit.
#[test]
fn twenty_linked_tools_cost_under_a_hundred_bytes() {
    let tools: Vec<ToolSchema> = (0..20)
        .map(|n| ToolSchema::parse(&format!(r#"{{"name":"tool_{n}","description":"x"}}"#)).unwrap())
        .collect();
    let size = |with: bool| {
        let tract = memory();
        let draft = |n: usize| {
            if with {
                Draft::user(format!("message {n:03}")).tools(tools.clone())
            } else {
                Draft::user(format!("message {n:03}"))
            }
        };
        block_on(tract.commit(draft(0))).unwrap();
        let before = block_on(tract.store().stats(tract.repo().name())).unwrap();
        for n in 1..=50 {
            block_on(tract.commit(draft(n))).unwrap();
        }
        let after = block_on(tract.store().stats(tract.repo().name())).unwrap();
        assert_eq!((after.tools, after.toolsets), (before.tools, before.toolsets));
        after.commit_bytes + after.blob_bytes - before.commit_bytes - before.blob_bytes
    };
    let more = (size(true) - size(false)) / 50;
    assert!(more < 100, "{more} bytes a commit");
}

/// 14.5, 14.11: what was cached is lost on restart; reopening shows an empty context, no tools.
#[test]
fn reopening_shows_context_and_active_tools() {
    let folder = tempfile::tempdir().unwrap();
    let tract = sqlite(folder.path());
    let before = block_on(async {
        tract.set_tools([r#"{"name":"search","input_schema":{"type":"object"}}"#]).await.unwrap();
        tract.user("hello").await.unwrap();
        tract.compile().await.unwrap().to_anthropic_params().unwrap().to_json()
    });
    block_on(tract.store().close()).unwrap();
    drop(tract);
    let again = sqlite(folder.path());
    let after = block_on(async {
        assert_eq!(again.tools().in_force().await.unwrap()[0].name, "search");
        let body = again.compile().await.unwrap().to_anthropic_params().unwrap().to_json();
        again.user("still").await.unwrap();
        assert_eq!(again.tools().in_force().await.unwrap().len(), 1, "what follows has them too");
        body
    });
    assert_eq!(after, before);
}

/// 14.8: an optional field that is absent is not hashed, so a new one changes no old id.
#[test]
fn absent_fields_are_not_in_the_hash() {
    let tract = memory();
    let commit = block_on(tract.user("hello")).unwrap();
    let canonical = commit.canonical();
    for absent in ["metadata", "generation_config", "message", "verbatim", "joins", "keeps", "null"]
    {
        assert!(!canonical.contains(absent), "{absent} in {canonical}");
    }
}

/// 14.9: no compare-and-swap on refs. Two writers lose nothing and overwrite nothing.
#[test]
fn two_writers_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    drop(sqlite(folder.path()));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let folder = folder.path();
            scope.spawn(move || {
                let tract = sqlite(folder);
                for n in 0..15 {
                    block_on(tract.user(format!("writer {writer}, {n}"))).unwrap();
                }
            });
        }
    });
    let tract = sqlite(folder.path());
    let texts = texts(&tract);
    for writer in 0..2 {
        let own = texts.iter().filter(|text| text.starts_with(&format!("writer {writer}")));
        let expected: Vec<String> = (0..15).map(|n| format!("writer {writer}, {n}")).collect();
        assert!(own.eq(&expected), "{texts:?}");
    }
    assert!(block_on(tract.verify()).unwrap().clean);
    let stale = block_on(tract.commit_on(None, Draft::user("late"))).unwrap_err();
    assert_eq!(stale.code(), "conflict");
}

/// 14.12: limits that fail silently: 500 turns, 500 commits, a query's own.
#[test]
fn nothing_is_cut_off_silently() {
    let tract = memory();
    let drafts = (0..700).flat_map(|n| {
        let id = format!("c{n}");
        [Draft::assistant("").call(&id, "grep", "{}"), Draft::tool_result(id, "found")]
    });
    block_on(tract.commit_all(drafts)).unwrap();
    let compiled = block_on(tract.compile()).unwrap();
    assert_eq!(compiled.message_count(), 1_400);
    let log = block_on(tract.store().ref_log(tract.repo().name(), &Default::default())).unwrap();
    assert_eq!(
        log.len() as u64,
        block_on(tract.store().stats(tract.repo().name())).unwrap().log_entries
    );
    let sent = body(&compiled.to_openai_params().unwrap());
    assert_eq!(sent["messages"].as_array().unwrap().len(), 1_400);
    // A limit that is reached says what it is.
    let narrow = Limits { blob_bytes: 10, ..Limits::default() };
    let narrow = block_on(tract::OpenOptions::new().limits(narrow).open("memory:")).unwrap();
    let error = block_on(narrow.user("more than ten bytes")).unwrap_err();
    assert!(error.to_string().contains("(limit 10)"), "{error}");
}

/// 14.15: export loses hashes, branches, edits, tools, times.
#[test]
fn an_export_loses_nothing() {
    let tract = memory();
    block_on(async {
        tract.set_tools([r#"{"name":"search"}"#]).await.unwrap();
        let config = JsonText::new(r#"{"model":"m","temperature":0.5}"#).unwrap();
        let draft = Draft::user("hello").message("greeting").metadata("n", 1).unwrap();
        let draft = tract.commit(draft.generation_config(config)).await.unwrap();
        tract.edit(&draft, "good day").await.unwrap();
        tract.annotate(&draft, Priority::Important).await.unwrap();
        tract.tags().create("v1", "HEAD").await.unwrap();
        let fork = tract.fork("other", "HEAD").await.unwrap();
        fork.set_tools::<&str>([]).await.unwrap();
        fork.assistant("yes?").await.unwrap();
        tract.merge("other").await.unwrap();

        let copy = memory();
        crate::laws::applied(&copy, &exported(tract.repo())).unwrap();
        let refs =
            |of: &tract::Tract| block_on(of.store().list_refs(of.repo().name(), "")).unwrap();
        assert_eq!(refs(&copy), refs(&tract));
        let head = tract.head().await.unwrap().unwrap();
        assert_eq!(copy.show(head).await.unwrap(), tract.show(head).await.unwrap());
        assert_eq!(copy.show(&draft).await.unwrap().created_at, draft.created_at);
        let [there, here] = [&copy, &tract].map(|of| block_on(of.compile()).unwrap());
        assert_eq!(there.to_messages().unwrap().to_json(), here.to_messages().unwrap().to_json());
    });
}

/// 14.16: `is_error` is dropped for Anthropic, and orphans are passed on.
#[test]
fn errors_are_reported_and_orphans_are_not_sent() {
    let tract = memory();
    let sent = block_on(async {
        tract.user("go").await.unwrap();
        let call = Draft::assistant("").call("c1", "grep", "{}").call("c2", "grep", "{}");
        let call = tract.commit(call).await.unwrap();
        tract.commit(Draft::tool_result("c1", "no such file").is_error(true)).await.unwrap();
        let second = tract.tool_result("c2", "found").await.unwrap();
        let sent = body(&tract.compile().await.unwrap().to_anthropic_params().unwrap());
        assert_eq!(sent["messages"][2]["content"][0]["is_error"], true);
        assert_eq!(crate::rules::anthropic(&sent), Vec::<String>::new());
        let openai = body(&tract.compile().await.unwrap().to_openai_params().unwrap());
        let content = openai["messages"][2]["content"].as_str().unwrap();
        assert!(content.to_lowercase().contains("error"), "{content}");

        tract.annotate(&second, Priority::Skip).await.unwrap();
        let sent = body(&tract.compile().await.unwrap().to_anthropic_params().unwrap());
        assert_eq!(crate::rules::anthropic(&sent), Vec::<String>::new());
        tract.annotate(&call, Priority::Skip).await.unwrap();
        body(&tract.compile().await.unwrap().to_anthropic_params().unwrap())
    });
    assert_eq!(crate::rules::anthropic(&sent), Vec::<String>::new());
    assert!(!sent.to_string().contains("tool_result"), "{sent}");
}
