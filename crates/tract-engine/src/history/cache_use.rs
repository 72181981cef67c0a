//! Prompt cache use: the tokens that the requests of a conversation read from the provider's cache,
//! the tokens that were sent again, and the cause.

mod answers;
mod compare;
mod cost;
mod difference;
mod rank;
mod tools;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use tract_compile::Compiled;
use tract_core::{Commit, CommitId, Kind};

use self::answers::{Answer, Answers, reported};
use self::compare::{ChangesBetween, Comparison, SentRequest};
use self::cost::CachedTokens;
pub use self::rank::{RankedCause, rank_misses};
pub use self::tools::{ToolCost, tool_costs};
use crate::history::answer_facts::AnswerPlace;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// The cache use of one request of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// The branch of the answer; if it is on several, the first one given.
    pub branch: String,
    /// The first commit of the answer.
    pub answer: CommitId,
    /// The commit whose context was sent.
    pub request: CommitId,
    /// The answer whose request this one is compared with; `None` for the first request of a
    /// conversation.
    pub before: Option<CommitId>,
    /// The model, if the commit names it.
    pub model: Option<String>,
    /// Time of the answer: microseconds since 1970, UTC.
    pub at: Option<i64>,
    /// Whether the token counts were reported by the provider. Otherwise they are estimated, and
    /// everything that was sent before counts as cached.
    pub is_recorded: bool,
    /// Tokens of the whole request.
    pub prompt: u64,
    /// Tokens that were read from the cache.
    pub read: u64,
    /// Tokens that were written to the cache, if the provider reports them.
    pub written: Option<u64>,
    /// Tokens of `written` with a lifetime of one hour; the others have five minutes.
    pub written_1h: u64,
    /// Tokens that the previous request also contained and that were not read from the cache.
    pub again: u64,
    /// The cause; `None` when nothing was sent again.
    pub miss: Option<CacheMiss>,
}

/// A cache miss: a part of a request that was not read from the prompt cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheMiss {
    /// The cause.
    pub cause: MissCause,
    /// The first block that differs; `None` if none of the recorded blocks differs.
    pub block: Option<RequestBlock>,
    /// The previous request at this place: the differing part of a text, a model or an order.
    pub before: Option<String>,
    /// This request at the same place.
    pub after: Option<String>,
}

/// A block of a request, in the order in which a prompt cache compares them: tools, then messages.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        /// The commit whose content is shown.
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
pub enum MissCause {
    /// A date or a time in the system prompt or in another message that was sent before.
    Clock,
    /// The system prompt changed.
    SystemPrompt,
    /// The same tools were sent in another order.
    ToolOrder,
    /// The definition of a tool changed.
    ToolSchema,
    /// A tool was added.
    ToolAdded,
    /// A tool was removed.
    ToolRemoved,
    /// System prompt and tools changed together, or a setting such as reasoning or the tool choice
    /// changed.
    ModeSwitch,
    /// The request went to another model. Each model has its own cache.
    ModelSwitch,
    /// Messages were replaced by a summary.
    Compaction,
    /// A message that was sent before was edited.
    Edit,
    /// A message that was sent before was left out.
    Removal,
    /// A message was inserted before others that were sent before.
    Insertion,
    /// Nothing differs, and the cache was unused for longer than its lifetime: five minutes, or one
    /// hour if it was written for that long.
    Expired,
    /// No recorded block differs: the difference was not recorded, or the provider dropped the
    /// cache entry.
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

/// Compares each request of a conversation with the previous one, as a prompt cache does.
///
/// The heads are branches by name, or other commits under any name. Several heads are treated as
/// one set: an answer that they share, or that occurs again with the same provider's id, is listed
/// once, under the first head. The answers of a head are listed oldest first.
///
/// # Behavior
/// - The request of an answer is the compiled context of its parent. All commits of an answer share
///   one request.
/// - Token counts are taken from the metadata (`usage`) of this answer and the one before it, if
///   both have them. Otherwise they are estimated, and everything that the previous request
///   contained counts as cached.
/// - Providers cache prefixes in steps of up to 128 tokens, so fewer tokens than that do not count
///   as a miss.
/// - Requests that need an erased message are compared by their reported usage only.
///
/// # Errors
/// When stored data is damaged, or the store fails.
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

/// Number of commits that are handed to the compiler's cache at a time, so that compiling reads
/// none of them again.
const CHUNK: usize = 512;

/// The conversations processed so far.
#[derive(Default)]
struct Conversations {
    answers: Answers,
    requests: Vec<ComparedRequest>,
    known: HashMap<CommitId, KnownCommit>,
}

/// The state at a commit that was already processed.
#[derive(Clone, Copy)]
struct KnownCommit {
    /// The conversation, and the last prompt at or before it.
    place: AnswerPlace,
    /// The last answer at or before it.
    answer: Option<usize>,
}

/// A request. Its index is the index of its answer.
struct ComparedRequest {
    branch: String,
    before: Option<usize>,
    /// `None` when one of the two cannot be compiled.
    comparison: Option<Comparison>,
}

impl Conversations {
    /// Processes the commits of a head that are not known yet.
    async fn follow(&mut self, repo: &Repo, branch: &str, head: CommitId) -> Result<()> {
        let (base, mut commits) = self.new_commits(repo, head).await?;
        let Some(first) = commits.last() else { return Ok(()) };
        let mut place = base.map_or(AnswerPlace::start(first.id()), |base| base.place);
        let mut before = base.and_then(|base| base.answer);
        let mut sent = match before.and_then(|before| self.answers.get(before)) {
            Some(answer) => compiled(repo, answer.request).await?.map(SentRequest::new),
            None => None,
        };
        // The changes of the other branch since its last answer are unknown, so compare in full.
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
                    let same = self.answers.same(place, &answer, before.filter(|_| is_adjacent));
                    match same {
                        Some(known) => self.answers.join(place, known, &answer),
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
                            before = Some(self.answers.push(place, answer));
                            changes = ChangesBetween::default();
                        }
                    }
                    is_adjacent = true;
                } else if let Some((answer, usage)) = before.zip(reported(&commit)) {
                    self.answers.report(answer, usage);
                }
                changes.add(&commit);
                place.pass(&commit);
                self.known.insert(commit.id(), KnownCommit { place, answer: before });
            }
        }
        Ok(())
    }

    /// Returns the commits of a head that are not known yet, newest first, and the known commit
    /// before them.
    async fn new_commits(
        &self,
        repo: &Repo,
        head: CommitId,
    ) -> Result<(Option<KnownCommit>, Vec<Commit>)> {
        let mut commits = Vec::new();
        let mut history = repo.history(head);
        while let Some(commit) = history.next_unless(|id| self.known.contains_key(&id)).await? {
            commits.push(commit);
        }
        let known = history.peek().and_then(|id| self.known.get(&id));
        Ok((known.copied(), commits))
    }

    fn requests(self) -> Vec<CacheUse> {
        let of = |place: usize| self.answers.get(place);
        // The cached tokens after each request. Later requests may read them without writing any.
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

/// Compiles the context of a request; `None` if it contains a message erased since.
async fn compiled(repo: &Repo, head: CommitId) -> Result<Option<Compiled>> {
    match repo.compile(Some(head)).await {
        Ok(compiled) => Ok(Some(compiled)),
        Err(Error::Erased(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
