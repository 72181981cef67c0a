//! Priorities of the original: rows next to the history, of which the last one counts on every
//! branch. Here they are commits, at the time at which they were given.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::database::Database;
use tract_core::{CommitId, JsonText, Priority};
use tract_engine::plan::Request;

use super::walk::short;
use crate::writer::import_details;

struct PriorityChange<'a> {
    target: &'a str,
    priority: Priority,
    reason: Option<&'a str>,
    retention: Option<JsonText>,
    at: i64,
    /// Whether the original gave it by itself, when the message was committed.
    automatic: bool,
    /// Whether a rebase of the original lost it.
    restored: bool,
}

/// All priorities of a file, oldest first.
pub(super) struct Priorities<'a> {
    rows: Vec<PriorityChange<'a>>,
    automatic: HashMap<&'a str, usize>,
}

/// How the original begins the reason of a priority that it gives by itself.
const AUTOMATIC: &str = "Default priority for ";

impl<'a> Priorities<'a> {
    pub(super) fn of(data: &'a Database) -> Self {
        let mut rows: Vec<PriorityChange<'a>> = data
            .annotations
            .iter()
            .filter_map(|row| {
                Some(PriorityChange {
                    target: &row.target,
                    priority: Priority::parse(&row.priority)?,
                    reason: row.reason.as_deref(),
                    retention: row.retention.as_deref().and_then(|text| JsonText::new(text).ok()),
                    at: row.created_at,
                    automatic: row.reason.as_deref().is_some_and(|r| r.starts_with(AUTOMATIC)),
                    restored: false,
                })
            })
            .collect();
        rows.extend(lost(data, &rows));
        rows.sort_by_key(|row| row.at);
        let mut automatic = HashMap::new();
        for (place, row) in rows.iter().enumerate().filter(|(_, row)| row.automatic) {
            automatic.entry(row.target).or_insert(place);
        }
        Self { rows, automatic }
    }

    /// The priority that the original gave a message by itself.
    pub(super) fn automatic_priority(&self, target: &str) -> Option<(usize, Priority)> {
        let place = *self.automatic.get(target)?;
        Some((place, self.rows.get(place)?.priority))
    }

    /// Those from a place on that were given before a time.
    pub(super) fn due(&self, from: usize, until: i64) -> Range<usize> {
        from..self.rows.partition_point(|row| row.at < until).max(from)
    }

    pub(super) fn target(&self, place: usize) -> &'a str {
        self.rows.get(place).map_or("", |row| row.target)
    }

    pub(super) fn is_automatic(&self, place: usize) -> bool {
        self.rows.get(place).is_some_and(|row| row.automatic)
    }

    /// Whether a message has a newer one within a range.
    pub(super) fn newer(&self, place: usize, within: &Range<usize>) -> bool {
        let later = self.rows.get(place + 1..within.end).unwrap_or_default();
        later.iter().any(|row| row.target == self.target(place))
    }

    /// What to tell of one that is put back.
    pub(super) fn restored(&self, place: usize) -> Option<String> {
        let row = self.rows.get(place).filter(|row| row.restored)?;
        Some(format!(
            "commit {} keeps its priority {}, which the original loses in a rebase",
            short(row.target),
            row.priority
        ))
    }

    /// Gives a message its priority.
    pub(super) fn request(&self, place: usize, slot: CommitId) -> Option<Request> {
        let row = self.rows.get(place)?;
        Some(Request::Annotate {
            targets: vec![slot],
            priority: row.priority,
            reason: row.reason.map(str::to_owned),
            retention: row.retention.clone(),
            details: import_details(Some(row.at)),
        })
    }
}

/// What rebases lost: the last priority that a commit was given before it was rewritten.
fn lost<'a>(data: &'a Database, rows: &[PriorityChange<'a>]) -> Vec<PriorityChange<'a>> {
    let own: HashSet<&str> =
        rows.iter().filter(|row| !row.automatic).map(|row| row.target).collect();
    let mut found = Vec::new();
    for event in data.events.iter().filter(|event| event.event_type == "reorganize") {
        for (source, result) in event.sources.iter().zip(&event.results) {
            let Some(result) = data.commits.get(result) else { continue };
            let before =
                |row: &&PriorityChange<'a>| row.target == source && row.at <= event.created_at;
            let Some(last) = rows.iter().rfind(before).filter(|row| !row.automatic) else {
                continue;
            };
            if !own.contains(result.hash.as_str()) {
                found.push(PriorityChange {
                    target: &result.hash,
                    priority: last.priority,
                    reason: last.reason,
                    retention: last.retention.clone(),
                    at: result.created_at,
                    automatic: false,
                    restored: true,
                });
            }
        }
    }
    found
}
