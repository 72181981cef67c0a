//! A store that breaks one promise, to test whether the contract notices it.

mod erasures;
mod repacks;
mod restores;
mod store;
mod sweeps;

use crate::watched::WatchedStore;

/// A store that keeps all promises but one.
pub type FaultyStore = WatchedStore<Fault>;

macro_rules! faults {
    ($($(#[$meaning:meta])* $fault:ident breaks [$($case:ident)*])*) => {
        /// The promise that is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$meaning])* $fault,)*
        }

        impl Fault {
            /// All faults.
            pub const ALL: &'static [Self] = &[$(Self::$fault),*];

            /// Returns the names of contract cases that fail with the fault. Others may fail, too.
            pub fn breaks(self) -> &'static [&'static str] {
                match self {
                    $(Self::$fault => &[$(stringify!($case)),*],)*
                }
            }
        }
    };
}

faults! {
    /// Leaves missing objects out instead of answering `None`.
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
    /// Never returns the start of the next page.
    LosesPages breaks [walk_ends_after_limit]
    /// Follows symbolic refs.
    FollowsRefs breaks [symbolic_ref_is_not_followed]
    /// Moves refs without comparing the expected value.
    IgnoresExpectations breaks [
        two_refs_one_stale_moves_none expectations_are_compared racing_writers_have_one_winner
        same_text_same_microsecond_two_writers_two_commits
    ]
    /// Does not recognize a repeated batch.
    ForgetsBatches breaks [
        lost_ack_then_undo_then_retry_stays_undone same_batch_again_is_already
        already_comes_before_expectations import_twice_logs_nothing
    ]
    /// Writes the objects of a batch that it rejects.
    AppliesHalf breaks [refused_batch_leaves_no_trace]
    /// Writes a batch that requires a missing object.
    IgnoresLinks breaks [missing_required_is_refused]
    /// Reads commits and ids of one repository, whichever is requested.
    MixesRepositories breaks [repositories_are_apart repository_prefix_lookup_apart]
    /// Keeps the older derived row.
    KeepsOldRows breaks [derived_row_is_replaced]
    /// Returns the ref log oldest first.
    LogsBackwards breaks [log_is_newest_first]
    /// Lists names unsorted.
    ListsUnsorted breaks [
        tool_names_sorted_each_once refs_are_listed_by_prefix_sorted repositories_are_listed_sorted
    ]
    /// Returns more ids than requested.
    IgnoresLimit breaks [prefix_gives_at_most_limit_sorted]
    /// Drops the last blob of a batch that moves no ref, and acknowledges it.
    LosesWrites breaks [any_number_of_blobs_in_one_call]
    /// Answers a key only once if a call has it twice.
    AnswersOnce breaks [same_blob_twice_is_answered_twice]
    /// Returns at most 1,000 of the requested objects.
    AnswersFew breaks [any_number_of_blobs_in_one_call any_number_of_commits_in_one_call]
    /// Treats an empty blob as missing.
    LosesEmptyBlobs breaks [blob_of_0_bytes]
    /// Treats blobs of more than a megabyte as missing.
    LosesLargeBlobs breaks [blob_of_16_mib]
    /// Cuts a blob at its first zero byte.
    EndsAtZero breaks [blob_of_any_bytes]
    /// Returns invalid hints, and trusts them.
    TrustsHints breaks [wrong_hint_costs_no_truth walk_hints_lead_to_content]
    /// Treats the empty toolset as missing.
    LosesEmptyToolsets breaks [empty_toolset_is_a_toolset]
    /// Drops the last tool of a toolset.
    LosesTools breaks [test_get_for_commit test_link_to_commit real_conversations_come_back]
    /// Returns a derived row of any kind.
    MixesKinds breaks [derived_kinds_are_apart]
    /// Keeps derived rows that it should drop.
    KeepsDerived breaks [drop_derived_leaves_the_rest]
    /// Finds only blobs by their first digits.
    FindsBlobsOnly breaks [prefix_finds_every_kind_of_object]
    /// Compares only the first 16 digits.
    CutsPrefixes breaks [prefix_of_all_digits_finds_one]
    /// Loses metadata.
    ForgetsMetadata breaks [commit_is_complete]
    /// Keeps only the first parent.
    ForgetsParents breaks [merge_keeps_all_parents]
    /// Skips the third commit of a walk.
    SkipsCommits breaks [walk_equals_following_parents walk_of_forks two_branches_one_tip undo_then_append]
    /// Returns a page after the one with the root.
    WalksPastTheRoot breaks [walk_ends_at_the_root]
    /// Skips a commit between two pages.
    SkipsAtPages breaks [walk_pages_join_while_others_write]
    /// Treats a missing start as an empty history.
    EmptyForUnknown breaks [walk_of_unknown_head_is_missing tools_of_unknown_commit_is_missing]
    /// Ends a walk after 1,000 commits.
    WalksShort breaks [walk_20000_deep]
    /// Sorts a walk by time.
    OrdersByTime breaks [time_and_order_of_writing_do_not_matter]
    /// Loses the first sighting of a tool.
    ForgetsTimes breaks [test_store_and_get]
    /// Lists a definition once per write.
    RepeatsDefinitions breaks [test_store_idempotent]
    /// Lists the versions of a tool newest first.
    ReversesVersions breaks [test_get_by_name]
    /// Keeps only one spelling of a tool.
    KeepsOneSpelling breaks [key_order_of_tools_per_commit]
    /// Does not find long names.
    CutsNames breaks [names_of_any_kind]
    /// Treats a ref to a blob as missing.
    LosesDocuments breaks [ref_can_point_at_a_blob]
    /// Does not delete refs.
    KeepsRefs breaks [ref_can_be_deleted]
    /// Leaves the actual value out of a conflict.
    ForgetsFound breaks [conflict_says_what_was_found]
    /// Does not log the old value of a ref.
    ForgetsBefore breaks [log_replays_to_the_refs]
    /// Returns the whole log for every query.
    IgnoresQueries breaks [log_can_be_asked_by_name_batch_and_number]
    /// Loses the reason of a write.
    ForgetsReasons breaks [log_keeps_what_was_said]
    /// Logs writes that move nothing.
    LogsEverything breaks [write_that_moves_nothing_logs_nothing]
    /// Compares the expected value although the ref already has the new one.
    ComparesTooMuch breaks [edit_already_there_succeeds_and_logs_nothing]
    /// Checks for missing objects before it compares expected values.
    MissesFirst breaks [conflict_comes_before_missing]
    /// Uses the last of two edits of one ref.
    TakesTwoEdits breaks [two_edits_of_one_ref_are_invalid]
    /// Silently skips edits of refs with an invalid target.
    LeavesOutBadTargets breaks [refs_point_only_where_they_may]
    /// Rejects a batch with a stored commit.
    RefusesKnown breaks [writing_again_changes_nothing new_commits_on_stored_ones]
    /// Rejects an empty batch.
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
    /// Acknowledges a merge with a missing parent.
    ForgetsOtherParents breaks [missing_second_parent_is_refused]
    /// Keeps only the newest 1,000 entries of the ref log.
    CutsLog breaks [log_of_thousands_of_moves_is_whole]
    /// Acknowledges about every seventh move without writing it.
    LosesMoves breaks [racing_appends_lose_nothing]
    /// Reports a conflict for about every seventh write, without a cause.
    ConflictsFalsely breaks [branches_do_not_conflict]
    /// Shows a part of a batch before the rest.
    ShowsHalf breaks [readers_see_whole_batches]
    /// Counts one blob too many.
    Miscounts breaks [stats_count_what_is_there]
    /// Reports damage in an intact store.
    CriesWolf breaks [check_finds_nothing_wrong]
    /// Never reports damage.
    ChecksNothing breaks [commits_without_parents_are_reported]
    /// Claims all capabilities.
    Overclaims breaks [capabilities_are_as_claimed]
    /// Leaves the last object out of a listing.
    ListsFew breaks [listing_gives_every_object_once]
    /// Does not count writes that move no ref.
    CountsRefsOnly breaks [
        position_counts_every_write sweep_after_a_write_is_refused
        unreached_objects_count_as_unlogged
    ]
    /// Applies a batch although others wrote since the position that it requires.
    IgnoresPositions breaks [
        batch_after_a_write_is_refused racing_batches_at_one_position_have_one_winner
    ]
    /// Sweeps although others wrote since the mark.
    SweepsAnyway breaks [sweep_after_a_write_is_refused]
    /// Reports a sweep, and deletes nothing.
    SweepsNothing breaks [
        swept_objects_are_gone batch_that_needs_what_was_swept_is_refused swept_tools_are_forgotten
    ]
    /// Deletes the content of a swept commit although it is still needed.
    SweepsContent breaks [shared_content_outlives_a_sweep]
    /// Sweeps all repositories.
    SweepsEverywhere breaks [sweeps_leave_other_repositories]
    /// Hides entries of the log that name swept commits.
    CutsSweptLog breaks [log_names_what_was_swept]
    /// Neither records an erasure nor deletes anything.
    ErasesNothing breaks [erased_blob_is_gone_with_the_write erased_blob_is_refused]
    /// Acknowledges a write of an erased blob.
    TakesErased breaks [erased_blob_is_refused]
    /// Rejects links to erased objects even if the batch names the erasure.
    RefusesErasedLinks breaks [links_to_what_is_erased_come_with_the_erasure]
    /// Never ends an erasure.
    KeepsErasures breaks [erasure_that_ends_lets_the_blob_be_stored]
    /// Erases before it compares expected values.
    ErasesAnyway breaks [refused_erasure_deletes_nothing]
    /// Erases in all repositories.
    ErasesEverywhere breaks [erasures_leave_other_repositories]
    /// Reports a repack, and does nothing.
    RepacksNothing breaks [repacked_blobs_read_the_same others_write_between_the_steps_of_a_repack]
    /// Restores nothing, and reports that nothing was damaged.
    RestoresNothing breaks [restored_objects_are_stored restored_objects_stay]
    /// Restores erased objects.
    RestoresErased breaks [restore_leaves_out_what_was_erased]
    /// Reports intact objects as restored.
    RestoreMiscounts breaks [restore_leaves_what_is_whole]
    /// Restores an object only if everything it links to is stored.
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
    /// Counts a blob that does not exist.
    RepackMiscounts breaks [repack_of_nothing_is_done_at_once repacked_blobs_read_the_same]
    /// Continues to work after it was closed.
    StaysOpen breaks [closed_store_refuses]
}
