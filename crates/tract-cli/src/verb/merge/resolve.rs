//! Resolutions of conflicts from a file and flags.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use tract::CommitId;
use tract::engine::{MergeConflict, Resolution};

use crate::failure::{Failure, Outcome};
use crate::input;

/// The entry of a file for one conflict. Absent members match any conflict. Members that are only
/// descriptions, such as the texts, are ignored.
#[derive(Clone, Debug, Deserialize)]
struct Entry {
    kind: Option<String>,
    slot: Option<CommitId>,
    ours: Option<CommitId>,
    theirs: Option<CommitId>,
    resolution: Option<String>,
    text: Option<String>,
}

/// A list of entries, or the output of `merge --dry-run --json`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entries {
    List(Vec<Entry>),
    Document { conflicts: Vec<Entry> },
}

/// The resolutions of a command.
#[derive(Clone, Debug)]
pub(super) struct Resolutions {
    entries: Arc<[(Entry, Resolution)]>,
    side: Option<Resolution>,
    used: Arc<Mutex<HashSet<usize>>>,
}

impl Resolutions {
    /// Reads a file; `side` resolves conflicts that the file does not contain.
    pub(super) fn read(path: Option<&Path>, side: Option<Resolution>) -> Outcome<Self> {
        let mut resolved = Vec::new();
        if let Some(path) = path {
            let text = input::read_text(path)?;
            let bad = |what: String| Failure::usage(format!("{}: {what}", path.display()));
            let entries: Entries = serde_json::from_str(&text).map_err(|error| {
                bad(format!("not a list of resolutions: {error}")).note(
                    "write [{\"kind\":\"version\",\"slot\":\"<id>\",\"resolution\":\"ours\"}], or add \
                     resolutions to what `merge --dry-run --json` prints",
                )
            })?;
            let (Entries::List(entries) | Entries::Document { conflicts: entries }) = entries;
            for entry in entries {
                let resolution = match (entry.resolution.as_deref(), entry.text.clone()) {
                    (None | Some("text"), Some(text)) => Resolution::Text(text),
                    (Some("ours"), None) => Resolution::Ours,
                    (Some("theirs"), None) => Resolution::Theirs,
                    (Some("both"), None) => Resolution::Both,
                    (None, None) => continue,
                    (Some("text"), None) => {
                        return Err(bad("a resolution \"text\" needs a \"text\"".to_owned()));
                    }
                    (Some(word), Some(_)) => {
                        return Err(bad(format!("a resolution {word:?} takes no \"text\"")));
                    }
                    (Some(word), None) => {
                        return Err(bad(format!("unknown resolution {word:?}"))
                            .note("use ours, theirs, both or text"));
                    }
                };
                resolved.push((entry, resolution));
            }
        }
        Ok(Self { entries: resolved.into(), side, used: Arc::default() })
    }

    /// Returns the resolution of a conflict.
    pub(super) fn answer(&self, conflict: &MergeConflict) -> Option<Resolution> {
        let fits = |entry: &Entry| {
            entry.kind.as_deref().is_none_or(|kind| kind == conflict.kind.as_str())
                && (entry.slot.is_none() || entry.slot == conflict.slot)
                && (entry.ours.is_none() || entry.ours == conflict.ours)
                && (entry.theirs.is_none() || entry.theirs == conflict.theirs)
        };
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, (entry, resolution)) in self.entries.iter().enumerate() {
            if fits(entry) {
                used.insert(place);
                return Some(resolution.clone());
            }
        }
        self.side.clone()
    }

    /// Checks that every entry of the file resolved a conflict.
    pub(super) fn check_all_used(&self) -> Outcome<()> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = (0..self.entries.len()).find(|place| !used.contains(place));
        match unused {
            Some(place) => Err(Failure::usage(format!(
                "resolution {} of the file resolves no conflict of this merge",
                place + 1
            ))
            .note("`merge --dry-run --json` prints the conflicts")),
            None => Ok(()),
        }
    }
}
