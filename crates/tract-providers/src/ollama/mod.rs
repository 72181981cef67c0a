//! Ollama's own chat API.

mod import;
mod lower;
mod reply;
mod stream;

use serde::Serialize;

use crate::dialect::Dialect;
use crate::error::ImportError;
use crate::import::Imported;
use crate::raw::Node;

pub(crate) use import::{Open, read};
pub(crate) use lower::{message, stand_in};
pub(crate) use reply::reply;
pub(crate) use stream::Stream;

/// Takes messages, or a whole request, in Ollama's shape: anything that serializes.
///
/// # Errors
/// [`ImportError`] naming the place that is not what Ollama's shape says.
pub fn drafts<T: Serialize + ?Sized>(value: &T) -> Result<Imported, ImportError> {
    drafts_of(&serde_json::to_string(value).map_err(ImportError::Serialize)?)
}

/// Takes the text of messages, or of a whole request, in Ollama's shape. Calls have no ids there,
/// so each gets one from its place, and results are matched by name and order.
///
/// ```
/// use tract_providers::ollama;
/// let imported = ollama::drafts_of(r#"[
///     {"role":"assistant","content":"","tool_calls":[{"function":{"name":"now","arguments":{}}}]},
///     {"role":"tool","tool_name":"now","content":"noon"}]"#)?;
/// assert_eq!(imported.drafts[0].content.calls().next().map(|call| call.id.as_str()), Some("call_0_0"));
/// # Ok::<(), tract_providers::ImportError>(())
/// ```
///
/// # Errors
/// As [`drafts`].
pub fn drafts_of(text: &str) -> Result<Imported, ImportError> {
    crate::import::collect(&Node::root(text), Dialect::Ollama, &[])
}
