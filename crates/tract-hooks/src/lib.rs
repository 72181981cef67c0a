//! Events, the actions that answer them, and the chain of handlers that decides.
//!
//! A handler sees data and gives data back. It never holds a repository, and no transaction is
//! open while it runs. Each event has an action type of its own, so an answer that makes no sense
//! does not compile.
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
//! # let decision = poll_once(hooks.before_commit(&event));
//! # #[cfg(any())]
//! let decision = hooks.before_commit(&event).await;
//! assert_eq!(decision.by(), Some("no-keys"));
//! assert_eq!(decision.settle().unwrap_err().code(), "rejected_by_hook");
//! # fn poll_once<F: Future>(future: F) -> F::Output {
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     match std::pin::pin!(future).poll(&mut context) {
//! #         std::task::Poll::Ready(output) => output,
//! #         std::task::Poll::Pending => panic!("the handler waits"),
//! #     }
//! # }
//! # Ok::<(), tract_core::BadName>(())
//! ```
//!
//! # What is carried out
//! The write path of this version carries out passing, approving, running, rejecting and refusing.
//! `Edit`, `Summarize`, `Replace` and `Defer` exist as data; [`Decision::settle`] answers them
//! with [`HookError::Unsupported`], so that none is accepted in silence. Who carries one of them
//! out looks at [`Decision::action`] before settling.
#![forbid(unsafe_code)]

mod action;
mod chain;
mod decision;
mod event;
mod nested;

pub use crate::action::{
    Action, AnyAction, CommitAction, CompileAction, CompressAction, DispatchAction, MergeAction,
    RefMovedAction, Summarize, ToolResultAction, Verdict,
};
pub use crate::chain::{Handler, Hooks};
pub use crate::decision::{Decision, HookError};
pub use crate::event::{
    AnyEvent, BeforeCommit, BeforeCompile, BeforeCompress, BeforeDispatch, BeforeMerge, Event,
    RefMoved, ToolResultReceived,
};

#[cfg(test)]
mod tests;
