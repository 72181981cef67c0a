//! OpenAI Responses.

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

pub(crate) use import::{Said, begin, text};
pub(crate) use reply::reply;
pub(crate) use request::members;
pub(crate) use stream::Stream;

/// Takes input items, or a whole request, in the shape of Responses: anything that serializes.
///
/// # Errors
/// [`ImportError`] naming the place that is not what that shape says.
pub fn drafts<T: Serialize + ?Sized>(value: &T) -> Result<Imported, ImportError> {
    drafts_of(&serde_json::to_string(value).map_err(ImportError::Serialize)?)
}

/// Takes the text of input items, or of a whole request, in the shape of Responses. Neighbouring
/// items of the model's (reasoning, messages, calls) are one draft, for they go back together.
///
/// ```
/// use tract_providers::responses;
/// let text = r#"{"instructions":"Be brief.","input":"Hi"}"#;
/// assert_eq!(responses::drafts_of(text)?.drafts.len(), 2);
/// # Ok::<(), tract_providers::ImportError>(())
/// ```
///
/// # Errors
/// As [`drafts`].
pub fn drafts_of(text: &str) -> Result<Imported, ImportError> {
    crate::import::collect(&Node::root(text), Dialect::Responses, &[])
}
