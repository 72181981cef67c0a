//! Redaction: contents without their secrets.

mod content;

pub use self::content::{RedactedContent, redact_content, redact_with};
