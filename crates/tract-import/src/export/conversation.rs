//! Reads a conversation for export: as recorded, or as shown.

use std::collections::{HashMap, HashSet};

use tract_core::{
    AuthorKind, Body, Change, Commit, CommitId, CommitRef, Content, ImageSource, JsonText, Message,
    Op, Role, ToolAnswer,
};
use tract_engine::{AnswerFacts, Repo, Result};
use tract_providers::{
    Dialect, Form, FormOptions, Item, Pairing, SeparateMessage, compile_form, compile_separately,
};

use crate::error::damaged;

/// A message with the record of its commit.
#[derive(Clone, Debug)]
pub(super) struct ExportedMessage {
    /// Its commit; `None` for a placeholder of a missing result.
    pub(super) commit: Option<CommitId>,
    pub(super) content: Content,
    /// The members of a request in the dialect with only this message.
    members: Vec<(&'static str, String)>,
    pub(super) record: Recorded,
}

/// The facts that a commit records about its message.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    /// The tool's id of the line or message.
    pub(super) id: Option<String>,
    /// Microseconds since 1970, UTC.
    pub(super) at: Option<i64>,
    pub(super) facts: AnswerFacts,
}

/// An entry of a conversation.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Message(Box<ExportedMessage>),
    /// A summary that replaces all messages except these.
    Summary {
        kept: Vec<CommitId>,
        message: Box<ExportedMessage>,
    },
    /// A note in the log that no model saw.
    Note {
        commit: CommitId,
        message: String,
        content: JsonText,
        record: Box<Recorded>,
    },
}

/// A conversation to be exported.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) entries: Vec<Entry>,
    /// The tools in force in the format of Chat Completions: a list. Only read for conversations
    /// written as shown.
    pub(super) tools: Option<String>,
    /// Whether it is written as recorded.
    pub(super) as_recorded: bool,
}

impl ExportedMessage {
    /// Returns the text of a member of the request with only this message.
    pub(super) fn member(&self, key: &str) -> Option<&str> {
        self.members.iter().find(|(name, _)| *name == key).map(|(_, raw)| raw.as_str())
    }

    fn of(separate: &SeparateMessage<'_>, record: Recorded) -> Self {
        let member = |key: &'static str| Some((key, separate.get(key)?.to_owned()));
        let members = ["messages", "input"].into_iter().filter_map(member).collect();
        let (commit, content) = match &separate.item {
            Item::Message(message) => (Some(message.commit), spoken(message)),
            Item::StandIn(answer) => {
                let body = Body::text(answer.text());
                let content = Content::ToolResult(ToolAnswer {
                    call_id: answer.call_id.clone(),
                    name: Some(answer.name.clone()),
                    is_error: answer.is_error(),
                    parts: body.parts,
                });
                (None, content)
            }
        };
        Self { commit, content, members, record }
    }
}

/// Returns the content of a message as one of a system, user, model or tool message: the formats of
/// other tools only know these.
fn spoken(message: &Message) -> Content {
    let body = match &message.content {
        Content::Artifact(artifact) => Body::text(&artifact.text),
        Content::Custom { body, .. } => body.clone(),
        content => return content.clone(),
    };
    match &message.role {
        Role::System | Role::Developer => Content::System(body),
        Role::Assistant => Content::Assistant(body),
        Role::User | Role::Tool | Role::Other(_) => Content::User(body),
    }
}

impl Recorded {
    fn of(commit: &Commit) -> Self {
        let record = commit.record();
        let (id, at) = (record.origin.id.clone(), record.created_at);
        Self { id, at, facts: AnswerFacts::of(commit) }
    }
}

impl Conversation {
    /// Reads a conversation as recorded if all its commits are those of a tool's import, and as
    /// shown otherwise.
    pub(super) async fn read(
        repo: &Repo,
        head: CommitId,
        dialect: Dialect,
        is_own: fn(&Commit) -> bool,
    ) -> Result<Self> {
        let Some(commits) = own_commits(repo, head, is_own).await? else {
            return Self::shown(repo, head, dialect).await;
        };
        let mut entries = Vec::with_capacity(commits.len());
        let mut messages = HashMap::new();
        // The messages that a summary hides are shown at the commit before it.
        let is_summary = |commit: &Commit| matches!(commit.record().op, Op::Compress { .. });
        let before_summaries =
            commits.iter().filter(|c| is_summary(c)).filter_map(|commit| commit.parent());
        for end in before_summaries.chain([head]) {
            let compiled = repo.compile(Some(end)).await?;
            let separate =
                compile_separately(&compiled, dialect, Pairing::Keep).map_err(damaged)?;
            for message in separate.messages {
                let Item::Message(shown) = &message.item else { continue };
                let message = ExportedMessage::of(&message, Recorded::default());
                messages.entry(shown.commit).or_insert(message);
            }
        }
        let mut shown: Vec<CommitId> = Vec::new();
        for commit in commits {
            let (id, record) = (commit.id(), Recorded::of(&commit));
            if matches!(commit.record().op, Op::Note) {
                let Some(Content::Note(content)) = repo.content(&commit).await? else { continue };
                let message = commit.record().message.clone().unwrap_or_default();
                let record = Box::new(record);
                entries.push(Entry::Note { commit: id, message, content, record });
                continue;
            }
            let Some(message) = messages.remove(&id) else { continue };
            let message = Box::new(ExportedMessage { record, ..message });
            if is_summary(&commit) {
                let mut hidden = HashSet::new();
                for change in repo.changes(&commit).await? {
                    if let Change::Remove { slot: CommitRef::Id(slot), .. } = change {
                        hidden.insert(slot);
                    }
                }
                shown.retain(|slot| !hidden.contains(slot));
                entries.push(Entry::Summary { kept: shown.clone(), message });
            } else {
                entries.push(Entry::Message(message));
            }
            shown.push(id);
        }
        Ok(Self { entries, tools: None, as_recorded: true })
    }

    /// Reads the messages that a model would see, with calls and results paired as the dialect
    /// requires.
    pub(super) async fn shown(repo: &Repo, head: CommitId, dialect: Dialect) -> Result<Self> {
        let compiled = repo.compile(Some(head)).await?;
        let separate = compile_separately(&compiled, dialect, Pairing::Repair).map_err(damaged)?;
        let commit = |message: &SeparateMessage<'_>| match &message.item {
            Item::Message(shown) => Some(shown.commit),
            Item::StandIn(_) => None,
        };
        let ids: Vec<CommitId> = separate.messages.iter().filter_map(commit).collect();
        let mut commits = repo.store().commits(repo.name(), &ids).await?.into_iter().flatten();
        let mut entries = Vec::with_capacity(separate.messages.len());
        for message in &separate.messages {
            // The context compiled, so its commits are stored.
            let own = commit(message).and_then(|_| commits.next());
            let record = own.as_ref().map(Recorded::of).unwrap_or_default();
            entries.push(Entry::Message(Box::new(ExportedMessage::of(message, record))));
        }
        let options = FormOptions { pairing: Some(Pairing::Keep), ..FormOptions::default() };
        let request = compile_form(&compiled, Form::Params(Dialect::OpenAi), &options);
        let tools = request.map_err(damaged)?.get("tools").map(str::to_owned);
        Ok(Self { entries, tools, as_recorded: false })
    }
}

/// Returns the commits of a history, oldest first; `None` if one was not written by the import.
async fn own_commits(
    repo: &Repo,
    head: CommitId,
    is_own: fn(&Commit) -> bool,
) -> Result<Option<Vec<Commit>>> {
    let mut commits = Vec::new();
    let mut history = repo.history(head);
    while let Some(commit) = history.next().await? {
        if !is_own(&commit) {
            return Ok(None);
        }
        commits.push(commit);
    }
    commits.reverse();
    Ok(Some(commits))
}

/// Returns whether a commit is one of an import, and not a merge.
pub(super) fn is_imported(commit: &Commit) -> bool {
    let record = commit.record();
    record.origin.by == AuthorKind::Import && record.parents.len() <= 1
}

/// Returns the url of an image; `None` if only its provider has it.
pub(super) fn picture_url(media_type: &str, source: &ImageSource) -> Option<String> {
    match source {
        ImageSource::Base64(data) => Some(format!("data:{media_type};base64,{data}")),
        ImageSource::Url(url) => Some(url.clone()),
        ImageSource::File(_) => None,
    }
}
