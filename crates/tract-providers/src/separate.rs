//! Compiles the messages of a context one by one, each as a separate request.

use std::slice;

use tract_compile::{Compiled, Item, Pairing, Repair, pair};
use tract_schema::Dialect;

use crate::form::FormError;
use crate::ids::{Ids, Repairing};
use crate::params::Members;
use crate::prefix::Blocks;
use crate::profile_of;
use crate::sheet::RequestWriter;

/// A message of a context, without its neighbors.
#[derive(Clone, Debug)]
pub struct SeparateMessage<'a> {
    /// The message, or the placeholder of a missing result.
    pub item: Item<'a>,
    members: Members,
}

impl SeparateMessage<'_> {
    /// Returns the text of a member, such as `messages`, `input` or `system`, in a request with
    /// only this message.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, raw)| raw.as_str())
    }
}

/// The messages of a context, with the repairs.
#[derive(Clone, Debug)]
pub struct SeparateMessages<'a> {
    /// The messages, in order.
    pub messages: Vec<SeparateMessage<'a>>,
    /// The repairs.
    pub repairs: Vec<Repair>,
}

/// Compiles each message of a context as [`compile_form`](crate::compile_form) does, but
/// separately: neighbors of one role are not merged. Transcripts of other tools are written from
/// it.
///
/// # Errors
/// As [`compile_form`](crate::compile_form).
pub fn compile_separately(
    compiled: &Compiled,
    dialect: Dialect,
    pairing: Pairing,
) -> Result<SeparateMessages<'_>, FormError> {
    let profile = profile_of(dialect);
    let paired = pair(compiled, pairing, &profile.pairing_rules())?;
    let mut repairs = paired.repairs;
    let repairing = pairing != Pairing::Keep;
    let replaced = if repairing { Repairing::Foreign } else { Repairing::Nothing };
    let ids = Ids::settle(&paired.items, profile.format, replaced, None, &mut repairs);
    let mut messages = Vec::with_capacity(paired.items.len());
    for item in &paired.items {
        let mut sheet = RequestWriter {
            compiled,
            format: profile.format,
            repairing,
            closing: false,
            separate: true,
            model: None,
            items: slice::from_ref(item),
            ids: &ids,
            repairs: std::mem::take(&mut repairs),
            blocks: Blocks::default(),
        };
        let members = (profile.conversation)(&mut sheet);
        repairs = sheet.repairs;
        messages.push(SeparateMessage { item: item.clone(), members });
    }
    Ok(SeparateMessages { messages, repairs })
}
