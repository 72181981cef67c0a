//! Writes turns as commits: the messages of a request that are not recorded yet, and the answer.

mod context;
mod redact;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tract_core::{
    Applied, AuthorKind, CommitId, Content, Draft, JsonText, Part, RefName, RefTarget,
};
use tract_engine::plan::{Details, Request};
use tract_engine::{
    Error, Repo, Result, Txn, WriteOptions, broken_off, generation_config, reply_draft,
};
use tract_secrets::Scanner;

use self::redact::Redactor;
use crate::calls::CallsId;
use crate::chain::{self, ChainHash, ROOT};
use crate::conversations::{
    BranchNumber, BranchState, ContextState, Conversations, Entry, Match, NamedMessage,
};
use crate::read::{Answer, RecordedTurn};
use crate::responses::{PendingRequest, ServerState};

/// Maximum number of attempts if other writers move the branch.
const ATTEMPTS: usize = 8;
/// Maximum number of numbered names that are tried.
const MOST_NAMES: usize = 10_000;

/// Beginnings of the summaries with which agents replace a long conversation.
const SUMMARIES: &[&str] = &[
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem and produced a summary",
];

/// The commits of a turn.
#[derive(Debug)]
pub(crate) struct WrittenTurn {
    pub(crate) branch: String,
    pub(crate) commits: u64,
}

/// Writes turns.
pub(crate) struct Writer {
    repo: Repo,
    conversations: Conversations,
    redactor: Redactor,
    /// The next number to try for each prefix of names.
    names: Mutex<HashMap<String, usize>>,
}

/// The position where a turn is written.
enum Start {
    /// On a branch, after its last commit.
    Continue(Entry),
    /// On a new branch, after a commit.
    Fork(Entry),
    /// On a branch; a summary replaces all messages before it.
    Compact(BranchState),
    /// On a new branch.
    Root,
}

/// A branch while a turn is written to it.
struct OpenBranch {
    name: RefName,
    number: Option<usize>,
    context: ContextState,
    head: Option<CommitId>,
    commits: u64,
    /// Entries for the index. They are added only if the write succeeds.
    learned: Vec<LearnedMessage>,
    /// The calls up to the last message.
    calls: CallsId,
}

/// An entry for the index with its prefix hash, before the number of the branch is known.
#[derive(Clone, Copy)]
struct LearnedMessage {
    hash: ChainHash,
    head: CommitId,
    message: CommitId,
    visible: ChainHash,
    calls: CallsId,
}

impl LearnedMessage {
    fn entry(self, branch: BranchNumber) -> Entry {
        let Self { head, message, visible, calls, .. } = self;
        Entry { branch, head, message, visible, calls }
    }
}

impl OpenBranch {
    /// Makes the message after a request follow the note of this turn, which is not part of the
    /// context.
    fn follow_note(&mut self, found: &Match, note: CommitId) {
        let last = found.hashes.last().copied().unwrap_or(ROOT);
        let known = found.entry.filter(|_| found.count + 1 == found.hashes.len());
        let known = known.map(|Entry { message, visible, calls, .. }| LearnedMessage {
            hash: last,
            head: note,
            message,
            visible,
            calls,
        });
        let written = self.learned.iter().rev().find(|learned| learned.hash == last).copied();
        self.learned
            .extend(written.or(known).map(|of_last| LearnedMessage { head: note, ..of_last }));
    }

    async fn add(&mut self, txn: &mut Txn<'_>, request: &Request) -> Result<CommitId> {
        let commit = txn.add(&self.name, request).await?.id();
        self.head = Some(commit);
        self.commits += 1;
        Ok(commit)
    }

    /// Adds the last added message to the entries for the index.
    fn learn(&mut self, hash: ChainHash, commit: CommitId, content: &Content) {
        let (visible, calls) = (chain::visible(content), self.calls);
        let learned = LearnedMessage { hash, head: commit, message: commit, visible, calls };
        self.learned.push(learned);
    }

    /// Adds a request; `false` if the planner refuses it, which leaves the context unchanged.
    async fn try_add(&mut self, txn: &mut Txn<'_>, request: &Request) -> Result<bool> {
        match self.add(txn, request).await {
            Ok(_) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Writer {
    pub(crate) fn new(repo: Repo, scanner: Option<&'static Scanner>) -> Self {
        let redactor = Redactor::new(scanner);
        let (conversations, names) = (Conversations::default(), Mutex::default());
        Self { repo, conversations, redactor, names }
    }

    /// Clears the index; it is read from the store again when needed.
    pub(crate) fn forget(&mut self) {
        self.conversations = Conversations::default();
    }

    pub(crate) fn redacted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.redactor.counts()
    }

    /// Records a turn. Returns `None` if nothing of it is new, or if it does not belong to a
    /// conversation.
    pub(crate) async fn record(&mut self, mut turn: RecordedTurn) -> Result<Option<WrittenTurn>> {
        self.redactor.turn(&mut turn);
        self.conversations.load(&self.repo, &turn.thread).await?;
        let named = match turn.fetched.as_ref().or(turn.continues.as_ref()) {
            Some(state) => self.conversations.named(&self.repo, state).await?,
            None => None,
        };
        if turn.fetched.is_some() {
            // A recorded answer may be fetched again.
            let Some(request) = named.as_ref().and_then(|named| named.pending.as_ref()) else {
                return Ok(None);
            };
            turn.parameters = request.parameters.clone();
            turn.requested_at_us = request.requested_at_us;
        }
        let found = self.find(&turn, named.as_ref()).await?;
        for attempt in 0..ATTEMPTS {
            // After a lost race the turn is written to a fork: another client has continued the
            // branch, and both continuations are kept.
            let start = self.start(&turn, &found, attempt > 0);
            if let Answer::Error { status, kind } = &turn.answer {
                let Start::Continue(entry) = start else { return Ok(None) };
                return self.note_error(entry, &found, &turn, *status, kind.as_deref()).await;
            }
            if let Some(written) = self.write(&turn, &found, start).await? {
                return Ok((written.commits > 0).then_some(written));
            }
        }
        Err(Error::KeptMoving { attempts: ATTEMPTS })
    }

    /// Finds the recorded prefix of a turn. A turn with unrecorded answers continues an older
    /// conversation, so older branches are read until these answers are found.
    async fn find(&mut self, turn: &RecordedTurn, named: Option<&NamedMessage>) -> Result<Match> {
        let contents = turn.messages.iter().map(|draft| &draft.content);
        if named.is_none() && turn.continues.is_some() {
            // The response that it continues is not recorded, so its messages are not the first
            // ones of a conversation.
            return Ok(Conversations::no_match(contents));
        }
        loop {
            let contents = contents.clone();
            let found = self.conversations.find(&turn.thread, named, contents.clone());
            let is_answer = |content: &Content| matches!(content, Content::Assistant(_));
            // An answer that is not known yet was recorded in an older branch, or not at all.
            // Messages of the user alone do not require loading more.
            let has_older = named.is_none() && contents.skip(found.count).any(is_answer);
            if !has_older || !self.conversations.load_more(&self.repo, &turn.thread).await? {
                return Ok(found);
            }
        }
    }

    fn is_side_request(&self, turn: &RecordedTurn) -> bool {
        let main = self.conversations.main(&turn.thread);
        turn.is_side_request(main.is_some_and(|main| !main.context.tools.is_empty()))
    }

    fn start(&self, turn: &RecordedTurn, found: &Match, has_moved: bool) -> Start {
        if let Some(entry) = found.entry {
            let branch = self.conversations.branch(entry.branch);
            let is_tip = branch.is_some_and(|branch| branch.head == entry.head);
            return match is_tip && !has_moved && !found.is_foreign {
                true => Start::Continue(entry),
                false => Start::Fork(entry),
            };
        }
        let first = turn.messages.first().map(|draft| &draft.content);
        let is_summary = first.is_some_and(|content| {
            content.parts().iter().any(|part| match part {
                Part::Text { text } => SUMMARIES.iter().any(|start| text.starts_with(start)),
                _ => false,
            })
        });
        let main = self.conversations.main(&turn.thread).filter(|_| {
            is_summary && turn.thread.session.is_some() && !has_moved && !self.is_side_request(turn)
        });
        main.map_or(Start::Root, |main| Start::Compact(main.clone()))
    }

    /// Writes a turn; `None` if another writer moved the branch.
    async fn write(
        &mut self,
        turn: &RecordedTurn,
        found: &Match,
        start: Start,
    ) -> Result<Option<WrittenTurn>> {
        let reply = match &turn.answer {
            Answer::Whole { reply, .. } => {
                Some(self.redactor.reply(reply_draft(reply).map_err(damaged)?))
            }
            Answer::Partial { .. } | Answer::Pending { .. } | Answer::Error { .. } => None,
        };
        let last = found.hashes.last().copied().unwrap_or(ROOT);
        let answered = reply.as_ref().map(|draft| chain::after(last, &draft.content));
        let repo = self.repo.clone();
        let mut txn = Txn::new(&repo)?.importing();
        let Some(mut desk) = self.open(&mut txn, turn, found, &start).await? else {
            return Ok(None);
        };
        if turn.fetched.is_none() {
            self.set_context(&mut txn, &mut desk, turn).await?;
            self.take_edits(&mut txn, &mut desk, turn, found).await?;
        }
        let mut matched = found.count;
        // New instructions and edits were added after the last recorded message.
        if let (Some(entry), Some(head), Some(hash)) =
            (found.entry, desk.head, found.hashes.get(matched))
            && matches!(start, Start::Continue(_))
        {
            let edited = desk.learned.iter().rev().find(|learned| learned.hash == *hash);
            let visible = edited.map_or(entry.visible, |learned| learned.visible);
            let (message, calls) = (entry.message, entry.calls);
            desk.learned.push(LearnedMessage { hash: *hash, head, message, visible, calls });
        }
        if let (Start::Compact(_), Some(draft)) = (&start, turn.messages.first()) {
            self.compact(&mut txn, &mut desk, draft, turn.requested_at_us).await?;
            if let (Some(head), Some(hash)) = (desk.head, found.hashes.get(1)) {
                desk.calls = self.conversations.calls.after(CallsId::default(), &draft.content);
                desk.learn(*hash, head, &draft.content);
            }
            matched = 1;
        }
        let new = turn.messages.iter().zip(found.hashes.iter().skip(1)).skip(matched);
        for (draft, hash) in new {
            let mut draft = draft.clone();
            draft.created_at = Some(turn.requested_at_us);
            let content = draft.content.clone();
            let commit = desk.add(&mut txn, &Request::Import(draft)).await?;
            desk.calls = self.conversations.calls.after(desk.calls, &content);
            desk.learn(*hash, commit, &content);
        }
        if let (Some(draft), Some(hash)) = (reply, answered) {
            let draft = with_facts(draft, turn)?;
            let content = draft.content.clone();
            let commit = desk.add(&mut txn, &Request::Import(draft)).await?;
            desk.calls = self.conversations.calls.after(desk.calls, &content);
            desk.learn(hash, commit, &content);
        }
        if let Answer::Partial { partial, cause } = &turn.answer {
            let request = broken_off(cause, partial, Some(&turn.parameters))?;
            let request = at(request, turn.answered_at_us);
            let commit = desk.add(&mut txn, &request).await?;
            desk.follow_note(found, commit);
        }
        let background = turn.background_response();
        if let Some(response) = background {
            let request = PendingRequest::of(turn);
            let details = Details {
                message: Some("the answer is made in the background".to_owned()),
                origin: AuthorKind::Import.into(),
                created_at: Some(turn.requested_at_us),
                ..Details::default()
            };
            let content = Some(JsonText::of(&request.note(response)).map_err(damaged)?);
            let commit = desk.add(&mut txn, &Request::Note { content, details }).await?;
            desk.follow_note(found, commit);
        }
        match txn.apply("record", &WriteOptions::default()).await? {
            Applied::Done | Applied::Already => {}
            Applied::Conflict(_) | Applied::Moved(_) => return Ok(None),
        }
        for kinds in turn.redacted.iter().skip(found.count) {
            self.redactor.count(kinds);
        }
        let newest = desk.learned.last().copied();
        // Only after the write: the index must not lead later turns to commits that are not stored.
        let (written, number) = self.learn(turn, desk);
        if let (Some(number), Some(newest)) = (number, newest) {
            self.name(turn, newest.entry(number), newest.hash);
        }
        Ok(Some(written))
    }

    /// Stores the ids by which later requests continue this turn.
    fn name(&mut self, turn: &RecordedTurn, entry: Entry, hash: ChainHash) {
        let (response, pending) = match (&turn.answer, turn.background_response()) {
            (Answer::Whole { reply, .. }, _) => {
                (reply.id.as_deref().and_then(ServerState::response), None)
            }
            (_, Some(id)) => (ServerState::response(id), Some(PendingRequest::of(turn))),
            (_, None) => (None, None),
        };
        let conversation = ServerState::conversation(&turn.parameters);
        let named = NamedMessage { hash, entry, pending };
        for state in response.into_iter().chain(conversation) {
            self.conversations.name(state, named.clone());
        }
    }

    fn learn(
        &mut self,
        turn: &RecordedTurn,
        desk: OpenBranch,
    ) -> (WrittenTurn, Option<BranchNumber>) {
        let branch = desk.name.branch_name().unwrap_or_default().to_owned();
        let written = WrittenTurn { branch, commits: desk.commits };
        let number = desk.head.map(|head| {
            let state = BranchState { name: desk.name, head, context: desk.context };
            let is_side = self.is_side_request(turn);
            let number = self.conversations.wrote(&turn.thread, desk.number, state, is_side);
            for learned in desk.learned {
                let entry = learned.entry(number);
                self.conversations.insert(&turn.thread, learned.hash, entry);
            }
            number
        });
        (written, number)
    }

    /// Opens or creates the branch of a turn; `None` if the branch has moved.
    async fn open(
        &self,
        txn: &mut Txn<'_>,
        turn: &RecordedTurn,
        found: &Match,
        start: &Start,
    ) -> Result<Option<OpenBranch>> {
        let base = Conversations::base_name(&turn.thread, turn.requested_at_us);
        let calls = match start {
            Start::Continue(entry) | Start::Fork(entry) => entry.calls,
            Start::Compact(_) | Start::Root => CallsId::default(),
        };
        let desk = |name, number, context, head| OpenBranch {
            name,
            number,
            context,
            head,
            commits: 0,
            learned: Vec::new(),
            calls,
        };
        let (state, number) = match start {
            Start::Continue(entry) => (self.conversations.branch(entry.branch), Some(entry.branch)),
            Start::Compact(state) => (Some(state), self.conversations.entry_number(&turn.thread)),
            Start::Fork(entry) => {
                let from = self.conversations.branch(entry.branch);
                let from = from.and_then(|branch| branch.name.branch_name()).unwrap_or(&base);
                // A fork of a fork is named after the original conversation.
                let from = from.split(".fork-").next().unwrap_or(from);
                let name = match found.is_foreign {
                    true => self.root_name(txn, &base).await?,
                    false => self.free_name(txn, &format!("{from}.fork-")).await?,
                };
                txn.move_ref(&name, Some(RefTarget::Commit(entry.head))).await?;
                let compiled = self.repo.compile(Some(entry.head)).await?;
                let context = ContextState::of(&compiled);
                return Ok(Some(desk(name, None, context, Some(entry.head))));
            }
            Start::Root => {
                let name = if self.is_side_request(turn) {
                    self.free_name(txn, &format!("{base}.side-")).await?
                } else {
                    self.root_name(txn, &base).await?
                };
                return Ok(Some(desk(name, None, ContextState::default(), None)));
            }
        };
        let Some(state) = state else { return Ok(None) };
        // Another client has moved the branch since it was indexed. The caller tries again, with a
        // fork.
        if txn.head(&state.name).await? != Some(state.head) {
            return Ok(None);
        }
        Ok(Some(desk(state.name.clone(), number, state.context.clone(), Some(state.head))))
    }

    /// Returns the name of a thread's next branch that is not a fork.
    async fn root_name(&self, txn: &mut Txn<'_>, base: &str) -> Result<RefName> {
        let name = RefName::branch(base)?;
        match txn.target(&name).await? {
            None => Ok(name),
            Some(_) => self.free_name(txn, &format!("{base}.root-")).await,
        }
    }

    /// Returns the next free name with this prefix and a number. The number is remembered, because
    /// an evaluation sends the same question thousands of times.
    async fn free_name(&self, txn: &mut Txn<'_>, beginning: &str) -> Result<RefName> {
        let first = if beginning.ends_with(".root-") { 2 } else { 1 };
        let known =
            self.names.lock().unwrap_or_else(PoisonError::into_inner).get(beginning).copied();
        let from = known.unwrap_or(first);
        for n in from..from.saturating_add(MOST_NAMES) {
            let name = RefName::branch(&format!("{beginning}{n}"))?;
            if txn.target(&name).await?.is_none() {
                let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
                if names.len() >= MOST_NAMES {
                    names.clear();
                }
                names.insert(beginning.to_owned(), n);
                return Ok(name);
            }
        }
        Err(Error::KeptMoving { attempts: MOST_NAMES })
    }

    /// Records a note about a request that the upstream rejected.
    async fn note_error(
        &mut self,
        entry: Entry,
        found: &Match,
        turn: &RecordedTurn,
        status: u16,
        kind: Option<&str>,
    ) -> Result<Option<WrittenTurn>> {
        let repo = self.repo.clone();
        let mut txn = Txn::new(&repo)?.importing();
        let opened = self.open(&mut txn, turn, found, &Start::Continue(entry)).await?;
        let Some(mut desk) = opened else { return Ok(None) };
        let content = json!({ "upstream_error": { "status": status, "type": kind } });
        let details = Details {
            message: Some(format!("the upstream answered {status}")),
            origin: AuthorKind::Import.into(),
            created_at: Some(turn.answered_at_us),
            ..Details::default()
        };
        let content = Some(JsonText::of(&content).map_err(damaged)?);
        let commit = desk.add(&mut txn, &Request::Note { content, details }).await?;
        if let Applied::Conflict(_) = txn.apply("record", &WriteOptions::default()).await? {
            return Ok(None);
        }
        if let Some(hash) = found.hashes.get(found.count) {
            let Entry { message, visible, calls, .. } = entry;
            let hash = *hash;
            desk.learned.push(LearnedMessage { hash, head: commit, message, visible, calls });
        }
        Ok(Some(self.learn(turn, desk).0))
    }
}

/// Adds the metadata of an answer.
fn with_facts(mut draft: Draft, turn: &RecordedTurn) -> Result<Draft> {
    let model = draft.generation_config.as_ref().and_then(|config| {
        let config: serde_json::Value = serde_json::from_str(config.as_str()).ok()?;
        Some(config.get("model")?.as_str()?.to_owned())
    });
    draft.generation_config = generation_config(Some(&turn.parameters), model.as_deref())?;
    draft.created_at = Some(turn.answered_at_us);
    let milliseconds = (turn.answered_at_us - turn.requested_at_us).max(0) / 1000;
    let facts = json!({
        "request_id": turn.request_id,
        "session": turn.thread.session,
        "agent": turn.thread.agent,
        "user_agent": turn.user_agent,
        "duration_ms": milliseconds,
    });
    let facts: serde_json::Map<String, serde_json::Value> = match facts {
        serde_json::Value::Object(facts) => {
            facts.into_iter().filter(|(_, v)| !v.is_null()).collect()
        }
        _ => serde_json::Map::new(),
    };
    if let Answer::Whole { others: Some(others), .. } = &turn.answer {
        draft = draft.metadata("response", others).map_err(damaged)?;
    }
    draft.metadata("recorded", facts).map_err(damaged)
}

fn at(request: Request, at_us: i64) -> Request {
    match request {
        Request::Note { content, mut details } => {
            details.created_at = Some(at_us);
            Request::Note { content, details }
        }
        other => other,
    }
}

fn damaged(error: serde_json::Error) -> Error {
    Error::Damaged { object: None, what: error.to_string() }
}
