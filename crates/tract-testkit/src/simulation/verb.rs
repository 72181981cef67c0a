//! The verbs of clients, by name.

use std::fmt;
use std::str::FromStr;

/// Passes a row for each verb of the engine to a macro: its meaning, its name, and the function of
/// `verbs` that executes it.
macro_rules! for_each_verb {
    ($rows:ident) => {
        $rows! {
            /// Appends a message.
            Commit "commit" = history::commit;
            /// Appends a message with the text of another message, so that both have one content.
            Repeat "commit, repeated" = history::repeat;
            /// Appends a message with a call, and the result of the call.
            Turn "turn" = history::turn;
            /// Replaces the text of a message.
            Edit "edit" = history::edit;
            /// Sets the priority of a message.
            Annotate "annotate" = history::annotate;
            /// Replaces messages by a summary.
            Compress "compress" = history::compress;
            /// Reverts a commit.
            Revert "revert" = history::revert;
            /// Merges a branch into another one, and resolves conflicts.
            Merge "merge" = history::merge;
            /// Merges a branch into another one, and keeps conflicts.
            KeepMerge "merge --keep" = history::keep_merge;
            /// Cherry-picks a commit of another branch.
            CherryPick "cherry-pick" = history::cherry_pick;
            /// Rebases a branch onto another one.
            Rebase "rebase" = history::rebase;
            /// Drops a commit from a branch.
            Drop "drop" = history::drop_commit;
            /// Inserts a message in the middle of a branch.
            Insert "insert" = history::insert;
            /// Moves a branch to another commit.
            Reset "reset" = history::reset;
            /// Creates a branch.
            CreateBranch "branch" = history::create_branch;
            /// Deletes a branch.
            DeleteBranch "branch --delete" = history::delete_branch;
            /// Renames a branch.
            RenameBranch "branch --rename" = history::rename_branch;
            /// Creates or deletes a tag.
            Tag "tag" = history::tag;
            /// Points `HEAD` to another branch.
            Checkout "checkout" = history::checkout;
            /// Undoes the last operation on a branch.
            Undo "undo" = history::undo;
            /// Redoes an undone operation.
            Redo "redo" = history::redo;
            /// Sets the active tools.
            SetTools "tools set" = history::set_tools;
            /// Stores a pending operation.
            Defer "defer" = history::defer;
            /// Decides a pending operation.
            Decide "decide" = history::decide;
            /// Imports conversations, some of which diverged from their earlier import.
            Import "import" = move_data::import;
            /// Imports a conversation whose commits are stored in several batches.
            ImportLarge "import, large" = move_data::import_large;
            /// Applies a stream line by line.
            Apply "apply" = move_data::apply;
            /// Applies a stream atomically.
            ApplyAtomic "apply --atomic" = move_data::apply_atomic;
            /// Writes an export to a file.
            Export "export" = move_data::export;
            /// Writes a bundle to a file.
            CreateBundle "bundle create" = move_data::create_bundle;
            /// Applies a file that a client wrote.
            ApplyFile "bundle apply" = move_data::apply_file;
            /// Pushes to the other store.
            Push "push" = move_data::push;
            /// Fetches from the other store.
            Fetch "fetch" = move_data::fetch;
            /// Fetches from the other store, and fast-forwards branches.
            Pull "pull" = move_data::pull;
            /// Copies everything to the other store.
            Copy "copy" = move_data::copy;
            /// Deletes unreachable objects.
            Gc "gc" = upkeep::gc;
            /// Deletes unreachable objects, including those that were reachable a moment ago.
            GcNow "gc --keep 0s" = upkeep::gc_now;
            /// Deletes old branches.
            Prune "prune" = upkeep::prune;
            /// Erases the content of a message.
            Erase "erase" = upkeep::erase;
            /// Replaces secrets in all messages.
            Redact "redact" = upkeep::redact;
            /// Rewrites blobs smaller.
            Repack "repack" = upkeep::repack;
            /// Verifies the store.
            Verify "verify" = upkeep::verify;
            /// Searches for words, which writes the index.
            Search "search" = read::search_words;
            /// Lists tool turns, which writes the index.
            Turns "turns" = read::turns;
            /// Searches for a text in all messages.
            Grep "grep" = read::grep_text;
            /// Lists the author of the last change of each message.
            Blame "blame" = read::blame_messages;
            /// Compiles the context of a branch.
            Compile "compile" = read::compile;
        }
    };
}

macro_rules! names {
    ($($(#[$meaning:meta])* $verb:ident $name:literal = $run:path;)*) => {
        /// The action of a step. Its arguments follow from the seed of the schedule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Verb {
            $($(#[$meaning])* $verb,)*
            /// A caller's verb, by its name.
            Own(&'static str),
        }

        impl Verb {
            /// All verbs of the engine.
            pub const ALL: &'static [Self] = &[$(Self::$verb),*];

            /// Returns its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$verb => $name,)*
                    Self::Own(name) => name,
                }
            }
        }
    };
}

for_each_verb!(names);

pub(super) use for_each_verb;

impl FromStr for Verb {
    type Err = UnknownVerb;

    fn from_str(name: &str) -> Result<Self, UnknownVerb> {
        let verb = Self::ALL.iter().copied().find(|verb| verb.name() == name);
        verb.ok_or_else(|| UnknownVerb { name: name.to_owned() })
    }
}

/// A name that is not a [`Verb`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown verb {name:?}")]
pub struct UnknownVerb {
    /// The name.
    pub name: String,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Verb {
    /// Returns whether it may remove commits from a branch.
    pub(super) fn removes_commits(self) -> bool {
        matches!(
            self,
            Self::Rebase
                | Self::Drop
                | Self::Insert
                | Self::Reset
                | Self::DeleteBranch
                | Self::RenameBranch
                | Self::Undo
                | Self::Redo
                | Self::Prune
        )
    }

    /// Returns whether it deletes, or is affected by deletions of others.
    pub(super) fn meets_others(self) -> bool {
        matches!(
            self,
            Self::GcNow
                | Self::Import
                | Self::Erase
                | Self::Search
                | Self::Verify
                | Self::Push
                | Self::DeleteBranch
                | Self::CreateBranch
                | Self::Own(_)
        )
    }

    /// Returns whether it can store a text again that another client has erased.
    pub(super) fn brings_back(self) -> bool {
        let from_elsewhere =
            matches!(self, Self::Repeat | Self::Import | Self::ImportLarge | Self::ApplyFile);
        from_elsewhere || self.needs_two_stores()
    }

    /// Returns whether it copies data between the stores.
    pub(super) fn needs_two_stores(self) -> bool {
        matches!(self, Self::Push | Self::Fetch | Self::Pull | Self::Copy)
    }
}
