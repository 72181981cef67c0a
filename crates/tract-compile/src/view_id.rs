//! The view id: a hash of the messages and tools that a model sees.

use std::collections::HashMap;
use std::fmt::Write as _;

use tract_core::json::{Escapes, write_string};
use tract_core::{Blob, CommitId, ViewId, hash};

use crate::compiled::Compiled;
use crate::fact::ContextEntry;

/// Hashes `["tract-view-1", toolset, [[content, kind, role, joins, n], …]]`.
///
/// `n` is the index in this list of the message whose call is answered. Commit ids are not hashed.
pub(crate) fn view_id(compiled: &Compiled) -> ViewId {
    let shown = compiled.context.iter().map(|(_, entry)| entry).filter(|entry| entry.is_shown());
    let mut places: HashMap<CommitId, usize> = HashMap::new();
    let mut out = String::with_capacity(compiled.message_count * 100 + 160);
    out.push_str("[\"tract-view-1\",");
    push_id(&mut out, compiled.toolset().map(|toolset| toolset.to_hex()));
    out.push_str(",[");
    for (place, entry) in shown.clone().enumerate() {
        places.insert(entry.row.slot, place);
    }
    for (place, entry) in shown.enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push('[');
        push_id(&mut out, content_id(entry));
        out.push(',');
        let kind = entry.fact.kind.as_ref().map_or("", |kind| kind.as_str());
        write_string(&mut out, kind, Escapes::Raw);
        out.push(',');
        write_string(&mut out, entry.fact.role.as_str(), Escapes::Raw);
        out.push_str(if entry.fact.joined { ",true," } else { ",false," });
        match entry.row.answers.and_then(|call| places.get(&call.slot)) {
            // Writing to a String cannot fail.
            Some(place) => drop(write!(out, "{place}")),
            None => out.push_str("null"),
        }
        out.push(']');
    }
    out.push_str("]]");
    hash::view(&out)
}

fn push_id(out: &mut String, hex: Option<String>) {
    match hex {
        Some(hex) => out.extend(["\"", &hex, "\""]),
        None => out.push_str("null"),
    }
}

impl ContextEntry {
    fn is_shown(&self) -> bool {
        self.message.is_some() || self.fact.is_shown()
    }
}

/// Returns the id of a content. A context built from parts has no blobs, so the id is computed from
/// its content.
fn content_id(entry: &ContextEntry) -> Option<String> {
    match entry.fact.content {
        Some(content) => Some(content.to_hex()),
        None => {
            let text = entry.message()?.content.to_blob().ok()?;
            Some(Blob::seal(text).id().to_hex())
        }
    }
}
