//! Plans a summary that replaces messages.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_compile::Row;
use tract_core::{CommitId, Content, Kind, Op, Priority, Role};

use super::edit::visible;
use super::work::summary_changes;
use super::{Details, History, Plan, PlannedCommit, Records, Refusal, Selection};

/// Plans a summary. The selection is widened to whole groups: a message with calls, the results
/// that answer it, and the reasoning right before it. Groups with a pinned member or an open call
/// are left as they are.
pub(super) fn compress(
    history: &History,
    records: &Records,
    select: &Selection,
    content: &Content,
    role: Option<&Role>,
    details: &Details,
) -> Plan<PlannedCommit> {
    let rows = Rows::of(history);
    let mut chosen = rows.selected(history, records, select)?;
    let is_named = matches!(select, Selection::Exactly(_) | Selection::Recorded(_));
    let exactly = is_named.then(|| chosen.clone());
    let mut units = rows.widen(records, &mut chosen)?;
    if let Some(named) = exactly {
        // Leave a group alone if the summary was not made from all of it.
        for unit in &mut units {
            unit.open &= !matches!(select, Selection::Recorded(_));
            unit.open |= !unit.members.is_subset(&named);
        }
    }
    let (pinned, open) = rows.narrow(records, &mut chosen, &units)?;
    let Some(first) = chosen.first().and_then(|first| rows.rows.get(*first)) else {
        return Err(Refusal::NothingLeft { pinned, open }.into());
    };
    let key = first.key;
    let sources: Vec<Row> =
        chosen.iter().filter_map(|index| rows.rows.get(*index)).copied().collect();
    let targets = sources.iter().map(|row| row.version).collect();
    let mut planned = PlannedCommit::on(history, Op::Compress { targets }, details);
    planned.say(content, role.cloned())?;
    planned.change(summary_changes(&sources, key));
    Ok(planned)
}

/// A message with calls and the rows that belong to it, by position.
struct CallGroup {
    members: BTreeSet<usize>,
    open: bool,
}

/// The rows of a view by position, and the answers to each message.
struct Rows {
    rows: Vec<Row>,
    places: HashMap<CommitId, usize>,
    answers: HashMap<CommitId, Vec<usize>>,
}

impl Rows {
    fn of(history: &History) -> Self {
        let rows: Vec<Row> = history.view().rows().copied().collect();
        let places = rows.iter().enumerate().map(|(n, row)| (row.slot, n)).collect();
        let mut answers: HashMap<CommitId, Vec<usize>> = HashMap::new();
        for (n, row) in rows.iter().enumerate() {
            if let Some(call) = row.answers {
                answers.entry(call.slot).or_default().push(n);
            }
        }
        Self { rows, places, answers }
    }

    fn selected(
        &self,
        history: &History,
        records: &Records,
        select: &Selection,
    ) -> Plan<BTreeSet<usize>> {
        let place = |target: CommitId| -> Plan<usize> {
            let row = visible(history, records, target)?;
            Ok(self.places.get(&row.slot).copied().unwrap_or_default())
        };
        match select {
            Selection::Targets(targets) => {
                records.ensure(targets.iter().copied())?;
                targets.iter().map(|target| place(*target)).collect()
            }
            Selection::Exactly(versions) | Selection::Recorded(versions) => {
                records.ensure(versions.iter().copied())?;
                let mut places = BTreeSet::new();
                for version in versions {
                    let place = place(*version)?;
                    if self.rows.get(place).is_some_and(|row| row.version == *version) {
                        places.insert(place);
                    }
                }
                Ok(places)
            }
            Selection::Range { from, to } => {
                let last = self.rows.len().saturating_sub(1);
                let from = from.map_or(Ok(0), place)?;
                let to = to.map_or(Ok(last), place)?;
                Ok((from.min(to)..=from.max(to)).filter(|n| *n < self.rows.len()).collect())
            }
        }
    }

    /// Adds the rows that belong to the chosen ones. Returns the groups among them.
    fn widen(&self, records: &Records, chosen: &mut BTreeSet<usize>) -> Plan<Vec<CallGroup>> {
        let near = chosen.iter().flat_map(|n| [n.saturating_sub(1), *n, n + 1]);
        let near: BTreeSet<usize> = near.collect();
        records.ensure_calls(near.into_iter().filter_map(|n| self.rows.get(n)))?;
        let mut heads = BTreeSet::new();
        // The end of the last run of reasoning that was walked, and the message that it belongs to.
        let mut walked: Option<(usize, Option<usize>)> = None;
        for n in chosen.iter() {
            match walked {
                // All rows of a run of reasoning belong to the same message. Without this cache
                // each of them would walk to the end of the run.
                Some((end, head)) if *n < end => heads.extend(head),
                _ => {
                    let (end, head) = self.head_of(records, *n)?;
                    heads.extend(head);
                    walked = Some((end, head));
                }
            }
        }
        records.ensure_calls(heads.iter().filter_map(|n| self.rows.get(*n)))?;
        let mut units = Vec::new();
        for head in heads {
            let unit = self.unit(records, head)?;
            chosen.extend(unit.members.iter().copied());
            units.push(unit);
        }
        Ok(units)
    }

    /// Returns the position of the message with calls whose group a row belongs to, and the first
    /// later position for which the answer may differ.
    fn head_of(&self, records: &Records, n: usize) -> Plan<(usize, Option<usize>)> {
        let Some(row) = self.rows.get(n) else { return Ok((n + 1, None)) };
        if let Some(call) = row.answers {
            return Ok((n + 1, self.places.get(&call.slot).copied()));
        }
        if !records.calls(row)?.is_empty() {
            return Ok((n + 1, Some(n)));
        }
        // Reasoning belongs to the message with calls that follows it directly.
        for (next, row) in self.rows.iter().enumerate().skip(n) {
            if records.kind(row.version)? != Kind::Reasoning {
                let calls = next > n && row.answers.is_none() && !records.calls(row)?.is_empty();
                return Ok((next.max(n + 1), calls.then_some(next)));
            }
        }
        Ok((self.rows.len(), None))
    }

    fn unit(&self, records: &Records, head: usize) -> Plan<CallGroup> {
        let mut unit = CallGroup { members: BTreeSet::from([head]), open: false };
        let Some(row) = self.rows.get(head) else { return Ok(unit) };
        let answers = self.answers.get(&row.slot).map(Vec::as_slice).unwrap_or_default();
        unit.members.extend(answers.iter().copied());
        let answered: HashSet<usize> = answers
            .iter()
            .filter_map(|n| usize::try_from(self.rows.get(*n)?.answers?.index).ok())
            .collect();
        unit.open = (0..records.calls(row)?.len()).any(|index| !answered.contains(&index));
        // A provider expects reasoning right before the message with the calls that it led to, so
        // it belongs to the group.
        for (n, before) in self.rows.iter().enumerate().take(head).rev() {
            if records.kind(before.version)? != Kind::Reasoning {
                break;
            }
            unit.members.insert(n);
        }
        Ok(unit)
    }

    /// Removes the rows that must stay. Returns how many stay because of a pin, and how many
    /// because of an open call.
    fn narrow(
        &self,
        records: &Records,
        chosen: &mut BTreeSet<usize>,
        units: &[CallGroup],
    ) -> Plan<(usize, usize)> {
        let rows: Vec<&Row> = chosen.iter().filter_map(|n| self.rows.get(*n)).collect();
        records.ensure(rows.iter().flat_map(|row| [Some(row.version), row.mark]).flatten())?;
        let mut pins = BTreeSet::new();
        for n in chosen.iter() {
            if let Some(row) = self.rows.get(*n)
                && records.priority(row)? == Priority::Pinned
            {
                pins.insert(*n);
            }
        }
        let mut pinned = BTreeSet::new();
        let mut open = BTreeSet::new();
        for unit in units {
            if unit.members.iter().any(|n| pins.contains(n)) {
                pinned.extend(unit.members.iter().copied());
            } else if unit.open {
                open.extend(unit.members.iter().copied());
            }
        }
        pinned.extend(pins);
        chosen.retain(|n| !pinned.contains(n) && !open.contains(n));
        Ok((pinned.len(), open.len()))
    }
}
