//! Recognizes answers that grew since they were imported.
//!
//! Some tools write a whole document again while a model answers. The longer answer is another
//! commit, so the branch of the recording does not contain the commit of the shorter one. If
//! everything that the stored branch has more than the recording is the beginning of what the
//! recording has in its place, the recording is a later state of the same conversation.

use std::collections::{HashMap, HashSet};

use tract_core::{AuthorKind, Commit, CommitId, Content, Op, Part};
use tract_engine::{AnswerFacts, Repo, Result};

/// Maximum number of commits that are compared after the last common one. An answer that is still
/// being written has a few.
const MAX_COMMITS: usize = 1024;

/// The relation of a recording to the branch that has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// The recording has all of the branch, and more of an answer.
    Newer,
    /// The branch has all of the recording, and more of an answer.
    Older,
}

/// Compares a stored branch with a recording: `recorded` are its commits, newest first. `None` if
/// neither is the beginning of the other.
pub(super) async fn growth(
    repo: &Repo,
    stored: CommitId,
    recorded: &[CommitId],
) -> Result<Option<Growth>> {
    let known: HashSet<CommitId> = recorded.iter().copied().collect();
    let Some((stored, base)) = commits_after(repo, stored, &known).await? else { return Ok(None) };
    let is_import = |commit: &Commit| commit.record().origin.by == AuthorKind::Import;
    if stored.is_empty() || !stored.iter().all(is_import) {
        return Ok(None);
    }
    let after: Vec<CommitId> =
        recorded.iter().copied().take_while(|id| Some(*id) != base).collect();
    let first: Vec<CommitId> = after.into_iter().rev().take(MAX_COMMITS).collect();
    let first = repo.store().commits(repo.name(), &first).await?;
    let first: Vec<Commit> = first.into_iter().flatten().collect();
    let (Some(stored), Some(new)) =
        (Turns::read(repo, &stored).await?, Turns::read(repo, &first).await?)
    else {
        return Ok(None);
    };
    Ok(match (stored.grow_to(&new), new.grow_to(&stored)) {
        (true, true) if new.size < stored.size => Some(Growth::Older),
        (true, _) => Some(Growth::Newer),
        (false, true) => Some(Growth::Older),
        (false, false) => None,
    })
}

/// Returns the commits of a branch after the last one that is in the recording, oldest first, and the
/// id of that last one. `None` if there are too many.
async fn commits_after(
    repo: &Repo,
    head: CommitId,
    known: &HashSet<CommitId>,
) -> Result<Option<(Vec<Commit>, Option<CommitId>)>> {
    let mut history = repo.history(head);
    let mut after = Vec::new();
    while let Some(page) = history.next_page().await? {
        for commit in page {
            if known.contains(&commit.id()) {
                after.reverse();
                return Ok(Some((after, Some(commit.id()))));
            }
            after.push(commit);
        }
        if after.len() > MAX_COMMITS {
            return Ok(None);
        }
    }
    after.reverse();
    Ok(Some((after, None)))
}

/// The author of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnKind {
    System,
    User,
    /// The model, with the results of its calls.
    Answer,
    Summary,
    /// An entry of the log, such as what Aider printed.
    Note,
}

/// Consecutive messages of one author. The messages of an answer count as one: a tool may divide
/// an answer into messages only when it is complete.
#[derive(Debug)]
struct Turn {
    kind: TurnKind,
    /// The id of its first message in the recording. Another id is another message, even if the
    /// texts begin alike.
    id: Option<String>,
    text: String,
    reasoning: String,
    /// The id, name and arguments of each call.
    calls: Vec<(String, String, String)>,
    results: HashMap<String, String>,
    /// The other parts, as text.
    others: Vec<String>,
}

/// The turns of a history after some commit.
#[derive(Debug, Default)]
struct Turns {
    list: Vec<Turn>,
    /// A measure of all content, for two states that differ in little else than their tokens.
    size: u64,
}

impl Turns {
    /// Reads the turns of commits; `None` if one of them changes earlier messages or merges a branch.
    async fn read(repo: &Repo, commits: &[Commit]) -> Result<Option<Self>> {
        let mut turns = Self::default();
        for commit in commits {
            let is_summary = match &commit.record().op {
                Op::Append { .. } | Op::Note => false,
                Op::Compress { .. } => true,
                // These change no message; the recording has them as well.
                Op::Annotate { .. } | Op::Tools => continue,
                Op::Edit { .. } | Op::Revert { .. } | Op::Merge { .. } | Op::Unknown { .. } => {
                    return Ok(None);
                }
            };
            let Some(content) = repo.content(commit).await? else {
                if commit.record().op == Op::Note {
                    continue;
                }
                return Ok(None);
            };
            let usage = AnswerFacts::of(commit).usage.unwrap_or_default();
            turns.size += usage.output.unwrap_or_default() + usage.input.unwrap_or_default();
            let kind = match &content {
                _ if is_summary => TurnKind::Summary,
                Content::System(_) => TurnKind::System,
                Content::User(_) => TurnKind::User,
                Content::Assistant(_) | Content::ToolResult(_) | Content::Reasoning(_) => {
                    TurnKind::Answer
                }
                Content::Note(_) => TurnKind::Note,
                Content::Artifact(_) | Content::Custom { .. } => return Ok(None),
            };
            turns.add(kind, commit.record().origin.id.as_deref(), &content);
        }
        Ok(Some(turns))
    }

    fn add(&mut self, kind: TurnKind, id: Option<&str>, content: &Content) {
        let is_same = kind == TurnKind::Answer && self.list.last().is_some_and(|l| l.kind == kind);
        if !is_same {
            self.list.push(Turn::new(kind, id));
        }
        let Some(turn) = self.list.last_mut() else { return };
        if let Content::ToolResult(answer) = content {
            let text = comparable(&content.text());
            self.size += text.len() as u64;
            turn.results.entry(answer.call_id.clone()).or_default().push_str(&text);
        }
        if let Content::Note(json) = content {
            // The end of the last text and of its object.
            turn.text = comparable(json.as_str().trim_end_matches(['"', '}']));
            self.size += turn.text.len() as u64;
        }
        for part in content.parts() {
            match part {
                Part::Text { .. } if matches!(content, Content::ToolResult(_)) => {}
                Part::Text { text } => turn.text.push_str(&comparable(text)),
                Part::Reasoning { text, .. } => turn.reasoning.push_str(&comparable(text)),
                Part::ToolCall(call) => {
                    let arguments = comparable(&call.arguments);
                    turn.calls.push((call.id.clone(), call.name.clone(), arguments));
                }
                Part::Image { .. } | Part::Opaque { .. } => turn.others.push(format!("{part:?}")),
            }
            self.size += match part {
                Part::Text { text } | Part::Reasoning { text, .. } => text.len() as u64,
                Part::ToolCall(call) => call.arguments.len() as u64 + 1,
                Part::Image { .. } | Part::Opaque { .. } => 1,
            };
        }
    }

    /// Returns whether each turn is the beginning of the turn in the same place of a longer history.
    fn grow_to(&self, longer: &Self) -> bool {
        let mut pairs = self.list.iter().zip(&longer.list).enumerate();
        self.list.len() <= longer.list.len()
            && !self.list.is_empty()
            && pairs.all(|(n, (turn, longer))| turn.grows_to(longer, n + 1 == self.list.len()))
    }
}

impl Turn {
    fn new(kind: TurnKind, id: Option<&str>) -> Self {
        Self {
            kind,
            id: id.map(str::to_owned),
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            results: HashMap::new(),
            others: Vec::new(),
        }
    }

    /// Returns whether this is the beginning of another turn. `is_last` is whether nothing comes after
    /// this one.
    fn grows_to(&self, longer: &Self, is_last: bool) -> bool {
        let mut calls = longer.calls.iter();
        let has_result = |(id, text): (&String, &String)| {
            longer.results.get(id).is_some_and(|result| result.starts_with(text.as_str()))
        };
        let mut others = longer.others.iter();
        let is_other = self.id.is_some() && longer.id.is_some() && self.id != longer.id;
        let is_beginning = match self.kind {
            TurnKind::Answer | TurnKind::Note => longer.text.starts_with(&self.text),
            // A prompt that was answered was whole, so a longer one is another prompt.
            TurnKind::System | TurnKind::User | TurnKind::Summary => match is_last {
                true => longer.text.starts_with(&self.text),
                false => longer.text == self.text,
            },
        };
        self.kind == longer.kind
            && !is_other
            && is_beginning
            && longer.reasoning.starts_with(&self.reasoning)
            && self.calls.iter().all(|call| calls.any(|other| call_grows_to(call, other)))
            && self.results.iter().all(has_result)
            && self.others.iter().all(|part| others.any(|other| other == part))
    }
}

/// Returns whether a call is an earlier state of another one, whose arguments were not complete.
fn call_grows_to(
    (id, name, arguments): &(String, String, String),
    (other_id, other_name, longer): &(String, String, String),
) -> bool {
    let is_start = arguments == "{}" || longer.starts_with(arguments.as_str());
    id == other_id && name == other_name && is_start
}

/// Returns a text without the characters in which states of one answer differ: white space, which
/// some readers trim at the end of what they have, and the marks of code and the targets of links,
/// which VS Code resolves while an answer is written.
fn comparable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '`' | '[' => {}
            ']' if characters.peek() == Some(&'(') => {
                let _target = characters.by_ref().find(|character| *character == ')');
            }
            ']' => {}
            character if character.is_whitespace() => {}
            character => out.push(character),
        }
    }
    out
}
