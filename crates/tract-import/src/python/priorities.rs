//! Priorities of the original: rows next to the history, the last of which counts on every branch.
//! Here they become commits, with the time at which they were set.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::database::Database;
use tract_core::{CommitId, JsonText, Priority};
use tract_engine::plan::Request;

use super::walk::short;
use crate::writer::import_details;

pub(super) struct PriorityChange<'a> {
    pub(super) target: &'a str,
    priority: Priority,
    reason: Option<&'a str>,
    retention: Option<JsonText>,
    at: i64,
    /// Whether the original set it automatically when the message was committed.
    pub(super) automatic: bool,
    /// Whether a rebase of the original lost it.
    restored: bool,
}

impl PriorityChange<'_> {
    /// Returns the notice about a restored priority.
    pub(super) fn restored(&self) -> Option<String> {
        let (target, priority) = (short(self.target), self.priority);
        let lost = "which the original loses in a rebase";
        self.restored.then(|| format!("commit {target} keeps its priority {priority}, {lost}"))
    }

    /// Returns the request that sets the priority of a message.
    pub(super) fn request(&self, slot: CommitId) -> Request {
        Request::Annotate {
            targets: vec![slot],
            priority: self.priority,
            reason: self.reason.map(str::to_owned),
            retention: self.retention.clone(),
            details: import_details(Some(self.at)),
        }
    }
}

/// All priorities of a file, oldest first.
pub(super) struct Priorities<'a> {
    rows: Vec<PriorityChange<'a>>,
    automatic: HashMap<&'a str, usize>,
    /// For each row the next one of the same message.
    next: Vec<Option<usize>>,
}

/// The prefix of the original's reason for an automatic priority.
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
        let mut following: HashMap<&str, usize> = HashMap::new();
        let places = rows.iter().enumerate().rev();
        let mut next: Vec<Option<usize>> =
            places.map(|(place, row)| following.insert(row.target, place)).collect();
        next.reverse();
        Self { rows, automatic, next }
    }

    /// Returns the priority that the original set automatically for a message.
    pub(super) fn automatic_priority(&self, target: &str) -> Option<(usize, Priority)> {
        let place = *self.automatic.get(target)?;
        Some((place, self.rows.get(place)?.priority))
    }

    /// Returns the priorities from a position on that were set before a time.
    pub(super) fn due(&self, from: usize, until: i64) -> Range<usize> {
        from..self.rows.partition_point(|row| row.at < until).max(from)
    }

    pub(super) fn get(&self, place: usize) -> Option<&PriorityChange<'a>> {
        self.rows.get(place)
    }

    /// Returns whether a message has a newer priority within a range.
    pub(super) fn newer(&self, place: usize, within: &Range<usize>) -> bool {
        self.next.get(place).copied().flatten().is_some_and(|next| next < within.end)
    }
}

/// Returns the priorities that rebases lost: the last one of each commit before it was rewritten.
fn lost<'a>(data: &'a Database, rows: &[PriorityChange<'a>]) -> Vec<PriorityChange<'a>> {
    let own: HashSet<&str> =
        rows.iter().filter(|row| !row.automatic).map(|row| row.target).collect();
    let mut of_target: HashMap<&str, Vec<&PriorityChange<'a>>> = HashMap::new();
    for row in rows {
        of_target.entry(row.target).or_default().push(row);
    }
    let mut found = Vec::new();
    for event in data.events.iter().filter(|event| event.event_type == "reorganize") {
        for (source, result) in event.sources.iter().zip(&event.results) {
            let Some(result) = data.commits.get(result) else { continue };
            let before = |row: &&&PriorityChange<'a>| row.at <= event.created_at;
            let all = of_target.get(source.as_str()).map(Vec::as_slice).unwrap_or_default();
            let Some(last) = all.iter().rfind(before).filter(|row| !row.automatic) else {
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
