//! What the Python original got wrong, each with a test named after it.
//!
//! Those of its compress, its edits, its branches and its clock are in
//! `crates/tract-engine/tests/planning/defects.rs`, or in the module that is named here:
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
//! | 14.3 | linked tools cost a row each | `twenty_linked_tools_cost_under_a_hundred_bytes` in `tools` |
//! | 14.6 | edits without effect, lost calls | `only_messages_can_be_edited`, `an_edit_keeps_kind_role_calls_and_answer` in `append_edit` |
//! | 14.6 | global priorities, time travel | `priorities_belong_to_their_branch`, `time_travel_gives_messages_priorities_and_tools_as_they_were` |
//! | 14.6 | merge text, an edit that conflicts with an append | `a_change_of_one_side_is_merged`, `edit_after_merge_is_judged_from_the_old_side_head` in `merge` |
//! | 14.7 | the hash leaves out metadata, message, tools | `the_id_covers_message_metadata_and_tools`; hashes are never verified: `damage` here |
//! | 14.9 | no compare-and-swap on refs | `writers` here |
//! | 14.11 | active tools are not persisted | `another_handle_sees_the_same_context_and_tools`; after reopening: here |
//! | 14.12 | an unknown revision is ignored | `a_revision_that_names_nothing_says_what_is_near` in `refs`; limits that fail silently: here |
//! | 14.15 | export loses hashes, branches, edits, tools, times | `portable` in `exchange`; `laws` here |
//! | 14.17 | token counts differ warm and cold | `tokens_are_the_same_warm_and_cold` |

use tract::engine::Request;
use tract::{Draft, Limits, Priority, RequestForms, block_on};

use crate::Dialect;
use crate::rules::{Accepted, broken};
use crate::walks::{body, memory, sqlite, texts};

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
        assert_eq!(broken(Dialect::Anthropic, Accepted::Nothing, &sent), [""; 0]);
        let openai = body(&tract.compile().await.unwrap().to_openai_params().unwrap());
        let content = openai["messages"][2]["content"].as_str().unwrap();
        assert!(content.to_lowercase().contains("error"), "{content}");

        tract.annotate(&second, Priority::Skip).await.unwrap();
        let sent = body(&tract.compile().await.unwrap().to_anthropic_params().unwrap());
        assert_eq!(broken(Dialect::Anthropic, Accepted::Nothing, &sent), [""; 0]);
        tract.annotate(&call, Priority::Skip).await.unwrap();
        body(&tract.compile().await.unwrap().to_anthropic_params().unwrap())
    });
    assert_eq!(broken(Dialect::Anthropic, Accepted::Nothing, &sent), [""; 0]);
    assert!(!sent.to_string().contains("tool_result"), "{sent}");
}
