//! Reasons why a planner refuses a request.

use std::fmt;

use serde::{Deserialize, Serialize};
use tract_core::{CallRef, CommitId};

/// A call without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The message that contains it, and its position there.
    pub call: CallRef,
}

/// A [`Resolution`](super::Resolution) without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResolutionKind {
    /// Our side.
    Ours,
    /// Their side.
    Theirs,
    /// Both sides.
    Both,
    /// A new text.
    Text,
}

impl ResolutionKind {
    /// Returns the stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Theirs => "theirs",
            Self::Both => "both",
            Self::Text => "text",
        }
    }
}

impl fmt::Display for ResolutionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of a conflict between two sides of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// Both changed the content of a message.
    Version,
    /// Both changed a message's priority or retention.
    Mark,
    /// One removed a message that the other changed, or both added it differently.
    Presence,
    /// Both answered one call, or one answered a call that the other side removed.
    Answer,
    /// Two summaries overlap, or one covers a message that the other side changed.
    Summary,
    /// Both changed the tools.
    Tools,
}

impl ConflictKind {
    /// Returns the stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Mark => "mark",
            Self::Presence => "presence",
            Self::Answer => "answer",
            Self::Summary => "summary",
            Self::Tools => "tools",
        }
    }

    /// Parses the stable code.
    pub fn parse(word: &str) -> Option<Self> {
        use ConflictKind::{Answer, Mark, Presence, Summary, Tools, Version};
        let all = [Version, Mark, Presence, Answer, Summary, Tools];
        all.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// One conflict of a merge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MergeConflict {
    /// The kind of conflict.
    pub kind: ConflictKind,
    /// The message concerned; none for the tools.
    pub slot: Option<CommitId>,
    /// The commit of our side, if there is one.
    pub ours: Option<CommitId>,
    /// The commit of their side, if there is one.
    pub theirs: Option<CommitId>,
}

impl fmt::Display for MergeConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        if let Some(slot) = self.slot {
            write!(f, " of {}", slot.short())?;
        }
        let side = |id: Option<CommitId>| id.map_or_else(|| "absent".to_owned(), |id| id.short());
        match (self.ours, self.theirs) {
            (None, None) => Ok(()),
            (ours, theirs) => write!(f, " (ours {}, theirs {})", side(ours), side(theirs)),
        }
    }
}

/// The reason why a request is refused. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The message is not a row of the view.
    #[error("message {} is not visible{}", .target.short(), hidden_text(.hidden_by))]
    NotVisible {
        /// The target.
        target: CommitId,
        /// The summary it is under, or the commit of this history that removed it; `None` if it was
        /// never part of this history.
        hidden_by: Option<CommitId>,
    },
    /// The target is not a version of a message.
    #[error("expected a message, found {} ({op})", .target.short())]
    NoMessage {
        /// The target.
        target: CommitId,
        /// The name of its operation.
        op: String,
    },
    /// The request has no targets.
    #[error("no commit was named")]
    NoTargets,
    /// The targets only set tools, and reverting them would not change the tools in force.
    #[error("nothing to revert: {} changes nothing here", short_ids(.targets))]
    NothingToRevert {
        /// The commits to revert.
        targets: Vec<CommitId>,
    },
    /// Later commits changed the same fields.
    #[error("cannot revert {}: {} changed the same since", .target.short(), short_ids(.by))]
    Superseded {
        /// The commit to revert.
        target: CommitId,
        /// The commits to revert first.
        by: Vec<CommitId>,
    },
    /// A message changed after its edit was deferred, or shown to a handler.
    #[error(
        "message {} has changed since this edit was asked for: {} replaced what it said",
        .target.short(), .version.short()
    )]
    ChangedSince {
        /// The target.
        target: CommitId,
        /// Its current version.
        version: CommitId,
    },
    /// A message would be shown next to its summary, or have two summaries.
    #[error("message {} would show next to its summary {}", .target.short(), .by.short())]
    Hidden {
        /// The message.
        target: CommitId,
        /// The summary.
        by: CommitId,
    },
    /// The two sides of a merge disagree.
    #[error("{} conflict{}", .0.len(), if .0.len() == 1 { "" } else { "s" })]
    Conflicts(Vec<MergeConflict>),
    /// The resolution is not legal for the conflict.
    #[error("\"{resolution}\" does not resolve the conflict: {conflict}")]
    IllegalResolution {
        /// The conflict.
        conflict: Box<MergeConflict>,
        /// The rejected resolution.
        resolution: ResolutionKind,
        /// The legal resolutions.
        legal: Vec<ResolutionKind>,
    },
    /// The two histories share no commit.
    #[error("the histories have no commit in common")]
    Unrelated,
    /// A commit cannot be replayed here: the message it changes has another content or priority.
    #[error("{} cannot be repeated: {} changed the same", .target.short(), .by.short())]
    ChangedHere {
        /// The commit to replay.
        target: CommitId,
        /// The commit that the message has its current content or priority from.
        by: CommitId,
    },
    /// Commits of this operation cannot be replayed on another history.
    #[error("{} ({op}) cannot be repeated on another history", .target.short())]
    CannotReplay {
        /// The commit.
        target: CommitId,
        /// The name of its operation.
        op: String,
    },
    /// Several commits cannot be replayed, each with its reason.
    #[error("{} commit{} cannot be repeated", .0.len(), if .0.len() == 1 { "" } else { "s" })]
    Replay(Vec<(CommitId, Refusal)>),
    /// The context already contains everything that should be picked.
    #[error("nothing to pick")]
    NothingToPick,
    /// A commit is outside of the range to rebase: it is not on the branch, or it is before the
    /// first commit to rebase.
    #[error("{} is not among the commits to rebase", .target.short())]
    NotInRange {
        /// The commit.
        target: CommitId,
    },
    /// A rebase plan omits a commit, or names one twice.
    #[error("the plan must name {} once", .target.short())]
    IncompletePlan {
        /// The commit.
        target: CommitId,
    },
    /// A message would be inserted between a call and its result, or between reasoning and its
    /// answer.
    #[error("the place is inside the turn of {}", .call.short())]
    InsideTurn {
        /// The message with the call, or the reasoning.
        call: CommitId,
    },
    /// A message would be inserted between two messages that one merge added.
    #[error("no message can be placed directly after {}", .target.short())]
    InsideMerge {
        /// The message that it was to follow.
        target: CommitId,
    },
    /// A commit would be dropped, but a later merge of the branch brings it back.
    #[error("{} cannot be dropped: a branch that is merged later contains it", .target.short())]
    MergedLater {
        /// The commit.
        target: CommitId,
    },
    /// A commit would be replayed whose content was erased.
    #[error("its content was erased, and a copy of the commit would need it")]
    ReplaysErased {
        /// The commit.
        target: CommitId,
    },
    /// The branch would be left without a commit.
    #[error("nothing would be left of the branch")]
    EmptyBranch,
    /// A result names a call that is not open.
    #[error("no open call \"{call_id}\"")]
    NoOpenCall {
        /// The id of the call.
        call_id: String,
        /// The calls that are open, nearest first.
        open: Vec<OpenCall>,
    },
    /// A result names a call that is already answered.
    #[error("call \"{call_id}\" is answered already by {}", .by.short())]
    AlreadyAnswered {
        /// The id of the call.
        call_id: String,
        /// The message that answers it.
        by: CommitId,
    },
    /// An edit would change the kind or role of a message.
    #[error("edit of {}: expected {expected}, found {found}", .target.short())]
    OtherKind {
        /// The target.
        target: CommitId,
        /// Its kind or role.
        expected: String,
        /// The kind or role of the edit.
        found: String,
    },
    /// An edit would change the tool calls of a message.
    #[error("edit of {} would change its tool calls", .target.short())]
    OtherCalls {
        /// The target.
        target: CommitId,
        /// The ids of its calls.
        calls: Vec<String>,
    },
    /// No message is left to summarize.
    #[error("nothing is left to be summarized")]
    NothingLeft {
        /// Number of selected messages that are pinned or grouped with a pinned one.
        pinned: usize,
        /// Number of selected messages that belong to an open call.
        open: usize,
    },
}

impl Refusal {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotVisible { .. } => "not_visible",
            Self::NoMessage { .. } => "no_message",
            Self::NoTargets => "no_targets",
            Self::NothingToRevert { .. } => "nothing_to_revert",
            Self::Superseded { .. } => "superseded",
            Self::ChangedSince { .. } => "changed_since",
            Self::Hidden { .. } => "hidden",
            Self::Conflicts(_) => "merge_conflicts",
            Self::IllegalResolution { .. } => "illegal_resolution",
            Self::Unrelated => "unrelated",
            Self::ChangedHere { .. } => "changed_here",
            Self::CannotReplay { .. } => "cannot_replay",
            Self::Replay(_) => "replay_conflicts",
            Self::NothingToPick => "nothing_to_pick",
            Self::NotInRange { .. } => "not_in_range",
            Self::IncompletePlan { .. } => "incomplete_plan",
            Self::InsideTurn { .. } => "inside_turn",
            Self::InsideMerge { .. } => "inside_merge",
            Self::MergedLater { .. } => "merged_later",
            Self::ReplaysErased { .. } => "erased",
            Self::EmptyBranch => "empty_branch",
            Self::NoOpenCall { .. } => "no_open_call",
            Self::AlreadyAnswered { .. } => "already_answered",
            Self::OtherKind { .. } => "other_kind",
            Self::OtherCalls { .. } => "other_calls",
            Self::NothingLeft { .. } => "nothing_left",
        }
    }

    /// Returns hints about what to do.
    pub fn notes(&self) -> Vec<String> {
        let note = match self {
            Self::NotVisible { hidden_by: Some(by), .. } => format!(
                "commit {by} removed it from the context: revert that commit, or name another message",
                by = by.short()
            ),
            Self::NotVisible { hidden_by: None, .. } => {
                "it is not on this branch; check out the branch that has it".into()
            }
            Self::NoMessage { .. } => {
                "name the commit that added the message, or an edit of it".into()
            }
            Self::NoTargets => "name at least one commit".into(),
            Self::Superseded { by, .. } => {
                format!("revert {} first, or revert with cascade", short_ids(by))
            }
            Self::ChangedSince { version, .. } => format!(
                "it now says what {} says; reject this edit, and edit again if it is still needed",
                version.short()
            ),
            Self::Hidden { by, .. } => format!("revert the summary {} first", by.short()),
            Self::Conflicts(conflicts) => {
                return first_and(
                    conflicts.iter().map(MergeConflict::to_string),
                    "merge again with a resolution for each, such as --ours, --theirs or --both, \
                     or with --keep to decide later",
                );
            }
            Self::IllegalResolution { legal, .. } => {
                format!("use {}", list(legal.iter().map(ToString::to_string)))
            }
            Self::Unrelated => "merge them anyway with --allow-unrelated (allow_unrelated)".into(),
            Self::ChangedHere { by, .. } => format!(
                "{} is in force here: edit the message by hand, or leave the commit out",
                by.short()
            ),
            Self::CannotReplay { op, .. } if op == "merge" => {
                "pick the commits that it brought in, or merge again".into()
            }
            Self::CannotReplay { .. } => "leave the commit out".into(),
            Self::Replay(refused) => {
                return first_and(
                    refused.iter().map(|(commit, why)| format!("{}: {why}", commit.short())),
                    "leave these commits out with a plan, or merge instead",
                );
            }
            Self::NothingToRevert { .. } => {
                "`tract show` prints what a commit changed; `tract log` lists the commits".into()
            }
            Self::NothingToPick => "its messages and changes are here already".into(),
            Self::NotInRange { .. } => {
                "`tract log` lists the commits of the branch; to leave out a message that a merge \
                 brought: tract annotate REV --priority skip"
                    .into()
            }
            Self::IncompletePlan { .. } => {
                "name each commit once, with \"pick\" or \"drop\"".into()
            }
            Self::InsideTurn { .. } => {
                "name the last message of the turn, or the one before it".into()
            }
            Self::InsideMerge { .. } => {
                "a merge added it together with the next message: name the last message of the \
                 merge, or the one before its first"
                    .into()
            }
            Self::MergedLater { .. } => {
                "to leave the message out of the context: tract annotate REV --priority skip".into()
            }
            Self::ReplaysErased { .. } => {
                "only commits after it can be replayed: choose a later place to start".into()
            }
            Self::EmptyBranch => "delete the branch instead: tract branch --delete".into(),
            Self::NoOpenCall { open, .. } if open.is_empty() => "no call is open".into(),
            Self::NoOpenCall { open, .. } => {
                let calls = open.iter().take(10).map(|open| {
                    format!("\"{}\" {} ({})", open.call_id, open.name, open.call.slot.short())
                });
                let more = match open.len() {
                    0..=10 => String::new(),
                    n => format!(" and {} more", n - 10),
                };
                format!("open calls: {}{more}", list(calls))
            }
            Self::AlreadyAnswered { by, .. } => {
                format!("edit the answer {by} instead, or revert it first", by = by.short())
            }
            Self::OtherKind { .. } => {
                "skip the message and commit a new one of the other kind".into()
            }
            Self::OtherCalls { calls, .. } => format!(
                "keep the calls as they are ({}), or revert the answers first",
                list(calls.iter().map(|id| format!("\"{id}\"")))
            ),
            Self::NothingLeft { pinned: 0, open: 0 } => {
                "select messages that the context shows: the selected ones are skipped, removed or \
                 summarized already"
                    .into()
            }
            Self::NothingLeft { pinned, open } => {
                let left = [
                    (pinned, "pinned: annotate them as normal first"),
                    (open, "belong to open calls: answer those first"),
                ];
                let left = left.iter().filter(|(count, _)| **count > 0);
                return left.map(|(count, what)| format!("{count} {what}")).collect();
            }
        };
        vec![note]
    }
}

/// Returns the first 20 items, the number of further ones, and the way out.
fn first_and(items: impl ExactSizeIterator<Item = String>, way_out: &str) -> Vec<String> {
    let more = items.len().saturating_sub(20);
    let mut notes: Vec<String> = items.take(20).collect();
    if more > 0 {
        notes.push(format!("and {more} more"));
    }
    notes.push(way_out.to_owned());
    notes
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn short_ids(ids: &[CommitId]) -> String {
    list(ids.iter().map(CommitId::short))
}

fn hidden_text(hidden_by: &Option<CommitId>) -> String {
    hidden_by.map_or_else(|| " here".to_owned(), |by| format!(": hidden by {}", by.short()))
}
