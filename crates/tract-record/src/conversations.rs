//! Which conversation a request continues: an index of the recorded ones by the hashes of their
//! beginnings.

use std::collections::HashMap;

use tract_compile::Compiled;
use tract_core::{CommitId, Content, RefName, ToolId};
use tract_engine::{Repo, Result};

use crate::chain::{self, ChainHash, ROOT};
use crate::turn::Thread;

/// Where branches of recordings are.
pub(crate) const PREFIX: &str = "record/";
/// The beginning of the names of conversations without a session.
const UNNAMED: &str = "chat-";
/// Branches of a thread that are read back from the store: the newest.
const MOST_BRANCHES: usize = 100;
/// Threads that are held. When there are more, all are read back from the store as they are needed.
const MOST_THREADS: usize = 4096;

/// The number of a branch in the index.
pub(crate) type BranchNumber = usize;

/// A message that was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) branch: BranchNumber,
    /// The commit after which the next message follows.
    pub(crate) head: CommitId,
    /// The commit of the message itself.
    pub(crate) message: CommitId,
    /// What a model sees of it.
    pub(crate) visible: ChainHash,
}

/// A branch as the recorder left it.
#[derive(Clone, Debug)]
pub(crate) struct BranchState {
    pub(crate) name: RefName,
    pub(crate) head: CommitId,
    pub(crate) context: ContextState,
}

/// What is in a context besides its messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContextState {
    /// The instructions at its beginning.
    pub(crate) system: Vec<(CommitId, ChainHash)>,
    pub(crate) tools: Vec<ToolId>,
}

/// The recorded messages of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadIndex {
    entries: HashMap<ChainHash, Entry>,
    /// The branch that was written last, side requests apart.
    pub(crate) main: Option<BranchNumber>,
}

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    threads: HashMap<Thread, ThreadIndex>,
    branches: Vec<BranchState>,
    /// Answers by the provider's id, for requests that name what they continue.
    answers: HashMap<String, ChainHash>,
}

/// The recorded beginning of a request.
#[derive(Debug)]
pub(crate) struct Match {
    /// The hash before the first message, and after each.
    pub(crate) hashes: Vec<ChainHash>,
    /// How many messages are recorded.
    pub(crate) count: usize,
    /// The last of them.
    pub(crate) entry: Option<Entry>,
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

    /// Reads a thread's branches back from the store, if that was not done yet.
    pub(crate) async fn load(&mut self, repo: &Repo, thread: &Thread) -> Result<()> {
        if self.threads.contains_key(thread) {
            return Ok(());
        }
        if self.threads.len() >= MOST_THREADS {
            *self = Self::default();
        }
        let base = match (&thread.session, &thread.agent) {
            (None, None) => format!("{PREFIX}{UNNAMED}"),
            _ => Self::base_name(thread, 0),
        };
        let is_own = |name: &str| match name.strip_prefix(&base) {
            Some(_) if thread.session.is_none() => true,
            Some("") => true,
            Some(rest) => rest.starts_with('.') && !rest.starts_with(".agent-"),
            None => false,
        };
        let mut branches = repo.branches().await?;
        branches.retain(|branch| is_own(&branch.name));
        let old = branches.len().saturating_sub(MOST_BRANCHES);
        let mut index = ThreadIndex::default();
        for branch in branches.drain(old..) {
            let number = self.branches.len();
            let compiled = repo.compile(Some(branch.head)).await?;
            let mut hash = ROOT;
            let mut messages =
                compiled.messages().skip_while(|m| matches!(m.content, Content::System(_)));
            let mut next = messages.next();
            while let Some(message) = next {
                next = messages.next();
                hash = chain::after(hash, &message.content);
                let head = if next.is_some() { message.slot } else { branch.head };
                let visible = chain::visible(&message.content);
                let entry = Entry { branch: number, head, message: message.slot, visible };
                if hash != ROOT {
                    index.entries.insert(hash, entry);
                }
            }
            let is_side = branch.name.contains(".side-");
            index.main = if is_side { index.main } else { Some(number) };
            self.branches.push(BranchState {
                name: RefName::branch(&branch.name)?,
                head: branch.head,
                context: ContextState::of(&compiled),
            });
        }
        self.threads.insert(thread.clone(), index);
        Ok(())
    }

    /// Finds the longest recorded beginning of a request.
    pub(crate) fn find<'a>(
        &self,
        thread: &Thread,
        previous: Option<&str>,
        messages: impl Iterator<Item = &'a Content>,
    ) -> Match {
        let first = previous.and_then(|id| self.answers.get(id)).copied().unwrap_or(ROOT);
        let mut hashes = vec![first];
        let mut hash = first;
        for content in messages {
            hash = chain::after(hash, content);
            hashes.push(hash);
        }
        let index = self.threads.get(thread);
        let found = hashes
            .iter()
            .enumerate()
            .rev()
            .find_map(|(count, hash)| Some((count, *index?.entries.get(hash)?)));
        match found {
            Some((count, entry)) => Match { hashes, count, entry: Some(entry) },
            None => Match { hashes, count: 0, entry: None },
        }
    }

    pub(crate) fn entry(&self, thread: &Thread, hash: &ChainHash) -> Option<Entry> {
        self.threads.get(thread)?.entries.get(hash).copied()
    }

    pub(crate) fn branch(&self, number: BranchNumber) -> Option<&BranchState> {
        self.branches.get(number)
    }

    pub(crate) fn main(&self, thread: &Thread) -> Option<&BranchState> {
        self.branch(self.threads.get(thread)?.main?)
    }

    /// The number of the branch that was written last, side requests apart.
    pub(crate) fn entry_number(&self, thread: &Thread) -> Option<BranchNumber> {
        self.threads.get(thread)?.main
    }

    /// Takes up what was written to a branch.
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
            None => {
                self.branches.push(state);
                self.branches.len() - 1
            }
        };
        let index = self.threads.entry(thread.clone()).or_default();
        if !is_side {
            index.main = Some(number);
        }
        number
    }

    pub(crate) fn insert(&mut self, thread: &Thread, hash: ChainHash, entry: Entry) {
        // What has no content begins every conversation.
        if hash != ROOT {
            self.threads.entry(thread.clone()).or_default().entries.insert(hash, entry);
        }
    }

    pub(crate) fn answered(&mut self, id: &str, hash: ChainHash) {
        self.answers.insert(id.to_owned(), hash);
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
