//! Finds the first difference between a request and the previous one, and its cause.

use tract_compile::Compiled;
use tract_core::{ActiveTool, Commit, CommitId, Content, Message, Op};

use super::difference::{differing, is_clock};
use super::{CacheMiss, MissCause, RequestBlock};

/// The kinds of changes in the commits between two requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangesBetween {
    /// Whether all of them only append messages.
    pub(super) are_appends: bool,
    /// Whether one of them is a summary.
    pub(super) summarize: bool,
}

impl Default for ChangesBetween {
    fn default() -> Self {
        Self { are_appends: true, summarize: false }
    }
}

impl ChangesBetween {
    pub(super) fn add(&mut self, commit: &Commit) {
        let record = commit.record();
        self.are_appends &= match &record.op {
            Op::Append { slot: None, .. } => record.changes.is_empty(),
            Op::Note | Op::Tools => true,
            _ => false,
        };
        self.summarize |= matches!(record.op, Op::Compress { .. });
    }
}

/// The difference between a request and the previous one. Tokens are estimated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Tokens of the whole request.
    pub(super) prompt: u64,
    /// Tokens of the common prefix of both requests.
    pub(super) same: u64,
    /// Tokens of the previous request.
    pub(super) before: u64,
    /// The first difference; `None` when one request is a prefix of the other.
    pub(super) miss: Option<CacheMiss>,
    /// A system message that was added after other messages. Some providers move it to the
    /// beginning.
    pub(super) late_system: Option<RequestBlock>,
}

/// A request, with the data needed to compare the next one with it.
pub(super) struct SentRequest {
    compiled: Compiled,
    messages: Vec<SentMessage>,
    tool_tokens: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct SentMessage {
    slot: CommitId,
    version: CommitId,
    /// Total of all messages up to this one.
    tokens: u64,
}

impl SentRequest {
    pub(super) fn new(compiled: Compiled) -> Self {
        let mut sent = Self { compiled, messages: Vec::new(), tool_tokens: 0 };
        sent.add(0);
        sent.count_tools();
        sent
    }

    /// Returns the comparison for a request without a predecessor.
    pub(super) fn alone(&self) -> Comparison {
        Comparison { prompt: self.tokens(), same: 0, before: 0, miss: None, late_system: None }
    }

    fn tokens(&self) -> u64 {
        self.tool_tokens + self.message_tokens(self.messages.len())
    }

    /// Returns the total tokens of the first `count` messages.
    fn message_tokens(&self, count: usize) -> u64 {
        count.checked_sub(1).and_then(|last| self.messages.get(last)).map_or(0, |sent| sent.tokens)
    }

    /// Counts the tokens of the context other than its messages.
    fn count_tools(&mut self) {
        let all = self.compiled.token_count().count;
        let tools = if self.compiled.tools().is_empty() { 0 } else { all };
        self.tool_tokens = tools.saturating_sub(self.message_tokens(self.messages.len()));
    }

    /// Adds the messages of the context from index `from` on.
    fn add(&mut self, from: usize) {
        self.messages.truncate(from);
        let mut tokens = self.message_tokens(from);
        let new = self.compiled.message_count().saturating_sub(from);
        // From the end, so that the cost does not depend on the earlier messages.
        let mut added: Vec<_> = self.compiled.messages().rev().take(new).map(named).collect();
        for message in added.iter_mut().rev() {
            tokens += message.tokens;
            message.tokens = tokens;
        }
        self.messages.extend(added.into_iter().rev());
    }

    /// Compares this request with the following one, and replaces it with that.
    pub(super) fn follow(&mut self, next: Compiled, changes: &ChangesBetween) -> Comparison {
        let before = self.tokens();
        let known = self.messages.len();
        let same = match changes.are_appends && self.begins(&next) {
            true => known,
            false => self.common(&next),
        };
        let tools = ToolDifference::between(&self.compiled, &next);
        let differs = same < known && same < next.message_count();
        let message = differs.then(|| self.message_miss(&next, same, changes)).flatten();
        let late_system = match same == known && !differs {
            true => late_system(&next, known),
            false => None,
        };
        let same_tokens = match &tools {
            Some(tools) => {
                let share = tools.same_bytes as u128 * u128::from(self.tool_tokens);
                (share / tools.bytes.max(1) as u128).try_into().unwrap_or_default()
            }
            None => self.tool_tokens + self.message_tokens(same),
        };
        self.compiled = next;
        self.add(same);
        self.count_tools();
        let miss = match (tools, message) {
            // Each mode of an agent has its own instructions and its own tools.
            (Some(tools), Some(message)) if message.cause == MissCause::SystemPrompt => {
                Some(CacheMiss { cause: MissCause::ModeSwitch, ..tools.miss })
            }
            (Some(tools), _) => Some(tools.miss),
            (None, message) => message,
        };
        Comparison { prompt: self.tokens(), same: same_tokens, before, miss, late_system }
    }

    /// Returns whether the next context starts with all messages of this one. Only valid if the
    /// changes between them only append, so that comparing the last message is enough.
    fn begins(&self, next: &Compiled) -> bool {
        let Some(last) = self.messages.last() else { return true };
        let new = next.message_count().checked_sub(self.messages.len());
        let there = new.and_then(|new| next.messages().rev().nth(new));
        there.is_some_and(|there| last.is(there))
    }

    /// Returns the number of equal messages at the beginning of both contexts.
    fn common(&self, next: &Compiled) -> usize {
        let pairs = self.messages.iter().zip(next.messages());
        pairs.take_while(|(sent, message)| sent.is(message)).count()
    }

    fn message_miss(
        &self,
        next: &Compiled,
        place: usize,
        changes: &ChangesBetween,
    ) -> Option<CacheMiss> {
        let sent = self.messages.get(place)?;
        let before = self.compiled.message(sent.slot)?;
        let after = next.messages().nth(place)?;
        let block = |message: &Message| RequestBlock::Message {
            number: place + 1,
            commit: message.commit,
            kind: message.content.kind(),
        };
        let both_instruct = is_system(before) && is_system(after);
        if before.slot != after.slot && !both_instruct {
            let (cause, concerned) = match next.message(before.slot) {
                _ if changes.summarize => (MissCause::Compaction, after),
                None => (MissCause::Removal, before),
                Some(_) => (MissCause::Insertion, after),
            };
            let block = Some(block(concerned));
            return Some(CacheMiss { cause, block, before: None, after: None });
        }
        let (old, new) = (before.content.text(), after.content.text());
        let cause = match () {
            () if is_clock(&old, &new) => MissCause::Clock,
            () if both_instruct => MissCause::SystemPrompt,
            () => MissCause::Edit,
        };
        let (old, new) = differing(&old, &new);
        Some(CacheMiss { cause, block: Some(block(after)), before: Some(old), after: Some(new) })
    }
}

impl SentMessage {
    fn is(&self, message: &Message) -> bool {
        self.slot == message.slot && self.version == message.commit
    }
}

fn named(message: &Message) -> SentMessage {
    SentMessage { slot: message.slot, version: message.commit, tokens: message.token_count }
}

fn is_system(message: &Message) -> bool {
    matches!(message.content, Content::System(_)) || message.role.as_str() == "system"
}

/// Returns a system message among the new messages that follows other messages.
fn late_system(next: &Compiled, known: usize) -> Option<RequestBlock> {
    let count = next.message_count();
    let new = next.messages().rev().take(count.saturating_sub(known)).enumerate();
    let late = new.filter(|(_, message)| is_system(message)).last()?;
    let number = count - late.0;
    (number > 1 && known > 0).then(|| RequestBlock::Message {
        number,
        commit: late.1.commit,
        kind: late.1.content.kind(),
    })
}

/// The difference between two lists of tools.
struct ToolDifference {
    miss: CacheMiss,
    /// Size of the definitions before the first difference.
    same_bytes: usize,
    bytes: usize,
}

impl ToolDifference {
    fn between(before: &Compiled, after: &Compiled) -> Option<Self> {
        if before.toolset() == after.toolset() {
            return None;
        }
        let (old, new) = (before.tools(), after.tools());
        let same = old.iter().zip(new).take_while(|(old, new)| old.id == new.id).count();
        let (there, here) = (old.get(same), new.get(same));
        let has = |list: &[ActiveTool], name: &str| list.iter().any(|tool| tool.name == name);
        let (cause, name) = match (there, here) {
            (None, None) => return None,
            (Some(there), Some(here)) if there.name == here.name => {
                (MissCause::ToolSchema, &here.name)
            }
            (Some(there), _) if !has(new, &there.name) => (MissCause::ToolRemoved, &there.name),
            (_, Some(here)) if !has(old, &here.name) => (MissCause::ToolAdded, &here.name),
            (_, Some(tool)) | (Some(tool), None) => (MissCause::ToolOrder, &tool.name),
        };
        let (before, after) = match (cause, there, here) {
            (MissCause::ToolSchema, Some(there), Some(here)) => {
                let (old, new) = differing(&there.schema, &here.schema);
                (Some(old), Some(new))
            }
            (MissCause::ToolOrder, there, here) => {
                let name = |tool: Option<&ActiveTool>| tool.map(|tool| tool.name.clone());
                (name(there), name(here))
            }
            _ => (None, None),
        };
        let block = Some(RequestBlock::Tool { name: name.clone() });
        let bytes = |tools: &[ActiveTool]| tools.iter().map(|tool| tool.schema.len()).sum();
        Some(Self {
            miss: CacheMiss { cause, block, before, after },
            same_bytes: bytes(old.get(..same).unwrap_or_default()),
            bytes: bytes(old),
        })
    }
}
