//! Finds the conversation that a request continues: an index of recorded messages by prefix hash.

use std::collections::HashMap;

use tract_compile::Compiled;
use tract_core::{CommitId, Content, RefName, StoreErrorKind, ToolId};
use tract_engine::{Branch, Error, Repo, Result};

use crate::calls::{CallsId, RecordedCalls, SentCalls};
use crate::chain::{self, ChainHash, ROOT};
use crate::responses::{PendingRequest, ServerState, StoredResponses};
use crate::turn::Thread;

/// The prefix of the names of recorded branches.
pub(crate) const PREFIX: &str = "record/";
/// The prefix of the names of conversations without a session.
const UNNAMED: &str = "chat-";
/// The number of a thread's newest branches that are read from the store at first. The number
/// doubles as long as a request has answers that were not found in them.
const FIRST_BRANCHES: usize = 100;
/// Maximum number of threads in memory. Above it the index is cleared, and read from the store
/// again when needed.
const MOST_THREADS: usize = 4096;

/// The number of a branch in the index.
pub(crate) type BranchNumber = usize;

/// A recorded message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) branch: BranchNumber,
    /// The commit after which the next message is added.
    pub(crate) head: CommitId,
    /// The commit of the message itself.
    pub(crate) message: CommitId,
    /// The hash of its visible part.
    pub(crate) visible: ChainHash,
    /// The calls up to it.
    pub(crate) calls: CallsId,
}

/// The state of a branch after the recorder's last write.
#[derive(Clone, Debug)]
pub(crate) struct BranchState {
    pub(crate) name: RefName,
    pub(crate) head: CommitId,
    pub(crate) context: ContextState,
}

/// The parts of a context besides its messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContextState {
    /// The instructions at its beginning.
    pub(crate) system: Vec<(CommitId, ChainHash)>,
    pub(crate) tools: Vec<ToolId>,
}

/// The recorded messages of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadIndex {
    /// Entries by prefix hash; several if conversations differ only in the arguments of calls.
    entries: HashMap<ChainHash, Vec<Entry>>,
    /// The branch that was written last, except for side requests.
    pub(crate) main: Option<BranchNumber>,
    /// Branches in the store that are not read yet, the newest last.
    unread: Vec<Branch>,
    read_count: usize,
}

/// A message that requests continue by an id of the provider.
#[derive(Clone, Debug)]
pub(crate) struct NamedMessage {
    pub(crate) hash: ChainHash,
    pub(crate) entry: Entry,
    /// The request, if its answer is not recorded yet.
    pub(crate) pending: Option<PendingRequest>,
}

/// The index of all recorded conversations.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    threads: HashMap<Thread, ThreadIndex>,
    branches: Vec<BranchState>,
    by_name: HashMap<String, BranchNumber>,
    pub(crate) calls: RecordedCalls,
    /// Messages by the provider's id.
    named: HashMap<ServerState, NamedMessage>,
    /// Ids that are not in `named` are looked up here, in the store.
    stored: StoredResponses,
}

/// The longest recorded prefix of a request.
#[derive(Debug)]
pub(crate) struct Match {
    /// The hash before the first message, and after each one.
    pub(crate) hashes: Vec<ChainHash>,
    /// The number of recorded messages.
    pub(crate) count: usize,
    /// The last of them.
    pub(crate) entry: Option<Entry>,
    /// Whether the entry is on a branch of another thread, which this request must not continue.
    pub(crate) is_foreign: bool,
}

impl ThreadIndex {
    /// Adds a message, or replaces the one with the same prefix and the same calls.
    fn insert(&mut self, hash: ChainHash, entry: Entry) {
        let entries = self.entries.entry(hash).or_default();
        match entries.iter_mut().find(|known| known.calls == entry.calls) {
            Some(known) => *known = entry,
            None => entries.push(entry),
        }
    }

    /// Adds a message of an older branch. It never replaces a message.
    fn insert_older(&mut self, hash: ChainHash, entry: Entry) {
        let entries = self.entries.entry(hash).or_default();
        if !entries.iter().any(|known| known.calls == entry.calls) {
            entries.insert(0, entry);
        }
    }
}

/// Returns whether an error affects only one branch, not the store.
pub(crate) fn is_damage(error: &Error) -> bool {
    match error {
        Error::Store(error) => matches!(error.kind, StoreErrorKind::Corrupt { .. }),
        _ => true,
    }
}

impl Conversations {
    /// Returns the name of a thread's branch.
    pub(crate) fn base_name(thread: &Thread, at_us: i64) -> String {
        match (&thread.session, &thread.agent) {
            (Some(session), None) => format!("{PREFIX}{}", RefName::distinct(session)),
            (Some(session), Some(agent)) => {
                let (session, agent) = (RefName::distinct(session), RefName::distinct(agent));
                format!("{PREFIX}{session}.agent-{agent}")
            }
            (None, Some(agent)) => format!("{PREFIX}agent-{}", RefName::distinct(agent)),
            (None, None) => {
                let time = tract_core::time::format_rfc3339(at_us).unwrap_or_default();
                let digits: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
                let (day, time) = digits.split_at_checked(8).unwrap_or((&digits, ""));
                format!("{PREFIX}{UNNAMED}{day}-{time}")
            }
        }
    }

    /// Returns whether a branch is one of a thread's.
    fn is_of_thread(thread: &Thread, name: &str) -> bool {
        let base = match (&thread.session, &thread.agent) {
            (None, None) => format!("{PREFIX}{UNNAMED}"),
            _ => Self::base_name(thread, 0),
        };
        match name.strip_prefix(&base) {
            Some(_) if thread.session.is_none() => true,
            Some("") => true,
            Some(rest) => rest.starts_with('.') && !rest.starts_with(".agent-"),
            None => false,
        }
    }

    /// Reads a thread's newest branches from the store, unless that was already done.
    pub(crate) async fn load(&mut self, repo: &Repo, thread: &Thread) -> Result<()> {
        if self.threads.contains_key(thread) {
            return Ok(());
        }
        if self.threads.len() >= MOST_THREADS {
            // Entries name branches by their index, so a single thread cannot be dropped. All of
            // them are loaded again when they are needed.
            *self = Self::default();
        }
        let mut branches = repo.branches().await?;
        branches.retain(|branch| Self::is_of_thread(thread, &branch.name));
        // Shorter names first: `fork-10` is newer than `fork-9`.
        branches.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
        let index = ThreadIndex { unread: branches, ..ThreadIndex::default() };
        self.threads.insert(thread.clone(), index);
        self.load_more(repo, thread).await?;
        Ok(())
    }

    /// Reads more of a thread's branches from the store; `false` if all were read.
    pub(crate) async fn load_more(&mut self, repo: &Repo, thread: &Thread) -> Result<bool> {
        let Some(index) = self.threads.get_mut(thread) else { return Ok(false) };
        // Doubles what is loaded. A session may have thousands of forks, and a request usually
        // continues one of the newest.
        let count = index.read_count.max(FIRST_BRANCHES);
        let branches = index.unread.split_off(index.unread.len().saturating_sub(count));
        index.read_count += branches.len();
        let has_more = !branches.is_empty();
        for branch in branches.iter().rev() {
            let (number, messages) = match self.load_branch(repo, branch, branch.head).await {
                Ok(loaded) => loaded,
                Err(error) if is_damage(&error) => {
                    let name = &branch.name;
                    tracing::warn!(target: "tract::record", %error, name, "unreadable recording");
                    continue;
                }
                Err(error) => return Err(error),
            };
            let index = self.threads.entry(thread.clone()).or_default();
            for (hash, entry) in messages {
                if hash != ROOT {
                    // Branches that are loaded later are older, and must not replace what this
                    // process has just recorded.
                    index.insert_older(hash, entry);
                }
            }
            if !branch.name.contains(".side-") {
                // The newest branches are loaded first, so the first one that is not a side request
                // is the main one.
                index.main.get_or_insert(number);
            }
        }
        Ok(has_more)
    }

    /// Reads the messages of a branch up to a commit.
    async fn load_branch(
        &mut self,
        repo: &Repo,
        branch: &Branch,
        end: CommitId,
    ) -> Result<(BranchNumber, Vec<(ChainHash, Entry)>)> {
        let compiled = repo.compile(Some(end)).await?;
        let number = match self.by_name.get(&branch.name) {
            Some(number) => *number,
            None => {
                let context = match end == branch.head {
                    true => ContextState::of(&compiled),
                    false => ContextState::of(&repo.compile(Some(branch.head)).await?),
                };
                let name = RefName::branch(&branch.name)?;
                self.add_branch(BranchState { name, head: branch.head, context })
            }
        };
        let (mut hash, mut calls) = (ROOT, CallsId::default());
        let mut read = Vec::new();
        let mut messages =
            compiled.messages().skip_while(|m| matches!(m.content, Content::System(_)));
        let mut next = messages.next();
        while let Some(message) = next {
            next = messages.next();
            hash = chain::after(hash, &message.content);
            calls = self.calls.after(calls, &message.content);
            let head = if next.is_some() { message.slot } else { end };
            let visible = chain::visible(&message.content);
            read.push((
                hash,
                Entry { branch: number, head, message: message.slot, visible, calls },
            ));
        }
        Ok((number, read))
    }

    fn add_branch(&mut self, state: BranchState) -> BranchNumber {
        let number = self.branches.len();
        let name = state.name.branch_name().unwrap_or_default().to_owned();
        self.by_name.insert(name, number);
        self.branches.push(state);
        number
    }

    /// Finds the message with a provider's id, here or in the store.
    pub(crate) async fn named(
        &mut self,
        repo: &Repo,
        state: &ServerState,
    ) -> Result<Option<NamedMessage>> {
        if let Some(named) = self.named.get(state) {
            return Ok(Some(named.clone()));
        }
        let Some(stored) = self.stored.find(repo, state).await? else { return Ok(None) };
        let (branch, commit) = (&stored.branch, stored.commit);
        let last = match self.last_message(repo, branch, commit).await {
            Err(error) if is_damage(&error) => None,
            read => read?,
        };
        let Some((hash, entry)) = last else { return Ok(None) };
        let named = NamedMessage { hash, entry, pending: stored.pending };
        self.named.insert(state.clone(), named.clone());
        Ok(Some(named))
    }

    /// Reads the last message up to a commit of a branch.
    async fn last_message(
        &mut self,
        repo: &Repo,
        branch: &Branch,
        end: CommitId,
    ) -> Result<Option<(ChainHash, Entry)>> {
        let (number, mut messages) = self.load_branch(repo, branch, end).await?;
        let (_, at_head) = self.load_branch(repo, branch, branch.head).await?;
        let Some((hash, mut entry)) = messages.pop() else { return Ok(None) };
        // If no later message is in the context, the next one is added at the head.
        if at_head.last().is_some_and(|(_, last)| last.message == entry.message) {
            entry.head = self.branches.get(number).map_or(branch.head, |state| state.head);
        }
        Ok(Some((hash, entry)))
    }

    /// Stores the provider's id of a message.
    pub(crate) fn name(&mut self, state: ServerState, named: NamedMessage) {
        self.named.insert(state, named);
    }

    /// Finds the longest recorded prefix of a request. If the request names a message, the prefix
    /// starts after it.
    pub(crate) fn find<'a>(
        &self,
        thread: &Thread,
        named: Option<&NamedMessage>,
        messages: impl Iterator<Item = &'a Content> + Clone,
    ) -> Match {
        let sent = SentCalls::of(messages.clone());
        let mut hash = named.map_or(ROOT, |named| named.hash);
        let mut hashes = vec![hash];
        for content in messages {
            hash = chain::after(hash, content);
            hashes.push(hash);
        }
        match named {
            Some(named) => self.find_named(thread, named, hashes),
            None => self.find_sent(thread, &sent, hashes),
        }
    }

    /// Returns the match of a request that continues an unrecorded message.
    pub(crate) fn no_match<'a>(messages: impl Iterator<Item = &'a Content>) -> Match {
        let mut hashes = vec![ROOT];
        hashes.extend(messages.scan(ROOT, |hash, content| {
            *hash = chain::after(*hash, content);
            Some(*hash)
        }));
        Match { hashes, count: 0, entry: None, is_foreign: false }
    }

    fn find_sent(&self, thread: &Thread, sent: &SentCalls<'_>, hashes: Vec<ChainHash>) -> Match {
        let index = self.threads.get(thread);
        let agreeing = |count: usize, hash: &ChainHash| {
            let agrees = |entry: &&Entry| self.calls.agree(entry.calls, sent, count);
            let known = index?.entries.get(hash)?;
            let same = known.iter().rev().find(|entry| agrees(entry) == Some(true));
            same.or_else(|| known.iter().rev().find(|entry| agrees(entry).is_some())).copied()
        };
        // The longest recorded prefix. Each hash covers all messages before it, so one lookup for
        // each message is enough.
        let found = hashes
            .iter()
            .enumerate()
            .rev()
            .find_map(|(count, hash)| Some((count, agreeing(count, hash)?)));
        let (count, entry) = found.map_or((0, None), |(count, entry)| (count, Some(entry)));
        Match { hashes, count, entry, is_foreign: false }
    }

    /// Finds the messages recorded after a named one, on its branch only, as other branches may
    /// have equal messages.
    fn find_named(&self, thread: &Thread, named: &NamedMessage, hashes: Vec<ChainHash>) -> Match {
        let index = self.threads.get(thread);
        let on_branch = |hash: &ChainHash| {
            let known = index?.entries.get(hash)?;
            known.iter().rev().find(|entry| entry.branch == named.entry.branch).copied()
        };
        let later = hashes.iter().enumerate().skip(1).rev();
        let found = later.filter_map(|(count, hash)| Some((count, on_branch(hash)?))).next();
        let (count, entry) = found.unwrap_or_else(|| {
            // Notes and edits may have moved the branch since the id was stored.
            let now = hashes.first().and_then(on_branch);
            let now = now.filter(|entry| entry.message == named.entry.message);
            (0, now.unwrap_or(named.entry))
        });
        let name = self.branch(entry.branch).and_then(|branch| branch.name.branch_name());
        let is_foreign =
            thread.session.is_some() && !name.is_some_and(|name| Self::is_of_thread(thread, name));
        Match { hashes, count, entry: Some(entry), is_foreign }
    }

    /// Returns the message with this prefix whose calls are among `later` or its ancestors.
    pub(crate) fn entry(&self, thread: &Thread, hash: &ChainHash, later: CallsId) -> Option<Entry> {
        let known = self.threads.get(thread)?.entries.get(hash)?;
        let precedes =
            |entry: &&Entry| self.calls.ancestors(later).any(|calls| calls == entry.calls);
        known.iter().find(precedes).copied()
    }

    pub(crate) fn branch(&self, number: BranchNumber) -> Option<&BranchState> {
        self.branches.get(number)
    }

    pub(crate) fn main(&self, thread: &Thread) -> Option<&BranchState> {
        self.branch(self.threads.get(thread)?.main?)
    }

    /// Returns the number of the branch that was written last, except for side requests.
    pub(crate) fn entry_number(&self, thread: &Thread) -> Option<BranchNumber> {
        self.threads.get(thread)?.main
    }

    /// Updates the index after a write to a branch.
    pub(crate) fn wrote(
        &mut self,
        thread: &Thread,
        number: Option<BranchNumber>,
        state: BranchState,
        is_side: bool,
    ) -> BranchNumber {
        let number = match number.and_then(|number| Some((number, self.branches.get_mut(number)?)))
        {
            Some((number, branch)) => {
                *branch = state;
                number
            }
            None => self.add_branch(state),
        };
        let index = self.threads.entry(thread.clone()).or_default();
        if !is_side {
            index.main = Some(number);
        }
        number
    }

    pub(crate) fn insert(&mut self, thread: &Thread, hash: ChainHash, entry: Entry) {
        // The hash of an empty history is a prefix of every conversation, so it identifies none.
        if hash != ROOT {
            self.threads.entry(thread.clone()).or_default().insert(hash, entry);
        }
    }
}

impl ContextState {
    pub(crate) fn of(compiled: &Compiled) -> Self {
        let system = compiled
            .messages()
            .take_while(|message| matches!(message.content, Content::System(_)))
            .map(|message| (message.slot, chain::after(ROOT, &message.content)));
        let tools = compiled.tools().iter().map(|tool| tool.id);
        Self { system: system.collect(), tools: tools.collect() }
    }
}
