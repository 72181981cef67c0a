//! Anthropic Messages.

mod import;
mod lower;
mod reply;
mod request;
mod stream;

use serde::Serialize;

use crate::dialect::Dialect;
use crate::error::ImportError;
use crate::import::Imported;
use crate::raw::Node;

pub(crate) use import::{instructions, read};
pub(crate) use reply::reply;
pub(crate) use request::members;
pub(crate) use stream::Stream;

/// Takes messages, or a whole request, in Anthropic's shape: anything that serializes.
///
/// # Errors
/// [`ImportError`] naming the place that is not what Anthropic's shape says.
pub fn drafts<T: Serialize + ?Sized>(value: &T) -> Result<Imported, ImportError> {
    drafts_of(&serde_json::to_string(value).map_err(ImportError::Serialize)?)
}

/// Takes the text of messages, or of a whole request, in Anthropic's shape. One draft for the
/// instructions, one for each tool result, one for each rest of a message.
///
/// ```
/// use tract_providers::anthropic;
/// let text = r#"{"system":"Be brief.","messages":[{"role":"user","content":[
///     {"type":"tool_result","tool_use_id":"t1","content":"11 °C"},
///     {"type":"text","text":"And tomorrow?"}]}]}"#;
/// let imported = anthropic::drafts_of(text)?;
/// assert_eq!(imported.drafts.len(), 3);
/// assert!(imported.drafts[2].joins_previous);
/// assert_eq!(imported.anomalies[0].what, "result for \"t1\" answers no call");
/// # Ok::<(), tract_providers::ImportError>(())
/// ```
///
/// # Errors
/// As [`drafts`].
pub fn drafts_of(text: &str) -> Result<Imported, ImportError> {
    crate::import::collect(&Node::root(text), Dialect::Anthropic, &[])
}
