//! Turns as commits: what a request says that is not recorded yet, and what was answered.

mod context;
mod redact;

use serde_json::json;
use tract_core::{Applied, AuthorKind, CommitId, Draft, JsonText, Part, RefName, RefTarget};
use tract_engine::plan::{Details, Request};
use tract_engine::{
    Error, Repo, Result, Txn, WriteOptions, broken_off, generation_config, reply_draft,
};
use tract_secrets::Scanner;

use self::redact::Redactor;
use crate::chain::{self, ChainHash, ROOT};
use crate::conversations::{BranchState, ContextState, Conversations, Entry, Match};
use crate::read::{Answer, RecordedTurn};

/// How often a write is tried where others move its branch.
const ATTEMPTS: usize = 8;
/// Names of one kind that are tried.
const MOST_NAMES: usize = 10_000;

/// How ids of answers begin that later requests may name instead of sending all messages.
const RESPONSE_ID: &str = "resp_";

/// How agents begin the text that they put in the place of a conversation that grew too long.
const SUMMARIES: &[&str] = &[
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem and produced a summary",
];

/// What became of a turn.
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
}

/// Where a turn goes.
enum Start {
    /// On a branch, after its last commit.
    Continue(Entry),
    /// On a new branch, after a commit.
    Fork(Entry),
    /// On a branch, where a summary takes the place of all that was said.
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
    /// What the index learns when the write is done.
    learned: Vec<(ChainHash, CommitId, CommitId, ChainHash)>,
}

impl OpenBranch {
    async fn add(&mut self, txn: &mut Txn<'_>, request: &Request) -> Result<CommitId> {
        let commit = txn.add(&self.name, request).await?.id();
        self.head = Some(commit);
        self.commits += 1;
        Ok(commit)
    }

    /// Adds what the planner may refuse: then the context stays as it was.
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
        Self { repo, conversations: Conversations::default(), redactor }
    }

    /// Forgets what is known of the store; it is read back as it is needed.
    pub(crate) fn forget(&mut self) {
        self.conversations = Conversations::default();
    }

    pub(crate) fn redacted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.redactor.counts()
    }

    /// Records a turn. `None` where nothing of it is new, or it has no place in a conversation.
    pub(crate) async fn record(&mut self, mut turn: RecordedTurn) -> Result<Option<WrittenTurn>> {
        self.redactor.turn(&mut turn);
        self.conversations.load(&self.repo, &turn.thread).await?;
        let contents = turn.messages.iter().map(|draft| &draft.content);
        let found = self.conversations.find(&turn.thread, turn.previous.as_deref(), contents);
        for attempt in 0..ATTEMPTS {
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

    fn is_side_request(&self, turn: &RecordedTurn) -> bool {
        let main = self.conversations.main(&turn.thread);
        turn.is_side_request(main.is_some_and(|main| !main.context.tools.is_empty()))
    }

    fn start(&self, turn: &RecordedTurn, found: &Match, has_moved: bool) -> Start {
        if let Some(entry) = found.entry {
            let branch = self.conversations.branch(entry.branch);
            let is_tip = branch.is_some_and(|branch| branch.head == entry.head);
            return if is_tip && !has_moved { Start::Continue(entry) } else { Start::Fork(entry) };
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

    /// Writes a turn; `None` when the branch moved meanwhile.
    async fn write(
        &mut self,
        turn: &RecordedTurn,
        found: &Match,
        start: Start,
    ) -> Result<Option<WrittenTurn>> {
        let reply = match &turn.answer {
            Answer::Whole(reply) => Some(self.redactor.reply(reply_draft(reply).map_err(damaged)?)),
            Answer::Partial { .. } | Answer::Error { .. } => None,
        };
        let last = found.hashes.last().copied().unwrap_or(ROOT);
        let answered = reply.as_ref().map(|draft| chain::after(last, &draft.content));
        let is_known = |hash| self.conversations.entry(&turn.thread, hash).is_some();
        let is_repeated = found.count + 1 == found.hashes.len()
            && matches!(start, Start::Fork(_))
            && answered.as_ref().is_some_and(is_known);
        let repo = self.repo.clone();
        let mut txn = Txn::new(&repo)?.importing();
        let Some(mut desk) = self.open(&mut txn, turn, &start).await? else { return Ok(None) };
        if is_repeated {
            return Ok(Some(WrittenTurn { branch: String::new(), commits: 0 }));
        }
        self.set_context(&mut txn, &mut desk, turn).await?;
        self.take_edits(&mut txn, &mut desk, turn, found).await?;
        let mut matched = found.count;
        // After the last message that was recorded before come new instructions and edits.
        if let (Some(entry), Some(head), Some(hash)) =
            (found.entry, desk.head, found.hashes.get(matched))
            && matches!(start, Start::Continue(_))
        {
            let edited = desk.learned.iter().rev().find(|(known, ..)| known == hash);
            let visible = edited.map_or(entry.visible, |(_, _, _, visible)| *visible);
            desk.learned.push((*hash, head, entry.message, visible));
        }
        if let (Start::Compact(_), Some(draft)) = (&start, turn.messages.first()) {
            self.compact(&mut txn, &mut desk, draft, turn.requested_at_us).await?;
            if let (Some(head), Some(hash)) = (desk.head, found.hashes.get(1)) {
                desk.learned.push((*hash, head, head, chain::visible(&draft.content)));
            }
            matched = 1;
        }
        let new = turn.messages.iter().zip(found.hashes.iter().skip(1)).skip(matched);
        for (draft, hash) in new {
            let mut draft = draft.clone();
            draft.created_at = Some(turn.requested_at_us);
            let visible = chain::visible(&draft.content);
            let commit = desk.add(&mut txn, &Request::Import(draft)).await?;
            desk.learned.push((*hash, commit, commit, visible));
        }
        if let (Some(draft), Some(hash)) = (reply, answered) {
            let draft = with_facts(draft, turn)?;
            let visible = chain::visible(&draft.content);
            let commit = desk.add(&mut txn, &Request::Import(draft)).await?;
            desk.learned.push((hash, commit, commit, visible));
        }
        if let Answer::Partial { partial, cause } = &turn.answer {
            let request = broken_off(cause, partial, Some(&turn.parameters))?;
            let request = at(request, turn.answered_at_us);
            let commit = desk.add(&mut txn, &request).await?;
            // What follows the request follows the note: it is in no context.
            let of_last = desk.learned.iter().rev().find(|(hash, ..)| *hash == last).copied();
            if let Some((hash, _, message, visible)) = of_last {
                desk.learned.push((hash, commit, message, visible));
            }
        }
        match txn.apply("record", &WriteOptions::default()).await? {
            Applied::Done | Applied::Already => {}
            Applied::Conflict(_) => return Ok(None),
        }
        for kinds in turn.redacted.iter().skip(found.count) {
            self.redactor.count(kinds);
        }
        if let (Some(hash), Answer::Whole(reply)) = (answered, &turn.answer)
            && let Some(id) = reply.id.as_ref().filter(|id| id.starts_with(RESPONSE_ID))
        {
            self.conversations.answered(id, hash);
        }
        Ok(Some(self.learn(turn, desk)))
    }

    fn learn(&mut self, turn: &RecordedTurn, desk: OpenBranch) -> WrittenTurn {
        let branch = desk.name.branch_name().unwrap_or_default().to_owned();
        if let Some(head) = desk.head {
            let state = BranchState { name: desk.name, head, context: desk.context };
            let is_side = self.is_side_request(turn);
            let number = self.conversations.wrote(&turn.thread, desk.number, state, is_side);
            for (hash, head, message, visible) in desk.learned {
                let entry = Entry { branch: number, head, message, visible };
                self.conversations.insert(&turn.thread, hash, entry);
            }
        }
        WrittenTurn { branch, commits: desk.commits }
    }

    /// Finds or makes the branch of a turn; `None` when it moved since it was written.
    async fn open(
        &self,
        txn: &mut Txn<'_>,
        turn: &RecordedTurn,
        start: &Start,
    ) -> Result<Option<OpenBranch>> {
        let base = Conversations::base_name(&turn.thread, turn.requested_at_us);
        let desk = |name, number, context, head| OpenBranch {
            name,
            number,
            context,
            head,
            commits: 0,
            learned: Vec::new(),
        };
        let (state, number) = match start {
            Start::Continue(entry) => (self.conversations.branch(entry.branch), Some(entry.branch)),
            Start::Compact(state) => (Some(state), self.conversations.entry_number(&turn.thread)),
            Start::Fork(entry) => {
                let from = self.conversations.branch(entry.branch);
                let from = from.and_then(|branch| branch.name.branch_name()).unwrap_or(&base);
                // Forks of forks are forks of the conversation.
                let from = from.split(".fork-").next().unwrap_or(from);
                let name = free_name(txn, |n| format!("{from}.fork-{n}")).await?;
                txn.move_ref(&name, Some(RefTarget::Commit(entry.head))).await?;
                let compiled = self.repo.compile(Some(entry.head)).await?;
                let context = ContextState::of(&compiled);
                return Ok(Some(desk(name, None, context, Some(entry.head))));
            }
            Start::Root => {
                let name = if self.is_side_request(turn) {
                    free_name(txn, |n| format!("{base}.side-{n}")).await?
                } else {
                    let name = |n| if n == 1 { base.clone() } else { format!("{base}.root-{n}") };
                    free_name(txn, name).await?
                };
                return Ok(Some(desk(name, None, ContextState::default(), None)));
            }
        };
        let Some(state) = state else { return Ok(None) };
        if txn.head(&state.name).await? != Some(state.head) {
            return Ok(None);
        }
        Ok(Some(desk(state.name.clone(), number, state.context.clone(), Some(state.head))))
    }

    /// Leaves a line in the log about a request that the upstream refused.
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
        let opened = self.open(&mut txn, turn, &Start::Continue(entry)).await?;
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
            desk.learned.push((*hash, commit, entry.message, entry.visible));
        }
        Ok(Some(self.learn(turn, desk)))
    }
}

async fn free_name(txn: &mut Txn<'_>, name: impl Fn(usize) -> String) -> Result<RefName> {
    for n in 1..=MOST_NAMES {
        let name = RefName::branch(&name(n))?;
        if txn.target(&name).await?.is_none() {
            return Ok(name);
        }
    }
    Err(Error::KeptMoving { attempts: MOST_NAMES })
}

/// Adds what is known of an answer besides its content.
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
