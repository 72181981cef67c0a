//! Requests out: a message each.

use super::lower;
use crate::adapter::Members;
use crate::raw;
use crate::sheet::Sheet;

/// Writes `messages`.
pub(crate) fn members(sheet: &mut Sheet<'_>) -> Members {
    let messages = sheet.one_by_one(lower::message, lower::stand_in);
    vec![("messages".to_owned(), raw::array(messages))]
}
