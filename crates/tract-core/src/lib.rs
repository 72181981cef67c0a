//! Objects, hashing, store traits and ports of tract: version control for the context of LLM
//! agents.
//!
//! Every message, tool definition, tool call and tool result is an immutable commit. Its id is the
//! SHA-256 of its content. This crate defines those objects and their encodings ([`Commit`],
//! [`Blob`], [`Toolset`], [`json`]), the traits of stores ([`store`]), and the ports for models,
//! tools and clocks. It does no I/O and depends on no async runtime.
#![forbid(unsafe_code)]

pub mod batch;
mod block_on;
pub mod commit;
mod contained;
pub mod content;
pub mod draft;
pub mod hash;
pub mod id;
pub mod json;
pub mod known_secrets;
mod limits;
pub mod message;
mod model_error;
mod nearest;
pub mod object;
pub mod parallel;
mod partial;
pub mod ports;
pub mod refs;
mod reply;
pub mod schema;
mod schemas;
mod sent;
pub mod store;
pub mod stream;
pub mod telemetry;
pub mod text;
pub mod time;
pub mod tool;
pub mod words;

pub use crate::batch::{Applied, Batch, DerivedKind, DerivedRow, ToolRow};
pub use crate::block_on::block_on;
pub use crate::commit::{
    AuthorKind, CallRef, Change, Changes, Commit, CommitRecord, CommitRef, Op, Origin, RecordError,
    RowFields,
};
pub use crate::contained::{contained, is_contained, panic_text};
pub use crate::content::{
    Artifact, Body, Content, ContentError, ImageSource, Kind, Part, Priority, Role, ToolAnswer,
    ToolCall,
};
pub use crate::draft::Draft;
pub use crate::id::{
    BadName, BatchId, BlobId, CommitId, OperationId, ParseIdError, RepeatableIds, RepoName, ToolId,
    ToolsetId, ViewId,
};
pub use crate::known_secrets::KnownSecrets;
pub use crate::limits::{Limits, TooLarge};
pub use crate::message::{ActiveTool, Message};
pub use crate::nearest::nearest;
pub use crate::object::{Blob, IdPrefix, ObjectId, ToolDefinition, ToolEntry, Toolset};
pub use crate::partial::{PartialCall, PartialReply, ReplyDelta};
pub use crate::ports::{
    ApproxCounter, ChatModel, Clock, ManualClock, ModelError, ModelRequest, Reply, StopReason,
    Summarizer, Summary, SummaryRequest, SystemClock, TokenCounter, Usage, unless_cancelled,
};
pub use crate::refs::{
    BadTarget, Conflict, Expect, LogEntry, LogNote, RefEdit, RefName, RefTarget,
};
pub use crate::schema::{ToolNameError, ToolSchema};
pub use crate::schemas::{IntoSchema, into_schemas};
pub use crate::sent::{RequestMap, RequestTool};
pub use crate::store::{Store, StoreError, StoreErrorKind, StoreExt, StoreResult};
pub use crate::stream::{StreamOp, StreamOpError, StreamOpFields, StreamOpKind};
pub use crate::text::JsonText;
pub use crate::tool::{
    BoundCall, CancellationToken, DynTool, NoParams, ProgressSink, RenderedValue, Tool,
    ToolContext, ToolError, ToolFailure, ToolOrigin, ToolParams, ToolResult, ToolSpec, ToolTraits,
};
