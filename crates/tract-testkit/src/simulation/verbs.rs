//! The verbs of clients.

mod history;
mod move_data;
mod own;
mod read;
mod upkeep;

use std::fmt;
use std::str::FromStr;

use tract_core::{CommitId, RefName};
use tract_engine::{Error, log};

pub(super) use self::move_data::imported;
pub use self::own::{OwnError, OwnStep, OwnVerb};
pub(super) use self::read::compare_search;
use super::client::Session;
use super::world::{BRANCHES, branch};

/// The reported results of a verb.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// Commits that were reachable from a branch after the verb.
    pub(super) commits: Vec<CommitId>,
    /// Other commits that the verb reported.
    pub(super) stored: Vec<CommitId>,
}

impl Acknowledged {
    fn commits(commits: impl IntoIterator<Item = CommitId>) -> Self {
        Self { commits: commits.into_iter().collect(), stored: Vec::new() }
    }
}

type Outcome = Result<Acknowledged, Error>;

macro_rules! verbs {
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

            pub(super) async fn run(self, session: &mut Session<'_>) -> Outcome {
                match self {
                    $(Self::$verb => Box::pin($run(session)).await,)*
                    Self::Own(name) => own::run(session, name).await,
                }
            }
        }
    };
}

verbs! {
    /// Appends a message.
    Commit "commit" = history::commit;
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

    /// Returns whether it names commits by id, including unreachable ones.
    pub(super) fn names_any_commit(self) -> bool {
        matches!(self, Self::Reset | Self::CreateBranch | Self::Tag)
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
        let from_elsewhere = matches!(self, Self::Import | Self::ImportLarge | Self::ApplyFile);
        from_elsewhere || self.needs_two_stores()
    }

    /// Returns whether it copies data between the stores.
    pub(super) fn needs_two_stores(self) -> bool {
        matches!(self, Self::Push | Self::Fetch | Self::Pull | Self::Copy)
    }
}

/// Words that occur in many messages.
const WORDS: [&str; 3] = ["alpha", "beta", "gamma"];

impl Session<'_> {
    /// Chooses a branch, `main` most often. It may not exist.
    fn branch(&mut self) -> RefName {
        let at = self.random.below(BRANCHES.len() * 2);
        branch(BRANCHES.get(at).unwrap_or(&BRANCHES[0]))
    }

    /// Makes the text of a message: a common word and a unique one.
    fn text(&mut self) -> String {
        let mut own = self.random.next();
        // No hexadecimal digits, so that no id contains the word by chance.
        let letter = |_| {
            own >>= 4;
            char::from(b'g' + (own % 16) as u8)
        };
        let own: String = (0..8).map(letter).collect();
        format!("{} {own}", WORDS[self.random.below(WORDS.len())])
    }

    /// Makes a text, sometimes with a secret, which is also returned.
    fn text_with_secret(&mut self) -> (String, Option<String>) {
        let text = self.text();
        if !self.random.chance(20) {
            return (text, None);
        }
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let letter = |_| char::from(*self.random.choose(letters).unwrap_or(&b'A'));
        // In the format of an access key id.
        let secret = format!("AKIA{}", (0..16).map(letter).collect::<String>());
        (format!("{text} {secret}"), Some(secret))
    }

    async fn head(&self, name: &RefName) -> Result<CommitId, Error> {
        match self.repo.head_of(name).await? {
            Some(head) => Ok(head),
            None => {
                let name = name.branch_name().unwrap_or_default().to_owned();
                Err(Error::UnknownBranch { name, nearest: Vec::new() })
            }
        }
    }

    async fn heads(&self) -> Result<Vec<CommitId>, Error> {
        Ok(self.repo.branches().await?.into_iter().map(|branch| branch.head).collect())
    }

    /// Selects one of the last commits of a branch.
    async fn commit_of(&mut self, name: &RefName) -> Result<CommitId, Error> {
        let head = self.head(name).await?;
        let page = log(&self.repo, head, 8).await?;
        Ok(self.random.choose(&page.commits).map_or(head, tract_core::Commit::id))
    }

    /// Selects a message of a branch's context.
    async fn message_of(&mut self, name: &RefName) -> Result<CommitId, Error> {
        let head = self.head(name).await?;
        let compiled = self.repo.compile(Some(head)).await?;
        let ids: Vec<CommitId> = compiled.commit_ids().collect();
        Ok(self.random.choose(&ids).copied().unwrap_or(head))
    }
}
