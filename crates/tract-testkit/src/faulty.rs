//! A store that breaks one promise, to see whether the contract notices.

mod erasures;
mod repacks;
mod restores;
mod store;
mod sweeps;

use crate::watched::WatchedStore;

/// A store that works, but for one promise.
pub type FaultyStore = WatchedStore<Fault>;

macro_rules! faults {
    ($($(#[$meaning:meta])* $fault:ident breaks [$($case:ident)*])*) => {
        /// The promise that is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$meaning])* $fault,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$fault),*];

            /// Returns the names of the cases of the contract that fail under it. There may be
            /// more.
            pub fn breaks(self) -> &'static [&'static str] {
                match self {
                    $(Self::$fault => &[$(stringify!($case)),*],)*
                }
            }
        }
    };
}

faults! {
    /// Leaves out what is not stored, instead of answering `None`.
    DropsAbsent breaks [
        blobs_answer_each_key_in_order toolsets_answer_each_id_in_order
        derived_answer_each_commit_in_order commits_answer_each_id_in_order
        tools_answer_each_id_in_order refs_answer_each_name_in_order
    ]
    /// Sorts and dedups toolsets.
    SortsToolsets breaks [toolset_keeps_order_and_repeats tools_of_keeps_order_and_repeats]
    /// Walks beyond `until`.
    IgnoresUntil breaks [walk_ends_before_until]
    /// Walks beyond rows.
    IgnoresRows breaks [walk_ends_before_a_row]
    /// Forgets to say where the next page starts.
    LosesPages breaks [walk_ends_after_limit]
    /// Follows symbolic refs.
    FollowsRefs breaks [symbolic_ref_is_not_followed]
    /// Moves refs without checking what is expected.
    IgnoresExpectations breaks [
        two_refs_one_stale_moves_none expectations_are_compared racing_writers_have_one_winner
        same_text_same_microsecond_two_writers_two_commits
    ]
    /// Does not recognize a batch that it has applied.
    ForgetsBatches breaks [
        lost_ack_then_undo_then_retry_stays_undone same_batch_again_is_already
        already_comes_before_expectations import_twice_logs_nothing
    ]
    /// Writes the objects of a batch that it refuses.
    AppliesHalf breaks [refused_batch_leaves_no_trace]
    /// Writes what requires something that is not there.
    IgnoresLinks breaks [missing_required_is_refused]
    /// Reads commits and ids of one repository, whichever is asked.
    MixesRepositories breaks [repositories_are_apart repository_prefix_lookup_apart]
    /// Keeps the older derived row.
    KeepsOldRows breaks [derived_row_is_replaced]
    /// Gives the ref log oldest first.
    LogsBackwards breaks [log_is_newest_first]
    /// Lists names in no order.
    ListsUnsorted breaks [
        tool_names_sorted_each_once refs_are_listed_by_prefix_sorted repositories_are_listed_sorted
    ]
    /// Gives more ids than asked for.
    IgnoresLimit breaks [prefix_gives_at_most_limit_sorted]
    /// Drops the last blob of a batch that moves no ref, and acknowledges.
    LosesWrites breaks [any_number_of_blobs_in_one_call]
    /// Answers what is asked for twice in one call only once.
    AnswersOnce breaks [same_blob_twice_is_answered_twice]
    /// Returns at most 1,000 of the requested objects.
    AnswersFew breaks [any_number_of_blobs_in_one_call any_number_of_commits_in_one_call]
    /// Takes an empty blob for none.
    LosesEmptyBlobs breaks [blob_of_0_bytes]
    /// Has no blob of more than a megabyte.
    LosesLargeBlobs breaks [blob_of_16_mib]
    /// Ends a blob at its first zero byte.
    EndsAtZero breaks [blob_of_any_bytes]
    /// Gives hints that lead nowhere, and believes them.
    TrustsHints breaks [wrong_hint_costs_no_truth walk_hints_lead_to_content]
    /// Takes the empty toolset for none.
    LosesEmptyToolsets breaks [empty_toolset_is_a_toolset]
    /// Drops the last tool of a toolset.
    LosesTools breaks [test_get_for_commit test_link_to_commit real_conversations_come_back]
    /// Gives a derived row of any kind.
    MixesKinds breaks [derived_kinds_are_apart]
    /// Keeps derived rows when they are to be dropped.
    KeepsDerived breaks [drop_derived_leaves_the_rest]
    /// Finds nothing but blobs by their first digits.
    FindsBlobsOnly breaks [prefix_finds_every_kind_of_object]
    /// Looks at the first 16 digits only.
    CutsPrefixes breaks [prefix_of_all_digits_finds_one]
    /// Forgets metadata.
    ForgetsMetadata breaks [commit_is_complete]
    /// Keeps the first parent only.
    ForgetsParents breaks [merge_keeps_all_parents]
    /// Leaves out the third commit of a walk.
    SkipsCommits breaks [walk_equals_following_parents walk_of_forks two_branches_one_tip undo_then_append]
    /// Gives a page after the one with the root.
    WalksPastTheRoot breaks [walk_ends_at_the_root]
    /// Leaves out a commit between two pages.
    SkipsAtPages breaks [walk_pages_join_while_others_write]
    /// Takes what is not stored for empty.
    EmptyForUnknown breaks [walk_of_unknown_head_is_missing tools_of_unknown_commit_is_missing]
    /// Ends a walk after 1,000 commits.
    WalksShort breaks [walk_20000_deep]
    /// Puts a walk in the order of time.
    OrdersByTime breaks [time_and_order_of_writing_do_not_matter]
    /// Forgets when a tool was first seen.
    ForgetsTimes breaks [test_store_and_get]
    /// Lists a definition as often as it was stored.
    RepeatsDefinitions breaks [test_store_idempotent]
    /// Lists the versions of a tool newest first.
    ReversesVersions breaks [test_get_by_name]
    /// Knows one spelling of a tool only.
    KeepsOneSpelling breaks [key_order_of_tools_per_commit]
    /// Does not find long names.
    CutsNames breaks [names_of_any_kind]
    /// Takes a ref to a blob for none.
    LosesDocuments breaks [ref_can_point_at_a_blob]
    /// Does not delete refs.
    KeepsRefs breaks [ref_can_be_deleted]
    /// Leaves the actual value out of a conflict.
    ForgetsFound breaks [conflict_says_what_was_found]
    /// Does not log what a ref was before.
    ForgetsBefore breaks [log_replays_to_the_refs]
    /// Gives the whole log for every query.
    IgnoresQueries breaks [log_can_be_asked_by_name_batch_and_number]
    /// Forgets why a write was made.
    ForgetsReasons breaks [log_keeps_what_was_said]
    /// Logs writes that move nothing.
    LogsEverything breaks [write_that_moves_nothing_logs_nothing]
    /// Compares expectations of edits whose value is there already.
    ComparesTooMuch breaks [edit_already_there_succeeds_and_logs_nothing]
    /// Says what is missing before it compares.
    MissesFirst breaks [conflict_comes_before_missing]
    /// Takes the last of two edits of one ref.
    TakesTwoEdits breaks [two_edits_of_one_ref_are_invalid]
    /// Silently skips edits of refs with an invalid target.
    LeavesOutBadTargets breaks [refs_point_only_where_they_may]
    /// Refuses a batch with a commit that is stored.
    RefusesKnown breaks [writing_again_changes_nothing new_commits_on_stored_ones]
    /// Refuses a batch of nothing.
    RefusesEmpty breaks [empty_batch_is_done]
    /// Looks for required objects only in the store, not in the batch.
    RequiresStored breaks [required_in_the_batch_is_enough]
    /// Acknowledges a batch with links to missing objects.
    AcknowledgesMissing breaks [
        missing_parent_is_refused missing_content_is_refused missing_verbatim_is_refused
        missing_changes_are_refused missing_kept_blob_is_refused missing_toolset_is_refused
        missing_schema_is_refused tool_row_of_what_is_missing_is_refused
        batch_that_needs_what_was_swept_is_refused
    ]
    /// Acknowledges a merge with a parent that is not there.
    ForgetsOtherParents breaks [missing_second_parent_is_refused]
    /// Keeps no more than the newest 1,000 entries of the ref log.
    CutsLog breaks [log_of_thousands_of_moves_is_whole]
    /// Acknowledges about every seventh move and does not write it.
    LosesMoves breaks [racing_appends_lose_nothing]
    /// Says conflict now and then where there is none.
    ConflictsFalsely breaks [branches_do_not_conflict]
    /// Shows half of a batch before the rest.
    ShowsHalf breaks [readers_see_whole_batches]
    /// Counts a blob too many.
    Miscounts breaks [stats_count_what_is_there]
    /// Finds damage where there is none.
    CriesWolf breaks [check_finds_nothing_wrong]
    /// Finds no damage at all.
    ChecksNothing breaks [commits_without_parents_are_reported]
    /// Claims to be able to do everything.
    Overclaims breaks [capabilities_are_as_claimed]
    /// Leaves the last object out of a listing.
    ListsFew breaks [listing_gives_every_object_once]
    /// Does not count writes that move no ref.
    CountsRefsOnly breaks [
        position_counts_every_write sweep_after_a_write_is_refused
        unreached_objects_count_as_unlogged
    ]
    /// Sweeps although others wrote since the mark.
    SweepsAnyway breaks [sweep_after_a_write_is_refused]
    /// Says that it swept, and deletes nothing.
    SweepsNothing breaks [
        swept_objects_are_gone batch_that_needs_what_was_swept_is_refused swept_tools_are_forgotten
    ]
    /// Deletes content that was to stay: all of a swept commit.
    SweepsContent breaks [shared_content_outlives_a_sweep]
    /// Sweeps all repositories.
    SweepsEverywhere breaks [sweeps_leave_other_repositories]
    /// Gives no entry of the log that names something swept.
    CutsSweptLog breaks [log_names_what_was_swept]
    /// Makes no erasure, and deletes nothing.
    ErasesNothing breaks [erased_blob_is_gone_with_the_write erased_blob_is_refused]
    /// Says that it stored what was erased.
    TakesErased breaks [erased_blob_is_refused]
    /// Rejects links to erased objects, even if the batch names the erasure.
    RefusesErasedLinks breaks [links_to_what_is_erased_come_with_the_erasure]
    /// Never ends an erasure.
    KeepsErasures breaks [erasure_that_ends_lets_the_blob_be_stored]
    /// Erases before it compares what is expected.
    ErasesAnyway breaks [refused_erasure_deletes_nothing]
    /// Erases in all repositories.
    ErasesEverywhere breaks [erasures_leave_other_repositories]
    /// Says that it repacked, and does not.
    RepacksNothing breaks [repacked_blobs_read_the_same others_write_between_the_steps_of_a_repack]
    /// Restores nothing, and reports that nothing was damaged.
    RestoresNothing breaks [restored_objects_are_stored restored_objects_stay]
    /// Restores what was erased.
    RestoresErased breaks [restore_leaves_out_what_was_erased]
    /// Says that it restored what was whole.
    RestoreMiscounts breaks [restore_leaves_what_is_whole]
    /// Restores only what has all that it links to.
    RestoresInOrder breaks [restored_links_may_come_later]
    /// Restores in all repositories.
    RestoresEverywhere breaks [restore_leaves_other_repositories]
    /// Repacks all repositories.
    RepacksEverywhere breaks [repack_leaves_other_repositories]
    /// Deletes a blob while it repacks.
    RepackLoses breaks [
        repacked_blobs_read_the_same repack_leaves_other_repositories
        others_write_between_the_steps_of_a_repack repack_that_was_cut_short_begins_again
        wiped_store_reads_what_was_packed_with_what_is_erased
    ]
    /// Counts a blob that is not there.
    RepackMiscounts breaks [repack_of_nothing_is_done_at_once repacked_blobs_read_the_same]
    /// Continues after it was closed.
    StaysOpen breaks [closed_store_refuses]
}
