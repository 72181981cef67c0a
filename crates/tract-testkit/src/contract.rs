//! The contract of [`Store`](tract_core::Store), one case per promise.

mod apply;
mod commits;
mod erasures;
mod handles;
mod links;
mod log;
mod objects;
mod prefixes;
mod races;
mod refs;
mod repacks;
mod restores;
mod sweeps;
mod tools;
mod walks;
mod whole;

use crate::suite::{Capability, CaseInput, ContractCase};

/// The table of all cases: module, name, required capability, promise.
#[doc(hidden)]
#[macro_export]
macro_rules! __contract {
    ([$($callback:tt)*]) => {
        $($callback)* ! {
            objects {
                blobs_answer_each_key_in_order "one answer per key, in order; `None` for what is not stored"
                same_blob_twice_is_answered_twice "the same id twice gives the same answer twice"
                any_number_of_blobs_in_one_call "reads any number of ids in one call"
                blob_of_0_bytes "a blob may be empty"
                blob_of_16_mib "a blob may be large"
                blob_of_any_bytes "a blob is any bytes"
                wrong_hint_costs_no_truth "a wrong hint makes a read slower, never wrong"
                toolsets_answer_each_id_in_order "one answer per id, in order; `None` for what is not stored"
                toolset_keeps_order_and_repeats "a toolset keeps order and repeats"
                empty_toolset_is_a_toolset "the empty toolset is one"
                derived_answer_each_commit_in_order "one answer per commit, in order; `None` where there is none"
                derived_row_is_replaced "an existing derived row is replaced"
                derived_kinds_are_apart "at most one row of a kind per commit"
                drop_derived_leaves_the_rest "deletes all derived rows, the tool index apart"
            }
            prefixes {
                prefix_finds_every_kind_of_object "finds commits, blobs, toolsets and tools"
                prefix_gives_at_most_limit_sorted "at most `limit` ids, sorted"
                prefix_of_all_digits_finds_one "a whole id finds its object"
                repository_prefix_lookup_apart "finds nothing of other repositories"
            }
            commits {
                commits_answer_each_id_in_order "one answer per id, in order; `None` for what is not stored"
                commit_is_complete "all that its record says is there"
                merge_keeps_all_parents "a commit may have several parents"
                any_number_of_commits_in_one_call "reads any number of ids in one call"
            }
            walks {
                walk_equals_following_parents "equals following `parents[0]` one by one"
                walk_ends_at_the_root "ends at the root"
                walk_ends_before_until "ends before `until`"
                walk_ends_before_a_row "ends before a commit with a `stop_at` row, and gives it"
                walk_ends_after_limit "ends after `limit` commits, and says where to continue"
                walk_pages_join_while_others_write "pages join without gap or repeat while others write"
                walk_of_unknown_head_is_missing "`Missing` when `head` is not stored"
                walk_of_forks "equals following parents, regardless of the places that the store assigned"
                walk_20000_deep "a long line is walked without deep recursion"
                walk_hints_lead_to_content "a step says where its content lies"
                two_branches_one_tip "two branches may continue one commit"
                undo_then_append "a branch that stepped back can be continued"
                time_and_order_of_writing_do_not_matter "places are never an order"
            }
            tools {
                test_store_and_get "a stored definition can be read"
                test_store_idempotent "storing the same schema twice is nothing"
                test_get_by_name "all versions of a name, in order of first sight"
                test_get_for_commit "the schemas in force after a commit, in order"
                test_link_to_commit "a commit names its tools, and one without tools has none"
                tools_answer_each_id_in_order "one answer per id, in order; `None` for a tool never seen"
                tool_names_sorted_each_once "lists the names, sorted, each once"
                tools_of_keeps_order_and_repeats "tools of a commit keep order and repeats"
                tools_of_unknown_commit_is_missing "`Missing` when the commit is not stored"
                key_order_of_tools_per_commit "the bytes are those given to that commit"
                names_of_any_kind "a name may hold any characters, or none"
            }
            refs {
                refs_answer_each_name_in_order "one answer per name, in order; `None` for what does not exist"
                symbolic_ref_is_not_followed "a symbolic ref is given as it is"
                refs_are_listed_by_prefix_sorted "lists the refs whose name begins with `prefix`, sorted"
                ref_can_point_at_a_blob "a ref may point at a document"
                ref_can_be_deleted "an edit to nothing deletes"
                expectations_are_compared "`Any`, `Absent` and `Is` hold when they are true, else conflict"
                conflict_says_what_was_found "a conflict names ref, expectation and what was found"
            }
            log {
                log_replays_to_the_refs "replaying from nothing gives the refs"
                log_is_newest_first "entries come newest first, with rising numbers"
                log_can_be_asked_by_name_batch_and_number "a query narrows by name, batch, number and limit"
                log_keeps_what_was_said "an entry has what the write said of itself"
                log_of_thousands_of_moves_is_whole "no entry is ever dropped, nor the oldest"
                write_that_moves_nothing_logs_nothing "a write that moved nothing logged nothing"
                edit_already_there_succeeds_and_logs_nothing "an edit whose value is already there succeeds regardless of what it expects, and logs nothing"
                import_twice_logs_nothing "writing all again changes nothing, nor the log"
            }
            apply {
                same_batch_again_is_already "an id that is in the ref log is `Already`"
                lost_ack_then_undo_then_retry_stays_undone "`Already`, wherever the refs point since"
                already_comes_before_expectations "the ref log is asked before any expectation"
                conflict_comes_before_missing "expectations are checked before links"
                two_refs_one_stale_moves_none "all refs move, or none"
                refused_batch_leaves_no_trace "a batch that is refused leaves no trace"
                two_edits_of_one_ref_are_invalid "`Invalid` for two edits of one ref"
                refs_point_only_where_they_may "`Invalid` for a ref that would point where its kind may not"
                writing_again_changes_nothing "writing what is stored already changes nothing"
                new_commits_on_stored_ones "what is stored and what is new may share a batch"
                same_text_same_microsecond_two_writers_two_commits "the batch id tells equal commits apart"
                empty_batch_is_done "a batch of nothing goes through"
            }
            links {
                missing_required_is_refused "everything required is stored or in the batch"
                required_in_the_batch_is_enough "what is required may be in the batch"
                missing_parent_is_refused "`Missing` for a parent"
                missing_second_parent_is_refused "`Missing` for any parent of a merge"
                missing_content_is_refused "`Missing` for content"
                missing_verbatim_is_refused "`Missing` for verbatim bytes"
                missing_changes_are_refused "`Missing` for a blob of changes"
                missing_kept_blob_is_refused "`Missing` for a kept blob"
                missing_toolset_is_refused "`Missing` for a toolset"
                missing_schema_is_refused "`Missing` for a toolset's schema"
                tool_row_of_what_is_missing_is_refused "`Missing` for the commit and the schema of a tool row"
            }
            races {
                racing_writers_have_one_winner "of racing batches with one expectation exactly one is `Done`"
                racing_appends_lose_nothing "who lost may try again, and nothing is lost"
                branches_do_not_conflict "writes of different refs never conflict"
                readers_see_whole_batches "no reader sees half a batch"
            }
            handles {
                two_handles_are_one_store [MultiProcess] "what one handle writes, another sees at once"
                racing_handles_have_one_winner [MultiProcess] "expectations are compared across handles"
                acknowledged_writes_outlive_a_kill [Durable] "what was acknowledged is there though nothing was closed"
            }
            sweeps {
                listing_gives_every_object_once [CollectsGarbage] "pages list every object once, each with its size"
                position_counts_every_write [CollectsGarbage] "every write that stores an object or moves a ref changes the position"
                unreached_objects_count_as_unlogged [CollectsGarbage] "a write that stores what its own ref moves do not reach raises the count of unlogged writes"
                commits_without_parents_are_reported [CollectsGarbage] "a check names a commit without its parent, reachable or not"
                swept_objects_are_gone [CollectsGarbage] "what is swept is not stored, all else is"
                sweep_after_a_write_is_refused [CollectsGarbage] "`Moved`, and nothing deleted, when others wrote meanwhile"
                batch_after_a_write_is_refused [CollectsGarbage] "`Moved`, and nothing written, when others wrote since the position that a batch requires"
                racing_batches_at_one_position_have_one_winner [CollectsGarbage] "of racing batches that require one position exactly one is `Done`"
                batch_that_needs_what_was_swept_is_refused [CollectsGarbage] "`Missing`, also by a handle that remembers it"
                sweeps_are_seen_by_every_handle [CollectsGarbage] "`Missing`, also by handles that remember it"
                log_names_what_was_swept [CollectsGarbage] "the ref log stays as it is"
                shared_content_outlives_a_sweep [CollectsGarbage] "content that others have stays, wherever it was first stored"
                sweeps_leave_other_repositories [CollectsGarbage] "other repositories stay as they are"
                swept_tools_are_forgotten [CollectsGarbage] "rows of a swept tool are replaced by those given"
                swept_objects_stay_gone [CollectsGarbage] "a sweep that is done is as durable as a write"
            }
            erasures {
                erased_blob_is_gone_with_the_write [Erases] "the write that makes an erasure deletes the blob and nothing else"
                erased_blob_is_refused [Erases] "`Erased` for a batch that brings, requires or links to it"
                links_to_what_is_erased_come_with_the_erasure [Erases] "a batch that names the erasure may link to the blob"
                erasure_that_ends_lets_the_blob_be_stored [Erases] "a batch that deletes the erasure may bring the blob"
                refused_erasure_deletes_nothing [Erases] "an erasure that is refused deletes nothing"
                erasures_leave_other_repositories [Erases] "blobs of other repositories stay"
                erased_blobs_stay_gone [Erases] "an erasure is as durable as a write, and a wipe changes nothing else"
                erasures_are_seen_by_every_handle [Erases] "`Erased`, also by handles that remember the blob"
            }
            restores {
                restored_objects_are_stored [Restores] "copies of objects that are missing are stored, and count as unlogged"
                restore_leaves_what_is_whole [Restores] "what reads whole stays, and is not in the answer"
                restored_links_may_come_later [Restores] "what an object links to may be restored after it"
                restore_leaves_out_what_was_erased [Restores] "a blob that was erased is left out"
                restore_leaves_other_repositories [Restores] "other repositories stay as they are"
                restored_objects_stay [Restores] "a restore is as durable as a write, and every handle sees it"
            }
            repacks {
                repacked_blobs_read_the_same [Repacks] "objects, refs and the log read the same, and blobs take less"
                repack_of_nothing_is_done_at_once [Repacks] "an empty repository is left as it is"
                repack_leaves_other_repositories [Repacks] "blobs of other repositories stay as they are"
                others_write_between_the_steps_of_a_repack [Repacks] "others write between the steps, and repack as well"
                repack_that_was_cut_short_begins_again [Repacks] "a repack that was cut short leaves a sound store"
                wiped_store_reads_what_was_packed_with_what_is_erased [Repacks] "a wipe removes the dictionaries that an erasure made stale"
            }
            whole {
                repositories_are_apart "one repository never sees or changes another"
                repositories_are_listed_sorted "lists the repositories, sorted"
                stats_count_what_is_there "counts what a repository holds"
                check_finds_nothing_wrong "a sound store is clean, and stays so when repaired"
                real_conversations_come_back "recordings come back byte for byte"
                capabilities_are_as_claimed "a store claims what it is not said to lack"
                closed_store_refuses "calls after closing fail"
                reopened_store_shows_all [Persistent] "what was written is there after opening again"
            }
        }
    };
}

macro_rules! table {
    ($($module:ident { $($name:ident $([$needs:ident])? $promise:literal)* })*) => {
        &[$($(
            ContractCase {
                name: stringify!($name),
                promise: $promise,
                needs: <[Capability]>::first(&[$(Capability::$needs)?]).copied(),
                test: |harness| {
                    Box::pin(async move { $module::$name(CaseInput::of(&harness)?).await })
                },
            },
        )*)*]
    };
}

/// A static instead of a constant, so that not every caller of `cases` compiles all of them.
static CASES: &[ContractCase] = __contract! { [table] };

/// Returns all cases of the contract.
pub fn cases() -> &'static [ContractCase] {
    CASES
}
