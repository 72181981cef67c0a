//! OpenAI Chat Completions, and whoever speaks like it.

mod import;
mod lower;
mod reply;
mod stream;

use serde::Serialize;

use crate::dialect::Dialect;
use crate::error::ImportError;
use crate::import::Imported;
use crate::raw::Node;

pub(crate) use import::{data_url, read};
pub(crate) use lower::{message, stand_in};
pub(crate) use reply::reply;
pub(crate) use stream::{Stream, provider_error};

/// Takes messages, or a whole request, in OpenAI's shape: anything that serializes.
///
/// # Errors
/// [`ImportError`] naming the place that is not what OpenAI's shape says.
pub fn drafts<T: Serialize + ?Sized>(value: &T) -> Result<Imported, ImportError> {
    drafts_of(&serde_json::to_string(value).map_err(ImportError::Serialize)?)
}

/// Takes the text of messages, or of a whole request, in OpenAI's shape. Numbers and key order
/// stay as written.
///
/// ```
/// use tract_providers::openai;
/// let imported = openai::drafts_of(r#"[{"role":"user","content":"Hi"}]"#)?;
/// assert_eq!(imported.drafts[0].content.text(), "Hi");
/// assert_eq!(imported.drafts[0].verbatim, None);
/// # Ok::<(), tract_providers::ImportError>(())
/// ```
///
/// # Errors
/// As [`drafts`].
pub fn drafts_of(text: &str) -> Result<Imported, ImportError> {
    crate::import::collect(&Node::root(text), Dialect::OpenAi, &[])
}
