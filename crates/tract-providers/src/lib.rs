//! Requests to model providers: a request is read into drafts, and a compiled context is written as
//! a request that the provider accepts. [`Dialect`] lists the providers.
//!
//! Requests are processed as texts: the order of members and the digits of numbers are unchanged.
//! Content without an equivalent in the neutral model is stored as received
//! ([`Draft::verbatim`](tract_core::Draft::verbatim)), so that messages imported from a provider
//! are sent back to it as they were recorded.
#![forbid(unsafe_code)]

mod answers;
mod api;
mod batch;
mod detect;
mod drafts;
mod error;
mod form;
mod format;
mod ids;
mod images;
mod import;
mod members;
mod neutral;
mod other_members;
mod parameters;
mod params;
mod prefix;
mod prices;
mod profile;
mod raw;
mod reader;
mod reply;
mod request;
mod separate;
mod sheet;
mod turns;

#[cfg(feature = "http")]
pub mod http;
pub mod stream;

// The providers: each has its own folder, and a row in `profile_of`.
mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod responses;

use crate::profile::Profile;

pub use crate::api::Api;
pub use crate::batch::{BatchLine, batch_line, batch_members, join_batch_lines};
pub use crate::detect::detect;
pub use crate::drafts::Anomaly;
pub use crate::error::{ImportError, ReplyError};
pub use crate::form::{Form, FormError, FormOptions, RequestForms, compile_form, compile_recorded};
pub use crate::import::{
    ConversationReader, HarExchanges, Imported, ProviderConversation, UnpackedLine, har_exchanges,
    listed_conversations, read_request, unpacked, with_joined_pieces,
};
pub use crate::other_members::other_members;
pub use crate::params::Params;
pub use crate::prefix::{Miss, PrefixHash, PrefixSource, why_miss};
pub use crate::prices::{PriceBasis, PriceError, PriceTable, TokenAmounts};
pub use crate::reply::{WholeAnswer, read_answer, read_reply};
pub use crate::request::params_of;
pub use crate::separate::{SeparateMessage, SeparateMessages, compile_separately};
pub use tract_compile::{Item, Pairing, PlaceholderResult, Repair, RepairKind};
pub use tract_schema::Dialect;

/// The one list of providers.
fn profile_of(dialect: Dialect) -> &'static Profile {
    match dialect {
        Dialect::OpenAi => &openai::PROFILE,
        Dialect::Responses => &responses::PROFILE,
        Dialect::Anthropic => &anthropic::PROFILE,
        Dialect::Ollama => &ollama::PROFILE,
        Dialect::Gemini => &gemini::PROFILE,
    }
}

/// Returns the HTTP API of a dialect.
///
/// ```
/// use tract_providers::{Dialect, api_of};
/// assert_eq!(api_of(Dialect::Ollama).base_variable, "OLLAMA_HOST");
/// ```
pub fn api_of(dialect: Dialect) -> &'static Api {
    &profile_of(dialect).api
}
