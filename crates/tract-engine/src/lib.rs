//! Planners and the write path: git's verbs over contexts.
//!
//! The modules are listed from the lowest to the highest: each uses only those above it in the list,
//! which a test checks.
#![forbid(unsafe_code)]

// Planners: from a request and a folded history to a record, or a refusal. Pure functions.
pub mod plan;
// The repository handle, errors, and the basics that all other modules build on.
mod repo;
// Reading history: log, diff, blame, turns, cache use, reachability.
mod history;
// The write path: requests, transactions, hooks, retries.
mod write;
// Ranked search and grep.
mod search;
// Operations on branches: merge, rebase, undo, summaries, approvals, chat.
mod verbs;
// Maintenance: gc, prune, erase, verify, repack.
mod upkeep;
// Remotes, bundles, copies, exports, imports, streams.
mod sync;

/// Patterns of keys and passwords, for [`redact_content`] and [`EraseRequest::secrets`].
pub use tract_secrets as secrets;

pub use crate::plan::{KeptConflict, Refusal};

pub use crate::repo::erasure::Erasure;
pub use crate::repo::error::{
    BundleError, DeferredOperation, Error, LineError, Rejected, Result, UndoConflict,
};
pub use crate::repo::history::HistoryReader;
pub use crate::repo::operation::Operation;
pub use crate::repo::stats::{Stats, stats};
pub use crate::repo::{Branch, Callback, FIRST_BRANCH, Repo, RepoOptions};

pub use crate::history::answer_facts::{AnswerFacts, AnswerIds, AnswerPlace, AnswerTokens};
pub use crate::history::blame::{BlameAction, BlameCommit, BlameEntry, blame, concerns, slot_of};
pub use crate::history::cache_use::{
    CacheMiss, CacheUse, MissCause, RankedCause, RequestBlock, ToolCost, cache_use, rank_misses,
    tool_costs,
};
pub use crate::history::diff::{ConfigChange, Diff, MessageChange, diff, plain};
pub use crate::history::diff_line::{DiffLine, DiffLineKind};
pub use crate::history::facts::ModelUsage;
pub use crate::history::graph;
pub use crate::history::log::{LogLine, LogPage, LogPages, describe, log, log_all, one_line};
pub use crate::history::lost::{LostEntry, LostItem, LostKind, lost};
pub use crate::history::question::{open_calls, unanswered};
pub use crate::history::tool_diff::{SchemaDiff, ToolChange, ToolDiff, no_schema_diff, tool_diff};
pub use crate::history::turns::{FoundCall, FoundResult, Pages, ToolQuery, ToolTurn};

pub use crate::write::erasures::erasures;
pub use crate::write::import_document::ImportDocument;
pub use crate::write::pending::{Pending, PendingRequest, RecordedDecision};
pub use crate::write::races::{Attempts, Races};
pub use crate::write::txn::{Txn, WriteOptions};

pub use crate::search::grep::{
    Grep, GrepHit, GrepLine, GrepOptions, GrepPattern, GrepPatternBuilder, GrepStream, grep,
};
pub use crate::search::ranked::{
    OnSearch, SearchHit, SearchOptions, SearchReport, SearchSnippet, forget_search_index, search,
};

pub use crate::verbs::approvals::{
    BatchAttachment, DeferredCall, TurnAnswer, TurnRecord, TurnRecorded,
};
pub use crate::verbs::chat::{ChatError, ChatOptions, ChatReply, OnPiece, chat, generate};
pub use crate::verbs::merge::{
    ConflictResolver, ConflictSide, DescribedConflict, KeptMerge, MergeOptions, MergeProgress,
    Merged, merge_in,
};
pub use crate::verbs::rebase::{Rebase, RebaseStep, RebaseTarget, Rebased, rebase_in};
pub use crate::verbs::refs::{AheadBehind, Remote, SIGNATURE_NAMESPACE, SignedTag, Tracking};
pub use crate::verbs::reply::{broken_off, generation_config, reply_draft};
pub use crate::verbs::revision::{Marks, NamedMessage, resolve_in, resolve_position_in};
pub use crate::verbs::sessions::{
    MAX_TITLE_CHARS, SessionNode, SessionParent, SessionParentKind, SessionQuery, SessionSummary,
    TitleSource, session_tree, sessions,
};
pub use crate::verbs::shorten::{
    CompressToolCalls, CompressedToolCalls, DroppedTurns, SummarizeRange, SummarizedRange,
};
pub use crate::verbs::undo::{RefMove, UndoReport};

pub use crate::upkeep::erase::{
    CarriedErasures, ErasePlace, ErasePlaceKind, EraseReport, EraseRequest, EraseTarget, EraseWhat,
    ErasedBlob, erase, finish_erasures, is_erased, lift_erasure, pending_erasures,
};
pub use crate::upkeep::gc::{GcOptions, GcProgress, GcReport, KeptBy, ObjectCount, OnGc, gc};
pub use crate::upkeep::prune::{PruneKept, PruneOptions, PruneReport, PrunedBranch, prune};
pub use crate::upkeep::redact::{RedactedContent, redact_content, redact_with};
pub use crate::upkeep::repack::{OnRepack, RepackProgress, RepackReport, repack};
pub use crate::upkeep::verify::{
    OnVerify, VerifyOptions, VerifyProgress, VerifyReport, verify, verify_from,
};

pub use crate::sync::apply::{
    ApplyEvent, ApplyOptions, ApplyReport, StreamLine, apply_all, apply_stream, read_lines,
};
pub use crate::sync::bundle::{
    ApplyBundleOptions, Bundle, BundleLines, BundleOptions, BundleReport, apply_bundle,
    create_bundle, verify_from_bundle,
};
pub use crate::sync::copy::{
    CopiedRef, CopyOptions, CopyProgress, CopyReport, CopyStatus, OnCopy, copy,
};
pub use crate::sync::export::{Export, ExportOptions, export};
pub use crate::sync::import::{
    ImportAnomaly, ImportAnomalyKind, ImportConversation, ImportOptions, ImportStatus, Imported,
    Importer, import,
};
pub use crate::sync::remote::{
    FetchOptions, FetchReport, PullBranches, PushOptions, PushReport, TransferStatus,
    TransferredRef, fetch, fetch_bundle, push,
};
