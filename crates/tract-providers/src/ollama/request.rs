//! Requests out: a message each.

use super::lower;
use crate::adapter::Members;
use crate::raw;
use crate::sheet::RequestWriter;

/// Writes `messages`.
pub(crate) fn members(sheet: &mut RequestWriter<'_>) -> Members {
    let messages = sheet.one_by_one(lower::message, lower::placeholder_result);
    vec![("messages".to_owned(), raw::array(messages))]
}
