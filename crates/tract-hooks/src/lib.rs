//! Events, the actions that answer them, and the chain of handlers that decides.
//!
//! A handler gets data and returns data. The event gives no access to the repository, and no
//! transaction is open while it runs. Each event has its own action type, so an answer that does
//! not fit the event does not compile.
//!
//! ```
//! use tract_core::{Draft, RefName};
//! use tract_hooks::{BeforeCommit, CommitAction, Hooks};
//!
//! let hooks = Hooks::new().on("no-keys", |commit: &BeforeCommit| {
//!     match commit.draft.content.text().contains("sk-") {
//!         true => CommitAction::Reject("it holds a key".into()),
//!         false => CommitAction::Pass,
//!     }
//! });
//! let event = BeforeCommit::new(RefName::branch("main")?, Draft::user("my key is sk-123"));
//! # let decision = tract_core::block_on(hooks.before_commit(&event));
//! # #[cfg(any())]
//! let decision = hooks.before_commit(&event).await;
//! assert_eq!(decision.by(), Some("no-keys"));
//! assert_eq!(decision.settle().unwrap_err().code(), "rejected_by_hook");
//! # Ok::<(), tract_core::BadName>(())
//! ```
//!
//! # What is carried out
//! The write path carries out every answer. Content replaced by an `Edit` or a `Summarize` is kept
//! with the commit, rejected content is kept with the record of the decision, and deferred content
//! is stored as a document for a later decision. [`Decision::settle`] is for callers that can only
//! continue or stop: it returns [`HookError::Unsupported`] for all other answers, so that none is
//! silently ignored.
#![forbid(unsafe_code)]

mod action;
mod ask;
mod chain;
mod config;
mod decision;
mod event;
mod nested;
mod prompts;
mod record;
mod summarizer;
mod timer;
pub mod wait;
mod worker;

pub use crate::action::{
    Action, ActionKind, AnyAction, CommitAction, CompileAction, CompressAction, DispatchAction,
    ForeignAction, MergeAction, RefMovedAction, Summarize, ToolResultAction,
};
pub use crate::chain::{AnyHandler, Handler, Hooks, OnFailure, UnknownHandler};
pub use crate::config::ToolSummarization;
pub use crate::decision::{Decision, HandlerFailure, HandlerFailureKind, HookError};
pub use crate::event::{
    AnyEvent, BeforeCommit, BeforeCompile, BeforeCompress, BeforeDispatch, BeforeMerge, Event,
    RefMoved, ToolResultReceived,
};
pub use crate::prompts::{
    Prompts, SUMMARIZE, SUMMARIZE_CONVERSATION, SUMMARIZE_RELEVANT, SUMMARIZE_TOOL_RESULT,
    SUMMARIZE_TOOL_RESULTS, build_summarize_prompt,
};
pub use crate::record::DecisionRecord;
pub use tract_core::{Summarizer, Summary, SummaryRequest};

pub use crate::summarizer::{
    CONVERSATION, ModelSummarizer, SUMMARY_ATTEMPTS, SummaryError, check_summary, kept_texts,
    summarize_all_guarded, summarize_checked,
};

#[cfg(test)]
mod tests;
