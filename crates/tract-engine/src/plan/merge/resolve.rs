//! Resolves conflicts. A resolution changes the side that it decides against so that both sides
//! agree, and the sides are compared again.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;
use tract_compile::{Row, View};
use tract_core::{Change, CommitId, ContentError, JsonText, Kind};

use super::MergeSides;
use crate::plan::work::{ChangeIndex, ensure_covered, hidden_directly};
use crate::plan::{ConflictKind, MergeConflict, Plan, Records, Refusal, ResolutionKind, Stop};

/// A resolution of a merge conflict. The kind of the conflict decides which ones are legal:
///
/// | kind | ours | theirs | both | text |
/// | --- | --- | --- | --- | --- |
/// | version | our text | their text | ours stays, theirs is added after our last message; not for messages with calls, not for results, and not where their version is the message as it was first written | a new text |
/// | mark | our priority | their priority | | |
/// | presence | as ours | as theirs | the message stays | it stays, with a new text |
/// | answer | our result; the call stays | their result; the call returns or goes as on their side | | a new text, where both sides answered |
/// | summary | their summary is not taken | their summary is taken, ours opens | | |
/// | tools | our tools | their tools | ours, then those of theirs with other names | |
///
/// A message that one of our summaries hides has neither `both` nor `text` for its presence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Our side.
    Ours,
    /// Their side.
    Theirs,
    /// Both sides.
    Both,
    /// This text.
    Text(String),
}

impl Resolution {
    /// Returns the kind of the resolution.
    pub fn kind(&self) -> ResolutionKind {
        match self {
            Self::Ours => ResolutionKind::Ours,
            Self::Theirs => ResolutionKind::Theirs,
            Self::Both => ResolutionKind::Both,
            Self::Text(_) => ResolutionKind::Text,
        }
    }
}

/// A conflict and its resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedConflict {
    /// The conflict.
    pub conflict: MergeConflict,
    /// The kind of its resolution.
    pub resolution: ResolutionKind,
}

/// A conflict that a resolver was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvableConflict {
    /// The conflict.
    pub conflict: MergeConflict,
    /// Its resolution; `None` if it is open.
    pub resolution: Option<Resolution>,
    /// The kinds of resolution that are legal for it.
    pub legal: Vec<ResolutionKind>,
}

/// A conflict of a kept merge and its resolution so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptConflict {
    /// The conflict.
    pub conflict: MergeConflict,
    /// Its resolution; `None` if it is open.
    pub resolution: Option<Resolution>,
}

impl From<&ResolvableConflict> for KeptConflict {
    fn from(resolvable: &ResolvableConflict) -> Self {
        Self { conflict: resolvable.conflict.clone(), resolution: resolvable.resolution.clone() }
    }
}

/// A function from a conflict to its resolution.
pub type ResolveFn = dyn Fn(&MergeConflict) -> Option<Resolution> + Send + Sync;

/// The answers for the conflicts of one merge. Each conflict is asked about once, even if the merge
/// is planned several times.
pub struct Resolver<'a> {
    ask: Option<&'a ResolveFn>,
    answers: HashMap<MergeConflict, Option<Resolution>>,
    /// The conflicts of the current plan, if they are collected.
    collected: Option<Vec<ResolvableConflict>>,
}

impl<'a> Resolver<'a> {
    /// Resolves conflicts with a function; `None` leaves a conflict open.
    pub fn new(ask: &'a ResolveFn) -> Self {
        Self { ask: Some(ask), answers: HashMap::new(), collected: None }
    }

    /// Resolves nothing.
    pub fn none() -> Self {
        Self { ask: None, answers: HashMap::new(), collected: None }
    }

    /// Collects the conflicts with their legal resolutions.
    #[must_use]
    pub(crate) fn collecting(mut self) -> Self {
        self.collected = Some(Vec::new());
        self
    }

    /// Drops the conflicts of an earlier plan.
    pub(super) fn restart(&mut self) {
        if let Some(collected) = &mut self.collected {
            collected.clear();
        }
    }

    /// Returns the conflicts of the last plan, sorted.
    pub(crate) fn take_asked(&mut self) -> Vec<ResolvableConflict> {
        let mut collected = self.collected.take().unwrap_or_default();
        collected.sort_by(|one, other| one.conflict.cmp(&other.conflict));
        collected
    }

    fn answer(&mut self, conflict: &MergeConflict) -> Option<Resolution> {
        let ask = self.ask?;
        self.answers.entry(conflict.clone()).or_insert_with(|| ask(conflict)).clone()
    }
}

impl fmt::Debug for Resolver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("answers", &self.answers).finish_non_exhaustive()
    }
}

/// The sides of a merge after the resolutions so far.
pub(super) struct Resolving<'a> {
    records: &'a Records,
    pub(super) ours: View,
    pub(super) theirs: View,
    pub(super) tools: Option<ResolutionKind>,
    pub(super) texts: Vec<(CommitId, String)>,
    pub(super) resolved: Vec<ResolvedConflict>,
    changed: ChangeIndex,
    /// The summaries directly over each message, per side.
    hidden: [Option<HashMap<CommitId, CommitId>>; 2],
}

impl<'a> Resolving<'a> {
    pub(super) fn new(sides: MergeSides<'a>, records: &'a Records) -> Self {
        Self {
            records,
            ours: sides.ours.view().clone(),
            theirs: sides.theirs.view().clone(),
            tools: None,
            texts: Vec::new(),
            resolved: Vec::new(),
            changed: ChangeIndex::default(),
            hidden: [None, None],
        }
    }

    /// Returns the messages in which the sides differed before or after the resolutions so far.
    pub(super) fn compared(&self, sides: MergeSides<'_>) -> Vec<CommitId> {
        let ours = self.ours.changed_slots(sides.ours.view());
        let theirs = self.theirs.changed_slots(sides.theirs.view());
        sides.differing.iter().copied().chain(ours).chain(theirs).collect()
    }

    /// Returns whether the conflict about the tools is resolved. The views do not show that.
    pub(super) fn has_tools(&self, kind: ConflictKind) -> bool {
        kind == ConflictKind::Tools && self.tools.is_some()
    }

    /// Resolves conflicts. Summaries are resolved first and alone, since the messages under them
    /// have to be compared again.
    pub(super) fn resolve(
        &mut self,
        conflicts: Vec<MergeConflict>,
        bases: &[&View],
        resolver: &mut Resolver<'_>,
    ) -> Plan<()> {
        let mut open = Vec::new();
        let mut answered = Vec::new();
        for conflict in conflicts {
            // A conflict that remains after its resolution cannot be resolved that way.
            let again = self.resolved.iter().any(|resolved| resolved.conflict == conflict);
            match resolver.answer(&conflict).filter(|_| !again) {
                Some(resolution) => answered.push((conflict, resolution)),
                None => open.push(conflict),
            }
        }
        for (conflict, resolution) in &answered {
            let legal = self.legal(conflict)?;
            if !legal.contains(&resolution.kind()) {
                let (conflict, resolution) = (Box::new(conflict.clone()), resolution.kind());
                return Err(Refusal::IllegalResolution { conflict, resolution, legal }.into());
            }
        }
        // Opening a summary shows messages again that were not compared so far. The other answers
        // may be about conflicts that no longer exist then, so they wait for the next round, where
        // `answers` still has them.
        let summaries = answered.iter().any(|(conflict, _)| conflict.kind == ConflictKind::Summary);
        if let Some(mut collected) = resolver.collected.take() {
            let alone = open.is_empty() && summaries;
            let mut ask = |conflict: &MergeConflict, resolution: Option<&Resolution>| {
                let legal = self.legal(conflict)?;
                let (conflict, resolution) = (conflict.clone(), resolution.cloned());
                collected.push(ResolvableConflict { conflict, resolution, legal });
                Plan::Ok(())
            };
            for (conflict, resolution) in &answered {
                // The others are asked about again once the summaries are resolved.
                if !alone || conflict.kind == ConflictKind::Summary {
                    ask(conflict, Some(resolution))?;
                }
            }
            for conflict in &open {
                ask(conflict, None)?;
            }
            resolver.collected = Some(collected);
        }
        if !open.is_empty() {
            return Err(Refusal::Conflicts(open).into());
        }
        for (conflict, resolution) in answered {
            if summaries && conflict.kind != ConflictKind::Summary {
                continue;
            }
            self.apply(&conflict, &resolution, bases)?;
            self.resolved.push(ResolvedConflict { conflict, resolution: resolution.kind() });
        }
        Ok(())
    }

    /// Returns the legal resolutions of a conflict.
    fn legal(&mut self, conflict: &MergeConflict) -> Plan<Vec<ResolutionKind>> {
        use ResolutionKind::{Both, Ours, Text, Theirs};
        Ok(match conflict.kind {
            ConflictKind::Version => match conflict.slot {
                Some(slot) if self.may_repeat(slot)? => vec![Ours, Theirs, Both, Text],
                _ => vec![Ours, Theirs, Text],
            },
            ConflictKind::Presence => match conflict.slot {
                Some(slot) if !self.summaries_over(slot, true)?.is_empty() => vec![Ours, Theirs],
                _ => vec![Ours, Theirs, Both, Text],
            },
            ConflictKind::Answer if conflict.ours.is_some() && conflict.theirs.is_some() => {
                vec![Ours, Theirs, Text]
            }
            ConflictKind::Tools => vec![Ours, Theirs, Both],
            ConflictKind::Mark | ConflictKind::Answer | ConflictKind::Summary => {
                vec![Ours, Theirs]
            }
        })
    }

    /// Returns whether both versions of a message can be shown. That needs a message without calls
    /// that answers none, and their version must not name a slot, since the second copy is named
    /// after it.
    fn may_repeat(&self, slot: CommitId) -> Plan<bool> {
        let named =
            |row: &Row| self.ours.contains(row.version) || self.theirs.contains(row.version);
        if self.theirs.get(slot).is_some_and(named) {
            return Ok(false);
        }
        for row in [self.ours.get(slot), self.theirs.get(slot)].into_iter().flatten() {
            let is_result = self.records.kind(row.version)? == Kind::ToolResult;
            if is_result || row.answers.is_some() || !self.records.calls(row)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the summaries of a side that hide a message, the outermost first.
    fn summaries_over(&mut self, slot: CommitId, on_ours: bool) -> Plan<Vec<CommitId>> {
        let view = if on_ours { &self.ours } else { &self.theirs };
        if view.contains(slot) {
            return Ok(Vec::new());
        }
        let [ours, theirs] = &mut self.hidden;
        let hidden = if on_ours { ours } else { theirs };
        let hidden = match hidden {
            Some(hidden) => hidden,
            None => hidden.insert(direct_summaries(self.records, view)?),
        };
        let mut over = Vec::new();
        let mut at = slot;
        while let Some(summary) = hidden.get(&at) {
            over.push(*summary);
            if view.contains(*summary) {
                over.reverse();
                return Ok(over);
            }
            at = *summary;
        }
        Ok(Vec::new())
    }

    fn apply(
        &mut self,
        conflict: &MergeConflict,
        resolution: &Resolution,
        bases: &[&View],
    ) -> Plan<()> {
        if conflict.kind == ConflictKind::Tools {
            self.tools = Some(resolution.kind());
            return Ok(());
        }
        let Some(slot) = conflict.slot else { return Ok(()) };
        if let Resolution::Text(text) = resolution {
            let target = match conflict.kind {
                ConflictKind::Answer => answer(&self.ours, slot, conflict.ours),
                _ => None,
            };
            self.texts.push((target.map_or(slot, |row| row.slot), text.clone()));
        }
        let theirs_wins = matches!(resolution, Resolution::Theirs);
        let (our, their) = (self.ours.get(slot).copied(), self.theirs.get(slot).copied());
        match conflict.kind {
            ConflictKind::Version => {
                let (Some(our), Some(their)) = (our, their) else { return Ok(()) };
                if theirs_wins {
                    self.ours.set_row(Row { version: their.version, ..our });
                } else {
                    self.theirs.set_row(Row { version: our.version, ..their });
                }
                if matches!(resolution, Resolution::Both) {
                    // The second copy needs a slot of its own. Its version is a good name: it is in
                    // the history of theirs, and `may_repeat` made sure that no row has it.
                    let slot = their.version;
                    self.theirs.set_row(Row { slot, mark: None, ..their });
                }
            }
            ConflictKind::Mark => {
                // Identical summaries have one slot on each side.
                if theirs_wins {
                    if let Some(our) = our {
                        self.ours.set_row(Row { mark: conflict.theirs, ..our });
                    }
                } else if let Some(their) = their {
                    self.theirs.set_row(Row { mark: conflict.ours, ..their });
                } else {
                    self.unmark_twin(slot, conflict)?;
                }
            }
            ConflictKind::Presence => match (our, their) {
                (Some(_), None) if theirs_wins => self.remove_with_answers(slot),
                (Some(our), None) => self.theirs.set_row(our),
                (None, Some(their)) if !matches!(resolution, Resolution::Ours) => {
                    self.bring_back(slot, their, bases)?;
                }
                (None, Some(_)) => self.theirs.remove_row(slot),
                _ => {}
            },
            ConflictKind::Answer => self.apply_answer(slot, conflict, theirs_wins, bases)?,
            ConflictKind::Summary => {
                let (Some(ours), Some(theirs)) = (conflict.ours, conflict.theirs) else {
                    return Ok(());
                };
                if !theirs_wins {
                    self.open(theirs, false, bases)?;
                } else if slot == theirs {
                    self.open(ours, true, bases)?;
                } else {
                    self.remove_with_answers(slot);
                }
            }
            ConflictKind::Tools => {}
        }
        Ok(())
    }

    /// Removes a message of ours and the answers to its calls, so that no answer is left without
    /// its call.
    fn remove_with_answers(&mut self, slot: CommitId) {
        let answers = |row: &&Row| row.answers.is_some_and(|call| call.slot == slot);
        let answers: Vec<CommitId> = self.ours.rows().filter(answers).map(|row| row.slot).collect();
        self.ours.remove_row(slot);
        answers.into_iter().for_each(|answer| self.ours.remove_row(answer));
    }

    /// Gives their message that was merged into ours the priority of ours.
    fn unmark_twin(&mut self, slot: CommitId, conflict: &MergeConflict) -> Plan<()> {
        let Some(our) = self.ours.get(slot) else { return Ok(()) };
        let twins: Vec<Row> = self
            .theirs
            .rows()
            .filter(|row| row.mark == conflict.theirs && !self.ours.contains(row.slot))
            .copied()
            .collect();
        let says = self.records.merge_facts(our.version)?;
        for twin in twins {
            if self.records.merge_facts(twin.version)? == says {
                self.theirs.set_row(Row { mark: conflict.ours, ..twin });
            }
        }
        Ok(())
    }

    fn apply_answer(
        &mut self,
        call: CommitId,
        conflict: &MergeConflict,
        theirs_wins: bool,
        bases: &[&View],
    ) -> Plan<()> {
        let our = answer(&self.ours, call, conflict.ours);
        let their = answer(&self.theirs, call, conflict.theirs);
        match (our, their, theirs_wins) {
            (Some(our), Some(their), true) => {
                self.ours.remove_row(our.slot);
                // A key of their history is unrelated to the positions of ours.
                self.ours.set_row(Row { key: our.key, ..their });
            }
            (_, Some(their), false) => self.theirs.remove_row(their.slot),
            (Some(our), None, true) => self.ours.remove_row(our.slot),
            (Some(_), None, false) => {
                for over in self.summaries_over(call, false)? {
                    self.open(over, false, bases)?;
                }
                if let Some(row) = self.ours.get(call).copied() {
                    self.theirs.set_row(row);
                }
            }
            (None, Some(_), true) => {
                if let Some(row) = self.theirs.get(call).copied() {
                    self.bring_back(call, row, bases)?;
                }
            }
            (None, None, _) => {}
        }
        Ok(())
    }

    /// Restores a message that our side removed, at its old position.
    fn bring_back(&mut self, slot: CommitId, their: Row, bases: &[&View]) -> Plan<()> {
        // From the outermost summary inward: opening one shows the summaries under it, which are
        // opened next.
        for over in self.summaries_over(slot, true)? {
            self.open(over, true, bases)?;
        }
        if !self.ours.contains(slot) {
            let key = self.changed.last_key(self.records, slot)?.unwrap_or(self.ours.next());
            self.ours.set_row(Row { key, ..their });
        }
        Ok(())
    }

    /// Removes a summary from a side. The messages under it are shown again, unless the other side
    /// removed them too.
    fn open(&mut self, summary: CommitId, on_ours: bool, bases: &[&View]) -> Plan<()> {
        let (view, other) =
            if on_ours { (&mut self.ours, &self.theirs) } else { (&mut self.theirs, &self.ours) };
        let commit = self.records.commit(summary)?;
        view.remove_row(summary);
        for change in self.records.changes(commit)? {
            let Change::Remove { slot, row } = change else { continue };
            let slot = slot.resolve(summary);
            // The other side has removed the message since the fork. Showing it again would undo
            // that change.
            let gone = bases.iter().any(|base| base.contains(slot)) && !other.contains(slot);
            if gone || view.contains(slot) {
                continue;
            }
            view.set_row(Row {
                slot,
                key: row.key,
                version: row.version.resolve(summary),
                mark: row.mark.map(|mark| mark.resolve(summary)),
                answers: row.answers,
            });
        }
        Ok(())
    }
}

/// Returns the summary that each hidden message is directly under, for the summaries of a view.
fn direct_summaries(records: &Records, view: &View) -> Plan<HashMap<CommitId, CommitId>> {
    let mut open: Vec<CommitId> = view.rows().map(|row| row.slot).collect();
    ensure_covered(records, open.iter().copied())?;
    let mut under = HashMap::new();
    while let Some(summary) = open.pop() {
        for slot in hidden_directly(records, summary)? {
            if under.insert(slot, summary).is_none() {
                open.push(slot);
            }
        }
    }
    Ok(under)
}

/// Finds the row of a view that answers a call of a message with this version.
fn answer(view: &View, call: CommitId, version: Option<CommitId>) -> Option<Row> {
    let version = version?;
    let answers = |row: &&Row| {
        row.version == version && row.answers.is_some_and(|answered| answered.slot == call)
    };
    view.rows().find(answers).copied()
}

/// A resolution in the metadata of a merge commit.
#[derive(Serialize)]
struct ResolutionRecord<'a> {
    #[serde(flatten)]
    conflict: &'a MergeConflict,
    resolution: &'static str,
}

/// Adds the resolutions to the metadata of a merge commit, as the member `resolutions`.
pub(super) fn noted(metadata: Option<&JsonText>, resolved: &[ResolvedConflict]) -> Plan<JsonText> {
    let noted = resolved.iter().map(|ResolvedConflict { conflict, resolution }| ResolutionRecord {
        conflict,
        resolution: resolution.as_str(),
    });
    let noted: Vec<ResolutionRecord<'_>> = noted.collect();
    let content =
        |source| Stop::Content(ContentError::Shape { kind: "metadata".to_owned(), source });
    let mut members: BTreeMap<String, Box<RawValue>> = match metadata {
        Some(metadata) => serde_json::from_str(metadata.as_str()).map_err(content)?,
        None => BTreeMap::new(),
    };
    members.insert("resolutions".to_owned(), JsonText::of(&noted).map_err(content)?.raw());
    JsonText::of(&members).map_err(content)
}
