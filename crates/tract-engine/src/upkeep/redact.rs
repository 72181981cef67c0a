//! Contents without their secrets.

mod content;

pub(crate) use self::content::json_string;
pub use self::content::{RedactedContent, redact_content, redact_with};
