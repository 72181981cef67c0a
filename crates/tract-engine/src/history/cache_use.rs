//! What the requests of a conversation read from the provider's prompt cache, what was sent again, and
//! why.

mod answers;
mod compare;
mod cost;
mod difference;
mod rank;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use tract_compile::Compiled;
use tract_core::store::Walk;
use tract_core::{Commit, CommitId, Kind};

use self::answers::{Answer, Answers, reported};
use self::compare::{ChangesBetween, Comparison, SentRequest};
use self::cost::CachedTokens;
pub use self::rank::{RankedCause, rank_misses};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// What one request of a model read from the prompt cache, and what was sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUse {
    /// The branch that the answer is on; of several, the first one that was asked for.
    pub branch: String,
    /// The first commit of the answer.
    pub answer: CommitId,
    /// The commit whose context was sent.
    pub request: CommitId,
    /// The answer whose request this one is compared with; `None` for the first of a conversation.
    pub before: Option<CommitId>,
    /// The model, where the commit names it.
    pub model: Option<String>,
    /// When it was answered: microseconds since 1970, UTC.
    pub at: Option<i64>,
    /// Whether the tokens are those that the provider reported. If not, they are counted, and
    /// what was sent before is taken to be in the cache.
    pub is_recorded: bool,
    /// Tokens of the whole request.
    pub prompt: u64,
    /// Tokens that were read from the cache.
    pub read: u64,
    /// Tokens that were written to the cache, where the provider reports them.
    pub written: Option<u64>,
    /// Tokens of `written` that were written for an hour; the others are for five minutes.
    pub written_1h: u64,
    /// Tokens that the request before had as well, and that were not read from the cache.
    pub again: u64,
    /// Why; `None` when nothing was sent again.
    pub miss: Option<CacheMiss>,
}

/// Why a part of a request was not read from the prompt cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheMiss {
    /// The cause.
    pub cause: MissCause,
    /// The first block that differs; `None` where none of the recorded ones does.
    pub block: Option<RequestBlock>,
    /// What the request before has there: the differing part of a text, a model, an order.
    pub before: Option<String>,
    /// What this request has there.
    pub after: Option<String>,
}

/// A block of a request, in the order of a prompt cache: tools, then messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestBlock {
    /// The definition of a tool.
    Tool {
        /// Its name.
        name: String,
    },
    /// A message.
    Message {
        /// Its number in the context, from 1.
        number: usize,
        /// The commit that is shown.
        commit: CommitId,
        /// Its kind.
        kind: Kind,
    },
}

impl fmt::Display for RequestBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool { name } => write!(f, "tool {name}"),
            Self::Message { number, commit, kind } => {
                let kind = match kind {
                    Kind::System => "system",
                    Kind::User => "user",
                    Kind::Assistant => "assistant",
                    Kind::ToolResult => "result",
                    other => other.as_str(),
                };
                write!(f, "#{number} {kind} ({})", commit.short())
            }
        }
    }
}

/// The cause of a cache miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MissCause {
    /// A date or a time in the system prompt or in another message that was sent before.
    Clock,
    /// The system prompt says something else.
    SystemPrompt,
    /// The same tools came in another order.
    ToolOrder,
    /// The definition of a tool changed.
    ToolSchema,
    /// A tool was added.
    ToolAdded,
    /// A tool was removed.
    ToolRemoved,
    /// System prompt and tools changed together, or a setting such as reasoning or the tool choice.
    ModeSwitch,
    /// Another model was asked. Each model has a cache of its own.
    ModelSwitch,
    /// Messages were replaced by a summary.
    Compaction,
    /// A message that was sent before says something else.
    Edit,
    /// A message that was sent before is left out.
    Removal,
    /// A message came in front of others that were sent before.
    Insertion,
    /// Nothing differs, and the cache was not used for as long as it lives: five minutes, or the hour
    /// that it was written for.
    Expired,
    /// Nothing that was recorded differs: the difference was not recorded, or the provider dropped it.
    NotRecorded,
}

impl MissCause {
    /// Returns the stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::SystemPrompt => "system_prompt",
            Self::ToolOrder => "tool_order",
            Self::ToolSchema => "tool_schema",
            Self::ToolAdded => "tool_added",
            Self::ToolRemoved => "tool_removed",
            Self::ModeSwitch => "mode_switch",
            Self::ModelSwitch => "model_switch",
            Self::Compaction => "compaction",
            Self::Edit => "edit",
            Self::Removal => "removal",
            Self::Insertion => "insertion",
            Self::Expired => "expired",
            Self::NotRecorded => "not_recorded",
        }
    }
}

impl fmt::Display for MissCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clock => "clock in the prompt",
            Self::SystemPrompt => "system prompt changed",
            Self::ToolOrder => "tools reordered",
            Self::ToolSchema => "tool definition changed",
            Self::ToolAdded => "tool added",
            Self::ToolRemoved => "tool removed",
            Self::ModeSwitch => "mode switched",
            Self::ModelSwitch => "model switched",
            Self::Compaction => "compaction",
            Self::Edit => "message edited",
            Self::Removal => "message removed",
            Self::Insertion => "message inserted",
            Self::Expired => "cache expired",
            Self::NotRecorded => "not recorded",
        })
    }
}

/// Compares each request of a conversation with the one before it, as a prompt cache does.
///
/// The heads are branches by name, or other commits under any name. Several of them are compared
/// as one: an answer that they share, or that is repeated under its provider's id, is listed once,
/// under the first. The answers of a head come oldest first.
///
/// # Behavior
/// - A request is what an answer's parent compiles to. The commits of one answer are one request.
/// - Tokens are those of the answer's metadata (`usage`), where this answer and the one before it
///   have them. Else they are counted, and what the request before had is taken to be cached.
/// - Providers keep prefixes in steps of up to 128 tokens, so that less than that is no miss.
/// - Requests that need an erased message are compared by their usage alone.
///
/// # Errors
/// When something is damaged, or the store fails.
///
/// # Complexity
/// Linear in the commits, and in the messages that follow the first difference of each miss.
pub async fn cache_use(repo: &Repo, heads: &[(String, CommitId)]) -> Result<Vec<CacheUse>> {
    let mut conversations = Conversations::default();
    for (branch, head) in heads {
        conversations.follow(repo, branch, *head).await?;
    }
    Ok(conversations.requests())
}

/// Commits that are remembered at a time, so that compiling them reads none.
const CHUNK: usize = 512;

/// The conversations that were followed so far.
#[derive(Default)]
struct Conversations {
    answers: Answers,
    requests: Vec<ComparedRequest>,
    known: HashMap<CommitId, KnownCommit>,
}

/// What is known of a commit that was passed.
#[derive(Clone, Copy)]
struct KnownCommit {
    /// The first commit of its conversation.
    root: CommitId,
    /// The last answer at or before it.
    answer: Option<usize>,
}

/// A request, parallel to its answer.
struct ComparedRequest {
    branch: String,
    before: Option<usize>,
    /// `None` when one of the two cannot be compiled.
    comparison: Option<Comparison>,
}

impl Conversations {
    /// Follows a head from where it leaves what is known already.
    async fn follow(&mut self, repo: &Repo, branch: &str, head: CommitId) -> Result<()> {
        let (base, mut commits) = self.new_commits(repo, head).await?;
        let Some(first) = commits.last() else { return Ok(()) };
        let root = base.map_or(first.id(), |base| base.root);
        let mut before = base.and_then(|base| base.answer);
        let mut sent = match before.and_then(|before| self.answers.get(before)) {
            Some(answer) => compiled(repo, answer.request).await?.map(SentRequest::new),
            None => None,
        };
        // What the other branch did since its last answer is not known, so it is looked for.
        let mut changes = ChangesBetween { are_appends: false, ..ChangesBetween::default() };
        let mut is_adjacent = false;
        while !commits.is_empty() {
            let mut chunk = commits.split_off(commits.len().saturating_sub(CHUNK));
            chunk.reverse();
            repo.compiler().remember_objects(&chunk, &[], &[]);
            for commit in chunk {
                let answer = Answer::of(&commit);
                is_adjacent &= answer.is_some();
                if let Some(answer) = answer {
                    let same = self.answers.same(root, &answer, before.filter(|_| is_adjacent));
                    match same {
                        Some(known) => self.answers.join(root, known, &answer),
                        None => {
                            let next = compiled(repo, answer.request).await?;
                            let comparison = match (&mut sent, next) {
                                (Some(sent), Some(next)) => Some(sent.follow(next, &changes)),
                                (_, next) => {
                                    sent = next.map(SentRequest::new);
                                    sent.as_ref().map(SentRequest::alone)
                                }
                            };
                            let branch = branch.to_owned();
                            self.requests.push(ComparedRequest { branch, before, comparison });
                            before = Some(self.answers.push(root, answer));
                            changes = ChangesBetween::default();
                        }
                    }
                    is_adjacent = true;
                } else if let Some((place, usage)) = before.zip(reported(&commit)) {
                    self.answers.report(place, usage);
                }
                changes.add(&commit);
                self.known.insert(commit.id(), KnownCommit { root, answer: before });
            }
        }
        Ok(())
    }

    /// Reads the commits of a head that are new, newest first, and the known one that they follow.
    async fn new_commits(
        &self,
        repo: &Repo,
        head: CommitId,
    ) -> Result<(Option<KnownCommit>, Vec<Commit>)> {
        let mut commits = Vec::new();
        let mut next = Some(head);
        while let Some(at) = next {
            if let Some(known) = self.known.get(&at) {
                return Ok((Some(*known), commits));
            }
            let page = repo.store().walk(repo.name(), Walk::from(at)).await?;
            next = page.next;
            for commit in page.steps.into_iter().map(|entry| entry.commit) {
                if let Some(known) = self.known.get(&commit.id()) {
                    return Ok((Some(*known), commits));
                }
                commits.push(commit);
            }
        }
        Ok((None, commits))
    }

    fn requests(self) -> Vec<CacheUse> {
        let of = |place: usize| self.answers.get(place);
        // What a request had in the cache, of which later ones may have read without writing.
        let mut lifetimes: Vec<CachedTokens> = Vec::with_capacity(self.requests.len());
        let requests = self.requests.iter().enumerate();
        let uses = requests.filter_map(|(place, request)| {
            let earlier = request.before.and_then(|before| lifetimes.get(before).copied());
            let earlier = earlier.unwrap_or_default();
            lifetimes.push(of(place).map_or(earlier, |answer| earlier.after(answer)));
            let answer = of(place)?;
            let before = request.before.and_then(of);
            let comparison = request.comparison.as_ref();
            Some(cost::cache_use(&request.branch, answer, before.zip(Some(earlier)), comparison))
        });
        uses.collect()
    }
}

/// Compiles what a request sent; `None` when that was erased since.
async fn compiled(repo: &Repo, head: CommitId) -> Result<Option<Compiled>> {
    match repo.compile(Some(head)).await {
        Ok(compiled) => Ok(Some(compiled)),
        Err(Error::Erased(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
