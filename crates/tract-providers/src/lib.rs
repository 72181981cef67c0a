//! Requests of OpenAI (Chat and Responses), Anthropic, Ollama and Gemini: a request is read into
//! drafts, and a compiled context is written as a request that the provider accepts.
//!
//! Requests are processed as texts: the order of members and the digits of numbers are unchanged.
//! Content without an equivalent in the neutral model is stored as received
//! ([`Draft::verbatim`](tract_core::Draft::verbatim)), so that messages imported from a provider
//! are sent back to it as they were recorded.
#![forbid(unsafe_code)]

mod adapter;
mod answers;
mod detect;
mod error;
mod form;
mod ids;
mod images;
mod import;
mod neutral;
mod parameters;
mod params;
mod prefix;
mod prices;
mod raw;
mod reply;
mod request;
mod separate;
mod sheet;
mod turns;

mod anthropic;
mod gemini;
#[cfg(feature = "http")]
pub mod http;
mod ollama;
mod openai;
mod responses;
pub mod stream;

pub use crate::detect::detect;
pub use crate::error::{FormError, ImportError, ReplyError};
pub use crate::form::{Form, FormOptions, RequestForms, compile_form};
pub use crate::import::{
    Anomaly, ConversationReader, HarExchanges, Imported, ProviderConversation, har_exchanges,
    read_request,
};
pub use crate::params::Params;
pub use crate::prefix::{Miss, PrefixHash, PrefixSource, why_miss};
pub use crate::prices::{PriceBasis, PriceError, PriceTable, TokenAmounts};
pub use crate::reply::{read_reply, read_reply_at};
pub use crate::request::params_of;
pub use crate::separate::{SeparateMessage, SeparateMessages, compile_separately};
pub use tract_compile::{Item, Pairing, PlaceholderResult, Repair, RepairKind};
pub use tract_schema::Dialect;
