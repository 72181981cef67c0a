//! Converts the commits of the original, each on top of its parents.

mod merging;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use imbl::{OrdMap, OrdSet};

use super::database::{Commit, Database, Operation};
use tract_core::{
    AuthorKind, Commit as Ours, CommitId, Content, Draft, JsonText, Origin, Part, Priority,
    RefName, RefTarget, ToolSchema, ToolsetId,
};
use tract_engine::plan::{Details, NewContent, Request};
use tract_engine::{Error, Refusal, Repo, Result, Txn};

use super::content::{self, PythonContent, ToolText};
use super::priorities::Priorities;
use super::tags::with_tags;
use crate::writer::{import_details, store_new};

/// The state of a history after a commit of the original. Every commit has one, so its maps share
/// what they have in common: a clone takes constant time.
#[derive(Clone, Debug, Default)]
pub(super) struct WalkState<'a> {
    pub(super) head: Option<CommitId>,
    /// The anomalies of the history so far.
    anomalies: Option<Rc<AnomalyList>>,
    /// The edit in effect for each message, by hash.
    edits: OrdMap<&'a str, &'a str>,
    /// The instructions in effect, by name.
    named: OrdMap<String, &'a str>,
    /// Instructions that were replaced by others of their name.
    replaced: OrdSet<&'a str>,
    /// The tools in force.
    tools: Rc<[String]>,
    /// Number of priorities that were processed.
    seen: usize,
}

/// The anomalies of a history: a list whose older part is shared with other histories.
#[derive(Debug)]
pub(super) struct AnomalyList {
    text: String,
    before: Option<Rc<AnomalyList>>,
}

impl WalkState<'_> {
    fn note(&mut self, text: String) {
        self.anomalies = Some(Rc::new(AnomalyList { text, before: self.anomalies.take() }));
    }

    /// Returns the anomalies, oldest first.
    pub(super) fn anomalies(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut next = self.anomalies.as_deref();
        while let Some(noted) = next {
            found.push(noted.text.clone());
            next = noted.before.as_deref();
        }
        found.reverse();
        found
    }
}

/// The conversion of a file's commits.
pub(super) struct Walk<'a> {
    data: &'a Database,
    priorities: Priorities<'a>,
    repo: &'a Repo,
    txn: Txn<'a>,
    /// Commits that were not stored before.
    fresh: HashSet<CommitId>,
    /// A temporary branch for planning. It does not exist after the conversion.
    desk: RefName,
    tool_text: ToolText,
    states: HashMap<&'a str, Result<WalkState<'a>, String>>,
    /// The messages, by the commit that added them.
    slots: HashMap<&'a str, CommitId>,
    /// The commits that added the messages, by message.
    originals: HashMap<CommitId, &'a str>,
    /// The priority of each annotation commit.
    marks: HashMap<CommitId, usize>,
    toolsets: HashMap<ToolsetId, Rc<[String]>>,
    /// Tools that a rewrite of the original lost, by the commit that should have them.
    lost_tools: HashMap<&'a str, Rc<[String]>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(repo: &'a Repo, data: &'a Database) -> Result<Self> {
        let new = data.schema_version >= 10 && !data.old_edit_column;
        let mut walk = Self {
            data,
            priorities: Priorities::of(data),
            repo,
            txn: Txn::new(repo)?.importing(),
            fresh: HashSet::new(),
            desk: RefName::branch("python-tract-import")?,
            tool_text: if new { ToolText::Minimal } else { ToolText::Full },
            states: HashMap::new(),
            slots: HashMap::new(),
            originals: HashMap::new(),
            marks: HashMap::new(),
            toolsets: HashMap::new(),
            lost_tools: HashMap::new(),
        };
        walk.find_lost_tools();
        Ok(walk)
    }

    /// Returns the current transaction.
    pub(super) fn txn(&mut self) -> &mut Txn<'a> {
        &mut self.txn
    }

    /// Returns whether a commit was stored before the import.
    pub(super) fn is_old(&self, id: CommitId) -> bool {
        !self.fresh.contains(&id)
    }

    /// Stores the commits so far. No ref moves, so none of them is visible before all are stored.
    pub(super) async fn flush(&mut self) -> Result<()> {
        // The scratch branch only exists within a transaction.
        self.txn.move_ref(&self.desk, None).await?;
        let next = Txn::new(self.repo)?.importing();
        let done = std::mem::replace(&mut self.txn, next);
        store_new(self.repo, done, &mut self.fresh).await
    }

    /// Ends the conversion. Returns the last transaction, to be applied by the caller.
    pub(super) async fn into_txn(mut self) -> Result<Txn<'a>> {
        self.txn.move_ref(&self.desk, None).await?;
        Ok(self.txn)
    }

    /// Converts a commit and all commits that lead to it. Returns the state of its history.
    pub(super) async fn commit(&mut self, hash: &'a str) -> Result<Result<WalkState<'a>, String>> {
        // Each with whether its parents were already pushed.
        let mut open = vec![(hash, false)];
        let mut entered = HashSet::new();
        while let Some((hash, after_parents)) = open.pop() {
            if self.states.contains_key(hash) {
                continue;
            }
            let state = match self.data.commits.get(hash) {
                None => Err(format!("commit {} is missing", short(hash))),
                Some(commit) if after_parents => self.take(commit).await?,
                // A commit that was entered but has no state is on the current path, so this is a
                // cycle.
                Some(_) if !entered.insert(hash) => {
                    Err(format!("commit {} is its own ancestor", short(hash)))
                }
                Some(commit) => {
                    open.push((hash, true));
                    open.extend(parents(commit).map(|parent| (parent, false)));
                    continue;
                }
            };
            self.states.insert(hash, state);
        }
        Ok(self.states.get(hash).cloned().unwrap_or_else(|| Err("it is missing".to_owned())))
    }

    /// Adds the priorities that were set after the last commit of a branch.
    pub(super) async fn finish(&mut self, mut state: WalkState<'a>) -> Result<WalkState<'a>> {
        self.move_to(state.head).await?;
        self.mark_until(&mut state, i64::MAX).await?;
        Ok(state)
    }

    /// Records the messages of a branch that the original leaves out of its context. For a merge,
    /// the original shows only the messages that the second parent's own first parents added.
    /// Messages that reached that branch by a merge, or through a third parent, are shown here but
    /// not there.
    pub(super) fn note_left_out(&self, head: &str, state: &mut WalkState<'a>) {
        let mut shown: HashSet<&str> = HashSet::new();
        let own: Vec<&Commit> = self.first_parents(head);
        shown.extend(own.iter().map(|commit| commit.hash.as_str()));
        for merged in own.iter().filter_map(|commit| commit.parents.get(1)) {
            for commit in self.first_parents(merged) {
                if !shown.insert(&commit.hash) {
                    break;
                }
            }
        }
        let mut left_out: Vec<&Commit> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        let mut open: Vec<&str> = vec![head];
        while let Some(hash) = open.pop() {
            let Some(commit) = self.data.commits.get(hash).filter(|_| seen.insert(hash)) else {
                continue;
            };
            open.extend(parents(commit));
            if self.slots.contains_key(hash) && !shown.contains(hash) {
                left_out.push(commit);
            }
        }
        if left_out.is_empty() {
            return;
        }
        left_out.sort_by_key(|commit| (commit.created_at, &commit.hash));
        const LISTED: usize = 20;
        let mut names: Vec<&str> =
            left_out.iter().take(LISTED).map(|commit| short(&commit.hash)).collect();
        if left_out.len() > LISTED {
            names.push("…");
        }
        let count = left_out.len();
        let (messages, them) = if count == 1 { ("message", "it") } else { ("messages", "them") };
        state.note(format!(
            "{count} {messages} came by a merge into a branch that was merged ({}): {them} the \
             model sees here; the original leaves {them} out",
            names.join(", ")
        ));
    }

    /// Returns a commit and its first parents, newest first.
    fn first_parents(&self, hash: &str) -> Vec<&'a Commit> {
        let mut found: Vec<&'a Commit> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        let mut next = self.data.commits.get(hash);
        while let Some(commit) = next.filter(|commit| seen.insert(&commit.hash)) {
            found.push(commit);
            next = parents(commit).next().and_then(|parent| self.data.commits.get(parent));
        }
        found
    }

    /// Returns the commit that a commit of the original was converted to.
    pub(super) fn imported_commit(&self, hash: &str) -> Option<CommitId> {
        self.states.get(hash)?.as_ref().ok()?.head
    }

    async fn move_to(&mut self, head: Option<CommitId>) -> Result<()> {
        self.txn.move_ref(&self.desk, head.map(RefTarget::Commit)).await
    }

    /// Converts a commit whose parents were converted. The inner error is the reason why it cannot
    /// be.
    async fn take(&mut self, commit: &'a Commit) -> Result<Result<WalkState<'a>, String>> {
        let mut state = WalkState::default();
        for (place, parent) in parents(commit).enumerate() {
            match self.states.get(parent) {
                Some(Ok(parent)) if place == 0 => state = parent.clone(),
                Some(Ok(_)) => {}
                Some(Err(why)) => return Ok(Err(why.clone())),
                None => return Ok(Err(format!("commit {} is missing", short(parent)))),
            }
        }
        if let Some(damage) = &commit.damage {
            return Ok(Err(format!("commit {} is damaged: {damage}", short(&commit.hash))));
        }
        let payload = self.data.blobs.get(&commit.content_hash).map_or("", String::as_str);
        let says = match content::read(commit, payload, self.tool_text) {
            Ok(says) => says,
            Err(error) => return Ok(Err(format!("commit {}: {error}", short(&commit.hash)))),
        };
        self.move_to(state.head).await?;
        self.mark_until(&mut state, commit.created_at).await?;
        let done = match commit.parents.len() {
            0 | 1 => self.step(commit, says, &mut state).await,
            _ => self.merge(commit, payload, &mut state).await,
        };
        match done {
            Ok(()) => {
                state.head = self.txn.head(&self.desk).await?;
                Ok(Ok(state))
            }
            Err(error) if error.is_store_failure() => Err(error),
            Err(error) => Ok(Err(format!("commit {}: {error}", short(&commit.hash)))),
        }
    }

    async fn step(
        &mut self,
        commit: &'a Commit,
        says: PythonContent,
        state: &mut WalkState<'a>,
    ) -> Result<()> {
        let mut details = self.details(commit, &says, state)?;
        let message = match says {
            PythonContent::Data(content) => {
                let request = Request::Note { content: Some(content), details };
                return self.add(&request, state).await.map(drop);
            }
            PythonContent::Message(message) => *message,
        };
        details.origin.detail = message.detail;
        if commit.operation == Operation::Edit {
            return self.edit(commit, message.content, details, state).await;
        }
        let mut draft = Draft::new(message.content);
        draft.role = message.role;
        draft.message = details.message;
        draft.metadata = details.metadata;
        draft.generation_config = details.generation_config;
        draft.tools = details.tools;
        draft.origin = details.origin;
        draft.created_at = details.created_at;
        let default = draft.content.kind().default_priority();
        let given = self.priorities.automatic_priority(&commit.hash);
        let priority = given.map(|(_, priority)| priority).or(message.priority);
        draft.priority = priority.filter(|priority| *priority != default);
        let ours = self.add(&Request::Import(draft), state).await?;
        if let Some((place, _)) = given {
            self.marks.insert(ours.id(), place);
        }
        self.slots.insert(&commit.hash, ours.id());
        self.originals.insert(ours.id(), &commit.hash);
        if let Some(name) = message.replaces
            && let Some(older) = state.named.insert(name.clone(), &commit.hash)
        {
            self.replace(older, &name, commit.created_at, state).await?;
        }
        Ok(())
    }

    /// Hides an instruction that a later one of its name replaces.
    async fn replace(
        &mut self,
        older: &'a str,
        name: &str,
        at: i64,
        state: &mut WalkState<'a>,
    ) -> Result<()> {
        state.replaced.insert(older);
        let Some(slot) = self.slots.get(older) else { return Ok(()) };
        let request = Request::Annotate {
            targets: vec![*slot],
            priority: Priority::Skip,
            reason: Some(format!("a later instruction has its name, {name:?}")),
            retention: None,
            details: import_details(Some(at)),
        };
        self.txn.add(&self.desk, &request).await.map(drop)
    }

    async fn edit(
        &mut self,
        commit: &'a Commit,
        mut content: Content,
        details: Details,
        state: &mut WalkState<'a>,
    ) -> Result<()> {
        let target = commit.edit_target.as_deref().unwrap_or_default();
        let head = self.txn.head(&self.desk).await?;
        let history = self.txn.fold(head).await?;
        let slot = self.slots.get(target).copied().filter(|slot| history.view().contains(*slot));
        let newer =
            self.edit_of(target, state).is_some_and(|other| other.created_at >= commit.created_at);
        let why = match slot {
            None => Some("names a commit that is not on its line"),
            Some(_) if newer => Some("is older than the edit that it follows"),
            Some(_) => None,
        };
        let Some(slot) = slot.filter(|_| why.is_none()) else {
            state.note(format!(
                "edit {} {}: kept as a note, without effect as in the original",
                short(&commit.hash),
                why.unwrap_or_default()
            ));
            let content = JsonText::new(
                self.data.blobs.get(&commit.content_hash).map_or("null", String::as_str),
            );
            let request = Request::Note { content: content.ok(), details };
            return self.add(&request, state).await.map(drop);
        };
        // Calls are in the metadata, and in the original an edit without them loses them.
        let original = self.data.commits.get(target);
        let mut keeps_calls = false;
        if let Content::Assistant(body) = &mut content
            && body.parts.len() == 1
            && let Some(original) = original.and_then(|original| self.content(original))
        {
            body.parts.extend(original.calls().cloned().map(Part::ToolCall));
            keeps_calls = body.parts.len() > 1;
        }
        let request = Request::Edit {
            target: slot,
            content: NewContent::Content(content.clone()),
            details: details.clone(),
        };
        match self.add(&request, state).await {
            Err(Error::Refused(Refusal::OtherKind { .. } | Refusal::OtherCalls { .. })) => {
                state.note(format!(
                    "edit {} changes the role or the calls of a message: its text alone is taken",
                    short(&commit.hash)
                ));
                let content = NewContent::Text(content.text());
                self.add(&Request::Edit { target: slot, content, details }, state).await?;
            }
            done => drop(done?),
        }
        if keeps_calls {
            state.note(format!(
                "edit {} keeps the tool calls of its message, which the original loses",
                short(&commit.hash)
            ));
        }
        state.edits.insert(target, &commit.hash);
        Ok(())
    }

    /// Returns the edit in effect for a message.
    fn edit_of(&self, target: &str, state: &WalkState<'a>) -> Option<&'a Commit> {
        self.data.commits.get(*state.edits.get(target)?)
    }

    /// Returns the message of a commit, if it has one.
    fn content(&self, commit: &Commit) -> Option<Content> {
        let payload = self.data.blobs.get(&commit.content_hash)?;
        match content::read(commit, payload, self.tool_text).ok()? {
            PythonContent::Message(message) => Some(message.content),
            PythonContent::Data(_) => None,
        }
    }

    /// Carries out a request and tracks the tools in force.
    async fn add(&mut self, request: &Request, state: &mut WalkState<'a>) -> Result<Ours> {
        let ours = self.txn.add(&self.desk, request).await?;
        let given = match request {
            Request::Import(draft) => draft.tools.is_some(),
            Request::Edit { details, .. } | Request::Note { details, .. } => {
                details.tools.is_some()
            }
            _ => false,
        };
        if given && let Some(id) = ours.toolset {
            self.toolsets.insert(id, Rc::clone(&state.tools));
        }
        Ok(ours)
    }

    /// Returns the details of a commit other than its content. Tools are only set when they change.
    fn details(
        &self,
        commit: &'a Commit,
        says: &PythonContent,
        state: &mut WalkState<'a>,
    ) -> Result<Details> {
        let mut details = self.facts(commit)?;
        details.message = content::message(commit, says);
        let lost = self.lost_tools.get(commit.hash.as_str()).filter(|_| commit.tools.is_empty());
        let tools: Rc<[String]> = match lost {
            Some(lost) => Rc::clone(lost),
            None => commit.tools.as_slice().into(),
        };
        if !tools.is_empty() && tools != state.tools {
            details.tools = Some(self.schemas(&tools)?);
            state.tools = tools;
            if lost.is_some() {
                state.note(format!(
                    "commit {} keeps the tools in force, which the original loses when it \
                     rewrites history",
                    short(&commit.hash)
                ));
            }
        }
        Ok(details)
    }

    fn facts(&self, commit: &Commit) -> Result<Details> {
        let json = |text: &Option<String>| text.as_deref().map(JsonText::new).transpose();
        let mut metadata = json(&commit.metadata)?;
        if !commit.tags.is_empty() {
            metadata = Some(with_tags(metadata.as_ref(), &commit.tags)?);
        }
        Ok(Details {
            metadata,
            generation_config: json(&commit.generation_config)?,
            origin: Origin { id: Some(commit.hash.clone()), ..AuthorKind::Import.into() },
            created_at: Some(commit.created_at),
            ..Details::default()
        })
    }

    fn schemas(&self, tools: &[String]) -> Result<Vec<ToolSchema>> {
        // Skip missing tools. The foreign key forbids such links, so there is nothing to keep.
        let known = tools.iter().filter_map(|id| self.data.tools.get(id));
        known.map(|tool| Ok(ToolSchema::parse(&tool.schema)?)).collect()
    }

    /// Adds the priorities that were set before a time and are not added yet.
    async fn mark_until(&mut self, state: &mut WalkState<'a>, until: i64) -> Result<()> {
        let due = self.priorities.due(state.seen, until);
        let begun = state.seen == 0;
        state.seen = due.end;
        if due.is_empty() {
            return Ok(());
        }
        let mut history = None;
        for place in due.clone() {
            let Some(change) = self.priorities.get(place) else { continue };
            let target = change.target;
            let Some(slot) = self.slots.get(target).copied() else { continue };
            if state.replaced.contains(target) || begun && self.priorities.newer(place, &due) {
                continue;
            }
            if history.is_none() {
                let head = self.txn.head(&self.desk).await?;
                history = Some(self.txn.fold(head).await?);
            }
            let Some(row) = history.as_ref().and_then(|history| history.view().get(slot)) else {
                continue;
            };
            let priority = row.mark.and_then(|mark| self.marks.get(&mark));
            let by_default = row.mark.is_none() && change.automatic;
            if priority == Some(&place) || by_default {
                continue;
            }
            let ours = self.txn.add(&self.desk, &change.request(slot)).await?;
            self.marks.insert(ours.id(), place);
            if let Some(why) = change.restored() {
                state.note(why);
            }
            history = None;
        }
        state.head = self.txn.head(&self.desk).await?;
        Ok(())
    }

    /// Finds the tools that compressions and rebases of the original lost.
    fn find_lost_tools(&mut self) {
        let mut known = HashMap::new();
        for event in &self.data.events {
            let (results, sources) = (&event.results, &event.sources);
            let found: Vec<(&'a String, &'a String)> = match event.event_type.as_str() {
                "compress" => results.first().zip(sources.last()).into_iter().collect(),
                "reorganize" => results.iter().zip(sources).collect(),
                _ => Vec::new(),
            };
            for (result, source) in found {
                let tools = self.tools_at(source, &mut known);
                if !tools.is_empty() {
                    self.lost_tools.insert(result, tools.into());
                }
            }
        }
    }

    /// Returns the tools in force at a commit of the original: those of its nearest ancestor with
    /// tools. `known` contains the tools of the commits that were visited before.
    fn tools_at(&self, hash: &str, known: &mut HashMap<&'a str, &'a [String]>) -> &'a [String] {
        let mut path: Vec<&'a str> = Vec::new();
        let mut tools: &'a [String] = &[];
        let mut next = self.data.commits.get(hash);
        while let Some(commit) = next {
            if let Some(found) = known.get(&*commit.hash) {
                tools = found;
                break;
            }
            path.push(&commit.hash);
            // This also ends the loop if a commit is its own ancestor.
            known.insert(&commit.hash, &commit.tools);
            if !commit.tools.is_empty() {
                tools = &commit.tools;
                break;
            }
            next = commit.parent.as_ref().and_then(|parent| self.data.commits.get(parent));
        }
        known.extend(path.into_iter().map(|hash| (hash, tools)));
        tools
    }
}

/// Returns the parents of a commit, the first parent first.
pub(super) fn parents(commit: &Commit) -> impl Iterator<Item = &str> {
    let first = commit.parents.first().or(commit.parent.as_ref());
    first.into_iter().chain(commit.parents.iter().skip(1)).map(String::as_str)
}

pub(super) fn short(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}
