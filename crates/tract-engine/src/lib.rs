//! Planners and the write path: git's verbs over contexts.
#![forbid(unsafe_code)]

mod answer_facts;
mod apply;
mod blame;
mod branch;
mod bundle;
mod cache_use;
mod carry;
mod chat;
mod chosen;
mod conflicts;
mod copy;
mod counts;
mod diff;
mod diff_line;
mod documents;
mod erase;
mod error;
mod export;
mod fetch;
mod gc;
pub mod graph;
mod grep;
mod heads;
mod import;
mod lease;
mod log;
mod lost;
mod merge;
mod normal;
mod operation;
mod overlay;
mod pending;
pub mod plan;
mod prune;
mod question;
mod races;
mod reach;
mod rebase;
mod received;
mod redact;
mod remote;
mod repack;
mod reply;
mod repo;
mod restore;
mod revision;
mod search;
mod signatures;
mod spare;
mod stats;
mod summarize;
mod time;
mod tools;
mod turns;
mod txn;
mod undo;
mod verify;
mod wire;
mod write;

pub use crate::answer_facts::{AnswerFacts, AnswerIds, AnswerTokens};
pub use crate::apply::{
    ApplyEvent, ApplyOptions, ApplyReport, LineError, StreamLine, apply_all, apply_stream,
    read_lines,
};
pub use crate::blame::{BlameAction, BlameCommit, BlameEntry, blame, concerns, slot_of};
pub use crate::branch::{Branch, FIRST_BRANCH};
pub use crate::bundle::{
    ApplyBundleOptions, Bundle, BundleError, BundleLines, BundleOptions, BundleReport,
    apply_bundle, create_bundle,
};
pub use crate::cache_use::{
    CacheMiss, CacheUse, MissCause, RankedCause, RequestBlock, cache_use, rank_misses,
};
pub use crate::carry::Attempts;
pub use crate::chat::{ChatError, ChatOptions, ChatReply, chat, generate};
pub use crate::conflicts::{ConflictSide, DescribedConflict};
pub use crate::copy::{CopiedRef, CopyOptions, CopyProgress, CopyReport, CopyStatus, OnCopy, copy};
pub use crate::diff::{ConfigChange, Diff, MessageChange, diff, plain};
pub use crate::diff_line::{DiffLine, DiffLineKind};
/// Patterns of keys and passwords, for [`redact_content`] and [`EraseRequest::secrets`].
pub use tract_secrets as secrets;

pub use crate::erase::{
    CarriedErasures, ErasePlace, ErasePlaceKind, EraseReport, EraseRequest, EraseTarget,
    ErasedBlob, Erasure, erase, erasures, finish_erasures, is_erased, lift_erasure,
    pending_erasures,
};
pub use crate::error::{Error, Result};
pub use crate::export::{Export, ExportOptions, export};
pub use crate::gc::{GcOptions, GcProgress, GcReport, KeptBy, ObjectCount, OnGc, gc};
pub use crate::grep::{
    Grep, GrepHit, GrepLine, GrepOptions, GrepPattern, GrepPatternBuilder, GrepStream, grep,
};
pub use crate::import::{
    ImportAnomaly, ImportAnomalyKind, ImportConversation, ImportOptions, ImportStatus, Imported,
    Importer, import,
};
pub use crate::log::{LogLine, LogPage, LogPages, describe, log, log_all, one_line};
pub use crate::lost::{LostEntry, LostItem, LostKind, lost};
pub use crate::merge::{KeptConflict, KeptMerge, MergeOptions, MergeProgress, Merged};
pub use crate::operation::Operation;
pub use crate::pending::{
    BatchAttachment, DeferredCall, DeferredOperation, Pending, PendingRequest, RecordedDecision,
    Rejected, TurnAnswer, TurnRecord, TurnRecorded,
};
pub use crate::plan::Refusal;
pub use crate::prune::{PruneKept, PruneOptions, PruneReport, PrunedBranch, prune};
pub use crate::question::{open_calls, unanswered};
pub use crate::races::Races;
pub use crate::rebase::{PickTarget, Rebase, RebaseStep, Rebased};
pub use crate::redact::{RedactedContent, redact_content, redact_with};
pub use crate::remote::{
    AheadBehind, FetchOptions, FetchReport, PullBranches, PushOptions, PushReport, Remote,
    Tracking, TransferStatus, TransferredRef, fetch, fetch_bundle, push,
};
pub use crate::repack::{OnRepack, RepackProgress, RepackReport, repack};
pub use crate::reply::{broken_off, generation_config, reply_draft};
pub use crate::repo::{Repo, RepoOptions};
pub use crate::revision::{Marks, NamedMessage};
pub use crate::search::{
    SearchHit, SearchOptions, SearchProgress, SearchReport, SearchSnippet, forget_search_index,
    search,
};
pub use crate::signatures::{SIGNATURE_NAMESPACE, SignedTag};
pub use crate::stats::{Stats, stats};
pub use crate::summarize::{
    CompressToolCalls, CompressedToolCalls, SummarizeRange, SummarizedRange,
};
pub use crate::tools::{SchemaDiff, ToolChange, ToolDiff, no_schema_diff, tool_diff};
pub use crate::turns::{DroppedTurns, FoundCall, FoundResult, Pages, ToolQuery, ToolTurn};
pub use crate::txn::{Txn, WriteOptions};
pub use crate::undo::{RefMove, UndoConflict, UndoReport};
pub use crate::verify::{
    OnVerify, VerifyOptions, VerifyProgress, VerifyReport, verify, verify_from, verify_from_bundle,
};
